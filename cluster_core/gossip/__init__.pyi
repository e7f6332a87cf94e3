from cluster_core.gossip.node import ClusterNode as ClusterNode
from cluster_core.gossip.profile import PROFILES as PROFILES
from cluster_core.gossip.profile import Profile as Profile

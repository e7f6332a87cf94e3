from cluster_core.gossip.node import ClusterNode as ClusterNode
from cluster_core.node.machine import Node as Node
from cluster_core.node.state import NodeSettings as NodeSettings

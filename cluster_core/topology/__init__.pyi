from cluster_core.topology.node import Node as Node
from cluster_core.topology.node import Topology as Topology
from cluster_core.topology.nodes_text import read_nodes as read_nodes
from cluster_core.topology.nodes_text import write_nodes as write_nodes
from cluster_core.topology.replies import read_topology as read_topology

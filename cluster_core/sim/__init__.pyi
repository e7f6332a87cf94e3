from cluster_core.sim.faults import Faults as Faults
from cluster_core.sim.layouts import Layout as Layout
from cluster_core.sim.network import Network as Network
from cluster_core.sim.world import World as World

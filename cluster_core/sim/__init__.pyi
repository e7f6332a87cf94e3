from cluster_core.sim.layouts import Layout as Layout
from cluster_core.sim.network import Network as Network
from cluster_core.sim.stage import Faults as Faults
from cluster_core.sim.world import World as World

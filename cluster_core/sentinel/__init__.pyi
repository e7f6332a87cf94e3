from cluster_core.sentinel.machine import Sentinel as Sentinel
from cluster_core.sentinel.state import SentinelSettings as SentinelSettings

from cluster_core.sentinel.machine import Sentinel as Sentinel
from cluster_core.sentinel.settings import SentinelSettings as SentinelSettings

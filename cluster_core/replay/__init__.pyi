from cluster_core.replay.dispatch import Dispatcher as Dispatcher
from cluster_core.replay.observer import ObserverReplay as ObserverReplay

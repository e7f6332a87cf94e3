from cluster_core.memory.model import MemoryModel as MemoryModel
from cluster_core.memory.model import MemorySettings as MemorySettings
from cluster_core.memory.model import model_of as model_of

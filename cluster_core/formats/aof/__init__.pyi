from cluster_core.formats.aof.framing import Command as Command
from cluster_core.formats.aof.framing import CommandReader as CommandReader
from cluster_core.formats.aof.manifest import Manifest as Manifest
from cluster_core.formats.aof.manifest import read_manifest as read_manifest
from cluster_core.kernels.aof.walker import AofWalker as AofWalker

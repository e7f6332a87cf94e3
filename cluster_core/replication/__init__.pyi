from cluster_core.replication.psync import Answer as Answer
from cluster_core.replication.psync import MasterView as MasterView
from cluster_core.replication.psync import Request as Request
from cluster_core.replication.psync import decide_psync as decide_psync

from cluster_core.replication.psync import Lineage as Lineage
from cluster_core.replication.psync import may_continue as may_continue

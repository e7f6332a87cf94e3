from cluster_core.rdb.export import ValueWriter as ValueWriter
from cluster_core.rdb.skim import RdbSkimmer as RdbSkimmer
from cluster_core.rdb.writer import RdbWriter as RdbWriter
from cluster_core.rdb.writer import Target as Target

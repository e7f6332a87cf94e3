from cluster_core.rdb.skim import RdbSkimmer as RdbSkimmer
from cluster_core.rdb.values import Field as Field
from cluster_core.rdb.values import Record as Record
from cluster_core.rdb.values import decode_record as decode_record
from cluster_core.rdb.writer import RdbWriter as RdbWriter
from cluster_core.rdb.writer import Target as Target

from cluster_core.formats.rdb.elements import Field as Field
from cluster_core.formats.rdb.elements import Record as Record
from cluster_core.formats.rdb.elements import decode_record as decode_record
from cluster_core.formats.rdb.target import target_of as target_of
from cluster_core.formats.rdb.writer import RdbWriter as RdbWriter
from cluster_core.kernels.rdb.skim import RdbSkimmer as RdbSkimmer

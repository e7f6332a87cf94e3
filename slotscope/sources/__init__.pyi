from slotscope.sources.aof.data_source import AofDataSource as AofDataSource
from slotscope.sources.bus.data_source import ClusterBusDataSource as ClusterBusDataSource
from slotscope.sources.rdb.data_source import RdbDataSource as RdbDataSource

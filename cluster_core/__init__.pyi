from cluster_core.errors import ClusterCoreError as ClusterCoreError
from cluster_core.errors import DecodeError as DecodeError
from cluster_core.errors import EncodeError as EncodeError
from cluster_core.errors import PlanError as PlanError
from cluster_core.errors import ProtocolError as ProtocolError
from cluster_core.errors import TruncatedError as TruncatedError
from cluster_core.slots.key_slot import key_slot as key_slot

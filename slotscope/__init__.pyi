from cluster_core.kernels.key_slots import key_slots as key_slots
from cluster_core.slots.key_slot import key_slot as key_slot
from slotscope.registration import register as register
from slotscope.sql.duck import connect as connect

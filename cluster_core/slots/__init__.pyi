from cluster_core.slots.node_flags import NodeFlags as NodeFlags
from cluster_core.slots.slot_set import SlotMap as SlotMap
from cluster_core.slots.slot_set import SlotSet as SlotSet

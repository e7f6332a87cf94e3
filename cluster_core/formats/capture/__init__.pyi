from cluster_core.formats.capture.bus_capture import BusCapture as BusCapture
from cluster_core.formats.capture.bus_capture import read_bus as read_bus
from cluster_core.formats.capture.pcap import CaptureReader as CaptureReader

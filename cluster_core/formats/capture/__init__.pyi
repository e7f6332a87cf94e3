from cluster_core.formats.capture.bus_capture import BusCapture as BusCapture
from cluster_core.formats.capture.bus_capture import read_bus as read_bus
from cluster_core.formats.capture.pcap import CaptureReader as CaptureReader
from cluster_core.formats.capture.resp_capture import RespCapture as RespCapture
from cluster_core.formats.capture.resp_capture import read_resp as read_resp

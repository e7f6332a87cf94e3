from cluster_core.formats.capture.pcap import CaptureReader as CaptureReader

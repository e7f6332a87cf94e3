from cluster_core.wire.bus import decode_message as decode_message
from cluster_core.wire.bus import encode_message as encode_message
from cluster_core.wire.bus_framing import BusFramer as BusFramer
from cluster_core.wire.bus_message import Message as Message
from cluster_core.wire.bus_message import MessageType as MessageType
from cluster_core.wire.tcp_stream import TcpStream as TcpStream

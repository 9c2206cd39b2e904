"""HTTP/2 without a library: frames and field blocks that a test writes byte by byte, and what comes back."""

import collections
import itertools
import ssl
import struct

import hpack
from h2.errors import ErrorCodes
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITIZED = 0x20
#: Of HEADERS that are a whole message.
WHOLE = END_STREAM | END_HEADERS

Frame = collections.namedtuple("Frame", "kind flags stream payload")


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers(fields, stream=1, flags=WHOLE):
    return frame(HEADERS, flags, stream, fields)


def continuation(fields, stream=1, flags=END_HEADERS):
    return frame(CONTINUATION, flags, stream, fields)


def data(payload=b"test", stream=1, flags=END_STREAM):
    return frame(DATA, flags, stream, payload)


def priority(stream=1, parent=0, weight=15):
    return frame(PRIORITY, 0, stream, struct.pack(">IB", parent, weight))


def reset(stream=1, code=ErrorCodes.CANCEL):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def settings(*pairs):
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", key, value) for key, value in pairs))


def window_update(increment, stream=0):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


def goaway(code=ErrorCodes.NO_ERROR, last=0, stream=0):
    return frame(GOAWAY, 0, stream, struct.pack(">II", last, code))


# Field blocks (RFC 7541)


def integer(value, bits, pattern=0):
    most = (1 << bits) - 1
    if value < most:
        return bytes([pattern | value])
    encoded, value = bytearray([pattern | most]), value - most
    while value >= 128:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def string(text, huffman=False):
    plain = text.encode("latin-1")
    if not huffman:
        return integer(len(plain), 7) + plain
    coded = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH).encode(plain)
    return integer(len(coded), 7, 0x80) + coded


def literal(name, value, first=0, huffman=False):
    """A field whose name is spelled out."""
    return bytes([first]) + string(name, huffman) + string(value, huffman)


def fields(*pairs):
    return b"".join(literal(name, value) for name, value in pairs)


class Peer:
    """One side of a connection. It keeps all frames that have come."""

    def __init__(self, connection, seconds=10):
        connection.settimeout(seconds)
        self.connection = connection
        self.received = b""
        self.frames = []
        self.decoder = hpack.Decoder()
        #: By stream: the fields of each block, and all content.
        self.blocks = collections.defaultdict(list)
        self.content = collections.defaultdict(bytes)
        self.ended_streams = set()
        self.ended = None
        self.numbers = itertools.count(1)

    def close(self):
        self.connection.close()

    def send(self, sent):
        try:
            self.connection.sendall(sent)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.ended = self.ended or "reset"

    def more(self):
        """Whether there is more to read; reads it."""
        try:
            part = self.connection.recv(65_536)
        except (ConnectionResetError, ssl.SSLError):
            self.ended = "reset"
            return False
        self.received += part
        if not part:
            self.ended = self.ended or "end"
        return bool(part)

    def exactly(self, count):
        while len(self.received) < count:
            if not self.more():
                return None
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def next(self):
        """The next frame, or None at the end."""
        head = self.exactly(9)
        payload = None if head is None else self.exactly(int.from_bytes(head[:3], "big"))
        if payload is None:
            return None
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        found = Frame(kind, flags, stream, payload)
        self.frames.append(found)
        if kind == HEADERS:
            assert flags & END_HEADERS and not flags & (PADDED | PRIORITIZED), "a head of one frame"
            self.blocks[stream].append(self.decoder.decode(payload))
        if kind == DATA:
            self.content[stream] += payload
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            self.ended_streams.add(stream)
        return found

    def until(self, holds):
        while not holds():
            assert self.next(), f"the connection has ended: {self.ended}, {self.frames}"

    def of_kind(self, kind):
        return [found for found in self.frames if found.kind == kind]

    def answers_ping(self):
        """Whether the other side has dealt with all that was sent so far, and goes on."""
        mark = struct.pack(">Q", next(self.numbers))
        self.send(frame(PING, 0, 0, mark))
        while found := self.next():
            if (found.kind, found.flags, found.payload) == (PING, ACK, mark):
                return True
        return False

    def outcome(self):
        """What the other side has made of all that was sent."""
        if not self.answers_ping():
            told = [f"GOAWAY {name_of(found.payload[4:8])}" for found in self.of_kind(GOAWAY)]
            return told[-1] if told else f"closed: {self.ended}"
        resets = [f"RST_STREAM {found.stream} {name_of(found.payload)}" for found in self.of_kind(RST_STREAM)]
        return ", ".join(resets) or "open"


def name_of(code):
    return ErrorCodes(int.from_bytes(code, "big")).name

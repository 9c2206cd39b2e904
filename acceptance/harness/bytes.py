"""Content that shows what was lost, and its framings."""

import random

from . import wire

CHUNKED = "Transfer-Encoding: chunked"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
#: An answer after which a token is renewed and the request is sent again.
REJECTED = b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer error="invalid_token"\r\nContent-Length: 0\r\n\r\n'
#: How a connection ends that was cut, for a client that waited for more.
NOT_AN_END = ("cut", "reset")


def noise(count, number=0):
    """Bytes that do not compress, the same in each run; another number makes other ones."""
    return random.Random(number).randbytes(count)


def pattern(size):
    """Bytes of which none can be lost or moved unseen."""
    return b"".join(b"%07d\n" % number for number in range(size // 8))


def chunked(content, size=60_000):
    return wire.chunked(wire.chunk(content[at : at + size]) for at in range(0, len(content), size))


def framed(content, framing):
    """The rest of a head, with the field of that framing, and the body."""
    if framing == "length":
        return b"Content-Length: %d\r\n\r\n" % len(content) + content
    return b"Transfer-Encoding: chunked\r\n\r\n" + chunked(content)


def content_of(reader):
    """Chunked content, which has to be whole and without trailers."""
    content, trailers = reader.chunks()
    assert trailers == b"", trailers
    return content


def body_of(reader, head):
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return reader.exactly(int(line[15:]))
    assert b"\r\ntransfer-encoding: chunked\r\n" in head.lower()
    return content_of(reader)

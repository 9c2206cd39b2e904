"""The cases of h2spec against clients' connections and, with the roles exchanged, against connections to upstreams.

h2spec was written for RFC 7540. Where RFC 9113 says something else, the case expects that. Each case has the number that h2spec gives it,
what is sent, and what it leads to: the connection stays open, a stream is reset, or the connection ends with a code.
"""

import contextlib
import socket
import ssl
import struct
import threading

import pytest
import requests
from harness import processes
from harness.configs import BEARER, plain_config
from harness.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITIZED,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Peer,
    continuation,
    data,
    fields,
    frame,
    goaway,
    headers,
    integer,
    literal,
    priority,
    reset,
    settings,
    string,
    window_update,
)
from harness.origin import RecordingOrigin

BODY = b"hello from the origin\n"
OPEN = "open"
#: A stream that no case uses.
LAST = 9_999

METHOD, SCHEME, PATH, AUTHORITY = (":method", "GET"), (":scheme", "http"), (":path", "/api/x"), (":authority", "localhost")
GET = fields(METHOD, SCHEME, PATH, AUTHORITY)
POST = fields((":method", "POST"), SCHEME, PATH, AUTHORITY)
HEAD = fields((":method", "HEAD"), SCHEME, PATH, AUTHORITY)
#: Content follows.
UPLOAD = headers(POST, flags=END_HEADERS)
#: Nothing of a response's content leaves.
HOLD = settings((4, 0))
LONG = b"x" * 16_385


# Steps that wait


def served(stream=1, content=BODY):
    """The response is whole."""

    def step(peer):
        peer.until(lambda: stream in peer.ended_streams)
        assert (dict(peer.blocks[stream][-1])[":status"], peer.content[stream]) == ("200", content)

    return step


def gets(*sizes, stream=1):
    """DATA of these sizes has come, and no more comes."""

    def step(peer):
        peer.until(lambda: len(peer.content[stream]) >= sum(sizes))
        assert peer.answers_ping() and [len(found.payload) for found in peer.of_kind(DATA)] == list(sizes)

    return step


def acknowledged(count):
    """So many SETTINGS were acknowledged, that of the connection's begin among them."""

    def step(peer):
        assert peer.answers_ping() and len([found for found in peer.of_kind(SETTINGS) if found.flags == ACK]) == count

    return step


def not_answered(mark):
    def step(peer):
        assert peer.answers_ping() and mark not in [found.payload for found in peer.of_kind(PING)]

    return step


def without(name):
    return fields(*(pair for pair in (METHOD, SCHEME, PATH, AUTHORITY) if pair[0] != name))


def more(*pairs):
    return headers(GET + fields(*pairs))


def padded(kind, length, payload, flags=0, stream=1):
    return frame(kind, PADDED | flags, stream, bytes([length]) + payload)


def in_parts(*between, stream=1):
    """A head whose block is not whole, something that must not come, and the rest."""
    return [headers(GET[:10], stream, END_STREAM), *between, continuation(GET[10:], stream)]


def table(size):
    return integer(size, 5, 0x20)


def coded(value):
    """A field whose value is in Huffman's code, which these bytes are."""
    return headers(GET + b"\x00" + string("x") + bytes([0x80 | len(value)]) + value)


#: A literal field in each form of HPACK: bits in front, and the index of `accept` (19) with as many bits as the form has.
FORMS = {"incremental": (0x40, 6), "without": (0x00, 4), "never": (0x10, 4)}
LITERALS = {}
for number, (form, (pattern, bits)) in enumerate(FORMS.items()):
    for offset, huffman in enumerate((False, True)):
        indexed = integer(19, bits, pattern) + string("text/plain", huffman)
        LITERALS[f"generic/5/{2 + 4 * number + offset} {form}, indexed name"] = (OPEN, headers(GET + indexed), served())
        new = literal("x-new", "text/plain", pattern, huffman)
        LITERALS[f"generic/5/{4 + 4 * number + offset} {form}, new name"] = (OPEN, headers(GET + new), served())

PROTOCOL, CLOSED, SIZE = "GOAWAY PROTOCOL_ERROR", "GOAWAY STREAM_CLOSED", "GOAWAY FRAME_SIZE_ERROR"
FLOW, COMPRESSION, DONE = "GOAWAY FLOW_CONTROL_ERROR", "GOAWAY COMPRESSION_ERROR", "GOAWAY NO_ERROR"
MALFORMED = "RST_STREAM 1 PROTOCOL_ERROR"

CASES = {
    "generic/1/1 preface": (OPEN,),
    "generic/2/1 PRIORITY on an idle stream": (OPEN, priority(), headers(GET), served()),
    "generic/2/2 WINDOW_UPDATE on a half-closed stream": (OPEN, HOLD, headers(GET), window_update(100, 1), served()),
    "generic/2/3 PRIORITY on a half-closed stream": (OPEN, headers(GET), priority(), served()),
    "generic/2/4 RST_STREAM on a half-closed stream": (OPEN, HOLD, headers(GET), reset()),
    "generic/2/5 PRIORITY on a closed stream": (OPEN, headers(GET), served(), priority()),
    "generic/3.1/1 DATA": (OPEN, UPLOAD, data(), served()),
    "generic/3.1/2 several DATA": (OPEN, UPLOAD, data(flags=0), data(), served()),
    "generic/3.1/3 padded DATA": (OPEN, UPLOAD, padded(DATA, 8, b"test" + bytes(8), END_STREAM), served()),
    "generic/3.2/1 HEADERS": (OPEN, headers(GET), served()),
    "generic/3.2/2 padded HEADERS": (OPEN, padded(HEADERS, 8, GET + bytes(8), END_STREAM | END_HEADERS), served()),
    "generic/3.2/3 HEADERS with priority": (OPEN, headers(bytes(4) + b"\xff" + GET, flags=PRIORITIZED | 5), served()),
    "generic/3.3/1 PRIORITY with weight 1": (OPEN, priority(weight=0), headers(GET), served()),
    "generic/3.3/2 PRIORITY with weight 256": (OPEN, priority(weight=255), headers(GET), served()),
    "generic/3.3/3 PRIORITY with a parent": (OPEN, priority(parent=3), headers(GET), served()),
    "generic/3.3/4 PRIORITY, exclusive": (OPEN, priority(parent=1 << 31), headers(GET), served()),
    "generic/3.3/5 PRIORITY on a higher idle stream": (OPEN, priority(stream=5), headers(GET), served()),
    "generic/3.4/1 RST_STREAM": (OPEN, UPLOAD, reset()),
    "generic/3.5/1 SETTINGS": (OPEN, settings((3, 100)), acknowledged(2)),
    "generic/3.7/1 PING": (OPEN, frame(PING, 0, 0, b"12345678")),
    # The client is done; what it has asked for is served.
    "generic/3.8/1 GOAWAY": (DONE, goaway()),
    "generic/3.8/1 GOAWAY behind a request": (DONE, headers(GET), goaway(), served()),
    "generic/3.9/1 WINDOW_UPDATE of the connection": (OPEN, window_update(1)),
    "generic/3.9/2 WINDOW_UPDATE of a stream": (OPEN, headers(GET), window_update(1, 1), served()),
    "generic/3.10/1 CONTINUATION": (OPEN, *in_parts(), served()),
    "generic/3.10/2 several CONTINUATION": (OPEN, *in_parts(continuation(b"", flags=0), continuation(b"", flags=0)), served()),
    "generic/4/1 GET": (OPEN, headers(GET), served()),
    "generic/4/2 HEAD": (OPEN, headers(HEAD), served(content=b"")),
    "generic/4/3 POST": (OPEN, UPLOAD, data(), served()),
    "generic/4/4 POST with trailers": (OPEN, UPLOAD, data(flags=0), headers(fields(("x-sum", "1"))), served()),
    "generic/5/1 indexed field": (OPEN, headers(b"\x82\x86" + fields(PATH, AUTHORITY)), served()),
    **LITERALS,
    "generic/5/14 table size": (OPEN, headers(table(128) + GET), served()),
    "generic/5/15 two table sizes": (OPEN, headers(table(128) + table(4096) + GET), served()),
    "3.5/1 preface": (OPEN, headers(GET), served()),
    "4.1/1 unknown type": (OPEN, frame(0xFF, 0, 0, b"12345678"), headers(GET), frame(0x42, 0xFF, 1, b"1"), served()),
    "4.1/2 undefined flag": (OPEN, frame(PING, 0xFE, 0, b"12345678")),
    "4.1/3 reserved bit": (OPEN, frame(PING, 0, 1 << 31, b"12345678")),
    "4.2/1 DATA of 2^14 bytes": (OPEN, UPLOAD, data(LONG[1:]), served()),
    "4.2/2 DATA that is too long": (SIZE, UPLOAD, data(LONG)),
    "4.2/3 HEADERS that are too long": (SIZE, headers(GET + LONG)),
    "4.3/1 invalid block": (COMPRESSION, headers(b"\x40")),
    "4.3/2 PRIORITY within a block": (PROTOCOL, *in_parts(priority())),
    "4.3/3 HEADERS of another stream within a block": (PROTOCOL, *in_parts(headers(GET, 3))),
    "5.1/1 idle: DATA": (PROTOCOL, data()),
    "5.1/2 idle: RST_STREAM": (PROTOCOL, reset()),
    "5.1/3 idle: WINDOW_UPDATE": (PROTOCOL, window_update(100, 1)),
    "5.1/4 idle: CONTINUATION": (PROTOCOL, continuation(GET)),
    "5.1/5 half-closed: DATA": ("RST_STREAM 1 STREAM_CLOSED", HOLD, headers(GET) + data()),
    "5.1/6 half-closed: HEADERS": ("RST_STREAM 1 STREAM_CLOSED", HOLD, headers(GET) + headers(GET)),
    "5.1/7 half-closed: CONTINUATION": (PROTOCOL, HOLD, headers(GET) + continuation(GET)),
    # RFC 9113 lets the connection end, where RFC 7540 had the stream end.
    "5.1/8 reset by the client: DATA": (CLOSED, UPLOAD, reset(), data()),
    "5.1/9 reset by the client: HEADERS": (CLOSED, UPLOAD, reset(), headers(GET)),
    "5.1/10 reset by the client: CONTINUATION": (PROTOCOL, UPLOAD, reset(), continuation(GET)),
    "5.1/11 closed: DATA": (CLOSED, headers(GET), served(), data()),
    "5.1/12 closed: HEADERS": (CLOSED, headers(GET), served(), headers(GET)),
    "5.1/13 closed: CONTINUATION": (PROTOCOL, headers(GET), served(), continuation(GET)),
    "5.1.1/1 even stream": (PROTOCOL, headers(GET, 2)),
    "5.1.1/2 stream below the last": (PROTOCOL, headers(GET, 5), served(5), headers(GET, 3)),
    # RFC 9113 has no dependencies any more.
    "5.3.1/1 HEADERS that depend on themselves": (OPEN, headers(b"\0\0\0\1\xff" + GET, flags=PRIORITIZED | 5), served()),
    "5.3.1/2 PRIORITY that depends on itself": (OPEN, priority(parent=1), headers(GET), served()),
    "5.4.1/1 connection that ends by a wrong PING": (PROTOCOL, frame(PING, 0, 3, bytes(8))),
    "5.4.1/2 GOAWAY by a wrong PING": (PROTOCOL, frame(PING, 0, 3, bytes(8))),
    "5.5/1 unknown frame": (OPEN, frame(0x16, 0, 0, bytes(8))),
    "5.5/2 unknown frame within a block": (PROTOCOL, *in_parts(frame(0x16, 0, 0, bytes(8)))),
    "6.1/1 DATA on stream 0": (PROTOCOL, data(stream=0)),
    "6.1/2 DATA on a stream that is not open": ("RST_STREAM 1 STREAM_CLOSED", HOLD, headers(GET) + data()),
    "6.1/3 DATA that is shorter than its padding": (PROTOCOL, UPLOAD, padded(DATA, 6, b"test", END_STREAM)),
    "6.2/1 PRIORITY behind HEADERS that are not whole": (PROTOCOL, *in_parts(priority())),
    "6.2/2 HEADERS behind others that are not whole": (PROTOCOL, *in_parts(headers(GET, 3))),
    "6.2/3 HEADERS on stream 0": (PROTOCOL, headers(GET, 0)),
    "6.2/4 HEADERS that are shorter than their padding": (PROTOCOL, padded(HEADERS, 255, GET, END_STREAM | END_HEADERS)),
    "6.3/1 PRIORITY on stream 0": (PROTOCOL, priority(stream=0)),
    "6.3/2 PRIORITY of 4 bytes": ("RST_STREAM 1 FRAME_SIZE_ERROR", UPLOAD, frame(PRIORITY, 0, 1, bytes(4))),
    "6.4/1 RST_STREAM on stream 0": (PROTOCOL, reset(0)),
    "6.4/2 RST_STREAM on an idle stream": (PROTOCOL, reset()),
    "6.4/3 RST_STREAM of 3 bytes": (SIZE, UPLOAD, frame(RST_STREAM, 0, 1, bytes(3))),
    "6.5/1 acknowledgement of SETTINGS with a payload": (SIZE, frame(SETTINGS, ACK, 0, b"\0")),
    "6.5/2 SETTINGS on a stream": (PROTOCOL, frame(SETTINGS, 0, 1, struct.pack(">HI", 3, 100))),
    "6.5/3 SETTINGS of 3 bytes": (SIZE, frame(SETTINGS, 0, 0, bytes(3))),
    "6.5.2/1 ENABLE_PUSH of 2": (PROTOCOL, settings((2, 2))),
    "6.5.2/2 INITIAL_WINDOW_SIZE of 2^31": (FLOW, settings((4, 1 << 31))),
    "6.5.2/3 MAX_FRAME_SIZE of 2^14 - 1": (PROTOCOL, settings((5, 16_383))),
    "6.5.2/4 MAX_FRAME_SIZE of 2^24": (PROTOCOL, settings((5, 1 << 24))),
    "6.5.2/5 unknown setting": (OPEN, settings((0xFF, 1)), acknowledged(2)),
    "6.5.3/1 the last of two values counts": (OPEN, settings((4, 100), (4, 1)), headers(GET), gets(1)),
    "6.5.3/2 SETTINGS are acknowledged": (OPEN, settings(), acknowledged(2)),
    # That a PING is answered is what each case ends with.
    "6.7/1 PING": (OPEN, frame(PING, 0, 0, b"12345678")),
    "6.7/2 acknowledgement of a PING": (OPEN, frame(PING, ACK, 0, b"unasked.") + frame(PING, 0, 0, b"asked..."), not_answered(b"unasked.")),
    "6.7/3 PING on a stream": (PROTOCOL, frame(PING, 0, 1, bytes(8))),
    "6.7/4 PING of 6 bytes": (SIZE, frame(PING, 0, 0, bytes(6))),
    "6.8/1 GOAWAY on a stream": (PROTOCOL, goaway(stream=1)),
    "6.9/1 WINDOW_UPDATE by 0": (PROTOCOL, window_update(0)),
    "6.9/2 WINDOW_UPDATE by 0 on a stream": (MALFORMED, UPLOAD, window_update(0, 1)),
    "6.9/3 WINDOW_UPDATE of 3 bytes": (SIZE, frame(WINDOW_UPDATE, 0, 0, bytes(3))),
    "6.9.1/1 window of 1 byte": (OPEN, settings((4, 1)), headers(GET), gets(1), window_update(2, 1), gets(1, 2)),
    "6.9.1/2 window above 2^31 - 1": (FLOW, window_update((1 << 31) - 1), window_update((1 << 31) - 1)),
    "6.9.1/3 window of a stream above 2^31 - 1": (
        "RST_STREAM 1 FLOW_CONTROL_ERROR",
        UPLOAD,
        window_update((1 << 31) - 1, 1) + window_update((1 << 31) - 1, 1),
    ),
    "6.9.2/1 window that grows behind HEADERS": (OPEN, HOLD, headers(GET), gets(), settings((4, 1)), gets(1)),
    "6.9.2/2 window below 0": (
        OPEN,
        *(settings((4, 3)), headers(GET), gets(3), settings((4, 2)), acknowledged(3), window_update(2, 1), gets(3, 1)),
    ),
    "6.9.2/3 window above the largest by SETTINGS": (FLOW, settings((4, 1 << 31))),
    "6.9.2/3 window of an open stream above the largest by SETTINGS": (
        FLOW,
        UPLOAD,
        window_update((1 << 31) - 1 - 65_535, 1),
        settings((4, 65_536)),
    ),
    "6.10/1 several CONTINUATION": (OPEN, *in_parts(continuation(b"", flags=0), continuation(b"", flags=0)), served()),
    "6.10/2 DATA within a block": (PROTOCOL, *in_parts(data())),
    "6.10/3 CONTINUATION on stream 0": (PROTOCOL, headers(GET[:10], flags=END_STREAM), continuation(GET[10:], 0)),
    "6.10/4 CONTINUATION behind a whole block": (PROTOCOL, HOLD, headers(GET) + continuation(GET)),
    "6.10/5 CONTINUATION behind the last": (PROTOCOL, HOLD, b"".join(in_parts()) + continuation(GET)),
    "6.10/6 CONTINUATION behind DATA": (PROTOCOL, UPLOAD, data(), continuation(GET)),
    "7/1 GOAWAY with an unknown code": (DONE, goaway(0xFF)),
    "7/2 RST_STREAM with an unknown code": (OPEN, UPLOAD, reset(code=0xFF)),
    "8.1/1 second HEADERS that do not end the stream": (MALFORMED, UPLOAD, headers(fields(("x", "1")), flags=END_HEADERS)),
    "8.1.2/1 name in capitals": (MALFORMED, more(("X-TEST", "ok"))),
    "8.1.2.1/1 unknown pseudo-field": (MALFORMED, headers(fields((":test", "ok")) + GET)),
    "8.1.2.1/2 pseudo-field of a response": (MALFORMED, headers(fields((":status", "200")) + GET)),
    "8.1.2.1/3 pseudo-field in trailers": (MALFORMED, UPLOAD, data(flags=0), headers(fields(METHOD))),
    "8.1.2.1/4 pseudo-field behind a field": (MALFORMED, headers(fields(("x-test", "ok")) + GET)),
    "8.1.2.2/1 field of the connection": (MALFORMED, more(("connection", "keep-alive"))),
    "8.1.2.2/2 te": (MALFORMED, more(("te", "trailers, deflate"))),
    "8.1.2.3/1 empty path": (MALFORMED, headers(without(":path") + fields((":path", "")))),
    "8.1.2.3/2 no method": (MALFORMED, headers(without(":method"))),
    "8.1.2.3/3 no scheme": (MALFORMED, headers(without(":scheme"))),
    "8.1.2.3/4 no path": (MALFORMED, headers(without(":path"))),
    "8.1.2.3/5 two methods": (MALFORMED, headers(fields(METHOD) + GET)),
    "8.1.2.3/6 two schemes": (MALFORMED, headers(fields(SCHEME) + GET)),
    "8.1.2.3/7 two paths": (MALFORMED, headers(fields(PATH) + GET)),
    "8.1.2.6/1 content-length of another DATA": (
        MALFORMED,
        headers(POST + fields(("content-length", "1")), flags=END_HEADERS),
        data(),
    ),
    "8.1.2.6/2 content-length of other DATA together": (
        MALFORMED,
        headers(POST + fields(("content-length", "1")), flags=END_HEADERS),
        data(flags=0) + data(),
    ),
    "8.2/1 PUSH_PROMISE": (PROTOCOL, headers(GET), frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 3) + GET)),
    "hpack/2.3.3/1 index that no table has": (COMPRESSION, headers(GET + integer(70, 7, 0x80))),
    "hpack/2.3.3/2 name of such an index": (COMPRESSION, headers(GET + integer(70, 6, 0x40) + string("x"))),
    "hpack/4.2/1 table size behind a field": (COMPRESSION, headers(GET + table(1))),
    "hpack/5.2/1 padding of more than 7 bits": (COMPRESSION, coded(b"\x1f\xff\xff")),
    "hpack/5.2/2 padding of zeros": (COMPRESSION, coded(b"\x18")),
    "hpack/5.2/3 EOS": (COMPRESSION, coded(b"\xff\xff\xff\xff")),
    "hpack/6.1/1 index 0": (COMPRESSION, headers(GET + b"\x80")),
    "hpack/6.3/1 table size above the limit": (COMPRESSION, headers(table(4097) + GET)),
}


#: How many cases h2spec has in each section.
SECTIONS = {
    **{"generic/1": 1, "generic/2": 5, "generic/3.1": 3, "generic/3.2": 3, "generic/3.3": 5, "generic/3.4": 1, "generic/3.5": 1},
    **{"generic/3.7": 1, "generic/3.8": 1, "generic/3.9": 2, "generic/3.10": 2, "generic/4": 4, "generic/5": 15},
    **{"3.5": 2, "4.1": 3, "4.2": 3, "4.3": 3, "5.1": 13, "5.1.1": 2, "5.1.2": 1, "5.3.1": 2, "5.4.1": 2, "5.5": 2},
    **{"6.1": 3, "6.2": 4, "6.3": 2, "6.4": 3, "6.5": 3, "6.5.2": 5, "6.5.3": 2, "6.7": 4, "6.8": 1, "6.9": 3, "6.9.1": 3, "6.9.2": 3},
    **{"6.10": 6, "7": 2, "8.1": 1, "8.1.2": 1, "8.1.2.1": 4, "8.1.2.2": 2, "8.1.2.3": 7, "8.1.2.6": 2, "8.2": 1},
    **{"hpack/2.3.3": 2, "hpack/4.2": 1, "hpack/5.2": 3, "hpack/6.1": 1, "hpack/6.3": 1},
}


def test_every_case_is_here():
    """Two have a test of their own."""
    found = {name.partition(" ")[0] for name in CASES} | {"3.5/2", "5.1.2/1"}
    assert found == {f"{section}/{number}" for section, count in SECTIONS.items() for number in range(1, count + 1)}


@pytest.fixture(scope="module")
def standing_origin():
    origin = RecordingOrigin()
    yield origin
    origin.stop()


@pytest.fixture(scope="module")
def ports(make_module_gateway, standing_origin, certificate_authority):
    """Of one gateway: in clear text, and with TLS."""
    certificate, key = certificate_authority.issue("h2spec", "DNS:localhost,IP:127.0.0.1")
    clear, secure = processes.free_port(), processes.free_port()
    tls = {"certificate": str(certificate), "private_key": {"file": str(key)}}
    listeners = [{"address": f"127.0.0.1:{clear}"}, {"address": f"127.0.0.1:{secure}", "tls": tls}]
    make_module_gateway(plain_config(standing_origin), listeners).start()
    return {"clear": clear, "tls": secure}


@pytest.fixture(params=["clear", "tls"])
def dial(request, ports, certificate_authority):
    """Connects a client that has sent nothing yet."""
    with contextlib.ExitStack() as opened:

        def dial():
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", ports[request.param]), 10))
            if request.param == "tls":
                context = ssl.create_default_context(cafile=str(certificate_authority.certificate))
                context.set_alpn_protocols(["h2"])
                connection = opened.enter_context(context.wrap_socket(connection, server_hostname="localhost"))
            return Peer(connection)

        yield dial


def greet(peer, first=PREFACE):
    """Both sides have sent and acknowledged their settings."""
    peer.send(first + settings())
    peer.until(lambda: {found.flags for found in peer.of_kind(SETTINGS)} == {0, ACK})
    peer.send(frame(SETTINGS, ACK))


def follow(peer, steps):
    for step in steps:
        peer.send(step) if isinstance(step, bytes) else step(peer)


def assert_it_serves(peer, stream=LAST):
    """One stream more, with a window that a case may have changed."""
    peer.send(settings((4, 65_535)) + headers(GET, stream))
    served(stream)(peer)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_client(dial, case):
    expected, *steps = case
    peer = dial()
    greet(peer)
    follow(peer, steps)
    assert peer.outcome() == expected
    if peer.ended is None:
        assert_it_serves(peer)
    else:
        assert peer.ended == "end", "the client has read why"


def test_the_connection_begins_with_settings(dial):
    peer = dial()
    peer.send(PREFACE + settings())
    first = peer.next()
    assert (first.kind, first.flags, first.stream, len(first.payload) % 6) == (SETTINGS, 0, 0, 0)


@pytest.mark.parametrize("preface", [b"INVALID CONNECTION PREFACE\r\n\r\n", PREFACE[:-4] + b"XX\r\n", PREFACE + headers(GET)])
def test_3_5_2_invalid_preface(dial, preface):
    """The last one has no SETTINGS behind the preface."""
    peer = dial()
    peer.send(preface)
    while peer.more():
        pass
    assert peer.ended == "end"


def test_5_1_2_1_streams_beyond_the_limit(dial):
    peer = dial()
    greet(peer, PREFACE + HOLD)
    [limit] = [
        value
        for found in peer.of_kind(SETTINGS)
        for key, value in struct.iter_unpack(">HI", found.payload)
        if key == 3
    ]
    peer.send(HOLD + b"".join(headers(GET, 2 * number + 1) for number in range(limit + 1)))
    assert peer.outcome() == f"RST_STREAM {2 * limit + 1} REFUSED_STREAM"
    peer.send(settings((4, 65_535)))
    peer.until(lambda: len(peer.ended_streams) == limit)
    assert_it_serves(peer)


# The same for an upstream


STATUS = fields((":status", "200"))
RESPONSE = headers(STATUS)
#: Content follows.
HEAD_ALONE = headers(STATUS, flags=END_HEADERS)
CONTINUED = [headers(STATUS[:4], flags=END_STREAM), continuation(STATUS[4:])]


def wrong(*more):
    return headers(STATUS + fields(*more), flags=END_HEADERS)


def interrupted(*between):
    return [CONTINUED[0], *between, CONTINUED[1]]


#: What comes back to the client: 200, 502, or what is left of a response that was cut.
UPSTREAM = {
    "1/1 SETTINGS": (OPEN, 200, RESPONSE),
    "4.1/1 unknown type": (OPEN, 200, frame(0xFF, 0, 0, b"12345678"), RESPONSE),
    "4.1/2 undefined flag": (OPEN, 200, frame(PING, 0xFE, 0, b"12345678"), RESPONSE),
    "4.1/3 reserved bit": (OPEN, 200, frame(PING, 0, 1 << 31, b"12345678"), RESPONSE),
    "4.2/2 DATA that is too long": (SIZE, "cut", HEAD_ALONE, data(LONG)),
    "4.2/3 HEADERS that are too long": (SIZE, 502, headers(STATUS + LONG)),
    "4.3/1 invalid block": (COMPRESSION, 502, headers(b"\x40")),
    "4.3/2 PRIORITY within a block": (PROTOCOL, 502, *interrupted(priority())),
    "4.3/3 HEADERS of another stream within a block": (PROTOCOL, 502, *interrupted(headers(STATUS, 3))),
    "5.1/1 idle: DATA": (PROTOCOL, 502, data(stream=2)),
    "5.1/2 idle: RST_STREAM": (PROTOCOL, 502, reset(2)),
    "5.1/3 idle: WINDOW_UPDATE": (PROTOCOL, 502, window_update(100, 2)),
    "5.1/4 idle: CONTINUATION": (PROTOCOL, 502, continuation(STATUS, 2)),
    "5.1/8 closed: DATA behind RST_STREAM": (CLOSED, "cut", HEAD_ALONE + reset() + data()),
    "5.1/9 closed: HEADERS behind RST_STREAM": (CLOSED, "cut", HEAD_ALONE + reset() + RESPONSE),
    "5.1/10 closed: CONTINUATION behind RST_STREAM": (PROTOCOL, "cut", HEAD_ALONE + reset() + continuation(STATUS)),
    "5.1/11 closed: DATA": (CLOSED, 200, RESPONSE + data()),
    "5.1/12 closed: HEADERS": (CLOSED, 200, RESPONSE + RESPONSE),
    "5.1/13 closed: CONTINUATION": (PROTOCOL, 200, RESPONSE + continuation(STATUS)),
    "5.1.1/1 stream that was not opened": (PROTOCOL, 502, headers(STATUS, 101)),
    "5.1.1/1 even stream": (PROTOCOL, 502, headers(STATUS, 2)),
    "5.4.1/1 wrong PING": (PROTOCOL, 502, frame(PING, 0, 3, bytes(8))),
    "5.5/1 unknown frame": (OPEN, 200, frame(0x16, 0, 0, bytes(8)), RESPONSE),
    "5.5/2 unknown frame within a block": (PROTOCOL, 502, *interrupted(frame(0x16, 0, 0, bytes(8)))),
    "6.1/1 DATA on stream 0": (PROTOCOL, "cut", HEAD_ALONE, data(stream=0)),
    "6.1/3 DATA that is shorter than its padding": (PROTOCOL, "cut", HEAD_ALONE, padded(DATA, 6, b"test", END_STREAM)),
    "6.2/3 HEADERS on stream 0": (PROTOCOL, 502, headers(STATUS, 0)),
    "6.2/4 HEADERS that are shorter than their padding": (PROTOCOL, 502, padded(HEADERS, 255, STATUS, END_STREAM | END_HEADERS)),
    "6.3/1 PRIORITY on stream 0": (PROTOCOL, 502, priority(stream=0)),
    "6.3/2 PRIORITY of 4 bytes": ("RST_STREAM 1 FRAME_SIZE_ERROR", 502, frame(PRIORITY, 0, 1, bytes(4))),
    "6.4/1 RST_STREAM on stream 0": (PROTOCOL, 502, reset(0)),
    "6.4/3 RST_STREAM of 3 bytes": (SIZE, 502, frame(RST_STREAM, 0, 1, bytes(3))),
    "6.5/1 acknowledgement of SETTINGS with a payload": (SIZE, 502, frame(SETTINGS, ACK, 0, b"\0")),
    "6.5/2 SETTINGS on a stream": (PROTOCOL, 502, frame(SETTINGS, 0, 1, struct.pack(">HI", 3, 100))),
    "6.5/3 SETTINGS of 3 bytes": (SIZE, 502, frame(SETTINGS, 0, 0, bytes(3))),
    # RFC 9113 section 6.5.2: a server must not enable push.
    "6.5.2/1 ENABLE_PUSH of 1": (PROTOCOL, 502, settings((2, 1))),
    "6.5.2/2 INITIAL_WINDOW_SIZE of 2^31": (FLOW, 502, settings((4, 1 << 31))),
    "6.5.2/3 MAX_FRAME_SIZE of 2^14 - 1": (PROTOCOL, 502, settings((5, 16_383))),
    "6.5.2/4 MAX_FRAME_SIZE of 2^24": (PROTOCOL, 502, settings((5, 1 << 24))),
    "6.5.2/5 unknown setting": (OPEN, 200, settings((0xFF, 1)), acknowledged(2), RESPONSE),
    "6.5.3/2 SETTINGS are acknowledged": (OPEN, 200, settings(), acknowledged(2), RESPONSE),
    "6.7/2 acknowledgement of a PING": (OPEN, 200, frame(PING, ACK, 0, b"unasked."), not_answered(b"unasked."), RESPONSE),
    "6.7/3 PING on a stream": (PROTOCOL, 502, frame(PING, 0, 1, bytes(8))),
    "6.7/4 PING of 6 bytes": (SIZE, 502, frame(PING, 0, 0, bytes(6))),
    "6.8/1 GOAWAY on a stream": (PROTOCOL, 502, goaway(stream=1)),
    "6.9/1 WINDOW_UPDATE by 0": (PROTOCOL, 502, window_update(0)),
    "6.9/2 WINDOW_UPDATE by 0 on a stream": (MALFORMED, 502, window_update(0, 1)),
    "6.9/3 WINDOW_UPDATE of 3 bytes": (SIZE, 502, frame(WINDOW_UPDATE, 0, 0, bytes(3))),
    "6.9.1/2 window above 2^31 - 1": (FLOW, 502, window_update((1 << 31) - 1), window_update((1 << 31) - 1)),
    "6.9.1/3 window of a stream above 2^31 - 1": (
        "RST_STREAM 1 FLOW_CONTROL_ERROR",
        502,
        window_update((1 << 31) - 1, 1) + window_update((1 << 31) - 1, 1),
    ),
    "6.10/1 CONTINUATION": (OPEN, 200, *interrupted(continuation(b"", flags=0))),
    "6.10/2 DATA within a block": (PROTOCOL, 502, *interrupted(data())),
    "6.10/3 CONTINUATION on stream 0": (PROTOCOL, 502, CONTINUED[0], continuation(STATUS[4:], 0)),
    "6.10/4 CONTINUATION behind a whole block": (PROTOCOL, "cut", HEAD_ALONE + continuation(STATUS)),
    "7/2 RST_STREAM with an unknown code": (OPEN, 502, reset(code=0xFF)),
    "8.1.2/1 name in capitals": (MALFORMED, 502, wrong(("X-TEST", "ok"))),
    "8.1.2.1/1 unknown pseudo-field": (MALFORMED, 502, wrong((":test", "ok"))),
    "8.1.2.1/2 pseudo-field of a request": (MALFORMED, 502, wrong(PATH)),
    "8.1.2.1/4 pseudo-field behind a field": (MALFORMED, 502, headers(fields(("x-test", "ok")) + STATUS, flags=END_HEADERS)),
    "8.1.2.2/1 field of the connection": (MALFORMED, 502, wrong(("connection", "close"))),
    "8.1.2.4/1 no status": (MALFORMED, 502, headers(fields(("x-test", "ok")), flags=END_HEADERS)),
    # Both sides have ended the stream, so that nothing is left to reset.
    "8.1.2/1 name in capitals, whole response": (OPEN, 502, headers(STATUS + fields(("X-TEST", "ok")))),
    "8.1.2.1/3 pseudo-field in trailers": (OPEN, "cut", HEAD_ALONE, data(flags=0), headers(STATUS)),
    "8.1.2.6/1 content-length of another DATA": (OPEN, "cut", wrong(("content-length", "1")), data()),
    "8.1.2.6/2 content-length of other DATA together": (MALFORMED, "cut", wrong(("content-length", "5")), data(flags=0), data(flags=0)),
    "8.2/1 PUSH_PROMISE": (PROTOCOL, 502, frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + GET)),
    "hpack/2.3.3/1 index that no table has": (COMPRESSION, 502, headers(STATUS + integer(70, 7, 0x80))),
    "hpack/4.2/1 table size behind a field": (COMPRESSION, 502, headers(STATUS + table(1))),
    "hpack/5.2/3 EOS": (COMPRESSION, 502, headers(STATUS + b"\x00" + string("x") + b"\x84\xff\xff\xff\xff")),
    "hpack/6.1/1 index 0": (COMPRESSION, 502, headers(STATUS + b"\x80")),
    "hpack/6.3/1 table size above the limit": (COMPRESSION, 502, headers(table(4097) + STATUS)),
}


@pytest.fixture(scope="module")
def upstream(make_module_gateway):
    """Where the gateway connects, and the gateway."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        route = {"upstream": url, "protocol": "http2", "auth": BEARER}
        yield listener, make_module_gateway({"workers": 1, "routes": {"api": route}}).start()


class Asking(threading.Thread):
    """A client with a request that is not sent twice."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.url = gateway.url + "/api/x"
        self.found = None
        self.start()

    def run(self):
        try:
            self.found = requests.post(self.url, data=b"x", timeout=20).status_code
        except requests.exceptions.RequestException:
            self.found = "cut"

    def result(self):
        self.join(20)
        return self.found


@pytest.mark.parametrize("case", UPSTREAM.values(), ids=UPSTREAM)
def test_upstream(upstream, case):
    listener, gateway = upstream
    expected, status, *steps = case
    asking = Asking(gateway)
    connection, _ = listener.accept()
    with connection:
        peer = Peer(connection)
        assert peer.exactly(len(PREFACE)) == PREFACE
        greet(peer, b"")
        peer.until(lambda: 1 in peer.ended_streams)
        follow(peer, steps)
        assert peer.outcome() == expected
        assert asking.result() == status
        # The gateway closes its side, too, so that it uses the connection no more.
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        while peer.more():
            pass

"""What a client can do to the gateway with frames ends its connection, and no other one."""

import contextlib
import socket
import struct
import threading
import time

import pytest
from h2 import events
from h2.errors import ErrorCodes
from harness import http2, proc
from harness.configs import plain_config

FLOOD = 2000


@pytest.fixture
def flooded(served):
    """A gateway, and a client for it whose frames are made by hand."""
    gateway = served()
    client = gateway.client()
    client.until(lambda: client.settings)
    yield gateway, client
    client.close()
    with contextlib.closing(gateway.client()) as other:
        assert other.ask().status == 200, "others are served"
    assert gateway.process.poll() is None


def head(client):
    return client.h2.encoder.encode(client.fields())


def assert_calmed(client, code):
    """The connection ends with this code, or with a reset that has taken it away."""
    ends = client.until_end()
    assert ends == [code] or (ends, client.ended) == ([], "reset"), (ends, client.ended)


def test_rapid_reset(flooded, origin):
    """CVE-2023-44487"""
    _, client = flooded
    block = head(client)
    for number in range(FLOOD):
        stream = 2 * number + 1
        client.send(client.frame(1, 5, stream, block) + client.frame(3, 0, stream, struct.pack(">I", ErrorCodes.CANCEL)))
    assert_calmed(client, ErrorCodes.ENHANCE_YOUR_CALM)
    assert origin.count() <= 250


def test_continuation_flood(flooded):
    _, client = flooded
    client.send(client.frame(1, 1, 1, head(client)))
    for _ in range(FLOOD):
        client.send(client.frame(9, 0, 1, b""))
    assert_calmed(client, ErrorCodes.ENHANCE_YOUR_CALM)


@pytest.mark.parametrize(
    "frame",
    [
        http2.Client.frame(6, 0, 0, b"12345678"),
        http2.Client.frame(4, 0, 0, struct.pack(">HI", 4, 65_535)),
        http2.Client.frame(2, 0, 1, struct.pack(">IB", 0, 16)),
    ],
    ids=["ping", "settings", "priority"],
)
def test_control_frames(flooded, frame):
    _, client = flooded
    for _ in range(FLOOD // 100):
        client.send(frame * 100)
    assert_calmed(client, ErrorCodes.ENHANCE_YOUR_CALM)


def test_empty_data(flooded):
    _, client = flooded
    stream = client.begin(method="POST", end=False)
    client.send(client.frame(0, 0, stream) * FLOOD)
    assert_calmed(client, ErrorCodes.ENHANCE_YOUR_CALM)


def test_headers_that_expand(flooded, origin):
    """A few bytes that stand for much: an entry of the table, named again and again."""
    _, client = flooded
    block = head(client) + b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4000 + b"\xbe" * 4000
    client.send(client.frame(1, 5, 1, block))
    assert_calmed(client, ErrorCodes.COMPRESSION_ERROR)
    assert origin.count() == 0


def test_windows_that_overflow(flooded):
    _, client = flooded
    client.send(client.frame(8, 0, 0, struct.pack(">I", 0x7FFFFFFF)))
    assert_calmed(client, ErrorCodes.FLOW_CONTROL_ERROR)


def test_more_than_the_window_allows(served, make_script):
    """The upstream takes nothing, so the window of the stream stays as it is."""
    done = threading.Event()
    gateway = served(plain_config(make_script(lambda wire, number: (wire.head(), done.wait(30)))))
    with contextlib.closing(gateway.client()) as client:
        client.until(lambda: client.settings)
        stream = client.begin(method="POST", end=False)
        # More than the buffers of the system hold on both sides.
        for _ in range(64):
            client.send(client.frame(0, 0, stream, b"x" * 16_384) * 64)
        while not client.ended and client.responses[stream].reset is None:
            client.receive()
        done.set()
        # Of the stream alone: the window of the connection is wider.
        assert (client.responses[stream].reset, client.goaways, client.ended) == (ErrorCodes.FLOW_CONTROL_ERROR, [], None)
    with contextlib.closing(gateway.client()) as other:
        assert other.ask(path="/nowhere").status == 404


def test_streams_beyond_the_limit(served, make_script):
    waiting = make_script(lambda wire, number: (wire.head(), wire.is_quiet(1)))
    with contextlib.closing(served(plain_config(waiting), streams_per_connection=4).client()) as client:
        client.until(lambda: client.settings)
        assert client.settings[3] == 4
        streams = [client.begin() for _ in range(4)]
        # The library would not send it.
        client.send(client.frame(1, 5, streams[-1] + 2, head(client)))
        rest = b""
        while not reset_of(rest):
            rest += client.connection.recv(65_536)
        assert reset_of(rest) == (streams[-1] + 2, ErrorCodes.REFUSED_STREAM)
    assert len(waiting.wires) <= 4, "the fifth is sent nowhere"


def reset_of(data):
    """Stream and code of the first RST_STREAM."""
    at = 0
    while len(data) - at >= 9 and len(data) - at - 9 >= (length := int.from_bytes(data[at : at + 3], "big")):
        if data[at + 3] == 3:
            return int.from_bytes(data[at + 5 : at + 9], "big"), int.from_bytes(data[at + 9 : at + 13], "big")
        at += 9 + length
    return None


def test_a_connection_without_requests_ends(served):
    with contextlib.closing(served(idle_timeout="300ms").client()) as client:
        began = time.monotonic()
        assert client.until_end() == [ErrorCodes.NO_ERROR]
        assert 0.2 < time.monotonic() - began < 5


def test_a_preface_that_never_ends(served):
    with socket.create_connection(("127.0.0.1", served(header_timeout="300ms").port), 15) as connection:
        began = time.monotonic()
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        data = b""
        while part := connection.recv(65536):
            data += part
        assert 0.2 < time.monotonic() - began < 5
        assert data[3] == 4, "the SETTINGS of the gateway came first"


# Frames that carry no request


@pytest.mark.parametrize(
    "frame",
    [
        http2.Client.frame(8, 0, 0, struct.pack(">I", 1)),
        http2.Client.frame(7, 0, 0, struct.pack(">II", 0, 0)),
        http2.Client.frame(0x42, 0, 0, b"12345678"),
        http2.Client.frame(0x10, 0, 0, b"\0\0\0\1u=1"),
    ],
    ids=["window-update", "goaway", "unknown", "priority-update"],
)
def test_frames_without_a_limit_of_the_library(flooded, frame):
    _, client = flooded
    for _ in range(FLOOD // 100):
        client.send(frame * 100)
    # The first GOAWAY of a client ends its connection in good order.
    assert_calmed(client, ErrorCodes.NO_ERROR if frame[3] == 7 else ErrorCodes.ENHANCE_YOUR_CALM)


def test_each_request_pays_for_some(served):
    gateway = served()
    with contextlib.closing(gateway.client()) as client:
        for _ in range(500):
            client.send(client.frame(8, 0, 0, struct.pack(">I", 1)) * 8)
            assert client.ask().status == 200
        assert client.goaways == []


def test_a_client_that_credits_each_kibibyte(served, make_script):
    """100 MB, with two WINDOW_UPDATE frames for each KiB."""
    size = 100_000_000

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for start in range(0, size, 1 << 20):
            wire.send(b"x" * min(1 << 20, size - start))

    gateway = served(plain_config(make_script(steps)))
    with contextlib.closing(gateway.client(seconds=60)) as client:
        client.until(lambda: client.settings)
        stream = client.begin()
        credit = struct.pack(">I", 1024)
        both = client.frame(8, 0, 0, credit) + client.frame(8, 0, stream, credit)
        read, rest, owed = 0, bytearray(), 0
        while read < size:
            data = client.connection.recv(1 << 20)
            assert data, f"the connection ended behind {read} bytes"
            rest += data
            at = 0
            while len(rest) - at >= 9 and len(rest) - at - 9 >= (length := int.from_bytes(rest[at : at + 3], "big")):
                kind = rest[at + 3]
                assert kind != 7, f"GOAWAY behind {read} bytes"
                if kind == 0:
                    read += length
                    owed += length
                at += 9 + length
            del rest[:at]
            client.send(both * (owed // 1024))
            owed %= 1024


def test_a_client_that_measures_the_round_trip_is_served(served, make_script):
    """Clients of gRPC send a PING when content comes and none is on its way."""

    def answer(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n")
        for _ in range(1000):
            wire.send(b"x" * 5000)
            time.sleep(0.001)

    with contextlib.closing(served(plain_config(make_script(answer))).client()) as client:
        client.until(lambda: client.settings)
        pings = [0]
        is_waiting = [False]
        take = client.take

        def measure(event):
            if isinstance(event, events.PingAckReceived):
                is_waiting[0] = False
            if isinstance(event, events.DataReceived) and not is_waiting[0]:
                client.h2.ping(b"8 bytes.")
                pings[0] += 1
                is_waiting[0] = True
            take(event)

        client.take = measure
        response = client.finish(client.begin())
        assert response.has_ended and not client.goaways
        assert pings[0] > 250


def test_informational_responses_for_a_client_that_reads_nothing(served, make_script):
    """They have no flow control, so nothing but the gateway bounds what waits of them: 130 MB here."""
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </%s>; rel=preload\r\n\r\n" % (b"x" * 24_000)
    sent = threading.Semaphore(0)

    def steps(wire, number):
        wire.head()
        for _ in range(60):
            wire.send(hint)
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        sent.release()

    gateway = served(plain_config(make_script(steps)))
    with contextlib.closing(gateway.client(seconds=60)) as client:
        client.until(lambda: client.settings)
        before = proc.resident_mib(gateway.process.pid)
        streams = [client.begin() for _ in range(90)]
        assert all(sent.acquire(timeout=60) for _ in streams)
        # The last of them are with the system.
        time.sleep(2)
        assert proc.peak_memory_mib(gateway.process.pid) - before < 48
        answers = [client.finish(stream) for stream in streams]
        assert {(answer.status, bytes(answer.body)) for answer in answers} == {(200, b"ok")}

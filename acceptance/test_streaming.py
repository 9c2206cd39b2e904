"""A gibibyte in each direction (ten of them under soak) through little memory, and back-pressure from end to end."""

import time

import pytest
from harness import streams
from harness.processes import peak_memory_mib, wait_until

BLOCKS = 1024
LIMIT_MIB = 64


@pytest.fixture
def upstream():
    origin = streams.StreamingOrigin()
    yield origin
    origin.stop()


@pytest.fixture
def gateway(upstream, start_gateway):
    return start_gateway({"routes": {"big": {"upstream": upstream.url, "auth": "none"}}})


@pytest.mark.timeout(600)
def test_a_gibibyte_uploads_in_little_memory(upstream, gateway):
    expected = streams.blocks(BLOCKS)
    with streams.connect(gateway.port) as connection:
        head = f"POST /big/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nContent-Length: {BLOCKS << 20}\r\n\r\n"
        connection.sendall(head.encode())
        for _ in range(BLOCKS):
            connection.sendall(streams.BLOCK)
        assert streams.read_head(connection).startswith(b"HTTP/1.1 204")
    [received] = upstream.received
    assert (received.bytes, received.checksum) == (expected.bytes, expected.checksum)
    assert peak_memory_mib(gateway.process.pid) < LIMIT_MIB


@pytest.mark.timeout(600)
@pytest.mark.parametrize("gibibytes", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_gibibytes_download_in_little_memory(upstream, gateway, gibibytes):
    count = gibibytes * BLOCKS
    expected = streams.blocks(count)
    received = streams.Flow()
    with streams.connect(gateway.port) as connection:
        connection.sendall(f"GET /big/{count} HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n\r\n".encode())
        assert streams.read_head(connection).startswith(b"HTTP/1.1 200")
        streams.receive(connection, count << 20, received)
    assert (received.bytes, received.checksum) == (expected.bytes, expected.checksum)
    assert peak_memory_mib(gateway.process.pid) < LIMIT_MIB


def test_a_client_that_stops_reading_stops_the_origin(upstream, gateway):
    with streams.connect(gateway.port) as connection:
        connection.sendall(f"GET /big/{BLOCKS} HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n\r\n".encode())
        assert streams.read_head(connection).startswith(b"HTTP/1.1 200")
        last, since = -1, time.monotonic()

        def stands_still():
            nonlocal last, since
            if upstream.sent != last:
                last, since = upstream.sent, time.monotonic()
            return time.monotonic() - since > 1

        wait_until(stands_still, 30, "the origin stopped sending")
        # What is under way sits in socket buffers, the kernel's and ours.
        assert upstream.sent < 64 << 20
        assert peak_memory_mib(gateway.process.pid) < LIMIT_MIB

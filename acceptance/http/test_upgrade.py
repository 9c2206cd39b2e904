"""Tunnels: what goes through after a 101, and how they end."""

import asyncio
import threading

import pytest
from harness import streams
from harness.bytes import SWITCH, noise
from harness.configs import BEARER, CANARY
from harness.processes import wait_until
from harness.script import connect, wait
from websockets.asyncio.client import connect as websocket
from websockets.asyncio.server import serve


def config(url):
    return {"routes": {"api": {"upstream": url, "auth": BEARER}}}


def handshake(gateway):
    fields = f"Host: 127.0.0.1:{gateway.port}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n"
    return f"GET /api/x HTTP/1.1\r\n{fields}\r\n".encode()


@pytest.fixture
def tunnel(make_script, start_gateway):
    """Follows a script behind the handshake, which has to carry the credential."""

    def start(steps):
        def whole(wire, number):
            head = wire.head()
            assert f"authorization: bearer {CANARY}".lower().encode() in head.lower()
            assert b"\r\nconnection: upgrade\r\n" in head.lower() and b"\r\nupgrade: echo\r\n" in head.lower()
            steps(wire)

        return start_gateway(config(make_script(whole).url))

    return start


def test_bytes_that_follow_the_handshake_at_once_are_not_lost(tunnel):
    def steps(wire):
        wire.send(SWITCH + b"first")
        assert wire.exactly(5) == b"early"

    gateway = tunnel(steps)
    with connect(gateway.port) as client:
        client.send(handshake(gateway) + b"early")
        head = client.head().lower()
        assert head.startswith(b"http/1.1 101") and b"upgrade: echo" in head and b"connection: upgrade" in head
        assert client.exactly(5) == b"first"


def test_what_looks_like_http_in_a_tunnel_is_not_read(tunnel):
    looks = b"GET /api/y HTTP/1.1\r\nHost: evil.example\r\nAuthorization: mine\r\n\r\n"

    def steps(wire):
        wire.send(SWITCH)
        assert wire.exactly(len(looks)) == looks
        wire.send(b"HTTP/1.1 401 Unauthorized\r\n\r\n")

    gateway = tunnel(steps)
    with connect(gateway.port) as client:
        client.send(handshake(gateway))
        client.head()
        client.send(looks)
        assert client.to_end() == b"HTTP/1.1 401 Unauthorized\r\n\r\n"


def test_a_half_closed_tunnel_carries_the_answer(tunnel):
    def steps(wire):
        wire.send(SWITCH)
        assert wire.to_end() == b"question"
        wire.send(b"answer")

    gateway = tunnel(steps)
    with connect(gateway.port) as client:
        client.send(handshake(gateway))
        client.head()
        client.send(b"question")
        client.end_of_writing()
        assert client.to_end() == b"answer"


def send_blocks(wire, count):
    """Sends so many blocks in a thread of its own; what it returns tells how many bytes have been taken."""
    sent = 0

    def send():
        nonlocal sent
        for _ in range(count):
            rest = memoryview(streams.BLOCK)
            while rest:
                taken = wire.connection.send(rest)
                sent, rest = sent + taken, rest[taken:]

    threading.Thread(target=send, daemon=True).start()
    return lambda: sent


def test_a_tunnel_holds_back_whoever_is_too_fast(make_script, start_gateway):
    """48 MiB each way. Each receiver begins when its sender can send no more: all that waits is in the kernel's buffers."""
    count = 48
    may_read, senders, flows = threading.Event(), [], [streams.Flow(), streams.Flow()]

    def exchange(wire, flow):
        wire.connection.settimeout(60)
        senders.append(send_blocks(wire, count))
        wait(may_read, 60, "nothing moves any more")
        streams.receive(wire.connection.recv_into, count << 20, flow)

    def steps(wire, number):
        wire.head()
        wire.send(SWITCH)
        exchange(wire, flows[0])
        # The other end goes on reading.
        wire.to_end()

    origin = make_script(steps)
    gateway = start_gateway(config(origin.url))
    with connect(gateway.port) as client:
        client.send(handshake(gateway))
        assert client.head().startswith(b"HTTP/1.1 101 ")
        flows[1].add(client.buffer)
        reader = threading.Thread(target=exchange, args=(client, flows[1]), daemon=True)
        reader.start()
        wait_until(lambda: len(senders) == 2, 10, "both send")
        sent, held = streams.stuck(lambda: sum(sender() for sender in senders), gateway.port, origin.port)
        assert sent < count << 21 and 0 <= held < 2 * streams.WINDOW, (sent, held)
        may_read.set()
        reader.join(60)
        wait_until(lambda: flows[0].bytes == count << 20, 60, "the origin has everything")
    whole = streams.blocks(count)
    assert [(flow.bytes, flow.checksum) for flow in flows] == [(whole.bytes, whole.checksum)] * 2


@pytest.mark.parametrize("side", ["client", "origin"])
def test_a_reset_of_one_side_ends_the_other(tunnel, side):
    ready, over = threading.Event(), threading.Event()

    def steps(wire):
        wire.send(SWITCH)
        wire.exactly(1)
        if side == "origin":
            wire.reset()
        else:
            ready.set()
            wire.to_end()
        over.set()

    gateway = tunnel(steps)
    with connect(gateway.port) as client:
        client.send(handshake(gateway))
        client.head()
        client.send(b"x")
        if side == "client":
            wait(ready, 5, "the origin is in the tunnel")
            client.reset()
            assert wait(over, 5, "the origin sees the end") < 1
        else:
            assert client.to_end() == b""


def test_a_tunnel_both_ends_of_which_are_reset_in_the_same_turn_harms_nobody(tunnel):
    """What fails to go out to the one end makes the gateway read what is left of the other, and again."""
    may_fill, is_reset = threading.Event(), threading.Event()

    def steps(wire):
        wire.send(SWITCH)
        # Until the kernel lets more wait in the gateway's socket than one read takes.
        wire.send(bytes(30_000_000))
        may_fill.wait(15)
        wire.connection.settimeout(0)
        try:
            while True:
                wire.send(bytes(65_536))
        except BlockingIOError:
            pass
        wire.reset()
        is_reset.set()

    gateway = tunnel(steps)
    client = connect(gateway.port)
    client.send(handshake(gateway))
    client.head()
    assert len(client.exactly(30_000_000)) == 30_000_000
    with gateway.halted():
        may_fill.set()
        wait(is_reset, 15, "the origin's end is reset")
        client.send(b"more")
        client.reset()
    # Any answer will do: the gateway is there.
    with connect(gateway.port) as other:
        other.send(f"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n\r\n".encode())
        assert other.head().startswith(b"HTTP/1.1 404")
    assert gateway.process.poll() is None


def test_a_refused_upgrade_leaves_an_ordinary_connection(origin, start_gateway):
    gateway = start_gateway(config(origin.url))
    origin.answer = lambda request: b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno"
    with connect(gateway.port) as client:
        for _ in range(2):
            client.send(handshake(gateway))
            assert client.head().startswith(b"HTTP/1.1 426") and client.exactly(2) == b"no"
    assert origin.count() == 2


def test_websockets_with_frames_of_a_mebibyte_pings_and_a_close(start_gateway):
    seen = []

    async def echo(connection):
        seen.append(connection.request.headers["Authorization"])
        async for message in connection:
            await connection.send(message)

    async def run():
        async with serve(echo, "127.0.0.1", 0, max_size=2 << 20) as server:
            port = server.sockets[0].getsockname()[1]
            gateway = await asyncio.to_thread(start_gateway, config(f"http://127.0.0.1:{port}"))
            url = f"ws://127.0.0.1:{gateway.port}/api/socket"
            async with websocket(url, max_size=2 << 20, compression=None, proxy=None) as client:
                for _ in range(8):
                    message = noise(1 << 20)
                    await client.send(message)
                    assert await asyncio.wait_for(client.recv(), 20) == message
                assert await asyncio.wait_for(await client.ping(), 10) >= 0
                await client.send("ünï")
                assert await client.recv() == "ünï"
                await client.close(4001, "enough")
            assert (client.close_code, client.close_reason) == (4001, "enough")
            async with websocket(url, proxy=None) as compressed:
                await compressed.send("a" * 100_000)
                assert await compressed.recv() == "a" * 100_000

    asyncio.run(run())
    assert seen == [f"Bearer {CANARY}"] * 2

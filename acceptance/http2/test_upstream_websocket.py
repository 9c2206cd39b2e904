"""WebSocket to upstreams that speak HTTP/2 (RFC 8441): the upgrade of a client is an extended CONNECT there."""

import asyncio
import contextlib
import socket
import threading
import time

import pytest
import requests
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from harness.bytes import noise
from harness import http2
from harness.configs import BEARER, CANARY
from harness.processes import wait_until
from harness.script import connect
from websockets.asyncio.client import connect as websocket
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, SERVER, Protocol

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ASKED = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY}")
TAKES = {SettingCodes.ENABLE_CONNECT_PROTOCOL: 1}


@pytest.fixture
def make_socket_origin(make_http2_origin):
    """An origin that takes WebSockets and answers each with `answer(stream)`; what comes is in `stream.body`."""

    def make(answer=lambda stream: stream.head(200), make=make_http2_origin, settings=TAKES):
        origin = make(settings=settings)
        origin.began = lambda stream: answer(stream) if stream.values(":protocol") else None
        origin.respond = lambda stream: None if stream.values(":protocol") else stream.answer(200, b"ok")
        return origin

    return make


@pytest.fixture
def serve(start_gateway, certificate_authority):
    def serve(origin, protocol="http2", auth=BEARER, **more):
        tls = {"tls": {"ca": str(certificate_authority.certificate)}} if origin.tls else {}
        route = {"upstream": origin.url, "protocol": protocol, "auth": auth, **tls}
        return start_gateway({"routes": {"api": route}, **more})

    return serve


def ask(gateway, client, *fields):
    lines = ["GET /api/chat?x=1 HTTP/1.1", "Host: localhost", *(fields or ASKED)]
    client.send("\r\n".join([*lines, "", ""]).encode())
    return client.head().decode()


def enter(gateway, origin, *fields):
    """A client in a tunnel, and the stream of the origin."""
    client = connect(gateway.port)
    head = ask(gateway, client, *fields)
    assert head.startswith("HTTP/1.1 101 "), head
    return client, origin.requests[-1]


def say(stream, data, end=False):
    with stream.connection.lock:
        stream.send(data, end=end)
        stream.connection.flush()


def test_an_upgrade_is_an_extended_connect(make_socket_origin, serve):
    origin = make_socket_origin(
        lambda stream: stream.head(200, ("sec-websocket-protocol", "chat"), ("x-note", "1"), ("content-length", "7"))
    )
    gateway = serve(origin)
    client = connect(gateway.port)
    head = ask(gateway, client, *ASKED, "Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Extensions: permessage-deflate")
    lines = {line.lower() for line in head.split("\r\n")}
    assert head.startswith("HTTP/1.1 101 ")
    assert {"connection: upgrade", "upgrade: websocket", "sec-websocket-protocol: chat", "x-note: 1"} <= lines
    # RFC 6455 section 1.3.
    assert "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=" in lines
    assert not any(line.startswith("content-length") for line in lines)
    [stream] = origin.requests
    pseudo = [value for name, value in stream.fields if name.startswith(":")]
    assert pseudo == ["CONNECT", "websocket", "http", "/chat?x=1", f"127.0.0.1:{origin.port}"]
    assert stream.values("authorization") == [f"Bearer {CANARY}"]
    assert stream.values("sec-websocket-version") == ["13"] and stream.values("sec-websocket-protocol") == ["chat"]
    assert stream.values("sec-websocket-extensions") == ["permessage-deflate"]
    names = {name for name, _ in stream.fields}
    assert not {"sec-websocket-key", "connection", "upgrade", "host"} & names
    assert not stream.is_complete
    client.reset()


def test_each_direction_ends_by_itself(make_socket_origin, serve):
    origin = make_socket_origin()
    client, stream = enter(serve(origin), origin)
    client.send(b"hello")
    wait_until(lambda: bytes(stream.body) == b"hello", 5, "the origin has it")
    say(stream, b"answer")
    assert client.exactly(6) == b"answer"
    client.connection.shutdown(socket.SHUT_WR)
    wait_until(lambda: stream.is_complete, 5, "the end of the client's direction")
    say(stream, b"last", end=True)
    assert client.to_end() == b"last" and client.ended != "reset"
    assert origin.resets == []


def test_the_upstream_ends_first(make_socket_origin, serve):
    origin = make_socket_origin()
    client, stream = enter(serve(origin), origin)
    say(stream, b"last", end=True)
    assert client.to_end() == b"last" and client.ended != "reset"
    client.send(b"more")
    client.close()
    wait_until(lambda: stream.is_complete, 5, "the end of the client's direction")
    assert bytes(stream.body) == b"more" and origin.resets == []


def test_a_reset_of_the_upstream_is_a_cut(make_socket_origin, serve):
    origin = make_socket_origin()
    client, stream = enter(serve(origin), origin)
    with stream.connection.lock:
        stream.reset(ErrorCodes.CANCEL)
        stream.connection.flush()
    assert client.to_end() == b"" and client.ended == "reset"


def test_a_reset_of_the_client_is_a_reset(make_socket_origin, serve):
    origin = make_socket_origin()
    client, stream = enter(serve(origin), origin)
    client.reset()
    wait_until(lambda: origin.resets == [(stream.number, ErrorCodes.CANCEL)], 5, "the reset")


def test_a_client_that_closes_ends_its_direction_first(make_socket_origin, serve):
    origin = make_socket_origin()
    client, stream = enter(serve(origin), origin)
    client.send(b"last")
    client.close()
    wait_until(lambda: stream.is_complete, 5, "the end of the client's direction")
    assert bytes(stream.body) == b"last"
    say(stream, b"", end=True)


def test_a_lost_connection_is_a_cut(make_socket_origin, serve):
    origin = make_socket_origin()
    client, stream = enter(serve(origin), origin)
    stream.connection.stop()
    assert client.to_end() == b"" and client.ended == "reset"


def test_requests_and_tunnels_share_a_connection(make_socket_origin, serve):
    origin = make_socket_origin()
    gateway = serve(origin, workers=1)
    tunnels = [enter(gateway, origin) for _ in range(5)]
    assert requests.get(gateway.url + "/api/x", timeout=20).text == "ok"
    assert len(origin.connections) == 1
    for index, (client, stream) in enumerate(tunnels):
        say(stream, str(index).encode())
        assert client.exactly(1) == str(index).encode()
        client.reset()


# The library of WebSockets


class Echo:
    """The frames of a WebSocket on a stream, answered with themselves."""

    def __init__(self, stream):
        self.stream, self.seen = stream, 0
        self.protocol = Protocol(SERVER, state=OPEN, max_size=None)
        stream.head(200)

    def came(self):
        data, self.seen = bytes(self.stream.body[self.seen :]), len(self.stream.body)
        self.protocol.receive_data(data)
        for event in self.protocol.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self.protocol.send_text(bytes(event.data))
            elif isinstance(event, Frame) and event.opcode is Opcode.BINARY:
                self.protocol.send_binary(bytes(event.data))
        for part in self.protocol.data_to_send():
            if part:
                self.stream.send(part)
            else:
                self.stream.send(b"", end=True)


@pytest.mark.parametrize("secure", [False, True])
def test_websockets_with_large_messages_and_a_close(
    make_socket_origin, make_secure_http2_origin, make_http2_origin, serve, secure
):
    echoes = {}
    make = (lambda **more: make_secure_http2_origin("h2", **more)) if secure else make_http2_origin
    origin = make_socket_origin(lambda stream: echoes.update({stream: Echo(stream)}), make)
    origin.came = lambda stream: echoes[stream].came()
    gateway = serve(origin, "auto" if secure else "http2")

    async def talk():
        async with websocket(f"ws://127.0.0.1:{gateway.port}/api/chat", max_size=None, compression=None) as client:
            await client.send("hello")
            assert await client.recv() == "hello"
            for size in (1, 126, 70_000, 3 << 20):
                message = noise(size)
                await client.send(message)
                assert await client.recv() == message
            await (await client.ping())
        assert client.close_code == 1000

    asyncio.run(talk())
    [stream] = echoes
    assert stream.values("authorization") == [f"Bearer {CANARY}"]
    wait_until(lambda: stream.is_complete, 5, "the end of the client's direction")


# HTTP/2 on both sides


def test_http2_on_both_sides(make_socket_origin, serve):
    origin = make_socket_origin(lambda stream: stream.head(204, ("x-note", "1")))
    gateway = serve(origin)
    with contextlib.closing(http2.connect(gateway.port)) as client:
        client.until(lambda: client.settings)
        fields = http2.Client.fields(method="CONNECT", more=[("sec-websocket-version", "13")])
        number = client.begin(fields=[(":protocol", "websocket"), *fields], end=False)
        answer = client.responses[number]
        client.until(lambda: answer.status)
        assert answer.status == 200 and answer.value("x-note") == "1" and not answer.value("sec-websocket-accept")
        client.content(number, b"x" * 300_000, end=False)
        [stream] = origin.requests
        wait_until(lambda: len(stream.body) == 300_000, 10, "the origin has it")
        threading.Thread(target=say, args=(stream, b"y" * 1_000_000), daemon=True).start()
        client.until(lambda: len(answer.body) == 1_000_000)
        client.content(number, b"")
        wait_until(lambda: stream.is_complete, 5, "the end of the client's direction")
        say(stream, b"", end=True)
        assert client.finish(number).has_ended and answer.reset is None
    assert origin.resets == []


# Pace


def test_an_upstream_that_takes_nothing_stops_the_client(make_socket_origin, serve):
    origin = make_socket_origin()
    origin.takes = False
    client, stream = enter(serve(origin), origin)
    client.connection.settimeout(2)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 64 << 20:
            sent += client.connection.send(b"x" * 65_536)
    assert sent < 32 << 20
    assert len(stream.body) <= 65_535
    client.reset()


def test_a_client_that_takes_nothing_stops_the_upstream(make_socket_origin, serve):
    origin = make_socket_origin()
    client, stream = enter(serve(origin), origin)
    size = 64 << 20
    say(stream, b"x" * size)
    left = []
    wait_until(lambda: (left.append(len(stream.waiting)), len(left) > 20 and left[-1] == left[-20])[1], 20, "it stands still")
    assert left[-1] > 32 << 20
    assert len(client.exactly(1 << 20)) == 1 << 20
    wait_until(lambda: len(stream.waiting) < left[-1], 10, "it goes on")
    client.reset()


# Answers that are none of 2xx


@pytest.mark.parametrize("status", [302, 400, 403, 426, 503])
def test_refusals_are_passed_on(make_socket_origin, serve, status):
    origin = make_socket_origin(lambda stream: stream.answer(status, b"no", [("content-length", "2")]))
    with contextlib.closing(connect(serve(origin).port)) as client:
        client.send("\r\n".join(["GET /api/chat HTTP/1.1", "Host: localhost", *ASKED, "", ""]).encode())
        head = client.head().decode()
        assert head.startswith(f"HTTP/1.1 {status} ") and client.exactly(2) == b"no"
        assert "upgrade: websocket" not in head.lower()


def test_a_rejected_token_is_renewed(make_socket_origin, serve, authority):
    statuses = iter([401, 200])
    origin = make_socket_origin(lambda stream: stream.head(next(statuses), end=False))
    gateway = serve(origin, auth="service", credentials={"service": authority.credential()})
    client, stream = enter(gateway, origin)
    first, second = [request.value("authorization") for request in origin.requests]
    assert first != second
    say(stream, b"hello")
    assert client.exactly(5) == b"hello"
    client.reset()


# Upstreams that take none


def test_auto_goes_by_http1_where_http2_takes_none(make_secure_http2_origin, make_socket_origin, serve):
    origin = make_socket_origin(make=lambda **more: make_secure_http2_origin("h2", "http/1.1", **more), settings={})
    gateway = serve(origin, "auto", workers=1)
    for _ in range(2):
        fields = dict(line.split(": ", 1) for line in ASKED)
        assert requests.get(gateway.url + "/api/chat", headers=fields, timeout=20).text == "h1"
    assert len(origin.connections) == 1 and origin.requests == []
    for protocol, head in origin.others:
        assert protocol == "http/1.1" and f"Sec-WebSocket-Key: {KEY}".encode() in head and CANARY.encode() in head
    assert requests.get(gateway.url + "/api/x", timeout=20).text == "ok"


def test_http2_says_why_it_cannot(make_socket_origin, serve):
    origin = make_socket_origin(settings={})
    gateway = serve(origin, workers=1)
    for _ in range(2):
        answer = requests.get(gateway.url + "/api/chat", headers=dict(line.split(": ", 1) for line in ASKED), timeout=20)
        assert answer.status_code == 502 and answer.json()["code"] == "upgrade-failed"
        assert "does not accept WebSockets over HTTP/2" in answer.json()["detail"]
        assert "Set protocol of the route to auto or http1." in answer.json()["detail"]
    assert origin.requests == [] and len(origin.connections) == 1
    assert requests.get(gateway.url + "/api/x", timeout=20).text == "ok"


# Ends that the operator makes


def test_a_credential_that_is_taken_away_ends_it(make_socket_origin, serve, authority):
    origin = make_socket_origin()
    credential = authority.credential() | {"revoke_url": f"{authority.url}/o/revoke_token/"}
    gateway = serve(origin, auth="service", credentials={"service": credential})
    client, stream = enter(gateway, origin)
    done = gateway.run("token", "revoke", "service")
    assert done.returncode == 0, done
    with contextlib.suppress(ConnectionError):
        client.send(b"more")
    assert client.to_end() == b""
    wait_until(lambda: stream.is_reset, 10, "the end of the stream")


def test_a_route_that_is_taken_away_ends_it(make_socket_origin, serve):
    origin = make_socket_origin()
    gateway = serve(origin)
    client, stream = enter(gateway, origin)
    gateway.configure({"routes": {"other": {"upstream": origin.url, "protocol": "http2", "auth": "none"}}})
    done = gateway.run("reload")
    assert done.returncode == 0, done
    assert client.to_end() == b""
    wait_until(lambda: stream.is_reset, 10, "the end of the stream")


# Tunnels whose client has left


def connections():
    """Of this machine: local port, remote port, state, bytes that were not acknowledged, and bytes that were not read."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    for row in rows:
        local, remote = (int(address.split(":")[1], 16) for address in row[1:3])
        yield local, remote, int(row[3], 16), *(int(part, 16) for part in row[4].split(":"))


def in_the_system(port):
    """Bytes between the gateway and the origin at that port that the system has."""
    return sum(
        sending if remote == port else received if local == port else 0
        for local, remote, _, sending, received in connections()
    )


def has_clients(port):
    established, close_wait = 1, 8
    return any(local == port and state in (established, close_wait) for local, _, state, *_ in connections())


def test_nothing_of_a_tunnel_leaves_after_a_lock_although_both_ends_have_ended_it(make_script, start_gateway):
    """What the client sent last waits for an upstream that reads nothing, and so does the end of its direction."""
    may_read, received = threading.Event(), []

    def frame(kind, flags, stream, payload=b""):
        return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload

    def upstream(wire, number):
        wire.exactly(24)
        # The largest windows that there are, and SETTINGS_ENABLE_CONNECT_PROTOCOL.
        wire.send(frame(4, 0, 0, bytes([0, 4, 0x7F, 0xFF, 0xFF, 0xFF, 0, 8, 0, 0, 0, 1])) + frame(4, 1, 0))
        wire.send(frame(8, 0, 0, (0x7FFF_0000).to_bytes(4)))
        head = b"\0" * 9
        while head[3] != 1:
            head = wire.exactly(9)
            wire.exactly(int.from_bytes(head[:3]))
        stream = int.from_bytes(head[5:9])
        # 200, and the end of the upstream's direction.
        wire.send(frame(1, 4, stream, b"\x88") + frame(0, 1, stream))
        may_read.wait(60)
        received.append(len(wire.to_end()))

    origin = make_script(upstream)
    route = {"upstream": origin.url, "protocol": "http2", "auth": "me"}
    gateway = start_gateway({"workers": 1, "credentials": {"me": BEARER}, "routes": {"api": route}})
    client = connect(gateway.port)
    assert ask(gateway, client).startswith("HTTP/1.1 101 ")
    assert client.to_end() == b""
    # More than the channel takes. The rest waits in the stream, which is not full yet: the gateway still reads.
    sent = waiting = 0
    while waiting < 300_000:
        piece = b"x" * (131_072 if waiting < 65_536 else 16_384)
        client.send(piece)
        sent += len(piece)
        deadline = time.monotonic() + 0.1
        while (waiting := sent - in_the_system(origin.port)) > 65_536 and time.monotonic() < deadline:
            time.sleep(0.001)
    client.close()
    wait_until(lambda: not has_clients(gateway.port), 5, "the gateway knows that the client has left")
    held = in_the_system(origin.port)
    assert gateway.run("token", "lock", "me").returncode == 0
    may_read.set()
    wait_until(lambda: received, 20, "the upstream has read all")
    # The headers of frames count in what the system had.
    assert received[0] <= held < sent

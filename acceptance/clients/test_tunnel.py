"""CONNECT to servers that no route leads to: `listeners.proxy[].connect`."""

import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time

import pytest
from harness import http2, processes
from harness.configs import BEARER, CANARY
from harness.names import add_address
from harness.tls import nginx_over_tls

TOKEN = "token-of-the-laptop-1"
ROUTE = {"routes": {"named": {"upstream": "https://routed.test", "auth": BEARER}}}


class Origin:
    """Accepts connections and hands each to the test."""

    def __init__(self, host="127.0.0.1"):
        self.listener = socket.create_server((host, 0))
        self.listener.settimeout(20)
        self.port = self.listener.getsockname()[1]

    def accept(self):
        connection, _ = self.listener.accept()
        connection.settimeout(20)
        return connection

    def was_asked(self, seconds=0.3):
        self.listener.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            self.listener.accept()[0].close()
            return True
        return False


@pytest.fixture
def origin():
    origin = Origin()
    yield origin
    origin.listener.close()


def listener(ports, allow=("127.0.0.1",), unrouted="tunnel", intercept=True):
    connect = {"unrouted": unrouted, "allow": list(allow), "ports": list(ports)} if unrouted == "tunnel" else {"unrouted": unrouted}
    return {"address": f"127.0.0.1:{processes.free_port()}", "intercept": intercept, "connect": connect}


@pytest.fixture
def tunnelling(start_gateway):
    def start(*ports, config=None, more=None, **options):
        place = {**listener(ports, **options), **(more or {})}
        gateway = start_gateway({**ROUTE, **(config or {})}, listeners=[place])
        gateway.place = place
        return gateway

    return start


def changed(gateway, config=None, **connect):
    """The same listener with another `connect`."""
    place = {**gateway.place, "connect": connect}
    gateway.configure({**ROUTE, **(config or {})}, [place])
    done = gateway.run("reload")
    assert done.returncode == 0, done


def dial(gateway):
    host, port = gateway.place["address"].split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def head(target, proof=None):
    proof = f"Proxy-Authorization: Bearer {proof}\r\n" if proof else ""
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{proof}\r\n".encode()


def connect(gateway, target, proof=None, behind=b""):
    """The connection, and the head of the answer."""
    wire = dial(gateway)
    wire.sendall(head(target, proof) + behind)
    answer = b""
    while not answer.endswith(b"\r\n\r\n") and b"\r\n\r\n" not in answer:
        part = wire.recv(1)
        if not part:
            break
        answer += part
    return wire, answer


def opened(gateway, origin, proof=None, behind=b""):
    wire, answer = connect(gateway, f"127.0.0.1:{origin.port}", proof, behind)
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    return wire, origin.accept()


def read(connection, count):
    data = b""
    while len(data) < count:
        part = connection.recv(65536)
        assert part, data
        data += part
    return data


def ended(connection):
    """Whether the connection has ended, in whatever way."""
    try:
        return connection.recv(65536) == b""
    except ConnectionError:
        return True


def test_bytes_pass_both_ways_and_each_direction_ends_by_itself(tunnelling, origin):
    gateway = tunnelling(origin.port)
    wire, upstream = opened(gateway, origin, behind=b"early")
    assert read(upstream, 5) == b"early"
    upstream.sendall(b"from the server")
    assert read(wire, 15) == b"from the server"
    wire.sendall(b"last")
    wire.shutdown(socket.SHUT_WR)
    assert read(upstream, 4) == b"last" and upstream.recv(10) == b""
    upstream.sendall(b"behind the end of the client")
    assert read(wire, 28) == b"behind the end of the client"
    upstream.close()
    assert wire.recv(10) == b""


def test_the_server_may_end_first(tunnelling, origin):
    gateway = tunnelling(origin.port)
    wire, upstream = opened(gateway, origin)
    upstream.sendall(b"all")
    upstream.shutdown(socket.SHUT_WR)
    assert read(wire, 3) == b"all" and wire.recv(10) == b""
    wire.sendall(b"more")
    assert read(upstream, 4) == b"more"
    wire.close()
    assert upstream.recv(10) == b""


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_reset_is_passed_on_as_a_reset(tunnelling, origin, who):
    gateway = tunnelling(origin.port)
    wire, upstream = opened(gateway, origin)
    here, there = (wire, upstream) if who == "client" else (upstream, wire)
    here.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    here.close()
    with pytest.raises(ConnectionResetError):
        there.recv(10)


@pytest.mark.parametrize("reader", ["client", "server"])
def test_who_does_not_read_stops_the_sender(tunnelling, origin, reader):
    gateway = tunnelling(origin.port)
    wire, upstream = opened(gateway, origin)
    sender, receiver = (upstream, wire) if reader == "client" else (wire, upstream)
    sender.settimeout(1)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 64 << 20:
            sent += sender.send(b"x" * 65536)
    assert sent < 32 << 20
    sender.settimeout(20)
    threading.Thread(target=lambda: (sender.sendall(b"end"), sender.shutdown(socket.SHUT_WR)), daemon=True).start()
    total, last = 0, b""
    while part := receiver.recv(1 << 20):
        total, last = total + len(part), (last + part)[-3:]
    assert (total, last) == (sent + 3, b"end")


def test_a_megabyte_of_tls_passes_as_it_is(tunnelling, tmp_path, certificate_authority):
    """The client sees the server's own certificate, and nothing is injected."""
    certificate, key = certificate_authority.issue("blind", "DNS:localhost,IP:127.0.0.1")
    nginx = nginx_over_tls(tmp_path, certificate, key, f"Bearer {CANARY}")
    try:
        port = int(nginx.url.rsplit(":", 1)[1])
        gateway = tunnelling(port, allow=["localhost"])
        words = ["curl", "-sS", "-i", "-x", f"http://{gateway.place['address']}", "--cacert", str(certificate_authority.certificate)]
        done = subprocess.run(
            [*words, f"https://localhost:{port}/x"], check=False, capture_output=True, text=True, timeout=30, env=processes.environment()
        )
        # The upstream wants the credential of the gateway, and does not get it.
        assert done.returncode == 0 and " 401" in done.stdout, done
    finally:
        nginx.stop()


def test_the_proxy_may_speak_tls(start_gateway, origin, certificate_authority):
    certificate, key = certificate_authority.issue("proxy", "DNS:localhost,IP:127.0.0.1")
    place = {**listener([origin.port]), "tls": {"certificate": str(certificate), "private_key": {"file": str(key)}}}
    gateway = start_gateway(ROUTE, listeners=[place])
    gateway.place = place
    context = ssl.create_default_context(cafile=certificate_authority.certificate)
    wire = context.wrap_socket(dial(gateway), server_hostname="localhost")
    wire.sendall(head(f"127.0.0.1:{origin.port}"))
    assert wire.recv(4096).startswith(b"HTTP/1.1 200 ")
    upstream = origin.accept()
    data = bytes(range(256)) * 8192
    threading.Thread(target=lambda: (upstream.sendall(data), upstream.shutdown(socket.SHUT_WR)), daemon=True).start()
    assert read(wire, len(data)) == data and wire.recv(10) == b""
    wire.sendall(b"behind the end of the server")
    assert read(upstream, 28) == b"behind the end of the server"
    wire.close()
    assert ended(upstream)


@pytest.mark.parametrize(
    ("allow", "target", "status", "words"),
    [
        ([], "127.0.0.1", 502, "not public"),
        ([], "localhost", 502, "not public"),
        ([], "[::1]", 502, "not public"),
        ([], "[::ffff:127.0.0.1]", 502, "not public"),
        ([], "[64:ff9b::7f00:1]", 502, "not public"),
        ([], "0.0.0.0", 502, "not public"),
        ([], "169.254.169.254", 502, "not public"),
        # What the system's resolver takes for an address, too.
        ([], "2130706433", 502, "not public"),
        ([], "127.1", 502, "not public"),
        ([], "0x7f000001", 502, "not public"),
        (["*"], "localhost", 502, "not public"),
        (["*.test"], "127.0.0.1", 502, "not public"),
        (["other.test"], "localhost", 404, "connect.allow"),
        (["localhost"], "localhost", 200, ""),
        (["127.0.0.0/8"], "localhost", 200, ""),
        (["127.0.0.1"], "127.1", 200, ""),
    ],
)
def test_addresses_that_are_not_public_are_named_or_refused(tunnelling, origin, allow, target, status, words):
    gateway = tunnelling(origin.port, allow=allow)
    wire, answer = connect(gateway, f"{target}:{origin.port}")
    line = answer.split(b"\r\n")[0].decode()
    assert line.startswith(f"HTTP/1.1 {status} ") and words in line, answer
    assert origin.was_asked() == (status == 200)
    wire.close()


def test_another_port_is_refused(tunnelling, origin):
    gateway = tunnelling(443)
    wire, answer = connect(gateway, f"127.0.0.1:{origin.port}")
    assert answer.startswith(b"HTTP/1.1 404 ") and b"connect.ports" in answer.split(b"\r\n")[0], answer
    wire.close()


def test_a_closed_port_says_so(tunnelling):
    port = processes.free_port()
    gateway = tunnelling(port)
    wire, answer = connect(gateway, f"127.0.0.1:{port}")
    assert answer.startswith(b"HTTP/1.1 502 ") and b"does not accept connections" in answer.split(b"\r\n")[0], answer
    wire.close()


def test_the_client_proves_itself(tunnelling, origin):
    gateway = tunnelling(origin.port, config={"access": {"clients": {"laptop": {"token": TOKEN, "limits": {"concurrent": 1}}}}})
    for proof in None, "wrong-token-of-nobody":
        wire, answer = connect(gateway, f"127.0.0.1:{origin.port}", proof)
        assert answer.startswith(b"HTTP/1.1 407 ")
        wire.close()
    wire, upstream = opened(gateway, origin, TOKEN)
    second, answer = connect(gateway, f"127.0.0.1:{origin.port}", TOKEN)
    assert answer.startswith(b"HTTP/1.1 429 "), answer
    upstream.sendall(b"goes on")
    assert read(wire, 7) == b"goes on"
    wire.close()
    upstream.close()
    processes.wait_until(lambda: connect(gateway, f"127.0.0.1:{origin.port}", TOKEN)[1].startswith(b"HTTP/1.1 200 "), 5, "a place is free")
    second.close()


LAPTOP = {"access": {"clients": {"laptop": {"token": TOKEN}, "other": {"token": "token-of-another-2"}}}}


@pytest.mark.parametrize("what", ["refuse", "allow", "ports", "client", "listener", "route"])
def test_a_reload_that_takes_the_right_away_ends_the_tunnel(tunnelling, origin, what):
    gateway = tunnelling(origin.port, config=LAPTOP)
    wire, upstream = opened(gateway, origin, TOKEN)
    kept = {"unrouted": "tunnel", "allow": ["127.0.0.1"], "ports": [origin.port]}
    # One that changes nothing for the tunnel does not end it.
    changed(gateway, LAPTOP, **{**kept, "allow": ["127.0.0.0/8", "more.test"]})
    upstream.sendall(b"goes on")
    assert read(wire, 7) == b"goes on"
    if what == "refuse":
        changed(gateway, LAPTOP, unrouted="refuse")
    elif what == "allow":
        changed(gateway, LAPTOP, **{**kept, "allow": ["*.test"]})
    elif what == "ports":
        changed(gateway, LAPTOP, **{**kept, "ports": [443]})
    elif what == "client":
        clients = {"clients": {"other": LAPTOP["access"]["clients"]["other"]}}
        changed(gateway, {"access": clients}, **kept)
    elif what == "listener":
        gateway.configure({**ROUTE, **LAPTOP}, [])
        assert gateway.run("reload").returncode == 0
    else:
        route = {"upstream": f"https://127.0.0.1:{origin.port}", "auth": BEARER}
        changed(gateway, {**LAPTOP, "routes": {**ROUTE["routes"], "local": route}}, **kept)
    assert ended(wire) and ended(upstream)


@pytest.fixture
def named_gateway(names, make_gateway):
    def start(*ports, **options):
        place = listener(ports, **options)
        gateway = make_gateway(ROUTE, listeners=[place])
        gateway.wrapper = names.wrapper()
        gateway.place = place
        return gateway.start()

    return start


def test_of_the_addresses_of_a_name_only_those_that_may_be_are_dialled(names, named_gateway):
    add_address("10.9.0.1")
    names.addresses = {"both.test": ["127.0.0.1", "10.9.0.1", "::1"], "local.test": ["127.0.0.1"]}
    allowed = Origin("10.9.0.1")
    forbidden = socket.create_server(("127.0.0.1", allowed.port))
    gateway = named_gateway(allowed.port, allow=["10.9.0.0/16"])
    wire, answer = connect(gateway, f"both.test:{allowed.port}")
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    allowed.accept().sendall(b"here")
    assert read(wire, 4) == b"here"
    wire.close()
    wire, answer = connect(gateway, f"local.test:{allowed.port}")
    assert answer.startswith(b"HTTP/1.1 502 ") and b"not public" in answer, answer
    forbidden.settimeout(0.3)
    with pytest.raises(TimeoutError):
        forbidden.accept()
    wire.close(), forbidden.close(), allowed.listener.close()


def test_an_address_of_this_machine_is_not_reached_although_it_is_public(names, named_gateway):
    add_address("93.184.216.34")
    names.addresses = {"own.test": ["93.184.216.34"]}
    origin = Origin("93.184.216.34")
    gateway = named_gateway(origin.port, allow=[])
    for target in "own.test", "93.184.216.34":
        wire, answer = connect(gateway, f"{target}:{origin.port}")
        assert answer.startswith(b"HTTP/1.1 502 ") and b"not public" in answer, answer
        wire.close()
    assert not origin.was_asked()
    changed(gateway, unrouted="tunnel", allow=["own.test"], ports=[origin.port])
    wire, upstream = opened_at(gateway, origin, "own.test")
    wire.close(), upstream.close()
    origin.listener.close()


def opened_at(gateway, origin, name):
    wire, answer = connect(gateway, f"{name}:{origin.port}")
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    return wire, origin.accept()


def test_a_reload_while_the_connection_is_made_counts(names, named_gateway):
    names.options = "options timeout:1 attempts:4\n"
    names.addresses = {"late.test": ["127.0.0.1"]}
    names.silent = {"late.test"}
    origin = Origin()
    gateway = named_gateway(origin.port, allow=["late.test"])
    wire = dial(gateway)
    wire.sendall(head(f"late.test:{origin.port}"))
    processes.wait_until(lambda: names.asked, 10, "the name is asked for")
    changed(gateway, unrouted="refuse")
    names.silent = set()
    assert wire.recv(4096).startswith(b"HTTP/1.1 503 ")
    wire.close(), origin.listener.close()


def test_a_stop_ends_tunnels_when_its_time_is_over(tunnelling, origin):
    gateway = tunnelling(origin.port, config={"limits": {"drain": "1s"}})
    wire, upstream = opened(gateway, origin)
    stopping = threading.Thread(target=gateway.stop)
    stopping.start()
    time.sleep(0.3)
    upstream.sendall(b"goes on")
    assert read(wire, 7) == b"goes on"
    assert ended(wire) and ended(upstream)
    stopping.join(20)


def test_a_silent_tunnel_ends(tunnelling, origin):
    gateway = tunnelling(origin.port, config={"limits": {"response_timeout": "1s"}})
    wire, upstream = opened(gateway, origin)
    for _ in range(3):
        time.sleep(0.6)
        wire.sendall(b"x")
        assert upstream.recv(10) == b"x"
    begun = time.monotonic()
    assert ended(wire) and ended(upstream)
    assert 0.5 < time.monotonic() - begun < 5


def test_a_tunnel_is_counted_and_logged(origin, make_gateway):
    place = listener([origin.port])
    gateway = make_gateway({**ROUTE, **LAPTOP}, listeners=[place]).start("--access-log")
    gateway.place = place
    wire, upstream = opened(gateway, origin, TOKEN)
    wire.sendall(b"12345")
    assert read(upstream, 5) == b"12345"
    upstream.sendall(b"1234567")
    assert read(wire, 7) == b"1234567"
    wire.close(), upstream.close()
    processes.wait_until(lambda: '"destination"' in gateway.text(), 5, gateway.text)
    [line] = [json.loads(line) for line in gateway.text().splitlines() if '"destination"' in line]
    expected = {"client": "laptop", "received": "5", "sent": "7", "status": "200", "route": "(unrouted)", "method": "CONNECT"}
    assert line == {**line, **expected, "destination": f"127.0.0.1:{origin.port}"}
    assert TOKEN not in gateway.text()


def test_explain_says_that_it_passes(tunnelling, origin):
    gateway = tunnelling(origin.port)
    done = gateway.run("explain", "--json", f"curl -x http://{gateway.place['address']} https://127.0.0.1:{origin.port}/")
    said = json.loads(done.stdout)
    assert said["outcome"] == "tunnelled" and f"127.0.0.1:{origin.port}" in said["verdict"], said
    done = gateway.run("explain", f"curl -x http://{gateway.place['address']} https://127.0.0.2:{origin.port}/")
    assert "Would be refused: 502" in done.stdout and "connect.allow" in done.stdout, done


# To a server that a plain route leads to


@pytest.fixture
def plain(tunnelling, origin):
    """A gateway with a route to the origin, which accepts as a test says."""

    def start(config=None, **options):
        route = {"upstream": f"http://127.0.0.1:{origin.port}", "auth": BEARER}
        return tunnelling(origin.port, config={"routes": {"plain": route}, **(config or {})}, **options)

    return start


def handshake(host):
    fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13"
    return f"GET /chat HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n\r\n".encode()


@pytest.mark.parametrize("unrouted", ["tunnel", "refuse"])
@pytest.mark.parametrize("parts", [1, 5, 1000])
def test_a_plain_websocket_through_the_proxy_gets_the_credential(plain, origin, unrouted, parts):
    gateway = plain(unrouted=unrouted)
    target = f"127.0.0.1:{origin.port}"
    wire, answer = connect(gateway, target)
    assert answer.startswith(b"HTTP/1.1 200 ")
    request = handshake(target)
    for start in range(0, len(request), len(request) // parts + 1):
        wire.sendall(request[start : start + len(request) // parts + 1])
    upstream = origin.accept()
    received = b""
    while b"\r\n\r\n" not in received:
        received += upstream.recv(65536)
    assert received.startswith(b"GET /chat HTTP/1.1\r\n") and f"Authorization: Bearer {CANARY}".encode() in received
    accept = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    upstream.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + accept + b"\r\n\r\n")
    assert b"HTTP/1.1 101 " in wire.recv(65536)
    wire.sendall(b"ping")
    assert upstream.recv(100) == b"ping"


def test_another_host_behind_such_a_connect_is_refused_with_the_name_of_the_route(plain, origin):
    gateway = plain()
    wire, _ = connect(gateway, f"127.0.0.1:{origin.port}")
    wire.sendall(handshake("elsewhere.test"))
    answer = wire.recv(65536)
    assert answer.startswith(b"HTTP/1.1 421 ") and b"route plain" in answer
    assert not origin.was_asked()


def test_a_server_that_speaks_first_is_reached_blindly_after_a_second(plain, origin):
    gateway = plain()
    began = time.monotonic()
    wire, answer = connect(gateway, f"127.0.0.1:{origin.port}")
    assert answer.startswith(b"HTTP/1.1 200 ")
    upstream = origin.accept()
    assert 0.9 < time.monotonic() - began < 10
    upstream.sendall(b"220 mail.test ESMTP\r\n")
    assert wire.recv(100) == b"220 mail.test ESMTP\r\n"
    wire.sendall(b"GET / HTTP/1.1\r\n")
    assert upstream.recv(100) == b"GET / HTTP/1.1\r\n"


def test_other_bytes_pass_blindly_at_once(plain, origin):
    gateway = plain()
    wire, _ = connect(gateway, f"127.0.0.1:{origin.port}")
    wire.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
    assert origin.accept().recv(100) == b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"


def test_other_bytes_are_refused_where_nothing_passes_blindly(plain, origin):
    gateway = plain(unrouted="refuse")
    wire, _ = connect(gateway, f"127.0.0.1:{origin.port}")
    wire.sendall(b"\x16\x03\x01\x02\x00")
    assert wire.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert not origin.was_asked()


def request_head(connection):
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        assert part, received
        received += part
    return received


@pytest.mark.parametrize("start", [b"GE", b"\r\n", b"\r\nGET ht"])
def test_a_request_that_begins_slowly_still_gets_the_credential(plain, origin, start):
    """It went to the server as it was, when a second had passed."""
    gateway = plain()
    target = f"127.0.0.1:{origin.port}"
    wire, _ = connect(gateway, target)
    wire.sendall(start)
    assert not origin.was_asked(1.5)
    request = f"\r\nGET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()
    wire.sendall(request[len(start) :] if start.startswith(b"\r") else request[2 + len(start) :])
    origin.listener.settimeout(20)
    received = request_head(origin.accept())
    assert received.startswith(b"GET / HTTP/1.1\r\n") and f"Authorization: Bearer {CANARY}".encode() in received


def test_a_part_of_a_request_does_not_become_a_tunnel(plain, origin):
    gateway = plain(config={"limits": {"header_timeout": "2s"}})
    wire, _ = connect(gateway, f"127.0.0.1:{origin.port}")
    wire.sendall(b"GE")
    assert ended(wire) and not origin.was_asked()


@pytest.mark.parametrize("is_secure", [False, True])
def test_http2_behind_such_a_connect_gets_the_credential(plain, origin, certificate_authority, is_secure):
    """gRPC asks its proxy so for a server without TLS. The TLS may be that of the proxy."""
    tls = {}
    if is_secure:
        certificate, key = certificate_authority.issue("proxy-h2c", "DNS:localhost,IP:127.0.0.1")
        tls = {"tls": {"certificate": str(certificate), "private_key": {"file": str(key)}}}
    gateway = plain(unrouted="refuse", more=tls)
    target = f"127.0.0.1:{origin.port}"
    wire = dial(gateway)
    if is_secure:
        context = ssl.create_default_context(cafile=certificate_authority.certificate)
        wire = context.wrap_socket(wire, server_hostname="localhost")
    wire.sendall(head(target))
    assert wire.recv(4096).startswith(b"HTTP/1.1 200 ")
    with contextlib.closing(http2.Client(wire)) as client:
        stream = client.begin(path="/call", authority=target)
        upstream = origin.accept()
        received = request_head(upstream)
        assert received.startswith(b"GET /call HTTP/1.1\r\n") and f"Authorization: Bearer {CANARY}".encode() in received
        upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
        answer = client.finish(stream)
        assert (answer.status, bytes(answer.body)) == (200, b"done")

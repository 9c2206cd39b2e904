"""SIGTERM under load: readiness goes at once, what has begun ends whole, the exit code is 0."""

import contextlib
import itertools
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest
import requests
from harness.bytes import NOT_AN_END, SWITCH, content_of
from harness.configs import BEARER
from harness.processes import wait_until, within
from harness.script import OK, answering, connect, connect_narrow
from harness.tls_script import TLSWire, client_context, request_to

PART = b"p" * 100_000
#: Says when it has seen a ready gateway; when it is told to go on, sends SIGTERM and prints after how many seconds that was over.
STOP = """
import http.client, os, signal, sys, time

def status():
    connection = http.client.HTTPConnection(sys.argv[2], timeout=5)
    connection.request("GET", "/readyz")
    return connection.getresponse().status

assert status() == 200
print("ready", flush=True)
sys.stdin.readline()
os.kill(int(sys.argv[1]), signal.SIGTERM)
started = time.monotonic()
while status() != 503:
    time.sleep(0.01)
print(time.monotonic() - started, flush=True)
"""


SIDES = pytest.mark.parametrize("side", ["none", "listener"], ids=["clear", "tls"])
#: The fields that say where an answer of so many bytes ends.
FIELDS = {
    "length": "Content-Length: {}\r\n",
    "chunked": "Transfer-Encoding: chunked\r\n",
    "events": "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n",
    "until-close": "",
}


def slowly(wire, number):
    """/FRAMING/N sends N parts, 100 ms apart; /tunnel echoes; anything else is answered at once."""
    while head := wire.head():
        framing, _, count = head.split(b" ")[1].decode()[1:].partition("/")
        if framing == "tunnel":
            wire.send(SWITCH)
            while data := wire.until(b"\n"):
                wire.send(data)
            return
        if framing not in FIELDS:
            wire.send(OK)
            continue
        fields, is_chunked = FIELDS[framing], "chunked" in FIELDS[framing]
        wire.send(f"HTTP/1.1 200 OK\r\n{fields.format(int(count) * len(PART))}\r\n".encode())
        pause = threading.Event()
        for _ in range(int(count)):
            pause.wait(0.1)
            wire.send(b"%x\r\n%s\r\n" % (len(PART), PART) if is_chunked else PART)
        if is_chunked:
            wire.send(b"0\r\n\r\n")
        if framing == "until-close":
            return


@pytest.fixture
def slow_origin(make_script):
    return make_script(slowly)


def get(gateway, path, name="one"):
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nX-Id: {name}\r\n\r\n".encode()


class Asker(threading.Thread):
    """Short requests on a kept connection until the gateway says that it closes, or closes; then on the next, if there is one."""

    numbers = itertools.count()

    def __init__(self, gateway, stopping):
        super().__init__(daemon=True)
        self.gateway, self.stopping = gateway, stopping
        self.answered = []
        #: Requests that found their connection closed: nobody has read them, and the client can tell. One, while it stops.
        self.unread = []
        self.faults = []

    def run(self):
        try:
            while client := self.connected():
                with client:
                    while self.ask(client):
                        pass
        except OSError as error:
            self.faults.append(repr(error))

    def connected(self):
        try:
            return connect(self.gateway.port)
        # The listener was closed before, or while the connection waited to be accepted.
        except (ConnectionRefusedError, ConnectionResetError):
            if not self.stopping.is_set():
                self.faults.append("refused before the stop")
            return None

    def ask(self, client):
        """Returns whether the connection can be used again."""
        name = f"quick-{next(self.numbers)}"
        head = self.exchange(client, get(self.gateway, "/api/quick", name))
        if not head:
            if not self.stopping.is_set() or self.unread or not is_unread(client):
                self.faults.append(f"{name} is not answered, {len(self.unread)} were not before, {client.ended}")
            self.unread.append(name)
            return False
        if not head.startswith(b"HTTP/1.1 200 ") or client.exactly(2) != b"ok":
            self.faults.append(head)
        self.answered.append(name)
        return b"connection: close" not in head.lower()

    def exchange(self, client, request):
        try:
            client.send(request)
        except (BrokenPipeError, ConnectionResetError):
            client.ended = "reset"
        return client.head()


def is_unread(client):
    """What is sent to a socket that is closed already, or that is closed before it is read, is answered with a reset.

    After a mere end the request was taken, and dropped.
    """

    def is_reset():
        return client.ended == "reset" or client.connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    return within(2, is_reset, pause=0.01)


def stop(gateway, stopping):
    """Returns how long it was ready after that, as another process sees it: here, hundreds of threads wait for each other."""
    words = [sys.executable, "-c", STOP, str(gateway.process.pid), gateway.admin_url.removeprefix("http://")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        stopping.set()
        return float(other.communicate(b"\n", 30)[0])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("downloads, parts", [(20, 20), pytest.param(200, 100, marks=pytest.mark.soak)])
def test_a_stop_under_load_cuts_nothing(slow_origin, start_gateway, downloads, parts):
    gateway = start_gateway({"limits": {"drain": "180s"}, "routes": {"api": {"upstream": slow_origin.url, "auth": BEARER}}})
    wholes, stopping = [], threading.Event()

    def download():
        with connect(gateway.port, 120) as client:
            client.send(get(gateway, f"/api/length/{parts}"))
            assert client.head().startswith(b"HTTP/1.1 200 ")
            begun.release()
            wholes.append(len(client.exactly(parts * len(PART))) == parts * len(PART))

    begun = threading.Semaphore(0)
    askers = [Asker(gateway, stopping) for _ in range(8)]
    loaders = [threading.Thread(target=download, daemon=True) for _ in range(downloads)]
    for thread in askers + loaders:
        thread.start()
    for _ in loaders:
        assert begun.acquire(timeout=30)

    wait_until(lambda: all(len(asker.answered) > 10 for asker in askers), 10, "all are at it")
    assert stop(gateway, stopping) < 1
    assert len(wholes) < downloads, "downloads are under way"
    for asker in askers:
        asker.join(5)
        assert not asker.is_alive(), "nobody else is let in"
    for loader in loaders:
        loader.join(120)
    assert wholes == [True] * downloads
    assert gateway.process.wait(20) == 0
    assert [fault for asker in askers for fault in asker.faults] == []
    seen = set(re.findall(rb"(?i)x-id: (\S+)", b"".join(wire.received for wire in slow_origin.wires)))
    assert [name for asker in askers for name in asker.unread if name.encode() in seen] == [], "what has begun ends whole"


@contextlib.contextmanager
def downloads(gateway, parts):
    """A client for each framing and version, by these, each within its answer."""
    with contextlib.ExitStack() as stack:
        clients = {}
        for framing, version in itertools.product(FIELDS, ("1.1", "1.0")):
            client = clients[framing, version] = stack.enter_context(gateway.dial())
            client.send(request_to(gateway, client, path=f"/api/{framing}/{parts}", version=version))
            head = client.head()
            assert head.startswith(b"HTTP/1.1 200 "), (framing, version, head)
            client.is_chunked = b"chunked" in head
        yield clients


def enter_tunnel(gateway, client):
    client.send(request_to(gateway, client, "Connection: Upgrade", "Upgrade: echo", path="/api/tunnel"))
    assert client.head().startswith(b"HTTP/1.1 101 ")
    assert echo(client, b"before\n") == b"before\n"


def echo(client, line):
    client.send(line)
    return client.until(b"\n")


def begin_to_stop(gateway):
    gateway.process.send_signal(signal.SIGTERM)
    wait_until(lambda: requests.get(f"{gateway.admin_url}/readyz", timeout=5).status_code == 503, 5, "it drains")


@pytest.mark.parametrize("why", ["stop", "idle"])
def test_a_request_that_came_before_its_connection_would_be_closed_is_answered(make_script, start_gateway, why):
    """The gateway is halted, as by a busy turn: what has come by then is dealt with one by one, and the end is in between."""
    number = 800
    config = {
        "workers": 1,
        "routes": {"api": {"upstream": make_script(answering(OK)).url, "auth": BEARER}},
        "limits": {"idle_timeout": "5s" if why == "idle" else "60s"},
    }
    gateway = start_gateway(config)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(gateway.port)) for _ in range(number)]

        def ask(client):
            client.send(get(gateway, "/api/x"))

        def is_answered(client):
            return client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"

        for client in clients:
            ask(client)
            assert is_answered(client)
        with gateway.halted():
            for client in clients:
                ask(client)
            if why == "stop":
                gateway.process.send_signal(signal.SIGTERM)
            else:
                time.sleep(5)
        assert sum(is_answered(client) for client in clients) == number
    if why == "stop":
        assert gateway.process.wait(20) == 0


@SIDES
def test_answers_of_every_framing_end_whole_during_a_drain(secure, side):
    """And as they would have ended without it: with TLS, by a close_notify."""
    gateway, _ = secure(slowly, side)
    with downloads(gateway, 6) as clients:
        begin_to_stop(gateway)
        ends = {}
        for name, client in clients.items():
            body = content_of(client) if client.is_chunked else b""
            body += client.to_end()
            ends[name] = (body == 6 * PART, client.ended)
        assert [end for end in ends.items() if end[1] != (True, "end")] == []
    assert gateway.process.wait(20) == 0


@SIDES
def test_a_tunnel_goes_on_during_a_drain_until_one_end_closes_it(secure, side):
    gateway, _ = secure(slowly, side)
    with gateway.dial() as client:
        enter_tunnel(gateway, client)
        begin_to_stop(gateway)
        for count in range(3):
            assert client.is_quiet(0.1)
            assert echo(client, b"during %d\n" % count) == b"during %d\n" % count
        client.end_of_writing()
        assert client.to_end() == b"" and client.ended == "end"
        # It was all that was left to wait for.
        assert gateway.process.wait(5) == 0


@pytest.mark.parametrize("begun", [False, True], ids=["silent", "begun"])
def test_a_handshake_that_does_not_end_does_not_hold_up_a_stop(secure, certificate_authority, begun):
    gateway, _ = secure(slowly, "listener", drain="20s", header_timeout="20s")
    with tls_port(gateway) as client:
        if begun:
            hello = ssl.MemoryBIO()
            tls = client_context(certificate_authority).wrap_bio(ssl.MemoryBIO(), hello)
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            client.send(hello.read())
            assert client.more(), "it is answered"
        else:
            assert client.is_quiet(0.3)
        begin_to_stop(gateway)
        assert gateway.process.wait(6) == 0


def test_a_request_behind_a_handshake_that_ends_during_a_drain_is_answered(secure, certificate_authority):
    gateway, _ = secure(slowly, "listener")
    with tls_port(gateway) as wire:
        assert wire.is_quiet(0.3)
        begin_to_stop(gateway)
        connection = client_context(certificate_authority).wrap_socket(wire.connection, suppress_ragged_eofs=False)
        client = TLSWire(connection)
        client.send(request_to(gateway, client, path="/api/x"))
        assert b"\r\nConnection: close\r\n" in client.head()
        assert client.to_end() == b"ok" and client.ended == "end"
        client.close()
    assert gateway.process.wait(5) == 0


def tls_port(gateway):
    """A connection to the listener with TLS, on which nothing of that has begun."""
    return connect(gateway.dial.args[0])


def test_a_request_that_waits_for_its_token_is_answered_during_a_drain(origin, token_server, start_gateway):
    """The authority answers only when the gateway drains already: tokens are still fetched then."""
    token_server.open.clear()
    auth = {"strategy": "delegated", "url": token_server.url + "/token?id=1"}
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": auth}}})
    with connect(gateway.port, 30) as client:
        client.send(get(gateway, "/api/x"))
        wait_until(lambda: token_server.count() == 1, 5, "the token is asked for")
        begin_to_stop(gateway)
        assert client.is_quiet(0.2), "it still waits"
        token_server.open.set()
        assert client.head().startswith(b"HTTP/1.1 200 ")
        assert client.to_end() == b"hello from the origin\n" and client.ended == "end"
    assert origin.last().values("authorization") == ["Bearer token-1-of-1"]
    assert gateway.process.wait(20) == 0


@SIDES
def test_what_is_left_when_the_drain_is_over_is_cut_and_looks_like_it(secure, side):
    """Where only the end of the connection says that this was all, a plain one would make a part the whole."""
    gateway, _ = secure(slowly, side, drain="500ms")
    with downloads(gateway, 200) as clients, gateway.dial() as tunnel:
        enter_tunnel(gateway, tunnel)
        assert all(client.exactly(1000) for client in clients.values())
        started = time.monotonic()
        assert gateway.stop(20) == 0
        assert 0.4 < time.monotonic() - started < 8
        assert all(len(client.to_end()) < 200 * len(PART) for client in clients.values())
        tunnel.to_end()
        ends = {**clients, "tunnel": tunnel}
        assert [(name, client.ended) for name, client in ends.items() if client.ended not in NOT_AN_END] == []


def test_an_answer_that_is_written_and_not_taken_when_the_drain_is_over_is_whole_or_cut(against):
    """Of what the gateway has taken from the origin, the system holds a part and the gateway the rest."""
    sizes = [size << 20 for size in (1, 2, 3, 4, 6)]

    def steps(wire, number):
        size = int(wire.head().split(b" ")[1][1:])
        wire.send(b"HTTP/1.1 200 OK\r\n\r\n" + b"p" * size)

    gateway, _ = against(steps, drain="500ms")
    with contextlib.ExitStack() as stack:
        clients = {size: stack.enter_context(connect_narrow(gateway.port)) for size in sizes}
        for size, client in clients.items():
            client.send(get(gateway, f"/api/{size}").replace(b"HTTP/1.1", b"HTTP/1.0"))
            assert client.head().startswith(b"HTTP/1.1 200 ")
        assert gateway.stop(20) == 0
        taken = {size: (len(client.to_end()), client.ended) for size, client in clients.items()}
    assert {size: end for size, end in taken.items() if end not in ((size, "end"), (end[0], "reset"))} == {}
    assert "reset" in dict(taken.values()).values(), "or nothing is proved"


def test_an_upload_that_has_begun_arrives_whole(origin, start_gateway):
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER}}})
    with connect(gateway.port, 30) as client:
        client.send(f"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nContent-Length: 10\r\n\r\nhello".encode())
        wait_until(lambda: origin.raw().endswith(b"hello"), 5, "the upload has begun")
        begin_to_stop(gateway)
        client.send(b"world")
        head = client.head()
        assert head.startswith(b"HTTP/1.1 200") and b"connection: close" in head.lower()
    assert origin.last().body == b"helloworld" and gateway.process.wait(20) == 0

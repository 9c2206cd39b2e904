"""SIGTERM under load: readiness goes at once, what has begun ends whole, the exit code is 0."""

import itertools
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import requests
from conftest import CANARY
from harness.processes import wait_until
from harness.script import connect

BEARER = {"strategy": "bearer", "token": CANARY}
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


@pytest.fixture
def slow_origin(make_script):
    """/slow/N sends N parts, 100 ms apart, once `go_on` is set; anything else is answered at once."""

    def steps(wire, number):
        while head := wire.head():
            target = head.split(b" ")[1]
            if not target.startswith(b"/slow/"):
                wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                continue
            count = int(target.rsplit(b"/", 1)[1])
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (count * len(PART)))
            pause = threading.Event()
            for _ in range(count):
                pause.wait(0.1)
                wire.send(PART)

    return make_script(steps)


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

    deadline = time.monotonic() + 2
    while not is_reset():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


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
            client.send(get(gateway, f"/api/slow/{parts}"))
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


def test_a_drain_ends_with_its_limit(slow_origin, start_gateway):
    gateway = start_gateway({"limits": {"drain": "1s"}, "routes": {"api": {"upstream": slow_origin.url, "auth": BEARER}}})
    with connect(gateway.port, 30) as client:
        client.send(get(gateway, "/api/slow/200"))
        assert client.head().startswith(b"HTTP/1.1 200")
        started = time.monotonic()
        assert gateway.stop(20) == 0
        assert 0.9 < time.monotonic() - started < 8
        assert len(client.to_end()) < 200 * len(PART)


def test_an_upload_that_has_begun_arrives_whole(origin, start_gateway):
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER}}})
    with connect(gateway.port, 30) as client:
        client.send(f"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nContent-Length: 10\r\n\r\nhello".encode())
        wait_until(lambda: origin.raw().endswith(b"hello"), 5, "the upload has begun")
        gateway.process.send_signal(signal.SIGTERM)
        wait_until(lambda: requests.get(f"{gateway.admin_url}/readyz", timeout=5).status_code == 503, 5, "it drains")
        client.send(b"world")
        head = client.head()
        assert head.startswith(b"HTTP/1.1 200") and b"connection: close" in head.lower()
    assert origin.last().body == b"helloworld" and gateway.process.wait(20) == 0

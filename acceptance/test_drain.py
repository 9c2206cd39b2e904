"""SIGTERM under load: readiness goes at once, what has begun ends whole, the exit code is 0."""

import signal
import threading
import time

import pytest
import requests
from conftest import CANARY
from harness.processes import wait_until
from harness.script import connect

BEARER = {"strategy": "bearer", "token": CANARY}
PART = b"p" * 100_000


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


def get(gateway, path):
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n\r\n".encode()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("downloads, parts", [(20, 20), pytest.param(200, 100, marks=pytest.mark.soak)])
def test_a_stop_under_load_cuts_nothing(slow_origin, start_gateway, downloads, parts):
    gateway = start_gateway({"limits": {"drain": "60s"}, "routes": {"api": {"upstream": slow_origin.url, "auth": BEARER}}})
    wholes, cut, over = [], [], threading.Event()

    def ask():
        """Short requests on a kept connection until the gateway says that it closes."""
        while not over.is_set():
            try:
                with connect(gateway.port) as client:
                    while not over.is_set():
                        client.send(get(gateway, "/api/quick"))
                        head = client.head()
                        if not head:
                            # Closed between two requests; one that was answered in part would be a cut.
                            break
                        if client.exactly(2) != b"ok":
                            cut.append(head)
                        if b"connection: close" in head.lower():
                            break
            except OSError:
                return

    def download():
        with connect(gateway.port, 120) as client:
            client.send(get(gateway, f"/api/slow/{parts}"))
            client.head()
            begun.release()
            wholes.append(len(client.exactly(parts * len(PART))) == parts * len(PART))

    begun = threading.Semaphore(0)
    askers = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
    loaders = [threading.Thread(target=download, daemon=True) for _ in range(downloads)]
    for thread in askers + loaders:
        thread.start()
    for _ in loaders:
        assert begun.acquire(timeout=30)

    gateway.process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    wait_until(lambda: requests.get(f"{gateway.admin_url}/readyz", timeout=5).status_code == 503, 5, "it is not ready")
    assert time.monotonic() - started < 1
    for loader in loaders:
        loader.join(120)
    assert wholes == [True] * downloads
    over.set()
    assert gateway.process.wait(20) == 0
    for asker in askers:
        asker.join(10)
    assert cut == []


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

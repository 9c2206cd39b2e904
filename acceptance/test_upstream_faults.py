"""Upstreams that are down, silent, flapping or nowhere: the right problem document, and nothing left behind."""

import os
import socket
import threading

import pytest
import requests
from conftest import CANARY
from harness import metrics, raw
from harness.origin import RecordingOrigin
from harness.processes import free_port, wait_until
from harness.script import connect

BEARER = {"strategy": "bearer", "token": CANARY}
#: For each fault; all at once under soak.
REQUESTS = 100


@pytest.fixture
def silent():
    """Accepts connections by its kernel only: nobody reads, nobody answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        yield listener.getsockname()[1]


@pytest.fixture
def gateway(origin, silent, make_script, start_gateway):
    talkative = make_script(lambda wire, number: wire.send(b"SSH-2.0-OpenSSH_9.2\r\n"))
    routes = {
        "good": origin.url,
        "down": f"http://127.0.0.1:{free_port()}",
        "silent": f"http://127.0.0.1:{silent}",
        "nowhere": "http://does-not-exist.invalid",
        "tls": f"https://127.0.0.1:{talkative.port}",
    }
    return start_gateway(
        {
            "limits": {"response_timeout": "500ms", "connect_timeout": "2s", "idle_timeout": "1s"},
            "routes": {name: {"upstream": url, "auth": BEARER, "allow_plaintext": True} for name, url in routes.items()},
        }
    )


FAULTS = {
    "down": (502, "upstream-unreachable", None),
    "silent": (504, "upstream-timeout", None),
    "nowhere": (502, "upstream-unreachable", "dns_error"),
    "tls": (502, "upstream-unreachable", None),
}


@pytest.mark.parametrize("route", FAULTS)
def test_the_client_is_told_what_is_wrong(gateway, route):
    status, kind, error = FAULTS[route]
    answer = requests.get(f"{gateway.url}/{route}/x", timeout=20)
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json" and answer.json()["type"].endswith(kind)
    assert "error=" in answer.headers["Proxy-Status"]
    assert error is None or error in answer.headers["Proxy-Status"]
    assert CANARY not in answer.text


def test_faults_leave_no_thread_and_no_connection_behind(gateway, origin):
    request = b"GET /%s/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n"
    for route in ("good", *FAULTS):
        raw.exchange(gateway.port, request % (route.encode(), gateway.port))
    pid = gateway.process.pid
    # What is kept open for the next request goes with idle_timeout.
    wait_until(lambda: not origin.connections, 5, "nothing is kept open")
    before, threads = metrics.descriptors(pid), metrics.threads(pid)
    for route, (status, _, _) in FAULTS.items():
        answers = raw.all_at_once(gateway.port, [request % (route.encode(), gateway.port)] * REQUESTS)
        # A hundred lookups at once may take longer than connect_timeout allows.
        allowed = {status, 504} if route == "nowhere" else {status}
        assert {answer.status for answer in answers} <= allowed, route
    assert {answer.status for answer in raw.all_at_once(gateway.port, [request % (b"good", gateway.port)] * REQUESTS)} == {200}
    wait_until(lambda: not origin.connections, 5, lambda: f"{len(origin.connections)} are kept open")
    wait_until(lambda: metrics.descriptors(pid) <= before, 2, lambda: f"{metrics.descriptors(pid)} of {before} descriptors")
    # A lookup's thread ends with it; the runtime has up to one for each processor more when there is work.
    most = threads + os.cpu_count()
    wait_until(lambda: metrics.threads(pid) <= most, 2, lambda: f"{metrics.threads(pid)} threads, {threads} before")


def test_a_name_that_takes_long_to_resolve_holds_up_nobody_else(gateway, origin):
    """Each good request needs a connection of its own, so that it cannot hide behind a kept one."""
    origin.answer = lambda request: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    request = b"GET /nowhere/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % gateway.port
    lookups = threading.Thread(target=raw.all_at_once, args=(gateway.port, [request] * 200), daemon=True)
    lookups.start()
    for _ in range(20):
        answer = requests.get(f"{gateway.url}/good/x", timeout=10)
        assert answer.status_code == 200 and answer.elapsed.total_seconds() < 0.4
    lookups.join(30)


def test_an_upstream_that_comes_and_goes(start_gateway):
    """Each answer is right for its moment, none takes long, and the last state is the one that counts."""
    origin = RecordingOrigin()
    port = origin.port
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER}}})
    statuses, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            request = b"GET /api/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % gateway.port
            statuses.append(raw.exchange(gateway.port, request, seconds=5).status)

    askers = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for asker in askers:
        asker.start()
    for _ in range(5):
        seen = len(statuses)
        wait_until(lambda: 200 in statuses[seen:], 10, "it answers while it is up")
        origin.stop()
        origin.drop()
        seen = len(statuses)
        wait_until(lambda: 502 in statuses[seen:], 10, "it is told while it is down")
        origin = RecordingOrigin(port=port)
    stop.set()
    for asker in askers:
        asker.join(10)
    assert set(statuses) == {200, 502}
    origin.stop()


def test_a_slow_upstream_does_not_slow_the_others(gateway, origin):
    slow = [connect(gateway.port) for _ in range(50)]
    for client in slow:
        client.send(b"GET /silent/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % gateway.port)
    for _ in range(50):
        answer = requests.get(f"{gateway.url}/good/x", timeout=5)
        assert answer.status_code == 200 and answer.elapsed.total_seconds() < 0.4
    for client in slow:
        assert client.head().startswith(b"HTTP/1.1 504")
        client.close()

"""Clients that take their time, by the thousand: nobody else notices, and each is cut when its time is over."""

import contextlib
import itertools
import subprocess
import time

import pytest
import requests
from conftest import CANARY
from harness import debian, metrics
from harness.processes import wait_until
from harness.script import connect

MODES = {
    "headers": ("-H", "-i", "1"),
    "body": ("-B", "-i", "1", "-s", "8192"),
    "range": ("-R", "-a", "5", "-b", "3000"),
    "read": ("-X", "-w", "1", "-y", "10", "-n", "1", "-z", "32", "-k", "1"),
}


@pytest.fixture
def gateway(origin, start_gateway):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
    origin.answer = lambda request: head if request.method == "HEAD" else head + b"x" * 100_000
    limits = {"header_timeout": "2s", "body_idle_timeout": "2s", "response_timeout": "3s", "idle_timeout": "2s"}
    auth = {"strategy": "bearer", "token": CANARY}
    return start_gateway({"limits": limits, "routes": {"api": {"upstream": origin.url, "auth": auth}}})


@contextlib.contextmanager
def attacking(gateway, mode, connections, seconds):
    size = ("-c", str(connections), "-r", str(connections), "-l", str(seconds))
    with subprocess.Popen(
        [debian.binary("slowhttptest"), *MODES[mode], *size, "-p", "3", "-u", f"{gateway.url}/api/x"],
        env=debian.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as attack:
        try:
            yield attack
        finally:
            attack.kill()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("connections, seconds", [(200, 3), pytest.param(1000, 120, marks=pytest.mark.soak)])
def test_the_service_stays_available(gateway, origin, mode, connections, seconds):
    """All the time: who is cut or answered within a moment comes back."""
    pid = gateway.process.pid
    before, most, attacks, ranges = metrics.descriptors(pid), 0, 0, 0
    answered = [time.monotonic()]
    ends = answered[0] + seconds
    while time.monotonic() < ends:
        attacks += 1
        with attacking(gateway, mode, connections, seconds) as attack:
            while attack.poll() is None and time.monotonic() < ends:
                answer = requests.get(f"{gateway.url}/api/x", timeout=10)
                assert answer.status_code == 200 and len(answer.content) == 100_000
                answered.append(time.monotonic())
                most = max(most, metrics.descriptors(pid))
        ranges += sum(request.value("range") is not None for request in origin.requests)
        origin.forget()
    longest = max(later - sooner for sooner, later in itertools.pairwise(answered))
    print(f"{attacks} attacks, up to {most} descriptors, {len(answered)} answers up to {longest * 1000:.0f} ms apart")
    # A short run on a busy machine says less than a long one.
    assert longest < (1 if seconds >= 120 else 3)
    if mode == "range":
        # Each of these requests is answered at once.
        assert ranges > 0.9 * connections * (attacks - 1)
    else:
        assert most - before > 0.9 * connections, "or nothing is proved"
    wait_until(lambda: metrics.descriptors(pid) <= before + 8, 10, lambda: f"{metrics.descriptors(pid)} of {before} descriptors")


def test_each_slow_head_is_cut_when_its_time_is_over(gateway, origin):
    """Bytes that dribble in do not move the deadline."""
    clients = [connect(gateway.port) for _ in range(100)]
    started = time.monotonic()
    for client in clients:
        client.send(f"GET /api/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n".encode())
    for _ in range(16):
        for client in clients:
            client.send(b"X")
        assert clients[0].is_quiet(0.1)
    for client in clients:
        assert client.head().startswith(b"HTTP/1.1 408")
        client.close()
    assert 1.9 < time.monotonic() - started < 3.5
    assert origin.raw() == b""

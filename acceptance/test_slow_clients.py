"""Clients that take their time, by the thousand: nobody else notices, and each is cut when its time is over."""

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
    origin.answer = lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
    limits = {"header_timeout": "2s", "body_idle_timeout": "2s", "response_timeout": "3s", "idle_timeout": "2s"}
    auth = {"strategy": "bearer", "token": CANARY}
    return start_gateway({"limits": limits, "routes": {"api": {"upstream": origin.url, "auth": auth}}})


@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("connections, seconds", [(200, 5), pytest.param(1000, 120, marks=pytest.mark.soak)])
def test_the_service_stays_available(gateway, mode, connections, seconds):
    command = [debian.binary("slowhttptest"), *MODES[mode], "-c", str(connections), "-r", "500", "-l", str(seconds)]
    before = metrics.descriptors(gateway.process.pid)
    with subprocess.Popen(
        [*command, "-p", "3", "-u", f"{gateway.url}/api/x"],
        env=debian.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as attack:
        try:
            longest, asked = 0, 0
            while attack.poll() is None:
                answer = requests.get(f"{gateway.url}/api/x", timeout=10)
                assert answer.status_code == 200 and len(answer.content) == 100_000
                longest, asked = max(longest, answer.elapsed.total_seconds()), asked + 1
        finally:
            attack.kill()
    print(f"{asked} requests meanwhile, the slowest {longest * 1000:.0f} ms")
    assert asked > seconds and longest < 3
    pid = gateway.process.pid
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

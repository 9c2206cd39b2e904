"""A process that has no descriptors left: it waits, says so, and goes on when there are some again."""

import contextlib
import os
import resource
import time

import pytest
import requests
from harness.configs import plain_config
from harness import proc
from harness.processes import wait_until
from harness.script import connect, get


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def limit_of(gateway):
    return resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)


SAID = "No connection can be accepted"


def test_clients_that_cannot_be_accepted_take_no_time(origin, start_gateway):
    gateway = start_gateway(plain_config(origin))
    pid = gateway.process.pid
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (80, 80))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(gateway.port)) for _ in range(120)]
        wait_until(lambda: SAID in gateway.text(), 5, "it says so")
        before = cpu_seconds(pid)
        time.sleep(1)
        assert cpu_seconds(pid) - before < 0.3, "of a second, for nothing"
        assert gateway.text().count(SAID) == 1
        # Who has been accepted is served, as far as nothing has to be opened for it.
        clients[0].send(get(gateway, path="/nowhere"))
        assert clients[0].head().startswith(b"HTTP/1.1 404 ")
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("most, warns", [(4096, True), (20_000, False)])
def test_the_limit_is_raised_as_far_as_it_may_be(origin, make_gateway, most, warns):
    gateway = make_gateway(plain_config(origin))
    gateway.wrapper = ["prlimit", f"--nofile=256:{most}", *gateway.wrapper]
    gateway.start()
    assert limit_of(gateway) == (most, most)
    assert ("limits.connections is more than" in gateway.text()) == warns


def test_clients_of_the_admin_listener_leave_the_proxy_its_descriptors(origin, start_gateway):
    """Who asks slowly is one of so many, and nobody takes more."""
    gateway = start_gateway(plain_config(origin))
    before = proc.descriptors(gateway.process.pid)
    slow = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 30000\r\n\r\n" % gateway.admin_port
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            client = stack.enter_context(connect(gateway.admin_port))
            with contextlib.suppress(ConnectionError):
                client.send(slow)
        wait_until(lambda: proc.descriptors(gateway.process.pid) > before + 100, 5, "some are accepted")
        with connect(gateway.port) as client:
            client.send(get(gateway, "Connection: close"))
            assert client.head().startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: proc.descriptors(gateway.process.pid) <= before + 140, 5, "no more than 128 and a few")
        assert gateway.run("status").returncode == 0, "the oldest gives way to an operator"
    wait_until(lambda: proc.descriptors(gateway.process.pid) <= before + 8, 10, "all have left")
    assert requests.get(gateway.admin_url + "/healthz", timeout=5).status_code == 200, "others come in"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_upstream_is_not_blamed_for_what_the_gateway_lacks(origin, start_gateway, host):
    """A 503 that says when to come back, and of no next hop: the upstream was not asked."""
    upstream = origin.url.replace("127.0.0.1", host)
    gateway = start_gateway({"workers": 1, "routes": {"api": {"upstream": upstream, "auth": "none"}}})
    pid = gateway.process.pid
    with connect(gateway.port) as client:
        client.send(get(gateway, path="/nowhere"))
        assert client.until(b"}").startswith(b"HTTP/1.1 404 ")
        limit = limit_of(gateway)
        most = max(proc.descriptor_numbers(pid)) + 1
        # Those below that are free, and some more: one that was open for a moment can have been counted.
        clients = most - proc.descriptors(pid) + 4
        with contextlib.ExitStack() as stack:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, limit[1]))
            for _ in range(clients):
                stack.enter_context(connect(gateway.port))
            client.send(get(gateway))
            client.until(b"\n")
            answer = client.until(b"}")
            assert answer.startswith(b"HTTP/1.1 503 "), answer
            assert b"\r\nRetry-After: 1\r\n" in answer and b"next-hop" not in answer, answer
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ")


def test_connections_that_were_refused_take_no_place(origin, start_gateway):
    """Clients that stay after they were refused must not keep out those who come when there is room again."""
    gateway = start_gateway({**plain_config(origin), "limits": {"connections": 2}})
    with contextlib.ExitStack() as stack:
        admitted = [stack.enter_context(connect(gateway.port)) for _ in range(2)]
        for client in admitted:
            client.send(get(gateway))
            assert client.head().startswith(b"HTTP/1.1 200 ")
        for _ in range(5):
            refused = stack.enter_context(connect(gateway.port))
            assert refused.head().startswith(b"HTTP/1.1 503 ")
        admitted[0].close()
        time.sleep(0.2)
        client = stack.enter_context(connect(gateway.port))
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ")

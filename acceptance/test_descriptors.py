"""A process that has no descriptors left: it waits, says so, and goes on when there are some again."""

import contextlib
import os
import resource
import time

import pytest
from conftest import plain_config
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

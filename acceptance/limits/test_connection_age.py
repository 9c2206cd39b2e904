"""`limits.connection_max_age`: upstream connections do not live for ever, so that requests reach servers that came up later."""

import threading
import time

import pytest
import requests
from harness import processes
from harness.configs import BEARER, plain_config
from harness.origin import response
from harness.script import OK


def ask(gateway, path="/api/x"):
    answer = requests.get(gateway.url + path, timeout=10)
    assert answer.status_code == 200, answer.text
    return answer.text


def start(start_gateway, origin, **limits):
    # One worker, so that a connection that may be used again is.
    return start_gateway({**plain_config(origin), "workers": 1, "limits": limits})


def test_a_connection_takes_no_more_requests_when_it_is_too_old(origin, start_gateway):
    gateway = start(start_gateway, origin, connection_max_age="1s")
    began, asked = time.monotonic(), 0
    while len(origin.streams) < 3:
        ask(gateway)
        asked += 1
        assert time.monotonic() - began < 10, "the connection is still in use"
        time.sleep(0.02)
    took = time.monotonic() - began
    # Two connections have ended; some a little before their time, so that not all end at once.
    assert 1 <= took < 3.5, took
    assert asked > 20, "hardly a connection was used again"
    processes.wait_until(lambda: len(origin.connections) == 1, 2, "the old connections are closed")


def test_a_request_under_way_on_an_old_connection_is_finished(make_script, start_gateway):
    may_end = threading.Event()

    def steps(wire, number):
        if number == 0:
            wire.head()
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
            assert may_end.wait(10)
            wire.send(b"cd")
        while wire.head():
            wire.send(OK)

    origin = make_script(steps)
    gateway = start(start_gateway, origin, connection_max_age="1s")
    with requests.get(gateway.url + "/api/x", timeout=10, stream=True) as answer:
        assert answer.raw.read(2) == b"ab"
        # Longer than the age.
        time.sleep(1.3)
        may_end.set()
        assert answer.raw.read(2) == b"cd"
    assert ask(gateway) == "ok" and len(origin.wires) == 2


# Without waiting


def test_the_default_is_ten_minutes(origin, make_gateway, clock):
    config = {**plain_config(origin), "workers": 1, "limits": {"idle_timeout": "2h"}}
    gateway = make_gateway(config, environment=clock.all_time).start()
    try:
        for later, connections in (("+0", 1), ("+240", 1), ("+660", 2)):
            clock.set(later)
            ask(gateway)
            assert len(origin.streams) == connections, later
    finally:
        gateway.kill()


@pytest.fixture
def moving(names, make_origin, make_gateway, clock):
    """Starts a gateway before a name that leads to the first of two upstreams, which keep their connections."""
    old = make_origin(lambda request: response(200, b"old"), 0, "127.0.0.1")
    make_origin(lambda request: response(200, b"new"), old.port, "127.0.0.2")
    names.addresses["moving.test"] = ["127.0.0.1"]
    started = []

    def start(**limits):
        route = {"upstream": f"http://moving.test:{old.port}", "auth": BEARER, "allow_plaintext": True}
        limits = {"idle_timeout": "2h", **limits}
        gateway = make_gateway({"workers": 1, "limits": limits, "routes": {"api": route}}, environment=clock.all_time)
        gateway.wrapper = names.wrapper()
        started.append(gateway)
        return gateway.start()

    yield start
    for gateway in started:
        gateway.kill()


@pytest.mark.parametrize("age, later", [(None, "+660"), ("1m", "+90")], ids=["default", "one-minute"])
def test_a_name_that_changes_its_address_is_followed(moving, names, clock, age, later):
    """A busy connection would stay at the old address for ever."""
    gateway = moving(**({"connection_max_age": age} if age else {}))
    assert [ask(gateway) for _ in range(3)] == ["old"] * 3
    names.addresses["moving.test"] = ["127.0.0.2"]
    assert ask(gateway) == "old"
    clock.set(later)
    assert [ask(gateway) for _ in range(3)] == ["new"] * 3

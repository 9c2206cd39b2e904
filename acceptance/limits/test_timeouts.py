"""How long the gateway waits for an upstream that says nothing, and how it finds out that the other end of a connection is gone."""

import pathlib
import time

import pytest
import requests
from harness import processes
from harness.configs import BEARER
from harness.events import named
from harness.processes import wait_until
from harness.script import connect, get

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


def pausing(before, within=0):
    """Steps of an origin that waits before the head of its response, and within the content."""

    def steps(wire, number):
        while wire.head():
            time.sleep(before)
            wire.send(OK + b"o")
            time.sleep(within)
            wire.send(b"k")

    return steps


@pytest.fixture
def start(make_script, start_gateway):
    """A gateway whose routes lead to one origin: `api`, which has the limits of all, and `slow`, which has `timeouts`."""

    def start(steps, timeouts, **limits):
        route = {"upstream": make_script(steps).url, "auth": BEARER}
        return start_gateway({"limits": limits, "routes": {"api": route, "slow": {**route, "timeouts": timeouts}}})

    return start


def ask(gateway, route):
    return requests.get(f"{gateway.url}/{route}/x", timeout=20)


def test_a_slow_route_gets_its_answer_and_another_a_504_that_names_the_key(start):
    gateway = start(pausing(1), {"response": "20s"}, response_timeout="500ms")
    assert ask(gateway, "slow").text == "ok"
    late = ask(gateway, "api")
    assert late.status_code == 504
    assert late.json()["detail"] == (
        "The upstream did not answer within 500ms (limits.response_timeout; a route can set timeouts.response)."
    )


def test_a_route_can_be_less_patient_than_the_others(start):
    gateway = start(pausing(1), {"response": "500ms"})
    assert ask(gateway, "api").text == "ok"
    late = ask(gateway, "slow")
    assert late.status_code == 504
    assert late.json()["detail"] == "The upstream did not answer within 500ms (timeouts.response of the route)."
    [event] = wait_until(lambda: named(gateway, "request_failed"), 10, "the event is there")
    assert event["error_code"] == "response_timeout" and "timeouts.response" in event["detail"]["explanation"]


def test_a_pause_within_a_response_has_a_limit_of_its_own(start):
    gateway = start(pausing(1, 1), {"response": "20s", "idle": "500ms"})
    assert ask(gateway, "api").text == "ok"
    with connect(gateway.port) as client:
        client.send(get(gateway, path="/slow/x"))
        assert client.head().startswith(b"HTTP/1.1 200 ")
        assert client.to_end() == b"o" and client.ended == "reset"
    [event] = wait_until(lambda: named(gateway, "request_failed"), 10, "the event is there")
    assert event["detail"]["cut"] == "true" and "500ms (timeouts.idle of the route)" in event["detail"]["explanation"]


def test_a_long_pause_is_allowed_to_a_route(start):
    gateway = start(pausing(0, 1), {"idle": "20s"}, response_timeout="500ms")
    assert ask(gateway, "slow").text == "ok"
    with pytest.raises(requests.RequestException):
        ask(gateway, "api")


@pytest.mark.parametrize("protocol", ["http1", "http2"])
def test_the_timeouts_are_those_of_the_route_in_either_version(protocol, make_http2_origin, make_script, start_gateway):
    if protocol == "http1":
        origin = make_script(lambda wire, number: wire.to_end())
    else:
        origin = make_http2_origin()
        origin.respond = lambda stream: None
    route = {"upstream": origin.url, "auth": BEARER, "protocol": protocol, "timeouts": {"response": "500ms"}}
    gateway = start_gateway({"routes": {"api": route}})
    begun = time.monotonic()
    assert ask(gateway, "api").status_code == 504
    assert time.monotonic() - begun < 10


def test_a_reload_changes_the_timeouts(start, make_script):
    gateway = start(pausing(1), {"response": "20s"})
    upstream = make_script(pausing(1)).url
    gateway.configure({"routes": {"slow": {"upstream": upstream, "auth": BEARER, "timeouts": {"response": "500ms"}}}})
    assert "timeouts" in gateway.run("plan").stdout
    assert gateway.run("reload").returncode == 0
    assert ask(gateway, "slow").status_code == 504


# TCP keepalive, as the system shows it for each socket: the state of the timer, and when it is due in hundredths of a second


def keepalives(local=None, remote=None):
    """Seconds until the next probe on each established connection with such a port, or None where there is none."""
    found = []
    for line in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, here, there, state, _, timer, *_ = line.split()
        ports = [int(place.partition(":")[2], 16) for place in (here, there)]
        if state == "01" and ports[0 if local else 1] == (local or remote):
            kind, _, due = timer.partition(":")
            found.append(int(due, 16) / 100 if kind == "02" else None)
    return found


def are_probed(seconds, **port):
    """One connection, whose next probe is due within the last tenth of so many seconds."""

    def are():
        found = keepalives(**port)
        return len(found) == 1 and (found[0] is None if seconds is None else found[0] and 0.9 * seconds < found[0] <= seconds)

    wait_until(are, 5, lambda: f"{seconds} s, not {keepalives(**port)}")


@pytest.mark.parametrize(("keepalive", "seconds"), [("10m", 600), ("0s", None)])
def test_both_sides_are_probed(make_script, start_gateway, keepalive, seconds):
    origin = make_script(pausing(0))
    gateway = start_gateway({"limits": {"keepalive": keepalive}, "routes": {"api": {"upstream": origin.url, "auth": BEARER}}})
    port = int(origin.url.rpartition(":")[2])
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
        are_probed(seconds, local=gateway.port)
        are_probed(seconds, remote=port)


def test_a_reload_changes_what_is_accepted_from_then_on(make_script, start_gateway):
    routes = {"routes": {"api": {"upstream": make_script(pausing(0)).url, "auth": BEARER}}}
    gateway = start_gateway({"limits": {"keepalive": "20m"}, **routes})
    with connect(gateway.port):
        are_probed(1200, local=gateway.port)
    wait_until(lambda: not keepalives(local=gateway.port), 10, "it has left")
    gateway.configure({"limits": {"keepalive": "10m"}, **routes})
    assert gateway.run("reload").returncode == 0
    with connect(gateway.port):
        are_probed(600, local=gateway.port)


def test_both_ends_of_a_tunnel_are_probed(make_script, start_gateway):
    origin = make_script(lambda wire, number: wire.to_end())
    port = int(origin.url.rpartition(":")[2])
    tunnel = {
        "address": f"127.0.0.1:{processes.free_port()}", "intercept": True,
        "connect": {"unrouted": "tunnel", "allow": ["127.0.0.1"], "ports": [port]},
    }
    routes = {"named": {"upstream": "https://routed.test", "auth": BEARER}}
    start_gateway({"limits": {"keepalive": "10m"}, "routes": routes}, listeners=[tunnel])
    own = int(tunnel["address"].rpartition(":")[2])
    with connect(own) as client:
        client.send(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert client.head().startswith(b"HTTP/1.1 200 ")
        are_probed(600, local=own)
        are_probed(600, remote=port)

"""`limits.pending_per_route`: how many requests of one route wait for a token at a time."""

import json
import time

import pytest
import requests
from harness.script import connect, get
from harness.token_server import who


@pytest.fixture
def api(make_origin):
    return make_origin(who)


@pytest.fixture
def start(token_server, api, start_gateway):
    """Two routes that share a credential, on one event loop, so that the number is exact."""

    def start(**limits):
        credential = {"strategy": "delegated", "url": token_server.url + "/token?id={{unique_id}}", "unique_id": "42"}
        route = {"upstream": api.url, "auth": "user"}
        return start_gateway(
            {
                "workers": 1,
                "limits": {"pending_per_route": 2, **limits},
                "credentials": {"user": credential},
                "routes": {"api": route, "other": route},
            }
        )

    return start


def ask(gateway, path="/api/x"):
    """Sends a request whose answer is read later."""
    wire = connect(gateway.port)
    wire.send(get(gateway, path=path))
    return wire


def refusals(wires, wanted, seconds=10):
    """Waits until that many of them have an answer: what it says (status, Retry-After, problem), and those that have none."""
    answered, deadline = [], time.monotonic() + seconds
    while len(answered) < wanted:
        assert time.monotonic() < deadline, f"{len(answered)} of {wanted} requests were refused"
        answered += [wire for wire in wires if wire not in answered and not wire.is_quiet(0.02)]
    found = []
    for wire in answered:
        status, *lines = wire.head().decode().splitlines()
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        problem = json.loads(wire.exactly(int(fields["content-length"])))
        found.append((status.split()[1], fields.get("retry-after"), problem["code"], problem["detail"]))
    return found, [wire for wire in wires if wire not in answered]


def test_as_many_wait_as_the_limit_says_and_the_rest_is_refused_at_once(start, token_server, api):
    gateway = start()
    token_server.open.clear()
    wires = [ask(gateway) for _ in range(5)]
    refused, waiting = refusals(wires, 3)
    # The limit is of each route: another one with the same credential has places of its own.
    other = ask(gateway, "/other/x")

    token_server.open.set()
    for wire in [*waiting, other]:
        assert wire.head().startswith(b"HTTP/1.1 200 "), wire.received
    detail = "Too many requests already wait for a credential of this route."
    assert refused == [("503", "1", "overloaded", detail)] * 3 and len(waiting) == 2
    assert (api.count(), token_server.count()) == (3, 1), "a refused request reached the upstream or asked for a token"
    for wire in [*wires, other]:
        wire.close()


def test_a_request_that_waits_no_longer_gives_its_place_back(start, token_server):
    gateway = start(credential_timeout="1s", pending_per_route=1)
    token_server.open.clear()
    # There is one place. Each request takes it after the one before, which got no token in time, or got one.
    for _ in range(3):
        assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 504
    token_server.open.set()
    for _ in range(3):
        assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
        assert gateway.run("token", "clear", "user").returncode == 0

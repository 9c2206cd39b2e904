"""What one client may use: `access.clients.NAME.limits`, and its share of what all clients use and wait for."""

import contextlib
import json
import threading
import time

import pytest
import requests
from h2.settings import SettingCodes
from harness import processes, streams
from harness.origin import response
from harness.raw import Answer
from harness.script import connect, get
from harness.token_server import who

TOKENS = {"ada": "token-of-ada-1", "bob": "token-of-bob-2"}


def clients(**limits):
    """`access` with both clients; the limits are those of ada."""
    found = {name: {"token": token} for name, token in TOKENS.items()}
    if limits:
        found["ada"]["limits"] = limits
    return {"clients": found}


class HoldingOrigin:
    """Holds its answers to /held... until it is told to answer."""

    def __init__(self, make_origin):
        self.answers = threading.Event()
        self.origin = make_origin(self.answer)
        self.url = self.origin.url

    def answer(self, request):
        if request.target.startswith("/held"):
            assert self.answers.wait(30)
        return response(200, request.target.encode())

    def paths(self):
        return [request.target for request in list(self.origin.requests)]

    def arrive(self, count):
        processes.wait_until(lambda: self.origin.count() >= count, 10, lambda: f"{count} requests; there are {self.paths()}")


@pytest.fixture
def holding(make_origin):
    origin = HoldingOrigin(make_origin)
    yield origin
    origin.answers.set()


@pytest.fixture
def ask():
    """Sends requests whose answers are read later."""
    with contextlib.ExitStack() as wires:

        def ask(gateway, client, path="/api/held"):
            wire = wires.enter_context(connect(gateway.port))
            wire.send(get(gateway, f"Authorization: Bearer {TOKENS[client]}", path=path))
            return wire

        yield ask


def answer(wire):
    """The whole answer that comes."""
    found = Answer(wire.head())
    [length] = found.values("content-length")
    found.body = wire.exactly(int(length))
    return found


def status(gateway, client):
    return requests.get(gateway.url + "/api/x", headers={"Authorization": f"Bearer {TOKENS[client]}"}, timeout=10).status_code


def is_too_many(found):
    """429 that says when to come back (RFC 6585 section 4)."""
    assert found.status == 429, found.data
    assert int(found.values("retry-after")[0]) >= 1
    assert found.values("content-type") == ["application/problem+json"] and json.loads(found.body)["status"] == 429
    return True


def seen_by(gateway, wires):
    """All that was sent on these is read, and handled before this returns, by the one worker of the gateway."""
    ports = [wire.connection.getsockname()[1] for wire in wires]

    def is_read():
        return all(streams.waiting(gateway.port, port)[1] == 0 for port in ports)

    processes.wait_until(is_read, 10, "the gateway reads what was sent")
    assert requests.get(gateway.url + "/nowhere", timeout=10).status_code == 401


# At the same time


def test_requests_beyond_concurrent_are_refused_and_those_of_others_are_not(start_gateway, holding, ask):
    gateway = start_gateway(
        {"access": clients(concurrent=2), "workers": 2, "routes": {"api": {"upstream": holding.url, "auth": "none"}}}
    )
    held = [ask(gateway, "ada") for _ in range(2)]
    holding.arrive(2)
    # On each worker, whichever connection is its.
    for _ in range(8):
        assert is_too_many(answer(ask(gateway, "ada")))
    others = [ask(gateway, "bob") for _ in range(5)]
    holding.arrive(7)
    assert status(gateway, "bob") == 200
    holding.answers.set()
    assert [answer(wire).status for wire in held + others] == [200] * 7
    assert holding.origin.count() == 8, "a refused request reached the origin"
    processes.wait_until(lambda: status(gateway, "ada") == 200, 5, "the place is free again")


def test_a_request_counts_until_its_answer_is_whole(start_gateway, make_script, ask):
    may_end = threading.Event()

    def steps(wire, number):
        while wire.head().endswith(b"\r\n\r\n"):
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
            assert may_end.wait(10)
            wire.send(b"cd")

    gateway = start_gateway(
        {"access": clients(concurrent=1), "routes": {"api": {"upstream": make_script(steps).url, "auth": "none"}}}
    )
    first = ask(gateway, "ada")
    assert first.head().startswith(b"HTTP/1.1 200 ") and first.exactly(2) == b"ab"
    assert is_too_many(answer(ask(gateway, "ada")))
    may_end.set()
    assert first.exactly(2) == b"cd"
    processes.wait_until(lambda: status(gateway, "ada") == 200, 5, "the place is free again")


def test_a_client_that_leaves_gives_its_place_back(start_gateway, holding, ask):
    gateway = start_gateway({"access": clients(concurrent=1), "routes": {"api": {"upstream": holding.url, "auth": "none"}}})
    for number in range(3):
        wire = ask(gateway, "ada")
        processes.wait_until(lambda number=number: holding.paths().count("/held") == number + 1, 10, "the request arrives")
        assert status(gateway, "ada") == 429
        wire.reset()
        processes.wait_until(lambda: status(gateway, "ada") == 200, 5, "the place is free again")


# In a second


def test_requests_beyond_per_second_are_refused_and_those_of_others_are_not(start_gateway, holding):
    gateway = start_gateway({"access": clients(per_second=5), "routes": {"api": {"upstream": holding.url, "auth": "none"}}})
    began = time.monotonic()
    with requests.Session() as ada, requests.Session() as bob:
        ada.headers["Authorization"], bob.headers["Authorization"] = (f"Bearer {TOKENS[name]}" for name in ("ada", "bob"))
        found = [ada.get(gateway.url + "/api/x", timeout=10) for _ in range(40)]
        took = time.monotonic() - began
        assert {bob.get(gateway.url + "/api/x", timeout=10).status_code for _ in range(40)} == {200}
    statuses = [one.status_code for one in found]
    # One second's requests at once, then one each 200 ms.
    assert set(statuses) == {200, 429} and 5 <= statuses.count(200) <= 6 + took * 5, (statuses, took)
    assert statuses[:5] == [200] * 5
    assert {one.headers["Retry-After"] for one in found if one.status_code == 429} == {"1"}
    assert holding.origin.count() == statuses.count(200) + 40
    processes.wait_until(lambda: status(gateway, "ada") == 200, 2, "after the time of Retry-After")


def test_both_limits_hold(start_gateway, holding, ask):
    gateway = start_gateway(
        {"access": clients(concurrent=1, per_second=1000), "routes": {"api": {"upstream": holding.url, "auth": "none"}}}
    )
    first = ask(gateway, "ada")
    holding.arrive(1)
    assert is_too_many(answer(ask(gateway, "ada")))
    holding.answers.set()
    assert answer(first).status == 200


# What all wait for


@pytest.fixture
def start(start_gateway, holding):
    """One worker, so that the numbers are exact."""

    def start(**limits):
        limits = {"connections_per_upstream": 2, "connect_timeout": "20s", **limits}
        routes = {"api": {"upstream": holding.url, "auth": "none"}}
        return start_gateway({"workers": 1, "limits": limits, "access": clients(), "routes": routes})

    return start


def test_who_asks_little_is_served_soon_although_another_has_a_hundred_waiting(start, holding, ask):
    # One connection, so that the order in which the origin reads is the order of the gateway.
    gateway = start(pending_per_upstream=200, connections_per_upstream=1)
    many = [ask(gateway, "ada") for _ in range(100)]
    holding.arrive(1)
    seen_by(gateway, many)
    few = [ask(gateway, "bob", f"/api/held/{number}") for number in range(3)]
    seen_by(gateway, few)
    holding.answers.set()
    assert [answer(wire).status for wire in few + many] == [200] * 103
    places = [place for place, path in enumerate(holding.paths()) if path != "/held"]
    # One is under way when bob comes, and from then on they take turns.
    assert len(places) == 3 and max(places) < 8, places


def split(wires, refused, seconds=10):
    """Waits until that many have an answer: these answers, and the wires that have none yet."""
    found, waiting = [], list(wires)

    def have_come():
        for wire in list(waiting):
            if not wire.is_quiet(0):
                waiting.remove(wire)
                found.append(answer(wire))
        return len(found) >= refused

    processes.wait_until(have_come, seconds, lambda: f"{refused} answers; there are {[one.status for one in found]}")
    return found, waiting


def test_no_client_takes_every_place_of_those_who_wait_for_a_connection(start, holding, ask):
    gateway = start(pending_per_upstream=10)
    many = [ask(gateway, "ada") for _ in range(12)]
    holding.arrive(2)
    seen_by(gateway, many)
    few = [ask(gateway, "bob", f"/api/held/{number}") for number in range(3)]
    # They are let in, and the newest of ada's give way.
    refused, waiting = split(many, 3)
    assert [(one.status, one.values("retry-after")) for one in refused] == [(503, ["1"])] * 3
    assert all(wire.is_quiet(0) for wire in few)
    holding.answers.set()
    assert [answer(wire).status for wire in few + waiting] == [200] * 12


def test_places_are_no_shares_a_client_alone_can_have_them_all(start, holding, ask):
    gateway = start(pending_per_upstream=10)
    many = [ask(gateway, "ada") for _ in range(13)]
    refused, waiting = split(many, 1)
    assert [one.status for one in refused] == [503]
    holding.answers.set()
    assert [answer(wire).status for wire in waiting] == [200] * 12


def test_no_client_takes_every_place_of_those_who_wait_for_a_token(start_gateway, make_origin, token_server, ask):
    credential = {"strategy": "delegated", "url": token_server.url + "/token?id={{unique_id}}", "unique_id": "42"}
    config = {
        "workers": 1,
        "limits": {"pending_per_route": 10},
        "access": clients(),
        "credentials": {"user": credential},
        "routes": {"api": {"upstream": make_origin(who).url, "auth": "user"}},
    }
    gateway = start_gateway(config)
    token_server.open.clear()
    many = [ask(gateway, "ada") for _ in range(20)]
    refused, waiting = split(many, 10)
    few = [ask(gateway, "bob") for _ in range(2)]
    seen_by(gateway, few)
    token_server.open.set()
    assert [answer(wire).status for wire in few] == [200] * 2
    # Those of ada's that had to wait have waited, and the others were told when to come back.
    statuses = [answer(wire).status for wire in waiting] + [one.status for one in refused]
    assert set(statuses) == {200, 503} and 5 <= statuses.count(200) <= 10, statuses
    assert {tuple(one.values("retry-after")) for one in refused} == {("1",)}
    assert token_server.count() == 1


# What all have in use

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"


def gets_six_of_eight(gateway, ask):
    """Of eight a client gets six. It waits for more until its own streams end, and another client does not wait."""
    waiting = [ask(gateway, "ada") for _ in range(8)]
    streams_of_ada = []

    def begin(count):
        def have_begun():
            for wire in list(waiting):
                if not wire.is_quiet(0):
                    waiting.remove(wire)
                    streams_of_ada.append(wire)
                    assert wire.head().startswith(b"HTTP/1.1 200 ")
            return len(streams_of_ada) >= count

        processes.wait_until(have_begun, 10, lambda: f"{count} streams; there are {len(streams_of_ada)}")

    begin(6)
    seen_by(gateway, waiting)
    assert [status(gateway, "bob") for _ in range(3)] == [200] * 3
    assert len(waiting) == 2 and all(wire.is_quiet(0.2) for wire in waiting)
    for count in (7, 8):
        streams_of_ada[count - 7].reset()
        begin(count)
    assert status(gateway, "bob") == 200


def test_no_client_takes_every_connection(start_gateway, make_script, ask):
    def steps(wire, number):
        while (head := wire.head()).endswith(b"\r\n\r\n"):
            if b"/held" in head.partition(b"\r\n")[0]:
                wire.send(EVENTS)
            else:
                wire.send(response(200, b"ok"))

    gateway = start_gateway(
        {
            "workers": 1,
            "limits": {"connections_per_upstream": 8, "connect_timeout": "20s"},
            "access": clients(),
            "routes": {"api": {"upstream": make_script(steps).url, "auth": "none"}},
        }
    )
    gets_six_of_eight(gateway, ask)


def test_no_client_takes_every_stream_of_an_http2_upstream(start_gateway, make_http2_origin, ask):
    """Two connections of four streams each."""
    origin = make_http2_origin(settings={SettingCodes.MAX_CONCURRENT_STREAMS: 4})

    def respond(stream):
        if "/held" in stream.path:
            stream.head(200, ("content-type", "text/event-stream"))
            stream.send(b"data: 1\n\n")
        else:
            stream.answer(200, b"ok")

    origin.respond = respond
    gateway = start_gateway(
        {
            "workers": 1,
            "limits": {"connections_per_upstream": 2, "connect_timeout": "20s"},
            "access": clients(),
            "routes": {"api": {"upstream": origin.url, "protocol": "http2", "auth": "none"}},
        }
    )
    gets_six_of_eight(gateway, ask)
    assert len(origin.connections) == 2


def test_a_client_without_a_name_can_have_every_connection(start_gateway, holding):
    """Where clients have no names, there are no others to leave connections for."""
    limits = {"connections_per_upstream": 4}
    gateway = start_gateway({"workers": 1, "limits": limits, "routes": {"api": {"upstream": holding.url, "auth": "none"}}})
    with contextlib.ExitStack() as wires:
        all_wires = [wires.enter_context(connect(gateway.port)) for _ in range(4)]
        for wire in all_wires:
            wire.send(get(gateway, path="/api/held"))
        holding.arrive(4)
        holding.answers.set()
        assert [answer(wire).status for wire in all_wires] == [200] * 4


# The configuration


@pytest.mark.parametrize(
    "limits",
    [{"concurrent": 0}, {"per_second": 0}, {"per_minute": 5}, {"concurrent": "many"}],
    ids=["none-at-a-time", "none-in-a-second", "unknown", "no-number"],
)
def test_other_limits_are_a_mistake_of_the_configuration(make_gateway, origin, limits):
    config = {"access": clients(**limits), "routes": {"api": {"upstream": origin.url, "auth": "none"}}}
    result = make_gateway(config).run("check")
    assert result.returncode == 3 and "access.clients.ada.limits" in result.stderr, result.stderr

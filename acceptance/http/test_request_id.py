"""`Gateway-Request-Id`: every answer names its request, and events, requests and log lines have the same name."""

import json
import re

import pytest
import requests
from harness import raw
from harness.configs import BEARER
from harness.origin import response
from harness.processes import wait_until
from harness.script import OK, connect, get

NAME = "gateway-request-id"
ID = r"[0-9a-v]{7,}-[0-9a-v]+"


def config(origin, **changes):
    routes = {"api": {"upstream": origin.url, "auth": BEARER}, "down": {"upstream": "http://127.0.0.1:1", "auth": BEARER}}
    return {"routes": routes, **changes}


def named(answer, name=NAME):
    """The one name that an answer has."""
    [value] = answer.values(name)
    assert re.fullmatch(ID, value), value
    return value


#: Of every way to be answered: what is asked, and the status.
ANSWERS = {
    "forwarded": (lambda gateway: get(gateway, "Connection: close"), 200),
    "HEAD": (lambda gateway: get(gateway, "Connection: close", method="HEAD"), 200),
    "HTTP/1.0": (lambda gateway: get(gateway, version="1.0"), 200),
    "down": (lambda gateway: get(gateway, "Connection: close", path="/down/x"), 502),
    "no route": (lambda gateway: get(gateway, "Connection: close", path="/nowhere"), 404),
    "method": (lambda gateway: get(gateway, "Connection: close", method="TRACE"), 405),
    "misdirected": (lambda gateway: b"GET / HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n", 421),
    "malformed": (lambda gateway: b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
    "version": (lambda gateway: b"GET / HTTP/9.9\r\n\r\n", 505),
    "too long": (lambda gateway: b"GET /%s HTTP/1.1\r\n\r\n" % (b"x" * 100_000), 414),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_answer_has_one(origin, start_gateway, kind):
    gateway = start_gateway(config(origin))
    asks, status = ANSWERS[kind]
    names = set()
    for _ in range(3):
        answer = raw.exchange(gateway.port, asks(gateway))
        assert answer.status == status, answer.data
        names.add(named(answer))
    assert len(names) == 3, "each request has a name of its own"


def test_an_interim_answer_has_none_and_a_tunnel_has_one(start_gateway, make_script):
    def steps(wire, number):
        head = wire.head()
        if b"Upgrade: echo" in head:
            wire.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        else:
            wire.send(b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + OK)
        wire.to_end()

    gateway = start_gateway(config(make_script(steps)))
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert b"gateway-request-id" not in client.head().lower()
        named(raw.Answer(client.head()))
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: Upgrade", "Upgrade: echo"))
        named(raw.Answer(client.head()))


def test_it_is_always_the_gateways_own(origin, start_gateway):
    theirs = ("gateway-request-id: theirs", "Gateway_Request_Id: theirs", "X-Request-Id: x-kept", "Request-Id: kept")
    origin.answer = lambda request: response(200, b"hi", *theirs)
    gateway = start_gateway(config(origin))
    answer = raw.exchange(gateway.port, get(gateway, "Gateway-Request-Id: forged", "X-Request-Id: mine", "Connection: close"))
    assert named(answer) not in ("theirs", "forged", "mine")
    assert b"theirs" not in answer.data
    assert answer.values("x-request-id") == ["x-kept"] and answer.values("request-id") == ["kept"]
    assert origin.last().values("X-Request-Id") == ["mine"]
    raw.exchange(gateway.port, get(gateway, "Connection: close"))
    assert origin.last().values("X-Request-Id") == [], "what the client did not say is not said for it"


def test_no_trailer_can_forge_it(start_gateway, make_script):
    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n%s: forged\r\n\r\n" % (b"Gateway-Request-Id"))
        wire.to_end()

    gateway = start_gateway(config(make_script(steps)))
    answer = raw.exchange(gateway.port, get(gateway, "Connection: close"))
    assert b"forged" not in answer.data


@pytest.mark.parametrize("name", ["X-Request-Id", "trace_id"])
def test_the_field_can_have_another_name(origin, start_gateway, name):
    origin.answer = lambda request: response(200, b"hi", f"{name}: theirs", "Gateway-Request-Id: passes")
    gateway = start_gateway(config(origin, request_id_header=name))
    assert f"request_id_header: {name}" in gateway.run("plan").stdout
    for path, status in (("/api/x", 200), ("/down/x", 502)):
        answer = raw.exchange(gateway.port, get(gateway, "Connection: close", path=path))
        assert answer.status == status
        named(answer, name.lower())
    assert raw.exchange(gateway.port, get(gateway, "Connection: close")).values(NAME) == ["passes"]


def test_it_can_be_left_out_and_a_reload_changes_it(origin, start_gateway):
    gateway = start_gateway(config(origin, request_id_header="off"))
    for path in ("/api/x", "/down/x"):
        answer = raw.exchange(gateway.port, get(gateway, "Connection: close", path=path))
        assert answer.values(NAME) == []
    gateway.configure(config(origin))
    assert "request_id_header" in gateway.run("reload").stdout
    named(raw.exchange(gateway.port, get(gateway, "Connection: close")))


def test_a_field_with_another_meaning_is_refused(origin, start_gateway, tmp_path):
    gateway = start_gateway(config(origin))
    gateway.configure(config(origin, request_id_header="Set-Cookie"))
    refused = gateway.run("check")
    assert refused.returncode == 3 and "request_id_header" in refused.stderr + refused.stdout


def test_events_requests_and_log_are_found_by_both_ids(origin, start_gateway):
    gateway = start_gateway(config(origin, audit={"usage": "request"}))
    mine = {"X-Request-Id": "mine-1"}
    good = requests.get(gateway.url + "/api/x", headers=mine, timeout=20)
    bad = requests.get(gateway.url + "/down/x", headers=mine, timeout=20)
    ids = [good.headers[NAME], bad.headers[NAME]]
    assert bad.json()["request_id"] == ids[1]

    def found(name, *more):
        result = gateway.run("audit", "query", "--request", name, "--json", *more)
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    wait_until(lambda: len(found("mine-1", "--requests")) == 2, 20, "both have a row")
    wait_until(lambda: len(found("mine-1")) == 4, 20, lambda: f"two events, two requests, not {found('mine-1')}")
    assert [row["request_id"] for row in found("mine-1", "--requests")] == ids
    assert {row["client_request_id"] for row in found("mine-1")} == {"mine-1"}
    assert [row["event"] for row in found(ids[0]) if "event" in row] == ["injected"]
    [failed] = [row for row in found(ids[1]) if "event" in row]
    assert failed["event"] == "request_failed" and failed["error_code"] == "connection_refused"
    [request] = found(ids[1], "--requests")
    assert request["reason"] == "connection_refused" and request["credential_ms"] >= 0
    assert request["connection_ms"] is None and request["response_ms"] is None
    [request] = found(ids[0], "--requests")
    assert request["duration_ms"] >= request["response_ms"] >= request["connection_ms"] >= request["credential_ms"] >= 0
    assert found("other") == []
    [line] = [line for line in gateway.text().splitlines() if "Request failed" in line]
    logged = json.loads(line)
    assert logged["request_id"] == ids[1] and logged["client_request_id"] == "mine-1"


@pytest.mark.parametrize("harmful", ["a b", "a;b", "x" * 65, "<i>", "a\u00e9"])
def test_an_id_that_could_harm_goes_on_and_is_not_kept(origin, start_gateway, harmful):
    gateway = start_gateway(config(origin, audit={"usage": "request"}))
    ask = get(gateway, "Connection: close", path="/api/x").replace(b"\r\n\r\n", b"\r\nX-Request-Id: %s\r\n\r\n" % harmful.encode())
    assert raw.exchange(gateway.port, ask).status == 200
    assert harmful.encode() in origin.raw()
    gateway.stop()
    [row] = [json.loads(line) for line in gateway.run("audit", "query", "--requests", "--json").stdout.splitlines()]
    assert row["client_request_id"] is None

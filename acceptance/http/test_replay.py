"""A request whose token was rejected is sent again, once, whole or not at all."""

import concurrent.futures
import itertools
import json
import re
import threading
import time

import pytest
import requests
from harness import raw
from harness.bytes import REJECTED, chunked
from harness.issuer import Issuer
from harness.origin import response
from harness.script import connect, get, wait

LIMIT = 64 << 10
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def issuer():
    issuer = Issuer()
    yield issuer
    issuer.stop()


def config(origin, issuer):
    return {
        "tokens": {"store": "memory"},
        "credentials": {"oauth": issuer.credential()},
        "routes": {"api": {"upstream": origin.url, "auth": "oauth"}},
    }


def token(request):
    [value] = request.values("authorization")
    return int(value.removeprefix("Bearer token-"))


@pytest.fixture
def picky(origin):
    """Takes no token before the second; what it rejects it has read whole."""
    origin.answer = lambda request: OK if token(request) > 1 else REJECTED
    return origin


@pytest.fixture
def gateway(picky, issuer, start_gateway):
    return start_gateway(config(picky, issuer))


def head(gateway, *fields, method="POST"):
    lines = [f"{method} /api/x HTTP/1.1", f"Host: 127.0.0.1:{gateway.port}", *fields, "Connection: close", "", ""]
    return "\r\n".join(lines).encode()


BODIES = {"empty": b"", "held": bytes(range(256)) * 39, "at the limit": b"a" * LIMIT}


@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
def test_a_body_that_is_held_arrives_whole_the_second_time(gateway, picky, issuer, body):
    answer = raw.exchange(gateway.port, head(gateway, f"Content-Length: {len(body)}") + body)
    assert (answer.status, answer.body) == (200, b"ok")
    assert [(token(request), request.body == body) for request in picky.requests] == [(1, True), (2, True)]
    assert issuer.count == 2


def test_a_chunked_body_that_is_held_arrives_whole_the_second_time(gateway, picky):
    body = bytes(range(256)) * 100
    answer = raw.exchange(gateway.port, head(gateway, "Transfer-Encoding: chunked") + chunked(body))
    assert answer.status == 200
    assert [(request.framing, request.body == body) for request in picky.requests] == [("chunked", True)] * 2


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_just_over_the_limit_is_not_sent_again(gateway, picky, issuer, framing):
    body = b"a" * (LIMIT + 1)
    request = (
        head(gateway, f"Content-Length: {len(body)}") + body
        if framing == "length"
        else head(gateway, "Transfer-Encoding: chunked") + chunked(body)
    )
    answer = raw.exchange(gateway.port, request)
    assert answer.status == 401 and b"request body not held" in answer.head
    assert [request.body == body for request in picky.requests] == [True]
    # The token was renewed all the same: the next request needs no second try.
    assert raw.exchange(gateway.port, head(gateway, method="GET")).status == 200
    assert picky.count() == 2 and issuer.count == 2


def test_a_rejection_before_the_body_is_asked_for_costs_the_client_nothing(make_script, issuer, start_gateway):
    """Expect: 100-continue: the client is asked for the body once, by the second try."""

    def steps(wire, number):
        while b"token-1" in (head := wire.head()):
            assert wire.is_quiet(0.1)
            wire.send(REJECTED)
        if head:
            wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            assert wire.exactly(5) == b"hello"
            wire.send(OK)

    gateway = start_gateway(config(make_script(steps), issuer))
    with connect(gateway.port) as client:
        client.send(head(gateway, "Content-Length: 5", "Expect: 100-continue"))
        assert client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"hello")
        assert client.head().startswith(b"HTTP/1.1 200") and client.exactly(2) == b"ok"


def test_a_rejection_after_the_body_was_asked_for_is_replayed_with_it(make_script, issuer, start_gateway):
    bodies = []

    def steps(wire, number):
        while head := wire.head():
            wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            bodies.append(wire.exactly(5))
            wire.send(REJECTED if b"token-1" in head else OK)

    gateway = start_gateway(config(make_script(steps), issuer))
    with connect(gateway.port) as client:
        client.send(head(gateway, "Content-Length: 5", "Expect: 100-continue"))
        assert client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"hello")
        final = client.head()
        while final == b"HTTP/1.1 100 Continue\r\n\r\n":
            final = client.head()
        assert final.startswith(b"HTTP/1.1 200")
    assert bodies == [b"hello", b"hello"]


def test_a_rejection_in_the_middle_of_the_upload_continues_where_the_client_is(make_script, issuer, start_gateway):
    """The second try begins with what is held and goes on with what still comes."""
    rejected, arrived = threading.Event(), []

    def steps(wire, number):
        while head := wire.head():
            if b"token-1" in head:
                wire.exactly(3)
                wire.send(REJECTED)
                rejected.set()
                wire.to_end()
            else:
                arrived.append(wire.exactly(6))
                wire.send(OK)

    gateway = start_gateway(config(make_script(steps), issuer))
    with connect(gateway.port) as client:
        client.send(head(gateway, "Content-Length: 6") + b"abc")
        wait(rejected, 10, "the origin has rejected the token")
        client.send(b"def")
        assert client.head().startswith(b"HTTP/1.1 200")
    assert arrived == [b"abcdef"]


def test_a_websocket_handshake_is_sent_again_too(make_script, issuer, start_gateway):
    def steps(wire, number):
        while head := wire.head():
            assert b"upgrade: websocket" in head.lower()
            if b"token-1" in head:
                wire.send(REJECTED)
                continue
            wire.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            wire.send(wire.exactly(4)[::-1])
            return

    gateway = start_gateway(config(make_script(steps), issuer))
    with connect(gateway.port) as client:
        fields = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
        lines = ["GET /api/x HTTP/1.1", f"Host: 127.0.0.1:{gateway.port}", *fields, "", ""]
        client.send("\r\n".join(lines).encode())
        assert client.head().startswith(b"HTTP/1.1 101")
        client.send(b"ping")
        assert client.exactly(4) == b"gnip" and client.to_end() == b""


@pytest.mark.parametrize("ends", [False, True], ids=["stays-open", "ends"])
def test_what_comes_while_a_token_is_awaited_is_no_answer_to_the_second_try(make_script, issuer, start_gateway, ends):
    """Nobody reads the connection of the first try meanwhile."""

    def steps(wire, number):
        if b"token-1" not in wire.head():
            return wire.send(OK)
        with issuer.lock:
            wire.send(REJECTED)
            assert wire.is_quiet(0.2)
            wire.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 6\r\n\r\npoison")
            if ends:
                wire.end_of_writing()
        assert wire.to_end() == b"", "something was sent over it"

    gateway = start_gateway(config(make_script(steps), issuer))
    with connect(gateway.port) as client:
        client.send(head(gateway, method="GET"))
        assert client.head().startswith(b"HTTP/1.1 200") and client.exactly(2) == b"ok"


@pytest.mark.timing
def test_a_hundred_rejections_at_once_cause_one_renewal(gateway, picky, issuer):
    """Each with a body of its own, which comes back with its answer: none is sent again with what another one held."""
    second, number_of = threading.Event(), itertools.count(1)

    def answer(request):
        if token(request) > 1:
            return response(200, request.body)
        # Otherwise the first rejection could come before any other request has left: those then go with the next token at once.
        if next(number_of) == 2:
            second.set()
        second.wait(10)
        return REJECTED

    picky.answer = answer
    bodies = [b"%04d" % number * 1250 for number in range(100)]
    answers = raw.all_at_once(gateway.port, [head(gateway, f"Content-Length: {len(body)}") + body for body in bodies])
    assert {answer.status for answer in answers} == {200}
    assert [number for number in range(100) if answers[number].body != bodies[number]] == []
    assert issuer.count == 2
    assert sorted(request.body for request in picky.requests if token(request) == 2) == bodies
    rejected = {request.body for request in picky.requests if token(request) == 1}
    assert len(rejected) > 1 and rejected <= set(bodies)


def test_a_token_that_is_rejected_twice_is_the_clients_to_see(gateway, origin, issuer):
    origin.answer = lambda request: REJECTED
    answer = raw.exchange(gateway.port, head(gateway, method="GET"))
    assert answer.status == 401 and origin.count() == 2 and b"retried=1" in answer.head


#: Contents of a rejected answer, none of which is the client's to see: head, what comes at once, and what comes late.
CONTENTS = {
    "length": (b"Content-Length: 6\r\n", b"poison", b""),
    "chunked": (b"Transfer-Encoding: chunked\r\n", b"6\r\npoison\r\n0\r\n\r\n", b""),
    "until it closes": (b"", b"poison", b""),
    "late": (b"Content-Length: 6\r\n", b"poi", b"son"),
    "chunks that come late": (b"Transfer-Encoding: chunked\r\n", b"6\r\npoi", b"son\r\n0\r\n\r\n"),
    "more than its length": (b"Content-Length: 6\r\n", b"poison" + OK.replace(b"ok", b"no"), b""),
}


@pytest.mark.parametrize("fields, now, late", CONTENTS.values(), ids=[name.replace(" ", "-") for name in CONTENTS])
def test_nothing_of_a_rejected_answer_reaches_the_client(make_script, issuer, start_gateway, fields, now, late):
    def steps(wire, number):
        while request := wire.head():
            if b"token-1" in request:
                wire.send(REJECTED.replace(b"Content-Length: 0\r\n", fields) + now)
                if late:
                    time.sleep(0.1)
                    wire.send(late)
                if not fields:
                    return
            else:
                wire.send(OK)

    gateway = start_gateway(config(make_script(steps), issuer))
    for _ in range(2):
        with connect(gateway.port) as client:
            client.send(head(gateway, method="GET"))
            answer = client.to_end()
            assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\nok") and answer.count(b"HTTP/1.1 ") == 1


#: Bodies as they are sent, and what the origin has to get both times.
FRAMED = {
    "empty chunked": ("Transfer-Encoding: chunked", b"0\r\n\r\n", b""),
    "trailers": ("Transfer-Encoding: chunked", b"2\r\nhi\r\n0\r\nX-Sum: 1\r\nAuthorization: Bearer theirs\r\n\r\n", b"hi"),
    "an extension": ("Transfer-Encoding: chunked", b'2;a="b"\r\nhi\r\n0\r\n\r\n', b"hi"),
    "version 1.0": ("Content-Length: 2", b"hi", b"hi"),
}


@pytest.mark.parametrize("name", FRAMED, ids=[name.replace(" ", "-") for name in FRAMED])
def test_a_body_comes_in_the_same_framing_the_second_time(gateway, picky, name):
    framing, body, content = FRAMED[name]
    request = head(gateway, framing) + body
    answer = raw.exchange(gateway.port, request.replace(b"HTTP/1.1", b"HTTP/1.0") if "1.0" in name else request)
    assert (answer.status, answer.body) == (200, b"ok")
    first, second = picky.requests
    assert (token(first), token(second)) == (1, 2)
    assert first.body == second.body == content and first.framing == second.framing


def test_a_chunked_body_that_was_asked_for_is_sent_again_with_its_trailers(make_script, issuer, start_gateway):
    bodies = []

    def steps(wire, number):
        while request := wire.head():
            wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            bodies.append(wire.until(b"\r\n\r\n"))
            wire.send(REJECTED if b"token-1" in request else OK)

    gateway = start_gateway(config(make_script(steps), issuer))
    with connect(gateway.port) as client:
        client.send(head(gateway, "Transfer-Encoding: chunked", "Expect: 100-continue"))
        assert client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nCookie: a\r\n\r\n")
        final = client.head()
        while final == b"HTTP/1.1 100 Continue\r\n\r\n":
            final = client.head()
        assert final.startswith(b"HTTP/1.1 200")
    assert bodies == [b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"] * 2


def test_a_body_over_the_limit_that_was_asked_for_is_not_sent_again(make_script, issuer, start_gateway):
    def steps(wire, number):
        request = wire.head()
        wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert wire.exactly(LIMIT + 1) == b"a" * (LIMIT + 1)
        wire.send(REJECTED if b"token-1" in request else OK)

    origin = make_script(steps)
    gateway = start_gateway(config(origin, issuer))
    with connect(gateway.port) as client:
        client.send(head(gateway, f"Content-Length: {LIMIT + 1}", "Expect: 100-continue"))
        assert client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"a" * (LIMIT + 1))
        assert client.head().startswith(b"HTTP/1.1 401 ")
    assert len(origin.wires) == 1


def test_the_second_try_has_a_right_to_a_fresh_connection_of_its_own(make_script, issuer, start_gateway):
    """Each of the two that were pooled dies under the request: one before the token was rejected, one afterwards."""
    both = threading.Barrier(2, timeout=10)
    asked = []

    def steps(wire, number):
        if number < 2:
            wire.head()
            both.wait()
            wire.send(OK)
            asked.append((number, b"token-1" in wire.head()))
        elif b"token-1" in wire.head():
            wire.send(REJECTED.replace(b"Content-Length: 0", b"Content-Length: 0\r\nConnection: close"))
        else:
            wire.send(OK)

    # One event loop, so that both connections are in its pool.
    gateway = start_gateway({"workers": 1, **config(make_script(steps), issuer)})
    kept = head(gateway, method="GET").replace(b"Connection: close\r\n", b"")
    with connect(gateway.port) as first, connect(gateway.port) as second:
        for client in (first, second):
            client.send(kept)
        for client in (first, second):
            assert client.head().startswith(b"HTTP/1.1 200") and client.exactly(2) == b"ok"
        first.send(kept)
        assert first.head().startswith(b"HTTP/1.1 200") and first.exactly(2) == b"ok"
    assert len(asked) == 2 and sorted(rejected for _, rejected in asked) == [False, True]


def ask_for(kind, gateway, name):
    """One request of this kind, whose body says whose it is; whether it got its own answer."""
    body, field = name * 50, f"X-Id: {name.decode()}"
    with connect(gateway.port, 30) as client:
        if kind == "websocket":
            client.send(get(gateway, field, "Connection: Upgrade", "Upgrade: websocket") + name)
            return client.head().startswith(b"HTTP/1.1 101 ") and client.exactly(2 * len(name)) == name + name
        if kind == "chunked":
            request = get(gateway, field, "Transfer-Encoding: chunked", method="POST")
            client.send(request + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        else:
            expects = ("Expect: 100-continue",) if kind == "expect" else ()
            client.send(get(gateway, field, f"Content-Length: {len(body)}", *expects, method="POST"))
            if expects and client.head() != b"HTTP/1.1 100 Continue\r\n\r\n":
                return False
            client.send(body)
        is_good = client.head().startswith(b"HTTP/1.1 200 ")
        return is_good and client.exactly(len(name) + len(body)) == name + body


def test_requests_of_every_kind_that_are_rejected_at_once_get_each_their_own_answer(make_script, issuer, start_gateway):
    done, lock = [], threading.Lock()

    def steps(wire, number):
        while request := wire.head():
            name = re.search(rb"x-id: (\S+)", request.lower())[1]
            is_old = b"token-1\r\n" in request
            if b"upgrade: websocket" in request.lower() and not is_old:
                wire.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + name)
                return wire.send(wire.exactly(len(name)))
            if b"expect:" in request.lower() and not is_old:
                wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", request.lower())
            if is_old and b"expect:" in request.lower():
                wire.send(REJECTED)
                continue
            body = wire.chunked() if b"chunked" in request.lower() else wire.exactly(int(length[1]) if length else 0)
            if is_old:
                wire.send(REJECTED)
                continue
            with lock:
                done.append(name)
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(name) + len(body)) + name + body)

    gateway = start_gateway(config(make_script(steps), issuer))
    kinds = ["websocket", "expect", "chunked", "length"]
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        asked = [pool.submit(ask_for, kinds[number % 4], gateway, b"id%03d" % number) for number in range(120)]
        assert [number for number, one in enumerate(asked) if not one.result()] == []
    assert issuer.count == 2 and len(done) == len(set(done)) == 90


def test_what_was_not_sent_again_is_not_counted_as_replayed(make_script, issuer, start_gateway):
    """The token cannot be renewed: the client gets the first answer."""

    def steps(wire, number):
        while wire.head():
            issuer.fails = True
            wire.send(REJECTED)

    limits = {"credential_timeout": "1s"}
    gateway = start_gateway({**config(make_script(steps), issuer), "limits": limits, "audit": {"usage": "request"}})
    with connect(gateway.port) as client:
        client.send(head(gateway, method="GET"))
        answer = client.to_end()
    assert answer.startswith(b"HTTP/1.1 401 ") and b"not retried" in answer
    counted = requests.get(f"{gateway.admin_url}/metrics", timeout=10).text
    assert not re.search(r"^gateway_replays_total\{.*\} [1-9]", counted, re.M)
    gateway.stop()
    [row] = [json.loads(line) for line in gateway.run("audit", "query", "--requests", "--json").stdout.splitlines()]
    assert row["replayed"] is False

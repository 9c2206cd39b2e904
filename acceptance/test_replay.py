"""A request whose token was rejected is sent again, once, whole or not at all."""

import threading

import pytest
from harness import raw
from harness.issuer import Issuer
from harness.origin import response
from harness.script import connect, wait

LIMIT = 64 << 10
REJECTED = b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer error="invalid_token"\r\nContent-Length: 0\r\n\r\n'
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


def chunked(body, size=1000):
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


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


def test_a_hundred_rejections_at_once_cause_one_renewal(gateway, picky, issuer):
    """Each with a body of its own, which comes back with its answer: none is sent again with what another one held."""
    picky.answer = lambda request: response(200, request.body) if token(request) > 1 else REJECTED
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

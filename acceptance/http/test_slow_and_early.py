"""Clients that take their answer slowly, answers that come early, and what may still be said then; judged byte by byte."""

import threading
import time

import pytest
from harness import proc
from harness.bytes import CONTINUE, REJECTED, content_of, framed, pattern
from harness.issuer import Issuer
from harness.processes import wait_until
from harness.script import OK, answering, connect, connect_narrow, get, wait

def whole(content, framing):
    return b"HTTP/1.1 200 OK\r\n" + framed(content, framing)


# Clients that are slow to take their answer


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_client_that_pauses_longer_than_it_may_be_idle_gets_every_byte(against, framing):
    """A connection is not idle while something of the answer is still to be taken, though all of it is written."""
    content = pattern(3 << 20)
    gateway, _ = against(answering(whole(content, framing)), idle_timeout="1s")
    with connect_narrow(gateway.port) as client:
        client.send(get(gateway))
        client.head()
        for _ in range(2):
            time.sleep(1.3)
            # Less than the third of its buffer that the system wants free before it lets the gateway write on.
            wanted = len(client.received) + (200 << 10)
            while len(client.received) < wanted and client.more():
                pass
        time.sleep(1.3)
        taken = client.exactly(len(content)) if framing == "length" else content_of(client)
        is_whole = taken == content
        assert is_whole, (len(taken), client.ended)


@pytest.mark.parametrize("size", [3 << 20, 30 << 20], ids=["all-written", "much-to-write"])
def test_a_client_that_takes_nothing_any_more_is_closed_in_the_end(against, size):
    answer = whole(pattern(size), "length")
    gateway, _ = against(answering(answer), idle_timeout="1s", response_timeout="1s")
    pid = gateway.process.pid
    before = proc.steady_descriptors(pid)
    with connect_narrow(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200")
        assert proc.descriptors(pid) > before
        wait_until(lambda: proc.descriptors(pid) <= before, 12, lambda: f"{proc.descriptors(pid)} of {before} descriptors")
        client.to_end()
        assert size == 3 << 20 or len(client.received) < len(answer), "it was not for the end of the answer"


def test_an_answer_before_one_that_is_cut_is_whole(against):
    content = pattern(1 << 20)

    def steps(wire, number):
        while b" /first " in wire.head():
            wire.send(whole(content, "length"))
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nxx")

    gateway, _ = against(steps)
    with connect_narrow(gateway.port) as client:
        client.send(get(gateway, path="/api/first") + get(gateway, path="/api/second"))
        time.sleep(1.5)
        assert client.head().startswith(b"HTTP/1.1 200 OK\r\n")
        is_whole = client.exactly(len(content)) == content
        assert is_whole, (len(client.received), client.ended)
        rest = client.to_end()
        assert client.ended == "reset", "the client sees a failure, not an end"
        assert not rest or rest.startswith(b"HTTP/1.1 200 OK\r\n")


# Answers that come before the request is whole


def test_an_answer_instead_of_100_may_take_longer_than_a_body_that_nobody_asked_for(against):
    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 8\r\n\r\n")
        for letter in b"not you!":
            time.sleep(0.4)
            wire.send(bytes([letter]))
        wire.to_end()

    gateway, _ = against(steps, body_idle_timeout="1s")
    with connect(gateway.port) as client:
        client.send(get(gateway, "Expect: 100-continue", "Content-Length: 10", method="POST"))
        assert client.head().startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert client.exactly(8) == b"not you!", (client.received, client.ended)


@pytest.mark.parametrize("fields", [(), ("Connection: close",)], ids=["kept", "close"])
def test_a_client_that_stops_its_upload_for_an_early_answer_gets_all_of_it(against, fields):
    """RFC 9112 §9.5: who sees an error while sending ceases to send; with a length that was said, by closing its half."""
    content, has_stopped = pattern(300_000), threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 300000\r\n\r\n" + content[:100_000])
        wait(has_stopped, 10, "the client has closed its half")
        time.sleep(0.7)
        wire.send(content[100_000:])
        wire.to_end()

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Content-Length: 1000000", *fields, method="POST") + b"x" * 50_000)
        assert client.head().startswith(b"HTTP/1.1 413 ")
        client.end_of_writing()
        has_stopped.set()
        is_whole = client.exactly(len(content)) == content
        assert is_whole, (len(client.received), client.ended)


def test_a_100_that_comes_with_a_rejection_reaches_the_client_before_the_second_try(make_script, start_gateway):
    """By then another request has brought a newer token, so the second try begins at once; it need not say 100 again."""
    has_come, may_answer, bodies = threading.Event(), threading.Event(), []

    def steps(wire, number):
        while head := wire.head():
            if b" /upload " not in head:
                wire.send(REJECTED if b"token-1\r\n" in head else OK)
            elif b"token-1\r\n" in head:
                has_come.set()
                wait(may_answer, 10, "there is a newer token")
                wire.send(CONTINUE + REJECTED)
                wire.to_end()
            else:
                bodies.append(wire.exactly(5))
                wire.send(OK)

    issuer, origin = Issuer(), make_script(steps)
    try:
        credential = {"tokens": {"store": "memory"}, "credentials": {"oauth": issuer.credential()}}
        gateway = start_gateway({**credential, "routes": {"api": {"upstream": origin.url, "auth": "oauth"}}})
        with connect(gateway.port, 3) as client, connect(gateway.port) as other:
            client.send(get(gateway, "Expect: 100-continue", "Content-Length: 5", method="POST", path="/api/upload"))
            wait(has_come, 10, "the origin has the request")
            other.send(get(gateway))
            assert other.head().startswith(b"HTTP/1.1 200 ")
            may_answer.set()
            started = time.monotonic()
            assert client.head() == CONTINUE
            assert time.monotonic() - started < 1
            client.send(b"hello")
            final = client.head()
            assert final.startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok", final
    finally:
        issuer.stop()
    assert bodies == [b"hello"] and issuer.count == 2


# Connections to the origin that are no longer good


@pytest.mark.parametrize("first", ["request", "end"])
def test_a_post_over_a_connection_that_had_ended_before_is_done_once_over_another(against, first):
    """The gateway finds the request and the end of the connection in one turn: it has not sent anything yet."""
    may_close, is_closed, bodies = threading.Event(), threading.Event(), []

    def steps(wire, number):
        wire.head()
        if number > 0:
            bodies.append(wire.exactly(3))
        wire.send(OK)
        if number == 0:
            wait(may_close, 10, "the gateway is halted")
            wire.close()
            is_closed.set()

    gateway, origin = against(steps)
    with connect(gateway.port) as client:

        def close():
            may_close.set()
            wait(is_closed, 10, "the connection is closed")

        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
        with gateway.halted():
            if first == "end":
                close()
            client.send(get(gateway, "Content-Length: 3", method="POST") + b"abc")
            if first == "request":
                close()
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
    assert bodies == [b"abc"] and len(origin.wires) == 2


@pytest.mark.parametrize("value", ["timeout=1", "timeout=1, max=100"])
def test_a_connection_that_the_origin_keeps_for_a_second_is_closed_by_then(against, value):
    over = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(f"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: {value}\r\nContent-Length: 2\r\n\r\nok".encode())
        if number == 0:
            assert wire.to_end() == b"", "it was used again"
            over.set()

    gateway, origin = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
        assert wait(over, 4, "the gateway closes the connection") < 1.2
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
    assert len(origin.wires) == 2


# What reaches the other side


def test_a_trailer_that_connection_names_is_for_one_hop_too(against):
    arrived = []

    def steps(wire, number):
        arrived.extend((wire.head().lower(), wire.until(b"\r\n\r\n")))
        wire.send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: X-Hop\r\nX-Hop: h\r\nTrailer: X-Sum\r\n\r\n"
            b"2\r\nok\r\n0\r\nX-A: 1\r\nx-hop: t\r\nX-Sum: 2\r\n\r\n"
        )

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        request = get(gateway, "Connection: X-Hop", "X-Hop: h", "Transfer-Encoding: chunked", method="POST")
        client.send(request + b"2\r\nhi\r\n0\r\nX-A: 1\r\nx-hop: t\r\nX-Sum: 1\r\n\r\n")
        arrived.extend((client.head().lower(), client.until(b"\r\n\r\n")))
    asked, request, answered, response = arrived
    assert b"x-hop" not in asked + answered
    expected = b"2\r\nhi\r\n0\r\nX-A: 1\r\nX-Sum: 1\r\n\r\n", b"2\r\nok\r\n0\r\nX-A: 1\r\nX-Sum: 2\r\n\r\n"
    assert (request, response) == expected


@pytest.mark.parametrize("line", [b"HTTP/1.1 200", b"HTTP/1.1 200 "], ids=["without-the-space", "with-it"])
def test_a_status_line_without_a_reason_gets_its_space(against, line):
    gateway, _ = against(answering(line + b"\r\nContent-Length: 2\r\n\r\nok"))
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 \r\n"), client.received
        assert client.exactly(2) == b"ok"


@pytest.mark.parametrize(
    "method, rest, target",
    [("OPTIONS", "", "*"), ("OPTIONS", "/", "/"), ("OPTIONS", "?a", "/?a"), ("GET", "", "/")],
    ids=["options", "with-a-path", "with-a-query", "get"],
)
def test_options_of_a_whole_server_in_absolute_form_becomes_the_asterisk(against, method, rest, target):
    """RFC 9112 §3.2.4: the last proxy says `*` where the target has neither path nor query."""
    gateway, origin = against(answering(OK))
    with connect(gateway.port) as client:
        host = f"127.0.0.1:{origin.port}"
        client.send(f"{method} http://{host}{rest} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert client.head().startswith(b"HTTP/1.1 200 ")
    assert origin.wires[0].received.startswith(f"{method} {target} HTTP/1.1\r\n".encode()), origin.wires[0].received


@pytest.mark.parametrize("chunks", [b"zz\r\n", b"5\nhello\n0\n\n", b"5\r\nhelloXX0\r\n\r\n"], ids=["size", "line-feeds", "end"])
def test_an_answer_whose_first_chunk_is_broken_does_not_end_without_a_byte(against, chunks):
    gateway, _ = against(answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks))
    for _ in range(5):
        with connect(gateway.port) as client:
            client.send(get(gateway))
            data = client.to_end()
            assert data.startswith((b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 502 ")), (data, client.ended)
            assert not data.endswith(b"\r\n0\r\n\r\n"), "it looks whole"
            assert client.ended == "reset" or data.startswith(b"HTTP/1.1 502 ")


@pytest.mark.timing
@pytest.mark.parametrize("ends", [False, True], ids=["open", "half-closed"])
def test_a_client_that_is_answered_early_may_take_its_answer_slowly(against, ends):
    """It has stopped sending its body; a connection is not ended over an answer that is still being taken (ADR 8)."""
    size = 20 << 20
    lost = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        try:
            for _ in range(20):
                wire.send(b"x" * (1 << 20))
        except OSError:
            lost.set()

    gateway, _ = against(steps, body_idle_timeout="1s", response_timeout="1s", idle_timeout="1s")
    with connect_narrow(gateway.port) as client:
        client.send(get(gateway, "Content-Length: 10", method="POST") + b"hello")
        assert client.head().startswith(b"HTTP/1.1 200 ")
        if ends:
            client.end_of_writing()
        started = time.monotonic()
        while time.monotonic() - started < 5:
            assert client.exactly(4096) == b"x" * 4096
            assert not lost.wait(0.1), f"given up after {time.monotonic() - started:.1f} s"
        client.reset()

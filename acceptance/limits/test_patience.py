"""Clients that wait for leave to send, and clients that go on sending after their answer: both must get it."""

import signal
import threading
import time

import pytest
from harness.bytes import CONTINUE
from harness.configs import plain_config
from harness import proc
from harness.processes import wait_until
from harness.script import OK, connect, get, wait

TOO_LARGE = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig"


# Expect: 100-continue


def asking(gateway, *fields, length=5):
    return get(gateway, f"Content-Length: {length}", "Expect: 100-continue", *fields, method="POST")


def test_who_waits_for_100_waits_as_long_as_the_origin_takes_for_it(against):
    """A body is late only when it may be sent; from then on it has all of its time."""
    bodies = []

    def steps(wire, number):
        wire.head()
        time.sleep(1.5)
        wire.send(CONTINUE)
        bodies.append(wire.exactly(5))
        wire.send(OK)

    gateway, _ = against(steps, body_idle_timeout="1s")
    with connect(gateway.port) as client:
        client.send(asking(gateway))
        head = client.head()
        assert head == CONTINUE, head
        time.sleep(0.7)
        client.send(b"hel")
        time.sleep(0.7)
        client.send(b"lo")
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
    assert bodies == [b"hello"]


def test_who_waits_for_100_gets_the_answer_that_comes_instead(against):
    def steps(wire, number):
        wire.head()
        time.sleep(1.5)
        wire.send(TOO_LARGE)
        wire.to_end()

    gateway, _ = against(steps, body_idle_timeout="1s")
    with connect(gateway.port) as client:
        client.send(asking(gateway))
        head = client.head()
        assert head.startswith(b"HTTP/1.1 413 "), head
        assert client.to_end() == b"big" and client.ended == "end"


@pytest.mark.parametrize("length", [0, 5])
def test_a_request_that_is_whole_waits_for_its_answer_and_not_for_a_body(against, length):
    def steps(wire, number):
        wire.head()
        wire.exactly(length)
        wire.send(CONTINUE)
        time.sleep(1.7)
        wire.send(OK)

    gateway, _ = against(steps, body_idle_timeout="1s")
    with connect(gateway.port) as client:
        client.send(asking(gateway, length=length) + b"hello"[:length])
        assert client.head() == CONTINUE
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"


@pytest.mark.parametrize("fields", [(), ("Content-Length: 5", "Expect: 100-continue")], ids=["request", "request-that-waits"])
@pytest.mark.parametrize("interim", [b"102 Processing", b"103 Early Hints\r\nLink: <a>"])
def test_an_upstream_that_says_that_it_is_busy_is_not_silent(against, interim, fields):
    """For longer than response_timeout in all; when it falls silent, it is cut as any other."""
    busy = b"HTTP/1.1 " + interim + b"\r\n\r\n"

    def steps(wire, number):
        wire.head()
        for _ in range(6):
            time.sleep(0.4)
            wire.send(busy)
        if number == 0:
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        else:
            wire.to_end()

    gateway, _ = against(steps, response_timeout="1s", body_idle_timeout="1s")
    for expected in (b"HTTP/1.1 200 ", b"HTTP/1.1 504 "):
        with connect(gateway.port) as client:
            client.send(get(gateway, *fields, method="PUT" if fields else "GET"))
            for _ in range(6):
                assert client.head() == busy
            assert client.head().startswith(expected)


def test_who_was_told_to_go_on_and_does_not_is_late(against):
    over = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(CONTINUE)
        assert wire.to_end() == b""
        over.set()

    gateway, _ = against(steps, body_idle_timeout="1s")
    with connect(gateway.port) as client:
        client.send(asking(gateway))
        assert client.head() == CONTINUE
        started = time.monotonic()
        head = client.head()
        assert head.startswith(b"HTTP/1.1 408 "), head
        assert 0.8 < time.monotonic() - started < 8
        wait(over, 5, "the origin's connection ends")


def test_an_origin_that_says_neither_100_nor_anything_else_is_late(against):
    """Nobody waits for ever: it is the origin that is silent, not the client."""

    def steps(wire, number):
        wire.head()
        wire.to_end()

    gateway, _ = against(steps, body_idle_timeout="1s", response_timeout="2s")
    with connect(gateway.port) as client:
        client.send(asking(gateway))
        started = time.monotonic()
        head = client.head()
        assert head.startswith(b"HTTP/1.1 504 "), head
        assert 1.8 < time.monotonic() - started < 8


def test_a_client_that_does_not_wait_for_100_is_served(against):
    """RFC 9110 §10.1.1: it need not wait, and does not when it has waited for a while."""
    bodies = []

    def steps(wire, number):
        wire.head()
        bodies.append(wire.exactly(5))
        wire.send(OK)

    gateway, _ = against(steps, body_idle_timeout="1s")
    with connect(gateway.port) as client:
        client.send(asking(gateway))
        time.sleep(0.5)
        client.send(b"hello")
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
    assert bodies == [b"hello"]


@pytest.mark.parametrize("expectation", ["100-continue", "100-Continue"])
def test_the_expectation_of_a_1_0_client_is_ignored(against, expectation):
    """RFC 9110 §10.1.1: it must be, and such a client cannot be told to go on."""
    bodies = []

    def steps(wire, number):
        if b"\r\nexpect:" in wire.head().lower():
            wire.send(CONTINUE)
        bodies.append(wire.exactly(5))
        wire.send(OK)

    gateway, origin = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Content-Length: 5", f"Expect: {expectation}", method="POST", version="1.0") + b"hello")
        head = client.head()
        assert head.startswith(b"HTTP/1.1 200 ") and client.to_end() == b"ok", head
    assert b"\r\nexpect" not in origin.wires[0].received.lower(), origin.wires[0].received
    assert bodies == [b"hello"]


# Answers that come before the upload is over


def upload_slowly(client, seconds):
    """Sends a mebibyte each second without looking at the answer, then ends; returns what stopped it, if anything did."""
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            client.send(b"x" * (1 << 16))
            time.sleep(1 / 16)
        client.end_of_writing()
    except OSError as problem:
        return problem
    return None


def judge(client, stopped, status, body):
    head = client.head()
    assert head.startswith(b"HTTP/1.1 " + status), (head, client.ended, stopped)
    assert body in client.to_end()
    assert (stopped, client.ended) == (None, "end"), "the upload was cut"


def test_a_long_upload_ends_in_peace_after_an_early_answer(against):
    """RFC 9112 §9.6: who closes reads on for as long as the other end has not noticed, here while more is coming."""

    def steps(wire, number):
        wire.head()
        wire.exactly(1000)
        wire.send(TOO_LARGE)

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Content-Length: 10485760", method="POST"))
        stopped = upload_slowly(client, 5)
        judge(client, stopped, b"413 ", b"big")


def test_a_long_upload_ends_in_peace_after_a_refusal_of_the_gateway(origin, start_gateway):
    gateway = start_gateway(plain_config(origin))
    with connect(gateway.port) as client:
        client.send(get(gateway, "Content-Length: 10485760", method="POST", path="/nowhere"))
        stopped = upload_slowly(client, 3)
        judge(client, stopped, b"404 ", b"no-route")
    assert origin.raw() == b""


def test_a_client_that_sends_nothing_more_after_its_last_answer_is_closed(against):
    """However long reading on may take: it is for who still sends."""

    def steps(wire, number):
        wire.head()
        wire.send(TOO_LARGE)

    gateway, _ = against(steps)
    pid = gateway.process.pid
    before = proc.descriptors(pid)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Content-Length: 10485760", method="POST") + b"x" * 1000)
        assert client.head().startswith(b"HTTP/1.1 413 ")
        assert client.to_end() == b"big" and client.ended == "end"
        wait_until(lambda: proc.descriptors(pid) <= before, 5, lambda: f"{proc.descriptors(pid)} of {before}")


# An empty line behind a request: some old clients send one (RFC 9112 §2.2), and have begun no other request


def asked_with(gateway, client, stray):
    client.send(get(gateway, "Content-Length: 2", method="POST") + b"hi" + stray)
    assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
    time.sleep(0.1)


STRAY = pytest.mark.parametrize("stray", [b"", b"\r", b"\r\n"], ids=["none", "half", "whole"])


def taking(wire, number):
    while head := wire.head():
        wire.exactly(2 if b"ontent-Length: 2" in head else 0)
        wire.send(OK)


@STRAY
def test_a_client_that_has_begun_no_request_is_told_of_no_timeout(against, stray):
    gateway, _ = against(taking, header_timeout="1s", idle_timeout="2500ms")
    with connect(gateway.port) as client:
        asked_with(gateway, client, stray)
        started = time.monotonic()
        assert client.to_end() == b"" and client.ended == "end"
        assert 2 < time.monotonic() - started < 8
    with connect(gateway.port) as client:
        asked_with(gateway, client, stray)
        time.sleep(1.5)
        client.send((b"\n" if stray == b"\r" else b"") + get(gateway, "Connection: close"))
        assert client.head().startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("pieces", [[b"\r\n", b"\r\n"], [b"\r", b"\n", b"\r", b"\n"], [b"\r\n\r\n"]], ids=len)
def test_a_second_empty_line_is_refused_however_it_comes(against, pieces):
    gateway, origin = against(taking)
    with connect(gateway.port) as client:
        asked_with(gateway, client, b"")
        for piece in pieces:
            client.send(piece)
            time.sleep(0.05)
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 400 ")
    assert origin.wires[0].received.count(b" HTTP/1.1\r\n") == 1


@STRAY
def test_a_head_that_comes_byte_by_byte_behind_it_is_one(against, stray):
    gateway, _ = against(taking)
    with connect(gateway.port) as client:
        asked_with(gateway, client, stray)
        for byte in (b"\n" if stray == b"\r" else b"") + get(gateway, "Connection: close"):
            client.send(bytes([byte]))
        assert client.head().startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("stray", [b"", b"\r\n"], ids=["none", "whole"])
def test_a_reload_counts_for_a_request_that_had_not_begun(against, start_gateway, make_origin, stray):
    origin = make_origin()
    gateway = start_gateway(plain_config(origin))
    with connect(gateway.port) as client:
        client.send(get(gateway, "Content-Length: 2", method="POST") + b"hi" + stray)
        assert client.head().startswith(b"HTTP/1.1 200 ")
        client.until(b"origin\n")
        time.sleep(0.1)
        auth = {"strategy": "bearer", "token": "another-of-the-reload"}
        gateway.configure({"routes": {"api": {"upstream": origin.url, "auth": auth}}})
        assert gateway.run("reload").returncode == 0
        client.send(get(gateway, "Connection: close"))
        assert client.head().startswith(b"HTTP/1.1 200 ")
    assert origin.last().value("authorization") == "Bearer another-of-the-reload"


@STRAY
def test_a_stop_waits_for_no_request_that_had_not_begun(against, stray):
    gateway, _ = against(taking)
    with connect(gateway.port) as client:
        asked_with(gateway, client, stray)
        gateway.process.send_signal(signal.SIGTERM)
        assert client.to_end() == b"" and client.ended == "end"
        # A request that has begun would have 30 seconds.
        assert gateway.process.wait(10) == 0

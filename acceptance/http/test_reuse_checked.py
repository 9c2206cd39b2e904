"""Connections to the origin are looked at before each use, and who waits for one gets one that is good."""

import asyncio
import collections
import itertools
import random
import re
import socket
import threading
import time

import pytest
from harness.processes import wait_until
from harness.script import OK, connect, get, wait

TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 6\r\n\r\npoison"


def asks(gateway, method="GET", path="/api/x"):
    """A request that may be sent again; PUT with a body."""
    if method == "PUT":
        return get(gateway, "Content-Length: 3", method=method, path=path) + b"abc"
    return get(gateway, method=method, path=path)


def is_answered(client, method="GET"):
    """With what these origins say to what they were asked."""
    return client.head().startswith(b"HTTP/1.1 200 ") and (method == "HEAD" or client.exactly(2) == b"ok")


# What has come on an idle connection


#: A connection that came back less than 5 ms ago is not looked at (docs/internals/adr/0025).
RESTS = [0.006, 0.2]


@pytest.mark.parametrize("rest", RESTS)
@pytest.mark.parametrize("first", ["request", "input"])
@pytest.mark.parametrize("ends", [False, True], ids=["stays-open", "ends"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_what_an_idle_connection_said_unasked_is_nobodys_answer(against, method, ends, first, rest):
    """The gateway finds the request and the bytes in one turn: nothing has gone out yet, so another connection is used."""
    may_speak, has_spoken, over = threading.Event(), threading.Event(), threading.Event()

    def steps(wire, number):
        wire.head()
        if number > 0 and method == "PUT":
            assert wire.exactly(3) == b"abc"
        wire.send(OK)
        if number == 0:
            wait(may_speak, 10, "the gateway is halted")
            wire.send(TIMEOUT)
            if ends:
                wire.end_of_writing()
            has_spoken.set()
            wire.to_end()
            over.set()
        else:
            wait(over, 10, "the other connection is closed")

    gateway, origin = against(steps)
    with connect(gateway.port) as client:

        def speak():
            may_speak.set()
            wait(has_spoken, 10, "the bytes are sent")

        client.send(get(gateway))
        assert is_answered(client)
        time.sleep(rest)
        with gateway.halted():
            if first == "input":
                speak()
            client.send(asks(gateway, method))
            if first == "request":
                speak()
        assert is_answered(client, method), client.received
        wait(over, 5, "the connection that spoke is closed")
    assert len(origin.wires) == 2
    assert origin.wires[0].received.count(b" HTTP/1.1\r\n") == 1, "nothing more was asked of the first connection"
    assert b"poison" not in client.received


@pytest.mark.parametrize("rest", RESTS)
@pytest.mark.parametrize("how", ["end", "reset"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_an_idle_connection_that_has_ended_is_not_used(against, method, how, rest):
    """Also for a request that could be sent again: its second try is for an end that nobody could have seen."""
    may_close, is_closed, over = threading.Event(), threading.Event(), threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(OK)
        if number == 0:
            wait(may_close, 10, "the gateway is halted")
            wire.end_of_writing() if how == "end" else wire.reset()
            is_closed.set()
            if how == "end":
                wire.to_end()
            over.set()

    gateway, origin = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert is_answered(client)
        time.sleep(rest)
        with gateway.halted():
            client.send(asks(gateway, method))
            may_close.set()
            wait(is_closed, 10, "the connection is over")
        assert is_answered(client, method), client.received
        wait(over, 5, "the first connection is closed")
    assert len(origin.wires) == 2
    assert origin.wires[0].received.count(b" HTTP/1.1\r\n") == 1, "nothing more was asked of the first connection"


@pytest.mark.parametrize("size", [2048, 4096, 16_384])
def test_what_stands_behind_a_read_that_was_full_is_nobodys_answer(against, size):
    """The answer ends where the buffer of a read ends, and what comes in the same packet is still in the socket when the next
    request, which the client has sent ahead, is to be sent on."""
    length = size - len(b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n") + (size < 10_000)

    def steps(wire, number):
        while head := wire.head():
            assert head.startswith(b"GET ")
            wire.send(OK if number else whole + TIMEOUT)

    whole = named(b"x" * length)
    assert len(whole) == size
    gateway, origin = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway) + get(gateway, path="/api/second"))
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(length) == b"x" * length
        assert is_answered(client), client.received
    assert len(origin.wires) == 2
    assert origin.wires[0].received.count(b" HTTP/1.1\r\n") == 1, "nothing more was asked of the first connection"


@pytest.mark.parametrize("length", range(10_000, 100_000, 10_000))
def test_nor_where_the_reads_of_a_turn_were_full_with_tls(secure, length):
    """The library reads four times in a turn at most, into buffers that grow. A whole record of poison stands behind the answer:
    with one of these lengths the fourth read ends within it."""
    whole, poison = named(b"x" * length), named(b"poison".ljust(16_000))
    has_asked, may_answer, has_answered = threading.Event(), threading.Event(), threading.Event()

    def steps(wire, number):
        while wire.head():
            if number:
                wire.send(OK)
                continue
            has_asked.set()
            wait(may_answer, 10, "the gateway is halted")
            wire.send(whole)
            wire.send(poison)
            has_answered.set()

    gateway, _ = secure(steps, "origin")
    with connect(gateway.port) as client:
        client.send(get(gateway) + get(gateway, path="/api/second"))
        wait(has_asked, 10, "the first request is there")
        with gateway.halted():
            may_answer.set()
            wait(has_answered, 10, "all is sent")
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(length) == b"x" * length
        assert is_answered(client), client.received[-100:]


@pytest.mark.parametrize("length", [100, 5000])
def test_a_put_that_cannot_be_repeated_goes_over_no_connection_that_has_ended(against, length):
    """The connection ends with the answer before, in the same packet, and the client has sent the PUT ahead."""
    body = b"x" * length

    def steps(wire, number):
        if wire.head().startswith(b"PUT "):
            assert wire.exactly(length) == body
            return wire.send(OK)
        wire.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        wire.send(OK)
        wire.end_of_writing()
        assert wire.to_end() == b"", "something was sent over it"

    gateway, _ = against(steps, replay_body_bytes="1KiB")
    with connect(gateway.port) as client:
        client.send(get(gateway) + get(gateway, f"Content-Length: {length}", method="PUT") + body)
        assert is_answered(client) and is_answered(client), client.received


# One connection for many


def test_a_connection_whose_origin_has_not_taken_the_body_is_not_used_again(against):
    """It has answered early; what comes next would wait behind the body. (What its system has taken for it counts as taken.)"""
    size = 1_000_000
    may_answer, may_end = threading.Event(), threading.Event()

    def steps(wire, number):
        wire.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.head()
        if number == 0:
            wait(may_answer, 10, "the client has sent everything")
            wire.send(OK)
            wait(may_end, 10, "the test is over")
        else:
            wire.send(OK)

    gateway, origin = against(steps, response_timeout="3s")
    with connect(gateway.port) as client:
        client.send(get(gateway, f"Content-Length: {size}", method="POST"))
        client.send(b"a" * size)
        # The gateway has read it by then: otherwise it would end this connection with the answer.
        time.sleep(0.5)
        may_answer.set()
        assert is_answered(client)
        client.send(get(gateway, "Content-Length: 0", method="POST"))
        assert is_answered(client)
        may_end.set()
    assert len(origin.wires) == 2


@pytest.fixture
def narrow(make_script, start_gateway):
    """Starts an origin that follows a script, and a gateway that has one connection to it at a time."""

    def start(steps):
        origin = make_script(steps)
        limits = {"connections_per_upstream": 1, "connect_timeout": "30s"}
        routes = {"api": {"upstream": origin.url, "auth": "none"}}
        # One event loop, so that the numbers are exact.
        return start_gateway({"workers": 1, "limits": limits, "routes": routes}), origin

    return start


def test_a_second_try_gets_a_fresh_connection_when_others_wait_too(narrow):
    """The origin ends each connection with its second request: the connection that another one has warmed is no better."""
    has_second, may_close = threading.Event(), threading.Event()
    order = []

    def steps(wire, number):
        assert b" /first " in wire.head() or number > 0
        wire.send(OK)
        head = wire.head()
        order.append((number, head.split(b" ")[1] if head else None))
        if number == 0:
            has_second.set()
            wait(may_close, 10, "another request waits")

    gateway, origin = narrow(steps)
    with connect(gateway.port) as client, connect(gateway.port) as other:
        client.send(get(gateway, path="/api/first"))
        assert is_answered(client)
        client.send(get(gateway, path="/api/again"))
        wait(has_second, 10, "the request is on the connection that was idle")
        with gateway.halted():
            other.send(get(gateway, path="/api/other"))
            may_close.set()
            wait_until(lambda: not origin_is_open(origin, 0), 5, "the connection is closed")
        assert is_answered(other), other.received
        assert is_answered(client), (client.received, order)
    assert order[0] == (0, b"/again")


def origin_is_open(origin, number):
    return origin.wires[number].connection.fileno() >= 0


@pytest.fixture
def source(seed):
    return random.Random(seed)


async def ask(port, requests_of_one):
    """Sends one request after the other and returns their statuses. What succeeds is answered with the request's name."""
    statuses = []
    reader = writer = None
    for name, request in requests_of_one:
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        statuses.append(int(head.split(b" ")[1]))
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        content = await reader.readexactly(length)
        assert statuses[-1] != 200 or content.decode() == name, "the answer is another's"
        if b"\r\nconnection: close" in head.lower():
            writer.close()
            writer = None
    return statuses


def many(gateway, method):
    """The statuses of 8 clients with 60 requests each, each with a name of its own, and a POST with that for a body."""

    def request(name):
        if method == "GET":
            return name, get(gateway, f"X-Id: {name}")
        return name, get(gateway, f"X-Id: {name}", f"Content-Length: {len(name)}", method=method) + name.encode()

    def of_one(client):
        return [request(f"{client}-{number:02}") for number in range(60)]

    async def run():
        return await asyncio.gather(*(ask(gateway.port, of_one(client)) for client in range(8)))

    return collections.Counter(itertools.chain(*asyncio.run(run())))


def name_of(head):
    return re.search(rb"\r\nX-Id: (\S+)", head)[1]


def named(content):
    """An answer that says whose it is."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_many_share_one_connection_to_an_origin_that_is_quick_to_close(narrow, source, method):
    """It closes each connection at once or some ms after an answer. No GET fails, however many wait; no POST is sent twice, and
    the only one that fails is one that was on its way when its connection ended."""
    done, lost = collections.Counter(), collections.Counter()

    def steps(wire, number):
        while head := wire.head():
            name = name_of(head)
            done[name] += 1
            assert method != "POST" or wire.exactly(len(name)) == name
            wire.send(named(name))
            if wire.is_quiet(source.choice((0, 0, 0, 0.0002, 0.005))):
                if method == "GET":
                    return
                break
        # What comes now has crossed the end of the connection.
        wire.end_of_writing()
        if rest := wire.to_end():
            lost[name_of(rest)] += 1
            assert rest.count(b" HTTP/1.1\r\n") == 1

    gateway, origin = narrow(steps)
    statuses = many(gateway, method)
    wait_until(lambda: origin.ended == len(origin.wires), 10, "every connection is over")
    print(f"{dict(statuses)}; {len(lost)} on their way when one of {len(origin.wires)} connections ended")
    if method == "GET":
        assert statuses == {200: 480}
    else:
        assert statuses == collections.Counter({200: len(done), 502: len(lost)}) and len(done) + len(lost) == 480
        assert set((done + lost).values()) == {1}, "each was sent once"


def test_a_post_that_waited_never_goes_over_a_connection_that_ended_with_its_answer(narrow):
    """The end comes in the same packet as the answer, so it is there to be seen before anything else is sent."""
    done = collections.Counter()

    def steps(wire, number):
        name = name_of(wire.head())
        done[name] += 1
        assert wire.exactly(len(name)) == name
        wire.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        wire.send(named(name))
        wire.end_of_writing()
        assert wire.to_end() == b"", "something was sent over it"

    gateway, _ = narrow(steps)
    assert many(gateway, "POST") == {200: 480}
    assert set(done.values()) == {1} and len(done) == 480

"""What becomes of a request whose client goes away, in the clear and over TLS."""

import socket
import threading
import time

import pytest
from harness import proc, raw
from harness.bytes import SWITCH
from harness.processes import wait_until
from harness.script import OK, Wire, answering, connect, get, wait
from harness.tls_script import over_tls, request_to, server_context, serving

CLOSE = ("Connection: close",)


class Silent:
    """An origin that never answers, and notes when its connection ends."""

    def __init__(self):
        self.began = threading.Event()
        self.over = threading.Event()

    def __call__(self, wire, number):
        wire.head()
        self.began.set()
        wire.to_end()
        self.over.set()


def leave(client, how):
    if how == "reset":
        client.reset()
    elif how == "close":
        # Over TLS with close_notify, as one should.
        client.__exit__()
    elif hasattr(client, "cut"):
        client.cut()
    else:
        client.end_of_writing()


def asked(gateway, steps, fields):
    client = gateway.dial()
    client.send(request_to(gateway, client, *fields))
    wait(steps.began, 10, "the origin has the request")
    return client


@pytest.mark.parametrize("side", ["none", "listener", "both"])
@pytest.mark.parametrize("fields", [(), CLOSE], ids=["kept", "close"])
def test_a_reset_of_the_client_ends_its_request_at_the_origin(secure, side, fields):
    """Nobody is there to read the answer, whatever was said of the connection."""
    steps = Silent()
    gateway, _ = secure(steps, side)
    client = asked(gateway, steps, fields)
    client.reset()
    assert wait(steps.over, 5, "the origin's connection ends") < 1


@pytest.mark.parametrize("side, how", [("none", "close"), ("listener", "close"), ("both", "close"), ("listener", "cut")])
def test_a_client_that_ends_its_kept_connection_has_left(secure, side, how):
    """ADR 8: who wants an answer and closes its half says `Connection: close`."""
    steps = Silent()
    gateway, _ = secure(steps, side)
    client = asked(gateway, steps, ())
    leave(client, how)
    assert wait(steps.over, 8, "the origin's connection ends") < 1


#: Requests that are sent ahead of an answer.
AHEAD = {
    "whole": (("Content-Length: 5",), b"hello"),
    "without a body": ((), b""),
    "a part": (("Content-Length: 10",), b"hello"),
    "a part of a chunk": (("Transfer-Encoding: chunked",), b"5\r\nhel"),
    "none of the body": (("Content-Length: 10",), b""),
    "a part that is the last": (("Content-Length: 10", "Connection: close"), b"hello"),
}


@pytest.mark.parametrize("side", ["none", "listener", "both"])
@pytest.mark.parametrize("begun", [False, True], ids=["silent", "answering"])
@pytest.mark.parametrize("fields, part", AHEAD.values(), ids=[name.replace(" ", "-") for name in AHEAD])
def test_a_client_that_has_sent_more_ahead_and_left_takes_all_of_it_along(secure, side, begun, fields, part):
    """The last of its requests was not said to be the last, or will never be whole; none is sent on for nobody."""
    heads, is_asked, over = [], threading.Event(), threading.Event()

    def steps(wire, number):
        heads.append(wire.head())
        if begun:
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\npart")
        is_asked.set()
        wire.to_end()
        over.set()

    gateway, _ = secure(steps, side)
    with gateway.dial() as client:
        client.send(request_to(gateway, client))
        wait(is_asked, 5, "the origin is asked")
        if begun:
            assert client.until(b"part").endswith(b"part")
        more = request_to(gateway, client, "Content-Length: 4", method="POST", path="/api/first") + b"more"
        client.send(more + request_to(gateway, client, *fields, method="POST", path="/api/pay") + part)
        assert not over.wait(0.2), "it has not left yet"
        client.end_of_writing()
        assert wait(over, 5, "the origin's connection ends") < 1
        assert client.to_end() == b"" and client.ended in (["cut", "reset"] if begun else ["end"])
    time.sleep(0.1)
    assert len(heads) == 1, heads


#: What may come behind a request of a client that still reads.
READS_ON = {
    "the-last": b"POST /api/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlast",
    "the-last-and-a-line": b"POST /api/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n\r\n",
    "version-1.0": b"GET /api/x HTTP/1.0\r\nHost: localhost\r\n\r\n",
    "no-request": b"what is this?\r\n\r\n",
}


@pytest.mark.parametrize("side", ["none", "listener"])
@pytest.mark.parametrize("behind", READS_ON.values(), ids=READS_ON)
def test_a_client_whose_last_request_was_the_last_may_close_its_half_and_read_all_answers(secure, side, behind):
    is_asked, may_answer = threading.Event(), threading.Event()

    def steps(wire, number):
        while head := wire.head():
            is_asked.set()
            wait(may_answer, 10, "the client has closed its half")
            wire.exactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or b"0"))
            wire.send(OK)

    gateway, _ = secure(steps, side)
    with gateway.dial() as client:
        client.send(request_to(gateway, client) * 2 + behind)
        wait(is_asked, 5, "the origin is asked")
        client.end_of_writing()
        time.sleep(0.2)
        may_answer.set()
        statuses = [line[9:12] for line in client.to_end().replace(b"ok", b"\n").split(b"\n") if line.startswith(b"HTTP/1.1 ")]
    assert statuses == [b"200", b"200", b"400" if behind == READS_ON["no-request"] else b"200"]


@pytest.mark.parametrize("side", ["none", "both"])
def test_what_a_client_says_ahead_in_a_tunnel_is_no_request(secure, side):
    """Until the origin has answered, nobody knows whether it is one."""
    is_asked, may_answer = threading.Event(), threading.Event()

    def steps(wire, number):
        wire.head()
        is_asked.set()
        wait(may_answer, 10, "the client has closed its half")
        wire.send(SWITCH)
        wire.send(wire.to_end())

    gateway, _ = secure(steps, side)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, "Connection: Upgrade", "Upgrade: echo") + b"early")
        wait(is_asked, 5, "the origin is asked")
        client.end_of_writing()
        time.sleep(0.2)
        may_answer.set()
        assert client.head().startswith(b"HTTP/1.1 101 ") and client.to_end() == b"early"


@pytest.mark.parametrize("framing", ["", "Transfer-Encoding: chunked\r\n"], ids=["no-length", "chunked"])
def test_an_answer_that_ends_because_its_client_does_not_send_on_looks_cut(against, framing):
    """A kept connection of HTTP/1.0: neither a length nor chunks tell the client where its answer ends."""
    over = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(f"HTTP/1.1 200 OK\r\n{framing}\r\n".encode() + (b"4\r\npart\r\n" if framing else b"part"))
        wire.to_end()
        over.set()

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: keep-alive", version="1.0"))
        assert client.until(b"part").endswith(b"part")
        client.end_of_writing()
        assert wait(over, 5, "the origin's connection ends") < 1
        assert client.to_end() == b"" and client.ended == "reset"


@pytest.mark.parametrize("framing", [b"Content-Length: 200000\r\n", b""], ids=["length", "no-length"])
@pytest.mark.parametrize("side", ["none", "listener", "both"])
def test_a_client_that_said_close_may_close_its_half_and_read_on(secure, side, framing):
    may_answer = threading.Event()

    def steps(wire, number):
        wire.head()
        wait(may_answer, 10, "the client has closed its half")
        time.sleep(0.2)
        wire.send(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n" + b"a" * 200_000)
        wire.end_of_writing()
        wire.to_end()

    gateway, _ = secure(steps, side)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, *CLOSE))
        client.end_of_writing()
        may_answer.set()
        head = client.head()
        assert head.startswith(b"HTTP/1.1 200 "), (head, client.ended)
        assert len(client.exactly(200_000) if framing else client.chunked()) == 200_000
        assert client.to_end() == b"" and client.ended == "end"


@pytest.mark.parametrize("side", ["none", "listener"])
def test_a_client_that_said_close_and_left_for_good_is_noticed_with_its_answer(secure, side):
    """Until then its end looks like that of one that reads on; the origin has no longer than for any other answer."""
    steps = Silent()
    gateway, _ = secure(steps, side, response_timeout="2s")
    client = asked(gateway, steps, CLOSE)
    leave(client, "close")
    assert 1.5 < wait(steps.over, 5, "the origin's connection ends") < 3


@pytest.mark.parametrize("side", ["none", "listener", "both"])
def test_the_origin_stops_sending_to_a_client_that_said_close_and_left(secure, side):
    """The first bytes that it does not take say that it is gone."""
    may_answer, over = threading.Event(), threading.Event()

    def steps(wire, number):
        wire.head()
        wait(may_answer, 10, "the client has left")
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 30))
        try:
            for _ in range(1 << 14):
                wire.send(b"x" * (1 << 16))
        except OSError:
            over.set()

    gateway, _ = secure(steps, side)
    client = gateway.dial()
    client.send(request_to(gateway, client, *CLOSE))
    leave(client, "close")
    may_answer.set()
    assert wait(over, 5, "the origin's connection ends") < 1


@pytest.mark.parametrize("how", ["close", "cut", "reset"])
@pytest.mark.parametrize("side", ["none", "listener"])
@pytest.mark.parametrize("fields", [(), CLOSE], ids=["kept", "close"])
def test_a_client_that_leaves_after_its_answer_leaves_nothing_behind(secure, side, how, fields):
    """Nobody waits for a close_notify that has come already, or that will not come: many clients send none."""
    gateway, _ = secure(answering(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")), side, idle_timeout="30s")
    pid = gateway.process.pid
    before = proc.steady_descriptors(pid)
    client = gateway.dial()
    client.send(request_to(gateway, client, *fields))
    assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
    if fields:
        assert client.to_end() == b"" and client.ended == "end"
    leave(client, how)
    wait_until(lambda: proc.descriptors(pid) <= before, 2, lambda: f"{proc.descriptors(pid)} of {before}")


# Before the origin has anything of it


def has_given_up(gateway):
    """What waits until the gateway has one descriptor less than now: that of a client that has left."""
    pid = gateway.process.pid
    left = proc.descriptors(pid) - 1
    return lambda: wait_until(lambda: proc.descriptors(pid) <= left, 1, "the client's connection is given up")


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("method, body", [("GET", b""), ("POST", b"hi"), ("PUT", b"h")], ids=["none", "whole", "part"])
def test_a_request_whose_client_left_while_its_token_was_fetched_is_not_sent(
    origin, start_gateway, token_server, method, body, how
):
    token_server.open.clear()
    auth = {"strategy": "delegated", "url": token_server.url + "/token?id={{unique_id}}", "unique_id": "42"}
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": auth}}, "limits": {"drain": "2s"}})
    client = connect(gateway.port)
    client.send(get(gateway, *(["Content-Length: 2"] if body else []), path="/api/left", method=method) + body)
    wait_until(lambda: token_server.count() == 1, 10, "the token is asked for")
    assert client.is_quiet(0.2)
    given_up = has_given_up(gateway)
    leave(client, how)
    try:
        given_up()
    finally:
        token_server.open.set()
    answer = raw.exchange(gateway.port, get(gateway, "Connection: close", path="/api/stayed"))
    assert answer.status == 200
    # What is still under way is so no longer.
    gateway.stop()
    assert b"/left" not in origin.raw() and [request.target for request in origin.requests] == ["/stayed"]


def one_upstream(url, **more):
    """With one worker: each has connections of its own."""
    return {"workers": 1, "routes": {"api": {"upstream": url, "auth": "none", **more}}}


def leaves_while_it_waits(gateway, how):
    with connect(gateway.port) as client:
        client.send(get(gateway, path="/api/left"))
        assert client.is_quiet(0.2)
        given_up = has_given_up(gateway)
        leave(client, how)
        given_up()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_tls_connection_that_was_being_opened_for_who_left_serves_others(
    make_script, start_gateway, certificate_authority, how
):
    """What is under way to the upstream is not thrown away, but nothing of the request of who left is sent over it."""
    heads, may_answer, is_open = [], threading.Event(), threading.Event()

    def steps(wire, number):
        is_open.set()
        while head := wire.head():
            heads.append(head.split(b"\r\n")[0])
            wire.send(OK)

    handshake = over_tls(server_context(*serving(certificate_authority, "slow")), steps)

    def slowly(wire, number):
        wait(may_answer, 10, "the client has left")
        handshake(wire, number)

    origin = make_script(slowly)
    tls = {"ca": str(certificate_authority.certificate)}
    gateway = start_gateway(one_upstream(f"https://127.0.0.1:{origin.port}", tls=tls))
    leaves_while_it_waits(gateway, how)
    may_answer.set()
    wait(is_open, 5, "the handshake is through")
    assert raw.exchange(gateway.port, get(gateway, "Connection: close", path="/api/stayed")).status == 200
    gateway.stop()
    assert heads == [b"GET /stayed HTTP/1.1"] and len(origin.wires) == 1


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_connection_that_was_being_opened_for_who_left_serves_others(start_gateway, how):
    """It is not answered: the queue of the upstream is full until the client has left."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        listener.settimeout(5)
        port = listener.getsockname()[1]
        gateway = start_gateway(one_upstream(f"http://127.0.0.1:{port}"))
        with socket.create_connection(("127.0.0.1", port)):
            leaves_while_it_waits(gateway, how)
            listener.accept()[0].close()
            # The gateway's system asks once more after a second.
            with Wire(listener.accept()[0]) as wire:
                assert wire.is_quiet(0.2), "nothing is sent for who left"
                with connect(gateway.port) as client:
                    client.send(get(gateway, path="/api/stayed"))
                    assert wire.head().startswith(b"GET /stayed HTTP/1.1\r\n")
                    wire.send(OK)
                    assert client.head().startswith(b"HTTP/1.1 200 ")


def test_a_tls_handshake_for_who_left_is_not_waited_for_for_ever(make_script, start_gateway, certificate_authority):
    """An upstream that never answers it has as long as for anybody."""
    over = threading.Event()
    origin = make_script(lambda wire, number: wire.to_end() and over.set())
    tls = {"ca": str(certificate_authority.certificate)}
    config = one_upstream(f"https://127.0.0.1:{origin.port}", tls=tls)
    gateway = start_gateway({**config, "limits": {"connect_timeout": "1s"}})
    leaves_while_it_waits(gateway, "reset")
    wait(over, 2, "the origin's connection ends")


@pytest.mark.parametrize("state", ["answer", "ahead", "place", "body"])
def test_a_close_notify_is_an_end_also_where_the_connection_stays_open(secure, state):
    """As of a client that closes both ways and waits for the other end. Only what is read tells of it."""
    is_asked, over, paths = threading.Event(), threading.Event(), []

    def steps(wire, number):
        paths.append(wire.head().split(b" ")[1])
        is_asked.set()
        if state == "body":
            # Takes nothing of it.
            over.wait(20)
            return
        wire.to_end()
        over.set()

    limits = {"connections_per_upstream": 1, "connect_timeout": "20s"} if state == "place" else {}
    gateway, _ = secure(steps, "listener", **limits)
    pid = gateway.process.pid
    with gateway.dial() as other, gateway.dial() as client:
        if state == "place":
            other.send(request_to(gateway, other, path="/api/holder"))
            wait(is_asked, 5, "the origin is asked")
        if state == "body":
            client.send(request_to(gateway, client, "Content-Length: 9", method="POST") + b"part")
        else:
            client.send(request_to(gateway, client))
        wait(is_asked, 5, "the origin is asked")
        if state == "ahead":
            client.send(request_to(gateway, client, path="/api/ahead"))
        time.sleep(0.2)
        before = proc.descriptors(pid)
        client.notify()
        wait_until(lambda: proc.descriptors(pid) < before, 1, "its connections are given up")
        over.set()
    assert paths == [b"/holder" if state == "place" else b"/x"]

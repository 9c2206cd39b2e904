"""Where messages begin and end when TLS is on both sides: to the client and to the origin. Judged byte by byte."""

import contextlib
import socket
import ssl
import threading
import time

import pytest
from harness.configs import BEARER, CANARY
from harness import processes, streams
from harness.bytes import CHUNKED, NOT_AN_END, SWITCH, body_of, framed, pattern
from harness.script import OK, answering, connect, get, wait
from harness.tls_script import MemoryTLS, request_to, server_context, serving

# Bodies


@pytest.mark.parametrize("upload", ["length", "chunked"])
@pytest.mark.parametrize("download", ["length", "chunked"])
def test_bodies_go_both_ways_and_the_connections_are_used_again(secure, upload, download):
    content, arrived = pattern(300_000), []

    def steps(wire, number):
        while head := wire.head():
            assert f"\r\nAuthorization: Bearer {CANARY}\r\n".encode() in head
            arrived.append(body_of(wire, head) == content)
            wire.send(b"HTTP/1.1 200 OK\r\n" + framed(content, download))

    gateway, origin = secure(steps)
    with gateway.dial() as client:
        for _ in range(3):
            client.send(request_to(gateway, client, method="PUT").removesuffix(b"\r\n") + framed(content, upload))
            head = client.head()
            assert head.startswith(b"HTTP/1.1 200 "), head
            is_whole = body_of(client, head) == content
            assert is_whole
    assert arrived == [True] * 3 and len(origin.wires) == 1


CUT_BODIES = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
    "between chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
    "within a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n12345",
    "before the trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n",
}


@pytest.mark.parametrize("part", CUT_BODIES.values(), ids=[name.replace(" ", "-") for name in CUT_BODIES])
@pytest.mark.parametrize("how", ["close", "notify", "reset"])
@pytest.mark.parametrize("side", ["origin", "listener", "both"])
def test_a_body_that_is_cut_is_cut_for_the_client_too(secure, part, how, side):
    """Never with the close_notify that would make it an end."""
    may_end = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(part)
        wait(may_end, 10, "the client has the part")
        if how == "reset":
            wire.reset()
        elif how == "notify" and side != "listener":
            wire.notify()

    gateway, _ = secure(steps, side)
    with gateway.dial() as client:
        client.send(request_to(gateway, client))
        assert client.head().startswith(b"HTTP/1.1 200 ")
        may_end.set()
        rest = client.to_end()
        assert client.ended in NOT_AN_END, "the client sees a failure, not an end"
        assert not rest.endswith(b"0\r\n\r\n") and b"HTTP/1.1" not in rest


@pytest.mark.parametrize("side", ["origin", "both"])
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_a_body_without_a_length_ends_with_close_notify_alone(secure, side, version):
    gateway, _ = secure(lambda wire, number: (wire.head(), wire.send(b"HTTP/1.1 200 OK\r\n\r\nall of it"), wire.notify()), side)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, version=version))
        assert client.head().startswith(b"HTTP/1.1 200 ")
        assert (client.to_end() if version == "1.0" else client.chunked()) == b"all of it"
        if version == "1.0":
            assert client.ended == "end"


@pytest.mark.parametrize("side", ["origin", "both"])
@pytest.mark.parametrize("version, part", [("1.0", b"some of it"), ("1.1", b"a\r\nsome of it\r\n")], ids=["1.0", "1.1"])
@pytest.mark.parametrize("how", ["cut", "reset"])
def test_a_body_without_a_length_that_ends_without_close_notify_is_cut(secure, side, version, part, how):
    """Anybody on the line can end a connection; only the origin can say that this is all."""
    may_end = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\n\r\nsome of it")
        wait(may_end, 10, "the client has the part")
        wire.cut() if how == "cut" else wire.reset()
        wire.to_end()

    gateway, _ = secure(steps, side)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, version=version))
        client.head()
        assert client.exactly(len(part)) == part
        may_end.set()
        assert client.to_end() == b"" and client.ended in NOT_AN_END


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_a_client_that_ends_without_close_notify_gets_none_behind_a_part(secure, version):
    """It may read on, and would take the part for the whole."""

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\n\r\nsome of it")
        wire.to_end()

    gateway, _ = secure(steps, "listener")
    with gateway.dial() as client:
        client.send(request_to(gateway, client, "Connection: close", version=version))
        client.head()
        client.until(b"some of it")
        client.cut()
        client.to_end()
        assert client.ended in NOT_AN_END


def test_nor_behind_one_that_is_cut_while_the_client_takes_it(secure):
    """The reset waits until the client has what was written."""
    size = 300_000

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * size)
        time.sleep(0.2)
        wire.reset()

    gateway, _ = secure(steps, "listener")
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    with gateway.dial(narrow) as client:
        client.send(request_to(gateway, client, "Connection: close", version="1.0"))
        time.sleep(0.6)
        client.cut()
        time.sleep(0.2)
        assert client.to_end().count(b"a") >= size and client.ended in NOT_AN_END


def test_a_connection_that_the_gateway_ends_waits_for_nothing_but_the_answer_to_that(
    make_script, start_gateway, certificate_authority
):
    """Close_notify is answered with close_notify, and the origin leaves the end of the connection to who has asked for it."""
    ends = []

    def steps(wire, number):
        connection = MemoryTLS(server_context(certificate, key), wire.connection)
        connection.read()
        connection.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        connection.flush()
        with contextlib.suppress(ssl.SSLZeroReturnError):
            connection.read()
        connection.notify()
        connection.flush()
        started = time.monotonic()
        wire.to_end()
        ends.append(time.monotonic() - started)

    certificate, key = serving(certificate_authority, "ending")
    route = {
        "upstream": f"https://127.0.0.1:{make_script(steps).port}",
        "tls": {"ca": str(certificate_authority.certificate)},
        "auth": {"strategy": "none"},
    }
    gateway = start_gateway({"routes": {"api": route}, "limits": {"connections_per_upstream": 1}})
    with connect(gateway.port) as client:
        for _ in range(4):
            client.send(get(gateway))
            assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
    processes.wait_until(lambda: len(ends) == 4, 5, "every connection has ended")
    assert max(ends) < 0.5, ends


def test_a_body_that_was_cut_for_a_client_of_1_0_is_no_end(secure):
    """Its chunks are taken away, so that only the end of the connection tells."""
    gateway, _ = secure(lambda wire, number: (wire.head(), wire.send(CUT_BODIES["between chunks"]), wire.notify()))
    with gateway.dial() as client:
        client.send(request_to(gateway, client, version="1.0"))
        client.to_end()
        assert client.ended in NOT_AN_END


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_a_whole_answer_ends_with_close_notify(secure, version):
    gateway, _ = secure(answering(OK))
    with gateway.dial() as client:
        client.send(request_to(gateway, client, "Connection: close", version=version))
        assert client.head().startswith(b"HTTP/1.1 200 ")
        assert client.to_end() == b"ok" and client.ended == "end"


@pytest.mark.parametrize("how", ["notify", "cut", "reset"])
def test_an_upload_that_is_cut_is_no_whole_request(secure, how):
    """The end of the client's connection is not that of its body."""
    began, rest = threading.Event(), []

    def steps(wire, number):
        wire.head()
        assert wire.exactly(7) == b"2\r\nhi\r\n"
        began.set()
        rest.append(wire.to_end())

    gateway, _ = secure(steps)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, CHUNKED, method="POST") + b"2\r\nhi\r\n")
        wait(began, 5, "the origin has the part")
        {"notify": client.notify, "cut": client.cut, "reset": client.reset}[how]()
        # And it does not wait for the rest any longer.
        processes.wait_until(lambda: rest, 1, "the origin sees the end")
    assert rest == [b""]


# What comes while it is under way


def test_each_event_of_a_stream_comes_when_it_is_sent(secure):
    go_on = threading.Semaphore(0)

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for count in range(10):
            assert go_on.acquire(timeout=10)
            event = b"data: %d\n\n" % count
            wire.send(b"%x\r\n%s\r\n" % (len(event), event))
        wire.send(b"0\r\n\r\n")
        wire.to_end()

    gateway, _ = secure(steps)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, "Accept: text/event-stream"))
        assert client.head().startswith(b"HTTP/1.1 200 ")
        for count in range(10):
            # The next one is sent only when this one is here.
            go_on.release()
            assert client.until(b"\n\n\r\n") == b"9\r\ndata: %d\n\n\r\n" % count
        assert client.until(b"\r\n\r\n") == b"0\r\n\r\n"


def test_interim_answers_come_at_once_and_the_body_waits_for_100(secure):
    bodies = []

    def steps(wire, number):
        assert b"\r\nExpect: 100-continue\r\n" in wire.head()
        wire.send(b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n")
        assert wire.is_quiet(0.2), "no body before it is asked for"
        wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        bodies.append(wire.exactly(5))
        wire.send(OK)
        wire.to_end()

    gateway, _ = secure(steps)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, "Content-Length: 5", "Expect: 100-continue", method="POST"))
        assert client.head() == b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"
        assert client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"hello")
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
    assert bodies == [b"hello"]


def test_an_answer_during_the_upload_reaches_a_client_that_goes_on_sending(secure):
    size = 4 << 20

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
        wire.notify()

    gateway, _ = secure(steps)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, f"Content-Length: {size}", method="POST"))
        # Without an error: one would take the answer away from many a client.
        for _ in range(size >> 16):
            client.send(b"x" * (1 << 16))
        head = client.head()
        assert head.startswith(b"HTTP/1.1 413 "), (head, client.ended)
        assert client.to_end() == b"big" and client.ended == "end"


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "stays-open"])
@pytest.mark.parametrize("ahead", [1, 3])
def test_a_request_sent_ahead_is_not_written_behind_the_end_that_came_with_an_answer(
    make_script, start_gateway, certificate_authority, ends, ahead
):
    """The TLS handler delivers the answer first, and a POST is not sent twice."""
    context, requests = server_context(*serving(certificate_authority, "ends-with-answer")), []

    def steps(wire, number):
        tls, received = MemoryTLS(context, wire.connection), b""
        while True:
            while b"\r\n\r\n" not in received:
                part = tls.read()
                if not part:
                    return
                received += part
            head, _, received = received.partition(b"\r\n\r\n")
            requests.append((number, head.split(b" ")[0]))
            tls.write(OK)
            if ends:
                tls.notify()
            tls.flush()

    route = {"auth": BEARER, "tls": {"ca": str(certificate_authority.certificate)}}
    route["upstream"] = f"https://127.0.0.1:{make_script(steps).port}"
    gateway = start_gateway({"routes": {"api": route}, "limits": {"pending_per_upstream": 1}})
    with connect(gateway.port) as client:
        client.send(get(gateway) + ahead * get(gateway, "Content-Length: 0", method="POST"))
        for _ in range(1 + ahead):
            answer = client.head()
            assert answer.startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok", answer
    assert requests == [(number if ends else 0, b"POST" if number else b"GET") for number in range(1 + ahead)]


# Tunnels


def test_a_tunnel_carries_both_directions(secure):
    sent = pattern(2 << 20)

    def steps(wire, number):
        wire.head()
        wire.send(SWITCH + b"first")
        assert wire.exactly(5) == b"early"
        sender = threading.Thread(target=wire.send, args=(sent,), daemon=True)
        sender.start()
        sender.join(10)
        wire.notify()

    gateway, _ = secure(steps)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, "Connection: Upgrade", "Upgrade: echo") + b"early")
        assert client.head().startswith(b"HTTP/1.1 101 ") and client.exactly(5) == b"first"
        is_whole = client.exactly(len(sent)) == sent
        assert is_whole
        assert client.to_end() == b"" and client.ended == "end"


@pytest.mark.parametrize("side", ["origin", "listener", "both"])
def test_a_reset_of_the_origin_in_a_tunnel_is_no_end(secure, side):
    may_reset = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(SWITCH + b"some of it")
        wait(may_reset, 10, "the client is in the tunnel")
        wire.reset()

    gateway, _ = secure(steps, side)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, "Connection: Upgrade", "Upgrade: echo"))
        assert client.head().startswith(b"HTTP/1.1 101 ") and client.exactly(10) == b"some of it"
        may_reset.set()
        assert client.to_end() == b"" and client.ended in NOT_AN_END


# Back-pressure


#: A record, so that what is counted is what was encrypted.
RECORD = b"x" * (1 << 14)


def test_a_client_that_stops_reading_stops_the_origin(secure):
    size, sent = 1 << 30, 0

    def steps(wire, number):
        nonlocal sent
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        wire.connection.settimeout(60)
        while sent < size:
            wire.send(RECORD)
            sent += len(RECORD)

    gateway, origin = secure(steps)
    with gateway.dial() as client:
        client.send(request_to(gateway, client))
        assert client.head().startswith(b"HTTP/1.1 200 ")
        taken, held = streams.stuck(lambda: sent, client.connection.getpeername()[1], origin.port)
        # What the kernel has is encrypted, a thousandth more.
        assert taken < size and held < streams.WINDOW, (taken, held)
        client.reset()


def test_an_origin_that_stops_reading_stops_the_client(secure):
    has_head, may_end, size, sent = threading.Event(), threading.Event(), 1 << 30, 0

    def steps(wire, number):
        wire.head()
        has_head.set()
        wait(may_end, 90, "the client is stopped")
        wire.reset()

    def upload():
        nonlocal sent
        client.connection.settimeout(60)
        with contextlib.suppress(OSError):
            while sent < size:
                client.send(RECORD)
                sent += len(RECORD)

    gateway, origin = secure(steps)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, f"Content-Length: {size}", method="POST"))
        wait(has_head, 5, "the origin has the head")
        sender = threading.Thread(target=upload, daemon=True)
        sender.start()
        taken, held = streams.stuck(lambda: sent, client.connection.getpeername()[1], origin.port)
        assert taken < size and held < streams.WINDOW, (taken, held)
        may_end.set()
        sender.join(10)
        client.reset()

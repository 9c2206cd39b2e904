"""Where messages begin and end, in the cases that proxies get wrong; judged byte by byte at both ends."""

import re
import select
import socket
import threading
import time

import pytest
from harness.configs import plain_config
from harness import proc, raw, streams
from harness.processes import wait_until, within
from harness.script import OK, Wire, answering, connect, connect_unix, get, wait


@pytest.fixture
def gateway(origin, start_gateway):
    return start_gateway(plain_config(origin))


# 1xx


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 103 Early Hints\r\nLink: <style.css>; rel=preload\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>; rel=preload\r\n\r\n",
    ],
)
def test_interim_responses_come_before_the_final_one_and_at_once(against, interim):
    go_on = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(interim)
        wait(go_on, 15, "the client has the interim response")
        wire.send(OK)
        wire.head()
        wire.send(OK)

    gateway, origin = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway))
        for expected in interim.split(b"\r\n\r\n")[:-1]:
            assert client.head() == expected + b"\r\n\r\n"
        go_on.set()
        assert client.head().startswith(b"HTTP/1.1 200 OK\r\n") and client.exactly(2) == b"ok"
        # Both sides agree on where that ended.
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 OK\r\n") and client.exactly(2) == b"ok"
    assert len(origin.wires) == 1


def test_an_interim_response_is_not_sent_to_a_client_of_1_0(against):
    gateway, _ = against(answering(b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + OK))
    answer = raw.exchange(gateway.port, get(gateway, version="1.0"))
    assert (answer.status, answer.body) == (200, b"ok") and b"Early" not in answer.data


def test_an_interim_response_has_no_body_whatever_it_says(against):
    gateway, _ = against(answering(b"HTTP/1.1 103 Early Hints\r\nContent-Length: 4\r\n\r\n" + OK))
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert b"content-length" not in client.head().lower()
        assert client.head().startswith(b"HTTP/1.1 200") and client.exactly(2) == b"ok"


def test_a_switch_of_protocols_that_nobody_asked_for_is_a_502(against):
    gateway, _ = against(answering(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
    answer = raw.exchange(gateway.port, get(gateway, "Connection: close"))
    assert answer.status == 502 and b"upgrade-failed" in answer.body
    assert "error=http_upgrade_failed" in answer.values("proxy-status")[0]


# HEAD, 204, 304


@pytest.mark.parametrize(
    "method, head, passed_on",
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", b"Content-Length: 1234"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"Transfer-Encoding: chunked"),
        ("HEAD", b"HTTP/1.1 200 OK\r\n\r\n", None),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", None),
        ("GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", None),
        ("GET", b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", None),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1234\r\nETag: \"a\"\r\n\r\n", b"Content-Length: 1234"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", None),
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"Content-Length: 0"),
    ],
)
def test_what_has_no_body_ends_with_its_head(against, method, head, passed_on):
    gateway, origin = against(answering(head, OK))
    with connect(gateway.port) as client:
        client.send(get(gateway, method=method))
        first = client.head()
        assert first.startswith(head.split(b"\r\n")[0])
        for name in (b"Content-Length", b"Transfer-Encoding"):
            assert (name + b": ") not in first or (passed_on or b"").startswith(name)
        assert passed_on is None or passed_on in first
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200") and client.exactly(2) == b"ok"
    assert len(origin.wires) == 1, "the connection to the origin is used again"


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_a_body_where_none_can_be_is_nobodys_answer(against, status):
    poison = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
    gateway, origin = against(answering(b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(poison) + poison))
    for _ in range(3):
        with connect(gateway.port) as client:
            client.send(get(gateway))
            assert client.head().startswith(b"HTTP/1.1 " + status)
            client.send(get(gateway, "Connection: close"))
            assert b"poison" not in client.to_end()
    assert len(origin.wires) == 6


# HTTP/1.0


def test_a_client_of_1_0_gets_content_that_ends_with_the_connection(against):
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n"
    gateway, _ = against(answering(chunked))
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: keep-alive", version="1.0"))
        head = client.head().lower()
        assert b"transfer-encoding" not in head and b"connection: close" in head
        assert client.to_end() == b"abcde" and client.ended == "end"


def test_a_client_of_1_0_sees_that_a_chunked_body_was_cut(against):
    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, version="1.0"))
        client.to_end()
        assert client.ended == "reset", "for this client a clean end would be a whole body"


def test_a_client_of_1_0_keeps_its_connection_only_when_it_asks(against):
    gateway, _ = against(answering(OK))
    with connect(gateway.port) as client:
        for _ in range(2):
            client.send(get(gateway, "Connection: keep-alive", version="1.0"))
            assert b"connection: keep-alive" in client.head().lower()
            assert client.exactly(2) == b"ok"
        client.send(get(gateway, version="1.0"))
        assert client.head().startswith(b"HTTP/1.1 200") and client.to_end() == b"ok" and client.ended == "end"


def test_a_client_of_1_0_without_a_host_reaches_the_upstream_with_one(origin, gateway):
    answer = raw.exchange(gateway.port, b"GET /api/x HTTP/1.0\r\n\r\n")
    assert answer.status == 200, answer.data
    assert [request.line for request in origin.requests] == ["GET /x HTTP/1.1"]
    assert origin.last().value("host") == f"127.0.0.1:{origin.port}"


def test_an_origin_of_1_0_is_read_to_its_end_and_never_used_again(against):
    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.0 200 OK\r\n\r\nall of it")

    gateway, origin = against(steps)
    for _ in range(2):
        answer = raw.exchange(gateway.port, get(gateway, "Connection: keep-alive", version="1.0"))
        assert (answer.status, answer.body) == (200, b"all of it")
        assert b"connection: close" in answer.head.lower() and b"transfer-encoding" not in answer.head.lower()
    assert len(origin.wires) == 2


def test_an_answer_that_ends_with_its_connection_comes_in_chunks_and_the_next_one_behind_it(against):
    """A client that knows chunks sees where it ends, and that it was not cut; its own connection goes on."""

    def steps(wire, number):
        wire.head()
        wire.send((b"HTTP/1.0 200 OK", b"HTTP/1.1 200 OK\r\nConnection: close", b"HTTP/1.1 200 OK")[number] + b"\r\n\r\n")
        wire.send((b"", b"all of it", b"a" * 300_000)[number])

    gateway, origin = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway) * 3)
        for content in (b"", b"all of it", b"a" * 300_000):
            fields = client.head().lower().split(b"\r\n")
            assert b"transfer-encoding: chunked" in fields
            assert not any(field.startswith((b"connection:", b"content-length:")) for field in fields)
            assert client.chunked() == content
        assert client.is_quiet(0.1)
    assert len(origin.wires) == 3


def test_what_comes_of_an_answer_without_a_length_is_passed_on_as_it_comes(against):
    go_on = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for event in (b"data: 1\n\n", b"data: 22\n\n"):
            wire.send(event)
            wait(go_on, 10, "the client has the event")
            go_on.clear()

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway))
        client.head()
        for chunk in (b"9\r\ndata: 1\n\n\r\n", b"a\r\ndata: 22\n\n\r\n"):
            assert client.exactly(len(chunk)) == chunk
            go_on.set()
        assert client.exactly(5) == b"0\r\n\r\n"


@pytest.mark.parametrize("part", ["", "Content-Length: 20\r\n", "Transfer-Encoding: chunked\r\n"])
def test_a_body_that_is_cut_over_a_unix_socket_which_knows_no_reset_lacks_its_end(make_script, start_gateway, short_folder, part):
    content = b"14\r\nsome of it" if "chunked" in part else b"some of it"
    path, may_end = short_folder / "proxy.sock", threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(f"HTTP/1.1 200 OK\r\n{part}\r\n".encode() + content)
        wait(may_end, 10, "the client has the part")
        wire.reset()

    route = {"upstream": make_script(steps).url, "auth": {"strategy": "none"}}
    start_gateway({"routes": {"api": route}}, listeners=[{"unix": str(path)}])
    with connect_unix(path) as client:
        client.send(b"GET /api/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (part or "Transfer-Encoding: chunked\r\n").encode() in client.head()
        client.until(b"some of it")
        may_end.set()
        # Without a framing of the origin, the gateway had sent a chunk of its own.
        assert client.to_end() == (b"" if part else b"\r\n"), "no last chunk"


def test_an_origin_of_1_0_that_keeps_its_connection_is_used_again(against):
    gateway, origin = against(answering(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"))
    with connect(gateway.port) as client:
        for _ in range(3):
            client.send(get(gateway))
            assert client.head().startswith(b"HTTP/1.1 200") and client.exactly(2) == b"ok"
    assert len(origin.wires) == 1


# Expect


def test_the_body_waits_for_the_origins_100(against):
    seen = threading.Event()
    bodies = []

    def steps(wire, number):
        head = wire.head()
        assert b"expect: 100-continue" in head.lower()
        assert wire.is_quiet(0.2), "no body before it is asked for"
        seen.set()
        wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        bodies.append(wire.exactly(5))
        wire.send(OK)

    gateway, origin = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Content-Length: 5", "Expect: 100-continue", method="POST"))
        wait(seen, 10, "the origin has the head")
        assert client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"hello")
        assert client.head().startswith(b"HTTP/1.1 200")
    assert bodies == [b"hello"] and not origin.failures


def test_a_final_answer_instead_of_100_ends_the_connection(against):
    """The client may still send the body it announced, or not: nothing that follows can be told from it."""
    gateway, origin = against(answering(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"))
    with connect(gateway.port) as client:
        client.send(get(gateway, "Content-Length: 50", "Expect: 100-continue", method="POST"))
        head = client.head()
        assert head.startswith(b"HTTP/1.1 417") and b"connection: close" in head.lower()
        client.send(get(gateway))
        assert client.to_end() == b""
    assert len(origin.wires) == 1 and b"GET" not in origin.wires[0].received


def test_an_unknown_expectation_is_refused(against):
    gateway, origin = against(answering(OK))
    answer = raw.exchange(gateway.port, get(gateway, "Expect: the-impossible", "Connection: close"))
    assert answer.refuses(400) and not origin.wires, answer.data


# Half-close


def test_a_client_that_said_close_may_close_its_half_and_read_on(against):
    go_on = threading.Event()

    def steps(wire, number):
        wire.head()
        wait(go_on, 10, "the client has closed its half")
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"a" * 200_000)

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: close"))
        client.end_of_writing()
        go_on.set()
        assert client.head().startswith(b"HTTP/1.1 200") and len(client.to_end()) == 200_000


def test_a_half_closed_client_gets_all_its_pipelined_answers(against):
    gateway, _ = against(answering(OK))
    with connect(gateway.port) as client:
        client.send(get(gateway) * 3 + get(gateway, "Connection: close"))
        client.end_of_writing()
        assert client.to_end().count(b"\r\n\r\nok") == 4


@pytest.mark.parametrize("last", [("1.1", "Connection: close"), ("1.1", "Connection: x-a, CLOSE"), ("1.0", "X-A: b")])
def test_nothing_behind_the_last_request_is_served(origin, gateway, last):
    """Nor behind one that said so by its version (RFC 9112 §9.3, §9.6)."""
    version, field = last
    answer = raw.exchange(gateway.port, get(gateway, field, version=version) + get(gateway, path="/api/second"))
    assert answer.data.count(b"HTTP/1.1 ") == 1 and answer.status == 200
    assert [request.target for request in origin.requests] == ["/x"] and b"/second" not in origin.raw()


PARTS = {
    "a head": b"GET /api/x HTTP/1.1\r\nHost:",
    "no head": b"hello",
    "trailers": b"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: b",
}


@pytest.mark.parametrize("part", PARTS.values(), ids=[name.replace(" ", "-") for name in PARTS])
@pytest.mark.parametrize("is_late", [False, True], ids=["together", "later"])
def test_a_request_that_will_never_be_whole_is_not_waited_for(origin, start_gateway, part, is_late):
    """With the end of its connection, in good order: no limit that would end it passes in the time that the client waits."""
    limits = {"header_timeout": "60s", "body_idle_timeout": "60s", "response_timeout": "60s", "idle_timeout": "60s"}
    gateway = start_gateway({**plain_config(origin), "limits": limits})
    with connect(gateway.port) as client:
        if is_late:
            client.send(get(gateway) + part)
            head = client.head()
            assert head.startswith(b"HTTP/1.1 200 ") and client.until(b"\n") == b"hello from the origin\n"
            client.end_of_writing()
        else:
            # So that the gateway learns of the end before the origin can have answered: such a client has left.
            with gateway.halted():
                client.send(get(gateway) + part)
                client.end_of_writing()
        assert client.to_end() == b"" and client.ended == "end"


@pytest.mark.parametrize("ends", [False, True], ids=["goes-on-sending", "ends"])
def test_what_comes_behind_the_last_request_does_not_cut_its_answer(against, ends):
    """The answer has no length: cut, it would look whole. Much of it waits on the gateway's side, where a reset would lose it."""
    size, sent, is_over = 12 << 20, 0, threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * size)

    def send():
        nonlocal sent
        while not is_over.is_set():
            client.send(b"b" * (1 << 14))
            sent += 1 << 14
            # So that it goes on for as long as the answer does.
            time.sleep(0.001)
        if ends:
            client.end_of_writing()
        has_sent.set()

    gateway, origin = against(steps)
    narrow, has_sent = socket.socket(), threading.Event()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    narrow.connect(("127.0.0.1", gateway.port))
    with Wire(narrow) as client:
        client.send(get(gateway, "Connection: keep-alive", version="1.0"))
        client.head()
        threading.Thread(target=send, daemon=True).start()
        content = client.exactly(size - (1 << 20))
        wait_until(lambda: origin.ended == 1, 5, "the origin has sent everything")
        before = sent
        wait_until(lambda: sent > before + (1 << 20), 10, "more has come behind the request")
        untaken, _ = streams.waiting(gateway.port, narrow.getsockname()[1])
        assert untaken > 200_000
        content += client.exactly(1 << 20)
        assert client.ended is None and content == b"a" * size
        is_over.set()
        wait(has_sent, 5, "it could send to the end")
        assert client.to_end() == b"" and client.ended == "end"


# Early answers


def test_an_answer_during_the_upload_reaches_a_client_that_goes_on_sending(against):
    """10 MiB are more than the buffers hold: the client reads only when it has sent everything, as many do."""
    size = 10 << 20

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")

    gateway, _ = against(steps)
    for _ in range(5):
        with connect(gateway.port) as client:
            client.send(get(gateway, f"Content-Length: {size}", method="POST"))
            # Without an error: one would take the answer away from many a client.
            for _ in range(size >> 16):
                client.send(b"x" * (1 << 16))
            head = client.head()
            assert head.startswith(b"HTTP/1.1 413"), (head, client.ended)
            assert client.to_end() == b"big" and client.ended == "end"


def test_an_answer_during_the_upload_may_outlive_it(against):
    """Both directions at once: the origin answers what it has read so far."""

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(5):
            wire.send(b"1\r\n" + wire.exactly(1) + b"\r\n")
        wire.send(b"0\r\n\r\n")

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Content-Length: 5", method="POST"))
        assert client.head().startswith(b"HTTP/1.1 200")
        for letter in (b"a", b"b", b"c", b"d", b"e"):
            client.send(letter)
            assert client.until(b"\r\n") + client.until(b"\r\n") == b"1\r\n" + letter + b"\r\n"
        assert client.until(b"\r\n\r\n") == b"0\r\n\r\n"


# Cuts


@pytest.mark.parametrize("how", ["end", "reset"])
@pytest.mark.parametrize(
    "part",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123",
    ],
    ids=["length", "between chunks", "before the trailers", "within a chunk"],
)
def test_a_body_that_is_cut_is_cut_for_the_client_too(against, part, how):
    sent = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(part)
        wait(sent, 10, "the client has the head")
        if how == "reset":
            wire.reset()

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200")
        sent.set()
        rest = client.to_end()
        assert client.ended == "reset", "the client sees a failure, not an end"
        assert not rest.endswith(b"0\r\n\r\n") and b"HTTP/1.1" not in rest


@pytest.mark.parametrize("version, part", [("1.0", b"some of it"), ("1.1", b"a\r\nsome of it\r\n")])
def test_a_reset_during_a_body_without_a_length_is_not_its_end(against, version, part):
    sent = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\n\r\nsome of it")
        wait(sent, 10, "the client has the part")
        wire.reset()

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, version=version))
        client.head()
        assert client.exactly(len(part)) == part
        sent.set()
        assert client.to_end() == b"" and client.ended == "reset"


@pytest.mark.parametrize("version, part", [("1.0", b"some of it"), ("1.1", b"a\r\nsome of it\r\n")])
@pytest.mark.parametrize("first", ["upload", "reset"])
def test_nor_a_reset_that_the_gateway_meets_when_it_writes(against, version, part, first):
    """What a server does that answers an upload early and closes: the bytes that it leaves unread make its end a reset."""
    may_reset, is_reset = threading.Event(), threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\n\r\nsome of it")
        wait(may_reset, 10, "the gateway is halted")
        wire.reset()
        is_reset.set()

    gateway, _ = against(steps)
    with connect(gateway.port) as client:

        def reset():
            may_reset.set()
            wait(is_reset, 5, "the origin is gone")

        def upload():
            client.send(b"world")
            time.sleep(0.1)

        client.send(get(gateway, "Content-Length: 20", version=version, method="POST") + b"hello")
        client.head()
        assert client.exactly(len(part)) == part
        with gateway.halted():
            for step in (upload, reset) if first == "upload" else (reset, upload):
                step()
        assert client.to_end() == b"" and client.ended == "reset"


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\nContent-Le"])
def test_an_answer_that_never_came_is_a_502(against, part):
    def steps(wire, number):
        wire.head()
        wire.send(part)

    gateway, _ = against(steps)
    answer = raw.exchange(gateway.port, get(gateway, "Connection: close", method="POST"))
    assert answer.status == 502 and b"problem+json" in answer.head


# Clients that leave


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("when", ["before the answer", "within the answer", "within the upload"])
def test_an_upstream_does_not_work_on_for_a_client_that_left(against, when, how):
    began, over = threading.Event(), threading.Event()

    def steps(wire, number):
        wire.head()
        if when == "within the answer":
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nfirst")
        began.set()
        wire.to_end()
        over.set()

    gateway, _ = against(steps)
    client = connect(gateway.port)
    if when == "within the upload":
        client.send(get(gateway, "Content-Length: 1000", method="POST") + b"part")
    else:
        client.send(get(gateway))
    wait(began, 10, "the origin has the request")
    if when == "within the answer":
        client.exactly(100)
    (client.close if how == "close" else client.reset)()
    assert wait(over, 5, "the origin's connection ends") < 1


def send_until_blocked(wire):
    wire.connection.settimeout(0.3)
    try:
        while True:
            wire.send(b"x" * 65536)
    except TimeoutError:
        wire.connection.settimeout(15)


def send_until_unread(client, gateway):
    """Until the gateway leaves some of it unread, and no more than there is room for: an end behind it arrives, too."""
    port = client.connection.getsockname()[1]

    def has_arrived():
        return streams.unsent(client.connection) == 0

    def is_read():
        return streams.waiting(gateway.port, port)[1] == 0

    def leaves_it_unread():
        # So little that there is room for it whether the gateway reads it or not.
        client.send(b"x" * (1 << 15))
        wait_until(has_arrived, 10, "what was sent arrives", pause=0.001)
        return not within(0.5, is_read, pause=0.002)

    wait_until(leaves_it_unread, 60, "the gateway reads no more", pause=0)


def leave(client, how):
    {"close": client.close, "reset": client.reset, "half": client.end_of_writing}[how]()


class Deaf:
    """An origin that reads no body, and notes when its system says that the connection ends."""

    def __init__(self):
        self.began = threading.Event()
        self.over = threading.Event()

    def __call__(self, wire, number):
        wire.head()
        poll = select.poll()
        poll.register(wire.connection, select.POLLRDHUP)
        self.began.set()
        if poll.poll(60_000):
            self.over.set()


@pytest.fixture
def blocked_upload(against):
    """A client whose upload the gateway has stopped reading, because the origin takes nothing of it."""
    steps = Deaf()
    gateway, origin = against(steps, drain="1s", body_idle_timeout="90s")
    # Little will do to fill what lies between.
    origin.server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client = connect(gateway.port)
    client.send(get(gateway, "Content-Length: 1000000000", method="POST"))
    wait(steps.began, 10, "the origin has the request")
    send_until_unread(client, gateway)
    yield client, steps, gateway.process.pid
    client.close()


@pytest.mark.parametrize("how", ["close", "half", "reset"])
def test_a_client_that_leaves_a_blocked_upload_is_noticed(blocked_upload, how):
    """The origin reads nothing, so the gateway reads nothing either: the end must be seen all the same."""
    client, _, pid = blocked_upload
    without = proc.descriptors(pid) - 2
    leave(client, how)
    wait_until(lambda: proc.descriptors(pid) <= without, 1, "both connections are given up")


@pytest.mark.parametrize("how", ["close", "reset"])
def test_an_origin_that_reads_nothing_is_told_that_the_client_of_its_upload_has_left(blocked_upload, how):
    """An end would wait behind what the origin does not read; a reset comes at once."""
    client, steps, _ = blocked_upload
    leave(client, how)
    wait(steps.over, 1, "the origin's connection ends")


@pytest.mark.parametrize("how", ["close", "half", "reset"])
def test_a_client_that_leaves_a_blocked_download_is_noticed(against, how):
    """The client reads nothing, so the origin can send nothing: that its sending fails is how it learns of the end."""
    blocked, over = threading.Event(), threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        send_until_blocked(wire)
        blocked.set()
        try:
            wire.send(b"x" * (64 << 20))
        except ConnectionError:
            over.set()

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway))
        wait(blocked, 10, "the origin can send no more")
        assert not over.is_set()
        leave(client, how)
        assert wait(over, 5, "the origin's connection ends") < 1


# Trailers


def test_trailers_pass_in_both_directions(against):
    arrived = []

    def steps(wire, number):
        wire.head()
        arrived.append(wire.until(b"\r\n\r\n"))
        wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 2\r\n\r\n")

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Transfer-Encoding: chunked", method="POST") + b"2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n")
        client.head()
        assert client.until(b"\r\n\r\n") == b"2\r\nok\r\n0\r\nX-Sum: 2\r\n\r\n"
    assert arrived == [b"2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n"]


@pytest.mark.parametrize("name", ["Content-Length", "Transfer-Encoding", "Host", "Authorization", "authorization", "Set-Cookie"])
def test_a_trailer_that_would_change_the_message_is_dropped(against, name):
    arrived = []

    def steps(wire, number):
        wire.head()
        arrived.append(wire.until(b"\r\n\r\n"))
        wire.send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: 1\r\n%s: 99\r\nX-B: 2\r\n\r\n" % name.encode()
        )

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        trailer = f"0\r\nX-A: 1\r\n{name}: 99\r\nX-B: 2\r\n\r\n".encode()
        client.send(get(gateway, "Transfer-Encoding: chunked", method="POST") + trailer)
        client.head()
        assert client.until(b"\r\n\r\n") == b"0\r\nX-A: 1\r\nX-B: 2\r\n\r\n"
    assert arrived == [b"0\r\nX-A: 1\r\nX-B: 2\r\n\r\n"]


@pytest.mark.parametrize(
    "trailer", [b"X: a\r\n b\r\n\r\n", b"X : a\r\n\r\n", b"X: a\x00\r\n\r\n", b"X: a\n\r\n", b": a\r\n\r\n", b"X: " + b"a" * 40_000 + b"\r\n\r\n"]
)
def test_a_broken_trailer_of_an_answer_is_a_cut(against, trailer):
    gateway, _ = against(answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" + trailer))
    with connect(gateway.port) as client:
        client.send(get(gateway))
        data = client.to_end()
        assert client.ended == "reset" or b" 502 " in data.split(b"\r\n")[0]
        assert not data.endswith(b"\r\n0\r\n\r\n")


# Chunks


@pytest.mark.parametrize(
    "chunks, content",
    [
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"000005\r\nhello\r\n000\r\n\r\n", b"hello"),
        (b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
        (b"a\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
        (b"5;name=value\r\nhello\r\n0;last\r\n\r\n", b"hello"),
        (b'5;name="a b;c"\r\nhello\r\n0\r\n\r\n', b"hello"),
        (b"1\r\n\r\r\n1\r\n\n\r\n5\r\n0\r\n\r\n\r\n0\r\n\r\n", b"\r\n0\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("direction", ["request", "response"])
def test_chunks_arrive_with_the_same_content_however_they_are_cut(origin, gateway, chunks, content, direction):
    pieces = [chunks] if direction == "request" else [chunks[at : at + 1] for at in range(len(chunks))]
    if direction == "response":
        origin.answer = lambda request: [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *pieces]
        with connect(gateway.port) as client:
            client.send(get(gateway, version="1.0"))
            client.head()
            assert client.to_end() == content
        return
    for size in (1, 2, 3, len(chunks)):
        with connect(gateway.port) as client:
            client.send(get(gateway, "Transfer-Encoding: chunked", "Connection: close", method="POST"))
            for at in range(0, len(chunks), size):
                client.send(chunks[at : at + size])
            assert client.head().startswith(b"HTTP/1.1 200")
        assert origin.last().body == content


BROKEN_CHUNKS = {
    "not a number": b"zz\r\nhello\r\n0\r\n\r\n",
    "no number": b"\r\nhello\r\n0\r\n\r\n",
    "nothing behind the semicolon": b"5;\r\nhello\r\n0\r\n\r\n",
    "only spaces behind the semicolon": b"5;  \r\nhello\r\n0\r\n\r\n",
    "an extension without a name": b"5;=b\r\nhello\r\n0\r\n\r\n",
    "nothing behind the semicolon of the last": b"5\r\nhello\r\n0;\r\n\r\n",
    "only an extension": b";a=b\r\nhello\r\n0\r\n\r\n",
    "line feeds": b"5\nhello\n0\n\n",
    "line feed in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "carriage return in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "zero byte in an extension": b"5;a\x00\r\nhello\r\n0\r\n\r\n",
    "longer than said": b"5\r\nhelloXX0\r\n\r\n",
    "shorter than said": b"5\r\nhel\r\n0\r\n\r\n",
    "minus": b"-5\r\nhello\r\n0\r\n\r\n",
    "plus": b"+5\r\nhello\r\n0\r\n\r\n",
    "underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "space before": b" 5\r\nhello\r\n0\r\n\r\n",
    "space behind": b"5 \r\nhello\r\n0\r\n\r\n",
    "tab behind": b"5\t\r\nhello\r\n0\r\n\r\n",
    "space before an extension": b"5 ;a=b\r\nhello\r\n0\r\n\r\n",
    "tab before an extension": b"5\t;a=b\r\nhello\r\n0\r\n\r\n",
    "space before the extension of the last": b"5\r\nhello\r\n0 ;a=b\r\n\r\n",
    "carriage return only": b"5\rhello\r0\r\r",
    "too many digits": b"0000000000000005\r\nhello\r\n0\r\n\r\n",
    "beyond 64 bits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "endless extension": b"5;" + b"a" * 5000 + b"\r\nhello\r\n0\r\n\r\n",
    "extensions without end": (b"1;" + b"a" * 1000 + b"\r\nx\r\n") * 100 + b"0\r\n\r\n",
    "full-width digit": "５\r\nhello\r\n0\r\n\r\n".encode(),
}


@pytest.mark.parametrize("chunks", BROKEN_CHUNKS.values(), ids=list(BROKEN_CHUNKS))
def test_a_broken_chunk_never_becomes_a_whole_request(origin, gateway, chunks):
    """The client goes on listening: it is told, and what it sent behind that is nobody's request."""
    with connect(gateway.port) as client:
        smuggled = b"GET /api/smuggled HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % gateway.port
        client.send(get(gateway, "Transfer-Encoding: chunked", method="POST") + chunks + smuggled)
        answer = raw.Answer(client.to_end())
        assert client.ended == "end", "a reset could take the answer away"
    assert answer.refuses(400), answer.data
    assert origin.count() == 0 and b"smuggled HTTP" not in origin.raw()


@pytest.mark.parametrize("chunks", BROKEN_CHUNKS.values(), ids=list(BROKEN_CHUNKS))
def test_a_broken_chunk_of_an_answer_is_a_cut(origin, gateway, chunks):
    origin.answer = lambda request: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    with connect(gateway.port) as client:
        client.send(get(gateway))
        data = client.to_end()
        assert client.ended == "reset" or data.startswith(b"HTTP/1.1 502"), data
        assert not data.endswith(b"\r\n0\r\n\r\n")


# Server-sent events


def test_each_event_of_a_stream_comes_when_it_is_sent(against):
    go_on = threading.Semaphore(0)

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for count in range(20):
            assert go_on.acquire(timeout=10)
            event = b"data: %d\n\n" % count
            wire.send(b"%x\r\n%s\r\n" % (len(event), event))
        wire.send(b"0\r\n\r\n")

    gateway, origin = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Accept: text/event-stream"))
        assert client.head().startswith(b"HTTP/1.1 200")
        for count in range(20):
            # The next one is sent only when this one is here.
            go_on.release()
            assert b"data: %d\n\n" % count in client.until(b"\n\n\r\n")
    assert not origin.failures


# Paths that pipelining makes long


def test_a_pipeline_deeper_than_the_buffers_is_served_in_order(origin, gateway):
    origin.answer = lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + request.target[-8:].encode()
    count = 2000
    with connect(gateway.port, 60) as client:
        requests = b"".join(
            b"GET /api/%08d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (number, gateway.port) for number in range(count)
        )
        sender = threading.Thread(target=client.send, args=(requests,), daemon=True)
        sender.start()
        for number in range(count):
            client.head()
            assert client.exactly(8) == b"%08d" % number
        sender.join(10)
    assert origin.count() == count and len(origin.streams) == 1


def test_one_that_is_refused_ends_a_pipeline(origin, gateway):
    bad = get(gateway, "Content-Length: 1", "Content-Length: 2", method="POST")
    answer = raw.exchange(gateway.port, get(gateway) + bad + get(gateway))
    assert answer.data.count(b"HTTP/1.1 200") == 1 and answer.data.count(b"HTTP/1.1 400") == 1
    wait_until(lambda: origin.count() == 1, 5, "only the first one reached the origin")


# HEAD, and answers in pieces


REFUSED_HEADS = {
    "no host": b"HEAD /api/x HTTP/1.1\r\n\r\n",
    "length": b"HEAD /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: x\r\n\r\n",
    "target": b"HEAD /api/x#a HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "long target": b"HEAD /api/" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "control byte": b"\r\nHEAD /api/\x01 HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "version": b"HEAD /api/x HTTP/2.0\r\nHost: {host}\r\n\r\n",
    "nowhere": b"HEAD /nowhere HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", REFUSED_HEADS.values(), ids=[name.replace(" ", "-") for name in REFUSED_HEADS])
def test_a_head_that_is_refused_gets_no_content(against, request_bytes):
    """RFC 9110 §9.3.2, also where it is refused before anything is known but its method."""
    gateway, _ = against(answering(OK))
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
        client.send(request_bytes.replace(b"{host}", b"127.0.0.1:%d" % gateway.port))
        assert re.match(rb"HTTP/1\.1 (4..|505) ", client.head()) and client.to_end() == b""
    # The one before says nothing of this one.
    with connect(gateway.port) as client:
        client.send(get(gateway, method="HEAD"))
        client.head()
        client.send(b"GET nothing at all\r\n\r\n")
        assert client.head().startswith(b"HTTP/1.1 400 ") and b'"status":400' in client.to_end()


IN_PIECES = {
    "chunked": b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n"
    b'Connection: x-p\r\nX-P: 1\r\n\r\n3;a="b"\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-T: 1\r\nSet-Cookie: z\r\n\r\n',
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nabc0123456789",
}


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("answer", IN_PIECES.values(), ids=IN_PIECES)
def test_an_answer_is_the_same_wherever_it_is_split_and_never_whole_where_it_is_cut(against, answer, version):
    plan = []

    def steps(wire, number):
        while wire.head():
            at, goes_on = plan[-1]
            wire.send(answer[:at])
            if not goes_on:
                return
            time.sleep(0.002)
            wire.send(answer[at:])

    gateway, _ = against(steps)

    def asked(at, goes_on):
        plan.append((at, goes_on))
        with connect(gateway.port) as client:
            client.send(get(gateway, "Connection: close", version=version))
            received = re.sub(rb"Date: [^\r]*", b"", client.to_end())
            # Each request has an id of its own.
            return re.sub(rb"(Gateway-Request-Id: )[0-9a-v]{7,}-[0-9a-v]+(?=\r\n)", rb"\1", received), client.ended

    whole = asked(len(answer), True)
    assert whole[1] == "end" and b" 200 OK\r\n" in whole[0] and b"abc" in whole[0]
    assert [at for at in range(1, len(answer)) if asked(at, True) != whole] == []
    for at in range(len(answer)):
        received, ended = asked(at, False)
        assert ended == "reset" or b"HTTP/1.1 502 " in received and ended == "end", (at, received)

"""What comes behind a chunked body: only what can do no harm, and a broken section is never the end of a message."""

import threading

import pytest
from harness.bytes import CHUNKED
from harness.configs import CANARY
from harness.processes import wait_until
from harness.script import OK, answering, connect, get, wait



class Recorder:
    """Keeps the body of each request as it came, up to its end or the end of the connection, and closes."""

    def __init__(self, answer=OK):
        self.answer = answer
        self.bodies = []
        self.over = threading.Event()

    def __call__(self, wire, number):
        wire.head()
        body = wire.until(b"\r\n\r\n")
        self.bodies.append(body)
        if body.endswith(b"\r\n\r\n"):
            wire.send(self.answer)
        self.over.set()


# Names that are read as others


LOOK_ALIKES = ["Content_Length", "Transfer_Encoding", "content_length", "TRANSFER_ENCODING"]


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_trailer_that_is_read_as_framing_elsewhere_does_not_reach_the_origin(shared, name):
    """CGI turns `_` and `-` into the same: there it would be the length or the coding of the message."""
    recorder = Recorder()
    gateway, origin = shared(recorder)
    with connect(gateway.port) as client:
        body = f"2\r\nhi\r\n0\r\nX-A: 1\r\n{name}: 99\r\nX-B: 2\r\n\r\n".encode()
        client.send(get(gateway, CHUNKED, "Connection: close", method="POST") + body)
        head = client.head()
    wait(recorder.over, 5, "the origin's connection ends")
    assert head.startswith(b"HTTP/1.1 200 "), head
    assert name.lower().encode() not in origin.wires[0].received.lower()
    assert recorder.bodies == [b"2\r\nhi\r\n0\r\nX-A: 1\r\nX-B: 2\r\n\r\n"]


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_trailer_that_is_read_as_framing_elsewhere_does_not_reach_the_client(shared, name):
    trailers = f"0\r\nX-A: 1\r\n{name}: 99\r\nX-B: 2\r\n\r\n".encode()
    gateway, _ = shared(answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n" + trailers))
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: close"))
        assert client.head().startswith(b"HTTP/1.1 200 ")
        rest = client.to_end()
    assert rest == b"2\r\nok\r\n0\r\nX-A: 1\r\nX-B: 2\r\n\r\n"


@pytest.fixture(scope="module")
def keyed(standing, make_module_gateway):
    """A gateway before the same origin, with a credential in a field of its own."""
    _, origin = standing
    auth = {"strategy": "header", "name": "X-Api-Key", "value": CANARY}
    return make_module_gateway({"routes": {"api": {"upstream": origin.url, "auth": auth}}}).start()


@pytest.mark.parametrize("name", ["X_Api_Key", "x-api-key", "X-Api_Key"])
def test_a_trailer_that_is_read_as_the_credential_does_not_reach_the_origin(shared, keyed, name):
    recorder, gateway = Recorder(), keyed
    _, origin = shared(recorder)
    with connect(gateway.port) as client:
        body = f"2\r\nhi\r\n0\r\nX-A: 1\r\n{name}: mine\r\n\r\n".encode()
        client.send(get(gateway, CHUNKED, "Connection: close", method="POST") + body)
        assert client.head().startswith(b"HTTP/1.1 200 ")
    wait(recorder.over, 5, "the origin's connection ends")
    assert b"mine" not in origin.wires[0].received and recorder.bodies == [b"2\r\nhi\r\n0\r\nX-A: 1\r\n\r\n"]


# Requests whose trailers are broken


BROKEN = {
    "folded": (b"X-A: a\r\n b\r\n\r\n", b"400"),
    "folded with a tab": (b"X-A: a\r\n\tb\r\n\r\n", b"400"),
    "folded first": (b" X-A: a\r\n\r\n", b"400"),
    "space before the colon": (b"X-A : a\r\n\r\n", b"400"),
    "tab before the colon": (b"X-A\t: a\r\n\r\n", b"400"),
    "zero byte": (b"X-A: a\x00b\r\n\r\n", b"400"),
    "zero byte in the name": (b"X\x00A: a\r\n\r\n", b"400"),
    "bell": (b"X-A: a\x07\r\n\r\n", b"400"),
    "delete": (b"X-A: a\x7f\r\n\r\n", b"400"),
    "line feed in a value": (b"X-A: a\nX-B: b\r\n\r\n", b"400"),
    "line feeds only": (b"X-A: a\n\n", b"400"),
    "line feed at the end": (b"X-A: a\r\n\n", b"400"),
    "carriage return": (b"X-A: a\rX-B: b\r\n\r\n", b"400"),
    "no colon": (b"X-A\r\n\r\n", b"400"),
    "no name": (b": a\r\n\r\n", b"400"),
    "a request": (b"GET /api/smuggled HTTP/1.1\r\nHost: a\r\n\r\n", b"400"),
    "40,000 bytes": (b"X-A: " + b"a" * 40_000 + b"\r\n\r\n", b"431"),
    "40,000 bytes without an end": (b"X-A: " + b"a" * 40_000, b"431"),
    "101 fields": (b"".join(b"X-%d: a\r\n" % number for number in range(101)) + b"\r\n", b"431"),
}


@pytest.mark.parametrize("trailers, status", BROKEN.values(), ids=[name.replace(" ", "-") for name in BROKEN])
@pytest.mark.parametrize("is_late", [False, True], ids=["together", "later"])
def test_broken_trailers_of_a_request_never_end_it(shared, trailers, status, is_late):
    """The origin sees a body that was cut, and nothing of the trailers; the client is told why."""
    recorder = Recorder()
    gateway, origin = shared(recorder)
    begin, rest = get(gateway, CHUNKED, method="POST") + b"2\r\nhi\r\n", b"0\r\n" + trailers + get(gateway, path="/api/next")
    with connect(gateway.port) as client:
        if is_late:
            client.send(begin)
            wait_until(lambda: origin.wires and b"hi\r\n" in origin.wires[0].received, 5, "the origin has the chunk")
            client.send(rest)
        else:
            client.send(begin + rest)
        head = client.head()
        assert head.startswith(b"HTTP/1.1 " + status) and b"\r\nConnection: close\r\n" in head, head
        assert b"HTTP/1.1 " not in client.to_end(), "what followed was not served"
    wait(recorder.over, 5, "the origin's connection is closed")
    [wire] = origin.wires
    # Where one read brings all of it, the connection to the origin ends unused; the first request of a worker comes in parts.
    may_be_unused = not is_late and len(trailers) < 1000
    cut = b"2\r\nhi\r\n0\r\n"
    assert recorder.bodies == [cut] or may_be_unused and recorder.bodies == [b""], wire.received
    assert wire.received.endswith(b"\r\n\r\n" + cut) or may_be_unused and wire.received == b""


def test_broken_trailers_behind_an_answer_that_has_begun_cut_it(shared):
    """Its status is out already; a clean end would say that both were whole."""
    over = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
        assert wire.to_end() == b"2\r\nhi\r\n0\r\n"
        over.set()

    gateway, _ = shared(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, CHUNKED, method="POST") + b"2\r\nhi\r\n")
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(5) == b"first"
        client.send(b"0\r\nX-A : a\r\n\r\n")
        assert client.to_end() == b"" and client.ended == "reset"
    wait(over, 5, "the origin's connection is closed")


def test_trailers_that_stop_coming_are_a_request_that_is_late(against):
    recorder = Recorder()
    gateway, _ = against(recorder, body_idle_timeout="1s")
    with connect(gateway.port) as client:
        client.send(get(gateway, CHUNKED, method="POST") + b"2\r\nhi\r\n0\r\nX-A: a\r\n")
        head = client.head()
        assert head.startswith(b"HTTP/1.1 408 "), head
    wait(recorder.over, 5, "the origin's connection is closed")
    assert recorder.bodies == [b"2\r\nhi\r\n0\r\n"]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_trailers_that_come_in_pieces_arrive_whole(shared, size):
    recorder = Recorder()
    gateway, _ = shared(recorder)
    body = b"2\r\nhi\r\n0\r\nX-A: 1\r\nX-B: \t2 \r\nX-Empty:\r\n\r\n"
    with connect(gateway.port) as client:
        client.send(get(gateway, CHUNKED, "Connection: close", method="POST"))
        for at in range(0, len(body), size):
            client.send(body[at : at + size])
        assert client.head().startswith(b"HTTP/1.1 200 ")
    wait(recorder.over, 5, "the origin's connection ends")
    assert recorder.bodies == [body]


# Fields that have no business behind a body


@pytest.mark.parametrize(
    "name",
    ["Content-Type", "Content_Type", "Set_Cookie", "Proxy_Authorization", "If-Match", "if_none_match", "Pragma", "Host", "_Host"],
)
def test_a_trailer_that_would_change_what_was_judged_is_dropped(shared, name):
    """Request modifiers, routing, framing and credentials (RFC 9110 §6.5.1), whichever way an upstream reads `_`."""
    recorder = Recorder()
    gateway, _ = shared(recorder)
    with connect(gateway.port) as client:
        body = f"2\r\nhi\r\n0\r\nX-A: 1\r\n{name}: 99\r\nX-B: 2\r\n\r\n".encode()
        client.send(get(gateway, CHUNKED, "Connection: close", method="POST") + body)
        assert client.head().startswith(b"HTTP/1.1 200 ")
    own = b"_Host: 99\r\n" if name == "_Host" else b""
    assert recorder.bodies == [b"2\r\nhi\r\n0\r\nX-A: 1\r\n" + own + b"X-B: 2\r\n\r\n"]

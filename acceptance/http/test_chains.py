"""nginx, HAProxy and gunicorn before and behind the gateway: no request of one reader becomes two of another, and no answer."""

import concurrent.futures
import contextlib
import hashlib
import json
import random
import re
import threading
import time

import pytest
from harness.bytes import body_of, framed
from harness.configs import BEARER, CANARY
from harness import debian, raw
from harness.corpus import CUT_OFF, GUNICORN, addressed_to, corpus, own_cases
from harness.origin import response
from harness.script import connect, wait

#: A request within the body of another one, by one of the ways to read that.
PROBE = b"GET /probe HTTP/1.1\r\nHost: x\r\nX-Probe: 1\r\n\r\n"


def length(fields, body=PROBE, target=b"/x"):
    return b"POST " + target + b" HTTP/1.1\r\nHost: {host}\r\n" + fields + b"\r\n" + body


SIZE = b"%d" % len(PROBE)
CHUNKED_END = b"0\r\n\r\n"
# Each hides the probe behind a head that readers disagree about. In a sound chain it arrives as a body, or not at all.
SMUGGLING = {
    "honest": length(b"Content-Length: " + SIZE + b"\r\n"),
    "honest chunks": length(b"Transfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(PROBE), PROBE)),
    "length before coding": length(b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % (len(PROBE) + 5), CHUNKED_END + PROBE),
    "coding before length": length(b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", CHUNKED_END + PROBE),
    "zero length with coding": length(b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", CHUNKED_END + PROBE),
    "two lengths": length(b"Content-Length: " + SIZE + b"\r\nContent-Length: 0\r\n"),
    "two lengths turned": length(b"Content-Length: 0\r\nContent-Length: " + SIZE + b"\r\n"),
    "list of lengths": length(b"Content-Length: 0, " + SIZE + b"\r\n"),
    "plus": length(b"Content-Length: +" + SIZE + b"\r\n"),
    "space in the name": length(b"Content-Length : " + SIZE + b"\r\n"),
    "tab in the name": length(b"Content-Length\t: " + SIZE + b"\r\n"),
    "space in the coding's name": length(b"Transfer-Encoding : chunked\r\n", CHUNKED_END + PROBE),
    "underscore": length(b"Content_Length: 0\r\nContent-Length: " + SIZE + b"\r\n"),
    "coding with an underscore": length(b"Transfer_Encoding: chunked\r\nContent-Length: %d\r\n" % (len(PROBE) + 5), CHUNKED_END + PROBE),
    "vertical tab": length(b"Transfer-Encoding: \x0bchunked\r\nContent-Length: %d\r\n" % (len(PROBE) + 5), CHUNKED_END + PROBE),
    "unknown coding": length(b"Transfer-Encoding: xchunked\r\nContent-Length: %d\r\n" % (len(PROBE) + 5), CHUNKED_END + PROBE),
    "identity": length(b"Transfer-Encoding: identity\r\nContent-Length: " + SIZE + b"\r\n"),
    "chunked then identity": length(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: " + SIZE + b"\r\n"),
    "folded coding": length(b"Transfer-Encoding:\r\n chunked\r\nContent-Length: %d\r\n" % (len(PROBE) + 5), CHUNKED_END + PROBE),
    "line feed before coding": length(b"X: a\nTransfer-Encoding: chunked\r\nContent-Length: %d\r\n" % (len(PROBE) + 5), CHUNKED_END + PROBE),
    "return before coding": length(b"X: a\rTransfer-Encoding: chunked\r\nContent-Length: %d\r\n" % (len(PROBE) + 5), CHUNKED_END + PROBE),
    "1.0 with coding": length(b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n", CHUNKED_END + PROBE).replace(b"HTTP/1.1", b"HTTP/1.0", 1),
    "nominated length": length(b"Connection: Content-Length\r\nContent-Length: " + SIZE + b"\r\n"),
    "nominated coding": length(b"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(PROBE), PROBE)),
    "chunk with a line feed": length(b"Transfer-Encoding: chunked\r\n", b"0\n\n" + PROBE),
    "chunk extension with a line feed": length(b"Transfer-Encoding: chunked\r\n", b"0;a\n\r\n" + PROBE),
    "chunk of 64 bits and more": length(b"Transfer-Encoding: chunked\r\n", b"10000000000000000\r\n\r\n" + PROBE),
    "chunk with a space": length(b"Transfer-Encoding: chunked\r\n", b"0 \r\n\r\n" + PROBE),
    "chunk with a sign": length(b"Transfer-Encoding: chunked\r\n", b"-0\r\n\r\n" + PROBE),
    "trailer that frames": length(b"Transfer-Encoding: chunked\r\n", b"0\r\nContent-Length: " + SIZE + b"\r\n\r\n"),
    "get with a length": length(b"Content-Length: " + SIZE + b"\r\n").replace(b"POST", b"GET", 1),
    "head with a length": length(b"Content-Length: " + SIZE + b"\r\n").replace(b"POST", b"HEAD", 1),
    "expect": length(b"Expect: 100-continue\r\nContent-Length: " + SIZE + b"\r\n"),
    "upgrade": length(b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: " + SIZE + b"\r\n"),
    "upgrade to h2c": length(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: " + SIZE + b"\r\n"),
    "absolute": length(b"Content-Length: " + SIZE + b"\r\n", target=b"http://{host}/x"),
}


@pytest.fixture
def chain(tmp_path, origin, start_gateway):
    """Builds client -> front -> gateway -> back -> recording origin and returns the port to send to."""
    made = []

    def start(front=None, back=None):
        address = f"127.0.0.1:{origin.port}"
        if back:
            made.append(proxy(back, tmp_path / "back", address))
            address = f"127.0.0.1:{made[-1].port}"
        gateway = start_gateway(
            {"routes": {"all": {"upstream": f"http://{address}", "match": {"path": "/"}, "auth": BEARER}}}
        )
        if not front:
            return gateway.port
        made.append(proxy(front, tmp_path / "front", f"127.0.0.1:{gateway.port}"))
        return made[-1].port

    yield start
    for server in made:
        server.stop()


def proxy(kind, folder, address):
    if kind == "haproxy":
        return debian.haproxy(folder, address, f"http-request set-header Host {address}")
    passing = 'proxy_pass http://next; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering off;'
    return debian.nginx(folder, f"location / {{ {passing} proxy_set_header Host {address}; }}", upstream=address)


def answered(answer):
    """The targets that the answers on one connection are for, in order."""
    return [target.decode() for target in re.findall(rb"(?i)\r\nx-target: (/[a-z0-9]*)\r\n", answer.data)]


#: What the body is where it is not the probe, if one request follows the other.
BODIES = {"coding with an underscore": CHUNKED_END + PROBE, "trailer that frames": b""}


def bodies(name, targets):
    """What belongs to these requests: the probe is in the body of the first, or cut off, or a request of its own."""
    body = BODIES.get(name, PROBE) if targets[:2] == ["/x", "/follower"] else b""
    return [body if target == "/x" else b"" for target in targets]


FOLLOWER = b"GET /follower HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("front, back", [(None, "nginx"), (None, "haproxy"), ("nginx", None), ("haproxy", None), ("nginx", "nginx"), ("nginx", "haproxy"), ("haproxy", "nginx"), ("haproxy", "haproxy")])
def test_all_of_a_chain_see_the_same_requests(chain, origin, front, back):
    """A front may read a probe as a request of its own: then it answers it too. It is a desync when one sees more than another."""
    port = chain(front, back)
    host = b"127.0.0.1:%d" % port
    origin.answer = lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Target: %s\r\n\r\nok" % request.target.encode()
    for name, request in SMUGGLING.items():
        before = origin.count()
        answer = raw.exchange(port, (request + FOLLOWER).replace(b"{host}", host))
        assert answer.status, f"{name}: no answer"
        arrived = [request.target for request in origin.requests[before:]]
        assert answered(answer) == arrived, name
        assert [request.body for request in origin.requests[before:]] == bodies(name, arrived), name
        if front is None:
            assert arrived in ([], ["/x"], ["/x", "/follower"]), name
        others_are_served(port, name)
        assert [(request.target, request.body) for request in origin.requests[-3:]] == [(f"/clean{n}", b"") for n in range(3)], name
    assert all(request.values("authorization") == [f"Bearer {CANARY}"] for request in origin.requests)


@pytest.mark.parametrize("front", [None, "nginx", "haproxy"])
def test_gunicorn_behind_the_gateway_sees_the_same_requests(tmp_path, start_gateway, front):
    made = [debian.gunicorn(tmp_path / "gunicorn", "echo_server:application")]
    try:
        gateway = start_gateway({"routes": {"all": {"upstream": made[0].url, "match": {"path": "/"}, "auth": BEARER}}})
        port = gateway.port
        if front:
            made.append(proxy(front, tmp_path / "front", f"127.0.0.1:{gateway.port}"))
            port = made[-1].port
        host = b"127.0.0.1:%d" % port
        expected = []
        for name, request in SMUGGLING.items():
            arrived = answered(raw.exchange(port, (request + FOLLOWER).replace(b"{host}", host)))
            if name.startswith("honest"):
                assert arrived == ["/x", "/follower"], name
            if front is None:
                assert arrived in ([], ["/x"], ["/x", "/follower"]), name
            expected += zip(arrived, bodies(name, arrived), strict=True)
            clean = raw.exchange(port, b"GET /clean HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host)
            assert answered(clean) == ["/clean"], (name, clean.data)
            expected.append(("/clean", b""))
        seen = raw.exchange(port, b"GET /seen HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host)
        digests = [[target, hashlib.sha256(body).hexdigest()] for target, body in [*expected, ("/seen", b"")]]
        assert json.loads(re.search(rb"\[.*\]", seen.data).group()) == digests
    finally:
        for server in reversed(made):
            server.stop()


def whole_corpora(treq, port, origin):
    """Every request of gunicorn's corpus and of ours, but for what says that more comes than there is."""
    host = b"127.0.0.1:%d" % port
    for kind, read in (("valid", lambda path: treq.request(path, [])), ("invalid", treq.badrequest)):
        for [path] in (case.values for case in corpus(kind)):
            if path.stem not in CUT_OFF:
                yield f"{kind} {path.stem}", addressed_to(host, read(str(path)).data)
    places = {"{host}": host.decode(), "{port}": str(port), "{other_port}": "1", "{origin}": f"127.0.0.1:{origin.port}"}
    for [case] in (case.values for case in own_cases()):
        yield f"own {case.name}", case.data(places)


def until_quiet(port, request):
    """A front may wait for more of a body that it reads otherwise."""
    with connect(port, 1) as client:
        client.send(request)
        with contextlib.suppress(TimeoutError):
            client.to_end()
        return raw.Answer(client.received)


def short(target):
    """Some are longer than nginx likes a field of an answer."""
    return "/" + hashlib.sha256(target.encode("latin-1")).hexdigest()


@pytest.mark.skipif(GUNICORN is None, reason="no corpus: run scripts/setup-tests")
@pytest.mark.parametrize("front, back", [(None, "nginx"), (None, "haproxy"), ("nginx", None), ("haproxy", None), ("nginx", "haproxy"), ("haproxy", "nginx")])
def test_all_of_a_chain_see_the_same_of_the_corpora(chain, origin, make_origin, treq, front, back):
    port = chain(front, back)
    host = b"127.0.0.1:%d" % port
    origin.answer = lambda request: response(200, b"ok", f"X-Target: {short(request.target)}")
    direct = make_origin(origin.answer)
    compared = 0
    for name, request in whole_corpora(treq, port, origin):
        before = origin.count()
        answer = until_quiet(port, request + FOLLOWER.replace(b"{host}", host))
        arrived = origin.requests[before:]
        assert answered(answer) == [short(request.target) for request in arrived], name
        # Where as many arrive as an origin reads that is asked without a chain, they have the same bodies.
        direct.forget()
        raw.exchange(direct.port, request + FOLLOWER.replace(b"{host}", host), end_of_writing=True)
        if len(arrived) == direct.count() > 1:
            compared += 1
            assert [request.body for request in arrived] == [request.body for request in direct.requests], name
        assert raw.exchange(port, FOLLOWER.replace(b"{host}", host)).status == 200
        assert origin.requests[-1].target == "/follower", name
    assert compared > 50
    assert all(request.values("authorization") == [f"Bearer {CANARY}"] for request in origin.requests)


# Answers that readers disagree about


POISON = b"HTTP/1.1 200 OK\r\nX-Target: /poison\r\nContent-Length: 6\r\n\r\npoison"


def said(fields, body=b"", line=b"HTTP/1.1 200 OK"):
    return line + b"\r\n" + fields + b"\r\n" + body


def chunks(body):
    return said(b"Transfer-Encoding: chunked\r\n", body)


HELLO = b"5\r\nhello\r\n" + CHUNKED_END
#: Each with the content that it has, or None where it must not pass for a whole answer. A second answer follows each of them.
HOSTILE = {
    "honest": (said(b"Content-Length: 5\r\n", b"hello"), b"hello"),
    "honest chunks": (chunks(HELLO), b"hello"),
    "no content": (said(b"Content-Length: 0\r\n"), b""),
    "length that reaches into a second answer": (said(b"Content-Length: 10\r\n", b"hello"), b"helloHTTP/"),
    "204 with a body": (said(b"Content-Length: 5\r\n", b"hello", b"HTTP/1.1 204 No Content"), b""),
    "204 with chunks": (said(b"Transfer-Encoding: chunked\r\n", HELLO, b"HTTP/1.1 204 No Content"), b""),
    "204 with nothing but a second answer": (said(b"", line=b"HTTP/1.1 204 No Content"), b""),
    "304 with chunks": (said(b"Transfer-Encoding: chunked\r\n", HELLO, b"HTTP/1.1 304 Not Modified"), b""),
    "304 with a body": (said(b"Content-Length: 5\r\n", b"hello", b"HTTP/1.1 304 Not Modified"), b""),
    "length and coding": (said(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", HELLO), None),
    "coding and length": (said(b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", CHUNKED_END), None),
    "coding and all of it as length": (said(b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n" % (5 + len(POISON)), CHUNKED_END), None),
    "two lengths": (said(b"Content-Length: 5\r\nContent-Length: %d\r\n" % (5 + len(POISON)), b"hello"), None),
    "two lengths turned": (said(b"Content-Length: %d\r\nContent-Length: 5\r\n" % (5 + len(POISON)), b"hello"), None),
    "equal lengths": (said(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"hello"), None),
    "list of lengths": (said(b"Content-Length: 5, 5\r\n", b"hello"), None),
    "plus": (said(b"Content-Length: +5\r\n", b"hello"), None),
    "minus": (said(b"Content-Length: -5\r\n", b"hello"), None),
    "length of 64 bits and more": (said(b"Content-Length: 18446744073709551621\r\n", b"hello"), None),
    "space in the length's name": (said(b"Content-Length : 5\r\n", b"hello"), None),
    "folded coding": (said(b"Transfer-Encoding:\r\n chunked\r\n", HELLO), None),
    "coding that goes on": (said(b"Transfer-Encoding: chunked\r\n , identity\r\n", HELLO), None),
    "length that goes on": (said(b"Content-Length: 5\r\n 0\r\n", b"hello"), None),
    "unknown coding": (said(b"Transfer-Encoding: xchunked\r\n", HELLO), None),
    "identity": (said(b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n", b"hello"), None),
    "list of codings": (said(b"Transfer-Encoding: gzip, chunked\r\n", HELLO), None),
    "chunked twice": (said(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", HELLO), None),
    "vertical tab": (said(b"Transfer-Encoding: \x0bchunked\r\n", HELLO), None),
    "space in the coding's name": (said(b"Transfer-Encoding : chunked\r\n", HELLO), None),
    "1.0 with coding": (said(b"Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n", HELLO, b"HTTP/1.0 200 OK"), None),
    "line feeds": (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", None),
    "line feed before the length": (said(b"X: a\nContent-Length: 5\r\n", b"hello"), None),
    "return before the length": (said(b"X: a\rContent-Length: 5\r\n", b"hello"), None),
    "head that ends with line feeds": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\n\nhello", None),
    "switch that nobody asked for": (said(b"Connection: Upgrade\r\nUpgrade: echo\r\n", line=b"HTTP/1.1 101 Switching Protocols"), None),
    "chunks with line feeds": (chunks(b"5\nhello\n0\n\n"), None),
    "chunk with a sign": (chunks(b"-5\r\nhello\r\n" + CHUNKED_END), None),
    "chunk with a space": (chunks(b"5 \r\nhello\r\n" + CHUNKED_END), None),
    "chunk with a prefix": (chunks(b"0x5\r\nhello\r\n" + CHUNKED_END), None),
    "chunk of no number": (chunks(b"xyz\r\nhello\r\n" + CHUNKED_END), None),
    "chunk of 64 bits and more": (chunks(b"10000000000000005\r\nhello\r\n" + CHUNKED_END), None),
    "chunk longer than said": (chunks(b"5\r\nhelloXX\r\n" + CHUNKED_END), None),
    "chunk shorter than said": (chunks(b"7\r\nhello\r\n" + CHUNKED_END), None),
    "chunk extension with a line feed": (chunks(b"5;a\nb\r\nhello\r\n" + CHUNKED_END), None),
    "trailer with a line feed": (chunks(b"5\r\nhello\r\n0\r\nX: a\nContent-Length: 5\r\n\r\n"), None),
    "trailer that is folded": (chunks(b"5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n"), None),
}
#: Whose connection ends before they do.
SHORT = {
    "short body": said(b"Content-Length: 10\r\n", b"hello"),
    "short chunk": chunks(b"a\r\nhello"),
    "no last chunk": chunks(b"5\r\nhello\r\n"),
    "no end of the trailers": chunks(b"5\r\nhello\r\n0\r\n"),
    "short head": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
}


class TwoFaced:
    """Answers /hostile as it is told and adds a second answer, at once or in a segment 5 ms later; to all else it is honest."""

    def __init__(self, answer, is_late):
        self.answer = answer
        self.is_late = is_late
        self.is_over = threading.Event()

    def __call__(self, request):
        if not request.target.startswith("/hostile"):
            return response(200, request.target.encode(), f"X-Target: {request.target}")
        return self.late() if self.is_late else self.at_once()

    def at_once(self):
        yield self.answer + POISON
        self.is_over.set()

    def late(self):
        try:
            yield self.answer
            time.sleep(0.005)
            yield POISON
        finally:
            self.is_over.set()


class CutsShort(TwoFaced):
    def at_once(self):
        yield self.answer
        self.is_over.set()
        raise ConnectionError("it ends here")


def content(client):
    """Of the next answer: its status, and its content or None where it is cut."""
    head = client.head()
    if not head.endswith(b"\r\n\r\n"):
        return None, None
    status = int(head.split(b" ")[1])
    if status in (204, 304):
        return status, b""
    with contextlib.suppress(ValueError, AssertionError):
        body = body_of(client, head)
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        return status, body if length is None or len(body) == int(length[1]) else None
    return status, None


def is_an_error(answer):
    status, body = answer
    return body is None or status >= 500


def ask_both(port, origin, number):
    """What a hostile answer comes out as, what the next request gets, and all bytes that came.

    Both go over one connection where that is left to the client.
    """
    host = b"Host: 127.0.0.1:%d\r\n\r\n" % port
    with connect(port) as client, connect(port) as another:
        client.send(b"GET /hostile%d HTTP/1.1\r\n" % number + host)
        first = content(client)
        # A second answer that comes when the next request is on its way could not be told from the answer to that.
        wait(origin.answer.is_over, 10, "the origin has said all it says")
        for each in (client, another):
            with contextlib.suppress(ConnectionError):
                each.send(b"GET /follower%d HTTP/1.1\r\n" % number + host)
                if each.buffer or each.more():
                    return first, content(each), client.received + another.received
    raise AssertionError("no answer to the second request")


def connections_of(origin, target):
    """What was asked over each connection that this request came over, from it on."""
    with origin.lock:
        streams = [bytes(stream).partition(b"GET " + target + b" ") for stream in origin.streams]
    return [rest.count(b"\r\n\r\n") for _, found, rest in streams if found]


@pytest.mark.parametrize("is_late", [False, True], ids=["at-once", "later"])
@pytest.mark.parametrize("front", [None, "nginx", "haproxy"])
def test_nobody_gets_what_comes_behind_a_hostile_answer(chain, origin, front, is_late):
    port = chain(front)
    for number, (name, (answer, expected)) in enumerate(HOSTILE.items()):
        origin.answer = TwoFaced(answer, is_late)
        first, second, received = ask_both(port, origin, number)
        if expected is None:
            assert is_an_error(first), (name, first)
        else:
            assert first == (int(answer.split(b" ")[1]), expected), (name, first)
        assert second == (200, b"/follower%d" % number) and b"poison" not in received, (name, second, received)
        assert [request.target for request in origin.requests[-2:]] == [f"/hostile{number}", f"/follower{number}"], name
        assert connections_of(origin, b"/hostile%d" % number) == [1], f"{name}: nothing more goes over its connection"
        others_are_served(port, name)
    assert len(origin.streams) < origin.count(), "connections are used again, or nothing is proved"


@pytest.mark.parametrize("front", [None, "nginx", "haproxy"])
def test_an_answer_that_ends_too_soon_is_cut_for_the_client_of_a_chain_too(chain, origin, front):
    port = chain(front)
    for number, (name, answer) in enumerate(SHORT.items()):
        origin.answer = CutsShort(answer, is_late=False)
        first, second, _ = ask_both(port, origin, number)
        assert is_an_error(first), (name, first)
        assert second == (200, b"/follower%d" % number), (name, second)
        others_are_served(port, name)


def others_are_served(port, name):
    """Nor is a connection of the chain left behind with a rest of it for somebody else."""
    for number in range(3):
        clean = raw.exchange(port, b"GET /clean%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % (number, port))
        assert clean.status == 200 and answered(clean) == [f"/clean{number}"], (name, clean.data)


# Many at once


AT_ONCE, PER_CLIENT = 16, 125


@pytest.mark.parametrize("front, back", [("nginx", "haproxy"), ("haproxy", "nginx")])
def test_thousands_of_requests_through_a_chain_keep_their_answers(chain, origin, seed, front, back):
    """Kept connections at every hop, many clients at once, bodies of every framing and size, to each its own answer."""
    port = chain(front, back)
    origin.answer = lambda request: response(200, request.target[1:].encode() + request.body)

    def ask(number):
        source = random.Random(seed + number)
        with connect(port, 30) as client:
            for request in range(PER_CLIENT):
                name = b"%d-%d" % (number, request)
                body = source.randbytes(source.choice([0, 1, 10, 1000, 20_000]))
                content = framed(body, "length" if source.random() < 0.5 else "chunked")
                client.send(b"POST /%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s" % (name, port, content))
                answer = client.head()
                assert answer.startswith(b"HTTP/1.1 200"), answer
                content = body_of(client, answer)
                assert content == name + body, (name, content[:100], len(content))
                client.received = b""

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as clients:
        list(clients.map(ask, range(AT_ONCE)))
    assert origin.count() == AT_ONCE * PER_CLIENT, "each request came once"
    assert len({request.target for request in origin.requests}) == AT_ONCE * PER_CLIENT

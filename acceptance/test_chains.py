"""nginx, HAProxy and gunicorn before and behind the gateway: no request of one reader becomes two of another."""

import concurrent.futures
import json
import os
import random
import re

import pytest
from conftest import CANARY
from harness import debian, raw
from harness.origin import response
from harness.script import connect
from test_tls_framing import body_of

BEARER = {"strategy": "bearer", "token": CANARY}
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
    passing = f'proxy_pass http://next; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering off;'
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


@pytest.mark.parametrize("front, back", [(None, "nginx"), (None, "haproxy"), ("nginx", None), ("haproxy", None), ("nginx", "haproxy"), ("haproxy", "nginx")])
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
        # Nor is a connection of the chain left behind with a rest of it for somebody else.
        for number in range(3):
            clean = raw.exchange(port, b"GET /clean%d HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (number, host))
            assert clean.status == 200 and answered(clean) == [f"/clean{number}"], (name, clean.data)
            assert origin.last().target == f"/clean{number}" and origin.last().body == b"", name
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
            expected += answered(raw.exchange(port, (request + FOLLOWER).replace(b"{host}", host)))
            clean = raw.exchange(port, b"GET /clean HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host)
            assert answered(clean) == ["/clean"], (name, clean.data)
            expected += ["/clean"]
        seen = raw.exchange(port, b"GET /seen HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host)
        assert json.loads(re.search(rb"\[.*\]", seen.data).group()) == [*expected, "/seen"]
    finally:
        for server in reversed(made):
            server.stop()


AT_ONCE, PER_CLIENT = 16, 125


def framed(body, source):
    """In chunks, or with a length."""
    if source.random() < 0.5:
        return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    return b"Transfer-Encoding: chunked\r\n\r\n" + (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + CHUNKED_END


@pytest.mark.parametrize("front, back", [("nginx", "haproxy"), ("haproxy", "nginx")])
def test_thousands_of_requests_through_a_chain_keep_their_answers(chain, origin, front, back):
    """Kept connections at every hop, many clients at once, bodies of every framing and size, to each its own answer."""
    port = chain(front, back)
    seed = int(os.environ.get("AUTHGATEWAY_SEED", "1"))
    origin.answer = lambda request: response(200, request.target[1:].encode() + request.body)

    def ask(number):
        source = random.Random(seed + number)
        with connect(port, 30) as client:
            for request in range(PER_CLIENT):
                name = b"%d-%d" % (number, request)
                body = source.randbytes(source.choice([0, 1, 10, 1000, 20_000]))
                client.send(b"POST /%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s" % (name, port, framed(body, source)))
                answer = client.head()
                assert answer.startswith(b"HTTP/1.1 200"), answer
                content = body_of(client, answer)
                assert content == name + body, (name, content[:100], len(content))
                client.received = b""

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as clients:
        list(clients.map(ask, range(AT_ONCE)))
    assert origin.count() == AT_ONCE * PER_CLIENT, "each request came once"
    assert len({request.target for request in origin.requests}) == AT_ONCE * PER_CLIENT

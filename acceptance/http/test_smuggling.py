"""Requests that two parsers could read differently, judged by what reached the origin."""

import collections
import concurrent.futures
import functools
import random
import re
import socket

import pytest
from harness.configs import BEARER, CANARY, plain_config
from harness import proc, raw
from harness.processes import wait_until

SMUGGLED = b"GET /api/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n"


@pytest.fixture(scope="module")
def gateway(standing_recorder, make_module_gateway):
    url = standing_recorder.url
    key = {"strategy": "header", "name": "X-Api-Key", "value": CANARY}
    routes = {"api": {"upstream": url, "auth": BEARER}, "key": {"upstream": url, "match": {"path": "/key"}, "auth": key}}
    return make_module_gateway({"routes": routes}).start()


@pytest.fixture
def origin(recorder):
    return recorder


def send(gateway, request, **options):
    return raw.exchange(gateway.port, request.replace(b"{host}", f"127.0.0.1:{gateway.port}".encode()), **options)


REFUSED = {
    "length and chunked": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\nhello",
    "equal lengths": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "list of lengths": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5, 5\r\n\r\nhello",
    "signed length": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: +5\r\n\r\nhello",
    "hexadecimal length": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0x5\r\n\r\nhello",
    "empty length": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: \r\n\r\nhello",
    "huge length": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
    "unknown coding": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "coding on two lines": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "coding with a tab": b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "coding in 1.0": b"POST /api/x HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "space before colon": b"GET /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length : 5\r\n\r\nhello",
    "folded field": b"GET /api/x HTTP/1.1\r\nHost: {host}\r\nX-A: b\r\n c\r\n\r\n",
    "field before the first": b"GET /api/x HTTP/1.1\r\n X-A: b\r\nHost: {host}\r\n\r\n",
    "bare line feed": b"GET /api/x HTTP/1.1\nHost: {host}\n\n",
    "bare carriage return": b"GET /api/x HTTP/1.1\r\nHost: {host}\r\nX-A: b\rContent-Length: 5\r\n\r\n",
    "zero byte": b"GET /api/x HTTP/1.1\r\nHost: {host}\r\nX-A: b\x00c\r\n\r\n",
    "no host": b"GET /api/x HTTP/1.1\r\nX-A: b\r\n\r\n",
    "two hosts": b"GET /api/x HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n",
    "three spaces": b"GET  /api/x HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "space in target": b"GET /api/x y HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "version 2": b"GET /api/x HTTP/2.0\r\nHost: {host}\r\n\r\n",
    "version 0.9": b"GET /api/x\r\n\r\n",
    "lower case version": b"GET /api/x http/1.1\r\nHost: {host}\r\n\r\n",
    "trace": b"TRACE /api/x HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "connect": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "underscore twin of the injected field": b"GET /key/x HTTP/1.1\r\nHost: {host}\r\nX_Api_Key: mine\r\n\r\n",
    "fragment in target": b"GET /api/x#y HTTP/1.1\r\nHost: {host}\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", REFUSED.values(), ids=[name.replace(" ", "-") for name in REFUSED])
def test_it_is_refused_and_nothing_of_it_reaches_the_origin(gateway, origin, request_bytes):
    answer = send(gateway, request_bytes + SMUGGLED)
    assert answer.refuses(400, 405, 505), answer.data
    assert origin.raw() == b""


@pytest.mark.parametrize(
    "body",
    [b"zz\r\nhello\r\n0\r\n\r\n", b"5\nhello\n0\n\n", b"5\r\nhelloXX0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n",
     b"fffffffffffffffff\r\nhello", b"0x5\r\nhello\r\n0\r\n\r\n"],
)
def test_a_broken_chunk_ends_the_connection(gateway, origin, body):
    head = b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = send(gateway, head + body + SMUGGLED)
    assert answer.refuses(400), answer.data
    assert b"/smuggled" not in origin.raw().split(b"\r\n\r\n")[0]
    assert all(request.target != "/smuggled" for request in origin.requests)
    assert origin.count() == 0, "the origin saw no whole request"


def test_pipelined_requests_are_served_in_order(gateway, origin):
    requests = b"".join(
        b"POST /api/%d HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n%s\r\n%02d"
        % (number, b"Connection: close\r\n" if number == 9 else b"", number)
        for number in range(10)
    )
    origin.answer = lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + request.body
    answer = send(gateway, requests)
    bodies = [part.partition(b"\r\n\r\n")[2] for part in answer.data.split(b"HTTP/1.1 200")[1:]]
    assert bodies == [b"%02d" % number for number in range(10)]
    assert [request.target for request in origin.requests] == [f"/{number}" for number in range(10)]


@pytest.mark.parametrize(
    "fields, status",
    [
        (b"Authorization: Bearer mine\r\nauthorization: Bearer mine\r\n", 200),
        (b"AUTHORIZATION: Bearer mine\r\n", 200),
        (b"Connection: close, authorization\r\nAuthorization: Bearer mine\r\n", 400),
        (b"Proxy-Authorization: Basic bWluZTptaW5l\r\n", 200),
    ],
)
def test_exactly_one_credential_arrives_and_it_is_ours(gateway, origin, fields, status):
    """Who nominates the field that carries it is refused; who merely sends one is served with ours."""
    answer = send(gateway, b"GET /api/x HTTP/1.1\r\nHost: {host}\r\n" + fields + b"Connection: close\r\n\r\n")
    assert answer.status == status, answer.data
    if status == 400:
        assert origin.raw() == b""
        return
    assert origin.count() == 1 and origin.last().values("authorization") == [f"Bearer {CANARY}"]
    assert b"mine" not in origin.raw() and b"bWluZ" not in origin.raw()


def test_a_credential_in_a_trailer_does_not_arrive(gateway, origin):
    answer = send(
        gateway,
        b"POST /api/x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n"
        b"2\r\nhi\r\n0\r\nAuthorization: Bearer mine\r\nX-Sum: 1\r\n\r\n",
    )
    assert answer.status == 200, answer.data
    [request] = origin.requests
    assert request.body == b"hi" and request.values("authorization") == [f"Bearer {CANARY}"]
    assert origin.raw().endswith(b"\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n") and b"mine" not in origin.raw()


def test_hop_by_hop_fields_stay_on_their_hop(gateway, origin):
    answer = send(
        gateway,
        b"GET /api/x HTTP/1.1\r\nHost: {host}\r\nConnection: close, X-Private\r\nX-Private: a\r\nKeep-Alive: timeout=5\r\n"
        b"Proxy-Connection: keep-alive\r\nTE: trailers\r\nX-Kept: b\r\n\r\n",
    )
    assert answer.status == 200, answer.data
    request = origin.last()
    assert request.value("x-kept") == "b"
    for name in ("x-private", "keep-alive", "te", "proxy-connection"):
        assert request.values(name) == [], name


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: b\rSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    ],
)
def test_a_broken_answer_is_a_502(gateway, origin, answer):
    origin.answer = lambda request: answer
    result = send(gateway, b"GET /api/x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    assert result.status == 502, result.data
    assert b"Set-Cookie" not in result.data


def test_bytes_after_an_answer_are_not_the_next_clients(gateway, origin):
    extra = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
    origin.answer = lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood" + extra
    request = b"GET /api/x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    for _ in range(5):
        assert send(gateway, request).body == b"good"
    assert len(origin.streams) == 5, "a poisoned connection is not used again"


def test_heads_beyond_the_limits_get_their_own_answers(gateway, origin):
    many = b"".join(b"X-%d: a\r\n" % number for number in range(150))
    names = b", ".join(b"x-%d" % number for number in range(33))
    for target, fields, status, limit in (
        (b"a" * 40_000, b"", 414, b"(limits.header_bytes: 32KiB)"),
        (b"x", b"X-A: %s\r\n" % (b"a" * 40_000), 431, b"(limits.header_bytes: 32KiB)"),
        (b"x", many, 431, b"(limits.header_fields: 100)"),
        (b"x", b"Connection: %s\r\n" % names, 431, b"(32 at most)"),
    ):
        answer = send(gateway, b"GET /api/%s HTTP/1.1\r\nHost: {host}\r\n%s\r\n" % (target, fields))
        assert answer.status == status and limit in answer.body, answer.data
    assert origin.raw() == b""


def test_a_client_that_goes_away_leaves_nothing_behind(gateway, origin):
    """In the middle of a request that is on its way: what it had of the origin, and the gateway for it, is given back."""
    pid, request = gateway.process.pid, b"GET /api/x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    origin.answer = lambda request: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    assert send(gateway, request).status == 200
    wait_until(lambda: not origin.connections, 5, "the first request's connection is closed")
    before = proc.steady_descriptors(pid)
    origin.forget()

    clients = [socket.create_connection(("127.0.0.1", gateway.port), 5) for _ in range(20)]
    for client in clients:
        client.sendall(b"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\npart")
    wait_until(lambda: origin.raw().count(b"\r\n\r\npart") == 20, 5, "all are on their way")
    assert len(origin.connections) == 20 and proc.descriptors(pid) > before + 20
    for client in clients:
        client.close()
    wait_until(lambda: not origin.connections, 1, lambda: f"{len(origin.connections)} connections to the origin")
    wait_until(lambda: proc.descriptors(pid) <= before, 1, lambda: f"{proc.descriptors(pid)} of {before} descriptors")
    assert origin.requests == [], "no whole request arrived"
    assert send(gateway, request).status == 200
    assert [request.method for request in origin.requests] == ["GET"]


PIECES = [
    *(b"\r\n", b"\n", b"\r", b"\x00", b" ", b"\t", b":", b"%2e", b"..", b"\\", b"\xff", b"9" * 30, b"a" * 5000),
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 3\r\n",
    b"Host: evil.example\r\n",
    b"Authorization: Bearer mine\r\n",
    b"Connection: authorization\r\n",
    b"Connection: upgrade\r\nUpgrade: websocket\r\n",
    b"Expect: 100-continue\r\n",
]


def mutated(source, whole):
    request = bytearray(source.choice(whole))
    # Mostly once: hardly any request with more damage than that is served.
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        at = source.randrange(len(request) + 1)
        match source.randrange(5):
            case 0:
                request[at:at] = source.choice(PIECES)
            case 4:
                # As a line of its own, or at the beginning of one.
                at = source.choice([line.end() for line in re.finditer(rb"\r\n", request)] or [0])
                request[at:at] = source.choice(PIECES)
            case 1:
                request[at : at + 1] = bytes([source.randrange(256)])
            case 2:
                del request[at : at + source.randrange(1, 6)]
            case 3:
                request[at:at] = source.choice(whole)[: source.randrange(60)]
    return bytes(request)


def test_whatever_a_damaged_request_is_read_as_it_carries_our_credential_once(recorder, start_gateway, seed):
    """Each connection is answered, what arrives is what is answered with 200, and it is many requests of each kind."""
    source = random.Random(seed)
    # What has lost its end is not waited for.
    limits = {"header_timeout": "3s", "body_idle_timeout": "3s", "idle_timeout": "500ms"}
    gateway = start_gateway({**plain_config(recorder), "limits": limits})
    ours, theirs = b"Host: 127.0.0.1:%d\r\n" % gateway.port, b"127.0.0.1:%d" % recorder.port
    whole = [
        b"GET /api/get HTTP/1.1\r\n" + ours + b"\r\n",
        b"POST /api/length HTTP/1.1\r\n" + ours + b"Content-Length: 5\r\n\r\nhello",
        b"POST /api/chunked HTTP/1.1\r\n" + ours + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
        b"GET http://" + theirs + b"/absolute?y HTTP/1.1\r\nHost: " + theirs + b"\r\nConnection: close, x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\n" + ours + b"\r\n",
    ]
    served, statuses = 0, collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(60) as pool:
        for answer in pool.map(functools.partial(raw.exchange, gateway.port), [mutated(source, whole) for _ in range(1500)]):
            statuses[answer.status] += 1
            served += answer.data.count(b"HTTP/1.1 200 ")
    arrived = collections.Counter(request.target.partition("?")[0] for request in recorder.requests)
    print(f"{served} served; {dict(statuses)}; {arrived.most_common(8)}")
    # An Expect may have been put in.
    assert statuses.keys() <= {100, 200, 400, 404, 405, 408, 413, 414, 417, 421, 431, 505}
    assert recorder.count() == served and all(arrived[target] >= 10 for target in ("/get", "/length", "/chunked", "/absolute"))
    assert all(request.values("authorization") == [f"Bearer {CANARY}"] for request in recorder.requests)

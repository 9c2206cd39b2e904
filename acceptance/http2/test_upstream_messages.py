"""Requests and responses between clients of HTTP/1 and upstreams of HTTP/2."""

import socket
import threading
import time

import pytest
import requests
from harness import proc, raw
from harness.configs import BEARER
from harness.issuer import Issuer


@pytest.fixture
def origin(make_http2_origin):
    return make_http2_origin()


@pytest.fixture
def gateway(origin, start_gateway):
    route = {"upstream": origin.url, "protocol": "http2", "auth": BEARER}
    return start_gateway({"routes": {"api": route}})


def ask(gateway, *fields, method="GET", version="1.1", content=b""):
    lines = [f"{method} /api/x HTTP/{version}", f"Host: 127.0.0.1:{gateway.port}", *fields, "Connection: close", "", ""]
    return raw.exchange(gateway.port, "\r\n".join(lines).encode() + content)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 300_000])
def test_content_with_a_length_arrives_whole(gateway, origin, size):
    content = bytes(range(256)) * (size // 256 + 1)
    origin.respond = lambda stream: stream.answer(200, bytes(stream.body))
    answer = requests.put(gateway.url + "/api/x", data=content[:size], timeout=20)
    assert answer.status_code == 200 and answer.content == content[:size]
    assert origin.requests[0].values("content-length") == [str(size)]


def test_content_in_chunks_arrives_whole_and_its_trailers_do(gateway, origin):
    origin.respond = lambda stream: stream.answer(200, bytes(stream.body))
    content = b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-Sum: 17\r\n\r\n"
    answer = ask(gateway, "Transfer-Encoding: chunked", "Trailer: X-Sum", method="POST", content=content)
    assert answer.status == 200
    [stream] = origin.requests
    assert bytes(stream.body) == b"hello world" and stream.trailers == [("x-sum", "17")]
    assert stream.values("transfer-encoding") == [] and stream.values("content-length") == []


def test_a_response_without_a_length_goes_in_chunks_with_its_trailers(gateway, origin):
    trailers = [("x-sum", "17"), ("content-length", "9"), ("authorization", "x")]
    origin.respond = lambda stream: stream.answer(200, b"hello", [("x-own", "Mine")], trailers)
    answer = ask(gateway)
    assert b"transfer-encoding: chunked" in answer.head.lower() and b"x-own: Mine" in answer.head
    assert answer.body == b"5\r\nhello\r\n0\r\nx-sum: 17\r\n\r\n"


def test_a_client_of_http10_gets_the_content_and_the_end(gateway, origin):
    origin.respond = lambda stream: stream.answer(200, b"hello", trailers=[("x-sum", "17")])
    assert ask(gateway, version="1.0").body == b"hello"


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304), ("GET", 200)])
def test_a_response_without_content(gateway, origin, method, status):
    origin.respond = lambda stream: stream.head(status, ("x-own", "Mine"), end=True)
    with requests.Session() as session:
        for _ in range(2):
            answer = session.request(method, gateway.url + "/api/x", timeout=20)
            assert (answer.status_code, answer.content, answer.headers["X-Own"]) == (status, b"", "Mine")


def test_a_head_that_says_how_long_the_content_would_be(gateway, origin):
    origin.respond = lambda stream: stream.head(200, ("content-length", "1000"), end=True)
    answer = requests.head(gateway.url + "/api/x", timeout=20)
    assert answer.status_code == 200 and answer.headers["Content-Length"] == "1000"


@pytest.mark.parametrize(("status", "line"), [(404, b"404 Not Found"), (200, b"200 OK"), (299, b"299 ")])
def test_a_client_of_http1_reads_a_reason_phrase(gateway, origin, status, line):
    """HTTP/2 has none."""
    origin.respond = lambda stream: stream.answer(status, b"x")
    assert ask(gateway).data.startswith(b"HTTP/1.1 " + line + b"\r\n")


def test_informational_responses_pass(gateway, origin):
    def respond(stream):
        stream.head(103, ("link", "</style.css>; rel=preload"))
        stream.answer(200, b"ok")

    origin.respond = respond
    received = ask(gateway).data
    assert received.startswith(b"HTTP/1.1 103 ") and b"HTTP/1.1 200 " in received


def test_the_upstreams_100_lets_the_client_send(gateway, origin):
    origin.began = lambda stream: stream.head(100)
    with socket.create_connection(("127.0.0.1", gateway.port), 15) as client:
        fields = "Content-Length: 5\r\nExpect: 100-continue\r\nConnection: close"
        client.sendall(f"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n{fields}\r\n\r\n".encode())
        assert client.recv(65536).startswith(b"HTTP/1.1 100 ")
        client.sendall(b"hello")
        assert b"HTTP/1.1 200 " in client.recv(65536)
    assert bytes(origin.requests[0].body) == b"hello"


def test_50_megabytes_both_ways(gateway, origin):
    origin.respond = lambda stream: stream.answer(200, bytes(stream.body))
    content = bytes(range(256)) * (50 << 12)
    answer = requests.post(gateway.url + "/api/x", data=content, timeout=120)
    assert answer.content == content


# A token that is rejected


@pytest.fixture
def issuer():
    issuer = Issuer()
    yield issuer
    issuer.stop()


@pytest.mark.parametrize("framing", ["none", "length", "chunked"])
def test_a_request_whose_token_was_rejected_is_sent_again(origin, issuer, start_gateway, framing):
    def respond(stream):
        if stream.value("authorization") == "Bearer token-1":
            stream.answer(401, b"no" * 100, [("www-authenticate", 'Bearer error="invalid_token"')])
        else:
            stream.answer(200, b"ok")

    origin.respond = respond
    gateway = start_gateway(
        {
            "tokens": {"store": "memory"},
            "credentials": {"oauth": issuer.credential()},
            "routes": {"api": {"upstream": origin.url, "protocol": "http2", "auth": "oauth"}},
        }
    )
    content = bytes(range(256)) * 100
    data = {"none": None, "length": content, "chunked": iter([content])}[framing]
    answer = requests.post(gateway.url + "/api/x", data=data, timeout=20)
    assert (answer.status_code, answer.text) == (200, "ok")
    sent = b"" if data is None else content
    assert [bytes(stream.body) for stream in origin.requests] == [sent, sent]
    assert [stream.value("authorization") for stream in origin.requests] == ["Bearer token-1", "Bearer token-2"]
    assert len(origin.connections) == 1


# Responses that break a rule


MALFORMED = {
    "no status": [("x-own", "1")],
    "two": [(":status", "200"), (":status", "200")],
    "late": [("x-own", "1"), (":status", "200")],
    "not a number": [(":status", "2x0")],
    "101": [(":status", "101")],
    "another pseudo field": [(":status", "200"), (":path", "/")],
    "upper case": [(":status", "200"), ("X-Own", "1")],
    "a connection field": [(":status", "200"), ("connection", "close")],
    "transfer-encoding": [(":status", "200"), ("transfer-encoding", "chunked")],
    "two lengths": [(":status", "200"), ("content-length", "2"), ("content-length", "2")],
    "line end in a value": [(":status", "200"), ("x-own", "a\r\nset-cookie: b")],
    "nul in a value": [(":status", "200"), ("x-own", "a\0b")],
    "space in a name": [(":status", "200"), ("x own", "1")],
    "colon in a name": [(":status", "200"), ("x:own", "1")],
}


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=list(MALFORMED))
def test_a_malformed_response_is_502(make_http2_origin, start_gateway, fields):
    origin = make_http2_origin(
        validate_outbound_headers=False, normalize_outbound_headers=False, validate_inbound_headers=False
    )

    def respond(stream):
        if stream.path == "/good":
            return stream.answer(200, b"ok")
        block = stream.connection.h2.encoder.encode(fields)
        stream.connection.raw(frame(1, 0x4, stream.number, block) + frame(0, 0x1, stream.number, b"ok"))

    origin.respond = respond
    route = {"upstream": origin.url, "protocol": "http2", "auth": BEARER}
    gateway = start_gateway({"workers": 1, "routes": {"api": route}})
    answer = requests.get(gateway.url + "/api/x", timeout=20)
    assert answer.status_code == 502 and answer.json()["code"] == "upstream-invalid-response"
    assert requests.get(gateway.url + "/api/good", timeout=20).text == "ok"
    assert len(origin.connections) == 1, "only the stream is broken"


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


@pytest.mark.parametrize("length", [1, 3])
def test_content_that_is_not_as_long_as_it_says_is_cut(make_http2_origin, start_gateway, length):
    origin = make_http2_origin(validate_outbound_headers=False)

    def respond(stream):
        stream.head(200, ("content-length", str(length)))
        stream.connection.flush()
        stream.connection.raw(frame(0, 0x1, stream.number, b"ok"))

    origin.respond = respond
    route = {"upstream": origin.url, "protocol": "http2", "auth": BEARER}
    gateway = start_gateway({"routes": {"api": route}})
    answer = ask(gateway)
    assert answer.status == 502 or len(answer.body) < length


def test_a_response_without_its_content_is_no_response(make_http2_origin, start_gateway):
    """Otherwise the next response on the client's connection would be taken for its content."""
    origin = make_http2_origin(validate_outbound_headers=False)
    origin.respond = lambda stream: stream.head(200, ("content-length", "5"), end=True)
    route = {"upstream": origin.url, "protocol": "http2", "auth": BEARER}
    gateway = start_gateway({"routes": {"api": route}})
    answer = requests.get(gateway.url + "/api/x", timeout=20)
    assert answer.status_code == 502 and answer.json()["code"] == "upstream-invalid-response"
    assert requests.head(gateway.url + "/api/x", timeout=20).headers["Content-Length"] == "5"


def test_informational_responses_have_a_bound(make_http2_origin, start_gateway):
    origin = make_http2_origin()

    def respond(stream):
        for _ in range(1000):
            stream.head(103, ("link", "</a>; rel=preload"))
        stream.answer(200, b"ok")

    origin.respond = respond
    route = {"upstream": origin.url, "protocol": "http2", "auth": BEARER}
    gateway = start_gateway({"routes": {"api": route}})
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as wire:
        wire.sendall(b"GET /api/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % gateway.port)
        answer = b"".join(iter(lambda: wire.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 103 ") <= 64 and b"HTTP/1.1 502 " in answer and b"informational" in answer, answer[-500:]


def test_informational_responses_for_a_client_that_reads_nothing(make_http2_origin, start_gateway):
    """60 MB, out of a few bytes each: what does not fit is dropped, since it is only advice."""
    origin = make_http2_origin()
    is_sent = threading.Event()

    def respond(stream):
        for _ in range(60):
            stream.head(103, *[("x-a", "v" * 3900)] * 250)
        stream.answer(200, b"ok")
        is_sent.set()

    origin.respond = respond
    route = {"upstream": origin.url, "protocol": "http2", "auth": BEARER}
    gateway = start_gateway({"limits": {"header_bytes": "1MiB", "header_fields": 256}, "routes": {"api": route}})
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as wire:
        before = proc.resident_mib(gateway.process.pid)
        wire.sendall(b"GET /api/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % gateway.port)
        assert is_sent.wait(20)
        # The last of them are with the system.
        time.sleep(2)
        assert proc.peak_memory_mib(gateway.process.pid) - before < 32
        answer = b"".join(iter(lambda: wire.recv(65536), b""))
    assert 0 < answer.count(b"HTTP/1.1 103 ") < 60 and b"HTTP/1.1 200 " in answer and answer.endswith(b"2\r\nok\r\n0\r\n\r\n"), answer[-500:]


def test_a_request_head_that_fits_in_no_frame_has_several(gateway, origin):
    """CONTINUATION: the requests before and behind it share its connection."""
    origin.respond = lambda stream: stream.answer(200, ",".join(stream.values("x-note")).encode())
    get = lambda note, **more: requests.get(gateway.url + "/api/x", headers={"X-Note": note, **more}, timeout=20)
    for number in range(3):
        assert get(f"note-{number}").text == f"note-{number}"
        for size in (12_000, 16_384, 30_000):
            answer = get("~" * size, **{"X-Other": f"other-{number}"})
            assert answer.status_code == 200 and answer.text == "~" * size
    assert [stream.value("x-other") for stream in origin.requests[1:4]] == ["other-0"] * 3

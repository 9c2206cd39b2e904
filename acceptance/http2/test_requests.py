"""Requests by HTTP/2: what reaches the upstream, and what comes back."""

import contextlib
import json
import socket
import subprocess
import threading

import httpx
import pytest
from harness import http2, processes
from harness.bytes import REJECTED
from harness.configs import BEARER, CANARY, plain_config
from harness.issuer import Issuer
from harness.origin import response

MIB = 1 << 20


@pytest.fixture
def issuer():
    issuer = Issuer()
    yield issuer
    issuer.stop()


def test_a_request_gets_the_credential(client, origin):
    answer = client.ask(("accept", "text/plain"), ("cookie", "a=1"), ("cookie", "b=2"))
    assert (answer.status, bytes(answer.body)) == (200, b"hello from the origin\n")
    request = origin.last()
    assert request.line == "GET /x HTTP/1.1" and request.value("authorization") == f"Bearer {CANARY}"
    assert request.value("via").startswith("2.0 ")
    assert request.value("accept") == "text/plain" and request.framing == "none"
    assert answer.value("gateway-request-id") and answer.value("date") and answer.value("content-length") == "22"
    assert not answer.value("connection") and not answer.value("transfer-encoding")


def test_settings_of_a_connection_stay_there(client, origin):
    assert client.ask(("http2-settings", "AAMAAABkAAQAAP__"), ("x-own", "1")).status == 200
    names = [name.lower() for name, _ in origin.last().fields]
    assert "x-own" in names and "http2-settings" not in names


def test_content_of_both_framings(client, origin):
    assert client.ask(method="POST", body=b"x" * 100_000).status == 200
    assert (origin.last().framing, origin.last().body) == ("chunked", b"x" * 100_000)
    assert client.ask(("content-length", "5"), method="PUT", body=b"hello").status == 200
    assert (origin.last().framing, origin.last().body) == ("length", b"hello")
    assert client.ask(("content-length", "0"), method="POST").status == 200
    assert origin.last().body == b""


def test_responses_without_content(served, make_origin):
    heads = iter(["204 No Content\r\n", "304 Not Modified\r\nContent-Length: 7\r\n", "200 OK\r\nContent-Length: 7\r\n"])
    origin = make_origin(lambda request: f"HTTP/1.1 {next(heads)}\r\n".encode())
    with contextlib.closing(served(plain_config(origin)).client()) as client:
        assert (client.ask().status, client.ask().status) == (204, 304)
        head = client.ask(method="HEAD")
        assert (head.status, head.value("content-length"), bytes(head.body)) == (200, "7", b"")


def test_trailers_and_informational_responses(served, make_script):
    def steps(wire, number):
        head = wire.head()
        assert b"te:" not in head.lower()
        assert wire.chunked() == b"abc"
        wire.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\nX-Sum: 1\r\n\r\n")

    with contextlib.closing(served(plain_config(make_script(steps))).client()) as client:
        stream = client.begin(("te", "trailers"), method="POST", end=False)
        client.content(stream, b"abc", end=False)
        client.h2.send_headers(stream, [("x-checksum", "9")], end_stream=True)
        client.flush()
        answer = client.finish(stream)
    assert (answer.informational, answer.status, bytes(answer.body)) == (["103"], 200, b"xyz")
    assert answer.trailers == {"x-sum": "1"}


def test_long_trailers(served, make_script):
    """They fit in no single frame."""

    def steps(wire, number):
        wire.head()
        trailers = b"Grpc-Status: 7\r\nGrpc-Message: " + b"x" * 20_000 + b"\r\nX-Sum: 1\r\n\r\n"
        wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + trailers)

    with contextlib.closing(served(plain_config(make_script(steps))).client()) as client:
        answer = client.ask(("te", "trailers"))
    assert answer.status == 200 and answer.trailers == {"grpc-status": "7", "grpc-message": "x" * 20_000, "x-sum": "1"}


def test_expectation(served, make_script):
    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert wire.exactly(3) == b"abc"
        wire.send(response(200, b"done"))

    with contextlib.closing(served(plain_config(make_script(steps))).client()) as client:
        stream = client.begin(("expect", "100-continue"), ("content-length", "3"), method="PUT", end=False)
        client.until(lambda: client.responses[stream].informational == ["100"])
        client.content(stream, b"abc")
        assert client.finish(stream).status == 200


def test_the_gateway_answers_itself(client):
    answer = client.ask(path="/nowhere")
    assert answer.status == 404 and answer.value("content-type") == "application/problem+json"
    assert json.loads(answer.body)["status"] == 404
    assert client.ask().status == 200


def test_a_hundred_streams_at_once(client, origin):
    streams = [client.begin(path=f"/api/{number}") for number in range(100)]
    client.finish(*streams)
    assert {client.responses[stream].status for stream in streams} == {200}
    assert {request.target for request in origin.requests} == {f"/{number}" for number in range(100)}


def test_large_content_both_ways(served, make_origin):
    origin = make_origin(lambda request: response(200, request.body))
    data = bytes(range(256)) * (50 * MIB // 256)
    with contextlib.closing(served(plain_config(origin)).client(seconds=60)) as client:
        client.h2.increment_flow_control_window(1 << 24)
        client.h2.update_settings({4: 1 << 20})
        client.flush()
        answer = client.ask(method="POST", body=data)
        assert answer.status == 200 and bytes(answer.body) == data
    assert origin.last().body == data


def test_a_slow_reader_stops_no_other_stream(served, make_origin):
    origin = make_origin(lambda request: response(200, b"x" * (MIB if request.target == "/large" else 10)))
    with contextlib.closing(served(plain_config(origin)).client()) as client:
        slow = client.h2.get_next_available_stream_id()
        client.held.add(slow)
        client.begin(path="/api/large")
        client.until(lambda: len(client.responses[slow].body) == 65_535)
        for _ in range(20):
            assert client.ask().status == 200
        assert client.responses[slow].has_ended is False
        client.held.clear()
        client.h2.increment_flow_control_window(MIB, slow)
        client.flush()
        assert len(client.finish(slow).body) == MIB


def test_an_upload_that_waits_stops_no_other_stream(served, make_script, origin):
    done = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        done.wait(30)

    slow = make_script(steps)
    config = plain_config(origin)
    config["routes"]["slow"] = {"upstream": slow.url, "auth": BEARER}
    with contextlib.closing(served(config).client()) as client:
        stream = client.begin(("expect", "100-continue"), path="/slow/x", method="POST", end=False)
        client.until(lambda: client.responses[stream].informational)
        sent = 0
        while (room := client.h2.local_flow_control_window(stream)) > 0 and sent < 64 * MIB:
            client.h2.send_data(stream, b"x" * min(room, 16_384))
            sent += min(room, 16_384)
            client.flush()
            assert client.ask().status == 200
        done.set()
        assert sent < 64 * MIB


def test_replay_of_each_stream(served, make_origin, issuer):
    """Every stream whose token is rejected is sent again with the new one, content included."""
    accepts = lambda request: request.value("authorization") != "Bearer token-1"
    origin = make_origin(lambda request: response(200, request.body) if accepts(request) else REJECTED)
    config = {
        "tokens": {"store": "memory"},
        "credentials": {"oauth": issuer.credential()},
        "routes": {"api": {"upstream": origin.url, "auth": "oauth"}},
    }
    with contextlib.closing(served(config).client()) as client:
        streams = [client.begin(method="POST", end=False) for _ in range(10)]
        for number, stream in enumerate(streams):
            client.content(stream, b"%d" % number * 1000)
        client.finish(*streams)
        answers = [client.responses[stream] for stream in streams]
    assert {answer.status for answer in answers} == {200}
    assert [bytes(answer.body) for answer in answers] == [b"%d" % number * 1000 for number in range(10)]
    assert issuer.count == 2


def over_tls(start_gateway, certificate_authority, config):
    certificate, key = certificate_authority.issue("http2", "DNS:localhost,IP:127.0.0.1")
    place = f"127.0.0.1:{processes.free_port()}"
    tls = {"certificate": str(certificate), "private_key": {"file": str(key)}}
    gateway = start_gateway(config, listeners=[{"address": place, "tls": tls}])
    return gateway, int(place.rsplit(":", 1)[1])


def test_by_alpn(start_gateway, certificate_authority, origin):
    _, port = over_tls(start_gateway, certificate_authority, plain_config(origin))
    with contextlib.closing(http2.connect_over_tls(port, certificate_authority.certificate)) as client:
        assert client.ask(scheme="https").status == 200
    url = f"https://localhost:{port}/api/x"
    with httpx.Client(http1=True, http2=True, verify=str(certificate_authority.certificate)) as session:
        answers = [session.get(url), session.post(url, content=b"x" * 200_000)]
    assert [(answer.status_code, answer.http_version) for answer in answers] == [(200, "HTTP/2")] * 2
    command = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "--cacert", certificate_authority.certificate, url]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, env=processes.environment())
    assert done.stdout == "2 200", done
    done = subprocess.run([*command, "--http1.1"], check=True, capture_output=True, text=True, timeout=30, env=processes.environment())
    assert done.stdout == "1.1 200", done


@pytest.mark.parametrize(("method", "values"), [("POST", ["0"]), ("PUT", ["0"]), ("DELETE", []), ("GET", [])])
def test_a_method_that_has_a_use_for_content_says_that_there_is_none(client, origin, method, values):
    """Some servers answer 411 otherwise."""
    assert client.ask(method=method).status == 200
    assert origin.last().values("content-length") == values and origin.last().values("transfer-encoding") == []


def test_curl_by_prior_knowledge(served):
    url = f"http://127.0.0.1:{served().port}/api/x"
    command = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "--http2-prior-knowledge", url]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, env=processes.environment())
    assert done.stdout == "2 200", done


def test_the_preface_must_come_first(served):
    gateway = served()
    with socket.create_connection(("127.0.0.1", gateway.port), 15) as connection:
        connection.sendall(b"GET /api/x HTTP/1.1\r\nHost: localhost\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        received = b""
        while part := connection.recv(65536):
            received += part
    assert received.startswith(b"HTTP/1.1 200 ") and b"HTTP/1.1 505 " in received


def test_long_response_heads(served, make_origin):
    """They go in several frames."""
    values = ["a" * 20_000, "~" * 30_000, "a"]
    heads = iter(values)
    origin = make_origin(lambda request: response(200, b"ok", f"X-Long: {next(heads)}"))
    with contextlib.closing(served(plain_config(origin)).client()) as client:
        answers = [client.finish(client.begin()) for _ in values]
    assert [(answer.status, answer.value("x-long"), bytes(answer.body)) for answer in answers] == [(200, value, b"ok") for value in values]


@pytest.mark.parametrize("value", ["a" * 20_000, "~" * 20_000])
def test_a_first_request_head_is_treated_as_a_later_one(served, origin, value):
    """The client sends it before it has read the gateway's settings."""
    with contextlib.closing(served().client()) as client:
        assert [client.ask(("x-long", value)).status for _ in range(3)] == [200] * 3
    assert [request.value("x-long") for request in origin.requests] == [value] * 3


def test_a_first_request_head_beyond_the_limit_is_answered(served):
    with contextlib.closing(served(header_bytes="20KiB").client()) as client:
        assert [client.ask(("x-long", "a" * 20_500)).status for _ in range(2)] == [431] * 2
        assert client.ask().status == 200


def test_a_preflight_for_more_names_than_fit_in_a_frame(served, origin):
    config = {**plain_config(origin), "access": {"allow_origins": ["https://app.example"]}}
    page = [("origin", "https://app.example"), ("access-control-request-method", "GET")]
    with contextlib.closing(served(config).client()) as client:
        answer = client.ask(*page, ("access-control-request-headers", "x-~~~~~~," * 2500 + "x"), method="OPTIONS")
        assert answer.status == 204 and answer.value("access-control-allow-headers") is None
        answer = client.ask(*page, ("access-control-request-headers", "x-one, x-two"), method="OPTIONS")
        assert answer.value("access-control-allow-headers") == "x-one, x-two"

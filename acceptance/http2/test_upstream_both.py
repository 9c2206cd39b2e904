"""Clients of HTTP/2 before upstreams of HTTP/2, as gRPC has them."""

import contextlib

import pytest
from h2.errors import ErrorCodes
from harness import http2
from harness.configs import BEARER, CANARY
from harness.processes import wait_until


@pytest.fixture
def origin(make_http2_origin):
    return make_http2_origin()


@pytest.fixture
def client(origin, start_gateway):
    route = {"upstream": origin.url, "protocol": "http2", "auth": BEARER}
    gateway = start_gateway({"workers": 1, "routes": {"api": route}})
    with contextlib.closing(http2.connect(gateway.port)) as client:
        yield client


GRPC = [("content-type", "application/grpc"), ("te", "trailers")]


def test_content_and_trailers_in_both_directions(client, origin):
    def respond(stream):
        stream.answer(200, bytes(stream.body), [("content-type", "application/grpc")], [("grpc-status", "0")])

    origin.respond = respond
    answer = client.ask(*GRPC, method="POST", body=b"\0\0\0\0\5hello")
    assert (answer.status, bytes(answer.body), answer.trailers) == (200, b"\0\0\0\0\5hello", {"grpc-status": "0"})
    [stream] = origin.requests
    assert stream.value("te") == "trailers" and stream.value("authorization") == f"Bearer {CANARY}"
    assert stream.values("content-length") == [] and bytes(stream.body) == b"\0\0\0\0\5hello"


def test_an_answer_of_trailers_alone(client, origin):
    origin.respond = lambda stream: stream.head(200, ("content-type", "application/grpc"), ("grpc-status", "5"), end=True)
    answer = client.ask(*GRPC, method="POST", body=b"\0\0\0\0\0")
    assert answer.status == 200 and answer.value("grpc-status") == "5" and answer.body == b""


def test_both_sides_send_at_the_same_time(client, origin):
    origin.began = lambda stream: stream.head(200, ("content-type", "application/grpc"))
    origin.respond = lambda stream: stream.send(b"", end=True, trailers=[("grpc-status", "0")])
    number = client.begin(*GRPC, method="POST", end=False)
    client.until(lambda: client.responses[number].status == 200)
    [stream] = origin.requests
    for turn in range(10):
        client.content(number, bytes([turn]) * 100, end=False)
        wait_until(lambda turn=turn: len(stream.body) == 100 * (turn + 1), 20, "the upstream sees it")
        stream.send(bytes([turn]) * 50)
        stream.connection.flush()
        client.until(lambda turn=turn: len(client.responses[number].body) == 50 * (turn + 1))
    client.content(number, b"")
    answer = client.finish(number)
    assert answer.trailers == {"grpc-status": "0"} and len(answer.body) == 500


def test_16_megabytes_both_ways(client, origin):
    origin.respond = lambda stream: stream.answer(200, bytes(stream.body), trailers=[("grpc-status", "0")])
    message = bytes(range(256)) * (16 << 12)
    answer = client.ask(*GRPC, method="POST", body=message)
    assert bytes(answer.body) == message and answer.trailers == {"grpc-status": "0"}


def test_a_reset_of_the_client_reaches_the_upstream(client, origin):
    origin.respond = lambda stream: None
    number = client.begin(*GRPC, method="POST")
    wait_until(lambda: origin.requests, 20, "the upstream sees it")
    client.h2.reset_stream(number, ErrorCodes.CANCEL)
    client.flush()
    wait_until(lambda: origin.resets, 20, "the upstream sees it")
    assert origin.resets == [(1, ErrorCodes.CANCEL)]


def test_50_streams_of_one_client_share_a_connection(client, origin):
    waiting = []

    def respond(stream):
        waiting.append(stream)
        if len(waiting) == 50:
            for one in waiting:
                one.answer(200, one.path.encode())

    origin.respond = respond
    numbers = [client.begin(path=f"/api/{number}") for number in range(50)]
    client.finish(*numbers)
    assert [bytes(client.responses[number].body) for number in numbers] == [f"/{n}".encode() for n in range(50)]
    assert len(origin.connections) == 1

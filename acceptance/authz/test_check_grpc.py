"""Envoy asks by gRPC: envoy.service.auth.v3.Authorization/Check."""

import concurrent.futures
import json

import grpc
import pytest
from harness import http2
from harness.configs import CANARY
from harness.engine import TOKEN, Engine
from harness.protobuf import decode, encode, only

METHOD = "/envoy.service.auth.v3.Authorization/Check"


def question(method="GET", path="/api/x", host="shop.example", headers=None, more=()):
    headers = {":method": method, ":path": path, ":authority": host, "x-request-id": "1"} | (headers or {})
    http = [(2, method), (4, path), (5, host), (6, "https"), (10, "HTTP/2"), *more]
    http += [(3, [(1, name), (2, value)]) for name, value in headers.items()]
    return encode([(1, [(1, [(2, "peer")]), (4, [(1, [(1, 1)]), (2, http)])])])


class Decision:
    def __init__(self, data):
        self.code = only(data, 1, 1) or 0
        ok, denied = (dict(decode(data)).get(number) for number in (3, 2))
        assert (ok is None) != (denied is None)
        self.status = 200 if denied is None else only(denied, 1, 1)
        self.headers = {}
        for number, option in decode(ok if denied is None else denied):
            if number == 2:
                assert only(option, 3) == 2, "OVERWRITE_IF_EXISTS_OR_ADD"
                self.headers[only(option, 1, 1).decode()] = only(option, 1, 2).decode()
        self.removed = [value.decode() for number, value in decode(ok or b"") if number == 5]
        self.body = only(denied, 3) if denied else b""


class Asker:
    def __init__(self, engine):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{engine.port}", options=[("grpc.enable_http_proxy", 0)])
        self.method = METHOD

    def __call__(self, *arguments, token=TOKEN, data=None, metadata=(), **more):
        metadata = [*((("x-gw-engine-token", token),) if token else ()), *metadata]
        call = self.channel.unary_unary(self.method)
        return Decision(call(question(*arguments, **more) if data is None else data, metadata=metadata, timeout=20))

    def fails(self, *arguments, **more):
        """The status of a call that fails."""
        with pytest.raises(grpc.RpcError) as failure:
            self(*arguments, **more)
        assert CANARY not in str(failure.value.details())
        return failure.value.code()


@pytest.fixture
def engine():
    return Engine(contract="envoy")


@pytest.fixture
def gateway(engine, origin, start_gateway, issuer):
    allow = [{"methods": ["GET"], "path": "/files/**"}]
    return start_gateway(
        {
            "authz": [engine.entry],
            "credentials": {"me": issuer.credential()},
            "routes": {
                "api": {"upstream": origin.url, "auth": "me", "authz": ["edge"], "headers": {"remove": ["X-Debug"]}},
                "ruled": {"upstream": origin.url, "auth": "me", "authz": ["edge"], "allow": allow},
                "closed": {"upstream": origin.url, "auth": "me"},
            },
        }
    )


@pytest.fixture
def ask(engine, gateway):
    asker = Asker(engine)
    yield asker
    asker.channel.close()


def test_the_answer_has_the_fields_of_the_credential(ask):
    for method in ("GET", "POST", "DELETE"):
        answer = ask(method, headers={"authorization": "Bearer of-the-client"})
        assert (answer.code, answer.status, answer.headers["authorization"]) == (0, 200, "Bearer token-1")
        assert answer.headers["x-gw-generation"].startswith("1.")
        assert {"x-debug", "x-gw-engine-token", "proxy-authorization"} <= set(answer.removed)
        assert "authorization" not in answer.removed


@pytest.mark.parametrize(
    "arguments, status, code",
    [
        (("GET", "/none"), 404, "no-route"),
        (("GET", "/closed/x"), 403, "route-forbidden"),
        (("PUT", "/ruled/files/1"), 403, "route-forbidden"),
        (("GET", "/ruled/files/../x"), 400, "request-refused"),
        (("GET", "/a b"), 400, "request-refused"),
        (("GET /evil", "/api/x"), 400, "request-refused"),
        (("TRACE", "/api/x"), 405, "method-refused"),
        (("GET", "/api/x", "a/b"), 400, "request-refused"),
        (("GET", "/api/x", "shop.example", {"x-evil": "a\r\nb: c"}), 400, "request-refused"),
        (("GET", "/api/x", "shop.example", {"origin": "https://evil.example"}), 403, "origin-refused"),
    ],
)
def test_a_refusal_has_its_document(ask, arguments, status, code):
    answer = ask(*arguments)
    assert (answer.status, json.loads(answer.body)["code"]) == (status, code)
    assert answer.code and answer.headers["content-type"] == "application/problem+json"
    assert "content-length" not in answer.headers


def test_an_outage_has_its_document_too(ask, gateway):
    assert gateway.run("token", "lock", "me").returncode == 0
    answer = ask()
    assert (answer.status, json.loads(answer.body)["code"], answer.code) == (503, "locked", 14)


def test_a_call_without_proof_fails(ask):
    assert ask.fails(token=None) == grpc.StatusCode.UNAUTHENTICATED
    assert ask.fails(token=TOKEN + "x") == grpc.StatusCode.UNAUTHENTICATED
    assert ask.fails(data=b"\xff" * 100, token=None) == grpc.StatusCode.UNAUTHENTICATED


def test_any_other_method_is_unknown(ask):
    ask.method = "/envoy.service.auth.v2.Authorization/Check"
    assert ask.fails() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff" * 100, question()[:-3], encode([(1, [(4, [(2, [(2, "GET"), (2, "PUT")])])])]), encode([(1, 7)])],
)
def test_what_is_no_question_is_refused(ask, data):
    answer = ask(data=data)
    assert (answer.status, json.loads(answer.body)["code"]) == (400, "request-refused")


def test_a_large_body_in_the_question_is_ignored_up_to_a_limit(ask):
    assert ask(more=[(11, "x" * 500_000)]).status == 200
    # With the five bytes before each message of gRPC, it has 1 MiB.
    longest = 1_048_576 - 5 - (len(question(more=[(11, "x" * 1_000_000)])) - 1_000_000)
    assert ask(more=[(11, "x" * longest)]).status == 200
    assert ask.fails(more=[(11, "x" * (longest + 1))]) == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert ask.fails(more=[(11, "x" * 1_100_000)]) == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_rejected_generation_is_named_in_the_metadata(ask, issuer):
    first = ask().headers["x-gw-generation"]
    assert ask(headers={"x-gw-rejected-generation": first}).headers["authorization"] == "Bearer token-1", "a client's own"
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        metadata = [("x-gw-rejected-generation", first)]
        answers = list(pool.map(lambda _: ask(metadata=metadata).headers["authorization"], range(100)))
    assert set(answers) == {"Bearer token-2"}
    assert issuer.count == 2


def test_many_calls_share_a_connection(engine, gateway):
    client = http2.connect(engine.port)
    fields = [("content-type", "application/grpc"), ("te", "trailers"), ("x-gw-engine-token", TOKEN)]
    message = question()
    framed = b"\0" + len(message).to_bytes(4, "big") + message
    streams = [client.begin(*fields, method="POST", path=METHOD, end=False) for _ in range(20)]
    for stream in streams:
        client.content(stream, framed)
    client.finish(*streams)
    for stream in streams:
        response = client.responses[stream]
        assert (response.status, response.trailers) == (200, {"grpc-status": "0"})
        assert Decision(bytes(response.body[5:])).headers["authorization"] == "Bearer token-1"
    # A request without a message of gRPC is asked as by HTTP.
    plain = client.ask(("x-gw-engine-token", TOKEN))
    assert (plain.status, plain.value("authorization")) == (200, "Bearer token-1")

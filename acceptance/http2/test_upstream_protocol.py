"""Which version of HTTP an upstream is spoken to in, and what arrives there."""

import concurrent.futures
import contextlib

import pytest
import requests
from h2.errors import ErrorCodes
from harness import http2
from harness.configs import BEARER, CANARY


@pytest.fixture
def start(start_gateway, certificate_authority):
    """A gateway before that origin."""

    def start(origin, protocol, auth=BEARER, **more):
        tls = {"tls": {"ca": str(certificate_authority.certificate)}} if origin.tls else {}
        route = {"upstream": origin.url, "protocol": protocol, "auth": auth, **tls}
        return start_gateway({"routes": {"api": route}, **more})

    return start


def test_http2_by_prior_knowledge(make_http2_origin, start):
    origin = make_http2_origin()
    gateway = start(origin, "http2")
    answer = requests.get(gateway.url + "/api/x?y=1", headers={"X-Own": "Mine", "TE": "trailers"}, timeout=20)
    assert (answer.status_code, answer.text) == (200, "ok")
    assert answer.headers["Via"].startswith("2.0 ")
    [stream] = origin.requests
    names = [name for name, _ in stream.fields]
    assert names[:4] == [":method", ":scheme", ":path", ":authority"]
    assert [value for _, value in stream.fields[:4]] == ["GET", "http", "/x?y=1", f"127.0.0.1:{origin.port}"]
    assert stream.values("authorization") == [f"Bearer {CANARY}"]
    assert stream.values("x-own") == ["Mine"] and stream.values("te") == ["trailers"]
    assert not {"connection", "host", "keep-alive", "transfer-encoding", "upgrade"} & set(names)


def test_a_credential_is_never_indexed(make_http2_origin, start):
    origin = make_http2_origin()
    gateway = start(origin, "http2", auth={"strategy": "header", "name": "X-Api-Key", "value": CANARY})
    requests.get(gateway.url + "/api/x", headers={"X-Own": "Mine"}, timeout=20)
    [stream] = origin.requests
    assert stream.values("x-api-key") == [CANARY]
    assert stream.never_indexed == {"x-api-key"}


@pytest.mark.parametrize("protocol", ["auto", "http2"])
def test_http2_that_the_upstream_chooses(make_secure_http2_origin, start, protocol):
    origin = make_secure_http2_origin("h2", "http/1.1")
    gateway = start(origin, protocol, workers=1)
    for _ in range(3):
        assert requests.get(gateway.url + "/api/x", timeout=20).text == "ok"
    assert [connection.protocol for connection in origin.connections] == ["h2"]
    assert origin.requests[0].value(":scheme") == "https"


@pytest.mark.parametrize("offered", [["http/1.1"], []])
def test_auto_goes_on_in_http1_where_the_upstream_does_not_offer_http2(make_secure_http2_origin, start, offered):
    origin = make_secure_http2_origin(*offered)
    gateway = start(origin, "auto")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: requests.get(gateway.url + "/api/x", timeout=20).text, range(16)))
    assert answers == ["h1"] * 16 and len(origin.others) == 16


def test_http1_is_the_default(make_secure_http2_origin, start_gateway, certificate_authority):
    origin = make_secure_http2_origin("h2", "http/1.1")
    tls = {"ca": str(certificate_authority.certificate)}
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER, "tls": tls}}})
    assert requests.get(gateway.url + "/api/x", timeout=20).text == "h1"
    assert [protocol for protocol, _ in origin.others] == ["http/1.1"]


@pytest.mark.parametrize("offered", [["http/1.1"], []])
def test_http2_that_the_upstream_does_not_offer_is_a_clear_failure(make_secure_http2_origin, start, offered):
    origin = make_secure_http2_origin(*offered)
    gateway = start(origin, "http2")
    answer = requests.get(gateway.url + "/api/x", timeout=20)
    assert answer.status_code == 502 and answer.json()["code"] == "upstream-unreachable"
    assert "does not speak HTTP/2. Set protocol of the route to auto or http1." in answer.json()["detail"]
    assert "; error=http_protocol_error" in answer.headers["Proxy-Status"]


def test_prior_knowledge_of_an_upstream_that_speaks_http1(origin, start_gateway):
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "protocol": "http2", "auth": BEARER}}})
    answer = requests.get(gateway.url + "/api/x", timeout=20)
    assert answer.status_code == 502 and answer.json()["code"] == "upstream-unreachable"
    assert CANARY not in str([request.head for request in origin.requests])


def test_a_request_for_an_upgrade_goes_by_http1(make_secure_http2_origin, start):
    origin = make_secure_http2_origin("h2", "http/1.1")
    gateway = start(origin, "auto")
    assert requests.get(gateway.url + "/api/x", timeout=20).text == "ok"
    fields = {"Connection": "Upgrade", "Upgrade": "websocket"}
    assert requests.get(gateway.url + "/api/socket", headers=fields, timeout=20).text == "h1"
    [(protocol, head)] = origin.others
    assert protocol == "http/1.1" and b"Upgrade: websocket" in head and CANARY.encode() in head


def test_the_first_connection_is_opened_alone_and_shared(make_secure_http2_origin, start):
    origin = make_secure_http2_origin("h2")
    gateway = start(origin, "auto", workers=1)
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(lambda _: requests.get(gateway.url + "/api/x", timeout=20).text, range(100)))
    assert answers == ["ok"] * 100 and len(origin.connections) == 1


@pytest.mark.parametrize("value", ["spdy", "h2"])
def test_a_protocol_that_there_is_not_is_an_error(make_gateway, origin, value):
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "protocol": value, "auth": BEARER}}})
    judged = gateway.run("check")
    assert judged.returncode != 0 and "auto, http1, http2" in judged.stdout + judged.stderr


def test_ntlm_needs_http1(make_gateway, origin):
    route = {"upstream": origin.url, "protocol": "http2", "auth": "none", "connection_auth": True}
    judged = make_gateway({"routes": {"api": route}}).run("check")
    assert judged.returncode != 0 and "NTLM and Negotiate need HTTP/1.1" in judged.stdout + judged.stderr


# Upstreams that want HTTP/1.1 for a request


def refuse(stream):
    stream.reset(ErrorCodes.HTTP_1_1_REQUIRED)


def test_a_request_that_wants_http1_goes_again_by_http1(make_secure_http2_origin, start):
    origin = make_secure_http2_origin("h2", "http/1.1")
    origin.respond = refuse
    gateway = start(origin, "auto", workers=1)
    answer = requests.post(gateway.url + "/api/x", data=b"content", timeout=20)
    assert (answer.status_code, answer.text) == (200, "h1")
    [(protocol, head)] = origin.others
    assert protocol == "http/1.1" and head.startswith(b"POST /x ") and CANARY.encode() in head
    # The route is not asked again.
    assert requests.get(gateway.url + "/api/x", timeout=20).text == "h1"
    assert len(origin.requests) == 1 and len(origin.others) == 2


def test_http2_alone_says_that_it_wants_http1(make_http2_origin, start):
    origin = make_http2_origin()
    origin.respond = refuse
    gateway = start(origin, "http2")
    answer = requests.get(gateway.url + "/api/x", timeout=20)
    assert answer.status_code == 502 and answer.json()["code"] == "upstream-invalid-response"
    assert " wants HTTP/1.1 for this request. Set protocol of the route to http1." in answer.json()["detail"]


def test_calls_of_grpc_stay_in_http2(make_secure_http2_origin, start):
    """What another request of the route has wanted changes nothing for them, and none of them goes by HTTP/1.1."""
    origin = make_secure_http2_origin("h2", "http/1.1")
    origin.respond = lambda stream: stream.answer(200, b"ok") if stream.path == "/call" else refuse(stream)
    gateway = start(origin, "auto", workers=1)
    assert requests.get(gateway.url + "/api/x", timeout=20).text == "h1"
    assert requests.get(gateway.url + "/api/call", timeout=20).text == "h1"
    call = [("content-type", "application/grpc"), ("te", "trailers")]
    with contextlib.closing(http2.connect(gateway.port)) as client:
        assert client.ask(*call, method="POST", body=b"\0\0\0\0\0", path="/api/call").body == b"ok"
        refused = client.ask(*call, method="POST", body=b"\0\0\0\0\0", path="/api/x")
        assert refused.value("grpc-status") is not None and b"h1" not in refused.body
    assert len(origin.others) == 2


def test_a_head_that_fits_in_no_frame_stays_in_http2(make_secure_http2_origin, start):
    """Calls of gRPC among them, which have nowhere else to go."""
    origin = make_secure_http2_origin("h2", "http/1.1")
    gateway = start(origin, "auto", workers=1)
    long = {"X-Long": "~" * 20_000}
    for _ in range(2):
        assert requests.get(gateway.url + "/api/x", headers=long, timeout=20).text == "ok"
        assert requests.post(gateway.url + "/api/x", data=b"content", headers=long, timeout=20).text == "ok"
        assert requests.get(gateway.url + "/api/x", timeout=20).text == "ok"
    call = [("content-type", "application/grpc"), ("te", "trailers"), ("x-long", "~" * 20_000)]
    with contextlib.closing(http2.connect(gateway.port)) as client:
        assert client.ask(*call, method="POST", body=b"\0\0\0\0\0", path="/api/call").body == b"ok"
    sent = [stream for stream in origin.requests if stream.values("x-long") == ["~" * 20_000]]
    assert len(sent) == 5 and all(stream.values("authorization") == [f"Bearer {CANARY}"] for stream in sent)
    assert origin.others == [] and len(origin.connections) == 1


def test_cookies_of_clients_are_never_indexed(make_http2_origin, start_gateway):
    """All clients of a route share the connection and its table."""
    origin = make_http2_origin()
    route = {"upstream": origin.url, "protocol": "http2", "auth": "none", "cookies": "pass"}
    gateway = start_gateway({"routes": {"api": route}})
    requests.get(gateway.url + "/api/x", headers={"Cookie": "session=1"}, timeout=20)
    [stream] = origin.requests
    assert stream.values("cookie") == ["session=1"] and stream.never_indexed == {"cookie"}

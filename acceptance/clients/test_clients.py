"""curl, requests and httpx, each in the ways that people use them."""

import json

import httpx
import pytest
import requests
from harness.clients import curl
from harness.configs import BEARER, CANARY
from harness.origin import response
from harness.script import OK


@pytest.fixture
def gateway(origin, start_gateway):
    return start_gateway({"routes": {"api": {"upstream": origin.url + "/base", "auth": BEARER}}})


def authenticated(origin):
    request = origin.last()
    assert request.value("authorization") == f"Bearer {CANARY}"
    assert request.value("host") == f"127.0.0.1:{origin.port}"
    return request


def test_curl_by_path(gateway, origin):
    result = curl("-i", f"{gateway.url}/api/v1/items?q=a%20b")
    assert "HTTP/1.1 200" in result.stdout and result.stdout.endswith("hello from the origin\n"), result
    assert authenticated(origin).target == "/base/v1/items?q=a%20b"


def test_curl_by_host(gateway, origin):
    # curl resolves names below .localhost to loopback by itself.
    result = curl("-i", f"http://api.localhost:{gateway.port}/v1/items")
    assert "HTTP/1.1 200" in result.stdout, result
    assert authenticated(origin).target == "/base/v1/items"


def test_curl_with_http_proxy(gateway, origin):
    # The client names the upstream's own URL, base path included.
    result = curl("-i", f"{origin.url}/base/v1/items", http_proxy=gateway.url, no_proxy="")
    assert "HTTP/1.1 200" in result.stdout, result
    assert authenticated(origin).target == "/base/v1/items"


def test_curl_with_http_1_0_gets_what_it_can_read(gateway, origin):
    origin.answer = lambda request: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    result = curl("-i", "--http1.0", f"{gateway.url}/api/x")
    head, _, body = result.stdout.partition("\n\n")
    assert body == "abc" and "chunked" not in head, result
    authenticated(origin)


def test_curl_uploads_when_the_origin_has_said_100_continue(against, tmp_path):
    """It would wait for that longer than it may take in all, so that it was told to go on, and by the origin."""
    body, arrived = tmp_path / "body", []
    body.write_bytes(b"0123456\n" * 250_000)

    def steps(wire, number):
        assert b"\r\nexpect: 100-continue\r\n" in wire.head().lower()
        assert wire.is_quiet(0.3), "no body before it is asked for"
        wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        arrived.append(wire.exactly(2_000_000) == body.read_bytes())
        wire.send(OK)

    gateway, _ = against(steps)
    patience = ("--expect100-timeout", "20", "--max-time", "10")
    result = curl("-i", *patience, "-H", "Expect: 100-continue", "--data-binary", f"@{body}", f"{gateway.url}/api/x")
    interim, _, final = result.stdout.partition("\n\n")
    assert interim.startswith("HTTP/1.1 100 ") and final.startswith("HTTP/1.1 200 ") and final.endswith("ok"), result
    assert arrived == [True]


def test_a_session_of_requests(gateway, origin):
    with requests.Session() as session:
        for number in range(5):
            answer = session.post(f"{gateway.url}/api/{number}", json={"number": number}, timeout=20)
            assert answer.status_code == 200
            assert json.loads(authenticated(origin).body) == {"number": number}
    assert len(origin.streams) == 1, "the upstream connection is kept"


def test_requests_as_a_proxy(gateway, origin):
    with requests.Session() as session:
        session.trust_env = False
        session.proxies = {"http": gateway.url}
        assert session.get(f"{origin.url}/base/x", timeout=20).status_code == 200
    authenticated(origin)


def test_httpx(gateway, origin):
    with httpx.Client(trust_env=False) as client:
        answer = client.put(f"{gateway.url}/api/x", content=b"put", headers={"Accept-Encoding": "br"})
    assert answer.status_code == 200
    request = authenticated(origin)
    assert (request.method, request.body, request.value("accept-encoding")) == ("PUT", b"put", "br")


def test_httpx_as_a_proxy(gateway, origin):
    with httpx.Client(trust_env=False, proxy=gateway.url) as client:
        assert client.get(f"{origin.url}/base/x").status_code == 200
    authenticated(origin)


def test_a_head_request_has_no_body(gateway, origin):
    origin.answer = lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"
    answer = requests.head(f"{gateway.url}/api/x", timeout=20)
    assert (answer.status_code, answer.headers["Content-Length"], answer.content) == (200, "1234", b"")


def test_a_redirect_is_the_clients_business(gateway, origin):
    origin.answer = lambda request: response(302, b"", "Location: http://elsewhere.example/file")
    answer = requests.get(f"{gateway.url}/api/x", allow_redirects=False, timeout=20)
    assert (answer.status_code, answer.headers["Location"]) == (302, "http://elsewhere.example/file")
    assert origin.count() == 1


def test_every_answer_says_who_made_it(gateway):
    passed_on = requests.get(f"{gateway.url}/api/x", timeout=20)
    own = requests.get(f"{gateway.url}/nowhere", timeout=20)
    assert "received-status=200" in passed_on.headers["Proxy-Status"]
    assert own.status_code == 404
    assert "error=destination_not_found" in own.headers["Proxy-Status"]
    assert own.headers["Content-Type"] == "application/problem+json"
    assert own.json()["type"].endswith("no-route") and own.json()["status"] == 404


def test_an_upstream_that_is_down_is_a_502_that_names_it(gateway, origin):
    origin.stop()
    answer = requests.get(f"{gateway.url}/api/x", timeout=20)
    assert answer.status_code == 502
    assert answer.json()["type"].endswith("upstream-unreachable")
    assert f"127.0.0.1:{origin.port}" in answer.text
    assert CANARY not in answer.text

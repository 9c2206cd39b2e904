"""`Proxy-Status` (RFC 9209): who was asked, what came back or why nothing did, and the switch that leaves it out."""

import pytest
import requests
from harness.configs import BEARER, CANARY
from harness import raw
from harness.origin import ok, response
from harness.processes import free_port
from harness.streams import connect, read_head



@pytest.fixture
def down():
    return free_port()


def config(origin, down, **changes):
    token_url = f"http://localhost:{down}/token"
    client = {"strategy": "oauth2_client_credentials", "client_id": "gw", "client_secret": CANARY}
    return {
        "routes": {
            "api": {"upstream": origin.url, "auth": BEARER, "allow_plaintext": True},
            "named": {"upstream": f"http://localhost:{origin.port}", "auth": BEARER},
            "down": {"upstream": f"http://localhost:{down}", "auth": BEARER},
            "tokenless": {"upstream": origin.url, "auth": client | {"token_url": token_url}},
        },
        **changes,
    }


def status(gateway, path):
    return requests.get(f"{gateway.url}{path}", timeout=20).headers.get("Proxy-Status")


def test_an_answer_names_the_next_hop_and_what_it_said(origin, down, start_gateway):
    gateway = start_gateway(config(origin, down))
    assert status(gateway, "/named/x") == f"authgateway; next-hop=localhost:{origin.port}; received-status=200"
    # An address begins with what no token of a structured field begins with (RFC 8941 section 3.3.4).
    assert status(gateway, "/api/x") == f'authgateway; next-hop="127.0.0.1:{origin.port}"; received-status=200'


def test_a_failure_names_the_hop_that_failed(origin, down, start_gateway):
    gateway = start_gateway(config(origin, down))
    assert status(gateway, "/down/x") == f"authgateway; next-hop=localhost:{down}; error=connection_refused"
    assert status(gateway, "/tokenless/x") == f"authgateway; next-hop=localhost:{down}; error=connection_refused"
    assert origin.count() == 0


@pytest.mark.parametrize(
    ("answer", "status_code", "error"),
    [
        (response(503, b"{}"), 503, "destination_unavailable"),
        (response(401, b'{"error": "invalid_client"}'), 500, "proxy_configuration_error"),
        (response(429, b"", "Retry-After: 7"), 503, "destination_unavailable"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", 502, "http_protocol_error"),
    ],
    ids=["503", "invalid_client", "429", "not HTTP"],
)
def test_an_authority_that_gives_no_token_is_the_hop_that_failed(origin, make_origin, start_gateway, answer, status_code, error):
    authority = make_origin(lambda request: answer)
    gateway = start_gateway(config(origin, authority.port))
    refused = requests.get(f"{gateway.url}/tokenless/x", timeout=20)
    assert refused.status_code == status_code, refused.text
    assert refused.headers["Proxy-Status"] == f"authgateway; next-hop=localhost:{authority.port}; error={error}"


def test_where_nobody_was_asked_no_hop_is_named(origin, down, start_gateway):
    gateway = start_gateway(config(origin, down))
    assert status(gateway, "/nowhere") == "authgateway; error=destination_not_found"
    refused = raw.exchange(gateway.port, b"GET /api/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
    assert b"\r\nProxy-Status: authgateway; error=http_request_denied\r\n" in refused.data


def test_an_upgrade_has_it_too(origin, down, start_gateway):
    origin.answer = lambda request: (
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
        if request.value("Upgrade")
        else ok(request)
    )
    gateway = start_gateway(config(origin, down))
    with connect(gateway.port) as client:
        client.sendall(b"GET /named/x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        head = read_head(client)
    assert b"next-hop=localhost:%d; received-status=101\r\n" % origin.port in head


def test_it_can_be_left_out_and_comes_back_with_a_reload(origin, down, start_gateway):
    gateway = start_gateway(config(origin, down, proxy_status=False))
    assert "proxy_status: false" in gateway.run("plan").stdout
    for path in ("/api/x", "/named/x", "/down/x", "/tokenless/x", "/nowhere"):
        assert status(gateway, path) is None, path
    assert requests.get(f"{gateway.url}/api/x", timeout=20).headers["Via"].startswith("1.1 authgateway-")
    gateway.configure(config(origin, down))
    assert "proxy_status" in gateway.run("reload").stdout
    assert "received-status=200" in status(gateway, "/api/x")

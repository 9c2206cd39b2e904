"""Envoy, nginx, Traefik, Caddy and HAProxy with exported configurations: what reaches the upstream, and what does not."""

import json

import pytest
from harness.configs import CANARY
from harness.engines import KINDS, LAPTOP, Edge
from harness.processes import wait_until
from harness.raw import exchange

#: What a client might send to be taken for somebody else.
HOSTILE = {
    "Authorization": "Bearer of-the-client",
    "Proxy-Authorization": "Bearer of-the-client",
    "X-Gw-Generation": "1.forged",
    "X-Gw-Rejected-Generation": "1.forged",
    "X-Gw-Engine-Token": "guessed",
    "X-Gw-Route": "keyed",
    "X-Original-Method": "DELETE",
    "X-Original-URI": "/keyed/forged",
    "X-Original-Host": "forged.example",
    "X-Forwarded-Method": "DELETE",
    "X-Forwarded-Uri": "/keyed/forged",
    "X-Forwarded-Host": "forged.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-For": "192.0.2.66",
    "Forwarded": "for=192.0.2.66",
    "Cookie": "session=of-the-client",
}
#: What clients get while the gateway is down, as the exported configuration says.
OUTAGE = {"envoy": 503, "nginx": 500, "traefik": 500, "caddy": 502, "haproxy": 503}
#: Those that pass on the gateway's explanation of a 403.
EXPLAINS = {"envoy", "traefik", "caddy", "haproxy"}


@pytest.fixture(scope="module", params=KINDS)
def standing(request, tmp_path_factory, make_module_gateway, certificate_authority):
    edge = Edge(tmp_path_factory.mktemp("edge"), make_module_gateway, certificate_authority, request.param)
    yield edge
    edge.stop()


@pytest.fixture
def edge(standing):
    standing.origin.forget()
    standing.secure.seen.clear()
    return standing


def test_the_upstream_gets_the_gateways_credential(edge):
    answer = edge.send("/box/2.0/a%20b?x=1%2F2", headers=HOSTILE)
    assert answer.status_code == 200, answer.text
    assert "Set-Cookie" not in answer.headers
    request = edge.origin.last()
    assert request.target == "/2.0/a%20b?x=1%2F2" and request.method == "GET"
    [credential] = request.values("authorization")
    assert credential.startswith("Bearer token-")
    assert request.value("host") == f"127.0.0.1:{edge.origin.port}"
    text = request.head.decode("latin-1").lower()
    for word in ("x-gw-", "forged", "192.0.2.66", "of-the-client", "guessed", CANARY.lower()):
        assert word not in text, (word, text)


def test_a_body_goes_with_it(edge):
    assert edge.send("/box/2.0/files", "POST", data=b"x" * 1000).status_code == 200
    assert edge.origin.last().body == b"x" * 1000
    assert edge.send("/box/2.0/files", "PUT", data=iter([b"x" * 500, b"y" * 500])).status_code == 200
    assert edge.origin.last().body == b"x" * 500 + b"y" * 500


def test_a_host_finds_its_route_too(edge):
    for host in ("box.example", "a.box.example:8000"):
        assert edge.send("/2.0/x", headers={"Host": host}).status_code == 200
        assert edge.origin.last().target == "/2.0/x"


def test_every_field_comes_from_the_gateway(edge):
    own = {"Authorization": "Basic b2Y6bWU=", "X-Api-Key": "mine", "X_Api_Key": "mine", "X-Team": "red", "X-Debug": "1"}
    assert edge.send("/keyed/x", headers=own).status_code == 200
    request = edge.origin.last()
    assert request.target == "/v1/x"
    assert request.values("x-api-key") == [CANARY] and request.values("x-team") == ["blue"]
    for name in ("authorization", "x_api_key", "x-debug"):
        assert request.values(name) == []
    assert edge.send("/keyed").status_code == 200
    assert edge.origin.last().target == "/v1"


def test_the_upstreams_certificate_is_verified(edge):
    assert edge.send("/secure/x").text == "secure"
    [(_, host, path, proved)] = edge.secure.seen
    assert host.startswith("localhost:") and path == "/base/x" and proved
    # How each says that it does not trust its upstream.
    status = {"envoy": 503, "haproxy": 503, "traefik": 500}.get(edge.proxy.kind.partition("-")[0], 502)
    assert edge.send("/mistaken/x").status_code == status
    assert len(edge.secure.seen) == 1


def test_what_the_gateway_refuses_is_refused(edge):
    answer = edge.send("/box/admin")
    assert answer.status_code == 403
    if edge.proxy.kind.partition("-")[0] in EXPLAINS:
        assert json.loads(answer.text)["code"] == "route-forbidden"
    assert edge.send("/closed/x").status_code == 404
    assert edge.send("/boxes/2.0/x").status_code == 404
    assert edge.origin.count() == 0


@pytest.mark.parametrize(
    "target, resolved",
    [
        ("/box/2.0/../admin", None),
        ("/box/2.0/%2e%2e/admin", None),
        ("/%62ox/2.0/x", "/2.0/x"),
        ("/keyed/../box/2.0/x", "/2.0/x"),
    ],
)
def test_a_path_never_means_two_things(edge, target, resolved):
    """What the upstream gets is what the gateway has judged."""
    answer = exchange(edge.proxy.port, f"GET {target} HTTP/1.1\r\nHost: x.example\r\nConnection: close\r\n\r\n".encode())
    arrived = [request.target for request in edge.origin.requests]
    # Traefik resolves it before it asks.
    expected = [resolved] if edge.kind == "traefik" and resolved else []
    assert arrived == expected
    assert (answer.status == 200) == bool(expected), answer.data


def test_clients_prove_themselves_to_the_gateway(edge):
    assert edge.send("/mine/x").status_code == 401
    assert edge.origin.count() == 0
    assert edge.send("/mine/x", headers=LAPTOP).status_code == 200
    edge.revoke()
    if edge.kind.startswith(("envoy", "nginx", "caddy")):
        # The second question is the client's, too.
        assert edge.send("/mine/x", headers=LAPTOP).status_code == 200
    assert edge.gateway.run("token", "refresh", "me").returncode == 0
    assert edge.send("/mine/x", headers=LAPTOP).status_code == 200


def test_a_request_without_a_credential_is_not_forwarded(edge):
    edge.issuer.fails = True
    assert edge.gateway.run("token", "clear", "me").returncode == 0
    try:
        answer = edge.send("/box/2.0/x")
        assert answer.status_code == (500 if edge.kind.startswith("nginx") else 503)
        if edge.kind in ("envoy-grpc", "traefik", "caddy-2.6", "caddy-2.11", "haproxy"):
            assert json.loads(answer.text)["status"] == 503
        assert edge.origin.count() == 0
    finally:
        edge.issuer.fails = False
    assert edge.gateway.run("token", "refresh", "me").returncode == 0
    wait_until(lambda: edge.send("/box/2.0/x").status_code == 200, 20, "there is a token again")


def test_nothing_is_forwarded_while_the_gateway_is_down(edge):
    assert edge.send("/box/2.0/x").status_code == 200
    edge.gateway.stop()
    try:
        answer = edge.send("/box/2.0/x", headers={"Authorization": "Bearer of-the-client"})
        assert answer.status_code == OUTAGE[edge.proxy.kind.partition("-")[0]]
        assert edge.origin.count() == 1
    finally:
        edge.gateway.start()
    assert edge.send("/box/2.0/x").status_code == 200

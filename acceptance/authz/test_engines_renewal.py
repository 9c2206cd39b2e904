"""Envoy, nginx, Traefik, Caddy and HAProxy with exported configurations: tokens that end, that are revoked, and that are kept."""

import concurrent.futures
import hashlib
import time

import pytest
import requests
from harness.engines import KINDS, Edge
from harness.processes import wait_until
from harness.raw import exchange

CONTENT = b"0123456789" * 30_000


def started(request, tmp_path_factory, make_module_gateway, certificate_authority, **more):
    return Edge(tmp_path_factory.mktemp("edge"), make_module_gateway, certificate_authority, request.param, **more)


@pytest.fixture(scope="module", params=KINDS)
def edge(request, tmp_path_factory, make_module_gateway, certificate_authority):
    edge = started(request, tmp_path_factory, make_module_gateway, certificate_authority)
    yield edge
    edge.stop()


@pytest.fixture(scope="module", params=["nginx-1.22", "nginx-1.31"])
def keeping(request, tmp_path_factory, make_module_gateway, certificate_authority):
    """It keeps answers for two seconds."""
    edge = started(request, tmp_path_factory, make_module_gateway, certificate_authority, cache="2s")
    yield edge
    edge.stop()


def statuses(edge, clients, seconds=0, requests_each=0):
    """What many clients get at the same time, each over a connection of its own."""

    def ask(number):
        found = []
        until = time.monotonic() + seconds
        with requests.Session() as session:
            while time.monotonic() < until or len(found) < requests_each:
                found.append(edge.send(f"/box/2.0/{number}", session=session).status_code)
        return found

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return [status for found in pool.map(ask, range(clients)) for status in found]


def test_tokens_that_end_are_not_noticed_by_clients(edge):
    edge.issuer.lifetime = 2
    edge.revoke()
    renew(edge)
    before = edge.issuer.count
    found = statuses(edge, clients=4, seconds=5)
    assert set(found) == {200}, {status: found.count(status) for status in set(found)}
    assert len(found) > 50 and edge.issuer.count >= before + 2
    edge.issuer.lifetime = 3600
    renew(edge)


def renew(edge):
    printed = edge.gateway.run("token", "refresh", "me")
    assert printed.returncode == 0, printed.stderr


def test_a_revoked_token_is_replaced(edge):
    assert edge.send("/box/2.0/x").status_code == 200
    before = edge.issuer.count
    edge.revoke()
    answer = edge.send("/box/2.0/x")
    if edge.kind == "traefik":
        assert answer.status_code == 401, "it cannot tell the gateway"
        renew(edge)
    elif edge.kind == "haproxy":
        assert answer.status_code == 401, "it cannot send the request again"
    else:
        assert answer.status_code == 200
    wait_until(lambda: edge.send("/box/2.0/x").status_code == 200, 5, "the next request has a new token")
    assert edge.issuer.count == before + 1


def test_a_long_request_is_sent_again_where_the_proxy_can(edge):
    assert edge.send("/box/2.0/x").status_code == 200
    before = edge.issuer.count
    edge.revoke()
    edge.origin.forget()
    answer = edge.send("/box/2.0/files", "POST", data=CONTENT)
    if edge.kind.startswith(("nginx", "envoy")):
        assert answer.status_code == 200
        assert answer.text == hashlib.sha256(CONTENT).hexdigest()
        assert edge.issuer.count == before + 1
        assert len(edge.origin.requests) == 2
    else:
        assert answer.status_code == 401
        assert all(request.body == CONTENT for request in edge.origin.requests), "never without its content"
        renew(edge)
    assert edge.send("/box/2.0/x").status_code == 200


def test_many_rejections_cause_one_renewal(edge):
    assert edge.send("/box/2.0/x").status_code == 200
    before = edge.issuer.count
    edge.revoke()
    found = set(statuses(edge, clients=8, requests_each=5))
    if edge.kind == "traefik":
        assert found == {401} and edge.issuer.count == before
        return renew(edge)
    assert found == ({200, 401} if edge.kind == "haproxy" else {200})
    assert edge.issuer.count == before + 1


def test_thousands_of_requests_need_few_answers(keeping):
    before = sum(keeping.answers().values())
    found = statuses(keeping, clients=4, requests_each=500)
    assert set(found) == {200} and len(found) == 2000
    assert 0 < sum(keeping.answers().values()) - before < 40


def test_an_answer_is_not_kept_for_others(keeping):
    assert keeping.send("/box/2.0/x").status_code == 200
    assert keeping.send("/box/admin").status_code == 403
    assert keeping.send("/box/2.0/x", headers={"X-HTTP-Method-Override": "DELETE"}).status_code == 403


def raw(edge, target, *fields):
    lines = [f"GET {target} HTTP/1.1", "Host: x.example", "Connection: close", *fields, "", ""]
    return exchange(edge.proxy.port, "\r\n".join(lines).encode())


@pytest.mark.parametrize("separator", ["|", "\\n", "%0A", ","])
def test_no_two_requests_share_a_kept_answer(keeping, separator):
    """Of the key, a client chooses the end of the target and what follows it."""
    target = "/box/2.0/public/x"
    assert raw(keeping, target, f"Authorization: /../../admin{separator}end").status == 200
    keeping.origin.forget()
    assert raw(keeping, f"{target}{separator}/../../admin", "Authorization: end").status != 200
    assert keeping.origin.count() == 0


@pytest.mark.parametrize(
    "fields",
    [
        ["X-HTTP-Method-Override:", "X-HTTP-Method-Override: DELETE"],
        ["X-HTTP-Method-Override:", "X_HTTP_Method_Override: DELETE"],
        ["X-Original-URL:", "X-Original-URL: /admin"],
    ],
)
def test_what_was_not_judged_does_not_reach_the_upstream(keeping, fields):
    """nginx 1.22 has the first of several fields in its variables, and 1.31 all of them."""
    assert raw(keeping, "/box/2.0/twice").status == 200
    keeping.origin.forget()
    answer = raw(keeping, "/box/2.0/twice", *fields)
    assert answer.status in (200, 403), answer.data
    for request in keeping.origin.requests:
        head = request.head.decode("latin-1").lower()
        assert "override: delete" not in head and "/admin" not in head, head


def test_a_page_is_judged_although_an_answer_is_kept(keeping):
    assert raw(keeping, "/box/2.0/page").status == 200
    assert raw(keeping, "/box/2.0/page", "Sec-Fetch-Site: cross-site").status == 403
    assert raw(keeping, "/box/2.0/page", "Origin: https://page.example").status == 403


def test_a_kept_token_that_is_rejected_is_replaced(keeping):
    assert keeping.send("/box/2.0/y").status_code == 200
    keeping.revoke()
    assert keeping.send("/box/2.0/y", "POST", data=CONTENT).status_code == 200
    assert keeping.send("/box/2.0/y").status_code == 200

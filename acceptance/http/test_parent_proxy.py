"""Upstreams, token endpoints and tunnels behind another proxy: `proxy` of routes, credentials and `defaults`."""

import base64
import concurrent.futures
import contextlib
import json
import socket
import ssl
import threading
import time

import pytest
import requests
from harness import debian, processes
from harness.configs import BEARER, CANARY
from harness.otlp import Collector
from harness.parent_proxy import ParentProxy
from harness.tls import nginx_over_tls
from harness.tls_script import server_context

LOGIN = f"me:{CANARY}"


@pytest.fixture
def make_gateway(make_gateway):
    """With one worker, because each has connections of its own."""
    return lambda config, **options: make_gateway({"workers": 1, **config}, **options)


@pytest.fixture
def parents():
    made = []

    def make(**options):
        made.append(ParentProxy(**options))
        return made[-1]

    yield make
    for parent in made:
        parent.stop()


@pytest.fixture
def behind(tls_upstream, certificate_authority):
    """The route to an upstream with TLS, by a name that only the proxy knows."""
    port = tls_upstream.url.rpartition(":")[2]
    return {
        "names": {"upstream.test:443": port},
        "route": {
            "upstream": "https://upstream.test",
            "auth": BEARER,
            "tls": {"ca": str(certificate_authority.certificate)},
        },
    }


def proxied(parent, **more):
    return {"url": parent.url, "username": "me", "password": CANARY, **more}


def get(gateway, path="/secure/x", **options):
    return requests.get(gateway.url + path, timeout=20, **options)


def problem(gateway, path="/secure/x"):
    answer = get(gateway, path)
    assert CANARY not in answer.text and CANARY not in str(answer.headers)
    return answer.status_code, answer.json()["detail"]


def test_an_https_upstream_is_reached_through_a_tunnel(behind, parents, start_gateway):
    parent = parents(names=behind["names"], login=LOGIN)
    gateway = start_gateway({"routes": {"secure": {**behind["route"], "proxy": proxied(parent)}}})
    for _ in range(3):
        answer = get(gateway, headers={"Proxy-Authorization": "Basic bm90OmZvcndhcmRlZA=="})
        assert (answer.status_code, answer.text) == (200, "TLSv1.3 upstream.test GET /x")
    # One tunnel for all of them, with the login of the configuration and nothing of the client's.
    assert parent.lines() == ["CONNECT upstream.test:443 HTTP/1.1"]
    (request,) = parent.requests
    assert {name for name, _ in request.fields} == {"host", "via", "proxy-authorization"}


def test_tinyproxy_with_a_login(tls_upstream, behind, origin, tmp_path, start_gateway):
    server = debian.tinyproxy(tmp_path / "tinyproxy", "me", CANARY)
    try:
        proxy = {"url": server.url, "username": "me", "password": CANARY}
        wrong = {**proxy, "password": "wrong"}
        tls = {**behind["route"]["tls"], "server_name": "upstream.test"}
        secure = {"upstream": tls_upstream.url, "auth": BEARER, "tls": tls}
        plain = {"upstream": origin.url, "auth": BEARER}
        gateway = start_gateway(
            {
                "routes": {
                    "secure": {**secure, "proxy": proxy},
                    "plain": {**plain, "proxy": proxy},
                    "wrong": {**secure, "proxy": wrong},
                }
            }
        )
        for _ in range(2):
            assert get(gateway).text == "TLSv1.3 upstream.test GET /x"
            assert get(gateway, "/plain/a?b").text == "hello from the origin\n"
        assert origin.last().line == "GET /a?b HTTP/1.1" and origin.last().value("proxy-authorization") is None
        status, detail = problem(gateway, "/wrong/x")
        assert status == 502 and f"The proxy {server.url} does not accept the user name" in detail
        assert "CONNECT" in server.text()
    finally:
        server.stop()


@pytest.fixture
def start_squid(tmp_path, certificate_authority):
    """Debian's squid with a login; `scheme` is how it is reached."""
    with contextlib.ExitStack() as stack:

        def start(scheme):
            tls = certificate_authority.issue("squid", "IP:127.0.0.1") if scheme == "https" else None
            server = debian.squid(tmp_path / "squid", "me", CANARY, tls)
            stack.callback(server.stop)
            ca = {"ca": str(certificate_authority.certificate)} if tls else {}
            return server, {"url": server.url, "username": "me", "password": CANARY, **ca}

        yield start


def tunnels(server, url):
    """How many squid has opened to that server; it logs them when they end, and no query of a request."""
    place = url.partition("://")[2]
    return sum("TCP_TUNNEL/200" in line and f"CONNECT {place} me " in line for line in server.text().splitlines())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_squid_with_a_login(scheme, tls_upstream, behind, origin, start_squid, start_gateway):
    server, proxy = start_squid(scheme)
    tls = {**behind["route"]["tls"], "server_name": "upstream.test"}
    secure = {"upstream": tls_upstream.url, "auth": BEARER, "tls": tls}
    plain = {"upstream": origin.url, "auth": BEARER}
    nobody = f"127.0.0.1:{processes.free_port()}"
    wrong = {**proxy, "password": "wrong"}
    gateway = start_gateway(
        {
            "routes": {
                "secure": {**secure, "proxy": proxy},
                "plain": {**plain, "proxy": proxy},
                "secure-wrong": {**secure, "proxy": wrong},
                "plain-wrong": {**plain, "proxy": wrong},
                "secure-nobody": {**secure, "upstream": f"https://{nobody}", "proxy": proxy},
                "direct": {**secure, "proxy": {**wrong, "no_proxy": ["127.0.0.1"]}},
            }
        }
    )
    for _ in range(2):
        assert get(gateway).text == "TLSv1.3 upstream.test GET /x"
        assert get(gateway, "/plain/a?b").text == "hello from the origin\n"
    assert origin.last().line == "GET /a?b HTTP/1.1" and origin.last().value("proxy-authorization") is None
    for path in "/secure-wrong/x", "/plain-wrong/x":
        status, detail = problem(gateway, path)
        assert status == 502 and f"The proxy {server.url} does not accept the user name" in detail
    assert origin.count() == 2
    status, detail = problem(gateway, "/secure-nobody/x")
    assert status == 502 and detail == f"The proxy {server.url} could not connect to {nobody} (status 503)."
    # With the wrong login, squid would not have let it through.
    assert get(gateway, "/direct/x").text == "TLSv1.3 upstream.test GET /x"
    server.stop()
    assert tunnels(server, tls_upstream.url) == 1, server.text()
    assert server.text().count(f"GET {origin.url}/a? me ") == 2, server.text()
    for path in "/secure/x", "/plain/x":
        status, detail = problem(gateway, path)
        assert status == 502 and detail.startswith(f"The proxy {server.url} cannot be reached"), detail


def test_an_upstream_that_is_an_address_shows_a_certificate_for_it(
    tls_upstream, certificate_authority, parents, tmp_path, start_gateway
):
    """One for the address that the gateway has dialled is the proxy's."""
    certificate, key = certificate_authority.issue("address", "IP:10.9.9.9")
    own = nginx_over_tls(tmp_path, certificate, key, f"Bearer {CANARY}")
    try:
        ports = {"10.9.9.9:443": own.url.rpartition(":")[2], "10.9.9.8:443": tls_upstream.url.rpartition(":")[2]}
        parent = parents(names=ports)
        route = {"auth": BEARER, "tls": {"ca": str(certificate_authority.certificate)}, "proxy": parent.url}
        hosts = {"own": "https://10.9.9.9", "other": "https://10.9.9.8"}
        gateway = start_gateway({"routes": {name: {**route, "upstream": url} for name, url in hosts.items()}})
        assert get(gateway, "/own/x").status_code == 200
        status, detail = problem(gateway, "/other/x")
        assert status == 502 and "The certificate of https://10.9.9.8 does not name this host" in detail
    finally:
        own.stop()


def test_http2_is_chosen_inside_the_tunnel(make_secure_http2_origin, certificate_authority, parents, start_gateway):
    origin = make_secure_http2_origin("h2", "http/1.1")
    parent = parents(names={"upstream.test:443": origin.url.rpartition(":")[2]})
    tls = {"ca": str(certificate_authority.certificate)}
    route = {"upstream": "https://upstream.test", "auth": BEARER, "tls": tls, "protocol": "http2", "proxy": parent.url}
    gateway = start_gateway({"routes": {"secure": route}})
    assert get(gateway).status_code == 200
    assert parent.lines() == ["CONNECT upstream.test:443 HTTP/1.1"]


def test_an_http_upstream_is_asked_for_in_absolute_form(origin, parents, start_gateway):
    parent = parents(names={"plain.test:80": origin.port}, login=LOGIN)
    route = {"upstream": "http://plain.test", "auth": BEARER, "allow_plaintext": True, "proxy": proxied(parent)}
    gateway = start_gateway({"routes": {"plain": route}})
    for number in range(2):
        assert get(gateway, f"/plain/a/{number}?b=c", headers={"Proxy-Authorization": "x"}).status_code == 200
    assert get(gateway, "/plain/a/2", data=b"content").status_code == 200
    assert parent.lines()[:2] == [f"GET http://plain.test/a/{number}?b=c HTTP/1.1" for number in range(2)]
    request = origin.last()
    assert (request.line, request.value("host"), request.body) == ("GET /a/2 HTTP/1.1", "plain.test", b"content")
    assert request.value("authorization") == f"Bearer {CANARY}"
    assert "proxy-authorization" not in {name for name, _ in parent_fields(origin)}
    assert len(parent.connections) == 1


def parent_fields(origin):
    return [field for request in origin.requests for field in request.fields]


def test_a_credential_is_the_login_and_its_lock_ends_tunnels(behind, parents, start_gateway):
    parent = parents(names=behind["names"], login="Bearer company-token")
    gateway = start_gateway(
        {
            "credentials": {"company": {"strategy": "bearer", "token": "company-token"}},
            "routes": {"secure": {**behind["route"], "proxy": {"url": parent.url, "auth": "company"}}},
        }
    )
    assert get(gateway).status_code == 200
    locked = gateway.run("token", "lock", "company")
    assert locked.returncode == 0, locked
    status, detail = problem(gateway)
    assert status == 503 and "company" in detail
    done = gateway.run("doctor")
    assert f"An operator has locked the credential company, which the proxy {parent.url} needs" in done.stdout
    assert len(parent.lines()) == 1
    gateway.run("token", "unlock", "company")
    assert get(gateway).status_code == 200
    assert len(parent.lines()) == 2
    gateway.stop()
    (gateway.folder / "state" / "locks.json").write_text("not a list")
    done = gateway.run("doctor")
    assert "needs a credential, and it may be locked: " in done.stdout and "locks.json" in done.stdout
    assert len(parent.lines()) == 2


@pytest.mark.parametrize("is_named", [False, True])
def test_a_reload_that_replaces_the_login_ends_what_has_it(is_named, origin, parents, start_gateway):
    def config(token):
        login = {"auth": "company"} if is_named else {"username": "me", "password": token}
        proxy = {"url": parent.url, **login}
        route = {"upstream": "http://plain.test", "auth": BEARER, "allow_plaintext": True, "proxy": proxy}
        credentials = {"credentials": {"company": {"strategy": "bearer", "token": token}}} if is_named else {}
        return {"workers": 1, "routes": {"plain": route}, **credentials}

    parent = parents(names={"plain.test:80": origin.port}, login="Bearer first" if is_named else "me:first")
    gateway = start_gateway(config("first"))
    assert get(gateway, "/plain/x").status_code == 200
    parent.may_answer.clear()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(problem, gateway, "/plain/y")
        processes.wait_until(lambda: len(parent.lines()) == 2, 20, "the second request is under way")
        gateway.configure(config("second"))
        assert gateway.run("reload").returncode == 0
        status, _ = waiting.result(timeout=20)
    assert status == 502 and len(parent.lines()) == 2


def test_a_login_that_a_program_renews(behind, origin, token_server, parents, tmp_path, start_gateway):
    """Of a proxy whose tokens expire. Routes and token requests use the new one without a reload by hand."""
    token_server.answer = lambda asked, token: (200, {}, json.dumps({"access_token": "t", "token_type": "Bearer", "expires_in": 2}))
    program, secret = tmp_path / "print-login", tmp_path / "login"
    program.write_text(f"#!/bin/sh\ncat {secret}\n", encoding="utf-8")
    program.chmod(0o700)
    secret.write_text("first", encoding="utf-8")
    parent = parents(names=behind["names"], login="Bearer first")
    proxy = {"url": parent.url, "auth": "company"}
    client = {"strategy": "oauth2_client_credentials", "client_id": "me", "client_secret": CANARY, "token_url": f"{token_server.url}/token"}
    gateway = start_gateway(
        {
            "credentials": {
                "company": {"strategy": "bearer", "token": {"exec": [str(program)], "ttl": "1s"}},
                "me": {**client, "proxy": proxy},
            },
            "routes": {"secure": {**behind["route"], "proxy": proxy}, "plain": {"upstream": origin.url, "auth": "me"}},
        }
    )
    for path in "/secure/x", "/plain/x":
        assert get(gateway, path).status_code == 200, path
    parent.login = "Bearer second"
    secret.write_text("second", encoding="utf-8")
    parent.drop()
    for path in "/secure/x", "/plain/x":
        processes.wait_until(lambda path=path: get(gateway, path).status_code == 200, 20, gateway.text)
    assert set(parent.values("proxy-authorization")) == {"Bearer first", "Bearer second"}


def test_defaults_hold_for_routes_that_say_nothing(behind, origin, parents, start_gateway):
    parent = parents(names={**behind["names"], "direct.invalid:443": 9})
    gateway = start_gateway(
        {
            "defaults": {"proxy": {"url": parent.url, "no_proxy": ["direct.invalid"]}},
            "routes": {
                "secure": behind["route"],
                "direct": {**behind["route"], "upstream": "https://direct.invalid"},
                "none": {**behind["route"], "upstream": "https://none.invalid", "proxy": "none"},
                "local": {"upstream": origin.url, "auth": BEARER},
            },
        }
    )
    assert get(gateway).status_code == 200
    assert get(gateway, "/local/x").status_code == 200
    for route in "direct", "none":
        status, detail = problem(gateway, f"/{route}/x")
        assert status == 502 and f"The name {route}.invalid cannot be resolved" in detail
    assert parent.lines() == ["CONNECT upstream.test:443 HTTP/1.1"]


def test_the_environment_counts_where_the_configuration_says_so(behind, parents, make_gateway):
    parent = parents(names=behind["names"], login=LOGIN)
    url = parent.url.replace("//", f"//{LOGIN}@")
    gateway = make_gateway({"routes": {"secure": {**behind["route"], "proxy": "environment"}}})
    gateway.environment = {"HTTPS_PROXY": url, "NO_PROXY": "example.com"}
    gateway.start()
    assert get(gateway).status_code == 200
    gateway.configure({"workers": 1, "routes": {"secure": behind["route"]}})
    gateway.run("reload")
    processes.wait_until(lambda: get(gateway).status_code == 502, 20, "the proxy is left out")
    assert len(parent.lines()) == 1


def test_a_proxy_over_tls(behind, origin, certificate_authority, parents, start_gateway):
    certificate, key = certificate_authority.issue("company-proxy", "DNS:localhost")
    names = {**behind["names"], "plain.test:80": origin.port}
    parent = parents(names=names, login=LOGIN, tls=server_context(certificate, key))
    plain = {"upstream": "http://plain.test", "auth": BEARER, "allow_plaintext": True}
    trusted = proxied(parent, ca=str(certificate_authority.certificate))
    gateway = start_gateway(
        {
            "routes": {
                "secure": {**behind["route"], "proxy": trusted},
                "plain": {**plain, "proxy": trusted},
                "untrusted": {**plain, "proxy": proxied(parent)},
            }
        }
    )
    assert get(gateway).text == "TLSv1.3 upstream.test GET /x"
    assert get(gateway, "/plain/x").text == "hello from the origin\n"
    status, detail = problem(gateway, "/untrusted/x")
    assert status == 502 and detail.startswith(f"The proxy {parent.url} cannot be reached") and "ca of proxy" in detail


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_a_login_that_is_refused_is_the_proxys(scheme, behind, origin, parents, start_gateway):
    parent = parents(names={**behind["names"], "plain.test:80": origin.port}, login="other:login")
    plain = {"upstream": "http://plain.test", "auth": BEARER, "allow_plaintext": True}
    route = behind["route"] if scheme == "https" else plain
    gateway = start_gateway(
        {"routes": {"secure": {**route, "proxy": proxied(parent)}, "bare": {**route, "proxy": parent.url}}}
    )
    status, detail = problem(gateway)
    assert status == 502 and detail.startswith(f"The proxy {parent.url} does not accept the user name and the password")
    status, detail = problem(gateway, "/bare/x")
    assert status == 502 and detail.startswith(f"The proxy {parent.url} requires a login (status 407)")
    assert "Proxy-Authenticate" not in get(gateway).headers
    assert origin.count() == 0


def test_a_proxy_that_is_down_is_named(behind, start_gateway):
    port = processes.free_port()
    names = {"down": f"http://127.0.0.1:{port}", "nowhere": "http://proxy.invalid:3128"}
    gateway = start_gateway({"routes": {name: {**behind["route"], "proxy": url} for name, url in names.items()}})
    status, detail = problem(gateway, "/down/x")
    assert status == 502 and detail == (
        f"The proxy http://127.0.0.1:{port} cannot be reached: http://127.0.0.1:{port} does not accept connections; is it running?"
    )
    status, detail = problem(gateway, "/nowhere/x")
    assert status == 502 and detail.startswith("The proxy http://proxy.invalid:3128 cannot be reached: The name proxy.invalid")


SENT_LOGIN = "Basic " + base64.b64encode(LOGIN.encode()).decode()
HOSTILE = {
    "echo": (f"HTTP/1.1 403 {SENT_LOGIN} {CANARY}\r\nX-Seen: {SENT_LOGIN}\r\n\r\n{SENT_LOGIN}".encode(), "refuses connections to upstream.test:443 (status 403)"),
    "switching": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: tls\r\n\r\n", "with status 101"),
    "login": (b"HTTP/1.1 407 Login\r\nProxy-Authenticate: Basic realm=a\r\n\r\n", "does not accept the user name and the password (status 407)"),
    "fields": (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 10_000, "a head of more than 16 KiB"),
    "hints": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 1_000, "nothing but interim answers"),
    "garbage": (b"SSH-2.0-OpenSSH_9\r\n", "something that is not HTTP"),
    "huge": (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 200_000, "a head of more than 16 KiB"),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, "nothing but interim answers"),
    "redirect": (b"HTTP/1.1 302 Found\r\nLocation: https://evil.test/\r\n\r\n", "refuses connections to upstream.test:443 (status 302)"),
    "forbidden": (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nsecret", "refuses connections to upstream.test:443 (status 403)"),
    "unreachable": (b"HTTP/1.1 503 Unavailable\r\n\r\n", "could not connect to upstream.test:443 (status 503)"),
    "closed": (b"", "closed the connection before it had opened a tunnel"),
    "cut": (b"HTTP/1.1 200 O", "closed the connection before it had opened a tunnel"),
    "closed-behind-200": (b"HTTP/1.1 200 OK\r\n\r\n", "The connection goes through the proxy"),
    "no-tls": (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "The connection goes through the proxy"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_a_bad_proxy_says_is_never_the_upstreams(kind, behind, parents, start_gateway):
    sent, words = HOSTILE[kind]
    parent = parents(answer=lambda request: sent)
    gateway = start_gateway({"routes": {"secure": {**behind["route"], "proxy": proxied(parent)}}})
    status, detail = problem(gateway)
    assert status == 502 and words in detail and parent.url in detail, detail
    # One try with the login, and nothing of the request or the upstream's credential.
    assert parent.lines() == ["CONNECT upstream.test:443 HTTP/1.1"]
    assert SENT_LOGIN not in detail and SENT_LOGIN.split()[1] not in gateway.text() and CANARY not in gateway.text()
    gateway.check_end()


def slowly(text):
    for byte in text:
        yield bytes([byte])
        time.sleep(0.05)


def test_a_proxy_that_sends_single_bytes_has_a_deadline(behind, parents, start_gateway):
    parent = parents(answer=lambda request: slowly(b"HTTP/1.1 200 OK\r\nA: " + b"a" * 400))
    gateway = start_gateway({"limits": {"connect_timeout": "1s"}, "routes": {"secure": {**behind["route"], "proxy": proxied(parent)}}})
    begun = time.monotonic()
    status, detail = problem(gateway)
    assert status == 504 and detail == f"The proxy {parent.url} did not open a tunnel to upstream.test:443 in time."
    assert time.monotonic() - begun < 5


def test_an_answer_in_single_bytes_is_one(behind, parents, start_gateway):
    """Interim answers, lines that end with LF, and fields that mean nothing behind CONNECT (RFC 9110 section 9.3.6) among it."""
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\nContent-Length: 7\r\nTransfer-Encoding: chunked\n\n"
    parent = parents(names=behind["names"])
    parent.established = [bytes([byte]) for byte in head]
    gateway = start_gateway({"routes": {"secure": {**behind["route"], "proxy": parent.url}}})
    assert get(gateway).text == "TLSv1.3 upstream.test GET /x"


def test_the_certificate_of_an_https_proxy_names_it(behind, certificate_authority, parents, start_gateway):
    certificate, key = certificate_authority.issue("other-proxy", "DNS:other.test")
    parent = parents(names=behind["names"], login=LOGIN, tls=server_context(certificate, key))
    proxy = proxied(parent, ca=str(certificate_authority.certificate))
    gateway = start_gateway({"routes": {"secure": {**behind["route"], "proxy": proxy}}})
    status, detail = problem(gateway)
    assert status == 502 and detail.startswith(f"The proxy {parent.url} cannot be reached") and "does not name" in detail, detail
    assert parent.lines() == [], "the login is not sent to a server that is not the proxy"


def test_what_a_proxy_adds_to_a_response_answers_nothing(parents, start_gateway):
    """Behind a response in absolute form, it sends one that nobody has asked for."""
    done = threading.Event()

    def answer(request):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
        done.wait(20)

    parent = parents(answer=answer)
    route = {"upstream": "http://plain.test", "auth": BEARER, "allow_plaintext": True, "proxy": proxied(parent)}
    gateway = start_gateway({"routes": {"plain": route}})
    try:
        assert [get(gateway, "/plain/x").text for _ in range(3)] == ["hi"] * 3
        assert len(parent.lines()) == 3
    finally:
        done.set()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"HTTP/1.1 407 Login\r\nProxy-Authenticate: Basic realm=a\r\nContent-Length: 0\r\n\r\n", "does not accept the user name and the password"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 200_000, "head"),
        (b"SSH-2.0-OpenSSH_9\r\n", "not valid HTTP"),
        (b"", "proxy"),
    ],
    ids=["login", "huge", "garbage", "closed"],
)
def test_a_bad_proxy_is_named_in_absolute_form_as_well(sent, words, parents, start_gateway):
    parent = parents(answer=lambda request: sent)
    route = {"upstream": "http://plain.test", "auth": BEARER, "allow_plaintext": True, "proxy": proxied(parent)}
    gateway = start_gateway({"routes": {"plain": route}})
    status, detail = problem(gateway, "/plain/x")
    assert status == 502 and words in detail and parent.url in detail, detail
    assert SENT_LOGIN.split()[1] not in detail + gateway.text()
    assert len(parent.lines()) <= 2, "a lost connection is tried once more"


def test_a_slow_proxy_has_a_deadline(behind, parents, start_gateway):
    parent = parents(names=behind["names"])
    parent.may_answer.clear()
    route = {**behind["route"], "proxy": parent.url}
    gateway = start_gateway({"limits": {"connect_timeout": "1s"}, "routes": {"secure": route}})
    begun = time.monotonic()
    status, detail = problem(gateway)
    assert status == 504 and detail == f"The proxy {parent.url} did not open a tunnel to upstream.test:443 in time."
    assert time.monotonic() - begun < 5
    parent.may_answer.set()
    assert get(gateway).status_code == 200


def test_a_reload_changes_the_proxy(behind, parents, start_gateway):
    one, two = parents(names=behind["names"]), parents(names=behind["names"])
    config = {"workers": 1, "routes": {"secure": {**behind["route"], "proxy": one.url}}}
    gateway = start_gateway(config)
    assert get(gateway).status_code == 200
    config["routes"]["secure"]["proxy"] = two.url
    gateway.configure(config)
    assert f"{one.url} -> {two.url}" in gateway.run("reload").stdout
    assert get(gateway).status_code == 200
    assert (len(one.lines()), len(two.lines())) == (1, 1)


def test_token_requests_go_through_it(token_server, origin, parents, start_gateway, make_gateway):
    """Plain http on this machine: also such a request goes through a tunnel."""
    answer = {"access_token": "token-1", "token_type": "Bearer", "expires_in": 3600}
    token_server.answer = lambda asked, token: (200, {}, json.dumps(answer))
    parent = parents(login=LOGIN)
    credential = {
        "strategy": "oauth2_client_credentials",
        "client_id": "me",
        "client_secret": CANARY,
        "token_url": f"{token_server.url}/token",
    }
    route = {"upstream": origin.url, "auth": "me"}
    gateway = start_gateway({"credentials": {"me": {**credential, "proxy": proxied(parent)}}, "routes": {"secure": route}})
    assert get(gateway).status_code == 200
    place = token_server.url.removeprefix("http://")
    assert parent.lines()[0] == f"CONNECT {place} HTTP/1.1"
    # A command that fetches a token by itself does so, too.
    asked = len(parent.lines())
    config = {"credentials": {"me": {**credential, "proxy": proxied(parent)}}, "routes": {"secure": route}}
    checked = make_gateway(config)
    done = checked.run("check", "--acquire")
    assert "me: a token was obtained" in done.stdout, done.stdout + done.stderr
    assert parent.lines()[asked:] == [f"CONNECT {place} HTTP/1.1"]
    state = checked.folder / "state"
    state.mkdir(mode=0o700, exist_ok=True)
    for locks, words in (('["me"]', "an operator has locked it"), ("not a list", "it may be locked: ")):
        (state / "locks.json").write_text(locks)
        done = checked.run("check", "--acquire")
        assert f"me: not tried: {words}" in done.stdout, done.stdout + done.stderr
    assert len(parent.lines()) == asked + 1
    # A wrong login, and nobody there.
    for proxy, words in (
        ({"url": parent.url}, "requires a login (status 407)"),
        ({"url": f"http://127.0.0.1:{processes.free_port()}"}, "does not accept connections"),
    ):
        other = make_gateway({"credentials": {"me": {**credential, "proxy": proxy}}, "routes": {"secure": route}}).start()
        status, detail = problem(other)
        assert status in (502, 503) and proxy["url"] in detail and words in detail, detail


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_squid_passes_token_requests_on(scheme, token_server, origin, start_squid, make_gateway):
    token_server.answer = lambda asked, token: (200, {}, json.dumps({"access_token": "token-1", "token_type": "Bearer"}))
    server, proxy = start_squid(scheme)
    credential = {
        "strategy": "oauth2_client_credentials",
        "client_id": "me",
        "client_secret": CANARY,
        "token_url": f"{token_server.url}/token",
    }

    def acquire(**changes):
        credentials = {"me": {**credential, "proxy": {**proxy, **changes}}}
        routes = {"secure": {"upstream": origin.url, "auth": "me"}}
        done = make_gateway({"credentials": credentials, "routes": routes}).run("check", "--acquire")
        assert CANARY not in done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "me: a token was obtained" in acquire()
    assert f"The proxy {server.url} does not accept the user name" in acquire(password="wrong")
    assert "me: a token was obtained" in acquire(password="wrong", no_proxy=["127.0.0.1"])
    if scheme == "https":
        del proxy["ca"]
        assert f'The proxy {server.url} has a certificate that is not trusted; see "ca" of proxy' in acquire()
    server.stop()
    assert f"The proxy {server.url} does not accept connections" in acquire()
    assert tunnels(server, token_server.url) == 1, server.text()


def test_keys_of_client_tokens_go_through_it(origin, parents, make_gateway):
    parent = parents(names={"direct.test:443": 9}, login=LOGIN)

    def config(password, **changes):
        issuer = {"issuer": "https://id.test", "audience": "gateway", "jwks": {"url": "https://id.test/keys"}, "subject": "ci"}
        return {
            "workers": 1,
            "defaults": {"proxy": {**proxied(parent), "password": password, **changes}},
            "access": {"clients": {"ci": {"jwt": issuer}}, "require_client": True},
            "routes": {"api": {"upstream": origin.url, "auth": BEARER}},
        }

    gateway = make_gateway(config(CANARY)).start()
    words = f"The proxy {parent.url} refuses connections to id.test:443 (status 403)"
    processes.wait_until(lambda: words in gateway.text(), 20, gateway.text)
    assert set(parent.lines()) == {"CONNECT id.test:443 HTTP/1.1"}
    other = make_gateway(config("wrong")).start()
    words = f"The proxy {parent.url} does not accept the user name and the password (status 407)"
    processes.wait_until(lambda: words in other.text(), 20, other.text)
    other.stop()
    # What is directly reached is not asked for there.
    asked = len(parent.lines())
    gateway.stop()
    direct = make_gateway(config(CANARY, no_proxy=["id.test"])).start()
    processes.wait_until(lambda: "keys of an issuer" in direct.text(), 30, direct.text)
    assert len(parent.lines()) == asked


def test_telemetry_goes_through_it(origin, parents, make_gateway):
    collector = Collector()
    try:
        parent = parents(names={"collector.test:4318": collector.server.server_port}, login=LOGIN)
        config = {
            "defaults": {"proxy": proxied(parent)},
            "telemetry": {"otlp": "http://collector.test:4318", "metrics_interval": "1s"},
            "routes": {"api": {"upstream": origin.url, "auth": BEARER}},
        }
        make_gateway(config).start()
        processes.wait_until(lambda: collector.requests, 20, "an export arrives")
        assert set(parent.lines()) == {"CONNECT collector.test:4318 HTTP/1.1"}
        down = f"http://127.0.0.1:{processes.free_port()}"
        gateway = make_gateway({**config, "defaults": {"proxy": down}}).start()
        processes.wait_until(lambda: f"The proxy {down} does not accept connections" in gateway.text(), 20, gateway.text)
    finally:
        collector.stop()


@pytest.fixture
def tunnelling(parents, make_gateway, origin):
    """A gateway that tunnels to servers without a route, through a proxy."""

    def start(parent, **connect):
        place = {
            "address": f"127.0.0.1:{processes.free_port()}",
            "intercept": True,
            "connect": {"unrouted": "tunnel", **connect},
        }
        config = {"defaults": {"proxy": parent.url}, "routes": {"named": {"upstream": origin.url, "auth": BEARER}}}
        gateway = make_gateway(config, listeners=[place]).start()
        gateway.place = place["address"].split(":")
        return gateway

    return start


def connect(gateway, authority, *fields):
    wire = socket.create_connection((gateway.place[0], int(gateway.place[1])), timeout=20)
    wire.sendall("\r\n".join([f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", *fields, "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        data = wire.recv(65536)
        assert data, head
        head += data
    head, _, rest = head.partition(b"\r\n\r\n")
    return wire, head.decode(), rest


def test_tunnels_without_a_route_go_through_it(tls_upstream, certificate_authority, parents, tunnelling):
    parent = parents(names={"upstream.test:443": tls_upstream.url.rpartition(":")[2]})
    gateway = tunnelling(parent)
    wire, head, rest = connect(gateway, "upstream.test:443")
    assert head.startswith("HTTP/1.1 200 ") and rest == b""
    context = ssl.create_default_context(cafile=certificate_authority.certificate)
    with context.wrap_socket(wire, server_hostname="upstream.test") as secure:
        secure.sendall(b"GET /x HTTP/1.1\r\nHost: upstream.test\r\nConnection: close\r\n\r\n")
        assert b"".join(iter(lambda: secure.recv(65536), b"")).startswith(b"HTTP/1.1 401 ")
    assert parent.lines() == ["CONNECT upstream.test:443 HTTP/1.1"]


def test_what_a_server_says_first_comes_through(parents, tunnelling):
    parent = parents(answer=lambda request: b"HTTP/1.1 200 OK\r\n\r\n220 mail.test\r\n")
    gateway = tunnelling(parent, ports=[25, 443])
    wire, head, rest = connect(gateway, "mail.test:25")
    with wire:
        assert head.startswith("HTTP/1.1 200 ")
        while len(rest) < 15:
            rest += wire.recv(100)
        assert rest == b"220 mail.test\r\n"


@pytest.mark.parametrize(
    ("authority", "allow", "status"),
    [
        ("localhost:443", [], 502),
        ("a.localhost:443", ["*.localhost"], 502),
        ("inner.test:443", ["10.0.0.0/8"], 502),
        ("10.0.0.1:443", [], 502),
        ("127.1:443", [], 502),
        ("0x7f000001:443", [], 502),
        ("inner.test:443", ["inner.test"], 504),
        ("inner.test:443", [], 504),
        ("inner.test:25", [], 404),
    ],
)
def test_names_decide_where_the_proxy_looks_them_up(authority, allow, status, parents, tunnelling):
    """Those that may be asked for get 504."""
    parent = parents(answer=lambda request: b"HTTP/1.1 504 No\r\n\r\n")
    gateway = tunnelling(parent, **({"allow": allow} if allow else {}))
    wire, head, _ = connect(gateway, authority)
    with wire:
        assert int(head.split()[1]) == status, head
    assert parent.lines() == ([f"CONNECT {authority} HTTP/1.1"] if status == 504 else [])


def test_a_chain_that_ends_at_its_beginning_is_noticed(parents, tunnelling):
    parent = parents(answer=lambda request: b"HTTP/1.1 502 No\r\n\r\n")
    gateway = tunnelling(parent)
    connect(gateway, "upstream.test:443", "Via: 1.1 somebody")[0].close()
    via = parent.values("via")[-1]
    assert via.startswith("1.1 somebody, 1.1 ")
    wire, head, rest = connect(gateway, "upstream.test:443", f"Via: {via}")
    with wire:
        assert head.startswith("HTTP/1.1 502 ") and "already passed this gateway" in head + rest.decode(), head
    assert len(parent.lines()) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "127.1", "a.localhost", "localhost."])
def test_a_listener_of_its_own_is_no_proxy(host, make_gateway, behind):
    gateway = make_gateway({"routes": {"secure": behind["route"]}})
    url = f"http://{host}:{gateway.url.rpartition(':')[2]}"
    gateway.configure({"routes": {"secure": {**behind["route"], "proxy": url}}})
    done = gateway.run("check")
    words = "expected the URL of a proxy" if host == "localhost." else "is a listener of this gateway, which cannot be its own proxy"
    assert done.returncode != 0 and words in done.stdout + done.stderr, done


def test_a_listener_of_its_own_by_another_name_is_a_loop(names, make_gateway, origin):
    """Only the resolver knows that the name leads here, so the loop is noticed when the request comes back."""
    names.addresses["own.test"] = ["127.0.0.1"]
    port = processes.free_port()
    place = {"address": f"127.0.0.1:{port}", "intercept": True, "connect": {"unrouted": "tunnel"}}
    config = {"defaults": {"proxy": f"http://own.test:{port}"}, "routes": {"named": {"upstream": origin.url, "auth": BEARER}}}
    gateway = make_gateway(config, listeners=[place])
    gateway.wrapper = [*names.wrapper(), *gateway.wrapper]
    gateway.start()
    gateway.place = place["address"].split(":")
    wire, head, rest = connect(gateway, "upstream.test:443")
    with wire:
        assert head.startswith("HTTP/1.1 502 ") and "proxy" in head + rest.decode(), head + rest.decode()
    assert gateway.text().count("already passed this gateway") <= 2


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        (f"http://me:{CANARY}@proxy:1", 'use "username" and "password"'),
        ("socks5://proxy:1080", "SOCKS is not supported"),
        ({"url": "http://proxy:1", "username": "me"}, "username and password belong together"),
        ({"url": "http://proxy:1", "no_proxy": ["10.0.0.1/8"]}, "expected a host such as example.com"),
        ({"url": "http://proxy:1", "ca": "x.pem"}, "has no effect: the proxy is http"),
        ({"url": "http://proxy:1", "auth": "nobody"}, "nobody"),
        ({"username": "me", "password": CANARY}, 'missing key "url"'),
    ],
)
def test_mistakes_are_named(proxy, words, make_gateway, behind):
    gateway = make_gateway({"routes": {"secure": {**behind["route"], "proxy": proxy}}})
    done = gateway.run("check")
    assert done.returncode != 0 and words in done.stdout + done.stderr, done.stdout + done.stderr
    assert CANARY not in done.stdout + done.stderr


def test_doctor_names_the_proxy(behind, parents, make_gateway):
    parent = parents(names=behind["names"], login="other:login")
    gateway = make_gateway({"routes": {"secure": {**behind["route"], "proxy": proxied(parent)}}})
    done = gateway.run("doctor")
    assert f"The proxy {parent.url} does not accept the user name and the password (status 407)" in done.stdout
    assert CANARY not in done.stdout + done.stderr


def test_doctor_sees_a_certificate_through_the_proxy(behind, origin, parents, make_gateway):
    """That of an authorization server whose name only the proxy knows, and whose authority this machine does not trust."""
    parent = parents(names=behind["names"])
    credential = {
        "strategy": "oauth2_client_credentials",
        "client_id": "me",
        "client_secret": CANARY,
        "token_url": "https://upstream.test/token",
        "proxy": parent.url,
    }
    gateway = make_gateway({"credentials": {"me": credential}, "routes": {"secure": {"upstream": origin.url, "auth": "me"}}})
    done = gateway.run("doctor", "--json")
    assert "a certificate authority that this machine does not trust" in done.stdout, done
    assert f"the connection goes through the proxy {parent.url}" in done.stdout, done
    # A token request says so, too.
    done = gateway.run("check", "--acquire")
    assert f"The connection goes through the proxy {parent.url}." in done.stdout + done.stderr, done
    assert parent.lines() and set(parent.lines()) == {"CONNECT upstream.test:443 HTTP/1.1"}

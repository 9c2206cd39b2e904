"""Logins that clients begin by themselves (`capture`), at a real authority that punishes the reuse of refresh tokens."""

import base64
import hashlib
import json
import secrets
import subprocess
import sys
import time
import urllib.parse

import pytest
import requests
from harness import processes
from harness.person import Person
from harness.tls_origin import TLSOrigin

TOKENS = {"one": "token-of-client-one-1", "two": "token-of-client-two-2"}

#: A program that shares a login with others: it refreshes, stores what it gets, and calls the API with it.
PROGRAM = """
import json, pathlib, sys, time, requests
proxy, authority, login, begin = sys.argv[1:]
session = requests.Session()
session.trust_env, session.proxies = False, {"http": proxy}
file = pathlib.Path(login)
time.sleep(max(0, float(begin) - time.time()))
for turn in range(12):
    tokens = json.loads(file.read_text())
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": "web"}
    answer = session.post(f"{authority}/o/token/", data=form, timeout=30)
    assert answer.status_code == 200, (turn, answer.status_code, answer.text)
    fresh = answer.json()
    new = file.with_name(f"{begin}-{time.time_ns()}-{id(file)}")
    new.write_text(json.dumps({**tokens, **fresh}))
    new.replace(file)
    fields = {"Authorization": f"Bearer {fresh['access_token']}"}
    answer = session.get(f"{authority}/api/x", headers=fields, timeout=30)
    assert answer.status_code == 200, (turn, answer.status_code, answer.text)
    time.sleep(0.3)
"""


def config(authority, **changes):
    return {
        "access": {"clients": {name: {"token": token} for name, token in TOKENS.items()}},
        "credentials": {"me": authority.login_credential(capture=True, **changes)},
        "routes": {
            "login": {"upstream": authority.url, "auth": "none"},
            "api": {"upstream": f"{authority.url}/api", "auth": "me"},
        },
    }


class Client:
    """A program that has the gateway as its proxy, and its own login."""

    def __init__(self, gateway, authority, name="one"):
        self.authority = authority
        self.proxy = f"http://{name}:{TOKENS[name]}@{gateway.place}"
        self.session = requests.Session()
        self.session.trust_env, self.session.proxies = False, {"http": self.proxy}

    def ask(self, **form):
        return self.session.post(self.authority.token_url, data={"client_id": "web", **form}, timeout=30)

    def exchange(self):
        """The answer to a code, for which `ada` has logged in."""
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        redirect = f"http://127.0.0.1:{processes.free_port()}/callback"
        page = {"response_type": "code", "client_id": "web", "redirect_uri": redirect, "scope": "read", "state": "s"}
        page |= {"code_challenge": challenge, "code_challenge_method": "S256"}
        address = Person().decide(f"{self.authority.url}/o/authorize/?{urllib.parse.urlencode(page)}")
        [code] = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)["code"]
        return self.ask(grant_type="authorization_code", code=code, redirect_uri=redirect, code_verifier=verifier)

    def log_in(self):
        answer = self.exchange()
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refresh(self, token):
        return self.ask(grant_type="refresh_token", refresh_token=token)

    def call(self, token, path="/api/x"):
        fields = {"Authorization": f"Bearer {token}"} if token else {}
        return self.session.get(f"{self.authority.url}{path}", headers=fields, timeout=30)

    def revoke(self, token):
        form = {"token": token, "client_id": "web"}
        return self.session.post(f"{self.authority.url}/o/revoke_token/", data=form, timeout=30)


@pytest.fixture
def start(start_gateway):
    def start(authority, **changes):
        place = f"127.0.0.1:{processes.free_port()}"
        gateway = start_gateway(config(authority, **changes), listeners=[{"address": place, "intercept": True}])
        gateway.place = place
        return gateway

    return start


def test_five_processes_share_a_login_at_a_server_that_punishes_reuse(authority, start, tmp_path):
    authority.reset(lifetime=3)
    gateway = start(authority)
    login = tmp_path / "login.json"
    login.write_text(json.dumps(Client(gateway, authority).log_in()))
    begin = str(time.time() + 1.5)
    arguments = [sys.executable, "-c", PROGRAM, Client(gateway, authority).proxy, authority.url, str(login), begin]
    programs = [subprocess.Popen(arguments, stderr=subprocess.PIPE, env=processes.environment()) for _ in range(5)]
    started = time.monotonic()
    ends = [(program.communicate(timeout=90)[1].decode(), program.returncode) for program in programs]
    assert [code for _, code in ends] == [0] * 5, ends
    calls = authority.calls()
    assert calls["authorization_code ok"] == 1 and calls["refresh_token ok"] >= 1, calls
    assert set(calls) == {"authorization_code ok", "refresh_token ok"}, calls
    # 60 refreshes of the programs are as many renewals as the lifetime needs.
    assert calls["refresh_token ok"] <= min(50, 5 + (time.monotonic() - started)), calls
    assert gateway.run("audit", "verify").returncode == 0


def test_the_client_gets_phantoms(authority, start):
    gateway = start(authority)
    client = Client(gateway, authority)
    answer = client.exchange()
    tokens = answer.json()
    assert tokens["access_token"].startswith("agp_a_") and tokens["refresh_token"].startswith("agp_r_"), tokens
    assert tokens["token_type"] == "Bearer" and tokens["scope"] == "read" and 3500 < tokens["expires_in"] <= 3600
    [(real, _)] = authority.tokens()
    assert real not in answer.text and "no-store" in answer.headers["Cache-Control"]
    # The real token goes to the API, and to nobody else; the phantom is worth nothing there.
    assert client.call(tokens["access_token"]).status_code == 200
    direct = requests.get(f"{authority.url}/api/x", headers={"Authorization": f"Bearer {tokens['access_token']}"}, timeout=30)
    assert direct.status_code == 401
    again = client.refresh(tokens["refresh_token"]).json()
    assert (again["access_token"], again["refresh_token"]) == (tokens["access_token"], tokens["refresh_token"])
    assert authority.calls() == {"authorization_code ok": 1}
    for secret in (real, *(tokens[name] for name in ("access_token", "refresh_token"))):
        found = [path for path, content in gateway.files().items() if secret.encode() in content]
        assert found == [] and secret.encode() not in gateway.log
    assert {"login_started", "login_completed", "phantoms_issued"} <= {event["event"] for event in gateway.events()}


def test_nothing_else_is_accepted(authority, start):
    gateway = start(authority)
    client, other = Client(gateway, authority), Client(gateway, authority, "two")
    tokens = client.log_in()
    real = authority.log_in()
    before = authority.calls()
    for token in (real["refresh_token"], tokens["access_token"], tokens["refresh_token"][:-1] + "x", "agp_r_" + "0" * 64):
        assert client.refresh(token).json()["error"] == "invalid_grant"
    assert other.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert client.ask(grant_type="client_credentials").json()["error"] == "unsupported_grant_type"
    refused = client.ask(grant_type="refresh_token", refresh_token=tokens["refresh_token"], client_id="cc")
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert client.session.get(authority.token_url, timeout=30).status_code == 400
    for token in (real["access_token"], tokens["refresh_token"], None):
        answer = client.call(token)
        assert answer.status_code == 401 and "invalid_token" in answer.headers["WWW-Authenticate"]
    assert other.call(tokens["access_token"]).status_code == 401
    assert client.call(tokens["access_token"], "/o/userinfo/").status_code == 403
    assert client.session.get(f"{authority.url}/api/x?access_token={tokens['access_token']}", timeout=30).status_code == 401
    # A code that was made up reaches the server, which refuses it.
    assert client.ask(grant_type="authorization_code", code="x", redirect_uri="http://127.0.0.1/callback").json()["error"] == "invalid_grant"
    assert authority.calls() == {**before, "authorization_code invalid_grant": 1}
    assert client.call(tokens["access_token"]).status_code == 200


def test_a_client_revokes_its_login_and_another_begins(authority, start):
    gateway = start(authority)
    one, two = Client(gateway, authority), Client(gateway, authority, "two")
    tokens = one.log_in()
    # No ID token tells whether the account is the same.
    assert two.exchange().json()["error"] == "invalid_grant"
    assert two.revoke(tokens["refresh_token"]).status_code == 200
    assert one.call(tokens["access_token"]).status_code == 200, "another client revoked it"
    assert one.revoke(tokens["access_token"]).status_code == 200
    assert one.call(tokens["access_token"]).status_code == 401
    assert one.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    later = two.log_in()
    assert two.call(later["access_token"]).status_code == 200
    assert one.call(later["access_token"]).status_code == 401


@pytest.mark.parametrize("command", [("token", "lock", "me"), ("token", "clear", "me"), ("token", "revoke", "me")])
def test_an_operator_ends_all_phantoms(authority, start, command):
    gateway = start(authority)
    client = Client(gateway, authority)
    tokens = client.log_in()
    assert gateway.run(*command).returncode == 0
    if "lock" in command:
        assert gateway.run("token", "unlock", "me").returncode == 0
    assert client.call(tokens["access_token"]).status_code == 401
    assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    tokens = client.log_in()
    assert client.call(tokens["access_token"]).status_code == 200


def test_phantoms_outlive_a_kill(authority, start):
    gateway = start(authority)
    client = Client(gateway, authority)
    tokens = client.log_in()
    gateway.kill()
    gateway.start()
    assert client.call(tokens["access_token"]).status_code == 200
    assert client.refresh(tokens["refresh_token"]).json()["access_token"] == tokens["access_token"]


def test_a_configuration_without_the_capture_ends_all_phantoms(authority, start):
    gateway = start(authority)
    client = Client(gateway, authority)
    tokens = client.log_in()
    text = gateway.file.read_text()
    assert text.count('"capture": true') == 1
    for changed in (text.replace('"capture": true', '"capture": false'), text):
        gateway.file.write_text(changed)
        assert gateway.run("reload").returncode == 0
    assert client.call(tokens["access_token"]).status_code == 401
    tokens = client.log_in()
    assert client.call(tokens["access_token"]).status_code == 200


class SecureServer(TLSOrigin):
    """An authorization server and its API over TLS. Its answers are always the same."""

    def __init__(self, certificates):
        self.port = processes.free_port()
        self.url = f"https://localhost:{self.port}"
        login = {"access_token": "real-access", "refresh_token": "real-refresh", "token_type": "Bearer", "expires_in": 3600}
        answers = {"/token": ("application/json", json.dumps(login).encode()), "/api/x": ("text/plain", b"ok")}
        certificate, key = certificates.issue("captured", "DNS:localhost,IP:127.0.0.1")
        super().__init__(certificate, key, self.port, answers, token="real-access", public={"/token"})


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_a_login_over_tls_is_captured(certificate_authority, make_gateway, version):
    """The client sends CONNECT, and trusts the gateway's CA."""
    server = SecureServer(certificate_authority)
    trusted = str(certificate_authority.certificate)
    credential = {"strategy": "oauth2_authorization_code", "authorize_url": f"{server.url}/authorize", "client_id": "web"}
    credential |= {"token_url": f"{server.url}/token", "client_auth": "none", "capture": True}
    upstream = {"upstream": server.url, "tls": {"ca": trusted}}
    routes = {"login": {**upstream, "auth": "none"}, "api": {**upstream, "upstream": f"{server.url}/api", "auth": "me"}}
    place = f"127.0.0.1:{processes.free_port()}"
    access = {"clients": {"one": {"token": TOKENS["one"]}}}
    whole = {"access": access, "credentials": {"me": credential}, "routes": routes}
    gateway = make_gateway(whole, listeners=[{"address": place, "intercept": True}])
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    gateway.wrapper = ["unshare", "--mount", "sh", "-ec", f'mount --bind "$0" {bundle}; exec "$@"', trusted]
    gateway.start()
    proxy = f"http://one:{TOKENS['one']}@{place}"
    authority = gateway.run("ca", "show", "--path").stdout.strip()

    def ask(path, *words):
        command = ["curl", "-sS", version, "-x", proxy, "--cacert", authority, *words, server.url + path]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, env=processes.environment())
        return done.stdout

    try:
        form = "grant_type=authorization_code&code=c&client_id=web&redirect_uri=http%3A%2F%2F127.0.0.1%2Fcb&code_verifier=v"
        tokens = json.loads(ask("/token", "-d", form))
        assert tokens["access_token"].startswith("agp_a_") and tokens["refresh_token"].startswith("agp_r_"), tokens
        assert ask("/api/x", "-H", f"Authorization: Bearer {tokens['access_token']}") == "ok"
        form = f"grant_type=refresh_token&client_id=web&refresh_token={tokens['refresh_token']}"
        assert json.loads(ask("/token", "-d", form))["access_token"] == tokens["access_token"]
        assert "invalid_grant" in ask("/token", "-d", form[:-1])
        assert "invalid_token" in ask("/api/x", "-H", "Authorization: Bearer real-access")
    finally:
        server.stop()
    assert [(method, path) for method, _, path, _ in server.seen] == [("POST", "/token"), ("GET", "/api/x")]
    assert b"agp_" not in b"".join(str(head).encode() for head in server.heads)


def test_a_configuration_that_cannot_capture_is_refused(authority, make_gateway):
    def problems(change, intercepts=True):
        whole = config(authority)
        change(whole)
        listeners = [{"address": "127.0.0.1:1", "intercept": True}] if intercepts else []
        answer = make_gateway(whole, listeners=listeners).run("check")
        assert answer.returncode != 0, answer
        return answer.stdout + answer.stderr

    assert "intercept: true" in problems(lambda whole: None, intercepts=False)
    assert "no route leads to token_url" in problems(lambda whole: whole["routes"].pop("login"))
    assert "capture" in problems(lambda whole: whole["credentials"].update(me={**authority.credential(), "capture": True}))
    twice = problems(lambda whole: whole["credentials"].update(you=authority.login_credential(capture=True)))
    assert "captures logins at the same token_url" in twice

"""Every strategy that can renew: it gets a token, renews it by itself and after a rejection, and never waits for ever."""

import collections
import concurrent.futures
import datetime
import json
import sys
import threading
import time

import pytest
import requests
from harness.configs import with_route
from harness.gateway import ROOT
from harness.jwt_authority import KeyPair
from harness.origin import RecordingOrigin, response
from harness.parent_proxy import ParentProxy
from harness.processes import wait_until
from harness.token_server import unsigned_jwt

#: Strategies that send what the configuration says. The gateway has no way to get another one.
FIXED = {"none", "aws_sigv4", "basic", "bearer", "digest", "header", "hmac", "box_developer_token"}
#: The upstream says which token it wants (test_registry.py).
CHALLENGED = {"registry"}

#: Strategies that make tokens themselves: test_self_signed.py renews them.
SELF_SIGNED = {"jwt"}

FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())"


class Market:
    """One authority for all strategies, and one API that takes a token of its strategy until the end of that token."""

    def __init__(self):
        self.lifetime = 3600
        self.lock = threading.Lock()
        #: How many tokens each strategy was given.
        self.issued = collections.Counter()
        #: The end of each token, for each strategy.
        self.tokens = collections.defaultdict(dict)
        #: Token requests wait while this is cleared.
        self.open = threading.Event()
        self.open.set()
        self.authority = RecordingOrigin(self.issue)
        self.api = RecordingOrigin(self.serve)

    def issue(self, request):
        name = request.target.split("/")[1]
        if name == "box_ccg" and b"token-exchange" in request.body:
            name = "oauth2_token_exchange"
        self.open.wait(60)
        with self.lock:
            self.issued[name] += 1
            end = time.time() + self.lifetime
            token = unsigned_jwt(exp=end, of=name, number=self.issued[name])
            self.tokens[name][token] = end
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}
        if name in ("box_oauth", "oauth2_authorization_code", "oauth2_password"):
            answer["refresh_token"] = f"refresh-{self.issued[name]}"
        if name == "github_app":
            expires_at = datetime.datetime.fromtimestamp(end, datetime.UTC).isoformat()
            answer = {"token": token, "expires_at": expires_at}
        if name in ("duke_session", "session_refresh"):
            answer = {"data": {"access_token": token, "session_token": f"session-{self.issued[name]}"}}
        return response(200, json.dumps(answer).encode())

    def serve(self, request):
        """Refuses every other token as RFC 6750 says."""
        name = request.target.split("/")[1]
        with self.lock:
            end = self.tokens[name].get((request.value("authorization") or "").removeprefix("Bearer "), 0)
        if time.time() < end:
            return response(200, b"welcome")
        return response(401, b"", 'WWW-Authenticate: Bearer error="invalid_token"')

    def revoke(self):
        """Takes all tokens away, and tells no client."""
        with self.lock:
            self.tokens.clear()

    def stop(self):
        self.open.set()
        self.authority.stop()
        self.api.stop()


@pytest.fixture
def market():
    market = Market()
    yield market
    market.stop()


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return KeyPair(tmp_path_factory.mktemp("keys")).private("plain")


def credentials(market):
    """One credential for each strategy, of the same name."""
    at = market.authority.url
    client = {"client_id": "app", "client_secret": "secret"}
    session = {"base_url": at, "client_name": "session_refresh", "access_token": unsigned_jwt(exp=1)}
    refresh = {
        "path": "/{client_name}/refresh",
        "access_token": {"header": "X-Access-Token"},
        "session_token": {"header": "X-Session-Token"},
    }
    return {
        "box_ccg": {"token_url": f"{at}/box_ccg", **client, "subject": {"enterprise": "1"}},
        "box_jwt": {
            "token_url": f"{at}/box_jwt", **client, "subject": {"enterprise": "1"}, "key_id": "k", "private_key": {"file": "key.pem"}
        },
        "box_oauth": {"token_url": f"{at}/box_oauth", "authorize_url": f"{at}/login", **client, "refresh_token": "refresh-0"},
        "delegated": {"url": f"{at}/delegated"},
        "duke_session": {**session, "client_name": "duke_session", "session_token": "session-0"},
        "exec": {"command": [sys.executable, "-c", FETCH, f"{at}/exec"]},
        "github_app": {"app_id": "7", "private_key": {"file": "key.pem"}, "installation_id": 1, "api_url": f"{at}/github_app"},
        "google_service_account": {"service_account": "service-account.json", "scopes": ["read"]},
        "oauth2_authorization_code": {
            "token_url": f"{at}/oauth2_authorization_code", "authorize_url": f"{at}/login", **client, "refresh_token": "refresh-0"
        },
        "oauth2_client_credentials": {"token_url": f"{at}/oauth2_client_credentials", **client},
        "oauth2_jwt_bearer": {"token_url": f"{at}/oauth2_jwt_bearer", "key": {"file": "key.pem"}, "claims": {"iss": "a", "sub": "b"}},
        "oauth2_password": {"token_url": f"{at}/oauth2_password", **client, "username": "ada", "password": "pw"},
        "oauth2_token_exchange": {"parent": "box_ccg", "scopes": ["item_download"]},
        "recipe": {
            "acquire": [{"url": f"{at}/recipe", "outputs": {"token": "/access_token", "expires_in": "/expires_in"}}],
        },
        "session_refresh": {
            **session,
            "refresh": refresh,
            "response": {"access_token": "/data/access_token", "session_token": "/data/session_token"},
            "expiry": "jwt_exp",
            "session_token": "session-0",
        },
    }  # fmt: skip


def configuration(market, proxies=(), **more):
    """A route for each credential. A renewal may come as late as it likes, as long as the token lives."""
    by_name = credentials(market)
    for name in proxies:
        by_name[name]["proxy"] = proxies[name].url
    return {
        "credentials": {name: {"strategy": name, "renew": {"at_least": "1s"}, **block} for name, block in by_name.items()},
        "routes": {name: {"upstream": f"{market.api.url}/{name}", "auth": name} for name in by_name},
        **more,
    }


def start(market, make_gateway, key, **more):
    gateway = make_gateway(configuration(market, **more))
    token_uri = f"{market.authority.url}/google_service_account"
    account = {"type": "service_account", "client_email": "a@example.com", "private_key": key, "token_uri": token_uri}
    for name, content in {"key.pem": key, "service-account.json": json.dumps(account)}.items():
        file = gateway.folder / name
        file.touch(mode=0o600)
        file.write_text(content)
    return gateway.start()


def get(gateway, name):
    return requests.get(f"{gateway.url}/{name}/x", timeout=30)


def test_the_list_of_strategies_is_whole(market):
    schema = json.loads((ROOT / "schema/gateway.schema.json").read_text())
    known = schema["$defs"]["credential"]["else"]["properties"]["strategy"]["enum"]
    assert set(credentials(market)) == set(known) - FIXED - SELF_SIGNED - CHALLENGED


def test_each_asks_through_its_own_proxy(market, make_gateway, key):
    # A program asks as it likes.
    names = [name for name in credentials(market) if name != "exec"]
    proxies = {name: ParentProxy() for name in names}
    try:
        gateway = start(market, make_gateway, key, proxies=proxies)
        line = f"CONNECT {market.authority.url.removeprefix('http://')} HTTP/1.1"
        for name in names:
            assert get(gateway, name).status_code == 200, name
            assert proxies[name].lines() == [line], name
    finally:
        for proxy in proxies.values():
            proxy.stop()


def renewals(gateway):
    """For each credential, what made the gateway renew its token, oldest first."""
    found = collections.defaultdict(list)
    for event in gateway.events("--event", "renewed"):
        found[event["credential"]].append(event["trigger"])
    return found


def test_a_token_is_obtained_and_renewed_by_itself_and_after_a_rejection(market, make_gateway, key):
    market.lifetime = 4
    gateway = start(market, make_gateway, key)
    names = list(credentials(market))

    def all_are_served():
        for name in names:
            answer = get(gateway, name)
            assert answer.status_code == 200, f"{name}: {answer.text}"

    def renewed_twice():
        all_are_served()
        found = renewals(gateway)
        return all(found[name].count("ahead_of_expiry") >= 2 for name in names)

    wait_until(renewed_twice, 30, lambda: f"renewed twice: {renewals(gateway)}", pause=0.1)
    # The API refuses a token that has ended, so none of them was used until its end.
    assert "rejected" not in {trigger for found in renewals(gateway).values() for trigger in found}

    market.lifetime = 3600
    refreshed = gateway.run("token", "refresh", "--all")
    assert refreshed.returncode == 0, refreshed
    calls = market.issued.copy()
    market.revoke()
    all_are_served()
    found = renewals(gateway)
    assert {name: found[name][-1] for name in names} == {name: "rejected" for name in names}
    assert market.issued - calls == collections.Counter(names), "one call for each"


def test_a_request_never_waits_longer_than_the_deadline(market, make_gateway, key):
    # Before the start: refresh tokens of the configuration are tried at once.
    market.open.clear()
    gateway = start(market, make_gateway, key, limits={"credential_timeout": "1s"})
    names = list(credentials(market))
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        answers = dict(zip(names, pool.map(lambda name: get(gateway, name), names), strict=True))
    # No token request was answered until here, so each answer is one that the deadline brought.
    assert sum(market.issued.values()) == 0
    for name, answer in answers.items():
        assert (answer.status_code, answer.json()["code"]) == (504, "token-endpoint-timeout"), f"{name}: {answer.text}"
        # The request's own deadline, and not that of the token request, which is longer.
        text = "No token came within 1s (limits.credential_timeout); the call goes on for up to 15 s."
        assert answer.json()["detail"] == text, name
        assert answer.headers["Content-Type"] == "application/problem+json", name
    assert market.api.count() == 0
    market.open.set()
    for name in names:
        wait_until(lambda name=name: get(gateway, name).status_code == 200, 20, f"{name} has the token that was on its way")
        assert market.issued[name] == 1, name


@pytest.mark.parametrize(
    "renew, ahead",
    [
        (None, 360),
        ({"ahead": "25%"}, 900),
        ({"ahead": "25%", "at_least": "20m"}, 1200),
        ({"ahead": "1%"}, 60),
        ({"ahead": "1%", "at_least": "10s"}, 36),
        # Half of its life at the most: a short token is not renewed without end.
        ({"at_least": "50m"}, 1800),
    ],
)
def test_a_renewal_is_due_as_early_as_the_configuration_says(token_server, origin, start_gateway, renew, ahead):
    """Tokens of an hour. The default is a tenth of it, and a minute at the least."""
    credential = {"strategy": "delegated", "url": token_server.url + "/token"}
    gateway = start_gateway(with_route(credential if renew is None else {**credential, "renew": renew}, origin.url))
    assert requests.get(f"{gateway.url}/api/x", timeout=20).status_code == 200
    token = json.loads(gateway.run("token", "show", "me", "--json").stdout)
    end, due = (datetime.datetime.fromisoformat(token[name]) for name in ("expires_at", "renews_at"))
    # Up to a tenth earlier, so that tokens of the same age are not all renewed at once.
    assert ahead - 1 <= (end - due).total_seconds() <= 1.1 * ahead + 1, token

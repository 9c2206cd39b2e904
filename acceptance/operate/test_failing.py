"""What an operator sees of credentials whose calls fail, of upstreams that fail, and of clocks that differ."""

import datetime
import email.utils
import itertools
import json
import re
import time
import urllib.parse

import pytest
import requests
from harness import processes
from harness.configs import with_route
from harness.events import named
from harness.origin import response

SECRET = "s3cret-of-the-app"


class Authority:
    """Issues pairs, or answers with `refusal`; `ahead` is what its clock is ahead by, in seconds."""

    def __init__(self, make_origin):
        self.numbers = itertools.count(1)
        self.refusal = None
        self.ahead = 0
        self.origin = make_origin(self.answer)
        self.url = self.origin.url + "/token"

    def answer(self, request):
        self.form = dict(urllib.parse.parse_qsl(request.body.decode()))
        date = "Date: " + email.utils.formatdate(time.time() + self.ahead, usegmt=True)
        if self.refusal:
            status, body, kind, *fields = self.refusal
            return response(status, body.encode(), f"Content-Type: {kind}", date, *fields)
        number = next(self.numbers)
        token = {"access_token": f"access-token-{number}", "refresh_token": f"refresh-token-{number}", "expires_in": 3600}
        return response(200, json.dumps(token).encode(), "Content-Type: application/json", date)


@pytest.fixture
def authority(make_origin):
    return Authority(make_origin)


def credential(authority, strategy="oauth2_client_credentials"):
    person = {"username": "ada", "password": "pw-of-ada-1"} if strategy == "oauth2_password" else {}
    return {"strategy": strategy, "token_url": authority.url, "client_id": "app-1", "client_secret": SECRET, **person}


@pytest.fixture
def gateway(start_gateway, authority, origin):
    gateway = start_gateway(with_route(credential(authority), origin.url))
    assert get(gateway).status_code == 200
    return gateway


def get(gateway, path="/api/x"):
    return requests.get(gateway.url + path, timeout=20)


def status(gateway):
    return json.loads(gateway.run("status", "--json").stdout)


def readiness(gateway):
    brief = requests.get(gateway.admin_url + "/readyz", timeout=10)
    return brief.status_code, brief.text, requests.get(gateway.admin_url + "/readyz?verbose", timeout=10).json()


def refresh(gateway):
    return gateway.run("token", "refresh", "me")


# MARK: Failing


def test_a_token_that_is_served_does_not_hide_that_its_renewal_fails(gateway, authority):
    assert readiness(gateway) == (200, "ready\n", {"is_ready": True, "state": "ready", "reasons": []})
    authority.refusal = (503, "", "text/plain")
    started = time.time()
    assert refresh(gateway).returncode == 1
    assert get(gateway).status_code == 200, "the old token is served"
    (token,) = status(gateway)["tokens"]
    failing = token["failing"]
    assert token["state"] == "valid" and "status 503" in failing["reason"], token
    assert failing["command"] == "authgateway token refresh me" and failing["failed_requests"] == 0
    assert failing["remedy"] == "Wait; the gateway tries again by itself." and failing["next_try_at"] > failing["since"]
    since = time.strftime("%Y-%m-%dT", time.gmtime(started))
    assert failing["since"].startswith(since)

    code, text, verbose = readiness(gateway)
    assert (code, text) == (200, "ready, degraded\n")
    assert verbose["is_ready"] and verbose["state"] == "degraded"
    assert any(f"me: failing since {failing['since']}" in reason for reason in verbose["reasons"]), verbose
    shown = gateway.run("status").stdout
    assert shown.startswith("ready, degraded\n") and "valid, failing" in shown
    for words in ("failing since: ", "reason: ", "next try: ", "what to do: ", "authgateway token refresh me"):
        assert words in shown, shown
    assert "failing since: " in gateway.run("status", "me").stdout
    assert not failing["needs_person"] and gateway.run("status").returncode == 0, "it is tried again by itself"
    assert 'gateway_token_failing{credential="me",strategy="oauth2_client_credentials"} 1' in metrics(gateway)

    authority.refusal = None
    processes.wait_until(lambda: status(gateway)["tokens"][0].get("failing") is None, 30, "it is tried again by itself")
    assert readiness(gateway)[1] == "ready\n"
    assert "failing" not in gateway.run("status").stdout


def metrics(gateway):
    return requests.get(gateway.admin_url + "/metrics", timeout=10).text


def test_it_lasts_from_the_first_failure_and_counts_who_was_refused(start_gateway, authority, origin):
    authority.refusal = (503, "", "text/plain")
    gateway = start_gateway(with_route(credential(authority), origin.url))
    assert get(gateway).status_code == 503
    first = status(gateway)["tokens"][0]["failing"]
    assert "next_try_at" not in first, "an idle gateway asks nobody"
    assert first["remedy"] == "Wait; the next request tries again."
    for _ in range(3):
        assert get(gateway).status_code == 503
    assert refresh(gateway).returncode == 1
    later = status(gateway)["tokens"][0]["failing"]
    assert later["since"] == first["since"] and later["failed_requests"] == 4, later
    authority.refusal = None
    assert refresh(gateway).returncode == 0
    assert "failing" not in status(gateway)["tokens"][0]


def seconds(moment):
    return datetime.datetime.fromisoformat(moment).timestamp()


def test_reason_next_try_and_advice_agree_where_the_authority_asks_for_time(start_gateway, authority, origin):
    """The reason said that the gateway tries again, `next try` that it does not, and the advice was a call at once."""
    authority.refusal = (429, "", "text/plain", "Retry-After: 120")
    gateway = start_gateway(with_route(credential(authority), origin.url))
    refused = get(gateway)
    assert refused.status_code == 503 and refused.headers["Retry-After"] == "120"
    failing = status(gateway)["tokens"][0]["failing"]
    assert failing["reason"] == "The authorization server gives no token at the moment (status 429)."
    assert failing["remedy"] == "Wait: the authorization server asks for 2m (Retry-After); the next request tries again."
    assert failing["not_before"] > failing["since"] and "next_try_at" not in failing and "command" not in failing, failing
    shown = gateway.run("status").stdout
    not_before = re.search(rf"next try: {'':7}with the next request, not before (\S+)", shown)
    # Each answer derives it from two clocks, which are read one after the other.
    assert not_before and abs(seconds(not_before[1]) - seconds(failing["not_before"])) < 1, shown


def test_what_needs_a_person_says_which_command(start_gateway, authority, origin):
    authority.refusal = (401, json.dumps({"error": "invalid_client"}), "application/json")
    gateway = start_gateway(with_route(credential(authority), origin.url))
    assert get(gateway).status_code == 500
    (token,) = status(gateway)["tokens"]
    assert (token["state"], token["failing"]["command"]) == ("failed", "authgateway token refresh me")
    assert token["failing"]["remedy"] == "Correct the configuration or the secret, run `authgateway reload`, then try again."
    assert token["authority_error"]["code"] == "invalid_client" and token["authority_error"]["status"] == 401
    assert token["failing"]["needs_person"] and gateway.run("status").returncode == 1


@pytest.mark.parametrize(
    "refusal, setting",
    [
        ((302, "", "text/plain", "Location: http://127.0.0.1:9/"), "the address of the token endpoint"),
        ((404, "<html><title>Not here</title></html>", "text/html"), None),
        ((404, "{}", "application/json"), "the address of the token endpoint"),
        ((400, json.dumps({"error": "invalid_scope"}), "application/json"), "scopes"),
    ],
    ids=["a redirect", "a page", "404", "invalid_scope"],
)
def test_where_another_call_cannot_help_the_configuration_is_to_be_corrected(start_gateway, authority, origin, refusal, setting):
    authority.refusal = refusal
    gateway = start_gateway(with_route(credential(authority), origin.url))
    assert get(gateway).status_code == 500
    failing = status(gateway)["tokens"][0]["failing"]
    assert failing["command"] == "authgateway reload", failing
    if setting:
        assert failing["remedy"] == f"Correct {setting} in the configuration file, then reload."
    shown = gateway.run("status")
    assert shown.returncode == 1 and "token refresh" not in shown.stdout, shown


# MARK: What the authority said

CODE = "AADSTS7000222: The provided client secret keys for app 'app-1' are expired."
TRACE = " Trace ID: 0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
LONG = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w"


@pytest.mark.parametrize(
    "kind, body, said",
    [
        ("application/json", json.dumps({"error": "invalid_client", "error_description": CODE + TRACE}), CODE + TRACE),
        ("application/json", json.dumps({"message": "The account is locked."}), "The account is locked."),
        ("application/json", json.dumps({"error": {"code": 7, "message": "No such app."}}), "No such app."),
        ("text/plain", "Forbidden by policy 7", "Forbidden by policy 7"),
        ("text/html", "<html><title>Sign in to the hotel</title><p>x</p></html>", "Sign in to the hotel"),
        ("application/json", json.dumps({"error": "x", "error_description": f"got {SECRET} of app-1"}), "got ‹hidden› of app-1"),
        ("text/plain", "got czNjcmV0LW9mLXRoZS1hcHA= here", "got ‹hidden› here"),
        ("text/plain", "got s3cret%2Dof-the-app here", "got ‹hidden› here"),
        ("application/json", json.dumps({"message": f"unknown token {LONG}"}), "unknown token ‹hidden›"),
    ],
    ids=["oauth", "message", "nested", "text", "html", "secret", "base64", "percent", "token"],
)
def test_what_the_authority_said_reaches_the_operator_alone(gateway, authority, kind, body, said):
    authority.refusal = (403, body, kind)
    refused = refresh(gateway)
    assert refused.returncode == 1 and f"The authorization server said: {said}" in refused.stderr, refused
    (token,) = status(gateway)["tokens"]
    assert token["authority_error"]["description"] == said and token["authority_error"]["status"] == 403
    shown = gateway.run("status").stdout
    assert re.search(r"server said: +403", shown) and said in shown, shown
    event = named(gateway, "renewal_failed")[-1]
    assert event["detail"]["authority_description"] == said and event["http_status"] == 403, event
    lines = [json.loads(line) for line in gateway.text().splitlines() if "authority_description" in line]
    assert [line["gateway.authority_description"] for line in lines] == [said], lines
    # The token is over, so that a client is told why it gets none.
    gateway.run("token", "clear", "me")
    answer = get(gateway)
    assert answer.status_code == 500 and answer.json()["code"] == "credential-misconfigured", answer.text
    assert said not in answer.text, answer.text
    everything = gateway.text() + shown + json.dumps(gateway.events()) + answer.text
    assert not [word for word in (SECRET, "czNjcmV0", "s3cret%2D", LONG) if word in everything]


def test_a_password_that_could_be_guessed_from_the_rest_hides_the_whole(start_gateway, authority, origin):
    whole = with_route({**credential(authority, "oauth2_password"), "password": "summer"}, origin.url)
    authority.refusal = (400, json.dumps({"error": "invalid_grant", "error_description": "wrong SUMMER for ada"}), "application/json")
    gateway = start_gateway(whole)
    assert get(gateway).status_code == 500
    (token,) = status(gateway)["tokens"]
    assert token["authority_error"]["description"] == "‹hidden: it repeats a secret›"
    assert "summer" not in (gateway.text() + json.dumps(gateway.events())).lower()


# MARK: Upstreams


def test_the_health_of_upstreams_is_shown(start_gateway, make_origin):
    answers = iter([response(200), response(503), response(404), response(503)])
    mixed = make_origin(lambda request: next(answers))
    routes = {
        "mixed": {"upstream": mixed.url, "auth": "none"},
        "down": {"upstream": "http://127.0.0.1:1", "auth": "none"},
        "idle": {"upstream": mixed.url, "auth": "none"},
    }
    gateway = start_gateway({"routes": routes})
    for _ in range(4):
        get(gateway, "/mixed/x")
    assert get(gateway, "/down/x").status_code == 502
    shown = {route["name"]: route.get("health") for route in requests.get(gateway.admin_url + "/api/routes", timeout=10).json()}
    assert shown["idle"] is None
    mixed, down = shown["mixed"], shown["down"]
    assert (mixed["failure_rate"], mixed["requests"], mixed["last_failure"]) == (0.5, 4, "status 503"), mixed
    assert mixed["last_success_at"] and mixed["last_failure_at"]
    assert (down["failure_rate"], down["last_failure"]) == (1, "connection_refused") and "last_success_at" not in down
    assert "does not accept connections" in down["last_failure_explanation"]
    text = gateway.run("status").stdout
    assert "50 % of 4 failed" in text and "all of 1 failed" in text and "there was no success yet" in text, text
    assert f"authgateway explain {down['last_failure_request_id']}" in text
    assert down["last_failure_explanation"] in " ".join(text.split()), text
    assert down["last_failure_explanation"] in gateway.run("status", "down").stdout


# MARK: Clocks


def test_a_clock_that_differs_is_shown_and_logged_once(gateway, authority):
    assert "clock" not in gateway.run("status").stdout
    authority.ahead = 312
    for _ in range(3):
        assert refresh(gateway).returncode == 0
    assert "clock_skew_seconds" in status(gateway)["tokens"][0]
    assert abs(status(gateway)["tokens"][0]["clock_skew_seconds"] - 312) <= 1
    shown = gateway.run("status").stdout
    assert "s behind the authorization server's" in shown and "timedatectl set-ntp true" in shown, shown
    assert gateway.text().count("s behind the authorization server's") == 1
    authority.refusal = (400, json.dumps({"error": "invalid_grant"}), "application/json")
    assert refresh(gateway).returncode == 1
    assert abs(int(named(gateway, "renewal_failed")[-1]["detail"]["clock_skew_seconds"]) - 312) <= 1
    (authority.ahead, authority.refusal) = (0, None)
    assert refresh(gateway).returncode == 0
    assert "clock_skew_seconds" not in status(gateway)["tokens"][0]
    assert gateway.text().count("The clock agrees with the authorization server's again") == 1

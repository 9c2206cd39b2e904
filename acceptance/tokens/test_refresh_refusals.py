"""Answers to a refresh that bring no token: refused, busy, misconfigured, or from somebody else than the authority."""

import concurrent.futures
import contextlib
import itertools
import json
import threading
import urllib.parse

import pytest
import requests
from harness.configs import with_route
from harness.events import named, wait_for_events
from harness.origin import response
from harness.processes import wait_until


class Authority:
    """Issues pairs, and answers refreshes with `refusal` while there is one."""

    def __init__(self, make_origin):
        self.numbers = itertools.count(1)
        self.refusal = self.password_refusal = None
        self.lifetime = 3600
        self.asked = []
        #: Cleared: an answer to a refresh waits, after the refresh token is spent.
        self.open = threading.Event()
        self.open.set()
        self.origin = make_origin(self.answer)
        self.url = self.origin.url + "/token"

    def answer(self, request):
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        self.asked.append(form["grant_type"])
        refusal = self.refusal if form["grant_type"] == "refresh_token" else self.password_refusal
        if form["grant_type"] == "refresh_token":
            self.open.wait(30)
        if refusal:
            return response(refusal[0], refusal[1].encode(), "Content-Type: application/json")
        number = next(self.numbers)
        pair = {"access_token": f"a{number}", "refresh_token": f"r{number}", "token_type": "bearer"}
        pair["expires_in"] = self.lifetime
        return response(200, json.dumps(pair).encode(), "Content-Type: application/json")


@pytest.fixture
def authority(make_origin):
    return Authority(make_origin)


@pytest.fixture
def api(make_origin):
    return make_origin()


def password(authority):
    return {
        "strategy": "oauth2_password",
        "token_url": authority.url,
        "client_id": "app",
        "username": "ada",
        "password": "pw-of-ada",
    }


def login(authority):
    return {
        "strategy": "oauth2_authorization_code",
        "authorize_url": authority.origin.url + "/authorize",
        "token_url": authority.url,
        "client_id": "app",
        "refresh_token": "r0",
    }


def get(gateway):
    return requests.get(gateway.url + "/api/x", timeout=20)


def shown(gateway):
    (token,) = json.loads(gateway.run("token", "list", "--json").stdout)
    return token


def error(code):
    return json.dumps({"error": code})


REFUSED = {
    "invalid_grant": (400, error("invalid_grant")),
    "invalid_token": (401, error("invalid_token")),
    "token_expired": (400, error("token_expired")),
    "bad_verification_code": (400, error("bad_verification_code")),
    "login_required": (400, error("login_required")),
    "GitHub's 200": (200, error("bad_refresh_token")),
    "a nested error": (400, json.dumps({"error": {"code": "invalid_grant", "message": "No."}})),
    "Atlassian's words": (
        403,
        json.dumps({"error": "unauthorized_client", "error_description": "refresh_token is invalid"}),
    ),
    "DeviantArt's words": (
        400,
        json.dumps({"error": "invalid_request", "error_description": "The refresh_token is invalid."}),
    ),
    "Fitbit's errors": (400, json.dumps({"errors": [{"errorType": "invalid_grant", "message": "No."}]})),
    "HubSpot's status": (400, json.dumps({"status": "BAD_REFRESH_TOKEN", "message": "No."})),
    "Strava's field": (400, json.dumps({"errors": [{"field": "refresh_token", "code": "invalid"}]})),
}
NEEDS_PERSON = {code: (400, error(code)) for code in ("mfa_required", "interaction_required", "consent_required")}
CONFIGURATION = {
    "invalid_client": (401, error("invalid_client")),
    "unsupported_grant_type": (400, error("unsupported_grant_type")),
    "a redirect": (302, ""),
    "404": (404, "<html>"),
}
SUSPECT = {
    "an empty 400": (400, ""),
    "an empty 401": (401, ""),
    "a portal": (403, "<html><title>Sign in</title></html>"),
    "text": (400, "Bad Request"),
    "a message": (400, json.dumps({"message": "It failed."})),
}


def each(answers):
    return pytest.mark.parametrize("answer", answers.values(), ids=[name.replace(" ", "-") for name in answers])


@pytest.fixture
def person(authority, api, start_gateway):
    """A gateway with a password and a token."""
    gateway = start_gateway(with_route(password(authority), api.url))
    assert get(gateway).status_code == 200
    assert authority.asked == ["password"]
    return gateway


@pytest.fixture
def browser(authority, api, start_gateway):
    """A gateway with the token of a login."""
    gateway = start_gateway(with_route(login(authority), api.url))
    assert get(gateway).status_code == 200
    assert authority.asked == ["refresh_token"]
    return gateway


# MARK: Refused


@each(REFUSED)
def test_the_password_brings_the_next_token_within_the_same_attempt(person, authority, answer):
    authority.refusal = answer
    refreshed = person.run("token", "refresh", "me")
    assert refreshed.returncode == 0, refreshed
    assert authority.asked == ["password", "refresh_token", "password"]
    assert shown(person)["state"] == "valid"


@each(REFUSED | NEEDS_PERSON)
def test_a_login_has_to_be_repeated(browser, authority, answer):
    authority.refusal = answer
    refused = browser.run("token", "refresh", "me")
    assert refused.returncode == 1 and "authgateway login me" in refused.stderr, refused
    assert shown(browser)["state"] == "login_required"
    assert get(browser).status_code == 200, "the token at hand still lives"


@pytest.mark.parametrize("code", ["invalid_request", "invalid_scope", "unsupported_grant_type"])
def test_where_a_login_may_help_it_comes_first(browser, authority, code):
    """The same request has worked before, so the refresh token may have ended."""
    authority.refusal = (400, error(code))
    refused = browser.run("token", "refresh", "me")
    assert refused.returncode == 1 and "authgateway login me" in refused.stderr, refused
    assert "log in again. If that does not help, " in refused.stderr
    token = shown(browser)
    assert (token["state"], token["action"]) == ("login_required", "authgateway login me")
    assert len(named(browser, "login_required")) == 1
    authority.refusal = None
    assert browser.run("token", "refresh", "me").returncode == 0, "the refresh token is kept"
    assert shown(browser)["state"] == "valid"


@pytest.mark.parametrize("nothing", [None, False, "", 0])
def test_a_token_beside_an_error_that_says_nothing_is_a_token(person, authority, nothing):
    """Some authorities send the member with every answer. A pair that has rotated is not thrown away over it."""
    pair = {"access_token": "a-beside-an-error", "refresh_token": "r-next", "expires_in": 3600, "token_type": "bearer"}
    authority.refusal = (200, json.dumps({**pair, "error": nothing}))
    assert person.run("token", "refresh", "me").returncode == 0
    assert authority.asked == ["password", "refresh_token"]
    assert person.run("token", "get", "me").stdout.strip() == "a-beside-an-error"


@each(NEEDS_PERSON)
def test_a_password_does_not_replace_a_person(person, authority, answer):
    authority.refusal = answer
    assert person.run("token", "refresh", "me").returncode == 1
    assert authority.asked == ["password", "refresh_token"]
    assert shown(person)["state"] == "login_required"


def test_a_password_that_is_refused_as_well_is_not_sent_again_by_itself(person, authority):
    authority.refusal = authority.password_refusal = REFUSED["invalid_grant"]
    refused = person.run("token", "refresh", "me")
    assert refused.returncode == 1 and "does not try again by itself" in refused.stderr, refused
    assert authority.asked == ["password", "refresh_token", "password"]
    authority.password_refusal = None
    assert person.run("token", "refresh", "me").returncode == 0
    assert authority.asked[3:] == ["password"], "the refused refresh token is not sent again"


# MARK: Suspect


@each(SUSPECT)
def test_an_answer_of_a_firewall_costs_nothing(browser, authority, answer):
    authority.refusal = answer
    refused = browser.run("token", "refresh", "me")
    assert refused.returncode == 1 and "The refresh token is kept" in refused.stderr, refused
    assert shown(browser)["state"] == "valid" and get(browser).status_code == 200
    authority.refusal = None
    assert browser.run("token", "refresh", "me").returncode == 0
    assert named(browser, "login_required") == []


def test_after_three_such_answers_a_login_is_asked_for_and_the_refresh_token_still_works(browser, authority):
    authority.refusal = SUSPECT["a portal"]
    for _ in range(3):
        assert browser.run("token", "refresh", "me").returncode == 1
    token = shown(browser)
    assert (token["state"], token["action"]) == ("login_required", "authgateway login me")
    assert len(named(browser, "login_required")) == 1
    authority.refusal = None
    assert browser.run("token", "refresh", "me").returncode == 0
    assert shown(browser)["state"] == "valid"


@each(SUSPECT)
def test_the_third_such_answer_brings_the_password(person, authority, answer):
    authority.refusal = answer
    codes = [person.run("token", "refresh", "me").returncode for _ in range(3)]
    assert codes == [1, 1, 0]
    assert authority.asked == ["password", *["refresh_token"] * 3, "password"]


@pytest.mark.slow
def test_the_gateway_tries_twice_more_by_itself(person, authority):
    authority.refusal = SUSPECT["a portal"]
    assert person.run("token", "refresh", "me").returncode == 1
    wait_until(lambda: shown(person)["generation"] == 2, 60, lambda: str(authority.asked))
    assert authority.asked == ["password", *["refresh_token"] * 3, "password"]
    assert [event["trigger"] for event in named(person, "renewed")] == ["retry"]


@pytest.mark.parametrize("answer", [SUSPECT["a message"], CONFIGURATION["invalid_client"]], ids=["suspect", "final"])
def test_a_refusal_ahead_of_the_end_is_over_with_the_token(authority, api, start_gateway, answer):
    """Some authorities refuse to renew a token that is still good. The pause after that was 2 or 5 minutes."""
    authority.lifetime = 8
    gateway = start_gateway(with_route(login(authority), api.url))
    assert get(gateway).status_code == 200
    authority.refusal = answer
    wait_until(lambda: len(authority.asked) > 1, 20, lambda: str(authority.asked))
    refused = shown(gateway)["generation"]
    assert get(gateway).status_code == 200
    authority.refusal = None
    wait_until(lambda: shown(gateway)["generation"] > refused, 20, lambda: str(authority.asked))
    assert get(gateway).status_code == 200


# MARK: Configuration


@each(CONFIGURATION)
def test_a_wrong_configuration_is_explained_and_tried_again_on_command(person, authority, answer):
    authority.refusal = answer
    refused = person.run("token", "refresh", "me")
    assert refused.returncode == 1, refused
    for words in ("needs a restart", "after 5 and 15 minutes, then hourly"):
        assert words in refused.stderr, refused
    assert "authgateway token refresh me" not in refused.stderr, "it has just failed"
    assert authority.asked == ["password", "refresh_token"]
    token = shown(person)
    assert token["state"] == "failed" and get(person).status_code == 200
    authority.refusal = None
    assert person.run("token", "refresh", "me").returncode == 0
    assert shown(person)["state"] == "valid"


def test_a_reload_tries_again_only_what_it_has_changed(authority, api, start_gateway, tmp_path):
    secret = tmp_path / "password"
    secret.touch(mode=0o600)
    secret.write_text("wrong")
    authority.password_refusal = REFUSED["invalid_grant"]
    gateway = start_gateway(with_route({**password(authority), "password": {"file": str(secret)}}, api.url))
    for _ in range(2):
        assert get(gateway).json()["code"] == "credential-misconfigured"
        assert gateway.run("reload").returncode == 0
    assert authority.asked == ["password"], "an unchanged password is not sent again"
    authority.password_refusal = None
    secret.write_text("pw-of-ada")
    assert gateway.run("reload").returncode == 0
    assert get(gateway).status_code == 200


def test_a_reload_tries_again_what_sends_no_secret(api, start_gateway, tmp_path):
    program = tmp_path / "token"
    gateway = start_gateway(with_route({"strategy": "exec", "command": [str(program)], "format": "text"}, api.url))
    assert get(gateway).json()["code"] == "credential-misconfigured"
    program.write_text("#!/bin/sh\necho a-token\n")
    program.chmod(0o700)
    assert gateway.run("reload").returncode == 0
    wait_for_events(gateway, "acquired")
    assert [event["trigger"] for event in named(gateway, "acquired")] == ["reload"]
    assert get(gateway).status_code == 200


# MARK: Kills


def test_after_a_kill_in_the_middle_of_a_refresh_the_password_brings_the_next_token(person, authority):
    """The authority has spent the refresh token, and says nothing of use when it comes again."""
    authority.open.clear()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        command = pool.submit(person.run, "token", "refresh", "me")
        wait_until(lambda: "refresh_token" in authority.asked, 20, "the refresh token was sent")
        person.kill()
        with contextlib.suppress(Exception):
            command.result()
    authority.refusal = SUSPECT["an empty 401"]
    authority.open.set()
    person.start()
    wait_until(lambda: shown(person)["generation"] == 2, 20, lambda: str(authority.asked))
    assert authority.asked == ["password", "refresh_token", "password"]
    assert shown(person)["state"] == "valid" and get(person).status_code == 200

"""`authgateway login NAME --device` (RFC 8628): a person types a short code on another device."""

import json
import re
import signal
import time
import urllib.parse

import pytest
import requests
from harness.configs import CANARY, with_route
from harness.login import Login, status_of
from harness.origin import RecordingOrigin, response
from harness.processes import wait_until

GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class DeviceAuthority:
    """Takes the two requests of RFC 8628 in their exact form, and answers polls as a test says."""

    def __init__(self):
        self.answers = []
        self.polls = []
        self.usual = "authorization_pending"
        self.lifetime = 600
        self.server = RecordingOrigin(self.answer)

    def answer(self, request):
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        if request.method != "POST" or request.value("content-type") != "application/x-www-form-urlencoded":
            return response(405)
        if request.target == "/device" and form == {"client_id": "app", "scope": "read"}:
            code = {
                "device_code": f"{CANARY}-device",
                "user_code": "WDJB-MJHT",
                "verification_uri": f"{self.server.url}/activate",
                "expires_in": self.lifetime,
                "interval": 1,
            }
            return response(200, json.dumps(code).encode())
        if request.target == "/token" and form == {"client_id": "app", "grant_type": GRANT, "device_code": f"{CANARY}-device"}:
            self.polls.append(time.monotonic())
            wanted = self.answers.pop(0) if self.answers else self.usual
            if wanted == "busy":
                return response(503)
            if wanted == "token":
                token = {"access_token": f"{CANARY}-access", "refresh_token": f"{CANARY}-refresh", "expires_in": 3600}
                return response(200, json.dumps(token).encode())
            return response(400, json.dumps({"error": wanted}).encode())
        return response(400, json.dumps({"error": "invalid_request"}).encode())


@pytest.fixture
def authority():
    authority = DeviceAuthority()
    yield authority
    authority.server.stop()


def config(authority, upstream, **changes):
    credential = {
        "strategy": "oauth2_authorization_code",
        "authorize_url": f"{authority.server.url}/authorize",
        "token_url": f"{authority.server.url}/token",
        "device_authorization_url": f"{authority.server.url}/device",
        "client_id": "app",
        "scopes": ["read"],
        **changes,
    }
    return with_route({key: value for key, value in credential.items() if value is not None}, upstream)


@pytest.fixture
def gateway(authority, origin, start_gateway):
    return start_gateway(config(authority, origin.url))


def test_the_code_is_shown_and_the_token_comes_when_it_was_typed(authority, gateway, origin):
    authority.answers = ["authorization_pending", "token"]
    login = Login(gateway, "me", "--device")
    assert login.page == f"{authority.server.url}/activate"
    assert re.search(r"^  WDJB-MJHT$", login.text(), re.MULTILINE), login.text()
    code, output, _ = login.end()
    assert code == 0 and "Logged in" in output, login.text()
    assert len(authority.polls) == 2
    assert requests.get(f"{gateway.url}/api/x", timeout=20).status_code == 200
    assert origin.last().value("authorization") == f"Bearer {CANARY}-access"
    assert CANARY not in login.text() + output + gateway.text()


def test_without_a_running_gateway_the_token_is_stored(authority, origin, make_gateway):
    gateway = make_gateway(config(authority, origin.url))
    authority.answers = ["token"]
    login = Login(gateway, "me", "--device")
    assert login.end()[0] == 0, login.text()
    gateway.start()
    assert requests.get(f"{gateway.url}/api/x", timeout=20).status_code == 200


def test_an_authority_that_wants_to_be_asked_less_often_is(authority, gateway):
    authority.answers = ["slow_down", "token"]
    login = Login(gateway, "me", "--device")
    assert login.end()[0] == 0, login.text()
    assert authority.polls[1] - authority.polls[0] >= 5.5, "one second, and five more"


@pytest.mark.parametrize("error, words", [("access_denied", "was denied"), ("expired_token", "in time")])
def test_a_refusal_ends_the_login(authority, gateway, error, words):
    authority.answers = [error]
    code, _, said = Login(gateway, "me", "--device").end()
    assert code == 1 and words in said
    assert status_of(gateway)["state"] == "login_required"


def test_a_code_that_nobody_types_ends_at_its_end(authority, gateway):
    authority.lifetime = 2
    code, _, said = Login(gateway, "me", "--device").end()
    assert code == 1 and "in time" in said
    count = len(authority.polls)
    time.sleep(1.5)
    assert len(authority.polls) == count


def test_an_authority_that_fails_until_the_end_is_named(authority, gateway):
    authority.lifetime = 4
    authority.usual = "busy"
    code, _, said = Login(gateway, "me", "--device").end()
    assert code == 1 and "status 503" in said and "The code has expired in the meantime" in said
    assert "was not entered" not in said


def test_control_c_ends_it_in_the_gateway_too(authority, gateway):
    login = Login(gateway, "me", "--device")
    wait_until(lambda: authority.polls, 20, "the gateway asks")
    login.process.send_signal(signal.SIGINT)
    code, _, said = login.end()
    assert code == 1 and "interrupted" in said
    count = len(authority.polls)
    time.sleep(2.5)
    assert len(authority.polls) <= count + 1


def test_a_credential_without_the_address_says_so(authority, origin, start_gateway):
    gateway = start_gateway(config(authority, origin.url, device_authorization_url=None))
    result = gateway.run("login", "me", "--device")
    assert result.returncode == 1 and "me has no device_authorization_url" in result.stderr


def test_two_ways_at_once_are_refused(gateway):
    result = gateway.run("login", "me", "--device", "--manual")
    assert result.returncode == 2 and "two ways to log in" in result.stderr, result

"""Tokens that were obtained elsewhere: in the configuration, by `token import`, or from Box's developer console."""

import json
import time

import pytest
import requests
from harness.configs import box_authority, box_client, with_route
from harness.events import named, token_of
from harness.processes import wait_until


def login_credential(name, sandbox, **tokens):
    """(the credential, its upstream, a path that needs a token)"""
    if name == "box_oauth":
        authorize = sandbox["BOX_URL"] + "/api/oauth2/authorize"
        credential = box_authority(sandbox, strategy=name, **box_client(sandbox), authorize_url=authorize)
        return credential | tokens, sandbox["BOX_URL"], "/2.0/users/me"
    credential = {
        "strategy": name,
        "authorize_url": sandbox["OAUTH_URL"] + "/oauth/authorize",
        "token_url": sandbox["OAUTH_URL"] + "/oauth/token",
        "client_id": sandbox["OAUTH_CLIENT_ID"],
        "client_secret": sandbox["OAUTH_CLIENT_SECRET"],
    }
    return credential | tokens, sandbox["UPSTREAM_URL"], "/echo"


ORIGINS = {"box_oauth": "box", "oauth2_authorization_code": "oauth"}


@pytest.fixture(params=ORIGINS)
def name(request):
    return request.param


@pytest.fixture
def pair(name, sandbox):
    """What another program got for a login: an access token and a refresh token that nobody has spent."""
    credential, _, _ = login_credential(name, sandbox)
    form = {"grant_type": "refresh_token", "refresh_token": sandbox[f"{ORIGINS[name].upper()}_REFRESH_TOKEN"]}
    form |= {key: credential[key] for key in ("client_id", "client_secret")}
    answer = requests.post(credential["token_url"], data=form, timeout=20).json()
    return {key: answer[key] for key in ("access_token", "refresh_token")}


def get(gateway, path):
    return requests.get(f"{gateway.url}/api{path}", timeout=20)


def triggers(gateway, event):
    return [found["trigger"] for found in named(gateway, event)]


def test_a_pair_in_the_configuration_is_taken_over(name, pair, sandbox, start_gateway):
    credential, upstream, path = login_credential(name, sandbox, **pair)
    gateway = start_gateway(with_route(credential, upstream))
    wait_until(lambda: named(gateway, "renewed"), 10, "the refresh token is tried at once")
    # Ours was the first call, the gateway's is the second. It brought the pair that is used from here on.
    assert sandbox.token_calls(ORIGINS[name]) == 2
    assert token_of(gateway) != pair["access_token"]
    assert get(gateway, path).status_code == 200
    gateway.kill()
    gateway.start()
    # The store knows the successor of what the configuration says.
    assert get(gateway, path).status_code == 200
    assert sandbox.token_calls(ORIGINS[name]) == 2
    assert gateway.run("token", "refresh", "me").returncode == 0
    assert get(gateway, path).status_code == 200
    assert sandbox.state()["double_spends"].get(ORIGINS[name], 0) == 0
    assert gateway.events("--failed") == []


def test_an_access_token_alone_is_used_as_long_as_it_is_good(name, pair, sandbox, start_gateway):
    credential, upstream, path = login_credential(name, sandbox, access_token=pair["access_token"])
    gateway = start_gateway(with_route(credential, upstream))
    for _ in range(2):
        assert get(gateway, path).status_code == 200
        assert token_of(gateway) == pair["access_token"]
    sandbox.set(ORIGINS[name], revoke_access=True)
    assert get(gateway, path).status_code == 401
    refused = get(gateway, path)
    assert refused.status_code == 503 and refused.json()["command"] == "authgateway login me", refused.text
    assert sandbox.token_calls(ORIGINS[name]) == 1


def test_a_pair_is_imported_into_a_login(name, pair, sandbox, start_gateway):
    credential, upstream, path = login_credential(name, sandbox)
    gateway = start_gateway(with_route(credential, upstream))
    assert get(gateway, path).json()["code"] == "login-required"
    imported = gateway.run("token", "import", "me", input=json.dumps(pair))
    assert imported.returncode == 0 and "works" in imported.stdout, imported
    assert get(gateway, path).status_code == 200
    assert sandbox.token_calls(ORIGINS[name]) == 2, "the refresh token was tried"
    gateway.kill()
    gateway.start()
    assert get(gateway, path).status_code == 200
    assert gateway.run("token", "refresh", "me").returncode == 0
    assert get(gateway, path).status_code == 200
    assert sandbox.state()["double_spends"].get(ORIGINS[name], 0) == 0
    assert triggers(gateway, "imported") == ["operator"] and named(gateway, "login_completed") == []
    for secret in pair.values():
        assert secret not in imported.stdout + imported.stderr + gateway.text() + json.dumps(gateway.events())


def ago(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))


def test_a_developer_token_counts_down_an_hour_and_is_not_renewed(sandbox, start_gateway):
    dev = {"strategy": "box_developer_token", "token": sandbox["BOX_DEVELOPER_TOKEN"]}
    whole = with_route({**dev, "obtained_at": ago(1800)}, sandbox["BOX_URL"])
    whole["credentials"]["ended"] = {**dev, "obtained_at": ago(3601)}
    whole["routes"]["ended"] = {"upstream": sandbox["BOX_URL"], "auth": "ended"}
    gateway = start_gateway(whole)
    assert get(gateway, "/2.0/users/me").status_code == 200
    seen = sandbox.state()["requests"]["box"]
    left = {token["credential"]: token for token in json.loads(gateway.run("token", "list", "--json").stdout)}
    assert 1700 < left["me"]["remaining_seconds"] <= 1800 and left["me"]["state"] == "valid"
    [line] = [line for line in gateway.run("status").stdout.splitlines() if line.lstrip().startswith("me ")]
    assert "29m" in line or "30m" in line, line

    refused = gateway.run("token", "refresh", "me")
    assert refused.returncode == 1 and "https://app.box.com/developers/console" in refused.stderr, refused
    assert get(gateway, "/2.0/users/me").status_code == 200
    over = requests.get(f"{gateway.url}/ended/2.0/users/me", timeout=20)
    assert (over.status_code, over.json()["code"]) == (503, "static-token-expired"), over.text
    # One more request, and no token request at all.
    assert sandbox.state()["requests"]["box"] == seen + 1
    assert sandbox.token_calls("box") == 0

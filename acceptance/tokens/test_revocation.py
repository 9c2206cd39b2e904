"""Revocation, strategy by strategy: the token is dead at the authority afterwards, and what follows is what is promised."""

import json

import pytest
import requests
from harness.configs import box_authority, box_ccg, box_client, with_route
from harness.events import named, token_of
from harness.jwt_authority import PASSPHRASE, JWTAuthority, KeyPair


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def revoke(gateway):
    answer = gateway.run("token", "revoke", "me")
    assert answer.returncode == 0 and "revoked at the authorization server" in answer.stdout, answer.stdout + answer.stderr
    return answer


SERVER_GRANTS = ["box_ccg", "box_jwt", "oauth2_client_credentials", "oauth2_client_credentials-basic"]


def server_credential(name, sandbox):
    """(the credential, its upstream, a path that needs a token)"""
    match name.split("-"):
        case ["box_ccg"]:
            return box_ccg(sandbox), sandbox["BOX_URL"], "/2.0/users/me"
        case ["box_jwt"]:
            credential = {
                "app_settings": {"env": "SANDBOX_BOX_APP_SETTINGS"},
                "subject": {"enterprise": sandbox["BOX_ENTERPRISE_ID"]},
            }
        case [strategy, *auth]:
            credential = {
                "strategy": strategy,
                "token_url": sandbox["OAUTH_URL"] + "/oauth/token",
                "revoke_url": sandbox["OAUTH_URL"] + "/oauth/revoke",
                "client_id": sandbox["OAUTH_CLIENT_ID"],
                "client_secret": sandbox["OAUTH_CLIENT_SECRET"],
                "client_auth": auth[0] if auth else "body",
            }
            return credential, sandbox["UPSTREAM_URL"], "/echo"
    return box_authority(sandbox, strategy=name, **credential), sandbox["BOX_URL"], "/2.0/users/me"


@pytest.mark.parametrize("name", SERVER_GRANTS)
def test_a_grant_of_a_server_goes_on_with_a_new_token(name, sandbox, start_gateway):
    credential, upstream, path = server_credential(name, sandbox)
    gateway = start_gateway(with_route(credential, upstream), environment=sandbox.environment)
    assert requests.get(f"{gateway.url}/api{path}", timeout=20).status_code == 200
    first = token_of(gateway)
    assert requests.get(upstream + path, headers=bearer(first), timeout=20).status_code == 200

    assert "The next request gets a new one." in revoke(gateway).stdout

    assert requests.get(upstream + path, headers=bearer(first), timeout=20).status_code == 401
    [event] = named(gateway, "revoked")
    assert event["http_status"] == 200 and event["generation"] == 1 and event["trigger"] == "operator"
    assert len(event["token_fingerprint"]) == 12 and first not in json.dumps(event)
    assert requests.get(f"{gateway.url}/api{path}", timeout=20).status_code == 200
    assert token_of(gateway) != first
    assert [event["generation"] for event in named(gateway, "acquired")] == [1, 2]
    assert sandbox.state()["token_calls_total"] == 2


def login_credential(name, sandbox):
    """(the credential, its upstream, a path that needs a token)"""
    if name == "box_oauth":
        credential = box_authority(
            sandbox,
            strategy=name,
            **box_client(sandbox),
            authorize_url=sandbox["BOX_URL"] + "/api/oauth2/authorize",
            refresh_token=sandbox["BOX_REFRESH_TOKEN"],
        )
        return credential, sandbox["BOX_URL"], "/2.0/users/me"
    credential = {
        "strategy": name,
        "authorize_url": sandbox["OAUTH_URL"] + "/oauth/authorize",
        "token_url": sandbox["OAUTH_URL"] + "/oauth/token",
        "revoke_url": sandbox["OAUTH_URL"] + "/oauth/revoke",
        "client_id": sandbox["OAUTH_CLIENT_ID"],
        "client_secret": sandbox["OAUTH_CLIENT_SECRET"],
        "refresh_token": sandbox["OAUTH_REFRESH_TOKEN"],
    }
    return credential, sandbox["UPSTREAM_URL"], "/echo"


@pytest.mark.parametrize("name", ["box_oauth", "oauth2_authorization_code"])
def test_after_a_login_both_tokens_are_dead_and_a_person_has_to_log_in(name, sandbox, start_gateway):
    credential, upstream, path = login_credential(name, sandbox)
    gateway = start_gateway(with_route(credential, upstream))
    assert requests.get(f"{gateway.url}/api{path}", timeout=20).status_code == 200
    first = token_of(gateway)
    calls = sandbox.state()["token_calls_total"]

    revoke(gateway)

    assert requests.get(upstream + path, headers=bearer(first), timeout=20).status_code == 401
    # The refresh token in the configuration was spent at the start, its successor is what was revoked.
    for _ in range(2):
        refused = requests.get(f"{gateway.url}/api{path}", timeout=20)
        assert refused.status_code == 503 and refused.json()["command"] == "authgateway login me", refused.text
        [token] = json.loads(gateway.run("token", "list", "--json").stdout)
        assert token["state"] == "login_required"
        gateway.stop()
        gateway.start()
    assert sandbox.state()["token_calls_total"] == calls, "a dead refresh token was tried"
    assert sandbox.state()["double_spends"] == {name: 0 for name in sandbox.state()["double_spends"]}
    assert len(named(gateway, "revoked")) == 1


@pytest.fixture(scope="module")
def jwt_authority(tmp_path_factory):
    authority = JWTAuthority(KeyPair(tmp_path_factory.mktemp("keys")))
    yield authority
    authority.stop()


SIGNERS = {
    "oauth2_client_credentials": {"client_id": "signer", "client_auth": "private_key_jwt", "private_key": {"file": "key.pem"}},
    "oauth2_jwt_bearer": {"key": {"file": "key.pem"}, "claims": {"iss": "robot", "sub": "ada"}, "client_id": "robot"},
}


@pytest.mark.parametrize("strategy", SIGNERS)
def test_a_client_that_signs_revokes_too(strategy, jwt_authority, make_gateway):
    credential = {
        "strategy": strategy,
        "token_url": jwt_authority.token_url,
        "revoke_url": jwt_authority.url + "/oauth2/revoke",
        "passphrase": {"env": "KEY_PASSPHRASE"},
        **SIGNERS[strategy],
    }
    gateway = make_gateway(
        with_route(credential, jwt_authority.url + "/api"), environment={"KEY_PASSPHRASE": PASSPHRASE}
    )
    key = gateway.folder / "key.pem"
    key.write_text(jwt_authority.keys.private("pkcs8-des3"))
    key.chmod(0o600)
    gateway.start()
    assert requests.get(f"{gateway.url}/api/x", timeout=20).status_code == 200
    first = token_of(gateway)
    revoke(gateway)
    assert requests.get(jwt_authority.url + "/api/x", headers=bearer(first), timeout=20).status_code == 401
    assert requests.get(f"{gateway.url}/api/x", timeout=20).status_code == 200
    assert token_of(gateway) != first

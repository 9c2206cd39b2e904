"""`oauth2_password` against django-oauth-toolkit, which rotates refresh tokens strictly."""

import sqlite3

import requests


def config(authority, **changes):
    return {
        "credentials": {"person": authority.password_credential(**changes)},
        "routes": {"api": {"upstream": authority.url + "/api", "auth": "person"}},
    }


def status(gateway):
    return requests.get(gateway.url + "/api/x", timeout=20).status_code


def test_renewals_spend_the_refresh_token_and_fall_back_to_the_password(make_authority, start_gateway):
    authority = make_authority()
    gateway = start_gateway(config(authority, client_auth="basic"))
    assert status(gateway) == 200
    assert len(authority.refresh_tokens()) == 1

    authority.revoke_all()
    assert status(gateway) == 200
    # The first refresh token is spent, the second came in its place.
    assert [revoked is None for revoked in authority.refresh_tokens()] == [False, True]

    # As if the authority had forgotten every refresh token.
    with sqlite3.connect(authority.database, timeout=20) as database:
        database.execute("update oauth2_provider_refreshtoken set revoked = '2000-01-01 00:00:00'")
    database.close()
    authority.revoke_all()
    assert status(gateway) == 200
    assert len(authority.refresh_tokens()) == 3


def test_a_wrong_password_is_final_and_explained(make_authority, start_gateway):
    authority = make_authority()
    gateway = start_gateway(config(authority, password="wrong"))
    for _ in range(2):
        answer = requests.get(gateway.url + "/api/x", timeout=20)
        assert answer.status_code == 500
        assert "username or password is wrong" in answer.json()["detail"]
    assert "OAuth 2.1 has no such grant" in gateway.run("check").stderr
    assert authority.tokens() == []


def test_revoke_ends_both_tokens_and_the_password_brings_the_next(make_authority, start_gateway):
    authority = make_authority()
    gateway = start_gateway(config(authority, revoke_url=f"{authority.url}/o/revoke_token/"))
    assert status(gateway) == 200
    [(token, _)] = authority.tokens()
    revoked = gateway.run("token", "revoke", "person")
    assert revoked.returncode == 0, revoked.stderr
    assert not authority.accepts(token)
    assert all(authority.refresh_tokens())
    assert status(gateway) == 200
    assert [revoked is None for revoked in authority.refresh_tokens()] == [False, True]

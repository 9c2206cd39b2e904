"""`google_service_account` against a token endpoint that refuses any other form than Google's."""

import json

import pytest
import requests
from harness.configs import with_route
from harness.google import EMAIL, KEY_ID, Google
from harness.jwt_authority import KeyPair
from harness.signed_api import SignedAPI


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return KeyPair(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def google(keys):
    google = Google(keys)
    yield google
    google.stop()


def prepared(make_gateway, upstream, content, **block):
    credential = {"strategy": "google_service_account", "service_account": "service-account.json", **block}
    gateway = make_gateway(with_route(credential, upstream))
    file = gateway.folder / "service-account.json"
    file.touch(mode=0o600)
    file.write_text(content)
    return gateway


def get(gateway):
    return requests.get(f"{gateway.url}/api/x", timeout=20)


@pytest.mark.parametrize("subject", [None, "ada@example.com"])
def test_scopes_are_a_claim(google, make_gateway, subject):
    more = {"subject": subject} if subject else {}
    scopes = ["https://www.googleapis.com/auth/drive", "https://www.googleapis.com/auth/calendar"]
    gateway = prepared(make_gateway, google.url + "/api", google.key_file(), scopes=scopes, **more).start()
    assert get(gateway).status_code == 200
    (claims,) = google.claims
    assert (claims["scope"], claims.get("sub")) == (" ".join(scopes), subject)
    # A token that the API no longer knows is replaced.
    google.tokens.clear()
    assert get(gateway).status_code == 200
    assert len(google.claims) == 2


def test_an_identity_token(google, make_gateway):
    target = "https://service-abc.a.run.app"
    gateway = prepared(make_gateway, google.url + "/api", google.key_file(), target_audience=target).start()
    assert get(gateway).status_code == 200
    assert google.claims[0]["target_audience"] == target
    shown = json.loads(gateway.run("token", "show", "me", "--json").stdout)
    assert shown["expires_at"], shown


def test_a_token_that_is_signed_here(google, keys, make_gateway):
    audience = "https://pubsub.googleapis.com/"
    claims = {"iss": EMAIL, "sub": EMAIL, "aud": audience}
    api = SignedAPI(keys.public.read_text(), "RS256", claims, 3600, header={"kid": KEY_ID})
    try:
        gateway = prepared(make_gateway, api.url, google.key_file(), audience=audience).start()
        assert get(gateway).status_code == 200, api.complaints
        assert google.count() == 0, "Google is not asked"
    finally:
        api.stop()


def test_a_refusal_is_explained(google, make_gateway):
    content = google.key_file(private_key_id="an-old-one")
    gateway = prepared(make_gateway, google.url + "/api", content, scopes=["a"]).start()
    answer = get(gateway)
    assert answer.status_code == 500
    assert "Google refused the token request (invalid_grant" in answer.json()["detail"]
    assert "its key exist" in answer.json()["detail"]


@pytest.mark.parametrize(
    "kind, advice",
    [("authorized_user", "use the strategy oauth2_authorization_code"), ("external_account", "use the strategy exec")],
)
def test_another_file_of_google_is_refused_with_what_to_use(google, make_gateway, kind, advice):
    result = prepared(make_gateway, google.url, google.key_file(type=kind), scopes=["a"]).run("check")
    assert result.returncode == 3
    assert "credentials.me.service_account" in result.stderr and advice in result.stderr
    assert "PRIVATE KEY" not in result.stderr

"""`jwt`: a token that the gateway signs itself, against APIs that accept one form of it and nothing else."""

import base64
import hashlib
import subprocess

import pytest
import requests
from harness.configs import CANARY, with_route
from harness.jwt_authority import PASSPHRASE, KeyPair
from harness.processes import wait_until
from harness.signed_api import SignedAPI

SECRET = CANARY + "-a-shared-secret-of-more-than-32-bytes"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return KeyPair(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def make_api():
    made = []

    def make(*arguments, **options):
        made.append(SignedAPI(*arguments, **options))
        return made[-1]

    yield make
    for api in made:
        api.stop()


def start(make_gateway, api, block, key=None, environment=None):
    gateway = make_gateway(with_route({"strategy": "jwt", **block}, api.url), environment=environment)
    if key:
        file = gateway.folder / "key.pem"
        file.touch(mode=0o600)
        file.write_text(key)
    return gateway.start()


def get(gateway):
    return requests.get(f"{gateway.url}/api/x", timeout=20)


def fingerprint(keys):
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", keys.public, "-outform", "DER"], capture_output=True, check=True
    ).stdout
    return "SHA256:" + base64.b64encode(hashlib.sha256(der).digest()).decode()


def test_a_key_pair_of_snowflake(make_api, make_gateway, keys):
    claims = {"iss": f"ORG-ACCOUNT.REPORTS.{fingerprint(keys)}", "sub": "ORG-ACCOUNT.REPORTS"}
    api = make_api(keys.public.read_text(), "RS256", claims, lifetime=3540)
    block = {
        "key": {"file": "key.pem"},
        "passphrase": {"env": "KEY_PASSPHRASE"},
        "claims": {"iss": "ORG-ACCOUNT.REPORTS.{{fingerprint}}", "sub": "ORG-ACCOUNT.REPORTS"},
        "lifetime": "59m",
    }
    gateway = start(make_gateway, api, block, keys.private("pkcs8-aes256"), {"KEY_PASSPHRASE": PASSPHRASE})
    for _ in range(2):
        answer = get(gateway)
        assert answer.status_code == 200, answer.text
    assert len(api.tokens) == 1, "one token serves until it is renewed"


def test_a_key_of_app_store_connect(make_api, make_gateway, tmp_path):
    private = subprocess.run(
        ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], capture_output=True, check=True, text=True
    ).stdout
    public = subprocess.run(["openssl", "pkey", "-pubout"], input=private, capture_output=True, check=True, text=True).stdout
    claims = {"iss": "57246542-96fe-1a63-e053-0824d011072a", "aud": "appstoreconnect-v1"}
    api = make_api(public, "ES256", claims, lifetime=1200, header={"kid": "2X9R4HXF34"})
    block = {"key": {"file": "key.pem"}, "key_id": "2X9R4HXF34", "algorithm": "ES256", "claims": claims, "lifetime": "20m"}
    answer = get(start(make_gateway, api, block, private))
    assert answer.status_code == 200, answer.text


def test_a_token_is_signed_anew_ahead_of_its_end_and_after_a_rejection(make_api, make_gateway):
    api = make_api(SECRET, "HS256", {"iss": "app"}, lifetime=4, has_id=True, field=("x-token", ""))
    block = {
        "secret": {"env": "SHARED"},
        "algorithm": "HS256",
        "claims": {"iss": "app"},
        "lifetime": "4s",
        "jti": True,
        "apply": {"header": "X-Token"},
        "renew": {"at_least": "1s"},
    }
    gateway = start(make_gateway, api, block, environment={"SHARED": SECRET})

    def three_tokens():
        assert get(gateway).status_code == 200, api.complaints
        return len(api.tokens) >= 3

    wait_until(three_tokens, 30, lambda: f"three tokens: {api.tokens}", pause=0.1)
    assert api.complaints == [], "the API refuses a token that has ended, so none was used until its end"
    api.revoked.update(api.tokens)
    assert get(gateway).status_code == 200, api.complaints
    events = [(event["event"], event["trigger"]) for event in gateway.events() if event["event"] in ("acquired", "renewed")]
    assert events[0] == ("acquired", "demand") and ("renewed", "ahead_of_expiry") in events, events
    listed = gateway.run("token", "show", "me", "--json")
    assert listed.returncode == 0 and '"strategy"' in listed.stdout, listed


def test_a_key_of_another_curve_is_a_mistake_with_a_position(make_gateway, keys):
    block = {"strategy": "jwt", "key": {"file": "key.pem"}, "algorithm": "ES256", "claims": {"iss": "a"}}
    gateway = make_gateway(with_route(block, "http://127.0.0.1:1"))
    file = gateway.folder / "key.pem"
    file.touch(mode=0o600)
    file.write_text(keys.private("plain"))
    result = gateway.run("check")
    assert result.returncode == 3
    assert "credentials.me.key: ES256 needs a key of the curve P-256" in result.stdout + result.stderr

"""`access.clients.NAME.jwt`: signed tokens of an issuer prove clients."""

import base64
import json
import time

import pytest
import requests
from harness.configs import BEARER
from harness.jwks import TokenIssuer
from harness.processes import wait_until
from joserfc.jwk import ECKey


@pytest.fixture
def issuer():
    issuer = TokenIssuer()
    yield issuer
    issuer.stop()


def config(origin, issuer, jwks, **changes):
    jwt = {"issuer": issuer.name, "audience": "authgateway", "jwks": jwks, "subject": "ci", **changes}
    return {
        "access": {"clients": {"ci": {"jwt": jwt}}, "require_client": True},
        "routes": {"api": {"upstream": origin.url, "auth": BEARER}},
    }


@pytest.fixture
def with_file(origin, issuer, start_gateway, tmp_path):
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(issuer.key_set()))
    return start_gateway(config(origin, issuer, {"file": str(file)}))


def status(gateway, token, field="Authorization"):
    return requests.get(gateway.url + "/api/x", headers={field: f"Bearer {token}"}, timeout=20).status_code


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
def test_a_signed_token_is_let_in_and_removed(with_file, origin, issuer, algorithm):
    token = issuer.token(algorithm)
    with requests.Session() as session:
        for field in ["Authorization", "Authorization", "Proxy-Authorization"]:
            answer = session.get(with_file.url + "/api/x", headers={field: f"Bearer {token}"}, timeout=20)
            assert answer.status_code == 200, answer.text
    assert token.encode() not in origin.raw()
    assert status(with_file, issuer.token(algorithm, kid=False)) == 200


def unsigned(issuer):
    _, claims, _ = issuer.token().split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    return f"{none}.{claims}."


WRONG = {
    "ended": lambda issuer: issuer.token(exp=int(time.time()) - 61),
    "no end": lambda issuer: issuer.token(exp=None),
    "not yet": lambda issuer: issuer.token(nbf=int(time.time()) + 90),
    "issued later": lambda issuer: issuer.token(iat=int(time.time()) + 90),
    "another audience": lambda issuer: issuer.token(aud="other"),
    "another issuer": lambda issuer: issuer.token(iss="https://other.example.com"),
    "another subject": lambda issuer: issuer.token(sub="cd"),
    "another key": lambda issuer: issuer.token(key=ECKey.generate_key("P-256", {"kid": "ec"})),
    "none": unsigned,
    "the public key as a secret": TokenIssuer.forged,
    "changed": lambda issuer: issuer.token()[:-4] + "AAAA",
    "a part": lambda issuer: issuer.token().rpartition(".")[0],
    "padding": lambda issuer: issuer.token() + "==",
    "a list as subject": lambda issuer: issuer.token(sub=["ci"]),
    "a jti that is a number": lambda issuer: issuer.token(jti=1),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=[name.replace(" ", "-") for name in WRONG])
def test_anything_else_is_refused(with_file, origin, issuer, make):
    assert status(with_file, make(issuer)) == 401
    assert origin.count() == 0


def test_clocks_may_differ_by_a_minute(with_file, issuer):
    now = int(time.time())
    assert status(with_file, issuer.token(exp=now - 30)) == 200
    assert status(with_file, issuer.token(nbf=now + 30, iat=now + 30)) == 200


def test_a_token_ends_on_a_connection_that_goes_on(with_file, issuer):
    token = issuer.token(exp=int(time.time()) - 57)
    with requests.Session() as session:
        def answered():
            return session.get(with_file.url + "/api/x", headers={"Authorization": f"Bearer {token}"}, timeout=20).status_code

        assert answered() == 200
        wait_until(lambda: answered() == 401, 10, "the token has ended")


def test_keys_of_a_url_are_fetched_and_stay_while_the_issuer_is_away(origin, issuer, start_gateway):
    issuer.status = 503
    gateway = start_gateway(config(origin, issuer, {"url": issuer.url}))
    wait_until(lambda: issuer.asked >= 1, 10, "the keys were asked for")
    assert status(gateway, issuer.token()) == 401
    assert "keys of an issuer" in gateway.text()
    issuer.status = 200
    wait_until(lambda: status(gateway, issuer.token()) == 200, 15, "the keys were fetched")
    issuer.stop()
    assert status(gateway, issuer.token()) == 200
    # A key that is not known is asked for, and proves nobody meanwhile.
    assert status(gateway, issuer.token(key=ECKey.generate_key("P-256", {"kid": "new"}))) == 401


def test_claims_tell_clients_of_one_issuer_apart(origin, issuer, start_gateway, tmp_path):
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(issuer.key_set()))
    whole = config(origin, issuer, {"file": str(file)})
    jwt = whole["access"]["clients"]["ci"]["jwt"]
    app = {**jwt, "claims": {"repository": "example/app"}}
    del app["subject"]
    whole["access"]["clients"]["app"] = {"jwt": app}
    whole["routes"]["app"] = {**whole["routes"]["api"], "clients": ["app"]}
    gateway = start_gateway(whole)

    def get(path, **claims):
        headers = {"Authorization": f"Bearer {issuer.token(**claims)}"}
        return requests.get(gateway.url + path, headers=headers, timeout=20)

    assert get("/app/x", sub="x", repository="example/app").status_code == 200
    assert get("/app/x").status_code == 403
    both = get("/api/x", repository="example/app")
    assert both.status_code == 401 and "different clients" in both.text


REFUSED = {
    "no keys": ({"jwks": {"file": "/nonexistent/jwks.json"}}, "/nonexistent/jwks.json"),
    "both": ({"jwks": {"file": "a.json", "url": "https://a.example"}}, "exactly one of file and url"),
    "plain http": ({"jwks": {"url": "http://a.example/jwks"}}, "must be https"),
    "everybody": ({"subject": None}, "every subject of the issuer"),
    "no audience": ({"audience": None}, "audience"),
}


@pytest.mark.parametrize("changes, words", REFUSED.values(), ids=[name.replace(" ", "-") for name in REFUSED])
def test_what_would_admit_others_is_refused_at_load(make_gateway, origin, issuer, changes, words):
    whole = config(origin, issuer, {"url": "https://a.example/jwks"})
    jwt = whole["access"]["clients"]["ci"]["jwt"] | changes
    whole["access"]["clients"]["ci"]["jwt"] = {name: value for name, value in jwt.items() if value is not None}
    checked = make_gateway(whole).run("check")
    assert checked.returncode == 3 and words in checked.stderr, checked

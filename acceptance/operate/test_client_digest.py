"""`access.clients.NAME.token_sha256`: a client whose token the configuration does not hold."""

import hashlib

import pytest
import requests
from harness.configs import CANARY
from harness.events import named
from harness.processes import wait_until

#: Nowhere but with the client: every gateway's files and log are searched for it.
TOKEN = CANARY + "-of-ci"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()


def config(origin, digest=DIGEST, **clients):
    route = {"upstream": origin.url, "auth": "none"}
    return {
        "access": {"clients": {"ci": {"token_sha256": digest}, **clients}},
        "routes": {"api": {**route, "clients": ["ci"]}, "closed": {**route, "clients": list(clients) or ["ci"]}},
    }


def status(gateway, token, path="/api/x", field="Authorization"):
    fields = {} if token is None else {field: f"Bearer {token}"}
    return requests.get(gateway.url + path, headers=fields, timeout=20).status_code


@pytest.mark.parametrize("digest", [DIGEST, DIGEST.upper()], ids=["lower-case", "upper-case"])
def test_the_token_of_the_digest_is_let_in_and_removed(start_gateway, origin, digest):
    gateway = start_gateway(config(origin, digest))
    assert status(gateway, TOKEN) == 200 and status(gateway, TOKEN, field="Proxy-Authorization") == 200
    assert TOKEN.encode() not in origin.raw()
    assert TOKEN not in gateway.file.read_text()


WRONG = {
    "another token": TOKEN + "x",
    "a part of it": TOKEN[:-1],
    "nothing": None,
    # Whoever reads the configuration has the digest, and must not have the token by it.
    "the digest": DIGEST,
    "the digest of the digest": hashlib.sha256(DIGEST.encode()).hexdigest(),
    "the token in another case": TOKEN.lower(),
}


@pytest.mark.parametrize("token", WRONG.values(), ids=[name.replace(" ", "-") for name in WRONG])
def test_anything_else_is_refused(start_gateway, origin, token):
    gateway = start_gateway(config(origin))
    assert status(gateway, token) == 401
    assert origin.count() == 0


def test_it_is_one_client_among_others(start_gateway, origin):
    gateway = start_gateway(config(origin, laptop={"token": CANARY + "-laptop"}))
    assert [status(gateway, TOKEN), status(gateway, TOKEN, "/closed/x")] == [200, 403]
    assert [status(gateway, CANARY + "-laptop"), status(gateway, CANARY + "-laptop", "/closed/x")] == [403, 200]
    wait_until(lambda: len(named(gateway, "client_denied")) == 2, 10, "the refusals are in the log")
    assert [event["client"] for event in named(gateway, "client_denied")] == ["ci", "laptop"]


REFUSED = {
    "too short": ({"token_sha256": DIGEST[:-2]}, "expected 64 hexadecimal digits"),
    "not hexadecimal": ({"token_sha256": "g" * 64}, "expected 64 hexadecimal digits"),
    "of a word": ({"token_sha256": hashlib.sha256(b"test").hexdigest()}, "a word that everybody tries"),
    "both": ({"token_sha256": DIGEST, "token": TOKEN}, "token or token_sha256, not both"),
    "neither": ({}, "has no way to authenticate"),
    # A token is compared by its digest, whichever way it was given.
    "the same twice": ({"token_sha256": DIGEST}, "has the same token as the client"),
}


@pytest.mark.parametrize("client, words", REFUSED.values(), ids=[name.replace(" ", "-") for name in REFUSED])
def test_a_client_that_cannot_be_told_apart_is_refused_at_load(make_gateway, origin, client, words):
    whole = config(origin)
    whole["access"]["clients"]["other"] = client
    checked = make_gateway(whole).run("check")
    assert checked.returncode == 3 and words in checked.stderr, checked
    assert TOKEN not in checked.stdout + checked.stderr

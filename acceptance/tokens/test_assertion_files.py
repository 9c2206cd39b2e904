"""`client_auth: assertion`: the token of a workload identity, which others replace in its file (RFC 7521 section 4.2)."""

import json
import urllib.parse

import pytest
import requests
from harness.configs import CANARY, with_route
from harness.origin import RecordingOrigin, response
from harness.token_server import who


class Authority(RecordingOrigin):
    """Takes the assertion that is in force and nothing else, as Microsoft Entra does for a workload identity."""

    def __init__(self):
        self.assertion = None
        self.count_of_tokens = 0
        super().__init__(self.serve_form)

    def serve_form(self, request):
        form = {name: values[0] for name, values in urllib.parse.parse_qs(request.body.decode(), strict_parsing=True).items()}
        expected = {
            "grant_type": "client_credentials",
            "client_id": "app",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": self.assertion,
        }
        if form != expected or request.value("authorization") is not None:
            said = {"error": "invalid_client", "error_description": f"The assertion {form.get('client_assertion')} has expired"}
            return response(401, json.dumps(said).encode())
        self.count_of_tokens += 1
        return response(200, json.dumps({"access_token": f"token-{self.count_of_tokens}", "token_type": "Bearer", "expires_in": 3600}).encode())


@pytest.fixture
def authority():
    authority = Authority()
    yield authority
    authority.stop()


def jwt(number):
    return f"eyJhbGciOiJSUzI1NiJ9.eyJudW1iZXIiOjA{number}fQ.{CANARY}-signature-{number}"


def prepared(authority, make_origin, make_gateway, path):
    block = {
        "strategy": "oauth2_client_credentials",
        "token_url": authority.url + "/token",
        "client_id": "app",
        "client_auth": "assertion",
        "assertion": {"file": str(path)},
    }
    return make_gateway(with_route(block, make_origin(who).url))


def get(gateway):
    return requests.get(f"{gateway.url}/api/x", timeout=20)


def test_the_file_is_read_for_each_request_for_a_token(authority, make_origin, make_gateway, tmp_path):
    path = tmp_path / "federation"
    gateway = prepared(authority, make_origin, make_gateway, path)
    # As Kubernetes projects it: others may read it.
    path.write_text(jwt(1) + "\n")
    path.chmod(0o644)
    authority.assertion = jwt(1)
    gateway.start()
    assert get(gateway).text == "Bearer token-1"
    # Replaced as Kubernetes does it, without a reload.
    new = tmp_path / "new"
    new.write_text(jwt(2))
    new.rename(path)
    authority.assertion = jwt(2)
    assert gateway.run("token", "refresh", "me").returncode == 0
    assert get(gateway).text == "Bearer token-2"


def test_a_file_that_is_not_there_is_named_and_looked_for_again(authority, make_origin, make_gateway, tmp_path):
    path = tmp_path / "federation"
    gateway = prepared(authority, make_origin, make_gateway, path).start()
    refused = get(gateway)
    assert refused.status_code == 503
    assert f"The assertion of me cannot be read: {path}: no such file" in refused.json()["detail"]
    assert authority.count() == 0
    path.write_text("two words")
    gateway.run("token", "refresh", "me")
    assert authority.count() == 0
    path.write_text(jwt(1))
    authority.assertion = jwt(1)
    assert gateway.run("token", "refresh", "me").returncode == 0
    assert get(gateway).text == "Bearer token-1"


def test_an_authority_that_repeats_the_assertion_is_not_repeated(authority, make_origin, make_gateway, tmp_path):
    path = tmp_path / "federation"
    path.write_text(jwt(1))
    authority.assertion = jwt(2)
    gateway = prepared(authority, make_origin, make_gateway, path).start()
    answer = get(gateway)
    assert answer.status_code == 500
    assert CANARY not in answer.text
    for arguments in (["status", "--json"], ["audit", "query", "--json"]):
        assert CANARY not in gateway.run(*arguments).stdout

"""Assertions that others issue: the token of a workload identity, in a file or from the runner of GitHub Actions (RFC 7521)."""

import json
import urllib.parse

import pytest
import requests
from harness.configs import CANARY, with_route
from harness.origin import RecordingOrigin, response
from harness.token_server import who


#: What each grant sends; None is the assertion.
CLIENT = {
    "grant_type": "client_credentials",
    "client_id": "app",
    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    "client_assertion": None,
}
BEARER = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": None, "scope": "read"}
EXCHANGE = {
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "subject_token": None,
    "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
    "scope": "read",
    "audience": "//iam.example.com/pools/robots",
}


class Authority(RecordingOrigin):
    """Takes the assertion that is in force and nothing else, as Microsoft Entra does for a workload identity."""

    def __init__(self):
        self.assertion = None
        self.count_of_tokens = 0
        self.expected = CLIENT
        super().__init__(self.serve_form)

    def serve_form(self, request):
        form = {name: values[0] for name, values in urllib.parse.parse_qs(request.body.decode(), strict_parsing=True).items()}
        expected = {name: self.assertion if value is None else value for name, value in self.expected.items()}
        if form != expected or request.value("authorization") is not None:
            said = {"error": "invalid_client", "error_description": f"The assertion {form} has expired"}
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


def blocks(authority, source):
    """A block of each strategy that takes such an assertion, with what it sends."""
    place = {"token_url": authority.url + "/token"}
    parameters = {"audience": EXCHANGE["audience"]}
    return {
        "client": ({"strategy": "oauth2_client_credentials", **place, "client_id": "app", "client_auth": "assertion", "assertion": source}, CLIENT),
        "bearer": ({"strategy": "oauth2_jwt_bearer", **place, "assertion": source, "scopes": ["read"]}, BEARER),
        "exchange": ({"strategy": "oauth2_token_exchange", **place, "subject_token": source, "scopes": ["read"], "parameters": parameters}, EXCHANGE),
    }


def prepared(authority, make_origin, make_gateway, path, kind="client"):
    block, authority.expected = blocks(authority, {"file": str(path)})[kind]
    return make_gateway(with_route(block, make_origin(who).url))


def get(gateway):
    return requests.get(f"{gateway.url}/api/x", timeout=20)


@pytest.mark.parametrize("kind", ["client", "bearer", "exchange"])
def test_the_file_is_read_for_each_request_for_a_token(authority, make_origin, make_gateway, tmp_path, kind):
    path = tmp_path / "federation"
    gateway = prepared(authority, make_origin, make_gateway, path, kind)
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


@pytest.mark.parametrize("kind", ["client", "bearer", "exchange"])
def test_an_authority_that_repeats_the_assertion_is_not_repeated(authority, make_origin, make_gateway, tmp_path, kind):
    path = tmp_path / "federation"
    path.write_text(jwt(1))
    authority.assertion = jwt(2)
    gateway = prepared(authority, make_origin, make_gateway, path, kind).start()
    answer = get(gateway)
    assert answer.status_code == 500
    assert CANARY not in answer.text
    for arguments in (["status", "--json"], ["audit", "query", "--json"]):
        assert CANARY not in gateway.run(*arguments).stdout


class Runner(RecordingOrigin):
    """What a job of GitHub Actions asks: docs.github.com/actions, "OpenID Connect reference"."""

    TOKEN = CANARY + "-runner"

    def __init__(self):
        self.issued = 0
        self.is_over = False
        super().__init__(self.serve_identity)

    def serve_identity(self, request):
        expected = "/idtoken/job?api-version=2.0&audience=api%3A%2F%2FAzureADTokenExchange"
        if self.is_over or request.target != expected or request.value("authorization") != f"Bearer {self.TOKEN}":
            return response(401, json.dumps({"message": f"refused {self.TOKEN}"}).encode())
        self.issued += 1
        return response(200, json.dumps({"count": 1, "value": jwt(self.issued)}).encode())

    @property
    def environment(self):
        return {
            "ACTIONS_ID_TOKEN_REQUEST_URL": self.url + "/idtoken/job?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": self.TOKEN,
        }


@pytest.fixture
def runner():
    runner = Runner()
    yield runner
    runner.stop()


GITHUB = {"github_actions": {"audience": "api://AzureADTokenExchange"}}


@pytest.mark.parametrize("kind", ["client", "bearer", "exchange"])
def test_the_runner_is_asked_for_each_request_for_a_token(authority, runner, make_origin, make_gateway, kind):
    block, authority.expected = blocks(authority, GITHUB)[kind]
    gateway = make_gateway(with_route(block, make_origin(who).url), environment=runner.environment)
    authority.assertion = jwt(1)
    gateway.start()
    assert get(gateway).text == "Bearer token-1"
    authority.assertion = jwt(2)
    assert gateway.run("token", "refresh", "me").returncode == 0
    assert get(gateway).text == "Bearer token-2"
    assert CANARY not in gateway.text()
    # The job is over: the runner refuses, and what it says is not repeated.
    runner.is_over = True
    refused = gateway.run("token", "refresh", "me")
    assert refused.returncode != 0
    assert f"The assertion of me cannot be read: {runner.url}/idtoken/job: it responded with status 401" in refused.stdout + refused.stderr
    for arguments in (["status", "--json"], ["audit", "query", "--json"]):
        assert CANARY not in gateway.run(*arguments).stdout
    assert CANARY not in gateway.text() + refused.stdout + refused.stderr


def test_outside_of_a_job_the_check_says_what_the_job_needs(authority, make_gateway):
    block, _ = blocks(authority, GITHUB)["client"]
    gateway = make_gateway(with_route(block, "https://api.example.com"))
    checked = gateway.run("check")
    assert checked.returncode == 3
    assert 'run the gateway in a job of GitHub Actions that has "permissions: id-token: write"' in checked.stdout + checked.stderr

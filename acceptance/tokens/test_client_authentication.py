"""How a client proves who it is, against an authority that takes one form alone."""

import base64
import json

import pytest
import requests
from harness.configs import CANARY, with_route
from harness.gateway import ROOT
from harness.origin import RecordingOrigin, response

CLIENT = "app/1"
SECRET = CANARY + " +/%&=:"


def authority(accepted):
    """Gives a token to `Authorization: Basic` with exactly these bytes, and refuses everything else."""

    def answer(request):
        expected = "Basic " + base64.b64encode(accepted.encode()).decode()
        if request.value("authorization") != expected or b"client_secret" in request.body:
            return response(401, json.dumps({"error": "invalid_client"}).encode())
        token = {"access_token": "T-" + CANARY, "token_type": "Bearer", "expires_in": 3600}
        return response(200, json.dumps(token).encode())

    return RecordingOrigin(answer)


FORMS = {
    "as RFC 6749 has it": ({}, "app%2F1:" + CANARY + "+%2B%2F%25%26%3D%3A"),
    "as it is": ({"client_auth_encoding": "none"}, f"{CLIENT}:{SECRET}"),
}


@pytest.mark.parametrize("keys, accepted", FORMS.values(), ids=[name.replace(" ", "-") for name in FORMS])
def test_id_and_secret_arrive_in_the_form_that_the_authority_wants(start_gateway, origin, keys, accepted):
    """Every text of the credential comes from the environment."""
    server = authority(accepted)
    credential = {
        "strategy": "oauth2_client_credentials",
        "token_url": {"env": "TOKEN_URL"},
        "client_id": {"env": "CLIENT"},
        "client_secret": {"env": "CLIENT_SECRET"},
        "client_auth": "basic",
        **keys,
    }
    variables = {"TOKEN_URL": server.url + "/token", "CLIENT": CLIENT, "CLIENT_SECRET": SECRET}
    gateway = start_gateway(with_route(credential, origin.url), environment=variables)
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    assert origin.last().value("authorization") == "Bearer T-" + CANARY


@pytest.mark.parametrize("keys, other", [({}, "none"), ({"client_auth_encoding": "none"}, "form")])
@pytest.mark.parametrize("body", [json.dumps({"error": "invalid_client"}), ""], ids=["invalid_client", "without-a-word"])
def test_where_basic_fails_the_other_encoding_is_named(start_gateway, origin, make_origin, keys, other, body):
    refusing = make_origin(lambda request: response(401, body.encode()))
    credential = {
        "strategy": "oauth2_client_credentials",
        "token_url": refusing.url + "/token",
        "client_id": "app",
        "client_secret": SECRET,
        "client_auth": "basic",
        **keys,
    }
    gateway = start_gateway(with_route(credential, origin.url))
    refused = requests.get(gateway.url + "/api/x", timeout=20).json()
    assert refused["code"] == "credential-misconfigured"
    assert f"some servers require client_auth_encoding: {other}." in refused["detail"], refused


def test_a_text_that_is_not_there_is_a_problem_at_load(make_gateway, origin):
    credential = {"strategy": "basic", "username": {"env": "NOT_SET"}, "password": {"env": "PASSWORD"}}
    gateway = make_gateway(with_route(credential, origin.url), environment={"NOT_SET": None, "PASSWORD": CANARY})
    checked = gateway.run("check")
    assert checked.returncode == 3
    assert "credentials.me.username.env: the environment variable NOT_SET is not set" in checked.stderr
    assert CANARY not in checked.stdout + checked.stderr


def test_the_schema_allows_a_reference_in_the_place_of_a_text():
    schema = json.loads((ROOT / "schema/gateway.schema.json").read_text())
    properties = schema["$defs"]["strategy.basic"]["properties"]
    assert properties["username"]["$ref"] == "#/$defs/text"
    assert "enum" in json.dumps(properties["mode"])

"""Clients that prove who they are with a certificate: `x5t#S256` for Microsoft Entra, and `client_auth: tls` (RFC 8705)."""

import base64
import hashlib
import json
import subprocess
import urllib.parse

import jwt
import pytest
import requests
from harness.client_certificates import mutual, show
from harness.configs import with_route
from harness.jwt_authority import KeyPair
from harness.origin import RecordingOrigin, response
from harness.tls import CertificateAuthority
from harness.token_server import server_context, who

CLIENT = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def api(make_origin):
    return make_origin(who)


class Entra(RecordingOrigin):
    """The token endpoint of Microsoft Entra for a client with a certificate. It refuses any other wire form.

    "Application authentication certificate credentials": PS256 and `x5t#S256`, and these claims.
    """

    def __init__(self, keys, certificate):
        der = subprocess.run(["openssl", "x509", "-in", certificate, "-outform", "DER"], capture_output=True, check=True).stdout
        self.thumbprint = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
        self.keys = keys
        self.path = "/tenant/oauth2/v2.0/token"
        super().__init__(self.serve_entra)

    def serve_entra(self, request):
        try:
            self.check(request)
        except (AssertionError, jwt.InvalidTokenError) as error:
            return response(401, json.dumps({"error": "invalid_client", "error_description": f"AADSTS700027: {error}"}).encode())
        return response(200, json.dumps({"token_type": "Bearer", "expires_in": 3599, "access_token": "entra-token"}).encode())

    def check(self, request):
        assert (request.method, request.target) == ("POST", self.path)
        form = {name: values[0] for name, values in urllib.parse.parse_qs(request.body.decode(), strict_parsing=True).items()}
        assertion = form.pop("client_assertion")
        assert form == {
            "grant_type": "client_credentials",
            "client_id": CLIENT,
            "scope": "https://graph.microsoft.com/.default",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        }
        header = jwt.get_unverified_header(assertion)
        assert header == {"alg": "PS256", "typ": "JWT", "x5t#S256": self.thumbprint}, header
        claims = jwt.decode(assertion, self.keys.public.read_text(), ["PS256"], audience=self.url + self.path)
        assert set(claims) == {"aud", "exp", "iss", "jti", "nbf", "sub", "iat"}, claims
        assert claims["iss"] == claims["sub"] == CLIENT


def test_a_certificate_of_entra(api, make_gateway, tmp_path):
    keys = KeyPair(tmp_path)
    certificate = tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-new", "-key", keys.plain, "-subj", "/CN=app", "-days", "2", "-out", certificate]
    subprocess.run(make, capture_output=True, check=True)
    entra = Entra(keys, certificate)
    block = {
        "strategy": "oauth2_client_credentials",
        "token_url": entra.url + entra.path,
        "client_id": CLIENT,
        "client_auth": "private_key_jwt",
        "private_key": {"file": "key.pem"},
        "certificate": str(certificate),
        "algorithm": "PS256",
        "scopes": ["https://graph.microsoft.com/.default"],
    }
    gateway = make_gateway(with_route(block, api.url))
    file = gateway.folder / "key.pem"
    file.touch(mode=0o600)
    file.write_text(keys.private("plain"))
    try:
        answer = requests.get(f"{gateway.start().url}/api/x", timeout=20)
        assert (answer.status_code, answer.text) == (200, "Bearer entra-token")
    finally:
        entra.stop()


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    """The authority that the token endpoint takes its clients' certificates from."""
    return CertificateAuthority(tmp_path_factory.mktemp("clients"), "clients-ca")


@pytest.fixture
def authority(make_token_server, certificate_authority, clients):
    """A token endpoint that knows clients by their certificate and takes no other proof (RFC 8705 section 2)."""
    server = make_token_server(server_context(clients.certificate, *certificate_authority.issue("token-server", "IP:127.0.0.1")))

    def answer(asked, _):
        form = {name: values[0] for name, values in urllib.parse.parse_qs(asked.body.decode(), strict_parsing=True).items()}
        if form != {"grant_type": "client_credentials", "client_id": asked.client} or asked.headers["Authorization"]:
            return 401, {}, json.dumps({"error": "invalid_client"})
        return 200, {}, json.dumps({"access_token": f"token-of-{asked.client}", "token_type": "Bearer", "expires_in": 3600})

    server.answer = answer
    return server


def client(authority, certificate_authority, name):
    return {
        "strategy": "oauth2_client_credentials",
        "token_url": authority.url + "/token",
        "client_id": name,
        "client_auth": "tls",
        "tls": mutual(certificate_authority),
    }


def test_a_client_is_known_by_its_certificate(authority, api, make_gateway, certificate_authority, clients):
    gateway = make_gateway(with_route(client(authority, certificate_authority, "gateway-one"), api.url))
    show(clients, gateway.folder, "gateway-one")
    gateway.start()
    answer = requests.get(f"{gateway.url}/api/x", timeout=20)
    assert (answer.status_code, answer.text) == (200, "Bearer token-of-gateway-one")
    [expiration] = requests.get(f"{gateway.admin_url}/api/expirations", timeout=10).json()
    assert (expiration["kind"], expiration["of"]) == ("certificate", "credentials.me.tls")


def test_a_new_certificate_is_shown_after_a_reload(authority, api, make_gateway, certificate_authority, clients):
    gateway = make_gateway(with_route(client(authority, certificate_authority, "gateway-two"), api.url))
    show(clients, gateway.folder, "gateway-one")
    gateway.start()
    refused = requests.get(f"{gateway.url}/api/x", timeout=20)
    assert refused.status_code == 500
    assert "invalid_client" in refused.json()["detail"]
    show(clients, gateway.folder, "gateway-two")
    assert gateway.run("reload").returncode == 0
    answer = requests.get(f"{gateway.url}/api/x", timeout=20)
    assert (answer.status_code, answer.text) == (200, "Bearer token-of-gateway-two")

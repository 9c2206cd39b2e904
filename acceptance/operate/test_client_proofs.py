"""What proves a client besides one token: two tokens, and the certificate of its connection."""

import json
import socket
import ssl

import pytest
import requests
from harness import processes
from harness.configs import BEARER, CANARY
from harness.events import named
from harness.processes import wait_until

NEW, OLD, OTHER = CANARY + "-new", CANARY + "-old", CANARY + "-other"
SPIFFE = "spiffe://example.org/ns/build/ci"


def bearer(token, field="Authorization"):
    return {field: f"Bearer {token}"} if token else {}


class TestTwoTokens:
    def config(self, origin, tokens):
        clients = {"ci": {"token": tokens}, "other": {"token": OTHER}}
        return {"access": {"clients": clients}, "routes": {"api": {"upstream": origin.url, "auth": BEARER}}}

    def status(self, gateway, token):
        return requests.get(gateway.url + "/api/x", headers=bearer(token), timeout=20).status_code

    def test_a_token_is_replaced_without_a_refusal(self, start_gateway, origin):
        gateway = start_gateway(self.config(origin, OLD))
        steps = [(OLD, {OLD}), ([NEW, OLD], {NEW, OLD}), (NEW, {NEW})]
        with requests.Session() as session:
            for tokens, valid in steps:
                gateway.configure(self.config(origin, tokens))
                assert gateway.run("reload").returncode == 0
                for token in (OLD, NEW):
                    answer = session.get(gateway.url + "/api/x", headers=bearer(token), timeout=20)
                    assert answer.status_code == (200 if token in valid else 401)
        assert OLD.encode() not in origin.raw() and NEW.encode() not in origin.raw()

    def test_status_tells_when_each_was_last_used(self, start_gateway, origin):
        gateway = start_gateway(self.config(origin, [NEW, OLD]))
        assert "not since the start" in gateway.run("status").stdout
        assert self.status(gateway, OLD) == 200
        uses = {
            (token["client"], token["number"]): token.get("last_used_at")
            for token in json.loads(gateway.run("status", "--json").stdout)["client_tokens"]
        }
        assert uses[("ci", 2)] and not uses[("ci", 1)] and not uses[("other", 1)]
        text = gateway.run("status").stdout
        assert "LAST USED" in text and "other" not in text
        assert NEW not in text and OLD not in text

    def test_one_token_twice_is_a_warning(self, make_gateway, origin):
        checked = make_gateway(self.config(origin, [NEW, NEW])).run("check")
        assert checked.returncode == 0 and "both tokens are the same" in checked.stderr + checked.stdout
        assert NEW not in checked.stderr + checked.stdout


class TestCertificates:
    @pytest.fixture
    def shown(self, certificate_authority):
        """A certificate for each kind of client: file and key."""

        def issue(name, alternative_names):
            return tuple(map(str, certificate_authority.issue(name, alternative_names, usage="clientAuth")))

        return {
            "ci": issue("proof-ci", f"URI:{SPIFFE},DNS:ignored.example.com"),
            "edge": issue("proof-edge", "DNS:edge.example.com"),
            "both": issue("proof-both", f"URI:{SPIFFE},DNS:edge.example.com"),
            "stranger": issue("proof-stranger", "DNS:stranger.example.com"),
        }

    @pytest.fixture
    def gateway(self, origin, certificate_authority, start_gateway):
        certificate, key = certificate_authority.issue("proof-gateway", "IP:127.0.0.1,DNS:localhost")
        key.chmod(0o600)
        tls = {
            "certificate": str(certificate),
            "private_key": {"file": str(key)},
            "client_ca": str(certificate_authority.certificate),
        }
        self.port = processes.free_port()
        route = {"upstream": origin.url, "auth": BEARER}
        return start_gateway(
            {
                "access": {
                    "clients": {
                        "ci": {"certificate": {"uri": "spiffe://example.org/ns/build/*"}},
                        "edge": {"token": NEW, "certificate": {"dns": "edge.example.com"}},
                        "laptop": {"token": OTHER},
                    }
                },
                "routes": {"api": route, "mine": {**route, "clients": ["ci"]}},
            },
            listeners=[{"address": f"127.0.0.1:{self.port}", "tls": tls, "intercept": True}],
        )

    def get(self, certificate_authority, shown, path="/api/x", headers=None):
        with requests.Session() as session:
            session.trust_env = False
            return session.get(
                f"https://127.0.0.1:{self.port}{path}",
                verify=str(certificate_authority.certificate),
                cert=shown,
                headers=headers or {},
                timeout=20,
            )

    @pytest.mark.parametrize(
        "who, token, path, status",
        [
            ("ci", None, "/api/x", 200),
            ("ci", None, "/mine/x", 200),
            ("edge", None, "/api/x", 200),
            ("edge", None, "/mine/x", 403),
            ("edge", NEW, "/api/x", 200),
            # The token of another client, and two clients in one certificate.
            ("ci", OTHER, "/api/x", 401),
            ("both", None, "/api/x", 401),
            # As without a certificate.
            ("stranger", None, "/api/x", 401),
            ("stranger", OTHER, "/api/x", 200),
        ],
    )
    def test_it_names_the_client(self, gateway, certificate_authority, shown, who, token, path, status):
        answer = self.get(certificate_authority, shown[who], path, bearer(token))
        assert answer.status_code == status, answer.text
        if status == 401 and who != "stranger":
            assert "different clients" in answer.text

    def test_the_log_has_the_name_of_the_client(self, gateway, certificate_authority, shown):
        assert self.get(certificate_authority, shown["edge"], "/mine/x").status_code == 403
        wait_until(lambda: named(gateway, "client_denied"), 10, "the refusal is in the log")
        assert named(gateway, "client_denied")[0]["client"] == "edge"

    def test_a_resumed_session_has_the_same_client(self, gateway, certificate_authority, shown):
        context = ssl.create_default_context(cafile=str(certificate_authority.certificate))
        context.load_cert_chain(*shown["ci"])
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        session, resumed = None, []
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", self.port), 20) as plain:
                with context.wrap_socket(plain, server_hostname="localhost", session=session) as client:
                    client.sendall(b"GET /mine/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
                    session = client.session
                    resumed.append(client.session_reused)
        assert resumed[0] is False

    def test_streams_of_http2_have_the_client_of_the_connection(self, gateway, certificate_authority, shown):
        import httpx

        context = ssl.create_default_context(cafile=str(certificate_authority.certificate))
        context.load_cert_chain(*shown["ci"])
        with httpx.Client(http2=True, verify=context, trust_env=False) as client:
            answers = [client.get(f"https://localhost:{self.port}/mine/{number}") for number in range(3)]
        assert [(answer.http_version, answer.status_code) for answer in answers] == [("HTTP/2", 200)] * 3

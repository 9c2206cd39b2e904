"""Upstreams that refuse the gateway's TLS: the alert is named, wherever in the handshake or after it comes."""

import contextlib
import json
import socket
import ssl
import threading

import pytest
import requests
from harness.client_certificates import mutual, show
from harness.configs import BEARER
from harness.tls import CertificateAuthority
from harness.token_server import server_context

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
#: What an OpenSSL server sends to a client without a certificate.
WITHOUT = {ssl.TLSVersion.TLSv1_2: "handshake_failure", ssl.TLSVersion.TLSv1_3: "certificate_required"}


class Refuser:
    """A server that completes no handshake. It reads on until the client closes, so that no reset overtakes the alert."""

    def __init__(self, context):
        self.context = context
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.refuse, args=[self.listener.accept()[0]], daemon=True).start()

    def refuse(self, connection):
        with connection, contextlib.suppress(OSError):
            connection.settimeout(10)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = self.context.wrap_bio(incoming, outgoing, server_side=True)
            while data := connection.recv(65536):
                incoming.write(data)
                with contextlib.suppress(ssl.SSLError):
                    tls.do_handshake()
                if answer := outgoing.read():
                    connection.sendall(answer)

    def stop(self):
        self.listener.close()


@pytest.fixture
def refuser(certificate_authority):
    """Makes one that wants a certificate of the tests' authority."""
    made = []

    def make(change):
        certificate, key = certificate_authority.issue("upstream", "IP:127.0.0.1,DNS:upstream.test")
        context = server_context(certificate_authority.certificate, certificate, key)
        context.set_alpn_protocols(["h2", "http/1.1"])
        change(context)
        made.append(Refuser(context))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def route(refuser, certificate_authority, protocol="http1", **tls):
    trusted = {"ca": str(certificate_authority.certificate), **tls}
    return {"routes": {"api": {"upstream": refuser.url, "protocol": protocol, "auth": BEARER, "tls": trusted}}}


def speaks(version):
    def change(context):
        context.minimum_version = context.maximum_version = version

    return change


def refusal(gateway, alert):
    answer = requests.get(gateway.url + "/api/x", timeout=20)
    assert answer.status_code == 502 and answer.json()["code"] == "upstream-unreachable"
    assert f"refused the TLS connection with the alert {alert}" in answer.json()["detail"], answer.text
    assert "; error=tls_protocol_error" in answer.headers["Proxy-Status"]
    return answer.json()["detail"]


def doctor(gateway, alert):
    said = gateway.run("doctor", "--json")
    assert said.returncode == 1, said.stdout
    [finding] = [one for one in json.loads(said.stdout)["findings"] if (one["group"], one["level"]) == ("tls", "error")]
    assert finding["text"] == f"the server refused the TLS connection with the alert {alert}"
    return finding["remedy"]


@pytest.mark.parametrize("protocol", ["http1", "http2", "auto"])
@pytest.mark.parametrize("tls", VERSIONS, ids=lambda tls: tls.name)
def test_an_upstream_that_wants_a_certificate(start_gateway, refuser, certificate_authority, tls, protocol):
    gateway = start_gateway(route(refuser(speaks(tls)), certificate_authority, protocol))
    assert "client certificate (tls.certificate of the route)" in refusal(gateway, WITHOUT[tls])
    assert "tls.certificate of route api" in doctor(gateway, WITHOUT[tls])


@pytest.mark.parametrize("protocol", ["http1", "http2"])
@pytest.mark.parametrize("tls", VERSIONS, ids=lambda tls: tls.name)
def test_an_upstream_that_knows_another_authority(
    make_gateway, refuser, certificate_authority, tmp_path_factory, tls, protocol
):
    other = CertificateAuthority(tmp_path_factory.mktemp("other"), "other")
    shown = mutual(certificate_authority)
    gateway = make_gateway(route(refuser(speaks(tls)), certificate_authority, protocol, **shown))
    show(other, gateway.folder, "stranger")
    gateway.start()
    assert "does not trust the certificate authority" in refusal(gateway, "unknown_ca")
    doctor(gateway, "unknown_ca")


def test_an_upstream_that_speaks_old_versions_only(start_gateway, refuser, certificate_authority):
    def old(context):
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1

    gateway = start_gateway(route(refuser(old), certificate_authority))
    assert "TLS 1.2 and 1.3" in refusal(gateway, "protocol_version")
    doctor(gateway, "protocol_version")

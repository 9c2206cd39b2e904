"""nginx with TLS as upstream, and certificates of our own."""

import requests
from conftest import CANARY
from harness.tls import CertificateAuthority


def route(tls_upstream, **tls):
    return {
        "routes": {
            "secure": {
                "upstream": tls_upstream.url,
                "auth": {"strategy": "bearer", "token": CANARY},
                **({"tls": tls} if tls else {}),
            }
        }
    }


def test_the_authority_of_the_route_is_trusted(tls_upstream, certificate_authority, start_gateway):
    gateway = start_gateway(route(tls_upstream, ca=str(certificate_authority.certificate), server_name="upstream.test"))
    with requests.Session() as session:
        for _ in range(3):
            answer = session.get(gateway.url + "/secure/x?y", timeout=20)
            assert (answer.status_code, answer.text) == (200, "TLSv1.3 upstream.test GET /x?y")


def refused(gateway):
    answer = requests.get(gateway.url + "/secure/x", timeout=20)
    assert answer.status_code == 502
    assert answer.json()["type"].endswith("upstream-unreachable")
    assert "tls" in answer.headers["Proxy-Status"]
    assert CANARY not in answer.text


def test_another_authority_is_refused(tls_upstream, tmp_path, start_gateway):
    other = CertificateAuthority(tmp_path, "other-ca")
    refused(start_gateway(route(tls_upstream, ca=str(other.certificate), server_name="upstream.test")))


def test_without_an_authority_of_its_own_the_system_decides(tls_upstream, start_gateway):
    refused(start_gateway(route(tls_upstream)))


def test_a_certificate_for_another_name_is_refused(tls_upstream, certificate_authority, start_gateway):
    refused(
        start_gateway(route(tls_upstream, ca=str(certificate_authority.certificate), server_name="elsewhere.test"))
    )

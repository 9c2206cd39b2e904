"""nginx with TLS as upstream, and certificates of our own."""

import base64
import hashlib
import socket
import subprocess

import pytest
import requests
from harness.configs import BEARER, CANARY
from harness import processes
from harness.tls import CertificateAuthority, self_signed
from harness.tls_script import server_context


def route(tls_upstream, **tls):
    return {
        "routes": {
            "secure": {
                "upstream": tls_upstream.url,
                "auth": BEARER,
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


def test_the_server_name_has_no_dot_at_its_end(tls_upstream, certificate_authority, start_gateway):
    """RFC 6066 section 3."""
    gateway = start_gateway(route(tls_upstream, ca=str(certificate_authority.certificate), server_name="upstream.test."))
    assert requests.get(gateway.url + "/secure/x", timeout=20).text == "TLSv1.3 upstream.test GET /x"


def test_renegotiation_is_named(certificate_authority, start_gateway):
    certificate, key = certificate_authority.issue("renegotiating", "DNS:localhost,IP:127.0.0.1")
    port = processes.free_port()
    command = ["openssl", "s_server", "-tls1_2", "-accept", str(port), "-cert", str(certificate), "-key", str(key)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        processes.wait_until(lambda: processes.is_listening(port), 20, "listening")
        tls = {"ca": str(certificate_authority.certificate)}
        gateway = start_gateway({"routes": {"secure": {"upstream": f"https://localhost:{port}", "auth": BEARER, "tls": tls}}})
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as client:
            client.sendall(b"GET /secure/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while b"GET /x HTTP/1.1" not in server.stdout.readline():
                pass
            # Its command for a new handshake.
            server.stdin.write(b"r\n")
            server.stdin.flush()
            answer = b"".join(iter(lambda: client.recv(65536), b""))
    finally:
        server.kill()
        server.wait()
    assert answer.startswith(b"HTTP/1.1 502 ") and b"renegotiation of TLS 1.2" in answer, answer


def refused(gateway):
    answer = requests.get(gateway.url + "/secure/x", timeout=20)
    assert answer.status_code == 502
    assert answer.json()["type"].endswith("upstream-unreachable")
    assert "; error=tls_certificate_error" in answer.headers["Proxy-Status"]
    assert CANARY not in answer.text
    return answer.json()["detail"]


def test_another_authority_is_refused(tls_upstream, tmp_path, start_gateway):
    other = CertificateAuthority(tmp_path, "other-ca")
    gateway = start_gateway(route(tls_upstream, ca=str(other.certificate), server_name="upstream.test"))
    assert "is not signed by a certificate authority in" in refused(gateway)


def test_without_an_authority_of_its_own_the_system_decides(tls_upstream, start_gateway):
    refused(start_gateway(route(tls_upstream)))


def test_a_certificate_for_another_name_is_refused(tls_upstream, certificate_authority, start_gateway):
    refused(
        start_gateway(route(tls_upstream, ca=str(certificate_authority.certificate), server_name="elsewhere.test"))
    )


@pytest.mark.parametrize(("begins", "ends", "said"), [(-9, -2, "has expired"), (2, 9, "is not valid before")])
def test_a_certificate_outside_of_its_time_is_refused_with_that_reason(
    begins, ends, said, tmp_path, make_token_server, start_gateway
):
    certificate, key = self_signed(tmp_path, "upstream.test", begins, ends)
    server = make_token_server(server_context(certificate, key))
    gateway = start_gateway(route(server, ca=str(certificate), server_name="upstream.test"))
    assert said in refused(gateway)


def pin(certificate, slashes="/"):
    """As curl's manual says to make one."""
    pem = subprocess.run(["openssl", "x509", "-in", certificate, "-pubkey", "-noout"], check=True, capture_output=True)
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], check=True, capture_output=True, input=pem.stdout)
    return f"sha256{slashes}" + base64.b64encode(hashlib.sha256(der.stdout).digest()).decode()


@pytest.fixture
def certificates(certificate_authority):
    """Two for the same server, each with a key of its own."""
    return [certificate_authority.issue(name, "IP:127.0.0.1,DNS:upstream.test") for name in ("first", "second")]


@pytest.fixture
def servers(certificates, make_token_server):
    """They record what arrives, decrypted."""
    return [make_token_server(server_context(certificate, key)) for certificate, key in certificates]


@pytest.mark.parametrize("names", [{}, {"server_name": "upstream.test"}])
@pytest.mark.parametrize("slashes", ["/", "//"])
def test_the_pinned_key_is_spoken_to(servers, certificates, certificate_authority, start_gateway, slashes, names):
    wanted = pin(certificates[0][0], slashes)
    gateway = start_gateway(route(servers[0], ca=str(certificate_authority.certificate), pin=wanted, **names))
    assert requests.get(gateway.url + "/secure/x", timeout=20).status_code == 200
    assert [asked.headers["Authorization"] for asked in servers[0].requests] == [f"Bearer {CANARY}"]
    curl = ["curl", "-s", "--cacert", certificate_authority.certificate, "--pinnedpubkey", pin(certificates[0][0], "//")]
    judged = subprocess.run([*curl, servers[0].url], check=False, capture_output=True, timeout=20, env=processes.environment())
    assert judged.returncode == 0, "curl reads it in the same way"


@pytest.mark.parametrize("names", [{}, {"server_name": "upstream.test"}])
def test_another_key_gets_nothing_however_well_it_is_trusted(
    servers, certificates, certificate_authority, start_gateway, names
):
    gateway = start_gateway(
        route(servers[0], ca=str(certificate_authority.certificate), pin=pin(certificates[1][0]), **names)
    )
    for _ in range(3):
        refused(gateway)
    body = requests.post(gateway.url + "/secure/x", data=b"x" * 1000, timeout=20)
    assert body.status_code == 502
    seen = pin(certificates[0][0])
    assert seen in body.json()["detail"]
    assert servers[0].count() == 0
    lines = [line for line in gateway.text().splitlines() if "tls.pin" in line]
    assert 1 <= len(lines) <= 8 and all(seen in line for line in lines), "said, and not for every request"


def test_a_pin_does_not_replace_trust(servers, certificates, start_gateway, tmp_path):
    other = CertificateAuthority(tmp_path, "other-ca")
    refused(start_gateway(route(servers[0], ca=str(other.certificate), pin=pin(certificates[0][0]))))
    assert servers[0].count() == 0


def test_the_next_key_is_pinned_before_it_comes(servers, certificates, certificate_authority, start_gateway):
    both = [pin(certificate) for certificate, _ in certificates]
    for server in servers:
        gateway = start_gateway(route(server, ca=str(certificate_authority.certificate), pin=both))
        assert requests.get(gateway.url + "/secure/x", timeout=20).status_code == 200
        assert server.count() == 1


def test_a_reload_takes_a_pin_to_heart(servers, certificates, certificate_authority, start_gateway):
    authority = str(certificate_authority.certificate)
    gateway = start_gateway(route(servers[0], ca=authority))
    assert requests.get(gateway.url + "/secure/x", timeout=20).status_code == 200
    gateway.configure(route(servers[0], ca=authority, pin=pin(certificates[1][0])))
    assert gateway.run("reload").returncode == 0
    refused(gateway)
    assert servers[0].count() == 1


def test_a_pin_that_is_none_is_refused_at_load(tls_upstream, make_gateway):
    gateway = make_gateway(route(tls_upstream, pin=["sha256/AAAA"]))
    result = gateway.run("check")
    assert result.returncode == 3
    assert "routes.secure.tls.pin[0]: expected sha256/" in result.stderr

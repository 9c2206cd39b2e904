"""A certificate authority for the tests, made with openssl, and nginx with one of its certificates."""

import datetime
import ipaddress
import pathlib
import subprocess

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from . import debian


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


class CertificateAuthority:
    def __init__(self, folder, name):
        self.folder = pathlib.Path(folder)
        self.name = name
        self.certificate = self.folder / f"{name}.pem"
        self.key = self.folder / f"{name}-key.pem"
        self.issued = {}
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", "-x509", *curve, "-keyout", self.key, "-out", self.certificate, "-days", 2, "-subj", f"/CN={name}")

    def issue(self, name, alternative_names, usage="serverAuth", days=2):
        """Returns the paths of a certificate and its key; a name that was issued before keeps both.

        With `days=-1` the certificate has expired.
        """
        known, paths = self.issued.setdefault(name, ((alternative_names, usage, days), []))
        assert known == (alternative_names, usage, days), f"{name} is already the name of another certificate"
        if not paths:
            paths += self._make(name, alternative_names, usage, days)
        return tuple(paths)

    def _make(self, name, alternative_names, usage, days):
        key, request, certificate, extensions = (
            self.folder / f"{name}{ending}" for ending in ("-key.pem", ".csr", ".pem", ".ext")
        )
        extensions.write_text(f"subjectAltName={alternative_names}\nextendedKeyUsage={usage}\n", encoding="ascii")
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", *curve, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial"),
            *("-out", certificate, "-days", days, "-extfile", extensions),
        )
        return certificate, key


def self_signed(folder, name, begins, ends):
    """Returns the paths of a certificate of `name` and 127.0.0.1 and of its key. `begins` and `ends` are days from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=begins))
        .not_valid_after(now + datetime.timedelta(days=ends))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = pathlib.Path(folder) / f"{name}.pem", pathlib.Path(folder) / f"{name}-key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pkcs8, clear = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, clear))
    return paths


def nginx_over_tls(folder, certificate, key, authorization):
    """nginx with TLS. It refuses requests without this `authorization`, and describes all others."""
    server = f"""
        default_type text/plain;
        ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;
        if ($welcome = 0) {{ return 401; }}
        location / {{ return 200 "$ssl_protocol $ssl_server_name $request_method $request_uri"; }}"""
    welcome = f'map $http_authorization $welcome {{ default 0; "{authorization}" 1; }}'
    return debian.nginx(folder, server, http=welcome, scheme="https")

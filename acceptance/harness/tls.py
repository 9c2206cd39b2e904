"""A certificate authority for the tests, made with openssl, and nginx with one of its certificates."""

import pathlib
import subprocess

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


def nginx_over_tls(folder, certificate, key, authorization):
    """nginx with TLS. It refuses requests without this `authorization`, and describes all others."""
    server = f"""
        default_type text/plain;
        ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;
        if ($welcome = 0) {{ return 401; }}
        location / {{ return 200 "$ssl_protocol $ssl_server_name $request_method $request_uri"; }}"""
    welcome = f'map $http_authorization $welcome {{ default 0; "{authorization}" 1; }}'
    return debian.nginx(folder, server, http=welcome, scheme="https")

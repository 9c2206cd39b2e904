"""An authority of our own for certificates, made with openssl, and nginx behind one of them."""

import pathlib
import shutil
import subprocess

from . import processes
from .gateway import CACHE


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

    def issue(self, name, alternative_names, usage="serverAuth"):
        """Returns the paths of a certificate and its key; a name that was issued before keeps both."""
        known, paths = self.issued.setdefault(name, ((alternative_names, usage), []))
        assert known == (alternative_names, usage), f"{name} is already the name of another certificate"
        if not paths:
            paths += self._make(name, alternative_names, usage)
        return tuple(paths)

    def _make(self, name, alternative_names, usage):
        key, request, certificate, extensions = (
            self.folder / f"{name}{ending}" for ending in ("-key.pem", ".csr", ".pem", ".ext")
        )
        extensions.write_text(f"subjectAltName={alternative_names}\nextendedKeyUsage={usage}\n", encoding="ascii")
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", *curve, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial"),
            *("-out", certificate, "-days", 2, "-extfile", extensions),
        )
        return certificate, key


class Nginx:
    """nginx that speaks TLS and lets in only who brings `authorization`."""

    def __init__(self, folder, certificate, key, authorization):
        self.folder = pathlib.Path(folder)
        self.port = processes.free_port()
        binary = shutil.which("nginx") or str(CACHE / "debian/usr/sbin/nginx")
        config = self.folder / "nginx.conf"
        temporary = " ".join(
            f"{kind}_temp_path {self.folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config.write_text(
            f"""
            daemon off; master_process off; pid {self.folder}/nginx.pid; error_log {self.folder}/nginx.log;
            events {{ worker_connections 512; }}
            http {{
              {temporary} access_log off; default_type text/plain; client_max_body_size 64m;
              map $http_authorization $welcome {{ default 0; "{authorization}" 1; }}
              server {{
                listen 127.0.0.1:{self.port} ssl;
                ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;
                if ($welcome = 0) {{ return 401; }}
                location / {{ return 200 "$ssl_protocol $ssl_server_name $request_method $request_uri"; }}
              }}
            }}""",
            encoding="ascii",
        )
        self.process = subprocess.Popen(
            [binary, "-p", str(self.folder), "-e", str(self.folder / "nginx.log"), "-c", str(config)],
            stderr=subprocess.PIPE,
        )
        processes.wait_until(lambda: processes.is_listening(self.port), 20, "nginx listens")

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    def stop(self):
        processes.end(self.process)

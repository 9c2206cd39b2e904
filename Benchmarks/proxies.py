"""The proxies that are compared: how each is configured and started, all in front of the same upstream.

Each injects the same header; the upstream (nginx) refuses a request without exactly that header.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import load

ROOT = pathlib.Path(__file__).resolve().parents[1]
#: As scripts/lib.sh has it.
CACHE = pathlib.Path(
    os.environ.get("AUTHGATEWAY_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "authgateway")
)
DEBIAN = CACHE / "debian"
PEERS = CACHE / "bench"
TOKEN = "0123456789abcdef0123456789abcdef01234567"


#: What was given out: nobody listens there yet, so the system could name it once more.
GIVEN = set()


def free_port():
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in GIVEN:
            GIVEN.add(port)
            return port


def program(name, *places):
    """Where a program is: on the PATH or unpacked in the cache folder; None when it is nowhere."""
    found = shutil.which(name) or shutil.which(f"/usr/sbin/{name}")
    return found or next((str(place) for place in places if place.exists()), None)


def nginx_binary():
    return program("nginx", DEBIAN / "usr/sbin/nginx")


def binaries():
    """The peers that this machine has."""
    found = {
        "nginx": nginx_binary(),
        "haproxy": program("haproxy", DEBIAN / "usr/sbin/haproxy"),
        "envoy": program("envoy", PEERS / "envoy/_bin/envoy"),
        "caddy": program("caddy", PEERS / "usr/bin/caddy"),
        "mitmproxy": program("mitmdump", PEERS / "mitmproxy/bin/mitmdump"),
    }
    return {name: path for name, path in found.items() if path}


def run_quietly(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


class Stage:
    """A folder with everybody's configuration, and the processes that were started from it."""

    def __init__(self, folder, gateways, tls=False, workers=1, http2_clients=False, http2_upstream=False, tls_clients=False, grpc=False):
        """With HTTP/2, over plaintext and by prior knowledge, the proxies speak nothing else on that side.

        With `tls_clients` clients speak TLS 1.3, for the host ``localhost``. Only nginx, mitmproxy and the gateway do, which makes
        its certificate with its local authority.

        With `grpc` the upstream answers each call with one message and the status in trailers. It looks at no token.
        """
        self.folder = pathlib.Path(folder)
        self.gateways = gateways
        self.tls = tls
        self.workers = workers
        self.http2_clients, self.http2_upstream, self.tls_clients = http2_clients, http2_upstream, tls_clients
        self.grpc = grpc
        self.scheme = "https" if tls else "http"
        self.binaries = binaries()
        self.upstream_port = free_port()
        self.ports = {name: free_port() for name in [*self.binaries, *gateways]}
        self.processes = {}
        pins = workers == 1 and shutil.which("taskset")
        self.pin_proxy = ["taskset", "-c", "0"] if pins else []
        self.pin_load = ["taskset", "-c", "1"] if pins else []
        self.write_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.processes):
            self.stop(name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="ascii")
        return path

    # Starting and stopping

    def command(self, name):
        if name in self.gateways:
            return [self.gateways[name], "run", "--config", str(self.folder / f"{name}.yaml")]
        if name == "upstream" and self.grpc:
            served = ["--no-tls", "--address=127.0.0.1", f"--htdocs={self.folder}/www", "--max-concurrent-streams=1000"]
            return [program("nghttpd"), *served, "--trailer=grpc-status: 0", str(self.upstream_port)]
        if name == "upstream" or name.startswith("nginx"):
            return [nginx_binary(), "-e", str(self.folder / "start.log"), "-c", str(self.folder / f"{name}.conf")]
        binary = self.binaries[name]
        path = str(self.folder / {"haproxy": "haproxy.cfg", "envoy": "envoy.yaml", "caddy": "Caddyfile"}.get(name, ""))
        return {
            "haproxy": [binary, "-f", path],
            "envoy": [binary, "-c", path, "--concurrency", str(self.workers), "-l", "error", "--disable-hot-restart"],
            "caddy": [binary, "run", "--config", path, "--adapter", "caddyfile"],
            "mitmproxy": [binary, "--quiet", "--set", f"confdir={self.folder}/mitmproxy", *self.mitmproxy_options()],
        }[name]

    def mitmproxy_options(self):
        settings = {
            "listen_host": "127.0.0.1",
            "listen_port": self.ports.get("mitmproxy", 0),
            "ssl_verify_upstream_trusted_ca": f"{self.folder}/ca.pem",
            "modify_headers": f"/~q/Authorization/Bearer {TOKEN}",
            "http2": "false",
            "stream_large_bodies": "1",
        }
        options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        return ["--mode", f"reverse:{self.scheme}://localhost:{self.upstream_port}", *options]

    def start(self, name, more=None):
        """`more` is for the environment of a gateway."""
        pin = self.pin_load if name == "upstream" else self.pin_proxy
        libraries = f"{DEBIAN}/usr/lib/x86_64-linux-gnu"
        surroundings = os.environ | {"GOMAXPROCS": str(self.workers), "LD_LIBRARY_PATH": libraries, "HOME": str(self.folder)}
        if name in self.gateways:
            surroundings = os.environ | {"CLIENT_SECRET": "bench"} | (more or {})
        output = self.folder / f"{name}.out"
        with open(output, "wb") as log:
            process = subprocess.Popen(pin + self.command(name), stdout=log, stderr=log, env=surroundings)
        self.processes[name] = process
        port = self.upstream_port if name == "upstream" else self.ports[name]
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return process.pid
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{name} does not listen:\n{output.read_text(errors='replace')}") from None
                time.sleep(0.001)

    def stop(self, name):
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def start_anew(self, names, warm):
        """Restarts the upstream and these proxies and sends each some load, `warm(port)`; process and port by name.

        How a process lies in memory is drawn once at its start and is worth several percent, so each round needs a start.
        """
        for name in list(self.processes):
            self.stop(name)
        self.start("upstream")
        served = {name: (self.start(name), self.ports[name]) for name in names}
        for _, port in served.values():
            warm(port)
        return served

    # Configurations

    def write_all(self):
        self.certificates()
        (self.folder / "www").mkdir()
        for name, size in (("64k", 65536), ("10m", 10485760), ("100m", 104857600)):
            (self.folder / "www" / name).write_bytes(os.urandom(size))
        (self.folder / "www" / "message").write_bytes(load.MESSAGE)
        self.folder.chmod(0o755)
        self.write_upstream()
        self.write_nginx()
        self.write_haproxy()
        self.write_envoy()
        self.write_caddy()
        for name in self.gateways:
            self.write_gateway(name)

    def certificates(self):
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        ca, ca_key = self.folder / "ca.pem", self.folder / "ca-key.pem"
        run_quietly("openssl", "req", "-x509", *curve, "-keyout", ca_key, "-out", ca, "-days", 2, "-subj", "/CN=bench CA")
        request = ("-keyout", self.folder / "key.pem", "-out", self.folder / "leaf.csr", "-subj", "/CN=upstream.test")
        run_quietly("openssl", "req", *curve, *request)
        extensions = self.write("leaf.ext", "subjectAltName=DNS:upstream.test,DNS:localhost\nextendedKeyUsage=serverAuth\n")
        signing = ("-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-extfile", extensions, "-days", 2)
        run_quietly("openssl", "x509", "-req", "-in", self.folder / "leaf.csr", *signing, "-out", self.folder / "cert.pem")

    def write_configuration(self, name, workers, http):
        """Of an nginx: the upstream is one, too."""
        user = "user root;" if os.getuid() == 0 else ""
        temporary = " ".join(
            f"{kind}_temp_path {self.folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        self.write(
            f"{name}.conf",
            f"""
            {user} worker_processes {workers}; daemon off; pid {self.folder}/{name}.pid; error_log {self.folder}/{name}.log;
            events {{ worker_connections 8192; }}
            http {{
              {temporary} access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; client_max_body_size 64m;
              {http}
            }}""",
        )

    def write_upstream(self):
        items = ", ".join(f'{{"id": {number}, "name": "item-{number:04}", "ok": true}}' for number in range(23))
        self.write_configuration(
            "upstream",
            1,
            f"""sendfile on; tcp_nopush on; default_type application/json; map_hash_bucket_size 128;
              map $http_authorization $welcome {{ default 0; "Bearer {TOKEN}" 1; }}
              server {{
                listen 127.0.0.1:{self.upstream_port} {"ssl" if self.tls else ""} {"http2" if self.http2_upstream else ""} backlog=4096;
                ssl_certificate {self.folder}/cert.pem; ssl_certificate_key {self.folder}/key.pem; ssl_protocols TLSv1.3;
                if ($welcome = 0) {{ return 401 "not welcome"; }}
                location = /json {{ return 200 '{{"items": [{items}]}}'; }}
                location = /chunked {{ alias {self.folder}/www/64k; sub_filter_types *; sub_filter nowhere there; }}
                location / {{ root {self.folder}/www; }}
              }}""",
        )

    def write_nginx(self, name="nginx", prefixes=("",)):
        """Prefixes are stripped, as the gateway strips those of its routes."""
        port = self.ports.setdefault(name, free_port())
        locations = "\n".join(
            f"""location {prefix}/ {{
                  proxy_pass {self.scheme}://up{prefix and "/"}; proxy_http_version 1.1; proxy_set_header Connection "";
                  proxy_set_header Host 127.0.0.1:{self.upstream_port}; proxy_set_header Authorization "Bearer {TOKEN}";
                  proxy_ssl_protocols TLSv1.3; proxy_ssl_session_reuse on; proxy_ssl_verify on; proxy_ssl_server_name on;
                  proxy_ssl_trusted_certificate {self.folder}/ca.pem; proxy_ssl_name upstream.test;
                }}"""
            for prefix in prefixes
        )
        self.write_configuration(
            name,
            self.workers,
            f"""proxy_buffers 16 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 128k; proxy_max_temp_file_size 0;
              upstream up {{ server 127.0.0.1:{self.upstream_port}; keepalive 512; keepalive_requests 1000000000; }}
              server {{
                listen 127.0.0.1:{port} {"http2" if self.http2_clients else ""} {"ssl" if self.tls_clients else ""} backlog=4096;
                ssl_certificate {self.folder}/cert.pem; ssl_certificate_key {self.folder}/key.pem; ssl_protocols TLSv1.3;
                http2_max_concurrent_streams 256;
                {locations}
              }}""",
        )

    def write_haproxy(self):
        secured = f"ssl verify required ca-file {self.folder}/ca.pem verifyhost upstream.test sni str(upstream.test)"
        self.write(
            "haproxy.cfg",
            f"""global
  nbthread {self.workers}
  maxconn 8192
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  http-reuse always
frontend f
  bind 127.0.0.1:{self.ports.get("haproxy", 0)}{" proto h2" if self.http2_clients else ""}
  default_backend b
backend b
  http-request set-header Authorization "Bearer {TOKEN}"
  http-request set-header Host 127.0.0.1:{self.upstream_port}
  server s 127.0.0.1:{self.upstream_port} {secured if self.tls else ""}{" proto h2" if self.http2_upstream else ""}
""",
        )

    def write_caddy(self):
        secured = f"tls_trusted_ca_certs {self.folder}/ca.pem\n      tls_server_name upstream.test"
        self.write(
            "Caddyfile",
            f"""{{
  admin off
  auto_https off
  log {{
    level ERROR
  }}
}}
http://127.0.0.1:{self.ports.get("caddy", 0)} {{
  bind 127.0.0.1
  reverse_proxy {self.scheme}://127.0.0.1:{self.upstream_port} {{
    header_up Authorization "Bearer {TOKEN}"
    header_up Host 127.0.0.1:{self.upstream_port}
    transport http {{
      keepalive 600s
      keepalive_idle_conns 512
      keepalive_idle_conns_per_host 512
      {secured if self.tls else ""}
    }}
  }}
}}
""",
        )

    def write_envoy(self):
        types = "type.googleapis.com/envoy.extensions"
        secured = f"""
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": {types}.transport_sockets.tls.v3.UpstreamTlsContext
        sni: upstream.test
        common_tls_context:
          tls_params: {{tls_minimum_protocol_version: TLSv1_3, tls_maximum_protocol_version: TLSv1_3}}
          validation_context: {{trusted_ca: {{filename: {self.folder}/ca.pem}}}}"""
        http2 = f"""
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": {types}.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}"""
        address = "{address: {socket_address: {address: 127.0.0.1, port_value: %d}}}" % self.upstream_port
        self.write(
            "envoy.yaml",
            f"""static_resources:
  secrets: [{{name: token, generic_secret: {{secret: {{inline_string: "Bearer {TOKEN}"}}}}}}]
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {self.ports.get("envoy", 0)}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": {types}.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: i
          codec_type: {"HTTP2" if self.http2_clients else "HTTP1"}
          generate_request_id: false
          route_config:
            virtual_hosts:
            - name: v
              domains: ["*"]
              routes:
              - match: {{prefix: "/"}}
                route: {{cluster: up, host_rewrite_literal: "127.0.0.1:{self.upstream_port}", timeout: 0s}}
          http_filters:
          - name: envoy.filters.http.credential_injector
            typed_config:
              "@type": {types}.filters.http.credential_injector.v3.CredentialInjector
              overwrite: true
              credential:
                name: envoy.http.injected_credentials.generic
                typed_config:
                  "@type": {types}.http.injected_credentials.generic.v3.Generic
                  credential: {{name: token}}
                  header: Authorization
          - name: envoy.filters.http.router
            typed_config: {{"@type": {types}.filters.http.router.v3.Router}}
  clusters:
  - name: up
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: {{thresholds: [{{max_connections: 8192, max_pending_requests: 8192, max_requests: 8192}}]}}
    load_assignment: {{cluster_name: up, endpoints: [{{lb_endpoints: [{{endpoint: {address}}}]}}]}}{secured if self.tls else ""}{http2 if self.http2_upstream else ""}
""",
        )

    def write_gateway(self, name, credentials="", routes=None):
        """Clients are known by their tokens. Unless told otherwise there are two routes, with rules of who may do what."""
        secured = f"tls: {{ca: {self.folder}/ca.pem, server_name: upstream.test}}" if self.tls else ""
        rules = "clients: [wrk], allow: [{methods: [GET, POST], path: /**}]"
        first, second = ("default: true", "upstream_path: /other") if self.tls_clients else ("path: /", "path: /other")
        routes = routes or f"""bench: {{match: {{{first}}}, auth: {{strategy: bearer, token: "{TOKEN}"}}, {rules}, TO}}
  other: {{match: {{{second}}}, auth: {{strategy: bearer, token: "{TOKEN}"}}, {rules}, TO}}"""
        host, listener = ("localhost", ", tls: {ca: local}") if self.tls_clients else ("127.0.0.1", "")
        target = f"upstream: '{self.scheme}://{host}:{self.upstream_port}'" + (f", {secured}" if secured else "")
        target += ", protocol: http2" if self.http2_upstream else ""
        self.write(
            f"{name}.yaml",
            f"""version: 1
state_directory: {self.folder}/state-{name}
workers: {self.workers}
listeners:
  proxy: [{{address: "127.0.0.1:{self.ports[name]}"{listener}}}]
  admin: {{address: "127.0.0.1:{free_port()}"}}
access: {{clients: {{wrk: {{token: {load.CLIENT_TOKEN}}}}}}}
{credentials}
routes:
  {routes.replace("TO", target)}
""",
        )

"""nginx and the gateway in front of the same upstream, in turn, in one run: what matters is the ratio.

Both inject the same header; the upstream (nginx) refuses a request without exactly that header. Printed for each: CPU
microseconds per request of the proxy's own threads, requests per second, latency, peak memory. With one worker the proxy is
pinned to CPU 0, load and upstream to CPU 1.

Usage: side_by_side.py [--gateway PATH] [--rounds 3] [--seconds 4] [--workers 1] [--scenarios c1,c32,c256,64k] [--tls]
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOKEN = "0123456789abcdef0123456789abcdef01234567"
# Connections and path of the load.
SCENARIOS = {"c1": (1, "/json"), "c32": (32, "/json"), "c256": (256, "/json"), "64k": (32, "/64k"), "10m": (4, "/10m")}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def nginx_binary():
    return shutil.which("nginx") or str(ROOT / ".build/debian/usr/sbin/nginx")


def run_quietly(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.folder = pathlib.Path(folder)
        self.scheme = "https" if options.tls else "http"
        self.upstream_port = free_port()
        self.ports = {"nginx": free_port()} | {name: free_port() for name in options.gateways}
        pin = options.workers == 1 and shutil.which("taskset")
        self.pin_proxy = ["taskset", "-c", "0"] if pin else []
        self.pin_load = ["taskset", "-c", "1"] if pin else []

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="ascii")
        return path

    def certificates(self):
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        ca, ca_key = self.folder / "ca.pem", self.folder / "ca-key.pem"
        run_quietly("openssl", "req", "-x509", *curve, "-keyout", ca_key, "-out", ca, "-days", 2, "-subj", "/CN=bench CA")
        request = ("-keyout", self.folder / "key.pem", "-out", self.folder / "leaf.csr", "-subj", "/CN=upstream.test")
        run_quietly("openssl", "req", *curve, *request)
        extensions = self.write("leaf.ext", "subjectAltName=DNS:upstream.test\nextendedKeyUsage=serverAuth\n")
        signing = ("-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-extfile", extensions, "-days", 2)
        run_quietly("openssl", "x509", "-req", "-in", self.folder / "leaf.csr", *signing, "-out", self.folder / "cert.pem")

    def configurations(self):
        self.certificates()
        (self.folder / "www").mkdir()
        for name, size in (("64k", 65536), ("10m", 10485760)):
            (self.folder / "www" / name).write_bytes(os.urandom(size))
        self.folder.chmod(0o755)
        user = "user root;" if os.getuid() == 0 else ""
        temporary = " ".join(
            f"{kind}_temp_path {self.folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        common = f"{temporary} access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; client_max_body_size 64m;"
        items = ", ".join(f'{{"id": {number}, "name": "item-{number:04}", "ok": true}}' for number in range(23))
        self.write(
            "upstream.conf",
            f"""
            {user} worker_processes 1; daemon off; pid {self.folder}/upstream.pid; error_log {self.folder}/upstream.log;
            events {{ worker_connections 8192; }}
            http {{
              {common} sendfile on; tcp_nopush on; default_type application/json; map_hash_bucket_size 128;
              map $http_authorization $welcome {{ default 0; "Bearer {TOKEN}" 1; }}
              server {{
                listen 127.0.0.1:{self.upstream_port} {"ssl" if self.options.tls else ""} backlog=4096;
                ssl_certificate {self.folder}/cert.pem; ssl_certificate_key {self.folder}/key.pem; ssl_protocols TLSv1.3;
                if ($welcome = 0) {{ return 401 "not welcome"; }}
                location = /json {{ return 200 '{{"items": [{items}]}}'; }}
                location / {{ root {self.folder}/www; }}
              }}
            }}""",
        )
        self.write(
            "nginx.conf",
            f"""
            {user} worker_processes {self.options.workers}; daemon off; pid {self.folder}/nginx.pid;
            error_log {self.folder}/nginx.log;
            events {{ worker_connections 8192; }}
            http {{
              {common} proxy_buffers 16 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 128k; proxy_max_temp_file_size 0;
              upstream up {{ server 127.0.0.1:{self.upstream_port}; keepalive 512; keepalive_requests 1000000000; }}
              server {{
                listen 127.0.0.1:{self.ports["nginx"]} backlog=4096;
                location / {{
                  proxy_pass {self.scheme}://up; proxy_http_version 1.1; proxy_set_header Connection "";
                  proxy_set_header Host 127.0.0.1:{self.upstream_port}; proxy_set_header Authorization "Bearer {TOKEN}";
                  proxy_ssl_protocols TLSv1.3; proxy_ssl_session_reuse on; proxy_ssl_verify on; proxy_ssl_server_name on;
                  proxy_ssl_trusted_certificate {self.folder}/ca.pem; proxy_ssl_name upstream.test;
                }}
              }}
            }}""",
        )
        tls = f"tls: {{ca: {self.folder}/ca.pem, server_name: upstream.test}}" if self.options.tls else ""
        for name in self.options.gateways:
            self.gateway_configuration(name, tls)

    def gateway_configuration(self, name, tls):
        self.write(
            f"{name}.yaml",
            f"""version: 1
state_directory: {self.folder}/state-{name}
workers: {self.options.workers}
listeners:
  proxy: [{{address: 127.0.0.1:{self.ports[name]}}}]
  admin: {{address: 127.0.0.1:{free_port()}}}
routes:
  bench:
    upstream: {self.scheme}://127.0.0.1:{self.upstream_port}
    match: {{path: /}}
    auth: {{strategy: bearer, token: "{TOKEN}"}}
    {tls}
""",
        )

    def command(self, name):
        if name in self.options.gateways:
            return [self.options.gateways[name], "run", "--config", str(self.folder / f"{name}.yaml")]
        return [nginx_binary(), "-e", str(self.folder / "start.log"), "-c", str(self.folder / f"{name}.conf")]

    def start(self, name, port, pin):
        with open(self.folder / f"{name}.out", "wb") as log:
            process = subprocess.Popen(pin + self.command(name), stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return process
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    raise SystemExit(f"{name} does not listen:\n{(self.folder / f'{name}.out').read_text()}") from None
                time.sleep(0.05)

    def load(self, port, connections, path, seconds):
        # The token that the client brings is to be replaced.
        fields = ["-H", "Authorization: Bearer brought-by-the-client"]
        words = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "--latency", *fields]
        text = subprocess.run(
            [*self.pin_load, "wrk", *words, f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True
        ).stdout
        units = {"us": 1, "ms": 1e3, "s": 1e6}

        def latency(share):
            found = re.search(rf"(?m)^\s+{share}%\s+([\d.]+)(us|ms|s)", text)
            return float(found[1]) * units[found[2]]

        failures = re.findall(r"Non-2xx or 3xx responses: \d+|Socket errors: .*", text)
        if failures:
            raise SystemExit(f"not every request was answered well: {failures}")
        count = int(re.search(r"(\d+) requests in", text)[1])
        rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])
        return {"count": count, "rate": rate, "p50": latency(50), "p99": latency(99)}

    def measure(self, name, results):
        process = self.start(name, self.ports[name], self.pin_proxy)
        try:
            self.load(self.ports[name], 32, "/json", 1)
            for scenario in self.options.scenarios:
                connections, path = SCENARIOS[scenario]
                before = cpu_seconds(process.pid)
                figures = self.load(self.ports[name], connections, path, self.options.seconds)
                figures["cpu"] = (cpu_seconds(process.pid) - before) / figures["count"] * 1e6
                figures["memory"] = peak_mib(process.pid)
                results.setdefault((scenario, name), []).append(figures)
                print(f"{scenario:5} {name:8} {line_of(figures)}", file=sys.stderr, flush=True)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self):
        self.configurations()
        results = {}
        upstream = self.start("upstream", self.upstream_port, self.pin_load)
        try:
            for _ in range(self.options.rounds):
                for name in self.ports:
                    self.measure(name, results)
        finally:
            upstream.terminate()
            upstream.wait()
        return results


def family(root):
    found = [root]
    for pid in found:
        found += map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return found


def cpu_seconds(root):
    """Of all threads, in nanosecond resolution."""
    paths = (path for pid in family(root) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(path.read_text().split()[0]) for path in paths) / 1e9


def peak_mib(root):
    texts = (pathlib.Path(f"/proc/{pid}/status").read_text() for pid in family(root))
    return sum(int(re.search(r"VmHWM:\s+(\d+)", text)[1]) for text in texts) / 1024


def line_of(figures):
    return (
        f"{figures['cpu']:9.1f} us/req {figures['rate']:9.0f} req/s  p50 {figures['p50']:6.0f} us  p99 {figures['p99']:6.0f} us"
        f"  peak {figures['memory']:5.1f} MiB"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", action="append", help="PATH, or NAME=PATH; several are compared with each other")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--scenarios", type=lambda text: text.split(","), default=["c1", "c32", "c256"])
    parser.add_argument("--tls", action="store_true", help="TLS 1.3 to the upstream")
    options = parser.parse_args()
    binaries = options.gateway or [str(ROOT / ".build/release/authgateway")]
    options.gateways = dict(text.split("=") if "=" in text else ("gateway", text) for text in binaries)
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as folder:
        bench = Bench(options, folder)
        results = bench.run()
    print(f"\nMedians of {options.rounds}, {options.workers} worker(s), upstream {'TLS 1.3' if options.tls else 'plaintext'}")
    for scenario in options.scenarios:
        base = None
        for name in bench.ports:
            rows = results[scenario, name]
            figures = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
            base = base or figures["cpu"]
            print(f"{scenario:5} {name:8} {line_of(figures)}  {figures['cpu'] / base:5.2f} of nginx's CPU")


main()

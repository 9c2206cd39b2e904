"""What it costs that another proxy asks the gateway, in one run: what matters is the ratio.

CPU microseconds per request, of the processes of each row together:

- `nginx 204`: nginx answers `return 204` with one added field. The bar of the gateway's answer is 1.2 of it.
- `authz`: the gateway answers which fields a request needs.
- `injector`: Envoy adds a fixed token (`credential_injector`) and forwards the request.
- `envoy`: Envoy with `authgateway export envoy`, which asks the gateway. `envoy+authz` counts the gateway, too.

Usage: authz_side_by_side.py [--gateway PATH] [--rounds 6] [--seconds 4] [--connections 32]
"""

import argparse
import os
import statistics
import subprocess
import tempfile

import load
import proxies

#: Has the length that tokens need, and opens nothing but this run.
ENGINE_TOKEN = "bench-engine-token-0123456789"
#: What nginx sends when it asks; the client's token is there, too.
ASKED = (
    f"X-Gw-Engine-Token: {ENGINE_TOKEN}",
    "X-Original-Method: GET",
    "X-Original-URI: /bench/json",
    "X-Original-Host: shop.example",
)


class AuthzStage(proxies.Stage):
    """The gateway with two engines, nginx with a fixed answer, and both Envoys."""

    def write_all(self):
        self.answer_port, self.asked, self.asked_by_envoy, self.exported_port = (proxies.free_port() for _ in range(4))
        super().write_all()
        self.ports["nginx-204"] = self.answer_port
        self.write_configuration(
            "nginx-204",
            1,
            f"""server {{
                  listen 127.0.0.1:{self.answer_port} backlog=4096;
                  location / {{ add_header Authorization "Bearer {proxies.TOKEN}"; return 204; }}
                }}""",
        )

    def write_gateway(self, name, credentials="", routes=None):
        engines = "".join(
            f"""
    - {{address: "127.0.0.1:{port}", engine: {engine}, contract: {engine}, token: {ENGINE_TOKEN}}}"""
            for engine, port in (("nginx", self.asked), ("envoy", self.asked_by_envoy))
        )
        self.write(
            f"{name}.yaml",
            f"""version: 1
state_directory: {self.folder}/state-{name}
workers: 1
listeners:
  proxy: [{{address: "127.0.0.1:{self.ports[name]}"}}]
  admin: {{address: "127.0.0.1:{proxies.free_port()}"}}
  authz:{engines}
access: {{clients: {{wrk: {{token: {load.CLIENT_TOKEN}}}}}}}
routes:
  bench:
    upstream: http://127.0.0.1:{self.upstream_port}
    auth: {{strategy: bearer, token: "{proxies.TOKEN}"}}
    clients: [wrk]
    allow: [{{methods: [GET, POST], path: /**}}]
    authz: [nginx, envoy]
""",
        )

    def start_exported(self, gateway):
        """Envoy with what the gateway prints."""
        words = [gateway, "export", "envoy", "--config", str(self.folder / "gateway.yaml")]
        words += ["--listen", f"127.0.0.1:{self.exported_port}"]
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        self.write("exported.yaml", printed)
        self.ports["exported"] = self.exported_port
        os.environ["AUTHGATEWAY_ENGINE_TOKEN"] = ENGINE_TOKEN
        return self.start("exported")

    def command(self, name):
        if name != "exported":
            return super().command(name)
        path = str(self.folder / "exported.yaml")
        return [self.binaries["envoy"], "-c", path, "--concurrency", "1", "-l", "error", "--disable-hot-restart"]


def measure(pids, port, path, fields, options, pin):
    """CPU of all these processes for each request."""
    before = sum(map(load.cpu_seconds, pids))
    figures = load.wrk(port, options.connections, path, options.seconds, pin, fields=fields)
    figures["cpu"] = (sum(map(load.cpu_seconds, pids)) - before) / figures["count"] * 1e6
    return figures


def started(stage, options):
    """Everybody anew and warm: what `measure` takes, by name."""
    names = ["gateway", "nginx-204", "envoy"]
    served = stage.start_anew(names, lambda port: None)
    gateway, answers, injector = (served[name][0] for name in names)
    exported = stage.start_exported(options.gateway)
    turns = {
        "nginx 204": ([answers], stage.answer_port, "/bench/json", ASKED),
        "authz": ([gateway], stage.asked, "/bench/json", ASKED),
        "injector": ([injector], stage.ports["envoy"], "/json", ()),
        "envoy": ([exported], stage.exported_port, "/bench/json", ()),
        "envoy+authz": ([exported, gateway], stage.exported_port, "/bench/json", ()),
    }
    for _, port, path, fields in turns.values():
        load.wrk(port, options.connections, path, 1, stage.pin_load, fields=fields)
    return turns


def compare(options):
    """Rows by name, one for each round."""
    rows = {}
    with tempfile.TemporaryDirectory(prefix="authz-side-by-side-") as folder:
        with AuthzStage(folder, {"gateway": options.gateway}) as stage:
            if "envoy" not in stage.binaries:
                raise SystemExit("there is no Envoy: run scripts/bench once, which unpacks it")
            for number in range(options.rounds):
                turns = started(stage, options)
                for name in turns if number % 2 == 0 else reversed(turns):
                    rows.setdefault(name, []).append(measure(*turns[name], options, stage.pin_load))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", default=str(proxies.ROOT / ".build/release/authgateway"))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--connections", type=int, default=32)
    options = parser.parse_args()
    options.gateway = os.path.abspath(options.gateway)
    rows = compare(options)
    bases = {"authz": "nginx 204", "envoy": "injector", "envoy+authz": "injector"}
    for name, rounds in rows.items():
        middle = {key: statistics.median(row[key] for row in rounds) for key in ("cpu", "rate", "p50", "p99")}
        base = bases.get(name)
        ratio = base and statistics.median(row["cpu"] / other["cpu"] for row, other in zip(rounds, rows[base], strict=True))
        print(
            f"{name:12} {middle['cpu']:7.1f} us/req {middle['rate']:8.0f} req/s  p50 {middle['p50']:6.0f} us"
            f"  p99 {middle['p99']:6.0f} us" + (f"  CPU {ratio:.2f} of {base}" if base else "")
        )


if __name__ == "__main__":
    main()

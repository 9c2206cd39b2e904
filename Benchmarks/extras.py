"""Figures that no peer is needed for: large configurations, paced latency, idle connections, a cold start."""

import functools
import http.server
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import threading
import time

import load
import proxies
from side_by_side import between, likely

ROTATION = """
local count, number = {count}, 0
request = function()
  number = number % count + 1
  return wrk.format("GET", "/r" .. number .. "/json")
end
"""


def routes(count, credentials):
    lines = [
        f"r{number}: {{match: {{path: /r{number}}}, auth: c{number % credentials}, TO}}" for number in range(1, count + 1)
    ]
    return "\n  ".join(lines)


def tokens(count):
    lines = [f'  c{number}: {{strategy: bearer, token: "{proxies.TOKEN}"}}' for number in range(count)]
    return "credentials:\n" + "\n".join(lines)


def large_configuration(binary, rounds=6, seconds=6, used=1000):
    """CPU per request with 1,000 routes and 200 credentials, so many of them used in turn, over that with one of each; the same
    of nginx with locations; and the gateway's over nginx's, both with 1,000."""
    with tempfile.TemporaryDirectory(prefix="large-") as folder:
        with proxies.Stage(folder, {"one": binary, "many": binary}) as stage:
            stage.write_gateway("one", tokens(1), routes(1, 1))
            stage.write_gateway("many", tokens(200), routes(1000, 200))
            stage.write_nginx("nginx-one", ["/r1"])
            stage.write_nginx("nginx-many", [f"/r{number}" for number in range(1, 1001)])
            stage.start("upstream")
            served, scripts = {}, {}
            for name, count in (("one", 1), ("many", used), ("nginx-one", 1), ("nginx-many", used)):
                served[name] = (stage.start(name), stage.ports[name])
                rotation = ROTATION.format(count=count)
                scripts[name] = stage.write(f"{name}.lua", load.TURNS.read_text(encoding="ascii") + rotation)
                # The first use of each credential on each route is written to the audit log, once: not what is measured here.
                first = stage.write(f"{name}-first.lua", rotation)
                load.wrk(stage.ports[name], 32, "", 6, stage.pin_load, first)
            costs = [load.in_turn(served, "c32", seconds, stage.pin_load, scripts) for _ in range(rounds)]

            def over(first, second):
                return in_words(cost[first]["cpu"] / cost[second]["cpu"] for cost in costs)

            return over("many", "one"), over("nginx-many", "nginx-one"), over("many", "nginx-many")


def latency(binary, rounds=8, rate=1000, seconds=2):
    """What the gateway adds to p50 and p99 of a paced load, and its p99 over that of nginx in its place.

    In short slices, as everywhere: one pause of the machine, 20 ms of it, is the p99 of all that it falls into.
    """
    with tempfile.TemporaryDirectory(prefix="paced-") as folder:
        with proxies.Stage(folder, {"gateway": binary}) as stage:
            for name in ("upstream", "nginx", "gateway"):
                stage.start(name)
            ports = {"direct": stage.upstream_port, "through": stage.ports["gateway"], "nginx": stage.ports["nginx"]}
            added, ratios = [], []
            for number in range(rounds):
                row = {}
                for name in ports if number % 2 == 0 else reversed(ports):
                    token = proxies.TOKEN if name == "direct" else load.CLIENT_TOKEN
                    measure = functools.partial(load.paced, ports[name], rate, seconds, token)
                    row[name] = load.undisturbed(measure)
                direct, through, nginx = row["direct"], row["through"], row["nginx"]
                added.append([through[share] - direct[share] for share in ("p50", "p99")])
                ratios.append(through["p99"] / nginx["p99"])
            p50, p99 = (in_words((value / 1e3 for value in column), "ms") for column in zip(*added, strict=True))
            return {"added_p50": p50, "added_p99": p99, "p99_ratio": in_words(ratios)}


def allocations(binary, seconds=3):
    """How often the program asks for memory for each request."""
    source = pathlib.Path(__file__).with_name("Micro") / "CAllocationCount"
    with tempfile.TemporaryDirectory(prefix="allocations-") as folder:
        library, count = f"{folder}/count.so", pathlib.Path(folder, "count")
        words = ["-shared", "-fPIC", "-O2", "-fno-builtin", f"-I{source}/include", f"{source}/allocation_count.c"]
        proxies.run_quietly("clang", *words, "-o", library)
        count.write_bytes(bytes(8))
        with proxies.Stage(folder, {"gateway": binary}) as stage:
            stage.start("upstream")
            stage.start("gateway", {"LD_PRELOAD": library, "ALLOCATION_COUNT": str(count)})
            load.wrk(stage.ports["gateway"], 32, "/json", 1, stage.pin_load)
            before = int.from_bytes(count.read_bytes(), "little")
            if before == 0:
                raise SystemExit("the program's allocations are not counted")
            requests = load.wrk(stage.ports["gateway"], 32, "/json", seconds, stage.pin_load)["count"]
            return (int.from_bytes(count.read_bytes(), "little") - before) / requests


def idle_connections(binary, count=8000):
    with tempfile.TemporaryDirectory(prefix="idle-") as folder:
        with proxies.Stage(folder, {"gateway": binary}) as stage:
            stage.start("upstream")
            pid = stage.start("gateway")
            return load.idle_memory(pid, stage.ports["gateway"], count)


def cold_start(binary, rounds=5):
    """Milliseconds from the start of the process to the first proxied answer, with a token in the store."""
    with tempfile.TemporaryDirectory(prefix="cold-") as folder:
        with proxies.Stage(folder, {"gateway": binary}) as stage, TokenServer(lifetime=3600) as server:
            stage.write_gateway("gateway", server.credentials, "bench: {match: {path: /}, auth: service, TO}")
            stage.start("upstream")
            times = []
            for _ in range(rounds + 1):
                start = time.perf_counter()
                stage.start("gateway")
                load.paced(stage.ports["gateway"], 1, 1)
                times.append((time.perf_counter() - start) * 1e3)
                stage.stop("gateway")
            if server.count != 1:
                raise SystemExit(f"{server.count} tokens were fetched where one is in the store after the first start")
            return statistics.median(times[1:])


def renewal(binary, rounds=30, seconds=2):
    """p99 under load with a token that is renewed all the time at a slow server, over that with one that stays.

    A renewal takes half a second of the second and a half from one to the next, and the loads take turns whose phase differs from
    theirs: a third of the time of the one load falls into renewals.
    """
    with tempfile.TemporaryDirectory(prefix="renewal-") as folder:
        with (
            proxies.Stage(folder, {"still": binary, "renewing": binary}) as stage,
            TokenServer(lifetime=3600) as still,
            TokenServer(lifetime=2, delay=0.5) as renewing,
        ):
            served = {}
            for name, server in (("still", still), ("renewing", renewing)):
                stage.write_gateway(name, server.credentials, "bench: {match: {path: /}, auth: service, TO}")
            stage.start("upstream")
            for name in ("still", "renewing"):
                served[name] = (stage.start(name), stage.ports[name])
                load.wrk(stage.ports[name], 32, "/json", 1, stage.pin_load)
            before, start = renewing.count, time.monotonic()
            ratios = []
            for number in range(rounds):
                turns = dict(served.items() if number % 2 == 0 else reversed(served.items()))
                figures = load.in_turn(turns, "c32", seconds, stage.pin_load)
                ratios.append(figures["renewing"]["p99"] / figures["still"]["p99"])
            renewals, due = renewing.count - before, (time.monotonic() - start) / 2
            if renewals < due or still.count > 1:
                raise SystemExit(f"{renewals} renewals where {due:.0f} were due, {still.count} where none was")
            return in_words(ratios)


def in_words(values, unit=""):
    """Their median, and within which limits it lies."""
    values = list(values)
    return f"{statistics.median(values):.3f}{unit and ' '}{unit} ({between(likely(values))})"


class TokenServer:
    """Grants one token again and again, which the upstream knows; every answer takes `delay` seconds."""

    def __init__(self, lifetime, delay=0.0):
        self.lifetime, self.delay, self.count = lifetime, delay, 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), TokenEndpoint)
        self.server.owner = self

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()

    @property
    def credentials(self):
        return f"""credentials:
  service:
    strategy: oauth2_client_credentials
    token_url: http://127.0.0.1:{self.server.server_port}/token
    client_id: bench
    client_secret: {{env: CLIENT_SECRET}}"""


class TokenEndpoint(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        owner = self.server.owner
        owner.count += 1
        time.sleep(owner.delay)
        answer = {"access_token": proxies.TOKEN, "token_type": "Bearer", "expires_in": owner.lifetime}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def micro_benchmarks():
    """Name, time and allocations of each; nothing where they were not built."""
    binary = proxies.ROOT / ".build/release/GatewayBenchmarks"
    if not binary.exists():
        return []
    done = subprocess.run([binary], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"a micro-benchmark asks for more memory than it may:\n{done.stdout}{done.stderr}")
    return re.findall(r"(?m)^(.+): (\d+ ns), ([\d.]+) allocations", done.stdout)

"""Every figure of docs/internals/performance.md, measured on this machine in one go and written there.

Usage: report.py [--gateway PATH] [--plain PATH] [--rounds 9] [--only-plain] [--print]
"""

import argparse
import datetime
import os
import re
import subprocess
import time

import extras
import http2
import load
import proxies
from side_by_side import between, compare

#: Under each load in each round. In much less, connections that are opened and first requests would be part of the p99.
SECONDS = 4
ORDER = ["nginx", "haproxy", "envoy", "caddy", "mitmproxy", "gateway"]
#: The release, built without the optimization profile (docs/internals/adr/0021).
PLAIN = "gateway without profile"
PLAIN_TITLE = "Without the optimization profile, one worker"
HEADER = "| load | proxy | CPU µs/request | over nginx | requests/s | p50 µs | p99 µs | over nginx | peak MiB |\n|---|---|---|---|---|---|---|---|---|"
WORDS = {
    "c1": "1 connection",
    "c32": "32 connections",
    "c256": "256 connections",
    "c32p": "32 connections, pauses of 0 to 4 ms",
    "c256p": "256 connections, pauses of 0 to 32 ms",
    "64k": "64 KB bodies, 32 connections",
    "10m": "10 MB bodies, 4 connections",
}


def table(results, scenarios):
    lines = [HEADER]
    for scenario in scenarios:
        for name in [*ORDER, PLAIN]:
            row = results.get((scenario, name))
            if row:
                cpu, p99 = (
                    f"{row[key]:.2f}" + (f" ({between(row[f'{key}_range'])})" if name in ("gateway", PLAIN) else "")
                    for key in ("ratio", "p99_ratio")
                )
                lines.append(
                    f"| {WORDS[scenario]} | {name} | {row['cpu']:.1f} | {cpu} | {row['rate']:,.0f} "
                    f"| {row['p50']:.0f} | {row['p99']:.0f} | {p99} | {row['memory']:.1f} |"
                )
    return "\n".join(lines)


OWN_HEADER = "| load | proxy | CPU µs/request | gateway over proxy | requests/s | latency µs | peak MiB |\n|---|---|---|---|---|---|---|"
OWN_WORDS = {
    "8x32": "8 connections, 32 streams each",
    "8x4": "8 connections, 4 streams each",
    "32x1": "32 connections, 1 stream each",
    "8x4 64k": "64 KB bodies, 8 connections, 4 streams each",
    "1x1 100m": "100 MB bodies, 1 connection, 1 stream",
    "1x10 100m": "100 MB bodies, 1 connection, 10 streams",
    "8x32 grpc": "unary calls, 100 bytes each way, 8 connections, 32 streams each",
    "requests": "32 lasting connections",
    "handshakes": "8 connections, a handshake per request",
}
TLS_TITLE = "TLS clients, TLS upstream, a certificate of the local authority, one worker"


def own_table(results, gateway, rounds):
    """Of loads without turns: what the gateway needs of each peer's CPU time."""
    lines = [
        f"Measured on {datetime.date.today().isoformat()} at commit {commit(gateway)}, one proxy after the other, {rounds} rounds of {SECONDS} s.",
        "",
        OWN_HEADER,
    ]
    for scenario in dict.fromkeys(scenario for scenario, _ in results):
        for name in ORDER:
            row = results.get((scenario, name))
            if row:
                latency = row["mean"] if "mean" in row else row["p50"]
                lines.append(
                    f"| {OWN_WORDS[scenario]} | {name} | {row['cpu']:.1f} | {row['ratio']:.2f} | {row['rate']:,.0f} "
                    f"| {latency:.0f} | {row['memory']:.1f} |"
                )
    return "\n".join(lines)


def own_sections(gateway, rounds):
    """Clients of HTTP/2 and of TLS, of which not every peer has both sides."""
    loads = ["8x32", "8x4", "32x1", "8x4 64k", "1x1 100m", "1x10 100m"]
    one = http2.compare(gateway, loads, ["nginx", "haproxy", "envoy"], rounds, SECONDS)
    both = http2.compare(gateway, loads[:3], ["haproxy", "envoy"], rounds, SECONDS, both=True)
    calls = http2.compare_grpc(gateway, ["haproxy", "envoy"], rounds, SECONDS)
    secured = http2.compare_tls(gateway, ["nginx", "mitmproxy"], rounds, SECONDS)
    yield "HTTP/2 clients, HTTP/1.1 upstream, one worker", own_table(one, gateway, rounds)
    yield "HTTP/2 on both sides, one worker", own_table(both, gateway, rounds)
    yield "gRPC, HTTP/2 on both sides, one worker", own_table(calls, gateway, rounds)
    yield TLS_TITLE, own_table(secured, gateway, rounds)


def version(name, path):
    flag = {"nginx": "-v", "haproxy": "-v", "envoy": "--version", "caddy": "version"}.get(name, "--version")
    done = subprocess.run([path, flag], capture_output=True, text=True, check=False, env=surroundings())
    found = re.search(r"\d+\.\d+\.\d+[^\s/]*", done.stdout + done.stderr)
    return found[0] if found else "of unknown version"


def commit(gateway):
    """The one that the program was built from."""
    done = subprocess.run([gateway, "version", "--json"], capture_output=True, text=True, check=False)
    found = re.search(r'"commit" *: *"([0-9a-f]{8})', done.stdout)
    return found[1] if found else "unknown"


def surroundings():
    return {"LD_LIBRARY_PATH": f"{proxies.DEBIAN}/usr/lib/x86_64-linux-gnu", "HOME": "/nonexistent"}


def envoy_row(*compared):
    ratios = [
        results[scenario, "gateway"]["cpu"] / row["cpu"]
        for results in compared
        for (scenario, name), row in results.items()
        if name == "envoy"
    ]
    return [("CPU per request over Envoy's, highest of all loads", f"{max(ratios):.2f}", "0.45")] if ratios else []


def memory_row(plaintext):
    peak = max(row["memory"] for (scenario, name), row in plaintext.items() if name == "gateway" and "256" in scenario)
    return "peak memory at 256 connections, plaintext upstream", f"{peak:.1f} MiB", "25 MB"


def p99_rows(*compared):
    """A p99 of one load moves by a tenth from run to run; all of them together say more."""
    for words, loads in (("32 and 256 connections without pauses", ("c32", "c256")), ("every load", WORDS)):
        ratios = [
            ratio
            for results in compared
            for (scenario, name), row in results.items()
            if name == "gateway" and scenario in loads
            for ratio in row["p99_ratios"]
        ]
        yield f"p99 over nginx's, all rounds of {words}", extras.in_words(ratios), "1.00"


def extra_rows(binary, rounds):
    for used, words in ((1, "one busy"), (1000, "all busy")):
        own, of_nginx, over_nginx = extras.large_configuration(binary, rounds, used=used)
        yield f"CPU, 1,000 routes and 200 credentials over one, {words}", own, "1.03"
        yield f"CPU, nginx with 1,000 locations over one, {words}", of_nginx, ""
        yield f"CPU, 1,000 routes over nginx with 1,000 locations, {words}", over_nginx, "1.00"
    paced = extras.latency(binary, rounds)
    yield "p50 added at 1,000 requests/s", paced["added_p50"], "0.2 ms"
    yield "p99 added at 1,000 requests/s", paced["added_p99"], "1 ms"
    yield "p99 at 1,000 requests/s over nginx's", paced["p99_ratio"], "1.00"
    yield "p99 with constant renewals over p99 with a lasting token", extras.renewal(binary), "1.00"
    yield "allocations per request", f"{extras.allocations(binary):.2f}", "1.1"
    yield "resident memory, 8,000 idle connections", f"{extras.idle_connections(binary):.0f} MiB", "200 MB"
    yield "start to first proxied answer, token in the store", f"{extras.cold_start(binary):.0f} ms", "100 ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", default=str(proxies.ROOT / ".build/release/authgateway"))
    parser.add_argument("--plain", help="the same program, built without the optimization profile")
    parser.add_argument("--only-plain", action="store_true", help="measure what that costs, and leave the rest of the document as it is")
    parser.add_argument("--rounds", type=int, default=9, help="for nginx and the gateway under each load; a third of that for the others")
    parser.add_argument("--only-own", action="store_true", help="measure clients of HTTP/2 and TLS, and leave the rest as it is")
    parser.add_argument("--print", action="store_true", help="print, do not write the document")
    options = parser.parse_args()
    rounds = options.rounds
    gateway = {"gateway": options.gateway}
    before = os.getloadavg()[0]
    alone = [] if options.only_plain or options.only_own else extras.micro_benchmarks()
    began, stolen = time.monotonic(), load.stolen()
    loads = ["c1", "c32", "c256", "c32p", "c256p"]

    def compared(loads, peers=ORDER, **more):
        return loads, compare(gateway, loads, peers, rounds, SECONDS, **more)

    def without_profile():
        loads = ["c32", "c256"]
        return PLAIN_TITLE, loads, compare({**gateway, PLAIN: options.plain}, loads, ["nginx"], rounds, SECONDS)

    place = proxies.ROOT / "docs/internals/performance.md"
    if options.only_plain:
        title, loads, results = without_profile()
        text = with_section(place.read_text(encoding="utf-8"), title, table(results, loads))
        print(text) if options.print else place.write_text(text, encoding="utf-8")
        return
    if options.only_own:
        text = place.read_text(encoding="utf-8")
        for title, rows in own_sections(options.gateway, max(3, rounds // 2)):
            text = with_section(text, title, rows)
        print(text) if options.print else place.write_text(text, encoding="utf-8")
        return
    sections = [
        ("Plaintext upstream, one worker", *compared(loads)),
        ("TLS 1.3 upstream, one worker", *compared(loads[1:], tls=True)),
        ("Plaintext upstream, two workers", *compared(loads[1:], ["nginx"], workers=2)),
        ("Large bodies, nginx with tuned buffers", *compared(["64k", "10m"], ["nginx"])),
    ]
    measured = [results for _, _, results in sections]
    sections = [(title, table(results, loads)) for title, loads, results in sections]
    sections += own_sections(options.gateway, max(3, rounds // 2))
    rows = [*envoy_row(*measured), memory_row(measured[0]), *p99_rows(*measured), *extra_rows(options.gateway, rounds)]
    if options.plain:
        title, loads, results = without_profile()
        sections.append((title, table(results, loads)))
    taken = (load.stolen() - stolen) / 1e3 / (time.monotonic() - began) / os.cpu_count()
    text = document(sections, rows, alone, options.gateway, rounds, before, taken)
    print(text)
    if not options.print:
        place.write_text(text, encoding="utf-8")


def section(title, rows):
    return ["", f"## {title}", "", rows]


def with_section(text, title, rows):
    """The document with this section in place of the one of that title, or before the further figures."""
    new = "\n".join(section(title, rows))
    text = re.sub(rf"\n## {re.escape(title)}\n.*?(?=\n## )", "", text, flags=re.DOTALL)
    return text.replace("\n## Further figures", f"{new}\n\n## Further figures", 1)


def method(rounds):
    return [
        "`make bench` measures the gateway beside other proxies and writes this page. Compare the ratios: all other figures are of one",
        "machine.",
        "",
        "- All proxies have the same upstream (nginx), and add the same header field. They are loaded in turn, for",
        f"  {load.TURN / 1e3} s each, over connections that stay open.",
        "- With one worker, the proxy has CPU 0. Load generator (wrk) and upstream share CPU 1. CPU time is that of all threads of the",
        "  proxy.",
        f"- In a round, each proxy has {SECONDS} s of load. nginx and the gateway have {rounds} rounds, the others a third of that. Figures are",
        "  medians of the rounds.",
        "- `over nginx` is the ratio to nginx's figure in the column before: the median of the rounds. The range beside it is the",
        "  confidence interval of 95 %. `gateway over proxy` is the ratio of CPU times.",
        "- The gateway has two routes, a client with a token, a rule of methods and paths, usage counts and metrics. The other proxies",
        "  only replace the field.",
        "- The response has 1 KB of JSON, unless the load says something else.",
        "- With pauses, each connection waits a random time before each request, so the proxies have about the same load. Without pauses,",
        "  each proxy has as much load as it can take.",
        "- Peak memory is `VmHWM` of the process, with the pages of its program file.",
        "- Further figures about routes, credentials, renewals and starts have no rules. Their rounds have other lengths. Renewals have 30",
        "  rounds.",
        "",
        "The goal of a figure is what we want to reach on this machine.",
    ]


def document(sections, rows, alone, gateway, rounds, before, taken):
    versions = ", ".join(f"{name} {version(name, path)}" for name, path in proxies.binaries().items())
    parts = [
        "# Performance",
        "",
        *method(rounds),
        "",
        "The run:",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Commit: {commit(gateway)}",
        f"- Machine: {load.machine()}",
        f"- Load average at the start: {before:.1f}. CPU time that the host took meanwhile: {taken:.1%}",
        f"- Versions: authgateway {version('gateway', gateway)}, {versions}",
    ]
    for one in sections:
        parts += section(*one)
    parts += ["", "## Further figures", "", "| what | measured | goal |", "|---|---|---|"]
    parts += [f"| {what} | {value} | {goal} |" for what, value, goal in rows]
    parts += ["", "## Micro-benchmarks", "", "| what | time | allocations |", "|---|---|---|"]
    parts += [f"| {what} | {time} | {count} |" for what, time, count in alone]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    main()

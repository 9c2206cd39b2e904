"""The gateway and its peers in front of the same upstream, in turn, in one run: what matters is the ratio.

Printed for each: CPU microseconds per request of the proxy's own threads, requests per second, latency, peak memory. All
are started anew for each round and loaded in short turns, over connections that stay (load.py), so that a machine that drifts
drifts for all; HAProxy, Envoy and Caddy take part in every third round. With one worker the proxies are pinned to CPU 0, load and
upstream to CPU 1. `make bench` runs report.py, which uses this.

Usage: side_by_side.py [--gateway PATH | --gateway NAME=PATH ...] [--peers nginx,haproxy,envoy,caddy] [--rounds 6]
                       [--seconds 4] [--workers 1] [--scenarios c1,c32,c256,c32p,c256p,64k,10m] [--tls]
"""

import argparse
import math
import statistics
import sys
import tempfile

import load
import proxies


def compare(gateways, scenarios, peers=("nginx",), rounds=6, seconds=4, tls=False, workers=1):
    """The medians of the figures by scenario and name."""
    rows = {}
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as folder:
        with proxies.Stage(folder, gateways, tls, workers) as stage:
            found = [name for name in peers if name in stage.binaries]
            compared = [name for name in found if name == "nginx"] + list(gateways)
            names = compared + [name for name in found if name not in compared]
            for number in range(rounds):
                turns = names if number % 3 == 0 else compared
                turns = turns if number % 2 == 0 else list(reversed(turns))
                turns = stage.start_anew(turns, lambda port: load.wrk(port, 32, "/json", 1, stage.pin_load))
                for scenario in scenarios:
                    for name, figures in load.in_turn(turns, scenario, seconds, stage.pin_load).items():
                        rows.setdefault((scenario, name), []).append(figures)
                        print(f"{scenario:5} {name:8} {line_of(figures)}", file=sys.stderr, flush=True)
    return with_ratios(rows)


def with_ratios(rows):
    """Medians; the ratios to nginx are medians of those of each round."""
    results = {}
    for (scenario, name), rounds in rows.items():
        figures = {key: statistics.median(row[key] for row in rounds) for key in rounds[0]}
        base = rows.get((scenario, "nginx"))
        if base:
            same = base if len(rounds) == len(base) else base[::3]
            for key, of in (("ratio", "cpu"), ("p99_ratio", "p99")):
                ratios = [row[of] / other[of] for row, other in zip(rounds, same, strict=True)]
                figures[f"{key}s"] = ratios
                figures[key], figures[f"{key}_range"] = statistics.median(ratios), likely(ratios)
        results[scenario, name] = figures
    return results


def likely(values):
    """Between which two of the values the median of infinitely many would lie, 95 times in 100 (order statistics).

    With fewer than six it is all of them, and says less.
    """
    ordered = sorted(values)
    left_out = max(0, int((len(ordered) - 1.96 * math.sqrt(len(ordered))) / 2))
    return ordered[left_out], ordered[-1 - left_out]


def line_of(figures):
    ratio = ""
    if "ratio" in figures:
        cpu, p99 = (f"{figures[key]:.2f} ({between(figures[f'{key}_range'])})" for key in ("ratio", "p99_ratio"))
        ratio = f"  of nginx: CPU {cpu}, p99 {p99}"
    return (
        f"{figures['cpu']:9.1f} us/req {figures['rate']:9.0f} req/s  p50 {figures['p50']:6.0f} us  p99 {figures['p99']:6.0f} us"
        f"  peak {figures['memory']:5.1f} MiB{ratio}"
    )


def between(limits):
    return "{:.2f}-{:.2f}".format(*limits)


def words(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", action="append", help="PATH, or NAME=PATH; several are compared with each other")
    parser.add_argument("--peers", type=words, default=["nginx"])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=4, help="under load in each round")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--scenarios", type=words, default=["c1", "c32", "c256"])
    parser.add_argument("--tls", action="store_true", help="TLS 1.3 to the upstream")
    options = parser.parse_args()
    binaries = options.gateway or [str(proxies.ROOT / ".build/release/authgateway")]
    gateways = dict(text.split("=", 1) if "=" in text else ("gateway", text) for text in binaries)
    results = compare(
        gateways, options.scenarios, options.peers, options.rounds, options.seconds, options.tls, options.workers
    )
    print(f"\nMedians of {options.rounds}, {options.workers} worker(s), upstream {'TLS 1.3' if options.tls else 'plaintext'}")
    for scenario, name in sorted(results, key=lambda key: options.scenarios.index(key[0])):
        print(f"{scenario:5} {name:8} {line_of(results[scenario, name])}")


if __name__ == "__main__":
    main()

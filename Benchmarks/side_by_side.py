"""The gateway and its peers in front of the same upstream, in turn, in one run: what matters is the ratio.

Printed for each: CPU microseconds per request of the proxy's own threads, requests per second, latency, peak memory. All
are started once and loaded in short slices, one after the other, so that a machine that drifts drifts for all; nginx, which
the ratios are of, and the gateways are neighbours, and the others have one slice for three of theirs. Where the machine's
host took time from a slice of nginx or a gateway, it is measured again (load.py). With one worker the proxies are pinned to
CPU 0, load and upstream to CPU 1. `make bench` runs report.py, which uses this.

Usage: side_by_side.py [--gateway PATH | --gateway NAME=PATH ...] [--peers nginx,haproxy,envoy,caddy] [--rounds 6]
                       [--seconds 1] [--workers 1] [--scenarios c1,c32,c256,c32p,c256p,64k,10m] [--tls]
"""

import argparse
import functools
import statistics
import sys
import tempfile

import load
import proxies


def compare(gateways, scenarios, peers=("nginx",), rounds=6, seconds=1, tls=False, workers=1):
    """The medians of the figures by scenario and name."""
    rows = {}
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as folder:
        with proxies.Stage(folder, gateways, tls, workers) as stage:
            found = [name for name in peers if name in stage.binaries]
            compared = [name for name in found if name == "nginx"] + list(gateways)
            names = compared + [name for name in found if name not in compared]
            stage.start("upstream")
            pids = {name: stage.start(name) for name in names}
            for name in names:
                load.wrk(stage.ports[name], 32, "/json", 1, stage.pin_load)
            for number in range(rounds):
                for scenario in scenarios:
                    turn = names if number % 3 == 0 else compared
                    for name in turn if number % 2 == 0 else reversed(turn):
                        measure = functools.partial(
                            load.measured, pids[name], stage.ports[name], scenario, seconds, stage.pin_load
                        )
                        figures = load.undisturbed(measure, load.ATTEMPTS if name in compared else 1)
                        rows.setdefault((scenario, name), []).append(figures)
                        print(f"{scenario:5} {name:8} {line_of(figures)}", file=sys.stderr, flush=True)
    return with_ratios(rows)


def with_ratios(rows):
    """Medians; the ratios to nginx are medians of those to the slice of the same round."""
    results = {}
    for (scenario, name), slices in rows.items():
        figures = {key: statistics.median(row[key] for row in slices) for key in slices[0]}
        figures["slices"] = len(slices)
        figures["undisturbed"] = sum(row["stolen"] == 0 for row in slices)
        base = rows.get((scenario, "nginx"))
        if base:
            for key, of in (("ratio", "cpu"), ("p99_ratio", "p99")):
                rounds = base if len(slices) == len(base) else base[::3]
                figures[key] = statistics.median(row[of] / other[of] for row, other in zip(slices, rounds))
        results[scenario, name] = figures
    return results


def line_of(figures):
    ratio = f"  of nginx: CPU {figures['ratio']:.2f}, p99 {figures['p99_ratio']:.2f}" if "ratio" in figures else ""
    lost = f"  stolen {figures['stolen']:.0f} ms" if figures["stolen"] else ""
    return (
        f"{figures['cpu']:9.1f} us/req {figures['rate']:9.0f} req/s  p50 {figures['p50']:6.0f} us  p99 {figures['p99']:6.0f} us"
        f"  peak {figures['memory']:5.1f} MiB{ratio}{lost}"
    )


def words(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", action="append", help="PATH, or NAME=PATH; several are compared with each other")
    parser.add_argument("--peers", type=words, default=["nginx"])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=1)
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

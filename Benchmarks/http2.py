"""The gateway and its peers with clients of HTTP/2, in turn, in one run: what matters is the ratio.

Usage: http2.py [--gateway PATH] [--peers nginx,haproxy,envoy] [--rounds 4] [--seconds 3] [--scenarios 8x32,8x4,32x1] [--both]

With --both the upstream speaks HTTP/2, too, which nginx cannot ask.
"""

import argparse
import statistics
import sys
import tempfile

import load
import proxies


def compare(gateway, scenarios, peers, rounds, seconds, both=False):
    """The medians of the figures, and for each peer the median of the ratios of each round, by scenario and name."""
    rows = {}
    with tempfile.TemporaryDirectory(prefix="http2-") as folder:
        with proxies.Stage(folder, {"gateway": gateway}, http2_clients=True, http2_upstream=both) as stage:
            names = [name for name in peers if name in stage.binaries] + ["gateway"]
            stage.start("upstream")
            served = {name: (stage.start(name), stage.ports[name]) for name in names}
            for _, port in served.values():
                load.h2load(port, "8x32", 1, stage.pin_load)
            for number in range(rounds):
                turns = dict(served.items() if number % 2 == 0 else reversed(served.items()))
                for scenario in scenarios:
                    for name, figures in load.http2_one_by_one(turns, scenario, seconds, stage.pin_load).items():
                        rows.setdefault((scenario, name), []).append(figures)
    results = {}
    for (scenario, name), found in rows.items():
        figures = {key: statistics.median(row[key] for row in found) for key in found[0]}
        own = rows[scenario, "gateway"]
        figures["ratio"] = statistics.median(mine["cpu"] / theirs["cpu"] for mine, theirs in zip(own, found))
        results[scenario, name] = figures
    return results


def words(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", default=str(proxies.ROOT / ".build/release/authgateway"))
    parser.add_argument("--peers", type=words, default=["nginx", "haproxy", "envoy"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--scenarios", type=words, default=["8x32", "8x4", "32x1"])
    parser.add_argument("--both", action="store_true")
    options = parser.parse_args()
    peers = [name for name in options.peers if name != "nginx" or not options.both]
    results = compare(options.gateway, options.scenarios, peers, options.rounds, options.seconds, options.both)
    for (scenario, name), row in sorted(results.items(), key=lambda item: options.scenarios.index(item[0][0])):
        print(
            f"{scenario:8} {name:8} {row['cpu']:10.1f} us/req {row['rate']:9.0f} req/s  mean {row['mean']:7.0f} us"
            f"  peak {row['memory']:5.1f} MiB  gateway's CPU of it {row['ratio']:.2f}"
        )


if __name__ == "__main__":
    sys.exit(main())

"""The gateway and its peers with clients of HTTP/2 or of TLS, in turn, in one run: what matters is the ratio.

Usage: http2.py [--gateway PATH] [--peers nginx,haproxy,envoy,mitmproxy] [--rounds 4] [--seconds 3] [--scenarios 8x32,8x4,32x1]
                [--both | --grpc | --tls]

With --both the upstream speaks HTTP/2, too, which nginx cannot ask. With --grpc clients make unary calls of it. With --tls clients and upstream speak HTTP/1.1 over TLS, and
the gateway's certificate is of its local authority.
"""

import argparse
import functools
import statistics
import sys
import tempfile

import load
import proxies

ORIGIN = "https://localhost"
#: Clients of HTTP/1.1 over TLS.
TLS_LOADS = {
    "requests": functools.partial(load.wrk, connections=32, path="/json", origin=ORIGIN),
    "handshakes": functools.partial(load.wrk, connections=8, path="/json", origin=ORIGIN, fields=["Connection: close"]),
}


def compare(gateway, scenarios, peers, rounds, seconds, both=False):
    """With clients of HTTP/2: the medians of the figures, and of the ratios of each round, by scenario and name."""
    options = {"http2_clients": True, "http2_upstream": both}
    loads = {name: functools.partial(load.h2load, scenario=name, seconds=seconds) for name in scenarios}
    return compared(gateway, loads, peers, rounds, options)


def compare_grpc(gateway, peers, rounds, seconds):
    """Unary calls, with HTTP/2 on both sides."""
    fields = ["content-type: application/grpc", "te: trailers"]
    options = {"http2_clients": True, "http2_upstream": True, "grpc": True}
    with tempfile.NamedTemporaryFile() as message:
        message.write(load.MESSAGE)
        message.flush()
        calls = functools.partial(load.h2load, scenario="8x32 grpc", seconds=seconds, body=message.name, fields=fields)
        return compared(gateway, {"8x32 grpc": calls}, peers, rounds, options)


def compare_tls(gateway, peers, rounds, seconds):
    """The same with clients of TLS that come in another's place, as intercepted ones do."""
    loads = {name: functools.partial(measure, seconds=seconds) for name, measure in TLS_LOADS.items()}
    return compared(gateway, loads, peers, rounds, {"tls": True, "tls_clients": True})


def compared(gateway, loads, peers, rounds, options):
    rows = {}
    with tempfile.TemporaryDirectory(prefix="http2-") as folder:
        with proxies.Stage(folder, {"gateway": gateway}, **options) as stage:
            names = [name for name in peers if name in stage.binaries] + ["gateway"]
            first = next(iter(loads.values()))
            for number in range(rounds):
                turns = names if number % 2 == 0 else list(reversed(names))
                turns = stage.start_anew(turns, functools.partial(first, seconds=1, pin=stage.pin_load))
                for scenario, measure in loads.items():
                    measured = load.one_by_one(turns, functools.partial(measure, pin=stage.pin_load))
                    for name, figures in measured.items():
                        rows.setdefault((scenario, name), []).append(figures)
    results = {}
    for (scenario, name), found in rows.items():
        figures = {key: statistics.median(row[key] for row in found) for key in found[0]}
        own = rows[scenario, "gateway"]
        figures["ratio"] = statistics.median(mine["cpu"] / theirs["cpu"] for mine, theirs in zip(own, found, strict=True))
        results[scenario, name] = figures
    return results


def words(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", default=str(proxies.ROOT / ".build/release/authgateway"))
    parser.add_argument("--peers", type=words, default=["nginx", "haproxy", "envoy", "mitmproxy"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--scenarios", type=words, default=["8x32", "8x4", "32x1"])
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--grpc", action="store_true")
    parser.add_argument("--tls", action="store_true")
    options = parser.parse_args()
    able = {"nginx", "mitmproxy"} if options.tls else {"haproxy", "envoy"} if options.both or options.grpc else {"nginx", "haproxy", "envoy"}
    peers = [name for name in options.peers if name in able]
    if options.tls:
        results = compare_tls(options.gateway, peers, options.rounds, options.seconds)
    elif options.grpc:
        results = compare_grpc(options.gateway, peers, options.rounds, options.seconds)
    else:
        results = compare(options.gateway, options.scenarios, peers, options.rounds, options.seconds, options.both)
    for (scenario, name), row in results.items():
        latency = f"mean {row['mean']:7.0f} us" if "mean" in row else f"p50 {row['p50']:6.0f} us"
        print(
            f"{scenario:10} {name:9} {row['cpu']:10.1f} us/req {row['rate']:9.0f} req/s  {latency}"
            f"  peak {row['memory']:6.1f} MiB  gateway's CPU of it {row['ratio']:.2f}"
        )


if __name__ == "__main__":
    sys.exit(main())

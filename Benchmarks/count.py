"""How many instructions the event loop runs for one request, compared with the figures in Benchmarks/instructions.json.

Times of one binary differ by several percent from run to run; counts do not, so a step of 2 % can be seen. Each load runs twice
under callgrind, with a small and a large number of requests, and the difference leaves out what each connection costs once.
`make count` runs this, and fails if a count is more than 2 % above its figure.

If you have made a load cheaper, or dearer for a good reason, commit the figures that `--update` writes. `--keep FOLDER` keeps
the files of callgrind, one for each thread and run, for callgrind_annotate. `--prove` shows that the comparison works: it fails unless
a copy of 2 KiB that is planted at each read is found.

Usage: count.py --gateway PATH [--loads http1,http1-replay,http2-8x32] [--times 3] [--scale 1] [--update] [--keep FOLDER] [--prove]
"""

import argparse
import asyncio
import json
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading

import load
import ordering
import proxies

FIGURES = pathlib.Path(__file__).with_name("instructions.json")
#: In percent; beyond it a count fails, or its figure is to be renewed.
TOLERANCE = 2
#: How often each count is made. The median counts: how many reads one turn of the loop serves differs a little.
TIMES = 3


class CountedStage(ordering.Counted, proxies.Stage):
    """A stage whose gateway runs under callgrind, which counts each thread apart."""

    OPTIONS = (*ordering.Counted.OPTIONS, "--separate-threads=yes")


class ReplayOrigin(asyncio.Protocol):
    """An upstream and its authorization server. A token is valid for one wave of requests; then the next one is needed.

    So each request of every wave but the first gets a 401, and is sent again with a new token.
    """

    BODY = json.dumps({"items": [{"id": number, "name": f"item-{number:04}", "ok": True} for number in range(23)]}).encode()
    issued = accepted = 0

    @classmethod
    def serve(cls, port):
        listening = threading.Event()

        async def run():
            server = await asyncio.get_running_loop().create_server(cls, "127.0.0.1", port)
            listening.set()
            await server.serve_forever()

        cls.issued = cls.accepted = 0
        threading.Thread(target=asyncio.run, args=(run(),), daemon=True).start()
        if not listening.wait(10):
            raise SystemExit("the upstream of the replay does not listen")

    def connection_made(self, transport):
        self.transport, self.received = transport, b""

    def data_received(self, data):
        self.received += data
        while b"\r\n\r\n" in self.received:
            head, _, rest = self.received.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
            length = int(length[1]) if length else 0
            if len(rest) < length:
                return
            self.received = rest[length:]
            self.transport.write(self.answer(head))

    def answer(self, head):
        kind = type(self)
        if head.startswith(b"POST /token "):
            kind.issued, kind.accepted = kind.issued + 1, 0
            token = {"access_token": f"token-{kind.issued:034}", "token_type": "Bearer", "expires_in": 3600}
            return self.response(b"200 OK", json.dumps(token).encode())
        if f"\r\nauthorization: bearer token-{kind.issued:034}\r\n".encode() in head.lower() and kind.accepted < Replay.CONNECTIONS:
            kind.accepted += 1
            return self.response(b"200 OK", self.BODY)
        return self.response(b"401 Unauthorized", b"not welcome")

    @staticmethod
    def response(status, body):
        fields = b"Server: replay\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        return b"HTTP/1.1 " + status + b"\r\n" + fields + body


class Load:
    """So many requests, by h2load."""

    def __init__(self, small, large, options, **stage):
        self.small, self.large = small, large
        self.options = options
        self.stage = stage

    def prepare(self, stage):
        stage.start("upstream")

    def run(self, stage, count):
        words = ["h2load", "-t1", *self.options, "-n", str(count), "-H", f"authorization: Bearer {load.CLIENT_TOKEN}"]
        words.append(f"http://127.0.0.1:{stage.ports['gateway']}/json")
        text = subprocess.run([*stage.pin_load, *words], capture_output=True, text=True, check=True).stdout
        if not re.search(rf"status codes: {count} 2xx", text):
            raise SystemExit(f"not every request was answered well: {text}")
        return count


class Replay(Load):
    """Waves of requests, each of which needs a new token."""

    CONNECTIONS = 64
    ROUTES = "bench: {match: {path: /}, auth: service, clients: [wrk], allow: [{methods: [GET, POST], path: /**}], TO}"

    def __init__(self):
        # A client may cause twelve renewals. The first wave has its token for nothing.
        super().__init__(3, 11, ())

    def prepare(self, stage):
        ReplayOrigin.serve(stage.upstream_port)
        credentials = f"""credentials:
  service:
    strategy: oauth2_client_credentials
    token_url: http://127.0.0.1:{stage.upstream_port}/token
    client_id: bench
    client_secret: {{env: CLIENT_SECRET}}"""
        stage.write_gateway("gateway", credentials, self.ROUTES)

    def run(self, stage, count):
        port = stage.ports["gateway"]
        request = load.get(port)
        connections = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(self.CONNECTIONS)]
        for _ in range(count):
            for connection in connections:
                connection.sendall(request)
            for connection in connections:
                load.finish(connection)
        if ReplayOrigin.issued != count:
            raise SystemExit(f"{count} waves were answered with {ReplayOrigin.issued} tokens")
        return count * self.CONNECTIONS


LOADS = {
    "http1": Load(2000, 8000, ("--h1", "-c32", "-m1")),
    "http1-replay": Replay(),
    "http2-8x32": Load(2048, 8192, ("-c8", "-m32"), http2_clients=True),
}


def instructions(binary, kind, scale, keep=None, environment=None):
    """The instructions of one request on the event loop."""
    sizes = [max(1, int(size * scale)) for size in (kind.small, kind.large)]
    (small, few), (large, many) = (counted(binary, kind, size, keep, environment or {}) for size in sizes)
    return (large - small) / (many - few)


def counted(binary, kind, size, keep, environment):
    """The instructions of the event loop under the load, and how many requests that had."""
    with tempfile.TemporaryDirectory(prefix="count-") as folder:
        with CountedStage(folder, {"gateway": binary}, **kind.stage) as stage:
            kind.prepare(stage)
            pid = stage.start("gateway", {"SWIFT_DETERMINISTIC_HASHING": "1"} | environment)
            stage.count(pid)
            count = kind.run(stage, size)
            stage.end("gateway")
        files = list(pathlib.Path(folder).glob("counts-*"))
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            for file in files:
                shutil.copy(file, keep / f"{file.name}-{size}")
        return event_loop([file.read_text(encoding="utf-8") for file in files]), count


def event_loop(threads):
    """What the thread ran that serves the proxy's connections."""
    costs = [ordering.counted(text) for text in threads]
    own = [sum(cost for name, cost in functions.items() if "12GatewayProxy" in name) for functions in costs]
    if not any(own):
        raise SystemExit("callgrind found no function of the gateway: the program has no symbols")
    return sum(costs[own.index(max(own))].values())


def compare(found, figures):
    """Prints each load; returns those that are dearer than committed, or new."""
    failed = []
    for name, count in found.items():
        known = figures.get(name)
        change = None if known is None else 100 * (count - known) / known
        word = "no figure" if change is None else f"{change:+.1f} %"
        if change is not None and change < -TOLERANCE:
            word += "  cheaper: commit it with --update"
        if change is None or change > TOLERANCE:
            failed.append(name)
            word += "  FAILED"
        print(f"{name:14} {count:10,.0f} instructions per request, committed {known or 0:10,}  {word}")
    return failed


def prove(binary, name, scale, folder):
    """Compares the program with itself and a copy of a large value that is planted at each read."""
    library = f"{folder}/planted_copy.so"
    compiler = shutil.which("cc") or shutil.which("clang")
    source = FIGURES.with_name("planted_copy.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", source, "-o", library, "-ldl"], check=True)
    plain = round(instructions(binary, LOADS[name], scale))
    planted = round(instructions(binary, LOADS[name], scale, environment={"LD_PRELOAD": library}))
    if not compare({name: planted}, {name: plain}):
        raise SystemExit("a copy of a large value that was planted at each read was not found")
    print("that is as it should be: the copy was planted")


def words(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", required=True, help="with its symbols, as the build makes it")
    parser.add_argument("--loads", type=words, default=list(LOADS))
    parser.add_argument("--scale", type=float, default=1, help="of the numbers of requests, for a try")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--prove", action="store_true")
    options = parser.parse_args()
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    with tempfile.TemporaryDirectory(prefix="stripped-") as folder:
        binary = ordering.without_debug(options.gateway, folder)
        if options.prove:
            for name in options.loads:
                prove(binary, name, options.scale, folder)
            return
        found = {}
        for name in options.loads:
            keep = options.keep and options.keep / name
            counts = [instructions(binary, LOADS[name], options.scale, keep) for _ in range(options.times)]
            found[name] = round(statistics.median(counts))
            print(f"{name}: {', '.join(f'{count:,.0f}' for count in counts)}", file=sys.stderr, flush=True)
    failed = compare(found, figures)
    if options.update and options.scale == 1:
        FIGURES.write_text(json.dumps(figures | found, indent=2) + "\n", encoding="utf-8")
    elif failed:
        raise SystemExit(f"{', '.join(failed)}: see {FIGURES.name}. If it has to be so, commit what --update writes.")


if __name__ == "__main__":
    main()

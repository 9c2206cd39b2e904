"""Load, and what it costs the process that is measured."""

import math
import os
import pathlib
import re
import resource
import socket
import statistics
import subprocess
import time

#: Has several loads take turns, with random pauses before requests where the load wants them.
TURNS = pathlib.Path(__file__).with_name("turns.lua")
#: Milliseconds of a turn, and of the silence behind it, in which slow answers come to their end.
TURN, SILENCE = 400, 100
# Connections and path of the load, and its longest pause.
SCENARIOS = {
    "c1": (1, "/json", 0),
    "c32": (32, "/json", 0),
    "c256": (256, "/json", 0),
    "c32p": (32, "/json", 4),
    "c256p": (256, "/json", 32),
    "64k": (32, "/64k", 0),
    "10m": (4, "/10m", 0),
}
# Of HTTP/2, as h2load has it: connections, streams of each at a time, and path.
HTTP2_SCENARIOS = {
    "8x32": (8, 32, "/json"),
    "8x4": (8, 4, "/json"),
    "32x1": (32, 1, "/json"),
    "1x1 100m": (1, 1, "/100m"),
    "1x10 100m": (1, 10, "/100m"),
    "8x4 64k": (8, 4, "/64k"),
    "8x32 grpc": (8, 32, "/message"),
}
#: Of a unary call of gRPC, each way: not compressed, 100 bytes.
MESSAGE = b"\0" + (100).to_bytes(4, "big") + bytes(100)
#: The gateway knows its client by it, and replaces it; the others replace it only.
CLIENT_TOKEN = "brought-by-the-client"
UNITS = {"us": 1, "ms": 1e3, "s": 1e6}
#: How often a slice is measured again because the machine's host took some of its time.
ATTEMPTS = 4


def undisturbed(measure):
    """The figures of one slice, of several the one that the machine's host took the least CPU time from.

    One pause of 20 ms is the p99 of two seconds, and says nothing of a proxy. Where nothing is taken, the first is the one.
    """
    best = None
    for _ in range(ATTEMPTS):
        before = stolen()
        figures = measure()
        figures["stolen"] = stolen() - before
        if best is None or figures["stolen"] < best["stolen"]:
            best = figures
        if best["stolen"] == 0:
            break
    return best


def stolen():
    """Milliseconds that the CPUs had work and did not run, as the host tells; always 0 on a machine of its own."""
    total = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    return int(total[8]) * 1000 // os.sysconf("SC_CLK_TCK")


def wrk(port, connections, path, seconds, pin=(), script=None, arguments=(), **more):
    words = wrk_command(port, connections, path, seconds, pin, script, arguments, **more)
    return wrk_figures(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def wrk_command(port, connections, path, seconds, pin=(), script=None, arguments=(), origin="http://127.0.0.1", fields=()):
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "--latency"]
    words += ["-H", f"Authorization: Bearer {CLIENT_TOKEN}", *(["-s", str(script)] if script else [])]
    words += [word for field in fields for word in ("-H", field)]
    return [*pin, *words, f"{origin}:{port}{path}", "--", *map(str, arguments)]


def wrk_figures(text):
    failures = re.findall(r"Non-2xx or 3xx responses: \d+|Socket errors: .*", text)
    if failures:
        raise SystemExit(f"not every request was answered well: {failures}")

    def latency(share):
        found = re.search(rf"(?m)^\s+{share}%\s+([\d.]+)(us|ms|s)", text)
        return float(found[1]) * UNITS[found[2]]

    count = int(re.search(r"(\d+) requests in", text)[1])
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])
    return {"count": count, "rate": rate, "p50": latency(50), "p99": latency(99)}


def h2load(port, scenario, seconds, pin=(), origin="http://127.0.0.1", body=None, fields=()):
    """Over plaintext by prior knowledge, or over TLS. With the file `body`, requests are uploads."""
    connections, streams, path = HTTP2_SCENARIOS[scenario]
    words = ["h2load", "-t1", f"-c{connections}", f"-m{streams}", "-D", f"{seconds}s", "--window-bits=24", "--connection-window-bits=26"]
    words += ["-d", str(body)] if body else []
    words += [word for field in fields for word in ("-H", field)]
    words += ["-H", f"authorization: Bearer {CLIENT_TOKEN}", f"{origin}:{port}{path}"]
    text = subprocess.run([*pin, *words], capture_output=True, text=True, check=True).stdout
    done, good = int(re.search(r"(\d+) done", text)[1]), int(re.search(r"(\d+) 2xx", text)[1])
    # What was on its way at the end counts as failed.
    if not good or done - good > connections * streams:
        raise SystemExit(f"not every request was answered well: {text}")
    mean = re.search(r"time for request:\s+\S+\s+(\S+?)(us|ms|s)\s+(\S+?)(us|ms|s)", text)
    worst, middle = float(mean[1]) * UNITS[mean[2]], float(mean[3]) * UNITS[mean[4]]
    return {"count": good, "rate": good / seconds, "mean": middle, "max": worst}


def one_by_one(served, measure):
    """As ``in_turn``, but one after the other, for loads that have no turns; `measure` takes the port."""
    results = {}
    for name, (pid, port) in served.items():
        reset_peak(pid)
        before = cpu_seconds(pid)
        results[name] = figures = measure(port)
        figures["cpu"] = (cpu_seconds(pid) - before) / figures["count"] * 1e6
        figures["memory"] = memory(pid, "VmHWM")
    return results


def in_turn(served, scenario, seconds, pin=(), scripts=None):
    """CPU of each process for each of its requests (microseconds), rate, latency and peak memory, under loads that take turns.

    What comes and goes on the machine within seconds meets all of them alike, and connections stay, so that their first
    requests are few among the rest. Much shorter turns would leave none of them time to have its memory in the cache again.

    `served` are the process and its port by name, `scripts` those of them that have more in their script than the turns; each
    is under load for so many seconds.
    """
    connections, path, pause = SCENARIOS[scenario]
    for pid, _ in served.values():
        reset_peak(pid)
    before = {name: cpu_seconds(pid) for name, (pid, _) in served.items()}
    whole = math.ceil(seconds * len(served) * (TURN + SILENCE) / TURN)
    running = []
    for number, (name, (_, port)) in enumerate(served.items()):
        arguments = [number, len(served), TURN, SILENCE, pause]
        words = wrk_command(port, connections, path, whole, pin, (scripts or {}).get(name, TURNS), arguments)
        running.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    results = {name: wrk_figures(process.communicate()[0]) for name, process in zip(served, running, strict=True)}
    for name, (pid, _) in served.items():
        figures = results[name]
        figures["rate"] *= whole / seconds
        figures["cpu"] = (cpu_seconds(pid) - before[name]) / figures["count"] * 1e6
        figures["memory"] = memory(pid, "VmHWM")
    return results


def paced(port, rate, seconds, token=CLIENT_TOKEN):
    """Latencies in microseconds at so many requests a second, each counted from when it was due, not from when it left."""
    request = get(port, token)
    connections = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(8)]
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    latencies = []
    start = time.perf_counter_ns()
    for number in range(rate * seconds):
        due = start + number * 1_000_000_000 // rate
        while (left := due - time.perf_counter_ns()) > 0:
            # Sleeping alone would come late; spinning alone would take the CPU from the upstream.
            time.sleep(max(0, left - 60_000) / 1e9)
        exchange(connections[number % len(connections)], request)
        latencies.append((time.perf_counter_ns() - due) / 1e3)
    for connection in connections:
        connection.close()
    latencies = sorted(latencies[rate // 2 :])
    return {"p50": statistics.median(latencies), "p99": latencies[int(len(latencies) * 0.99)]}


def get(port, token=CLIENT_TOKEN):
    return f"GET /json HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


def exchange(connection, request):
    """Sends a request and reads its answer."""
    connection.sendall(request)
    finish(connection)


def finish(connection):
    """Reads the answer to a request that was sent, which must be a 200 with a length."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += received(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"not a good answer: {head[:200]}")
    missing = int(re.search(rb"(?i)content-length: (\d+)", head)[1]) - len(body)
    while missing > 0:
        missing -= len(received(connection))


def received(connection):
    data = connection.recv(65536)
    if not data:
        raise SystemExit("the connection was closed")
    return data


def idle_memory(pid, port, count):
    """Resident memory in MiB while so many connections stay open after one request each."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 1000, max(count + 1000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    request = get(port)
    connections = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), 5)
        exchange(connection, request)
        connections.append(connection)
    resident = memory(pid, "VmRSS")
    for connection in connections:
        connection.close()
    return resident


def family(root):
    found = [root]
    for pid in found:
        found += map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split())
    return found


def cpu_seconds(root):
    """Of all threads, those that have ended included, in nanosecond resolution."""
    # The CPU-time clock of another process: clock_getcpuclockid(3).
    return sum(time.clock_gettime(~pid << 3 | 2) for pid in family(root))


def memory(root, field):
    texts = (pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8") for pid in family(root))
    return sum(int(re.search(rf"{field}:\s+(\d+)", text)[1]) for text in texts) / 1024


def reset_peak(root):
    for pid in family(root):
        with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")


def machine():
    """How large the machine is, in words."""
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    total = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text(encoding="ascii"))[1]) / 2**20
    return f"{os.cpu_count()} CPUs ({cpu[1] if cpu else 'unknown'}), {total:.0f} GiB, Linux {os.uname().release}"

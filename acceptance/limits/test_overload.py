"""Far more than it can serve: what is taken is served, what is not is told so at once, and afterwards all is as before."""

import concurrent.futures
import re
import statistics
import subprocess
import sys
import time

import pytest
from harness.configs import CANARY
from harness import metrics, processes
from harness.gateway import ROOT
from harness.processes import peak_memory_mib
from harness.script import connect, get

#: What the upstream is allowed to have under way; ten times as many clients come.
AT_ONCE = 32
MILLISECONDS = 20
COUNTS = """
local threads = {}
setup = function(thread) table.insert(threads, thread) end
init = function() good, refused, bare, others = 0, 0, 0, 0 end
response = function(status, fields)
  if status == 200 then good = good + 1
  elseif status ~= 503 then others = others + 1
  elseif (fields["Retry-After"] or ""):find("^[1-9]%d*$") then refused = refused + 1
  else bare = bare + 1 end
end
done = function(summary, latency, requests)
  local sums = {good = 0, refused = 0, bare = 0, others = 0}
  for _, thread in ipairs(threads) do
    for name in pairs(sums) do sums[name] = sums[name] + thread:get(name) end
  end
  local failed = summary.errors
  io.write(string.format("counts %d %d %d %d %d %d %d %d %d\\n", summary.duration, sums.good, sums.refused, sums.bare, sums.others,
    failed.connect, failed.read, failed.write, failed.timeout))
end
"""


@pytest.fixture
def upstream():
    script = ROOT / "acceptance/harness/paced_origin.py"
    process = subprocess.Popen([sys.executable, str(script), str(MILLISECONDS)], stdout=subprocess.PIPE, bufsize=0)
    yield f"http://127.0.0.1:{processes.first_line(process, 20)}"
    processes.end(process)


def config(upstream, **limits):
    auth = {"strategy": "bearer", "token": CANARY}
    return {"limits": limits, "routes": {"api": {"upstream": upstream, "auth": auth}}}


def load(gateway, folder, connections, seconds, pause=0):
    """Good answers a second, and refusals a second; each connection waits so many milliseconds before it asks again.

    Nothing else may come: no refusal that does not say when to come back, no other status, no connection that fails or is silent.
    """
    delay = f"delay = function() return {pause} end\n" if pause else ""
    (folder / "counts.lua").write_text(delay + COUNTS)
    # Last in the queue for the CPU: a load that comes from elsewhere takes none from the upstream.
    command = ["nice", "-n", "19", "wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "-s", folder / "counts.lua"]
    result = subprocess.run([*command, f"{gateway.url}/api/x"], capture_output=True, text=True, timeout=seconds + 60)
    duration, good, refused, *others = map(int, re.search(r"counts (.*)", result.stdout)[1].split())
    assert others == [0] * 6, result.stdout
    print(f"{good} good answers, {refused} refusals, each with Retry-After")
    return good * 1e6 / duration, refused * 1e6 / duration


def overload(gateway, folder, connections, seconds, pause=0):
    """The load of `load`, and meanwhile how long single refusals take, connecting included."""
    refusals = []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        attack = pool.submit(load, gateway, folder, connections, seconds, pause)
        while not attack.done():
            started = time.monotonic()
            with connect(gateway.port) as client:
                client.send(get(gateway, "Connection: close"))
                head = client.head()
            if not head.startswith(b"HTTP/1.1 200 "):
                refusals.append(time.monotonic() - started)
                assert head.startswith(b"HTTP/1.1 503 ") and b"problem+json" in head, head
                assert b"\r\nretry-after: " in head.lower(), head
            time.sleep(0.02)
    assert len(refusals) > seconds
    return *attack.result(), refusals


def report(peak, good, refused, refusals, gateway):
    memory = peak_memory_mib(gateway.process.pid)
    print(
        f"peak {peak:.0f}/s; overload: good {good:.0f}/s, refused {refused:.0f}/s; {len(refusals)} probes refused, "
        f"p50 {statistics.median(refusals) * 1000:.1f} ms, p99 {statistics.quantiles(refusals, n=100)[98] * 1000:.1f} ms, "
        f"longest {max(refusals) * 1000:.1f} ms; memory {memory:.0f} MiB"
    )
    assert memory < 64


def is_prompt(refusals, seconds):
    """Within 100 ms. A short run shares the machine with whatever else is there."""
    return max(refusals) < 0.1 if seconds >= 60 else statistics.quantiles(refusals, n=100)[98] < 0.5


def becomes_normal(gateway, folder, connections, least):
    """Who comes in the first moment may find the place of one that has just left still taken."""
    seen = []

    def is_normal():
        seen.append(load(gateway, folder, connections, 2))
        after, refused = seen[-1]
        return refused == 0 and after >= least

    processes.wait_until(is_normal, 5, lambda: f"{least:.0f}/s again, and nothing refused: {seen}")
    print(f"afterwards {seen}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("seconds", "is_paced", "share"),
    # A short run on a busy machine says less than a long one.
    [
        (3, False, 0.3),
        pytest.param(60, True, 0.8, marks=pytest.mark.soak),
        pytest.param(60, False, 0.8, marks=pytest.mark.soak),
    ],
)
def test_ten_times_what_the_upstream_can_serve(upstream, start_gateway, tmp_path, seconds, is_paced, share):
    limits = {"connections_per_upstream": AT_ONCE, "pending_per_upstream": AT_ONCE}
    gateway = start_gateway(config(upstream, **limits))
    peak, none = load(gateway, tmp_path, AT_ONCE, max(2, seconds // 6))
    assert none == 0
    pause = round(1000 * AT_ONCE / peak) if is_paced else 0
    good, refused, refusals = overload(gateway, tmp_path, 10 * AT_ONCE, seconds, pause)
    report(peak, good, refused, refusals, gateway)
    assert refused > 0
    assert is_prompt(refusals, seconds)
    assert good >= share * peak
    becomes_normal(gateway, tmp_path, AT_ONCE, peak * (0.9 if seconds >= 60 else 0.5))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.soak)])
def test_ten_times_the_connections_that_it_takes(upstream, start_gateway, tmp_path, seconds):
    """Who is refused comes back at once, thousands of times a second: refusals stay quick, memory stays small."""
    gateway = start_gateway(config(upstream, connections=AT_ONCE))
    peak, none = load(gateway, tmp_path, AT_ONCE // 2, 2)
    assert none == 0
    good, refused, refusals = overload(gateway, tmp_path, 10 * AT_ONCE, seconds)
    report(peak, good, refused, refusals, gateway)
    assert refused > 0
    assert is_prompt(refusals, seconds)
    assert good >= (0.8 if seconds >= 60 else 0.1) * peak
    becomes_normal(gateway, tmp_path, AT_ONCE // 2, peak * (0.9 if seconds >= 60 else 0.5))
    assert metrics.threads(gateway.process.pid) < 64

"""Far more than it can serve: what is taken is served, what is not is told so at once, and afterwards all is as before."""

import concurrent.futures
import pathlib
import re
import statistics
import subprocess
import sys
import time

import pytest
from harness.configs import BEARER
from harness import proc, processes
from harness.gateway import ROOT
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

pytestmark = pytest.mark.timing


@pytest.fixture
def upstream():
    script = ROOT / "acceptance/harness/paced_origin.py"
    process = subprocess.Popen([sys.executable, str(script), str(MILLISECONDS)], stdout=subprocess.PIPE, bufsize=0)
    yield f"http://127.0.0.1:{processes.first_line(process, 20)}"
    processes.end(process)


def config(upstream, **limits):
    return {"limits": limits, "routes": {"api": {"upstream": upstream, "auth": BEARER}}}


def load(gateway, folder, connections, seconds, pause=0, niceness=19):
    """Good answers a second, and refusals a second; each connection waits so many milliseconds before it asks again.

    Nothing else may come: no refusal that does not say when to come back, no other status, no connection that fails or is silent.
    """
    script = folder / f"counts-{pause}.lua"
    script.write_text((f"delay = function() return {pause} end\n" if pause else "") + COUNTS)
    # Last in the queue for the CPU: a load that comes from elsewhere takes none from the upstream.
    command = ["nice", "-n", str(niceness), "wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "-s", script]
    result = subprocess.run([*command, f"{gateway.url}/api/x"], check=True, capture_output=True, text=True, timeout=seconds + 60)
    duration, good, refused, *others = map(int, re.search(r"counts (.*)", result.stdout)[1].split())
    assert others == [0] * 6, result.stdout
    print(f"{good} good answers, {refused} refusals, each with Retry-After")
    return good * 1e6 / duration, refused * 1e6 / duration


def while_it_lasts(gateway, attack):
    """How long single refusals take until `attack` is over, connecting included."""
    refusals = []
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
    return refusals


def report(peak, good, refused, refusals, gateway, seconds):
    memory = proc.peak_memory_mib(gateway.process.pid)
    print(
        f"peak {peak:.0f}/s; overload: good {good:.0f}/s ({good / peak:.2f}), refused {refused:.0f}/s; {len(refusals)} probes refused, "
        f"p50 {statistics.median(refusals) * 1000:.1f} ms, longest {max(refusals) * 1000:.1f} ms; memory {memory:.0f} MiB"
    )
    assert memory < 64
    assert refused > 0 and len(refusals) > seconds
    # Prompt.
    assert statistics.median(refusals) < 0.02 and max(refusals) < (0.1 if seconds >= 60 else 0.25)


def clients_of(port):
    """How many connections the gateway still has on this port, those that their clients have ended included."""
    established, close_wait = "01", "08"
    found = 0
    for line in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        found += int(local.partition(":")[2], 16) == port and state in (established, close_wait)
    return found


def is_as_before(gateway, folder, connections, peak, share):
    """When the last of the attackers has left, a load that it can serve is served as ever."""
    processes.wait_until(lambda: clients_of(gateway.port) == 0, 10, "everybody has left")
    after, refused = load(gateway, folder, connections, 2)
    print(f"afterwards {after:.0f}/s ({after / peak:.2f})")
    assert refused == 0 and after >= share * peak


# `share`: what is left of the peak under the attack. With builds beside it on two cores, 0.91 to 1.05 was measured, and 0.88 to 1.05
# afterwards.


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("seconds", "share", "share_afterwards", "rounds"),
    [
        (3, 0.7, 0.75, 3),
        pytest.param(60, 0.8, 0.9, 1, marks=pytest.mark.soak),
        pytest.param(60, 0.8, 0.9, 0, marks=pytest.mark.soak),
    ],
)
def test_ten_times_what_the_upstream_can_serve(upstream, start_gateway, tmp_path, seconds, share, share_afterwards, rounds):
    """Ten times the clients; each waits, before it asks again, as long as the upstream takes for `rounds` rounds."""
    limits = {"connections_per_upstream": AT_ONCE, "pending_per_upstream": AT_ONCE}
    gateway = start_gateway(config(upstream, **limits))
    peak, none = load(gateway, tmp_path, AT_ONCE, max(2, seconds // 6))
    assert none == 0
    pause = round(1000 * AT_ONCE / peak * rounds)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        attack = pool.submit(load, gateway, tmp_path, 10 * AT_ONCE, seconds, pause)
        refusals = while_it_lasts(gateway, attack)
    good, refused = attack.result()
    report(peak, good, refused, refusals, gateway, seconds)
    assert good >= share * peak
    is_as_before(gateway, tmp_path, AT_ONCE, peak, share_afterwards)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("seconds", "share", "share_afterwards"), [(3, 0.7, 0.75), pytest.param(60, 0.9, 0.9, marks=pytest.mark.soak)]
)
def test_ten_times_the_connections_that_it_takes(upstream, start_gateway, tmp_path, seconds, share, share_afterwards):
    """Who is refused comes back at once, thousands of times a second: who is connected hardly notices, and memory stays small."""
    # wrk tries the address with a connection of its own first.
    members = AT_ONCE - 1
    gateway = start_gateway(config(upstream, connections=AT_ONCE))
    peak, none = load(gateway, tmp_path, members, 2)
    assert none == 0
    processes.wait_until(lambda: clients_of(gateway.port) == 0, 10, "everybody has left")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        connected = pool.submit(load, gateway, tmp_path, members, seconds + 1, niceness=0)
        processes.wait_until(lambda: clients_of(gateway.port) >= members, 10, "every place is taken")
        attack = pool.submit(load, gateway, tmp_path, 10 * AT_ONCE, seconds)
        refusals = while_it_lasts(gateway, attack)
    good, none = connected.result()
    _, refused = attack.result()
    report(peak, good, refused, refusals, gateway, seconds)
    assert none == 0
    assert good >= share * peak
    is_as_before(gateway, tmp_path, members, peak, share_afterwards)
    assert proc.threads(gateway.process.pid) < 64

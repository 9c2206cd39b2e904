"""Certificates of many names at once are made beside the requests of others, not before them."""

import re
import subprocess
import sys

import pytest
from harness import debian, processes
from harness.configs import BEARER
from harness.gateway import ROOT

pytestmark = pytest.mark.timing
NAMES = 1000
REPORT = 'done = function(summary, latency, requests) print("p99", math.floor(latency:percentile(99))) end'


@pytest.fixture
def gateway(start_gateway, tmp_path):
    upstream = debian.nginx(tmp_path / "nginx", 'location / { return 200 "x"; }')
    routes = {f"n{number}": {"upstream": f"https://n{number}.test", "auth": BEARER} for number in range(NAMES)}
    place = {"address": f"127.0.0.1:{processes.free_port()}", "intercept": True}
    routes["busy"] = {"upstream": f"http://127.0.0.1:{upstream.port}", "auth": BEARER}
    gateway = start_gateway({"workers": 1, "routes": routes}, listeners=[place])
    gateway.place = place["address"]
    yield gateway
    upstream.stop()


def test_a_thousand_new_names_delay_no_other_request(gateway, tmp_path):
    """The clients that open them come last in the queue for the CPU: what is measured is what the gateway does for them."""
    (tmp_path / "report.lua").write_text(REPORT)
    ca = gateway.run("ca", "show", "--path").stdout.strip()
    host, port = gateway.place.split(":")

    def p99(seconds):
        command = ["wrk", "-t", "1", "-c", "8", "-d", f"{seconds}s", "-s", str(tmp_path / "report.lua"), f"http://{host}:{port}/busy/x"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "Non-2xx" not in done.stdout, done
        return int(re.search(r"p99\s+(\d+)", done.stdout)[1])

    script = str(ROOT / "acceptance/harness/handshakes.py")

    def beside_handshakes():
        command = ["nice", "-n", "19", sys.executable, script, port, ca, str(NAMES)]
        opening = subprocess.Popen(command, stdout=subprocess.PIPE)
        found = p99(3)
        said, _ = opening.communicate(timeout=120)
        assert said == b"done\n"
        return found

    alone = p99(3)
    new = beside_handshakes()
    # Their certificates are there: what is left is the handshakes themselves.
    known = max(beside_handshakes() for _ in range(2))
    print(f"p99: alone {alone} us, beside handshakes {known} us, beside those of new names {new} us")
    # Keys that the event loop made would take several of its turns as long as this each.
    assert new <= max(1.5 * known, 10_000), (alone, known, new)

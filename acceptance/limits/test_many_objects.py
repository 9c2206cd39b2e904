"""10,000 routes with a credential each, on one gateway: what it takes to check, start, reload, show and renew them."""

import contextlib
import subprocess
import sys
import time

import pytest
import requests
from harness import proc, processes
from harness.gateway import ROOT, Gateway
from harness.processes import wait_until

pytestmark = pytest.mark.timing

COUNT = 10_000
SECRET = {"SECRET": "not-a-secret"}
#: Seconds on a quiet machine, which CI's is not.
BARS = {"check": 1, "start": 2, "reload": 3, "page": 0.3}
ALLOWANCE = 2.5
#: Before freed memory is given back; in a reload there are two configurations.
MIB = {"MiB": 240, "MiB after the reload": 450}


def config(authority, count=COUNT, changed=None):
    credential = {
        "strategy": "oauth2_client_credentials",
        "token_url": f"http://127.0.0.1:{authority}/token",
        "client_secret": {"env": "SECRET"},
        "acquire_on": "startup",
    }
    return {
        "workers": 2,
        "credentials": {f"c{n}": {**credential, "client_id": f"client-{n}"} for n in range(count)},
        "routes": {
            f"r{n}": {
                "match": {"path": f"/r{n}"},
                "upstream": "https://changed.example.com" if n == changed else f"https://u{n}.example.com",
                "auth": f"c{n}",
            }
            for n in range(count)
        },
    }


@contextlib.contextmanager
def authority(life):
    program = ROOT / "acceptance/harness/busy_authority.py"
    process = subprocess.Popen([sys.executable, str(program), str(life)], stdout=subprocess.PIPE, text=True, env=processes.environment())
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def issued(port, method="GET"):
    return requests.request(method, f"http://127.0.0.1:{port}/", timeout=10).json()


def seconds(work):
    started = time.monotonic()
    work()
    return time.monotonic() - started


def test_check_start_reload_and_page(tmp_path, record_property):
    with authority(3600) as port:
        gateway = Gateway(tmp_path, config(port), environment=SECRET)
        figures = {}
        figures["check"] = seconds(lambda: gateway.run("check", timeout=60).check_returncode())
        figures["start"] = seconds(lambda: gateway.start(seconds=60))
        try:
            wait_until(lambda: issued(port)["clients"] == COUNT, 60, "each credential has a token")
            pid = gateway.process.pid
            figures["MiB"] = proc.resident_mib(pid)
            figures["page"] = min(seconds(lambda: requests.get(gateway.admin_url, timeout=10).raise_for_status()) for _ in range(3))
            gateway.configure(config(port, changed=7))
            figures["reload"] = seconds(lambda: gateway.run("reload", timeout=60).check_returncode())
            figures["MiB after the reload"] = proc.resident_mib(pid)
        finally:
            gateway.stop()
        for name, value in figures.items():
            record_property(name, round(value, 2))
        print(figures)
        bars = {name: bar * ALLOWANCE for name, bar in BARS.items()} | MIB
        assert {name: figures[name] for name, bar in bars.items() if figures[name] > bar} == {}, figures


@pytest.mark.soak
def test_a_thousand_renewals_a_second(tmp_path, record_property):
    """The authority needs a part of the machine as well."""
    life = 10
    with authority(life) as port:
        gateway = Gateway(tmp_path, config(port), environment=SECRET).start(seconds=60)
        try:
            wait_until(lambda: issued(port)["clients"] == COUNT, 60, "each credential has a token")
            # The cold start of all is over.
            time.sleep(2 * life)
            issued(port, "DELETE")
            time.sleep(20)
            figures = issued(port)
        finally:
            gateway.stop()
        rate = figures["issued"] / figures["seconds"]
        record_property("renewals a second", round(rate))
        record_property("longest time between two tokens", round(figures["longest"], 2))
        print(rate, figures)
        assert rate >= 1000
        assert figures["longest"] < life, "each token was renewed before it expired"

"""The walk of a newcomer: from the Debian package in a clean machine to three services, with curl, Python and a browser."""

import json
import subprocess
import time
import urllib.request

import pytest
from harness import processes
from harness.browser import Browser
from harness.configs import CANARY

HOME = "/root/try"
#: The sandbox answers for GitHub and OpenAI: it says what has reached it.
SERVER = "${SANDBOX_UPSTREAM_URL}/public/echo"


class Walk:
    """Runs the commands of a person in the machine, and notes how long each took."""

    def __init__(self, machine):
        self.machine = machine
        self.steps = []

    def type(self, line, secret=None):
        start = time.monotonic()
        done = subprocess.run(
            self.machine.command("sh", "-ec", f"cd {HOME} && {line}"),
            input=secret,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.steps.append((time.monotonic() - start, line))
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        assert CANARY not in done.stdout + done.stderr
        return done.stdout

    def serve(self, line):
        command = self.machine.command("sh", "-ec", f"cd {HOME} && exec {line}")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        start = time.monotonic()
        processes.wait_until(lambda: processes.is_listening(8080), 20, "it listens")
        self.steps.append((time.monotonic() - start, line))
        return process

    def text(self):
        return "".join(f"{seconds:6.1f} s  {line}\n" for seconds, line in self.steps)


def curl(path):
    done = subprocess.run(["curl", "-sS", "http://127.0.0.1:8080" + path], capture_output=True, text=True, timeout=20, check=True)
    return json.loads(done.stdout)


def carries_credential(answer):
    """The sandbox names the field and hides its value. No client here has sent one."""
    return "authorization" in {name.lower() for name, _ in answer["headers"]}


@pytest.mark.root
def test_three_services_within_five_minutes(machine, debian_package, network, tmp_path):
    walk = Walk(machine)
    start = time.monotonic()
    machine.install(debian_package)
    walk.steps.append((time.monotonic() - start, "dpkg --install authgateway.deb"))
    machine.path(HOME).mkdir()
    assert "authgateway run --sandbox" in walk.type("authgateway init </dev/null")
    gateway = walk.serve("authgateway run --sandbox")
    try:
        # Box is in the configuration of the sandbox.
        assert curl("/box/2.0/users/me")["type"] == "user"
        for service in ("github", "openai"):
            said = walk.type(f"authgateway add {service} --upstream '{SERVER}' --secret -", secret=CANARY)
            assert f"+  {service}:" in said and "serves it now." in said
        for service, path in (("github", "/user"), ("openai", "/v1/models")):
            answer = curl(f"/{service}{path}")
            assert answer["path"] == f"/public/echo{path}" and carries_credential(answer), answer
        # The same from Python.
        with urllib.request.urlopen("http://127.0.0.1:8080/github/user", timeout=20) as answer:
            assert carries_credential(json.load(answer))
        browser = Browser(tmp_path)
        try:
            browser.open("http://127.0.0.1:8081/")
            for service in ("box", "github", "openai"):
                browser.until(f"document.body && document.body.innerText.includes('{service}')")
        finally:
            browser.stop()
        listed = walk.type("authgateway status && authgateway audit query | tail -n 3")
        assert "github" in listed, listed
    finally:
        processes.end(gateway)
    seconds = time.monotonic() - start
    print(f"{walk.text()}{seconds:6.1f} s  in all")
    assert seconds < 60, walk.text()

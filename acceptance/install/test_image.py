"""The Dockerfile. Its last stage is carried out in a minimal Debian: there is no container engine here."""

import re
import subprocess

import pytest
from harness import processes
from harness.gateway import CACHE, ROOT
from harness.packages import run

DOCKERFILE = ROOT / "Dockerfile"


def instructions():
    """Of the last stage, as (name, words)."""
    text = re.sub(r"(?m)^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"))
    lines = re.sub(r"\\\n\s*", "", text.rpartition("\nFROM ")[2]).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines[1:] if line]


def test_hadolint_finds_nothing():
    (program,) = (CACHE / "hadolint").glob("*/bin/hadolint")
    run(program, "--failure-threshold", "style", DOCKERFILE)


def test_it_ends_as_a_user_without_rights():
    users = [words for name, words in instructions() if name == "USER"]
    assert users == ["10001"]


@pytest.mark.root
def test_its_steps_make_a_machine_that_serves_and_is_healthy(machine, debian_package):
    steps = instructions()
    named = dict(steps)
    source, target = named["COPY"].split()[-2:]
    assert source == "/authgateway.deb"
    machine.path(target).write_bytes(debian_package.read_bytes())
    (commands,) = [words for name, words in steps if name == "RUN"]
    machine.run("sh", "-c", commands)
    assert not machine.path(target).exists()
    variable, _, configuration = named["ENV"].partition("=")
    run_as = f"{named['USER']}:{named['USER']}"
    port, admin = processes.free_port(), processes.free_port()
    file = machine.path(configuration)
    file.write_text(file.read_text(encoding="utf-8").replace("8080", str(port)).replace("8081", str(admin)), encoding="utf-8")

    def words(name):
        return re.findall(r'"([^"]*)"', named[name].rpartition("[")[2])

    environment = {"PATH": "/usr/bin:/bin", variable: configuration}
    health = machine.command(*words("HEALTHCHECK"), user=run_as)

    def check():
        return subprocess.run(health, env=environment, capture_output=True, text=True, timeout=30, check=False).returncode

    assert check() != 0, "nothing runs yet"
    gateway = subprocess.Popen(
        machine.command(*words("ENTRYPOINT"), *words("CMD"), user=run_as), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        processes.wait_until(lambda: processes.is_listening(port), 20, "it listens")
        assert check() == 0
        assert (machine.path(named["VOLUME"]) / "tokens.sqlite").exists()
    finally:
        processes.end(gateway)
    assert check() != 0

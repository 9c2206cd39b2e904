"""`{exec: […], ttl: …}`: secrets of the configuration that a program prints, asked for again while the gateway runs."""

import contextlib
import json
import os
import pathlib
import re
import signal
import stat
import sys

import pytest
import requests
from harness.configs import CANARY
from harness import processes


@pytest.fixture
def program(tmp_path):
    """A program that prints what is in `secret`, fails when that file is not there, and counts its runs."""
    path = tmp_path / "print-secret"
    (tmp_path / "secret").write_text("one")
    path.write_text(
        f"#!{sys.executable}\nopen({str(tmp_path / 'runs')!r}, 'a').write('x')\n"
        f"print(open({str(tmp_path / 'secret')!r}).read())\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def runs(program):
    return len((program.parent / "runs").read_text())


def sent(gateway, origin):
    assert requests.get(gateway.url + "/a/x", timeout=10).status_code == 200
    return origin.last().value("authorization")


def config(origin, program, ttl="1s", **more):
    token = {"exec": [str(program), CANARY], "timeout": "10s", "ttl": ttl, **more}
    return {"routes": {"a": {"upstream": origin.url, "auth": {"strategy": "bearer", "token": token}}}}


def wait_for_runs(gateway, program, count):
    processes.wait_until(lambda: runs(program) >= count, 20, lambda: f"{count} runs; the log says:\n{gateway.text()}")


def loaded(gateway):
    return gateway.events("--event", "config_loaded")


def test_another_secret_is_used_without_a_reload(start_gateway, origin, program):
    gateway = start_gateway(config(origin, program))
    assert sent(gateway, origin) == "Bearer one"
    (program.parent / "secret").write_text("two")
    processes.wait_until(lambda: sent(gateway, origin) == "Bearer two", 20, lambda: gateway.text())
    events = loaded(gateway)
    assert [event["detail"].get("cause") for event in events] == [None, "secret"]
    assert [event.get("trigger") for event in events][-1] == "reload"
    assert '"cause":"secret"' in gateway.text()


def test_a_program_that_prints_another_one_each_time(start_gateway, origin, program):
    """What is used is what was printed: the reload does not ask again."""
    program.write_text(program.read_text().replace("print(", f"print(str(len(open({str(program.parent / 'runs')!r}).read())) + "))
    gateway = start_gateway(config(origin, program))
    assert re.fullmatch("Bearer [0-9]+one", sent(gateway, origin))
    seen = set()

    def three():
        seen.add(sent(gateway, origin))
        return len(seen) >= 3

    processes.wait_until(three, 20, lambda: f"three secrets, not {seen}:\n{gateway.text()}")
    # Counted first: to read the audit log takes as long as some reloads when the machine is busy.
    count = runs(program)
    assert len(loaded(gateway)) >= count - 1, "one run for each reload, and at most one on its way"


def test_the_same_secret_is_no_news(start_gateway, origin, program):
    gateway = start_gateway(config(origin, program))
    # It says so when it has become ready.
    processes.wait_until(lambda: "Gateway started" in gateway.text(), 20, lambda: gateway.text())
    before = gateway.text()
    wait_for_runs(gateway, program, 4)
    assert len(loaded(gateway)) == 1
    assert gateway.text() == before


def test_a_program_that_fails_leaves_the_secret_as_it_was(start_gateway, origin, program):
    gateway = start_gateway(config(origin, program))
    (program.parent / "secret").rename(program.parent / "away")
    count = runs(program)
    wait_for_runs(gateway, program, count + 3)
    assert sent(gateway, origin) == "Bearer one"
    assert gateway.text().count("Secret not renewed") == 1 and "exited with status 1" in gateway.text()
    assert len(loaded(gateway)) == 1 and not gateway.events("--event", "config_refused")
    (program.parent / "secret").write_text("two")
    processes.wait_until(lambda: sent(gateway, origin) == "Bearer two", 20, lambda: gateway.text())
    assert gateway.text().count("Secret renewed again") == 1


def test_a_reload_asks_again_and_a_longer_ttl_waits(start_gateway, origin, program):
    gateway = start_gateway(config(origin, program, ttl="1h"))
    (program.parent / "secret").write_text("two")
    assert sent(gateway, origin) == "Bearer one"
    assert gateway.run("reload").returncode == 0
    assert sent(gateway, origin) == "Bearer two"
    assert runs(program) == 2


def test_a_stop_does_not_wait_for_a_program(start_gateway, origin, program):
    gateway = start_gateway(config(origin, program, timeout="60s"))
    program.write_text(program.read_text() + "import time\ntime.sleep(50)\n")
    wait_for_runs(gateway, program, runs(program) + 1)
    assert gateway.stop(seconds=15) == 0


def test_a_program_sees_little_of_the_environment(make_gateway, origin, tmp_path):
    seen = tmp_path / "seen"
    script = f"import json, os\njson.dump(dict(os.environ), open({str(seen)!r}, 'w'))\nprint('{CANARY}')"
    token = {
        "exec": [sys.executable, "-c", script],
        "environment": {"STATED": "yes", "STATED_TOKEN": {"env": "ANOTHER_SECRET"}},
    }
    route = {"upstream": origin.url, "auth": {"strategy": "bearer", "token": token}}
    environment = {"ANOTHER_SECRET": CANARY, "OTHER": "x"}
    gateway = make_gateway({"routes": {"a": route}}, environment=environment).start()
    assert sent(gateway, origin) == f"Bearer {CANARY}"
    variables = json.loads(seen.read_text())
    assert variables["STATED"] == "yes" and variables["STATED_TOKEN"] == CANARY and "PATH" in variables
    assert not {"ANOTHER_SECRET", "OTHER"} & set(variables)
    seen.unlink()


def test_children_that_a_program_leaves_are_ended(start_gateway, origin, tmp_path):
    """One of them holds the program's output open: it is not waited for."""
    child = tmp_path / "child"
    program = ["sh", "-c", f"sleep 300 & echo $! > {child}; echo {CANARY}"]
    token = {"exec": program, "timeout": "60s"}
    gateway = start_gateway({"routes": {"a": {"upstream": origin.url, "auth": {"strategy": "bearer", "token": token}}}})
    assert sent(gateway, origin) == f"Bearer {CANARY}"
    status = pathlib.Path("/proc", child.read_text().strip(), "stat")
    processes.wait_until(lambda: not is_running(status), 10, "the child has ended")


def is_running(status):
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    "token, problem",
    [
        ({"exec": ["true"], "ttl": "10ms"}, "must be between 1s and 30d"),
        ({"exec": ["true"], "ttl": "soon"}, "expected a duration"),
        ({"env": "HOME", "ttl": "10s"}, "is for exec only"),
        ({"env": "HOME", "environment": {"A": "b"}}, "is for exec only"),
    ],
)
def test_a_ttl_that_cannot_be(make_gateway, origin, token, problem):
    gateway = make_gateway({"routes": {"a": {"upstream": origin.url, "auth": {"strategy": "bearer", "token": token}}}})
    result = gateway.run("check")
    assert result.returncode == 3 and problem in result.stderr, result.stderr


def children(pid):
    """The states of its children by their numbers, as the system shows them here."""
    found = {}
    for number in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[int(number)] = pathlib.Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    return found


def test_as_process_1_the_gateway_reaps_what_programs_leave(make_gateway, origin, program):
    """In a container without an init process, each of them stayed a zombie until the process table was full."""
    # A session of its own: the end of the program's process group does not reach it.
    program.write_text(
        program.read_text().replace(
            "\nprint(",
            "\nimport os, time\nready, told = os.pipe()\nif os.fork() == 0:\n"
            "    os.setsid()\n    os.dup2(os.open('/dev/null', os.O_WRONLY), 1)\n    os.write(told, b'x')\n"
            "    time.sleep(0.2)\n    os._exit(0)\nos.read(ready, 1)\nprint(",
        )
    )
    gateway = make_gateway(config(origin, program))
    gateway.wrapper = ["unshare", "--pid", "--fork", "--mount-proc"]
    gateway.start()
    [process] = children(gateway.process.pid)
    try:
        wait_for_runs(gateway, program, 4)
        processes.wait_until(lambda: "Z" not in children(process).values(), 10, lambda: f"no zombies: {children(process)}")
        assert sent(gateway, origin) == "Bearer one", "it still reads the end of its own programs"
    finally:
        # unshare ignores this signal itself.
        os.kill(process, signal.SIGTERM)
        gateway.process.wait(40)

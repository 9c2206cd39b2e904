"""`exec`: programs that print a token."""

import concurrent.futures
import json
import os
import socket
import stat
import sys
import threading
import time

import pytest
import requests
from harness.configs import CANARY
from harness import proc, processes
from harness.origin import response
from harness.token_server import who

EXEC_INFO = {
    "kind": "ExecCredential",
    "apiVersion": "client.authentication.k8s.io/v1",
    "spec": {"interactive": False},
}


@pytest.fixture
def api(make_origin):
    return make_origin(who)


@pytest.fixture
def start(start_gateway, api, tmp_path):
    """Starts a gateway whose program runs these lines of Python; `runs` counts how often."""

    def start(lines, arguments=(), upstream=None, environment=None, **block):
        program = tmp_path / "print-token"
        prelude = f"import json, os, subprocess, sys, time\nopen({str(tmp_path / 'runs')!r}, 'a').write('x')\n"
        program.write_text(f"#!{sys.executable}\n{prelude}{lines}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        credential = {"strategy": "exec", "command": [str(program), *arguments], **block}
        return start_gateway(
            {
                "credentials": {"cloud": credential},
                "routes": {"api": {"upstream": (upstream or api).url, "auth": "cloud"}},
            },
            environment=environment,
        )

    return start


def runs(tmp_path):
    path = tmp_path / "runs"
    return len(path.read_text()) if path.exists() else 0


def get(gateway, seconds=25):
    return requests.get(gateway.url + "/api/x", timeout=seconds)


def lives(gateway):
    """The seconds from now to the end of the token; None when it has none."""
    (token,) = json.loads(gateway.run("token", "list", "--json").stdout)
    return token.get("remainingSeconds", token.get("remaining_seconds"))


@pytest.mark.parametrize(
    "printed, block, seconds",
    [
        ("json.dumps({'token': 'abc', 'expires_in': 300})", {}, 300),
        ("json.dumps({'access_token': 'abc', 'expires_in': '300'})", {}, 300),
        ("json.dumps({'token': 'abc', 'expires_at': time.time() + 300})", {}, 300),
        ("json.dumps({'token': 'abc', 'expires_at': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 300))})", {}, 300),
        ("json.dumps({'token': 'abc'})", {"default_ttl": "200s"}, 200),
        ("json.dumps({'token': 'abc'})", {}, None),
        ("'abc'", {"format": "text", "default_ttl": "200s"}, 200),
        ("'  abc  \\n\\n'", {"format": "text"}, None),
        (
            "json.dumps({'kind': 'ExecCredential', 'apiVersion': 'client.authentication.k8s.io/v1', 'status': {'token': 'abc',"
            " 'expirationTimestamp': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 300))}})",
            {"format": "kubernetes"},
            300,
        ),
    ],
)
def test_what_is_printed_is_the_token(start, tmp_path, printed, block, seconds):
    gateway = start(f"print({printed})", **block)
    assert [get(gateway).text for _ in range(3)] == ["Bearer abc"] * 3
    assert runs(tmp_path) == 1
    left = lives(gateway)
    assert left is None if seconds is None else seconds - 20 <= left <= seconds


def test_kubernetes_plugins_are_told_what_kubectl_tells_them(start, tmp_path):
    seen = tmp_path / "seen"
    gateway = start(
        f"open({str(seen)!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "print(json.dumps({'kind': 'ExecCredential', 'status': {'token': 'abc'}}))",
        format="kubernetes",
    )
    assert get(gateway).text == "Bearer abc"
    assert json.loads(seen.read_text()) == EXEC_INFO


def test_the_program_is_run_again_ahead_of_the_end(start, tmp_path):
    gateway = start("print(json.dumps({'token': f'abc-{time.time_ns()}', 'expires_in': 3}))")
    first = get(gateway).text
    processes.wait_until(lambda: get(gateway).text != first, 10, "a new token")
    assert runs(tmp_path) >= 2


def test_it_is_run_again_when_the_token_is_rejected(start, make_origin, tmp_path):
    api = make_origin(lambda request: response(401) if request.value("authorization") == "Bearer abc-1" else who(request))
    lines = f"print('abc-' + str(len(open({str(tmp_path / 'runs')!r}).read())))"
    assert get(start(lines, upstream=api, format="text")).text == "Bearer abc-2"
    assert runs(tmp_path) == 2


def test_many_at_once_run_it_once(start, tmp_path):
    gateway = start("time.sleep(0.5); print('abc')", format="text")
    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda _: get(gateway).text, range(30)))
    assert answers == ["Bearer abc"] * 30
    assert runs(tmp_path) == 1


# MARK: What it is given


def test_there_is_no_shell(start, tmp_path):
    arguments = ["$(touch made)", "`touch made`", "a; touch made", "* ~ $HOME", "it's \"quoted\"", ""]
    seen = tmp_path / "seen"
    gateway = start(f"json.dump(sys.argv[1:], open({str(seen)!r}, 'w')); print('abc')", arguments[:-1], format="text")
    assert get(gateway).text == "Bearer abc"
    assert json.loads(seen.read_text()) == arguments[:-1]
    assert not list(tmp_path.rglob("made"))


def test_it_sees_its_own_variables_and_not_the_gateways(start, tmp_path):
    seen = tmp_path / "seen"
    lines = (
        "links = [f'/proc/self/fd/{number}' for number in os.listdir('/proc/self/fd')]\n"
        # That of the listing itself is closed by now.
        "held = {link[14:]: os.readlink(link) for link in links if os.path.lexists(link)}\n"
        f"json.dump([dict(os.environ), sys.stdin.read(), held], open({str(seen)!r}, 'w'))\nprint('abc')"
    )
    gateway = start(
        lines,
        format="text",
        environment={"BOX_CLIENT_SECRET": "not-for-programs", "VAULT_TOKEN": CANARY},
    )
    assert get(gateway).text == "Bearer abc"
    variables, read, descriptors = json.loads(seen.read_text())
    assert "BOX_CLIENT_SECRET" not in variables and "VAULT_TOKEN" not in variables
    assert variables["PATH"] and read == ""
    assert sorted(descriptors) == ["0", "1", "2"], descriptors


def test_it_is_not_given_connections_that_come_while_it_starts(start, tmp_path):
    seen = tmp_path / "seen"
    gateway = start(
        "links = [f'/proc/self/fd/{number}' for number in os.listdir('/proc/self/fd')]\n"
        "held = sum(os.path.lexists(link) for link in links)\n"
        f"open({str(seen)!r}, 'a').write(f'{{held}}\\n')\n"
        "json.dump({'token': f'abc{held}', 'expires_in': 3600}, sys.stdout)",
        format="json",
    )
    stop = threading.Event()

    def knock():
        while not stop.is_set():
            with socket.create_connection(("127.0.0.1", gateway.port)):
                pass

    threads = [threading.Thread(target=knock, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        assert gateway.run("token", "refresh", "cloud").returncode == 0
    stop.set()
    for thread in threads:
        thread.join(10)
    held = seen.read_text().split()
    assert len(held) >= 30 and set(held) == {"3"}, held


def test_a_secret_is_given_in_the_environment_and_shown_nowhere(start_gateway, api, tmp_path):
    program = tmp_path / "print-token"
    program.write_text(f"#!{sys.executable}\nimport os, time\ntime.sleep(1)\nprint('abc' if os.environ['VAULT_TOKEN'] == {CANARY!r} else 'x')\n")
    program.chmod(0o700)
    gateway = start_gateway(
        {
            "credentials": {
                "cloud": {
                    "strategy": "exec",
                    "command": [str(program)],
                    "format": "text",
                    "environment": {"PROFILE": "production", "VAULT_TOKEN": {"env": "VAULT_TOKEN"}},
                }
            },
            "routes": {"api": {"upstream": api.url, "auth": "cloud"}},
        },
        environment={"VAULT_TOKEN": CANARY},
    )
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(get, gateway)
        found = processes.wait_until(lambda: children(gateway.process.pid), 10, "the program")
        for pid in found:
            with open(f"/proc/{pid}/cmdline", "rb") as arguments:
                assert CANARY.encode() not in arguments.read()
        assert answer.result().text == "Bearer abc"
    assert CANARY not in gateway.run("plan").stdout + gateway.run("status").stdout


def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as listed:
            found += listed.read().split()
    return found


# MARK: What goes wrong


@pytest.mark.parametrize(
    "lines, block, detail",
    [
        (f"sys.stderr.write({CANARY!r}); sys.exit(3)", {}, "exited with status 3; run it by hand to see why"),
        (f"print({CANARY!r}); sys.exit(1)", {"format": "text"}, "exited with status 1"),
        ("os.kill(os.getpid(), 9)", {}, "was killed by signal 9"),
        ("print('x' * 2_000_000)", {"format": "text"}, "printed too much"),
        ("pass", {"format": "text"}, "printed no usable token"),
        (f"print('{CANARY} {CANARY}')", {"format": "json"}, "the output is not JSON"),
        ("print('two\\nlines')", {"format": "text"}, "contains control characters"),
        ("print(json.dumps({'expires_in': 3}))", {}, "neither token nor access_token"),
        ("print(json.dumps({'kind': 'Pod', 'status': {'token': 'a'}}))", {"format": "kubernetes"}, "not an ExecCredential"),
    ],
)
def test_a_program_that_fails_is_named_and_what_it_said_is_not_shown(start, api, tmp_path, lines, block, detail):
    gateway = start(lines, **block)
    for _ in range(3):
        refused = get(gateway)
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (503, "token-temporarily-unavailable"), problem
        assert detail in problem["detail"] and "print-token" in problem["detail"], problem
        assert int(refused.headers["Retry-After"]) >= 1
        assert CANARY not in refused.text
    assert (runs(tmp_path), api.count()) == (1, 0)
    assert CANARY not in gateway.run("status").stdout + gateway.run("token", "show", "cloud").stdout
    # What the log and the files hold is searched when the gateway has ended.


def test_a_program_that_is_not_there_is_a_mistake_of_the_configuration(start_gateway, api):
    gateway = start_gateway(
        {
            "credentials": {"cloud": {"strategy": "exec", "command": ["./no-such-program"]}},
            "routes": {"api": {"upstream": api.url, "auth": "cloud"}},
        }
    )
    refused = get(gateway)
    assert (refused.status_code, refused.json()["code"]) == (500, "credential-misconfigured")
    assert "no-such-program" in refused.json()["detail"]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as state:
            return state.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_that_hangs_is_killed_with_all_that_it_started(start, tmp_path):
    pids = tmp_path / "pids"
    gateway = start(
        "child = subprocess.Popen(['sleep', '1000'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\ntime.sleep(1000)",
        timeout="500ms",
    )
    began = time.monotonic()
    refused = get(gateway)
    assert time.monotonic() - began < 8
    assert (refused.status_code, refused.json()["code"]) == (504, "token-endpoint-timeout"), refused.text
    assert "did not exit within 500ms" in refused.json()["detail"]
    for pid in pids.read_text().split():
        processes.wait_until(lambda pid=pid: not alive(pid), 5, f"process {pid} is gone")


def test_who_leaves_while_it_runs_leaves_nothing_behind(start, api, tmp_path):
    gateway = start("time.sleep(1); print('abc')", format="text")
    before = proc.descriptors(gateway.process.pid)
    connections = [socket.create_connection(("127.0.0.1", gateway.port), 15) for _ in range(20)]
    for connection in connections:
        connection.sendall(b"GET /api/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
    processes.wait_until(lambda: runs(tmp_path) == 1, 10, "the program runs")
    for connection in connections:
        connection.close()
    assert get(gateway).text == "Bearer abc"
    assert (runs(tmp_path), api.count()) == (1, 1)
    processes.wait_until(
        # One connection to the origin stays.
        lambda: proc.descriptors(gateway.process.pid) <= before + 2 and not children(gateway.process.pid),
        10,
        "nothing is left",
    )

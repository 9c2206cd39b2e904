"""SDKs that refuse to start without an API key: `exec` gives them one that only this gateway knows, as long as the program runs."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import requests
from harness import processes, sdks
from harness.configs import BEARER
from harness.gateway import BINARY
from harness.https_clients import PAGE
from harness.tls_origin import TLSOrigin

TOKEN = "token-of-the-laptop-1"
REAL = "a-real-key-that-must-not-leave"
OPENAI = sdks.ALL[0]


@pytest.fixture
def origin(names, certificate_authority):
    """All services, behind their own names."""
    names.addresses |= dict.fromkeys(sdks.HOSTS, ["127.0.0.1"])
    secure = certificate_authority.issue("sdks", ",".join(f"DNS:{host}" for host in sdks.HOSTS))
    origin = TLSOrigin(*secure, 443, sdks.ANSWERS)
    yield origin
    origin.stop()


@pytest.fixture
def serving(origin, names, make_gateway, certificate_authority):
    """A gateway with a route to each of these services; not started with `start=False`."""

    def make(*services, start=True, auth=BEARER, connect=None, **more):
        route = {"auth": auth, "tls": {"ca": str(certificate_authority.certificate)}}
        routes = {sdk.name.lower().replace("_", "-"): {**route, "upstream": f"https://{sdk.host}"} for sdk in services}
        place = {"address": f"127.0.0.1:{processes.free_port()}", "intercept": True, **({"connect": connect} if connect else {})}
        gateway = make_gateway({"routes": routes, **more}, listeners=[place])
        gateway.place = place
        gateway.wrapper = [*names.wrapper(), *gateway.wrapper]
        return gateway.start() if start else gateway

    return make


def execute(gateway, *words, options=(), **changes):
    command = [BINARY, "exec", "--config", str(gateway.file), *options, "--", *map(str, words)]
    # An ephemeral gateway asks the names itself.
    wrapped = [*gateway.wrapper, *command] if "--ephemeral" in options else command
    clean = processes.environment(**changes)
    return subprocess.run(wrapped, check=False, cwd=gateway.folder, env=clean, capture_output=True, text=True, timeout=90)


def show(*names):
    return [sys.executable, "-c", f"import json, os; print(json.dumps([os.environ.get(name) for name in {list(names)!r}]))"]


def field(origin, name):
    return [value for key, value in origin.heads[-1] if key.lower() == name]


@pytest.mark.parametrize("options", [(), ("--ephemeral",)], ids=["running", "ephemeral"])
@pytest.mark.parametrize("sdk", sdks.ALL, ids=lambda sdk: sdk.name)
def test_an_sdk_starts_and_its_key_stays(serving, origin, sdk, options):
    gateway = serving(sdk, start=not options)
    environment = {**sdk.more, **({sdk.variable: REAL} if sdk.needs_variable else {})}
    code = f"{sdk.command[2]}\nimport os; print('key', os.environ[{sdk.variable!r}])"
    done = execute(gateway, sys.executable, "-c", code, options=options, **environment)
    assert done.returncode == 0 and PAGE in done.stdout, (done, origin.seen)
    key = done.stdout.rpartition("key ")[2].strip()
    assert key.startswith(sdk.prefix) and len(key) == len(sdk.prefix) + 64, done
    assert origin.seen and all(proved for *_, proved in origin.seen), origin.seen
    sent = json.dumps([origin.heads, origin.targets])
    assert key not in sent and key.removeprefix(sdk.prefix) not in sent and REAL not in sent, sent
    if sdk.field != "authorization":
        assert field(origin, sdk.field) == [], "the route puts its credential elsewhere"
    if sdk.parameter:
        assert sdk.parameter not in origin.targets[-1], "the route puts its credential elsewhere"


def test_a_real_key_is_replaced_and_named(serving, origin):
    gateway = serving(OPENAI)
    done = execute(gateway, *show("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), OPENAI_API_KEY=REAL, ANTHROPIC_API_KEY=REAL)
    key, other = json.loads(done.stdout)
    assert key.startswith("sk-") and other == REAL, "there is no route for the other"
    assert "in place of OPENAI_API_KEY" in done.stderr and "ANTHROPIC" not in done.stderr, done
    assert REAL not in done.stderr and key not in done.stderr and key[3:] not in done.stderr
    kept = execute(gateway, *show("OPENAI_API_KEY"), options=("--keep-env", "OPENAI_API_KEY"), OPENAI_API_KEY=REAL)
    assert json.loads(kept.stdout) == [REAL] and kept.stderr == "", kept
    unset = execute(gateway, *show("OPENAI_API_KEY"), options=("--keep-env", "OPENAI_API_KEY"))
    assert json.loads(unset.stdout) == [None] and unset.stderr == "", unset


def test_a_secret_of_the_configuration_is_replaced_as_well(serving, origin):
    gateway = serving(OPENAI, start=False, auth={"strategy": "bearer", "token": {"env": "OPENAI_API_KEY"}})
    gateway.environment = {"OPENAI_API_KEY": BEARER["token"]}
    gateway.start()
    done = execute(gateway, *OPENAI.command, **gateway.environment)
    assert PAGE in done.stdout and "in place of OPENAI_API_KEY" in done.stderr and "withheld" not in done.stderr, done
    # A gateway that is started in such a shell reads its secret there.
    found = json.loads(gateway.run("env", "--format", "json").stdout)
    assert "HTTPS_PROXY" in found and "OPENAI_API_KEY" not in found


def test_without_a_credential_the_key_is_the_programs(serving, origin):
    gateway = serving(OPENAI, auth="none")
    done = execute(gateway, *show("OPENAI_API_KEY"), OPENAI_API_KEY=REAL)
    assert json.loads(done.stdout) == [REAL] and done.stderr == "", done


def test_a_key_for_another_server_stays(serving, origin):
    gateway = serving(OPENAI)
    done = execute(gateway, *show("OPENAI_API_KEY"), OPENAI_API_KEY=REAL, OPENAI_BASE_URL="https://llm.example/v1")
    assert json.loads(done.stdout) == [REAL] and "OPENAI_BASE_URL names a server" in done.stderr, done
    by_path = f"http://{gateway.place['address']}/openai/v1"
    done = execute(gateway, *OPENAI.command, OPENAI_API_KEY=REAL, OPENAI_BASE_URL=by_path)
    assert PAGE in done.stdout and "in place of OPENAI_API_KEY" in done.stderr, done


WAIT = "import os, sys; print(os.environ['OPENAI_API_KEY'], flush=True); sys.stdin.read()"


def waiting(gateway):
    """A program of the client that waits for the end of its input, and its key."""
    command = [BINARY, "exec", "--config", str(gateway.file), "--client", "laptop", "--", sys.executable, "-c", WAIT]
    process = subprocess.Popen(
        command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=processes.environment(), cwd=gateway.folder
    )
    return process, processes.first_line(process, 30)


@pytest.mark.parametrize("is_killed", [False, True], ids=["exit", "kill"])
def test_it_proves_the_client_and_ends_with_the_program(serving, origin, is_killed):
    gateway = serving(OPENAI, access={"clients": {"laptop": {"token": TOKEN}}})
    url = f"http://{gateway.place['address']}/openai/v1/chat/completions"
    process, key = waiting(gateway)
    bare = key.removeprefix("sk-")

    def status(**more):
        return requests.get(url, timeout=20, **more).status_code

    for fields in {"Authorization": f"Bearer {key}"}, {"x-api-key": bare}, {"api-key": key}, {"x-goog-api-key": key}:
        assert status(headers=fields) == 200, fields
        assert key not in json.dumps(origin.heads) and bare not in json.dumps(origin.heads)
    for login in (key, ""), ("x", bare):
        assert status(auth=login) == 200
    for query in f"a=1&key={key}&b=2", f"a=1&b=2&api_key={bare}", f"access_token={bare};a=1&b=2", f"a=1&key={bare}&key={key}&b=2":
        assert status(params=query) == 200, query
        assert origin.targets[-1] == "/v1/chat/completions?a=1&b=2", origin.targets[-1]
    assert status(params=f"other={key}") == 401
    assert status() == 401 and status(headers={"x-api-key": key[:-1]}) == 401
    assert key not in gateway.text() and bare not in gateway.text()
    if is_killed:
        process.kill()
    process.stdin.close()
    process.wait(30)
    assert status(headers={"x-api-key": key}) == 401, "the token has ended with its program"
    processes.end(process)


def test_a_reload_that_removes_the_client_ends_it(serving, origin):
    gateway = serving(OPENAI, access={"clients": {"laptop": {"token": TOKEN}}})
    url = f"http://{gateway.place['address']}/openai/v1/chat/completions"
    process, key = waiting(gateway)
    try:
        fields = {"x-api-key": key}
        assert requests.get(url, timeout=20, headers=fields).status_code == 200
        config = json.loads(gateway.file.read_text())
        config["access"]["clients"]["laptop"]["token"] = "another-token-of-the-laptop"
        gateway.file.write_text(json.dumps(config))
        assert gateway.run("reload").returncode == 0
        assert requests.get(url, timeout=20, headers=fields).status_code == 401
    finally:
        process.stdin.close()
        processes.end(process)


def test_a_program_that_ignores_the_proxy_is_told_where_the_gateway_is(serving, origin, tmp_path):
    gateway = serving(OPENAI, access={"clients": {"laptop": {"token": TOKEN}}})
    node, program = tmp_path / "node", tmp_path / "program.py"
    program.write_text(OPENAI.command[2], encoding="utf-8")
    node.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo v20.11.0 && exit\n'
        f'unset HTTPS_PROXY https_proxy HTTP_PROXY http_proxy ALL_PROXY all_proxy\nexec {sys.executable} {program}\n',
        encoding="utf-8",
    )
    node.chmod(0o700)
    done = execute(gateway, node, options=("--client", "laptop"))
    assert PAGE in done.stdout and "OPENAI_BASE_URL points the program to the gateway" in done.stderr and "ignores HTTPS_PROXY" in done.stderr, done


def test_a_host_without_a_route_gets_a_worthless_value(serving, origin, certificate_authority):
    connect = {"unrouted": "tunnel", "allow": ["api.anthropic.com", "127.0.0.0/8"], "ports": [443]}
    gateway = serving(OPENAI, connect=connect)
    ask = 'curl -sS -o /dev/null -w "%{http_code}" -H "Authorization: Bearer $OPENAI_API_KEY" https://api.anthropic.com/v1/messages'
    done = execute(gateway, "sh", "-c", ask, CURL_CA_BUNDLE=str(certificate_authority.certificate))
    assert done.stdout == "401" and field(origin, "authorization")[0].startswith("Bearer sk-"), (done, origin.heads)


def test_env_prints_values_that_prove_nothing(serving, origin):
    gateway = serving(OPENAI)
    first, second = (json.loads(gateway.run("env", "--format", "json", OPENAI_API_KEY=REAL).stdout) for _ in range(2))
    assert first["OPENAI_API_KEY"].startswith("sk-") and first["OPENAI_API_KEY"] != second["OPENAI_API_KEY"]
    done = subprocess.run(
        OPENAI.command, check=False, env={**processes.environment(), **first}, capture_output=True, text=True, timeout=60
    )
    assert PAGE in done.stdout, done


#: As `gh`, which prefers a token of its environment to the login that it has stored.
GH = """#!/bin/sh
[ "$1 $2" = "auth git-credential" ] || exit 1
cat > /dev/null
case $3 in
  get) echo username=x-access-token; echo "password=${GH_TOKEN:-${GITHUB_TOKEN:-stored-login}}" ;;
  *) echo "$3" >> "$HOME/told" ;;
esac
"""


@pytest.mark.parametrize("setting", [{}, {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "a"}], ids=["", "more"])
def test_a_credential_helper_does_not_offer_the_token_to_github(serving, origin, tmp_path, setting):
    gateway = serving(next(sdk for sdk in sdks.ALL if sdk.name == "PyGithub"))
    helper = tmp_path / "gh"
    helper.write_text(GH, encoding="utf-8")
    helper.chmod(0o700)
    (tmp_path / ".gitconfig").write_text('[credential "https://github.com"]\n\thelper = !gh auth git-credential\n', encoding="utf-8")
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}", "GIT_TERMINAL_PROMPT": "0", **setting}

    def credential(action, more=""):
        ask = f"printf 'protocol=https\\nhost=github.com\\n{more}\\n' | git credential {action} && git config user.name; echo $GH_TOKEN"
        return execute(gateway, "sh", "-c", ask, **environment).stdout

    given = credential("fill")
    key = given.split()[-1]
    assert "password=stored-login" in given and len(key) == 64 and given.count(key) == 1, given
    assert ("\na\n" in given) == bool(setting), "other settings of the environment stay"
    for action in "approve", "reject":
        credential(action, "username=a\\npassword=b\\n")
    assert (tmp_path / "told").read_text(encoding="utf-8").split() == ["store", "erase"]


#: As `gh repo clone`, which sets its own helper for git (`AuthenticatedCommand` in git/client.go of cli/cli).
CLONING = """#!/bin/sh
[ "$1 $2" = "auth git-credential" ] && exec gh-helper "$@"
printf 'protocol=https\\nhost=github.com\\n\\n' | git -c credential.helper= -c 'credential.helper=!gh auth git-credential' credential fill
"""


@pytest.mark.parametrize("has_route", [False, True])
def test_a_helper_that_gh_sets_for_git_is_warned_of(serving, origin, tmp_path, has_route):
    github = next(sdk for sdk in sdks.ALL if sdk.name == "PyGithub")
    gateway = serving(github, start=False)
    if has_route:
        config = json.loads(gateway.file.read_text())
        config["routes"]["git"] = {**config["routes"]["pygithub"], "upstream": "https://github.com"}
        gateway.file.write_text(json.dumps(config))
    gateway.start()
    for name, text in ("gh", CLONING), ("gh-helper", GH):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o700)
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}", "GIT_TERMINAL_PROMPT": "0"}
    done = execute(gateway, "gh", "repo", "clone", "a/b", **environment)
    given = dict(line.split("=", 1) for line in done.stdout.split())
    # With a route, the gateway puts the real credential in its place.
    assert len(given["password"]) == 64, done
    assert ("gh gives git the token of this run for github.com" in done.stderr) != has_route, done.stderr
    assert "gh gives" not in execute(gateway, "gh", "repo", "view", **environment).stderr


def test_where_nobody_expects_it_it_is_refused(serving, origin):
    """Also for a client that has proved itself: what goes upstream never holds it."""
    gateway = serving(OPENAI, access={"clients": {"laptop": {"token": TOKEN}}})
    url = f"http://{gateway.place['address']}/openai/v1/chat/completions"
    process, key = waiting(gateway)
    try:
        proof = {"Authorization": f"Bearer {TOKEN}"}
        places = [
            {"headers": {"Cookie": f"session={key}"}},
            {"headers": {"Sec-WebSocket-Protocol": f"realtime, openai-insecure-api-key.{key}"}},
            {"headers": {"X-Custom": key}},
            {"params": f"other={key}"},
            {"params": key},
        ]
        for place in places:
            headers = {**proof, **place.pop("headers", {})}
            answer = requests.get(url, timeout=20, headers=headers, **place)
            assert answer.status_code == 400 and "a program that exec runs" in answer.json()["detail"], (place, answer.text)
            assert key not in answer.text
        assert requests.get(f"{url}/{key}", timeout=20, headers=proof).status_code == 400
        assert origin.seen == [] and key.removeprefix("sk-") not in gateway.text()
        # The admin listener has tokens of its own.
        for field in "Authorization", "Proxy-Authorization":
            vended = requests.post(f"{gateway.admin_url}/tokens/openai", timeout=20, headers={field: f"Bearer {key}"})
            assert vended.status_code in (401, 403, 404), vended.text
    finally:
        process.stdin.close()
        processes.end(process)


ORDERS = """
import http.client, json, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
started = int(open("/proc/1/stat").read().rpartition(")")[2].split()[19])
for _ in range(count):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/api/runs", json.dumps({"process": 1, "started": started}))
    print(connection.getresponse().status)
    connection.close()
"""


def test_a_user_of_the_machine_takes_only_places_of_their_own(serving, origin, other_users):
    gateway = serving(OPENAI)
    port = gateway.admin_url.rpartition(":")[2]

    def order(count, user=None):
        command = ["/usr/bin/python3", "-c", ORDERS, port, str(count)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=90, user=user, env={})
        return done.stdout.split()

    greedy, other = other_users
    assert order(66, greedy.number) == ["200"] * 64 + ["503"] * 2
    assert order(1, other.number) == order(1) == ["200"]
    key = json.loads(execute(gateway, *show("OPENAI_API_KEY")).stdout)[0]
    assert key.startswith("sk-")


def test_the_gateway_makes_no_token_for_a_process_that_it_does_not_see(serving, origin):
    gateway = serving(OPENAI)
    for body in {"process": 1, "started": 1}, {"process": 2**31 - 1, "started": 1}:
        answer = requests.post(f"{gateway.admin_url}/api/runs", json=body, timeout=20)
        assert answer.status_code == 400 and "no such process" in answer.text, answer.text
    assert requests.post(f"{gateway.admin_url}/api/runs", json={"process": "1"}, timeout=20).status_code == 400


def test_the_gateway_makes_no_token_for_an_unknown_client(serving, origin):
    gateway = serving(OPENAI, access={"clients": {"laptop": {"token": TOKEN}}})
    words = pathlib.Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    own = {"process": os.getpid(), "started": int(words[19])}

    def begin(token):
        return requests.post(f"{gateway.admin_url}/api/runs", json={**own, "token": token}, timeout=20)

    assert begin("a-token-that-nobody-has").status_code == 400
    key = begin(TOKEN).json()["token"]
    url = f"http://{gateway.place['address']}/openai/v1/chat/completions"
    assert requests.get(url, timeout=20, headers={"x-api-key": key}).status_code == 200
    # Without a client's token it proves nothing.
    nobody = requests.post(f"{gateway.admin_url}/api/runs", json=own, timeout=20).json()["token"]
    assert requests.get(url, timeout=20, headers={"x-api-key": nobody}).status_code == 401

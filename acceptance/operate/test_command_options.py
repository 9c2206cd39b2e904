"""`run --token-lifetime`, `sandbox --port` and `reload --json`."""

import json
import socket
import subprocess

import pytest
import requests
from harness import processes
from harness.configs import BEARER, CANARY, DUKE
from harness.events import named
from harness.gateway import BINARY, command

# MARK: run --token-lifetime


def token(gateway):
    [token] = requests.get(f"{gateway.admin_url}/api/tokens", timeout=10).json()
    return token


def oauth():
    return {
        "strategy": "oauth2_client_credentials",
        "token_url": "${SANDBOX_OAUTH_URL}/oauth/token",
        "client_id": "${SANDBOX_OAUTH_CLIENT_ID}",
        "client_secret": "${SANDBOX_OAUTH_CLIENT_SECRET}",
    }


LIFETIMES = [([], 3600), (["--token-lifetime", "7200"], 7200), (["--token-lifetime=40"], 40)]


@pytest.mark.parametrize("arguments, lifetime", LIFETIMES)
@pytest.mark.parametrize("credential", [oauth(), DUKE], ids=["oauth", "duke"])
def test_tokens_of_the_sandbox_live_as_long_as_run_says(make_gateway, arguments, lifetime, credential):
    routes = {"api": {"upstream": "${SANDBOX_UPSTREAM_URL}", "auth": "me"}}
    gateway = make_gateway({"tokens": {"store": "memory"}, "credentials": {"me": credential}, "routes": routes})
    gateway.start("--sandbox", *arguments)
    answer = requests.get(f"{gateway.url}/api/echo", timeout=20)
    assert answer.status_code == 200 and answer.json()["authorization"]["accepted"] is True
    if credential is DUKE:
        # The first pair is the configuration's, and says nothing about its end.
        assert gateway.run("token", "refresh", "me").returncode == 0
    # Less what has passed since then; half of it is more than any machine takes here.
    assert lifetime / 2 < token(gateway)["remaining_seconds"] <= lifetime


def test_the_sandbox_is_no_difference_from_the_file(make_gateway):
    routes = {"api": {"upstream": "${SANDBOX_UPSTREAM_URL:-http://127.0.0.1:9}", "auth": "none"}}
    gateway = make_gateway({"tokens": {"store": "memory"}, "routes": routes}).start("--sandbox")
    plan = gateway.run("plan")
    assert plan.returncode == 0 and "Nothing changes." in plan.stdout and "--sandbox" in plan.stderr, plan
    doctor = gateway.run("doctor", "--offline")
    assert "the gateway runs with --sandbox" in doctor.stdout, doctor
    assert "another configuration" not in doctor.stdout, doctor


def test_a_token_that_lives_shortly_ends(make_gateway):
    """The authority itself takes it no more; with `renew: false` the gateway fetches no other."""
    routes = {"api": {"upstream": "${SANDBOX_UPSTREAM_URL}", "auth": "me"}}
    whole = {"tokens": {"store": "memory"}, "credentials": {"me": {**oauth(), "renew": False}}, "routes": routes}
    gateway = make_gateway(whole).start("--sandbox", "--token-lifetime", "1")

    def status():
        answer = requests.get(f"{gateway.url}/api/echo", timeout=20)
        return answer.status_code, answer.json().get("code")

    assert status()[0] == 200
    processes.wait_until(lambda: status() == (503, "static-token-expired"), 10, status)


@pytest.mark.parametrize("subcommand", [["run", "--sandbox"], ["run"], ["sandbox"]])
@pytest.mark.parametrize("lifetime", ["0", "86401", "-1", "1h"])
def test_a_lifetime_that_is_none_is_wrong_usage(tmp_path, subcommand, lifetime):
    refused = command(*subcommand, f"--token-lifetime={lifetime}", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, ""), refused
    assert "--token-lifetime" in refused.stderr
    assert list(tmp_path.iterdir()) == []


# MARK: sandbox --port

#: The servers, in the order of their ports.
SERVERS = ("BOX", "BOX_DOWNLOADS", "DUKE", "OAUTH", "UPSTREAM")


def five_ports():
    """The first of five in a row that are free."""
    ports = [processes.free_port() for _ in SERVERS]
    while ports != list(range(ports[0], ports[0] + len(SERVERS))):
        ports = [*ports[1:], processes.free_port()]
    return ports[0]


@pytest.fixture
def start_sandbox(tmp_path):
    made = []

    def start(*arguments):
        made.append(
            subprocess.Popen(
                [BINARY, "sandbox", *map(str, arguments)],
                cwd=tmp_path,
                env=processes.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        )
        return made[-1]

    yield start
    for process in made:
        processes.end(process)


def test_the_five_servers_take_the_port_and_the_four_after_it(start_sandbox):
    first = five_ports()
    process = start_sandbox("--port", first, "--token-lifetime", "77", "--json")
    environment = processes.first_json(process, 30)
    for number, name in enumerate(SERVERS):
        url = f"http://127.0.0.1:{first + number}"
        assert environment[f"SANDBOX_{name}_URL"] == url
        state = requests.get(f"{url}/_sandbox/state", timeout=10).json()
        assert state["origin"] == name.lower(), "each server answers at its own port"
    form = {"grant_type": "client_credentials", "client_id": environment["SANDBOX_OAUTH_CLIENT_ID"]}
    form["client_secret"] = environment["SANDBOX_OAUTH_CLIENT_SECRET"]
    answer = requests.post(f"{environment['SANDBOX_OAUTH_URL']}/oauth/token", data=form, timeout=10)
    assert answer.json()["expires_in"] == 77

    processes.end(process)
    assert process.returncode == 0
    assert not any(processes.is_listening(first + number) for number in range(5)), "all five end with it"


def test_the_lines_for_a_shell_name_the_same_ports(start_sandbox):
    first = five_ports()
    process = start_sandbox("--port", first)
    lines = [processes.first_line(process, 30)]
    while not lines[-1].startswith("export SANDBOX_UPSTREAM_USER="):
        lines.append(processes.first_line(process, 10))
    for number, name in enumerate(SERVERS):
        assert f"export SANDBOX_{name}_URL='http://127.0.0.1:{first + number}'" in lines, lines


@pytest.mark.parametrize("taken", range(5))
def test_a_port_in_use_is_an_error_and_none_of_the_five_is_kept(tmp_path, taken):
    first = five_ports()
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", first + taken))
        holder.listen()
        refused = command("sandbox", "--port", first, cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, ""), refused
    assert "the sandbox cannot start" in refused.stderr and "in use" in refused.stderr, refused


@pytest.mark.parametrize("port", ["-1", "65532", "http"])
def test_a_port_that_leaves_no_room_for_five_is_wrong_usage(tmp_path, port):
    refused = command("sandbox", f"--port={port}", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "") and "--port" in refused.stderr, refused


# MARK: reload --json


def routes(origin, **named):
    return {"routes": {name: {"upstream": origin.url, "auth": "none", **route} for name, route in named.items()}}


def reload(gateway):
    """The exit code, what is on standard output, and what is on standard error."""
    result = gateway.run("reload", "--json")
    return result.returncode, json.loads(result.stdout), result.stderr


def kinds(report):
    return {change["path"]: change["kind"] for change in report["changes"]}


def test_reload_prints_what_became_of_it_as_json(start_gateway, origin):
    gateway = start_gateway(routes(origin, a={}, b={}, gone={}))
    gateway.configure(routes(origin, a={}, b={"match": {"path": "/moved"}}, new={}))
    code, report, words = reload(gateway)
    assert (code, words) == (0, "")
    assert (report["outcome"], report["cause"], report["problems"]) == ("loaded", "operator", "")
    found = kinds(report)
    wanted = {"routes.a": "kept", "routes.b": "changed", "routes.new": "added", "routes.gone": "dropped"}
    assert {path: kind for path, kind in found.items() if path.startswith("routes.")} == wanted
    [moved] = [change for change in report["changes"] if change["path"] == "routes.b"]
    assert any("/moved" in note for note in moved["notes"]) and moved["needs_restart"] is False
    assert requests.get(gateway.url + "/moved/x", timeout=10).status_code == 200
    assert requests.get(gateway.url + "/gone/x", timeout=10).status_code == 404

    code, report, _ = reload(gateway)
    assert code == 0 and set(kinds(report).values()) == {"kept"}, "nothing was changed since then"


def test_a_warning_is_in_it_and_on_standard_error(start_gateway, origin):
    gateway = start_gateway(routes(origin, a={}))
    gateway.configure(routes(origin, a={"auth": BEARER}))
    code, report, words = reload(gateway)
    assert code == 0 and report["outcome"] == "loaded"
    assert "warning" in report["warnings"] and report["warnings"] == words
    assert CANARY not in json.dumps(report)


REFUSED = {
    "a mistake": (lambda whole: whole["routes"]["a"].update(upsteam="x"), 'unknown key "upsteam"'),
    "what needs a restart": (lambda whole: whole.update(workers=1), "workers"),
}


@pytest.mark.parametrize("change, words", REFUSED.values(), ids=[name.replace(" ", "-") for name in REFUSED])
def test_a_refusal_is_json_too_and_its_problems_are_for_people(start_gateway, origin, change, words):
    gateway = start_gateway({"workers": 2, **routes(origin, a={})})
    whole = json.loads(gateway.file.read_text())
    change(whole)
    gateway.file.write_text(json.dumps(whole))
    code, report, said = reload(gateway)
    assert code == 3 and report["outcome"] == "refused"
    assert words in report["problems"] and report["problems"] in said
    assert requests.get(gateway.url + "/a/x", timeout=10).status_code == 200, "the old configuration is served"
    assert named(gateway, "config_refused") != [] and named(gateway, "config_loaded")[1:] == []


def test_a_listener_that_cannot_be_bound_is_a_failure(start_gateway, origin):
    gateway = start_gateway(routes(origin, a={}))
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        gateway.configure(routes(origin, a={}), listeners=[{"address": address}])
        code, report, said = reload(gateway)
    assert (code, report["outcome"]) == (1, "failed"), report
    assert address in report["problems"] and report["problems"] in said


def test_without_a_gateway_there_is_no_json(make_gateway, origin):
    result = make_gateway(routes(origin, a={})).run("reload", "--json")
    assert (result.returncode, result.stdout) == (4, "") and "authgateway run" in result.stderr, result

"""`status NAME`, `status --watch`, colours and the width of a terminal."""

import re
import subprocess

import pytest
from harness import processes
from harness.configs import BEARER
from harness.gateway import BINARY
from harness.terminal import on_a_terminal

LONG = "a-credential-with-a-name-of-its-own"


@pytest.fixture
def gateway(start_gateway, origin):
    other = {"strategy": "box_developer_token", "token": "canary-developer-token"}
    routes = {
        "api": {"upstream": origin.url, "auth": LONG},
        "second": {"upstream": origin.url, "auth": "trial"},
        "open": {"upstream": origin.url, "auth": "none"},
    }
    return start_gateway({"credentials": {LONG: BEARER, "trial": other}, "routes": routes})


def test_a_name_shows_that_credential_or_route(gateway):
    credential = gateway.run("status", "trial")
    assert "credential: " in credential.stdout and "box_developer_token" in credential.stdout, credential
    assert "second" in credential.stdout and LONG not in credential.stdout
    route = gateway.run("status", "open")
    assert route.returncode == 0 and "/open" in route.stdout and "/second" not in route.stdout, route
    unknown = gateway.run("status", "trail")
    assert unknown.returncode == 1 and 'did you mean "trial"?' in unknown.stderr, unknown


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_no_line_is_longer_than_the_terminal_and_no_word_is_broken(gateway, origin, columns):
    shown = on_a_terminal(gateway, "status", columns=columns, NO_COLOR="1")
    assert max(map(len, shown.splitlines())) <= columns, shown
    assert {LONG, origin.url, "box_developer_token", "trial", "/second"} <= set(shown.split()), shown


def test_colours_are_for_terminals_that_want_them(gateway):
    assert "\x1b[32mready\x1b[0m" in on_a_terminal(gateway, "status")
    assert "\x1b" not in on_a_terminal(gateway, "status", NO_COLOR="1")
    assert "\x1b" not in gateway.run("status").stdout


def test_watch_shows_it_again_and_waits_for_a_gateway(gateway):
    watcher = subprocess.Popen(
        [BINARY, "status", "--watch", "--interval", "1", "--config", str(gateway.file)],
        cwd=gateway.folder,
        env=processes.environment(),
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    try:
        seen = [processes.first_line(watcher, 20) for _ in range(2)]
        while seen.count("ready") < 2:
            seen.append(processes.first_line(watcher, 20))
        gateway.stop()
        while not re.search("no gateway answers", seen[-1]):
            seen.append(processes.first_line(watcher, 20))
        gateway.start()
        while seen[-1] != "ready":
            seen.append(processes.first_line(watcher, 20))
    finally:
        processes.end(watcher)


@pytest.mark.parametrize("arguments", [["--watch", "--json"], ["--watch", "--interval", "0"]])
def test_what_does_not_go_together_is_wrong_usage(gateway, arguments):
    assert gateway.run("status", *arguments).returncode == 2


def test_alive_asks_only_whether_the_gateway_answers(gateway):
    alive = gateway.run("status", "--alive")
    assert (alive.returncode, alive.stdout) == (0, "ok\n"), alive
    for more in (["--json"], ["--watch"], ["trial"]):
        assert gateway.run("status", "--alive", *more).returncode == 2
    gateway.stop()
    gone = gateway.run("status", "--alive")
    assert gone.returncode == 4 and "no gateway answers" in gone.stderr, gone


def test_ready_asks_only_whether_requests_are_served(make_gateway, origin):
    """A credential that needs a person is not a reason for a load balancer."""
    missing = {
        "strategy": "oauth2_authorization_code",
        "authorize_url": "http://127.0.0.1:9/authorize",
        "token_url": "http://127.0.0.1:9/token",
        "client_id": "web",
        "client_secret": "s",
    }
    gateway = make_gateway({"credentials": {"me": missing}, "routes": {"api": {"upstream": origin.url, "auth": "me"}}}).start()
    assert gateway.run("status").returncode == 1
    ready = gateway.run("status", "--ready")
    assert ready.returncode == 0 and ready.stdout.startswith("ready"), ready
    assert gateway.run("status", "--ready", "--alive").returncode == 2
    gateway.stop()
    assert gateway.run("status", "--ready").returncode == 4


def test_a_refused_configuration_needs_a_person(gateway):
    assert gateway.run("status").returncode == 0
    gateway.file.write_text(gateway.file.read_text() + "\nunknown_key: 1\n")
    assert gateway.run("reload").returncode == 3
    whole = gateway.run("status")
    assert whole.returncode == 1 and "needs a person: " in whole.stderr and "check its indentation" in whole.stdout, whole
    assert gateway.run("status", "open").returncode == 0, "the route does not need it"


def test_alive_needs_no_token(make_gateway, origin):
    config = {"routes": {"open": {"upstream": origin.url, "auth": "none"}}}
    gateway = make_gateway(config)
    gateway.admin["require_token"] = True
    gateway.configure(config)
    gateway.start()
    (gateway.folder / "state/admin.token").unlink()
    assert gateway.run("status").returncode == 1
    assert gateway.run("status", "--alive").returncode == 0

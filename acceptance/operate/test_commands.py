"""The commands against a running gateway and without one: what they print and how they exit."""

import contextlib
import json
import pathlib
import sqlite3
import subprocess

import pytest
import requests
from harness.configs import BEARER, CANARY
from harness import processes
from harness.origin import response


def config(authority):
    return {
        "credentials": {
            "service": authority.credential(),
            "fixed": BEARER,
        },
        "routes": {
            "api": {"upstream": authority.url + "/api", "auth": "service"},
            "second": {"upstream": authority.url + "/api", "auth": "fixed"},
        },
    }


@pytest.fixture
def gateway(authority, start_gateway):
    gateway = start_gateway(config(authority))
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    return gateway


@pytest.fixture
def stopped(authority, make_gateway):
    return make_gateway(config(authority))


def test_check_and_plan_need_no_gateway_and_show_no_secret(stopped, authority):
    checked = stopped.run("check")
    assert checked.returncode == 0, checked
    planned = stopped.run("plan")
    assert planned.returncode == 0
    for word in ("api", "second", "service", "oauth2_client_credentials", f"127.0.0.1:{stopped.port}"):
        assert word in planned.stdout, word
    whole = checked.stdout + checked.stderr + planned.stdout + planned.stderr
    assert CANARY not in whole and authority.client_secret not in whole
    as_json = stopped.run("plan", "--json")
    assert as_json.returncode == 0
    json.loads(as_json.stdout)
    assert CANARY not in as_json.stdout and authority.client_secret not in as_json.stdout
    assert not (stopped.folder / "state").exists(), "nothing was created"


def test_routes_and_status(gateway):
    routes = json.loads(gateway.run("routes", "--json").stdout)
    assert {route["name"] for route in routes} == {"api", "second"}
    status = gateway.run("status")
    assert status.returncode == 0 and "service" in status.stdout
    json.loads(gateway.run("status", "--json").stdout)


@pytest.mark.parametrize("arguments", [["status"], ["token", "list"], ["token", "refresh", "service"], ["token", "clear", "service"]])
def test_without_a_gateway_the_exit_code_is_4(stopped, arguments):
    result = stopped.run(*arguments)
    assert result.returncode == 4, result
    assert f"127.0.0.1:{stopped.admin_port}" in result.stderr


def cut(request):
    raise ValueError("cut")


NOT_OURS = "is not an authgateway of this version"
STRANGERS = {
    "a-web-server": (lambda request: response(404, b"<h1>Not Found</h1>"), NOT_OURS),
    "a-server-that-says-yes": (lambda request: response(200, b"hello"), NOT_OURS),
    "a-mail-server": (lambda request: b"220 mail.example ESMTP\r\n", NOT_OURS),
    "one-that-hangs-up": (cut, "does not answer; if it is not the gateway, give listeners.admin another address"),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_another_program_at_the_admin_address_is_called_so(authority, make_gateway, make_origin, name):
    answer, words = STRANGERS[name]
    stranger = make_origin(answer)
    gateway = make_gateway(config(authority), admin={"address": f"127.0.0.1:{stranger.port}"})
    for arguments in (["status"], ["routes"], ["token", "list"], ["token", "refresh", "service"], ["token", "clear", "service"]):
        result = gateway.run(*arguments)
        assert result.returncode == 4 and result.stdout == "", result
        assert f"http://127.0.0.1:{stranger.port} {words}" in result.stderr, result
        assert "Start it with" not in result.stderr, "the address is in use"
    assert not (gateway.folder / "state").exists(), "nothing was created"


def test_another_program_whose_answer_never_ends_holds_up_no_command(authority, make_gateway, make_origin):
    stranger = make_origin(lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    gateway = make_gateway(config(authority), admin={"address": f"127.0.0.1:{stranger.port}"})
    for arguments in (["status"], ["routes"], ["token", "list"]):
        result = gateway.run(*arguments, timeout=15)
        assert result.returncode == 4 and f"http://127.0.0.1:{stranger.port} does not answer" in result.stderr, result


def test_another_program_at_the_admin_address_is_sent_no_secret(authority, make_gateway, make_origin):
    """Nor what is left of a gateway that has stopped: its admin token, which the next one may have again."""
    gateway = make_gateway(config(authority))
    assert gateway.start().stop() == 0
    token = (gateway.folder / "state" / "admin.token").read_text().strip()
    stranger = make_origin(lambda request: response(200, b"{}"), gateway.admin_port)
    secret = '{"access_token": "taken-by-a-stranger", "refresh_token": "taken-too"}'
    for arguments, input in ((["token", "refresh", "service"], None), (["token", "import", "service"], secret), (["reload"], None)):
        gateway.run(*arguments, input=input)
    assert stranger.count() > 0 and token
    assert token.encode() not in stranger.raw() and b"taken" not in stranger.raw()


def test_tokens_are_listed_renewed_and_cleared(gateway, authority):
    listed = json.loads(gateway.run("token", "list", "--json").stdout)
    assert "service" in json.dumps(listed)
    [(first, _)] = authority.tokens()
    assert first not in json.dumps(listed)

    assert gateway.run("token", "refresh", "service").returncode == 0
    assert len(authority.tokens()) == 2
    assert gateway.run("token", "clear", "service").returncode == 0
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    assert len(authority.tokens()) == 3

    unknown = gateway.run("token", "refresh", "nobody")
    assert unknown.returncode == 1 and "nobody" in unknown.stderr
    events = gateway.events("--credential", "service")
    assert "operator" in {event["trigger"] for event in events}
    assert "cleared" in {event["event"] for event in events}


def test_the_audit_log_tells_the_story(gateway):
    def names():
        return [event["event"] for event in gateway.events()]

    # Written behind the response.
    processes.wait_until(lambda: "injected" in names(), 10, names)
    events, names = gateway.events(), names()
    assert names.index("gateway_started") < names.index("acquiring") < names.index("acquired") < names.index("injected")
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    acquired = next(event for event in events if event["event"] == "acquired")
    assert acquired["credential"] == "service" and acquired["http_status"] == 200 and acquired["generation"] == 1
    assert len(acquired["token_fingerprint"]) == 12

    tail = gateway.run("audit", "tail", "-n", "2")
    assert tail.returncode == 0 and len(tail.stdout.strip().splitlines()) >= 2
    assert "service" in gateway.run("audit", "stats").stdout
    assert gateway.run("audit", "verify").returncode == 0


def test_the_plain_sqlite3_shell_reads_it_while_it_runs(gateway):
    database = gateway.folder / "state" / "audit.sqlite"
    query = "select at,event,credential,generation from token_events"
    result = subprocess.run(["sqlite3", str(database), query], check=False, capture_output=True, text=True, timeout=20)
    assert result.returncode == 0
    assert any("|acquired|service|1" in line for line in result.stdout.splitlines()), result
    for change in ("update token_events set event = 'x'", "delete from token_events"):
        refused = subprocess.run(["sqlite3", str(database), change], check=False, capture_output=True, text=True, timeout=20)
        assert refused.returncode != 0 and refused.stderr, change


def test_a_command_whose_output_is_lost_fails(gateway):
    for arguments in (["audit", "export"], ["plan"], ["routes", "--json"]):
        with open("/dev/full", "wb") as full:
            result = subprocess.run(
                [gateway.process.args[0], *arguments, "--config", str(gateway.file)],
                check=False,
                cwd=gateway.folder,
                env=processes.environment(),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=20,
            )
        assert result.returncode == 1 and "could not be written" in result.stderr, arguments


def test_tail_follows(gateway):
    follower = subprocess.Popen(
        [gateway.process.args[0], "audit", "tail", "-f", "--json", "--config", str(gateway.file)],
        cwd=gateway.folder,
        env=processes.environment(),
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    try:
        first = processes.first_line(follower, 20)
        assert json.loads(first)["event"]
        assert gateway.run("token", "refresh", "service").returncode == 0
        while json.loads(processes.first_line(follower, 20)).get("trigger") != "operator":
            pass
    finally:
        processes.end(follower)


def tamper(gateway, change):
    """As somebody who can write the file and knows about the triggers."""
    with contextlib.closing(sqlite3.connect(gateway.folder / "state" / "audit.sqlite")) as database:
        triggers = database.execute("select name from sqlite_master where type = 'trigger'").fetchall()
        assert triggers
        for (name,) in triggers:
            database.execute(f"drop trigger {name}")
        assert database.execute(change).rowcount == 1
        database.commit()


def test_a_changed_row_is_found(gateway):
    gateway.stop()
    [row] = [event["id"] for event in gateway.events("--event", "acquired")]
    tamper(gateway, "update token_events set credential = 'other' where event = 'acquired'")
    result = gateway.run("audit", "verify")
    assert result.returncode == 5 and f"The log is broken at row {row}: row {row} was changed" in result.stderr, result


def test_a_cut_tail_is_found(gateway):
    gateway.stop()
    tamper(gateway, "delete from token_events where id = (select max(id) from token_events)")
    assert gateway.run("audit", "verify").returncode == 5


def test_no_secret_is_in_the_arguments_of_the_process(gateway, authority):
    command_line = pathlib.Path(f"/proc/{gateway.process.pid}/cmdline").read_bytes()
    assert CANARY.encode() not in command_line and authority.client_secret.encode() not in command_line


def test_the_admin_listener_shows_no_secret(gateway, authority):
    [(token, _)] = authority.tokens()
    for path in ("/", "/healthz", "/readyz", "/readyz?verbose", "/metrics"):
        text = requests.get(gateway.admin_url + path, timeout=20).text
        for secret in (CANARY, authority.client_secret, token):
            assert secret not in text, path

"""What operators do with tokens on the command line, with a gateway and without one."""

import json
import os
import pty
import select
import subprocess
import time

import pytest
import requests
from harness.configs import CANARY, box_ccg, duke_session
from harness import processes
from harness.gateway import BINARY


def config(sandbox, **changes):
    box = box_ccg(sandbox, **changes)
    developer = {
        "strategy": "box_developer_token",
        "token": sandbox["BOX_DEVELOPER_TOKEN"],
        "client_id": sandbox["BOX_CLIENT_ID"],
        "client_secret": sandbox["BOX_CLIENT_SECRET"],
        "revoke_url": sandbox["BOX_URL"] + "/oauth2/revoke",
    }
    campus = duke_session(sandbox)
    reports = {
        "strategy": "oauth2_client_credentials",
        "token_url": sandbox["OAUTH_URL"] + "/oauth/token",
        "client_id": sandbox["OAUTH_CLIENT_ID"],
        "client_secret": sandbox["OAUTH_CLIENT_SECRET"],
    }
    return {
        "credentials": {"box-service": box, "devbox": developer, "campus": campus, "reports": reports},
        "routes": {
            "box": {"upstream": sandbox["BOX_URL"], "auth": "box-service"},
            "dev": {"upstream": sandbox["BOX_URL"], "auth": "devbox"},
            "campus": {"upstream": sandbox["DUKE_URL"], "auth": "campus"},
            "reports": {"upstream": sandbox["UPSTREAM_URL"], "auth": "reports"},
        },
    }


@pytest.fixture
def gateway(sandbox, start_gateway):
    return start_gateway(config(sandbox))


def status(gateway, path):
    return requests.get(gateway.url + path, timeout=20).status_code


def revocations(sandbox, origin):
    seen = requests.get(f"{sandbox['UPSTREAM_URL']}/_sandbox/requests?origin={origin}", timeout=20).text
    return seen.count("/revoke")


def events(gateway, name):
    return [event for event in gateway.events("--credential", name) if event["trigger"] == "operator"]


def test_revoke_clears_and_the_next_request_starts_anew(gateway, sandbox):
    assert status(gateway, "/box/2.0/users/me") == 200
    token = gateway.run("token", "get", "box-service").stdout.strip()
    revoked = gateway.run("token", "revoke", "box-service")
    assert revoked.returncode == 0 and "revoked at the authorization server" in revoked.stdout, revoked
    direct = requests.get(sandbox["BOX_URL"] + "/2.0/users/me", headers={"Authorization": f"Bearer {token}"}, timeout=20)
    assert direct.status_code == 401
    again = gateway.run("token", "revoke", "box-service", "--json")
    assert again.returncode == 0 and "nothing to revoke" in json.loads(again.stdout)["message"]
    assert revocations(sandbox, "box") == 1
    assert status(gateway, "/box/2.0/users/me") == 200
    assert sandbox.token_calls("box") == 2
    [event] = [event for event in events(gateway, "box-service") if event["event"] == "revoked"]
    assert event["http_status"] == 200 and event["generation"] == 1 and event["outcome"] == "ok"
    # The other tokens are as they were, that of the same application at the same authority, too.
    assert status(gateway, "/dev/2.0/users/me") == status(gateway, "/campus/api/me") == 200
    assert [event["credential"] for event in gateway.events("--event", "revoked")] == ["box-service"]


def test_revoke_when_the_authority_is_down_keeps_the_token_and_says_so(sandbox, start_gateway):
    gateway = start_gateway(config(sandbox, revoke_url="http://127.0.0.1:1/revoke"))
    assert status(gateway, "/box/2.0/users/me") == 200
    failed = gateway.run("token", "revoke", "box-service")
    assert failed.returncode == 1 and "kept and still used" in failed.stderr and not failed.stdout, failed
    assert status(gateway, "/box/2.0/users/me") == 200
    assert sandbox.token_calls("box") == 1
    # Locking does not depend on the authority.
    destroyed = gateway.run("token", "revoke", "box-service", "--lock")
    assert destroyed.returncode == 1 and "is locked" in destroyed.stderr, destroyed
    assert status(gateway, "/box/2.0/users/me") == 503
    assert "revocation_failed" in [event["event"] for event in events(gateway, "box-service")]


def test_a_strategy_that_cannot_revoke_says_what_can_be_done(gateway):
    assert status(gateway, "/reports/echo") == 200
    refused = gateway.run("token", "revoke", "reports")
    assert refused.returncode == 1
    assert "no revoke_url; add it" in refused.stderr and "token clear reports" in refused.stderr


def test_destroy_is_revoke_and_lock_and_survives_a_kill(gateway, sandbox):
    assert status(gateway, "/box/2.0/users/me") == 200
    assert gateway.run("token", "revoke", "box-service", "--lock").returncode == 0
    assert requests.get(gateway.url + "/box/2.0/users/me", timeout=20).json()["code"] == "locked"
    gateway.kill()
    gateway.start()
    assert status(gateway, "/box/2.0/users/me") == 503
    shown = gateway.run("token", "show", "box-service")
    assert "locked" in shown.stdout and "token unlock box-service" in shown.stdout
    assert gateway.run("status").returncode == 1
    assert gateway.run("token", "unlock", "box-service").returncode == 0
    assert status(gateway, "/box/2.0/users/me") == 200
    names = [event["event"] for event in events(gateway, "box-service")]
    assert [name for name in names if name in ("locked", "revoked", "unlocked")] == ["locked", "revoked", "unlocked"]


def test_all_tokens_are_revoked_with_one_command(gateway, sandbox):
    assert status(gateway, "/box/2.0/users/me") == 200
    done = gateway.run("token", "revoke", "--all")
    assert done.returncode == 0 and not done.stderr, done
    lines = done.stdout.splitlines()
    # Nobody has asked for the token of reports yet.
    assert [line.split()[0] for line in lines] == ["box-service", "devbox", "campus"]
    assert all("revoked at the authorization server" in line for line in lines)
    assert revocations(sandbox, "box") == 2 and revocations(sandbox, "duke") == 1
    assert status(gateway, "/dev/2.0/users/me") == 503
    assert status(gateway, "/box/2.0/users/me") == 200


def test_one_that_cannot_be_revoked_does_not_keep_the_others(gateway, sandbox):
    assert status(gateway, "/reports/echo") == 200
    assert status(gateway, "/box/2.0/users/me") == 200
    failed = gateway.run("token", "revoke", "--all")
    assert failed.returncode == 1 and "failed for reports" in failed.stderr, failed
    assert "reports: failed: The token of reports cannot be revoked" in failed.stdout
    assert revocations(sandbox, "box") == 2 and revocations(sandbox, "duke") == 1
    again = gateway.run("token", "revoke", "--all", "--json")
    assert again.returncode == 1
    outcomes = {row["credential"]: row["outcome"] for row in json.loads(again.stdout)}
    assert outcomes.pop("reports") == "failed" and set(outcomes.values()) <= {"ok"}, again.stdout
    assert gateway.run("token", "clear", "--all").returncode == 0
    # What stands in the configuration counts again; that it was revoked is the authority's to say.
    assert status(gateway, "/dev/2.0/users/me") == 401


def test_all_are_locked_before_the_first_is_revoked(gateway, sandbox):
    assert status(gateway, "/box/2.0/users/me") == 200
    assert gateway.run("token", "revoke", "--all", "--lock").returncode == 0
    listed = json.loads(gateway.run("token", "list", "--json").stdout)
    assert {token["state"] for token in listed} == {"locked"}
    names = [event["event"] for event in gateway.events() if event["event"] in ("locked", "revoked")]
    assert names == ["locked"] * 4 + ["revoked"] * 3


def test_all_that_can_be_renewed_are_refreshed(gateway, sandbox):
    assert status(gateway, "/box/2.0/users/me") == 200
    done = gateway.run("token", "refresh", "--all")
    assert done.returncode == 0, done
    assert done.stdout.splitlines() == ["box-service has a new token.", "campus has a new token."]


def test_a_name_and_all_is_a_mistake(gateway):
    for verb in ("revoke", "clear", "refresh"):
        for arguments, problem in ((["box-service", "--all"], "NAME and --all cannot be combined."), ([], "use --all")):
            refused = gateway.run("token", verb, *arguments)
            assert refused.returncode == 2 and problem in refused.stderr, refused
    assert gateway.events("--event", "revoked") == []


def test_all_are_revoked_without_a_gateway(gateway, sandbox):
    assert status(gateway, "/box/2.0/users/me") == 200
    gateway.kill()
    done = gateway.run("token", "revoke", "--all")
    assert done.returncode == 0 and done.stdout.count("revoked at the authorization server") == 3, done
    assert revocations(sandbox, "box") == 2 and revocations(sandbox, "duke") == 1
    assert gateway.run("token", "refresh", "--all").returncode == 4
    assert gateway.run("audit", "verify").returncode == 0


def test_a_revoked_developer_token_needs_a_person_until_one_is_imported(gateway, sandbox):
    assert status(gateway, "/dev/2.0/users/me") == 200
    assert gateway.run("status").returncode == 0
    assert gateway.run("token", "revoke", "devbox").returncode == 0
    assert status(gateway, "/dev/2.0/users/me") == 503
    asked = gateway.run("status")
    assert asked.returncode == 1 and "devbox" in asked.stderr and "token import devbox" in asked.stdout, asked
    # The box_ccg token of the same authority is as good as a developer token here.
    token = gateway.run("token", "get", "box-service").stdout
    imported = gateway.run("token", "import", "devbox", input=token)
    assert imported.returncode == 0, imported
    assert status(gateway, "/dev/2.0/users/me") == 200
    shown = json.loads(gateway.run("token", "show", "devbox", "--json").stdout)
    assert 3500 < shown["remaining_seconds"] <= 3600
    assert gateway.run("status").returncode == 0


def test_a_logout_of_duke_forgets_both_tokens(gateway, sandbox):
    assert status(gateway, "/campus/api/me") == 200
    assert gateway.run("token", "revoke", "campus").returncode == 0
    assert revocations(sandbox, "duke") == 1
    assert status(gateway, "/campus/api/me") == 503
    gateway.stop()
    gateway.start()
    # The pair in the configuration is the one that was revoked.
    assert status(gateway, "/campus/api/me") == 503
    assert sandbox.token_calls("duke") == 0
    listed = json.loads(gateway.run("token", "list", "--json").stdout)
    assert {token["credential"]: token["state"] for token in listed}["campus"] == "login_required"


def test_get_prints_the_token_alone_and_the_log_knows_of_it_without_it(gateway, sandbox):
    shown = gateway.run("token", "get", "box-service")
    assert shown.returncode == 0 and shown.stderr == "" and len(shown.stdout.split()) == 1
    token = shown.stdout.strip()
    answer = requests.get(sandbox["BOX_URL"] + "/2.0/users/me", headers={"Authorization": f"Bearer {token}"}, timeout=20)
    assert answer.status_code == 200
    as_json = json.loads(gateway.run("token", "get", "box-service", "--json").stdout)
    assert as_json["access_token"] == token and as_json["generation"] == 1 and as_json["expires_at"]
    revealed = [event for event in events(gateway, "box-service") if event["event"] == "revealed"]
    assert len(revealed) == 2 and all(len(event["token_fingerprint"]) == 12 for event in revealed)
    assert token not in json.dumps(gateway.events())
    gateway.stop()
    assert token not in gateway.text()
    for path, content in gateway.files().items():
        assert token.encode() not in content, path
    assert gateway.run("audit", "verify").returncode == 0


def test_nothing_is_shown_that_cannot_be_recorded(gateway):
    assert status(gateway, "/box/2.0/users/me") == 200
    audit = gateway.folder / "state" / "audit.sqlite"
    writer = subprocess.Popen(
        ["sqlite3", str(audit)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        writer.stdin.write(".timeout 10000\nbegin immediate;\nselect 'held';\n")
        writer.stdin.flush()
        assert writer.stdout.readline().strip() == "held"
        refused = gateway.run("token", "get", "box-service", timeout=60)
    finally:
        writer.kill()
        writer.wait()
    assert refused.returncode == 1 and refused.stdout == "" and "audit" in refused.stderr, refused
    assert gateway.run("token", "get", "box-service").returncode == 0


@pytest.mark.parametrize(
    "garbage", ["", "   \n", f"hello {CANARY}\n", f"<html>{CANARY}</html>", '{"access_token": 7}', '{"token": "x"}', "{"]
)
def test_garbage_is_not_imported_and_not_repeated(gateway, garbage):
    assert status(gateway, "/box/2.0/users/me") == 200
    refused = gateway.run("token", "import", "box-service", input=garbage)
    assert refused.returncode == 1 and "invalid token" in refused.stderr
    assert CANARY not in refused.stdout + refused.stderr
    assert status(gateway, "/box/2.0/users/me") == 200


def test_a_pair_that_the_authority_refuses_costs_nothing(gateway, sandbox):
    assert status(gateway, "/campus/api/me") == 200
    pair = {"access_token": CANARY, "session_token": CANARY + "-session"}
    refused = gateway.run("token", "import", "campus", input=json.dumps(pair))
    assert refused.returncode == 1 and "the earlier token is kept" in refused.stderr, refused
    assert status(gateway, "/campus/api/me") == 200
    assert gateway.run("token", "refresh", "campus").returncode == 0
    assert status(gateway, "/campus/api/me") == 200


def test_a_good_pair_from_a_file_is_tried_at_once(gateway, sandbox):
    login = requests.get(f"{sandbox['DUKE_URL']}/dukemobile/login?netid=abc", allow_redirects=False, timeout=20)
    values = dict(part.split("=", 1) for part in login.headers["Location"].split("?", 1)[1].split("&"))
    (gateway.folder / "pair.json").write_text(json.dumps(values))
    imported = gateway.run("token", "import", "campus", "--file", "pair.json")
    assert imported.returncode == 0 and "works" in imported.stdout, imported
    assert sandbox.token_calls("duke") == 1
    assert requests.get(gateway.url + "/campus/api/me", timeout=20).json()["netid"] == "abc"


def test_a_token_as_an_argument_is_refused_and_not_repeated(gateway):
    refused = gateway.run("token", "import", "devbox", CANARY)
    assert refused.returncode == 2 and "not given as an argument" in refused.stderr
    assert CANARY not in refused.stdout + refused.stderr


def test_a_terminal_is_asked_and_shows_nothing(gateway):
    assert status(gateway, "/box/2.0/users/me") == 200
    token = gateway.run("token", "get", "box-service").stdout.strip()
    ours, theirs = pty.openpty()
    command = [BINARY, "token", "import", "devbox", "--config", str(gateway.file)]
    process = subprocess.Popen(
        command, cwd=gateway.folder, env=processes.environment(), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    try:
        seen += read_until(ours, b"not shown")
        os.write(ours, b"wrong\x7f\x7f\x7f\x7f\x7f" + token.encode() + b"\n")
        seen += read_until(ours, b"uses the imported token")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert token.encode() not in seen and b"wrong" not in seen
    assert status(gateway, "/dev/2.0/users/me") == 200


def read_until(descriptor, wanted, seconds=20):
    seen = b""
    deadline = time.monotonic() + seconds
    while wanted not in seen:
        ready, _, _ = select.select([descriptor], [], [], max(0, deadline - time.monotonic()))
        assert ready, seen
        seen += os.read(descriptor, 4096)
    return seen


def test_a_wrong_name_is_told_the_right_one(gateway):
    for verb in ("show", "get", "refresh", "revoke", "clear", "lock", "unlock"):
        refused = gateway.run("token", verb, "box-servise")
        assert refused.returncode == 1 and 'did you mean "box-service"' in refused.stderr, refused


def test_without_a_gateway_its_files_are_worked_on(gateway, sandbox):
    assert status(gateway, "/box/2.0/users/me") == 200
    assert status(gateway, "/campus/api/me") == 200
    gateway.kill()
    listed = gateway.run("token", "list", "--json")
    assert listed.returncode == 0 and "No gateway runs here" in listed.stderr, listed
    states = {token["credential"]: token["state"] for token in json.loads(listed.stdout)}
    assert states == {"box-service": "valid", "devbox": "valid", "campus": "valid", "reports": "empty"}
    assert "valid" in gateway.run("token", "show", "box-service").stdout
    assert 'did you mean "campus"' in gateway.run("token", "show", "campos").stderr
    for verb in ("get", "refresh"):
        refused = gateway.run("token", verb, "box-service")
        assert refused.returncode == 4 and "authgateway run" in refused.stderr

    assert gateway.run("token", "clear", "box-service").returncode == 0
    assert gateway.run("token", "lock", "campus").returncode == 0
    assert gateway.run("token", "revoke", "devbox").returncode == 0
    assert revocations(sandbox, "box") == 1
    imported = gateway.run("token", "import", "reports", input='{"access_token": "abc", "expires_in": 600}')
    assert imported.returncode == 0, imported
    assert gateway.run("audit", "verify").returncode == 0

    gateway.start()
    assert status(gateway, "/box/2.0/users/me") == 200
    assert sandbox.token_calls("box") == 2
    assert status(gateway, "/campus/api/me") == 503
    assert status(gateway, "/dev/2.0/users/me") == 503
    listed = json.loads(gateway.run("token", "list", "--json").stdout)
    states = {token["credential"]: token["state"] for token in listed}
    assert states["campus"] == "locked" and states["reports"] == "valid"
    names = {event["event"] for event in gateway.events() if event["trigger"] == "operator"}
    assert {"cleared", "locked", "revoked", "imported"} <= names


def test_a_token_can_be_imported_before_the_first_run(sandbox, make_gateway):
    gateway = make_gateway(config(sandbox))
    assert gateway.run("token", "list").returncode == 4
    imported = gateway.run("token", "import", "box-service", input='{"access_token": "abc", "expires_in": 600}')
    assert imported.returncode == 0, imported
    gateway.start()
    assert gateway.run("token", "get", "box-service").stdout == "abc\n"


def test_a_gateway_that_does_not_answer_keeps_its_files(gateway):
    config = json.loads(gateway.file.read_text())
    config["listeners"]["admin"]["address"] = f"127.0.0.1:{processes.free_port()}"
    elsewhere = gateway.folder / "elsewhere.yaml"
    elsewhere.write_text(json.dumps(config))
    command = [BINARY, "token", "clear", "box-service", "--config", str(elsewhere)]
    refused = subprocess.run(
        command, check=False, cwd=gateway.folder, env=processes.environment(), capture_output=True, text=True, timeout=30
    )
    assert refused.returncode == 4 and str(gateway.process.pid) in refused.stderr, refused

"""`audit.anchor`: the head of the audit log is kept elsewhere, so that a log that was put back shows."""

import json
import re
import shutil
import sqlite3
import time

import pytest
import requests
from harness import processes
from harness.configs import CANARY
from harness.events import named

LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (\d+):([0-9a-f]{64}) [0-9a-f]{64}$")


def config(origin, anchor):
    auth = {"strategy": "box_developer_token", "token": CANARY}
    return {"audit": {"anchor": anchor}, "routes": {"api": {"upstream": origin.url, "auth": auth}}}


def rows(file):
    """What the anchor has, as numbers and hashes."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(match[1]), match[2]) for match in map(LINE.match, lines)]


def last_row(gateway):
    with sqlite3.connect(gateway.folder / "state" / "audit.sqlite", timeout=20) as database:
        return database.execute("select id, hash from token_events order by id desc limit 1").fetchone()


def event(gateway):
    assert gateway.run("token", "lock", "routes.api").returncode == 0
    assert gateway.run("token", "unlock", "routes.api").returncode == 0


def reasons(gateway):
    return json.loads(requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10).text)["reasons"]


def put_back(gateway, body):
    """Runs `body`, then puts the database and its head back together to what they were."""
    state = gateway.folder / "state"
    names = ["audit.sqlite", "audit.sqlite.head"]
    for name in names:
        shutil.copy(state / name, gateway.folder / name)
    body()
    for name in names:
        shutil.copy(gateway.folder / name, state / name)
    for end in ("-wal", "-shm"):
        (state / f"audit.sqlite{end}").unlink(missing_ok=True)


def test_each_head_is_appended_once_a_second_at_most_and_at_the_stop(start_gateway, origin, tmp_path):
    file = tmp_path / "heads"
    gateway = start_gateway(config(origin, {"file": str(file)}))
    start = time.monotonic()
    while time.monotonic() - start < 3:
        event(gateway)
    processes.wait_until(lambda: last_row(gateway) in rows(file), 10, "the newest row is sent")
    assert len(rows(file)) <= time.monotonic() - start + 3
    assert [reason for reason in reasons(gateway) if "anchor" in reason] == []
    gateway.stop()
    assert named(gateway, "gateway_stopped")[-1]["id"] == rows(file)[-1][0], "the stop's own event is the last"
    verified = gateway.run("audit", "verify")
    assert verified.returncode == 0 and f"that was sent to the anchor ({file}), {rows(file)[-1][0]}." in verified.stdout


def test_an_anchor_that_was_overwritten_is_not_taken_for_an_empty_one(start_gateway, origin, tmp_path):
    file = tmp_path / "heads"
    gateway = start_gateway(config(origin, {"file": str(file)}))
    gateway.stop()
    file.write_bytes(b"\0" * len(file.read_bytes()))
    verified = gateway.run("audit", "verify")
    assert verified.returncode == 1 and "it holds no line with a head of a log" in verified.stderr


def test_a_log_that_was_put_back_with_its_head_is_found(start_gateway, origin, tmp_path):
    file = tmp_path / "heads"
    gateway = start_gateway(config(origin, {"file": str(file)}))
    gateway.stop()
    kept = last_row(gateway)[0]

    def go_on():
        gateway.start()
        event(gateway)
        gateway.stop()

    put_back(gateway, go_on)
    sent = rows(file)[-1][0]
    assert sent > kept
    verified = gateway.run("audit", "verify")
    assert verified.returncode == 5 and "rolled_back" in verified.stderr, verified
    assert "the log ends before row" in verified.stderr and "was sent to the anchor at" in verified.stderr, verified

    # The start says so in the log, in its event, and as a reason; it serves all the same.
    gateway.start()
    assert requests.get(gateway.url + "/api/x", timeout=10).status_code == 200
    [reason] = [reason for reason in reasons(gateway) if "anchor" in reason]
    assert "does not match its anchor" in reason and "authgateway audit verify" in reason and str(file) in reason
    assert "does not match its anchor" in gateway.run("status").stdout
    started = named(gateway, "gateway_started")[-1]
    assert "ends before row" in started["detail"]["rolled_back"]
    assert "does not match its anchor" in gateway.text()
    gateway.stop()

    # Until the lines are moved away: they are the proof.
    gateway.start()
    assert any("does not match its anchor" in reason for reason in reasons(gateway))
    gateway.stop()
    assert gateway.run("audit", "verify").returncode == 5
    file.rename(tmp_path / "old-heads")
    gateway.start()
    assert not any("anchor" in reason for reason in reasons(gateway))
    gateway.stop()
    assert gateway.run("audit", "verify").returncode == 0


def test_an_anchor_that_hangs_holds_nothing_up(start_gateway, origin):
    gateway = start_gateway(config(origin, {"command": ["/bin/sleep", "60"], "timeout": "500ms"}))
    start = time.monotonic()
    event(gateway)
    assert requests.get(gateway.url + "/api/x", timeout=10).status_code == 200
    assert time.monotonic() - start < 10
    processes.wait_until(lambda: any("does not reach its anchor" in reason for reason in reasons(gateway)), 10, "it is said")
    answer = requests.get(f"{gateway.admin_url}/readyz", timeout=10)
    assert answer.status_code == 200, "it is ready all the same"
    assert "does not reach its anchor (/bin/sleep)" in gateway.run("status").stdout
    start = time.monotonic()
    gateway.stop()
    assert time.monotonic() - start < 10
    assert "did not reach its anchor" in gateway.text()


def test_a_program_keeps_the_lines_and_prints_them(start_gateway, origin, tmp_path):
    file = tmp_path / "kept"
    anchor = {"command": ["/bin/sh", "-c", f"cat > {file}"], "read": ["/bin/cat", str(file)]}
    gateway = start_gateway(config(origin, anchor))
    event(gateway)
    gateway.stop()
    assert rows(file) == [last_row(gateway)], "this one keeps the last alone"
    assert gateway.run("audit", "verify").returncode == 0
    put_back(gateway, lambda: (gateway.start(), gateway.stop()))
    assert gateway.run("audit", "verify").returncode == 5
    file.unlink()
    unread = gateway.run("audit", "verify")
    assert unread.returncode == 1 and "It was not compared with the anchor (/bin/cat)" not in unread.stdout, unread
    assert "was not compared with the anchor" in unread.stderr and "The log is intact" in unread.stderr, unread
    said = gateway.run("audit", "verify", "--json")
    assert said.returncode == 1 and json.loads(said.stdout)["anchor_failure"].startswith("/bin/cat"), said


@pytest.mark.parametrize("anchor", [{"syslog": True}, {"command": ["/bin/true"]}])
def test_what_cannot_be_read_is_compared_by_hand(make_gateway, origin, anchor):
    gateway = make_gateway(config(origin, anchor))
    gateway.start()
    gateway.stop()
    number, digest = last_row(gateway)
    verified = gateway.run("audit", "verify")
    assert verified.returncode == 0 and "--head ID:HASH" in verified.stdout, verified
    assert gateway.run("audit", "verify", "--head", f"{number}:{digest}").returncode == 0
    assert gateway.run("audit", "verify", "--head", f"{number + 1}:{digest}").returncode == 5

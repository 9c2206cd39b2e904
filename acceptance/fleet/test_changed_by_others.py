"""What a gateway says of changes in the database that its own operators did not make, and of what it may not write there."""

import contextlib
import json
import sqlite3

import requests
from harness.fleet import shared_tokens
from harness.login import config, log_in, works
from harness.processes import wait_until


def shared(url, key, **audit):
    return {"tokens": shared_tokens(url, key), "audit": audit}


def query(gateway, sql):
    with contextlib.closing(sqlite3.connect(gateway.folder / "state" / "audit.sqlite", timeout=20)) as database:
        return [list(row) for row in database.execute(sql)]


def unlocks(gateway):
    """By whom the credential was unlocked, as the audit log of this gateway has it."""
    rows = query(gateway, 'select credential, strategy, "trigger", detail from token_events where event = \'unlocked\' order by id')
    assert {row[0] for row in rows} <= {"me"} and all(row[1] for row in rows)
    return [trigger or json.loads(detail)["from"] for _, _, trigger, detail in rows]


def readiness(gateway):
    answer = requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10)
    return answer.status_code, answer.text


def names(gateway):
    done = gateway.run("fleet", "--json")
    assert done.returncode == 0, done.stderr
    return [member["id"] for member in json.loads(done.stdout)["gateways"]]


def test_a_lock_that_disappears_from_the_database_is_recorded(authority, make_gateway, server, key):
    settings = {**config(authority), **shared(server.database("tokens"), key)}
    one, other = [make_gateway(settings).start() for _ in range(2)]
    log_in(one)
    wait_until(lambda: works(other), 5, "the other gateway uses the token of the login")
    assert one.run("token", "lock", "me").returncode == 0
    wait_until(lambda: not works(other), 3, "a lock holds on both")
    # Not by an operator of either gateway.
    server.sql("delete from authgateway.lock", "tokens")
    for gateway in (one, other):
        wait_until(lambda gateway=gateway: unlocks(gateway) == ["store"], 5, lambda gateway=gateway: f"it is recorded\n{gateway.text()}")
        wait_until(lambda gateway=gateway: works(gateway), 3, "the credential is unlocked")
    # The gateway of the operator records the operator, and the other one the store.
    assert one.run("token", "lock", "me").returncode == 0
    wait_until(lambda: not works(other), 3, "a lock holds on both")
    assert one.run("token", "unlock", "me").returncode == 0
    wait_until(lambda: unlocks(other) == ["store", "store"], 5, lambda: other.text())
    assert unlocks(one) == ["store", "operator"]


def test_a_lock_that_disappears_while_the_gateway_is_stopped_is_recorded_once(authority, make_gateway, server, key):
    settings = {**config(authority), **shared(server.database("tokens"), key)}
    settings["credentials"]["box"] = authority.credential()
    settings["routes"]["box"] = {"upstream": f"{authority.url}/api", "auth": "box"}
    gateway = make_gateway(settings).start()
    log_in(gateway)
    assert gateway.run("token", "lock", "me").returncode == 0
    gateway.stop()
    server.sql("delete from authgateway.lock", "tokens")
    # A command without a gateway writes the file of locks, and must not hide it.
    assert gateway.run("token", "lock", "box").returncode == 0
    gateway.start()
    wait_until(lambda: unlocks(gateway) == ["store"], 5, lambda: f"it is recorded\n{gateway.text()}")
    assert works(gateway)
    wait_until(lambda: json.loads((gateway.folder / "state" / "locks.json").read_text()) == ["box"], 10, "the file follows")
    gateway.stop()
    gateway.start()
    assert works(gateway)
    assert unlocks(gateway) == ["store"], "it is recorded once"


def test_a_gateway_without_rights_on_the_table_of_gateways_says_so(authority, make_gateway, server, key):
    url = server.database("tokens")
    settings = {**config(authority), **shared(url, key)}
    known = make_gateway(settings).start()
    log_in(known)
    server.sql(
        """create role few login;
        grant usage on schema authgateway to few;
        grant select, insert, update, delete on all tables in schema authgateway to few;
        revoke insert, update on authgateway.gateway from few""",
        "tokens",
    )
    unknown = make_gateway({**settings, **shared(server.url("tokens", user="few"), key)}).start()
    wait_until(lambda: "authgateway fleet does not list this gateway" in readiness(unknown)[1], 5, lambda: str(readiness(unknown)))
    status, text = readiness(unknown)
    assert status == 200 and "permission denied" in text and "degraded" not in text
    assert works(unknown) and len(names(known)) == 1
    assert "authgateway fleet does not list this gateway" in unknown.run("status").stdout
    advice = unknown.run("doctor").stdout
    assert "lacks INSERT, UPDATE on authgateway.gateway" in advice and "As the owner of the tables, grant SELECT" in advice
    server.sql("grant insert, update on authgateway.gateway to few", "tokens")
    wait_until(lambda: "does not list" not in readiness(unknown)[1], 5, lambda: str(readiness(unknown)))
    # The gateway shares one answer among all requests of a second.
    wait_until(lambda: len(names(known)) == 2, 5, lambda: str(names(known)))
    assert "authgateway.gateway" not in unknown.run("doctor").stdout


def test_a_copied_state_gets_an_id_of_its_own_by_a_backup_and_its_restore(authority, make_gateway, server, key):
    settings = {**config(authority), **shared(server.database("tokens"), key, ship=False)}
    one = make_gateway(settings).start()
    log_in(one)
    one.stop()
    copy = make_gateway(settings)
    (copy.folder / "state").mkdir(mode=0o700)
    for file in (one.folder / "state").glob("audit.sqlite*"):
        target = copy.folder / "state" / file.name
        target.write_bytes(file.read_bytes())
        target.chmod(0o600)
    one.start()
    wait_until(lambda: works(one), 5, "the first gateway works")
    copy.start()
    wait_until(lambda: "has the same id" in readiness(one)[1], 5, lambda: f"{readiness(one)}\n{one.text()}")
    assert readiness(one)[0] == 200 and works(one)
    assert len(names(one)) == 1
    # What the message says.
    assert "authgateway state restore FOLDER --replace" in readiness(one)[1]
    copy.stop()
    folder = str(copy.folder / "backup")
    rows = len(query(copy, "select id from token_events"))
    done = copy.run("state", "backup", folder)
    assert done.returncode == 0, done.stderr
    done = copy.run("state", "restore", folder, "--replace")
    assert done.returncode == 0, done.stderr
    copy.start()
    wait_until(lambda: len(names(one)) == 2, 10, lambda: f"both are listed\n{one.text()}\n{copy.text()}")
    wait_until(lambda: "has the same id" not in readiness(one)[1], 10, lambda: str(readiness(one)))
    assert len(query(copy, "select id from token_events")) > rows, "the log goes on"
    assert copy.run("audit", "verify").returncode == 0 and works(copy)

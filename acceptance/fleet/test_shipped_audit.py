"""The audit log of each gateway in the database that they share."""

import contextlib
import json
import sqlite3

import pytest
import requests
from harness.configs import CANARY
from harness.fleet import shared_tokens
from harness.login import config, log_in_both, works
from harness.processes import wait_until

COLUMNS = (
    "id at event credential strategy subject generation trigger route client request_id outcome http_status error_code expires_at "
    "duration_ms waiters token_fingerprint instance detail previous_hash hash client_request_id"
)
SELECTION = ", ".join(f'"{name}"' for name in COLUMNS.split())


def shared(url, key, **audit):
    return {"tokens": shared_tokens(url, key), "audit": audit}


def fetching(authority):
    """Each gateway may fetch such a token without the database."""
    return {"credentials": {"box": authority.credential()}, "routes": {"api": {"upstream": f"{authority.url}/api", "auth": "box"}}}


def query(gateway, sql):
    with contextlib.closing(sqlite3.connect(gateway.folder / "state" / "audit.sqlite", timeout=20)) as database:
        return [list(row) for row in database.execute(sql)]


def chain(gateway):
    [[name]] = query(gateway, "select value from audit_log where name = 'chain'")
    return name


def local(gateway):
    return query(gateway, f"select {SELECTION} from token_events order by id")


def copied(server, gateway):
    rows = f"select json_agg(json_build_array({SELECTION}) order by id) from authgateway.audit_event where chain = '{chain(gateway)}'"
    return json.loads(server.sql(rows, "tokens") or "[]")


def arrives(server, gateway, seconds=20):
    wait_until(lambda: copied(server, gateway) == local(gateway), seconds, lambda: f"the copy is whole\n{gateway.text()}")


def trouble(gateway):
    return requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10).text


def unshipped(gateway):
    metrics = requests.get(f"{gateway.admin_url}/metrics", timeout=10).text
    [line] = [line for line in metrics.splitlines() if line.startswith("gateway_audit_unshipped_events ")]
    return float(line.split()[1])


def renew(authority, gateway, times):
    for _ in range(times):
        authority.revoke_all()
        wait_until(lambda: works(gateway), 40, lambda: f"a new token is used\n{gateway.text()}")


def test_the_chain_of_each_gateway_is_in_the_database(authority, make_gateway, server, key):
    settings = {**config(authority), **shared(server.database("tokens"), key)}
    pair = [make_gateway(settings).start() for _ in range(2)]
    log_in_both(pair)
    for gateway in pair:
        renew(authority, gateway, 2)
    assert chain(pair[0]) != chain(pair[1])
    for gateway in pair:
        arrives(server, gateway)
        assert len(copied(server, gateway)) >= 4
        head = server.sql(f"select head_id || ' ' || head_hash from authgateway.audit_chain where chain = '{chain(gateway)}'", "tokens")
        assert head == " ".join(str(value) for value in query(gateway, "select id, hash from token_events order by id desc limit 1")[0])
        assert unshipped(gateway) == 0
    # The events of the stop arrive, too, and after a restart the chain goes on.
    one = pair[0]
    name = chain(one)
    one.stop()
    arrives(server, one)
    one.start()
    renew(authority, one, 1)
    arrives(server, one)
    assert chain(one) == name


@pytest.mark.slow
def test_uses_are_in_the_database(authority, make_gateway, server, key):
    gateway = make_gateway({**fetching(authority), **shared(server.database("tokens"), key)}).start()
    for _ in range(5):
        assert works(gateway)
    of_database = f"select sum(requests) from authgateway.audit_use where chain = '{chain(gateway)}' and route = 'api'"
    wait_until(lambda: server.sql(of_database, "tokens") == "5", 40, "the uses arrive")


def test_nothing_is_lost_while_the_database_is_away(authority, make_gateway, server, key):
    gateway = make_gateway({**fetching(authority), **shared(server.database("tokens"), key)}).start()
    assert works(gateway)
    arrives(server, gateway)
    before = len(local(gateway))
    server.stop()
    renew(authority, gateway, 3)
    assert unshipped(gateway) >= 3
    # They also outlive the process.
    gateway.kill()
    gateway.start()
    renew(authority, gateway, 2)
    assert unshipped(gateway) >= 5
    server.start()
    arrives(server, gateway, 40)
    assert len(copied(server, gateway)) >= before + 5
    wait_until(lambda: unshipped(gateway) == 0, 10, "nothing waits")
    assert gateway.run("audit", "verify").returncode == 0


def test_a_log_may_stay_local(authority, make_gateway, server, key):
    gateway = make_gateway({**fetching(authority), **shared(server.database("tokens"), key, ship=False)}).start()
    assert works(gateway)
    gateway.stop()
    assert server.sql("select count(*) from authgateway.audit_chain", "tokens") == "0"


def test_a_copied_state_does_not_mix_its_rows_with_those_of_the_first(authority, make_gateway, server, key, tmp_path):
    settings = {**fetching(authority), **shared(server.database("tokens"), key)}
    one = make_gateway(settings).start()
    assert works(one)
    one.stop()
    arrives(server, one)
    other = make_gateway(settings)
    (other.folder / "state").mkdir(mode=0o700)
    for file in (one.folder / "state").glob("audit.sqlite*"):
        target = other.folder / "state" / file.name
        target.write_bytes(file.read_bytes())
        target.chmod(0o600)
    assert chain(other) == chain(one)
    one.start()
    arrives(server, one)
    other.start()
    wait_until(lambda: chain(other) != chain(one), 20, lambda: f"the second one takes another name\n{other.text()}")
    arrives(server, other)
    arrives(server, one)
    assert "under a new name" in other.text() and "audit verify" in other.text()


@pytest.mark.slow
def test_with_store_postgres_no_token_is_used_before_the_database_has_its_event(authority, make_gateway, server, key):
    url = server.database("tokens")
    server.stop()
    gateway = make_gateway({**fetching(authority), **shared(url, key, store="postgres")}).start()
    answer = requests.get(f"{gateway.url}/api/x", timeout=60)
    assert answer.status_code == 503 and "audit-unavailable" in answer.text
    wait_until(lambda: "audit.store: postgres" in trouble(gateway), 20, lambda: trouble(gateway))
    assert "no new token is used" in trouble(gateway)
    server.start()
    wait_until(lambda: works(gateway), 40, lambda: trouble(gateway))
    wait_until(lambda: "audit.store: postgres" not in trouble(gateway), 20, lambda: trouble(gateway))
    arrives(server, gateway)
    # What has the token's event in the database is used.
    assert server.sql("select count(*) from authgateway.audit_event where event = 'acquired' and outcome = 'ok'", "tokens") != "0"


def test_a_user_takes_a_token_away_while_the_database_does_not_have_the_events(authority, make_gateway, server, key):
    settings = {**fetching(authority), **shared(server.database("tokens"), key, store="postgres")}
    gateway = make_gateway(settings)
    token = CANARY + "-operator"
    gateway.admin["users"] = {"alice": {"role": "operator", "token": token}}
    gateway.configure(settings)
    gateway.start()
    assert works(gateway)
    server.stop()

    def ask(operation):
        url = f"{gateway.admin_url}/api/tokens/box/{operation}"
        return requests.post(url, headers={"Authorization": f"Bearer {token}"}, timeout=60)

    answer = ask("lock")
    assert "box is locked on this gateway" in answer.text and not works(gateway), answer.text
    answer = ask("reveal")
    assert answer.status_code == 503 and "Nothing was done" in answer.text, answer.text
    server.start()
    events = "select detail from token_events where event = 'operator_request'"
    wait_until(lambda: "lock" in str(query(gateway, events)), 20, lambda: str(query(gateway, events)))


def test_store_postgres_needs_the_database_of_the_tokens(make_gateway, origin):
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}, "audit": {"store": "postgres"}})
    done = gateway.run("check")
    assert done.returncode != 0 and "audit.store" in done.stderr + done.stdout

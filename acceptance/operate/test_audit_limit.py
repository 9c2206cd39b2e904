"""`audit.max_bytes`: what stops being recorded first, what does not, and what makes room."""

import contextlib
import datetime
import sqlite3

import requests
from harness import processes
from harness.configs import CANARY
from harness.events import named

LIMIT = 16 << 20


def config(authority, **more):
    return {
        "audit": {"max_bytes": "16MiB", "usage": "request"},
        "access": {"clients": {"laptop": {"token": f"{CANARY}-laptop"}}},
        "credentials": {"service": authority.credential()},
        "routes": {"api": {"upstream": f"{authority.url}/api", "auth": "service"}},
        **more,
    }


def use(gateway, token=f"{CANARY}-laptop"):
    return requests.get(f"{gateway.url}/api/x", headers={"Authorization": f"Bearer {token}"}, timeout=30).status_code


def readiness(gateway):
    answer = requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10)
    return answer.status_code, " ".join(answer.json()["reasons"])


def fill(gateway, size, days=1):
    """As the requests of a busy day so long ago would have: they stand outside the chain."""
    at = f"{datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days):%Y-%m-%dT%H:%M:00.000Z}"
    row = (at, "r" * 1000, "api", "laptop", "GET", 200, "service", 1, 0, 1, 1, 1, "test")
    names = "at, request_id, route, client, method, status, credential, generation, replayed, bytes_received, bytes_sent, duration_ms, instance"
    with contextlib.closing(sqlite3.connect(gateway.folder / "state" / "audit.sqlite", timeout=20)) as database:
        while True:
            database.executemany(f"insert into token_requests ({names}) values ({', '.join('?' * 13)})", [row] * 20)
            database.commit()
            pages = database.execute("pragma page_count").fetchone()[0] * database.execute("pragma page_size").fetchone()[0]
            if pages >= size:
                break
        database.execute("pragma wal_checkpoint(truncate)")


def rows(gateway, table):
    with contextlib.closing(sqlite3.connect(gateway.folder / "state" / "audit.sqlite", timeout=20)) as database:
        return database.execute(f"select count(*) from {table}").fetchone()[0]


def filled(start_gateway, authority, size, **options):
    gateway = start_gateway(config(authority))
    gateway.stop()
    fill(gateway, size, **options)
    gateway.start()
    return gateway


def test_in_the_reserve_tokens_and_operators_are_recorded_and_requests_are_not(start_gateway, authority):
    gateway = filled(start_gateway, authority, LIMIT - LIMIT // 12)
    code, reason = readiness(gateway)
    assert code == 200, reason
    assert "failed requests, denials and uses are no longer recorded" in reason
    assert "audit.max_bytes" in reason and "audit.retention" in reason
    assert "audit.max_bytes" in gateway.run("status").stdout
    assert "the audit log records fewer kinds of events" in gateway.text()
    requested, denied = rows(gateway, "token_requests"), len(named(gateway, "client_denied"))
    assert use(gateway) == 200 and use(gateway, "nobody-knows-this-one") == 401
    assert gateway.run("token", "refresh", "service").returncode == 0
    assert gateway.run("token", "lock", "service").returncode == 0
    assert gateway.run("token", "unlock", "service").returncode == 0
    assert use(gateway) == 200
    gateway.stop()
    assert rows(gateway, "token_requests") == requested and len(named(gateway, "client_denied")) == denied
    assert named(gateway, "renewed") != [] and named(gateway, "locked") != [] and named(gateway, "unlocked") != []
    assert gateway.run("audit", "verify").returncode == 0


def test_at_the_limit_no_new_token_is_used_and_an_operator_can_still_act(start_gateway, authority):
    # What is left is for operators: the last fortieth.
    gateway = filled(start_gateway, authority, LIMIT - LIMIT // 50)
    code, reason = readiness(gateway)
    assert code == 503 and "is full, so no new token is used" in reason and "audit.max_bytes" in reason
    assert gateway.run("token", "refresh", "service").returncode == 1
    assert use(gateway) == 503
    assert gateway.run("token", "lock", "service").returncode == 0
    assert gateway.run("token", "unlock", "service").returncode == 0
    gateway.stop()
    size = sum(file.stat().st_size for file in (gateway.folder / "state").glob("audit.sqlite*"))
    assert size <= LIMIT
    # What the message says helps.
    gateway.configure(config(authority, audit={"max_bytes": "32MiB"}))
    gateway.start()
    assert readiness(gateway) == (200, "")
    assert use(gateway) == 200


def test_pruning_makes_room(start_gateway, authority):
    gateway = filled(start_gateway, authority, LIMIT - LIMIT // 12, days=100)
    processes.wait_until(lambda: readiness(gateway) == (200, ""), 20, lambda: str(readiness(gateway)))
    assert use(gateway, "nobody-knows-this-one") == 401
    processes.wait_until(lambda: named(gateway, "client_denied") != [], 10, "denials are recorded again")

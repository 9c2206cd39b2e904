"""Rows of the database that a person has locked in a transaction, or written by hand."""

import time

import pytest
import requests
from harness.postgresql import VERSIONS, PgBouncer, PostgreSQL
from harness.processes import wait_until


@pytest.fixture(params=VERSIONS)
def server(request, short_folder):
    server = PostgreSQL(short_folder / "pg", version=request.param)
    yield server
    server.stop()


def revisions(server):
    rows = server.sql("select key, revision from authgateway.token", "tokens").splitlines()
    return {key: int(revision) for key, revision in (row.split("|") for row in rows)}


def settings(authority, url):
    # Equal ones would share a row.
    scopes = {"one": ["read"], "two": ["read", "write"]}
    return {
        "credentials": {name: {**authority.credential(), "scopes": scopes[name]} for name in scopes},
        "routes": {name: {"upstream": f"{authority.url}/api", "auth": name} for name in scopes},
        "tokens": {"store": "postgres", "url": url},
    }


def statuses(gateway):
    return {requests.get(f"{gateway.url}/{name}/x", timeout=30).status_code for name in ("one", "two")}


@pytest.mark.slow
@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
def test_a_row_that_is_held_delays_no_other_credential_and_is_written_later(authority, start_gateway, server, short_folder, pooled):
    url = server.database("tokens")
    pooler = PgBouncer(short_folder / "pooler", server) if pooled else None
    try:
        gateway = start_gateway(settings(authority, pooler.url("tokens") if pooled else url))
        assert statuses(gateway) == {200}
        wait_until(lambda: len(revisions(server)) == 2, 10, "both tokens are stored")
        before = revisions(server)
        held = min(before)
        free = max(before)
        with server.transaction(f"select from authgateway.token where key = '{held}' for update", "tokens"):
            authority.revoke_all()
            begun = time.monotonic()
            assert statuses(gateway) == {200}, "a token that any gateway may fetch is fetched"
            assert time.monotonic() - begun < 6
            wait_until(lambda: revisions(server)[free] > before[free], 5, "the other credential is stored")
            wait_until(lambda: "another session has locked rows" in gateway.text(), 5, gateway.text)
            assert revisions(server)[held] == before[held]
            assert "the token store" not in requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10).text
        wait_until(lambda: revisions(server)[held] > before[held], 20, lambda: f"it is stored after all\n{gateway.text()}")
    finally:
        if pooler:
            pooler.stop()


def test_a_lease_without_an_end_fails_no_other_credential(authority, start_gateway, server):
    gateway = start_gateway(settings(authority, server.database("tokens")))
    assert statuses(gateway) == {200}
    wait_until(lambda: len(revisions(server)) == 2, 10, "both tokens are stored")
    issued = len(authority.tokens())
    gateway.stop()
    held = min(revisions(server))
    server.sql(f"update authgateway.token set lease_until = 'infinity' where key = '{held}'", "tokens")
    gateway.start()
    assert statuses(gateway) == {200} and len(authority.tokens()) == issued, "both tokens are read"

"""State of the first release: this version takes it over, and a version before one with newer tables refuses it."""

import pathlib
import shutil
import sqlite3

import pytest
import requests
from harness.processes import wait_until

#: Made by 0.1.0 with the credentials of `config`, whose tokens end in 2046: `me` is at its first token, `held` is locked.
FIRST = pathlib.Path(__file__).resolve().parents[1] / "harness" / "state-0.1.0"
DATABASES = ["audit.sqlite", "tokens.sqlite"]
#: The tables of this version.
SCHEMAS = {"audit.sqlite": 1, "tokens.sqlite": 1}


def credential(client):
    return {
        "strategy": "oauth2_authorization_code",
        "authorize_url": "http://127.0.0.1:9/authorize",
        "token_url": "http://127.0.0.1:9/token",
        "client_id": client,
        "client_secret": {"env": "FIXTURE_SECRET"},
    }


def config(origin):
    return {
        "credentials": {"me": credential("web"), "held": credential("other")},
        "routes": {name: {"upstream": origin.url, "auth": name} for name in ["me", "held"]},
    }


@pytest.fixture
def gateway(make_gateway, origin):
    gateway = make_gateway(config(origin), environment={"FIXTURE_SECRET": "s3cret"})
    shutil.copytree(FIRST, gateway.folder / "state")
    (gateway.folder / "state").chmod(0o700)
    for path in (gateway.folder / "state").iterdir():
        path.chmod(0o600)
    return gateway


def ask(path, question):
    database = sqlite3.connect(path, timeout=20)
    try:
        return database.execute(question).fetchone()[0]
    finally:
        database.close()


def content(path):
    """Its tables and rows: opening a database may change its header."""
    database = sqlite3.connect(path, timeout=20)
    try:
        return [database.execute("PRAGMA user_version").fetchone(), *database.iterdump()]
    finally:
        database.close()


def schemas(folder):
    return {name: ask(folder / name, "PRAGMA user_version") for name in DATABASES}


def test_the_files_of_the_first_release_are_taken_over(gateway, origin, tmp_path):
    assert schemas(FIRST) == dict.fromkeys(DATABASES, 0)
    rows = ask(FIRST / "audit.sqlite", "SELECT max(id) FROM token_events")
    gateway.start()
    assert requests.get(f"{gateway.url}/me/x", timeout=20).status_code == 200
    assert origin.last().value("authorization") == "Bearer access-of-the-fixture"
    assert requests.get(f"{gateway.url}/held/x", timeout=20).status_code == 503, "still locked"
    [token] = [token for token in tokens(gateway) if token["credential"] == "me"]
    assert token["generation"] == 1
    assert len(gateway.events()) > rows
    assert "api" in gateway.run("audit", "query", "--requests").stdout
    log = gateway.folder / "state" / "audit.sqlite"
    for table, indices in (("token_events", 5), ("token_requests", 4), ("token_use", 1)):
        found = f"SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND tbl_name = '{table}' AND sql IS NOT NULL"
        assert ask(log, found) == indices, table
    # The rows of the first release are in the new views; its refusals were not counted.
    assert ask(log, "SELECT count(*) FROM renewals WHERE event = 'imported'") == 2
    assert ask(log, "SELECT count(*) FROM uses WHERE status_401 IS NULL") == 1
    result = gateway.run("audit", "verify")
    assert result.returncode == 0, result.stdout + result.stderr
    result = gateway.run("state", "backup", tmp_path / "backup")
    assert result.returncode == 0, result.stderr
    gateway.stop()
    assert schemas(gateway.folder / "state") == SCHEMAS
    # What it has become is opened again.
    gateway.start()
    assert requests.get(f"{gateway.url}/me/x", timeout=20).status_code == 200


def tokens(gateway):
    return requests.get(f"{gateway.admin_url}/api/tokens", timeout=20).json()


def test_commands_read_the_files_of_the_first_release(gateway):
    """Before any gateway has opened them."""
    result = gateway.run("audit", "query", "--event", "imported")
    assert result.returncode == 0 and result.stdout.count("imported") == 2, result
    result = gateway.run("audit", "verify")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "locked by an operator" in gateway.run("doctor", "--offline").stdout


def test_a_backup_of_the_first_release_s_files_is_restored(gateway, origin, tmp_path):
    result = gateway.run("state", "backup", tmp_path / "backup", "--with-keys")
    assert result.returncode == 0, result.stderr
    result = gateway.run("state", "restore", tmp_path / "backup", "--replace")
    assert result.returncode == 0, result.stderr
    gateway.start()
    assert requests.get(f"{gateway.url}/me/x", timeout=20).status_code == 200
    assert origin.last().value("authorization") == "Bearer access-of-the-fixture"
    [token] = [token for token in tokens(gateway) if token["credential"] == "me"]
    assert token["state"] == "rotation_uncertain"


@pytest.mark.parametrize("name", DATABASES)
def test_newer_tables_are_refused_and_left_alone(gateway, name):
    path = gateway.folder / "state" / name
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.commit()
    database.close()
    before = content(path)
    with pytest.raises(AssertionError, match=rf"{name} was written by a newer authgateway \(schema 99;"):
        gateway.start()
    assert content(path) == before
    wait_until(lambda: gateway.process.poll() is not None, 10, "it ended")
    result = gateway.run("audit", "query") if name == "audit.sqlite" else gateway.run("doctor", "--offline")
    assert result.returncode != 0 and "newer authgateway" in result.stdout + result.stderr, result

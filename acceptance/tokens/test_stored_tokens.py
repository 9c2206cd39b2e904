"""What is stored of a token, when it is stored, and what is left of it when it is cleared."""

import concurrent.futures
import contextlib
import os
import sqlite3
import stat

import pytest
import requests
from harness.configs import TOKEN_SCRIPT, command_store
from harness.login import Login, config, status_of, works
from harness.person import Person
from harness.processes import wait_until
from harness.token_server import who


def rows(gateway):
    """How many tokens are in the store."""
    database = sqlite3.connect(f"file:{gateway.folder}/state/tokens.sqlite?mode=ro", uri=True, timeout=20)
    with contextlib.closing(database):
        return database.execute("select count(*) from tokens where length(ciphertext) > 0").fetchone()[0]


# MARK: A restart


def test_one_login_is_enough_for_every_restart(authority, start_gateway):
    gateway = start_gateway(config(authority))
    login = Login(gateway, "me")
    assert requests.get(Person().decide(login.page), timeout=20).status_code == 200
    assert login.end()[0] == 0 and works(gateway)
    first = authority.tokens()
    for end in (gateway.stop, gateway.kill):
        end()
        gateway.start()
        assert works(gateway) and authority.tokens() == first, "the access token of the login is used again"
    # The refresh token was stored, too. It buys the next pair, and that pair outlives the next kill.
    for spent in (1, 2):
        authority.revoke_all()
        assert works(gateway)
        gateway.kill()
        gateway.start()
        assert works(gateway)
        assert [revoked is None for revoked in authority.refresh_tokens()] == [False] * spent + [True]
    assert [event["event"] for event in gateway.events() if event["event"].startswith("login")] == [
        "login_started",
        "login_completed",
    ]


# MARK: A write


def delegated(server, api, **more):
    return {
        "credentials": {"app-user": {"strategy": "delegated", "url": server.url + "/token?id={{unique_id}}", "unique_id": "42"}},
        "routes": {"api": {"upstream": api.url, "auth": "app-user"}},
        **more,
    }


def get(gateway, **headers):
    return requests.get(gateway.url + "/api/x", headers=headers, timeout=30)


def test_a_token_is_not_used_before_the_store_has_it(token_server, make_origin, start_gateway, tmp_path):
    """The program of the store waits for the test in the middle of its first write."""
    api = make_origin(who)
    began, gate = tmp_path / "began", tmp_path / "gate"
    os.mkfifo(gate)
    program = tmp_path / "store.sh"
    program.write_text(f'#!/bin/sh\nif [ "$1" = store ]; then : >"{began}"; read -r _ <"{gate}"; fi\nexec "{TOKEN_SCRIPT}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    tokens, files = command_store(tmp_path, program)
    gateway = start_gateway(delegated(token_server, api, tokens=tokens))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(get, gateway)
        wait_until(began.exists, 20, "the store was asked to write")
        assert token_server.count() == 1
        # The gateway has its token and a worker that is free. It serves others, and this request waits.
        for _ in range(20):
            assert requests.get(gateway.admin_url + "/api/tokens", timeout=20).status_code == 200
        assert api.count() == 0 and not answer.done()
        gate.write_text("go on\n")
        assert answer.result().text == "Bearer token-1-of-42"
    assert api.count() == 1
    assert len(list(files.iterdir())) == 1
    # Only what was stored can be used after this.
    gateway.kill()
    gateway.start()
    assert get(gateway).text == "Bearer token-1-of-42"
    assert token_server.count() == 1


def test_an_import_that_the_store_does_not_take_fails(token_server, make_origin, start_gateway, tmp_path):
    program = tmp_path / "store.sh"
    program.write_text(f'#!/bin/sh\nif [ "$1" = store ]; then exit 1; fi\nexec "{TOKEN_SCRIPT}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    tokens, files = command_store(tmp_path, program)
    gateway = start_gateway(delegated(token_server, make_origin(who), tokens=tokens))
    gateway.stop()
    imported = gateway.run("token", "import", "app-user", input="imported\n")
    assert imported.returncode == 1 and "The token store did not accept the change to app-user" in imported.stderr, imported
    assert imported.stdout == "" and list(files.iterdir()) == []


# MARK: A row for each user


def test_each_user_has_a_row_and_is_cleared_alone(token_server, make_origin, start_gateway):
    whole = delegated(token_server, make_origin(who))
    whole["credentials"]["app-user"]["unique_id"] = {"header": "X-Box-User", "allow": ["ada", "bob", "eve"]}
    gateway = start_gateway(whole)
    texts = {}
    for number, user in enumerate(["ada", "bob", "eve"], 1):
        texts[user] = get(gateway, **{"X-Box-User": user}).text
        assert texts[user] == f"Bearer token-{number}-of-{user}"
        assert rows(gateway) == number
    assert gateway.run("token", "clear", "app-user[ada]").returncode == 0
    assert rows(gateway) == 2
    gateway.kill()
    gateway.start()
    # The others are read from their rows. Ada's token is asked for.
    for user in ("bob", "eve"):
        assert get(gateway, **{"X-Box-User": user}).text == texts[user]
    assert get(gateway, **{"X-Box-User": "ada"}).text == "Bearer token-4-of-ada"
    assert token_server.users() == ["ada", "bob", "eve", "ada"]
    assert rows(gateway) == 3


# MARK: Clear


@pytest.mark.parametrize("store", ["sqlite", "command"])
@pytest.mark.parametrize("is_running", [True, False], ids=["running", "stopped"])
def test_a_token_that_was_cleared_is_in_no_store(token_server, make_origin, start_gateway, tmp_path, store, is_running):
    api = make_origin(who)
    tokens, files = ({"store": "sqlite"}, None) if store == "sqlite" else command_store(tmp_path)
    gateway = start_gateway(delegated(token_server, api, tokens=tokens))
    kept = lambda: rows(gateway) if files is None else len(list(files.iterdir()))
    assert get(gateway).text == "Bearer token-1-of-42"
    assert kept() == 1
    if not is_running:
        gateway.stop()
    cleared = gateway.run("token", "clear", "app-user")
    assert cleared.returncode == 0, cleared
    assert kept() == 0
    if is_running:
        assert status_of(gateway)["state"] == "empty"
        gateway.kill()
    gateway.start()
    assert get(gateway).text == "Bearer token-2-of-42"
    assert (token_server.count(), kept()) == (2, 1)
    assert [event["trigger"] for event in gateway.events("--event", "cleared")] == ["operator"]

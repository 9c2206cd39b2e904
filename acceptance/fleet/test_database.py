"""Tokens in PostgreSQL: one gateway and its database."""

import contextlib
import json
import secrets
import time

import pytest
import requests
from harness.configs import BEARER, CANARY
from harness.gateway import command
from harness.login import config, log_in, works
from harness.postgresql import VERSIONS, PgBouncer, PostgreSQL, running
from harness.processes import wait_until
from harness.tls import CertificateAuthority


@pytest.fixture(scope="module", params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def shared_server(version):
    """For tests that need a database only."""
    with running(version=version) as server:
        yield server


@pytest.fixture
def server(short_folder, version):
    """For tests that stop it or need it in another way."""
    with contextlib.ExitStack() as stops:

        def make(**options):
            server = PostgreSQL(short_folder / "pg", version=version, **options)
            stops.callback(server.stop)
            return server

        yield make


@pytest.fixture
def database(shared_server):
    name = f"test_{secrets.token_hex(4)}"
    shared_server.database(name)
    return name


def stored(url, **more):
    return {"tokens": {"store": "postgres", "url": url, **more}}


def trouble(gateway):
    return requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10).text


# MARK: Tokens


def test_a_login_outlives_restarts_and_the_restart_of_the_database(authority, start_gateway, server):
    database = server()
    gateway = start_gateway({**config(authority), **stored(database.database("tokens"))})
    log_in(gateway)
    assert works(gateway)
    issued = authority.tokens()
    for end in (gateway.stop, gateway.kill):
        end()
        gateway.start()
        assert works(gateway) and authority.tokens() == issued
    database.restart()
    # The refresh token of the login is spent, so the new one has to be stored.
    authority.revoke_all()
    assert works(gateway)
    assert len(authority.refresh_tokens()) == 2
    gateway.stop()
    gateway.start()
    assert works(gateway) and len(authority.refresh_tokens()) == 2


def test_nothing_secret_is_in_the_database(authority, start_gateway, shared_server, database):
    gateway = start_gateway({**config(authority), **stored(shared_server.url(database))})
    log_in(gateway)
    token = authority.tokens()[-1][0]
    rows = shared_server.sql("select row_to_json(t) from authgateway.token t", database)
    assert rows and token not in rows and token.encode().hex() not in rows


@pytest.mark.slow
def test_a_gateway_starts_without_its_database_and_uses_it_when_it_comes(authority, make_gateway, server):
    database = server()
    url = database.database("tokens")
    database.stop()
    gateway = make_gateway({**config(authority), **stored(url)})
    gateway.start()
    assert "the token store cannot be written" in trouble(gateway)
    assert "The token store cannot be used; the gateway tries again" in gateway.text()
    database.start()
    wait_until(lambda: "the token store" not in trouble(gateway), 20, lambda: trouble(gateway))
    log_in(gateway)
    assert works(gateway)


@pytest.mark.timing
def test_a_start_waits_once_for_a_database_that_hangs(authority, make_gateway, server):
    database = server()
    gateway = make_gateway({**config(authority), **stored(database.database("tokens"))})
    with database.halted():
        begun = time.monotonic()
        gateway.start()
        assert time.monotonic() - begun < 9
        assert "The token store cannot be used; the gateway tries again" in gateway.text()
    wait_until(lambda: "the token store" not in trouble(gateway), 30, lambda: trouble(gateway))
    log_in(gateway)
    assert works(gateway)


@pytest.mark.slow
def test_a_valid_token_is_used_while_the_database_does_not_answer(authority, start_gateway, server):
    database = server()
    gateway = start_gateway({**config(authority), **stored(database.database("tokens"))})
    log_in(gateway)
    with database.halted():
        assert all(works(gateway) for _ in range(20))
        wait_until(lambda: "the token store cannot be written" in trouble(gateway), 40, lambda: trouble(gateway))
        assert works(gateway)
    wait_until(lambda: "the token store" not in trouble(gateway), 30, lambda: trouble(gateway))
    authority.revoke_all()
    assert works(gateway)


@pytest.mark.slow
def test_a_read_only_database_is_named_and_used_again(authority, start_gateway, server):
    database = server()
    gateway = start_gateway({**config(authority), **stored(database.database("tokens"))})
    log_in(gateway)
    database.sql("alter database tokens set default_transaction_read_only = on")
    database.sql("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'tokens'")
    wait_until(lambda: "accepts no writes" in trouble(gateway), 30, lambda: trouble(gateway))
    assert works(gateway)
    database.sql("alter database tokens set default_transaction_read_only = off")
    wait_until(lambda: "the token store" not in trouble(gateway), 30, lambda: trouble(gateway))
    authority.revoke_all()
    assert works(gateway)


def test_a_pooler_in_transaction_mode_is_enough(authority, start_gateway, shared_server, database, short_folder):
    pooler = PgBouncer(short_folder / "pooler", shared_server)
    try:
        gateway = start_gateway({**config(authority), **stored(pooler.url(database))})
        log_in(gateway)
        for _ in range(3):
            authority.revoke_all()
            assert works(gateway)
        gateway.stop()
        gateway.start()
        assert works(gateway)
        text = gateway.run("doctor").stdout
        assert "a pooler is in between" in text and "tokens.listen_url" in text
        gateway.stop()
        gateway.configure({**config(authority), **stored(pooler.url(database), listen_url=shared_server.url(database))})
        gateway.start()
        assert works(gateway)
        assert "a pooler is in between" not in gateway.run("doctor").stdout
    finally:
        pooler.stop()


# MARK: Keys and schema


def test_a_gateway_with_another_key_does_not_start(make_gateway, origin, shared_server, database):
    routes = {"routes": {"api": {"upstream": origin.url, "auth": "none"}}}
    first = make_gateway({**routes, **stored(shared_server.url(database))})
    first.start()
    second = make_gateway({**routes, **stored(shared_server.url(database))})
    with pytest.raises(AssertionError, match="was encrypted with another key"):
        second.start()
    assert "copy the file of tokens.key" in second.text()
    # With the key of the first one it does.
    third = make_gateway({**routes, **stored(shared_server.url(database), key={"file": str(first.folder / "state/token.key")})})
    third.start()


def test_a_gateway_that_names_tokens_in_another_way_does_not_start(authority, make_gateway, shared_server, database):
    """It would find none of them, and spend the refresh tokens of the others."""
    keys = {f"KEY_{number}": secrets.token_hex(32) for number in (1, 2, 3)}

    def gateway(key):
        tokens = stored(shared_server.url(database), key={"env": key}, encryption_key={"env": "KEY_3"})
        return make_gateway({**config(authority), **tokens}, environment=keys)

    first, second, third = gateway("KEY_1"), gateway("KEY_2"), gateway("KEY_1")
    first.start()
    log_in(first)
    with pytest.raises(AssertionError, match="named with another key"):
        second.start()
    third.start()
    assert works(third) and works(first)


def test_a_newer_schema_is_refused(make_gateway, origin, shared_server, database):
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}, **stored(shared_server.url(database))})
    gateway.start()
    gateway.stop()
    shared_server.sql("update authgateway.store set value = '9' where name = 'schema'", database)
    with pytest.raises(AssertionError, match="newer authgateway"):
        gateway.start()
    done = gateway.run("store", "migrate")
    assert done.returncode == 1 and "newer authgateway" in done.stderr


def test_the_owner_makes_the_tables_and_gateways_need_few_rights(authority, make_gateway, shared_server, database):
    shared_server.sql(f"create role gw_{database} login")
    url = shared_server.url(database, user=f"gw_{database}")
    gateway = make_gateway({**config(authority), **stored(url)})
    gateway.start()
    assert "authgateway store migrate" in gateway.text()
    owner = ("store", "migrate", "--url", shared_server.url(database))
    assert "has its tables now (schema 1)" in gateway.run(*owner).stdout
    assert "is up to date (schema 1)" in gateway.run(*owner).stdout
    assert json.loads(gateway.run(*owner, "--json").stdout) == {"before": 1, "schema": 1}
    shared_server.sql(
        f"""grant usage on schema authgateway to gw_{database};
        grant select on authgateway.store to gw_{database};
        grant select, insert, update on authgateway.token to gw_{database};
        grant select, insert, delete on authgateway.lock to gw_{database};
        grant select, insert, update on authgateway.audit_chain to gw_{database};
        grant select, insert, delete on authgateway.audit_event to gw_{database};
        grant select, insert on authgateway.audit_checkpoint to gw_{database};
        grant select, insert, update, delete on authgateway.audit_use to gw_{database};""",
        database,
    )
    log_in(gateway)
    completed = "select count(*) from authgateway.audit_event where event = 'login_completed'"
    wait_until(lambda: shared_server.sql(completed, database) == "1", 20, lambda: f"the audit log arrives\n{gateway.text()}")
    assert works(gateway)
    assert gateway.run("token", "lock", "me").returncode == 0
    assert not works(gateway)
    assert gateway.run("token", "unlock", "me").returncode == 0
    assert works(gateway)


def test_another_store_has_nothing_to_migrate(make_gateway, origin):
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}})
    done = gateway.run("store", "migrate")
    assert done.returncode == 1 and "tokens.store is not postgres" in done.stderr


# MARK: Passwords and TLS


def test_a_password_is_used_and_never_shown(make_gateway, origin, server):
    database = server(authentication="scram-sha-256")
    database.database("tokens")
    database.sql(f"create role gateway login superuser password '{CANARY}'")
    url = f"postgresql://gateway@127.0.0.1:{database.port}/tokens?sslmode=disable"
    routes = {"routes": {"api": {"upstream": origin.url, "auth": "none"}}}
    gateway = make_gateway(
        {**routes, **stored(url, password={"env": "DATABASE_PASSWORD"})}, environment={"DATABASE_PASSWORD": CANARY}
    )
    gateway.start()
    assert database.sql("select count(*) from authgateway.store", "tokens") == "3"
    # Commands beside it need no password.
    done = command("status", "--config", gateway.file, cwd=gateway.folder)
    assert "DATABASE_PASSWORD" not in done.stderr, done.stderr
    gateway.stop()
    gateway.environment = {"DATABASE_PASSWORD": CANARY + "-wrong"}
    gateway.start()
    assert "password authentication failed" in trouble(gateway)
    assert CANARY not in trouble(gateway)
    doctor = gateway.run("doctor")
    assert "password authentication failed" in doctor.stdout and CANARY not in doctor.stdout


# The server of the package index is built without TLS.
@pytest.mark.parametrize("version", VERSIONS[:1], indirect=True)
def test_the_certificate_of_the_database_is_verified(make_gateway, origin, server, tmp_path):
    authority = CertificateAuthority(tmp_path, "right")
    other = CertificateAuthority(tmp_path, "wrong")
    database = server(tls=authority.issue("db", "DNS:localhost,IP:127.0.0.1"))
    database.database("tokens")
    url = f"postgresql://postgres@127.0.0.1:{database.port}/tokens?sslmode=verify-full"
    routes = {"routes": {"api": {"upstream": origin.url, "auth": "none"}}}
    gateway = make_gateway({**routes, **stored(url, ca=str(other.certificate))})
    gateway.start()
    assert "certificate verify failed" in trouble(gateway)
    gateway.stop()
    gateway.configure({**routes, **stored(url, ca=str(authority.certificate))})
    gateway.start()
    assert "the token store" not in trouble(gateway)
    assert database.sql("select bool_and(ssl) from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'authgateway'") == "t"


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ({"url": f"postgresql://gateway:{CANARY}/x@db.example/tokens"}, "give the password as the key"),
        ({"url": "postgresql://db.example/tokens?sslmode=require"}, "could pose as db.example"),
        ({}, 'missing key "url"'),
        (
            {"url": "postgresql://db.example/tokens", "encryption_key": {"env": "PATH"}},
            'tokens.encryption_key: also needs "key", which names',
        ),
    ],
)
def test_check_says_what_is_wrong_with_a_url(make_gateway, origin, tokens, words):
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER}}, "tokens": {"store": "postgres", **tokens}})
    done = gateway.run("check")
    assert done.returncode == 3 and words in done.stderr and CANARY not in done.stderr + done.stdout


def test_doctor_warns_of_a_database_that_can_lose_tokens(make_gateway, origin, server):
    database = server(settings={"synchronous_commit": "off"}.items())
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}, **stored(database.database("tokens"))})
    gateway.start()
    text = gateway.run("doctor").stdout
    assert "can lose the last tokens, since synchronous_commit is off" in text
    # It looks, and makes nothing.
    empty = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}, **stored(database.database("empty"))})
    empty.run("doctor")
    assert database.sql("select to_regnamespace('authgateway') is null", "empty") == "t"

"""Two gateways on one PostgreSQL, with refresh tokens that are valid once."""

import concurrent.futures
import sqlite3
import time

import pytest
import requests
from harness import odd_answers
from harness.configs import BEARER
from harness.login import config, log_in, log_in_both, status_of, works
from harness.postgresql import VERSIONS, PgBouncer, PostgreSQL
from harness.processes import wait_until


@pytest.fixture(params=VERSIONS)
def server(request, short_folder):
    server = PostgreSQL(short_folder / "pg", version=request.param)
    yield server
    server.stop()


def at_once(gateways, times=8):
    """The statuses of requests at all gateways at the same time."""
    with concurrent.futures.ThreadPoolExecutor(times * len(gateways)) as pool:
        asked = [pool.submit(requests.get, f"{gateway.url}/api/x", timeout=30) for gateway in gateways * times]
        return {answer.result().status_code for answer in asked}


def trouble(gateway):
    return requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10).text


def spent(authority):
    """How many refresh tokens were spent. One that is spent twice ends the login, and all are revoked."""
    return sum(1 for revoked in authority.refresh_tokens() if revoked)


def generations(authority):
    return len(authority.refresh_tokens())


def test_a_login_at_one_serves_both_and_each_generation_is_renewed_once(authority, server, start_pair):
    one, other = start_pair(config(authority), server.database("tokens"))
    log_in_both([one, other])
    assert generations(authority) == 1
    for generation in range(2, 8):
        authority.revoke_all()
        assert at_once([one, other]) == {200}
        assert generations(authority) == generation and spent(authority) == generation - 1
    one.kill()
    authority.revoke_all()
    assert works(other)
    one.start()
    assert at_once([one, other]) == {200} and generations(authority) == 8


def test_a_static_credential_that_is_locked_at_one_is_locked_on_both(origin, server, start_pair):
    config = {"credentials": {"key": BEARER}, "routes": {"api": {"upstream": origin.url, "auth": "key"}}}
    one, other = start_pair(config, server.database("tokens"))
    assert at_once([one, other], times=1) == {200}
    locked = one.run("token", "lock", "key")
    assert locked.returncode == 0 and "has not acknowledged" not in locked.stdout, locked
    sent = origin.count()
    assert at_once([one, other]) == {503}
    other.kill()
    other.start()
    assert at_once([one, other]) == {503} and origin.count() == sent
    assert other.run("token", "unlock", "key").returncode == 0
    wait_until(lambda: at_once([one, other], times=1) == {200}, 5, "both use it again")


def test_a_withdrawal_at_one_holds_on_both(authority, server, start_pair):
    one, other = start_pair(config(authority), server.database("tokens"))
    log_in_both([one, other])
    assert one.run("token", "clear", "me").returncode == 0
    wait_until(lambda: not works(other), 2, "the other gateway has forgotten the token")
    log_in(other)
    wait_until(lambda: works(one), 5, "the first gateway uses the token of the new login")
    assert other.run("token", "lock", "me").returncode == 0
    wait_until(lambda: not works(one), 3, "a lock holds on both")
    assert one.run("token", "unlock", "me").returncode == 0
    wait_until(lambda: works(other), 3, "and so does its end")


@pytest.mark.parametrize("listens", [True, False])
def test_a_pooler_in_transaction_mode_is_enough_for_both(authority, server, start_pair, short_folder, listens):
    direct = server.database("tokens")
    pooler = PgBouncer(short_folder / "pooler", server)
    try:
        more = {"listen_url": direct} if listens else {}
        pair = start_pair(config(authority), pooler.url("tokens"), **more)
        log_in_both(pair)
        for generation in range(2, 6):
            authority.revoke_all()
            assert at_once(pair) == {200}
            assert generations(authority) == generation and spent(authority) == generation - 1
    finally:
        pooler.stop()


def test_a_restart_of_the_database_costs_no_token(authority, server, start_pair):
    pair = start_pair(config(authority), server.database("tokens"))
    log_in_both(pair)
    for generation in range(2, 5):
        server.restart()
        authority.revoke_all()
        assert at_once(pair) == {200}
        assert generations(authority) == generation and spent(authority) == generation - 1


@pytest.mark.slow
def test_a_database_that_does_not_answer_spends_no_refresh_token(authority, server, start_pair):
    pair = start_pair(config(authority), server.database("tokens"))
    log_in_both(pair)
    with server.halted():
        assert at_once(pair) == {200}, "a valid token is used"
        authority.revoke_all()
        answers = [requests.get(f"{gateway.url}/api/x", timeout=60) for gateway in pair]
        assert {answer.status_code for answer in answers} <= {401, 503}
        assert spent(authority) == 0
    wait_until(lambda: all(works(gateway) for gateway in pair), 40, "both work again without a restart")
    assert spent(authority) == 1


def end_login(authority):
    """As an administrator of the authority would: no token of the login is good for anything."""
    with sqlite3.connect(authority.database, timeout=20) as database:
        database.execute("update oauth2_provider_refreshtoken set revoked = '2000-01-01 00:00:00'")
    database.close()
    authority.revoke_all()


def test_a_refused_refresh_token_is_sent_by_one_gateway(authority, server, start_pair):
    pair = start_pair(config(authority), server.database("tokens"))
    log_in_both(pair)
    end_login(authority)
    assert not works(pair[0])
    assert authority.calls()["refresh_token invalid_grant"] == 1
    assert not works(pair[1])
    assert authority.calls()["refresh_token invalid_grant"] == 1, "the other gateway did not send it"
    assert {status_of(gateway)["state"] for gateway in pair} == {"login_required"}
    assert {status_of(gateway)["action"] for gateway in pair} == {"authgateway login me"}
    for gateway in pair:
        gateway.kill()
        gateway.start()
        wait_until(lambda gateway=gateway: status_of(gateway)["state"] == "login_required", 10, "a start does not send it either")
    assert authority.calls()["refresh_token invalid_grant"] == 1
    log_in(pair[1])
    wait_until(lambda: all(works(gateway) for gateway in pair), 5, "a login ends it at both")


@pytest.mark.slow
def test_tokens_that_any_gateway_may_fetch_are_fetched_without_the_database(authority, server, start_pair):
    credentials = {
        "credentials": {"box": authority.credential()},
        "routes": {"api": {"upstream": f"{authority.url}/api", "auth": "box"}},
    }
    url = server.database("tokens")
    pair = start_pair(credentials, url)
    assert at_once(pair) == {200} and len(authority.tokens()) == 1, "one token serves both"
    server.stop()
    authority.revoke_all()
    started = time.monotonic()
    wait_until(lambda: all(works(gateway) for gateway in pair), 40, "each gateway fetches a token of its own")
    assert time.monotonic() - started < 40
    server.start()
    wait_until(lambda: all("the token store" not in trouble(gateway) for gateway in pair), 30, "both use the database again")
    assert at_once(pair) == {200}


# MARK: An answer that cannot be used


def test_a_refresh_token_that_one_has_kept_is_sent_first_by_the_other(server, make_origin, start_pair):
    """One gets an answer without an access token and dies. The other sends the refresh token in it, and the one before if that is
    refused."""
    name, origin = "no-access-token", make_origin()
    authority = odd_answers.OddAuthority(make_origin)
    authority.refused = {f"refresh-1-{name}"}
    one, other = start_pair(odd_answers.config(authority, odd_answers.recipe, [name], origin), server.database("tokens"))
    odd_answers.refresh(one, name)
    assert authority.sent[name] == [f"refresh-0-{name}"]
    one.kill()
    odd_answers.until_sent(authority, other, name, 3)
    assert authority.sent[name][:3] == [f"refresh-{number}-{name}" for number in (0, 1, 0)]
    answer = requests.get(f"{other.url}/{name}/x", timeout=20)
    assert answer.status_code == 200 and origin.last().value("authorization") == f"Bearer access-3-{name}"

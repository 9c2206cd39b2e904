"""Odd and broken answers, in logins and in refreshes of every strategy: after each, the refresh token is where it should be."""

import contextlib
import time

import pytest
import requests
from harness.configs import command_store, with_route
from harness.login import Login
from harness.odd_answers import (
    IGNORED, KEPT, ODD, SPENT, USED, OddAuthority, config, of_outcome, recipe, refresh, text, until_sent,
)
from harness.processes import wait_until

LIFETIMES = {"a-lifetime-in-words", "no-lifetime-left"}


@pytest.fixture
def authority(make_origin):
    return OddAuthority(make_origin)


# MARK: The credentials


def oauth_login(authority, name):
    return {
        "strategy": "oauth2_authorization_code",
        "authorize_url": authority.url("authorize"),
        "token_url": authority.url(name),
        "client_id": "app",
        "access_token": f"access-0-{name}",
        "refresh_token": f"refresh-0-{name}",
    }


def box_login(authority, name):
    return {
        "strategy": "box_oauth",
        "token_url": authority.url(name),
        "authorize_url": authority.url("authorize"),
        "client_id": "app",
        "client_secret": "s",
        "access_token": f"access-0-{name}",
        "refresh_token": f"refresh-0-{name}",
    }


def session(authority, name):
    return {
        "strategy": "session_refresh",
        "base_url": authority.origin.url,
        "refresh": {"path": f"/{name}", "session_token": {"header": "X-Session-Token"}},
        "response": {"access_token": "/access_token", "session_token": "/refresh_token", "expires_in": "/expires_in"},
        "access_token": f"access-0-{name}",
        "session_token": f"refresh-0-{name}",
    }


ROTATING = {"oauth2_authorization_code": oauth_login, "box_oauth": box_login, "session_refresh": session, "recipe": recipe}


def injected(gateway, origin, name):
    """The token that the upstream is sent, or the status that the gateway answers with."""
    answer = requests.get(f"{gateway.url}/{name}/x", timeout=30)
    return origin.last().value("authorization") if answer.status_code == 200 else answer.status_code


def working(gateway, origin, name):
    """Waits until a token works, and returns it. The gateway may be in a pause."""
    return wait_until(lambda: str(injected(gateway, origin, name)).startswith("Bearer ") and origin.last().value("authorization"), 20, name)


def works_since(gateway, origin, name, number):
    """Which answer brought the token; a pause may have ended meanwhile, so that it is a later one."""
    token = working(gateway, origin, name)
    return token.endswith(f"-{name}") and int(token.removeprefix("Bearer access-").removesuffix(f"-{name}")) >= number


# MARK: Refreshes


@pytest.mark.parametrize("strategy", ROTATING)
def test_a_refresh_loses_no_refresh_token(authority, start_gateway, origin, strategy):
    names = of_outcome(USED, KEPT, IGNORED, oauth=strategy.startswith(("oauth2", "box")))
    gateway = start_gateway(config(authority, ROTATING[strategy], names, origin))
    found, wanted = {}, {}
    for name in names:
        until_sent(authority, gateway, name, 1)
        outcome = ODD[name].outcome
        if outcome == USED:
            wait_until(lambda name=name: works_since(gateway, origin, name, 1), 20, name)
        until_sent(authority, gateway, name, 2)
        found[name] = authority.sent[name][:2]
        wanted[name] = [f"refresh-0-{name}", f"refresh-{0 if outcome == IGNORED else 1}-{name}"]
        # The second call was sent; until its answer is there, the token before is used.
        wait_until(lambda name=name: works_since(gateway, origin, name, 2), 20, name)
    assert found == wanted
    assert all(code not in gateway.text() for code in ("refresh-0", "refresh-1", "access-1"))


@pytest.mark.parametrize("strategy", ROTATING)
def test_the_one_before_is_sent_if_what_was_kept_is_refused(authority, start_gateway, origin, strategy):
    names = of_outcome(KEPT, oauth=strategy.startswith(("oauth2", "box")))
    authority.refused = {f"refresh-1-{name}" for name in names}
    gateway = start_gateway(config(authority, ROTATING[strategy], names, origin))
    for name in names:
        until_sent(authority, gateway, name, 3)
        assert authority.sent[name][:3] == [f"refresh-{number}-{name}" for number in (0, 1, 0)], name
        wait_until(lambda name=name: works_since(gateway, origin, name, 3), 20, name)


@pytest.mark.parametrize("strategy", ["oauth2_authorization_code", "box_oauth", "session_refresh"])
def test_beside_an_unusable_refresh_token_the_access_token_is_used_and_a_login_is_ahead(authority, start_gateway, origin, strategy):
    names = of_outcome(SPENT)
    gateway = start_gateway(config(authority, ROTATING[strategy], names, origin))
    for name in names:
        if strategy == "session_refresh":
            until_sent(authority, gateway, name, 1)
        # The others refresh at the start; another refresh beside it would bring a good pair.
        wait_until(lambda name=name: works_since(gateway, origin, name, 1), 30, name)
        assert "rotation_uncertain" in gateway.run("token", "show", name).stdout, name
    if strategy != "session_refresh":
        ahead = requests.get(f"{gateway.admin_url}/api/expirations", timeout=10).json()
        found = {(expiration["kind"], expiration["of"], expiration["action"]) for expiration in ahead}
        assert {("login", name, f"authgateway login {name}") for name in names} <= found, ahead
    authority.refused = {f"refresh-0-{name}" for name in names}
    for name in names:
        until_sent(authority, gateway, name, 2)
        assert authority.sent[name][:2] == [f"refresh-0-{name}"] * 2, name
        # A session authorizer's 400 says that it no longer knows the tokens.
        if strategy != "session_refresh":
            assert works_since(gateway, origin, name, 1), "it lives on"


@pytest.mark.parametrize("store", ["sqlite", "command"])
def test_what_was_kept_survives_a_kill(authority, start_gateway, origin, tmp_path, store):
    name = "no-access-token"
    authority.refused = {f"refresh-1-{name}"}
    tokens = {"store": "sqlite"} if store == "sqlite" else command_store(tmp_path)[0]
    gateway = start_gateway(config(authority, recipe, [name], origin, tokens=tokens))
    refresh(gateway, name)
    # At once, since the gateway tries again by itself after a second.
    gateway.kill()
    assert authority.sent[name] == [f"refresh-0-{name}"]
    assert "rotation_uncertain" in gateway.run("token", "list", "--json").stdout
    gateway.start()
    until_sent(authority, gateway, name, 3)
    assert authority.sent[name][:3] == [f"refresh-{number}-{name}" for number in (0, 1, 0)]
    # The third call was sent; until its answer is there, the token before is used.
    wait_until(lambda: works_since(gateway, origin, name, 3), 20, name)


def test_a_kill_at_any_write_forgets_no_refresh_token(make_origin, start_gateway, origin, killer, tmp_path):
    """An answer without an access token, and a kill at each write of the refresh in turn. What was stored is sent first."""
    trigger = tmp_path / "kill-at"
    found = []
    for number in range(1, 200):
        authority = OddAuthority(make_origin, {"me": "no-access-token"})
        environment = {"LD_PRELOAD": str(killer), "KILL_AT_WRITE": str(trigger)}
        gateway = start_gateway(config(authority, recipe, ["me"], origin), environment=environment)
        assert injected(gateway, origin, "me") == "Bearer access-0-me"
        trigger.write_text(str(number), encoding="ascii")
        with contextlib.suppress(requests.RequestException):
            refresh(gateway, "me")
        # What follows the answer to the command may be killed, too.
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline and gateway.process.poll() is None:
            time.sleep(0.02)
        trigger.unlink()
        if gateway.process.poll() is None:
            gateway.stop()
            break
        gateway.process.wait(20)
        gateway.reader.join(5)
        gateway.process.stdout.close()
        gateway.start()
        until_sent(authority, gateway, "me", 2)
        working(gateway, origin, "me")
        found.append(authority.sent["me"][:2])
        gateway.stop()
    else:
        raise AssertionError("the refresh has no end")
    assert all(sent[0] == "refresh-0-me" for sent in found), found
    # Until the request leaves, its answer is still to come. While the answer is not stored, only the authority knows it. The audit log
    # writes beside the store, so a number is not the same write in each run.
    assert {second for _, second in found} <= {"refresh-0-me", "refresh-1-me"}, found
    assert found[0][1] == found[-1][1] == "refresh-1-me", found


# MARK: Logins


def log_in(gateway, name):
    """(exit code, standard output, what was said): the person pastes a code."""
    login = Login(gateway, name, "--manual")
    return login.paste("the-code")


def without_tokens(authority, name):
    return {key: value for key, value in oauth_login(authority, name).items() if key not in ("access_token", "refresh_token")}


@pytest.mark.parametrize("name", of_outcome(USED))
def test_a_login_is_not_lost_to_an_odd_answer(authority, start_gateway, origin, name):
    gateway = start_gateway(config(authority, without_tokens, [name], origin))
    code, output, said = log_in(gateway, name)
    assert code == 0 and "Logged in" in output, said
    assert injected(gateway, origin, name) == f"Bearer access-1-{name}"
    until_sent(authority, gateway, name, 2)
    assert authority.sent[name] == [None, f"refresh-1-{name}"]


@pytest.mark.parametrize("name", of_outcome(KEPT))
def test_a_login_that_brings_a_refresh_token_alone_counts(authority, start_gateway, origin, name):
    gateway = start_gateway(config(authority, without_tokens, [name], origin))
    code, output, said = log_in(gateway, name)
    assert code == 0 and "Logged in" in output, said
    assert authority.sent[name] == [None, f"refresh-1-{name}"], "it was tried at once"
    assert injected(gateway, origin, name) == f"Bearer access-2-{name}"


@pytest.mark.parametrize("name", of_outcome(IGNORED))
def test_a_login_that_brings_nothing_says_so(authority, start_gateway, origin, name):
    gateway = start_gateway(config(authority, without_tokens, [name], origin))
    code, _, said = log_in(gateway, name)
    assert code == 1 and said, said
    assert authority.sent[name] == [None]
    [failed] = [event for event in gateway.events("--failed") if event["event"] == "login_failed"]
    assert failed


def test_a_refused_refresh_token_of_a_login_costs_no_earlier_login(make_origin, start_gateway, origin):
    authority = OddAuthority(make_origin, {"me": "no-access-token"}, {"me": 2})
    authority.refused = {"refresh-2-me"}
    gateway = start_gateway(config(authority, without_tokens, ["me"], origin))
    assert log_in(gateway, "me")[0] == 0
    code, _, said = log_in(gateway, "me")
    assert code == 1 and "The earlier login of me stays in use" in said, said
    assert authority.sent["me"] == [None, None, "refresh-2-me", "refresh-1-me"]
    assert injected(gateway, origin, "me") == "Bearer access-4-me"


# MARK: A login without a refresh token


def test_a_login_without_a_refresh_token_is_told_counted_down_and_announced(make_origin, start_gateway, origin):
    answer = {"access_token": "access-1", "token_type": "Bearer", "expires_in": 3600}
    server = make_origin(lambda request: text(answer))
    credential = {
        "strategy": "oauth2_authorization_code",
        "authorize_url": server.url + "/authorize",
        "token_url": server.url + "/token",
        "client_id": "app",
    }
    gateway = start_gateway(with_route(credential, origin.url))
    code, output, said = log_in(gateway, "me")
    assert code == 0, said
    assert "gave no refresh token, so this login expires at 2" in output and "authgateway login me" in output, output
    assert "is renewed before" not in output
    shown = gateway.run("token", "show", "me").stdout
    assert "login expires" in shown and "never, because the login brought no refresh token" in shown, shown
    [status] = requests.get(f"{gateway.admin_url}/api/tokens", timeout=10).json()
    assert status["lacks_refresh_token"] and "renews_at" not in status and 3500 < status["renewal_remaining_seconds"] <= 3600
    [expiration] = requests.get(f"{gateway.admin_url}/api/expirations", timeout=10).json()
    assert (expiration["kind"], expiration["of"], expiration["is_soon"]) == ("login", "me", False)
    assert expiration["action"] == "authgateway login me"
    # What is left is rounded up.
    status = gateway.run("status").stdout
    assert "59m" in status or "1h" in status, status

    # One that ends soon is announced at once, and asked for when it has ended.
    answer["expires_in"] = 3
    gateway.stop()
    gateway.start()
    assert log_in(gateway, "me")[0] == 0
    status_of = lambda: requests.get(f"{gateway.admin_url}/api/tokens", timeout=10).json()[0]
    wait_until(lambda: status_of()["state"] == "login_required", 15, "a login is asked for")
    assert server.count() == 2, "nothing was sent to renew it"
    refused = requests.get(f"{gateway.url}/api/x", timeout=10)
    assert refused.status_code == 503 and refused.json()["command"] == "authgateway login me"


# MARK: Strategies without a refresh token


def client_credentials(authority, name):
    return {
        "strategy": "oauth2_client_credentials",
        "token_url": authority.url(name),
        "client_id": "app",
        "client_secret": "s",
    }


def password(authority, name):
    return {
        "strategy": "oauth2_password",
        "token_url": authority.url(name),
        "client_id": "app",
        "username": "ada",
        "password": "p",
    }


def delegated(authority, name):
    return {"strategy": "delegated", "url": authority.url(name) + "?id={{unique_id}}", "unique_id": "42"}


@pytest.mark.parametrize("credential", [client_credentials, password, delegated], ids=lambda credential: credential.__name__)
def test_a_token_without_a_login_is_used(authority, start_gateway, origin, credential):
    names = [name for name in of_outcome(USED) if name not in LIFETIMES]
    gateway = start_gateway(config(authority, credential, names, origin))
    found = {name: injected(gateway, origin, name) for name in names}
    assert found == {name: f"Bearer access-1-{name}" for name in names}


def test_a_token_that_needs_a_proof_is_not_used(authority, start_gateway, origin):
    names = [name for name in of_outcome(KEPT) if ODD[name].is_oauth]
    gateway = start_gateway(config(authority, client_credentials, names, origin))
    for name in names:
        assert injected(gateway, origin, name) == 500
    assert origin.count() == 0

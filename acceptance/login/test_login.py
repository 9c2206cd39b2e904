"""Logins by people at a real authority (django-oauth-toolkit), byte by byte: the redirect, Box, Duke, logout."""

import pytest
import requests
from harness.login import Login, config, port_of, status_of, works
from harness.origin import response
from harness.person import Person, changed
from harness.processes import is_listening, wait_until


@pytest.fixture
def gateway(authority, start_gateway):
    return start_gateway(config(authority))


def test_the_login_is_denied(gateway):
    login = Login(gateway, "me")
    page = requests.get(Person().decide(login.page, allow=False), timeout=20)
    code, output, words = login.end()
    assert (code, output) == (1, "")
    assert "denied" in words and "access_denied" in words
    assert page.status_code == 400 and "denied" in page.text
    assert page.headers["Cache-Control"] == "no-store"
    assert status_of(gateway)["state"] == "login_required"


def test_an_answer_with_another_state_is_refused_and_the_login_still_waits(authority, gateway):
    login = Login(gateway, "me")
    address = Person().decide(login.page)
    # Any page can send the browser there.
    # More than a hundred, too: any page in the browser can send them.
    for _ in range(120):
        assert requests.get(changed(address, state="forged"), timeout=20).status_code == 400
    for forged in (changed(address, state="forged"), changed(address, state=None), login.redirect + "?%zz"):
        page = requests.get(forged, timeout=20)
        assert page.status_code == 400 and "still waits" in page.text, page.text
    assert authority.tokens() == [] and login.process.poll() is None
    assert requests.get(address, timeout=20).status_code == 200
    assert login.end()[0] == 0, login.text()
    assert works(gateway)
    assert [event for event in gateway.events("--failed") if event["event"] == "login_failed"] == []


def test_a_code_that_was_used_before_is_refused(authority, gateway):
    first = Login(gateway, "me")
    used = Person().decide(first.page)
    assert requests.get(used, timeout=20).status_code == 200
    assert first.end()[0] == 0
    second = Login(gateway, "me", "--manual")
    state = changed(second.page).partition("state=")[2].partition("&")[0]
    code, _, words = second.paste(changed(second.redirect + "?" + used.partition("?")[2], state=state))
    assert code == 1
    assert "did not accept the code" in words and "used before" in words
    assert works(gateway), "a failed login cost the token of the one before"


def test_a_window_that_is_closed_ends_at_the_deadline(gateway):
    login = Login(gateway, "me", "--timeout", "2s")
    requests.get(login.page, timeout=20)
    code, _, words = login.end()
    assert code == 1
    assert "within 2s" in words and "window closed" in words
    assert not is_listening(port_of(login.redirect))


def test_a_login_without_a_gateway_is_there_when_it_starts(authority, make_gateway):
    gateway = make_gateway(config(authority))
    login = Login(gateway, "me")
    assert requests.get(Person().decide(login.page), timeout=20).status_code == 200
    assert login.end()[0] == 0
    gateway.start()
    assert works(gateway)
    assert len(authority.tokens()) == 1
    assert gateway.run("audit", "verify").returncode == 0


def test_a_store_in_memory_needs_the_gateway(authority, make_gateway):
    gateway = make_gateway({**config(authority), "tokens": {"store": "memory"}})
    answer = gateway.run("login", "me")
    assert answer.returncode == 4
    assert "tokens.store: memory" in answer.stderr and "authgateway run" in answer.stderr


def test_a_configured_refresh_token_is_tried_at_once(authority, gateway, make_gateway):
    login = Login(gateway, "me")
    requests.get(Person().decide(login.page), timeout=20)
    assert login.end()[0] == 0
    gateway.stop()
    other = make_gateway(config(authority, refresh_token="not-one-of-theirs")).start()
    wait_until(lambda: status_of(other)["state"] == "login_required", 10, "the refresh token was tried")
    assert "no longer accepts the refresh token" in status_of(other)["last_error"]
    assert status_of(other)["action"] == "authgateway login me"


# MARK: Box


def test_a_login_at_box(sandbox, start_gateway):
    base = sandbox["BOX_URL"]
    box = {
        "strategy": "box_oauth",
        "client_id": sandbox["BOX_CLIENT_ID"],
        "client_secret": sandbox["BOX_CLIENT_SECRET"],
        "authorize_url": f"{base}/api/oauth2/authorize",
        "token_url": f"{base}/oauth2/token",
    }
    gateway = start_gateway({"credentials": {"me": box}, "routes": {"box": {"upstream": base, "auth": "me"}}})
    login = Login(gateway, "me")
    assert "Logged in" in requests.get(login.page + "&decision=approve", timeout=20).text
    assert login.end()[0] == 0
    for _ in range(3):
        answer = requests.get(f"{gateway.url}/box/2.0/users/me", timeout=20)
        assert answer.status_code == 200 and answer.json()["id"] == "2000001"
        assert gateway.run("token", "refresh", "me").returncode == 0
    assert sandbox.state()["double_spends"].get("box", 0) == 0
    assert "login expires" in (shown := gateway.run("token", "show", "me").stdout) and "in 60d" in shown


# MARK: Duke


def test_a_login_at_dukes_authorizer_is_pasted(sandbox, start_gateway):
    base = sandbox["DUKE_URL"]
    campus = {"strategy": "duke_session", "client_name": "dukemobile", "base_url": base}
    gateway = start_gateway(
        {"credentials": {"me": campus}, "routes": {"api": {"upstream": f"{base}/api", "auth": "me"}}}
    )
    refused = requests.get(f"{gateway.url}/api/me", timeout=20)
    assert refused.status_code == 503 and refused.json()["command"] == "authgateway login me"

    wrong = Login(gateway, "me")
    assert wrong.page == f"{base}/dukemobile/ios/login"
    code, _, words = wrong.paste(f"{base}/dukemobile/token?access_token=a")
    assert code == 1 and "no session_token" in words

    login = Login(gateway, "me")
    end = requests.get(login.page, params={"netid": "ds123"}, allow_redirects=False, timeout=20).headers["Location"]
    code, _, _ = login.paste(base + end)
    assert code == 0, login.text()
    answer = requests.get(f"{gateway.url}/api/me", timeout=20)
    assert answer.status_code == 200 and answer.json()["netid"] == "ds123"
    ends = [event["event"] for event in gateway.events() if event["event"] in ("login_failed", "login_completed")]
    assert ends == ["login_failed", "login_completed"]
    # The pair is a living one: it can be renewed.
    assert gateway.run("token", "refresh", "me").returncode == 0
    assert requests.get(f"{gateway.url}/api/me", timeout=20).status_code == 200
    for secret in end.partition("?")[2].split("&"):
        assert secret.partition("=")[2] not in gateway.text() + login.text()


@pytest.mark.parametrize(
    ("status", "state"),
    # After a 500 nobody knows whether the pair was spent; 503 says that nothing was done. A 403 may come from a firewall.
    [(400, "login_required"), (403, "valid"), (500, "rotation_uncertain"), (503, "valid")],
)
def test_what_dukes_authorizer_answers_decides_whether_a_login_is_needed(sandbox, start_gateway, status, state):
    base = sandbox["DUKE_URL"]
    campus = {
        "strategy": "duke_session",
        "client_name": "dukemobile",
        "base_url": base,
        "access_token": sandbox["DUKE_ACCESS_TOKEN"],
        "session_token": sandbox["DUKE_SESSION_TOKEN"],
    }
    gateway = start_gateway(
        {"credentials": {"me": campus}, "routes": {"api": {"upstream": f"{base}/api", "auth": "me"}}}
    )
    assert requests.get(f"{gateway.url}/api/me", timeout=20).status_code == 200
    sandbox.set("duke", token_status=status)
    refused = gateway.run("token", "refresh", "me")
    assert refused.returncode == 1
    assert status_of(gateway)["state"] == state
    [failed] = [event for event in gateway.events("--failed") if event["event"] == "renewal_failed"]
    assert failed["http_status"] == status
    if state == "login_required":
        assert "authgateway login me" in refused.stderr
        assert status_of(gateway)["action"] == "authgateway login me"
    else:
        assert requests.get(f"{gateway.url}/api/me", timeout=20).status_code == 200, "the living token was given up"


# MARK: Logout


def test_a_logout_revokes_at_the_authority_and_needs_a_login_again(authority, gateway):
    login = Login(gateway, "me")
    requests.get(Person().decide(login.page), timeout=20)
    assert login.end()[0] == 0 and works(gateway)
    [(token, _)] = authority.tokens()

    answer = gateway.run("logout", "me")

    assert answer.returncode == 0, answer.stderr
    assert not authority.accepts(token)
    assert all(authority.refresh_tokens())
    for _ in range(2):
        refused = requests.get(f"{gateway.url}/api/x", timeout=20)
        assert refused.status_code == 503 and refused.json()["command"] == "authgateway login me"
        assert status_of(gateway)["state"] == "login_required"
        gateway.stop()
        gateway.start()
    assert "revoked" in [event["event"] for event in gateway.events("--credential", "me")]
    again = Login(gateway, "me")
    requests.get(Person().decide(again.page), timeout=20)
    assert again.end()[0] == 0 and works(gateway)


def test_a_logout_that_the_authority_does_not_hear_keeps_the_tokens(make_authority, start_gateway):
    authority = make_authority(own=True)
    gateway = start_gateway(config(authority))
    login = Login(gateway, "me")
    requests.get(Person().decide(login.page), timeout=20)
    assert login.end()[0] == 0
    authority.stop()
    answer = gateway.run("logout", "me")
    assert answer.returncode == 1
    assert status_of(gateway)["state"] == "valid"


@pytest.mark.parametrize("status", [200, 500])
def test_a_logout_at_dukes_authorizer_posts_revoke_and_forgets_in_any_case(make_origin, start_gateway, status):
    authorizer = make_origin(lambda request: response(status, b""))
    campus = {
        "strategy": "duke_session",
        "client_name": "dukemobile",
        "base_url": authorizer.url,
        "access_token": "a-1",
        "session_token": "s-1",
    }
    gateway = start_gateway(
        {"credentials": {"me": campus}, "routes": {"api": {"upstream": authorizer.url, "auth": "me"}}}
    )
    answer = gateway.run("logout", "me")

    assert answer.returncode == (0 if status == 200 else 1), answer.stdout + answer.stderr
    [revoke] = authorizer.requests
    assert (revoke.method, revoke.target) == ("POST", "/dukemobile/ios/revoke")
    assert (revoke.value("x-access-token"), revoke.value("x-session-token")) == ("a-1", "s-1")
    for _ in range(2):
        refused = requests.get(f"{gateway.url}/api/me", timeout=20)
        assert refused.status_code == 503 and refused.json()["command"] == "authgateway login me"
        # What the configuration holds is as dead as what was revoked.
        gateway.stop()
        gateway.start()
    assert authorizer.count() == 1

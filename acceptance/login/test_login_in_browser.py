"""Logins in headless Chromium at django-oauth-toolkit: what a person sees of the good end and of every bad one."""

import json
import signal
import threading

import pytest
import requests
from harness.browser import Browser
from harness.login import Login, config, port_of, status_of, works
from harness.origin import response
from harness.person import Person, changed
from harness.processes import is_listening, wait_until


@pytest.fixture
def gateway(authority, start_gateway):
    return start_gateway(config(authority))


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.stop()


@pytest.fixture
def browser(chromium):
    chromium.new_window()
    return chromium


def until_consent(browser):
    """Signs in where the authority asks for it; ends on the page that asks whether the gateway may."""
    browser.until("!!document.querySelector('#sign-in') || !!document.querySelector('[name=allow]')")
    if browser.run("!!document.querySelector('#sign-in')"):
        browser.fill("[name=username]", "ada")
        browser.fill("[name=password]", "pw-of-ada")
        browser.click("#sign-in")
    browser.until("!!document.querySelector('input[name=allow][type=submit]')")


def allow(browser):
    until_consent(browser)
    browser.click("input[name=allow][type=submit]")


def title_is(browser, title):
    browser.until(f"document.title == {json.dumps(title)}")
    return browser.text


def ends_of_logins(gateway):
    """(event, what its detail gives as the reason, error code), without the beginnings."""
    events = [event for event in gateway.events("--credential", "me") if event["event"].startswith("login_")]
    ends = [event for event in events if event["event"] != "login_started"]
    return [(end["event"], end.get("detail", {}).get("reason"), end.get("error_code")) for end in ends]


def test_a_login_in_a_browser(authority, gateway, browser):
    before = requests.get(f"{gateway.url}/api/x", timeout=20)
    assert before.status_code == 503
    problem = before.json()
    assert problem["code"] == "login-required" and problem["command"] == "authgateway login me"

    login = Login(gateway, "me", "--no-browser")
    browser.open(login.page)
    allow(browser)
    page = title_is(browser, "Logged in")
    code, output, _ = login.end()

    assert code == 0, login.text()
    assert "Logged in: me is valid" in output
    assert "You can close this window" in page
    assert not is_listening(port_of(login.redirect)), "the listener outlived the login"
    assert works(gateway)
    [(token, _)] = authority.tokens()
    events = [event["event"] for event in gateway.events("--credential", "me")]
    assert events.count("login_started") == events.count("login_completed") == 1
    # What ties the answer to the login, and what it brought, are nobody else's.
    attempt = dict(pair.split("=", 1) for pair in login.page.partition("?")[2].split("&"))
    for secret in (attempt["state"], attempt["code_challenge"], token, "s3cret-of-web"):
        assert secret not in gateway.text()
        for path, content in gateway.files().items():
            assert secret.encode() not in content, path


def test_the_button_on_the_admin_page(authority, gateway, browser):
    browser.open(gateway.admin_url)
    browser.click("a[href='/login?credential=me']")
    # The status page, which may still be there, has a field of this name and buttons of its own.
    browser.until("location.pathname == '/login'")
    browser.fill("[name=token]", "wrong")
    browser.click("button")
    browser.until("document.body.innerText.includes('not the admin token')")
    browser.fill("[name=token]", (gateway.folder / "state/admin.token").read_text().strip())
    browser.click("button")
    allow(browser)
    title_is(browser, "Logged in")
    assert works(gateway)
    assert status_of(gateway)["state"] == "valid"


def test_a_wrong_state_is_said_and_the_login_can_still_be_finished(authority, gateway, browser, make_origin):
    login = Login(gateway, "me", "--no-browser")
    forged = login.redirect + "?code=of-somebody-else&state=forged"
    # Any page that is open can send the browser there.
    hostile = make_origin(lambda request: response(302, b"", f"Location: {forged}"))
    browser.open(hostile.url)
    page = title_is(browser, "Not the answer to this login")
    assert "wrong state" in page and "somebody else sent it" in page
    assert "still waits for its own answer" in page
    assert "Nothing was changed" not in page and "begin a new login" not in page, "the login goes on"
    assert login.process.poll() is None and authority.tokens() == []

    browser.open(login.page)
    allow(browser)
    assert "You can close this window" in title_is(browser, "Logged in")
    code, output, _ = login.end()
    assert code == 0 and "Logged in: me is valid" in output, login.text()
    assert works(gateway)
    assert ends_of_logins(gateway) == [("login_completed", None, None)]


def test_a_code_that_was_used_before_is_refused(authority, gateway, browser):
    first = Login(gateway, "me", "--no-browser")
    browser.open(first.page)
    allow(browser)
    title_is(browser, "Logged in")
    used = browser.address
    assert first.end()[0] == 0

    second = Login(gateway, "me", "--no-browser")
    state = second.page.partition("state=")[2].partition("&")[0]
    browser.open(changed(second.redirect + "?" + used.partition("?")[2], state=state))
    page = title_is(browser, "The login failed")
    code, output, words = second.end()

    assert (code, output) == (1, "")
    for said in (page, words):
        assert "did not accept the code" in said and "used before" in said, said
    assert ends_of_logins(gateway)[-1] == ("login_failed", "exchange_refused", "invalid_grant")
    assert works(gateway), "a failed login cost the token of the one before"


def test_the_same_redirect_twice_counts_once(authority, start_gateway, make_origin, browser):
    may_answer = threading.Event()

    def hand_on(request):
        assert may_answer.wait(30)
        fields = {"Content-Type": request.value("content-type")}
        answer = requests.post(authority.token_url, data=request.body, headers=fields, timeout=20)
        return response(answer.status_code, answer.content)

    # Stands before the authority's token endpoint, and keeps the exchange waiting.
    gate = make_origin(hand_on)
    gateway = start_gateway(config(authority, token_url=f"{gate.url}/o/token/"))
    login = Login(gateway, "me", "--no-browser")
    address = Person().decide(login.page)
    browser.run(f"location.href = {json.dumps(address)}")
    wait_until(lambda: gate.count() == 1, 20, "the code is exchanged")

    browser.new_window()
    browser.open(address)
    page = title_is(browser, "The answer has already arrived")
    assert "can be used once" in page and "in the window that brought it first" in page
    may_answer.set()
    code, output, _ = login.end()
    assert code == 0 and "Logged in: me is valid" in output, login.text()
    assert gate.count() == 1 and len(authority.tokens()) == 1, "the code was sent once"
    assert ends_of_logins(gateway) == [("login_completed", None, None)]
    assert works(gateway)


def test_a_consent_that_is_denied_ends_the_login(authority, gateway, browser):
    login = Login(gateway, "me", "--no-browser")
    browser.open(login.page)
    until_consent(browser)
    browser.click("input[type=submit]:not([name=allow])")
    page = title_is(browser, "The login failed")
    code, output, words = login.end()

    assert (code, output) == (1, "")
    for said in (page, words):
        assert "The login was denied at the authorization server (access_denied)." in said, said
        assert "Nothing was changed; begin a new login." in said
    assert ends_of_logins(gateway) == [("login_failed", "denied", "access_denied")]
    assert status_of(gateway)["state"] == "login_required" and authority.tokens() == []


def test_a_window_that_is_closed_ends_at_the_deadline(gateway, browser):
    login = Login(gateway, "me", "--no-browser", "--timeout", "3s")
    browser.open(login.page)
    until_consent(browser)
    browser.close_window()
    code, output, words = login.end()

    assert (code, output) == (1, "")
    assert "The login was not finished within 3s: was the window closed?" in words
    assert "begin a new login" in words
    assert not is_listening(port_of(login.redirect))
    assert ends_of_logins(gateway) == [("login_failed", "timeout", "login-failed")]
    assert status_of(gateway)["state"] == "login_required"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_window_that_is_closed_need_not_be_waited_for(gateway, browser, number):
    login = Login(gateway, "me", "--no-browser")
    assert "Ctrl-C cancels" in login.text()
    browser.open(login.page)
    until_consent(browser)
    browser.close_window()
    login.process.send_signal(number)
    code, output, words = login.end()

    assert (code, output) == (1, "")
    assert words == "the login was interrupted; nothing was changed\n"
    assert not is_listening(port_of(login.redirect))
    assert ends_of_logins(gateway) == [("login_failed", "cancelled", "login-failed")]
    assert status_of(gateway)["state"] == "login_required"


def test_who_allows_after_the_deadline_has_allowed_nothing(authority, gateway, browser):
    login = Login(gateway, "me", "--no-browser", "--timeout", "3s")
    browser.open(login.page)
    until_consent(browser)
    code, _, words = login.end()
    assert code == 1 and "within 3s" in words

    browser.click("input[name=allow][type=submit]")
    # The browser's own words: nobody is there any more.
    browser.until("document.body.innerText.includes('ERR_CONNECTION_REFUSED')")
    assert authority.tokens() == []
    assert ends_of_logins(gateway) == [("login_failed", "timeout", "login-failed")]
    # And the next login is none the worse for it.
    again = Login(gateway, "me", "--no-browser")
    browser.open(again.page)
    allow(browser)
    title_is(browser, "Logged in")
    assert again.end()[0] == 0 and works(gateway)

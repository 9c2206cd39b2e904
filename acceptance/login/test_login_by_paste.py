"""Logins by pasting, as over SSH: at django-oauth-toolkit, with what a tired person gets wrong."""

import os
import pty
import re
import select
import subprocess
import termios

import pytest
from harness.gateway import BINARY
from harness.login import Login, config, status_of, works
from harness.person import Person, changed
from harness.processes import wait_until


@pytest.fixture
def gateway(authority, start_gateway):
    return start_gateway(config(authority))


@pytest.mark.parametrize(
    "redirect", [None, "https://apps.example.com/callback", "boxsdk-web://boxsdkoauth2redirect"]
)
def test_the_address_is_pasted(authority, start_gateway, redirect):
    changes = {"redirect_uri": redirect} if redirect else {}
    gateway = start_gateway(config(authority, **changes))
    login = Login(gateway, "me", *([] if redirect else ["--manual"]))
    code, output, _ = login.paste(Person().decide(login.page))
    assert code == 0, login.text()
    assert "Logged in" in output
    assert works(gateway)


def test_a_code_alone_is_pasted(authority, gateway):
    login = Login(gateway, "me", "--manual")
    address = Person().decide(login.page)
    assert login.paste(address.partition("code=")[2].partition("&")[0])[0] == 0
    assert works(gateway)


def test_a_paste_with_another_state_is_refused(authority, gateway):
    login = Login(gateway, "me", "--manual")
    code, _, words = login.paste(changed(Person().decide(login.page), state="forged"))
    assert code == 1 and "wrong state" in words
    assert authority.tokens() == []
    [failed] = [event for event in gateway.events("--failed") if event["event"] == "login_failed"]
    assert failed["detail"] == {"reason": "wrong_state"}


WRONG = {
    "a-text": (lambda login, address: "what was that code", "neither the address where the browser ended up nor a code"),
    "a-code-with-spaces": (lambda login, address: code_in(address)[:8] + " " + code_in(address)[8:], "nor a code"),
    "the-page-of-the-login": (lambda login, address: login.page, "it must begin with http://127.0.0.1:"),
    "half-of-the-address": (lambda login, address: address.partition("&state=")[0], "was not copied whole, in one line"),
    "cut-by-a-line-break": (lambda login, address: address.replace("&state", "\n&state"), "not copied whole, in one line"),
    "the-redirect-alone": (lambda login, address: login.redirect, "was not copied whole, in one line"),
    "another-code": (lambda login, address: "x" * 30, "did not accept the code"),
}


def code_in(address):
    return address.partition("code=")[2].partition("&")[0]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_paste_is_explained_and_not_repeated(authority, gateway, name):
    make, wanted = WRONG[name]
    login = Login(gateway, "me", "--manual")
    address = Person().decide(login.page)
    before = len(login.text())
    code, output, words = login.paste(make(login, address))
    assert (code, output) == (1, "") and wanted in words, words
    assert "Nothing was changed; begin a new login." in words, words
    assert code_in(address)[:8] not in login.text()[before:]
    assert authority.tokens() == [] and status_of(gateway)["state"] == "login_required"
    # And again, as it should be.
    again = Login(gateway, "me", "--manual")
    assert again.paste("  " + Person().decide(again.page) + "  ")[0] == 0, again.text()
    assert works(gateway)


def test_the_answer_to_an_older_login_is_called_so(authority, gateway):
    first = Login(gateway, "me", "--manual")
    address = Person().decide(first.page)
    second = Login(gateway, "me", "--manual")
    # Each has a redirect of its own. Where the port is a fixed one, it is the state that tells them apart.
    code, _, words = second.paste(second.redirect + "?" + address.partition("?")[2])
    assert code == 1 and "it is from an earlier attempt" in words
    code, _, words = first.end()
    assert code == 1 and "A newer login replaced this one" in words
    assert authority.tokens() == []


def test_enter_without_a_paste_asks_again(gateway):
    login = Login(gateway, "me", "--manual")
    code, _, _ = login.paste("\n  \n" + Person().decide(login.page))
    assert code == 0, login.text()
    assert "Nothing was pasted yet" in login.text()
    assert works(gateway)


def test_an_address_as_an_argument_is_refused_and_not_repeated(gateway):
    refused = gateway.run("login", "me", "http://127.0.0.1/callback?code=c0de&state=st4te")
    assert refused.returncode == 2 and "Use --manual, and paste it" in refused.stderr
    assert "c0de" not in refused.stderr + refused.stdout
    assert gateway.events("--event", "login_started") == []


def test_the_end_of_input_ends_the_login(gateway):
    login = Login(gateway, "me", "--manual")
    login.process.stdin.close()
    code, output, words = login.end()
    assert (code, output, words) == (1, "", "nothing was pasted; nothing was changed\n")
    assert "press Enter: \nauthgateway: " in login.text(), "the reason has a line of its own"
    [failed] = [event for event in gateway.events("--failed") if event["event"] == "login_failed"]
    assert failed["detail"] == {"reason": "cancelled"}


# MARK: A terminal


def test_a_long_paste_into_a_terminal_arrives_whole_and_nothing_of_it_is_left(authority, gateway):
    control, terminal = pty.openpty()
    usual = termios.tcgetattr(terminal)
    login = subprocess.Popen(
        [BINARY, "login", "me", "--manual", "--config", str(gateway.file)],
        cwd=gateway.folder,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
    )
    shown = bytearray()

    def prompted():
        while select.select([control], [], [], 0)[0]:
            shown.extend(os.read(control, 65536))
        return b"press Enter: " in shown

    wait_until(prompted, 20, lambda: f"the prompt, not {shown}")
    page = re.search(r"  (http\S+)", shown.decode())[1]
    address = Person().decide(page) + "&padding=" + "x" * 9000
    before = len(shown)
    for start in range(0, len(address), 1000):
        os.write(control, address[start : start + 1000].encode())
    os.write(control, b"\rwhat stands behind it\r")
    output, _ = login.communicate(timeout=30)
    prompted()
    assert login.returncode == 0, shown
    assert b"Logged in" in output
    assert b"code=" not in shown[before:] and b"xxx" not in shown
    assert termios.tcgetattr(terminal) == usual, "the terminal is not as it was"
    os.set_blocking(terminal, False)
    with pytest.raises(BlockingIOError):
        assert not os.read(terminal, 100), "the shell would take it for a command"
    os.close(control)
    os.close(terminal)

"""`pkce`, `issuer` and `login.token_path`: what ties the answer of a login to its question."""

import base64
import hashlib
import json
import urllib.parse

import pytest
import requests
from harness.configs import with_route
from harness.events import named
from harness.login import Login, status_of
from harness.origin import response
from harness.person import changed


class CodeAuthority:
    """Remembers the forms that reach its token endpoint. With `refuses_pkce` it takes none that has a verifier."""

    def __init__(self, make_origin, refuses_pkce=False):
        self.forms = []
        self.refuses_pkce = refuses_pkce
        self.origin = make_origin(self.answer)

    def answer(self, request):
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        self.forms.append(form)
        if self.refuses_pkce and "code_verifier" in form:
            return response(400, b'{"error": "invalid_request"}')
        token = {"access_token": f"access-{len(self.forms)}", "token_type": "Bearer", "expires_in": 3600}
        return response(200, json.dumps({**token, "refresh_token": f"refresh-{len(self.forms)}"}).encode())

    def credential(self, **changes):
        return {
            "strategy": "oauth2_authorization_code",
            "authorize_url": self.origin.url + "/authorize",
            "token_url": self.origin.url + "/token",
            "client_id": "web",
            "client_secret": "secret-of-web",
            **changes,
        }


@pytest.fixture
def api(make_origin):
    return make_origin()


@pytest.fixture
def begin(make_origin, start_gateway, api):
    """A gateway whose credential has these keys, the authority, and a login that waits."""

    def begin(*arguments, refuses_pkce=False, **keys):
        authority = CodeAuthority(make_origin, refuses_pkce)
        gateway = start_gateway(with_route(authority.credential(**keys), api.url))
        return gateway, authority, Login(gateway, "me", *arguments)

    return begin


def asked(login):
    """What the address of the page says."""
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(login.page).query))


def redirect(login, **parameters):
    """Where a good authority sends the browser, with these parameters beside the state."""
    return changed(login.redirect, state=asked(login)["state"], **parameters)


def works(gateway, api):
    """A request gets the token of the login."""
    answer = requests.get(gateway.url + "/api/x", timeout=20)
    return answer.status_code == 200 and api.last().value("authorization") == "Bearer access-1"


def is_unchanged(gateway, authority):
    """Nobody is logged in, and nothing was asked."""
    return status_of(gateway)["state"] == "login_required" and authority.forms == []


# MARK: pkce


def test_without_pkce_an_authority_that_refuses_it_gives_a_token(begin, api):
    gateway, authority, login = begin(refuses_pkce=True, pkce=False)
    assert not {"code_challenge", "code_challenge_method"} & set(asked(login)), login.page
    assert requests.get(redirect(login, code="c-1"), timeout=20).status_code == 200
    assert login.end()[0] == 0, login.text()
    [form] = authority.forms
    assert "code_verifier" not in form and (form["code"], form["redirect_uri"]) == ("c-1", login.redirect)
    assert works(gateway, api)


def test_with_pkce_the_same_authority_refuses_and_the_verifier_fits_the_challenge(begin):
    gateway, authority, login = begin(refuses_pkce=True)
    assert asked(login)["code_challenge_method"] == "S256"
    assert requests.get(redirect(login, code="c-1"), timeout=20).status_code == 400
    assert login.end()[0] == 1
    [form] = authority.forms
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked(login)["code_challenge"]
    assert status_of(gateway)["state"] == "login_required"


def test_without_pkce_the_state_alone_ties_the_answer_so_a_bare_code_is_refused(begin):
    gateway, authority, login = begin("--manual", pkce=False)
    code, output, words = login.paste("c-1")
    assert (code, output) == (1, "") and "paste the whole address" in words, words
    assert is_unchanged(gateway, authority)
    [failed] = named(gateway, "login_failed")
    assert failed["detail"]["reason"] == "address_needed"


def test_with_pkce_a_bare_code_is_enough(begin, api):
    gateway, authority, login = begin("--manual")
    assert login.paste("c-1")[0] == 0, login.text()
    assert authority.forms[0]["code"] == "c-1" and works(gateway, api)


# MARK: issuer

ISSUER = "https://issuer.example"
ANOTHER = {
    "another issuer": {"code": "c-1", "iss": "https://evil.example"},
    "one that only begins alike": {"code": "c-1", "iss": ISSUER + "/"},
    "one in another case": {"code": "c-1", "iss": ISSUER.upper()},
    "no issuer": {"code": "c-1"},
    "an empty issuer": {"code": "c-1", "iss": ""},
    # RFC 9207 section 2.4: the issuer of an error is compared, too.
    "an error of another issuer": {"error": "access_denied", "iss": "https://evil.example"},
}


@pytest.mark.parametrize("parameters", ANOTHER.values(), ids=[name.replace(" ", "-") for name in ANOTHER])
def test_an_answer_of_another_issuer_ends_the_login_and_its_code_goes_nowhere(begin, parameters):
    gateway, authority, login = begin(issuer=ISSUER)
    page = requests.get(redirect(login, **parameters), timeout=20)
    code, output, words = login.end()
    assert page.status_code == 400 and (code, output) == (1, "")
    assert "does not name the issuer in the configuration" in words and "evil" not in words + page.text, words
    assert is_unchanged(gateway, authority)
    [failed] = named(gateway, "login_failed")
    assert failed["detail"]["reason"] == "wrong_issuer"


def test_the_answer_of_the_issuer_is_taken(begin, api):
    gateway, authority, login = begin(issuer=ISSUER)
    assert requests.get(redirect(login, code="c-1", iss=ISSUER), timeout=20).status_code == 200
    assert login.end()[0] == 0, login.text()
    assert len(authority.forms) == 1 and works(gateway, api)


def test_the_issuer_of_a_pasted_address_is_compared_too(begin):
    gateway, authority, login = begin("--manual", issuer=ISSUER)
    code, _, words = login.paste(redirect(login, code="c-1", iss="https://evil.example"))
    assert code == 1 and "does not name the issuer in the configuration" in words, words
    assert is_unchanged(gateway, authority)


def test_without_the_key_the_answer_may_name_any_issuer_or_none(begin, api):
    gateway, _, login = begin()
    assert requests.get(redirect(login, code="c-1", iss="https://any.example"), timeout=20).status_code == 200
    assert login.end()[0] == 0 and works(gateway, api)


# MARK: login.token_path


def portal(sandbox, **login):
    """Duke's authorizer, which ends a login at `/CLIENT/token`."""
    header = {"access_token": {"header": "X-Access-Token"}, "session_token": {"header": "X-Session-Token"}}
    credential = {
        "strategy": "session_refresh",
        "base_url": sandbox["DUKE_URL"],
        "client_name": sandbox["DUKE_CLIENT"],
        "login": {"path": "/{client_name}/login", **login},
        "refresh": {"path": "/{client_name}/refresh", **header},
        "response": {"access_token": "/data/access_token", "session_token": "/data/session_token"},
        "expiry": "none",
    }
    return with_route(credential, sandbox["DUKE_URL"] + "/api")


def end_of_login(sandbox, login):
    """The address that the browser of a person ends on."""
    answer = requests.get(login.page, params={"netid": "ds123"}, allow_redirects=False, timeout=20)
    return sandbox["DUKE_URL"] + answer.headers["Location"]


def test_a_login_ends_where_token_path_says(sandbox, start_gateway):
    gateway = start_gateway(portal(sandbox, token_path="/{client_name}/token"))
    login = Login(gateway, "me")
    assert login.redirect == f"{sandbox['DUKE_URL']}/{sandbox['DUKE_CLIENT']}/token", "it is said beforehand"
    assert login.paste(end_of_login(sandbox, login))[0] == 0, login.text()
    answer = requests.get(f"{gateway.url}/api/me", timeout=20)
    assert answer.status_code == 200 and answer.json()["netid"] == "ds123"
    # The session token was read, too.
    assert gateway.run("token", "refresh", "me").returncode == 0
    assert sandbox.state()["double_spends"]["duke"] == 0


@pytest.mark.parametrize("keys, path", [({}, "/token"), ({"token_path": "/elsewhere"}, "/elsewhere")])
def test_an_address_with_another_path_is_refused_with_both_tokens_in_it(sandbox, start_gateway, keys, path):
    gateway = start_gateway(portal(sandbox, **keys))
    login = Login(gateway, "me")
    end = end_of_login(sandbox, login)
    code, output, words = login.paste(end)
    assert (code, output) == (1, "") and f"must begin with {sandbox['DUKE_URL']}{path}" in words, words
    assert status_of(gateway)["state"] == "login_required"
    # Neither the words nor the log repeat what was pasted.
    for pair in urllib.parse.urlsplit(end).query.split("&"):
        assert pair.partition("=")[2] not in words + gateway.text()

    # The same tokens at the path of the configuration are taken.
    again = Login(gateway, "me")
    moved = sandbox["DUKE_URL"] + path + "?" + urllib.parse.urlsplit(end).query
    assert again.paste(moved)[0] == 0, again.text()
    assert requests.get(f"{gateway.url}/api/me", timeout=20).status_code == 200

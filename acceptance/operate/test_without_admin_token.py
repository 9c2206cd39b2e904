"""What changes something, or shows what is not for everybody, wants the admin token: on a port and on a unix socket."""

import json
import urllib.parse

import pytest
import requests
from harness import processes
from harness.configs import CANARY, box_ccg
from harness.gateway import SocketConnection
from harness.login import port_of

CLIENT = CANARY + "-client"


def config(sandbox):
    person = {
        "strategy": "oauth2_authorization_code",
        "authorize_url": sandbox["OAUTH_URL"] + "/oauth/authorize",
        "token_url": sandbox["OAUTH_URL"] + "/oauth/token",
        "client_id": sandbox["OAUTH_CLIENT_ID"],
        "client_secret": sandbox["OAUTH_CLIENT_SECRET"],
    }
    return {
        "access": {"clients": {"laptop": {"token": CLIENT}}},
        # Another subject: what is defined alike shares a token, and with it a lock.
        "credentials": {"service": box_ccg(sandbox), "locked": box_ccg(sandbox, subject={"user": "2000002"}), "person": person},
        "routes": {name: {"upstream": sandbox["BOX_URL"], "auth": name} for name in ("service", "locked", "person")},
    }


class Admin:
    """Asks the admin listener of a gateway, on a port or on a socket."""

    def __init__(self, gateway):
        self.gateway = gateway
        self.token = (gateway.folder / "state" / "admin.token").read_text().strip()

    def ask(self, method, path, body=None, authorization=None):
        """The status and the text of the answer."""
        fields = {} if authorization is None else {"Authorization": authorization}
        if isinstance(body, dict):
            fields["Content-Type"] = "application/x-www-form-urlencoded"
            body = urllib.parse.urlencode(body)
        if "unix" not in self.gateway.admin:
            answer = requests.request(method, self.gateway.admin_url + path, data=body, headers=fields, timeout=20)
            return answer.status_code, answer.text
        connection = SocketConnection(self.gateway.admin["unix"], 20)
        try:
            connection.request(method, path, body=body, headers=fields)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def allowed(self, method, path, body=None):
        """With the admin token, which a page is given in its form."""
        if path in ("/token", "/login"):
            return self.ask(method, path, {**body, "token": self.token})
        return self.ask(method, path, body, f"Bearer {self.token}")

    def begin_login(self):
        status, text = self.allowed("POST", "/api/logins", '{"credential": "person"}')
        assert status == 200, text
        return json.loads(text)


@pytest.fixture(params=["port", "socket"])
def admin(request, sandbox, short_folder, start_gateway):
    """A gateway with a token, a credential that is locked, and nobody logged in for the third."""
    listener = {"unix": str(short_folder / "admin.sock")} if request.param == "socket" else None
    gateway = start_gateway(config(sandbox), admin=listener)
    authorization = {"Authorization": f"Bearer {CLIENT}"}
    assert requests.get(gateway.url + "/service/2.0/users/me", headers=authorization, timeout=20).status_code == 200
    assert gateway.run("token", "lock", "locked").returncode == 0
    admin = Admin(gateway)
    states = ["valid", "locked", "login_required"]
    processes.wait_until(lambda: [token["state"] for token in tokens(admin)] == states, 10, "nothing is under way")
    return admin


def tokens(admin):
    status, text = admin.ask("GET", "/api/tokens")
    assert status == 200, "the list is for everybody"
    return json.loads(text)


#: What is asked, in an order in which each of them changes something when it is allowed.
TOKENS = [
    ("POST", "/api/tokens/service/reveal", None),
    ("POST", "/api/tokens/service/downscope", '{"scopes": ["item_preview"]}'),
    ("POST", "/api/tokens/service/refresh", None),
    ("POST", "/api/tokens/service/revoke", None),
    ("POST", "/api/tokens/service/lock", None),
    ("POST", "/api/tokens/service/unlock", None),
    ("POST", "/api/tokens/service/import", '{"access_token": "imported", "expires_in": 3000}'),
    ("POST", "/api/tokens/service/clear", None),
    ("POST", "/api/tokens/locked/unlock", None),
    # A name that there is not is not told apart before the token was seen.
    ("POST", "/api/tokens/nobody/refresh", None),
]
WHOLE = [("POST", "/api/reload", None), ("POST", "/api/key/rotate", None), ("POST", "/api/state/backup", '{"keys": true}'), ("GET", "/api/plan", None)]
LOGINS = [("POST", "/api/logins", '{"credential": "person"}')]
PAGES = [
    ("POST", "/token", {"credential": "service", "operation": "lock"}),
    ("POST", "/token", {"credential": "locked", "operation": "unlock"}),
    ("POST", "/login", {"credential": "person"}),
]

#: What stands in for the admin token: nothing, and everything that is not it.
WRONG = {
    "none": None,
    "another": "Bearer " + "0" * 64,
    "an empty one": "Bearer ",
    "a client's": f"Bearer {CLIENT}",
    "the right one as a password": "Basic {token}",
    "the beginning of it": "Bearer {beginning}",
}


def changes(gateway):
    """The events without those of the refusals themselves."""
    return [event for event in gateway.events() if event["event"] != "client_denied"]


def state(admin):
    """What a change would show in: tokens, locks, keys, events, and what authorities were asked."""
    gateway = admin.gateway
    # What is counted from now differs from one look to the next.
    moving = ("remaining_seconds", "renewal_remaining_seconds", "renews_at")
    still = [{name: value for name, value in token.items() if name not in moving} for token in tokens(admin)]
    names = ("token.key", "locks", "admin")
    files = {path.name: content for path, content in gateway.files().items() if path.name.startswith(names)}
    return still, files, [event["id"] for event in changes(gateway)]


def wrong(admin, kind):
    text = WRONG[kind]
    return text and text.format(token=admin.token, beginning=admin.token[:-1])


def test_without_the_admin_token_nothing_is_changed_or_shown(sandbox, admin):
    before, asked = state(admin), sandbox.state()["token_calls_total"]
    for kind in WRONG:
        for method, path, body in TOKENS + WHOLE + LOGINS:
            status, text = admin.ask(method, path, body, wrong(admin, kind))
            assert (status, json.loads(text)["code"]) == (401, "admin-auth-required"), f"{kind}: {method} {path}: {text}"
            assert "Send the admin token of the state directory" in text
    # A form has no scheme: the token alone, or what is not it.
    typed = [{}, *({"token": text} for text in ("", "0" * 64, CLIENT, admin.token[:-1], f"Bearer {admin.token}"))]
    for fields in typed:
        for method, path, form in PAGES:
            status, text = admin.ask(method, path, {**form, **fields})
            assert status == 401 and "not the admin token" in text, f"{fields}: {path}: {status} {text}"
    # An event of a change that came late would stand before this one.
    assert admin.allowed("POST", "/api/tokens/service/lock")[0] == 200
    assert admin.allowed("POST", "/api/tokens/service/unlock")[0] == 200
    still, files, events = state(admin)
    assert (still, files) == before[:2] and events[: len(before[2])] == before[2]
    new = [event["event"] for event in changes(admin.gateway)][len(before[2]) :]
    assert new == ["locked", "unlocked"]
    denied = [event for event in admin.gateway.events() if event["event"] == "client_denied"]
    # They are merged: each kind writes a few rows a second.
    assert denied and {event["error_code"] for event in denied} == {"admin-auth-required"}, denied
    assert sandbox.state()["token_calls_total"] == asked


def test_with_it_each_of_them_is_allowed(admin):
    """Or the refusals above would prove nothing."""
    for method, path, body in TOKENS + WHOLE + PAGES:
        status, text = admin.allowed(method, path, body)
        assert status == (404 if "nobody" in path else 200), f"{method} {path}: {status} {text}"
    names = [event["event"] for event in admin.gateway.events() if event.get("trigger") == "operator"]
    wanted = {"revealed", "downscoped", "renewed", "locked", "unlocked", "imported", "cleared", "revoked", "login_started"}
    assert wanted <= set(names), names
    everything = {event["event"] for event in admin.gateway.events()}
    assert {"key_rotated", "config_loaded"} <= everything
    assert not {"token.key.encryption"} - {path.name for path in admin.gateway.files()}, "the key was rotated"


def test_the_plan_is_shown_to_nobody_else(admin):
    """It holds digests of secrets: whoever guesses one could check the guess."""
    status, text = admin.allowed("GET", "/api/plan")
    plan = json.loads(text)
    assert status == 200 and {"digest", "key"} <= set(plan)
    for kind in WRONG:
        status, refused = admin.ask("GET", "/api/plan", authorization=wrong(admin, kind))
        assert status == 401 and plan["key"] not in refused and "digest" not in refused, refused
        # The answer to HEAD would tell its length.
        assert admin.ask("HEAD", "/api/plan", authorization=wrong(admin, kind))[0] == 401
    # The command sends the token by itself, and only who may read the file has it.
    assert "Compared with the running gateway" in admin.gateway.run("plan").stdout
    (admin.gateway.folder / "state" / "admin.token").write_text("0" * 64)
    result = admin.gateway.run("plan")
    assert result.returncode == 0 and "Compared with" not in result.stdout and "Not compared" in result.stderr, result


def test_a_login_is_neither_ended_nor_answered_nor_looked_at_without_it(admin):
    login = admin.begin_login()
    path = f"/api/logins/{login['id']}"
    answer = json.dumps({"answer": "nonsense"})
    for kind in WRONG:
        for method, place, body in (("DELETE", path, None), ("GET", path, None), ("POST", path + "/answer", answer)):
            status, text = admin.ask(method, place, body, wrong(admin, kind))
            assert (status, json.loads(text)["code"]) == (401, "admin-auth-required"), f"{kind}: {method} {place}: {text}"
            # Nor does a refusal tell whether there is such a login.
            none = place.replace(login["id"], "0" * 32)
            assert admin.ask(method, none, body, wrong(admin, kind)) == (status, text)

    assert json.loads(admin.allowed("GET", path)[1]) == {"is_over": False}
    assert processes.is_listening(port_of(login["redirect"])), "it still waits for the browser"
    page = requests.get(login["page"] + "&decision=approve", timeout=20)
    assert page.status_code == 200 and "Logged in" in page.text
    ended = json.loads(admin.allowed("GET", path)[1])
    assert ended["is_over"] is True and ended["token"]["state"] == "valid"
    names = [event["event"] for event in admin.gateway.events() if event["event"].startswith("login_")]
    assert names == ["login_started", "login_completed"]


def test_with_it_a_login_is_ended(admin):
    login = admin.begin_login()
    path = f"/api/logins/{login['id']}"
    status, text = admin.allowed("DELETE", path)
    assert status == 200 and json.loads(text)["is_over"] is True and "cancelled" in text, text
    assert not processes.is_listening(port_of(login["redirect"]))
    [failed] = [event for event in admin.gateway.events() if event["event"] == "login_failed"]
    assert failed["detail"]["reason"] == "cancelled"
    assert admin.allowed("DELETE", "/api/logins/" + "0" * 32)[0] == 404


@pytest.mark.root
def test_a_user_whom_the_socket_lets_in_still_needs_the_token(sandbox, short_folder, start_gateway, other_users):
    """`allow_users` says who may connect and look, not who may change something."""
    place = short_folder / "admin.sock"
    gateway = start_gateway(config(sandbox), admin={"unix": str(place), "allow_users": [other_users[0].number]})
    before = [event["id"] for event in changes(gateway)]
    assert other_users[0].ask(place, "GET", "/api/tokens") == "HTTP/1.1 200"
    for method, path in (("POST", "/api/tokens/service/lock"), ("POST", "/api/reload"), ("GET", "/api/plan")):
        assert other_users[0].ask(place, method, path) == "HTTP/1.1 401", path
    assert [event["id"] for event in changes(gateway)] == before
    # With the token, which an administrator may give to that user, it is allowed.
    token = (gateway.folder / "state" / "admin.token").read_text().strip()
    assert other_users[0].ask(place, "POST", "/api/tokens/service/lock", token) == "HTTP/1.1 200"
    assert [event["event"] for event in changes(gateway)][len(before) :] == ["locked"]

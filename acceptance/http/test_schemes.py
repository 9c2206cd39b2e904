"""Which scheme and which secret reach the upstream, route by route."""

import base64
import json
import stat
import sys

import pytest
import requests
from harness.configs import CANARY
from harness.origin import response
from harness.token_server import who


@pytest.fixture
def api(make_origin):
    return make_origin(who)


def get(gateway, path, **fields):
    answer = requests.get(gateway.url + path, headers=fields, timeout=20)
    assert answer.status_code == 200, answer.text
    return answer.text


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_each_path_and_each_host_has_its_own_scheme(api, start_gateway):
    """As a target of Moya says it for each case: Bearer, Basic, a scheme of its own, or nothing."""
    auths = {
        "bearer": ({"path": "/api"}, {"strategy": "bearer", "token": "b"}),
        "basic": ({"path": "/api/login"}, {"strategy": "basic", "username": "u", "password": "p"}),
        "opaque": ({"path": "/api/login/key"}, {"strategy": "header", "scheme": "Basic", "value": "opaque"}),
        "nothing": ({"path": "/api/public"}, "none"),
        "own": ({"hosts": ["own.localhost"]}, {"strategy": "header", "scheme": "Token", "value": "t"}),
        "wild": ({"hosts": ["*.wild.localhost"]}, {"strategy": "header", "value": "bare"}),
    }
    gateway = start_gateway(
        {"routes": {name: {"upstream": api.url, "match": match, "auth": auth} for name, (match, auth) in auths.items()}}
    )
    seen = {
        "/api": "Bearer b",
        "/api/x": "Bearer b",
        "/api/loginx": "Bearer b",
        "/api/login": basic("u", "p"),
        "/api/login/x": basic("u", "p"),
        "/api/login/key": "Basic opaque",
        "/api/login/key/x?y=1": "Basic opaque",
        "/api/public/x": "nobody",
    }
    # Twice, and on one connection: what one case sent is no part of the next.
    with requests.Session() as session:
        for _ in range(2):
            for path, sent in seen.items():
                assert session.get(gateway.url + path, timeout=20).text == sent, path
            for host, sent in {"own.localhost": "Token t", "a.wild.localhost": "bare", "localhost": "Bearer b"}.items():
                headers = {"Host": f"{host}:{gateway.port}"}
                assert session.get(gateway.url + "/api/x", headers=headers, timeout=20).text == sent, host


# MARK: Where a secret comes from


def program(folder, text):
    """A program that prints a text; the text may be changed while the gateway runs."""
    path = folder / "print-secret"
    (folder / "printed").write_text(text)
    path.write_text(f"#!{sys.executable}\nimport sys\nsys.stdout.write(open({str(folder / 'printed')!r}).read())\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def sources(folder, secret):
    """The same secret from an environment variable (`SECRET`), a file and a program."""
    file = folder / "secret"
    file.touch(mode=0o600)
    file.write_text(secret + "\n")
    return {"env": "SECRET"}, {"file": str(file)}, {"exec": [str(program(folder, secret + "\n"))]}


def from_each(api, folder, secret):
    """A route for each source, with a Bearer scheme and with a scheme of its own."""
    routes = {}
    for reference in sources(folder, secret):
        [name] = reference
        routes[name] = {"upstream": api.url, "auth": {"strategy": "bearer", "token": reference}}
        routes[f"{name}-own"] = {"upstream": api.url, "auth": {"strategy": "header", "scheme": "Token", "value": reference}}
    return routes


def test_a_secret_comes_from_a_variable_a_file_or_a_program(api, start_gateway, tmp_path):
    gateway = start_gateway({"routes": from_each(api, tmp_path, CANARY)}, environment={"SECRET": CANARY})
    for name in ("env", "file", "exec"):
        assert get(gateway, f"/{name}/x", Authorization="Bearer mine") == f"Bearer {CANARY}"
        assert get(gateway, f"/{name}-own/x", Authorization="Bearer mine") == f"Token {CANARY}"
    # Files and programs are read again on reload; the environment of a process does not change.
    (tmp_path / "secret").write_text(CANARY + "-2\n")
    (tmp_path / "printed").write_text(CANARY + "-3\n")
    assert gateway.run("reload").returncode == 0
    seen = {name: get(gateway, f"/{name}/x") for name in ("env", "file", "exec")}
    assert seen == {"env": f"Bearer {CANARY}", "file": f"Bearer {CANARY}-2", "exec": f"Bearer {CANARY}-3"}


# MARK: Nothing where a token belongs


@pytest.mark.parametrize("empty", ["", "\n", " "], ids=["nothing", "line-break", "space"])
def test_a_secret_that_is_empty_is_a_mistake_of_the_configuration(api, make_gateway, tmp_path, empty):
    gateway = make_gateway({"routes": from_each(api, tmp_path, empty)}, environment={"SECRET": empty})
    for place in ("secret", "printed"):
        (tmp_path / place).write_text(empty)
    checked = gateway.run("check")
    assert checked.returncode == 3, checked
    for name in ("env", "file", "exec"):
        for place in (f"routes.{name}.auth.token", f"routes.{name}-own.auth.value"):
            assert place in checked.stderr, checked.stderr
    with pytest.raises(AssertionError, match="ended with 3"):
        gateway.start()
    gateway.expected_ends = {3}
    assert api.count() == 0


def test_a_secret_that_becomes_empty_is_not_taken(api, start_gateway, tmp_path):
    gateway = start_gateway({"routes": from_each(api, tmp_path, CANARY)}, environment={"SECRET": CANARY})
    for place in ("secret", "printed"):
        (tmp_path / place).write_text("\n")
        reloaded = gateway.run("reload")
        assert reloaded.returncode == 3 and "auth.token" in reloaded.stderr, reloaded
        for name in ("env", "file", "exec"):
            assert get(gateway, f"/{name}/x") == f"Bearer {CANARY}", "the secret that was good goes on"
        (tmp_path / place).write_text(CANARY)


@pytest.mark.parametrize("strategy", ["exec", "delegated-text", "delegated-json", "oauth2_client_credentials", "session_refresh"])
@pytest.mark.parametrize("empty", ["", " "], ids=["nothing", "space"])
def test_an_empty_token_of_an_authority_is_never_sent(api, make_origin, start_gateway, tmp_path, strategy, empty):
    answer = empty if strategy == "delegated-text" else json.dumps({"access_token": empty, "token_type": "Bearer"})
    authority = make_origin(lambda request: response(200, answer.encode()))
    credential = {
        "exec": {"strategy": "exec", "command": [str(program(tmp_path, json.dumps({"token": empty})))]},
        "delegated-text": {"strategy": "delegated", "url": authority.url + "/t", "response": "text"},
        "delegated-json": {"strategy": "delegated", "url": authority.url + "/t"},
        "oauth2_client_credentials": {
            "strategy": "oauth2_client_credentials", "token_url": authority.url + "/t", "client_id": "a", "client_secret": "b"
        },
        "session_refresh": {
            "strategy": "session_refresh", "base_url": authority.url, "session_token": "s",
            "refresh": {"path": "/t", "session_token": {"header": "X-Session-Token"}},
        },
    }[strategy]  # fmt: skip
    gateway = start_gateway({"routes": {"api": {"upstream": api.url, "auth": credential}}})
    refused = requests.get(gateway.url + "/api/x", headers={"Authorization": "Bearer mine"}, timeout=20)
    assert api.count() == 0, refused.text
    assert (refused.status_code, refused.json()["code"]) == (503, "token-temporarily-unavailable"), refused.text


# MARK: A password that is asked for


def test_a_password_is_asked_for_on_each_route_and_by_each_process(make_origin, start_gateway):
    """`mode: challenge`: who was asked once sends the password at once, until the process ends; nothing is written down."""
    password = CANARY + "-of-reports"
    authorization = basic("svc", password)

    def reports(request):
        if request.value("authorization") == authorization:
            return response(200, b"welcome")
        return response(401, b"who are you", 'WWW-Authenticate: Basic realm="reports"')

    origin = make_origin(reports)
    reports_user = {"strategy": "basic", "username": "svc", "password": {"env": "REPORTS"}, "mode": "challenge", "realm": "reports"}
    elsewhere = {**reports_user, "realm": "archive"}
    gateway = start_gateway(
        {
            "credentials": {"reports": reports_user},
            "routes": {
                "one": {"upstream": origin.url, "auth": "reports"},
                "two": {"upstream": origin.url, "auth": "reports"},
                "elsewhere": {"upstream": origin.url, "auth": elsewhere},
            },
        },
        environment={"REPORTS": password},
    )

    def sent(path):
        origin.forget()
        answer = requests.get(gateway.url + path, headers={"Authorization": "Bearer mine"}, timeout=20)
        return answer.status_code, [request.value("authorization") for request in origin.requests]

    for _ in range(2):
        assert sent("/one/x") == (200, [None, authorization])
        assert sent("/one/y") == (200, [authorization])
        # The other route has not been asked yet, although the credential and the upstream are the same.
        assert sent("/two/x") == (200, [None, authorization])
        assert sent("/two/y") == sent("/one/z") == (200, [authorization])
        # Another realm gets nothing, however often it asks.
        assert sent("/elsewhere/x") == sent("/elsewhere/x") == (401, [None])
        for secret in (password, authorization.removeprefix("Basic "), authorization.removeprefix("Basic ").rstrip("=")):
            assert secret not in gateway.text()
            for path, content in gateway.files().items():
                assert secret.encode() not in content, path
        # The next process knows nothing of it.
        gateway.stop()
        gateway.start()

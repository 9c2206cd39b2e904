"""A pair of tokens at an authorizer: the access token goes to the API, the session token to the authorizer alone."""

import base64
import contextlib
import json
import pathlib
import sqlite3
import time

import pytest
import requests
from harness.login import Login
from harness.origin import response
from harness.token_server import unsigned_jwt, who


#: What a person's login brings.
ACCESS, SESSION = unsigned_jwt(exp=4102444800, of="ada"), "KANARI-session-1"


@pytest.fixture
def authorizer(make_origin):
    """Renews a pair: the access token then ends in an hour, and the session token has the next number."""

    def renew(request):
        number = len([one for one in authorizer.requests if one.target.endswith("/refresh")])
        pair = {"access_token": unsigned_jwt(exp=int(time.time()) + 3600, number=number), "session_token": f"KANARI-session-{number + 1}"}
        return response(200, json.dumps({"data": pair}).encode())

    authorizer = make_origin(renew)
    return authorizer


@pytest.fixture
def api(make_origin):
    return make_origin(who)


def config(authorizer, api, **changes):
    campus = {"strategy": "duke_session", "client_name": "dukemobile", "base_url": authorizer.url, **changes}
    return {"credentials": {"me": campus}, "routes": {"api": {"upstream": api.url, "auth": "me"}}}


def portal(authorizer, **changes):
    """The same authorizer with every part of the request in the configuration."""
    return {
        "strategy": "session_refresh",
        "base_url": authorizer.url,
        "client_name": "portal",
        "refresh": {
            "path": "/{client_name}/refresh",
            "access_token": {"header": "X-Access-Token"},
            "session_token": {"header": "X-Session-Token"},
        },
        "response": {"access_token": "/data/access_token", "session_token": "/data/session_token"},
        "expiry": "jwt_exp",
        **changes,
    }


def get(gateway):
    return requests.get(f"{gateway.url}/api/x", timeout=20)


def log_in(gateway, authorizer):
    login = Login(gateway, "me")
    code, output, _ = login.paste(f"{authorizer.url}/dukemobile/ios/token?access_token={ACCESS}&session_token={SESSION}")
    assert code == 0, login.text()
    return output + login.text()


def renewed_with(authorizer):
    """The pairs that were sent to the authorizer, oldest first."""
    return [(one.value("x-access-token"), one.value("x-session-token")) for one in authorizer.requests]


@pytest.mark.parametrize("strategy", ["session_refresh", "duke_session"])
def test_a_session_that_has_ended_is_refreshed_before_the_request(authorizer, api, start_gateway, strategy):
    ended = unsigned_jwt(exp=int(time.time()) - 60)
    whole = config(authorizer, api, access_token=ended, session_token=SESSION)
    if strategy == "session_refresh":
        whole["credentials"]["me"] = portal(authorizer, access_token=ended, session_token=SESSION)
    gateway = start_gateway(whole)
    for _ in range(3):
        assert get(gateway).status_code == 200
    # The API was asked with the new token only, and the authorizer once.
    assert renewed_with(authorizer) == [(ended, SESSION)]
    assert ended.encode() not in api.raw()
    assert api.count() == 3


@pytest.mark.parametrize("strategy", ["session_refresh", "duke_session"])
def test_the_session_token_goes_to_the_authorizer_alone(authorizer, make_origin, start_gateway, strategy):
    rejected = set()
    api = make_origin(lambda request: response(401) if request.value("authorization") in rejected else who(request))
    whole = config(authorizer, api, access_token=ACCESS, session_token=SESSION)
    if strategy == "session_refresh":
        whole["credentials"]["me"] = portal(authorizer, access_token=ACCESS, session_token=SESSION)
    gateway = start_gateway(whole)
    answers = [get(gateway)]
    for _ in range(2):
        assert gateway.run("token", "refresh", "me").returncode == 0
        answers.append(get(gateway))
    # And when a request finds out that the token is no longer good.
    rejected.add(answers[-1].text)
    answers.append(get(gateway))
    assert [answer.status_code for answer in answers] == [200] * 4

    tokens = [ACCESS, *(text.removeprefix("Bearer ") for text in (answer.text for answer in answers[1:]))]
    assert len(set(tokens)) == 4
    assert renewed_with(authorizer) == [(tokens[number], f"KANARI-session-{number + 1}") for number in range(3)]
    for request in authorizer.requests:
        names = {name for name, value in request.fields if "KANARI" in value or value in tokens}
        assert names == {"x-access-token", "x-session-token"} and "KANARI" not in request.line
        assert request.body == b"" and request.value("authorization") is None
    assert b"KANARI" not in api.raw() and b"session" not in api.raw().lower()
    assert not any("KANARI" in answer.text + str(answer.headers) for answer in answers)


def tokens_in(gateway):
    with contextlib.closing(sqlite3.connect(f"file:{gateway.folder}/state/tokens.sqlite?mode=ro", uri=True)) as database:
        return database.execute("select count(*) from tokens").fetchone()[0]


def test_a_login_stores_both_tokens_at_once(authorizer, api, start_gateway):
    gateway = start_gateway(config(authorizer, api))
    assert get(gateway).json()["code"] == "login-required"
    assert gateway.run("status").returncode == 1
    log_in(gateway, authorizer)
    # One record holds the pair. It is there when the login is done, whatever happens to the gateway next.
    assert tokens_in(gateway) == 1
    gateway.kill()
    gateway.start()
    assert get(gateway).text == f"Bearer {ACCESS}"
    assert gateway.run("status").returncode == 0
    assert authorizer.count() == 0
    assert gateway.run("token", "refresh", "me").returncode == 0
    assert renewed_with(authorizer) == [(ACCESS, SESSION)]
    # The next pair is stored as the first one was.
    gateway.kill()
    gateway.start()
    assert gateway.run("token", "refresh", "me").returncode == 0
    assert renewed_with(authorizer)[1][1] == "KANARI-session-2"
    assert tokens_in(gateway) == 1


def test_token_get_shows_the_access_token_and_nothing_shows_the_session_token(authorizer, api, make_gateway):
    gateway = make_gateway(config(authorizer, api)).start("--log-level", "trace", "--access-log")
    said = log_in(gateway, authorizer)
    assert get(gateway).text == f"Bearer {ACCESS}"
    # The next process reads both tokens from the store.
    gateway.stop()
    gateway.start("--log-level", "trace", "--access-log")
    assert get(gateway).text == f"Bearer {ACCESS}"
    shown = gateway.run("token", "get", "me")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, ACCESS + "\n", "")
    said += gateway.run("token", "get", "me", "--json").stdout
    assert gateway.run("token", "refresh", "me").returncode == 0
    renewed = gateway.run("token", "get", "me").stdout
    assert renewed == get(gateway).text.removeprefix("Bearer ") + "\n"
    assert len([event for event in gateway.events("--event", "revealed") if event["trigger"] == "operator"]) == 3

    for arguments in (
        ["check"], ["plan"], ["plan", "--json"], ["routes"], ["status"], ["status", "--json"], ["token", "list"],
        ["token", "show", "me"], ["token", "show", "me", "--json"], ["audit", "query", "--json"], ["audit", "export"],
    ):  # fmt: skip
        result = gateway.run(*arguments)
        assert result.returncode == 0, result
        assert ACCESS not in result.stdout + result.stderr and renewed.strip() not in result.stdout + result.stderr, arguments
        said += result.stdout + result.stderr
    for path in ("/", "/token?credential=me", "/readyz?verbose", "/metrics", "/api/tokens", "/api/tokens/me", "/api/routes"):
        answer = requests.get(gateway.admin_url + path, timeout=20)
        assert answer.status_code == 200, path
        said += answer.text
    said += pathlib.Path(f"/proc/{gateway.process.pid}/cmdline").read_bytes().decode()
    assert "KANARI" not in said

    while_it_runs = gateway.files()
    gateway.stop()
    for path, content in [*while_it_runs.items(), *gateway.files().items(), ("the log", gateway.text().encode())]:
        for secret in (b"KANARI", ACCESS.encode(), renewed.strip().encode()):
            spellings = (secret, base64.b64encode(secret).rstrip(b"="), secret.hex().encode())
            assert not any(spelling in content for spelling in spellings), path


def test_a_mistake_beside_it_does_not_show_the_session_token(authorizer, api, make_gateway):
    gateway = make_gateway(config(authorizer, api, access_token=ACCESS, session_token=SESSION))
    whole = gateway.file.read_text()
    for damage in (
        lambda text: text.replace('"session_token":', '"session_tokens":'),
        lambda text: text.replace('"client_name":', '"client_nam":'),
        lambda text: text.replace(SESSION, SESSION + "\\u0007"),
    ):
        gateway.file.write_text(damage(whole))
        result = gateway.run("check")
        assert result.returncode == 3 and "credentials.me" in result.stderr, result
        assert "KANARI" not in result.stdout + result.stderr

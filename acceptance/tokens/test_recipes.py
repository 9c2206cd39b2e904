"""The recipes of examples/recipes against servers that behave so: a token is fetched, used, renewed and revoked."""

import json

import pytest
import requests
import yaml
from harness.configs import CANARY
from harness.gateway import ROOT
from harness.origin import response


def recipe(name):
    text = (ROOT / f"examples/recipes/{name}.yaml").read_text()
    return {key: value for key, value in yaml.safe_load(text).items() if key in ("credentials", "routes")}


@pytest.fixture
def environment(sandbox):
    return {
        "WRAPPED_URL": sandbox["UPSTREAM_URL"],
        "WRAPPED_API_KEY": sandbox["UPSTREAM_API_KEY"],
        "WEBAPP_URL": sandbox["UPSTREAM_URL"],
        "WEBAPP_USER": sandbox["UPSTREAM_USER"],
        "WEBAPP_PASSWORD": sandbox["UPSTREAM_PASSWORD"],
    }


CASES = {"wrapped_json": ("wrapped", "/wrapped/v1/me"), "cookie_login": ("webapp", "/webapp/me")}


@pytest.fixture(params=CASES)
def running(request, environment, start_gateway):
    """(a gateway with the recipe, its credential, a path that needs the token)"""
    return start_gateway(recipe(request.param), environment=environment), *CASES[request.param]


def me(gateway, path):
    return requests.get(gateway.url + path, timeout=20)


def shown(sandbox, credential, token):
    """What the application says to that token, asked directly."""
    if credential == "wrapped":
        answer = requests.get(f"{sandbox['UPSTREAM_URL']}/v1/me", headers={"X-Session": token}, timeout=20)
    else:
        answer = requests.get(f"{sandbox['UPSTREAM_URL']}/app/me", cookies={"session": token}, timeout=20)
    return answer.status_code


def test_the_token_is_fetched_once_and_applied(running, sandbox):
    gateway, credential, path = running
    for _ in range(3):
        answer = me(gateway, path)
        assert answer.status_code == 200 and answer.json()["client"] == credential
    assert sandbox.token_calls("upstream") == 1
    assert gateway.run("token", "show", credential).returncode == 0


def test_a_session_that_ended_is_begun_again(running, sandbox):
    gateway, _, path = running
    assert me(gateway, path).status_code == 200
    sandbox.set("upstream", revoke_all=True)
    assert me(gateway, path).status_code == 200
    assert sandbox.token_calls("upstream") == 2


def test_revoke_logs_out_and_the_next_request_logs_in(running, sandbox):
    gateway, credential, path = running
    assert me(gateway, path).status_code == 200
    token = gateway.run("token", "get", credential).stdout.strip()
    assert shown(sandbox, credential, token) == 200
    revoked = gateway.run("token", "revoke", credential)
    assert revoked.returncode == 0, revoked.stderr
    assert shown(sandbox, credential, token) == 401
    again = gateway.run("token", "revoke", credential)
    assert again.returncode == 0 and "nothing to revoke" in again.stdout
    assert me(gateway, path).status_code == 200
    assert sandbox.token_calls("upstream") == 2
    [event] = [event for event in gateway.events("--credential", credential) if event["event"] == "revoked"]
    assert event["trigger"] == "operator" and event["generation"] == 1 and event["outcome"] == "ok"


def test_a_revocation_that_the_application_does_not_grant_keeps_the_token(running, sandbox):
    gateway, credential, path = running
    assert me(gateway, path).status_code == 200
    sandbox.set("upstream", revoke_all=True)
    refused = gateway.run("token", "revoke", credential)
    assert refused.returncode == 1 and "kept and still used" in refused.stderr, refused
    assert "revocation_failed" in [event["event"] for event in gateway.events("--credential", credential)]


@pytest.mark.parametrize(
    "name, variable, status", [("wrapped_json", "WRAPPED_API_KEY", 200), ("cookie_login", "WEBAPP_PASSWORD", 401)]
)
def test_a_wrong_secret_is_final_and_the_step_is_named(environment, sandbox, start_gateway, name, variable, status):
    _, path = CASES[name]
    gateway = start_gateway(recipe(name), environment={**environment, variable: "CANARY-5f2c9a"})
    for _ in range(3):
        answer = me(gateway, path)
        assert answer.status_code == 500, answer.text
        assert f'of "acquire" (status {status}' in answer.json()["detail"]
    assert sandbox.token_calls("upstream") == 1


def test_a_form_that_redirects_has_refused_the_password(make_origin, start_gateway):
    """So do most forms with a wrong password. It is not sent again by itself."""
    form = make_origin(lambda request: response(302, b"", "Location: /login?error"))
    login = {"method": "POST", "url": form.url + "/login", "body": {"form": {"password": "{{password}}"}}}
    credential = {
        "strategy": "recipe",
        "secrets": {"password": {"env": "FORM_PASSWORD"}},
        "acquire": [{**login, "outputs": {"token": {"cookie": "sid"}}}],
        "expiry": "none",
        "apply": [{"cookie": "sid"}],
    }
    config = {"credentials": {"form": credential}, "routes": {"api": {"upstream": form.url, "auth": "form"}}}
    gateway = start_gateway(config, environment={"FORM_PASSWORD": f"{CANARY}-form"})
    problem = me(gateway, "/api/x").json()
    assert problem["code"] == "credential-misconfigured" and "does not try again by itself" in problem["detail"], problem
    shown = json.loads(gateway.run("token", "show", "form", "--json").stdout)
    assert shown.get("failing", {}).get("next_try_at") is None, shown


def test_what_an_odd_application_answers_arrives_as_it_was_sent(make_origin, start_gateway):
    """An ID of 17 digits, an escaped field of a form, a cookie that is deleted beside the one that is set, a time without a zone."""
    page = b'<form><input name="csrf" value="a&amp;b&#43;c"></form>'
    seen = []

    def answer(request):
        seen.append(request)
        if request.method == "GET" and request.target == "/login":
            return response(200, page).replace(b"text/plain", b"text/html")
        if request.target == "/login":
            return response(
                200,
                b'{"account": 17841400008460057, "end": "2020-01-01T00:00:00"}',
                "Set-Cookie: sid=deleted; Path=/login; Max-Age=0",
                'Set-Cookie: sid="v 1"; Path=/',
                "Set-Cookie: sid=gone; Path=/old; Expires=Thu, 01-Jan-1970 00:00:00 GMT",
            )
        return response(200, b"{}")

    app = make_origin(answer)
    csrf = {"regex": 'name="csrf" value="([^"]+)"'}
    credential = {
        "strategy": "recipe",
        "acquire": [
            {"url": app.url + "/login", "outputs": {"csrf": csrf}},
            {
                "url": app.url + "/login",
                "body": {"form": {"csrf": "{{csrf}}"}},
                "outputs": {"token": {"cookie": "sid"}, "account": "/account", "expires_at": "/end"},
            },
        ],
        "keep": ["account"],
        "apply": [{"cookie": "sid"}, {"header": "X-Account", "value": "{{account}}"}],
    }
    gateway = start_gateway({"credentials": {"app": credential}, "routes": {"api": {"upstream": app.url, "auth": "app"}}})
    assert me(gateway, "/api/x").status_code == 200
    posted, forwarded = seen[1], seen[2]
    assert posted.body == b"csrf=a%26b%2Bc"
    assert forwarded.value("Cookie") == 'sid="v 1"' and forwarded.value("X-Account") == "17841400008460057"
    assert "neither a time with a zone" in gateway.text()


def test_an_application_that_is_busy_is_asked_again(running, sandbox):
    gateway, credential, path = running
    sandbox.set("upstream", token_status=503, token_retry_after="1", token_next=1)
    assert me(gateway, path).status_code == 503
    assert gateway.run("token", "refresh", credential).returncode == 0
    assert me(gateway, path).status_code == 200

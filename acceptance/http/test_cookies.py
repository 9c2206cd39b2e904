"""Cookies of an upstream are sessions of the account behind a credential: such a route drops them unless it says otherwise."""

import json

import pytest
import requests
from harness import raw
from harness.configs import BEARER
from harness.origin import response
from harness.script import connect, get

SET = ["Set-Cookie: session=upstreams; Path=/; HttpOnly", "set-cookie: second=one"]
#: What a client sends, in several spellings.
SENT = ["Cookie: a=clients", "cookie: b=clients"]


def config(origin, **changes):
    return {"routes": {"api": {"upstream": origin.url, "auth": BEARER, **changes}}}


@pytest.fixture
def setting(make_origin):
    """An origin that sets cookies with each answer."""
    return make_origin(lambda request: response(200, b"ok", *SET))


def ask(gateway, *fields, path="/api/x"):
    return raw.exchange(gateway.port, get(gateway, "Connection: close", *fields, path=path))


def drops(answer):
    assert (answer.status, answer.body) == (200, b"ok")
    assert answer.values("set-cookie") == [] and b"upstreams" not in answer.data
    assert answer.values("gateway-note") == ["cookies-dropped"]
    return True


def passes(answer):
    assert (answer.status, answer.body) == (200, b"ok")
    # For the route alone.
    assert answer.values("set-cookie") == ["session=upstreams; Path=/api; HttpOnly", "second=one"]
    assert answer.values("gateway-note") == []
    return True


# Where a credential is injected


def test_a_route_with_a_credential_drops_the_cookies_of_answers(setting, start_gateway):
    assert drops(ask(start_gateway(config(setting))))


def test_a_route_with_a_credential_drops_the_cookies_of_requests(origin, start_gateway):
    gateway = start_gateway(config(origin))
    assert ask(gateway, *SENT, "X-Kept: yes").status == 200
    assert origin.last().values("cookie") == [] and b"clients" not in origin.raw()
    assert origin.last().value("x-kept") == "yes"


def test_an_answer_without_a_cookie_has_no_note(origin, start_gateway):
    assert ask(start_gateway(config(origin)), *SENT).values("gateway-note") == []


def test_the_credential_of_a_recipe_that_is_a_cookie_is_sent_alone(token_server, origin, start_gateway):
    """It replaces the client's cookies."""
    recipe = {
        "strategy": "recipe",
        "acquire": [{"method": "GET", "url": token_server.url + "/token?id=42", "outputs": {"token": "/access_token"}}],
        "apply": {"cookie": "session"},
    }
    gateway = start_gateway(config(origin, auth=recipe))
    answer = ask(gateway, *SENT)
    assert answer.status == 200, answer.data
    assert origin.last().values("cookie") == ["session=token-1-of-42"]


@pytest.mark.parametrize("status", ["401", "302", "103"])
def test_cookies_are_dropped_whatever_the_status_is(make_origin, start_gateway, status):
    """Also from an answer that precedes the final one."""
    early = f"HTTP/1.1 103 Early Hints\r\n{SET[0]}\r\n\r\n".encode() + response(200, b"ok", *SET)
    origin = make_origin(lambda request: early if status == "103" else response(status, b"", *SET))
    answer = ask(start_gateway(config(origin)))
    assert b"set-cookie" not in answer.data.lower() and b"cookies-dropped" in answer.data
    assert f"HTTP/1.1 {status} ".encode() in answer.data


def test_cookies_are_dropped_from_an_answer_that_opens_a_tunnel(make_script, start_gateway):
    def steps(wire, number):
        wire.head()
        fields = f"Connection: Upgrade\r\nUpgrade: chat\r\n{SET[0]}\r\n"
        wire.send(f"HTTP/1.1 101 Switching Protocols\r\n{fields}\r\nhello".encode())
        wire.to_end()

    gateway = start_gateway(config(make_script(steps)))
    request = get(gateway, "Connection: Upgrade", "Upgrade: chat", *SENT)
    with connect(gateway.port) as client:
        client.send(request)
        head = client.head().lower()
        assert head.startswith(b"http/1.1 101 ") and b"set-cookie" not in head
        assert client.exactly(5) == b"hello"


# Where cookies pass


def test_with_cookies_pass_both_are_forwarded_as_they_came(setting, start_gateway):
    gateway = start_gateway(config(setting, cookies="pass"))
    assert passes(ask(gateway, *SENT))
    assert setting.last().values("cookie") == [field.partition(": ")[2] for field in SENT]
    assert gateway.stop() == 0 and warnings(gateway) == []


def test_without_a_credential_both_are_forwarded_as_they_came(setting, start_gateway):
    gateway = start_gateway(config(setting, auth="none"))
    assert passes(ask(gateway, *SENT))
    assert setting.last().values("cookie") == [field.partition(": ")[2] for field in SENT]


def test_without_a_credential_cookies_can_be_dropped_as_well(setting, start_gateway):
    gateway = start_gateway(config(setting, auth="none", cookies="drop"))
    assert drops(ask(gateway, *SENT))
    assert setting.last().values("cookie") == []


def test_a_session_of_a_browser_app_lasts_with_cookies_pass(make_origin, start_gateway):
    """As Jenkins does it: the token of a form is good in the session that it came with."""

    def answer(request):
        if request.value("cookie") == "JSESSIONID=abc":
            return response(200, b"welcome back")
        return response(200, b"hello", "Set-Cookie: JSESSIONID=abc; Path=/; HttpOnly")

    gateway = start_gateway(config(make_origin(answer), cookies="pass"))
    with requests.Session() as session:
        assert [session.get(gateway.url + "/api/x", timeout=10).text for _ in range(2)] == ["hello", "welcome back"]


# What the operator is told


def warnings(gateway):
    """Lines of the log about cookies."""
    lines = [json.loads(line) for line in gateway.text().splitlines() if line.startswith("{")]
    return [str(line) for line in lines if "cookie" in line["message"].lower()]


def test_the_log_says_it_once_for_each_route_and_names_the_key(setting, start_gateway):
    route = {"upstream": setting.url, "auth": BEARER}
    quiet = {**route, "cookies": "pass"}
    gateway = start_gateway({"workers": 2, "routes": {"api": route, "other": route, "quiet": quiet}})
    for path in ("/api/x", "/other/x", "/quiet/x"):
        for _ in range(5):
            assert ask(gateway, path=path).status == 200
    assert gateway.stop() == 0
    lines = warnings(gateway)
    assert len(lines) == 2, lines
    assert any("routes.api.cookies" in line for line in lines) and any("routes.other.cookies" in line for line in lines)
    assert all("warning" in line.lower() for line in lines), lines


def test_the_plan_shows_it_for_every_route(origin, make_gateway):
    routes = {
        "guarded": {"upstream": origin.url, "auth": BEARER},
        "open": {"upstream": origin.url, "auth": "none"},
        "app": {"upstream": origin.url, "auth": BEARER, "cookies": "pass"},
    }
    gateway = make_gateway({"routes": routes})
    text = gateway.run("plan")
    assert text.returncode == 0, text.stderr
    assert text.stdout.count("cookies: drop") == 1 and text.stdout.count("cookies: pass") == 2, text.stdout
    shown = json.loads(gateway.run("plan", "--json").stdout)
    found = {route["name"]: route["cookies"] for route in shown["routes"]}
    assert found == {"guarded": "drop", "open": "pass", "app": "pass"}


def test_another_value_is_a_mistake_of_the_configuration(origin, make_gateway):
    result = make_gateway(config(origin, cookies="keep")).run("check")
    assert result.returncode == 3 and "cookies: expected one of drop, pass" in result.stderr, result.stderr

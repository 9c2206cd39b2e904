"""A credential in the path, as Telegram's bots have it: `https://api.telegram.org/bot<token>/METHOD`."""

import json

import pytest
from harness import raw
from harness.configs import CANARY
from harness.origin import response
from harness.script import connect, get

TOKEN = f"123456:{CANARY}_x/y"
#: A colon stands for itself in a segment of a path (RFC 3986 section 3.3); a slash does not.
PATH = f"/bot123456:{CANARY}_x%2Fy"
AUTH = {"strategy": "header", "path": "/bot{{token}}", "value": {"env": "BOT_TOKEN"}}
VARIABLES = {"BOT_TOKEN": TOKEN}


def bots(request):
    """Serves the bot alone, and only where the token stands as it should."""
    method, _, query = request.target.removeprefix(PATH).partition("?")
    if not request.target.startswith(PATH + "/") or request.value("authorization"):
        return response(404, b"not found")
    return response(200, json.dumps({"method": method, "query": query}).encode())


def route(origin, **changes):
    return {"routes": {"api": {"upstream": origin.url, "auth": AUTH, **changes}}}


def ask(gateway, path="/api/getMe"):
    return raw.exchange(gateway.port, get(gateway, "Connection: close", path=path))


@pytest.mark.parametrize(
    "asked, sent",
    [
        ("/api/getMe", ("/getMe", "")),
        ("/api/sendMessage?chat_id=1&text=a%20b", ("/sendMessage", "chat_id=1&text=a%20b")),
        ("/api/", ("/", "")),
    ],
)
def test_the_token_stands_before_the_path_of_the_request(make_origin, start_gateway, asked, sent):
    gateway = start_gateway(route(make_origin(bots)), environment=VARIABLES)
    answer = ask(gateway, asked)
    assert answer.status == 200, answer.data
    assert json.loads(answer.body) == {"method": sent[0], "query": sent[1]}


def test_it_stands_behind_the_base_path_of_the_upstream(origin, start_gateway):
    config = {"routes": {"files": {"upstream": origin.url + "/file", "auth": AUTH}}}
    assert ask(start_gateway(config, environment=VARIABLES), "/files/photos/1.jpg").status == 200
    assert origin.last().target == f"/file{PATH}/photos/1.jpg"


def test_an_upstream_of_http2_gets_the_same(make_http2_origin, start_gateway):
    origin = make_http2_origin()
    gateway = start_gateway(route(origin, protocol="http2"), environment=VARIABLES)
    assert ask(gateway).status == 200
    assert [stream.path for stream in origin.requests] == [PATH + "/getMe"]


LINKS = {
    f"{PATH}/next": "/api/next",
    f"{PATH.replace(':', '%3A')}/next?a=1#top": "/api/next?a=1#top",
    f"https://elsewhere.example{PATH}/next": "https://elsewhere.example/next",
    PATH: "/api/",
    f"/other/{TOKEN}/next": None,
    f"/next?token={TOKEN}": None,
    f"{PATH}//elsewhere.example/": None,
}


@pytest.mark.parametrize("field", ["Location", "Content-Location", "Link"])
@pytest.mark.parametrize("uri", LINKS)
def test_links_lead_back_through_the_route_and_hide_the_token(make_origin, start_gateway, field, uri):
    form = "<{}>; rel=next" if field == "Link" else "{}"
    origin = make_origin(lambda request: response(302, b"moved", f"{field}: {form.format(uri)}"))
    answer = ask(start_gateway(route(origin, rewrite={"links": True}), environment=VARIABLES))
    expected = LINKS[uri]
    assert answer.values(field.lower()) == ([] if expected is None else [form.format(expected)])
    assert CANARY.encode() not in answer.data


def test_a_tunnel_has_it_too_and_its_answer_hides_it(make_script, start_gateway):
    def steps(wire, number):
        target = wire.head().split(b" ")[1].decode()
        assert target == PATH + "/chat"
        fields = f"Connection: Upgrade\r\nUpgrade: chat\r\nContent-Location: {target}\r\n"
        wire.send(f"HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n".encode())
        wire.to_end()

    gateway = start_gateway(route(make_script(steps)), environment=VARIABLES)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: Upgrade", "Upgrade: chat", path="/api/chat"))
        head = client.head()
    assert head.startswith(b"HTTP/1.1 101 ") and CANARY.encode() not in head, head


def test_nobody_is_shown_the_token(make_origin, start_gateway):
    gateway = start_gateway(route(make_origin(bots)), environment=VARIABLES)
    assert ask(gateway).status == 200
    explained = gateway.run("explain", gateway.url + "/api/getMe")
    assert "/bot{token}/getMe" in explained.stdout, explained
    shown = [explained, gateway.run("audit", "query", "--requests"), gateway.run("status"), gateway.run("plan")]
    assert all(CANARY not in one.stdout + one.stderr for one in shown)
    gateway.stop()
    assert CANARY not in gateway.text()


def test_an_upstream_that_is_away_does_not_show_it_either(origin, start_gateway):
    gateway = start_gateway(route(origin), environment=VARIABLES)
    origin.stop()
    answer = ask(gateway)
    assert answer.status == 502 and json.loads(answer.body)["code"] == "upstream-unreachable", answer.data
    assert CANARY.encode() not in answer.data
    assert CANARY not in gateway.text()


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"path": "/bot"}, "path: must contain {{token}} once"),
        ({"path": "bot{{token}}"}, "path: expected a path"),
        ({"path": "/{{token}}", "value": ".."}, "value: it is empty or made of dots"),
        ({"scheme": "Bearer"}, "scheme: cannot be combined with"),
    ],
)
def test_a_path_that_could_mean_another_is_refused(make_gateway, origin, changes, words):
    config = {"routes": {"api": {"upstream": origin.url, "auth": {**AUTH, **changes}}}}
    checked = make_gateway(config, environment=VARIABLES).run("check")
    assert checked.returncode == 3 and words in checked.stderr, checked


def test_a_token_that_is_renewed_goes_there_with_apply(token_server, origin, start_gateway):
    token_server.answer = lambda asked, token: (200, {}, json.dumps({"access_token": f"{CANARY}-{token_server.count()}"}))
    recipe = {
        "strategy": "recipe",
        "acquire": [{"method": "GET", "url": token_server.url + "/token", "outputs": {"token": "/access_token"}}],
        "apply": {"path": "/v1/{{token}}/x"},
    }
    config = {"credentials": {"me": recipe}, "routes": {"api": {"upstream": origin.url, "auth": "me"}}}
    gateway = start_gateway(config)
    for number in (1, 2):
        assert ask(gateway, "/api/y?z=1").status == 200
        assert origin.last().target == f"/v1/{CANARY}-{number}/x/y?z=1"
        assert gateway.run("token", "refresh", "me").returncode == 0

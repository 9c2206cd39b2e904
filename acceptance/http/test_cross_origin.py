"""Pages of listed origins may call (CORS): the gateway answers their browsers, and says which page may read a response."""

import pytest
from harness import raw
from harness.configs import BEARER
from harness.origin import response
from harness.script import get

PAGE = "https://app.example.com"
TOKEN = "token-of-the-laptop-1"
#: What an upstream says that lets every page in.
OWN = ["Access-Control-Allow-Origin: *", "access-control-allow-credentials: true", "Access-Control-Max-Age: 86400", "X-Own: 1"]


@pytest.fixture
def gateway(start_gateway, make_origin):
    origin = make_origin(lambda request: response(200, b"ok", *OWN))
    routes = {
        "api": {"upstream": origin.url, "auth": BEARER},
        "web": {"upstream": origin.url, "auth": "none"},
        "own": {"upstream": origin.url, "auth": BEARER, "allow_origins": ["http://localhost:3000"]},
        "closed": {"upstream": origin.url, "auth": BEARER, "allow_origins": []},
    }
    access = {"allow_origins": [PAGE], "clients": {"laptop": {"token": TOKEN}}}
    gateway = start_gateway({"access": access, "routes": routes})
    gateway.origin = origin
    return gateway


def ask(gateway, *fields, path="/api/x", method="GET", proof=True):
    own = (f"Proxy-Authorization: Bearer {TOKEN}",) if proof else ()
    return raw.exchange(gateway.port, get(gateway, "Connection: close", *own, *fields, path=path, method=method))


def of_pages(answer):
    return {name: answer.values(name) for name in ("access-control-allow-origin", "access-control-allow-credentials", "vary")}


def test_a_preflight_is_answered_before_the_client_is_known_and_without_the_upstream(gateway):
    question = (f"Origin: {PAGE}", "Access-Control-Request-Method: DELETE", "Access-Control-Request-Headers: authorization,x-a")
    answer = ask(gateway, *question, method="OPTIONS", proof=False)
    assert (answer.status, answer.body, gateway.origin.count()) == (204, b"", 0)
    assert answer.values("access-control-allow-origin") == [PAGE]
    assert answer.values("access-control-allow-methods") == ["DELETE"]
    assert answer.values("access-control-allow-headers") == ["authorization,x-a"]
    assert answer.values("access-control-allow-credentials") == []
    assert "Origin" in answer.values("vary")[0]


def test_an_options_request_that_asks_for_nothing_goes_on(gateway):
    assert ask(gateway, f"Origin: {PAGE}", method="OPTIONS", proof=False).status == 401
    assert ask(gateway, f"Origin: {PAGE}", method="OPTIONS").status == 200


@pytest.mark.parametrize("path, credentials", [("/api/x", []), ("/web/x", ["true"])])
def test_only_the_gateway_says_which_page_may_read(gateway, path, credentials):
    answer = ask(gateway, f"Origin: {PAGE}", path=path)
    assert of_pages(answer) == {
        "access-control-allow-origin": [PAGE],
        "access-control-allow-credentials": credentials,
        "vary": ["Origin"],
    }
    assert answer.values("access-control-max-age") == [] and answer.values("x-own") == ["1"]
    [exposed] = answer.values("access-control-expose-headers")
    assert {"X-Own", "Gateway-Request-Id", "Proxy-Status"} <= set(exposed.split(", "))
    quiet = ask(gateway, path=path)
    assert of_pages(quiet)["vary"] == ["Origin"] and of_pages(quiet)["access-control-allow-origin"] == []


def test_a_page_can_read_why_it_was_refused(gateway):
    answer = ask(gateway, f"Origin: {PAGE}", proof=False)
    assert answer.status == 401 and answer.values("access-control-allow-origin") == [PAGE]
    gateway.origin.stop()
    broken = ask(gateway, f"Origin: {PAGE}")
    assert broken.status == 502 and broken.values("access-control-allow-origin") == [PAGE]


@pytest.mark.parametrize(
    "path, origin, key",
    [
        ("/api/x", "https://evil.example", b"access.allow_origins"),
        ("/own/x", PAGE, b"allow_origins of the route"),
        ("/closed/x", PAGE, b"allow_origins of the route"),
        ("/api/x", "null", b"Origin: null"),
        ("/nowhere", "https://evil.example", b"access.allow_origins"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_other_pages_are_refused_and_the_answer_names_the_key(gateway, path, origin, key, method):
    answer = ask(gateway, f"Origin: {origin}", "Access-Control-Request-Method: GET", path=path, method=method)
    assert answer.status == 403 and key in answer.body
    assert answer.values("access-control-allow-origin") == [] and gateway.origin.count() == 0


def test_a_route_may_have_a_list_of_its_own(gateway):
    assert ask(gateway, "Origin: http://localhost:3000", path="/own/x").status == 200
    assert ask(gateway, "Origin: http://localhost:3000", path="/api/x").status == 403


def test_what_an_upstream_says_stays_where_no_page_is_listed(gateway):
    assert ask(gateway, path="/closed/x").values("access-control-allow-origin") == ["*"]
    assert ask(gateway, path="/closed/x").values("vary") == []


@pytest.mark.parametrize("origin", ["*", "null", "app.example.com", "https://app.example.com/"])
def test_a_list_names_each_origin(make_gateway, origin):
    for access, route in (([origin], {}), ([], {"allow_origins": [origin]})):
        routes = {"api": {"upstream": "http://127.0.0.1:1", "auth": BEARER, **route}}
        gateway = make_gateway({"access": {"allow_origins": access}, "routes": routes})
        result = gateway.run("check")
        assert result.returncode != 0 and "https://app.example.com" in result.stderr + result.stdout, result


def test_explain_says_that_the_gateway_answers(gateway):
    text = f"curl -X OPTIONS -H 'Origin: {PAGE}' -H 'Access-Control-Request-Method: PUT' {gateway.url}/api/x"
    told = gateway.run("explain", text).stdout
    assert "Would be answered by the gateway" in told and PAGE in told, told
    refused = gateway.run("explain", text.replace("app.example", "evil.example")).stdout
    assert "access.allow_origins" in refused, refused


@pytest.mark.parametrize(
    ("fields", "proof", "status"),
    [((), True, 200), ((), False, 403), (("Sec-Fetch-Site: same-origin",), True, 403), (("Sec-Fetch-Mode: websocket",), True, 403)],
)
def test_the_listeners_own_origin_needs_a_client_that_is_no_browser(gateway, fields, proof, status):
    """websocket-client sends it."""
    upgrade = ("Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")
    answer = ask(gateway, f"Origin: http://127.0.0.1:{gateway.port}", *upgrade, *fields, proof=proof)
    assert answer.status == status
    assert status == 200 or b"access.allow_origins" in answer.body

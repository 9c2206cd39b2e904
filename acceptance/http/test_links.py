"""URLs of the upstream become URLs of the gateway, so that a client that follows them keeps its credential."""

import shlex

import pytest
from harness import processes
from harness.clients import curl
from harness.configs import BEARER, CANARY
from harness.origin import response


@pytest.fixture
def gateway(origin, start_gateway):
    return start_gateway({"routes": {"api": {"upstream": origin.url + "/base", "auth": BEARER}}})


def answered(gateway, origin, *fields, path="/api/start", **request):
    """What a client gets of these fields; the URL of the upstream stands for `{up}` in them."""
    origin.answer = lambda _: response(201, b"made\n", *(field.format(up=origin.url) for field in fields))
    result = curl("-i", f"{gateway.url}{path}", *request.get("options", ()))
    assert "HTTP/1.1 201" in result.stdout, result
    names = {field.partition(":")[0].lower() for field in fields}
    lines = [line.partition(": ") for line in result.stdout.split("\n\n")[0].splitlines()[1:]]
    return [value for name, _, value in lines if name.lower() in names]


def test_curl_follows_a_redirect_with_the_credential(gateway, origin):
    def answer(request):
        if request.target.endswith("/start"):
            return response(302, b"", f"Location: {origin.url}/base/next?page=2")
        return response(302, b"", "Location: /base/last") if "/next" in request.target else response(200, b"at last\n")

    origin.answer = answer
    result = curl("--location", "--write-out", "%{url_effective}", f"{gateway.url}/api/start")
    assert result.stdout == f"at last\n{gateway.url}/api/last", result
    assert [request.target for request in origin.requests] == ["/base/start", "/base/next?page=2", "/base/last"]
    assert {request.value("authorization") for request in origin.requests} == {f"Bearer {CANARY}"}


def test_each_field_that_has_links(gateway, origin):
    got = answered(
        gateway,
        origin,
        "Location: {up}/base/a?b#c",
        "Content-Location: /base/a",
        'Link: <{up}/base/?page=2>; rel="next", <https://elsewhere.example/>; rel=help',
        "Refresh: 5; url={up}/base/wait",
    )
    url = f"{gateway.url}/api"
    assert got == [
        f"{url}/a?b#c",
        "/api/a",
        f'<{url}/?page=2>; rel="next", <https://elsewhere.example/>; rel=help',
        f"5; url={url}/wait",
    ]


@pytest.mark.parametrize("value", ["https://elsewhere.example/base/a", "/api/a", "a?b", "http://user@127.0.0.1/base", "a b"])
def test_what_is_no_link_to_the_route_stays(gateway, origin, value):
    assert answered(gateway, origin, f"Location: {value}") == [value]


def test_a_link_out_of_the_route_does_not_lead_to_another_route(gateway, origin):
    assert answered(gateway, origin, "Location: /other/a") == [f"{origin.url}/other/a"]


def test_a_route_with_another_credential_is_not_linked(start_gateway, make_origin):
    one, same, other = make_origin(), make_origin(), make_origin()
    routes = {
        "one": {"upstream": one.url, "auth": "shared"},
        "same": {"upstream": same.url, "auth": "shared"},
        "other": {"upstream": other.url, "auth": {"strategy": "bearer", "token": CANARY + "-2"}},
    }
    gateway = start_gateway({"credentials": {"shared": BEARER}, "routes": routes})
    assert answered(gateway, one, f"Location: {same.url}/a", path="/one/x") == [f"{gateway.url}/same/a"]
    assert answered(gateway, one, f"Location: {other.url}/a", path="/one/x") == [f"{other.url}/a"]


def test_a_route_may_turn_it_off_and_hosts_need_it_turned_on(start_gateway, origin):
    def get(route, host):
        gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER, **route}}})
        options = ("-H", f"Host: api.localhost:{gateway.port}") if host else ()
        [value] = answered(gateway, origin, "Location: {up}/a", path="/x" if host else "/api/x", options=options)
        return value.replace(str(gateway.port), "GATEWAY")

    assert get({}, host=False) == "http://127.0.0.1:GATEWAY/api/a"
    assert get({}, host=True) == f"{origin.url}/a"
    assert get({"rewrite": {"links": False}}, host=False) == f"{origin.url}/a"
    assert get({"rewrite": {"links": True}}, host=True) == "http://api.localhost:GATEWAY/a"


def test_the_public_url_is_what_clients_see(start_gateway, origin):
    gateway_port, front = processes.free_port(), "https://front.example/gw"
    start_gateway(
        {"routes": {"api": {"upstream": origin.url, "auth": BEARER}}},
        listeners=[{"address": f"127.0.0.1:{gateway_port}", "public_url": front}],
    )

    class Front:
        url = f"http://127.0.0.1:{gateway_port}"

    assert answered(Front, origin, "Location: {up}/a", "Content-Location: /a") == [f"{front}/api/a", "/gw/api/a"]


def moved(gateway, origin, destination, path="/api/a", method="MOVE"):
    """The `Destination` that the upstream got; the status of the gateway's own answer where it got no request."""
    count = origin.count()
    result = curl("-i", "--request", method, "-H", f"Destination: {destination}", f"{gateway.url}{path}")
    if origin.count() > count:
        return origin.last().value("destination")
    assert "route-forbidden" in result.stdout, result
    return int(result.stdout.split()[1])


def test_a_destination_names_the_upstream(gateway, origin):
    assert moved(gateway, origin, f"{gateway.url}/api/b%20c") == f"{origin.url}/base/b%20c"
    assert moved(gateway, origin, f"{gateway.url}/api/dir%2Ffile") == f"{origin.url}/base/dir%2Ffile"
    assert moved(gateway, origin, "/api/b") == "/base/b"
    assert moved(gateway, origin, f"{origin.url}/base/b") == f"{origin.url}/base/b"


def test_a_destination_that_leads_nowhere_stays(start_gateway, origin):
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER}}})
    for value in (f"{gateway.url}/other/b", "https://elsewhere.example/api/b"):
        assert moved(gateway, origin, value) == value


@pytest.mark.parametrize(
    "destination",
    [
        "{up}/outside", "/outside", "{up}/base/../outside", "{up}/base/..%2Foutside", "{up}/base/%2e%2e/outside", "{up}/baseline",
        "{gw}/api/..%2F..%2Foutside", "{gw}/other/b", "https://elsewhere.example/base/b", "//elsewhere.example/base/b", "b",
    ],
)  # fmt: skip
def test_a_destination_is_below_the_path_of_the_route(gateway, origin, destination):
    assert moved(gateway, origin, destination.format(up=origin.url, gw=gateway.url)) == 403


def test_a_destination_needs_a_rule_for_the_method(start_gateway, origin):
    """To the upstream it is a second path, which the credential opens as well."""
    allow = [{"methods": ["COPY"], "path": "/public/**"}, {"methods": ["MOVE"], "path": "/public/*"}]
    routes = {
        "dav": {"upstream": origin.url, "auth": BEARER, "allow": allow},
        "all": {"upstream": origin.url, "auth": {**BEARER, "token": f"{CANARY}-2"}},
    }
    gateway = start_gateway({"routes": routes})

    def copied(destination, method="COPY"):
        return moved(gateway, origin, destination, path="/dav/public/a", method=method)

    assert copied(f"{gateway.url}/dav/public/b/c") == f"{origin.url}/public/b/c"
    assert copied(f"{origin.url}/public/b") == f"{origin.url}/public/b"
    for place in ("/admin/b", f"{origin.url}/admin/b", f"{gateway.url}/dav/admin/b", f"{gateway.url}/all/admin/b"):
        assert copied(place) == 403, place
    for path in ("public/..%2Fadmin", "public/%2e%2e/admin", "public//b", "public/b;c", "publicity"):
        assert copied(f"{gateway.url}/dav/{path}") == 403, path
    # The rule that allows a method is the one that counts.
    assert copied(f"{gateway.url}/dav/public/b", "MOVE") == f"{origin.url}/public/b"
    assert copied(f"{gateway.url}/dav/public/b/c", "MOVE") == copied(f"{gateway.url}/dav/public/b%2Fc", "MOVE") == 403
    # Two of them have no one meaning.
    both = ("-H", "Destination: /dav/public/b", "-H", "Destination: /dav/public/c")
    assert "403" in curl("-i", "-X", "COPY", *both, f"{gateway.url}/dav/public/a").stdout.splitlines()[0]
    said = gateway.run("explain", shlex.join(["curl", "-X", "COPY", "-H", "Destination: /admin/b", f"{gateway.url}/dav/public/a"]))
    assert "The route dav does not allow this method and Destination." in said.stdout, said


def test_cookies_stay_with_the_route(start_gateway, origin):
    gateway = start_gateway({"routes": {"app": {"upstream": origin.url, "auth": "none"}}})
    got = answered(gateway, origin, "Set-Cookie: s=1; Path=/; Domain=127.0.0.1", "Set-Cookie: t=2", path="/app")
    assert got == ["s=1; Path=/app", "t=2; Path=/app"]


def test_explain_shows_the_destination(gateway, origin):
    words = ["curl", "-X", "MOVE", "-H", f"Destination: {gateway.url}/api/b", f"{gateway.url}/api/a"]
    result = gateway.run("explain", shlex.join(words))
    assert f"{origin.url}/base/b" in result.stdout, result

"""What `check` says of listeners for engines and of routes that hand something to them."""

import pytest
from harness.configs import BEARER, CANARY
from harness.gateway import Gateway

ENTRY = {"address": "127.0.0.1:8191", "engine": "edge", "contract": "nginx", "token": CANARY + "-engine-token"}
ROUTE = {"upstream": "https://api.example.com", "auth": BEARER, "authz": ["edge"]}


def without(*names):
    return {name: value for name, value in ENTRY.items() if name not in names}


def check(tmp_path, engines, **route):
    gateway = Gateway(tmp_path / "gateway", {"authz": engines, "routes": {"api": ROUTE | route}})
    result = gateway.run("check")
    assert CANARY not in result.stdout + result.stderr
    return result.returncode, result.stdout + result.stderr


def test_a_good_one_is_shown(tmp_path):
    more = [ENTRY | {"cache": "10s"}]
    code, said = check(tmp_path, more)
    assert code == 0, said
    plan = Gateway(tmp_path / "gateway", {"authz": more, "routes": {"api": ROUTE}}).run("plan").stdout
    assert "127.0.0.1:8191, engine edge, contract nginx, cache 10s" in plan
    assert "authz" in plan and "[edge]" in plan


@pytest.mark.parametrize(
    "authz, words",
    [
        ([without("engine")], ["engine"]),
        ([without("contract")], ["contract"]),
        ([without("token")], ["does not authenticate its engine"]),
        ([without("token", "address") | {"unix": "./a.sock"}], ["does not authenticate its engine", "allow_users"]),
        ([without("address")], ["exactly one of address and unix"]),
        ([ENTRY | {"contract": "apache"}], ["expected one of envoy, nginx, forward_auth"]),
        ([ENTRY | {"engine": "no name"}], ["a name has at most 64 letters"]),
        ([ENTRY | {"token": "short"}], ["fewer than 16 bytes"]),
        ([ENTRY | {"address": "192.0.2.1:8191"}], ["whole tokens would be sent in clear"]),
        ([ENTRY | {"path_prefix": "/authz"}], ["is for \"contract: envoy\""]),
        ([ENTRY | {"contract": "envoy", "path_prefix": "authz/"}], ["expected a path such as /authz"]),
        ([ENTRY | {"token": [CANARY + "-new-token", "short"]}], ["fewer than 16 bytes"]),
        ([ENTRY | {"token": [CANARY + f"-token-{number}" for number in range(3)]}], ["expected 1 to 2 secrets"]),
        ([ENTRY | {"certificates": ["edge.example.com"]}], ["is for addresses with tls.client_ca"]),
        ([ENTRY | {"certificates": ["*.example.com"]}], ["expected a name of the certificate"]),
        ([ENTRY, ENTRY | {"address": "127.0.0.1:8192"}], ["another listener has this engine"]),
        ([ENTRY, ENTRY | {"engine": "other"}], ["two listeners have this address"]),
        ([ENTRY | {"intercept": True}], ["intercept"]),
        ([ENTRY | {"cache": "2h"}], ["must be between 1s and 1h"]),
        ([ENTRY | {"allow_users": ["root"]}], ["is for unix sockets only"]),
    ],
)
def test_mistakes_of_listeners_are_named(tmp_path, authz, words):
    gateway = Gateway(tmp_path / "gateway", {"routes": {"api": ROUTE}})
    listeners = {"proxy": [{"address": f"127.0.0.1:{gateway.port}"}], "authz": authz}
    gateway.configure({"routes": {"api": ROUTE}, "listeners": listeners})
    result = gateway.run("check")
    said = result.stdout + result.stderr
    assert result.returncode == 3, said
    for word in words:
        assert word in said, said
    assert CANARY not in said


@pytest.mark.parametrize(
    "route, words",
    [
        ({"authz": ["egde"]}, ["no engine is named \"egde\"", "edge"]),
        ({"auth": "none"}, ["no credential that can be handed to an engine"]),
        ({"auth": {"strategy": "header", "query": "key", "value": CANARY}}, ["puts its credential into the URL"]),
        (
            {"auth": {"strategy": "basic", "username": "me", "password": CANARY, "mode": "challenge"}},
            ["once the upstream has asked for it", "mode: challenge"],
        ),
        ({"auth": {"strategy": "registry", "realm_hosts": ["auth.example.com"], "username": "me", "password": CANARY}}, ["needs the challenge"]),
    ],
)
def test_routes_say_what_an_engine_cannot_be_handed(tmp_path, route, words):
    code, said = check(tmp_path, [ENTRY], **route)
    assert code == 3, said
    for word in words:
        assert word in said, said


def test_an_engine_without_a_route_is_a_warning(tmp_path):
    code, said = check(tmp_path, [ENTRY, ENTRY | {"engine": "idle", "address": "127.0.0.1:8192"}])
    assert "no route hands anything to idle" in said, said
    assert code == 0, said

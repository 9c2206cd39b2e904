"""How an engine says which request it asks about, and what it is handed or refused."""

import pytest
from harness.configs import BEARER, CANARY
from harness.engine import FIELDS, Engine

CONTRACTS = ["nginx", "forward_auth", "envoy"]
#: nginx passes no other status on than 401 and 403.
FORBIDDEN = {"nginx": {}, "forward_auth": {"no-route": 404, "request-refused": 400, "target-too-long": 414}}
FORBIDDEN["envoy"] = FORBIDDEN["forward_auth"]


@pytest.fixture(params=CONTRACTS)
def engine(request):
    return Engine(contract=request.param)


@pytest.fixture
def gateway(engine, origin, start_gateway):
    allow = [{"methods": ["GET"], "path": "/files/**"}]
    return start_gateway(
        {
            "authz": [engine.entry],
            "routes": {
                "api": {"upstream": origin.url, "auth": BEARER, "authz": ["edge"]},
                "ruled": {"upstream": origin.url, "auth": BEARER, "authz": ["edge"], "allow": allow},
                "closed": {"upstream": origin.url, "auth": BEARER},
                "named": {
                    "upstream": origin.url,
                    "auth": {"strategy": "header", "name": "X-Api-Key", "value": CANARY},
                    "headers": {"set": {"X-Tenant": "acme"}, "remove": ["X-Debug"]},
                    "authz": ["edge"],
                    "match": {"hosts": ["named.example"]},
                },
            },
        }
    )


def test_it_is_handed_the_fields_of_the_credential(engine, gateway, origin):
    for method in ("GET", "HEAD", "POST", "DELETE", "OPTIONS"):
        answer = engine.ask(method)
        assert (answer.status, answer.headers["Authorization"]) == (200, f"Bearer {CANARY}"), method
        assert answer.headers["Cache-Control"] == "no-store" and answer.headers["Date"] and not answer.body
        assert answer.generation is None, "nothing newer can be had of a token that stays"
    assert origin.count() == 0


def test_every_field_of_the_route_is_handed_out(engine, gateway):
    answer = engine.ask(target="/any?x=y", host="named.example")
    assert (answer.status, answer.headers["X-Api-Key"], answer.headers["X-Tenant"]) == (200, CANARY, "acme")
    removed = answer.headers["X-Envoy-Auth-Headers-To-Remove"]
    if engine.contract == "envoy":
        assert {"authorization", "x-debug", "x-gw-engine-token"} <= set(removed.split(", "))
        assert "x-api-key" not in removed
    else:
        assert removed is None


@pytest.mark.parametrize(
    "question, code",
    [
        ({"target": "/none"}, "no-route"),
        ({"target": "/closed/x"}, "route-forbidden"),
        ({"target": "/ruled/users"}, "route-forbidden"),
        ({"target": "/ruled/files/1", "method": "PUT"}, "route-forbidden"),
        ({"target": "/ruled/files/../users"}, "request-refused"),
        ({"target": "/ruled/files/%2e%2e/users"}, "request-refused"),
        ({"target": "/api/a%2Fb"}, "request-refused"),
        ({"target": "/api/a%2eb"}, "request-refused"),
        ({"target": "/api/x", "headers": {"Origin": "https://evil.example"}}, "origin-refused"),
        ({"target": "/api/x", "headers": {"Sec-Fetch-Site": "cross-site"}}, "origin-refused"),
        ({"target": "/ruled/files/1", "headers": {"X-HTTP-Method-Override": "DELETE"}}, "route-forbidden"),
    ],
)
def test_rules_count_as_on_a_proxy_listener(engine, gateway, problem, question, code):
    answer = engine.ask(**question)
    assert problem(answer) == code
    assert answer.status == FORBIDDEN[engine.contract].get(code, 403)
    assert CANARY not in str(answer.headers)


def test_the_fields_of_a_client_are_without_effect(engine, gateway):
    fields = {
        "X-Gw-Generation": "7.0123456789abcdef0123456789abcdef",
        "X-Gw-Rejected-Generation": "7.0123456789abcdef0123456789abcdef",
        "X-Gw-Remove": "authorization",
    }
    other = FIELDS["forward_auth" if engine.contract != "forward_auth" else "nginx"]
    fields |= dict(zip(other, ("DELETE", "/closed/x", "evil.example", "https"), strict=True))
    answer = engine.ask(headers=fields)
    assert (answer.status, answer.headers["Authorization"]) == (200, f"Bearer {CANARY}")


def test_content_is_ignored_and_bounded(engine, gateway):
    connection = engine.connect()
    for size in (1, 100_000):
        assert engine.ask("POST", body=b"x" * size, connection=connection).status == 200
    assert engine.ask(connection=connection).status == 200, "the connection goes on"
    assert engine.ask("POST", body=b"x" * 1_048_576).status == 200
    for size in (1_048_577, 2_000_000):
        assert engine.ask("POST", body=b"x" * size).status == 413


def test_many_ask_on_one_connection(engine, gateway):
    connection = engine.connect()
    assert [engine.ask(connection=connection).status for _ in range(50)] == [200] * 50


@pytest.mark.parametrize("contract", ["nginx", "forward_auth"])
@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("change", ["missing", "empty", "twice"])
def test_a_field_of_the_contract_is_there_once(contract, index, change, origin, start_gateway):
    engine = Engine(contract=contract)
    start_gateway(
        {"authz": [engine.entry], "routes": {"api": {"upstream": origin.url, "auth": BEARER, "authz": ["edge"]}}}
    )
    name = FIELDS[contract][index]
    lines = [f"{found}: {value}" for found, value in engine.fields().items() if change != "missing" or found != name]
    if change == "empty":
        lines = [f"{name}:" if line.startswith(name + ":") else line for line in lines]
    if change == "twice":
        lines.append(f"{name.lower()}: /api/x")
    said = engine.lines("GET /ask HTTP/1.1", "Host: a", f"X-Gw-Engine-Token: {engine.token}", *lines)
    assert said.startswith("HTTP/1.1 403 " if contract == "nginx" else "HTTP/1.1 400 ")
    assert name in said and "request-refused" in said and CANARY not in said


def test_a_path_prefix_is_taken_away(origin, start_gateway, problem):
    engine = Engine(contract="envoy", path_prefix="/authz")
    start_gateway(
        {"authz": [engine.entry], "routes": {"api": {"upstream": origin.url, "auth": BEARER, "authz": ["edge"]}}}
    )
    assert engine.ask(target="/authz/api/x").status == 200
    assert problem(engine.ask(target="/api/x")) == "request-refused"


def test_the_host_of_the_upstream_finds_its_route(origin, start_gateway):
    """As it does for clients that take the gateway for their proxy."""
    engine = Engine()
    start_gateway(
        {"authz": [engine.entry], "routes": {"api": {"upstream": origin.url, "auth": BEARER, "authz": ["edge"]}}}
    )
    host = origin.url.removeprefix("http://")
    assert engine.ask(target="/any", host=host, scheme="http").status == 200
    assert engine.ask(target="/any", host="other.example", scheme="http").status == 403


def test_an_answer_is_kept_no_longer_than_is_said(origin, start_gateway, issuer):
    engine = Engine(cache="10s")
    start_gateway(
        {
            "authz": [engine.entry],
            "credentials": {"me": issuer.credential()},
            "routes": {"api": {"upstream": origin.url, "auth": "me", "authz": ["edge"]}},
        }
    )
    answer = engine.ask()
    assert answer.headers["Cache-Control"] == "private, max-age=10" and answer.headers["X-Accel-Expires"] == "10"
    varying = {name.lower() for name in answer.headers["Vary"].split(", ")}
    asked = {"x-original-method", "x-original-uri", "x-original-host", "x-original-proto", "x-gw-route"}
    assert asked | {"authorization", "proxy-authorization", "origin", "sec-fetch-site", "via"} <= varying


def test_an_answer_varies_by_what_the_route_reads(origin, start_gateway, token_server):
    """The field of the subject, and the one in which an SDK presents its client token."""
    engine = Engine(cache="10s")
    users = {
        "strategy": "delegated",
        "url": token_server.url + "/token?id={{unique_id}}",
        "unique_id": {"header": "X-User", "regex": "[0-9]+"},
    }
    keyed = {"strategy": "header", "name": "X-Api-Key", "value": CANARY}
    start_gateway(
        {
            "authz": [engine.entry],
            "credentials": {"user": users},
            "routes": {
                name: {"upstream": origin.url, "auth": auth, "authz": ["edge"]}
                for name, auth in (("users", "user"), ("keyed", keyed))
            },
        }
    )
    for target, headers, name in (("/users/x", {"X-User": "42"}, "x-user"), ("/keyed/x", {}, "x-api-key")):
        answer = engine.ask(target=target, headers=headers)
        assert answer.status == 200, answer.body
        assert name in answer.headers["Vary"].split(", ")

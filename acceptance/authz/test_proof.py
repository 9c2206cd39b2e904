"""Who may ask: whole tokens leave here."""

import pytest
import requests
from harness.configs import BEARER, CANARY
from harness.engine import TOKEN, Engine
from harness.other_user import CLOSED_OUT, LET_IN
from harness.events import wait_for_events

LAPTOP = CANARY + "-client-laptop"
OTHER = CANARY + "-client-other"


def config(origin, *engines, known=None, **route):
    return {
        "authz": [engine.entry for engine in engines],
        **({"access": {"clients": {name: {"token": token} for name, token in known.items()}}} if known else {}),
        "routes": {
            "api": {
                "upstream": origin.url, "auth": BEARER, "authz": [engine.name for engine in engines], **route,
            }
        },
    }


@pytest.mark.parametrize("proof", [None, "", "x", TOKEN[:-1], TOKEN + "x", TOKEN.lower()])
def test_an_engine_without_its_token_is_told_nothing(origin, start_gateway, problem, proof):
    engine = Engine()
    gateway = start_gateway(config(origin, engine))
    for target in ("/api/x", "/none"):
        answer = engine.ask(target=target, proof=False, headers={"X-Gw-Engine-Token": proof})
        assert (answer.status, problem(answer)) == (401, "engine-auth-required")
        assert CANARY not in str(answer.headers) + answer.body.decode()
    # Before the contract is looked at.
    answer = engine.ask(proof=False, headers={name: None for name in engine.fields()})
    assert answer.status == 401
    wait_for_events(gateway, "client_denied")


def test_two_tokens_count_while_one_takes_the_place_of_the_other(origin, start_gateway):
    engine = Engine(token=[TOKEN, CANARY + "-engine-token-old"])
    start_gateway(config(origin, engine))
    engine.token = TOKEN
    assert engine.ask().status == 200
    assert engine.ask(headers={"X-Gw-Engine-Token": CANARY + "-engine-token-old"}).status == 200
    assert engine.ask(headers={"X-Gw-Engine-Token": CANARY + "-engine-token-new"}).status == 401


def test_a_reload_changes_the_token(origin, start_gateway):
    engine = Engine()
    gateway = start_gateway(config(origin, engine))
    connection = engine.connect()
    assert engine.ask(connection=connection).status == 200
    later = Engine(token=CANARY + "-another-token")
    later.port = engine.port
    later.entry["address"] = engine.entry["address"]
    gateway.configure(config(origin, later))
    changed = gateway.run("reload")
    assert changed.returncode == 0 and "listeners.authz.edge changed" in changed.stdout, changed.stdout + changed.stderr
    assert engine.ask(connection=connection).status == 401, "also on a connection that was open before"
    assert later.ask().status == 200


def test_an_engine_asks_at_its_own_listener(origin, start_gateway, problem):
    edge, inner = Engine(), Engine("inner", token=CANARY + "-inner-engine")
    settings = config(origin, edge, inner)
    settings["routes"]["api"]["authz"] = ["inner"]
    start_gateway(settings | {"routes": settings["routes"] | {"more": settings["routes"]["api"] | {"authz": ["edge"]}}})
    assert inner.ask().status == 200
    assert problem(edge.ask()) == "route-forbidden"
    assert edge.ask(headers={"X-Gw-Engine-Token": inner.token}).status == 401


def test_a_unix_socket_knows_its_users(origin, start_gateway, short_folder, other_users):
    friend, stranger = other_users
    engine = Engine(contract="envoy", unix=short_folder / "a.sock", token=None, allow_users=[str(friend.number)])
    start_gateway(config(origin, engine))
    assert engine.ask().status == 200, "the gateway's own user"
    assert friend.get(engine.unix, "/api/x") in LET_IN
    assert stranger.get(engine.unix, "/api/x") in CLOSED_OUT


# MARK: Clients


def test_a_client_is_known_by_its_own_authorization(origin, start_gateway, problem):
    engine = Engine()
    gateway = start_gateway(config(origin, engine, known={"laptop": LAPTOP, "other": OTHER}, clients=["laptop"]))
    for fields, status, code in [
        ({}, 401, "client-auth-required"),
        ({"Authorization": "Bearer wrong"}, 401, "client-auth-required"),
        ({"Authorization": f"Bearer {OTHER}"}, 403, "route-forbidden"),
    ]:
        answer = engine.ask(headers=fields)
        assert (answer.status, problem(answer)) == (status, code)
        assert CANARY not in str(answer.headers)
    answer = engine.ask(headers={"Authorization": f"Bearer {LAPTOP}"})
    assert (answer.status, answer.headers["Authorization"]) == (200, f"Bearer {CANARY}")
    wait_for_events(gateway, "handed_out")
    (event,) = gateway.events("--event", "handed_out")
    assert (event["client"], event["route"], event["detail"]["engine"]) == ("laptop", "api", "edge")


def test_names_are_for_known_clients(origin, start_gateway):
    """An engine passes an answer on to anybody."""
    engine = Engine()
    start_gateway(config(origin, engine))
    body = engine.ask(target="/none").body.decode()
    assert "/api" not in body


def test_the_limits_of_a_client_count(origin, start_gateway):
    engine = Engine(contract="forward_auth")
    settings = config(origin, engine, known={"laptop": LAPTOP})
    settings["access"]["clients"]["laptop"]["limits"] = {"per_second": 5}
    start_gateway(settings)
    fields = {"Authorization": f"Bearer {LAPTOP}"}
    statuses = [engine.ask(headers=fields).status for _ in range(12)]
    assert statuses[:5] == [200] * 5 and 429 in statuses


# MARK: Records


def test_each_answer_is_counted_and_has_a_line(origin, make_gateway):
    engine = Engine()
    gateway = make_gateway(config(origin, engine)).start("--access-log")
    for _ in range(3):
        engine.ask()
    engine.ask(target="/none")
    engine.ask(proof=False)
    metrics = requests.get(gateway.admin_url + "/metrics", timeout=10).text
    assert 'gateway_engine_answers_total{engine="edge",outcome="handed_out"} 3' in metrics
    assert 'gateway_engine_answers_total{engine="edge",outcome="refused"} 1' in metrics
    assert 'gateway_engine_answers_total{engine="edge",outcome="unproven"} 1' in metrics
    assert 'gateway_requests_total{route="api"' not in metrics, "the gateway forwards nothing"
    assert len(gateway.events("--event", "handed_out")) == 1, "the first of its generation"
    gateway.stop()
    assert gateway.text().count("Engine answered") == 5


# MARK: Certificates


@pytest.mark.parametrize(
    "names, asks_for_token, shown, status",
    [
        (["edge.example.com"], False, "edge", 200),
        (["spiffe://example.org/edges/*"], False, "spiffe", 200),
        (["edge.example.com"], True, "edge", 200),
        (["edge.example.com"], False, "spiffe", 401),
        (["spiffe://example.org/edges/two"], False, "spiffe", 401),
        (["edge.example.com"], True, "edge-without-token", 401),
    ],
)
def test_an_engine_shows_its_certificate(
    origin, start_gateway, certificate_authority, names, asks_for_token, shown, status
):
    def issue(name, alternative_names, usage="clientAuth"):
        certificate, key = certificate_authority.issue(name, alternative_names, usage=usage)
        key.chmod(0o600)
        return str(certificate), str(key)

    certificate, key = issue("authz-gateway", "IP:127.0.0.1", "serverAuth")
    engines = {
        "edge": issue("authz-edge", "DNS:edge.example.com"),
        "spiffe": issue("authz-spiffe", "URI:spiffe://example.org/edges/one"),
    }
    authority = str(certificate_authority.certificate)
    tls = {"certificate": certificate, "private_key": {"file": key}, "client_ca": authority}
    engine = Engine(token=TOKEN if asks_for_token else None, tls=tls, certificates=names)
    start_gateway(config(origin, engine))
    fields = engine.fields() | ({"X-Gw-Engine-Token": TOKEN} if asks_for_token and shown == "edge" else {})
    url = f"https://127.0.0.1:{engine.port}/ask"
    with requests.Session() as session:
        session.trust_env = False
        answer = session.get(url, headers=fields, verify=authority, cert=engines[shown.partition("-")[0]], timeout=20)
        assert answer.status_code == status, answer.text
        if status == 200:
            assert answer.headers["Authorization"] == f"Bearer {CANARY}"
        with pytest.raises((requests.exceptions.SSLError, requests.exceptions.ConnectionError)):
            requests.get(url, headers=fields, verify=authority, timeout=20)

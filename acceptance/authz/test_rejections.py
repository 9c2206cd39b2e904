"""A second call, after the upstream has rejected what the engine was handed; and tokens that an operator takes away."""

import concurrent.futures
import contextlib
import http.client
import threading

import pytest
import requests
from harness.configs import CANARY
from harness.engine import Engine


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def gateway(engine, origin, start_gateway, issuer):
    other = Engine("other", token=CANARY + "-other-engine")
    engine.other = other
    return start_gateway(
        {
            "authz": [engine.entry, other.entry],
            "credentials": {"me": issuer.credential(), "more": issuer.credential() | {"client_id": "more"}},
            "routes": {
                "api": {"upstream": origin.url, "auth": "me", "authz": ["edge", "other"]},
                "more": {"upstream": origin.url, "auth": "more", "authz": ["edge"]},
            },
        }
    )


def rejected(generation):
    return {"X-Gw-Rejected-Generation": generation}


def test_a_hundred_calls_cause_one_renewal(engine, gateway, issuer):
    first = engine.ask()
    assert first.headers["Authorization"] == "Bearer token-1" and first.generation.startswith("1.")
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(lambda _: engine.ask(headers=rejected(first.generation)), range(100)))
    assert {answer.status for answer in answers} == {200}
    assert {answer.headers["Authorization"] for answer in answers} == {"Bearer token-2"}
    assert issuer.count == 2
    assert len({answer.generation for answer in answers}) == 1
    metrics = requests.get(gateway.admin_url + "/metrics", timeout=10).text
    assert 'gateway_engine_answers_total{engine="edge",outcome="renewed"} 100' in metrics


def test_a_generation_of_before_brings_the_present_one(engine, gateway, issuer):
    first = engine.ask()
    second = engine.ask(headers=rejected(first.generation))
    third = engine.ask(headers=rejected(first.generation))
    assert second.headers["Authorization"] == third.headers["Authorization"] == "Bearer token-2"
    assert issuer.count == 2


def test_what_was_not_handed_out_renews_nothing(engine, gateway, issuer):
    first = engine.ask()
    ofother = engine.other.ask().generation
    of_more = engine.ask(target="/more/x").generation
    assert issuer.count == 2
    number, _, code = first.generation.partition(".")
    flipped = ("0" if code[0] != "0" else "1") + code[1:]
    values = ["", "0", "1", number, f"{number}.", f"2.{code}", f"{number}.{flipped}", ofother, of_more, first.generation * 2]
    for value in values:
        answer = engine.ask(headers=rejected(value))
        assert (answer.status, answer.headers["Authorization"]) == (200, "Bearer token-1"), value
    said = engine.lines(
        "GET /ask HTTP/1.1", "Host: a", f"X-Gw-Engine-Token: {engine.token}",
        *(f"{name}: {value}" for name, value in engine.fields().items()),
        f"X-Gw-Rejected-Generation: {first.generation}", f"X-Gw-Rejected-Generation: {first.generation}",
    )
    assert "Bearer token-1" in said, "a client's own value stands beside the engine's"
    assert issuer.count == 2


def test_a_path_that_rejects_every_token_renews_few(engine, gateway, issuer):
    """As behind a proxy listener."""
    for _ in range(20):
        answer = engine.ask()
        engine.ask(headers=rejected(answer.generation))
    assert issuer.count <= 3


def test_a_renewal_that_fails_is_an_outage(engine, gateway, issuer, problem):
    first = engine.ask()
    issuer.fails = True
    answer = engine.ask(headers=rejected(first.generation))
    assert answer.status == 503 and "token" in problem(answer)
    assert "Authorization" not in answer.headers


# MARK: Withdrawal


@pytest.mark.parametrize("command", ["lock", "clear"])
def test_no_answer_has_what_was_taken_away(engine, gateway, issuer, command):
    """From the moment at which the operator is answered."""
    engine.ask()
    stop, late = threading.Event(), []
    answered = threading.Event()

    def ask():
        connection = engine.connect()
        while not stop.is_set():
            was_answered = answered.is_set()
            # An answer that was on its way may be cut.
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                answer = engine.ask(connection=connection)
                if was_answered and answer.headers["Authorization"] == "Bearer token-1":
                    late.append(answer.status)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    result = gateway.run("token", command, "me")
    answered.set()
    assert result.returncode == 0, result.stderr
    threading.Event().wait(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    assert not late


def test_a_lock_ends_who_waits(engine, gateway, issuer, problem):
    assert gateway.run("token", "lock", "me").returncode == 0
    answer = engine.ask()
    assert (answer.status, problem(answer)) == (503, "locked")


def test_a_reload_takes_the_route_from_the_engine(engine, gateway, origin, issuer, problem):
    connection = engine.connect()
    assert engine.ask(connection=connection).status == 200
    gateway.configure(
        {
            "authz": [engine.entry, engine.other.entry],
            "credentials": {"me": issuer.credential()},
            "routes": {"api": {"upstream": origin.url, "auth": "me", "authz": ["other"]}},
        }
    )
    changed = gateway.run("reload")
    assert changed.returncode == 0, changed.stderr
    assert "no route hands anything to edge" in changed.stdout + changed.stderr
    assert problem(engine.ask(connection=connection)) == "route-forbidden"
    assert engine.other.ask().status == 200

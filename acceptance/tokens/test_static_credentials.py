"""API keys, personal tokens and passwords: what an operator sees of them, and what a lock takes away."""

import datetime
import json
import re

import pytest
import requests
from harness import processes
from harness.configs import BEARER, CANARY
from harness.origin import ok, response
from harness.script import connect, get

PASSWORD = {"strategy": "basic", "username": "me", "password": CANARY + "-pw"}


class Upstream:
    """Lets `keys` in; a path with `closed` lets nobody in, and one with `forbidden` answers 403."""

    def __init__(self, make_origin):
        self.keys = None
        self.origin = make_origin(self.answer)
        self.url = self.origin.url

    def answer(self, request):
        if "forbidden" in request.target:
            return response(403)
        sent = request.values("authorization") + request.values("x-api-key")
        if "closed" in request.target or not sent or self.keys is not None and not set(sent) & self.keys:
            return response(401, b"", 'WWW-Authenticate: Basic realm="upstream"')
        return ok(request)

    @property
    def secrets(self):
        """How many requests had one."""
        return sum(bool(request.values("authorization") + request.values("x-api-key")) for request in self.origin.requests)


@pytest.fixture
def upstream(make_origin):
    return Upstream(make_origin)


def config(upstream, **more):
    return {
        "credentials": {
            "openai": {"strategy": "bearer", "token": {"env": "OPENAI_API_KEY"}},
            "eu": {"strategy": "header", "name": "X-Api-Key", "value": {"env": "OPENAI_API_KEY"}},
            "other": {"strategy": "bearer", "token": CANARY + "-other"},
            "reports": {**PASSWORD, "mode": "challenge"},
        },
        "routes": {
            "api": {"upstream": upstream.url, "auth": "openai"},
            "again": {"upstream": upstream.url, "auth": "openai"},
            "eu": {"upstream": upstream.url, "auth": "eu"},
            "other": {"upstream": upstream.url, "auth": "other"},
            "reports": {"upstream": upstream.url, "auth": "reports"},
            "figures": {"upstream": upstream.url, "auth": "reports"},
        },
        **more,
    }


@pytest.fixture
def gateway(upstream, start_gateway):
    return start_gateway(config(upstream), environment={"OPENAI_API_KEY": CANARY})


def status(gateway, path, **headers):
    return requests.get(gateway.url + path, headers=headers, timeout=20).status_code


def token(gateway, name):
    return requests.get(f"{gateway.admin_url}/api/tokens/{name}", timeout=20).json()


def metric(gateway, name, **labels):
    text = requests.get(f"{gateway.admin_url}/metrics", timeout=20).text
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    found = [line for line in text.splitlines() if line.startswith(name + "{") and all(part in line for part in wanted)]
    return [float(line.rsplit(" ", 1)[1]) for line in found]


# Locks


@pytest.mark.parametrize("way", ["with a gateway", "without one"])
def test_a_lock_holds_over_restarts_for_every_route_and_what_has_the_same_secret(gateway, upstream, way):
    assert status(gateway, "/api/x") == status(gateway, "/eu/x") == 200
    if way == "without one":
        gateway.stop()
    locked = gateway.run("token", "lock", "openai")
    assert locked.returncode == 0 and "openai is locked: it is not injected." in locked.stdout, locked
    assert "These have the same secret and are locked, too: eu." in locked.stdout and CANARY not in locked.stdout
    if way == "without one":
        gateway.start()
    upstream.origin.forget()
    for _ in range(2):
        for path in ("/api/x", "/again/x", "/eu/x"):
            answer = requests.get(gateway.url + path, timeout=20)
            assert answer.status_code == 503 and answer.json()["code"] == "locked", answer.text
        assert status(gateway, "/other/x") == 200
        assert upstream.secrets == 1
        upstream.origin.forget()
        gateway.stop()
        gateway.start()
    unlocked = gateway.run("token", "unlock", "eu")
    assert unlocked.returncode == 0 and "eu is unlocked." in unlocked.stdout and "openai" in unlocked.stdout, unlocked
    assert status(gateway, "/api/x") == status(gateway, "/eu/x") == status(gateway, "/again/x") == 200
    rows = [(row["event"], row["credential"]) for row in gateway.events() if row["event"] in ("locked", "unlocked")]
    assert rows == [("locked", "openai"), ("unlocked", "eu")]


def test_a_lock_holds_after_a_reload_and_for_a_credential_that_comes_with_it(gateway, upstream):
    assert gateway.run("token", "lock", "openai").returncode == 0
    changed = config(upstream)
    changed["credentials"]["third"] = {"strategy": "bearer", "token": {"env": "OPENAI_API_KEY"}}
    changed["routes"]["third"] = {"upstream": upstream.url, "auth": "third"}
    changed["routes"]["api"]["headers"] = {"set": {"X-New": "1"}}
    # Another secret under a name that is locked.
    changed["credentials"]["eu"]["value"] = CANARY + "-new"
    gateway.configure(changed)
    assert gateway.run("reload").returncode == 0
    upstream.origin.forget()
    for path in ("/api/x", "/again/x", "/eu/x", "/third/x"):
        assert status(gateway, path) == 503
    assert upstream.origin.count() == 0


@pytest.mark.parametrize("steps", [["new"], ["both", "new"]])
def test_a_locked_secret_stays_locked_under_another_name(gateway, upstream, steps):
    assert gateway.run("token", "lock", "openai").returncode == 0
    changed = config(upstream)
    changed["credentials"]["renamed"] = {"strategy": "bearer", "token": {"env": "OPENAI_API_KEY"}}
    changed["routes"]["renamed"] = {"upstream": upstream.url, "auth": "renamed"}
    for step in steps:
        if step == "new":
            for name in ("openai", "eu"):
                del changed["credentials"][name]
            for name in ("api", "again", "eu"):
                del changed["routes"][name]
        gateway.configure(changed)
        assert gateway.run("reload").returncode == 0
    upstream.origin.forget()
    assert status(gateway, "/renamed/x") == 503
    gateway.stop()
    gateway.start()
    assert status(gateway, "/renamed/x") == 503 and upstream.origin.count() == 0
    assert gateway.run("token", "unlock", "renamed").returncode == 0
    assert status(gateway, "/renamed/x") == 200


def test_a_password_that_is_sent_on_a_challenge_is_locked_on_every_route(gateway, upstream):
    assert status(gateway, "/reports/x") == 200
    assert gateway.run("token", "lock", "reports").returncode == 0
    upstream.origin.forget()
    for path in ("/reports/x", "/figures/x"):
        assert status(gateway, path) == 503
    assert upstream.origin.requests == []
    assert gateway.run("token", "unlock", "reports").returncode == 0
    assert status(gateway, "/reports/x") == status(gateway, "/figures/x") == 200


def test_what_is_under_way_ends_before_the_operator_is_answered(make_script, start_gateway):
    def script(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun")
        wire.to_end()

    origin = make_script(script)
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER}}})
    client = connect(gateway.port)
    client.send(get(gateway))
    client.head()
    assert client.exactly(5) == b"begun"
    locked = gateway.run("token", "lock", "routes.api")
    assert locked.returncode == 0, locked
    client.connection.settimeout(1)
    assert client.to_end() == b"" and client.ended in ("reset", "cut")
    client.close()


def test_everything_is_locked_at_once_and_only_tokens_are_revoked(gateway):
    done = gateway.run("token", "revoke", "--all", "--lock")
    assert done.returncode == 0 and "openai is locked" in done.stdout and "revoked" not in done.stdout, done
    assert {status(gateway, f"/{name}/x") for name in ("api", "eu", "other", "reports")} == {503}


@pytest.mark.parametrize("verb", ["refresh", "revoke", "clear"])
def test_a_static_credential_has_no_token(gateway, verb):
    done = gateway.run("token", verb, "openai")
    assert done.returncode == 1 and "is static" in done.stderr and "can be locked" in done.stderr, done


# What upstreams say


def test_a_credential_that_works_is_listed_with_its_last_acceptance(gateway):
    assert token(gateway, "openai")["state"] == "valid" and "last_accepted_at" not in token(gateway, "openai")
    assert status(gateway, "/api/x") == 200
    known = token(gateway, "openai")
    assert known["state"] == "valid" and known["is_static"] and known["strategy"] == "bearer" and known["last_accepted_at"]
    assert "last_rejected_at" not in known and "OPENAI_API_KEY" in known["secret_origin"]
    shown = gateway.run("status")
    assert shown.returncode == 0 and CANARY not in shown.stdout, shown
    accepted = re.search(r"^openai .*?(20\S+Z)", shown.stdout, re.MULTILINE).group(1)
    # Both are computed from the time of a clock that is not the wall's.
    moments = [datetime.datetime.fromisoformat(moment) for moment in (accepted, known["last_accepted_at"])]
    assert abs(moments[0] - moments[1]) < datetime.timedelta(seconds=1)
    one = gateway.run("status", "openai")
    assert one.returncode == 0 and "the environment variable OPENAI_API_KEY" in one.stdout, one
    assert metric(gateway, "gateway_token_usable", credential="openai") == [1]
    assert metric(gateway, "gateway_credential_accepted_at_seconds", credential="openai")
    assert metric(gateway, "gateway_credential_rejected_at_seconds", credential="openai") == []
    assert "openai" in requests.get(gateway.admin_url, timeout=20).text


def test_a_key_that_is_refused_all_the_time_needs_a_person(gateway, upstream):
    upstream.keys = set()
    for number in range(4):
        assert status(gateway, f"/api/{'ab'[number % 2]}") == 401
    assert gateway.run("status").returncode == 0 and token(gateway, "openai")["state"] == "valid"
    assert status(gateway, "/api/a") == 401
    assert token(gateway, "openai")["state"] == "rejected"
    shown = gateway.run("status")
    assert shown.returncode == 1 and "answered 401 to 5 requests in a row" in shown.stdout, shown
    assert "The secret comes from the environment variable OPENAI_API_KEY (" in shown.stdout and "gateway.yaml:" in shown.stdout
    doctor = gateway.run("doctor", "--offline")
    assert doctor.returncode == 1 and "OPENAI_API_KEY" in doctor.stdout, doctor
    readiness = requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=20)
    assert readiness.status_code == 200 and "openai" in readiness.text
    page = processes.wait_until(
        lambda: "100 % rejected" in (text := requests.get(gateway.admin_url, timeout=20).text) and text, 10, "the page counts them"
    )
    assert "the upstream rejects the secret" in page
    assert metric(gateway, "gateway_token_needs_person", credential="openai") == [1]
    assert metric(gateway, "gateway_credential_rejections_total", route="api") == [5]
    # A report: requests go on, and the first one that is let in ends it.
    upstream.keys = None
    assert status(gateway, "/api/a") == 200
    assert gateway.run("status").returncode == 0 and token(gateway, "openai")["state"] == "valid"


def test_a_path_that_refuses_everybody_says_nothing(gateway):
    assert status(gateway, "/api/x") == 200
    assert {status(gateway, "/api/closed") for _ in range(9)} == {401}
    assert {status(gateway, "/api/forbidden") for _ in range(9)} == {403}
    assert token(gateway, "openai")["state"] == "valid" and token(gateway, "openai")["last_rejected_at"]
    assert gateway.run("status").returncode == 0


def test_a_403_counts_as_long_as_nothing_was_accepted(gateway):
    assert {status(gateway, "/other/forbidden") for _ in range(5)} == {403}
    assert token(gateway, "other")["state"] == "rejected"


def test_a_password_that_the_upstream_does_not_take_is_rejected(gateway, upstream):
    upstream.keys = set()
    assert {status(gateway, "/reports/x") for _ in range(6)} == {401}
    assert token(gateway, "reports")["state"] == "rejected"


def test_one_client_does_not_speak_for_others(upstream, start_gateway):
    clients = {name: {"token": f"token-of-{name}"} for name in ("good", "bad")}
    gateway = start_gateway(config(upstream, access={"clients": clients}), environment={"OPENAI_API_KEY": CANARY})

    def ask(client, path):
        return status(gateway, path, Authorization=f"Bearer token-of-{client}")

    assert ask("good", "/api/x") == 200
    for number in range(12):
        assert ask("bad", f"/api/closed/{'ab'[number % 2]}") == 401
    assert token(gateway, "openai")["state"] == "valid"
    # A path that rejects everybody does not take its word away.
    assert ask("good", "/api/closed/a") == 401
    assert token(gateway, "openai")["state"] == "valid"
    # It is not let in either.
    upstream.keys = set()
    for _ in range(4):
        assert ask("good", "/api/x") == 401
    known = token(gateway, "openai")
    assert known["state"] == "rejected" and "from the client bad" in known["last_error"]


def test_status_as_json_has_the_same(gateway):
    assert status(gateway, "/api/x") == 200
    report = json.loads(gateway.run("status", "--json").stdout)
    [known] = [known for known in report["tokens"] if known["credential"] == "openai"]
    assert known["is_static"] and known["last_accepted_at"]
    health = processes.wait_until(
        lambda: json.loads(gateway.run("status", "--json").stdout)["routes"][0].get("health"), 10, "the answer is counted"
    )
    assert health["rejection_rate"] == 0

"""`POST /tokens/NAME`: tokens for clients of the gateway, and a gateway whose token server is another one."""

import collections
import concurrent.futures
import copy
import sqlite3
import threading

import pytest
import requests
from harness.configs import box_ccg
from harness.origin import ok, response
from harness.processes import wait_until

FILE = "https://api.box.com/2.0/files/1"
WIDGET, OTHER = "widget-token-1", "other-token-2"
CLIENTS = {"widget": {"token": WIDGET}, "other": {"token": OTHER}}


def server(sandbox, **vend):
    box = sandbox["BOX_URL"]
    service = box_ccg(sandbox)
    weaker = {"scopes": ["item_download"], "resource": FILE}
    return {
        "access": {"clients": CLIENTS, "require_client": False},
        "credentials": {
            "service": {**service, "vend": {"clients": ["widget"], "downscope": weaker, **vend}},
            "whole": {**service, "vend": {"clients": ["widget", "other"], "whole_token": True}},
            "private": service,
            "fixed": {"strategy": "bearer", "token": {"env": "SANDBOX_BOX_CLIENT_SECRET"}},
        },
        "routes": {
            "box": {"upstream": box, "auth": "service"},
            "private": {"upstream": box, "auth": "private"},
            "fixed": {"upstream": box, "auth": "fixed"},
        },
    }


@pytest.fixture
def gateway(sandbox, start_gateway):
    return start_gateway(server(sandbox), environment=sandbox.environment)


def ask(gateway, name, token=WIDGET, **fields):
    if token:
        fields["Authorization"] = f"Bearer {token}"
    return requests.post(f"{gateway.admin_url}/tokens/{name}", headers=fields, timeout=30)


def box_says(sandbox, token, path):
    headers = {"Authorization": f"Bearer {token}"}
    return requests.get(sandbox["BOX_URL"] + path, headers=headers, timeout=20, allow_redirects=False).status_code


def test_a_client_is_handed_the_weaker_token_and_the_log_knows_of_it_without_it(sandbox, gateway):
    answer = ask(gateway, "service")
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json()
    assert set(body) == {"access_token", "token_type", "expires_in", "expires_at"}
    assert body["token_type"] == "Bearer" and 60 < body["expires_in"] <= 3600
    assert box_says(sandbox, body["access_token"], "/2.0/files/1/content") == 302
    assert box_says(sandbox, body["access_token"], "/2.0/folders/0/items") == 403
    (event,) = gateway.events("--event", "vended")
    assert (event["credential"], event["client"], event["route"]) == ("service[vend]", "widget", "tokens/service")
    assert (event["trigger"], event["outcome"]) == ("demand", "ok")
    assert len(event["token_fingerprint"]) == 12 and event["expires_at"]
    # It is kept, and renewed as every other: the next one who asks gets the same.
    assert ask(gateway, "service").json()["access_token"] == body["access_token"]
    listed = gateway.run("token", "list").stdout
    assert "service[vend]" in listed
    gateway.stop()
    assert body["access_token"] not in gateway.text()
    for path, content in gateway.files().items():
        assert body["access_token"].encode() not in content, path
        assert WIDGET.encode() not in content, path


def test_the_whole_token_is_handed_out_where_that_is_said(sandbox, gateway):
    token = ask(gateway, "whole", OTHER).json()["access_token"]
    assert box_says(sandbox, token, "/2.0/folders/0/items") == 200


@pytest.mark.parametrize(
    "name, token, status, code",
    [
        ("service", None, 401, "client-auth-required"),
        ("service", "wrong", 401, "client-auth-required"),
        ("nobody", "wrong", 401, "client-auth-required"),
        ("service", OTHER, 403, "route-forbidden"),
        ("private", WIDGET, 404, "no-route"),
        ("fixed", WIDGET, 404, "no-route"),
        ("nobody", WIDGET, 404, "no-route"),
        ("service%5Bvend%5D", WIDGET, 404, "no-route"),
        ("%zz", WIDGET, 404, "no-route"),
    ],
)
def test_who_may_not_have_it_is_told_why(sandbox, gateway, name, token, status, code):
    answer = ask(gateway, name, token)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert sandbox.token_calls("box") == 0
    assert gateway.events("--event", "vended") == []


def test_a_refused_client_is_in_the_audit_log(gateway):
    ask(gateway, "service", OTHER)
    (event,) = wait_until(lambda: gateway.events("--event", "client_denied"), 10, "the event is there")
    assert (event["client"], event["route"], event["error_code"]) == ("other", "tokens/service", "route-forbidden")


def test_the_admin_token_and_client_tokens_do_not_stand_in_for_each_other(gateway):
    admin = (gateway.folder / "state/admin.token").read_text().strip()
    assert ask(gateway, "whole", admin).status_code == 401
    for path in ("/api/tokens/whole/reveal", "/api/reload"):
        fields = {"Authorization": f"Bearer {WIDGET}"}
        assert requests.post(gateway.admin_url + path, headers=fields, timeout=20).status_code == 401


def test_pages_of_other_sites_get_nothing(gateway):
    assert ask(gateway, "whole", **{"Origin": "https://evil.example"}).status_code == 403
    assert ask(gateway, "whole", **{"Host": "evil.example"}).status_code == 421


def test_a_reload_changes_who_gets_it_and_keeps_the_token(sandbox, gateway):
    before = ask(gateway, "service").json()["access_token"]
    assert ask(gateway, "service", OTHER).status_code == 403
    gateway.configure(server(sandbox, clients=["other"]))
    assert gateway.run("reload").returncode == 0
    assert ask(gateway, "service").status_code == 403
    assert ask(gateway, "service", OTHER).json()["access_token"] == before
    assert gateway.events("--event", "loaded") == [], "its keeper is the one from before"
    assert sandbox.token_calls("box") == 2


def test_many_at_once_cause_one_call_and_too_many_are_told_to_wait(sandbox, gateway):
    # So many of one client may wait for a token.
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: ask(gateway, "service"), range(100)))
    statuses = collections.Counter(answer.status_code for answer in answers)
    assert set(statuses) == {200, 503} and statuses[200] >= 60
    assert all(answer.headers["Retry-After"] for answer in answers if answer.status_code == 503)
    # The parent's, and the exchange.
    assert sandbox.token_calls("box") == 2


@pytest.mark.parametrize("name", ["whole", "service"])
def test_a_locked_credential_is_not_handed_out_nor_what_was_made_from_it(gateway, name):
    assert ask(gateway, name).status_code == 200
    assert gateway.run("token", "lock", name).returncode == 0
    answer = ask(gateway, name)
    assert (answer.status_code, answer.json()["code"]) == (503, "locked")


def test_a_credential_that_is_locked_while_somebody_waits_is_not_handed_out(sandbox, gateway):
    # The token that the weaker one is made from is at hand, and the exchange takes its time.
    assert requests.get(gateway.url + "/box/2.0/folders/0/items", timeout=20).status_code == 200
    sandbox.set("box", token_delay_ms=5000)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, gateway, "service")
        wait_until(lambda: sandbox.token_calls("box") == 2, 10, "the exchange")
        assert gateway.run("token", "lock", "service").returncode == 0
        answer = waiting.result()
    assert (answer.status_code, answer.json()["code"]) == (503, "locked"), answer.text
    # It was obtained: what refuses it is the second look.
    assert len(gateway.events("--event", "acquired", "--credential", "service[vend]")) == 1


def remove_client(config):
    del config["access"]["clients"]["widget"]
    for credential in config["credentials"].values():
        if "vend" in credential:
            credential["vend"]["clients"] = ["other"]


def name_another(config):
    config["credentials"]["service"]["vend"]["clients"] = ["other"]


@pytest.mark.parametrize("change, expected", [(remove_client, 401), (name_another, 403)])
def test_a_client_that_loses_its_right_while_it_waits_is_handed_nothing(sandbox, gateway, change, expected):
    assert requests.get(gateway.url + "/box/2.0/folders/0/items", timeout=20).status_code == 200
    sandbox.set("box", token_delay_ms=5000)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, gateway, "service")
        wait_until(lambda: sandbox.token_calls("box") == 2, 10, "the exchange")
        config = copy.deepcopy(server(sandbox))
        change(config)
        gateway.configure(config)
        assert gateway.run("reload").returncode == 0
        answer = waiting.result()
    assert answer.status_code == expected and "access_token" not in answer.text, answer.text


@pytest.mark.parametrize("verb", ["revoke", "clear"])
def test_what_was_made_from_a_token_goes_with_it(sandbox, gateway, verb):
    before = ask(gateway, "service").json()["access_token"]
    answer = gateway.run("token", verb, "service")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    after = ask(gateway, "service").json()["access_token"]
    assert after != before
    assert box_says(sandbox, after, "/2.0/files/1/content") == 302
    # The parent's, and the exchange, twice.
    assert sandbox.token_calls("box") == 4


def test_what_was_made_from_a_token_goes_with_it_while_no_gateway_runs(gateway):
    before = ask(gateway, "service").json()["access_token"]
    gateway.stop()
    assert gateway.run("token", "revoke", "service").returncode == 0
    gateway.start()
    assert ask(gateway, "service").json()["access_token"] != before


def test_what_cannot_be_recorded_is_not_handed_out(sandbox, gateway):
    assert ask(gateway, "whole").status_code == 200
    with sqlite3.connect(gateway.folder / "state/audit.sqlite", isolation_level=None) as blocker:
        blocker.execute("begin immediate")
        answer = ask(gateway, "whole")
        assert (answer.status_code, answer.json()["code"]) == (503, "audit-unavailable")
        blocker.execute("rollback")


def test_a_gateway_is_the_token_server_of_another_across_expiries(make_authority, make_origin, start_gateway):
    authority = make_authority(lifetime=2, token_delay=0.1)
    first = start_gateway(
        {
            "access": {"clients": CLIENTS},
            "credentials": {"service": {**authority.credential(), "vend": {"clients": ["other"], "whole_token": True}}},
            "routes": {"api": {"upstream": authority.url + "/api", "auth": "service"}},
        }
    )
    seen = set()

    def guarded(request):
        token = (request.value("authorization") or "").removeprefix("Bearer ")
        if authority.accepts(token):
            seen.add(token)
            return ok(request)
        return response(401, b"", 'WWW-Authenticate: Bearer error="invalid_token"')

    second = start_gateway(
        {
            "credentials": {
                "borrowed": {
                    "strategy": "delegated",
                    "url": f"{first.admin_url}/tokens/service",
                    "method": "POST",
                    "request_auth": {"bearer": OTHER},
                }
            },
            "routes": {"api": {"upstream": make_origin(guarded).url, "auth": "borrowed"}},
        }
    )
    statuses = collections.Counter()
    stop = threading.Event()

    def client():
        with requests.Session() as session:
            while not stop.wait(0.05):
                statuses[session.get(second.url + "/api/x", timeout=20).status_code] += 1

    clients = [threading.Thread(target=client) for _ in range(2)]
    for thread in clients:
        thread.start()
    try:
        wait_until(lambda: authority.expired() >= 6, 60, "six tokens expired", pause=0.1)
    finally:
        stop.set()
        for thread in clients:
            thread.join()
    assert set(statuses) == {200}, statuses
    assert len(seen) >= 6
    assert second.events("--event", "rejected") == [] and second.events("--event", "renewal_failed") == []
    vended = first.events("--event", "vended")
    assert len(vended) >= 6 and {event["client"] for event in vended} == {"other"}
    # What the one hands out is what the other takes.
    assert {event["generation"] for event in vended} >= set(range(2, 6))

"""Weaker tokens made from stronger ones, against the sandbox's Box: `downscope` of a route and `oauth2_token_exchange`."""

import concurrent.futures
import json
import time
import urllib.parse

import pytest
import requests
from harness.configs import box_ccg
from harness.gateway import command
from harness.origin import response
from harness.processes import wait_until
from harness.token_server import who

CCG = "client_credentials"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
FILE = "https://api.box.com/2.0/files/1"


def config(sandbox, scopes=("item_download",), **parent):
    box = sandbox.environment["SANDBOX_BOX_URL"]
    return {
        "credentials": {
            "service": box_ccg(sandbox, **parent),
            # Before its parent's own child, and after its parent: the order does not matter.
            "weaker": {"strategy": "oauth2_token_exchange", "parent": "weak", "scopes": ["item_download"]},
            "weak": {
                "strategy": "oauth2_token_exchange",
                "parent": "service",
                "scopes": ["item_download", "item_preview"],
                "resource": FILE,
            },
        },
        "routes": {
            "box": {"upstream": box, "auth": "service"},
            "narrow": {
                "upstream": box,
                "auth": {"credential": "service", "downscope": {"scopes": list(scopes), "resource": FILE}},
            },
            "weaker": {"upstream": box, "auth": "weaker"},
        },
    }


@pytest.fixture
def start(sandbox, start_gateway):
    return lambda *arguments, **options: start_gateway(
        config(sandbox, *arguments, **options), environment=sandbox.environment
    )


def calls(sandbox):
    """How often each grant was asked for."""
    counts = {}
    for grant, clients in sandbox.state()["token_calls_by_grant"].get("box", {}).items():
        counts[grant] = sum(clients.values())
    return counts


def get(gateway, path):
    return requests.get(gateway.url + path, timeout=20, allow_redirects=False)


def test_a_route_carries_what_it_needs_and_no_more(sandbox, start):
    gateway = start()
    assert get(gateway, "/narrow/2.0/files/1/content").status_code == 302
    assert get(gateway, "/narrow/2.0/folders/0/items").status_code == 403
    assert get(gateway, "/box/2.0/folders/0/items").status_code == 200
    assert calls(sandbox) == {CCG: 1, EXCHANGE: 1}
    (event,) = [row for row in gateway.events("--event", "acquired") if row["credential"] == "routes.narrow.downscope"]
    assert event["detail"] == {"parent": "service", "parent_generation": "1"}


@pytest.mark.parametrize("place", ["downscope", "strategy"])
def test_the_authority_is_asked_for_these_scopes_and_this_item(sandbox, make_origin, start_gateway, place):
    def issue(request):
        token = "weak" if b"token-exchange" in request.body else "strong"
        return response(200, json.dumps({"access_token": token, "token_type": "bearer", "expires_in": 3600}).encode())

    authority, api = make_origin(issue), make_origin(who)
    terms = {"scopes": ["item_preview", "item_download"], "resource": FILE}
    credentials = {"service": box_ccg(sandbox, token_url=authority.url + "/oauth2/token")}
    if place == "downscope":
        auth = {"credential": "service", "downscope": terms}
    else:
        auth = "weak"
        credentials["weak"] = {"strategy": "oauth2_token_exchange", "parent": "service", **terms}
    gateway = start_gateway({"credentials": credentials, "routes": {"narrow": {"upstream": api.url, "auth": auth}}})
    assert get(gateway, "/narrow/x").text == "Bearer weak"
    _, exchange = authority.requests
    assert urllib.parse.parse_qs(exchange.body.decode(), strict_parsing=True) == {
        "grant_type": [EXCHANGE],
        "subject_token": ["strong"],
        "subject_token_type": ["urn:ietf:params:oauth:token-type:access_token"],
        "scope": ["item_preview item_download"],
        "resource": [FILE],
    }
    assert b"strong" not in api.raw()


def test_a_chain_of_exchanges_is_made_from_the_top(sandbox, start):
    gateway = start()
    assert get(gateway, "/weaker/2.0/files/1/content").status_code == 302
    assert calls(sandbox) == {CCG: 1, EXCHANGE: 2}


def test_many_at_once_cause_one_call_of_each_kind(sandbox, start):
    gateway = start()
    paths = ["/narrow/2.0/files/1/content", "/weaker/2.0/files/1/content", "/box/2.0/users/me"] * 20
    with concurrent.futures.ThreadPoolExecutor(60) as pool:
        statuses = {answer.status_code for answer in pool.map(lambda path: get(gateway, path), paths)}
    assert statuses == {200, 302}
    assert calls(sandbox) == {CCG: 1, EXCHANGE: 3}


def test_a_revoked_parent_is_renewed_within_the_request_that_notices(sandbox, start):
    gateway = start()
    assert get(gateway, "/narrow/2.0/files/1/content").status_code == 302
    sandbox.set("box", revoke_all=True)
    assert get(gateway, "/narrow/2.0/files/1/content").status_code == 302
    # The exchange of the dead parent, then the parent's own renewal, then the exchange again.
    assert calls(sandbox) == {CCG: 2, EXCHANGE: 3}
    rejected = [(row["credential"], row["generation"]) for row in gateway.events("--event", "rejected")]
    assert sorted(rejected) == [("routes.narrow.downscope", 1), ("service", 1)]


@pytest.mark.parametrize("verb", ["revoke", "clear"])
def test_a_child_that_is_forgotten_is_exchanged_again(sandbox, start, verb):
    gateway = start()
    assert get(gateway, "/weaker/2.0/files/1/content").status_code == 302
    answer = gateway.run("token", verb, "weaker")
    assert answer.returncode == 0 and "The next request gets a new one." in answer.stdout, answer.stdout
    assert get(gateway, "/weaker/2.0/files/1/content").status_code == 302
    assert calls(sandbox)[EXCHANGE] > 2


def test_a_child_that_was_rejected_before_the_gateway_died_is_exchanged_again(sandbox, start):
    gateway = start()
    assert get(gateway, "/narrow/2.0/files/1/content").status_code == 302
    sandbox.set("box", revoke_all=True)
    sandbox.set("box", token_delay_ms=10_000)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        lost = pool.submit(get, gateway, "/narrow/2.0/files/1/content")
        wait_until(lambda: gateway.events("--event", "rejected"), 20, "the token is rejected")
        time.sleep(1)
        gateway.kill()
        assert lost.exception(20)
    sandbox.set("box", token_delay_ms=0)
    gateway.start()
    assert get(gateway, "/narrow/2.0/files/1/content").status_code == 302


def test_scopes_that_the_parent_lacks_are_refused_once_and_for_all(sandbox, start):
    gateway = start(scopes=("manage_webhook",))
    for _ in range(3):
        answer = get(gateway, "/narrow/2.0/files/1/content")
        assert answer.status_code == 500
        assert "scopes" in answer.json()["detail"]
    assert calls(sandbox) == {CCG: 1, EXCHANGE: 1}
    assert get(gateway, "/box/2.0/users/me").status_code == 200
    assert calls(sandbox) == {CCG: 1, EXCHANGE: 1}


def test_a_reload_that_changes_the_parent_keeps_its_children_working(sandbox, start):
    gateway = start()
    assert get(gateway, "/narrow/2.0/files/1/content").status_code == 302
    gateway.configure(config(sandbox, renew={"ahead": "20%"}))
    assert gateway.run("reload").returncode == 0
    sandbox.set("box", revoke_all=True)
    for path in ("/narrow/2.0/files/1/content", "/weaker/2.0/files/1/content"):
        assert get(gateway, path).status_code == 302


def test_a_child_survives_a_restart_without_a_call(sandbox, start):
    gateway = start()
    assert get(gateway, "/narrow/2.0/files/1/content").status_code == 302
    gateway.stop()
    gateway.start()
    assert get(gateway, "/narrow/2.0/files/1/content").status_code == 302
    assert calls(sandbox) == {CCG: 1, EXCHANGE: 1}


def test_the_usage_names_the_credential_first(tmp_path):
    """Behind the scopes it would be taken for one of them."""
    for arguments in (["--help"], ["service"]):
        result = command("token", "downscope", *arguments, cwd=tmp_path)
        assert "downscope <name> " in result.stdout + result.stderr, result


def test_a_weaker_token_is_printed_for_somebody_else(sandbox, start):
    gateway = start()
    made = gateway.run("token", "downscope", "service", "--scope", "item_download", "item_preview", "--resource", FILE)
    assert made.returncode == 0 and made.stderr == "" and len(made.stdout.split()) == 1, made
    token = made.stdout.strip()
    box = sandbox["BOX_URL"]

    def as_widget(path):
        headers = {"Authorization": f"Bearer {token}"}
        return requests.get(box + path, headers=headers, timeout=20, allow_redirects=False).status_code

    assert as_widget("/2.0/files/1/content") == 302
    assert as_widget("/2.0/folders/0/items") == 403
    (event,) = gateway.events("--event", "downscoped")
    assert (event["credential"], event["trigger"]) == ("service", "operator")
    assert event["detail"] == {"scopes": "item_download item_preview", "resource": FILE}
    assert len(event["token_fingerprint"]) == 12 and event["expires_at"]
    # It is not kept: the next one is another, and the parent's token is used for both.
    assert gateway.run("token", "downscope", "service", "--scope", "item_download").stdout.strip() != token
    assert calls(sandbox) == {CCG: 1, EXCHANGE: 2}
    gateway.stop()
    assert token not in gateway.text()
    for path, content in gateway.files().items():
        assert token.encode() not in content, path


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["service", "--scope", "manage_webhook"], "scopes"),
        (["service", "--scope", "item_preview", "--resource", "files/1"], "expected an absolute URL"),
        (["nobody", "--scope", "item_preview"], "no credential nobody"),
    ],
)
def test_a_weaker_token_that_cannot_be_had_is_explained(sandbox, start, arguments, message):
    gateway = start()
    refused = gateway.run("token", "downscope", *arguments)
    assert refused.returncode == 1 and refused.stdout == "" and message in refused.stderr, refused
    assert gateway.events("--event", "downscoped") == []


def test_weaker_tokens_are_revoked_before_their_parents(start, sandbox):
    gateway = start()
    assert requests.get(gateway.url + "/weaker/2.0/files/1/content", timeout=20).status_code == 200
    done = gateway.run("token", "revoke", "--all")
    assert done.returncode == 0, done
    revoked = [event["credential"] for event in gateway.events("--event", "revoked")]
    assert revoked == ["weaker", "weak", "service"]

"""A path that answers 401 to every token, and clients that ask for it: neither spends the tokens of all others."""

import itertools
import json
import time

import pytest
import requests
from harness.bytes import REJECTED
from harness.issuer import Issuer
from harness.origin import response

TOKENS = {"ada": "token-of-ada-1", "bob": "token-of-bob-2"}


@pytest.fixture
def issuer():
    issuer = Issuer()
    yield issuer
    issuer.stop()


class Api:
    """Answers 401 to every token on /broken..., and elsewhere to all tokens before `oldest`."""

    def __init__(self, make_origin):
        self.origin = make_origin(self.answer)
        self.oldest = 1

    def answer(self, request):
        number = int(request.value("authorization").removeprefix("Bearer token-"))
        if request.target.startswith("/broken") or number < self.oldest:
            return REJECTED
        return response(200, b"welcome")


@pytest.fixture
def api(make_origin):
    return Api(make_origin)


@pytest.fixture
def gateway(start_gateway, api, issuer):
    return start_gateway(
        {
            "access": {"clients": {name: {"token": token} for name, token in TOKENS.items()}},
            "credentials": {"me": issuer.credential()},
            "routes": {
                "api": {"upstream": api.origin.url, "auth": "me"},
                "other": {"upstream": api.origin.url, "auth": "me"},
            },
        }
    )


@pytest.fixture
def ask(gateway):
    with requests.Session() as session:

        def ask(path, client="ada", method="GET"):
            headers = {"Authorization": f"Bearer {TOKENS[client]}"}
            return session.request(method, gateway.url + path, headers=headers, timeout=10).status_code

        yield ask


# A path that rejects every token


def test_a_path_that_rejects_every_token_causes_one_renewal_and_no_more(ask, issuer):
    """Until some seconds have passed: then one request tries again."""
    assert [ask("/api/broken") for _ in range(100)] == [401] * 100
    assert issuer.count == 2


def test_all_other_paths_go_on_meanwhile(ask, issuer):
    """Before the path was asked for, and after."""
    assert ask("/api/good") == 200
    for number in range(30):
        assert ask("/api/broken") == 401
        assert ask("/api/good", "bob") == 200
        assert ask(f"/api/new-{number}", "bob") == 200
        assert ask("/other/good", "bob") == 200
    assert issuer.count == 2


def test_whoever_asks_for_it_and_whatever_the_identifiers_in_it_are(ask, issuer):
    """Otherwise each client, and each number, would cause one more."""
    for number in range(30):
        assert ask(f"/api/broken/{number}/items/0199a2f3c4{number:02}", ("ada", "bob")[number % 2]) == 401
    assert issuer.count == 2


def test_what_is_rejected_is_passed_with_the_upstreams_own_answer(gateway, ask):
    assert ask("/api/broken") == 401
    answer = requests.get(gateway.url + "/api/broken", headers={"Authorization": f"Bearer {TOKENS['ada']}"}, timeout=10)
    assert answer.status_code == 401 and answer.content == b""
    assert answer.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'


def test_a_renewal_for_another_reason_begins_nothing_anew(gateway, ask, issuer):
    assert ask("/api/broken") == 401
    for _ in range(3):
        assert gateway.run("token", "refresh", "me").returncode == 0
        assert [ask("/api/broken") for _ in range(5)] == [401] * 5
    # Two, and those that the operator asked for.
    assert issuer.count == 5


@pytest.mark.parametrize("renew", [False, None])
def test_a_token_that_only_a_person_replaces_is_not_lost_for_all(start_gateway, api, issuer, renew):
    """One client's path that answers 401 to every token does not take it from the others; its real end does."""
    if renew is None:
        credential = {"strategy": "box_developer_token", "token": "token-1"}
    else:
        credential = {**issuer.credential(), "renew": renew}
    gateway = start_gateway(
        {
            "access": {"clients": {name: {"token": token} for name, token in TOKENS.items()}},
            "credentials": {"me": credential},
            "routes": {"api": {"upstream": api.origin.url, "auth": "me"}},
        }
    )

    def ask(path, client):
        headers = {"Authorization": f"Bearer {TOKENS[client]}"}
        return requests.get(gateway.url + path, headers=headers, timeout=10).status_code

    assert ask("/api/good", "bob") == 200
    assert [ask("/api/broken", "ada") for _ in range(3)] == [401] * 3
    assert ask("/api/good", "bob") == 200
    api.oldest = 100
    assert ask("/api/good", "bob") == 401
    assert ask("/api/good", "bob") == 503


# A real revocation


def test_a_revocation_is_noticed_at_once_on_a_path_that_has_worked(ask, api, issuer):
    assert ask("/api/good") == 200
    assert [ask("/api/broken") for _ in range(10)] == [401] * 10
    for count in (3, 4, 5):
        assert ask("/api/good") == 200
        api.oldest = count
        # The first request after it, which is sent again with the next token.
        assert ask("/api/good") == 200
        assert issuer.count == count
        assert [ask("/api/broken") for _ in range(10)] == [401] * 10
        assert issuer.count == count


def test_a_revocation_is_noticed_on_a_path_that_nobody_has_asked_for(ask, api, issuer):
    assert [ask("/api/broken") for _ in range(10)] == [401] * 10
    api.oldest = 3
    assert ask("/api/never-before") == 200
    assert issuer.count == 3


# What one client can cause

#: Different words, so that each is another path.
WORDS = ["".join(letters) for letters in itertools.product("abcdefgh", "ijklmnop")]


def test_a_client_with_ever_new_paths_causes_a_bounded_number_of_renewals(ask, issuer):
    """Without a bound it would be the sixty that the credential has in an hour; then nobody would get a token."""
    assert {ask(f"/api/broken/{word}") for word in WORDS} == {401}
    assert issuer.count <= 15
    assert ask("/api/good") == 200 and ask("/api/good", "bob") == 200


def test_who_has_spent_its_renewals_takes_none_from_others(ask, api, issuer):
    assert ask("/api/good", "bob") == 200
    for word in WORDS:
        ask(f"/api/broken/{word}")
    assert ask("/api/good", "bob") == 200
    count = issuer.count
    for number in range(1, 4):
        api.oldest = count + number
        assert ask("/api/good", "bob") == 200
        assert issuer.count == count + number
    # What the others have caused is good for everybody.
    assert ask("/api/good") == 200


def spend(issuer, api, ask):
    """Revocations of young tokens, until the client has caused as many renewals as it may."""
    for _ in range(20):
        assert ask("/api/good") == 200
        count = issuer.count
        api.oldest = count + 1
        if ask("/api/good") == 401:
            assert issuer.count == count
            return
    pytest.fail("the budget has no end")


def test_who_has_spent_its_renewals_is_told_so_and_when_it_may_cause_the_next(gateway, ask, api, issuer):
    """It was said that the path rejects newer tokens, too."""
    spend(issuer, api, ask)
    answer = requests.get(gateway.url + "/api/good", headers={"Authorization": f"Bearer {TOKENS['ada']}"}, timeout=10)
    assert answer.status_code == 401
    assert 'reason="renewal budget is empty for ' in answer.headers["Gateway-Token"]
    explained = gateway.run("explain", answer.headers["Gateway-Request-Id"])
    assert "renewal budget is empty; the next renewal is available in" in explained.stdout, explained
    shown = gateway.run("status", "me")
    assert "empty for ada until 20" in shown.stdout and "bob" not in shown.stdout, shown
    (token,) = json.loads(gateway.run("token", "list", "--json").stdout)
    assert [budget["client"] for budget in token["empty_budgets"]] == ["ada"]


@pytest.mark.slow
def test_a_token_that_worked_for_a_minute_is_renewed_although_the_budget_is_empty(ask, api, issuer):
    """One client may meet every revocation."""
    spend(issuer, api, ask)
    assert ask("/api/good", "bob") == 200
    assert ask("/api/good") == 200
    time.sleep(61)
    api.oldest = issuer.count + 1
    assert ask("/api/good") == 200
    # Not twice within half of its life: what is rejected at once costs the client, which has nothing.
    api.oldest = issuer.count + 1
    assert ask("/api/good") == 401


def test_methods_and_routes_are_no_way_around_it(ask, issuer):
    for word in WORDS[:16]:
        for method in ("GET", "POST", "DELETE"):
            for route in ("api", "other"):
                assert ask(f"/{route}/broken/{word}", method=method) == 401
    assert issuer.count <= 15
    assert ask("/api/good", "bob") == 200

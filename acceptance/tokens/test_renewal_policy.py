"""`retry_on` and `on_authority_failure`: when a token counts as rejected, and whether one is used that cannot be renewed."""

import pytest
import requests
from harness.configs import with_route
from harness.events import named
from harness.origin import response
from harness.processes import wait_until


def oauth(sandbox, **policy):
    return {
        "strategy": "oauth2_client_credentials",
        "token_url": sandbox["OAUTH_URL"] + "/oauth/token",
        "client_id": sandbox["OAUTH_CLIENT_ID"],
        "client_secret": sandbox["OAUTH_CLIENT_SECRET"],
        **policy,
    }


def get(gateway):
    return requests.get(gateway.url + "/api/x", timeout=20)


# MARK: retry_on


@pytest.fixture
def api(make_origin):
    """Refuses the first token with `refusal`, and takes every other one."""

    class Api:
        refusal = (403,)

        def __init__(self):
            self.first = None
            self.origin = make_origin(self.answer)

        def answer(self, request):
            token = request.value("authorization")
            self.first = self.first or token
            return response(self.refusal[0], b"no", *self.refusal[1:]) if token == self.first else response(200, b"yes")

    return Api()


RETRIED = {
    "403 in the list": ([401, 403], (403,)),
    "419 alone in the list": ([419], (419,)),
    "the error is about the token": ([403], (403, 'WWW-Authenticate: Bearer error="invalid_token"')),
}


@pytest.mark.parametrize("statuses, refusal", RETRIED.values(), ids=[name.replace(" ", "-") for name in RETRIED])
def test_a_status_of_the_list_renews_the_token_and_sends_the_request_again(sandbox, start_gateway, api, statuses, refusal):
    api.refusal = refusal
    gateway = start_gateway(with_route(oauth(sandbox, retry_on=statuses), api.origin.url))
    assert (get(gateway).status_code, get(gateway).text) == (200, "yes")
    assert (api.origin.count(), sandbox.token_calls("oauth")) == (3, 2)
    first, second, third = (request.value("authorization") for request in api.origin.requests)
    assert first != second == third
    assert [event["trigger"] for event in named(gateway, "renewed")] == ["rejected"]


PASSED_ON = {
    "403 without a list": (None, (403,)),
    "403 outside the list": ([401, 419], (403,)),
    "401 outside the list": ([403], (401,)),
    "the error is about something else": ([403], (403, 'WWW-Authenticate: Bearer error="insufficient_scope"')),
}


@pytest.mark.parametrize("statuses, refusal", PASSED_ON.values(), ids=[name.replace(" ", "-") for name in PASSED_ON])
def test_another_status_says_nothing_about_the_token(sandbox, start_gateway, api, statuses, refusal):
    api.refusal = refusal
    policy = {} if statuses is None else {"retry_on": statuses}
    gateway = start_gateway(with_route(oauth(sandbox, **policy), api.origin.url))
    for _ in range(2):
        answer = get(gateway)
        assert (answer.status_code, answer.text) == (refusal[0], "no")
    assert (api.origin.count(), sandbox.token_calls("oauth")) == (2, 1)
    assert named(gateway, "renewed") == []


@pytest.mark.parametrize("status", [200, 302, 500, "401"])
def test_only_a_refusal_can_stand_in_the_list(sandbox, make_gateway, origin, status):
    checked = make_gateway(with_route(oauth(sandbox, retry_on=[status]), origin.url)).run("check")
    assert checked.returncode == 3 and "expected a status between 400 and 499" in checked.stderr, checked


# MARK: on_authority_failure


def failed_renewal(sandbox, start_gateway, origin, **policy):
    """A gateway with a token that lives for an hour and that its authority has just refused to renew."""
    gateway = start_gateway(with_route(oauth(sandbox, **policy), origin.url))
    assert get(gateway).status_code == 200
    sandbox.set("oauth", token_status=503)
    assert gateway.run("token", "refresh", "me").returncode == 1
    return gateway


def test_with_fail_a_token_is_not_used_while_the_authority_fails(sandbox, start_gateway, origin):
    gateway = failed_renewal(sandbox, start_gateway, origin, on_authority_failure="fail")
    for _ in range(3):
        refused = get(gateway)
        assert refused.status_code == 503 and refused.json()["code"] == "token-temporarily-unavailable", refused.text
        assert int(refused.headers["Retry-After"]) >= 1
    assert origin.count() == 1, "a request was sent with the old token"
    [token] = requests.get(f"{gateway.admin_url}/api/tokens", timeout=10).json()
    assert token["generation"] == 1 and token["remaining_seconds"] > 3000, "the old token is alive"

    sandbox.set("oauth", token_status=None)
    wait_until(lambda: get(gateway).status_code == 200, 20, "requests are served as soon as there is a new token")
    first, second = (request.value("authorization") for request in origin.requests)
    assert first != second


def test_without_it_a_token_is_used_until_its_end(sandbox, start_gateway, origin):
    gateway = failed_renewal(sandbox, start_gateway, origin, on_authority_failure="serve_until_expiry")
    for _ in range(3):
        assert get(gateway).status_code == 200
    assert len({request.value("authorization") for request in origin.requests}) == 1 and origin.count() == 4


def test_with_fail_a_renewal_ahead_of_the_end_holds_the_token_back_too(sandbox, start_gateway, origin):
    gateway = start_gateway(with_route(oauth(sandbox, on_authority_failure="fail"), origin.url))
    # Renewed at half of its life, as it is so short.
    sandbox.set("oauth", token_lifetime=6)
    assert get(gateway).status_code == 200
    sandbox.set("oauth", token_status=503)
    [failure] = wait_until(lambda: named(gateway, "renewal_failed")[:1], 10, "the renewal failed")
    [acquired] = named(gateway, "acquired")
    assert failure["trigger"] == "ahead_of_expiry" and failure["at"] < acquired["expires_at"]
    refused = get(gateway)
    assert refused.status_code == 503 and refused.json()["code"] == "token-temporarily-unavailable", refused.text
    assert origin.count() == 1

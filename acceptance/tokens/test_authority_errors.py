"""What Box and Duke's authorizer answer when they refuse, row by row, and what becomes of it at the gateway."""

import json

import pytest
import requests
from harness.configs import box_authority, box_client, duke_session, with_route
from harness.origin import response
from harness.processes import wait_until

CREDENTIALS = {
    "box_ccg": {"subject": {"enterprise": "${SANDBOX_BOX_ENTERPRISE_ID}"}},
    "box_jwt": {
        "app_settings": {"env": "SANDBOX_BOX_APP_SETTINGS"},
        "subject": {"enterprise": "${SANDBOX_BOX_ENTERPRISE_ID}"},
    },
    "box_oauth": {"refresh_token": {"env": "SANDBOX_BOX_REFRESH_TOKEN"}},
}


@pytest.fixture
def start(sandbox, start_gateway):
    def start(strategy):
        client = {} if strategy == "box_jwt" else box_client(sandbox)
        credential = box_authority(sandbox, strategy=strategy, **client, **CREDENTIALS[strategy])
        whole = {**with_route(credential, sandbox["BOX_URL"]), "limits": {"credential_timeout": "5s"}}
        return start_gateway(whole, environment=sandbox.environment)

    return start


def me(gateway):
    return requests.get(f"{gateway.url}/api/2.0/users/me", timeout=20)


def state(gateway):
    [token] = json.loads(gateway.run("token", "list", "--json").stdout)
    return token["state"]


def settled(gateway, sandbox, calls):
    """The refresh token of a configuration is tried at the start, before anybody asks."""
    wait_until(lambda: sandbox.token_calls("box") >= calls, 10, "the token endpoint was asked")


PERMANENT = [
    (("box_ccg", "box_jwt", "box_oauth"), 400, "invalid_client", "The client credentials are invalid"),
    (("box_ccg", "box_jwt", "box_oauth"), 401, "invalid_client", "The client credentials are invalid"),
    (("box_ccg", "box_jwt"), 400, "invalid_grant", "Grant credentials are invalid"),
    (("box_ccg", "box_jwt"), 400, "unauthorized_client", "This app is not authorized by the enterprise admin"),
    (
        ("box_ccg", "box_jwt"),
        400,
        "unauthorized_client",
        'The "box_subject_type" value is unauthorized for this client_id',
    ),
    (
        ("box_ccg", "box_jwt", "box_oauth"),
        400,
        "unauthorized_client",
        "The grant type is unauthorized for this client_id",
    ),
    (("box_ccg", "box_jwt", "box_oauth"), 400, "invalid_request", "The grant type is unauthorized for this client_id"),
    (("box_ccg", "box_jwt", "box_oauth"), 400, "invalid_request", "Invalid grant_type parameter or parameter missing"),
    (("box_jwt",), 400, "invalid_grant", "Please check the 'sub' claim. The 'sub' specified is invalid."),
]


@pytest.mark.parametrize(
    "strategy, status, code, description",
    [(strategy, *row) for strategies, *row in PERMANENT for strategy in strategies],
)
def test_a_permanent_refusal_is_asked_for_once_and_explained(start, sandbox, strategy, status, code, description):
    sandbox.set("box", token_status=status, token_error=code, token_error_description=description)
    gateway = start(strategy)
    for _ in range(3):
        answer = me(gateway)
        assert answer.status_code == 500 and answer.json()["code"] == "credential-misconfigured", answer.text
        assert code in answer.text and description not in answer.text
    assert sandbox.token_calls("box") == 1
    assert state(gateway) == "failed"
    of_tokens = [event for event in gateway.events("--failed") if event["event"] != "request_failed"]
    [failed] = [event for event in of_tokens if event["event"].endswith("_failed")]
    assert (failed["http_status"], failed["error_code"]) == (status, code)
    assert failed["detail"]["authority_description"] == description
    assert description in gateway.run("status").stdout


DEAD_LOGINS = [
    ("invalid_grant", "Refresh token has expired"),
    ("invalid_grant", "Invalid refresh token"),
    ("unauthorized_device", ""),
    ("exceeded_device_limits", ""),
    ("missing_device_id", ""),
    ("unsupported_device_pinning_runtime", ""),
    ("account_deactivated", ""),
]


@pytest.mark.parametrize("code, description", DEAD_LOGINS, ids=lambda value: value.replace(" ", "-").lower())
def test_a_login_that_box_ended_needs_a_person(start, sandbox, code, description):
    gateway = start("box_oauth")
    assert me(gateway).status_code == 200
    sandbox.set("box", token_status=400, token_error=code, token_error_description=description)
    refused = gateway.run("token", "refresh", "me")
    assert refused.returncode == 1 and code in refused.stderr, refused
    assert state(gateway) == "login_required"
    assert me(gateway).status_code == 200, "the token at hand still lives"
    calls = sandbox.token_calls("box")
    sandbox.set("box", revoke_access=True)
    assert me(gateway).status_code == 401, "the last token is sent once more"
    answer = me(gateway)
    assert answer.status_code == 503 and answer.json()["command"] == "authgateway login me", answer.text
    assert sandbox.token_calls("box") == calls


REPAIRED = [
    "Current date/time MUST be before the expiration date/time listed in the 'exp' claim",
    "The 'exp' value exceeds the maximum value of 60 seconds beyond the issue time",
    "Current date/time MUST be after or equal to the not-before date/time listed in the 'nbf' or 'iat' claim",
    "A unique 'jti' value is required",
]


@pytest.mark.parametrize("description", REPAIRED, ids=["expired", "too-long", "not-yet", "replayed"])
def test_what_signing_again_repairs_is_signed_again(start, sandbox, description):
    sandbox.set(
        "box", token_status=400, token_error="invalid_grant", token_error_description=description, token_next=1
    )
    gateway = start("box_jwt")
    assert me(gateway).status_code == 200
    assert sandbox.token_calls("box") == 2
    names = [event["event"] for event in gateway.events("--credential", "me") if event["event"].startswith("acqui")]
    assert names == ["acquiring", "acquired"]


def test_a_clock_that_stays_wrong_is_asked_four_times_and_then_later(start, sandbox):
    sandbox.set("box", token_status=400, token_error="invalid_grant", token_error_description=REPAIRED[0])
    gateway = start("box_jwt")
    answer = me(gateway)
    assert answer.status_code == 503 and "although it was signed again" in answer.json()["detail"], answer.text
    assert sandbox.token_calls("box") == 4


@pytest.mark.parametrize("status, retry_after", [(429, "1"), (500, None), (502, None), (503, "1")])
@pytest.mark.parametrize("strategy", CREDENTIALS)
def test_a_box_that_is_busy_is_asked_again(start, sandbox, strategy, status, retry_after):
    sandbox.set("box", token_status=status, token_body="busy", token_retry_after=retry_after, token_next=1)
    gateway = start(strategy)
    if strategy == "box_oauth":
        settled(gateway, sandbox, 1)
    wait_until(lambda: me(gateway).status_code == 200, 15, "Box was asked again")
    assert sandbox.token_calls("box") == 2


# MARK: The API

BOX_401 = 'WWW-Authenticate: Bearer realm="Service", error="{}", error_description="{}"'
PASSED_ON = {
    "a request that lacks something": (401, b"", BOX_401.format("invalid_request", "The access token was not found.")),
    "no privilege": (403, b"", BOX_401.format("insufficient_scope", "The request requires higher privileges.")),
    "forbidden": (403, b'{"type":"error","status":403,"code":"access_denied_insufficient_permissions"}', "X-A: b"),
    "a limit": (429, b'{"type":"error","status":429,"code":"rate_limit_exceeded"}', "retry-after: 7"),
    "not ready": (202, b"", "Retry-After: 3"),
    "a redirect": (302, b"", "Location: https://dl.boxcloud.com/d/1/x/download"),
    "unavailable": (503, b'{"type":"error","status":503,"code":"unavailable"}', "Retry-After: 2"),
}


@pytest.mark.parametrize("answer", PASSED_ON.values(), ids=[name.replace(" ", "-") for name in PASSED_ON])
def test_an_answer_of_the_api_that_a_new_token_does_not_change_is_passed_on(
    sandbox, make_origin, start_gateway, answer
):
    status, body, field = answer
    origin = make_origin(lambda request: response(status, body, field, "BOX-REQUEST-ID: r1"))
    credential = box_authority(sandbox, strategy="box_ccg", **box_client(sandbox), **CREDENTIALS["box_ccg"])
    gateway = start_gateway(with_route(credential, origin.url), environment=sandbox.environment)
    got = requests.get(f"{gateway.url}/api/2.0/files/1/content", timeout=20, allow_redirects=False)
    assert got.status_code == status and got.content == body
    name, _, value = field.partition(": ")
    assert got.headers[name] == value and got.headers["BOX-REQUEST-ID"] == "r1"
    assert origin.count() == 1 and sandbox.token_calls("box") == 1


@pytest.mark.parametrize("times, status, calls", [(1, 200, 2), (2, 401, 2)])
def test_a_token_that_the_api_refuses_is_renewed_once(start, sandbox, times, status, calls):
    gateway = start("box_ccg")
    assert me(gateway).status_code == 200
    sandbox.set("box", reject_next=times)
    answer = me(gateway)
    assert answer.status_code == status
    if status == 401:
        assert answer.content == b"" and 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    assert sandbox.token_calls("box") == calls


# MARK: Duke


@pytest.fixture
def campus(sandbox, start_gateway):
    credential = duke_session(sandbox)
    gateway = start_gateway(with_route(credential, sandbox["DUKE_URL"] + "/api"))
    assert requests.get(f"{gateway.url}/api/me", timeout=20).status_code == 200
    return gateway


def campus_status(gateway):
    return requests.get(f"{gateway.url}/api/me", timeout=20).status_code


# What the authorizer answers; the state afterwards; whether the pair is still there after a restart.
DUKE = {
    "200": ({}, "valid", True),
    "200 that cannot be read": ({"token_body": "<html>", "token_next": 1}, "rotation_uncertain", True),
    "200 without a pair": ({"token_body": '{"data": {}}', "token_next": 1}, "rotation_uncertain", True),
    "400": ({"token_status": 400}, "login_required", False),
    "401": ({"token_status": 401, "token_body": ""}, "valid", True),
    "403": ({"token_status": 403, "token_body": ""}, "valid", True),
    "404": ({"token_status": 404, "token_body": ""}, "failed", True),
    "302": ({"token_status": 302}, "failed", True),
    "429": ({"token_status": 429, "token_next": 1}, "valid", True),
    "500": ({"token_status": 500, "token_next": 1}, "rotation_uncertain", True),
    "503": ({"token_status": 503, "token_next": 1}, "valid", True),
    "no answer": ({"drop_before_commit": 1}, "rotation_uncertain", True),
}


@pytest.mark.parametrize("switches, expected, is_kept", DUKE.values(), ids=[name.replace(" ", "-") for name in DUKE])
def test_what_dukes_authorizer_answers_decides_over_the_pair(campus, sandbox, switches, expected, is_kept):
    sandbox.set("duke", **switches)
    refreshed = campus.run("token", "refresh", "me")
    assert refreshed.returncode == (0 if expected == "valid" and not switches else 1), refreshed
    assert state(campus) == expected
    sandbox.set("duke", **dict.fromkeys(switches))
    if expected == "login_required":
        assert "authgateway login me" in refreshed.stderr
    # A pair that is kept is used for as long as its access token lives.
    assert (campus_status(campus) == 200) == is_kept
    campus.stop()
    campus.start()
    assert (campus_status(campus) == 200) == is_kept
    assert sandbox.state()["double_spends"]["duke"] == 0

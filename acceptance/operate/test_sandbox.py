"""Every strategy against the sandbox: what leaves, what is renewed, and what a broken authority does to a request."""

import datetime
import json

import pytest
import requests
from harness.configs import BOX, DUKE, OAUTH
from harness.processes import wait_until
from harness.script import connect

#: Who the token of the enterprise speaks for.
SERVICE_ACCOUNT = "3000001"


def config(credentials, **routes):
    return {
        "tokens": {"store": "memory"},
        "credentials": credentials,
        "routes": {name: {"upstream": "${SANDBOX_UPSTREAM_URL}", **route} for name, route in routes.items()},
    }


@pytest.fixture
def start(sandbox, start_gateway):
    return lambda whole: start_gateway(whole, environment=sandbox.environment)


def get(gateway, path, **options):
    return requests.get(gateway.url + path, timeout=30, **options)


@pytest.mark.parametrize(
    "auth",
    [
        {"strategy": "basic", "username": "${SANDBOX_UPSTREAM_USER}", "password": {"env": "SANDBOX_UPSTREAM_PASSWORD"}},
        {"strategy": "bearer", "token": {"env": "SANDBOX_UPSTREAM_TOKEN"}},
        {"strategy": "header", "name": "X-Api-Key", "value": {"env": "SANDBOX_UPSTREAM_API_KEY"}},
        {"strategy": "box_developer_token", "token": {"env": "SANDBOX_BOX_DEVELOPER_TOKEN"}},
        BOX,
        OAUTH,
        {**OAUTH, "client_auth": "basic"},
        DUKE,
    ],
    ids=lambda auth: f"{auth['strategy']}-{auth.get('client_auth', '')}".rstrip("-"),
)
def test_a_strategy_signs_in(start, sandbox, auth):
    gateway = start(config({"one": auth}, api={"auth": "one"}))
    for _ in range(3):
        answer = get(gateway, "/api/echo")
        assert answer.status_code == 200, answer.text
        assert answer.json()["authorization"]["accepted"] is True
    calls = sandbox.state()["token_calls_total"]
    assert calls <= 1, f"{calls} token calls"


def test_without_a_credential_the_upstream_refuses(start, sandbox):
    gateway = start(config({}, api={"auth": "none"}))
    assert get(gateway, "/api/echo").status_code == 401
    assert get(gateway, "/api/public/echo").status_code == 200


def test_box_subjects_are_different_tokens_and_as_user_is_not(start, sandbox):
    box = {"upstream": "${SANDBOX_BOX_URL}"}
    user = {"credential": "service", "subject": {"user": "${SANDBOX_BOX_USER_ID}"}}
    pinned = {"credential": "service", "as_user": "${SANDBOX_BOX_USER_ID}"}
    gateway = start(
        config({"service": BOX}, box={**box, "auth": "service"}, user={**box, "auth": user}, pinned={**box, "auth": pinned})
    )
    who = {"box": SERVICE_ACCOUNT, "user": sandbox["BOX_USER_ID"], "pinned": sandbox["BOX_USER_ID"]}
    calls = []
    # Again at the end: who spoke for somebody else has changed nothing for the first.
    for route in ("box", "user", "pinned", "box", "user"):
        assert get(gateway, f"/{route}/2.0/users/me").json()["id"] == who[route], route
        calls.append(sandbox.token_calls("box"))
    assert calls == [1, 2, 2, 2, 2]


def test_who_one_is_depends_on_credential_and_subject_alone(start, sandbox):
    credentials = {
        "service": BOX,
        "person": {**BOX, "subject": {"user": "2000002"}},
        "developer": {"strategy": "box_developer_token", "token": {"env": "SANDBOX_BOX_DEVELOPER_TOKEN"}},
    }
    company = {"credential": "person", "subject": {"enterprise": "${SANDBOX_BOX_ENTERPRISE_ID}"}}
    routes = {**{name: name for name in credentials}, "company": company}
    box = "${SANDBOX_BOX_URL}"
    gateway = start(config(credentials, **{name: {"upstream": box, "auth": auth} for name, auth in routes.items()}))
    for _ in range(2):
        me = {name: get(gateway, f"/{name}/2.0/users/me").json()["id"] for name in routes}
        assert me == {"service": SERVICE_ACCOUNT, "person": "2000002", "developer": "2000001", "company": SERVICE_ACCOUNT}
    # The developer token is there already, and the enterprise's is the same on both routes.
    assert sandbox.token_calls("box") == 2


def test_each_service_gets_the_token_that_is_its_own(start, sandbox):
    services = {
        "box": ("${SANDBOX_BOX_URL}", BOX, "/2.0/users/me"),
        "campus": ("${SANDBOX_DUKE_URL}", DUKE, "/api/me"),
        "reports": ("${SANDBOX_UPSTREAM_URL}", OAUTH, "/echo"),
    }
    credentials = {name: credential for name, (_, credential, _) in services.items()}
    routes = {name: {"upstream": url, "auth": name} for name, (url, _, _) in services.items()}
    gateway = start(config(credentials, **routes))
    for name, (_, _, path) in services.items():
        assert get(gateway, f"/{name}{path}").status_code == 200, name
    # Box and Duke take nobody else's token.
    assert sandbox.state()["rejected_401"] == {origin: 0 for origin in sandbox.state()["rejected_401"]}


def test_as_user_without_the_right_is_explained_in_the_log(start, sandbox):
    """Box answers 403 without a word of what is missing; nothing of it is kept from the client."""
    developer = {"strategy": "box_developer_token", "token": {"env": "SANDBOX_BOX_DEVELOPER_TOKEN"}}
    pinned = {"credential": "developer", "as_user": "2000002"}
    box = "${SANDBOX_BOX_URL}"
    routes = {"plain": {"upstream": box, "auth": "developer"}, "pinned": {"upstream": box, "auth": pinned}}
    gateway = start(config({"developer": developer}, **routes))
    for _ in range(3):
        refused = get(gateway, "/pinned/2.0/users/me")
        assert (refused.status_code, refused.content) == (403, b"")
        assert 'error="insufficient_scope"' in refused.headers["WWW-Authenticate"]
    assert get(gateway, "/plain/2.0/users/me").status_code == 200
    lines = wait_until(
        lambda: [line for line in gateway.text().splitlines() if "refused as_user" in line], 10, "it is in the log"
    )
    assert len(lines) == 1, "once, however often the client tries"
    for word in ("pinned", "developer", "service account or an administrator", "as-user header", "authorized again"):
        assert word in lines[0], word


def test_a_download_is_redirected_and_no_credential_goes_along(start, sandbox):
    gateway = start(config({"service": BOX}, box={"upstream": "${SANDBOX_BOX_URL}", "auth": "service"}))
    answer = get(gateway, "/box/2.0/files/1/content", headers={"Authorization": "Bearer dummy"}, allow_redirects=False)
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith(sandbox["BOX_DOWNLOADS_URL"])
    followed = get(gateway, "/box/2.0/files/1/content")
    assert followed.status_code == 200 and followed.text.startswith("content of ")
    assert sandbox.state()["authorization_leaks"] == 0


def test_a_revoked_box_token_is_renewed_and_the_request_sent_again(start, sandbox):
    gateway = start(config({"service": BOX}, box={"upstream": "${SANDBOX_BOX_URL}", "auth": "service"}))
    assert get(gateway, "/box/2.0/users/me").status_code == 200
    sandbox.set("box", revoke_access=True)
    assert get(gateway, "/box/2.0/users/me").status_code == 200
    assert sandbox.token_calls("box") == 2


def test_a_session_rotates_both_tokens_and_sends_only_one(start, sandbox):
    gateway = start(config({"campus": DUKE}, api={"auth": "campus"}))
    assert get(gateway, "/api/echo").status_code == 200
    for _ in range(3):
        assert gateway.run("token", "refresh", "campus").returncode == 0
        answer = get(gateway, "/api/echo").json()
        assert answer["authorization"]["accepted"] is True
        names = {name.lower() for name, _ in answer["headers"]}
        assert not any("session" in name for name in names), names
    assert sandbox.token_calls("duke") == 3
    assert sandbox.state()["double_spends"]["duke"] == 0
    assert [event["http_status"] for event in gateway.events("--event", "renewed")] == [200] * 3


RENEWED = {"box": (BOX, "/2.0/users/me"), "duke": (DUKE, "/api/me")}


@pytest.mark.parametrize("origin", RENEWED)
def test_a_token_is_renewed_ahead_of_its_end_and_after_a_rejection(start, sandbox, origin):
    credential, path = RENEWED[origin]
    upstream = f"${{SANDBOX_{origin.upper()}_URL}}"
    gateway = start(config({"one": credential}, **{name: {"upstream": upstream, "auth": "one"} for name in ("a", "b")}))
    sandbox.set(origin, token_lifetime=4)
    assert get(gateway, f"/a{path}").status_code == 200
    assert gateway.run("token", "refresh", "one").returncode == 0
    first = sandbox.token_calls(origin)

    def renewed_twice():
        for route in ("a", "b"):
            assert get(gateway, f"/{route}{path}").status_code == 200, route
        return sandbox.token_calls(origin) >= first + 2

    def triggers():
        return [event["trigger"] for event in gateway.events("--credential", "one", "--event", "renewed")]

    wait_until(renewed_twice, 20, "renewed twice", pause=0.1)
    wait_until(lambda: triggers().count("ahead_of_expiry") >= 2 and "rejected" not in triggers(), 5, triggers)

    sandbox.set(origin, token_lifetime=None)
    assert gateway.run("token", "refresh", "one").returncode == 0
    calls = sandbox.token_calls(origin)
    sandbox.set(origin, reject_next=1)
    assert get(gateway, f"/b{path}").status_code == 200
    assert sandbox.token_calls(origin) == calls + 1
    wait_until(lambda: triggers()[-1] == "rejected", 5, triggers)
    assert sandbox.state()["double_spends"].get(origin, 0) == 0


def test_a_failing_authority_does_not_disturb_a_live_token(start, sandbox):
    gateway = start(config({"one": OAUTH}, api={"auth": "one"}))
    sandbox.set("oauth", token_lifetime=6)
    assert get(gateway, "/api/echo").status_code == 200
    sandbox.set("oauth", token_status=503, token_retry_after="1", token_next=1)
    # Due at half of its life; the first try fails, the second comes a second later, well before the end.
    wait_until(lambda: sandbox.token_calls("oauth") >= 3, 15, "renewed after a failure")
    assert get(gateway, "/api/echo").status_code == 200
    assert sandbox.state()["rejected_401"]["upstream"] == 0
    names = [event["event"] for event in gateway.events("--credential", "one")]
    assert "renewal_failed" in names and "renewed" in names


UNUSABLE = "The authorization server answered 200 without a usable token: "
NO_JSON, NO_TOKEN = UNUSABLE + "the body is not JSON.", UNUSABLE + "there is no access_token in it."
NO_SUCH_TOKEN = UNUSABLE + "the access_token is too long or contains characters that no token may contain."
TEMPORARY, WRONG, UNREACHABLE = (503, "token-temporarily-unavailable"), (500, "credential-misconfigured"), (502, "token-endpoint-unreachable")
#: What the authority does, and what a client is told of that.
HOSTILE = {
    "an HTML page": ({"token_body": "<html>busy</html>", "token_content_type": "text/html"}, TEMPORARY, NO_JSON),
    "an empty body": ({"token_body": ""}, TEMPORARY, NO_JSON),
    "half a document": ({"token_body": '{"access_token": "abc'}, TEMPORARY, NO_JSON),
    "a list": ({"token_body": "[1, 2]"}, TEMPORARY, NO_TOKEN),
    "200 with an error": (
        {"token_body": '{"error": "invalid_grant", "error_description": "words-of-the-authority"}'},
        WRONG,
        "(invalid_grant, status 200)",
    ),
    "no token": ({"token_omit": ["access_token"]}, TEMPORARY, NO_TOKEN),
    "an empty token": ({"token_set": {"access_token": ""}}, TEMPORARY, NO_TOKEN),
    "a token that is a number": ({"token_set": {"access_token": 5}}, TEMPORARY, NO_TOKEN),
    "a token with a line break": ({"token_set": {"access_token": "a\r\nX-Evil: 1"}}, TEMPORARY, NO_SUCH_TOKEN),
    "a token with a zero": ({"token_set": {"access_token": "a\u0000b"}}, TEMPORARY, NO_SUCH_TOKEN),
    "a token of another type": ({"token_set": {"token_type": "mac"}}, WRONG, "token_type is not Bearer (mac)"),
    "a huge token": ({"token_set": {"access_token": "a" * 100_000}}, TEMPORARY, NO_SUCH_TOKEN),
    "a redirect": ({"token_status": 302, "token_body": ""}, WRONG, "a redirect (status 302), which is never followed"),
    "500": ({"token_status": 500, "token_body": "words-of-the-authority"}, TEMPORARY, "no token at the moment (status 500)"),
    "429": ({"token_status": 429, "token_retry_after": "nonsense"}, TEMPORARY, "no token at the moment (status 429)"),
    "429 with a date": (
        {"token_status": 429, "token_retry_after": "Fri, 31 Dec 1999 23:59:59 GMT"},
        TEMPORARY,
        "no token at the moment (status 429)",
    ),
    "a cut connection": ({"drop_before_commit": 1000}, UNREACHABLE, "(token endpoint of one) was lost."),
    "a cut connection afterwards": ({"drop_after_commit": 1000}, UNREACHABLE, "(token endpoint of one) was lost."),
    "deep nesting": ({"token_body": "[" * 100_000}, TEMPORARY, NO_JSON),
}


@pytest.mark.parametrize("switches, refusal, words", HOSTILE.values(), ids=[name.replace(" ", "-") for name in HOSTILE])
def test_a_hostile_authority_costs_one_request_and_nothing_else(start, sandbox, switches, refusal, words):
    gateway = start(config({"one": OAUTH}, api={"auth": "one"}, other={"auth": "none"}))
    sandbox.set("oauth", **switches)

    answer = get(gateway, "/api/echo")

    said = answer.json()
    assert (answer.status_code, said["code"]) == refusal and words in said["detail"], answer.text
    assert said["status"] == answer.status_code
    assert ("Retry-After" in answer.headers) == (refusal != WRONG), "coming again helps against all but a wrong configuration"
    assert "words-of-the-authority" not in answer.text
    assert sandbox.state()["requests"]["upstream"] == 0, "nothing was sent without a credential"
    assert get(gateway, "/other/public/echo").status_code == 200
    # Operators are told what the authority said, in the one line about the call. test_failing.py has the secrets in it.
    lines = [line for line in gateway.text().splitlines() if "words-of-the-authority" in line]
    assert len(lines) == ("words-of-the-authority" in str(switches)), lines
    assert all('"gateway.authority_description":"words-of-the-authority"' in line for line in lines), lines
    assert gateway.run("audit", "verify").returncode == 0


#: What `expires_in` says, and for how many seconds the token is used: None without an end, 0 never.
LIFETIMES = [
    ("3600", 3600),
    (3600.5, 3600),
    (0, 0),
    (-5, 0),
    (None, None),
    # Ten years, which is the longest.
    (1e308, 3650 * 86400),
    ("soon", None),
    (True, None),
]


@pytest.mark.parametrize("lifetime, seconds", LIFETIMES, ids=[repr(lifetime) for lifetime, _ in LIFETIMES])
def test_a_strange_lifetime_neither_traps_nor_storms(start, sandbox, lifetime, seconds):
    gateway = start(config({"one": OAUTH}, api={"auth": "one"}))
    sandbox.set("oauth", token_set={"expires_in": lifetime})
    statuses = {get(gateway, "/api/echo").status_code for _ in range(30)}
    calls = sandbox.token_calls("oauth")
    shown = json.loads(gateway.run("token", "show", "one", "--json").stdout)
    if seconds == 0:
        assert (statuses, shown["state"]) == ({503}, "empty")
        # One, then one more after one second, two, four: as many as the requests would be a storm.
        assert calls <= 5
    else:
        assert (statuses, shown["state"], calls) == ({200}, "valid", 1)
        assert ("expires_at" in shown) == (seconds is not None)
        if seconds:
            begin, end = (datetime.datetime.fromisoformat(shown[name]) for name in ("obtained_at", "expires_at"))
            assert abs((end - begin).total_seconds() - seconds) <= 1, shown
    assert ("nor a positive number of seconds" in gateway.text()) == (lifetime in ("soon", True))


def test_a_slow_authority_is_waited_for_until_the_deadline(start, sandbox):
    whole = config({"one": OAUTH}, api={"auth": "one"})
    whole["limits"] = {"credential_timeout": "1s"}
    gateway = start(whole)
    sandbox.set("oauth", token_delay_ms=3000)
    answer = get(gateway, "/api/echo")
    assert (answer.status_code, answer.json()["code"]) == (504, "token-endpoint-timeout"), answer.text
    text = "No token came within 1s (limits.credential_timeout); the call goes on for up to 15 s."
    assert answer.json()["detail"] == text and sandbox.state()["requests"]["upstream"] == 0
    # The call went on without its waiter, and what it brings is used.
    wait_until(lambda: gateway.events("--event", "acquired"), 10, "the token arrived")
    assert get(gateway, "/api/echo").status_code == 200
    assert sandbox.token_calls("oauth") == 1


def test_a_developer_token_that_was_revoked_says_what_to_do(start, sandbox):
    auth = {"strategy": "box_developer_token", "token": {"env": "SANDBOX_BOX_DEVELOPER_TOKEN"}}
    gateway = start(config({"dev": auth}, box={"upstream": "${SANDBOX_BOX_URL}", "auth": "dev"}))
    assert get(gateway, "/box/2.0/users/me").status_code == 200
    sandbox.set("box", revoke_all=True)
    # Box says so first, and its words are passed on.
    refused = get(gateway, "/box/2.0/users/me")
    assert refused.status_code == 401 and 'error="invalid_token"' in refused.headers["WWW-Authenticate"]
    reached = sandbox.state()["requests"]["box"]
    answer = get(gateway, "/box/2.0/users/me")
    assert answer.status_code == 503
    assert answer.json()["type"].endswith("static-token-expired")
    assert "authgateway token import" in answer.text and "app.box.com/developers/console" in answer.text
    assert sandbox.state()["requests"]["box"] == reached, "it is not sent again"


def test_events_stream_as_they_come(start, sandbox):
    """The first is there long before the second is sent: the sandbox waits a minute in between, and no read here so long."""
    gateway = start(config({}, api={"auth": "none"}))
    with connect(gateway.port) as client:
        fields = f"GET /api/public/sse?events=2&interval_ms=60000 HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n\r\n"
        client.send(fields.encode())
        head = client.head()
        assert head.startswith(b"HTTP/1.1 200 ") and b"content-type: text/event-stream\r\n" in head.lower()
        assert client.until(b"\n\n").endswith(b'id: 1\ndata: {"event":1}\n\n')
        assert b"id: 2" not in client.received

"""Tokens of a real authority (django-oauth-toolkit): renewed before anyone notices, fetched once, kept over a crash."""

import collections
import datetime
import json
import re
import threading
import time

import pytest
import requests
from harness.bytes import noise
from harness import raw
from harness.origin import ok, response
from harness.processes import wait_until


def config(authority, upstream, **more):
    return {
        "credentials": {"service": authority.credential()},
        "routes": {"api": {"upstream": upstream, "auth": "service"}},
        **more,
    }


def guarded_by(authority, welcome=ok):
    """An origin's answer: refuses what the authority does not know, the way RFC 6750 says."""

    def answer(request):
        if authority.accepts(token_of(request)):
            return welcome(request)
        return response(401, b"", 'WWW-Authenticate: Bearer error="invalid_token"')

    return answer


def named(request):
    """What tells a request from others."""
    return request.target.encode() + b" " + request.body


def at(event, name="at"):
    return datetime.datetime.fromisoformat(event[name]).timestamp()


def token_of(request):
    return (request.value("authorization") or "").removeprefix("Bearer ")


@pytest.mark.slow
def test_ten_expiries_pass_without_a_401_and_without_a_wait(make_authority, make_origin, start_gateway):
    """Each renewal is begun ahead of the end and is over before it, and requests are answered meanwhile."""
    authority = make_authority(lifetime=2, token_delay=0.2)
    gateway = start_gateway(config(authority, make_origin(guarded_by(authority)).url))
    assert requests.get(gateway.url + "/api/first", timeout=20).status_code == 200

    statuses, asked = collections.Counter(), []
    stop = threading.Event()

    def client():
        with requests.Session() as session:
            while not stop.wait(0.03):
                began = time.time()
                statuses[session.get(gateway.url + "/api/again", timeout=20).status_code] += 1
                asked.append((began, time.time()))

    clients = [threading.Thread(target=client) for _ in range(3)]
    for thread in clients:
        thread.start()
    try:
        wait_until(lambda: authority.expired() >= 10, 60, "ten tokens expired", pause=0.1)
    finally:
        stop.set()
        for thread in clients:
            thread.join()

    assert set(statuses) == {200}, statuses
    events = gateway.events("--credential", "service")
    calls = [at(event) for event in events if event["event"] in ("acquiring", "renewing")]
    ends = [event for event in events if event["event"] in ("acquired", "renewed")]
    for begin, earlier, end in zip(calls[1:], ends, ends[1:], strict=False):
        assert end["trigger"] == "ahead_of_expiry" and at(end) < at(earlier, "expires_at"), end
        # Whoever waited for a token would wait for the end of the call.
        assert any(begin < started and ended < at(end) for started, ended in asked), "nobody was answered during a renewal"
    # No storm either: such a token is renewed at half its life at the earliest.
    issued = len(authority.tokens())
    assert issued <= 2 * (authority.expired() + 3), f"{issued} tokens were issued"


def test_a_thousand_requests_on_a_cold_credential_cause_one_token_call(make_authority, make_origin, start_gateway):
    authority = make_authority(token_delay=1.0)
    origin = make_origin()
    gateway = start_gateway(config(authority, origin.url))
    request = f"GET /api/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nConnection: close\r\n\r\n".encode()

    answers = raw.all_at_once(gateway.port, [request] * 1000)

    assert collections.Counter(answer.status for answer in answers) == {200: 1000}
    [(token, _)] = authority.tokens()
    assert origin.count() == 1000
    assert {token_of(request) for request in origin.requests} == {token}


def test_a_post_with_a_revoked_token_is_replayed_once_with_its_body(make_authority, make_origin, start_gateway):
    authority = make_authority()
    origin = make_origin(guarded_by(authority))
    gateway = start_gateway(config(authority, origin.url))
    assert requests.get(gateway.url + "/api/warm", timeout=20).status_code == 200
    authority.revoke_all()
    origin.forget()

    body = noise(40_000)
    answer = requests.post(gateway.url + "/api/items?x=1", data=body, timeout=20)

    assert answer.status_code == 200
    refused, accepted = origin.requests
    assert [refused.target, accepted.target] == ["/items?x=1"] * 2
    assert refused.body == body and accepted.body == body
    assert not authority.accepts(token_of(refused)) and authority.accepts(token_of(accepted))
    assert len(authority.tokens()) == 2
    names = [event["event"] for event in gateway.events("--credential", "service")]
    assert names.count("rejected") == 1
    assert names.count("replayed") == 1


def test_a_chunked_post_is_replayed_too(make_authority, make_origin, start_gateway):
    authority = make_authority()
    origin = make_origin(guarded_by(authority))
    gateway = start_gateway(config(authority, origin.url))
    requests.get(gateway.url + "/api/warm", timeout=20)
    authority.revoke_all()
    origin.forget()

    answer = requests.post(gateway.url + "/api/items", data=iter([b"one ", b"two ", b"three"]), timeout=20)

    assert answer.status_code == 200
    assert [request.body for request in origin.requests] == [b"one two three"] * 2


def test_a_hundred_late_refusals_cause_one_renewal(make_authority, make_origin, start_gateway):
    authority = make_authority(token_delay=0.5)
    origin = make_origin(guarded_by(authority, lambda request: response(200, named(request))))
    gateway = start_gateway(config(authority, origin.url))
    requests.get(gateway.url + "/api/warm", timeout=20)
    authority.revoke_all()
    origin.forget()

    fields = f"Host: 127.0.0.1:{gateway.port}\r\nContent-Length: 8\r\nConnection: close"
    asked = [f"POST /api/{number} HTTP/1.1\r\n{fields}\r\n\r\nbody {number:03}".encode() for number in range(100)]
    answers = raw.all_at_once(gateway.port, asked)

    assert collections.Counter(answer.status for answer in answers) == {200: 100}
    names = [b"/%d body %03d" % (number, number) for number in range(100)]
    assert [answer.body for answer in answers] == names, "each is answered what it asked"
    assert len(authority.tokens()) == 2
    accepted = [request for request in origin.requests if authority.accepts(token_of(request))]
    assert sorted(map(named, accepted)) == sorted(names)


def test_a_body_too_large_to_hold_is_not_replayed_and_the_next_request_works(
    make_authority, make_origin, start_gateway
):
    authority = make_authority()
    origin = make_origin(guarded_by(authority))
    gateway = start_gateway(config(authority, origin.url, limits={"replay_body_bytes": "16KiB"}))
    requests.get(gateway.url + "/api/warm", timeout=20)
    authority.revoke_all()
    origin.forget()

    refused = requests.post(gateway.url + "/api/items", data=noise(100_000), timeout=20)

    assert refused.status_code == 401
    assert refused.headers["Gateway-Token"]
    assert origin.count() == 1
    assert requests.get(gateway.url + "/api/next", timeout=20).status_code == 200
    assert len(authority.tokens()) == 2


def test_a_fresh_token_that_is_refused_too_is_not_tried_a_third_time(make_authority, make_origin, start_gateway):
    authority = make_authority()
    origin = make_origin(lambda request: response(401, b"", 'WWW-Authenticate: Bearer error="invalid_token"'))
    gateway = start_gateway(config(authority, origin.url))

    answer = requests.get(gateway.url + "/api/x", timeout=20)

    assert answer.status_code == 401
    assert origin.count() == 2
    assert len(authority.tokens()) == 2


def test_insufficient_scope_and_403_are_passed_on_and_renew_nothing(make_authority, make_origin, start_gateway):
    authority = make_authority()
    answers = {
        "/scope": response(401, b"", 'WWW-Authenticate: Bearer error="insufficient_scope"'),
        "/forbidden": response(403, b"no"),
    }
    origin = make_origin(lambda request: answers[request.target])
    gateway = start_gateway(config(authority, origin.url))

    assert requests.get(gateway.url + "/api/scope", timeout=20).status_code == 401
    assert requests.get(gateway.url + "/api/forbidden", timeout=20).status_code == 403
    assert origin.count() == 2
    assert len(authority.tokens()) == 1


def test_a_kill_and_a_restart_use_the_stored_token(make_authority, start_gateway):
    authority = make_authority()
    gateway = start_gateway(config(authority, authority.url + "/api"))
    assert requests.get(gateway.url + "/api/before", timeout=20).status_code == 200

    gateway.kill()
    verified = gateway.run("audit", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    gateway.start()

    assert requests.get(gateway.url + "/api/after", timeout=20).status_code == 200
    [(token, _)] = authority.tokens()
    assert gateway.run("audit", "verify").returncode == 0
    assert "loaded" in [event["event"] for event in gateway.events("--credential", "service")]
    for path, content in gateway.files().items():
        assert token.encode() not in content, f"the token is readable in {path}"
        assert authority.client_secret.encode() not in content, f"the client secret is readable in {path}"
    assert token not in gateway.text() and authority.client_secret not in gateway.text()


def test_a_store_in_memory_forgets_with_the_process(make_authority, start_gateway):
    authority = make_authority()
    gateway = start_gateway(config(authority, authority.url + "/api", tokens={"store": "memory"}))
    for count in (1, 2):
        for _ in range(2):
            assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
        assert len(authority.tokens()) == count
        assert not (gateway.folder / "state/tokens.sqlite").exists()
        gateway.stop()
        gateway.start()


def test_kills_under_load_leave_a_chain_that_verifies(make_authority, make_gateway):
    authority = make_authority(lifetime=2)
    gateway = make_gateway(config(authority, authority.url + "/api"))
    for _ in range(5):
        gateway.start()
        seen = len(authority.tokens())
        stop = threading.Event()

        def client(stop=stop):
            while not stop.is_set():
                try:
                    requests.get(gateway.url + "/api/x", timeout=5)
                except requests.RequestException:
                    pass

        clients = [threading.Thread(target=client) for _ in range(4)]
        for thread in clients:
            thread.start()
        wait_until(lambda seen=seen: len(authority.tokens()) > seen, 20, "a token was issued")
        gateway.kill()
        stop.set()
        for thread in clients:
            thread.join()
        verified = gateway.run("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_wrong_client_secret_is_called_by_its_name_and_not_tried_again(make_authority, make_origin, start_gateway):
    authority = make_authority()
    origin = make_origin()
    wrong = config(authority, origin.url)
    wrong["credentials"]["service"]["client_secret"] = "CANARY-5f2c9a-wrong"
    gateway = start_gateway(wrong)

    answers = [requests.get(gateway.url + "/api/x", timeout=20) for _ in range(3)]

    for answer in answers:
        assert answer.status_code == 500
        assert answer.headers["Content-Type"] == "application/problem+json"
        problem = answer.json()
        assert problem["type"].endswith("credential-misconfigured")
        assert "invalid_client" in answer.text and "service" in answer.text
        assert "CANARY" not in answer.text
    failures = [event for event in gateway.events("--failed") if event["event"] == "acquisition_failed"]
    assert len(failures) == 1
    assert failures[0]["error_code"] == "invalid_client"
    assert origin.count() == 0


def test_an_authority_that_is_down_is_a_502_and_heals_by_itself(make_authority, make_origin, start_gateway):
    authority = make_authority(own=True)
    origin = make_origin(guarded_by(authority))
    gateway = start_gateway(config(authority, origin.url))
    authority.stop()

    answer = requests.get(gateway.url + "/api/x", timeout=20)

    assert (answer.status_code, answer.json()["code"]) == (502, "token-endpoint-unreachable"), answer.text
    refused = r"(127\.0\.0\.1|localhost):\d+ \(token endpoint of service\) refuses connections\."
    assert re.fullmatch(refused, answer.json()["detail"]), answer.text
    assert origin.count() == 0
    assert 1 <= int(answer.headers["Retry-After"]) <= 4
    authority.start()
    # A client that comes back when it was told to is answered, and nobody had to do anything for that.
    time.sleep(int(answer.headers["Retry-After"]))
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    assert len(authority.tokens()) == 1
    events = gateway.events("--credential", "service")
    assert [event["event"] for event in events if event["event"].startswith("acqui")] == [
        "acquiring", "acquisition_failed", "acquiring", "acquired",
    ]  # fmt: skip
    assert {event.get("trigger") for event in events} <= {None, "demand"}


def test_with_renew_false_only_a_person_renews(make_authority, make_origin, start_gateway):
    authority = make_authority(lifetime=5)
    origin = make_origin(guarded_by(authority))
    credential = {**authority.credential(), "renew": False}
    gateway = start_gateway({**config(authority, origin.url), "credentials": {"service": credential}})
    assert authority.tokens() == []
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    # It ends soon, and nobody but a person sees to that.
    assert gateway.run("status").returncode == 1
    wait_until(lambda: gateway.events("--event", "expired"), 20, "the end of the token")

    refused = requests.get(gateway.url + "/api/x", timeout=20)
    assert refused.json()["code"] == "static-token-expired"
    assert "authgateway token refresh service" in refused.text
    assert len(authority.tokens()) == 1
    shown = json.loads(gateway.run("token", "show", "service", "--json").stdout)
    assert (shown["state"], shown["action"]) == ("expired", "authgateway token refresh service")

    assert gateway.run("token", "refresh", "service").returncode == 0
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    authority.revoke_all()
    # The 401 is passed on, and the token is not used again.
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 401
    reached = origin.count()
    assert requests.get(gateway.url + "/api/x", timeout=20).json()["code"] == "static-token-expired"
    assert (origin.count(), len(authority.tokens())) == (reached, 2)

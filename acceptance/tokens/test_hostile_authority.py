"""Authorities that misbehave in the bytes: no crash, no injected field, no wait beyond the deadline, no good token lost."""

import collections
import concurrent.futures
import datetime
import gzip
import json
import time

import pytest
import requests
from harness import proc
from harness.origin import response
from harness.processes import wait_until

DEADLINE = 3
#: What one answer may take; the bomb would be 64 MiB.
MEMORY_MIB = 16


def token(value="good", lifetime=3600, **members):
    body = {"access_token": value, "token_type": "Bearer", "expires_in": lifetime, **members}
    return response(200, json.dumps(body).encode(), "Content-Type: application/json")


def head(*fields):
    return "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: application/json", *fields]).encode() + b"\r\n\r\n"


BOMB = gzip.compress(b" " * (64 << 20), compresslevel=1)


def a_gzip_bomb(request):
    yield head("Content-Encoding: gzip", f"Content-Length: {len(BOMB)}") + BOMB


def one_byte_a_second(request):
    yield head("Content-Length: 1000")
    for _ in range(600):
        time.sleep(1)
        yield b" "


def a_head_of_one_byte_a_second(request):
    for byte in head("Content-Length: 2") * 10:
        time.sleep(1)
        yield bytes([byte])


def a_head_and_then_silence(request):
    yield head("Content-Length: 100")
    time.sleep(600)


def endless_chunks(request):
    yield head("Transfer-Encoding: chunked")
    while True:
        yield b"10000\r\n" + b" " * 0x10000 + b"\r\n"


def an_endless_body_without_length(request):
    yield head("Connection: close")
    while True:
        yield b" " * 0x10000


def endless_fields(request):
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        yield b"X-Padding: " + b"a" * 1000 + b"\r\n"


def endless_interim_answers(request):
    while True:
        yield b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100


def two_lengths(request):
    yield head("Content-Length: 10", "Content-Length: 20") + b"0123456789"


def not_http(request):
    yield b"220 mail.example ESMTP\r\n"
    time.sleep(600)


def a_fold_in_the_head(request):
    yield b"HTTP/1.1 200 OK\r\nX-A: 1\r\n Authorization: Bearer evil\r\nContent-Length: 0\r\n\r\n"


def a_token_of_64_kib(request):
    yield token("a" * 65536)


def a_token_with_a_field(request):
    yield token("a\r\nX-Evil: 1")


def a_million_members(request):
    body = b"{" + b",".join(b'"m%d":1' % number for number in range(60_000)) + b"}"
    yield head(f"Content-Length: {len(body)}") + body


def the_longest_retry_after(request):
    yield response(503, b"", f"Retry-After: {10**30}")


def a_negative_retry_after(request):
    yield response(429, b"", "Retry-After: -5")


#: How a request is refused that gets no token: the status and the code.
UNREADABLE = (502, "token-endpoint-unreachable")
USELESS = (503, "token-temporarily-unavailable")
LATE = (504, "token-endpoint-timeout")
HOSTILE = {
    a_gzip_bomb: UNREADABLE,
    one_byte_a_second: LATE,
    a_head_of_one_byte_a_second: LATE,
    a_head_and_then_silence: LATE,
    endless_chunks: UNREADABLE,
    an_endless_body_without_length: UNREADABLE,
    endless_fields: UNREADABLE,
    endless_interim_answers: UNREADABLE,
    two_lengths: UNREADABLE,
    not_http: UNREADABLE,
    a_fold_in_the_head: UNREADABLE,
    a_token_of_64_kib: USELESS,
    a_token_with_a_field: USELESS,
    a_million_members: USELESS,
    the_longest_retry_after: USELESS,
    a_negative_retry_after: USELESS,
}


class Authority:
    """Answers with what it was last told to."""

    def __init__(self, make_origin):
        self.answer = lambda request: token()
        self.origin = make_origin(lambda request: self.answer(request))

    def credential(self, **changes):
        return {
            "strategy": "oauth2_client_credentials",
            "token_url": f"{self.origin.url}/token",
            "client_id": "c",
            "client_secret": "s",
            **changes,
        }


@pytest.fixture
def authority(make_origin):
    return Authority(make_origin)


@pytest.fixture
def start(authority, origin, start_gateway):
    return lambda: start_gateway(
        {
            "limits": {"credential_timeout": f"{DEADLINE}s"},
            "credentials": {"one": authority.credential()},
            "routes": {
                "api": {"upstream": origin.url, "auth": "one"},
                "plain": {"upstream": origin.url, "auth": "none"},
            },
        }
    )


@pytest.mark.parametrize("answer", HOSTILE, ids=lambda answer: answer.__name__)
def test_without_a_token_it_costs_the_deadline_at_most(start, authority, origin, answer):
    authority.answer = answer
    gateway = start()
    pid = gateway.process.pid
    proc.forget_peak(pid)
    before = proc.peak_memory_mib(pid)

    started = time.monotonic()
    refusal = requests.get(f"{gateway.url}/api/x", timeout=30)

    # Long before the deadline of the call itself.
    assert time.monotonic() - started < DEADLINE + 4
    assert (refusal.status_code, refusal.json()["code"]) == HOSTILE[answer], refusal.text
    assert refusal.headers["Content-Type"] == "application/problem+json"
    assert origin.count() == 0, "nothing was sent without a credential"
    assert requests.get(f"{gateway.url}/plain/x", timeout=5).status_code == 200
    assert gateway.process.poll() is None
    assert proc.peak_memory_mib(pid) - before < MEMORY_MIB, (before, proc.peak_memory_mib(pid))


#: Those that hold a token call up until its own deadline ends it.
SLOW = [one_byte_a_second, a_head_of_one_byte_a_second, a_head_and_then_silence]
CALL_DEADLINE = 15


@pytest.mark.parametrize("answer", [answer for answer in HOSTILE if answer not in SLOW], ids=lambda answer: answer.__name__)
def test_a_good_token_is_not_lost_to_it(start, authority, origin, answer):
    authority.answer = lambda request: token("good", lifetime=600)
    gateway = start()
    assert requests.get(f"{gateway.url}/api/x", timeout=30).status_code == 200
    authority.answer = answer
    calls = authority.origin.count()

    renewal = gateway.run("token", "refresh", "one", timeout=40)

    assert renewal.returncode == 1, renewal.stdout
    assert authority.origin.count() > calls
    answered = requests.get(f"{gateway.url}/api/x", timeout=5)
    assert answered.status_code == 200
    assert origin.last().values("authorization") == ["Bearer good"]


class Renewal:
    """One route with a credential of its own, whose renewals all get one slow answer."""

    def __init__(self, gateway, origin, answer):
        self.name = answer.__name__.replace("_", "-")
        self.gateway, self.origin = gateway, origin

    def by_hand(self):
        started = time.monotonic()
        result = self.gateway.run("token", "refresh", self.name, timeout=40)
        return result, time.monotonic() - started

    def request(self):
        """(status, seconds, the tokens that arrived at the upstream)"""
        before, started = self.origin.count(), time.monotonic()
        answer = requests.get(f"{self.gateway.url}/{self.name}/x", timeout=30)
        took = time.monotonic() - started
        return answer.status_code, took, [request.value("authorization") for request in self.origin.requests[before:]]

    def is_refused(self):
        """The token is over, and a call hangs: who asks waits as long as was promised, for nothing."""
        status, took, tokens = self.request()
        assert (status, tokens) == (504, []) and took < DEADLINE + 4, f"{self.name}: {status} after {took:.1f} s"

    def is_served(self):
        status, took, tokens = self.request()
        assert (status, tokens) == (200, [f"Bearer good-{self.name}"]), self.name
        # Whoever waited for the call would wait so long.
        assert took < DEADLINE, f"{self.name}: a request waited {took:.1f} s beside a good token"


@pytest.fixture
def hanging(authority, origin, start_gateway):
    """Starts a gateway with a credential for each slow answer: the first call brings a token that lives so long, the others hang."""
    calls = collections.Counter()

    def start(lifetime):
        slow = {answer.__name__.replace("_", "-"): answer for answer in SLOW}

        def reply(request):
            name = request.target.strip("/")
            calls[name] += 1
            return token(f"good-{name}", lifetime) if calls[name] == 1 else slow[name](request)

        authority.answer = reply
        gateway = start_gateway(
            {
                "limits": {"credential_timeout": f"{DEADLINE}s"},
                "credentials": {name: authority.credential(token_url=f"{authority.origin.url}/{name}") for name in slow},
                "routes": {name: {"upstream": origin.url, "auth": name} for name in slow},
            }
        )
        return gateway, [Renewal(gateway, origin, answer) for answer in SLOW], calls

    return start


def are_refused_together(renewals):
    with concurrent.futures.ThreadPoolExecutor(len(renewals)) as pool:
        for _ in pool.map(Renewal.is_refused, renewals):
            pass


def test_a_good_token_is_served_until_its_end_while_renewals_hang(hanging):
    """Renewals begin at half of its life, and none of them is over when it ends."""
    lifetime = 4
    gateway, renewals, calls = hanging(lifetime)
    started = time.monotonic()
    for renewal in renewals:
        renewal.is_served()
    wait_until(lambda: set(calls.values()) == {2}, lifetime, lambda: f"every renewal is under way: {calls}")
    served = 0
    while time.monotonic() < started + lifetime - 1:
        for renewal in renewals:
            renewal.is_served()
        served += 1
    assert served > 1
    ends = [event["expires_at"] for event in gateway.events("--event", "acquired")]
    wait_until(lambda: max(ends) < datetime.datetime.now(datetime.timezone.utc).isoformat(), 10, "the tokens are over")
    are_refused_together(renewals)
    assert set(calls.values()) == {2}, "it is still the same call"


@pytest.mark.soak
def test_a_good_token_outlives_calls_that_end_at_their_deadline(hanging, origin):
    lifetime = CALL_DEADLINE + 4
    _, renewals, calls = hanging(lifetime)
    started = time.monotonic()
    for renewal in renewals:
        renewal.is_served()

    with concurrent.futures.ThreadPoolExecutor(len(renewals)) as pool:
        under_way = [pool.submit(renewal.by_hand) for renewal in renewals]
        wait_until(lambda: set(calls.values()) == {2}, 10, lambda: f"every renewal is under way: {calls}")
        while not all(renewal.done() for renewal in under_way):
            for renewal in renewals:
                renewal.is_served()
            time.sleep(0.1)
    for renewal, (result, took) in zip(renewals, (future.result() for future in under_way), strict=True):
        assert result.returncode == 1 and "did not answer in time" in result.stderr, (renewal.name, result)
        assert CALL_DEADLINE - 1 < took < CALL_DEADLINE + 2, f"{renewal.name}: {took:.1f} s"
        renewal.is_served()
    while time.monotonic() < started + lifetime - 1:
        for renewal in renewals:
            renewal.is_served()
        time.sleep(0.1)

    # The end: a renewal is under way again and hangs as well.
    wait_until(lambda: time.monotonic() > started + lifetime + 1, 10, "the tokens are over", pause=0.1)
    are_refused_together(renewals)


def test_a_cut_after_the_rotation_is_never_silent(start_gateway, make_origin, origin):
    """The authority has rotated, and its answer is lost: the state says so, and the next answer heals it."""
    pair = {"data": {"access_token": "second", "session_token": "s2"}}
    answers = [b"", response(200, json.dumps(pair).encode())]
    authority = make_origin(lambda request: answers[min(authority.count(), 2) - 1] or cut())

    def cut():
        raise ValueError("cut")

    gateway = start_gateway(
        {
            "credentials": {
                "campus": {
                    "strategy": "session_refresh",
                    "base_url": authority.url,
                    "refresh": {
                        "path": "/refresh",
                        "access_token": {"header": "X-Access-Token"},
                        "session_token": {"header": "X-Session-Token"},
                    },
                    "response": {"access_token": "/data/access_token", "session_token": "/data/session_token"},
                    "expiry": "fixed",
                    "lifetime": "1h",
                    "access_token": "first",
                    "session_token": "s1",
                }
            },
            "routes": {"api": {"upstream": origin.url, "auth": "campus"}},
        }
    )
    assert requests.get(f"{gateway.url}/api/x", timeout=10).status_code == 200
    assert gateway.run("token", "refresh", "campus").returncode == 1
    assert "rotation_uncertain" in gateway.run("token", "list", "--json").stdout
    # Still served: the access token at hand has not been refused by anybody.
    assert requests.get(f"{gateway.url}/api/x", timeout=10).status_code == 200
    wait_until(lambda: authority.count() >= 2, 15, "tried again")
    wait_until(lambda: '"valid"' in gateway.run("token", "list", "--json").stdout, 10, "healed")
    assert requests.get(f"{gateway.url}/api/x", timeout=10).status_code == 200
    assert origin.last().values("authorization") == ["Bearer second"]

"""`digest` (RFC 7616), judged by a server of the tests, by Apache, and by the clients curl, libcurl and requests, which the server takes, too."""

import concurrent.futures
import io
import subprocess

import pycurl
import pytest
import requests
from harness.apache import apache
from harness.configs import CANARY, with_route
from harness.digest_server import DigestServer
from harness.processes import wait_until
from requests.auth import HTTPDigestAuth

PASSWORD = f"{CANARY}-password"


@pytest.fixture
def make_server():
    servers = []

    def make(*arguments, **options):
        servers.append(DigestServer("me", PASSWORD, *arguments, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def start(start_gateway):
    def start(url, more=None, **keys):
        auth = {"strategy": "digest", "username": "me", "password": {"env": "PASSWORD"}, **keys}
        return start_gateway(with_route(auth, url) | (more or {}), environment={"PASSWORD": PASSWORD})

    return start


def get(gateway, path="/x?a=%20b&c", **options):
    return requests.get(f"{gateway.url}/api{path}", timeout=20, allow_redirects=False, **options)


def at_once(gateway, count, threads=16):
    """The statuses of as many requests, some at the same time."""
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return [answer.status_code for answer in pool.map(lambda number: get(gateway, f"/{number}"), range(count))]


def known(gateway):
    return requests.get(f"{gateway.admin_url}/api/tokens/me", timeout=20).json()


# The signature

ALGORITHMS = ["MD5", "SHA-256", "SHA-512-256", "MD5-sess", "SHA-256-sess", "SHA-512-256-sess", None]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("more", ["", "userhash=true, charset=UTF-8", 'domain="/ /x", charset=UTF-8'])
def test_a_challenge_is_answered_and_later_requests_are_signed_at_once(make_server, start, algorithm, more):
    server = make_server(algorithm, qop="auth,auth-int", realm='a "b" \\c', more=more)
    gateway = start(server.url)
    for number in range(3):
        answer = requests.post(f"{gateway.url}/api/x?a=%20b&c", data=b"body", timeout=20)
        assert answer.text == "POST /x?a=%20b&c body"
        assert "authentication-info" not in answer.headers and number + 1 == server.accepted
    assert (server.challenged, server.wrong, server.stale, server.origin.count()) == (1, 0, 0, 4)
    assert [request.body for request in server.origin.requests] == [b"body"] * 4
    assert known(gateway)["last_accepted_at"] and "last_rejected_at" not in known(gateway)


@pytest.mark.parametrize("algorithm", ["MD5", "SHA-256", None])
def test_servers_without_qop_are_answered(make_server, start, algorithm):
    server = make_server(algorithm, qop=None)
    gateway = start(server.url)
    assert [get(gateway).status_code for _ in range(2)] == [200, 200]
    assert (server.challenged, server.wrong, server.origin.count()) == (1, 0, 3)


@pytest.mark.parametrize("algorithm", ["MD5", "SHA-256", None])
def test_the_server_takes_other_clients(make_server, algorithm):
    server = make_server(algorithm)
    assert requests.get(f"{server.url}/x?y", auth=HTTPDigestAuth("me", PASSWORD), timeout=20).status_code == 200
    command = ["curl", "--silent", "--fail", "--digest", "--user", f"me:{PASSWORD}", f"{server.url}/x?y"]
    assert subprocess.run(command, capture_output=True, timeout=20, check=True).stdout == b"GET /x?y "
    assert (server.accepted, server.wrong) == (2, 0)


@pytest.mark.parametrize("algorithm", ["SHA-256", "SHA-512-256", "SHA-512-256-sess"])
def test_the_server_takes_a_new_libcurl(make_server, algorithm):
    """Older ones, and other clients, do not know SHA-512-256, and the example of RFC 7616 was computed with another function (erratum 4897)."""
    server = make_server(algorithm)
    body = io.BytesIO()
    curl = pycurl.Curl()
    options = {
        pycurl.URL: f"{server.url}/x?y",
        pycurl.HTTPAUTH: pycurl.HTTPAUTH_DIGEST,
        pycurl.USERPWD: f"me:{PASSWORD}",
        pycurl.WRITEDATA: body,
        pycurl.TIMEOUT: 20,
    }
    for option, value in options.items():
        curl.setopt(option, value)
    curl.perform()
    curl.close()
    assert body.getvalue() == b"GET /x?y " and (server.accepted, server.wrong) == (1, 0)


def test_what_clients_send_is_replaced(make_server, start):
    server = make_server()
    gateway = start(server.url)
    headers = {"Authorization": 'Digest username="other"', "Authentication-Info": "x"}
    assert [get(gateway, headers=headers).status_code for _ in range(2)] == [200, 200]
    assert [request.values("authentication-info") for request in server.origin.requests] == [[], [], []]


# Many requests


@pytest.mark.parametrize("count", ["any", "growing", "next"])
def test_requests_that_share_a_nonce_have_counts_of_their_own(make_server, start, count):
    server = make_server(count=count)
    gateway = start(server.url, more={"workers": 2})
    for _ in range(3):
        assert set(at_once(gateway, 60)) == {200}
    assert server.wrong == 0 and "last_rejected_at" not in known(gateway)
    if count == "any":
        assert (server.misplaced, server.accepted) == (0, 180) and server.challenged <= 16
        assert max(len(used) for used in server.nonces.values()) > 100


def test_a_nonce_that_is_too_old_is_replaced_and_nothing_is_counted(make_server, start):
    server = make_server()
    gateway = start(server.url)
    assert get(gateway).status_code == 200
    for _ in range(3):
        server.expire()
        assert requests.post(f"{gateway.url}/api/x", data=b"body", timeout=20).text == "POST /x body"
    assert (server.stale, server.challenged, server.wrong, server.accepted) == (3, 1, 0, 4)
    server.expire()
    assert set(at_once(gateway, 60)) == {200}
    assert "last_rejected_at" not in known(gateway) and server.wrong == 0
    assert not [row for row in gateway.events() if row["event"] == "replayed"]


def test_a_server_that_forgets_without_saying_so_is_asked_again(make_server, start):
    server = make_server()
    server.says_stale = False
    gateway = start(server.url)
    assert get(gateway).status_code == 200
    for _ in range(3):
        server.expire()
        assert get(gateway).status_code == 200
        assert set(at_once(gateway, 30)) == {200}
    assert server.wrong == 0 and "last_rejected_at" not in known(gateway)


def test_the_next_nonce_is_used(make_server, start):
    server = make_server()
    server.is_once = True
    gateway = start(server.url)
    assert [get(gateway).status_code for _ in range(5)] == [200] * 5
    assert (server.challenged, server.stale, server.accepted) == (1, 0, 5)
    assert set(at_once(gateway, 60)) == {200}
    assert server.wrong == 0


def test_a_server_to_which_every_nonce_is_too_old_is_not_asked_for_ever(make_server, start):
    server = make_server()
    server.judge = lambda request, sent: server.challenge(is_stale=True)
    gateway = start(server.url)
    assert get(gateway).status_code == 401
    assert server.origin.count() == 4


# The password


def test_a_wrong_password_is_sent_once_for_each_request(make_server, start):
    server = make_server()
    server.password = "another"
    gateway = start(server.url)
    for number in range(1, 6):
        assert get(gateway, f"/{'ab'[number % 2]}").status_code == 401
        assert (server.wrong, server.origin.count()) == (number, 2 * number)
    assert known(gateway)["state"] == "rejected"
    server.password = PASSWORD
    assert get(gateway).status_code == 200
    assert known(gateway)["state"] == "valid"


def test_a_password_that_was_changed_is_sent_twice_and_then_once(make_server, start):
    server = make_server()
    gateway = start(server.url)
    assert [get(gateway).status_code for _ in range(3)] == [200] * 3
    server.password = "another"
    assert get(gateway).status_code == 401
    assert server.wrong == 2
    assert get(gateway).status_code == 401
    assert server.wrong == 3


@pytest.mark.parametrize("keys", [{"realm": "another realm"}, {"algorithms": ["SHA-256", "SHA-512-256"]}])
def test_only_what_the_configuration_allows_is_answered(make_server, start, keys):
    server = make_server()
    gateway = start(server.url, **keys)
    answer = get(gateway)
    assert answer.status_code == 401 and answer.headers["www-authenticate"].startswith("Digest ")
    assert (server.wrong, server.origin.count()) == (0, 1)
    assert "last_rejected_at" not in known(gateway)
    server.realm, server.algorithm = "another realm", "SHA-256"
    assert get(gateway).status_code == 200


@pytest.mark.parametrize(
    "challenge",
    [
        'realm="r", nonce="%s", qop="auth"' % ("x" * 3000),
        'realm="%s", nonce="n", qop="auth"' % ("x" * 3000),
        'realm="r", nonce="n", qop="auth-int"',
        'realm="r", nonce="n", algorithm=SHA-1',
        'realm="r", nonce="n\\\u0001"',
        'realm="r", nonce="n',
        'realm="r"',
        ", " * 3000,
    ],
)
def test_challenges_that_cannot_be_answered_are_passed_on(make_origin, start, challenge):
    origin = make_origin(lambda request: b"HTTP/1.1 401 No\r\nWWW-Authenticate: Digest " + challenge.encode() + b"\r\nContent-Length: 0\r\n\r\n")
    gateway = start(origin.url)
    assert get(gateway).status_code in (401, 502)
    assert origin.count() == 1 and not origin.requests[0].values("authorization")


def test_a_lock_keeps_every_request_back(make_server, start):
    server = make_server()
    gateway = start(server.url)
    assert get(gateway).status_code == 200
    assert gateway.run("token", "lock", "me").returncode == 0
    server.origin.forget()
    assert get(gateway).json()["code"] == "locked" and server.origin.count() == 0
    assert gateway.run("token", "unlock", "me").returncode == 0
    assert get(gateway).status_code == 200 and server.origin.count() == 1


def test_a_body_that_is_too_long_to_be_replayed_has_the_next_one_signed(make_server, start):
    server = make_server()
    gateway = start(server.url, more={"limits": {"replay_body_bytes": 1000}})
    url = f"{gateway.url}/api/x"
    refused = requests.post(url, data=b"x" * 2000, timeout=20)
    assert refused.status_code == 401 and "body not held" in refused.headers["gateway-token"]
    assert requests.post(url, data=b"x" * 2000, timeout=20).status_code == 200
    assert (server.challenged, server.origin.count()) == (1, 2)


def test_the_password_is_shown_nowhere(make_server, start):
    server = make_server()
    gateway = start(server.url)
    assert get(gateway).status_code == 200
    assert PASSWORD.encode() not in server.origin.raw() and PASSWORD not in gateway.text()
    explained = gateway.run("explain", "/api/x")
    assert explained.returncode == 0 and "Authorization" in explained.stdout and PASSWORD not in explained.stdout
    assert PASSWORD not in gateway.run("plan").stdout


# Apache


@pytest.mark.parametrize(
    "directives",
    [[], ["AuthDigestNcCheck On"], ["AuthDigestNonceLifetime 1"], ["AuthDigestNonceLifetime 0"]],
    ids=["plain", "ordered", "short", "once"],
)
def test_apache(short_folder, start, directives):
    # Its processes run as another user.
    server = apache(short_folder / "apache", "me", PASSWORD, {"/": ""}, digest=directives)
    try:
        (server.folder / "page").write_text("hello")
        gateway = start(server.url)
        assert [get(gateway, "/page").text for _ in range(5)] == ["hello"] * 5
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: get(gateway, "/page?a=b&c=%20"), range(120)))
        assert {answer.status_code for answer in answers} == {200}
        wait_until(lambda: get(gateway, "/page").text == "hello", 5, "the next nonce is taken")
        errors = (server.folder / "errors").read_text()
        assert "password mismatch" not in errors, errors
        assert "last_rejected_at" not in known(gateway)
    finally:
        server.stop()


@pytest.mark.parametrize("directives", [[], ["AuthDigestNcCheck On"]], ids=["plain", "ordered"])
def test_apache_with_two_realms(short_folder, start, directives):
    log = [f"LogFormat \"%s %U\" short\nCustomLog {short_folder}/apache/access short"]
    server = apache(
        short_folder / "apache",
        "me",
        PASSWORD,
        {"/": "", "/other": ""},
        more=log,
        digest=directives,
        realms=["/other"],
    )
    try:
        (server.folder / "other").mkdir()
        for page in ("page", "other/page"):
            (server.folder / page).write_text("hello")
        gateway = start(server.url)

        def refused():
            lines = (server.folder / "access").read_text().splitlines()
            return [line for line in lines if line.startswith("401")]

        paths = ["/page", "/other/page"]
        assert [get(gateway, path).text for path in paths * 3] == ["hello"] * 6
        # Counts that have to be in order are begun anew, because Apache keeps one for both realms.
        before = refused()
        assert directives or before == ["401 /page", "401 /other/page"]
        assert [get(gateway, path).text for path in paths * 5] == ["hello"] * 10
        assert refused() == before, "requests to both realms are signed at once"
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda number: get(gateway, paths[number % 2]), range(120)))
        assert {answer.status_code for answer in answers} == {200}
        assert directives or refused() == before
        assert "last_rejected_at" not in known(gateway)
    finally:
        server.stop()

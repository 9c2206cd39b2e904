"""`delegated`: token servers of one's own."""

import concurrent.futures
import datetime
import json
import socket
import time
import urllib.parse

import pytest
import requests
from harness.configs import CANARY
from harness import processes
from harness.client_certificates import mutual, show
from harness.jwt_authority import FORMS, PASSPHRASE, KeyPair
from harness.origin import response
from harness.tls import CertificateAuthority
from harness.token_server import server_context, who
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey


@pytest.fixture
def server(token_server):
    return token_server


@pytest.fixture
def api(make_origin):
    return make_origin(who)


def config(server, api, **block):
    block = {"url": server.url + "/token?id={{unique_id}}", "unique_id": "42", **block}
    return {
        "credentials": {"app-user": {"strategy": "delegated", **block}},
        "routes": {"api": {"upstream": api.url, "auth": "app-user"}},
    }


def get(gateway, **headers):
    return requests.get(gateway.url + "/api/x", headers=headers, timeout=20)


def ends(gateway):
    """When the tokens end that were obtained, in seconds from when they were."""
    seconds = []
    for event in gateway.events("--event", "acquired"):
        at, end = (datetime.datetime.fromisoformat(event[name]) for name in ("at", "expires_at"))
        seconds.append(round((end - at).total_seconds()))
    return seconds


# MARK: One user


def test_the_request_is_what_the_templates_say(server, api, start_gateway):
    gateway = start_gateway(
        config(
            server,
            api,
            url=server.url + "/v1/{{info.region}}/token?tier={{info.tier}}&id={{unique_id}}",
            unique_id='4"2 ä',
            info={"region": "eu/west", "tier": "gold"},
            headers={"X-Tier": "is {{info.tier}}"},
            body={"json": {"user": {"id": "{{unique_id}}"}, "all": [True, 7]}},
        )
    )
    assert get(gateway).text == "Bearer token-1-of-4%222%20%C3%A4"
    assert get(gateway).text == "Bearer token-1-of-4%222%20%C3%A4"
    (asked,) = server.requests
    assert (asked.method, asked.target) == ("POST", "/v1/eu%2Fwest/token?tier=gold&id=4%222%20%C3%A4")
    assert asked.headers["X-Tier"] == "is gold"
    assert asked.headers["Content-Type"] == "application/json"
    assert json.loads(asked.body) == {"user": {"id": '4"2 ä'}, "all": [True, 7]}
    assert [event["subject"] for event in gateway.events("--event", "acquired")] == ['4"2 ä']


def test_a_form_is_sent(server, api, start_gateway):
    gateway = start_gateway(config(server, api, method="PUT", body={"form": {"user": "{{unique_id}}"}}))
    assert get(gateway).status_code == 200
    (asked,) = server.requests
    assert (asked.method, asked.body) == ("PUT", b"user=42")
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_an_answer_in_text_is_the_token(server, api, start_gateway):
    server.answer = lambda asked, token: (200, {"Content-Type": "text/plain"}, token + "\n")
    gateway = start_gateway(config(server, api, response="text", default_ttl="10m"))
    assert server.count() == 0, "nobody needs a token yet"
    assert get(gateway).text == "Bearer token-1-of-42"
    assert [(asked.method, asked.target) for asked in server.requests] == [("GET", "/token?id=42")]
    assert ends(gateway) == [600]


def soon(seconds):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "answer, block, seconds",
    [
        (lambda token: {"access_token": token, "expires_in": 300}, {}, 300),
        (lambda token: {"access_token": token, "expires_in": "300"}, {}, 300),
        (lambda token: {"access_token": token}, {}, 2700),
        (lambda token: {"access_token": token, "expires_at": soon(300).isoformat()}, {}, 300),
        (lambda token: {"access_token": token, "expires_at": int(soon(300).timestamp())}, {}, 300),
        (lambda token: {"access_token": token, "expires_at": int(soon(300).timestamp() * 1000)}, {}, 300),
        (
            lambda token: {"data": [{"tok/en": token, "for": 300}]},
            {"response": {"token": "/data/0/tok~1en", "expires_in": "/data/0/for"}},
            300,
        ),
        (
            lambda token: {"data": {"token": token, "until": soon(300).isoformat()}},
            {"response": {"format": "json", "token": "/data/token", "expires_at": "/data/until"}},
            300,
        ),
    ],
)
def test_token_and_end_are_found_in_the_answer(server, api, start_gateway, answer, block, seconds):
    server.answer = lambda asked, token: (200, {}, json.dumps(answer(token)))
    gateway = start_gateway(config(server, api, **block))
    assert get(gateway).text == "Bearer token-1-of-42"
    (found,) = ends(gateway)
    assert abs(found - seconds) <= 2


def test_the_initial_token_is_used_until_it_is_rejected(server, make_origin, start_gateway):
    api = make_origin(lambda request: response(401) if CANARY in request.value("authorization") else who(request))
    gateway = start_gateway(config(server, api, initial_token=CANARY))
    assert server.count() == 0
    assert get(gateway).text == "Bearer token-1-of-42"
    assert [request.value("authorization") for request in api.requests] == [f"Bearer {CANARY}", "Bearer token-1-of-42"]
    assert server.count() == 1


def test_the_initial_token_is_renewed_ahead_of_its_end(server, api, start_gateway):
    gateway = start_gateway(
        config(server, api, initial_token=CANARY, initial_token_expires=soon(4).isoformat(), renew={"at_least": "1s"})
    )
    processes.wait_until(lambda: get(gateway).text == "Bearer token-1-of-42", 20, "a token of the server")
    assert server.count() == 1
    renewed = gateway.events("--event", "renewed")
    assert [event["trigger"] for event in renewed] == ["ahead_of_expiry"], gateway.events()


def test_an_initial_token_that_has_ended_is_not_used(server, api, start_gateway):
    gateway = start_gateway(config(server, api, initial_token=CANARY, initial_token_expires="2026-01-31"))
    assert get(gateway).text == "Bearer token-1-of-42"
    assert all(CANARY not in request.value("authorization") for request in api.requests)


def test_a_token_is_renewed_ahead_of_its_end(server, api, start_gateway):
    server.answer = lambda asked, token: (200, {}, json.dumps({"access_token": token, "expires_in": 4}))
    gateway = start_gateway(config(server, api))
    first = get(gateway).text
    processes.wait_until(lambda: get(gateway).text != first, 10, "a new token")
    assert api.count() > 1 and all(request.value("authorization").startswith("Bearer token-") for request in api.requests)


def test_the_token_goes_where_apply_says(server, make_origin, start_gateway):
    api = make_origin(lambda request: response(200, request.value("x-token").encode()))
    gateway = start_gateway(config(server, api, apply={"header": "X-Token"}))
    assert get(gateway, **{"X-Token": "mine"}).text == "token-1-of-42"


# MARK: What goes wrong

#: What the token server says of itself. It repeats the secret that it was sent.
WORDS = f"No such tenant, {CANARY}"


@pytest.mark.parametrize(
    "answer, status, code",
    [
        ((401, {}, WORDS), 500, "credential-misconfigured"),
        ((404, {}, WORDS), 500, "credential-misconfigured"),
        ((302, {"Location": "https://elsewhere.example"}, ""), 500, "credential-misconfigured"),
        ((500, {}, WORDS), 503, "token-temporarily-unavailable"),
        ((429, {"Retry-After": "7"}, ""), 503, "token-temporarily-unavailable"),
        ((200, {}, "<html>sign in</html>"), 503, "token-temporarily-unavailable"),
        ((200, {}, "{}"), 503, "token-temporarily-unavailable"),
        ((200, {}, json.dumps({"access_token": "a\r\nX-Evil: 1"})), 503, "token-temporarily-unavailable"),
    ],
)
def test_an_answer_without_a_token_is_explained(server, api, start_gateway, answer, status, code):
    server.answer = lambda asked, token: answer
    gateway = start_gateway(config(server, api, request_auth={"bearer": CANARY}))
    for _ in range(3):
        refused = get(gateway)
        assert (refused.status_code, refused.json()["code"]) == (status, code), refused.text
        assert CANARY not in refused.text and "No such tenant" not in refused.text and "127.0.0.1" in refused.json()["detail"]
    assert (server.count(), api.count()) == (1, 0)
    if status == 503:
        assert int(refused.headers["Retry-After"]) >= 1
    (event,) = gateway.events("--event", "acquisition_failed")
    assert event["http_status"] == answer[0]
    if answer[2] == WORDS:
        assert event["detail"]["authority_description"] == "No such tenant, ‹hidden›"


def good(token, form):
    """A body that holds a token, in that form."""
    return token if form == "text" else json.dumps({"access_token": token, "expires_in": 3600})


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("status", [300, 302, 304, 400, 401, 403, 404, 407, 409, 422, 429, 500, 502, 503])
def test_a_status_outside_of_2xx_is_an_error_although_its_body_holds_a_token(server, api, start_gateway, status, form):
    # A 304 has no body (RFC 9110 section 15.4.5).
    server.answer = lambda asked, token: (status, {}, "" if status == 304 else good(token, form))
    gateway = start_gateway(config(server, api, response=form))
    refused = get(gateway)
    assert refused.status_code == (503 if status == 429 or status >= 500 else 500), refused.text
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert f"status {status}" in refused.json()["detail"]
    assert (server.count(), api.count()) == (1, 0)
    assert [event["http_status"] for event in gateway.events("--event", "acquisition_failed")] == [status]


@pytest.mark.parametrize("status, works", [(200, True), (201, True), (203, True), (204, False)])
def test_a_status_of_2xx_is_good_where_it_brings_a_token(server, api, start_gateway, status, works):
    server.answer = lambda asked, token: (status, {}, good(token, "json") if works else "")
    answer = get(start_gateway(config(server, api)))
    if works:
        assert answer.text == "Bearer token-1-of-42"
    else:
        assert (answer.status_code, answer.json()["code"], api.count()) == (503, "token-temporarily-unavailable", 0)


def test_an_error_while_a_token_lives_is_recorded_and_costs_no_request(server, api, start_gateway):
    gateway = start_gateway(config(server, api))
    assert get(gateway).text == "Bearer token-1-of-42"
    server.answer = lambda asked, token: (500, {}, good(token, "json"))
    refused = gateway.run("token", "refresh", "app-user")
    assert refused.returncode == 1 and "status 500" in refused.stderr, refused
    assert get(gateway).text == "Bearer token-1-of-42"
    (event,) = gateway.events("--event", "renewal_failed")
    assert (event["http_status"], event["outcome"]) == (500, "failed")


def test_an_answer_that_is_cut_off_is_an_error(make_origin, api, start_gateway):
    def cut(request):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ntoken-1-of-42"
        raise OSError("the server ends the connection")

    refused = get(start_gateway(config(make_origin(cut), api, response="text")))
    assert api.count() == 0, refused.text
    assert (refused.status_code, refused.json()["code"]) == (502, "token-endpoint-unreachable"), refused.text


def test_a_server_that_is_not_there_is_a_bad_gateway(server, api, start_gateway):
    server.stop()
    refused = get(start_gateway(config(server, api)))
    assert (refused.status_code, refused.json()["code"]) == (502, "token-endpoint-unreachable")


# MARK: How the server knows us


@pytest.mark.parametrize(
    "request_auth, field, value",
    [
        ({"bearer": CANARY}, "Authorization", f"Bearer {CANARY}"),
        ({"basic": {"username": "gateway", "password": "s3cret"}}, "Authorization", "Basic Z2F0ZXdheTpzM2NyZXQ="),
        ({"header": {"name": "X-Api-Key", "value": CANARY}}, "X-Api-Key", CANARY),
    ],
)
def test_a_fixed_field_is_sent(server, api, start_gateway, request_auth, field, value):
    gateway = start_gateway(config(server, api, request_auth=request_auth))
    assert get(gateway).status_code == 200
    assert server.requests[0].headers[field] == value
    assert value not in api.raw().decode()


@pytest.mark.parametrize("form", ["plain", "pkcs8-aes256"])
def test_a_signed_statement_is_sent(server, api, make_gateway, tmp_path, form):
    keys = KeyPair(tmp_path)
    claims = {"iss": "gateway", "sub": "user {{unique_id}}", "level": 3}
    block = {"key": {"file": "key.pem"}, "key_id": "k1", "algorithm": "RS384", "claims": claims, "lifetime": "90s"}
    if FORMS[form]:
        block["passphrase"] = PASSPHRASE
    gateway = make_gateway(config(server, api, request_auth={"jwt": block}))
    key = gateway.folder / "key.pem"
    key.touch(mode=0o600)
    key.write_text(keys.private(form))
    gateway.start()
    assert get(gateway).status_code == 200
    assert gateway.run("token", "refresh", "app-user").returncode == 0
    statements = []
    for asked in server.requests:
        scheme, _, text = asked.headers["Authorization"].partition(" ")
        statement = jwt.decode(text, RSAKey.import_key(keys.public.read_text()), algorithms=["RS384"])
        assert (scheme, statement.header) == ("Bearer", {"alg": "RS384", "kid": "k1", "typ": "JWT"})
        statements.append(statement.claims)
    for claims in statements:
        assert abs(claims["iat"] - time.time()) < 20 and claims["exp"] - claims["iat"] == 90
        fixed = {name: claims[name] for name in ("iss", "sub", "aud", "level")}
        assert fixed == {"iss": "gateway", "sub": "user 42", "aud": server.url, "level": 3}
        assert set(claims) == {*fixed, "iat", "exp", "jti"}
    assert len({claims["jti"] for claims in statements}) == 2


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_statement_is_signed_with_a_shared_secret(server, api, start_gateway, algorithm):
    block = {"secret": {"env": "STATEMENT_SECRET"}, "algorithm": algorithm, "claims": {"iss": "gateway"}}
    secret = "a shared secret that is as long as its longest hash asks: 64 bytes"
    gateway = start_gateway(config(server, api, request_auth={"jwt": block}), environment={"STATEMENT_SECRET": secret})
    assert get(gateway).status_code == 200
    scheme, _, text = server.requests[-1].headers["Authorization"].partition(" ")
    statement = jwt.decode(text, OctKey.import_key(secret), algorithms=[algorithm])
    assert (scheme, statement.header) == ("Bearer", {"alg": algorithm, "typ": "JWT"})
    assert (statement.claims["iss"], statement.claims["aud"]) == ("gateway", server.url)
    assert secret not in gateway.text()


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    """The authority that the token server takes its clients' certificates from."""
    return CertificateAuthority(tmp_path_factory.mktemp("clients"), "clients-ca")


@pytest.fixture
def tls_server(make_token_server, certificate_authority, clients):
    names = certificate_authority.issue("token-server", "IP:127.0.0.1")
    return make_token_server(server_context(clients.certificate, *names))


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_a_certificate_is_shown_and_replaced(tls_server, api, make_gateway, certificate_authority, clients, passphrase):
    secret = {"passphrase": passphrase} if passphrase else {}
    auth = {"tls": mutual(certificate_authority, **secret), "bearer": "key"}
    gateway = make_gateway(config(tls_server, api, request_auth=auth))
    show(clients, gateway.folder, "gateway-one", passphrase)
    gateway.start()
    assert get(gateway).text == "Bearer token-1-of-42"
    assert (tls_server.requests[0].client, tls_server.requests[0].headers["Authorization"]) == ("gateway-one", "Bearer key")
    [expiration] = requests.get(f"{gateway.admin_url}/api/expirations", timeout=10).json()
    assert expiration["kind"] == "certificate" and expiration["of"] == "credentials.app-user.request_auth.tls"
    assert 86400 < expiration["remaining_seconds"] <= 2 * 86400 and not expiration["is_soon"]
    # Nothing has changed: the token is kept.
    assert gateway.run("reload").returncode == 0
    assert get(gateway).text == "Bearer token-1-of-42"
    show(clients, gateway.folder, "gateway-two", passphrase)
    assert gateway.run("reload").returncode == 0
    assert gateway.run("token", "refresh", "app-user").returncode == 0
    assert tls_server.requests[-1].client == "gateway-two"


def test_a_certificate_that_the_server_does_not_know_is_refused(
    tls_server, api, make_gateway, certificate_authority, tmp_path
):
    gateway = make_gateway(config(tls_server, api, request_auth={"tls": mutual(certificate_authority)}))
    show(CertificateAuthority(tmp_path, "others"), gateway.folder, "stranger")
    refused = get(gateway.start())
    assert (refused.status_code, refused.json()["code"]) == (502, "token-endpoint-unreachable")
    assert (tls_server.count(), api.count()) == (0, 0)


def test_a_server_of_another_authority_is_not_told_anything(tls_server, api, make_gateway, clients):
    gateway = make_gateway(config(tls_server, api, request_auth={"tls": mutual(clients), "bearer": CANARY}))
    show(clients, gateway.folder, "gateway-three")
    refused = get(gateway.start())
    assert (refused.status_code, refused.json()["code"]) == (502, "token-endpoint-unreachable")
    assert (tls_server.count(), api.count()) == (0, 0)


def test_a_key_of_another_certificate_is_a_mistake_with_a_position(
    tls_server, api, make_gateway, certificate_authority, clients
):
    gateway = make_gateway(config(tls_server, api, request_auth={"tls": mutual(certificate_authority)}))
    show(clients, gateway.folder, "gateway-four")
    (gateway.folder / "client.pem").write_text(clients.certificate.read_text())
    result = gateway.run("check")
    assert result.returncode == 3
    assert "credentials.app-user.request_auth.tls.private_key: does not belong to the first certificate" in result.stderr
    (gateway.folder / "client.pem").write_text("hello")
    assert "client.pem holds no certificate in PEM" in gateway.run("check").stderr


# MARK: Users that requests name


def named(server, api, **unique_id):
    return config(server, api, unique_id={"header": "X-Box-User", **unique_id})


def test_every_user_has_a_token_of_their_own(server, api, start_gateway):
    gateway = start_gateway(named(server, api, regex="[a-z0-9@.]{1,30}"))
    for user in ["ada", "bob@b.example", "ada"]:
        assert get(gateway, **{"X-Box-User": user}).text.endswith("-of-" + user.replace("@", "%40"))
    assert server.users() == ["ada", "bob%40b.example"]
    assert b"x-box-user" not in api.raw().lower()
    listed = json.loads(gateway.run("token", "list", "--json").stdout)
    assert [(token["credential"], token["subject"], token["state"]) for token in listed] == [
        ("app-user[ada]", "ada", "valid"),
        ("app-user[bob@b.example]", "bob@b.example", "valid"),
    ]
    acquired = gateway.events("--event", "acquired")
    assert [(event["credential"], event["subject"]) for event in acquired] == [
        ("app-user[ada]", "ada"),
        ("app-user[bob@b.example]", "bob@b.example"),
    ]
    assert "app-user[ada]" in gateway.run("status").stdout
    metrics = requests.get(gateway.admin_url + "/metrics", timeout=10).text
    assert 'gateway_token_subjects{credential="app-user",strategy="delegated"} 2' in metrics
    assert "ada" not in metrics


def test_many_at_once_cause_one_call_for_each_user(server, api, start_gateway):
    gateway = start_gateway(named(server, api, allow=["a", "b", "c", "d"]))
    server.open.clear()
    users = ["a", "b", "c", "d"] * 10
    with concurrent.futures.ThreadPoolExecutor(len(users)) as pool:
        answers = [pool.submit(get, gateway, **{"X-Box-User": user}) for user in users]
        processes.wait_until(lambda: server.count() == 4, 10, "four calls")
        server.open.set()
        assert [answer.result().text.rpartition("-")[2] for answer in answers] == users
    assert sorted(server.users()) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "fields, status, code",
    [
        ([], 400, "subject-required"),
        (["X-Box-User:"], 400, "subject-required"),
        (["X-Box-User: ada", "X-Box-User: ada"], 400, "subject-required"),
        (["X-Box-User: ../ada"], 400, "subject-required"),
        (["X-Box-User: ada&id=bob"], 400, "subject-required"),
        (["X-Box-User: " + "a" * 5000], 400, "subject-required"),
        (["X-Box-User: bob"], 403, "route-forbidden"),
        (["X-Box-User: Ada"], 403, "route-forbidden"),
        (["X-Box-User: ada", "X_Box_User: bob"], 400, "request-refused"),
    ],
)
def test_who_may_not_be_named_is_refused(server, api, start_gateway, fields, status, code):
    gateway = start_gateway(named(server, api, allow=["ada"]))
    with socket.create_connection(("127.0.0.1", gateway.port), 15) as connection:
        lines = ["GET /api/x HTTP/1.1", "Host: localhost", "Connection: close", *fields]
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        answer = b""
        while part := connection.recv(65536):
            answer += part
    problem = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (problem["status"], problem["code"]) == (status, code), problem
    assert "bob" not in problem["detail"] and "aaaa" not in problem["detail"]
    if status == 403:
        processes.wait_until(lambda: gateway.events("--event", "client_denied"), 10, "the event")
    # Ada is there only when it was a request of hers that was refused for something else.
    assert (server.count() <= (1 if "_" in "".join(fields) else 0), api.count()) == (True, 0)


def test_a_user_that_the_server_does_not_know_is_the_callers_affair(server, api, start_gateway):
    known = server.answer
    server.answer = lambda asked, token: (404, {}, "") if asked.user == "nobody" else known(asked, token)
    gateway = start_gateway(named(server, api, regex="[a-z]+"))
    for _ in range(3):
        refused = get(gateway, **{"X-Box-User": "nobody"})
        assert (refused.status_code, refused.json()["code"]) == (403, "route-forbidden")
    assert server.count() == 1
    assert get(gateway, **{"X-Box-User": "ada"}).status_code == 200
    # Nobody who runs the gateway has to do anything.
    assert gateway.run("status").returncode == 0


def test_a_rejected_token_is_renewed_for_its_user_alone(server, make_origin, start_gateway):
    revoked = set()
    api = make_origin(lambda request: response(401) if request.value("authorization") in revoked else who(request))
    gateway = start_gateway(named(server, api, regex="[a-z]+"))
    first = {user: get(gateway, **{"X-Box-User": user}).text for user in ("ada", "bob")}
    revoked.add(first["ada"])
    assert get(gateway, **{"X-Box-User": "ada"}).text == "Bearer token-3-of-ada"
    assert get(gateway, **{"X-Box-User": "bob"}).text == first["bob"]
    assert server.users() == ["ada", "bob", "ada"]


def test_no_more_users_than_allowed_have_a_token(server, api, start_gateway):
    gateway = start_gateway(named(server, api, regex="[a-z]+", at_most=2))
    server.open.clear()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(get, gateway, **{"X-Box-User": user}) for user in ("ada", "bob")]
        processes.wait_until(lambda: server.count() == 2, 10, "two calls")
        refused = get(gateway, **{"X-Box-User": "eve"})
        assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
        assert refused.headers["Retry-After"] == "1"
        assert server.count() == 2
        server.open.set()
        assert [answer.result().status_code for answer in waiting] == [200, 200]
    texts = {user: get(gateway, **{"X-Box-User": user}).text for user in ("ada", "bob", "eve", "ada")}
    listed = json.loads(gateway.run("token", "list", "--json").stdout)
    assert sorted(token["subject"] for token in listed) == ["ada", "eve"]
    # Who made room comes back with the token that was kept for them.
    assert get(gateway, **{"X-Box-User": "bob"}).text == texts["bob"]
    assert sorted(server.users()) == ["ada", "bob", "eve"]


def test_invented_users_of_a_client_leave_calls_to_another_and_few_rows(server, api, start_gateway):
    whole = named(server, api, regex="[a-z0-9]+", at_most=1)
    clients = {"portal": {"token": "portal-token-of-tests"}, "hostile": {"token": "hostile-token-of-tests"}}
    gateway = start_gateway({**whole, "access": {"clients": clients}})

    def ask(client, user):
        fields = {"X-Box-User": user, "Authorization": f"Bearer {client}-token-of-tests"}
        return requests.get(gateway.url + "/api/x", headers=fields, timeout=20).status_code

    begun = time.monotonic()
    assert [ask("hostile", f"u{number}") for number in range(300)].count(503) >= 200
    assert ask("portal", "ada") == 200
    # Those whose tokens are in the store are taken from it so often, too.
    assert 503 in [ask("hostile", f"u{number % 10}") for number in range(200)]
    seconds = time.monotonic() - begun + 1
    events = [event["event"] for event in gateway.events()]
    assert events.count("loaded") <= 60 and events.count("withheld") <= 10 * (seconds + 1), (events, seconds)


def test_invented_users_of_a_client_do_not_push_out_the_users_of_another(server, api, start_gateway):
    """The token server hands out tokens for any name, and the store keeps none: who makes room has lost the token."""
    whole = named(server, api, regex="[a-z0-9]+", at_most=4)
    clients = {"portal": {"token": "portal-token-of-tests"}, "hostile": {"token": "hostile-token-of-tests"}}
    whole.update(access={"clients": clients}, tokens={"store": "memory"})
    gateway = start_gateway(whole)

    def ask(client, user):
        fields = {"X-Box-User": user, "Authorization": f"Bearer {client}-token-of-tests"}
        return requests.get(gateway.url + "/api/x", headers=fields, timeout=20)

    live = {user: ask("portal", user).text for user in ("ada", "bob")}
    # A name of somebody else's user makes it no safer to push out.
    assert ask("hostile", "ada").text == live["ada"]
    for number in range(40):
        assert ask("hostile", f"u{number}").status_code == 200
    calls = server.count()
    assert {user: ask("portal", user).text for user in live} == live
    assert server.count() == calls


def test_users_that_never_had_a_token_make_room_first(server, api, start_gateway):
    known = server.answer
    server.answer = lambda asked, token: (404, {}, "") if asked.user.startswith("u") else known(asked, token)
    gateway = start_gateway({**named(server, api, regex="[a-z0-9]+", at_most=2), "tokens": {"store": "memory"}})
    ada = get(gateway, **{"X-Box-User": "ada"}).text
    for number in range(20):
        assert get(gateway, **{"X-Box-User": f"u{number}"}).status_code == 403
    calls = server.count()
    assert get(gateway, **{"X-Box-User": "ada"}).text == ada and server.count() == calls


def test_invented_users_cause_no_more_calls_than_the_places_may(server, api, start_gateway):
    gateway = start_gateway(named(server, api, regex="[a-z0-9]+", at_most=1))
    ada = get(gateway, **{"X-Box-User": "ada"}).text
    answers = [get(gateway, **{"X-Box-User": f"u{number}"}) for number in range(64)]
    assert [answer.status_code for answer in answers] == [200] * 59 + [503] * 5
    assert answers[-1].json()["code"] == "token-temporarily-unavailable"
    assert answers[-1].headers["Retry-After"] == "60"
    # Her token is at hand: it was kept when she made room.
    assert get(gateway, **{"X-Box-User": "ada"}).text == ada
    assert server.count() == 60
    (event,) = gateway.events("--event", "acquisition_failed")
    assert (event["credential"], event["detail"]) == ("app-user", {"reason": "too_many_calls"})
    assert gateway.text().count("Too many token requests") == 1


def hand_out(gateway, client, **fields):
    fields["Authorization"] = f"Bearer {client}"
    return requests.post(gateway.admin_url + "/tokens/app-user", headers=fields, timeout=20)


def test_a_client_is_handed_the_token_of_the_user_that_it_names(server, api, start_gateway):
    whole = named(server, api, allow=["ada", "bob"])
    whole["access"] = {"clients": {"widget": {"token": "widget-token-1"}, "other": {"token": "other-token-2"}}, "require_client": False}
    whole["credentials"]["app-user"]["vend"] = {"clients": ["widget"], "whole_token": True}
    gateway = start_gateway(whole)
    tokens = [hand_out(gateway, "widget-token-1", **{"X-Box-User": user}).json()["access_token"] for user in ("ada", "bob", "ada")]
    assert tokens == ["token-1-of-ada", "token-2-of-bob", "token-1-of-ada"]
    # The same token as on a route.
    assert get(gateway, **{"X-Box-User": "bob"}).text == "Bearer token-2-of-bob"
    vended = gateway.events("--event", "vended")
    assert [(event["credential"], event["subject"], event["client"]) for event in vended] == [
        (f"app-user[{user}]", user, "widget") for user in ("ada", "bob", "ada")
    ]
    refused = [
        hand_out(gateway, "widget-token-1"),
        hand_out(gateway, "widget-token-1", **{"X-Box-User": "eve"}),
        hand_out(gateway, "other-token-2", **{"X-Box-User": "ada"}),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [
        (400, "subject-required"),
        (403, "route-forbidden"),
        (403, "route-forbidden"),
    ]
    denied = processes.wait_until(
        lambda: len(events := gateway.events("--event", "client_denied")) == 2 and events, 10, "the events"
    )
    assert [(event["client"], event["route"]) for event in denied] == [
        ("widget", "tokens/app-user"),
        ("other", "tokens/app-user"),
    ]
    assert gateway.run("token", "lock", "app-user[ada]").returncode == 0
    assert hand_out(gateway, "widget-token-1", **{"X-Box-User": "ada"}).json()["code"] == "locked"
    assert hand_out(gateway, "widget-token-1", **{"X-Box-User": "bob"}).status_code == 200
    assert server.users() == ["ada", "bob"]


def test_a_lock_of_the_credential_is_one_of_each_user(server, api, start_gateway):
    gateway = start_gateway(named(server, api, regex="[a-z]+"))
    assert get(gateway, **{"X-Box-User": "ada"}).status_code == 200
    assert gateway.run("token", "lock", "app-user[ada]").returncode == 0
    assert gateway.run("token", "lock", "app-user").returncode == 0
    sent = (api.count(), len(server.users()))
    for user in ("ada", "new"):
        refused = get(gateway, **{"X-Box-User": user}).json()
        assert (refused["code"], refused["command"]) == ("locked", "authgateway token unlock app-user")
    assert (api.count(), len(server.users())) == sent
    one = gateway.run("token", "unlock", "app-user[ada]")
    assert one.returncode == 1 and "authgateway token unlock app-user\n" in one.stderr
    assert gateway.run("reload").returncode == 0
    assert get(gateway, **{"X-Box-User": "new"}).json()["code"] == "locked"
    assert gateway.run("token", "unlock", "app-user").returncode == 0
    assert get(gateway, **{"X-Box-User": "new"}).status_code == 200
    # Its own lock is left.
    assert get(gateway, **{"X-Box-User": "ada"}).json()["command"] == "authgateway token unlock 'app-user[ada]'"


def test_who_leaves_while_waiting_leaves_nothing_behind(server, api, start_gateway):
    gateway = start_gateway(named(server, api, regex="[a-z]+", at_most=1))
    server.open.clear()
    connections = [socket.create_connection(("127.0.0.1", gateway.port), 15) for _ in range(20)]
    for connection in connections:
        connection.sendall(b"GET /api/x HTTP/1.1\r\nHost: localhost\r\nX-Box-User: ada\r\n\r\n")
    processes.wait_until(lambda: server.count() == 1, 10, "the call")
    for connection in connections:
        connection.close()
    # The call goes on, so nobody else gets her place yet.
    assert get(gateway, **{"X-Box-User": "bob"}).status_code == 503
    server.open.set()
    processes.wait_until(lambda: get(gateway, **{"X-Box-User": "bob"}).status_code == 200, 10, "a place")
    assert [request.value("authorization") for request in api.requests] == ["Bearer token-2-of-bob"]
    (event,) = [event for event in gateway.events("--event", "acquired") if event["subject"] == "ada"]
    assert event["outcome"] == "ok"


def test_a_reload_and_a_restart_keep_the_tokens(server, api, start_gateway):
    gateway = start_gateway(named(server, api, allow=["ada", "bob"]))
    first = {user: get(gateway, **{"X-Box-User": user}).text for user in ("ada", "bob")}
    assert gateway.run("reload").returncode == 0
    assert {user: get(gateway, **{"X-Box-User": user}).text for user in first} == first
    # Another list: what was obtained under the old one is taken over.
    gateway.configure(named(server, api, allow=["ada", "eve"]))
    assert gateway.run("reload").returncode == 0
    assert get(gateway, **{"X-Box-User": "bob"}).status_code == 403
    assert get(gateway, **{"X-Box-User": "ada"}).text == first["ada"]
    gateway.kill()
    gateway.start()
    assert get(gateway, **{"X-Box-User": "ada"}).text == first["ada"]
    assert server.users() == ["ada", "bob"]
    assert {event["trigger"] for event in gateway.events("--event", "loaded")} == {"demand"}


def test_who_only_looks_makes_no_user_and_pushes_nobody_out(server, api, start_gateway):
    gateway = start_gateway(named(server, api, regex="[a-z0-9]+", at_most=2))
    for user in ("ada", "bob"):
        assert get(gateway, **{"X-Box-User": user}).status_code == 200

    def subjects():
        listed = requests.get(gateway.admin_url + "/api/tokens", timeout=10).json()
        return sorted(token["subject"] for token in listed)

    for number in range(4):
        name = f"app-user[u{number}]"
        place = urllib.parse.quote(name, safe="")
        seen = requests.get(f"{gateway.admin_url}/api/tokens/{place}", timeout=10)
        assert (seen.status_code, seen.json()["state"], seen.json()["subject"]) == (200, "empty", f"u{number}")
        page = requests.get(f"{gateway.admin_url}/token", params={"credential": name}, timeout=10)
        assert page.status_code == 200 and "empty" in page.text
        assert subjects() == ["ada", "bob"]
    # Of whom there is no keeper a lock is shown all the same.
    assert gateway.run("token", "lock", "app-user[eve]").returncode == 0
    for user in ("ada", "bob"):
        assert get(gateway, **{"X-Box-User": user}).status_code == 200
    shown = json.loads(gateway.run("token", "show", "app-user[eve]", "--json").stdout)
    assert (shown["state"], shown["action"]) == ("locked", "authgateway token unlock 'app-user[eve]'")
    assert subjects() == ["ada", "bob"]


def test_a_refused_password_is_not_sent_again_for_another_user(server, api, start_gateway):
    whole = named(server, api, regex="[a-z0-9]+", at_most=2)
    whole["credentials"]["app-user"]["request_auth"] = {"basic": {"username": "gateway", "password": f"{CANARY}-old"}}
    server.answer, accept = lambda asked, token: (401, {}, ""), server.answer
    gateway = start_gateway(whole)
    for number in range(10):
        answer = get(gateway, **{"X-Box-User": f"u{number}"})
        assert (answer.status_code, answer.json()["code"]) == (500, "credential-misconfigured")
    assert server.count() == 1, "directories lock accounts"
    server.answer = accept
    assert gateway.run("token", "refresh", "app-user[u1]").returncode == 0
    assert get(gateway, **{"X-Box-User": "eve"}).status_code == 200


def test_operators_work_on_one_user(server, api, start_gateway):
    gateway = start_gateway(named(server, api, allow=["ada", "bob"]))
    first = {user: get(gateway, **{"X-Box-User": user}).text for user in ("ada", "bob")}
    assert gateway.run("token", "refresh", "app-user[ada]").returncode == 0
    assert get(gateway, **{"X-Box-User": "ada"}).text == "Bearer token-3-of-ada"
    assert gateway.run("token", "get", "app-user[bob]").stdout.strip() == first["bob"].removeprefix("Bearer ")
    assert gateway.run("token", "lock", "app-user[bob]").returncode == 0
    assert get(gateway, **{"X-Box-User": "bob"}).json()["code"] == "locked"
    assert get(gateway, **{"X-Box-User": "ada"}).status_code == 200
    gateway.kill()
    gateway.start()
    assert get(gateway, **{"X-Box-User": "bob"}).json()["code"] == "locked"
    assert gateway.run("token", "unlock", "app-user[bob]").returncode == 0
    assert get(gateway, **{"X-Box-User": "bob"}).text == first["bob"]
    for name, text in [
        ("app-user", "has a token for each subject that X-Box-User names: app-user[SUBJECT]"),
        ("app-user[eve]", "names a subject that app-user may not get a token for"),
        ("nobody[eve]", "There is no credential nobody[eve]"),
    ]:
        result = gateway.run("token", "show", name)
        assert result.returncode == 1 and text in result.stderr, result
    # And without a gateway, who is named is looked up.
    gateway.stop()
    assert "subject: of X-Box-User, at most 100" in gateway.run("plan").stdout
    shown = json.loads(gateway.run("token", "show", "app-user[ada]", "--json").stdout)
    assert (shown["state"], shown["subject"], shown["generation"]) == ("valid", "ada", 2)

"""`hmac`: requests that the gateway signs, for APIs that compute each signature themselves."""

import base64
import hashlib
import hmac
import time
import urllib.parse

import pytest
import requests
from harness import http2
from harness.configs import CANARY, with_route
from harness.origin import response

KEY = f"{CANARY}-key"
ENVIRONMENT = {"API_SECRET": KEY, "API_KEY": "key-of-tests"}

HEADERS = {
    "strategy": "hmac",
    "algorithm": "sha512",
    "key": {"env": "API_SECRET"},
    "key_id": {"env": "API_KEY"},
    "message": "{{method}}\n{{path}}\n{{query}}\n{{body.sha512}}\n{{time}}",
    "apply": [{"header": "Key", "value": "{{key_id}}"}, {"header": "Timestamp", "value": "{{time}}"}, {"header": "Sign"}],
}
HEAD_ONLY = {**HEADERS, "message": "{{method}}\n{{path}}\n{{query}}\n\n{{time}}"}
#: The signature covers what is sent with it.
QUERY = {
    "strategy": "hmac",
    "key": base64.b64encode(KEY.encode()).decode(),
    "key_encoding": "base64",
    "encoding": "base64",
    "message": "{{method}} {{query.sorted}} {{header.X-Moment}} {{header.content-type}} {{body}}",
    "apply": [
        {"header": "X-Moment", "value": "{{time.ms}}"},
        {"query": "signature"},
        {"query": "nonce", "value": "{{nonce}}"},
    ],
}
PASSWORD = {
    "strategy": "hmac",
    "algorithm": "sha1",
    "key": {"env": "API_SECRET"},
    "message": "{{time.rfc2822}}\n{{method}}\n{{host}}\n{{path}}\n{{parameters}}",
    "apply": [{"header": "Date", "value": "{{time.rfc2822}}"}, {"basic": "me"}],
}

#: As Tencent Cloud does it (TC3): a key of the day, and the digest of a canonical request in the message.
DERIVED = {
    "strategy": "hmac",
    "key": {"env": "API_SECRET"},
    "key_prefix": "TC3",
    "key_chain": ["{{time.date}}", "cvm", "tc3_request"],
    "inner_message": "{{method}}\n{{path}}\n{{query.encoded}}\nx-action:{{header.x-action.lower}}\n{{body.sha256}}",
    "message": "{{time}}\n{{time.date}}/cvm/tc3_request\n{{inner_message.sha256}}",
    "apply": [{"header": "Timestamp", "value": "{{time}}"}, {"header": "Sign"}],
}


def code(message, algorithm):
    return hmac.new(KEY.encode(), message, algorithm)


class API:
    """Lets a request in if `check` finds what it expects; `ahead` says how far its clock is from this one, in seconds."""

    def __init__(self, make_origin, check):
        self.check = check
        self.ahead = 0
        self.origin = make_origin(lambda request: response(200 if check(self, request) else 401, b"an answer"))
        self.url = self.origin.url

    def is_now(self, seconds):
        return abs(seconds - time.time() - self.ahead) < 30


def by_headers(api, request, body=None):
    path, _, query = request.target.partition("?")
    digest = hashlib.sha512(request.body if body is None else body).hexdigest()
    moment = request.value("timestamp")
    message = "\n".join([request.method, path, query, "" if body == b"head" else digest, moment])
    expected = ("key-of-tests", code(message.encode(), "sha512").hexdigest())
    return (request.value("key"), request.value("sign")) == expected and api.is_now(int(moment))


def by_head(api, request):
    return by_headers(api, request, b"head")


def by_query(api, request):
    pairs = request.target.partition("?")[2].split("&")
    name, _, signature = pairs[-1].partition("=")
    others = sorted(pairs[:-1])
    assert sum(pair.startswith("nonce=") for pair in others) == 1 and not any(pair.startswith("signature=") for pair in others)
    moment = request.value("x-moment")
    message = " ".join([request.method, "&".join(others), moment, request.value("content-type") or "", ""]).encode() + request.body
    expected = base64.b64encode(code(message, "sha256").digest()).decode()
    return name == "signature" and urllib.parse.unquote(signature) == expected and api.is_now(int(moment) / 1000)


def by_password(api, request):
    path, _, query = request.target.partition("?")
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    pairs += urllib.parse.parse_qsl(request.body.decode(), keep_blank_values=True)
    parameters = "&".join(sorted("=".join(urllib.parse.quote(part, "~") for part in pair) for pair in pairs))
    message = "\n".join([request.value("date"), request.method, request.value("host"), path, parameters])
    password = code(message.encode(), "sha1").hexdigest()
    return request.value("authorization") == "Basic " + base64.b64encode(f"me:{password}".encode()).decode()


def by_derived_key(api, request):
    path, _, query = request.target.partition("?")
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    parameters = "&".join(sorted("=".join(urllib.parse.quote(part, "~") for part in pair) for pair in pairs))
    action = (request.value("x-action") or "").lower()
    inner = "\n".join([request.method, path, parameters, f"x-action:{action}", hashlib.sha256(request.body).hexdigest()])
    moment = request.value("timestamp")
    day = time.strftime("%Y-%m-%d", time.gmtime(int(moment)))
    key = f"TC3{KEY}".encode()
    for step in (day, "cvm", "tc3_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    message = f"{moment}\n{day}/cvm/tc3_request\n{hashlib.sha256(inner.encode()).hexdigest()}"
    expected = hmac.new(key, message.encode(), "sha256").hexdigest()
    return request.value("sign") == expected and api.is_now(int(moment))


@pytest.fixture
def make_api(make_origin):
    return lambda check=by_headers: API(make_origin, check)


@pytest.fixture
def start(start_gateway):
    def start(api, credential=HEADERS, base="", environment=None, **more):
        return start_gateway({**with_route(credential, api.url + base), **more}, environment={**ENVIRONMENT, **(environment or {})})

    return start


@pytest.fixture(params=["HTTP/1", "HTTP/2"])
def send(request):
    """Sends a request by this version; returns its status."""

    def send(gateway, path, method="GET", body=None, **fields):
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        if request.param == "HTTP/1":
            return requests.request(method, gateway.url + path, data=body, headers=fields, timeout=20).status_code
        client = http2.connect(gateway.port)
        try:
            lowercase = [(name.lower(), value) for name, value in fields.items()]
            return client.ask(*lowercase, path=path, method=method, body=body).status
        finally:
            client.close()

    return send


# Signatures that an API verifies


@pytest.mark.parametrize("base", ["", "/base"])
def test_an_api_that_computes_the_signature_itself(make_api, start, send, base):
    api = make_api()
    gateway = start(api, base=base)
    assert send(gateway, "/api/x") == 200
    assert api.origin.last().target == base + "/x"
    assert send(gateway, "/api/a%2Fb?b=2&a=1&a=%20&c") == 200
    assert send(gateway, "/api/", "POST", b"") == 200
    assert send(gateway, "/api/x?y", "POST", b"\x00\xffbody", content_type="application/octet-stream") == 200
    assert api.origin.last().body == b"\x00\xffbody"
    assert send(gateway, "/api/x", "PUT", b"x" * 60_000) == 200
    assert send(gateway, "/api/x", "DELETE") == 200
    assert CANARY.encode() not in api.origin.raw()


def test_what_a_client_sends_in_their_place_is_not_forwarded(make_api, start, send):
    api = make_api()
    assert send(start(api), "/api/x", Sign="forged", Timestamp="1", key="other", Authorization="Bearer x") == 200
    assert api.origin.last().values("authorization") == []


@pytest.mark.parametrize(
    "query", ["", "?b=2&a=1&a=%20&c", "?signature=forged&a=1&nonce=1", "?sign%61ture=forged", "?a=1;signature=forged"]
)
def test_a_signature_in_the_query(make_api, start, send, query):
    gateway = start(make_api(by_query), QUERY)
    assert send(gateway, "/api/x" + query) == 200
    assert send(gateway, "/api/x" + query, "POST", b'{"a": 1}', content_type="application/json", X_Moment="1") == 200


def test_each_request_has_a_nonce_of_its_own(make_api, start):
    api = make_api(by_query)
    gateway = start(api, QUERY)
    assert [requests.get(gateway.url + "/api/x", timeout=20).status_code for _ in range(5)] == [200] * 5
    assert len({request.target for request in api.origin.requests}) == 5


def test_a_signature_of_the_parameters_as_a_password(make_api, start, send):
    gateway = start(make_api(by_password), PASSWORD)
    form = {"content_type": "application/x-www-form-urlencoded"}
    assert send(gateway, "/api/x") == 200
    assert send(gateway, "/api/x?username=root&realname=First+Last&empty=") == 200
    assert send(gateway, "/api/x", "POST", b"username=root&realname=First%20Last&a=%c3%bc~", **form) == 200
    assert send(gateway, "/api/x?b=1", "POST", b"a=1&b=0", **form) == 200


def test_the_time_is_that_of_the_gateway(make_api, make_gateway, clock, send):
    api = make_api()
    gateway = make_gateway(with_route(HEADERS, api.url), environment={**ENVIRONMENT, **clock.environment})
    clock.set("+1h")
    gateway.start()
    assert send(gateway, "/api/x") == 401
    api.ahead = 3600
    assert send(gateway, "/api/x") == 200
    clock.set("+0")
    assert send(gateway, "/api/x") == 401
    gateway.kill()


# Bodies


def test_a_body_that_is_not_signed_is_forwarded_while_it_arrives(make_api, start, send):
    api = make_api(by_head)
    gateway = start(api, HEAD_ONLY, limits={"replay_body_bytes": "1KiB"})
    assert send(gateway, "/api/x", "POST", b"x" * 100_000) == 200
    assert api.origin.last().body == b"x" * 100_000


def test_a_body_that_is_too_long_to_be_signed_is_refused(make_api, start, send):
    api = make_api()
    gateway = start(api, limits={"replay_body_bytes": "1KiB"})
    assert send(gateway, "/api/x", "POST", b"x" * 1024) == 200
    api.origin.forget()
    assert send(gateway, "/api/x", "POST", b"x" * 1025) == 413
    assert api.origin.requests == []


def test_a_body_in_chunks_is_signed_as_a_whole(make_api, start):
    api = make_api()
    gateway = start(api)
    answer = requests.post(gateway.url + "/api/x", data=iter([b"one", b"two", b"three"]), timeout=20)
    assert answer.status_code == 200 and api.origin.last().body == b"onetwothree"


# Operators


def test_a_locked_key_signs_nothing(make_api, start, send):
    api = make_api()
    gateway = start(api)
    assert send(gateway, "/api/x", "POST", b"body") == 200
    locked = gateway.run("token", "lock", "me")
    assert locked.returncode == 0 and CANARY not in locked.stdout, locked
    api.origin.forget()
    assert send(gateway, "/api/x") == 503 and send(gateway, "/api/x", "POST", b"body") == 503
    assert api.origin.requests == []
    assert gateway.run("token", "unlock", "me").returncode == 0
    assert send(gateway, "/api/x", "POST", b"body") == 200


def test_a_derived_key_signs_the_digest_of_an_inner_message(make_api, start, send):
    gateway = start(make_api(by_derived_key), DERIVED)
    assert send(gateway, "/api/x?b=2&a=%7e+", x_action="DescribeInstances") == 200
    assert send(gateway, "/api/x", "POST", b"body") == 200


def test_another_key_is_used_after_a_reload(make_api, start, send):
    api = make_api()
    gateway = start(api, {**HEADERS, "key": "another key"})
    assert send(gateway, "/api/x") == 401
    gateway.configure(with_route(HEADERS, api.url))
    assert gateway.run("reload").returncode == 0
    assert send(gateway, "/api/x") == 200


def test_no_command_shows_the_key_or_a_signature(make_api, start):
    gateway = start(make_api())
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    for arguments in (["explain", "/api/x"], ["explain", "--json", "/api/x"], ["plan"], ["status"], ["status", "me"], ["check"]):
        done = gateway.run(*arguments)
        assert done.returncode == 0 and CANARY not in done.stdout + done.stderr, done
    assert "Sign: (signed with me)" in gateway.run("explain", "/api/x").stdout


@pytest.mark.parametrize(
    "change, message",
    [
        ({"key": {"env": "API_KEY"}, "key_encoding": "hex"}, "is not hexadecimal (key_encoding)"),
        ({"message": "{{metod}}"}, 'nothing is named "{{metod}}"; did you mean "method"?'),
        ({"apply": {"header": "X-Time", "value": "{{time}}"}}, "the signature itself is not applied"),
    ],
)
def test_a_mistake_is_named(make_gateway, change, message):
    gateway = make_gateway(with_route({**HEADERS, **change}, "https://api.example.com"), environment=ENVIRONMENT)
    done = gateway.run("check")
    assert done.returncode != 0 and message in done.stderr + done.stdout, done

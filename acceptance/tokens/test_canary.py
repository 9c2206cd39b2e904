"""A recognisable secret in every place that takes one; afterwards nobody finds it anywhere but where it had to go."""

import base64
import json
import pathlib
import re
import urllib.parse

import pytest
import requests
from harness import raw
from harness.gateway import command
from harness.origin import response

PLACES = [
    "client", "password", "bearer", "header", "query", "path", "oauth-secret", "oauth-token", "box-secret", "parameter",
    "session-access", "session", "rotated-access", "rotated-session", "developer", "callers", "callers-query", "cookie",
    "authoritys-words", "body",
]  # fmt: skip
#: Operators see what the authority said; clients do not.
FOR_OPERATORS = "authoritys-words"
SECRETS = {place: f"KANARI-{number:02}-{place}" for number, place in enumerate(PLACES)}


def authority(request):
    path = request.target.partition("?")[0]
    if path == "/token":
        answer = {"access_token": SECRETS["oauth-token"], "token_type": "Bearer", "expires_in": 3600}
        return response(200, json.dumps(answer).encode())
    if path == "/refresh":
        pair = {"access_token": SECRETS["rotated-access"], "session_token": SECRETS["rotated-session"]}
        return response(200, json.dumps(pair).encode())
    words = SECRETS[FOR_OPERATORS]
    # A careless authority repeats what it was sent.
    form = dict(urllib.parse.parse_qsl(request.body.decode()))
    secret = form.get("client_secret", "invalid_client")
    sent = f"{words} {request.value('authorization')} {request.body.decode()}"
    return response(400, json.dumps({"error": secret, "error_description": sent, "error_uri": f"https://a/{secret}"}).encode())


def configuration(authority_url, upstream):
    session = {
        "strategy": "session_refresh",
        "base_url": authority_url,
        "refresh": {
            "path": "/refresh",
            "access_token": {"header": "X-Access-Token"},
            "session_token": {"header": "X-Session-Token"},
        },
        "response": {"access_token": "/access_token", "session_token": "/session_token"},
        "expiry": "none",
        "access_token": SECRETS["session-access"],
        "session_token": SECRETS["session"],
    }
    oauth = {"strategy": "oauth2_client_credentials", "client_id": "c", "client_secret": SECRETS["oauth-secret"]}
    auths = {
        "basic": {"strategy": "basic", "username": "u", "password": SECRETS["password"]},
        "bearer": {"strategy": "bearer", "token": SECRETS["bearer"]},
        "header": {"strategy": "header", "name": "X-Key", "value": SECRETS["header"]},
        "query": {"strategy": "header", "query": "key", "value": SECRETS["query"]},
        "path": {"strategy": "header", "path": "/bot{{token}}", "value": SECRETS["path"]},
        "oauth": {**oauth, "token_url": f"{authority_url}/token", "parameters": {"extra": SECRETS["parameter"]}},
        "refused": {**oauth, "token_url": f"{authority_url}/refuse"},
        "box": {
            "strategy": "box_ccg",
            "client_id": "c",
            "client_secret": SECRETS["box-secret"],
            "token_url": f"{authority_url}/refuse",
            "subject": {"enterprise": "1"},
        },
        "session": session,
        "developer": {"strategy": "box_developer_token", "token": SECRETS["developer"]},
        "down": {"strategy": "bearer", "token": SECRETS["bearer"]},
        "plain": "none",
    }
    routes = {name: {"upstream": upstream, "auth": auth} for name, auth in auths.items()}
    routes["down"]["upstream"] = "http://127.0.0.1:1"
    return {"access": {"clients": {"laptop": {"token": SECRETS["client"]}}}, "routes": routes}


def spellings(secret):
    """As it is, in small letters, and as it would stand in a Basic credential or in hexadecimal."""
    whole = base64.b64encode(f"u:{secret}".encode())
    return [secret.encode(), secret.lower().encode(), whole, secret.encode().hex().encode(), base64.b64encode(secret.encode()).rstrip(b"=")]


class Search:
    def __init__(self):
        self.searched = 0

    def __call__(self, where, content, but=()):
        content = content if isinstance(content, bytes) else content.encode()
        self.searched += 1
        for place, secret in SECRETS.items():
            if place in but:
                continue
            for spelling in spellings(secret):
                assert spelling not in content, f"the secret of {place} is in {where}"

    def for_operators(self, where, content):
        """Of what only operators read, or who may read the gateway's files."""
        self(where, content, but=(FOR_OPERATORS,))


@pytest.fixture
def gateway(make_origin, make_gateway):
    upstream = make_origin()
    gateway = make_gateway(configuration(make_origin(authority).url, upstream.url))
    gateway.upstream = upstream
    return gateway.start("--log-level", "trace", "--access-log")


def use(gateway, search):
    """Every route, well and badly; the answers of the gateway are searched, those of the origin are the origin's."""
    headers = {
        "Proxy-Authorization": f"Bearer {SECRETS['client']}",
        "Authorization": f"Bearer {SECRETS['callers']}",
        "Cookie": f"c={SECRETS['cookie']}",
    }
    routes = json.loads(gateway.file.read_text())["routes"]

    def visit_all():
        for name in routes:
            for method, body in (("GET", None), ("POST", SECRETS["body"])):
                url = f"{gateway.url}/{name}/x?q={SECRETS['callers-query']}"
                answer = requests.request(method, url, headers=headers, timeout=20, data=body)
                search(f"the answer of {name}", answer.content + str(answer.headers).encode())

    visit_all()
    credentials = [token["credential"] for token in json.loads(gateway.run("token", "list", "--json").stdout)]
    for order in ("refresh", "clear"):
        for credential in credentials:
            result = gateway.run("token", order, credential)
            search.for_operators(f"token {order} {credential}", result.stdout + result.stderr)
        visit_all()
    for secret in SECRETS.values():
        line = f"GET /bearer/{secret} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        bad = raw.exchange(gateway.port, f"{line}Authorization : {secret}\r\nX-{secret}: a\0b\r\n\r\n".encode())
        search("the answer to a broken head", bad.data)
    unknown = requests.get(f"{gateway.url}/nowhere", headers=headers, timeout=20)
    search("the answer of no route", unknown.content)


def test_no_secret_is_found_anywhere(gateway, tmp_path):
    search = Search()
    use(gateway, search)
    arrived = gateway.upstream.raw()
    for place in ("bearer", "header", "query", "oauth-token", "rotated-access", "developer", "callers-query", "body"):
        assert SECRETS[place].encode() in arrived, f"{place} was used"
    callers = [request for request in gateway.upstream.requests if SECRETS["callers"] in str(request.fields)]
    assert len(callers) == 6, "the caller's own credential goes through the route without one, and no other"
    for place in ("client", "oauth-secret", "session", "rotated-session"):
        assert SECRETS[place].encode() not in arrived, f"{place} went upstream"

    for path in ("/healthz", "/readyz", "/readyz?verbose", "/metrics", "/api/routes"):
        search(path, requests.get(gateway.admin_url + path, timeout=20).content)
    for path in ("/", "/api/tokens"):
        search.for_operators(path, requests.get(gateway.admin_url + path, timeout=20).content)
    for arguments in (
        ["check"], ["plan"], ["plan", "--json"], ["routes", "--json"], ["status"], ["token", "list"], ["audit", "query"],
        ["audit", "query", "--json"], ["audit", "stats"], ["audit", "verify"], ["audit", "export"],
    ):  # fmt: skip
        result = gateway.run(*arguments)
        # Some of the credentials need a person, which `status` says.
        assert result.returncode == (1 if arguments == ["status"] else 0), (arguments, result.stdout, result.stderr)
        look = search.for_operators if arguments[0] in ("status", "token", "audit") else search
        look(" ".join(arguments), result.stdout + result.stderr)
    said = gateway.run("status").stdout
    assert SECRETS[FOR_OPERATORS] in said and "‹hidden›" in said, said
    search("the command line", pathlib.Path(f"/proc/{gateway.process.pid}/cmdline").read_bytes())

    # While the write-ahead logs are there, and after they were folded in.
    for path, content in gateway.files().items():
        search.for_operators(path, content)
    gateway.stop()
    for path, content in gateway.files().items():
        search.for_operators(path, content)
    search.for_operators("the log", gateway.text())
    levels = set(re.findall(r'"level":"(\w+)"', gateway.text()))
    assert levels >= {"debug", "info", "warning"}, levels
    assert search.searched > 60


def test_a_faulty_configuration_hides_the_secrets_beside_the_fault(gateway, tmp_path):
    search = Search()
    whole = configuration("http://127.0.0.1:1", "http://127.0.0.1:1")
    # Extra parameters are an audience or a resource; what is secret has a key of its own.
    del whole["routes"]["oauth"]["auth"]["parameters"]
    for damage in (
        lambda text: text.replace('"client_secret":', '"client_secrets":'),
        lambda text: text.replace('"password":', '"pasword":'),
        lambda text: text.replace('"token":', '"token": [') + "]",
        lambda text: text.replace('"strategy": "bearer"', '"strategy": "bearr"'),
        lambda text: text.replace("KANARI", "${KANARI}KANARI"),
    ):
        file = tmp_path / "faulty.yaml"
        file.write_text(damage(json.dumps({"version": 1, **whole}, indent=1)))
        result = command("check", "--config", file, cwd=tmp_path)
        assert result.returncode == 3
        search(file, result.stdout + result.stderr)

"""`authgateway explain`: what is said of a request is what then becomes of it, and holds no secret."""

import json
import re
import shlex
import subprocess
import time

import pytest
import requests
from harness import processes
from harness.configs import BEARER, CANARY
from harness.gateway import command
from harness.login import config as login_config
from harness.origin import RecordingOrigin, response

CI = f"{CANARY}-token-of-ci"
DEV = f"{CANARY}-token-of-dev"
SLOW = f"{CANARY}-token-of-slow"


def bearer(token):
    return ["-H", f"Authorization: Bearer {token}"]


def config(origin, twin, solo, tokens):
    delegated = {"strategy": "delegated", "url": tokens.url + "/token?id={{unique_id}}"}
    return {
        "access": {
            "clients": {
                "ci": {"token": CI},
                "dev": {"token": DEV},
                "slow": {"token": SLOW, "limits": {"per_second": 1}},
            },
            "require_client": False,
        },
        "limits": {"request_body_bytes": "1KiB", "header_bytes": "8KiB"},
        "credentials": {
            "user": {**delegated, "unique_id": {"header": "X-User", "allow": ["ada", "bob"]}},
            "inquery": {**delegated, "unique_id": "42", "apply": {"query": "key"}},
            "narrow": {"strategy": "oauth2_client_credentials", "client_id": "me", "client_secret": CANARY,
                       "token_url": "http://127.0.0.1:1/token"},
        },
        "routes": {
            "box": {
                "upstream": origin.url + "/2.0",
                "auth": BEARER,
                "headers": {"set": {"X-Key": CANARY}, "remove": ["X-Foo"]},
                "clients": ["ci"],
                "allow": [{"methods": ["GET", "HEAD"], "path": "/users/**"}, {"methods": ["POST"], "path": "/files"}],
            },
            "deep": {"upstream": origin.url + "/base", "auth": "none", "match": {"path": "/box/deep"}},
            "open": {"upstream": origin.url, "auth": "none", "headers": {"forwarded": "replace"}},
            "jar": {"upstream": origin.url, "cookies": "pass",
                    "auth": {"strategy": "basic", "username": "me", "password": CANARY}},
            "user": {"upstream": origin.url, "auth": "user"},
            "inquery": {"upstream": origin.url + "/q", "auth": "inquery"},
            "hosted": {"upstream": origin.url, "auth": BEARER,
                       "match": {"hosts": ["api.hosted.test", "*.wild.test"]}},
            "twin": {"upstream": twin.url, "auth": "none"},
            "other": {"upstream": twin.url, "auth": "none"},
            "solo": {"upstream": solo.url + "/v1", "auth": {"strategy": "header", "name": "X-Api-Key", "value": CANARY}},
            "broken": {"upstream": origin.url, "auth": "narrow"},
        },
    }


class World:
    """A gateway and what stands behind it."""

    def __init__(self, gateway, origins):
        self.gateway = gateway
        self.origins = origins

    def explain(self, text, client=None, status=200):
        """Through the admin listener, as JSON."""
        token = (self.gateway.folder / "state/admin.token").read_text().strip()
        question = {"input": text} | ({"client": client} if client else {})
        answer = requests.post(
            self.gateway.admin_url + "/api/explain",
            json=question,
            headers={"Authorization": f"Bearer {token}"},
            timeout=20,
        )
        assert answer.status_code == status, answer.text
        assert CANARY not in answer.text, "a secret is in the explanation"
        return answer.json()["explanation"] if status == 200 else answer.json()

    def send(self, arguments):
        """The status, the body as JSON if it is a problem, and what arrived upstream."""
        for origin in self.origins:
            origin.forget()
        done = subprocess.run(
            ["curl", "-s", "-i", "--noproxy", "", "--max-time", "20", *arguments],
            check=False,
            capture_output=True,
            timeout=30,
            env=processes.environment(),
        )
        assert done.returncode == 0, done.stderr
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        is_problem = b"application/problem+json" in head and body
        arrived = [request for origin in self.origins for request in origin.requests]
        return int(head.split(b" ")[1]), json.loads(body) if is_problem else None, arrived


@pytest.fixture(scope="module")
def world(make_module_gateway, make_module_token_server):
    origins = [RecordingOrigin() for _ in range(3)]
    gateway = make_module_gateway(config(*origins, make_module_token_server())).start()
    yield World(gateway, origins)
    for origin in origins:
        origin.stop()


# MARK: What is said is what happens

KEEP = ["-A", "probe"]
G = "{gateway}"
REQUESTS = {
    "client": [*bearer(CI), G + "/box/users/me?a=1&b=2"],
    "client-in-proxy-authorization": ["-H", f"Proxy-Authorization: Bearer {CI}", G + "/box/users/me"],
    "client-as-user": ["-u", f"x:{CI}", G + "/box/users/me"],
    "no-client": [G + "/box/users/me"],
    "wrong-client": [*bearer(CANARY), G + "/box/users/me"],
    "other-client": [*bearer(DEV), G + "/box/users/me"],
    "rule-of-method": [*bearer(CI), "-X", "DELETE", G + "/box/users/me"],
    "rule-of-path": [*bearer(CI), G + "/box/groups"],
    "head": [*bearer(CI), "-I", G + "/box/users/me"],
    "post": [*bearer(CI), "-d", "a=b", G + "/box/files"],
    "json": [*bearer(CI), "--json", '{"a": 1}', G + "/box/files"],
    "removed-and-set": [*bearer(CI), "-H", "X-Foo: 1", "-H", "X-Key: mine", "-H", "Cookie: a=b", G + "/box/users/1"],
    "method-override": [*bearer(CI), "-H", "X-HTTP-Method-Override: DELETE", G + "/box/users/1"],
    "method-in-query": [*bearer(CI), G + "/box/users/1?_method=delete"],
    "look-alike": [*bearer(CI), "-H", "X_Key: 1", G + "/box/users/1"],
    "longer-path": [G + "/box/deep/a/b"],
    "base": [G + "/box/deep"],
    "segment": [G + "/box/deeper"],
    "open": [G + "/open/a?x=%20&y"],
    "open-root": [G + "/open"],
    "nominated": ["-H", "Connection: X-A", "-H", "X-A: 1", "-H", "X-B: 2", G + "/open/"],
    "hop-by-hop": ["-H", "TE: trailers", "-H", "Keep-Alive: 1", "-H", "Proxy-Connection: x", G + "/open/"],
    "forwarded": ["-H", "X-Forwarded-For: 1.2.3.4", "-H", "Forwarded: for=1.2.3.4", G + "/open/"],
    "own-authorization": ["-H", "Authorization: Bearer of-another", G + "/open/"],
    "two-authorizations": ["-H", "Authorization: Bearer a", "-H", "Authorization: Bearer b", G + "/open/"],
    "ntlm": ["-H", "Authorization: NTLM abc", G + "/open/"],
    "upgrade": ["-H", "Connection: Upgrade", "-H", "Upgrade: chat", G + "/open/"],
    "request-id": ["-H", "X-Request-Id: mine-7", G + "/open/"],
    "cookies": ["-b", "a=b; c=d", G + "/jar/"],
    "put": ["-X", "PUT", "-d", "x", G + "/open/put"],
    "patch": ["-X", "PATCH", "--data-raw", "@x", G + "/open/"],
    "get-data": ["-G", "-d", "a=1", "--data-urlencode", "b=c d", G + "/open/x"],
    "too-large": ["-d", "x" * 1025, "-H", "Expect:", G + "/open/"],
    "just-fits": ["-d", "x" * 1024, "-H", "Expect:", G + "/open/"],
    "trace": ["-X", "TRACE", G + "/open/"],
    "empty-field": ["-H", "X-Empty;", G + "/open/"],
    "old": ["-0", G + "/open/"],
    "no-route": [G + "/nowhere"],
    "root": [G + "/"],
    "dots": [G + "/open/../nowhere"],
    "dots-as-they-are": ["--path-as-is", G + "/open/../nowhere"],
    "encoded-dots": [G + "/open/%2e%2e/a"],
    "encoded-slash": [*bearer(CI), G + "/box/users/a%2Fb"],
    "backslash": ["--path-as-is", G + "/open/a\\b"],
    "origin": ["-H", "Origin: https://evil.example", G + "/open/"],
    "sec-fetch-site": ["-H", "Sec-Fetch-Site: cross-site", G + "/open/"],
    "rebinding": ["-H", "Host: evil.example", G + "/open/"],
    "host": ["-H", "Host: api.hosted.test", G + "/x/y"],
    "wild-host": ["-H", "Host: a.wild.test", G + "/open/"],
    "derived-host": ["-H", "Host: open.localhost", G + "/any"],
    "host-with-port": ["-H", "Host: api.hosted.test:{port}", G + "/"],
    "host-with-another-port": ["-H", "Host: api.hosted.test:1", G + "/"],
    "subject": ["-H", "X-User: ada", G + "/user/x"],
    "no-subject": [G + "/user/x"],
    "two-subjects": ["-H", "X-User: ada", "-H", "X-User: bob", G + "/user/x"],
    "unknown-subject": ["-H", "X-User: eve", G + "/user/x"],
    "credential-in-query": [G + "/inquery/a?key=mine&b=1&b=2"],
    "credential-in-query-alone": [G + "/inquery"],
    "proxy": ["-x", G, "{solo}/v1/a?b=1"],
    "proxy-with-token": ["-x", "http://x:" + CI + "@127.0.0.1:{port}", "{solo}/v1/"],
    "proxy-outside-of-base": ["-x", G, "{solo}/v2/a"],
    "proxy-to-shared": ["-x", G, "{twin}/a"],
    "proxy-to-unknown": ["-x", G, "http://unknown.example/a"],
    "proxy-to-host": ["-x", G, "http://api.hosted.test/a"],
    "options": ["-X", "OPTIONS", G + "/open/x"],
    "asterisk": ["-X", "OPTIONS", "--request-target", "*", G + "/"],
    "long": ["-H", "X-Long: " + "a" * 9_000, G + "/open/"],
}


def is_same(said, real):
    """A value of the explanation, and what arrived."""
    if said == "***":
        return True
    if "(the client's address)" in said:
        return said.replace("(the client's address)", "127.0.0.1") == real
    if "(" in said and said.split(" ")[-1].endswith(")"):
        return real.startswith(said[: said.index("(")])
    return said == real


def compare(departure, request):
    """What was said to leave with what arrived."""
    method, target, version = departure["line"].split(" ")
    path, _, query = request.target.partition("?")
    said_path, _, said_query = target.partition("?")
    assert (method, said_path, version) == (request.method, path, request.version)
    names = [part.partition("=")[0] for part in query.split("&")]
    said = [part.partition("=")[0] for part in said_query.split("&")]
    # A parameter without a value is masked whole.
    assert len(names) == len(said) and all(b in (a, "***") for a, b in zip(names, said, strict=True))
    lines = request.head.split(b"\r\n")[1:]
    # The order is a matter of curl.
    arrived = sorted(tuple(part.strip() for part in line.decode().split(":", 1)) for line in lines)
    expected = sorted((field["name"], field["value"]) for field in departure["fields"])
    assert [name for name, _ in expected] == [name for name, _ in arrived]
    for (name, value), (_, real) in zip(expected, arrived, strict=True):
        assert is_same(value, real), f"{name}: {value} is not {real}"


@pytest.mark.parametrize("name", REQUESTS)
def test_what_is_said_is_what_happens(world, name):
    gateway = world.gateway
    places = {"gateway": gateway.url, "port": gateway.port, "twin": world.origins[1].url, "solo": world.origins[2].url}
    arguments = [*KEEP, *REQUESTS[name]]
    arguments = [re.sub(r"\{(gateway|port|twin|solo)\}", lambda found: str(places[found[1]]), word) for word in arguments]
    explanation = world.explain(shlex.join(["curl", *arguments]))
    status, problem, arrived = world.send(arguments)
    if explanation["outcome"] == "refused":
        refusal = explanation["refusal"]
        assert status == refusal["status"] and arrived == [], explanation["verdict"]
        if problem:
            told = refusal.get("detail_for_client", refusal["detail"])
            assert (problem["code"], problem["detail"]) == (refusal["code"], told)
        assert explanation["verdict"].startswith(f"Would be refused: {status} {refusal['code']}: ")
        assert any(not step["passes"] for step in explanation["steps"])
    else:
        assert status == 200 and len(arrived) == 1, explanation["verdict"]
        if explanation["outcome"] == "waits":
            assert any("what the credential adds" in remark for remark in explanation["request"]["remarks"])
        else:
            compare(explanation["departure"], arrived[0])
        # By now there is a token, if one was waited for.
        again = world.explain(shlex.join(["curl", *arguments]))
        assert again["outcome"] == "forwarded"
        compare(again["departure"], arrived[0])


def test_the_list_has_each_kind_of_refusal_before_the_upstream(world):
    codes = set()
    places = {"gateway": world.gateway.url, "port": world.gateway.port, "twin": world.origins[1].url,
              "solo": world.origins[2].url}
    for words in REQUESTS.values():
        words = [re.sub(r"\{(gateway|port|twin|solo)\}", lambda found: str(places[found[1]]), word) for word in words]
        explanation = world.explain(shlex.join(["curl", *words]))
        codes.add(explanation.get("refusal", {}).get("code"))
    assert codes >= {
        "client-auth-required", "route-forbidden", "misdirected", "origin-refused", "no-route", "request-refused",
        "method-refused", "content-too-large", "fields-too-large", "subject-required", None,
    }


# MARK: Kinds of refusal that need a state


def test_a_request_that_has_come_back_is_refused(world):
    name = next(f["value"] for f in world.explain("/open/")["departure"]["fields"] if f["name"] == "Via").split()[1]
    explanation = world.explain(f"curl -H 'Via: 1.1 {name}' {world.gateway.url}/open/")
    assert explanation["refusal"]["code"] == "loop"
    assert world.send(["-H", f"Via: 1.1 {name}", world.gateway.url + "/open/"])[0] == 502


def test_a_client_at_its_limit_is_refused_and_a_question_counts_for_nothing(world):
    arguments = [*bearer(SLOW), world.gateway.url + "/open/"]
    text = shlex.join(["curl", *arguments])
    for _ in range(5):
        assert world.explain(text)["outcome"] == "forwarded"
    assert world.send(arguments)[0] == 200
    assert world.explain(text)["refusal"]["code"] == "client-limit-reached"
    assert world.send(arguments)[0] == 429


def test_a_locked_credential_is_refused_with_the_command(start_gateway, origin, token_server):
    auth = {"strategy": "delegated", "url": token_server.url + "/token?id={{unique_id}}", "unique_id": "42"}
    gateway = start_gateway({"credentials": {"me": auth}, "routes": {"api": {"upstream": origin.url, "auth": "me"}}})
    world = World(gateway, [origin])
    explanation = world.explain("/api/x")
    assert explanation["outcome"] == "waits" and token_server.requests == [], "a question asks for no token"
    assert explanation["credential"]["status"]["state"] == "empty"
    assert requests.get(gateway.url + "/api/x", timeout=10).status_code == 200
    explanation = world.explain("/api/x")
    assert explanation["verdict"].endswith("with credential me.")
    assert explanation["credential"]["status"]["generation"] == 1 and explanation["credential"]["age_seconds"] < 60
    assert {"name": "Authorization", "value": "Bearer (token of me, generation 1)"} in explanation["departure"]["added"]
    assert gateway.run("token", "lock", "me").returncode == 0
    explanation = world.explain("/api/x")
    assert explanation["refusal"]["code"] == "locked"
    assert explanation["refusal"]["command"] == "authgateway token unlock me"
    text = gateway.run("explain", "/api/x").stdout
    assert text.startswith("Would be refused: 503 locked: ") and "Run:\n  authgateway token unlock me\n" in text
    assert requests.get(gateway.url + "/api/x", timeout=10).json()["code"] == "locked"


def test_a_credential_that_failed_is_told_with_its_reason(world):
    # The authority is not there: the first request finds that out.
    text = world.gateway.url + "/broken/x"
    assert world.explain(text)["outcome"] == "waits"
    status, problem, _ = world.send([text])
    explanation = world.explain(text)
    assert (explanation["refusal"]["status"], explanation["refusal"]["code"]) == (status, problem["code"])
    assert explanation["credential"]["status"]["last_error"]


def test_a_login_that_is_missing_is_known_before_the_first_request(start_gateway, authority):
    gateway = start_gateway(login_config(authority))
    explanation = World(gateway, []).explain("/api/x")
    assert explanation["refusal"]["code"] == "login-required"
    assert explanation["refusal"]["command"] == "authgateway login me"
    assert requests.get(gateway.url + "/api/x", timeout=10).json()["code"] == "login-required"


def test_a_known_client_may_be_required(start_gateway, origin):
    gateway = start_gateway({
        "access": {"clients": {"ci": {"token": CI}}},
        "routes": {"api": {"upstream": origin.url, "auth": "none"}},
    })
    world = World(gateway, [origin])
    assert world.explain("/api/x")["refusal"]["code"] == "client-auth-required"
    assert world.explain(f"curl -x {gateway.url} {origin.url}/x")["refusal"]["code"] == "proxy-auth-required"
    assert world.send(["-x", gateway.url, origin.url + "/x"])[0] == 407
    text = gateway.run("explain", "/api/x").stdout
    assert "a known client is required (access.require_client)" in text
    # Somebody may ask how it would be for a client.
    explanation = world.explain("/api/x", client="ci")
    assert explanation["outcome"] == "forwarded" and explanation["client"]["is_assumed"]
    assert "ci, as asked" in gateway.run("explain", "/api/x", "--client", "ci").stdout
    wrong = gateway.run("explain", "/api/x", "--client", "cj")
    assert wrong.returncode == 1 and 'did you mean "ci"?' in wrong.stderr


# MARK: Why the others lost


def test_why_the_other_routes_lost(world):
    def reasons(text):
        explanation = world.explain(text)
        assert explanation["other_route_count"] == 10
        return {route["name"]: route["reason"] for route in explanation["other_routes"]}

    assert "that of deep is longer" in reasons("/box/deep/x")["box"]
    assert "the path does not begin with /twin" in reasons("/open/")["twin"]
    assert "the host is not twin.localhost" in reasons("/open/")["twin"]
    hosted = reasons(f"curl -H 'Host: api.hosted.test' {world.gateway.url}/open/")
    assert "a host counts before a path" in hosted["open"]
    proxied = world.explain(world.origins[1].url + "/a")
    shared = [route["reason"] for route in proxied["other_routes"] if route["name"] in ("twin", "other")]
    assert proxied["refusal"]["code"] == "misdirected" and len(shared) == 2
    assert all("other routes have the same one" in reason for reason in shared)
    rules = world.explain(f"curl -X DELETE -H 'Authorization: Bearer {CI}' {world.gateway.url}/box/users/1")
    texts = [step["text"] for step in rules["steps"] if step["name"] == "allow"]
    assert texts == [
        "none of the 2 rules allows it",
        "not rule 1, GET, HEAD /users/**: the method differs",
        "not rule 2, POST /files: both differ",
    ]


# MARK: Ways in


def test_each_way_in_is_named(world):
    gateway = world.gateway
    cases = {
        "/open/a": "direct",
        f"{gateway.url}/open/a": "direct",
        f"localhost:{gateway.port}/open/a": "direct",
        "POST http://api.hosted.test/x": "direct",
        "http://open.localhost/x": "direct",
        world.origins[2].url + "/v1/a": "proxy",
        f"curl -x {gateway.url} http://api.hosted.test/x": "proxy",
        f"curl -x {gateway.url} https://api.box.com/x": "connect",
    }
    for text, way in cases.items():
        assert world.explain(text)["request"]["way"] == way, text
    upstream = world.explain(world.origins[2].url + "/v1/a")
    assert upstream["verdict"] == f"Would be forwarded to {world.origins[2].url}/v1/a with credential routes.solo."
    assert any("as if the gateway were the client's proxy" in remark for remark in upstream["request"]["remarks"])
    assert world.explain(f"curl -x {gateway.url} https://api.box.com/x")["refusal"]["code"] == "method-refused"


def test_what_is_wrong_with_the_input_is_said(world):
    for text, part in {
        "": "nothing to explain", "a b c": "neither a URL nor", "ftp://a/b": "not ftp", "curl -s": "has no URL",
        "curl 'http://a/": "never closed",
    }.items():
        assert part in world.explain(text, status=400)["detail"]
    done = world.gateway.run("explain", "ftp://a/b")
    assert done.returncode == 2 and "not ftp" in done.stderr
    remarks = world.explain("curl --frob -H \"A: $T\" http://open.localhost/ | jq .")["request"]["remarks"]
    assert len(remarks) == 3 and "--frob" in " ".join(remarks) and "$T" in " ".join(remarks)


def test_only_who_has_the_admin_token_may_ask(world):
    url = world.gateway.admin_url + "/api/explain"
    assert requests.post(url, json={"input": "/open/"}, timeout=10).status_code == 401
    answer = requests.post(url, json={"input": "/"}, headers={"Authorization": f"Bearer {CI}"}, timeout=10)
    assert answer.status_code == 401
    token = (world.gateway.folder / "state/admin.token").read_text().strip()
    for body in (b"", b"[]", b'{"input": 1}', b"x" * 100_000):
        answer = requests.post(url, data=body, headers={"Authorization": f"Bearer {token}"}, timeout=10)
        assert answer.status_code == 400, body[:10]


# MARK: The command


def test_the_command_says_it_in_words_and_in_json(world):
    words = f"curl -H 'Authorization: Bearer {CI}' -H 'X-Api-Key: {CANARY}' '{world.gateway.url}/box/users/me?key={CANARY}'"
    done = world.gateway.run("explain", words)
    assert done.returncode == 0 and CANARY not in done.stdout + done.stderr
    assert done.stdout.startswith(f"Would be forwarded to {world.origins[0].url}/2.0/users/me with credential routes.box.\n\n")
    for part in [
        "route       box: the path begins with /box\n            not deep: ",
        "client      ci, known by its token\n",
        "allow       rule 1 of 2 allows it: GET, HEAD /users/**\n",
        "credential  routes.box (bearer): it is what the configuration says\n",
        "            Authorization: Bearer (credential routes.box)\n            X-Key: (set by the route)\n",
        "            Authorization: it is the client's token for the gateway\n",
        "The upstream gets:\n  GET /2.0/users/me?key=*** HTTP/1.1\n",
        "  X-Api-Key: ***\n",
    ]:
        assert part in done.stdout, done.stdout
    # From standard input, where no other user sees it, and with the words that a shell has split.
    piped = world.gateway.run("explain", "-", "--json", input=words)
    assert json.loads(piped.stdout)["client"]["name"] == "ci" and CANARY not in piped.stdout
    split = world.gateway.run("explain", "--json", "--", "curl", "-H", f"Authorization: Bearer {CI}", world.gateway.url + "/box/users/me")
    assert json.loads(split.stdout)["outcome"] == "forwarded"
    assert json.loads(world.gateway.run("explain", "--json", "GET", "/open/").stdout)["route"]["name"] == "open"


def test_without_a_gateway_it_is_the_configuration_and_the_store(make_gateway, origin, token_server):
    auth = {"strategy": "delegated", "url": token_server.url + "/token?id={{unique_id}}", "unique_id": "42"}
    gateway = make_gateway({
        "access": {"clients": {"ci": {"token": CI}}},
        "credentials": {"me": auth},
        "routes": {"api": {"upstream": origin.url, "auth": "me"}},
    })
    words = f"curl -H 'Authorization: Bearer {CI}' {gateway.url}/api/x"
    done = gateway.run("explain", words)
    assert done.returncode == 0 and "the configuration file alone" in done.stdout, done.stderr
    assert "whether it has a token is not known here" in done.stdout
    assert not (gateway.folder / "state").exists(), "a question makes no state"
    gateway.start()
    assert requests.get(gateway.url + "/api/x", headers={"Authorization": f"Bearer {CI}"}, timeout=10).status_code == 200
    online = json.loads(gateway.run("explain", "--json", words).stdout)
    assert online["source"] == "gateway"
    gateway.stop()
    offline = json.loads(gateway.run("explain", "--json", words).stdout)
    assert offline["source"] == "store" and offline["verdict"] == online["verdict"]
    assert offline["credential"]["status"]["generation"] == 1
    assert "with the tokens of the store" in gateway.run("explain", words).stdout
    assert len(token_server.requests) == 1


def test_a_memory_store_needs_no_files(make_gateway, origin):
    gateway = make_gateway({"tokens": {"store": "memory"}, "routes": {"api": {"upstream": origin.url, "auth": "none"}}})
    done = gateway.run("explain", "/api/x")
    assert done.returncode == 0 and "the configuration file alone" in done.stdout
    broken = command("explain", "/api/x", "--config", gateway.folder / "nothing.yaml", cwd=gateway.folder)
    assert broken.returncode == 3


# MARK: Live


def test_live_sends_what_was_explained(world):
    gateway = world.gateway
    for origin in world.origins:
        origin.forget()
    done = gateway.run("explain", "--live", "--json", f"{gateway.url}/open/live?a=1")
    report = json.loads(done.stdout)
    live, [told] = report["live"], report["history"]["requests"]
    assert done.returncode == 0 and live["status"] == 200 and live["content_bytes"] > 0
    assert told["request_id"] == live["request_id"] and told["status"] == 200 and told["route"] == "open"
    assert world.origins[0].last().target == "/live?a=1"
    for words in (f"GET {world.origins[2].url}/v1/x", f"curl -x {gateway.url} {world.origins[2].url}/v1/x"):
        assert json.loads(gateway.run("explain", "--live", "--json", words).stdout)["live"]["status"] == 200
    assert world.origins[2].count() == 2
    text = gateway.run("explain", "--live", f"{gateway.url}/nowhere?k={CANARY}").stdout
    assert text.startswith("Sent GET /nowhere?k=***: 404, ") and "The gateway says: No route matches." in text
    assert "Gateway-Request-Id: " in text and "the gateway answered 404 no-route" in text and CANARY not in text


def test_live_asks_before_it_changes_something(world):
    gateway = world.gateway
    origin = world.origins[0]
    origin.forget()
    words = f"curl -d @body.txt {gateway.url}/open/live"
    (gateway.folder / "body.txt").write_text("one\ntwo")
    refused = gateway.run("explain", "--live", words)
    assert refused.returncode == 2 and "add --yes" in refused.stderr and origin.count() == 0
    done = gateway.run("explain", "--live", "--yes", words)
    assert done.returncode == 0 and "200" in done.stdout
    assert origin.last().body == b"onetwo" and origin.last().method == "POST"


def test_live_takes_the_token_from_the_environment_or_a_file(world):
    gateway = world.gateway
    url = gateway.url + "/box/users/me"
    assert "401" in gateway.run("explain", "--live", url).stdout
    done = gateway.run("explain", "--live", "--token-from", "env:CLIENT_TOKEN", url, CLIENT_TOKEN=CI)
    assert " 200, " in done.stdout and CANARY not in done.stdout
    file = gateway.folder / "client.token"
    file.write_text(CI)
    file.chmod(0o600)
    assert " 200, " in gateway.run("explain", "--live", "--token-from", f"file:{file}", url).stdout
    refused = gateway.run("explain", "--live", "--token-from", CI, url)
    assert refused.returncode == 2 and CANARY not in refused.stderr
    assert gateway.run("explain", "--token-from", "env:X", url).returncode == 2
    assert gateway.run("explain", "--live", "--client", "ci", url).returncode == 2


def test_live_needs_a_gateway(make_gateway, origin):
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}})
    done = gateway.run("explain", "--live", "/api/x")
    assert done.returncode == 4 and origin.count() == 0


# MARK: What became of a request


def history(gateway, name):
    done = gateway.run("explain", "--json", name)
    assert CANARY not in done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)


def ask(gateway, path, **fields):
    answer = requests.get(gateway.url + path, headers=fields, timeout=20)
    return answer.status_code, answer.headers["Gateway-Request-Id"]


def test_an_id_leads_to_what_happened_and_where_the_time_went(start_gateway, make_origin, token_server):
    def slow(request):
        time.sleep(0.4)
        return response(200, b"hello")

    auth = {"strategy": "delegated", "url": token_server.url + "/token?id={{unique_id}}", "unique_id": "42"}
    gateway = start_gateway({
        "credentials": {"me": auth},
        "routes": {"api": {"upstream": make_origin(slow).url, "auth": "me"}, "down": {"upstream": "http://127.0.0.1:1", "auth": "none"}},
    })
    status, name = ask(gateway, f"/api/users/{CANARY}?key={CANARY}", Authorization=CANARY)
    assert status == 200
    code, found = history(gateway, name)
    [told] = found["requests"]
    assert code == 0 and (told["status"], told["route"], told["credential"], told["generation"]) == (200, "api", "me", 1)
    times = told["times"]
    assert times["credential"] <= times["connection"] <= times["response"] <= times["total"]
    assert times["response"] - times["connection"] >= 350
    # The token events that the request caused; the second is written behind the request.
    def events():
        return {event["event"] for event in history(gateway, name)[1]["requests"][0]["events"]}

    processes.wait_until(lambda: {"acquired", "injected"} <= events(), 10, "both events are in the log")
    text = gateway.run("explain", name).stdout
    assert re.search(r"^GET on route api: the upstream answered 200 after \d+ ms\.\n", text)
    assert re.search(r"time +\d+ ms: credential \d+ ms, connection \d+ ms, response head \d+ ms, content \d+ ms", text)

    status, name = ask(gateway, "/down/users/12345", **{"X-Request-Id": "mine-1"})
    assert status == 502
    for asked in (name, "mine-1"):
        [told] = history(gateway, asked)[1]["requests"]
        assert (told["request_id"], told["client_request_id"]) == (name, "mine-1")
        assert told["problem"] == "upstream-unreachable" and told["peer"] == "127.0.0.1"
        assert told["path"].startswith("/down/users/") and "12345" not in told["path"]
    text = gateway.run("explain", name).stdout
    assert text.startswith("GET on route down: the gateway answered 502 upstream-unreachable after ")
    assert f"authgateway explain {name}" in gateway.text(), "the warning names the command"


def test_all_requests_of_a_clients_id_are_listed(start_gateway, origin):
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}})
    names = [ask(gateway, "/api/x", **{"X-Request-Id": "trace-9"})[1] for _ in range(3)]
    assert sorted(told["request_id"] for told in history(gateway, "trace-9")[1]["requests"]) == sorted(names)
    code, found = history(gateway, "nobody-has-it")
    assert code == 1 and found["requests"] == [] and found["remarks"]
    assert "No request is known by the id nobody-has-it." in gateway.run("explain", "nobody-has-it").stdout


def test_without_a_gateway_the_audit_log_tells(start_gateway, origin):
    gateway = start_gateway({
        "access": {"clients": {"ci": {"token": CI}}, "require_client": False},
        "audit": {"usage": "request"},
        "routes": {
            "api": {"upstream": origin.url, "auth": "none"},
            "shut": {"upstream": origin.url, "auth": "none", "clients": ["ci"]},
            "down": {"upstream": "http://127.0.0.1:1", "auth": "none"},
        },
    })
    names = {path: ask(gateway, path, **{"X-Request-Id": f"mine{path.replace('/', '-')}"}) for path in ("/api/x", "/down/x", "/shut/x")}
    online = {path: history(gateway, name)[1]["requests"][0] for path, (_, name) in names.items()}
    gateway.stop()
    for path, (status, name) in names.items():
        for asked in (name, f"mine{path.replace('/', '-')}"):
            code, found = history(gateway, asked)
            assert code == 0, found
            [told] = found["requests"]
            assert (told["request_id"], told["status"]) == (name, status)
            for part in ("route", "problem", "reason", "peer", "path"):
                assert told.get(part) == online[path].get(part) or path == "/api/x", (path, part)
    assert [told["status"] for told in history(gateway, names["/api/x"][1])[1]["requests"]] == [200]
    # It needs no secret of the configuration.
    text = gateway.run("explain", names["/down/x"][1]).stdout
    assert "the gateway answered 502 upstream-unreachable" in text and "looked at   the audit log\n" in text

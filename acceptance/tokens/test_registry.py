"""`registry`: the token authentication of registries of container images, as Docker Hub, ghcr and Quay have it."""

import base64
import json
import re
import subprocess
import threading
import urllib.parse

import pytest
import requests
from harness.configs import CANARY
from harness.origin import RecordingOrigin, response

ACCOUNT = ("me", f"{CANARY}-password")
BASIC = "Basic " + base64.b64encode(":".join(ACCOUNT).encode()).decode()
MANIFEST = "/v2/library/redis/manifests/7"


class Registry:
    """A registry with its token server. It takes a token only for what the token was given for."""

    def __init__(self):
        self.lock = threading.Lock()
        self.issued = {}
        self.lifetime = 300
        self.account = BASIC
        self.realm = None
        self.blobs = None
        self.server = RecordingOrigin(self.give)
        self.api = RecordingOrigin(self.serve)

    def give(self, request):
        url = urllib.parse.urlsplit(request.target)
        asked = urllib.parse.parse_qs(url.query)
        if request.method != "GET" or url.path != "/token" or asked.get("service") != ["registry.test"]:
            return response(400, b"{}")
        if request.value("authorization") != self.account:
            return response(401, b'{"errors":[]}')
        with self.lock:
            token = f"{CANARY}-{len(self.issued)}"
            self.issued[token] = tuple(asked.get("scope", []))
        return response(200, json.dumps({"token": token, "expires_in": self.lifetime}).encode())

    def scope(self, request):
        parts = request.target.partition("?")[0].split("/")
        if len(parts) < 5:
            return ()
        end = next(index for index, part in enumerate(parts) if index > 2 and part in ("manifests", "blobs", "tags"))
        actions = "pull" if request.method in ("GET", "HEAD") else "pull,push"
        return (f"repository:{'/'.join(parts[2:end])}:{actions}",)

    def serve(self, request):
        wanted = self.scope(request)
        with self.lock:
            given = self.issued.get((request.value("authorization") or "").removeprefix("Bearer "))
        if given == wanted:
            if self.blobs and "/blobs/sha256" in request.target:
                return response(307, b"", f"Location: {self.blobs}/blob?signature=abc")
            return response(200, request.target.encode() + b" " + request.body)
        realm = self.realm or f"{self.server.url}/token"
        scope = f',scope="{wanted[0]}"' if wanted else ""
        return response(401, b'{"errors":[]}', f'WWW-Authenticate: Bearer realm="{realm}",service="registry.test"{scope}')

    def forget(self):
        with self.lock:
            self.issued.clear()

    def stop(self):
        self.server.stop()
        self.api.stop()


@pytest.fixture
def registry():
    registry = Registry()
    yield registry
    registry.stop()


def config(registry, **changes):
    auth = {
        "strategy": "registry",
        "realm_hosts": [f"127.0.0.1:{registry.server.port}"],
        "username": {"env": "REGISTRY_USER"},
        "password": {"env": "REGISTRY_PASSWORD"},
        **changes,
    }
    auth = {key: value for key, value in auth.items() if value is not None}
    return {"credentials": {"hub": auth}, "routes": {"api": {"upstream": registry.api.url, "auth": "hub"}}}


VARIABLES = {"REGISTRY_USER": ACCOUNT[0], "REGISTRY_PASSWORD": ACCOUNT[1]}


def start(start_gateway, registry, **changes):
    return start_gateway(config(registry, **changes), environment=VARIABLES)


def get(gateway, path=MANIFEST, **options):
    return requests.get(f"{gateway.url}/api{path}", timeout=20, allow_redirects=False, **options)


def test_a_challenge_is_answered_with_a_token_that_later_requests_have_at_once(registry, start_gateway):
    gateway = start(start_gateway, registry)
    assert get(gateway).text.strip() == MANIFEST
    assert [request.value("authorization") is None for request in registry.api.requests] == [True, False]
    assert get(gateway, "/v2/library/redis/blobs/sha256:1").status_code == 200
    assert (registry.api.count(), registry.server.count()) == (3, 1), "the token of the repository was used again"
    query = urllib.parse.parse_qs(registry.server.last().target.partition("?")[2])
    assert query == {"service": ["registry.test"], "scope": ["repository:library/redis:pull"]}


def test_each_repository_and_each_kind_of_use_has_a_token_of_its_own(registry, start_gateway):
    gateway = start(start_gateway, registry)
    for _ in range(2):
        for path in ("/v2/", MANIFEST, "/v2/a/b/c/tags/list"):
            assert get(gateway, path).status_code == 200, path
        pushed = requests.post(f"{gateway.url}/api/v2/library/redis/blobs/uploads/", data=b"layer", timeout=20)
        assert pushed.text.endswith("layer")
    assert registry.server.count() == 4
    assert sorted(registry.issued.values()) == [
        (),
        ("repository:a/b/c:pull",),
        ("repository:library/redis:pull",),
        ("repository:library/redis:pull,push",),
    ]


def test_without_an_account_everybodys_token_is_asked_for(registry, start_gateway):
    registry.account = None
    gateway = start(start_gateway, registry, username=None, password=None)
    assert get(gateway).status_code == 200
    assert registry.server.last().value("authorization") is None


def test_a_token_that_the_registry_forgot_is_replaced_once(registry, start_gateway):
    gateway = start(start_gateway, registry)
    assert get(gateway).status_code == 200
    registry.forget()
    assert get(gateway).status_code == 200
    assert registry.server.count() == 2


def test_a_token_that_has_ended_is_replaced_when_a_request_needs_it(registry, start_gateway):
    registry.lifetime = 1
    gateway = start(start_gateway, registry)
    assert get(gateway).status_code == 200
    threading.Event().wait(1.5)
    assert registry.server.count() == 1, "nobody needs it meanwhile"
    sent = registry.api.count()
    assert get(gateway).status_code == 200
    assert (registry.server.count(), registry.api.count()) == (2, sent + 1)


def test_many_requests_for_one_repository_ask_once(registry, start_gateway):
    gateway = start(start_gateway, registry)
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(get(gateway).status_code)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [200] * 16
    assert registry.server.count() == 1


@pytest.mark.parametrize("form", ["http://127.0.0.1:{port}/token", "http://127.0.0.1:{own}@127.0.0.1:{port}/token", "http://localhost:{port}/token"])
def test_the_password_goes_to_no_other_host(registry, make_origin, start_gateway, form):
    thief = make_origin()
    registry.realm = form.format(port=thief.port, own=registry.server.port)
    gateway = start(start_gateway, registry)
    answer = get(gateway)
    assert answer.status_code == 401 and "WWW-Authenticate" in answer.headers
    assert thief.count() == 0 and registry.server.count() == 0
    assert CANARY.encode() not in registry.api.raw()


def test_a_redirect_of_the_token_server_is_not_followed(registry, make_origin, start_gateway):
    thief = make_origin()
    registry.server.answer = lambda request: response(307, b"", f"Location: {thief.url}/token")
    assert get(start(start_gateway, registry)).status_code == 401
    assert thief.count() == 0


def test_a_blob_elsewhere_is_the_clients_to_fetch(registry, origin, start_gateway):
    registry.blobs = origin.url
    answer = get(start(start_gateway, registry), "/v2/library/redis/blobs/sha256:1")
    assert (answer.status_code, answer.headers["Location"]) == (307, f"{origin.url}/blob?signature=abc")
    assert CANARY not in str(answer.headers)
    assert origin.count() == 0


def test_a_wrong_password_is_sent_once_and_the_registrys_answer_passed_on(registry, start_gateway):
    registry.account = "Basic other"
    gateway = start(start_gateway, registry)
    first, *others = [get(gateway) for _ in range(3)]
    assert (first.status_code, first.json()) == (401, {"errors": []}), "what the registry says"
    assert [(answer.status_code, answer.json()["code"]) for answer in others] == [(500, "credential-misconfigured")] * 2
    assert registry.server.count() == 1, "accounts are locked after too many"
    assert "check username and password" in gateway.run("token", "list").stdout + gateway.text()


def test_a_client_cannot_bring_a_token_of_its_own(registry, start_gateway):
    gateway = start(start_gateway, registry)
    assert get(gateway, headers={"Authorization": "Bearer mine"}).status_code == 200
    assert b"mine" not in registry.api.raw()


def test_nobody_is_shown_a_token(registry, start_gateway):
    gateway = start(start_gateway, registry)
    assert get(gateway).status_code == 200
    shown = [
        gateway.run(*command)
        for command in (["token", "list"], ["status"], ["plan"], ["audit", "query"], ["explain", f"{gateway.url}/api{MANIFEST}"])
    ]
    assert "repository%3Alibrary%2Fredis%3Apull" in shown[0].stdout, shown[0]
    assert all(CANARY not in one.stdout + one.stderr for one in shown)
    gateway.stop()
    assert CANARY not in gateway.text()


def test_a_shell_reads_nothing_into_the_commands_that_name_a_token(registry, start_gateway, tmp_path):
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    evil.chmod(0o755)
    registry.realm = f"{registry.server.url}/token?a&{evil}&"
    registry.server.answer = lambda request: response(200, json.dumps({"token": f"{CANARY}-0", "expires_in": 300}).encode())
    gateway = start(start_gateway, registry)
    get(gateway)
    name = json.loads(gateway.run("token", "list", "--json").stdout)[0]["credential"]
    assert f"&{evil}&" in name
    shown = [gateway.run("token", "revoke", name).stderr]
    assert gateway.run("token", "lock", name).returncode == 0
    shown += [get(gateway).json()["command"]]
    shown += [gateway.run(*words).stdout for words in (["status"], ["token", "list"], ["doctor"])]
    commands = [command for text in shown for command in re.findall(r"authgateway (?:token|login) .*", text) if name in command]
    assert len(commands) >= 4, shown
    (tmp_path / "authgateway").write_text('#!/bin/sh\nprintf "%s\\n" "$@" >>"$0.words"\n')
    (tmp_path / "authgateway").chmod(0o755)
    for command in commands:
        subprocess.run(["sh", "-c", command], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, timeout=20)
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "authgateway.words").read_text().split("\n").count(name) == len(commands)


@pytest.mark.parametrize("words", [("lock", "hub"), ("revoke", "hub", "--lock"), ("revoke", "--all", "--lock")])
@pytest.mark.parametrize("is_used", [True, False])
def test_an_account_can_be_withdrawn_whole(registry, start_gateway, words, is_used):
    gateway = start(start_gateway, registry)
    if is_used:
        assert get(gateway).status_code == 200
    sent = (registry.api.count(), registry.server.count())
    locked = gateway.run("token", *words)
    # A registry revokes no token: that of the repository that was used cannot be, and is locked all the same.
    assert locked.returncode == (1 if is_used and words[0] == "revoke" else 0), locked
    for path in (MANIFEST, "/v2/never/seen/manifests/1"):
        refused = get(gateway, path)
        assert (refused.status_code, refused.json()["code"]) == (503, "locked")
        assert refused.json()["command"] == "authgateway token unlock hub"
    assert (registry.api.count(), registry.server.count()) == sent, "nothing leaves after the answer"
    rows = json.loads(gateway.run("token", "list", "--json").stdout)
    assert (rows[0]["credential"], rows[0]["state"]) == ("hub", "locked")
    assert {row["action"] for row in rows} == {"authgateway token unlock hub"}
    status = gateway.run("status")
    assert status.returncode == 1 and "authgateway token unlock hub" in status.stdout
    assert "authgateway token unlock hub" in requests.get(gateway.admin_url + "/", timeout=20).text
    assert [(event["credential"], event["trigger"]) for event in gateway.events("--event", "locked")] == [("hub", "operator")]
    gateway.stop()
    gateway.start()
    assert get(gateway, "/v2/never/seen/manifests/1").json()["code"] == "locked"
    assert (registry.api.count(), registry.server.count()) == sent
    assert gateway.run("token", "unlock", "hub").returncode == 0
    assert get(gateway).status_code == 200
    assert [row["state"] for row in json.loads(gateway.run("token", "list", "--json").stdout)] == ["valid"]
    assert gateway.events("--event", "unlocked")[0]["credential"] == "hub"


def test_an_account_is_locked_without_a_gateway_too(registry, start_gateway):
    gateway = start(start_gateway, registry)
    gateway.stop()
    assert gateway.run("token", "lock", "hub").returncode == 0
    gateway.start()
    assert get(gateway).json()["code"] == "locked"
    assert registry.api.count() == registry.server.count() == 0


def test_the_tokens_of_an_account_are_cleared_together(registry, start_gateway):
    gateway = start(start_gateway, registry)
    for path in (MANIFEST, "/v2/a/b/c/tags/list"):
        assert get(gateway, path).status_code == 200
    cleared = gateway.run("token", "clear", "hub")
    assert cleared.returncode == 0 and "2 tokens were cleared" in cleared.stdout
    assert get(gateway).status_code == 200
    assert registry.server.count() == 3

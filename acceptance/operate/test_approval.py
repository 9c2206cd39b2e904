"""`approve: true` on a rule of `allow`: a person sees a request before it is sent. The enemy is an agent that wants to approve itself."""

import concurrent.futures
import contextlib
import hashlib
import json
import subprocess
import time

import pytest
import requests
from harness import processes
from harness.configs import BEARER, CANARY
from harness.events import named, wait_for_events
from harness.gateway import command
from harness.jwks import TokenIssuer

AGENT, ALICE, BOB = CANARY + "-agent-token", CANARY + "-alice-password", CANARY + "-bob-password"
SECRET_BODY = CANARY + " in a body"
APPROVERS = {"alice": {"role": "operator", "token_sha256": hashlib.sha256(ALICE.encode()).hexdigest()}}
RULES = [{"path": "/deploy/**", "approve": True}, {"methods": ["GET"], "path": "/**"}]


def config(origin, rules=RULES, proof=None, **changes):
    """`proof` is what proves the agent, its token by default."""
    route = {"upstream": origin.url, "auth": BEARER, "clients": ["agent"], "allow": rules, **changes}
    return {"routes": {"api": route}, "access": {"clients": {"agent": proof or {"token": AGENT}}}}


@pytest.fixture
def start(make_gateway, origin):
    def start(users=APPROVERS, **changes):
        gateway = make_gateway(config(origin, **changes))
        gateway.admin["users"] = users
        gateway.configure(config(origin, **changes))
        return gateway.start()

    return start


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        yield pool


def ask(gateway, body=b"{}", path="/api/deploy/1", **fields):
    headers = {"Authorization": f"Bearer {AGENT}", **fields}
    return requests.post(gateway.url + path, data=body, headers=headers, timeout=60)


def held(gateway, count=1, token=ALICE):
    """What waits, once it is so much."""

    found = []

    def are_waiting():
        answer = requests.get(gateway.admin_url + "/api/approvals", headers={"Authorization": f"Bearer {token}"}, timeout=10)
        assert answer.status_code == 200, answer.text
        found[:] = answer.json()
        return len(found) == count

    processes.wait_until(are_waiting, 20, f"{count} requests wait")
    return found


def decide(gateway, id, verb="approve", token=ALICE, **fields):
    headers = {"Authorization": f"Bearer {token}", **fields} if token else fields
    return requests.post(f"{gateway.admin_url}/api/approvals/{id}/{verb}", headers=headers, timeout=10)


def test_an_operator_approves_a_request_once(start, origin, pool):
    gateway = start()
    answer = pool.submit(ask, gateway, SECRET_BODY.encode(), "/api/deploy/1?force=yes")
    [request] = held(gateway)
    assert (request["method"], request["client"], request["route"]) == ("POST", "agent", "api")
    assert request["url"] == f"{origin.url}/deploy/1?force=yes" and request["text"] == SECRET_BODY
    assert request["body_sha256"] == hashlib.sha256(SECRET_BODY.encode()).hexdigest()
    assert origin.requests == []

    listed = gateway.run("approve")
    assert listed.returncode == 0 and request["id"] in listed.stdout and f"  | {SECRET_BODY}\n" in listed.stdout, listed
    approved = gateway.run("approve", request["id"], input=ALICE + "\n")
    assert approved.returncode == 0 and approved.stdout.startswith(f"Approved: {request['id']} POST "), approved
    assert f"  | {SECRET_BODY}\n" in approved.stderr, "it is shown before the token is typed"
    assert answer.result().status_code == 200
    [sent] = origin.requests
    assert sent.target == "/deploy/1?force=yes" and sent.body == SECRET_BODY.encode()
    assert sent.value("authorization") == f"Bearer {CANARY}"

    # The same approval, the same request and the same body elsewhere.
    assert decide(gateway, request["id"]).status_code == 404
    for path in ("/api/deploy/1?force=yes", "/api/deploy/2?force=yes"):
        again = pool.submit(ask, gateway, SECRET_BODY.encode(), path)
        [other] = held(gateway)
        assert other["id"] != request["id"]
        assert decide(gateway, other["id"], "deny").status_code == 200
        assert again.result().status_code == 403 and again.result().json()["code"] == "approval-required"
    assert len(origin.requests) == 1

    wait_for_events(gateway, "request_released")
    events = [event for event in gateway.events() if event["event"].startswith("request_") and event["event"] != "request_failed"]
    kinds = [event["event"] for event in events if event["request_id"] == request["id"]]
    assert sorted(kinds) == ["request_approved", "request_held", "request_released"]
    for event in events:
        assert event["detail"]["body_sha256"] == request["body_sha256"] and CANARY not in json.dumps(event)
    assert {event["detail"]["user"] for event in events if event["event"] in ("request_approved", "request_released")} == {"alice"}
    assert len(named(gateway, "request_denied")) == 2
    assert gateway.run("audit", "verify").returncode == 0


def test_an_agent_cannot_approve_itself(start, origin, pool):
    """It runs as the gateway's user, so it can read the state directory and the configuration."""
    users = {**APPROVERS, "bob": {"role": "operator", "token": BOB}, "carol": {"role": "viewer", "token": BOB + "-2"}}
    gateway = start(users)
    answer = pool.submit(ask, gateway)
    [request] = held(gateway)
    admin_token = (gateway.folder / "state/admin.token").read_text(encoding="utf-8").strip()
    for token, status in ((None, 401), (AGENT, 401), (admin_token, 403), (BOB, 403), (BOB + "-2", 403), ("x" + ALICE, 401)):
        refused = decide(gateway, request["id"], token=token)
        assert refused.status_code == status, (status, refused.text)
        form = {"token": token or "", "id": request["id"], "decision": "approve"}
        page = requests.post(gateway.admin_url + "/approvals", data=form, timeout=10)
        assert "Approved: " not in page.text
    for token in (admin_token, BOB):
        refused = gateway.run("approve", request["id"], input=token + "\n")
        assert refused.returncode == 1 and "token_sha256 or certificate" in refused.stderr, refused
    # Another site, with a browser that would send the token.
    for field, value in (("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site"), ("Host", "evil.example")):
        assert decide(gateway, request["id"], **{field: value}).status_code in (403, 421)
    # The data plane knows no such path, and an approval of another request is none.
    assert requests.post(gateway.url + "/api/approvals", headers={"Authorization": f"Bearer {AGENT}"}, timeout=10).status_code == 403
    assert decide(gateway, request["id"] + "x").status_code == 404
    assert not answer.done() and origin.requests == [] and len(held(gateway)) == 1
    assert decide(gateway, request["id"], "deny", token=admin_token).status_code == 200, "to deny takes nothing but a right away"
    assert answer.result().status_code == 403
    assert named(gateway, "request_approved") == [] and named(gateway, "request_released") == []


@pytest.mark.parametrize(
    "users",
    [None, {"bob": {"role": "operator", "token": BOB}}, {"carol": {"role": "viewer", "token_sha256": "ab" * 32}}],
)
def test_check_refuses_the_key_if_nobody_could_approve(make_gateway, origin, users):
    gateway = make_gateway(config(origin))
    if users:
        gateway.admin["users"] = users
        gateway.configure(config(origin))
    checked = gateway.run("check")
    assert checked.returncode == 3, checked
    said = " ".join((checked.stdout + checked.stderr).split())
    assert "routes.api.allow[0].approve" in said and "role: operator" in said and "token_sha256 or certificate" in said


def test_a_client_that_leaves_waits_no_more(start, origin):
    gateway = start()
    with contextlib.suppress(requests.ReadTimeout):
        requests.post(gateway.url + "/api/deploy/1", data=b"x", headers={"Authorization": f"Bearer {AGENT}"}, timeout=1)
    held(gateway, 0)
    wait_for_events(gateway, "request_dropped")
    [event] = named(gateway, "request_dropped")
    assert event["detail"]["reason"] == "client-left" and origin.requests == []


def test_a_lock_refuses_what_waits(start, origin, pool):
    gateway = start()
    answer = pool.submit(ask, gateway)
    [request] = held(gateway)
    assert gateway.run("token", "lock", "routes.api").returncode == 0
    assert answer.result().status_code == 503 and origin.requests == []
    assert decide(gateway, request["id"]).status_code == 404


def test_a_reload_that_changes_the_route_refuses_what_waits(start, origin, pool):
    gateway = start()
    answer = pool.submit(ask, gateway)
    [request] = held(gateway)
    gateway.configure(config(origin, timeouts={"response": "9s"}))
    assert gateway.run("reload").returncode == 0
    assert answer.result().status_code == 503 and origin.requests == []
    assert decide(gateway, request["id"]).status_code == 404


def test_a_client_whose_token_expires_meanwhile_gets_nothing_sent(start, origin, pool, tmp_path):
    """Its signed token proved the client when the request came, with a leeway of a minute."""
    issuer = TokenIssuer()
    issuer.stop()
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps(issuer.key_set()))
    jwt = {"issuer": issuer.name, "audience": "authgateway", "jwks": {"file": str(keys)}, "subject": "ci"}
    gateway = start(proof={"jwt": jwt})
    end = int(time.time()) + 4
    answer = pool.submit(ask, gateway, **{"Authorization": f"Bearer {issuer.token(exp=end - 60)}"})
    [request] = held(gateway)
    assert request["client"] == "agent"
    processes.wait_until(lambda: time.time() > end + 1, 10, "the token expires")
    assert decide(gateway, request["id"]).status_code == 200
    refused = answer.result()
    assert refused.status_code == 403 and "token has expired" in refused.json()["detail"], refused.text
    assert origin.requests == [] and named(gateway, "request_released") == []


def test_a_stop_refuses_what_waits(start, origin, pool):
    gateway = start()
    answer = pool.submit(ask, gateway)
    held(gateway)
    gateway.stop()
    assert answer.result().status_code == 503 and origin.requests == []


def test_a_client_cannot_flood_the_operator(start, origin, pool):
    gateway = start()
    answers = [pool.submit(ask, gateway, str(number).encode()) for number in range(8)]
    found = held(gateway, 8)
    refused = ask(gateway)
    assert refused.status_code == 429 and "waiting for approval" in refused.json()["detail"]
    # Requests that wait for nobody go on.
    free = requests.get(gateway.url + "/api/status", headers={"Authorization": f"Bearer {AGENT}"}, timeout=20)
    assert free.status_code == 200
    for request in found:
        assert decide(gateway, request["id"], "deny").status_code == 200
    assert {answer.result().status_code for answer in answers} == {403}
    assert len(origin.requests) == 1


def test_nothing_in_a_request_controls_the_page_or_the_terminal(start, pool):
    gateway = start()
    body = b"<script>alert(1)</script>\x1b[2J\r\nApproved: all\xe2\x80\xae\xff"
    answer = pool.submit(ask, gateway, body)
    [request] = held(gateway)
    listed = gateway.run("approve")
    assert "\x1b" not in listed.stdout and "\u202e" not in listed.stdout
    assert "\n  | Approved: all\\u{202e}" in listed.stdout
    page = requests.post(gateway.admin_url + "/approvals", data={"token": ALICE}, timeout=10)
    assert page.status_code == 200 and request["id"] in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u{1b}[2J\\u{d}" in page.text and "<script" not in page.text
    status = requests.get(gateway.admin_url + "/", timeout=10).text
    assert "1 request waits for approval" in status and "alert(1)" not in status and "Approved: all" not in status
    form = {"token": ALICE, "id": request["id"], "decision": "approve"}
    assert f"Approved: {request['id']}" in requests.post(gateway.admin_url + "/approvals", data=form, timeout=10).text
    assert answer.result().status_code == 200


def test_over_http2_a_request_waits_too(start, origin, pool):
    gateway = start()
    options = ["-sS", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "--http2-prior-knowledge", "--data", "x"]
    call = ["curl", *options, "-H", f"Authorization: Bearer {AGENT}", gateway.url + "/api/deploy/1"]
    answer = pool.submit(subprocess.run, call, check=True, capture_output=True, text=True, timeout=60, env=processes.environment())
    [request] = held(gateway)
    assert origin.requests == []
    assert decide(gateway, request["id"]).status_code == 200
    assert answer.result().stdout == "2 200" and origin.requests[0].body == b"x"


def test_calls_of_mcp_tools_wait(start, origin, pool):
    gateway = start(rules=[{"path": "/mcp", "tools": ["search"]}, {"path": "/mcp", "tools": ["deploy"], "approve": True}])

    def send(method, **parameters):
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": parameters}
        return ask(gateway, json.dumps(message), "/api/mcp", **{"Content-Type": "application/json"})

    assert send("tools/list").status_code == 200
    assert send("tools/call", name="search", arguments={}).status_code == 200
    assert send("tools/call", name="other").json()["error"]["code"] == -32602
    answer = pool.submit(send, "tools/call", name="deploy", arguments={})
    [request] = held(gateway)
    assert request["calls"] == ["deploy"]
    assert decide(gateway, request["id"], "deny").status_code == 200
    said = answer.result()
    assert said.status_code == 200 and said.json()["id"] == 7 and "denied" in said.json()["error"]["message"]
    answer = pool.submit(send, "tools/call", name="deploy", arguments={})
    [request] = held(gateway)
    assert decide(gateway, request["id"]).status_code == 200
    assert answer.result().status_code == 200 and len(origin.requests) == 3


def test_without_a_running_gateway_nothing_waits(tmp_path, make_gateway, origin):
    gateway = make_gateway(config(origin))
    gateway.admin["users"] = APPROVERS
    gateway.configure(config(origin))
    assert gateway.run("approve", input="").returncode == 4
    assert command("approve", "--deny", cwd=tmp_path).returncode == 2

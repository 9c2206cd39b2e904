"""The MCP SDK's own client and server, with a gateway between them whose rule names the tools that may be called."""

import gzip
import json
import subprocess
import sys
import threading

import pytest
import requests
from harness import processes
from harness.configs import BEARER, CANARY
from harness.events import wait_for_events
from harness.https_clients import PACKAGES
from harness.origin import response

PATH = f"import sys; sys.path.insert(0, {str(PACKAGES)!r})\n"

#: Writes each call of a tool to its standard output.
SERVER = (
    PATH
    + """
from mcp.server import MCPServer
server = MCPServer("notes")

@server.tool()
def search(text: str) -> str:
    print("called search", flush=True)
    return f"found {text}"

@server.tool()
def read_note(number: int) -> str:
    print("called read_note", flush=True)
    return f"note {number}"

@server.tool()
def delete_note(number: int) -> str:
    print("called delete_note", flush=True)
    return f"deleted {number}"

@server.prompt()
def summary() -> str:
    return "Summarize."

server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]), json_response=sys.argv[2] == "json")
"""
)

CLIENT = (
    PATH
    + """
import asyncio, json
from mcp import Client, MCPError
url, mode, calls = sys.argv[1:]

async def said(call):
    try:
        return await call
    except MCPError as error:
        return [error.error.code, error.error.message]

async def text(client, name, arguments):
    return (await client.call_tool(name, arguments)).content[0].text

async def prompt(client):
    return (await client.get_prompt("summary")).messages[0].content.text

async def main():
    async with Client(url, mode=mode, read_timeout_seconds=20) as client:
        listed = sorted(tool.name for tool in (await client.list_tools()).tools)
        calls_said = [await said(text(client, name, arguments)) for name, arguments in json.loads(calls)]
        print(json.dumps({"tools": listed, "calls": calls_said, "prompt": await said(prompt(client))}))

asyncio.run(main())
"""
)

CALLS = [["search", {"text": "x"}], ["delete_note", {"number": 1}], ["read_note", {"number": 2}]]

#: The two ways in which the SDK speaks: with the fields of 2026-07-28, and with a handshake before.
MODES = ["auto", "legacy"]


class Notes:
    def __init__(self, form):
        self.port = processes.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.called = []
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(self.port), form],
            env=processes.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        threading.Thread(target=self.follow, daemon=True).start()
        processes.wait_until(lambda: processes.is_listening(self.port), 30, "the MCP server listens")

    def follow(self):
        for line in self.process.stdout:
            # Its web server writes a line for each request, too.
            if line.startswith("called "):
                self.called.append(line.split()[1])

    def expect(self, *called):
        processes.wait_until(lambda: self.called == list(called), 5, lambda: f"{called}, not {self.called}")

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(params=["json", "events"])
def notes(request):
    server = Notes(request.param)
    yield server
    server.stop()


def start(start_gateway, upstream, *rules, **more):
    route = {"upstream": upstream, "auth": BEARER, "allow": [{"path": "/mcp", **rule} for rule in rules]}
    return start_gateway({"routes": {"notes": route}, **more})


def use(gateway, mode, calls=CALLS):
    command = [sys.executable, "-c", CLIENT, gateway.url + "/notes/mcp", mode, json.dumps(calls)]
    done = subprocess.run(command, check=False, env=processes.environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def explanations(gateway, count=1):
    wait_for_events(gateway, "client_denied", count)
    return [event["detail"]["explanation"] for event in gateway.events() if event["event"] == "client_denied"]


@pytest.mark.parametrize("mode", MODES)
def test_a_session_has_the_tools_that_the_rule_names(start_gateway, notes, mode):
    gateway = start(start_gateway, notes.url, {"tools": ["search", "read_*"], "mcp_methods": ["prompts/get"]})
    said = use(gateway, mode)
    found, refused, note = said["calls"]
    assert (found, note, said["prompt"]) == ("found x", "note 2", "Summarize."), said
    assert said["tools"] == ["read_note", "search"], "the agent is not shown what it may not call"
    code, message = refused
    assert code == -32602 and 'does not allow the tool "delete_note"' in message, "the agent reads why, and the session goes on"
    notes.expect("search", "read_note")
    [explanation] = explanations(gateway)
    assert 'The route notes does not allow the tool "delete_note"' in explanation


@pytest.mark.parametrize("mode", MODES)
def test_a_method_that_no_rule_names_is_refused(start_gateway, notes, mode):
    gateway = start(start_gateway, notes.url, {"tools": []})
    said = use(gateway, mode)
    assert said["tools"] == [], "the list passes, and is empty"
    assert [code for code, _ in said["calls"]] == [-32602] * 3 and notes.called == []
    assert said["prompt"][0] == -32601 and "prompts/get" in said["prompt"][1]


@pytest.mark.parametrize("mode", MODES)
def test_a_star_shows_and_allows_every_tool(start_gateway, notes, mode):
    gateway = start(start_gateway, notes.url, {"tools": ["*"]})
    said = use(gateway, mode)
    assert said["tools"] == ["delete_note", "read_note", "search"] and said["calls"] == ["found x", "deleted 1", "note 2"]


def test_by_fields_alone(start_gateway, notes):
    """The SDK's client sends them, and its server compares them with the body."""
    gateway = start(start_gateway, notes.url, {"tools": ["search"], "tools_from": "header"})
    said = use(gateway, "auto")
    found, refused, other = said["calls"]
    assert found == "found x" and refused[0] == other[0] == -32602 and "delete_note" in refused[1]
    assert said["tools"] == ["search"]
    assert any('does not allow the tool "delete_note"' in explanation for explanation in explanations(gateway))
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "delete_note",
            "arguments": {"number": 1},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    }
    fields = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "search",
    }
    lie = requests.post(gateway.url + "/notes/mcp", json=body, headers=fields, timeout=20)
    assert lie.status_code == 400 and lie.json()["error"]["code"] == -32020
    notes.expect("search")
    del fields["MCP-Protocol-Version"]
    old = requests.post(gateway.url + "/notes/mcp", json=body, headers=fields, timeout=20)
    assert old.status_code == 400 and "2026-07-28" in old.json()["error"]["message"]


def test_what_the_server_would_read_differently_never_reaches_it(start_gateway, make_origin):
    """An origin that checks nothing: what arrives there would be executed."""
    origin = make_origin(lambda request: response(200, b"{}"))
    gateway = start(start_gateway, origin.url, {"tools": ["search"]})
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s"}}'
    search, delete = call % b"search", call % b"delete_note"

    def post(body, **fields):
        headers = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in fields.items()}}
        return requests.post(gateway.url + "/notes/mcp", data=body, headers=headers, timeout=20)

    assert post(search).status_code == 200
    assert post(search.replace(b"tools/call", rb"tools\u002fcall")).status_code == 200
    assert origin.requests[-1].value("authorization") == f"Bearer {CANARY}"
    sent = len(origin.requests)
    refused = [
        post(delete),
        post(delete.replace(b"tools/call", rb"tools\u002fcall")),
        post(search.replace(b'"name"', b'"name":"delete_note","name"')),
        post(search.replace(b'"name"', b'"Name":"delete_note","name"')),
        post(search.replace(b'"method"', b'"Method":"tools/call","method"')),
        post(search + delete),
        post(b"[" + search + b"," + delete + b"]"),
        post(b"[]"),
        post(b"\xef\xbb\xbf" + search),
        post(search.decode().encode("utf-16")),
        post(search, Content_Type="application/json; charset=utf-16"),
        post(search, Content_Encoding="gzip"),
        post(search, Mcp_Name="delete_note"),
        post(search, Mcp_Method="tools/list"),
        post(b"[" * 10_000),
        requests.put(gateway.url + "/notes/mcp", data=delete, headers={"Content-Type": "application/json"}, timeout=20),
        requests.get(gateway.url + "/notes/mcp", headers={"Connection": "upgrade", "Upgrade": "websocket"}, timeout=20),
        requests.post(gateway.url + "/notes/mcp/", data=search, headers={"Content-Type": "application/json"}, timeout=20),
    ]
    assert len(origin.requests) == sent, [request.head for request in origin.requests[sent:]]
    assert [answer.text for answer in refused if "error" not in answer.text and answer.status_code != 403] == []
    for method in ("GET", "DELETE"):
        assert requests.request(method, gateway.url + "/notes/mcp", timeout=20).status_code == 200


def test_a_body_is_read_within_a_limit(start_gateway, make_origin):
    origin = make_origin(lambda request: response(200, b"{}"))
    gateway = start(start_gateway, origin.url, {"tools": ["search"]}, limits={"replay_body_bytes": "1KiB"})
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {"text": "x" * 2000}}}
    answer = requests.post(gateway.url + "/notes/mcp", json=body, timeout=20)
    error = answer.json()
    assert answer.status_code == 413 and "limits.replay_body_bytes" in error["error"]["message"] and error["id"] is None
    assert origin.requests == []


def hostile_answers():
    """Lists that name delete_note in ways that some client reads: the type, the body and what else the head says."""
    tool = b'{"name":"delete_note"}'
    answer = b'{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}'
    json_type, events = "Content-Type: application/json", "Content-Type: text/event-stream"
    for id in (b"1", b"1.0", b"1e0", b'"1"', b"null"):
        yield answer % (id, tool), json_type
    for name in (b'"name":"search","name":"delete_note"', b'"name":"search","Name":"delete_note"', rb'"n\u0061me":"delete_note"'):
        yield answer % (b"1", b"{%s}" % name), json_type
    plain = answer % (b"1", tool)
    for member in (b'"Tools"', rb'"t\u006fols"', '"toolſ"'.encode()):
        yield plain.replace(b'"tools"', member), json_type
    yield plain.replace(b'"result"', b'"result":{"tools":[]},"result"'), json_type
    yield plain.replace(b"[%s]" % tool, b'{"delete_note":{}}'), json_type
    yield b"[" + plain + b"]", json_type
    yield plain + plain, json_type
    yield b"\xef\xbb\xbf" + plain, json_type
    yield plain.decode().encode("utf-16"), json_type + "; charset=utf-16"
    yield gzip.compress(plain), json_type, "Content-Encoding: gzip"
    yield plain, "Content-Type: text/html"
    yield plain, json_type, events
    yield answer % (b"1", b",".join([tool] * 100_000)), json_type
    for end in (b"\n", b"\r\n", b"\r"):
        yield b"data: " + plain + end + end, events
    yield b"\xef\xbb\xbfdata:" + plain + b"\n\n", events
    yield b"data: " + plain.replace(b",", b",\ndata:") + b"\n\n", events
    yield b": x\nid: 1\ndata: " + plain, events
    yield b"data: " + plain[:-1] + b"\n\n" + b"data: " + plain + b"\n\n", events
    yield b"data: " + answer % (b"1", b",".join([tool] * 100_000)) + b"\n\n", events


def test_a_hostile_server_shows_no_other_tool(start_gateway, make_origin):
    answers = list(hostile_answers())

    def answer(request):
        body, *fields = answers[int(request.value("x-number"))]
        head = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *fields]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + body

    gateway = start(start_gateway, make_origin(answer).url, {"tools": ["search"]})
    shown = []
    for number in range(len(answers)):
        fields = {"X-Number": str(number), "Accept-Encoding": "gzip"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        said = requests.post(gateway.url + "/notes/mcp", json=body, headers=fields, timeout=20)
        assert said.status_code == 200 and said.text.strip(), answers[number]
        if b"delete_note" in said.content:
            shown.append(answers[number])
    assert shown == []


def test_check_and_explain_say_what_a_rule_trusts(start_gateway, make_origin):
    origin = make_origin()
    gateway = start(start_gateway, origin.url, {"tools": ["search"], "tools_from": "header"})
    checked = gateway.run("check")
    assert "the gateway trusts Mcp-Method and Mcp-Name and does not read the body" in checked.stdout + checked.stderr, checked
    plan = gateway.run("plan")
    assert "any method /mcp, tools search, tools_from header" in plan.stdout, plan
    explained = gateway.run("explain", gateway.url + "/notes/mcp")
    assert "rule 1 has tools search, tools_from header" in explained.stdout, explained
    call = "-H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: {}' -d '{{}}'"
    allowed, refused = "which the server has to compare with the body", 'does not allow the tool "delete_note"'
    for tool, said in (("search", allowed), ("delete_note", refused)):
        explained = gateway.run("explain", f"curl {gateway.url}/notes/mcp {call.format(tool)}")
        assert said in explained.stdout, explained

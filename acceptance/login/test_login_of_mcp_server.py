"""`authgateway add mcp`: the login of the MCP SDK's own server, used by its own client through the gateway."""

import json
import stat

import pytest
import requests
from harness.login import Login
from harness.mcp_process import MCPServer, call_tool
from harness.processes import wait_until


@pytest.fixture
def server(tmp_path):
    server = MCPServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def gateway(make_gateway):
    gateway = make_gateway({"routes": {"other": {"upstream": "http://127.0.0.1:9", "auth": "none"}}})
    # Commands edit files with a key on each line.
    keys = json.loads(gateway.file.read_text()).items()
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in keys if key != "routes")
    gateway.file.write_text(text + 'routes:\n  other: {upstream: "http://127.0.0.1:9", auth: none}\n')
    return gateway.start()


def add(gateway, server, *arguments):
    return Login(gateway, "mcp", server.url, "--name", "calc", *arguments, command="add")


def test_a_server_is_added_and_its_tool_is_called(gateway, server):
    login = add(gateway, server, "--yes")
    place = f"127.0.0.1:{server.port}"
    shown = login.text()
    assert f"Authorization server  {place} (http://{place})\n" in shown and "calculate offline_access" in shown, shown
    assert shown.index("Authorization server") < shown.index(login.page)
    assert requests.get(login.page, timeout=20).status_code == 200
    code, output, words = login.end()
    assert code == 0 and "Logged in: calc is valid" in output, (output, words)
    seen = server.seen()
    [registration], [page], [exchange] = seen["registrations"], seen["pages"], seen["tokens"]
    assert page["resource"] == exchange["resource"] == server.url
    assert page["redirect_uri"] == exchange["redirect_uri"] == registration["redirect_uris"][0]
    assert registration["application_type"] == "native" and page["code_challenge_method"] == "S256"
    [secret] = (gateway.folder / "state" / "secrets").iterdir()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert secret.read_text() not in gateway.file.read_text() + output + login.text()
    answer = call_tool(f"{gateway.url}/calc")
    assert (answer.returncode, answer.stdout) == (0, "5\n"), answer
    assert gateway.run("token", "refresh", "calc").returncode == 0
    assert server.seen()["tokens"][-1]["grant_type"] == "refresh_token"
    assert server.seen()["tokens"][-1]["resource"] == server.url
    again = gateway.run("add", "mcp", server.url, "--name", "calc", "--yes")
    assert again.returncode == 1 and "already" in again.stderr, again


def test_a_lost_registration_is_repeated_once(gateway, server):
    server.change(forget_at_exchange=1)
    login = add(gateway, server, "--yes")
    requests.get(login.page, timeout=20)
    wait_until(lambda: len(login.pages()) == 2, 20, login.text)
    assert requests.get(login.pages()[1], timeout=20).status_code == 200
    code, output, words = login.end()
    assert code == 0 and "Logged in: calc" in output, (output, words)
    assert len(server.seen()["registrations"]) == 2
    assert call_tool(f"{gateway.url}/calc").stdout == "5\n"


def test_it_is_not_repeated_twice(gateway, server):
    server.change(forget_at_exchange=2)
    login = add(gateway, server, "--yes")
    requests.get(login.page, timeout=20)
    wait_until(lambda: len(login.pages()) == 2, 20, login.text)
    requests.get(login.pages()[1], timeout=20)
    code, _, words = login.end()
    assert code == 1 and "invalid_client" in words and "authgateway login calc" in words, words
    assert len(server.seen()["registrations"]) == 2


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"metadata": {"token_endpoint": "https://169.254.169.254/token"}}, "not on the public internet"),
        ({"metadata": {"registration_endpoint": "https://10.0.0.1/register"}}, "not on the public internet"),
        ({"metadata": {"authorization_endpoint": "http://auth.example.com/authorize"}}, "must be https"),
        ({"metadata": {"issuer": "https://bank.example.com"}}, "about another issuer"),
        ({"metadata": {"code_challenge_methods_supported": None}}, "PKCE"),
        ({"resource": {"resource": "https://bank.example.com/mcp"}}, "about another resource"),
        ({"resource": {"authorization_servers": ["https://192.168.1.1"]}}, "not on the public internet"),
        ({"resource": {"authorization_servers": []}}, "names no authorization server"),
    ],
)
def test_a_hostile_server_gets_no_login(gateway, server, changes, words):
    before = gateway.file.read_text()
    server.change(**changes)
    result = gateway.run("add", "mcp", server.url, "--name", "calc", "--yes")
    assert result.returncode == 1 and words in result.stderr and "Nothing was changed" in result.stderr, result
    assert gateway.file.read_text() == before and server.seen()["registrations"] == []


def test_an_answer_of_another_issuer_is_refused(gateway, server):
    server.change(iss="https://bank.example.com")
    login = add(gateway, server, "--yes")
    assert requests.get(login.page, timeout=20).status_code == 400
    code, _, words = login.end()
    assert code == 1 and "issuer" in words, words
    assert server.seen()["tokens"] == [], "the code was not sent anywhere"


def test_nothing_is_registered_before_a_person_agrees(gateway, server):
    before = gateway.file.read_text()
    dry = gateway.run("add", "mcp", server.url, "--dry-run")
    assert dry.returncode == 0 and "Authorization server" in dry.stderr and "Nothing was written." in dry.stdout, dry
    silent = gateway.run("add", "mcp", server.url)
    assert silent.returncode == 2 and "add --yes" in silent.stderr, silent
    assert gateway.file.read_text() == before and server.seen()["registrations"] == []


def test_a_client_of_ones_own_is_written_without_a_login(gateway, server):
    redirect = "http://127.0.0.1:8765/callback"
    options = ["--client-id", "https://app.example.com/client.json", "--redirect-uri", redirect, "--no-login", "--yes"]
    result = gateway.run("add", "mcp", server.url, "--name", "calc", *options)
    assert result.returncode == 0 and "authgateway login calc" in result.stdout, result
    assert "does not say that it accepts the URL of a document" in result.stderr, result
    text = gateway.file.read_text()
    assert "client_id: https://app.example.com/client.json\n" in text and f"redirect_uri: {redirect}\n" in text
    assert server.seen()["registrations"] == [] and gateway.run("check").returncode == 0


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["mcp"], "say which server"),
        (["mcp", "http://mcp.example.com/mcp"], "must be https"),
        (["mcp", "https://mcp.example.com/mcp?x=1"], "must not contain a query"),
        (["mcp", "https://mcp.example.com/mcp", "--redirect-uri", "http://127.0.0.1:1/cb"], "--client-id"),
        (["mcp", "https://mcp.example.com/mcp", "--client-id", "https://app.example.com"], "with a path"),
        (["github", "--client-id", "x"], "are for: authgateway add mcp URL"),
    ],
)
def test_a_wrong_command_is_refused_before_anything_is_asked(gateway, arguments, words):
    result = gateway.run("add", *arguments)
    assert result.returncode == 2 and words in result.stderr, result

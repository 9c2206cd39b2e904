"""`authgateway add mcp`: the login of the MCP SDK's own server, used by its own client through the gateway."""

import json
import stat

import pytest
import requests
from harness.events import named, wait_for_events
from harness.login import Login, status_of
from harness.mcp_process import MCPServer, Session, call_tool
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
    assert secret.read_text().startswith("authgateway-sealed-1 "), "it is encrypted, as tokens are"
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
        ({"metadata": {"authorization_endpoint": "https://auth.example.com/authorize#x"}}, "fragment"),
        ({"metadata": {"authorization_endpoint": "https://me:secret@auth.example.com/authorize"}}, "authorization_endpoint"),
        ({"metadata": {"authorization_endpoint": "https://[::ffff:10.0.0.1]/authorize"}}, "not on the public internet"),
        ({"metadata": {"revocation_endpoint": "https://metadata/"}}, "not on the public internet"),
        ({"metadata": {"token_endpoint": "file:///etc/passwd"}}, "token_endpoint"),
        ({"metadata": {"issuer": "https://bank.example.com"}}, "about another issuer"),
        ({"metadata": {"code_challenge_methods_supported": None}}, "PKCE"),
        ({"resource": {"resource": "https://bank.example.com/mcp"}}, "about another resource"),
        ({"resource": {"authorization_servers": ["https://192.168.1.1"]}}, "not on the public internet"),
        ({"resource": {"authorization_servers": []}}, "names no authorization server"),
        ({"resource": {"authorization_servers": ["http://auth.example.com"]}}, "must be https"),
        ({"resource": {"authorization_servers": ["https://auth.example.com/?tenant=1"]}}, "has a query"),
        ({"resource": {"authorization_servers": [f"https://a{n}.example.com" for n in range(17)]}}, "more than 16"),
        ({"wild": {"oauth-authorization-server": "huge", "openid-configuration": "huge"}}, "too large"),
        ({"wild": {"oauth-authorization-server": "endless"}}, "too large"),
        ({"wild": {"oauth-authorization-server": "slow"}}, "did not answer"),
        ({"wild": {"oauth-protected-resource": "huge"}}, "too large"),
        ({"wild": {"oauth-authorization-server": "redirect", "openid-configuration": "redirect"}}, "which is not followed"),
        ({"wild": {"register": "redirect"}}, "does not register the gateway"),
        ({"wild": {"register": "endless"}}, "too large"),
    ],
)
def test_a_hostile_server_gets_no_login(gateway, server, changes, words):
    before = gateway.file.read_text()
    server.change(**changes)
    result = gateway.run("add", "mcp", server.url, "--name", "calc", "--yes")
    assert result.returncode == 1 and words in result.stderr and "Nothing was changed" in result.stderr, result
    assert gateway.file.read_text() == before and server.seen()["registrations"] == []
    assert server.seen()["followed"] == [] and "secret@" not in result.stderr + result.stdout


def test_a_person_sees_where_the_tokens_come_from(gateway, server):
    """Two hosts of one server, as a person has to tell them apart."""
    server.change(metadata={"token_endpoint": f"http://localhost:{server.port}/token"})
    shown = gateway.run("add", "mcp", server.url, "--dry-run").stderr
    assert f"Authorization server  127.0.0.1:{server.port} (http" in shown, shown
    assert f"Tokens come from      localhost:{server.port}\n" in shown, shown


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


def log_in(login):
    assert requests.get(login.page, timeout=20).status_code == 200
    code, output, words = login.end()
    assert code == 0 and "Logged in: calc is valid" in output, (output, words)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_five_sessions_survive_a_401_with_one_renewal(gateway, server, mode):
    log_in(add(gateway, server, "--yes"))
    sessions = [Session(f"{gateway.url}/calc", mode) for _ in range(5)]
    try:
        assert [session.first() for session in sessions] == ["4\n"] * 5
        before = len(server.seen()["calls"])
        server.change(revoke=True, token_delay=1)
        for session in sessions:
            session.begin_second()
        assert [session.second() for session in sessions] == [("5\n", "")] * 5
    finally:
        for session in sessions:
            session.stop()
    seen = server.seen()
    assert [form["grant_type"] for form in seen["tokens"]] == ["authorization_code", "refresh_token"] and seen["reuses"] == 0
    calls = [call for call in seen["calls"][before:] if call["method"] == "tools/call"]
    assert sorted({call["status"] for call in calls}) == [200, 401], calls
    accepted = [call["session"] for call in calls if call["status"] == 200]
    assert len(accepted) == 5
    if mode == "legacy":
        # Each session is used again with its own identifier, and none is begun anew.
        assert len(set(accepted)) == 5 and None not in accepted
        assert not [call for call in seen["calls"][before:] if call["method"] == "initialize"]
        assert {call["session"] for call in calls if call["status"] == 401} <= set(accepted)


def test_a_missing_scope_asks_for_a_login_that_names_it(gateway, server):
    log_in(add(gateway, server, "--yes"))
    server.change(needs="multiply")
    assert call_tool(f"{gateway.url}/calc").returncode != 0
    for _ in range(50):
        answer = requests.post(f"{gateway.url}/calc", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, timeout=20)
        assert answer.status_code == 403 and "insufficient_scope" in answer.headers["WWW-Authenticate"]
    command = "authgateway login calc --scope multiply"
    token = status_of(gateway)
    assert (token["state"], token["missing_scopes"], token["action"], token["generation"]) == ("valid", ["multiply"], command, 1)
    status = gateway.run("status")
    assert status.returncode == 1 and command in status.stdout and "needs a person: calc" in status.stderr, status
    assert command in gateway.run("doctor").stdout
    page = requests.get(gateway.admin_url, timeout=20).text
    assert command in page and "its token lacks a scope" in page
    wait_for_events(gateway, "scope_missing")
    [event] = named(gateway, "scope_missing")
    assert (event["detail"]["scopes"], event["error_code"], event["route"]) == ("multiply", "insufficient_scope", "calc")
    [line] = [line for line in gateway.text().splitlines() if "Token lacks a scope" in line]
    assert command in line
    seen = server.seen()
    assert len(seen["tokens"]) == 1 and seen["followed"] == [], "nothing was renewed, and nothing that the challenge names was asked"
    log_in(Login(gateway, "calc", "--scope", "multiply"))
    assert server.seen()["pages"][-1]["scope"] == "calculate offline_access multiply"
    assert call_tool(f"{gateway.url}/calc").stdout == "5\n"
    assert gateway.run("status").returncode == 0
    # A renewal keeps the scope, and so does a later login. Only a logout forgets it.
    assert gateway.run("token", "refresh", "calc").returncode == 0
    assert call_tool(f"{gateway.url}/calc").stdout == "5\n"
    log_in(Login(gateway, "calc"))
    assert server.seen()["pages"][-1]["scope"] == "calculate offline_access multiply"
    assert gateway.run("logout", "calc").returncode == 0
    log_in(Login(gateway, "calc"))
    assert server.seen()["pages"][-1]["scope"] == "calculate offline_access"


def test_what_is_no_scope_is_not_asked_for(gateway, server):
    log_in(add(gateway, server, "--yes"))
    result = gateway.run("login", "calc", "--scope", "a b")
    assert result.returncode == 1 and "not scopes" in result.stderr, result
    assert len(server.seen()["pages"]) == 1


def test_a_registration_that_is_lost_later_is_repeated_by_the_login(gateway, server):
    log_in(add(gateway, server, "--yes"))
    assert f"registration_url: http://127.0.0.1:{server.port}/register\n" in gateway.file.read_text()
    first = server.seen()["registrations"]
    server.change(forget=True)
    assert gateway.run("token", "refresh", "calc").returncode == 1
    token = status_of(gateway)
    assert token["failing"]["command"] == "authgateway login calc" and "registration may be lost" in token["failing"]["reason"]
    log_in(Login(gateway, "calc"))
    registrations = server.seen()["registrations"]
    assert len(registrations) == 2 and registrations[1]["redirect_uris"] == first[0]["redirect_uris"]
    assert call_tool(f"{gateway.url}/calc").stdout == "5\n"
    assert gateway.run("token", "refresh", "calc").returncode == 0
    assert gateway.run("check").returncode == 0


def test_a_registration_is_repeated_by_hand(gateway, server):
    log_in(add(gateway, server, "--yes"))
    server.change(forget=True)
    log_in(Login(gateway, "calc", "--register"))
    assert len(server.seen()["registrations"]) == 2
    other = gateway.run("login", "other", "--register")
    assert other.returncode == 2 and "no registration_url" in other.stderr, other


def test_a_preset_names_the_server(gateway, server):
    presets = gateway.folder / "presets"
    presets.mkdir(mode=0o700)
    credential = "credential: {strategy: bearer, token: {env: ACME_KEY}}"
    common = "docs: https://acme.example.com/, read: unverified"
    (presets / "acme.yaml").write_text(
        f"acme: {{title: Acme, {common}, mcp: '{server.url}', secrets: {{ACME_KEY: {{what: A key}}}}, {credential},"
        " routes: {api: {upstream: 'https://acme.example.com'}}}\n"
        f"keyed-mcp: {{title: Keyed, {common}, secrets: {{ACME_KEY: {{what: A key}}}}, {credential},"
        f" routes: {{mcp: {{upstream: '{server.url}'}}}}}}\n"
    )
    (presets / "acme.yaml").chmod(0o600)
    gateway.file.write_text(gateway.file.read_text() + "presets: presets\n")
    login = Login(gateway, "mcp", "acme", "--yes", command="add")
    assert requests.get(login.page, timeout=20).status_code == 200
    code, output, words = login.end()
    assert code == 0 and "Logged in: acme-mcp is valid" in output, (output, words)
    assert call_tool(f"{gateway.url}/acme-mcp").stdout == "5\n"
    keyed = gateway.run("add", "mcp", "keyed", "--secret", "env:OTHER_KEY", "--no-whoami")
    assert keyed.returncode == 0 and "preset: keyed-mcp" in gateway.file.read_text(), keyed
    wrong = gateway.run("add", "mcp", "keyed", "--no-login")
    assert wrong.returncode == 2 and "takes a key" in wrong.stderr, wrong
    unknown = gateway.run("add", "mcp", "linea")
    assert unknown.returncode == 1 and 'did you mean "linear"' in unknown.stderr, unknown
    known = gateway.run("add", "mcp", "zzzzzzzz").stderr
    assert "acme, atlassian, github, keyed, linear, notion, sentry" in known, known

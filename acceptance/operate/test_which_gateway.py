"""Commands find the running gateway from any folder, and without a configuration that can be read."""

import json
import os

import pytest
from harness.configs import CANARY
from harness.gateway import command


@pytest.fixture
def runtime(tmp_path):
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


@pytest.fixture
def start(make_gateway, origin, runtime):
    def start(admin=None, **more):
        routes = {"api": {"upstream": origin.url, "auth": "none"}}
        for name in more.get("credentials", {}):
            routes[name] = {"upstream": origin.url, "auth": name}
        gateway = make_gateway({"routes": routes, **more}, admin=admin)
        gateway.environment["XDG_RUNTIME_DIR"] = str(runtime)
        return gateway.start()

    return start


def test_the_only_gateway_is_found(start, runtime, elsewhere):
    gateway = start()
    result = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert result.returncode == 0 and "ready" in result.stdout, result
    assert str(gateway.file) in result.stderr and str(gateway.process.pid) in result.stderr
    as_json = command("routes", "--json", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert [route["name"] for route in json.loads(as_json.stdout)] == ["api"]
    assert gateway.stop() == 0
    assert list((runtime / "authgateway").iterdir()) == [], "a gateway that stops is no longer found"
    gone = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert gone.returncode == 3 and "gateway.yaml" in gone.stderr, gone


def test_of_two_gateways_one_has_to_be_named(start, runtime, elsewhere):
    first, second = start(), start()
    result = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert result.returncode == 2 and result.stdout == "", result
    assert f"--config {first.file}" in result.stderr and f"--config {second.file}" in result.stderr
    named = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime), AUTHGATEWAY_CONFIG=str(first.file))
    assert named.returncode == 0 and named.stderr == "", named


def test_what_a_crash_left_behind_is_not_found(start, runtime, elsewhere):
    gateway = start()
    gateway.expected_ends = {-9}
    gateway.process.kill()
    gateway.process.wait(10)
    assert len(list((runtime / "authgateway").iterdir())) == 1
    result = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert result.returncode == 3 and "gateway.yaml" in result.stderr, result


def test_what_others_can_write_is_not_followed(start, runtime, elsewhere):
    start()
    (runtime / "authgateway").chmod(0o777)
    result = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert result.returncode == 3, result


def test_nothing_is_recorded_where_others_can_write(start, runtime):
    folder = runtime / "authgateway"
    folder.mkdir()
    folder.chmod(0o777)
    start()
    assert list(folder.iterdir()) == []


class TestWithoutAReadableConfiguration:
    BROKEN = f"version: 1\nroutes:\n  api: {{upstream: x, auth: {{strategy: bearer, token: {CANARY}}}\nlimits: [\n"
    #: The authority is never asked.
    CREDENTIAL = {
        "strategy": "oauth2_client_credentials",
        "token_url": "https://id.invalid/token",
        "client_id": "x",
        "client_secret": CANARY,
    }

    @pytest.fixture(params=["port", "socket", "tls"])
    def gateway(self, request, start, short_folder, certificate_authority):
        admin = None
        if request.param == "socket":
            admin = {"unix": f"{short_folder}/admin.sock"}
        if request.param == "tls":
            certificate, key = certificate_authority.issue("recorded-admin", "DNS:localhost", days=400)
            users = {"alice": {"role": "operator", "token": f"{CANARY}-of-alice"}}
            tls = {"certificate": str(certificate), "private_key": {"file": str(key)}}
            admin = {"address": "127.0.0.1:0", "tls": tls, "users": users}
        gateway = start(admin, credentials={"service": self.CREDENTIAL})
        gateway.file.write_text(self.BROKEN, encoding="utf-8")
        return gateway

    def ask(self, gateway, *arguments):
        result = gateway.run(*arguments)
        assert CANARY not in result.stdout + result.stderr, result
        return result

    def test_a_mistake_in_the_yaml_is_a_warning(self, gateway):
        for words, shown in [
            (("status",), "ready"),
            (("routes",), "api"),
            (("token", "list"), "service"),
            (("token", "lock", "service"), "service"),
            (("audit", "query", "--credential", "service"), "locked"),
            (("audit", "verify"), "intact"),
            (("explain", f"{gateway.url}/api/x"), "api"),
            (("token", "unlock", "service"), "service"),
        ]:
            result = self.ask(gateway, *words)
            assert result.returncode == 0 and shown in result.stdout, (words, result)
            assert "gateway.yaml:" in result.stderr and ": warning: " in result.stderr, result
            asked = f"started with this file and still runs (process {gateway.process.pid}).\n"
            assert asked in result.stderr, result
        found = json.loads(self.ask(gateway, "routes", "--json").stdout)
        assert [route["name"] for route in found] == ["api", "service"]

    def test_a_reload_is_answered_with_the_mistake(self, gateway):
        result = self.ask(gateway, "reload")
        assert result.returncode == 3 and "the running configuration was kept" in result.stderr, result
        status = self.ask(gateway, "status")
        assert status.returncode == 1 and "needs a person: configuration refused" in status.stderr, status

    def test_a_file_that_is_gone_is_one_that_cannot_be_read(self, gateway, elsewhere, runtime):
        gateway.file.unlink()
        result = self.ask(gateway, "status")
        assert result.returncode == 0 and "no such file" in result.stderr, result
        found = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
        assert found.returncode == 0 and str(gateway.file) in found.stderr, found

    def test_a_key_that_commands_need_can_be_wrong(self, gateway):
        gateway.file.write_text("version: 1\nlisteners: {admin: {address: nowhere}}\n", encoding="utf-8")
        result = self.ask(gateway, "status")
        assert result.returncode == 0 and "warning: listeners.admin" in result.stderr, result

    def test_what_works_on_the_files_needs_the_configuration(self, gateway, tmp_path):
        result = self.ask(gateway, "state", "backup", str(tmp_path / "copy"))
        assert result.returncode == 3, result

    def test_without_a_gateway_it_is_an_error_as_before(self, gateway):
        assert gateway.stop() == 0
        result = self.ask(gateway, "status")
        assert result.returncode == 3 and "; nothing was asked." in result.stderr, result


def test_the_gateway_is_asked_where_it_listens_until_it_is_restarted(start, make_origin):
    """Anybody may listen at an address that the file names and the gateway has not taken yet."""
    gateway = start(credentials={"service": TestWithoutAReadableConfiguration.CREDENTIAL})
    other = make_origin()
    text = gateway.file.read_text(encoding="utf-8")
    port = str(gateway.admin_port)
    assert port in text
    gateway.file.write_text(text.replace(port, other.url.rpartition(":")[2]), encoding="utf-8")
    assert gateway.run("token", "lock", "service").returncode == 0
    assert gateway.run("status").returncode == 1, "it is locked"
    assert gateway.run("token", "unlock", "service").returncode == 0
    refused = gateway.run("reload")
    assert refused.returncode == 3 and "restart it" in refused.stderr, refused
    assert other.requests == []


@pytest.mark.root
def test_no_token_goes_to_a_port_that_another_user_recorded(start, runtime):
    credential = TestWithoutAReadableConfiguration.CREDENTIAL
    gateway = start(credentials={"service": credential})
    gateway.file.write_text("routes: [\n")
    [record] = (runtime / "authgateway").iterdir()
    os.chown(record, 65534, 65534)
    assert gateway.run("status").returncode == 0, "that needs no token"
    refused = gateway.run("token", "lock", "service")
    assert refused.returncode == 1 and "another user recorded" in refused.stderr, refused
    gateway.file.unlink()
    assert gateway.run("status").returncode == 3, "a configuration of this user would be followed, and there is none"


def test_what_is_no_admin_token_is_sent_nowhere(start):
    """Who owns the state directory could lead another user's command to any file."""
    gateway = start(credentials={"service": TestWithoutAReadableConfiguration.CREDENTIAL})
    file = gateway.folder / "state/admin.token"
    token = file.read_text()
    for text in ("root:x:0:0", token.strip()[:-1], token.strip().upper() + "g"):
        file.write_text(text)
        refused = gateway.run("token", "lock", "service")
        assert refused.returncode == 1 and "admin.token cannot be read" in refused.stderr, refused
    file.write_text(token)
    assert gateway.run("token", "lock", "service").returncode == 0


class TestNamedAddress:
    """`--admin` with an address of this machine: no configuration is read."""

    @pytest.fixture
    def gateway(self, start):
        return start(credentials={"service": TestWithoutAReadableConfiguration.CREDENTIAL})

    def ask(self, elsewhere, *arguments, **environment):
        return command(*arguments, cwd=elsewhere, **environment)

    def test_a_port_of_loopback(self, gateway, elsewhere):
        admin = ("--admin", gateway.admin_url)
        assert self.ask(elsewhere, "routes", *admin).returncode == 0
        without = self.ask(elsewhere, "token", "lock", "service", *admin)
        assert without.returncode == 1 and "--admin-token-file" in without.stderr, without
        token = gateway.folder / "state/admin.token"
        locked = self.ask(elsewhere, "token", "lock", "service", *admin, "--admin-token-file", token)
        assert locked.returncode == 0, locked
        wrong = elsewhere / "token"
        wrong.write_text("nonsense")
        refused = self.ask(elsewhere, "token", "unlock", "service", *admin, "--admin-token-file", wrong)
        assert refused.returncode == 1 and "not that of a user" in refused.stderr, refused
        port = self.ask(elsewhere, "status", "--admin", "http://127.0.0.1:1")
        assert port.returncode == 4 and "no gateway answers at http://127.0.0.1:1" in port.stderr, port

    def test_a_port_has_to_be_typed(self, gateway, elsewhere):
        token = str(gateway.folder / "state/admin.token")
        result = self.ask(elsewhere, "status", AUTHGATEWAY_ADMIN=gateway.admin_url, AUTHGATEWAY_ADMIN_TOKEN_FILE=token)
        assert result.returncode == 2 and "type http:// with --admin" in result.stderr, result

    def test_a_socket(self, start, short_folder, elsewhere):
        path = f"{short_folder}/admin.sock"
        gateway = start({"unix": path}, credentials={"service": TestWithoutAReadableConfiguration.CREDENTIAL})
        token = gateway.folder / "state/admin.token"
        locked = self.ask(elsewhere, "token", "lock", "service", "--admin", f"unix:{path}", "--admin-token-file", token)
        assert locked.returncode == 0, locked
        variable = self.ask(elsewhere, "status", AUTHGATEWAY_ADMIN=f"unix:{path}")
        assert variable.returncode == 1 and "service" in variable.stdout, "it is locked"

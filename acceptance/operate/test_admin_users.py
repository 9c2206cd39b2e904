"""`listeners.admin` with `tls` and `users`: other machines, roles, and the commands with `--admin`."""

import json
import pathlib
import shutil
import stat

import pytest
import requests
from harness import processes
from harness.configs import BEARER, CANARY
from harness.events import named
from harness.gateway import command
from harness.parent_proxy import ParentProxy
from harness.tls_script import server_context

VIEWER, OPERATOR, NEXT = CANARY + "-viewer", CANARY + "-operator", CANARY + "-next-operator"


@pytest.fixture
def files(certificate_authority):
    def issue(name, names, usage="serverAuth"):
        certificate, key = certificate_authority.issue(f"admin-{name}", names, usage=usage)
        key.chmod(0o600)
        return str(certificate), str(key)

    return {
        "ca": str(certificate_authority.certificate),
        "server": issue("server", "IP:127.0.0.1,DNS:localhost"),
        "alice": issue("alice", "DNS:alice.example.com", "clientAuth"),
        "stranger": issue("stranger", "DNS:stranger.example.com", "clientAuth"),
    }


def users(**more):
    return {
        "watcher": {"role": "viewer", "token": VIEWER},
        "alice": {"role": "operator", "token": OPERATOR, "certificate": {"dns": "alice.example.com"}},
        **more,
    }


def admin(files, port, **changes):
    certificate, key = files["server"]
    tls = {"certificate": certificate, "private_key": {"file": key}, "client_ca": files["ca"]}
    return {"address": f"0.0.0.0:{port}", "tls": tls, "users": users(), **changes}


class Remote:
    def __init__(self, gateway, files, port):
        self.gateway, self.files, self.port = gateway, files, port
        self.url = f"https://127.0.0.1:{port}"

    def send(self, method, path, token=None, certificate=None, **options):
        with requests.Session() as session:
            session.trust_env = False
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            headers |= options.pop("headers", {})
            cert = self.files[certificate] if certificate else None
            return session.request(
                method, self.url + path, headers=headers, cert=cert, verify=self.files["ca"], timeout=20, **options
            )

    def status(self, *arguments, **options):
        return self.send(*arguments, **options).status_code

    def command(self, *arguments, token=None, certificate=None, **environment):
        variables = {"AUTHGATEWAY_ADMIN": self.url, "AUTHGATEWAY_ADMIN_CA": self.files["ca"], **environment}
        if token:
            file = self.gateway.folder / "operator.token"
            file.write_text(token + "\n")
            variables["AUTHGATEWAY_ADMIN_TOKEN_FILE"] = str(file)
        if certificate:
            variables["AUTHGATEWAY_ADMIN_CERTIFICATE"], variables["AUTHGATEWAY_ADMIN_KEY"] = self.files[certificate]
        return command(*arguments, cwd=self.gateway.folder.parent, **variables)


@pytest.fixture
def config(sandbox):
    from harness.configs import box_ccg

    return {
        "credentials": {"service": box_ccg(sandbox, client_secret={"env": "SANDBOX_BOX_CLIENT_SECRET"})},
        "routes": {"box": {"upstream": sandbox["BOX_URL"], "auth": "service"}},
    }


@pytest.fixture
def remote(sandbox, config, files, start_gateway):
    port = processes.free_port()
    gateway = start_gateway(config, environment=sandbox.environment, admin=admin(files, port))
    return Remote(gateway, files, port)


READS = ["/", "/api/overview", "/api/tokens", "/api/events", "/metrics", "/readyz?verbose"]
CHANGES = ["/api/tokens/service/lock", "/api/tokens/service/unlock", "/api/tokens/service/reveal", "/api/reload"]


class TestRoles:
    def test_a_stranger_sees_that_it_lives(self, remote):
        assert [remote.status("GET", path) for path in READS] == [401] * len(READS)
        assert [remote.status("POST", path) for path in CHANGES] == [401] * len(CHANGES)
        assert remote.status("GET", "/healthz") == 200 and remote.status("GET", "/readyz") == 200
        assert remote.status("GET", "/api/overview", certificate="stranger") == 401
        assert remote.status("GET", "/api/unknown") == 401

    def test_a_viewer_sees(self, remote):
        assert [remote.status("GET", path, VIEWER) for path in READS] == [200] * len(READS)
        answers = [remote.send("POST", path, VIEWER) for path in CHANGES]
        assert [answer.status_code for answer in answers] == [403] * len(CHANGES)
        assert "watcher is a viewer" in answers[0].json()["detail"]
        assert "gateway_token_usable" in remote.send("GET", "/metrics", VIEWER).text
        assert not named(remote.gateway, "operator_request")

    @pytest.mark.parametrize("proof", [{"token": OPERATOR}, {"certificate": "alice"}], ids=["token", "certificate"])
    def test_an_operator_changes_and_the_log_says_who(self, remote, proof):
        assert [remote.status("GET", path, **proof) for path in READS] == [200] * len(READS)
        assert [remote.status("POST", path, **proof) for path in CHANGES] == [200] * len(CHANGES)
        events = [event["detail"] for event in named(remote.gateway, "operator_request")]
        assert [event["path"] for event in events] == CHANGES
        assert {(event["user"], event["role"], event["method"]) for event in events} == {("alice", "operator", "POST")}
        assert remote.gateway.run("audit", "verify").returncode == 0

    def test_proofs_of_different_users_are_refused(self, remote):
        answer = remote.send("GET", "/api/overview", VIEWER, certificate="alice")
        assert answer.status_code == 401 and "different users" in answer.json()["detail"]

    def test_other_sites_are_refused(self, remote):
        for fields in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            answer = remote.send("POST", "/api/reload", certificate="alice", headers=fields)
            assert answer.status_code == 403 and "Other web sites" in answer.json()["detail"]

    def test_a_viewer_is_told_so_by_a_form(self, remote):
        form = {"credential": "service", "operation": "lock", "token": VIEWER}
        answer = remote.send("POST", "/token", data=form, headers={"Origin": remote.url})
        assert "watcher is a viewer" in answer.text
        assert remote.send("POST", "/", data={"token": VIEWER}, headers={"Origin": remote.url}).status_code == 200

    def test_a_reload_replaces_users(self, remote, config, files):
        gateway = remote.gateway
        both = {"role": "operator", "token": [NEXT, OPERATOR]}
        gateway.admin = admin(files, remote.port, users={"alice": both, "watcher": {"role": "viewer", "token": VIEWER}})
        gateway.configure(config)
        result = gateway.run("reload")
        assert result.returncode == 0 and "listeners.admin.users.alice" in result.stdout, result
        assert [remote.status("POST", "/api/reload", token) for token in (OPERATOR, NEXT)] == [200, 200]
        gateway.admin = admin(files, remote.port, users={"watcher": {"role": "viewer", "token": VIEWER}})
        gateway.configure(config)
        assert gateway.run("reload").returncode == 0
        assert [remote.status("POST", "/api/reload", token) for token in (OPERATOR, NEXT)] == [401, 401]
        assert remote.status("GET", "/metrics", VIEWER) == 200

    def test_a_reload_takes_rights_away_from_open_connections(self, sandbox, config, files, start_gateway, tmp_path):
        trusted = tmp_path / "clients.pem"
        shutil.copy(files["ca"], trusted)
        port = processes.free_port()
        settings = admin({**files, "ca": str(trusted)}, port)
        gateway = start_gateway(config, environment=sandbox.environment, admin=settings)
        remote = Remote(gateway, files, port)
        with requests.Session() as alice, requests.Session() as watcher:
            for session in (alice, watcher):
                session.trust_env, session.verify = False, files["ca"]
            alice.cert = files["alice"]
            assert alice.post(f"{remote.url}/api/tokens/service/lock", timeout=20).status_code == 200
            headers = {"Authorization": f"Bearer {VIEWER}"}
            stream = watcher.get(f"{remote.url}/live", headers=headers, stream=True, timeout=20)
            assert stream.status_code == 200
            # The certificate of alice was issued by another one than the authority of now, and nobody is watcher any more.
            leaf = pathlib.Path(files["server"][0]).read_text(encoding="ascii").partition("-----END CERTIFICATE-----")
            trusted.write_text(leaf[0] + leaf[1] + "\n")
            del settings["users"]["watcher"]
            gateway.configure(config)
            result = gateway.run("reload")
            assert result.returncode == 0, result
            assert alice.post(f"{remote.url}/api/tokens/service/unlock", timeout=20).status_code == 401
            assert remote.status("POST", "/api/tokens/service/unlock", OPERATOR) == 200
            assert b"unlocked" not in stream.raw.read()


class TestCommands:
    def test_commands_of_the_machine_use_a_socket(self, remote):
        place = remote.gateway.folder / "state" / "admin.sock"
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert "service" in remote.gateway.run("status").stdout
        assert remote.gateway.run("token", "lock", "service").returncode == 0
        assert remote.gateway.stop() == 0 and not place.exists()

    def test_a_viewer_asks_from_another_machine(self, remote):
        result = remote.command("status", token=VIEWER)
        assert "service" in result.stdout, result
        assert json.loads(remote.command("routes", "--json", token=VIEWER).stdout)[0]["name"] == "box"
        refused = remote.command("token", "lock", "service", token=VIEWER)
        assert refused.returncode == 1 and "watcher is a viewer" in refused.stderr

    def test_an_operator_changes_from_another_machine(self, remote):
        assert remote.command("token", "lock", "service", token=OPERATOR).returncode == 0
        assert "locked" in remote.command("token", "list", certificate="alice").stdout
        assert remote.command("reload", certificate="alice").returncode == 0

    def test_a_certificate_for_the_address_is_none_for_a_name(self, remote, certificate_authority):
        """Whoever forges DNS can have one for an address of their own."""
        server = ParentProxy(tls=server_context(*certificate_authority.issue("admin-address", "IP:127.0.0.1")))
        try:
            result = remote.command("status", token=VIEWER, AUTHGATEWAY_ADMIN=f"https://localhost:{server.port}")
            assert result.returncode == 4 and "its certificate is not trusted" in result.stderr, result
            assert server.requests == []
        finally:
            server.stop()

    def test_what_is_wrong_is_said(self, remote, files):
        for proof, words in [({}, "--admin-token-file"), ({"token": CANARY}, "not that of a user")]:
            result = remote.command("status", **proof)
            assert result.returncode == 1 and words in result.stderr, result
        result = remote.command("status", token=VIEWER, AUTHGATEWAY_ADMIN_CA=files["alice"][0])
        assert result.returncode == 4 and "its certificate is not trusted" in result.stderr, result
        for url in ("http://gateway.example.com:8081", "http://x.localhost:8081", "https://", "unix:", "here"):
            result = remote.command("status", "--admin", url, token=VIEWER)
            assert result.returncode == 2 and "https://HOST:PORT" in result.stderr, result
        result = remote.command("status", "--admin", remote.url, "--config", "x.yaml", token=VIEWER)
        assert result.returncode == 2 and "name the gateway once" in result.stderr, result


REFUSED = {
    "no tls": ({"address": "0.0.0.0:18444", "users": users()}, "reachable from other machines without TLS"),
    "no users": ({"users": None}, "there are no users"),
    "no role": ({"users": {"a": {"token": VIEWER}}}, "role"),
    "another role": ({"users": {"a": {"token": VIEWER, "role": "admin"}}}, "viewer"),
    "no proof": ({"users": {"a": {"role": "viewer"}}}, "has no way to authenticate"),
    "a signed token": ({"users": {"a": {"role": "viewer", "jwt": {"issuer": "x"}}}}, 'unknown key "jwt"'),
    "a short token": ({"users": {"a": {"role": "viewer", "token": "short"}}}, "fewer than 16 bytes"),
    "the same token": ({"users": {**users(), "b": {"role": "viewer", "token": VIEWER}}}, "the same token as"),
}


@pytest.mark.parametrize("changes, words", REFUSED.values(), ids=[name.replace(" ", "-") for name in REFUSED])
def test_what_is_open_to_others_is_refused_at_load(make_gateway, origin, files, changes, words):
    whole = changes if "address" in changes else {**admin(files, 18444), **changes}
    whole = {key: value for key, value in whole.items() if value is not None}
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER}}}, admin=whole)
    checked = gateway.run("check")
    assert checked.returncode == 3 and words in checked.stderr, checked
    assert VIEWER not in checked.stdout + checked.stderr

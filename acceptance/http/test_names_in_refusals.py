"""Refusals name routes, credentials and upstreams to known clients, or to anyone on a local listener without clients."""

import json

import pytest
from harness import processes
from harness.raw import Answer
from harness.script import connect, connect_unix
from harness.tls_script import client_context, serving, tls_connect

TOKEN = "token-of-the-laptop"
#: No part of an answer has any of these by chance. The upstreams are added by `Setting`.
NAMES = ("payroll", "guarded", "ledger-bot", "oauth2_client_credentials", "laptop-of-ada", "authgateway token")
#: What a problem document says of the configuration.
MEMBERS = {"route", "credential", "strategy", "command", "cause"}


class Setting:
    """A gateway with routes whose requests are refused for different reasons, and its listeners."""

    def __init__(self, origin, token_server, folder, certificate_authority):
        self.origin, self.token_server = origin, token_server
        self.closed = processes.free_port()
        self.network, self.secure, self.unix = processes.free_port(), processes.free_port(), folder / "proxy.sock"
        certificate, key = serving(certificate_authority, "names")
        self.tls = {"certificate": str(certificate), "private_key": {"file": str(key)}}
        self.context = client_context(certificate_authority)
        self.names = [*NAMES, f"127.0.0.1:{origin.port}", f":{self.closed}", token_server.url.removeprefix("http://")]
        self.gateway = None

    def start(self, start_gateway, clients, **access):
        broken = {
            "strategy": "oauth2_client_credentials",
            "token_url": self.token_server.url + "/token",
            "client_id": "id",
            "client_secret": "secret-of-the-bot",
        }
        route = {"upstream": self.origin.url, "auth": "none"}
        config = {
            "access": {"clients": {"laptop-of-ada": {"token": TOKEN}} if clients else {}, **access},
            "credentials": {"ledger-bot": broken},
            "routes": {
                "payroll": {**route, "allow": [{"path": "/public"}]},
                "payroll-down": {**route, "upstream": f"http://127.0.0.1:{self.closed}"},
                "payroll-bot": {**route, "auth": "ledger-bot"},
            },
        }
        listeners = [{"unix": str(self.unix)}]
        if clients:
            config["routes"]["guarded"] = {**route, "clients": ["laptop-of-ada"]}
            listeners += [{"address": f"0.0.0.0:{self.network}"}, {"address": f"0.0.0.0:{self.secure}", "tls": self.tls}]
        self.gateway = start_gateway(config, listeners=listeners)
        return self

    def dial(self, listener):
        if listener == "unix":
            return connect_unix(self.unix)
        if listener == "tls":
            return tls_connect(self.secure, self.context)
        return connect(self.network if listener == "network" else self.gateway.port)

    def ask(self, listener, line="GET /payroll/x HTTP/1.1", *fields, host=None):
        with self.dial(listener) as wire:
            port = 80 if listener == "unix" else wire.connection.getpeername()[1]
            fields = [f"Host: {host or f'127.0.0.1:{port}'}", "Connection: close", *fields]
            wire.send("\r\n".join([line, *fields, "", ""]).encode())
            return Answer(wire.to_end())

    def is_told_nothing(self, answer, status):
        problem = json.loads(answer.body)
        assert answer.status == problem["status"] == status, answer.data
        # What is wrong with the client's own token is about no name.
        members = MEMBERS - {"cause"} if status in (401, 407) else MEMBERS
        assert members.isdisjoint(problem), problem
        said = answer.data.decode().lower()
        assert [name for name in self.names if name.lower() in said] == [], said
        assert "next-hop" not in said, said
        return True


@pytest.fixture
def setting(origin, token_server, short_folder, certificate_authority):
    # The authority does not know the gateway.
    token_server.answer = lambda asked, token: (401, {}, '{"error": "invalid_client"}')
    return Setting(origin, token_server, short_folder, certificate_authority)


KNOWN = f"Authorization: Bearer {TOKEN}"

#: What strangers try: a request line, fields, and the status.
STRANGERS = {
    "no token": ("GET /payroll/x HTTP/1.1", [], 401),
    "unknown token": ("GET /payroll/x HTTP/1.1", ["Authorization: Bearer guessed"], 401),
    "unknown proxy token": ("GET /payroll/x HTTP/1.1", ["Proxy-Authorization: Bearer guessed"], 401),
    "part of a token": ("GET /payroll/x HTTP/1.1", [KNOWN[:-1]], 401),
    "route with clients": ("GET /guarded/x HTTP/1.1", [], 401),
    "route with a credential": ("GET /payroll-bot/x HTTP/1.1", [], 401),
    "no such route": ("GET /nowhere HTTP/1.1", [], 401),
    "ambiguous path": ("GET /payroll/%2e%2e/x HTTP/1.1", [], 401),
    "upstream": ("GET http://{upstream}/x HTTP/1.1", [], 407),
    "elsewhere": ("GET http://elsewhere.example/x HTTP/1.1", [], 421),
    "another page": ("GET /payroll/x HTTP/1.1", ["Origin: https://elsewhere.example"], 403),
    "tunnel": ("CONNECT {upstream} HTTP/1.1", [], 407),
    "trace": ("TRACE /payroll/x HTTP/1.1", [], 405),
    "broken field": ("GET /payroll/x HTTP/1.1", ["X Y: 1"], 400),
    "version": ("GET /payroll/x HTTP/1.2", [], 505),
}


@pytest.mark.parametrize("listener", ["network", "tls", "loopback"])
def test_strangers_learn_no_names_where_there_are_clients(setting, start_gateway, listener):
    setting.start(start_gateway, clients=True)
    for name, (line, fields, status) in STRANGERS.items():
        upstream = f"127.0.0.1:{setting.closed}"
        # `Host` and an absolute target agree.
        host = {"upstream": upstream, "tunnel": upstream, "elsewhere": "elsewhere.example"}.get(name)
        answer = setting.ask(listener, line.format(upstream=upstream), *fields, host=host)
        assert setting.is_told_nothing(answer, status), name
    assert setting.origin.count() == 0


#: What is refused for a reason that has a name in it: the path, the status, and a name that those who may know it are told.
REFUSED = {
    "/payroll/x": (403, "payroll"),
    "/payroll-down/x": (502, "payroll-down"),
    "/payroll-bot/x": (500, "ledger-bot"),
    "/nowhere": (404, "/payroll-down"),
}


@pytest.mark.parametrize("listener", ["network", "tls", "loopback", "unix"])
def test_known_clients_learn_them(setting, start_gateway, listener):
    setting.start(start_gateway, clients=True)
    for path, (status, name) in REFUSED.items():
        answer = setting.ask(listener, f"GET {path} HTTP/1.1", KNOWN)
        assert answer.status == status and name in answer.body.decode(), answer.data


@pytest.mark.parametrize("listener", ["loopback", "unix"])
def test_on_a_local_listener_without_clients_everybody_learns_them(setting, start_gateway, listener):
    setting.start(start_gateway, clients=False)
    for path, (status, name) in REFUSED.items():
        answer = setting.ask(listener, f"GET {path} HTTP/1.1")
        assert answer.status == status and name in answer.body.decode(), answer.data


@pytest.mark.parametrize("listener", ["loopback", "unix"])
@pytest.mark.parametrize("path", REFUSED)
def test_who_needs_no_token_and_sends_none_is_a_stranger_where_there_are_clients(setting, start_gateway, listener, path):
    """The kind of the problem is still right; the log has the rest under the same ID."""
    setting.start(start_gateway, clients=True, require_client=False)
    status, name = REFUSED[path]
    assert setting.is_told_nothing(setting.ask(listener, f"GET {path} HTTP/1.1"), status)
    known = setting.ask(listener, f"GET {path} HTTP/1.1", KNOWN)
    assert known.status == status and name in known.body.decode(), known.data


def test_a_command_is_for_those_who_may_know_the_credential(setting, start_gateway):
    setting.start(start_gateway, clients=True, require_client=False)
    assert setting.gateway.run("token", "lock", "ledger-bot").returncode == 0
    assert setting.is_told_nothing(setting.ask("loopback", "GET /payroll-bot/x HTTP/1.1"), 503)
    known = json.loads(setting.ask("loopback", "GET /payroll-bot/x HTTP/1.1", KNOWN).body)
    assert known["command"] == "authgateway token unlock ledger-bot" and known["credential"] == "ledger-bot"

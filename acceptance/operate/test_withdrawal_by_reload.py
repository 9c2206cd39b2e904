"""A reload that takes a client, a route or a credential away ends what is under way with it; any other reload ends nothing."""

import contextlib
import copy
import json
import signal
import sqlite3
import time

import pytest
from harness import processes
from harness.bytes import NOT_AN_END, REJECTED
from harness.configs import CANARY
from harness.events import wait_for_events
from harness.raw import Answer
from harness.script import OK, connect, get
from harness.tls_script import client_context, serving, tls_connect
from harness.wire import chunk

TOKENS = {name: f"{CANARY}-{name}" for name in ("laptop", "phone")}
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n"
UPGRADE = ["Connection: Upgrade", "Upgrade: chat"]
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

#: How an exchange of each kind begins: fields of the request, what follows its head, and the answer. Then what its origin and
#: its client send later.
KINDS = {
    "download": ([], b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegun", b"later", b""),
    "events": ([], b"", EVENTS + chunk(b"data: begun\n\n"), chunk(b"data: later\n\n"), b""),
    "upload": (["Content-Length: 10"], b"begun", b"", OK, b"later"),
    "tunnel": (UPGRADE, b"", SWITCH, b"later", b"later"),
}


def status(wire):
    """Of the answer that comes."""
    return int(wire.head().split(b" ")[1])


class Service:
    """A gateway with two clients, two credentials and two routes, and the origin of both routes."""

    def __init__(self, make_script, start_gateway, token_server, **more):
        self.origin = make_script(self.steps)
        self.config = {
            "access": {"clients": {name: {"token": token} for name, token in TOKENS.items()}},
            "credentials": {
                "first": {"strategy": "delegated", "url": token_server.url + "/token?id={{unique_id}}", "unique_id": "42"},
                "second": {"strategy": "bearer", "token": CANARY + "-second"},
            },
            "routes": {
                "api": {"upstream": self.origin.url, "auth": "first"},
                "other": {"upstream": self.origin.url, "auth": "second"},
            },
            **more,
        }
        self.listeners = None
        self.start = start_gateway
        self.gateway = None
        self.clients = []
        #: What the origin got of the requests, by their last path segment.
        self.heads = {}

    def begin(self):
        self.gateway = self.start(self.config, listeners=self.listeners)
        return self

    def steps(self, wire, number):
        while b"\r\n\r\n" in (head := wire.head()):
            kind = head.split(b" ")[1].decode().strip("/")
            self.heads[kind] = head
            if kind not in KINDS:
                wire.send(OK)
                continue
            wire.send(KINDS[kind][2])
            if kind in ("upload", "tunnel"):
                wire.to_end()

    def ask(self, path, *fields, client="laptop", version="1.1", method="GET"):
        """Sends a request whose answer is read later."""
        wire = connect(self.gateway.port)
        self.clients.append(wire)
        fields = [f"Authorization: Bearer {TOKENS[client]}", *fields]
        wire.send(get(self.gateway, *fields, path=path, version=version, method=method))
        return wire

    def wire_of(self, path):
        """The connection on which the origin has that request."""
        return next((wire for wire in list(self.origin.wires) if b" %s HTTP/" % path.encode() in wire.received), None)

    def reload(self, change):
        config = copy.deepcopy(self.config)
        change(config)
        self.gateway.configure(config, listeners=self.listeners)
        done = self.gateway.run("reload")
        assert done.returncode == 0, done

    def close(self):
        for wire in self.clients:
            wire.close()


class UnderWay:
    """An exchange that has begun at both ends."""

    def __init__(self, service, kind, *more, route="api", client="laptop", version="1.1"):
        fields, content, answer, self.from_origin, self.from_client = KINDS[kind]
        self.kind = kind
        method = "POST" if content else "GET"
        self.client = service.ask(f"/{route}/{kind}", *fields, *more, client=client, version=version, method=method)
        self.client.send(content)
        self.origin = processes.wait_until(lambda: service.wire_of(f"/{kind}"), 10, "the origin has the head")
        if answer:
            assert self.client.head().split(b" ")[1] == answer.split(b" ")[1]
            begun = answer.partition(b"\r\n\r\n")[2]
            expected = b"data: begun\n\n" if version == "1.0" else begun
            assert self.client.exactly(len(expected)) == expected
        else:
            processes.wait_until(lambda: content in self.origin.received, 10, "the origin has the first content")

    def what_the_client_reads_within(self, seconds):
        """Until the end of its connection."""
        self.client.connection.settimeout(seconds)
        try:
            return self.client.to_end()
        except TimeoutError:
            pytest.fail(f"the connection of the client is still open after {seconds} s; it has read {self.client.received!r}")

    def is_cut(self, endings=NOT_AN_END + ("end",)):
        """Neither end gets another byte, and both see the end."""
        if self.from_client:
            try:
                self.client.send(self.from_client)
            except ConnectionError:
                # The system says it once.
                self.client.ended = "reset"
        # To an upload, an answer of the gateway may be on its way.
        if self.kind != "upload":
            # The connection may be over by now.
            with contextlib.suppress(OSError):
                self.origin.send(self.from_origin)
        rest = self.what_the_client_reads_within(1)
        if self.kind == "upload":
            assert rest == b"" or Answer(rest).refuses(503), rest
        else:
            assert rest == b""
            assert self.client.ended in endings, self.client.ended
        processes.wait_until(lambda: self.origin.ended, 1, "the origin sees the end")
        assert b"later" not in self.origin.received
        return True

    def goes_on(self):
        if self.from_client:
            self.client.send(self.from_client)
            processes.wait_until(lambda: b"later" in self.origin.received, 5, "the origin gets what the client sends")
        self.origin.send(self.from_origin)
        if self.kind == "upload":
            assert status(self.client) == 200
        else:
            assert self.client.exactly(len(self.from_origin)) == self.from_origin
        return True


def remove_client(config):
    del config["access"]["clients"]["laptop"]


def rename_client(config):
    clients = config["access"]["clients"]
    clients["tablet"] = clients.pop("laptop")


def replace_client_token(config):
    config["access"]["clients"]["laptop"]["token"] = f"{CANARY}-new"


def remove_route(config):
    del config["routes"]["api"]


def take_another_credential(config):
    config["routes"]["api"]["auth"] = "second"


def remove_credential(config):
    del config["credentials"]["first"]
    config["routes"]["api"]["auth"] = "none"


def replace_grant(config):
    config["credentials"]["first"]["url"] += "&tier=2"


def narrow_allow(config):
    config["routes"]["api"]["allow"] = [{"path": "/elsewhere"}]


def give_the_path_to_a_route_of_others(config):
    config["routes"]["special"] = {**config["routes"]["api"], "match": {"path": "/api"}, "clients": ["phone"]}
    config["routes"]["api"]["match"] = {"path": "/api2"}


#: What takes a right away from the client `laptop` on the route `api`.
WITHDRAWALS = [
    remove_client,
    rename_client,
    replace_client_token,
    remove_route,
    take_another_credential,
    remove_credential,
    replace_grant,
    narrow_allow,
    give_the_path_to_a_route_of_others,
]


def add_route(config):
    config["routes"]["new"] = {**config["routes"]["other"]}


def add_client(config):
    config["access"]["clients"]["tablet"] = {"token": f"{CANARY}-tablet"}


def change_limits(config):
    config["limits"] = {"response_timeout": "50s"}


def change_renewal(config):
    config["credentials"]["first"]["renew"] = {"ahead": "20%", "at_least": "30s"}


def change_what_rejects(config):
    config["credentials"]["first"]["retry_on"] = [401, 403]


def change_route(config):
    config["routes"]["api"]["headers"] = {"set": {"X-Tenant": "acme"}}


def allow_what_is_under_way(config):
    config["routes"]["api"]["allow"] = [{"path": f"/{kind}"} for kind in KINDS]


def move_route(config):
    config["routes"]["api"]["match"] = {"path": "/elsewhere"}


#: What takes nothing away from what is under way.
OTHERS = [
    add_route,
    add_client,
    change_limits,
    change_renewal,
    change_what_rejects,
    change_route,
    allow_what_is_under_way,
    move_route,
]


def named(changes):
    return {"argvalues": changes, "ids": [change.__name__.replace("_", "-") for change in changes]}


@pytest.fixture
def make_service(make_script, start_gateway, token_server):
    """The gateway of it has not started."""
    made = []

    def make(**more):
        made.append(Service(make_script, start_gateway, token_server, **more))
        return made[-1]

    yield make
    for service in made:
        service.close()


@pytest.fixture
def service(make_service):
    return make_service().begin()


# What is under way


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", **named(WITHDRAWALS))
def test_what_is_under_way_with_a_right_that_is_taken_away_is_cut(service, change, kind):
    """When the operator is answered, no more bytes cross. Within a second both ends see the end."""
    exchange = UnderWay(service, kind)
    service.reload(change)
    assert exchange.is_cut(("reset",) if kind == "tunnel" else ("reset", "cut", "end"))


@pytest.mark.parametrize("change", **named(WITHDRAWALS))
def test_what_others_have_under_way_is_not_touched(service, change):
    exchanges = [UnderWay(service, kind, route="other", client="phone") for kind in KINDS]
    service.reload(change)
    for exchange in exchanges:
        assert exchange.goes_on()


@pytest.mark.parametrize("change", **named(OTHERS))
def test_a_reload_that_takes_nothing_away_cuts_nothing(service, change):
    exchanges = [UnderWay(service, kind) for kind in KINDS]
    service.reload(change)
    for exchange in exchanges:
        assert exchange.goes_on()


@pytest.mark.parametrize("change, is_taken", [(replace_grant, True), (change_renewal, False)])
def test_a_credential_of_users_that_requests_name_is_withdrawn_as_any_other(make_service, change, is_taken):
    service = make_service()
    service.config["credentials"]["first"]["unique_id"] = {"header": "X-User", "regex": "[0-9]+"}
    exchange = UnderWay(service.begin(), "download", "X-User: 42")
    service.reload(change)
    assert exchange.is_cut() if is_taken else exchange.goes_on()


def name_clients(config):
    config["access"] = {"clients": {"phone": {"token": TOKENS["phone"]}}}


def require_clients(config):
    config["access"]["require_client"] = True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", **named([name_clients, require_clients]))
def test_who_has_no_name_is_cut_when_names_are_required(make_service, change, kind):
    """Before, everybody on the machine might use the gateway."""
    service = make_service()
    if change is name_clients:
        del service.config["access"]
    else:
        service.config["access"] = {"clients": {"phone": {"token": TOKENS["phone"]}}, "require_client": False}
    exchange = UnderWay(service.begin(), kind)
    service.reload(change)
    assert exchange.is_cut(("reset",) if kind == "tunnel" else ("reset", "cut", "end"))


PAGE = "https://page.example"


@pytest.mark.parametrize("kind", ["events", "tunnel"])
def test_a_page_that_may_not_call_any_more_is_cut(make_service, kind):
    service = make_service()
    service.config["access"]["allow_origins"] = [PAGE]
    exchange = UnderWay(service.begin(), kind, f"Origin: {PAGE}")
    service.reload(lambda config: config["access"].update(allow_origins=["https://other.example"]))
    assert exchange.is_cut(("reset",) if kind == "tunnel" else ("reset", "cut"))


def test_an_answer_that_ends_with_its_connection_is_reset(service):
    """For a client of HTTP/1.0 the regular end of the connection would be that of the answer."""
    exchange = UnderWay(service, "events", version="1.0")
    service.reload(remove_client)
    assert exchange.is_cut(("reset",))


def test_over_tls_the_end_is_no_regular_one(make_service, certificate_authority):
    certificate, key = serving(certificate_authority, "withdrawal")
    port = processes.free_port()
    service = make_service()
    tls = {"certificate": str(certificate), "private_key": {"file": str(key)}}
    service.listeners = [{"address": f"127.0.0.1:{port}", "tls": tls}]
    service.begin()
    wire = tls_connect(port, client_context(certificate_authority))
    service.clients.append(wire)
    wire.send(
        f"GET /api/download HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKENS['laptop']}\r\n\r\n".encode()
    )
    assert wire.head().startswith(b"HTTP/1.1 200 ") and wire.exactly(5) == b"begun"
    service.reload(remove_client)
    wire.connection.settimeout(1)
    assert wire.to_end() == b"" and wire.ended in NOT_AN_END


def test_a_signal_takes_away_as_the_command_does(service):
    exchange = UnderWay(service, "tunnel")
    config = copy.deepcopy(service.config)
    remove_client(config)
    service.gateway.configure(config)
    service.gateway.process.send_signal(signal.SIGHUP)
    assert exchange.what_the_client_reads_within(10) == b""
    assert exchange.is_cut()


def test_many_are_cut_at_once(service):
    """Downloads and tunnels of many connections, on every worker."""
    exchanges = [UnderWay(service, kind) for kind in ("download", "tunnel") for _ in range(20)]
    service.reload(remove_client)
    began = time.monotonic()
    for exchange in exchanges:
        assert exchange.what_the_client_reads_within(1) == b""
    assert time.monotonic() - began < 1
    processes.wait_until(lambda: all(wire.ended for wire in service.origin.wires), 1, "the origin sees every end")


def replace_static_token(config):
    config["credentials"]["second"]["token"] += "-new"


def narrow_clients(config):
    config["routes"]["other"]["clients"] = ["phone"]


@pytest.mark.parametrize("change", **named([replace_static_token, narrow_clients]))
@pytest.mark.parametrize("kind", ["download", "tunnel"])
def test_a_static_credential_and_the_clients_of_a_route_are_withdrawn_too(service, change, kind):
    exchange = UnderWay(service, kind, route="other")
    service.reload(change)
    assert exchange.is_cut(("reset",) if kind == "tunnel" else ("reset", "cut"))


@pytest.mark.parametrize("change", **named([remove_client, remove_route, replace_grant]))
def test_a_reload_that_cannot_be_recorded_takes_away_all_the_same(service, change):
    exchange = UnderWay(service, "download")
    path = service.gateway.folder / "state" / "audit.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=20)) as shell:
        shell.execute("BEGIN IMMEDIATE")
        loaded = len(service.gateway.events("--event", "config_loaded"))
        config = copy.deepcopy(service.config)
        change(config)
        service.gateway.configure(config)
        done = service.gateway.run("reload")
        assert done.returncode == 0 and "The reload is not recorded yet" in done.stdout + done.stderr, done
        assert exchange.is_cut()
        shell.execute("ROLLBACK")
    wait_for_events(service.gateway, "config_loaded", loaded + 1)
    assert service.gateway.run("audit", "verify").returncode == 0
    assert service.gateway.run("audit", "verify").returncode == 0


# Heads that began before the reload


def forbid_method(config):
    config["routes"]["api"]["allow"] = [{"methods": ["POST"], "path": "/**"}]


@pytest.mark.parametrize(
    "change, expected",
    [(remove_client, 401), (replace_client_token, 401), (remove_route, 404), (forbid_method, 403), (add_route, 200)],
)
def test_a_head_is_judged_by_what_is_served_when_it_is_complete(service, change, expected):
    """Its first bytes came before the reload: whoever is thrown out keeps no requests in store."""
    wire = connect(service.gateway.port)
    service.clients.append(wire)
    head = get(service.gateway, f"Authorization: Bearer {TOKENS['laptop']}", path="/api/half")
    wire.send(head[:-2])
    settle()
    service.reload(change)
    wire.send(head[-2:])
    assert status(wire) == expected
    assert ("half" in service.heads) == (expected == 200)


def settle():
    """Until the gateway has read what was sent: it says nothing of a part of a head."""
    time.sleep(0.3)


def test_a_head_that_began_before_a_reload_goes_with_no_locked_token(service):
    assert status(service.ask("/api/first")) == 200
    wire = connect(service.gateway.port)
    service.clients.append(wire)
    head = get(service.gateway, f"Authorization: Bearer {TOKENS['laptop']}", path="/api/half")
    wire.send(head[:-2])
    settle()
    service.reload(change_renewal)
    assert service.gateway.run("token", "lock", "first").returncode == 0
    wire.send(head[-2:])
    assert status(wire) == 503 and "half" not in service.heads


# Operators, afterwards


@pytest.mark.parametrize("operation", ["lock", "clear"])
def test_an_operator_reaches_what_began_before_a_reload(service, operation):
    """The reload has changed the credential, not its grant: what is under way goes on with the token that it began with."""
    exchanges = [UnderWay(service, kind) for kind in ("download", "tunnel")]
    service.reload(change_renewal)
    done = service.gateway.run("token", operation, "first")
    assert done.returncode == 0, done
    for exchange in exchanges:
        assert exchange.is_cut(("reset", "cut"))


def test_an_operator_reaches_a_user_who_has_made_room(make_service):
    """At most one user has a token at a time; the first one's download goes on while another has it."""
    service = make_service()
    service.config["credentials"]["first"]["unique_id"] = {"header": "X-User", "regex": "[0-9]+", "at_most": 1}
    exchange = UnderWay(service.begin(), "download", "X-User: 42")
    assert status(service.ask("/api/other", "X-User: 43")) == 200
    assert service.gateway.run("token", "lock", "first[43]").returncode == 0
    assert service.gateway.run("token", "lock", "first[42]").returncode == 0
    assert exchange.is_cut(("reset", "cut"))


# What waits

#: What becomes of a request of `laptop` on the route `api` that is decided about again.
DECIDED_AGAIN = {
    remove_client: 401,
    replace_client_token: 401,
    remove_route: 404,
    narrow_allow: 403,
    take_another_credential: 200,
}


@pytest.mark.parametrize("change", **named(list(DECIDED_AGAIN)))
def test_a_request_that_waits_for_a_connection_is_decided_about_again(make_service, change):
    """There is one connection, on which another client has a download."""
    service = make_service(workers=1, limits={"connections_per_upstream": 1, "connect_timeout": "10s"}).begin()
    first = UnderWay(service, "download", route="other", client="phone")
    waiting = service.ask("/api/waiting")
    assert waiting.is_quiet(0.2)
    service.reload(change)
    assert first.goes_on()
    first.client.close()
    assert status(waiting) == DECIDED_AGAIN[change]
    head = service.heads.get("waiting")
    assert (head is not None) == (DECIDED_AGAIN[change] == 200), head
    assert head is None or f"Authorization: Bearer {CANARY}-second".encode() in head


@pytest.mark.parametrize("change", **named(list(DECIDED_AGAIN)))
def test_a_request_that_waits_for_a_token_is_decided_about_again(service, token_server, change):
    token_server.open.clear()
    waiting = service.ask("/api/waiting")
    processes.wait_until(lambda: token_server.count() == 1, 10, "a token is asked for")
    service.reload(change)
    token_server.open.set()
    assert status(waiting) == DECIDED_AGAIN[change]
    head = service.heads.get("waiting")
    assert (head is not None) == (DECIDED_AGAIN[change] == 200), head
    assert head is None or f"Authorization: Bearer {CANARY}-second".encode() in head


@pytest.mark.parametrize("change", **named([remove_client, remove_route, take_another_credential]))
def test_a_request_whose_token_was_rejected_is_not_sent_again_with_the_old_right(make_service, token_server, change):
    service = make_service()
    answered = []

    def steps(wire, number):
        while b"\r\n\r\n" in (head := wire.head()):
            is_old = b"Bearer token-" in head
            answered.append(head)
            # Before the origin rejects the token, so that the renewal waits.
            token_server.open.clear()
            wire.send(REJECTED if is_old else OK)

    service.origin.script = steps
    service.begin()
    waiting = service.ask("/api/x")
    processes.wait_until(lambda: token_server.count() == 2, 10, "another token is asked for")
    service.reload(change)
    token_server.open.set()
    answer = Answer(waiting.head())
    assert answer.status == 503, answer.data
    problem = json.loads(waiting.exactly(int(answer.values("content-length")[0])))
    assert problem["code"] == "draining" and problem["detail"].startswith("A reload has removed or replaced"), problem
    assert sum(b"Bearer token-" in head for head in answered) == 1, answered

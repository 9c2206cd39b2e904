"""Where a request may lead, on listeners of every kind, and by which rule: judged by what reached the origin."""

import tempfile

import pytest
from harness.configs import BEARER, CANARY
from harness import processes
from harness.script import OK, answering, connect, connect_unix, get

CLIENT_TOKEN = CANARY + "-client"
ASKED = f"Proxy-Authorization: Bearer {CLIENT_TOKEN}"


class Listening:
    """A gateway that listens on loopback, on a unix socket and on every address of the machine, and an origin behind it."""

    def __init__(self, gateway, origin, path, port):
        self.gateway = gateway
        self.origin = origin
        self.path = path
        self.port = port

    def connect(self, kind):
        if kind != "unix":
            return connect(self.port if kind == "network" else self.gateway.port)
        return connect_unix(self.path)

    def ask(self, kind, line, host, *fields):
        with self.connect(kind) as client:
            client.send("\r\n".join([line, f"Host: {host}", ASKED, *fields, "Connection: close", "", ""]).encode())
            return client.to_end()


@pytest.fixture(scope="module")
def all_listeners(standing, make_module_gateway):
    _, origin = standing
    route = {"upstream": origin.url, "match": {"path": "/api", "hosts": ["named.example"]}, "auth": BEARER}
    config = {"access": {"clients": {"laptop": {"token": CLIENT_TOKEN}}}, "routes": {"api": route}}
    port = processes.free_port()
    with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
        path = f"{folder}/proxy.sock"
        gateway = make_module_gateway(config, listeners=[{"unix": path}, {"address": f"0.0.0.0:{port}"}])
        yield Listening(gateway.start(), origin, path, port)


@pytest.fixture
def listening(shared, all_listeners):
    shared(answering(OK))
    return all_listeners


KINDS = ["loopback", "unix", "network"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("authority", ["evil.example", "named.example.evil.example:80", "169.254.169.254"])
@pytest.mark.parametrize("path", ["/api/x", "/x"])
def test_an_absolute_target_that_is_no_configured_one_is_misdirected(listening, kind, authority, path):
    """A client that takes the gateway for its proxy meant another server: a route of that path is not what it asked for."""
    answer = listening.ask(kind, f"GET http://{authority}{path} HTTP/1.1", authority)
    assert answer.startswith(b"HTTP/1.1 421 "), answer
    assert b"evil" not in answer, "the name is not reflected"
    assert listening.origin.wires == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", ["upstream", "route"])
def test_an_absolute_target_of_an_upstream_or_of_a_route_finds_it(listening, kind, of):
    authority = f"127.0.0.1:{listening.origin.port}"
    if of == "route":
        authority = "named.example" + (f":{listening.gateway.port}" if kind == "loopback" else "")
    answer = listening.ask(kind, f"GET http://{authority}/x HTTP/1.1", authority)
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    [wire] = listening.origin.wires
    assert wire.received.startswith(b"GET /x HTTP/1.1\r\n")
    assert f"\r\nHost: 127.0.0.1:{listening.origin.port}\r\n".encode() in wire.received


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("authority", ["localhost:9", "127.0.0.9:9", "api.localhost:9", "LOCALHOST:9", "[::1]:9"])
def test_an_absolute_target_of_another_server_of_this_machine_is_misdirected(listening, kind, authority):
    answer = listening.ask(kind, f"GET http://{authority}/api/x HTTP/1.1", authority)
    assert answer.startswith(b"HTTP/1.1 421 "), answer
    assert listening.origin.wires == []


@pytest.mark.parametrize("port, status", [("named", b"421"), ("default", b"404")])
def test_what_is_asked_for_by_https_is_not_sent_in_the_clear(listening, port, status):
    """The port named is an upstream's that is asked in the clear; without one the authority is that of this machine's paths."""
    authority = f"127.0.0.1:{listening.origin.port}" if port == "named" else "127.0.0.1"
    answer = listening.ask("network", f"GET https://{authority}/x HTTP/1.1", authority)
    assert answer.startswith(b"HTTP/1.1 " + status), answer
    assert listening.origin.wires == []


@pytest.mark.parametrize("host", ["evil.example", "gateway.internal:8443", "localhost", "[2001:db8::1]:80"])
@pytest.mark.parametrize("kind", ["unix", "network"])
def test_off_loopback_any_host_will_do_for_a_path(listening, kind, host):
    """No page can be led to these listeners, and nobody knows by which names they are reached."""
    assert listening.ask(kind, "GET /api/x HTTP/1.1", host).startswith(b"HTTP/1.1 200 ")
    [wire] = listening.origin.wires
    assert wire.received.startswith(b"GET /x HTTP/1.1\r\n")
    assert f"\r\nHost: 127.0.0.1:{listening.origin.port}\r\n".encode() in wire.received


@pytest.mark.parametrize("host", ["evil.example", "gateway.internal:8443"])
def test_on_loopback_it_must_be_ours(listening, host):
    assert listening.ask("loopback", "GET /api/x HTTP/1.1", host).startswith(b"HTTP/1.1 421 ")
    assert listening.origin.wires == []


# Credentials that come twice


@pytest.fixture(scope="module")
def without_credential(standing, make_module_gateway):
    _, origin = standing
    return make_module_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}}).start()


@pytest.fixture
def bare(shared, without_credential):
    """A route that leaves `Authorization` to the client."""
    _, origin = shared(answering(OK))
    return without_credential, origin


@pytest.mark.parametrize(
    "fields",
    [
        ("Authorization: a", "AUTHORIZATION: b"),
        ("Authorization: a", "Authorization: a"),
        ("authorization: Bearer a", "X-Between: c", "aUTHORIZATION: Basic b"),
        ("Authorization:", "Authorization: b"),
        ("Authorization: a", "Authorization: b", "Authorization: c"),
    ],
    ids=["case", "equal", "apart", "empty", "three"],
)
def test_two_credentials_of_a_client_are_refused(bare, fields):
    """The field has one value (RFC 9110 §11.6.2): of two, each server would choose its own."""
    gateway, origin = bare
    with connect(gateway.port) as client:
        client.send(get(gateway, *fields))
        head = client.head()
        assert head.startswith(b"HTTP/1.1 400 "), (head, [wire.received for wire in origin.wires])
    assert origin.wires == []


def test_one_credential_of_a_client_passes_as_it_is(bare):
    gateway, origin = bare
    with connect(gateway.port) as client:
        client.send(get(gateway, "AUTHORIZATION: Bearer mine"))
        assert client.head().startswith(b"HTTP/1.1 200 ")
    [wire] = origin.wires
    assert wire.received.lower().count(b"authorization") == 1
    assert b"\r\nAUTHORIZATION: Bearer mine\r\n" in wire.received


# The server as a whole


def ruled(start_gateway, origin, rule):
    return start_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER, "allow": [rule]}}})


@pytest.mark.parametrize("rest", ["", "/", "/api/x"], ids=["whole", "root", "path"])
def test_a_rule_that_does_not_name_options_lets_none_through(make_script, start_gateway, rest):
    origin = make_script(answering(OK))
    gateway = ruled(start_gateway, origin, {"methods": ["GET"], "path": "/**"})
    host = f"127.0.0.1:{origin.port}"
    with connect(gateway.port) as client:
        client.send(f"OPTIONS http://{host}{rest} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert client.head().startswith(b"HTTP/1.1 403 ")
    assert origin.wires == []


@pytest.mark.parametrize("target", ["*", ""], ids=["asterisk", "absolute"])
def test_a_credential_in_the_query_gives_the_whole_server_a_path(make_script, start_gateway, target):
    """`*` stands alone (RFC 9112 §3.2.4)."""
    origin = make_script(answering(OK))
    auth = {"strategy": "header", "query": "key", "value": CANARY}
    match = {"path": "/", "hosts": ["named.localhost"]}
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "match": match, "auth": auth}}})
    host = f"127.0.0.1:{origin.port}" if target == "" else f"127.0.0.1:{gateway.port}"
    with connect(gateway.port) as client:
        client.send(f"OPTIONS {target or f'http://{host}'} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert client.head().startswith(b"HTTP/1.1 200 ")
    assert origin.wires[0].received.startswith(f"OPTIONS /?key={CANARY} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize("path", ["/", "/api/**"])
def test_what_is_sent_for_the_whole_server_is_what_the_rules_have_let_through(make_script, start_gateway, path):
    """A rule for a path, were it the root's or every path's, says nothing of the server as a whole: it is refused."""
    origin = make_script(answering(OK))
    gateway = ruled(start_gateway, origin, {"methods": ["OPTIONS"], "path": path})
    host = f"127.0.0.1:{origin.port}"
    with connect(gateway.port) as client:
        client.send(f"OPTIONS http://{host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert client.head().startswith(b"HTTP/1.1 403 ")
    assert origin.wires == []

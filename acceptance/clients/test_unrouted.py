"""Plain requests to servers that no route leads to: `listeners.proxy[].connect` with `unrouted: tunnel`."""

import json
import socket
import time

import pytest
from harness import processes
from harness.configs import BEARER, CANARY
from harness.origin import RecordingOrigin, response
from harness.wire import StrictReader

TOKEN = "token-of-the-laptop-1"
LAPTOP = {"access": {"clients": {"laptop": {"token": TOKEN, "limits": {"concurrent": 1}}}}}


@pytest.fixture
def other():
    """A server without a route."""
    other = RecordingOrigin(lambda request: response(200, b"from the other server\n", "WWW-Authenticate: Negotiate", "Set-Cookie: a=1"))
    yield other
    other.server.shutdown()


@pytest.fixture
def passing(make_gateway, origin, other):
    """A gateway with a route to `origin`, and a listener that passes requests to `other`."""

    def start(config=None, allow=("127.0.0.1",), ports=None, **connect):
        connect = {"unrouted": "tunnel", "allow": list(allow), "ports": ports or [other.port], **connect}
        place = {"address": f"127.0.0.1:{processes.free_port()}", "intercept": True, "connect": connect}
        route = {"upstream": origin.url, "auth": BEARER, "allow_plaintext": True}
        config = {"routes": {"named": route}, **(config or {})}
        gateway = make_gateway(config, listeners=[place]).start("--access-log")
        gateway.place, gateway.config = place, config
        return gateway

    return start


class Client:
    """One connection to the proxy."""

    def __init__(self, gateway):
        host, port = gateway.place["address"].split(":")
        self.wire = socket.create_connection((host, int(port)), timeout=20)
        self.reader = StrictReader(lambda: self.wire.recv(65536))

    def send(self, url, *fields, method="GET", body=b""):
        length = [f"Content-Length: {len(body)}"] if body else []
        lines = [f"{method} {url} HTTP/1.1", f"Host: {url.split('/')[2]}", *length, *fields, "", ""]
        self.wire.sendall("\r\n".join(lines).encode() + body)

    def answer(self):
        head = self.reader.head().decode()
        length = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length:"))
        return int(head.split()[1]), head, self.reader.exactly(length).decode()

    def ask(self, url, *fields, **options):
        self.send(url, *fields, **options)
        return self.answer()


def test_it_passes_without_a_credential(passing, other):
    gateway = passing()
    client = Client(gateway)
    mine = ("Authorization: Basic bWU6bWluZQ==", "Cookie: b=2", "Proxy-Connection: keep-alive", "Connection: close-notify", "Close-Notify: x")
    status, head, body = client.ask(f"{other.url}/a?b=%20c", *mine, method="POST", body=b"content")
    assert (status, body) == (200, "from the other server\n")
    # Nobody else uses its connection.
    assert "WWW-Authenticate: Negotiate" in head and "Set-Cookie: a=1" in head
    request = other.last()
    assert request.line == "POST /a?b=%20c HTTP/1.1" and request.body == b"content"
    assert request.value("host") == f"127.0.0.1:{other.port}" and request.value("cookie") == "b=2"
    assert request.value("authorization") == "Basic bWU6bWluZQ=="
    assert not {"proxy-connection", "close-notify", "forwarded", "x-forwarded-for"} & {name for name, _ in request.fields}
    assert CANARY not in other.raw().decode()


def test_a_routed_host_on_the_same_connection_gets_its_credential(passing, origin, other):
    """All are sent before the first is answered."""
    client = Client(passing())
    for url in other.url, origin.url, other.url, origin.url:
        client.send(f"{url}/x")
    assert [client.answer()[0] for _ in range(4)] == [200] * 4
    assert [request.value("authorization") for request in other.requests] == [None, None]
    assert [request.value("authorization") for request in origin.requests] == [f"Bearer {CANARY}"] * 2
    assert CANARY not in other.raw().decode()


def test_its_connection_is_used_again_and_ends_with_the_clients(passing, other):
    gateway = passing()
    client, second = Client(gateway), Client(gateway)
    for _ in range(3):
        assert client.ask(f"{other.url}/x")[0] == 200
    assert len(other.streams) == 1
    assert second.ask(f"{other.url}/x")[0] == 200 and len(other.streams) == 2
    client.wire.close()
    second.wire.close()
    processes.wait_until(lambda: not other.connections, 10, "both connections have ended")


def test_content_of_unknown_length_passes(passing, other):
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    other.answer = lambda request: chunks
    client = Client(passing())
    client.wire.sendall(
        f"PUT {other.url}/x HTTP/1.1\r\nHost: 127.0.0.1:{other.port}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\nbody\r\n0\r\n\r\n".encode()
    )
    answer = b""
    while part := client.wire.recv(65536):
        answer += part
    assert answer.startswith(b"HTTP/1.1 200 ") and b"3\r\nabc\r\n0\r\n\r\n" in answer
    assert other.last().body == b"body" and other.last().framing == "chunked"


@pytest.mark.parametrize(
    ("url", "allow", "status", "words"),
    [
        ("http://127.0.0.1:{port}/", [], 502, "not public"),
        ("http://localhost:{port}/", [], 502, "not public"),
        ("http://localhost:{port}/", ["*"], 502, "not public"),
        ("http://[::ffff:127.0.0.1]:{port}/", ["*"], 502, "not public"),
        ("http://169.254.169.254/latest/meta-data", ["*"], 502, "not public"),
        ("http://2130706433:{port}/", ["*"], 502, "not public"),
        ("http://localhost:{port}/", ["other.test"], 404, "connect.allow"),
        ("http://localhost:1/", ["localhost"], 404, "connect.ports"),
        ("https://localhost:{port}/", ["localhost"], 421, "own address"),
        ("http://localhost:{port}/", ["localhost"], 200, ""),
        ("http://localhost:{port}/", ["127.0.0.0/8"], 200, ""),
    ],
)
def test_addresses_that_are_not_public_are_named_or_refused(passing, other, url, allow, status, words):
    client = Client(passing(allow=allow))
    found, _, body = client.ask(url.format(port=other.port))
    assert found == status and words in body, body
    assert (other.count() > 0) == (status == 200)


def test_without_tunnels_it_is_refused(passing, other):
    gateway = passing()
    gateway.configure(gateway.config, [{**gateway.place, "connect": {"unrouted": "refuse"}}])
    assert gateway.run("reload").returncode == 0
    assert Client(gateway).ask(f"{other.url}/x")[0] == 421 and other.count() == 0


def allowing(name, names, make_gateway):
    """A gateway that passes plain requests to that name, and has the default of `ports`."""
    place = {"address": f"127.0.0.1:{processes.free_port()}", "intercept": True}
    place["connect"] = {"unrouted": "tunnel", "allow": [name]}
    gateway = make_gateway({"routes": {"named": {"upstream": "https://routed.test", "auth": BEARER}}}, listeners=[place])
    gateway.wrapper = names.wrapper()
    gateway.place = place
    gateway.start()
    return gateway


def test_the_port_of_http_needs_no_entry(passing, names, make_gateway):
    """`ports` are those of tunnels."""
    names.addresses = {"plain.test": ["127.0.0.1"]}
    plain = RecordingOrigin(port=80)
    gateway = allowing("plain.test", names, make_gateway)
    assert Client(gateway).ask("http://plain.test/x")[0] == 200
    assert plain.last().value("host") == "plain.test"
    plain.server.shutdown()


def test_the_client_proves_itself_and_its_limits_count(passing, other):
    gateway = passing(LAPTOP)
    for fields in (), ("Proxy-Authorization: Bearer wrong-token-of-nobody",):
        assert Client(gateway).ask(f"{other.url}/x", *fields)[0] == 407
    proof = f"Proxy-Authorization: Bearer {TOKEN}"
    assert Client(gateway).ask(f"{other.url}/x", proof, "Authorization: Bearer of-the-server")[0] == 200
    assert other.last().value("authorization") == "Bearer of-the-server"
    # A token of the gateway is not for the server, wherever it stands.
    assert Client(gateway).ask(f"{other.url}/x", f"Authorization: Bearer {TOKEN}")[0] == 200
    assert TOKEN not in other.raw().decode() and "proxy-authorization" not in other.raw().decode().lower()

    def slow(request):
        time.sleep(1)
        return response(200, b"late")

    other.answer = slow
    client, second = Client(gateway), Client(gateway)
    client.send(f"{other.url}/x", proof)
    processes.wait_until(lambda: other.count() == 3, 10, "the request is under way")
    assert second.ask(f"{other.url}/x", proof)[0] == 429
    assert client.answer()[0] == 200


@pytest.mark.parametrize("what", ["refuse", "allow", "client", "route", "nothing"])
def test_a_reload_that_takes_the_right_away_ends_it(passing, origin, other, what):
    def slow(request):
        yield response(200, b"x" * 4)[:-2]
        time.sleep(3)
        yield b"xx"

    gateway = passing(LAPTOP)
    other.answer = slow
    client = Client(gateway)
    client.send(f"{other.url}/x", f"Proxy-Authorization: Bearer {TOKEN}")
    processes.wait_until(lambda: other.count() == 1, 10, "the request is under way")
    config, connect = dict(gateway.config), dict(gateway.place["connect"])
    if what == "refuse":
        connect = {"unrouted": "refuse"}
    elif what == "allow":
        connect["allow"] = ["*.test"]
    elif what == "client":
        config["access"] = {"clients": {"other": {"token": "token-of-another-2"}}}
    elif what == "route":
        route = {"upstream": other.url, "auth": BEARER, "allow_plaintext": True}
        config["routes"] = {**config["routes"], "second": route}
    else:
        connect["allow"] = ["127.0.0.0/8"]
    gateway.configure(config, [{**gateway.place, "connect": connect}])
    assert gateway.run("reload").returncode == 0
    if what == "nothing":
        assert client.answer()[2] == "xxxx"
    else:
        try:
            body = client.answer()[2]
        except (ConnectionError, ValueError, StopIteration, AssertionError):
            body = None
        assert body != "xxxx", "the response is whole"


def test_its_failures_are_those_of_routes(passing, other):
    closed = processes.free_port()
    client = Client(passing({"limits": {"response_timeout": "1s"}}, ports=[other.port, closed]))
    status, _, body = client.ask(f"http://127.0.0.1:{closed}/x")
    assert status == 502 and "does not accept connections" in body, body
    other.answer = lambda request: time.sleep(3) or response(200)
    status, _, body = client.ask(f"{other.url}/x")
    assert (status, json.loads(body)["code"]) == (504, "upstream-timeout"), body


@pytest.mark.parametrize("smuggled", ["Content-Length: 5\r\nTransfer-Encoding: chunked", "Content-Length: 5\r\nContent-Length: 6", "Transfer-Encoding : chunked"])
def test_a_request_of_two_readings_is_refused(passing, other, smuggled):
    client = Client(passing())
    client.wire.sendall(f"POST {other.url}/x HTTP/1.1\r\nHost: 127.0.0.1:{other.port}\r\n{smuggled}\r\n\r\n0\r\n\r\nGET /".encode())
    assert client.answer()[0] == 400 and other.raw() == b""


def test_what_has_passed_the_gateway_is_refused(passing, other):
    client = Client(passing())
    client.ask(f"{other.url}/x")
    status, _, body = client.ask(f"{other.url}/x", f"Via: {other.last().value('via')}")
    assert (status, json.loads(body)["code"], other.count()) == (502, "loop", 1)


def test_it_is_counted_and_logged(passing, other):
    gateway = passing(LAPTOP)
    assert Client(gateway).ask(f"{other.url}/x", f"Proxy-Authorization: Bearer {TOKEN}")[0] == 200
    assert Client(gateway).ask(f"http://127.0.0.2:{other.port}/x", f"Proxy-Authorization: Bearer {TOKEN}")[0] == 502
    processes.wait_until(lambda: '"destination"' in gateway.text(), 5, gateway.text)
    [line] = [json.loads(line) for line in gateway.text().splitlines() if '"destination"' in line]
    expected = {"client": "laptop", "status": "200", "route": "(unrouted)", "method": "GET"}
    assert line == {**line, **expected, "destination": f"127.0.0.1:{other.port}"}


def test_explain_says_that_it_passes(passing, other):
    gateway = passing()
    done = gateway.run("explain", "--json", f"curl -x http://{gateway.place['address']} {other.url}/x")
    said = json.loads(done.stdout)
    assert said["outcome"] == "tunnelled" and other.url in said["verdict"] and other.count() == 0, said
    done = gateway.run("explain", f"curl -x http://{gateway.place['address']} http://127.0.0.2:{other.port}/")
    assert "Would be refused: 502" in done.stdout and "connect.allow" in done.stdout, done


def test_a_name_server_that_says_nothing_of_ipv6_stops_no_connection(names, make_gateway):
    """Each connection goes by the address that is known, while the same question stays open."""
    names.addresses, names.silent_v6 = {"slow.test": ["127.0.0.1"]}, {"slow.test"}
    slow = RecordingOrigin(port=80)
    gateway = allowing("slow.test", names, make_gateway)
    assert [Client(gateway).ask("http://slow.test/x")[0] for _ in range(30)] == [200] * 30
    slow.server.shutdown()

"""A listener with `tls: {ca: local}`: the name in the TLS hello says in whose place the gateway answers."""

import contextlib
import socket
import ssl
import subprocess

import pytest
from harness import processes
from harness.configs import BEARER, CANARY
from harness.tls import nginx_over_tls

TOKEN = "token-of-the-laptop-1"


@pytest.fixture(scope="module")
def upstream(tmp_path_factory, certificate_authority):
    certificate, key = certificate_authority.issue("named-tls", "DNS:localhost,IP:127.0.0.1")
    nginx = nginx_over_tls(tmp_path_factory.mktemp("nginx"), certificate, key, f"Bearer {CANARY}")
    yield int(nginx.url.rsplit(":", 1)[1])
    nginx.stop()


@pytest.fixture
def serving(start_gateway, upstream, certificate_authority):
    def start(**more):
        port = processes.free_port()
        tls = {"ca": str(certificate_authority.certificate)}
        config = {"routes": {"named": {"upstream": f"https://localhost:{upstream}", "auth": BEARER, "tls": tls}}, **more}
        gateway = start_gateway(config, listeners=[{"address": f"127.0.0.1:{port}", "tls": {"ca": "local"}}])
        gateway.config, gateway.tls_port = config, port
        gateway.ca = gateway.run("ca", "show", "--path").stdout.strip()
        return gateway

    return start


def curl(gateway, *words, host="localhost"):
    command = ["curl", "-sS", "-i", "--http1.1", "--cacert", gateway.ca, *words, f"https://{host}:{gateway.tls_port}/x"]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=30, env=processes.environment())


def test_a_client_that_is_led_here_gets_the_credential(serving):
    gateway = serving()
    done = curl(gateway)
    assert "HTTP/1.1 200 OK" in done.stdout and "GET /x" in done.stdout, done
    # As with DNS that leads here, where the port is that of the server.
    done = curl(gateway, "-H", f"Host: localhost:{gateway.config['routes']['named']['upstream'].rsplit(':', 1)[1]}")
    assert "HTTP/1.1 200 OK" in done.stdout, done


def test_another_host_inside_is_misdirected(serving):
    assert "HTTP/1.1 421 " in curl(serving(), "-H", "Host: elsewhere.test").stdout


def handshake(gateway, name):
    context = ssl.create_default_context(cafile=gateway.ca)
    context.check_hostname = False
    wire = socket.create_connection(("127.0.0.1", gateway.tls_port), timeout=10)
    return context.wrap_socket(wire, server_hostname=name)


@pytest.mark.parametrize("name", ["elsewhere.test", "named.localhost", None])
def test_another_name_or_none_is_refused(serving, name):
    gateway = serving()
    with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
        handshake(gateway, name)
    handshake(gateway, "LocalHost").close()


@pytest.mark.parametrize("size", [1, 50, 200])
def test_a_hello_in_several_records(serving, size):
    """As programs send it that split a long one; the name may be in any of them."""
    gateway = serving()
    context = ssl.create_default_context(cafile=gateway.ca)
    context.check_hostname = False
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(received, sent, server_hostname="localhost.")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = sent.read()
    content = hello[5:]
    parts = [content[start : start + size] for start in range(0, len(content), size)]
    with socket.create_connection(("127.0.0.1", gateway.tls_port), timeout=10) as wire:
        wire.sendall(b"".join(hello[:3] + len(part).to_bytes(2, "big") + part for part in parts))
        while True:
            received.write(wire.recv(65536))
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                wire.sendall(sent.read())
        wire.sendall(sent.read())
        tls.write(f"GET /x HTTP/1.1\r\nHost: localhost.:{gateway.tls_port}\r\nConnection: close\r\n\r\n".encode())
        wire.sendall(sent.read())
        answer = b""
        while b"GET /x" not in answer:
            data = wire.recv(65536)
            assert data, answer
            received.write(data)
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                answer += tls.read(65536)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_the_client_proves_itself_in_the_request(serving):
    gateway = serving(access={"clients": {"laptop": {"token": TOKEN}}})
    assert "HTTP/1.1 401 " in curl(gateway).stdout
    assert "HTTP/1.1 200 OK" in curl(gateway, "-H", f"Authorization: Bearer {TOKEN}").stdout


def test_a_hello_that_does_not_come_ends(serving):
    gateway = serving(limits={"header_timeout": "1s"})
    with socket.create_connection(("127.0.0.1", gateway.tls_port), timeout=10) as silent:
        silent.sendall(b"\x16\x03\x01")
        assert silent.recv(10) == b""
    with socket.create_connection(("127.0.0.1", gateway.tls_port), timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP/1.1" not in plain.recv(100)


def test_connections_without_a_hello_are_counted_and_hold_up_no_stop(serving):
    gateway = serving(limits={"connections": 4})
    waiting = [socket.create_connection(("127.0.0.1", gateway.tls_port), timeout=10) for _ in range(4)]
    processes.wait_until(lambda: curl(gateway).returncode != 0, 5, "no connection is left")
    gateway.stop()
    for wire in waiting:
        with contextlib.suppress(ConnectionResetError):
            assert wire.recv(10) == b""

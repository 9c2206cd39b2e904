"""A tunnel lives as long as its credential may be used: an operator who takes that away ends it, a renewal does not."""

import contextlib
import threading

import pytest
from harness.script import connect, wait

HANDSHAKE = b"GET /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


class Tunnel:
    """A client and an origin in a tunnel that a credential opened."""

    def __init__(self, make_script, start_gateway, authority):
        self.may_speak, self.is_over = threading.Event(), threading.Event()
        self.origin = make_script(self.steps)
        routes = {"api": {"upstream": self.origin.url, "auth": "service"}}
        credential = authority.credential() | {"revoke_url": f"{authority.url}/o/revoke_token/"}
        self.gateway = start_gateway({"credentials": {"service": credential}, "routes": routes})
        self.client = connect(self.gateway.port)
        self.client.send(HANDSHAKE)
        assert self.client.head().startswith(b"HTTP/1.1 101 ")
        assert b"authorization: bearer " in self.origin.wires[0].received.lower()

    def steps(self, wire, number):
        wire.head()
        wire.send(SWITCH)
        wire.exactly(4)
        wire.send(b"pong")
        if wire.exactly(4) == b"say!":
            wait(self.may_speak, 10, "the origin may speak")
            # The tunnel may be reset by now.
            with contextlib.suppress(ConnectionError):
                wire.send(b"secret")
        wire.to_end()
        self.is_over.set()

    def order(self, *words):
        done = self.gateway.run("token", *words)
        assert done.returncode == 0, done

    def ping(self):
        self.client.send(b"ping")
        assert self.client.exactly(4) == b"pong"


@pytest.fixture
def tunnel(make_script, start_gateway, authority):
    tunnel = Tunnel(make_script, start_gateway, authority)
    yield tunnel
    tunnel.client.close()


def test_a_renewal_does_not_end_it(tunnel):
    tunnel.order("refresh", "service")
    tunnel.ping()
    tunnel.order("refresh", "service")
    tunnel.client.send(b"say!")
    tunnel.may_speak.set()
    assert tunnel.client.exactly(6) == b"secret"


@pytest.mark.parametrize("renews", [False, True])
@pytest.mark.parametrize("words", [("lock", "service"), ("revoke", "service", "--lock"), ("revoke", "--all", "--lock")])
def test_what_the_client_sends_after_the_lock_does_not_reach_the_origin(tunnel, words, renews):
    if renews:
        tunnel.order("refresh", "service")
    tunnel.ping()
    tunnel.order(*words)
    # The tunnel is reset by now.
    with contextlib.suppress(ConnectionError):
        tunnel.client.send(b"evil")
    tunnel.client.to_end()
    wait(tunnel.is_over, 5, "the origin sees the end")
    assert b"evil" not in tunnel.origin.wires[0].received


def test_what_the_origin_sends_after_the_lock_does_not_reach_the_client(tunnel):
    tunnel.ping()
    tunnel.client.send(b"say!")
    tunnel.order("lock", "service")
    tunnel.may_speak.set()
    assert tunnel.client.to_end() == b""
    wait(tunnel.is_over, 5, "the origin sees the end")


def test_a_revoked_token_ends_it(tunnel):
    tunnel.ping()
    tunnel.order("revoke", "service")
    # The tunnel is reset by now.
    with contextlib.suppress(ConnectionError):
        tunnel.client.send(b"evil")
    tunnel.client.to_end()
    wait(tunnel.is_over, 5, "the origin sees the end")
    assert b"evil" not in tunnel.origin.wires[0].received

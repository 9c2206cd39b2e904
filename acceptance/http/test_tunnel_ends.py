"""How a tunnel begins and ends: only as it was asked for, and at each end as the other one ended it."""

import threading
import time

import pytest
from harness.configs import CANARY
from harness import proc
from harness.processes import wait_until
from harness.script import OK, answering, connect, get, wait
from harness.tls_script import MemoryTLS, request_to, server_context, serving

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
ASKED = ("Connection: Upgrade", "Upgrade: websocket")


def enter(gateway, client, *fields):
    client.send(get(gateway, *(fields or ASKED)))
    head = client.head()
    assert head.startswith(b"HTTP/1.1 101 "), head


# Ends


def test_a_reset_of_the_origin_is_a_reset_for_the_client(against):
    """A clean end would say that everything has come."""
    may_reset = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(SWITCH + b"some of it")
        wait(may_reset, 10, "the client is in the tunnel")
        wire.reset()

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        enter(gateway, client)
        assert client.exactly(10) == b"some of it"
        may_reset.set()
        assert client.to_end() == b""
        assert client.ended == "reset"


def test_a_reset_of_the_client_is_a_reset_for_the_origin(against):
    is_there, ended = threading.Event(), []

    def steps(wire, number):
        wire.head()
        wire.send(SWITCH)
        is_there.set()
        wire.to_end()
        ended.append(wire.ended)

    gateway, _ = against(steps)
    client = connect(gateway.port)
    enter(gateway, client)
    wait(is_there, 5, "the origin is in the tunnel")
    client.reset()
    wait_until(lambda: ended, 5, "the origin sees the end")
    assert ended == ["reset"]


def test_an_origin_that_has_said_everything_still_hears_the_client(against):
    """Each direction ends for itself."""
    heard, rest = threading.Event(), []

    def steps(wire, number):
        wire.head()
        wire.send(SWITCH + b"all of it")
        wire.end_of_writing()
        assert wire.exactly(3) == b"one"
        heard.set()
        rest.append(wire.to_end())

    gateway, origin = against(steps)
    with connect(gateway.port) as client:
        enter(gateway, client)
        assert client.to_end() == b"all of it" and client.ended == "end"
        client.send(b"one")
        wait(heard, 5, "the origin hears the client")
        client.send(b"two")
        client.end_of_writing()
        wait_until(lambda: rest, 5, "the origin sees the end")
    assert rest == [b"two"] and origin.wires[0].ended == "end"


@pytest.mark.parametrize("side", ["none", "origin", "both"])
def test_an_origin_that_is_gone_is_no_end_to_write_to(secure, side):
    """It has ended its half in good order, and then takes no more: the client learns of it when it goes on sending."""

    def steps(wire, number):
        wire.head()
        wire.send(SWITCH + b"all of it")
        if side != "none":
            wire.notify()

    gateway, _ = secure(steps, side)
    with gateway.dial() as client:
        client.send(request_to(gateway, client, *ASKED))
        assert client.head().startswith(b"HTTP/1.1 101 ")
        assert client.to_end() == b"all of it" and client.ended == "end"
        started = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - started < 10:
                client.send(b"x" * 1000)
                time.sleep(0.05)
        assert time.monotonic() - started < 2


@pytest.mark.parametrize("pause", [0, 0.2], ids=["together", "later"])
def test_an_end_that_comes_with_the_switch_is_the_end_of_one_direction(
    make_script, start_gateway, certificate_authority, pause
):
    """With TLS the close_notify can be in the packet of the 101."""
    heard = []

    def steps(wire, number):
        connection = MemoryTLS(server_context(certificate, key), wire.connection)
        assert b"Upgrade" in connection.read()
        connection.write(SWITCH + b"all of it")
        if pause:
            connection.flush()
            time.sleep(pause)
        connection.notify()
        connection.flush()
        heard.append(connection.read())

    certificate, key = serving(certificate_authority, "switching")
    route = {
        "upstream": f"https://127.0.0.1:{make_script(steps).port}",
        "tls": {"ca": str(certificate_authority.certificate)},
        "auth": {"strategy": "none"},
    }
    gateway = start_gateway({"routes": {"api": route}})
    with connect(gateway.port) as client:
        enter(gateway, client)
        assert client.to_end() == b"all of it" and client.ended == "end"
        client.send(b"farewell")
        wait_until(lambda: heard, 5, "the origin hears the client")
    assert heard == [b"farewell"]


def test_much_follows_the_end_of_the_other_direction(against):
    """More than the buffers hold, so that it flows and is not merely passed on in one go."""
    size, got = 4 << 20, []

    def steps(wire, number):
        wire.head()
        wire.send(SWITCH)
        wire.end_of_writing()
        got.append(len(wire.to_end()))

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        enter(gateway, client)
        assert client.to_end() == b"" and client.ended == "end"
        client.send(b"x" * size)
        client.end_of_writing()
        wait_until(lambda: got, 5, "the origin has everything")
    assert got == [size]


def test_when_both_have_ended_nothing_is_left(against):
    def steps(wire, number):
        wire.head()
        wire.send(SWITCH)
        assert wire.to_end() == b"bye"

    gateway, _ = against(steps)
    pid = gateway.process.pid
    before = proc.steady_descriptors(pid)
    with connect(gateway.port) as client:
        enter(gateway, client)
        client.send(b"bye")
        client.end_of_writing()
        assert client.to_end() == b"" and client.ended == "end"
        wait_until(lambda: proc.descriptors(pid) <= before, 5, lambda: f"{proc.descriptors(pid)} of {before}")


@pytest.mark.parametrize("first", ["client", "origin"])
def test_when_both_end_at_the_same_time_each_sees_the_end_of_the_other(against, first):
    """The gateway is halted, so that it learns of both ends in one turn of its event loop."""
    may_end, ended, got = threading.Event(), threading.Event(), []

    def steps(wire, number):
        wire.head()
        wire.send(SWITCH)
        wait(may_end, 10, "the gateway is halted")
        wire.send(b"of the origin")
        wire.end_of_writing()
        ended.set()
        got.append(wire.to_end())

    gateway, origin = against(steps)
    with connect(gateway.port) as client:
        enter(gateway, client)
        ends = [lambda: (client.send(b"of the client"), client.end_of_writing()), lambda: (may_end.set(), wait(ended, 5, "it ends"))]
        with gateway.halted():
            for end in ends if first == "client" else reversed(ends):
                end()
        assert client.to_end() == b"of the origin" and client.ended == "end"
        wait_until(lambda: got, 5, "the origin sees the end")
    assert got == [b"of the client"] and origin.wires[0].ended == "end"


# Beginnings


REFUSED_SWITCHES = {
    "another protocol": ((), b"Upgrade: h2c\r\n"),
    "one more": ((), b"Upgrade: websocket, h2c\r\n"),
    "another version": (("Upgrade: proto/1",), b"Upgrade: proto/2\r\n"),
}


@pytest.mark.parametrize("offer, answer", REFUSED_SWITCHES.values(), ids=[name.replace(" ", "-") for name in REFUSED_SWITCHES])
def test_a_protocol_that_the_client_did_not_offer_is_not_switched_to(against, offer, answer):
    """RFC 9110 §7.8: the client would not know what it is spoken to in, and no rule here has judged it."""
    gateway, _ = against(answering(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n" + answer + b"\r\npoison"))
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: Upgrade", *(offer or ["Upgrade: websocket"])))
        head = client.head()
        assert head.startswith(b"HTTP/1.1 502 "), head


@pytest.mark.parametrize(
    "offer, chosen",
    [("websocket", "websocket"), ("WebSocket", "websocket"), ("one, two/2, three", "two/2"), ("one, two/2, three", "three")],
)
def test_a_protocol_that_the_client_offered_is_switched_to(against, offer, chosen):
    def steps(wire, number):
        assert f"\r\nupgrade: {offer}\r\n".encode().lower() in wire.head().lower()
        wire.send(f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {chosen}\r\n\r\n".encode())
        assert wire.exactly(2) == b"hi"
        wire.send(b"ho")

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: Upgrade", f"Upgrade: {offer}"))
        head = client.head()
        assert head.startswith(b"HTTP/1.1 101 ") and f"\r\nUpgrade: {chosen}\r\n".encode() in head, head
        client.send(b"hi")
        assert client.exactly(2) == b"ho"


@pytest.mark.parametrize(
    "fields, version",
    [((), "1.1"), (("Upgrade: websocket",), "1.1"), (("Connection: Upgrade",), "1.1"), (ASKED, "1.0")],
    ids=["nothing", "not-nominated", "no-protocol", "version-1.0"],
)
def test_a_switch_that_was_not_asked_for_is_a_502(against, fields, version):
    gateway, origin = against(answering(SWITCH + b"poison"))
    with connect(gateway.port) as client:
        client.send(get(gateway, *fields, version=version))
        assert client.head().startswith(b"HTTP/1.1 502 ")
    assert b"poison" not in client.received
    assert b"upgrade" not in origin.wires[0].received.lower()


@pytest.mark.parametrize("framing", ["Content-Length: 10", "Transfer-Encoding: chunked"], ids=["length", "chunked"])
def test_a_switch_before_the_body_of_the_request_is_whole(against, framing):
    """Every byte goes to the origin as it came: what is left of the body is not lost, doubled or read."""
    body = b"0123456789" if framing.startswith("Content") else b"a\r\n0123456789\r\n0\r\n\r\n"
    got, ended = [], threading.Event()

    def steps(wire, number):
        wire.head()
        first = wire.exactly(4)
        wire.send(SWITCH)
        got.append(first + wire.to_end())
        ended.set()

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        client.send(get(gateway, *ASKED, framing, method="POST") + body[:4])
        head = client.head()
        assert head.startswith(b"HTTP/1.1 101 "), head
        client.send(body[4:] + b"and more")
        client.end_of_writing()
        wait(ended, 5, "the origin sees the end")
        assert client.to_end() == b"" and client.ended == "end"
    assert got == [body + b"and more"]


def test_after_a_refused_switch_the_connection_to_the_origin_is_not_used_again(against):
    gateway, origin = against(lambda wire, number: (wire.head(), wire.send(SWITCH if number == 0 else OK), wire.to_end()))
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 502 ")
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
    assert len(origin.wires) == 2


def test_the_credential_is_on_the_handshake_and_nowhere_else(against):
    def steps(wire, number):
        assert f"\r\nAuthorization: Bearer {CANARY}\r\n".encode() in wire.head()
        wire.send(SWITCH)
        assert wire.to_end() == b"GET /x HTTP/1.1\r\nAuthorization: mine\r\n\r\n"

    gateway, _ = against(steps)
    with connect(gateway.port) as client:
        enter(gateway, client)
        client.send(b"GET /x HTTP/1.1\r\nAuthorization: mine\r\n\r\n")
        client.end_of_writing()
        assert client.to_end() == b""

"""WebSocket over HTTP/2 (RFC 8441) before upstreams that speak HTTP/1.1."""

import contextlib
import threading

from h2.errors import ErrorCodes
from harness import http2
from harness.configs import CANARY, plain_config
from harness.origin import response
from harness.script import wait

OPEN = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\nX-Note: 1\r\n\r\n"


def begin(client):
    client.until(lambda: client.settings)
    assert client.settings[8] == 1, "SETTINGS_ENABLE_CONNECT_PROTOCOL"
    fields = [(":protocol", "websocket"), *http2.Client.fields(method="CONNECT", more=[("sec-websocket-version", "13")])]
    return client.begin(fields=fields, end=False)


def test_it_is_an_upgrade_for_the_upstream(served, make_script):
    heads = []

    def steps(wire, number):
        heads.append(wire.head().decode().lower().split("\r\n"))
        wire.send(OPEN)
        assert wire.exactly(5) == b"hello"
        wire.send(b"answer")
        assert wire.to_end() == b"last"
        wire.send(b"end")

    with contextlib.closing(served(plain_config(make_script(steps))).client()) as client:
        stream = begin(client)
        answer = client.responses[stream]
        client.until(lambda: answer.status)
        assert answer.status == 200 and answer.value("x-note") == "1" and not answer.value("sec-websocket-accept")
        client.content(stream, b"hello", end=False)
        client.until(lambda: bytes(answer.body) == b"answer")
        client.content(stream, b"last")
        assert bytes(client.finish(stream).body) == b"answerend" and answer.reset is None
        assert client.ask(path="/nowhere").status == 404, "the connection goes on"
    [head] = heads
    assert head[0] == "get /x http/1.1" and f"authorization: bearer {CANARY}".lower() in head
    assert {"connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"} <= {*head}
    [key] = [line.removeprefix("sec-websocket-key: ") for line in head if line.startswith("sec-websocket-key")]
    assert len(key) == 24 and key.endswith("==")


def test_much_in_both_directions(served, make_script):
    size = 3 << 20

    def steps(wire, number):
        wire.head()
        wire.send(OPEN)
        wire.send(wire.exactly(size))
        wire.to_end()

    with contextlib.closing(served(plain_config(make_script(steps))).client()) as client:
        stream = begin(client)
        client.until(lambda: client.responses[stream].status)
        client.content(stream, b"x" * size, end=False)
        client.until(lambda: len(client.responses[stream].body) == size)
        client.content(stream, b"")
        assert client.finish(stream).has_ended


def test_a_reset_is_a_cut(served, make_script):
    ended = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(OPEN)
        wire.to_end()
        assert wire.ended == "reset"
        ended.set()

    with contextlib.closing(served(plain_config(make_script(steps))).client()) as client:
        stream = begin(client)
        client.until(lambda: client.responses[stream].status)
        client.h2.reset_stream(stream, ErrorCodes.CANCEL)
        client.flush()
        wait(ended, 15, "the end of the upstream connection")


def test_a_lost_upstream_is_a_reset(served, make_script):
    def steps(wire, number):
        wire.head()
        wire.send(OPEN + b"part")
        wire.reset()

    with contextlib.closing(served(plain_config(make_script(steps))).client()) as client:
        answer = client.finish(begin(client))
        assert answer.reset is not None and not answer.has_ended


def test_an_upstream_without_websocket(served, make_origin):
    """What is no 101 opens nothing: a 200 would say to the client that it did."""
    answers = iter([response(426, b"no"), response(200, b"a page")])
    origin = make_origin(lambda request: next(answers))
    with contextlib.closing(served(plain_config(origin)).client()) as client:
        assert client.finish(begin(client)).status == 426
        page = client.finish(begin(client))
        assert page.status == 502 and b"upgrade-failed" in page.body and b"WebSocket request with 200" in page.body

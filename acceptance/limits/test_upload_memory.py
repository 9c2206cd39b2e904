"""Uploads whose upstream takes nothing: what one client holds is bounded (`upload_memory`), and it is noticed when it leaves."""

import contextlib
import json
import select
import threading
import time

import pytest
from h2.exceptions import StreamClosedError
import requests
from harness import http2
from harness.hostile import reset
from harness.raw import Answer
from harness.script import connect, get, wait

TOKENS = {"ada": "token-of-ada-1", "bob": "token-of-bob-2"}
LENGTH = 1 << 30


class StuckOrigin:
    """Reads the head of each request, and nothing behind it."""

    def __init__(self, make_script):
        self.released = threading.Event()
        #: For each request that has begun here, and for each that the gateway has reset.
        self.heads, self.resets = threading.Semaphore(0), threading.Semaphore(0)
        self.url = make_script(self.steps).url

    def steps(self, wire, number):
        if not wire.head():
            return
        self.heads.release()
        poll = select.poll()
        # Errors alone, which come without being read.
        poll.register(wire.connection, 0)
        while not self.released.is_set():
            if poll.poll(100):
                return self.resets.release()


@pytest.fixture
def stuck(make_script):
    origin = StuckOrigin(make_script)
    yield origin
    origin.released.set()


@pytest.fixture
def start(stuck, origin, start_gateway):
    def start(**limits):
        return start_gateway(
            {
                "access": {"clients": {name: {"token": token} for name, token in TOKENS.items()}},
                "routes": {
                    "stuck": {"upstream": stuck.url, "auth": "none"},
                    "api": {"upstream": origin.url, "auth": "none"},
                },
                "limits": limits,
            }
        )

    return start


@pytest.fixture
def begin():
    """Begins uploads, and sends as much of them as is taken."""
    with contextlib.ExitStack() as wires:

        def begin(gateway, client="ada"):
            wire = wires.enter_context(connect(gateway.port))
            # A close is queued behind data that the gateway does not read. A reset is noticed at once.
            wires.callback(reset, wire.connection)
            fields = [f"Authorization: Bearer {TOKENS[client]}", f"Content-Length: {LENGTH}"]
            wire.send(get(gateway, *fields, path="/stuck/x", method="POST"))
            fill(wire)
            return wire

        yield begin


def fill(wire, quiet=0.3):
    """Sends until nothing was taken for a while, or the gateway has answered."""
    wire.connection.setblocking(False)
    last = time.monotonic()
    while time.monotonic() - last < quiet and not has_answer(wire):
        try:
            wire.connection.send(b"x" * 262_144)
            last = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
        except ConnectionError:
            break
    wire.connection.settimeout(15)


def has_answer(wire):
    return bool(select.select([wire.connection], [], [], 0)[0])


def is_served(gateway, client):
    fields = {"Authorization": f"Bearer {TOKENS[client]}"}
    return requests.post(gateway.url + "/api/x", data=b"x" * 100_000, headers=fields, timeout=10).status_code == 200


def until_one_is_refused(gateway, begin):
    uploads = []
    while not any(has_answer(wire) for wire in uploads):
        assert len(uploads) < 30, "as many uploads hold more than 1 MiB"
        uploads.append(begin(gateway))
    return uploads


def test_a_client_holds_no_more_than_it_may(start, begin):
    gateway = start(upload_memory="1MiB")
    uploads = until_one_is_refused(gateway, begin)
    refused = next(wire for wire in uploads if has_answer(wire))
    answer = Answer(refused.head())
    assert answer.status == 429 and answer.values("retry-after"), answer.data
    problem = json.loads(refused.exactly(int(answer.values("content-length")[0])))
    assert problem["code"] == "client-limit-reached" and "limits.upload_memory allows (1MiB)" in problem["detail"], problem
    assert not has_answer(begin(gateway, "bob")), "others have memory of their own"
    # What an upstream takes at once does not count.
    assert is_served(gateway, "ada") and is_served(gateway, "bob")


def test_what_ends_gives_its_memory_back(start, begin, stuck):
    gateway = start(upload_memory="1MiB")
    for _ in range(3):
        uploads = until_one_is_refused(gateway, begin)
        assert len(uploads) > 1, "the first has all the memory"
        for wire in uploads:
            wire.reset()
        # The refused upload may end before its head is sent upstream.
        for _ in range(len(uploads) - 1):
            assert stuck.heads.acquire(timeout=10) and stuck.resets.acquire(timeout=10)
        while stuck.heads.acquire(timeout=0.5):
            assert stuck.resets.acquire(timeout=10)


def test_content_of_streams_counts_before_a_connection_is_there(start, begin):
    """One request has the only connection; each of the others may send 128 KiB before it has one."""
    gateway = start(upload_memory="1MiB", connections_per_upstream=1, connect_timeout="30s")
    begin(gateway, "bob")
    with contextlib.ExitStack() as clients:
        connections = [clients.enter_context(contextlib.closing(http2.connect(gateway.port))) for _ in range(20)]
        statuses = []
        for client in connections:
            fields = ("authorization", f"Bearer {TOKENS['ada']}")
            stream = client.begin(fields, end=False, method="POST", path="/stuck/x")
            # The stream is closed under a client that is refused before it has sent everything.
            with contextlib.suppress(TimeoutError, StreamClosedError):
                client.connection.settimeout(0.3)
                client.content(stream, b"x" * 131_072, end=False)
                client.finish(stream)
            statuses.append(client.responses[stream].status)
    assert 429 in statuses and statuses.index(429) >= 3, statuses


@pytest.mark.parametrize("leave", ["close", "half-close", "reset"])
def test_a_client_that_leaves_is_noticed(start, begin, stuck, leave):
    """Its end stands behind all that it has sent. A request that is not complete when its client sends no more is over."""
    upload = begin(start())
    {"close": upload.close, "half-close": upload.end_of_writing, "reset": upload.reset}[leave]()
    assert stuck.resets.acquire(timeout=20)


def test_a_client_that_stays_is_not_read_without_end(start, begin, stuck):
    upload = begin(start(upload_memory="1MiB"))
    time.sleep(4)
    sent = 0
    upload.connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while sent < 1 << 26:
            sent += upload.connection.send(b"x" * 65_536)
    assert sent < 1 << 25 and not has_answer(upload)


def test_an_upload_goes_on_when_its_upstream_does(start_gateway, make_script):
    """What was read meanwhile gets there, every byte of it."""
    length, goes_on, complete = 20_000_000, threading.Event(), threading.Event()

    def steps(wire, number):
        wire.head()
        wait(goes_on, 20, "the client was read further")
        assert wire.exactly(length) == bytes(range(250)) * (length // 250)
        complete.set()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    gateway = start_gateway({"routes": {"api": {"upstream": make_script(steps).url, "auth": "none"}}})
    with connect(gateway.port) as wire:
        wire.send(get(gateway, f"Content-Length: {length}", path="/api/x", method="POST"))
        sender = threading.Thread(target=wire.send, args=(bytes(range(250)) * (length // 250),))
        sender.start()
        time.sleep(3)
        goes_on.set()
        wait(complete, 20, "the whole body")
        sender.join(20)
        assert wire.head().startswith(b"HTTP/1.1 200 ")

"""Upstreams that are down, silent, flapping or nowhere: the right problem document, and nothing left behind."""

import contextlib
import itertools
import json
import os
import re
import socket
import threading
import time

import pytest
import requests
from harness.bytes import CHUNKED, NOT_AN_END, SWITCH
from harness.configs import BEARER, CANARY
from harness import proc, raw
from harness.origin import RecordingOrigin
from harness.processes import free_port, wait_until
from harness.script import connect, get, wait
from harness.tls_script import request_to

#: Of each kind at once.
REQUESTS = 100


@pytest.fixture
def silent():
    """Accepts connections by its kernel only: nobody reads, nobody answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        yield listener.getsockname()[1]


@pytest.fixture
def gateway(origin, silent, make_script, start_gateway):
    talkative = make_script(lambda wire, number: wire.send(b"SSH-2.0-OpenSSH_9.2\r\n"))
    routes = {
        "good": origin.url,
        "down": f"http://127.0.0.1:{free_port()}",
        "silent": f"http://127.0.0.1:{silent}",
        "nowhere": "http://does-not-exist.invalid",
        "tls": f"https://127.0.0.1:{talkative.port}",
    }
    return start_gateway(
        {
            "limits": {"response_timeout": "3s", "connect_timeout": "10s", "idle_timeout": "1s"},
            "routes": {name: {"upstream": url, "auth": BEARER, "allow_plaintext": True} for name, url in routes.items()},
        }
    )


FAULTS = {
    "down": (502, "upstream-unreachable", "connection_refused"),
    "silent": (504, "upstream-timeout", "http_response_timeout"),
    "nowhere": (502, "upstream-unreachable", "dns_error"),
    "tls": (502, "upstream-unreachable", "tls_protocol_error"),
}


@pytest.mark.parametrize("route", FAULTS)
def test_the_client_is_told_what_is_wrong(gateway, route):
    status, kind, error = FAULTS[route]
    answer = requests.get(f"{gateway.url}/{route}/x", timeout=20)
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json" and answer.json()["type"].endswith(kind)
    assert re.search(r"; error=(\w+)", answer.headers["Proxy-Status"])[1] == error
    assert CANARY not in answer.text


def asks(gateway, route):
    return b"GET /%s/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % (route.encode(), gateway.port)


def statuses(gateway, routes):
    """What each route answers when all are asked at once."""
    asked = routes * REQUESTS
    answers = raw.all_at_once(gateway.port, [asks(gateway, route) for route in asked])
    seen = {route: set() for route in routes}
    for route, answer in zip(asked, answers, strict=True):
        seen[route].add(answer.status)
    return seen


def are_right(seen):
    # A hundred lookups at once may take longer than connect_timeout allows.
    late = {"nowhere": {504}}
    return all(found <= {FAULTS[route][0] if route in FAULTS else 200} | late.get(route, set()) for route, found in seen.items())


ONE_AFTER_THE_OTHER = [[route] for route in (*FAULTS, "good")]
ALL_AT_ONCE = [[*FAULTS, "good"]]


@pytest.mark.parametrize(
    "waves",
    [ONE_AFTER_THE_OTHER, ALL_AT_ONCE, pytest.param(ALL_AT_ONCE * 10, marks=pytest.mark.soak)],
    ids=["one-after-the-other", "all-at-once", "all-at-once-often"],
)
def test_faults_leave_no_thread_and_no_connection_behind(gateway, origin, waves):
    for [route] in ONE_AFTER_THE_OTHER:
        raw.exchange(gateway.port, asks(gateway, route))
    pid = gateway.process.pid
    # What is kept open for the next request goes with idle_timeout.
    wait_until(lambda: not origin.connections, 5, "nothing is kept open")
    before, threads = proc.descriptors(pid), proc.threads(pid)
    for routes in waves:
        seen = statuses(gateway, routes)
        assert are_right(seen), seen
    wait_until(lambda: not origin.connections, 5, lambda: f"{len(origin.connections)} are kept open")
    nothing_is_left(pid, before, threads)


def nothing_is_left(pid, before, threads):
    """No descriptor and no thread more than there were before."""
    # A lookup that the name server does not answer keeps its socket for as long as the resolver waits: 5 s, twice.
    wait_until(lambda: proc.descriptors(pid) <= before, 12, lambda: f"{proc.descriptors(pid)} of {before} descriptors")
    # A lookup's thread ends with it; the runtime has up to one for each processor more when there is work.
    most = threads + os.cpu_count()
    wait_until(lambda: proc.threads(pid) <= most, 2, lambda: f"{proc.threads(pid)} threads, {threads} before")


def test_a_name_that_takes_long_to_resolve_holds_up_nobody_else(gateway, origin):
    """Each good request needs a connection of its own, so that it cannot hide behind a kept one."""
    origin.answer = lambda request: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    request = b"GET /nowhere/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % gateway.port
    lookups = threading.Thread(target=raw.all_at_once, args=(gateway.port, [request] * 200), daemon=True)
    lookups.start()
    for _ in range(20):
        answer = requests.get(f"{gateway.url}/good/x", timeout=10)
        # Who waited for a lookup would wait for two seconds, connect_timeout.
        assert answer.status_code == 200 and answer.elapsed.total_seconds() < 1.5
    lookups.join(30)


def test_an_upstream_that_comes_and_goes(start_gateway):
    """Each answer is right for its moment, none takes long, the last state counts, and nothing is left behind."""
    origin = RecordingOrigin()
    port = origin.port
    limits = {"idle_timeout": "1s"}
    gateway = start_gateway({"limits": limits, "routes": {"api": {"upstream": origin.url, "auth": BEARER}}})
    request = b"GET /api/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % gateway.port
    assert raw.exchange(gateway.port, request).status == 200
    wait_until(lambda: not origin.connections, 5, "nothing is kept open")
    pid = gateway.process.pid
    before, threads = proc.descriptors(pid), proc.threads(pid)
    answers, stop = [], threading.Event()

    def statuses(since=0):
        return {answer.status for answer in answers[since:]}

    def ask():
        while not stop.is_set():
            answers.append(raw.exchange(gateway.port, request, seconds=5))

    askers = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for asker in askers:
        asker.start()
    for _ in range(5):
        seen = len(answers)
        wait_until(lambda seen=seen: 200 in statuses(seen), 10, "it answers while it is up")
        origin.stop()
        origin.drop()
        seen = len(answers)
        wait_until(lambda seen=seen: 502 in statuses(seen), 10, "it is told while it is down")
        origin = RecordingOrigin(port=port)
    stop.set()
    for asker in askers:
        asker.join(10)
    assert statuses() == {200, 502}
    assert [answer.data for answer in answers if answer.status == 502 and not is_unreachable(answer, port)] == []
    wait_until(lambda: not origin.connections, 5, lambda: f"{len(origin.connections)} are kept open")
    nothing_is_left(pid, before, threads)
    origin.stop()


def is_unreachable(answer, port):
    """The document for an upstream that is down, or went down before it had answered."""
    head = answer.head.lower()
    errors = ("connection_refused", "connection_terminated")
    hop = [b'proxy-status: authgateway; next-hop="127.0.0.1:%d"; error=%s' % (port, error.encode()) for error in errors]
    is_problem = b"\r\ncontent-type: application/problem+json" in head and any(line in head for line in hop)
    return is_problem and json.loads(answer.body)["type"].endswith(":upstream-unreachable")


def test_a_slow_upstream_does_not_slow_the_others(origin, silent, start_gateway):
    """Nobody has waited for the slow one, which has not answered yet when all others have."""
    routes = {name: {"upstream": url, "auth": BEARER} for name, url in (("good", origin.url), ("slow", f"http://127.0.0.1:{silent}"))}
    gateway = start_gateway({"routes": routes})
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(gateway.port)) for _ in range(50)]
        for client in slow:
            client.send(get(gateway, path="/slow/x"))
        for _ in range(50):
            assert requests.get(f"{gateway.url}/good/x", timeout=10).status_code == 200
        assert all(client.is_quiet(0) for client in slow)


# Those that stop in the middle


PARTS = {
    "length": b"Content-Length: 10\r\n\r\n12345",
    "chunked": b"Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
    "until-close": b"\r\n12345",
}


@pytest.mark.parametrize("side", ["none", "both"], ids=["clear", "tls"])
def test_an_upstream_that_falls_silent_within_its_answer_is_cut_for_the_client_too(secure, side):
    """After response_timeout: the client sees that this is not all, and nobody waits for the upstream any longer."""
    left = []

    def steps(wire, number):
        wire.send(b"HTTP/1.1 200 OK\r\n" + PARTS[wire.head().split(b" ")[1].decode()[1:]])
        left.append(wire.to_end())

    gateway, _ = secure(steps, side, response_timeout="500ms")
    with contextlib.ExitStack() as stack:
        started, clients = time.monotonic(), {}
        for name in itertools.product(PARTS, ("1.1", "1.0")):
            client = clients[name] = stack.enter_context(gateway.dial())
            client.send(request_to(gateway, client, path=f"/api/{name[0]}", version=name[1]))
        for name, client in clients.items():
            assert client.head().startswith(b"HTTP/1.1 200 ") and b"12345" in client.to_end(), name
            assert client.ended in NOT_AN_END, name
        assert 0.4 < time.monotonic() - started < 4
        wait_until(lambda: len(left) == len(clients), 2, lambda: f"the upstream saw {len(left)} ends")


@pytest.mark.parametrize("side", ["none", "both"], ids=["clear", "tls"])
def test_a_tunnel_that_falls_silent_is_cut_and_not_ended(secure, side):
    """Neither end has said that this was all, and a protocol that reads until the end would take it for that."""
    left = []

    def steps(wire, number):
        wire.head()
        wire.send(SWITCH + b"12345")
        wire.to_end()
        left.append(wire.ended)

    gateway, _ = secure(steps, side, response_timeout="500ms")
    with gateway.dial() as client:
        client.send(request_to(gateway, client, "Connection: Upgrade", "Upgrade: echo"))
        assert client.head().startswith(b"HTTP/1.1 101 ") and client.to_end() == b"12345"
        wait_until(lambda: left, 2, "the upstream's connection has ended")
        assert client.ended in NOT_AN_END and left[0] in NOT_AN_END


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_upstream_that_stops_taking_the_upload_is_a_504(against, framing):
    """The buffers are full and the client wants to send more: it is not the one that is late."""
    may_look, is_left = threading.Event(), threading.Event()
    size = 64 << 20

    def steps(wire, number):
        wire.head()
        wait(may_look, 15, "the client is answered")
        wire.to_end()
        is_left.set()

    def upload():
        with contextlib.suppress(OSError):
            client.send(get(gateway, CHUNKED if framing == "chunked" else f"Content-Length: {size}", method="POST"))
            if framing == "chunked":
                client.send(b"%x\r\n" % size)
            for _ in range(size >> 18):
                client.send(bytes(1 << 18))

    gateway, _ = against(steps, response_timeout="500ms", body_idle_timeout="500ms")
    with connect(gateway.port) as client:
        sender = threading.Thread(target=upload, daemon=True)
        sender.start()
        client.head()
        client.to_end()
        answer = raw.Answer(client.received)
        assert answer.status == 504, answer.data
        assert b"\r\ncontent-type: application/problem+json\r\n" in answer.head.lower(), answer.head
        problem = json.loads(answer.body)
        assert problem["type"].endswith(":upstream-timeout")
        assert problem["title"] == "The upstream did not answer in time"
        assert problem["detail"] == "The upstream stopped reading the request body."
        may_look.set()
        wait(is_left, 5, "its connection is closed")
    sender.join(15)
    assert not sender.is_alive()


# Those that are slow, and not silent


def slowly(wire, size, seconds):
    """Takes so many bytes in about so many seconds; returns what came. A busy machine makes no pause longer than it is late."""
    came, at_once, begin = 0, 1 << 16, time.monotonic()
    while came < size:
        due = begin + seconds * min(came + at_once, size) / size
        time.sleep(max(0, due - time.monotonic()))
        data = wire.exactly(min(at_once, size - came))
        wire.received = b""
        if not data:
            break
        came += len(data)
    return came


def test_an_upstream_that_takes_an_upload_slowly_is_waited_for(make_script, start_gateway):
    """However long its system makes no room for more: what has been written is still taken."""
    size, came = 10 << 20, []

    def steps(wire, number):
        wire.head()
        came.append(slowly(wire, size, 6))
        wire.send(b"HTTP/1.1 204 No Content\r\n\r\n")

    gateway = start_gateway(
        {"limits": {"body_idle_timeout": "800ms"}, "routes": {"api": {"upstream": make_script(steps).url, "auth": BEARER}}}
    )
    with connect(gateway.port) as client:
        client.send(get(gateway, f"Content-Length: {size}", method="POST") + bytes(size))
        assert client.head().startswith(b"HTTP/1.1 204 ")
    assert came == [size]


def test_an_upstream_that_takes_what_a_tunnel_brings_slowly_is_waited_for(secure):
    size, came = 1 << 20, []

    def steps(wire, number):
        wire.head()
        wire.send(SWITCH)
        came.append(slowly(wire, size, 3))

    # The system opens its window in large steps.
    gateway, _ = secure(steps, "none", response_timeout="800ms")
    with gateway.dial() as client:
        client.send(request_to(gateway, client, "Connection: Upgrade", "Upgrade: echo"))
        assert client.head().startswith(b"HTTP/1.1 101 ")
        client.send(bytes(size))
        client.end_of_writing()
        wait_until(lambda: came, 10, "it has taken all it gets")
    assert came == [size]

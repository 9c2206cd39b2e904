"""How many connections and waiting requests one upstream may have."""

import threading
import time

import pytest
import requests

from harness import processes
from harness.origin import response
from harness.script import OK, connect, get


class SlowOrigin:
    """Answers one request after the other, each when it is told to."""

    def __init__(self, make_origin):
        self.permits = threading.Semaphore(0)
        self.origin = make_origin(self.answer)

    def answer(self, request):
        assert self.permits.acquire(timeout=30)
        return response(200, b"done")


@pytest.fixture
def slow(make_origin):
    return SlowOrigin(make_origin)


def start(start_gateway, origin, **limits):
    limits = {"connections_per_upstream": 1, "pending_per_upstream": 1, "connect_timeout": "20s", **limits}
    # One event loop, so that the numbers are exact.
    return start_gateway({"workers": 1, "limits": limits, "routes": {"a": {"upstream": origin.url, "auth": "none"}}})


def ask(gateway, answers):
    def run():
        answers.append(requests.get(gateway.url + "/a", timeout=30))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


#: Requests that are refused after their connection was dialled: in the turn in which it is there.
REFUSED = {
    "chunk": (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    "trailer": (b"Transfer-Encoding: chunked\r\n\r\n0\r\nX y: 1\r\n\r\n", 400),
    "too long": (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 413),
}


@pytest.mark.parametrize("rest, status", REFUSED.values(), ids=[name.replace(" ", "-") for name in REFUSED])
def test_a_request_that_is_refused_as_soon_as_it_is_connected_keeps_no_place(start_gateway, origin, rest, status):
    gateway = start(start_gateway, origin, connect_timeout="1s", request_body_bytes=3)
    for _ in range(3):
        with connect(gateway.port) as client:
            client.send(f"POST /a HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n".encode() + rest)
            assert client.head().startswith(f"HTTP/1.1 {status} ".encode())
    assert requests.get(gateway.url + "/a", timeout=10).status_code == 200


def test_what_is_too_much_is_refused_at_once_and_what_waits_is_served(start_gateway, slow):
    gateway = start(start_gateway, slow.origin)
    answers = []
    first = ask(gateway, answers)
    processes.wait_until(lambda: slow.origin.count() == 1, 10, "the first request arrived")
    more = [ask(gateway, answers) for _ in range(3)]
    # One of the three waits.
    processes.wait_until(lambda: len(answers) == 2, 5, "two requests are refused at once")
    for refused in answers:
        assert refused.status_code == 503 and refused.headers["Retry-After"] == "1"
        assert refused.json()["code"] == "upstream-busy"
        assert f'next-hop="127.0.0.1:{slow.origin.port}"; error=connection_limit_reached' in refused.headers["Proxy-Status"]
    assert slow.origin.count() == 1
    for _ in range(3):
        slow.permits.release()
    for thread in (first, *more):
        thread.join(20)
    assert [answer.status_code for answer in answers[2:]] == [200, 200]
    assert len(slow.origin.streams) == 1, "more than one connection was opened"
    assert requests.get(gateway.url + "/a", timeout=10).status_code == 200


def test_nobody_waits_for_ever(start_gateway, slow):
    gateway = start(start_gateway, slow.origin, connect_timeout="500ms")
    answers = []
    first = ask(gateway, answers)
    processes.wait_until(lambda: slow.origin.count() == 1, 10, "the first request arrived")
    waited = requests.get(gateway.url + "/a", timeout=10)
    assert waited.status_code == 503 and "became free" in waited.json()["detail"]
    slow.permits.release()
    first.join(20)
    assert answers[0].status_code == 200


def test_who_leaves_leaves_the_queue(start_gateway, slow):
    gateway = start(start_gateway, slow.origin)
    answers = []
    first = ask(gateway, answers)
    processes.wait_until(lambda: slow.origin.count() == 1, 10, "the first request arrived")
    for _ in range(3):
        with connect(gateway.port) as client:
            client.send(b"GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            # Refused at once if the one before had kept its place.
            assert client.is_quiet(0.3)
    second = ask(gateway, answers)
    for _ in range(2):
        slow.permits.release()
    for thread in (first, second):
        thread.join(20)
    assert [answer.status_code for answer in answers] == [200, 200]
    assert slow.origin.count() == 2, "a request of nobody was sent"


def test_connections_that_fail_or_end_are_not_counted(start_gateway, make_origin):
    # Each answer ends its connection.
    origin = make_origin(lambda _: response(200, b"done", "Connection: close"))
    gateway = start(start_gateway, origin, pending_per_upstream=1)
    for _ in range(20):
        assert requests.get(gateway.url + "/a", timeout=5).status_code == 200
    down = start_gateway(
        {
            "workers": 1,
            "limits": {"connections_per_upstream": 1, "pending_per_upstream": 1},
            "routes": {"a": {"upstream": f"http://127.0.0.1:{processes.free_port()}", "auth": "none"}},
        }
    )
    assert {requests.get(down.url + "/a", timeout=5).status_code for _ in range(20)} == {502}


#: What the upstream sends, the status at the client, and its content, which is None where the upstream's is broken.
ENDS = {
    "said": (OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), 200, b"ok"),
    "broken head": (b"HTTP/1.1 bad\r\n\r\n", 502, None),
    "broken chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 200, None),
    "unasked": (OK + b"HTTP/1.1 ", 200, b"ok"),
}


@pytest.mark.timing
@pytest.mark.parametrize("answer, status, content", ENDS.values(), ids=[name.replace(" ", "-") for name in ENDS])
def test_an_upstream_over_tls_that_does_not_close_what_is_over_keeps_no_place(secure, answer, status, content):
    """Its close_notify would be waited for meanwhile."""

    def steps(wire, number):
        wire.head()
        wire.send(answer)
        wire.is_quiet(3)
        time.sleep(2)

    gateway, _ = secure(steps, "origin", connections_per_upstream=1)
    started = time.monotonic()
    for _ in range(3):
        with gateway.dial() as client:
            client.send(get(gateway))
            head = client.head()
            assert head.startswith(b"HTTP/1.1 %d " % status), head
            assert content is None or client.exactly(len(content)) == content
    assert time.monotonic() - started < 0.9

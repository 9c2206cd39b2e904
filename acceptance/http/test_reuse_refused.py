"""A connection that is gone when a request is to be written, although it was good when it was looked at."""

import threading

import pytest
from harness.configs import BEARER, plain_config
from harness import processes
from harness.issuer import Issuer
from harness.libraries import shared_library
from harness.script import OK, connect, get, wait


@pytest.fixture
def refusing(tmp_path):
    """The environment that has the next POST refused once a file exists, and the file."""
    library, file = shared_library(tmp_path, "refused_send.c"), tmp_path / "refuse"
    return {"LD_PRELOAD": str(library), "REFUSED_SEND": str(file)}, file


@pytest.fixture
def issuer():
    issuer = Issuer()
    yield issuer
    issuer.stop()


BODIES = {"empty": b"", "small": b"abc", "more than is held": b"a" * (1 << 20)}


@pytest.mark.parametrize("together", [True, False], ids=["together", "head-first"])
@pytest.mark.parametrize("auth", ["renewable", "static"])
@pytest.mark.parametrize("body", BODIES.values(), ids=[name.replace(" ", "-") for name in BODIES])
def test_a_request_of_which_nothing_has_left_is_sent_over_another_connection(
    refusing, make_script, start_gateway, issuer, body, auth, together
):
    environment, refuse = refusing
    bodies = {0: [], 1: []}

    def steps(wire, number):
        while head := wire.head():
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or b"0")
            bodies[number].append(wire.exactly(length))
            wire.send(OK)

    origin = make_script(steps)
    token = BEARER if auth == "static" else issuer.credential()
    config = {
        "tokens": {"store": "memory"},
        "credentials": {"token": token},
        "routes": {"api": {"upstream": origin.url, "auth": "token"}},
    }
    gateway = start_gateway(config, environment=environment)
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
        refuse.touch()
        head = get(gateway, f"Content-Length: {len(body)}", method="POST")
        client.send(head + body if together else head)
        if not together:
            client.send(body)
        answer = client.head()
        assert answer.startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok", answer
    assert not refuse.exists(), "one was refused"
    assert bodies == {0: [b""], 1: [body]}


@pytest.mark.parametrize("unasked", [b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 6\r\n\r\npoison", b"H"], ids=["answer", "part"])
def test_what_came_before_a_request_of_which_nothing_has_left_is_not_its_answer(refusing, make_script, start_gateway, unasked):
    environment, refuse = refusing
    is_armed, requests = threading.Event(), []

    def steps(wire, number):
        while head := wire.head():
            requests.append((number, head.split(b" ")[0]))
            if head.startswith(b"POST "):
                assert wire.exactly(3) == b"abc"
            wire.send(OK)
            if number == 0:
                wait(is_armed, 5, "the next is to be refused")
                processes.wait_until(lambda: not refuse.exists(), 5, "it was looked at")
                wire.send(unasked)

    gateway = start_gateway(plain_config(make_script(steps)), environment=environment)
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok"
        refuse.write_text("when something has come")
        is_armed.set()
        client.send(get(gateway, "Content-Length: 3", method="POST") + b"abc")
        answer = client.head()
        assert answer.startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"ok", answer
    assert requests == [(0, b"GET"), (1, b"POST")]

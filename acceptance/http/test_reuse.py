"""Connections that the origin closes just when they are used again: no request is lost, and none is done twice."""

import asyncio
import hashlib
import random
import subprocess
import sys
import threading

import pytest
import requests
from harness import processes
from harness.configs import BEARER, plain_config
from harness.gateway import ROOT
from harness.script import connect, wait

CLIENTS = 16


@pytest.fixture
def hasty(seed):
    script = ROOT / "acceptance/harness/hasty_origin.py"
    process = subprocess.Popen([sys.executable, str(script), str(seed)], stdout=subprocess.PIPE, bufsize=0)
    yield f"http://127.0.0.1:{processes.first_line(process, 20)}"
    processes.end(process)


async def client(port, number, count, method):
    """One connection to the gateway, as long as it lives, with pauses as long as the origin's: the statuses by id.

    What succeeds is the answer to this request and to its body, no other's.
    """
    source = random.Random(number)
    statuses = {}
    reader = writer = None
    for request in range(count):
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        name = f"{method}-{number}-{request}".lower()
        body = b"" if method == "GET" else f"body of {name}".encode()
        length = "" if method == "GET" else f"Content-Length: {len(body)}\r\n"
        head = f"{method} /api/x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Id: {name}\r\n{length}\r\n"
        writer.write(head.encode() + body)
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        statuses[name] = int(answer.split(b" ")[1])
        length = next(int(line[15:]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        content = (await reader.readexactly(length)).decode()
        if statuses[name] == 200:
            assert content == f"{name} {hashlib.sha256(body).hexdigest()}", "the answer is another's"
        if b"connection: close" in answer.lower():
            writer.close()
            writer = None
        await asyncio.sleep(source.uniform(0, 0.006))
    return statuses


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_connections_that_die_between_requests(hasty, start_gateway, count):
    gateway = start_gateway({"routes": {"api": {"upstream": hasty, "auth": BEARER}}})

    async def run(method):
        each = [client(gateway.port, number, count // CLIENTS, method) for number in range(CLIENTS)]
        return {name: status for statuses in await asyncio.gather(*each) for name, status in statuses.items()}

    got = asyncio.run(run("GET"))
    posted = asyncio.run(run("POST"))
    report = requests.get(f"{hasty}/_count", timeout=20).json()
    unanswered = set(report["unanswered"])
    gets, posts = unanswered & set(got), unanswered & set(posted)
    print(f"{len(gets)} GETs and {len(posts)} POSTs were done and not answered")
    assert min(len(gets), len(posts)) > count // 250, "or nothing is proved"

    assert set(got.values()) == {200}, "no GET fails at the client"
    often = {name for name in got if report["done"].get(name) != 1 + (name in unanswered)}
    assert often == set(), "a GET is repeated, once, where its answer did not come, and nowhere else"

    done = {name for name in posted if name in report["done"]}
    assert [name for name in done if report["done"][name] > 1] == [], "no POST is done twice"
    # A POST whose connection died may have been done: the client is told, and decides.
    told = {name for name, status in posted.items() if status == 502}
    assert {name for name, status in posted.items() if status == 200} == done - unanswered == set(posted) - told
    assert posts <= told
    print(f"{len(told)} of {len(posted)} POSTs met a dying connection")
    assert len(told) < len(posted) // 5, "most connections can be used again"


def test_a_connection_that_dies_under_the_last_bytes_of_a_body_is_replaced(make_script, start_gateway):
    """The gateway finds the client's bytes and the end of the connection in one turn, so that sending them is what fails."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    has_half, may_die, is_dead = threading.Event(), threading.Event(), threading.Event()

    def steps(wire, number):
        if number == 0:
            wire.head()
            wire.send(answer)
            wire.head()
            assert wire.exactly(5) == b"hello"
            has_half.set()
            may_die.wait(15)
            wire.reset()
            is_dead.set()
        else:
            wire.head()
            assert wire.exactly(10) == b"helloworld"
            wire.send(answer)

    script = make_script(steps)
    gateway = start_gateway(plain_config(script))
    host = f"Host: 127.0.0.1:{gateway.port}\r\n"
    with connect(gateway.port) as client:
        client.send(f"GET /api/x HTTP/1.1\r\n{host}\r\n".encode())
        assert client.head().startswith(b"HTTP/1.1 200") and client.exactly(2) == b"ok"
        client.send(f"PUT /api/x HTTP/1.1\r\n{host}Content-Length: 10\r\n\r\nhello".encode())
        wait(has_half, 15, "the first half of the body is there")
        with gateway.halted():
            client.send(b"world")
            may_die.set()
            wait(is_dead, 15, "the connection is reset")
        assert client.head().startswith(b"HTTP/1.1 200") and client.exactly(2) == b"ok"
    assert script.failures == []

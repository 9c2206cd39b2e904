"""Clients that take their time, by the thousand: nobody else notices, and each is cut when its time is over."""

import asyncio
import contextlib
import itertools
import ssl
import subprocess
import time

import pytest
import requests
from harness.configs import BEARER
from harness import debian, proc, raw
from harness.processes import wait_until
from harness.script import OK, answering, connect
from harness.tls_script import client_context

pytestmark = pytest.mark.timing

MODES = {
    "headers": ("-H", "-i", "1"),
    "body": ("-B", "-i", "1", "-s", "8192"),
    "body that rests": ("-B", "-i", "4", "-s", "8192"),
    "range": ("-R", "-a", "5", "-b", "3000"),
    "read": ("-X", "-w", "1", "-y", "10", "-n", "1", "-z", "32", "-k", "1"),
}


#: The others keep within every limit, or are answered at once.
CUT = ("headers", "body that rests")
HEADER_SECONDS = 2


@pytest.fixture
def gateway(origin, start_gateway):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
    origin.answer = lambda request: head if request.method == "HEAD" else head + b"x" * 100_000
    limits = {"header_timeout": f"{HEADER_SECONDS}s", "body_idle_timeout": "2s", "response_timeout": "3s", "idle_timeout": "2s"}
    return start_gateway({"limits": limits, "routes": {"api": {"upstream": origin.url, "auth": BEARER}}})


@contextlib.contextmanager
def attacking(gateway, mode, connections, seconds, folder):
    size = ("-c", str(connections), "-r", str(connections), "-l", str(seconds))
    talk = ("-v", "4") if mode in CUT else ()
    with (
        (folder / "said").open("wb") as said,
        subprocess.Popen(
            [debian.binary("slowhttptest"), *MODES[mode], *size, *talk, "-p", "3", "-u", f"{gateway.url}/api/x"],
            env=debian.environment(),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        ) as attack,
    ):
        try:
            yield attack
        finally:
            attack.kill()


def cut_by_the_gateway(folder):
    """How many connections slowhttptest found closed by the other end, and how many were answered with 408 before."""
    said = (folder / "said").read_bytes()
    return said.count(b"closed: Peer closed connection"), said.count(b"HTTP/1.1 408 ")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("connections, seconds", [(200, 3), pytest.param(1000, 120, marks=pytest.mark.soak)])
def test_the_service_stays_available(gateway, origin, tmp_path, mode, connections, seconds):
    """All the time: who is cut or answered within a moment comes back."""
    pid = gateway.process.pid
    before, most, attacks, ranges = proc.descriptors(pid), 0, 0, 0
    answered = [time.monotonic()]
    ends = answered[0] + seconds
    while time.monotonic() < ends:
        attacks += 1
        # One that is cut is over when none is left; if some were not, it would close these itself after its time.
        with attacking(gateway, mode, connections, 10 if mode in CUT else seconds, tmp_path) as attack:
            while attack.poll() is None and (mode in CUT or time.monotonic() < ends):
                answer = requests.get(f"{gateway.url}/api/x", timeout=10)
                assert answer.status_code == 200 and len(answer.content) == 100_000
                answered.append(time.monotonic())
                most = max(most, proc.descriptors(pid))
        if mode in CUT:
            assert cut_by_the_gateway(tmp_path) == (connections, connections)
        ranges += sum(request.value("range") is not None for request in origin.requests)
        origin.forget()
    longest = max(later - sooner for sooner, later in itertools.pairwise(answered))
    print(f"{attacks} attacks, up to {most} descriptors, {len(answered)} answers up to {longest * 1000:.0f} ms apart")
    assert longest < (1 if connections >= 1000 else 0.5)
    if mode == "range":
        # Each of these requests is answered at once.
        assert ranges > 0.9 * connections * (attacks - 1)
    else:
        assert most - before > 0.9 * connections, "or nothing is proved"
    wait_until(lambda: proc.descriptors(pid) <= before + 8, 10, lambda: f"{proc.descriptors(pid)} of {before} descriptors")


#: Where heads stop that never end: in the method, in the target, in a field's name and in its value.
BEGINNINGS = (b"G", b"GET /api/", b"GET /api/x HTTP/1.1\r\nHost: {host}\r\nX", b"GET /api/x HTTP/1.1\r\nHost: {host}\r\nX-Slow: a")


async def dribble(port, number):
    """Sends a head that never ends, one byte now and then: after how many seconds it was cut, and what it was told."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(BEGINNINGS[number % len(BEGINNINGS)].replace(b"{host}", b"127.0.0.1:%d" % port))
    answer = asyncio.ensure_future(reader.read(-1))
    while not (await asyncio.wait([answer], timeout=0.1 + number % 11 * 0.03))[0]:
        writer.write(b"X")
    took = time.monotonic() - began
    writer.close()
    return took, raw.Answer(answer.result())


async def all_dribble(port, count):
    async with asyncio.timeout(30):
        return await asyncio.gather(*(dribble(port, number) for number in range(count)))


def test_each_slow_head_is_cut_when_its_time_is_over(gateway, origin):
    """Bytes that dribble in do not move the deadline: of a thousand connections none is cut before it or long after."""
    cut = asyncio.run(all_dribble(gateway.port, 1000))
    times = sorted(took for took, _ in cut)
    print(f"{len(times)} cut between {times[0]:.3f} and {times[-1]:.3f} s after they began, half of them within {times[500]:.3f} s")
    assert [answer.data for _, answer in cut if not answer.refuses(408)] == []
    assert HEADER_SECONDS <= times[0] and times[-1] < HEADER_SECONDS + 1
    assert origin.raw() == b""


def dribbles(wire, data):
    """Sends a byte now and then until the other end closes, or for much longer than it may wait."""
    for byte in itertools.islice(itertools.cycle(data), 60):
        if not wire.is_quiet(0.1):
            return
        wire.send(bytes([byte]))


def client_hello(context):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("stage", ["connected", "hello", "greeted", "head"])
def test_who_is_slow_over_tls_is_cut_as_soon(secure, certificate_authority, stage):
    """Before, within and after the handshake; who has begun a request is told."""
    gateway, origin = secure(answering(OK), side="listener", header_timeout=f"{HEADER_SECONDS}s", idle_timeout="1s")
    port = gateway.dial.args[0]
    began = time.monotonic()
    with connect(port) if stage in ("connected", "hello") else gateway.dial() as client:
        if stage == "hello":
            hello = client_hello(client_context(certificate_authority))
            dribbles(client, hello[: len(hello) // 2])
        elif stage == "head":
            client.send(b"GET /api/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % port)
            dribbles(client, b"X")
        data = client.to_end()
    took = time.monotonic() - began
    assert HEADER_SECONDS - 0.1 < took < HEADER_SECONDS + 1, took
    assert raw.Answer(data).refuses(408) if stage == "head" else data == b"", data
    assert not origin.wires

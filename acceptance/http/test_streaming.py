"""A gibibyte in each direction (ten of them under soak) through memory that does not grow, and back-pressure."""

import contextlib
import subprocess
import time

import pytest
from harness.configs import BEARER, CANARY, plain_config
from harness import proc, streams
from harness.proc import peak_memory_mib, resident_mib
from harness.origin import response
from harness.processes import environment, wait_until
from harness.script import OK, connect, get

BLOCKS = 1024
LIMIT_MIB = 32
#: Once what the start took is given back; far enough below the limit that the rest is for streaming.
SETTLED_MIB = 24
#: Of one body.
GIBIBYTES = [1, pytest.param(10, marks=pytest.mark.soak)]


@pytest.fixture
def upstream():
    origin = streams.StreamingOrigin(f"Bearer {CANARY}")
    yield origin
    origin.stop()


@pytest.fixture
def gateway(upstream, start_gateway):
    """What its start took, which is more than streaming takes, is given back after a moment; its peak is forgotten."""
    gateway = start_gateway({"routes": {"big": {"upstream": upstream.url, "auth": BEARER}}})
    pid = gateway.process.pid
    wait_until(lambda: resident_mib(pid) < SETTLED_MIB, 20, lambda: f"{resident_mib(pid)} MiB, less than {SETTLED_MIB}")
    proc.forget_peak(pid)
    return gateway


def memory(gateway):
    """Resident now, and at most so far, in MiB."""
    pid = gateway.process.pid
    return resident_mib(pid), peak_memory_mib(pid)


def is_flat(gateway, first, what):
    """Nine more gibibytes need no more than the first. Peaks are compared: what is resident in a moment differs by as much as a
    socket has brought; the figures are for whoever looks."""
    last = memory(gateway)
    print(f"{what}: resident {first[0]:.1f} MiB, then {last[0]:.1f} MiB; peak {first[1]:.1f} MiB, then {last[1]:.1f} MiB")
    return last[1] - first[1] < 4 and last[1] < LIMIT_MIB


@pytest.mark.footprint
@pytest.mark.timeout(600)
@pytest.mark.parametrize("gibibytes", GIBIBYTES)
def test_gibibytes_upload_in_little_memory(upstream, gateway, gibibytes):
    count = gibibytes * BLOCKS
    expected = streams.blocks(count)
    with streams.connect(gateway.port) as connection:
        head = f"POST /big/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nContent-Length: {count << 20}\r\n\r\n"
        connection.sendall(head.encode())
        for number in range(count):
            if number == BLOCKS - 1:
                first = memory(gateway)
            connection.sendall(streams.BLOCK)
        assert is_flat(gateway, first, "upload")
        assert streams.read_head(connection).startswith(b"HTTP/1.1 204")
    [received] = upstream.received
    assert (received.bytes, received.checksum) == (expected.bytes, expected.checksum)


def curl(url):
    """Its standard output is what it downloads; behind that it says on the other one what it has seen."""
    command = ["curl", "--fail", "--silent", "--max-time", "500", "--write-out", "%{stderr}%{http_code} %{size_download}"]
    # Without a buffer, what is read here is all that was taken from curl.
    return subprocess.Popen([*command, url], bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())


@pytest.mark.footprint
@pytest.mark.timeout(600)
@pytest.mark.parametrize("gibibytes", GIBIBYTES)
def test_curl_downloads_gibibytes_through_little_memory(upstream, gateway, gibibytes):
    count = gibibytes * BLOCKS
    expected = streams.blocks(count)
    received = streams.Flow()
    with curl(f"{gateway.url}/big/{count}") as download:
        streams.receive(download.stdout.readinto, BLOCKS << 20, received)
        first = memory(gateway)
        streams.receive(download.stdout.readinto, count << 20, received)
        assert is_flat(gateway, first, "download")
        assert download.communicate() == (b"", b"200 %d" % (count << 20))
    assert download.returncode == 0
    assert (received.bytes, received.checksum) == (expected.bytes, expected.checksum)


def test_the_origin_of_these_bodies_wants_our_credential(upstream):
    with curl(f"{upstream.url}/1") as download:
        assert download.communicate() == (b"", b"401 0") and download.returncode == 22


@pytest.mark.footprint
def test_a_client_that_stops_reading_stops_the_origin(upstream, gateway):
    with streams.connect(gateway.port) as connection:
        connection.sendall(f"GET /big/{BLOCKS} HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n\r\n".encode())
        assert streams.read_head(connection).startswith(b"HTTP/1.1 200")
        sent, held = streams.stuck(lambda: upstream.sent, gateway.port, upstream.port)
        assert sent < BLOCKS << 20 and 0 <= held < streams.WINDOW, (sent, held)
        assert peak_memory_mib(gateway.process.pid) < LIMIT_MIB


@pytest.mark.footprint
@pytest.mark.parametrize("case", ["no-length", "chunks-to-1.0", "chunks-of-a-byte-to-1.0"])
def test_a_client_that_stops_reading_stops_an_origin_whose_answer_is_framed_anew(make_script, start_gateway, case):
    """Into chunks (docs/internals/adr/0026), and out of them."""
    size = 1 if case == "chunks-of-a-byte-to-1.0" else 60_000
    chunk = b"%x\r\n%s\r\n" % (size, b"x" * size)
    block = b"x" * (1 << 16) if case == "no-length" else chunk * (65_536 // len(chunk))
    sent = 0

    def steps(wire, number):
        nonlocal sent
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\n" + (b"" if case == "no-length" else b"Transfer-Encoding: chunked\r\n") + b"\r\n")
        while sent < BLOCKS << 20:
            sent += wire.connection.send(block)

    origin = make_script(steps)
    gateway = start_gateway({"routes": {"big": {"upstream": origin.url, "auth": BEARER}}})
    with streams.connect(gateway.port) as connection:
        version = "1.1" if case == "no-length" else "1.0"
        connection.sendall(get(gateway, path="/big/x", version=version))
        assert streams.read_head(connection).startswith(b"HTTP/1.1 200")
        wait_until(lambda: streams.in_the_kernel(gateway.port) > 1 << 20, 60, "much waits for the client")
        taken, before, behind = streams.stands_still(
            lambda: (sent, streams.in_the_kernel(origin.port), streams.in_the_kernel(gateway.port))
        )
        assert 0 < taken < BLOCKS << 20
        # Of chunks, only the content goes on to a client of 1.0.
        left = taken - before
        held = (left if case == "no-length" else left * size // len(chunk)) - behind
        assert held < streams.WINDOW, (taken, before, behind, held)
        assert peak_memory_mib(gateway.process.pid) < LIMIT_MIB + 16


CROWDS = {"busy": (256, 25), "idle": (8000, 200)}


@pytest.mark.parametrize("kind", CROWDS)
def test_many_connections_take_little_memory(origin, start_gateway, kind):
    """Kept open behind a request each; those that are idle are as many as one gateway takes by itself, nearly."""
    count, most = CROWDS[kind]
    origin.answer = lambda request: response(200, b"{" + b" " * 1022 + b"}")
    gateway = start_gateway(plain_config(origin))
    pid = gateway.process.pid
    with contextlib.ExitStack() as crowd:
        clients = [crowd.enter_context(connect(gateway.port, 30)) for _ in range(count)]
        for _ in range(8 if kind == "busy" else 1):
            for some in range(0, count, 256):
                for client in clients[some : some + 256]:
                    client.send(get(gateway))
                for client in clients[some : some + 256]:
                    assert client.head().startswith(b"HTTP/1.1 200") and len(client.exactly(1024)) == 1024
                    client.received = b""
        assert proc.descriptors(pid) > count
        wait_until(lambda: resident_mib(pid) < most, 10, lambda: f"{resident_mib(pid)} MiB with {count} connections")
        print(f"{count} connections: {resident_mib(pid):.1f} MiB resident")


@pytest.mark.timing
def test_an_origin_that_stops_reading_stops_the_client(upstream, gateway):
    upstream.reads.clear()
    sent = 0
    with streams.connect(gateway.port) as connection:
        head = f"POST /big/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nContent-Length: {BLOCKS << 20}\r\n\r\n"
        connection.sendall(head.encode())
        connection.settimeout(0.7)
        with pytest.raises(TimeoutError):
            while sent < BLOCKS << 20:
                sent += connection.send(streams.BLOCK)
        held = sent - streams.in_the_kernel(gateway.port, upstream.port)
        assert 0 <= held < streams.WINDOW, (sent, held)
        assert peak_memory_mib(gateway.process.pid) < LIMIT_MIB
        upstream.reads.set()


# Messages that do not end where a read ends: what was read of one before must not stay


#: Two hundred MiB of heads, which would all stay.
MESSAGES, FILLER = 7000, 30_000


def test_requests_of_which_the_next_has_always_begun_take_no_memory(gateway):
    """Neither a token nor a known path is asked of whoever sends them."""
    before = resident_mib(gateway.process.pid)
    request = get(gateway, "X-Filler: " + "x" * FILLER, path="/nowhere")
    with connect(gateway.port) as client:
        client.send(request[:1])
        for _ in range(MESSAGES):
            client.send(request[1:] + request[:1])
            head = client.head()
            assert head.startswith(b"HTTP/1.1 404 "), head
            client.exactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
            client.received = b""
        assert peak_memory_mib(gateway.process.pid) - before < 32


def test_interim_answers_of_which_the_next_has_always_begun_take_no_memory(make_script, start_gateway):
    begun = 20_000
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: <" + b"x" * FILLER + b">\r\n\r\n"

    def steps(wire, number):
        wire.head()
        wire.send(interim[:begun])
        for _ in range(MESSAGES // 2):
            wire.send((interim[begun:] + interim[:begun]) * 2)
            # So that most reads end there.
            time.sleep(0.0005)
        wire.send(interim[begun:] + OK)

    gateway = start_gateway({"routes": {"api": {"upstream": make_script(steps).url, "auth": {"strategy": "none"}}}})
    before = resident_mib(gateway.process.pid)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: close"))
        end = b""
        while data := client.connection.recv(1 << 20):
            end = (end + data)[-2:]
        assert end == b"ok"
        assert peak_memory_mib(gateway.process.pid) - before < 32

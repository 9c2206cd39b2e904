"""Heads that never end, and connections from one address: what strangers can take is bounded, and it is given back."""

import contextlib
import json
import select
import socket

import pytest
import requests
from h2.errors import ErrorCodes
from harness import http2, proc, processes
from harness.configs import plain_config
from harness.names import add_address
from harness.raw import Answer
from harness.script import Wire, connect, get

#: Of each head. No header field is too large for `header_bytes`, and no head is whole.
SIZE = 60_000
HEADER_BYTES = "64KiB"


def beginning(gateway, size=SIZE):
    """The first bytes of a request, without the end of its head."""
    head = get(gateway, "X-Long: ").removesuffix(b"\r\n\r\n")
    return head + b"a" * (size - len(head))


@pytest.fixture
def start(origin, start_gateway):
    def start(workers=2, **limits):
        limits = {"header_bytes": HEADER_BYTES, **limits}
        return start_gateway({**plain_config(origin), "workers": workers, "limits": limits})

    return start


@pytest.fixture
def open_many():
    """Opens connections that each send the same bytes; they are closed in the end."""
    with contextlib.ExitStack() as wires:

        def open_many(gateway, count, data):
            found = []
            for _ in range(count):
                wire = wires.enter_context(connect(gateway.port))
                # One that was ended already takes no more.
                with contextlib.suppress(ConnectionError):
                    wire.send(data)
                found.append(wire)
            return found

        yield open_many


def ended(wires):
    """Those to which the gateway has said something."""
    poll = select.poll()
    for wire in wires:
        poll.register(wire.connection, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(0)}
    return [wire for wire in wires if wire.connection.fileno() in ready]


def is_served(gateway):
    return requests.get(gateway.url + "/api/x", timeout=5).status_code == 200


# Which head gives way


def test_at_the_limit_the_oldest_heads_are_answered_with_408(start, open_many):
    """17 heads of this size fit into 1 MiB."""
    gateway = start(workers=1, head_memory="1MiB")
    wires = []
    for _ in range(20):
        wires += open_many(gateway, 1, beginning(gateway))
        # Each is read before the next one begins.
        assert is_served(gateway)
    processes.wait_until(lambda: len(ended(wires)) >= 3, 5, "the oldest heads are answered")
    gone = ended(wires)
    assert gone == wires[: len(gone)] and len(gone) <= 5, [wires.index(wire) for wire in gone]
    for wire in gone:
        answer = Answer(wire.to_end())
        assert answer.refuses(408), answer.data
        problem = json.loads(answer.body)
        assert problem["code"] == "request-timeout" and "head_memory" in problem["detail"]
    # The others are as good as any.
    for wire in wires[len(gone) :]:
        wire.send(b"\r\n\r\n")
        assert wire.head().startswith(b"HTTP/1.1 200 ")


def test_all_connections_and_workers_share_it(start, open_many, origin):
    gateway = start(head_memory="1MiB")
    wires = open_many(gateway, 100, beginning(gateway))
    processes.wait_until(lambda: len(ended(wires)) >= 80, 5, lambda: f"{len(ended(wires))} of 100 are answered")
    assert is_served(gateway)
    gone = ended(wires)
    assert 10 <= len(wires) - len(gone) <= 18
    assert {Answer(wire.to_end()).status for wire in gone} == {408}
    assert origin.count() == 1


def test_small_pieces_count_as_well(start, open_many):
    """Of heads that grow little by little the oldest gives way, also when another one grows."""
    gateway = start(head_memory="1MiB")
    wires = open_many(gateway, 40, beginning(gateway, 1000))
    assert is_served(gateway) and ended(wires) == []
    for _ in range(9):
        gone = ended(wires)
        for wire in wires:
            if wire not in gone:
                with contextlib.suppress(ConnectionError):
                    wire.send(b"a" * 5000)
        assert is_served(gateway)
    processes.wait_until(lambda: len(ended(wires)) >= 15, 5, lambda: f"{len(ended(wires))} of 40 are answered")
    assert len(ended(wires)) < 30


def test_a_head_that_ends_takes_nothing_any_more(start, open_many):
    """Whole heads, clients that leave, and heads that are refused: a hundred of them leave room for as many as before."""
    gateway = start(head_memory="1MiB")
    #: What follows the beginning of a head, and how it is answered.
    ends = [(b"\r\n\r\n", b"200"), (None, None), (b"\r\nX Y: 1\r\n\r\n", b"400")]
    for number in range(100):
        [wire] = open_many(gateway, 1, beginning(gateway, 50_000))
        end, status = ends[number % len(ends)]
        if end:
            wire.send(end)
            assert wire.head().split(b" ")[1] == status
        wire.close()
    assert is_served(gateway)
    wires = open_many(gateway, 15, beginning(gateway))
    assert is_served(gateway)
    assert ended(wires) == [] and wires[0].is_quiet(0.2)


def test_heads_of_http2_count_as_well(start, origin):
    """15 of them fit into 1 MiB. Nobody can answer them before they are whole, so the connection of the oldest ends."""
    # None of them ends for its age.
    gateway = start(workers=1, head_memory="1MiB", header_timeout="10m")
    with contextlib.ExitStack() as stack:
        clients, rests = [], []
        for _ in range(20):
            client = stack.enter_context(contextlib.closing(http2.connect(gateway.port)))
            client.until(lambda client=client: client.settings)
            # Three frames of 16 KiB, and a part of the fourth.
            client.h2.send_headers(1, client.fields(more=[("x-long", "~" * 40_000)]), end_stream=True)
            head = client.h2.data_to_send()
            client.send(head[:-100])
            clients.append(client)
            rests.append(head[-100:])
            assert is_served(gateway)
        for client in clients[:3]:
            assert client.until_end() == [ErrorCodes.ENHANCE_YOUR_CALM]
        clients[-1].send(rests[-1])
        assert clients[-1].finish(1).status == 200
    assert origin.count() == 21


# Memory


def test_the_process_stays_small_and_gives_the_memory_back(start, open_many):
    """1,500 heads of 60 KB are 86 MiB."""
    gateway = start(head_memory="8MiB")
    pid = gateway.process.pid
    assert is_served(gateway)
    before = proc.resident_mib(pid)
    proc.forget_peak(pid)
    wires = open_many(gateway, 1500, beginning(gateway))
    assert is_served(gateway)
    peak = proc.peak_memory_mib(pid)
    for wire in wires:
        wire.close()
    assert is_served(gateway)
    print(f"{before:.0f} MiB before, {peak:.0f} MiB at the most")
    # The heads, and for each connection the buffer that it last read into: 64 KiB at most.
    assert peak - before < 8 + 1500 / 16
    processes.wait_until(lambda: proc.resident_mib(pid) - before < 32, 5, lambda: f"{proc.resident_mib(pid):.0f} MiB are left")


def test_the_default_bounds_it_too(start, open_many):
    """64 MiB; 3,000 heads of 60 KB are 172 MiB."""
    # No head is answered for its age, however long it takes to send them.
    gateway = start(header_timeout="10m")
    pid = gateway.process.pid
    assert is_served(gateway)
    before = proc.resident_mib(pid)
    proc.forget_peak(pid)
    wires = open_many(gateway, 3000, beginning(gateway))
    # As many as 64 MiB have no room for, once the workers have read what was sent.
    too_many = 3000 - (64 << 20) // SIZE
    processes.wait_until(lambda: len(ended(wires)) >= too_many, 60, lambda: f"{len(ended(wires))} of {too_many} are answered")
    assert is_served(gateway)
    peak = proc.peak_memory_mib(pid)
    print(f"{before:.0f} MiB before, {peak:.0f} MiB at the most")
    # As above. Without the bound it would be 172 MiB more.
    assert peak - before < 64 + 3000 / 16
    gone = ended(wires)
    # Two workers that both find the sum too large may end one head too many each time.
    assert len(gone) < too_many + 100, len(gone)
    answers = [Answer(wire.to_end()) for wire in gone]
    assert all(answer.refuses(408) and "limits.head_memory: 64MiB" in json.loads(answer.body)["detail"] for answer in answers)


def test_new_clients_are_served_all_the_while(start, open_many):
    gateway = start(head_memory="1MiB")
    for _ in range(20):
        open_many(gateway, 20, beginning(gateway))
        assert is_served(gateway)


# Connections from one address


@pytest.fixture
def at(network):
    """Connects from an address to a port of the same machine."""
    made = []

    def at(address, port, source=None):
        there = (address, port)
        wire = Wire(socket.create_connection(there, 5, (source or address, 0)), 5)
        made.append(wire)
        return wire

    yield at
    for wire in made:
        wire.close()


TOKEN = "token-of-the-laptop"


def ask(wire):
    wire.send(f"GET /api/x HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    answer = Answer(wire.head())
    answer.body = wire.exactly(int(answer.values("content-length")[0]))
    return answer


@pytest.fixture
def wide(network, origin, start_gateway):
    """Starts a gateway that listens on every address; each address may have three connections."""
    for address in ("192.0.2.1", "192.0.2.9", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"):
        add_address(address)
    four, six = processes.free_port(), processes.free_port()
    config = {
        **plain_config(origin),
        "access": {"clients": {"laptop": {"token": TOKEN}}},
        "limits": {"connections_per_address": 3},
    }
    start_gateway(config, listeners=[{"address": f"0.0.0.0:{four}"}, {"address": f"[::]:{six}"}])
    return four, six


def test_one_address_has_no_more_connections_than_the_limit(wide, at):
    port, _ = wide
    wires = [at("192.0.2.1", port) for _ in range(3)]
    assert [ask(wire).status for wire in wires] == [200] * 3
    refused = Answer(at("192.0.2.1", port).to_end())
    assert refused.refuses(503) and refused.values("retry-after") == ["1"], refused.data
    # Others are not concerned, and who is connected goes on.
    assert ask(at("192.0.2.9", port)).status == 200
    assert [ask(wire).status for wire in wires] == [200] * 3
    wires[0].close()
    processes.wait_until(lambda: ask_or_refused(at("192.0.2.1", port)) == 200, 5, "there is room for another one")


def ask_or_refused(wire):
    """The status of the answer, also where it comes before the request."""
    with contextlib.suppress(ConnectionError):
        return ask(wire).status
    return None


def test_loopback_is_not_counted(wide, at):
    port, _ = wide
    assert [ask(at("127.0.0.1", port)).status for _ in range(10)] == [200] * 10


def test_an_address_of_ipv6_counts_with_all_of_its_network(wide, at):
    """A host has as many addresses of its /64 as it likes."""
    _, port = wide
    wires = [at("2001:db8::1", port, source) for source in ("2001:db8::1", "2001:db8::2", "2001:db8::1")]
    assert [ask(wire).status for wire in wires] == [200] * 3
    assert Answer(at("2001:db8::1", port, "2001:db8::2").to_end()).refuses(503)
    assert ask(at("2001:db8::1", port, "2001:db8:0:1::1")).status == 200

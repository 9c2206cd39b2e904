"""How often the program asks for memory for a request, with all on that a fleet uses; counted in the program that is released."""

import itertools

import pytest
from harness.configs import BEARER
from harness.gateway import ROOT
from harness.libraries import shared_library
from harness.script import connect, get

SOURCE = ROOT / "Benchmarks/Micro/CAllocationCount"
CLIENT_TOKEN = "a-token-of-a-client"
ANSWER = (
    b"HTTP/1.1 200 OK\r\nDate: Sun, 01 Mar 2026 09:30:00 GMT\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
    b"Connection: keep-alive\r\n\r\n{}"
)
ROUNDS, REQUESTS = 3, 5000


@pytest.fixture
def counter(tmp_path):
    """A library that counts the allocations of the program that is started with it, and the file with the count."""
    library = shared_library(tmp_path, SOURCE / "allocation_count.c", f"-I{SOURCE}/include", "-fno-builtin")
    count = tmp_path / "count"
    count.write_bytes(bytes(8))
    return library, count


def test_a_request_asks_for_memory_once(counter, make_script, start_gateway):
    def steps(wire, _):
        while wire.head():
            wire.send(ANSWER)

    library, count = counter
    rules = {"clients": ["laptop"], "allow": [{"methods": ["GET"], "path": "/things/**"}]}
    gateway = start_gateway(
        {
            "access": {"clients": {"laptop": {"token": CLIENT_TOKEN}}},
            "routes": {name: {"upstream": make_script(steps).url, "auth": BEARER, **rules} for name in ("api", "other")},
        },
        environment={"LD_PRELOAD": str(library), "ALLOCATION_COUNT": str(count)},
    )
    fields = [f"Authorization: Bearer {CLIENT_TOKEN}", "Accept: application/json", "Connection: keep-alive"]
    request = get(gateway, *fields, path="/api/things/1?page=2")

    def ask(number):
        for _ in range(number):
            client.send(request)
            assert client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(2) == b"{}"
            client.received = b""
        return int.from_bytes(count.read_bytes(), "little")

    with connect(gateway.port) as client:
        counts = [ask(500), *(ask(REQUESTS) for _ in range(ROUNDS))]
    assert counts[0] > 0, "the program's allocations are counted"
    each = [(after - before) / REQUESTS for before, after in itertools.pairwise(counts)]
    print("allocations for each request: " + ", ".join(f"{one:.2f}" for one in each))
    # What the rest of the program does in these seconds is counted, too; a second one for each request would make this two.
    assert max(each) < 1.5

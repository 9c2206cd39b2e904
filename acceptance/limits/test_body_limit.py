"""limits.request_body_bytes: 413 at once for a body that is announced as too long, and for one that turns out to be."""

import subprocess

import pytest
import requests
from harness.configs import BEARER
from harness import raw
from harness.script import get

LIMIT = 100_000


@pytest.fixture
def gateway(origin, start_gateway):
    routes = {"api": {"upstream": origin.url, "auth": BEARER}}
    return start_gateway({"limits": {"request_body_bytes": LIMIT}, "routes": routes})


def chunks(size):
    for start in range(0, size, 1000):
        yield b"x" * min(1000, size - start)


def test_a_body_up_to_the_limit_arrives_whole(gateway, origin):
    for data in (b"x" * LIMIT, chunks(LIMIT)):
        assert requests.post(f"{gateway.url}/api/x", data=data, timeout=10).status_code == 200
        assert len(origin.last().body) == LIMIT


def test_one_byte_more_is_answered_with_413_and_no_request_is_done(gateway, origin):
    for data in (b"x" * (LIMIT + 1), chunks(LIMIT + 1)):
        answer = requests.post(f"{gateway.url}/api/x", data=data, timeout=10)
        assert answer.status_code == 413 and answer.headers["Connection"] == "close"
        problem = answer.json()
        assert problem["type"].endswith("content-too-large") and f"limits.request_body_bytes: {LIMIT}" in problem["detail"]
    assert origin.requests == []


def test_nothing_behind_a_body_that_is_too_long_is_a_request(gateway, origin):
    smuggled = get(gateway, path="/api/smuggled")
    announced = get(gateway, f"Content-Length: {LIMIT + 1}", method="POST")
    chunked = get(gateway, "Transfer-Encoding: chunked", method="POST") + b"%x\r\n%s\r\n" % (LIMIT + 1, b"x" * (LIMIT + 1))
    for request in (announced, chunked, chunked + b"0\r\n\r\n"):
        answer = raw.exchange(gateway.port, request + smuggled)
        assert answer.refuses(413), answer.data
    assert origin.requests == [] and b"smuggled" not in origin.raw()


def test_curl_reads_the_answer_of_a_large_upload(gateway, origin, tmp_path):
    (tmp_path / "large").write_bytes(b"x" * 50_000_000)
    words = ["curl", "-sS", "-w", "%{http_code}", "-o", tmp_path / "answer", "-T", tmp_path / "large", f"{gateway.url}/api/x"]
    # Without Expect it sends at once; a chunked body is too long only when so much of it has come.
    for fields in ([], ["Expect:"], ["Transfer-Encoding: chunked"], ["Expect:", "Transfer-Encoding: chunked"]):
        more = [word for field in fields for word in ("-H", field)]
        done = subprocess.run([*words, *more], capture_output=True, text=True, check=False, timeout=30)
        assert done.stdout == "413", (fields, done.stderr)
    assert origin.requests == []

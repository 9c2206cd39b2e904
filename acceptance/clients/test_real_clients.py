"""Programs with habits of their own: git, apt, aiohttp, and curl in its rarer ways."""

import asyncio
import gzip
import hashlib
import re
import select
import subprocess
import threading

import aiohttp
import httpx
import pytest
from harness.bytes import noise
from harness.clients import curl
from harness.configs import BEARER, CANARY
from harness import debian
from harness.origin import response
from harness.processes import environment
from harness.script import ScriptedOrigin, connect



@pytest.fixture
def gateway(origin, start_gateway):
    return start_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER}}})


@pytest.fixture
def servers(tmp_path):
    made = []
    yield lambda make, *arguments, **options: made.append(make(tmp_path / f"server-{len(made)}", *arguments, **options)) or made[-1]
    for server in made:
        server.stop()


# curl

FILE = bytes(range(256)) * 4000


def with_ranges(request):
    assert request.value("authorization") == f"Bearer {CANARY}"
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.value("range") or "")
    if not wanted:
        return response(200, FILE, "Accept-Ranges: bytes", 'ETag: "file"')
    first, last = int(wanted[1]), int(wanted[2] or len(FILE) - 1)
    return response(206, FILE[first : last + 1], f"Content-Range: bytes {first}-{last}/{len(FILE)}", 'ETag: "file"')


def test_curl_takes_a_range(gateway, origin, tmp_path):
    origin.answer = with_ranges
    curl("--range", "1000-1999", "-o", tmp_path / "part", f"{gateway.url}/api/file")
    assert (tmp_path / "part").read_bytes() == FILE[1000:2000]


def test_curl_resumes_a_download_that_was_cut(gateway, origin, tmp_path):
    def cut(request):
        yield response(200, FILE, "Accept-Ranges: bytes")[: len(FILE) // 2]
        raise ValueError("the origin closes in the middle")

    origin.answer = cut
    first = curl("-o", tmp_path / "file", f"{gateway.url}/api/file")
    assert first.returncode in (18, 56), "curl knows that the file is not whole"
    assert 0 < (tmp_path / "file").stat().st_size < len(FILE)
    origin.answer = with_ranges
    second = curl("-C", "-", "-o", tmp_path / "file", f"{gateway.url}/api/file")
    assert second.returncode == 0, second
    assert (tmp_path / "file").read_bytes() == FILE


def test_curl_retries_nothing_that_it_need_not(gateway, origin):
    origin.answer = lambda request: response(200, b"x" * 10)
    urls = [f"{gateway.url}/api/{number}" for number in range(20)]
    result = curl("--fail", "--retry", "3", *urls)
    assert result.stdout == "x" * 200 and origin.count() == 20 and len(origin.streams) == 1


@pytest.mark.parametrize("version", ["--http1.1", "--http1.0"])
def test_curl_uploads_from_a_pipe(gateway, origin, version):
    """Chunked in 1.1; in 1.0 there is no way, and curl says so."""
    body = noise(300_000)
    result = subprocess.run(
        ["curl", "--silent", "--max-time", "20", version, "-T", "-", f"{gateway.url}/api/upload"],
        check=False,
        input=body,
        capture_output=True,
        timeout=30,
        env=environment(),
    )
    if version == "--http1.1":
        assert result.returncode == 0, result
        assert (origin.last().framing, origin.last().body) == ("chunked", body)
    else:
        assert result.returncode != 0 and origin.count() == 0


def test_curl_uploads_to_an_origin_that_refuses_at_once(gateway, origin, make_script, start_gateway, tmp_path):
    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")

    gateway = start_gateway({"routes": {"api": {"upstream": make_script(steps).url, "auth": BEARER}}})
    (tmp_path / "body").write_bytes(bytes(5_000_000))
    result = curl("-w", "%{http_code}", "-H", "Expect:", "--data-binary", f"@{tmp_path}/body", f"{gateway.url}/api/x")
    assert result.stdout == "big413", result


def test_compressed_content_is_left_alone(gateway, origin):
    origin.answer = lambda request: response(200, gzip.compress(b"plain" * 1000), "Content-Encoding: gzip")
    result = curl("--compressed", f"{gateway.url}/api/x")
    assert result.stdout == "plain" * 1000
    assert origin.last().value("accept-encoding").startswith("deflate, gzip")


# aiohttp, httpx


def test_aiohttp_streams_both_ways(gateway, origin):
    async def parts():
        for number in range(50):
            yield b"%04d" % number * 100

    async def run():
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{gateway.url}/api/x", data=parts()) as answer:
                assert (answer.status, await answer.read()) == (200, b"hello from the origin\n")
            async with session.get(f"{gateway.url}/api/x", expect100=True, data=b"body") as answer:
                assert answer.status == 200
            origin.answer = lambda request: response(200, request.target.encode() + request.body)
            calls = [session.put(f"{gateway.url}/api/{number}", data=b"%d" % number) for number in range(200)]
            return [(answer.status, await answer.read()) for answer in await asyncio.gather(*calls)]

    assert asyncio.run(run()) == [(200, b"/%d%d" % (number, number)) for number in range(200)]
    assert origin.requests[0].framing == "chunked" and len(origin.requests[0].body) == 20_000
    assert all(request.values("authorization") == [f"Bearer {CANARY}"] for request in origin.requests)


def test_httpx_reads_events_as_they_come(make_script, start_gateway):
    go_on = threading.Semaphore(0)

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for count in range(10):
            assert go_on.acquire(timeout=10)
            wire.send(b"id: %d\ndata: event %d\n\n" % (count, count))

    gateway = start_gateway({"routes": {"api": {"upstream": make_script(steps).url, "auth": BEARER}}})
    with httpx.stream("GET", f"{gateway.url}/api/events", trust_env=False, timeout=10) as answer:
        lines = answer.iter_lines()
        for count in range(10):
            go_on.release()
            assert [next(lines) for _ in range(3)] == [f"id: {count}", f"data: event {count}", ""]
        assert list(lines) == []


# git


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mebibytes", [5, pytest.param(100, marks=pytest.mark.soak)])
def test_git_clones_and_pushes_over_smart_http(servers, start_gateway, tmp_path, mebibytes):
    def git(*words, cwd=tmp_path):
        clean = environment(GIT_CONFIG_NOSYSTEM="1", HOME=str(tmp_path), GIT_TERMINAL_PROMPT="0")
        options = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main")
        result = subprocess.run(["git", *options, *words], check=False, cwd=cwd, env=clean, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr
        return result.stdout

    git("init", "--bare", "root/project.git")
    git("config", "http.receivepack", "true", cwd=tmp_path / "root/project.git")
    server = servers(
        debian.gunicorn, "git_server:application", GIT_PROJECT_ROOT=str(tmp_path / "root"), GIT_USER="robot", GIT_PASSWORD=CANARY
    )
    auth = {"strategy": "basic", "username": "robot", "password": CANARY}
    gateway = start_gateway({"routes": {"git": {"upstream": server.url, "auth": auth}}})
    url = f"{gateway.url}/git/project.git"

    git("init", "first")
    content = noise(mebibytes << 20)
    (tmp_path / "first/big.bin").write_bytes(content)
    for number in range(200):
        (tmp_path / f"first/{number}.txt").write_text(f"file {number}\n" * 50)
    git("add", ".", cwd=tmp_path / "first")
    git("commit", "-m", "first", cwd=tmp_path / "first")
    git("push", url, "HEAD:main", cwd=tmp_path / "first")

    git("clone", "--branch", "main", url, "second")
    assert hashlib.sha256((tmp_path / "second/big.bin").read_bytes()).digest() == hashlib.sha256(content).digest()
    (tmp_path / "second/new.txt").write_text("new\n")
    git("add", ".", cwd=tmp_path / "second")
    git("commit", "-m", "second", cwd=tmp_path / "second")
    git("push", "origin", "HEAD:main", cwd=tmp_path / "second")
    git("clone", "--depth", "1", "--branch", "main", url, "third")
    assert (tmp_path / "third/new.txt").read_text() == "new\n"
    git("fsck", "--full", cwd=tmp_path / "second")


# apt


def passing(port, depths):
    """Between a client and the gateway: passes all on, and notes how many requests wait for their answer to begin."""

    def steps(wire, number):
        with connect(port) as gateway:
            ends = {wire.connection: (wire, gateway), gateway.connection: (gateway, wire)}
            while ready := select.select(list(ends), [], [], 30)[0]:
                for source, other in map(ends.get, ready):
                    if not source.more():
                        return
                    other.send(source.exactly(len(source.buffer)))
                depths.append(wire.received.count(b"\r\n\r\n") - gateway.received.count(b"HTTP/1.1 "))

    return steps


@pytest.mark.parametrize("way", ["by path", "as a proxy"])
def test_apt_installs_from_a_repository_with_pipelining(servers, start_gateway, tmp_path, way):
    repository = tmp_path / "repository"
    pool, lists = repository / "pool", repository / "dists/stable/main/binary-amd64"
    pool.mkdir(parents=True)
    lists.mkdir(parents=True)
    index = []
    for number in range(12):
        name = f"authgateway-test-{number}"
        content = tmp_path / name
        (content / "DEBIAN").mkdir(parents=True)
        (content / "payload").write_bytes(noise(50_000))
        control = f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: Test <test@example.com>\nDescription: test\n"
        (content / "DEBIAN/control").write_text(control)
        file = pool / f"{name}.deb"
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", content, file], check=True, capture_output=True)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        index.append(f"{control}Filename: pool/{file.name}\nSize: {file.stat().st_size}\nSHA256: {digest}\n")
    packages = "\n".join(index).encode()
    (lists / "Packages").write_bytes(packages)
    digest = hashlib.sha256(packages).hexdigest()
    release = f"Suite: stable\nCodename: stable\nComponents: main\nArchitectures: amd64\nSHA256:\n {digest} {len(packages)} main/binary-amd64/Packages\n"
    (repository / "dists/stable/Release").write_text(release)

    guard = f'if ($http_authorization != "Bearer {CANARY}") {{ return 403; }}'
    server = servers(debian.nginx, f"root {repository}; {guard}")
    gateway = start_gateway({"routes": {"apt": {"upstream": server.url, "auth": BEARER}}})
    depths = []
    # The same port, because the gateway answers for its own only.
    tap = servers(lambda _: ScriptedOrigin(passing(gateway.port, depths), port=gateway.port, host="127.0.0.2"))

    root = tmp_path / "apt"
    for folder in ("lists/partial", "archives/partial", "etc", "out"):
        (root / folder).mkdir(parents=True)
    (root / "status").touch()
    url = f"{tap.url}/apt/" if way == "by path" else f"{server.url}/"
    (root / "etc/sources.list").write_text(f"deb [trusted=yes] {url} stable main\n")
    proxy = "false" if way == "by path" else tap.url

    def apt(*words):
        options = {
            "APT::Sandbox::User": "", "APT::Architecture": "amd64", "Dir::State::lists": root / "lists",
            "Dir::State::status": root / "status", "Dir::Cache": root, "Dir::Cache::archives": root / "archives",
            "Dir::Etc::sourcelist": root / "etc/sources.list", "Dir::Etc::sourceparts": "-", "Dir::Etc::parts": "-",
            "Dir::Etc::main": "-", "Dir::Etc::preferencesparts": "-", "Acquire::http::Proxy": proxy,
            "Acquire::http::Pipeline-Depth": 10, "Acquire::Languages": "none", "Acquire::Retries": 0,
        }
        flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        result = subprocess.run(
            ["apt-get", *flags, *words], check=False, cwd=root / "out", env=environment(LC_ALL="C"), capture_output=True, text=True, timeout=120
        )
        assert result.returncode == 0 and "Err:" not in result.stdout, result.stdout + result.stderr

    apt("update")
    depths.clear()
    apt("install", "--download-only", "--yes", *(f"authgateway-test-{number}" for number in range(12)))
    assert max(depths) > 3, "many requests were under way on one connection"
    fetched = {file.name: file.read_bytes() for file in (root / "archives").glob("*.deb")}
    assert len(fetched) == 12
    for number in range(12):
        assert fetched[f"authgateway-test-{number}_1.0_all.deb"] == (pool / f"authgateway-test-{number}.deb").read_bytes()

"""HTTPS through the gateway: clients that use it as their proxy, send CONNECT, and trust its local CA."""

import asyncio
import json
import os
import pathlib
import socket
import ssl
import subprocess
import threading
import urllib.request

import aiohttp
import httpx
import pytest
import requests
from cryptography import x509
from harness.bytes import noise
from harness import debian, processes
from harness.configs import BEARER, CANARY
from harness.http2_origin import server_context
from harness.https_clients import GIT

TOKEN = "token-of-the-laptop-1"


def port_of(url):
    return int(url.rsplit(":", 1)[1])


@pytest.fixture
def configured(named_upstream, certificate_authority):
    def configured(**more):
        tls = {"ca": str(certificate_authority.certificate)}
        upstream = f"https://localhost:{port_of(named_upstream.url)}"
        return {
            "routes": {"named": {"upstream": upstream, "auth": BEARER, "tls": tls}},
            **more,
        }

    return configured


def listener(intercept=True):
    return {"address": f"127.0.0.1:{processes.free_port()}", **({"intercept": True} if intercept else {})}


@pytest.fixture
def intercepting(start_gateway, configured):
    def start(**more):
        place = listener()
        gateway = start_gateway(configured(**more), listeners=[place])
        gateway.proxy = f"http://{place['address']}"
        gateway.proxy_listeners = [place]
        gateway.ca = gateway.run("ca", "show", "--path").stdout.strip()
        gateway.target = configured()["routes"]["named"]["upstream"]
        return gateway

    return start


def curl(gateway, *words, proxy=None, url=None):
    command = ["curl", "-sS", "-i", "--http1.1", "-x", proxy or gateway.proxy, "--cacert", gateway.ca, *words, url or gateway.target + "/x"]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=30, env=processes.environment())


def test_transport_security_is_that_of_the_host(start_gateway, make_http2_origin, certificate_authority):
    """It passes where the client asks for the upstream's own host; `Alt-Svc` would lead it around the gateway."""
    fields = [("strict-transport-security", "max-age=60"), ("alt-svc", 'h3=":443"'), ("x-note", "1")]
    origin = make_http2_origin(server_context(*certificate_authority.issue("hsts", "DNS:localhost,IP:127.0.0.1"), "h2"))
    origin.respond = lambda stream: stream.answer(200, b"ok", fields)
    upstream = f"https://localhost:{origin.port}"
    route = {"upstream": upstream, "auth": BEARER, "protocol": "auto", "tls": {"ca": str(certificate_authority.certificate)}}
    place = listener()
    gateway = start_gateway({"routes": {"named": route}}, listeners=[place])
    gateway.proxy = f"http://{place['address']}"
    gateway.ca = gateway.run("ca", "show", "--path").stdout.strip()
    done = curl(gateway, url=upstream + "/x")
    lines = done.stdout.lower()
    assert "x-note: 1" in lines and "strict-transport-security: max-age=60" in lines and "alt-svc" not in lines, done
    answer = requests.get(gateway.url + "/named/x", timeout=20)
    assert answer.headers["X-Note"] == "1"
    assert "Strict-Transport-Security" not in answer.headers and "Alt-Svc" not in answer.headers


def test_curl_gets_the_credential(intercepting):
    gateway = intercepting()
    done = curl(gateway)
    assert done.returncode == 0 and "HTTP/1.1 200 OK" in done.stdout and "GET /x" in done.stdout, done
    assert "Gateway-Request-Id" in done.stdout


def test_http2_inside(intercepting):
    """Agreed on by ALPN behind the CONNECT, of which the credential of the proxy is the client's."""
    gateway = intercepting(access={"clients": {"laptop": {"token": TOKEN}}})
    words = ["--http2", "-x", gateway.proxy.replace("//", f"//laptop:{TOKEN}@"), "--cacert", gateway.ca, gateway.target + "/x"]
    done = subprocess.run(["curl", "-sS", "-i", *words], check=False, capture_output=True, text=True, timeout=30, env=processes.environment())
    assert done.returncode == 0 and "HTTP/2 200" in done.stdout and "GET /x" in done.stdout, done
    context = ssl.create_default_context(cafile=gateway.ca)
    proxy = httpx.Proxy(gateway.proxy, auth=("laptop", TOKEN))
    with httpx.Client(http1=False, http2=True, verify=context, proxy=proxy) as client:
        answers = [client.get(gateway.target + "/x") for _ in range(3)]
        other = client.get(gateway.target + "/x", headers={"Host": "other.test"})
    assert {(answer.status_code, answer.http_version) for answer in answers} == {(200, "HTTP/2")}
    assert other.status_code == 421


def with_requests(gateway, path):
    with requests.Session() as session:
        # The environment's own bundle would win.
        session.trust_env = False
        session.proxies, session.verify = {"https": gateway.proxy}, gateway.ca
        answers = [session.post(f"{gateway.target}{path}", data=b"x" * 100_000, timeout=20) for _ in range(3)]
    return answers[-1].status_code, answers[-1].text


def with_urllib(gateway, path):
    context = ssl.create_default_context(cafile=gateway.ca)
    handlers = urllib.request.ProxyHandler({"https": gateway.proxy}), urllib.request.HTTPSHandler(context=context)
    with urllib.request.build_opener(*handlers).open(f"{gateway.target}{path}", data=b"x", timeout=20) as answer:
        return answer.status, answer.read().decode()


def with_httpx(gateway, path):
    context = ssl.create_default_context(cafile=gateway.ca)
    with httpx.Client(proxy=gateway.proxy, verify=context, trust_env=False, timeout=20) as client:
        answer = client.post(f"{gateway.target}{path}", content=b"x")
    return answer.status_code, answer.text


def with_aiohttp(gateway, path):
    async def post():
        context = ssl.create_default_context(cafile=gateway.ca)
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{gateway.target}{path}", data=b"x", proxy=gateway.proxy, ssl=context) as answer:
                return answer.status, await answer.text()

    return asyncio.run(post())


@pytest.mark.parametrize("client", [with_requests, with_urllib, with_httpx, with_aiohttp])
def test_a_client_of_python_gets_it(intercepting, client):
    status, text = client(intercepting(), "/post/7")
    assert status == 200 and "POST /post/7" in text


@pytest.fixture
def git_server(tmp_path, certificate_authority):
    certificate, key = certificate_authority.issue("git", "DNS:localhost,IP:127.0.0.1")
    secure = ("--certfile", str(certificate), "--keyfile", str(key))
    values = {"GIT_PROJECT_ROOT": str(tmp_path / "root"), "GIT_USER": "robot", "GIT_PASSWORD": CANARY}
    server = debian.gunicorn(tmp_path / "server", "git_server:application", *secure, **values)
    yield server
    server.stop()


@pytest.mark.timeout(600)
def test_git_clones_and_pushes(git_server, start_gateway, certificate_authority, tmp_path):
    """With the variables that git reads."""

    def git(*words, cwd=tmp_path, **more):
        clean = processes.environment(GIT_CONFIG_NOSYSTEM="1", HOME=str(tmp_path), GIT_TERMINAL_PROMPT="0", **more)
        options = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main")
        done = subprocess.run(["git", *options, *words], check=False, cwd=cwd, env=clean, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done
        return done.stdout

    git("init", "--bare", "root/project.git")
    git("config", "http.receivepack", "true", cwd=tmp_path / "root/project.git")
    upstream = f"https://localhost:{port_of(git_server.url)}"
    auth = {"strategy": "basic", "username": "robot", "password": CANARY}
    route = {"upstream": upstream, "auth": auth, "tls": {"ca": str(certificate_authority.certificate)}}
    place = listener()
    gateway = start_gateway({"routes": {"git": route}}, listeners=[place])
    ca = gateway.run("ca", "show", "--path").stdout.strip()
    proxy = {"HTTPS_PROXY": f"http://{place['address']}", **dict.fromkeys(GIT.trust, ca)}
    git("clone", f"{upstream}/project.git", "work", **proxy)
    (tmp_path / "work/file").write_bytes(noise(3 << 20))
    git("add", "file", cwd=tmp_path / "work")
    git("commit", "-m", "one", cwd=tmp_path / "work")
    git("push", "origin", "HEAD:main", cwd=tmp_path / "work", **proxy)
    assert "one" in git("log", "--oneline", "main", cwd=tmp_path / "root/project.git")


def test_explain_looks_into_the_connection(intercepting):
    gateway = intercepting()
    done = gateway.run("explain", "--json", f"curl -x {gateway.proxy} {gateway.target}/x")
    assert done.returncode == 0, done
    said = json.loads(done.stdout)
    assert said["route"]["name"] == "named" and said.get("refusal") is None, said
    refused = gateway.run("explain", f"curl -x {gateway.proxy} https://elsewhere.test/")
    assert "No route leads to https://elsewhere.test:443" in refused.stdout, refused


def test_many_connections_at_once(intercepting):
    """Each connection has a handshake of its own; the certificate of the host is made once."""
    gateway = intercepting()
    found, errors = [], []

    def one():
        try:
            with inside(gateway, tunnel(gateway)) as secure:
                found.append(secure.getpeercert(binary_form=True))
                assert ask(gateway, secure).startswith(b"HTTP/1.1 200 ")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors and len(found) == 50 and len(set(found)) == 1, errors[:3]


def test_a_host_without_a_route_is_refused_with_what_to_do(intercepting):
    gateway = intercepting()
    done = curl(gateway, url="https://elsewhere.test/")
    assert done.returncode == 56 and "404 No route leads to https://elsewhere.test:443" in done.stdout + done.stderr, done


def test_a_listener_that_does_not_intercept_says_which_key(start_gateway, configured):
    gateway = start_gateway(configured())
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as wire:
        wire.sendall(b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n")
        answer = wire.recv(4096)
    assert answer.startswith(b"HTTP/1.1 405 ") and b"intercept: true" in answer.split(b"\r\n")[0], answer


def test_the_client_proves_itself_on_the_connect(intercepting):
    gateway = intercepting(access={"clients": {"laptop": {"token": TOKEN}}})
    assert "407 " in curl(gateway).stdout
    assert "407 " in curl(gateway, proxy=gateway.proxy.replace("//", "//laptop:wrong@")).stdout
    good = gateway.proxy.replace("//", f"//laptop:{TOKEN}@")
    done = curl(gateway, proxy=good)
    assert "HTTP/1.1 200 OK" in done.stdout, done
    # What a request has inside is the upstream's, and the gateway's credential takes its place.
    assert "HTTP/1.1 200 OK" in curl(gateway, "-H", "Authorization: Bearer of-the-client", proxy=good).stdout


def tunnel(gateway, proof=None):
    """A connection on which CONNECT was answered."""
    wire = socket.create_connection(("127.0.0.1", int(gateway.proxy.rsplit(":", 1)[1])), timeout=10)
    name = f"localhost:{gateway.target.rsplit(':', 1)[1]}"
    proof = f"Proxy-Authorization: Bearer {proof}\r\n" if proof else ""
    wire.sendall(f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n{proof}\r\n".encode())
    answer = wire.recv(4096)
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\n"), answer
    return wire


def inside(gateway, wire, name="localhost"):
    context = ssl.create_default_context(cafile=gateway.ca)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context.wrap_socket(wire, server_hostname=name)


def ask(gateway, secure, host=None):
    host = host or f"localhost:{gateway.target.rsplit(':', 1)[1]}"
    secure.sendall(f"GET /y HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return secure.recv(65536)


def test_another_name_inside_is_refused(intercepting):
    gateway = intercepting()
    with inside(gateway, tunnel(gateway)) as secure:
        assert ask(gateway, secure).startswith(b"HTTP/1.1 200 ")
        assert ask(gateway, secure, "elsewhere.test").startswith(b"HTTP/1.1 421 ")
    with tunnel(gateway) as wire, pytest.raises((ssl.SSLError, ConnectionError)):
        inside(gateway, wire, "elsewhere.test")


def test_a_client_that_a_reload_removes_asks_no_more_on_its_connection(intercepting, configured):
    clients = {"laptop": {"token": TOKEN}, "other": {"token": "token-of-another-2"}}
    gateway = intercepting(access={"clients": clients})
    with inside(gateway, tunnel(gateway, TOKEN)) as secure:
        assert ask(gateway, secure).startswith(b"HTTP/1.1 200 ")
        gateway.configure(configured(access={"clients": {"other": clients["other"]}}), gateway.proxy_listeners)
        assert gateway.run("reload").returncode == 0
        assert not ask(gateway, secure).startswith(b"HTTP/1.1 200 ")


def test_bytes_behind_the_connect_belong_to_tls(intercepting):
    """Some clients send their hello at once."""
    gateway = intercepting()
    context = ssl.create_default_context(cafile=gateway.ca)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    name = f"localhost:{gateway.target.rsplit(':', 1)[1]}"
    with socket.create_connection(("127.0.0.1", int(gateway.proxy.rsplit(":", 1)[1])), timeout=10) as wire:
        wire.sendall(f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode() + outgoing.read())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += wire.recv(4096)
        incoming.write(answer.split(b"\r\n\r\n", 1)[1])
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                if pending := outgoing.read():
                    wire.sendall(pending)
                incoming.write(wire.recv(65536))
        assert session.version() == "TLSv1.3"


@pytest.mark.parametrize(
    "head",
    [
        "CONNECT localhost HTTP/1.1\r\nHost: localhost",
        "CONNECT localhost:443 HTTP/1.1\r\nHost: elsewhere:443",
        "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\nContent-Length: 4",
        "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\nTransfer-Encoding: chunked",
        "CONNECT https://localhost:443/ HTTP/1.1\r\nHost: localhost:443",
        "CONNECT /x HTTP/1.1\r\nHost: localhost",
        "CONNECT user@localhost:443 HTTP/1.1\r\nHost: localhost:443",
        "GET localhost:443 HTTP/1.1\r\nHost: localhost:443",
    ],
)
def test_a_malformed_connect_is_refused(intercepting, head):
    gateway = intercepting()
    with socket.create_connection(("127.0.0.1", int(gateway.proxy.rsplit(":", 1)[1])), timeout=10) as wire:
        wire.sendall(head.encode() + b"\r\n\r\n")
        assert wire.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_the_authority_can_sign_for_the_routes_host_alone(intercepting):
    gateway = intercepting()
    [root] = x509.load_pem_x509_certificates(pathlib.Path(gateway.ca).read_bytes())
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 1
    with inside(gateway, tunnel(gateway)) as secure:
        leaf = x509.load_der_x509_certificate(secure.getpeercert(binary_form=True))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.critical and names.value.get_values_for_type(x509.DNSName) == ["localhost"]
    life = leaf.not_valid_after_utc - leaf.not_valid_before_utc
    assert life.days <= 7
    sealed = (gateway.folder / "state" / "ca" / "authority").read_bytes()
    assert b"PRIVATE KEY" not in sealed and oct(os.stat(gateway.folder / "state" / "ca" / "authority").st_mode)[-3:] == "600"


def test_a_restart_keeps_the_authority(intercepting):
    gateway = intercepting()
    before = pathlib.Path(gateway.ca).read_bytes()
    gateway.stop()
    gateway.start()
    assert pathlib.Path(gateway.ca).read_bytes() == before
    assert "HTTP/1.1 200 OK" in curl(gateway).stdout
    assert gateway.events("--failed") == []


def refused_connect(gateway, *fields, behind=b""):
    """What comes until the connection ends."""
    with socket.create_connection(("127.0.0.1", int(gateway.proxy.rsplit(":", 1)[1])), timeout=10) as wire:
        lines = "".join(field + "\r\n" for field in fields)
        wire.sendall(f"CONNECT elsewhere.test:443 HTTP/1.1\r\nHost: elsewhere.test:443\r\n{lines}\r\n".encode() + behind)
        answer = b""
        while part := wire.recv(65536):
            answer += part
    return answer


def test_bytes_behind_a_refused_connect_are_no_requests(intercepting):
    gateway = intercepting()
    target = gateway.target.removeprefix("https://")
    smuggled = f"GET https://{target}/smuggled HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()
    answer = refused_connect(gateway, behind=smuggled)
    assert answer.startswith(b"HTTP/1.1 404 ") and answer.count(b"HTTP/1.1 ") == 1, answer


def test_a_page_of_another_origin_may_not_call(intercepting):
    gateway = intercepting()
    for field, status in {"Origin: https://evil.test": 403, "Sec-Fetch-Site: cross-site": 403, f"Origin: {gateway.target}": 200}.items():
        assert f"HTTP/1.1 {status} " in curl(gateway, "-X", "POST", "-H", field).stdout


def test_a_connect_that_is_completed_after_its_listener_has_changed_is_refused(intercepting, configured):
    gateway = intercepting()
    name = f"localhost:{gateway.target.rsplit(':', 1)[1]}"
    with socket.create_connection(("127.0.0.1", int(gateway.proxy.rsplit(":", 1)[1])), timeout=10) as wire:
        wire.sendall(f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n".encode())
        [place] = gateway.proxy_listeners
        gateway.configure(configured(), [{"address": place["address"]}])
        done = gateway.run("reload")
        assert done.returncode == 0 and "listeners.proxy" in done.stdout, done
        wire.sendall(b"\r\n")
        answer = b""
        while part := wire.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 503 ") and b"because the listener has changed" in answer, answer


def test_a_removed_bundle_is_written_again(intercepting):
    gateway = intercepting()
    before = pathlib.Path(gateway.ca).read_bytes()
    os.unlink(gateway.ca)
    gateway.stop()
    gateway.start()
    assert pathlib.Path(gateway.ca).read_bytes() == before


def test_a_reload_withdraws_although_no_certificate_can_be_made(intercepting, configured):
    clients = {"laptop": {"token": TOKEN}, "other": {"token": "token-of-another-2"}}
    gateway = intercepting(access={"clients": clients})
    with inside(gateway, tunnel(gateway, TOKEN)) as secure:
        assert ask(gateway, secure).startswith(b"HTTP/1.1 200 ")
        folder = gateway.folder / "state" / "ca"
        folder.rename(folder.with_name("away"))
        folder.write_text("no folder")
        config = configured(access={"clients": {"other": clients["other"]}})
        config["routes"]["new"] = {"upstream": "https://new.test", "auth": BEARER}
        gateway.configure(config, gateway.proxy_listeners)
        done = gateway.run("reload")
        assert done.returncode == 0 and "cannot be intercepted" in done.stdout + done.stderr, done
        assert not ask(gateway, secure).startswith(b"HTTP/1.1 200 ")


def test_routes_of_one_host_are_told_apart(start_gateway, configured):
    """By the path, by the client and by the default, behind a CONNECT."""
    clients = {"laptop": {"token": TOKEN}, "ci": {"token": "token-of-the-ci-22"}, "other": {"token": "token-of-another-2"}}
    whole = configured(access={"clients": clients})
    right = whole["routes"]["named"]
    wrong = {**right, "auth": {"strategy": "bearer", "token": "some-other-canary-value"}}
    place = listener()

    def asked(routes, path, token):
        gateway.configure({**whole, "routes": routes}, [place])
        assert gateway.run("reload").returncode == 0
        proxy = f"http://laptop:{token}@{place['address']}"
        command = ["curl", "-sS", "-i", "--http1.1", "-x", proxy, "--cacert", gateway.ca, right["upstream"] + path]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, env=processes.environment()).stdout

    gateway = start_gateway(whole, listeners=[place])
    gateway.ca = gateway.run("ca", "show", "--path").stdout.strip()
    by_path = {"one": {**right, "match": {"upstream_path": "/2.0"}}, "two": wrong}
    assert "HTTP/1.1 200 OK" in asked(by_path, "/2.0/x", TOKEN) and "HTTP/1.1 401 " in asked(by_path, "/x", TOKEN)
    by_client = {"one": {**right, "clients": ["laptop"]}, "two": {**wrong, "clients": ["ci"]}}
    assert "HTTP/1.1 200 OK" in asked(by_client, "/x", TOKEN) and "HTTP/1.1 401 " in asked(by_client, "/x", clients["ci"]["token"])
    refused = asked(by_client, "/x", clients["other"]["token"])
    assert "HTTP/1.1 421 " in refused and "match.default" in refused and "one, two" in refused, refused
    by_default = {"one": {**right, "match": {"default": True}}, "two": wrong}
    assert "HTTP/1.1 200 OK" in asked(by_default, "/x", TOKEN)
    assert "HTTP/1.1 421 " in asked({"one": right, "two": wrong}, "/x", TOKEN)

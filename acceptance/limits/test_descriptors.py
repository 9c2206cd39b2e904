"""A process that has no descriptors left: it waits, says so, and goes on when there are some again."""

import contextlib
import os
import re
import resource
import select
import threading
import time

import pytest
import requests
from harness.configs import plain_config, with_route
from harness import http2, proc
from harness.processes import free_port, wait_until
from harness.script import OK, connect, get


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def limit_of(gateway):
    return resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)


def is_readable(client):
    """Also for descriptors that select() has no place for."""
    poll = select.poll()
    poll.register(client.connection, select.POLLIN)
    return bool(poll.poll(0))


SAID = "No connection can be accepted"


def test_clients_that_cannot_be_accepted_take_no_time(origin, start_gateway):
    gateway = start_gateway(plain_config(origin))
    pid = gateway.process.pid
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (80, 80))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(gateway.port)) for _ in range(120)]
        wait_until(lambda: SAID in gateway.text(), 5, "it says so")
        before = cpu_seconds(pid)
        time.sleep(1)
        assert cpu_seconds(pid) - before < 0.3, "of a second, for nothing"
        assert gateway.text().count(SAID) == 1
        # Who has been accepted is served, as far as nothing has to be opened for it.
        clients[0].send(get(gateway, path="/nowhere"))
        assert clients[0].head().startswith(b"HTTP/1.1 404 ")
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("most, warns", [(300, True), (4096, True), (20_000, False)])
def test_the_limit_is_raised_as_far_as_it_may_be(origin, make_gateway, most, warns):
    gateway = make_gateway(plain_config(origin))
    gateway.wrapper = ["prlimit", f"--nofile=256:{most}", *gateway.wrapper]
    gateway.start()
    assert limit_of(gateway) == (most, most)
    assert (f"because the process is limited to {most} file descriptors" in gateway.text()) == warns


def limited(gateway, most):
    gateway.wrapper = ["prlimit", f"--nofile={most}:{most}", *gateway.wrapper]
    return gateway


def test_more_connections_than_there_are_descriptors_for_are_refused_at_the_start(origin, make_gateway):
    """With the numbers, and with one that works."""
    config = {**plain_config(origin), "workers": 1, "limits": {"connections": 4000}}
    gateway = limited(make_gateway(config), 1000)
    with pytest.raises(AssertionError):
        gateway.start()
    assert gateway.process.returncode > 0
    said = re.search(
        r"limits\.connections is 4000, which needs (\d+) file descriptors \(4000 for clients, .*\); the process is limited to 1000\. "
        r"Raise LimitNOFILE \(ulimit -n\) to (\d+), or set limits\.connections to at most (\d+)\.",
        gateway.text(),
    )
    assert said and said[1] == said[2], gateway.text()
    config["limits"]["connections"] = int(said[3])
    gateway.configure(config)
    gateway.start()
    # The same holds for a reload, which then changes nothing.
    config["limits"]["connections"] += 1
    gateway.configure(config)
    done = gateway.run("reload")
    assert done.returncode != 0 and "limits.connections is" in done.stdout + done.stderr, done
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200


def test_clients_of_the_admin_listener_leave_the_proxy_its_descriptors(origin, start_gateway):
    """Who asks slowly is one of so many, and nobody takes more."""
    gateway = start_gateway(plain_config(origin))
    before = proc.descriptors(gateway.process.pid)
    slow = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 30000\r\n\r\n" % gateway.admin_port
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            client = stack.enter_context(connect(gateway.admin_port))
            with contextlib.suppress(ConnectionError):
                client.send(slow)
        wait_until(lambda: proc.descriptors(gateway.process.pid) > before + 100, 5, "some are accepted")
        with connect(gateway.port) as client:
            client.send(get(gateway, "Connection: close"))
            assert client.head().startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: proc.descriptors(gateway.process.pid) <= before + 140, 5, "no more than 128 and a few")
        assert gateway.run("status").returncode == 0, "the oldest gives way to an operator"
    wait_until(lambda: proc.descriptors(gateway.process.pid) <= before + 8, 10, "all have left")
    assert requests.get(gateway.admin_url + "/healthz", timeout=5).status_code == 200, "others come in"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_upstream_is_not_blamed_for_what_the_gateway_lacks(origin, start_gateway, host):
    """A 503 that says when to come back, and of no next hop: the upstream was not asked."""
    upstream = origin.url.replace("127.0.0.1", host)
    gateway = start_gateway({"workers": 1, "routes": {"api": {"upstream": upstream, "auth": "none"}}})
    pid = gateway.process.pid
    with connect(gateway.port) as client:
        client.send(get(gateway, path="/nowhere"))
        assert client.until(b"}").startswith(b"HTTP/1.1 404 ")
        limit = limit_of(gateway)
        most = max(proc.descriptor_numbers(pid)) + 1
        # Those below that are free, and some more: one that was open for a moment can have been counted.
        clients = most - proc.descriptors(pid) + 4
        with contextlib.ExitStack() as stack:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, limit[1]))
            for _ in range(clients):
                stack.enter_context(connect(gateway.port))
            client.send(get(gateway))
            client.until(b"\n")
            answer = client.until(b"}")
            assert answer.startswith(b"HTTP/1.1 503 "), answer
            assert b"\r\nRetry-After: 1\r\n" in answer and b"next-hop" not in answer, answer
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
    with connect(gateway.port) as client:
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ")


def test_few_of_many_that_are_refused_stay(origin, start_gateway):
    """Each is told so, and then most are closed at once: a thousand that do nothing take few descriptors beside those admitted."""
    gateway = start_gateway({**plain_config(origin), "limits": {"connections": 100}})
    pid = gateway.process.pid
    before = proc.steady_descriptors(pid)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(gateway.port)) for _ in range(1000)]
        def answered():
            return [client for client in clients if is_readable(client)]

        wait_until(lambda: len(answered()) > 800, 20, lambda: f"{len(answered())} were answered")
        refused = answered()
        wait_until(lambda: proc.descriptors(pid) <= before + 100 + 16 + 4, 1.5, lambda: f"{proc.descriptors(pid)} of {before}")
        for client in refused:
            assert client.head().startswith(b"HTTP/1.1 503 ")
            assert b"limits.connections" in client.to_end()
        admitted = [client for client in clients if not client.received]
        for client in admitted[:100]:
            client.send(get(gateway))
            assert client.head().startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 503 "))
    wait_until(lambda: proc.descriptors(pid) <= before + 4, 10, "all have left")
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200


def test_of_many_that_are_refused_before_their_handshake_few_stay(origin, make_gateway, certificate_authority):
    certificate, key = certificate_authority.issue("handshakes", "IP:127.0.0.1")
    port = free_port()
    listener = {"address": f"127.0.0.1:{port}", "tls": {"certificate": str(certificate), "private_key": {"file": str(key)}}}
    config = {**plain_config(origin), "limits": {"connections": 20}}
    gateway = make_gateway(config, listeners=[listener]).start()
    pid = gateway.process.pid
    before = proc.steady_descriptors(pid)
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(connect(port))
        wait_until(lambda: proc.descriptors(pid) <= before + 20 + 16 + 4, 1.5, lambda: f"{proc.descriptors(pid)} of {before}")
    wait_until(lambda: proc.descriptors(pid) <= before + 4, 10, "all have left")


# Whatever clients and upstreams take, the last descriptors are for operators. At its limit, the process would also be ended by
# libdispatch, which opens files in /proc


@pytest.fixture
def exhausted(make_script, make_gateway, sandbox):
    """A gateway that may have 300 descriptors, with a credential that can be locked, before an origin that answers nobody."""
    origin = make_script(lambda wire, number: wire.to_end())
    credential = {
        "strategy": "oauth2_client_credentials",
        "token_url": sandbox["OAUTH_URL"] + "/oauth/token",
        "client_id": sandbox["OAUTH_CLIENT_ID"],
        "client_secret": sandbox["OAUTH_CLIENT_SECRET"],
    }
    config = {"workers": 2, **with_route(credential, origin.url)}
    return limited(make_gateway(config), 300).start()


def operators_work(gateway):
    """Commands, locks among them: nothing that they need fails for want of a descriptor."""
    pid = gateway.process.pid
    for round in range(5):
        assert gateway.run("token", "list").returncode == 0
        locked = gateway.run("token", "lock", "me")
        assert locked.returncode == 0, locked
        assert gateway.run("audit", "query", "--event", "locked").returncode == 0
        assert gateway.run("reload").returncode == 0
        unlocked = gateway.run("token", "unlock", "me")
        assert unlocked.returncode == 0, unlocked
        assert proc.descriptors(pid) < 290, round
    assert gateway.process.poll() is None
    assert "Too many open files" not in gateway.text()


def test_operators_have_descriptors_whatever_clients_take(exhausted):
    gateway = exhausted
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            client = stack.enter_context(connect(gateway.port))
            with contextlib.suppress(OSError):
                client.send(get(gateway))
        operators_work(gateway)
    wait_until(lambda: requests.get(gateway.url + "/nowhere", timeout=5).status_code == 404, 20, "clients are served again")


def test_many_listeners_leave_the_reserve_to_operators(make_script, make_gateway, sandbox):
    """Clients of all of them come at once, again and again, while upstreams have the rest."""
    origin = make_script(lambda wire, number: wire.to_end())
    credential = {
        "strategy": "oauth2_client_credentials",
        "token_url": sandbox["OAUTH_URL"] + "/oauth/token",
        "client_id": sandbox["OAUTH_CLIENT_ID"],
        "client_secret": sandbox["OAUTH_CLIENT_SECRET"],
    }
    config = {"workers": 2, **with_route(credential, origin.url)}
    more = [free_port() for _ in range(5)]
    gateway = make_gateway(config, listeners=[{"address": f"127.0.0.1:{port}"} for port in more])
    gateway = limited(gateway, 300).start()
    pid = gateway.process.pid
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            client = stack.enter_context(contextlib.closing(http2.connect(gateway.port)))
            for _ in range(90):
                client.begin()
        wait_until(lambda: proc.descriptors(pid) >= 220, 10, lambda: f"{proc.descriptors(pid)} are in use")
        for _ in range(3):
            for port in more:
                for _ in range(80):
                    stack.enter_context(connect(port))
        operators_work(gateway)


def test_operators_have_descriptors_whatever_upstreams_take(exhausted):
    """A few clients of HTTP/2 ask for more connections to upstreams than there are descriptors."""
    gateway = exhausted
    pid = gateway.process.pid
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(contextlib.closing(http2.connect(gateway.port))) for _ in range(4)]
        asked = [(client, [client.begin() for _ in range(90)]) for client in clients]
        wait_until(lambda: proc.descriptors(pid) >= 220, 10, lambda: f"{proc.descriptors(pid)} are in use")
        operators_work(gateway)
        # Those for whom there was no descriptor were told so, and so was everybody when the token was locked.
        for client, streams in asked:
            client.finish(*streams)
            assert {client.responses[stream].status for stream in streams} <= {502, 503}


def test_clients_wait_when_only_the_reserve_is_left(exhausted):
    """Few are told so, and then none is accepted, so that they take nothing. They come in when there is room again."""
    gateway = exhausted
    pid = gateway.process.pid
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as streams:
            for _ in range(4):
                client = streams.enter_context(contextlib.closing(http2.connect(gateway.port)))
                for _ in range(90):
                    client.begin()
            wait_until(lambda: proc.descriptors(pid) >= 220, 10, lambda: f"{proc.descriptors(pid)} are in use")
            waiting = [stack.enter_context(connect(gateway.port)) for _ in range(100)]
            wait_until(lambda: "are reserved for operators" in gateway.text(), 10, gateway.text)
            before = cpu_seconds(pid)
            time.sleep(1)
            assert cpu_seconds(pid) - before < 0.3, "of a second, for nothing"
            told = [client for client in waiting if is_readable(client)]
            assert len(told) <= 37, "a listener accepts half of the reserve in one go"
            for client in told:
                assert client.head().startswith(b"HTTP/1.1 503 ")
            operators_work(gateway)
        client = stack.enter_context(connect(gateway.port))
        client.send(get(gateway, path="/nowhere"))
        assert client.head().startswith(b"HTTP/1.1 404 ")


def test_idle_connections_to_upstreams_give_way(make_script, make_gateway):
    """Idle upstream connections that take every descriptor below the reserve block neither new clients nor other upstreams."""
    goes_on = threading.Event()

    def steps(wire, number):
        while wire.head():
            goes_on.wait(30)
            wire.send(OK)

    routes = {name: {"upstream": make_script(steps).url, "auth": "none"} for name in ["busy", "api"]}
    gateway = limited(make_gateway({"workers": 2, "routes": routes}), 300).start()
    pid = gateway.process.pid
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(contextlib.closing(http2.connect(gateway.port))) for _ in range(4)]
        asked = [(client, [client.begin(path="/busy/x") for _ in range(90)]) for client in clients]
        wait_until(lambda: proc.descriptors(pid) >= 220, 10, lambda: f"{proc.descriptors(pid)} are in use")
        goes_on.set()
        for client, streams in asked:
            client.finish(*streams)
        before = time.monotonic()
        for _ in range(30):
            stack.enter_context(connect(gateway.port))
        wait_until(lambda: requests.get(gateway.url + "/api/x", timeout=9).status_code == 200, 9, "others are served")
        assert time.monotonic() - before < 9


def test_connections_that_were_refused_take_no_place(origin, start_gateway):
    """Clients that stay after they were refused must not keep out those who come when there is room again."""
    gateway = start_gateway({**plain_config(origin), "limits": {"connections": 2}})
    with contextlib.ExitStack() as stack:
        admitted = [stack.enter_context(connect(gateway.port)) for _ in range(2)]
        for client in admitted:
            client.send(get(gateway))
            assert client.head().startswith(b"HTTP/1.1 200 ")
        for _ in range(5):
            refused = stack.enter_context(connect(gateway.port))
            assert refused.head().startswith(b"HTTP/1.1 503 ")
        admitted[0].close()
        time.sleep(0.2)
        client = stack.enter_context(connect(gateway.port))
        client.send(get(gateway))
        assert client.head().startswith(b"HTTP/1.1 200 ")

"""A process that may start no thread, or that gets no more memory: what it has goes on, and nothing that is kept is damaged."""

import concurrent.futures
import contextlib
import os
import resource
import shutil
import signal
import stat
import subprocess

import pytest
import requests
from harness import proc
from harness.configs import BEARER, box_ccg, plain_config
from harness.gateway import BINARY
from harness.origin import response
from harness.script import connect, connect_narrow, get
from harness.token_server import who

#: Nobody else's: the limit counts the threads of a user, and root has none.
USER = 54_321


def threads_of(user):
    """Of all processes of that user."""
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            # The folder of a process whose memory is hidden belongs to root.
            if proc.user(pid) == user:
                found += proc.threads(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


@pytest.fixture
def as_user(make_gateway, short_folder):
    """Makes gateways that run as a user of their own, from a copy of the program that this user may read."""
    if os.geteuid() != 0:
        pytest.skip("another user is played by root only")
    program = shutil.copy(BINARY, short_folder / "authgateway")

    def make(config):
        gateway = make_gateway(config, folder=short_folder / "gateway")
        subprocess.run(["chown", "-R", f"{USER}:{USER}", short_folder / "gateway"], check=True)
        identity = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        gateway.wrapper = [*identity, "sh", "-c", f'shift; exec {program} "$@"', "sh"]
        return gateway

    return make


def limit_threads(gateway, limit):
    """As that user: root may not change the limits of another user's process everywhere."""
    prlimit = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "prlimit"]
    subprocess.run([*prlimit, f"--pid={gateway.process.pid}", f"--nproc={limit}:"], check=True)


def no_more_threads(gateway):
    """The user keeps the threads that it has, and gets no other."""
    limit_threads(gateway, threads_of(USER))


@pytest.mark.root
def test_without_threads_to_be_had_clients_and_operators_are_served(origin, as_user):
    gateway = as_user(plain_config(origin)).start()
    no_more_threads(gateway)
    with concurrent.futures.ThreadPoolExecutor(16) as clients:
        statuses = list(clients.map(lambda _: requests.get(gateway.url + "/api/x", timeout=10).status_code, range(200)))
    assert statuses == [200] * 200
    assert requests.get(gateway.admin_url + "/readyz", timeout=5).status_code == 200
    other = {"routes": {"new": {"upstream": origin.url, "auth": BEARER}}}
    gateway.configure(other)
    assert gateway.run("reload").returncode == 0
    assert requests.get(gateway.url + "/new/x", timeout=10).status_code == 200
    assert gateway.stop(seconds=10) == 0


def print_token(folder):
    program = folder / "print-token"
    program.write_text("#!/bin/sh\necho '{\"token\": \"abc\"}'\n", encoding="ascii")
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return {"strategy": "exec", "command": [str(program)]}


@pytest.mark.root
def test_a_program_that_finds_no_thread_fails_and_the_next_try_works(make_origin, as_user, short_folder):
    api = make_origin(who)
    credential = print_token(short_folder)
    config = {"credentials": {"cloud": credential}, "routes": {"api": {"upstream": api.url, "auth": "cloud"}}}
    gateway = as_user({**config, "limits": {"credential_timeout": "2s"}}).start()
    no_more_threads(gateway)
    try:
        refused = requests.get(gateway.url + "/api/x", timeout=20)
        assert (refused.status_code, refused.json()["code"]) == (503, "token-temporarily-unavailable"), refused.text
        limit_threads(gateway, 1000)
        assert gateway.run("token", "refresh", "cloud", timeout=8).returncode == 0
        assert requests.get(gateway.url + "/api/x", timeout=15).status_code == 200
        assert gateway.stop(seconds=10) == 0
    except BaseException:
        gateway.kill()
        raise


@pytest.mark.root
def test_another_process_of_the_user_does_not_see_the_memory(origin, as_user):
    gateway = as_user(plain_config(origin)).start()
    look = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "head", "-c1"]
    for name, is_readable in {"stat": True, "environ": False, "mem": False}.items():
        result = subprocess.run([*look, f"/proc/{gateway.process.pid}/{name}"], check=False, capture_output=True, timeout=30)
        assert (result.returncode == 0) == is_readable, result
        assert is_readable or b"Permission denied" in result.stderr, result


#: Several times what 256 connections need, with room for what the kernel counts otherwise.
ROOM = 128 << 20


def limit_memory(gateway, room):
    """Address space: what is reserved now, and that much more."""
    with open(f"/proc/{gateway.process.pid}/statm", encoding="ascii") as statm:
        reserved = int(statm.read().split()[0]) * resource.getpagesize()
    hard = resource.prlimit(gateway.process.pid, resource.RLIMIT_AS)[1]
    resource.prlimit(gateway.process.pid, resource.RLIMIT_AS, (reserved + room, hard))


def test_hostile_clients_fit_into_a_bounded_address_space(make_origin, start_gateway):
    """Large answers that nobody takes, uploads, and heads of the largest size: an allocation that fails would end the process."""
    api = make_origin(lambda request: response(200, b"x" * (8 << 20) if request.target == "/large" else b"ok"))
    gateway = start_gateway(plain_config(api))
    limit_memory(gateway, ROOM)
    greedy = [connect_narrow(gateway.port) for _ in range(100)]
    for client in greedy:
        client.send(get(gateway, path="/api/large"))
    head = b"GET /api/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Long: %s" % (gateway.port, b"a" * 30_000)
    unfinished = [connect_narrow(gateway.port) for _ in range(100)]
    for client in unfinished:
        client.send(head)
    body = b"y" * (4 << 20)
    with concurrent.futures.ThreadPoolExecutor(8) as clients:
        statuses = list(
            clients.map(lambda _: requests.post(gateway.url + "/api/x", data=body, timeout=60).status_code, range(40))
        )
    assert statuses == [200] * 40
    for client in greedy + unfinished:
        client.reset()
    assert requests.get(gateway.url + "/api/x", timeout=10).status_code == 200
    assert gateway.stop() == 0


def test_an_end_for_lack_of_memory_damages_nothing_that_is_kept(sandbox, make_gateway):
    """Thousands of unfinished heads take what there is, in the middle of renewals; what the next start finds is whole."""
    config = {
        "credentials": {"box": box_ccg(sandbox)},
        "routes": {"api": {"upstream": sandbox["BOX_URL"], "auth": "box"}},
    }
    gateway = make_gateway(config)
    head = get(gateway, f"X-Long: {'a' * 30_000}").removesuffix(b"\r\n")
    for room in (32 << 20, 8 << 20, 0):
        gateway.start()
        gateway.expected_ends = {-signal.SIGILL, -signal.SIGTRAP, -signal.SIGABRT, -signal.SIGSEGV}
        limit_memory(gateway, room)
        greedy = []
        with contextlib.suppress(OSError):
            while gateway.process.poll() is None and len(greedy) < 6000:
                greedy.append(connect(gateway.port))
                greedy[-1].send(head)
                if len(greedy) % 500 == 1:
                    gateway.run("token", "refresh", "box")
        gateway.stop()
        for client in greedy:
            client.close()
    gateway.start()
    assert requests.get(gateway.url + "/api/2.0/users/me", timeout=20).status_code == 200
    verified = gateway.run("audit", "verify")
    assert verified.returncode == 0, verified

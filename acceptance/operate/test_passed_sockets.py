"""Sockets that a service manager opens for the listeners (sd_listen_fds(3), a systemd socket unit)."""

import contextlib
import json
import os
import socket
import subprocess

import pytest
import requests
from harness import processes
from harness.gateway import BINARY, ROOT


@contextlib.contextmanager
def listening(kind=socket.SOCK_STREAM, listens=True):
    with socket.socket(socket.AF_INET, kind) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", processes.free_port()))
        if listens:
            made.listen(128)
        yield made


def start(folder, config, *sockets, process="$$"):
    """A gateway that is passed the sockets from descriptor 3 on, as systemd does it."""
    folder.mkdir(exist_ok=True)
    file = folder / "gateway.yaml"
    admin = {"address": f"127.0.0.1:{processes.free_port()}"}
    config = {"version": 1, "state_directory": "./state", **config}
    config["listeners"]["admin"] = admin
    file.write_text(json.dumps(config), encoding="utf-8")
    # High numbers first: a socket may have a number that another one is to get.
    spares = [os.dup(each.fileno()) for each in sockets]
    moves = " ".join(f"{3 + index}<&{spare}" for index, spare in enumerate(spares))
    closes = " ".join(f"{spare}<&-" for spare in spares if spare >= 3 + len(spares))
    script = f'exec {moves}; exec {closes or ":"}; LISTEN_PID={process} LISTEN_FDS={len(sockets)} exec "$@"'.replace("exec :;", "")
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", BINARY, "run", "--config", file],
        cwd=folder,
        pass_fds=spares,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for spare in spares:
        os.close(spare)
    return process, int(admin["address"].rpartition(":")[2])


def wait_until_ready(admin):
    """From then on a signal stops it gracefully."""

    def is_ready():
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"http://127.0.0.1:{admin}/readyz", timeout=5).status_code == 200

    processes.wait_until(is_ready, 20, "it is ready")


def serving(origin, *ports):
    listeners = {"proxy": [{"address": f"127.0.0.1:{port}"} for port in ports]}
    return {"listeners": listeners, "routes": {"api": {"upstream": origin.url, "auth": "none"}}}


def test_a_listener_accepts_from_the_socket_with_its_address(tmp_path, origin):
    with listening() as passed:
        port, other = passed.getsockname()[1], processes.free_port()
        # Who connects before the gateway runs is served when it does.
        early = socket.create_connection(("127.0.0.1", port), 5)
        early.sendall(b"GET /api/early HTTP/1.1\r\nHost: localhost\r\n\r\n")
        gateway, admin = start(tmp_path, serving(origin, port, other), passed)
        try:
            early.settimeout(20)
            assert early.recv(4096).startswith(b"HTTP/1.1 200 ")
            wait_until_ready(admin)
            for each in (port, other):
                assert requests.get(f"http://127.0.0.1:{each}/api/x", timeout=10).status_code == 200
        finally:
            processes.end(gateway)
            early.close()
        assert gateway.returncode == 0
        # The socket is still the manager's: the next gateway serves who connects meanwhile.
        waiting = socket.create_connection(("127.0.0.1", port), 5)
        waiting.sendall(b"GET /api/late HTTP/1.1\r\nHost: localhost\r\n\r\n")
        gateway, _ = start(tmp_path, serving(origin, port), passed)
        try:
            waiting.settimeout(20)
            assert waiting.recv(4096).startswith(b"HTTP/1.1 200 ")
        finally:
            processes.end(gateway)
            waiting.close()


def test_a_socket_for_all_of_ipv6_may_be_passed_beside_a_listener_for_all_of_ipv4(tmp_path, origin):
    """The gateway tried to limit the bound socket to IPv6, which the system refuses."""
    with socket.create_server(("::", processes.free_port()), family=socket.AF_INET6, dualstack_ipv6=False) as passed:
        port = passed.getsockname()[1]
        config = serving(origin)
        config["listeners"]["proxy"] = [{"address": f"0.0.0.0:{port}"}, {"address": f"[::]:{port}"}]
        config["access"] = {"clients": {"laptop": {"token": "token-of-the-laptop-1"}}}
        gateway, admin = start(tmp_path, config, passed)
        try:
            wait_until_ready(admin)
            proof = {"Proxy-Authorization": "Bearer token-of-the-laptop-1"}
            for host in ("127.0.0.1", "[::1]"):
                assert requests.get(f"http://{host}:{port}/api/x", headers=proof, timeout=10).status_code == 200
        finally:
            processes.end(gateway)


def refusal(gateway):
    _, errors = gateway.communicate(timeout=20)
    assert gateway.returncode == 1, errors
    return errors


def test_a_socket_that_no_listener_has_is_an_error(tmp_path, origin):
    with listening() as passed:
        port = passed.getsockname()[1]
        said = refusal(start(tmp_path, serving(origin, processes.free_port()), passed)[0])
    assert f"passes a socket at 127.0.0.1:{port}, which no listener has" in said and "ListenStream=" in said


@pytest.mark.parametrize("kind, listens", [(socket.SOCK_DGRAM, False), (socket.SOCK_STREAM, False)], ids=["datagrams", "not-listening"])
def test_a_socket_of_another_kind_is_an_error(tmp_path, origin, kind, listens):
    with listening(kind, listens) as passed:
        said = refusal(start(tmp_path, serving(origin, passed.getsockname()[1]), passed)[0])
    assert "descriptor 3, which is not a listening TCP socket" in said


def test_what_was_passed_to_another_process_is_left_alone(tmp_path, origin):
    with listening() as passed:
        port = processes.free_port()
        gateway, admin = start(tmp_path, serving(origin, port), passed, process="1")
        try:
            wait_until_ready(admin)
            assert requests.get(f"http://127.0.0.1:{port}/api/x", timeout=10).status_code == 200
        finally:
            processes.end(gateway)
        assert gateway.returncode == 0


def test_the_socket_unit_has_the_address_of_the_first_configuration():
    unit = (ROOT / "examples/deployments/authgateway.socket").read_text(encoding="utf-8")
    assert "\nListenStream=127.0.0.1:8080\n" in unit
    assert "address: 127.0.0.1:8080" in (ROOT / "packaging/gateway.yaml").read_text(encoding="utf-8")

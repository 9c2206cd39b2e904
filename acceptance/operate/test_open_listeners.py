"""A gateway that other machines can reach: short client tokens are refused, and plaintext is a warning."""

import socket

import pytest
import requests
from harness import processes
from harness.configs import plain_config

SHORT, LONG = "fifteen-bytes-x", "sixteen-bytes-xy"


def config(origin, token):
    return {**plain_config(origin), "access": {"clients": {"laptop": {"token": token}}}}


@pytest.mark.parametrize("token, expected", [(SHORT, "warning"), (LONG, None)])
def test_a_short_token_on_loopback_is_a_warning(make_gateway, origin, token, expected):
    result = make_gateway(config(origin, token)).run("check")
    assert result.returncode == 0 and token not in result.stderr
    assert ("warning: access.clients.laptop.token: the token has fewer than 16 bytes" in result.stderr) == (expected is not None)
    assert "without TLS" not in result.stderr


@pytest.mark.parametrize("token, status", [(SHORT, 3), (LONG, 0)])
def test_off_loopback_a_short_token_is_an_error_and_plaintext_a_warning(make_gateway, origin, token, status):
    listener = {"address": f"0.0.0.0:{processes.free_port()}"}
    result = make_gateway(config(origin, token), listeners=[listener]).run("check")
    assert result.returncode == status, result
    assert ("error: access.clients.laptop.token: the token has fewer than 16 bytes" in result.stderr) == (status != 0)
    assert "warning: listeners.proxy[1].address: reachable from other machines without TLS" in result.stderr


def test_a_digest_says_nothing_about_the_length(make_gateway, origin):
    access = {"clients": {"laptop": {"token_sha256": "ab" * 32}}}
    listener = {"address": f"[::]:{processes.free_port()}"}
    result = make_gateway({**plain_config(origin), "access": access}, listeners=[listener]).run("check")
    assert result.returncode == 0 and "16 bytes" not in result.stderr, result


def loopback_hosts():
    """As URLs have them; that of IPv6 only where the machine has it."""
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return ["127.0.0.1"]
    return ["127.0.0.1", "[::1]"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_port_is_open_for_all_addresses_of_both_families(start_gateway, origin, order):
    port = processes.free_port()
    listeners = [{"address": f"0.0.0.0:{port}"}, {"address": f"[::]:{port}"}][::order]
    start_gateway(config(origin, LONG), listeners=listeners)
    proof = {"Proxy-Authorization": f"Bearer {LONG}"}
    for host in loopback_hosts():
        assert requests.get(f"http://{host}:{port}/api/x", headers=proof, timeout=20).status_code == 200


def answers(port, hosts=None):
    """By each family, with connections of their own."""
    proof = {"Proxy-Authorization": f"Bearer {LONG}"}
    hosts = hosts or loopback_hosts()
    return [requests.get(f"http://{host}:{port}/api/x", headers=proof, timeout=20).status_code for host in hosts]


def test_all_addresses_of_one_family_come_and_go_by_a_reload(start_gateway, origin):
    port = processes.free_port()
    version4, version6 = {"address": f"0.0.0.0:{port}"}, {"address": f"[::]:{port}"}
    gateway = start_gateway(config(origin, LONG), listeners=[version6])
    # With the first alone, [::] takes both families.
    for listeners in [[version4, version6], [version6], [version6, version4], [version4, version6], [version6]]:
        gateway.configure(config(origin, LONG), listeners)
        done = gateway.run("reload")
        assert done.returncode == 0, done
        assert answers(port) == [200] * len(loopback_hosts()), listeners
    gateway.configure(config(origin, LONG), [version4])
    assert gateway.run("reload").returncode == 0
    assert answers(port, ["127.0.0.1"]) == [200]


def test_a_reload_that_fails_leaves_all_addresses_open(start_gateway, origin):
    port = processes.free_port()
    version4, version6 = {"address": f"0.0.0.0:{port}"}, {"address": f"[::]:{port}"}
    gateway = start_gateway(config(origin, LONG), listeners=[version6])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        other = {"address": f"127.0.0.1:{taken.getsockname()[1]}"}
        gateway.configure(config(origin, LONG), [version6, version4, other])
        done = gateway.run("reload")
        assert done.returncode != 0 and "in use" in done.stdout + done.stderr, done
    assert answers(port) == [200] * len(loopback_hosts())


def test_localhost_is_open_at_its_address_of_each_family(start_gateway, origin):
    port = processes.free_port()
    start_gateway(plain_config(origin), listeners=[{"address": f"localhost:{port}"}])
    for host in loopback_hosts():
        assert requests.get(f"http://{host}:{port}/api/x", timeout=20).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_localhost_and_one_of_its_addresses_are_one_place(make_gateway, origin, host):
    port = processes.free_port()
    listeners = [{"address": f"localhost:{port}"}, {"address": f"{host}:{port}"}]
    result = make_gateway(plain_config(origin), listeners=listeners).run("check")
    assert result.returncode == 3 and "two listeners have this address" in result.stderr

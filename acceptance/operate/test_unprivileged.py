"""Without any privilege, as service managers and containers start programs: nothing on the way of a request asks for one."""

import socket

import pytest
from harness.configs import BEARER
from harness import raw
from harness.script import get

#: Root that may do no more than its files allow.
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]

#: Only who has them can give them up.
pytestmark = pytest.mark.root


@pytest.fixture
def gateway(origin, make_gateway, tmp_path):
    route = {"upstream": origin.url, "auth": BEARER, "allow_plaintext": True}
    gateway = make_gateway({"routes": {"api": route}}, listeners=[{"unix": str(tmp_path / "socket")}])
    gateway.wrapper = UNPRIVILEGED
    return gateway.start()


def test_clients_are_served_over_tcp(origin, gateway):
    assert raw.exchange(gateway.port, get(gateway, "Connection: close")).status == 200
    assert origin.count() == 1


def test_clients_are_served_over_a_unix_socket(origin, gateway, tmp_path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(15)
        connection.connect(str(tmp_path / "socket"))
        connection.sendall(b"GET /api/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
    assert origin.count() == 1

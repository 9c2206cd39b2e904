"""Each client of the table in docs/clients.md, unmodified, through CONNECT, with the variables that the table names."""

import pathlib

import pytest
from harness import processes
from harness.configs import BEARER
from harness.https_clients import ANSWERS, CLIENTS, HOST, SDKS, table
from harness.tls_origin import TLSOrigin

HOSTS = [HOST, *SDKS]
TOKEN = "token-of-the-laptop-1"


@pytest.fixture
def origin(names, certificate_authority):
    """Behind its own name and port, as clients and gateway see it."""
    names.addresses |= dict.fromkeys(HOSTS, ["127.0.0.1"])
    secure = certificate_authority.issue("origin-test", ",".join(f"DNS:{host}" for host in HOSTS))
    origin = TLSOrigin(*secure, 443, ANSWERS)
    yield origin
    origin.stop()


@pytest.fixture
def start(origin, names, make_gateway, certificate_authority):
    def start(**more):
        return started(names, make_gateway, certificate_authority, **more)

    return start


def started(names, make_gateway, certificate_authority, **more):
    place = {"address": f"127.0.0.1:{processes.free_port()}", "intercept": True}
    route = {"auth": BEARER, "tls": {"ca": str(certificate_authority.certificate)}}
    routes = {f"route-{number}": {**route, "upstream": f"https://{host}"} for number, host in enumerate(HOSTS)}
    gateway = make_gateway({"routes": routes, **more}, listeners=[place])
    gateway.wrapper = [*names.wrapper(), *gateway.wrapper]
    gateway.start()
    gateway.proxy = f"http://{place['address']}"
    gateway.ca = gateway.run("ca", "show", "--path").stdout.strip()
    return gateway


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_gets_the_credential(client, start, origin, tmp_path):
    gateway = start()
    done = client.run(tmp_path / "client", gateway.proxy, gateway.ca)
    assert done.returncode == 0 and client.expects in done.stdout + done.stderr, (done, origin.seen)
    assert origin.seen and all(proved for *_, proved in origin.seen), origin.seen


@pytest.mark.parametrize("client", [client for client in CLIENTS if client.proves_itself], ids=lambda client: client.name)
def test_a_client_proves_itself(client, start, origin, tmp_path):
    """With the user information of the proxy's URL."""
    gateway = start(access={"clients": {"laptop": {"token": TOKEN}}})
    done = client.run(tmp_path / "client", gateway.proxy.replace("//", f"//laptop:{TOKEN}@"), gateway.ca)
    assert done.returncode == 0 and client.expects in done.stdout + done.stderr, (done, origin.seen)


def test_the_table_of_the_documentation_is_of_these_clients():
    text = pathlib.Path(__file__).parents[2].joinpath("docs/clients.md").read_text()
    assert table() in text, table()

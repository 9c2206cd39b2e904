"""What leaves the gateway for each preset, byte for byte, on the way to the real host names. The files in `wire` say it."""

import os
import sys
import urllib.parse

import pytest
import requests
from harness.golden import Keys, ServiceDouble, goldens, presets
from harness.login import Login
from harness.names import NameServer, private_network

GOLDENS = goldens()
PRESETS = presets()

#: What programs send on their own that want a credential and have none. The gateway puts its own in their place.
DUMMY = "not-a-credential"


def test_each_preset_has_a_golden_file():
    assert [golden.name for golden in GOLDENS] == sorted(PRESETS)


@pytest.mark.parametrize("golden", GOLDENS, ids=repr)
def test_the_golden_file_covers_the_preset(golden):
    preset = PRESETS[golden.name]
    routes = list(preset["routes"])
    assert {exchange.get("route", routes[0]) for exchange in golden.exchanges} == set(routes)
    assert set(golden.environment) == set(preset.get("secrets", {}))
    for route, content in preset["routes"].items():
        if "whoami" in content:
            assert filled(content["whoami"], preset, golden) in sent(golden, route, routes)


def filled(whoami, preset, golden):
    whoami = whoami if isinstance(whoami, dict) else {"path": whoami}
    path = whoami["path"]
    standard = {name: own["default"] for name, own in preset.get("parameters", {}).items() if "default" in own}
    for name, value in {**standard, **golden.parameters}.items():
        path = path.replace(f"${{{name}}}", value)
    return f"{whoami.get('method', 'GET')} {path}"


def sent(golden, route, routes):
    return [exchange["send"] for exchange in golden.exchanges if exchange.get("route", routes[0]) == route]


# The gateway is one for all of them.


@pytest.fixture(scope="module")
def network():
    """Instead of the fixture of the same name that a test has for itself."""
    with private_network():
        yield


@pytest.fixture(scope="module")
def keys():
    return Keys()


@pytest.fixture(scope="module")
def addresses():
    urls = [urllib.parse.urlsplit(step["request"].split()[1]) for golden in GOLDENS for step in golden.steps]
    return {url.hostname for url in urls}, {url.port or 443 for url in urls}


@pytest.fixture(scope="module")
def services(network, certificate_authority, addresses, keys):
    hosts, ports = addresses
    names = ",".join(f"DNS:{host}" for host in sorted(hosts))
    double = ServiceDouble(*certificate_authority.issue("services", names), ports, keys)
    yield double
    double.stop()


@pytest.fixture(scope="module")
def start_through(network, tmp_path_factory, certificate_authority, addresses):
    """The words before a program for which every host is this machine, and whose system trusts the authority of the tests."""
    folder = tmp_path_factory.mktemp("names")
    server = NameServer(folder)
    server.addresses = {host: ["127.0.0.1"] for host in addresses[0]}
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    trust = ["sh", "-ec", f'mount --bind "$0" {bundle}; exec "$@"', str(certificate_authority.certificate)]
    yield [*server.wrapper(), *trust]
    server.stop()


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with the programs that presets run. Each answers to one line of arguments only."""
    folder = tmp_path_factory.mktemp("programs")
    for golden in GOLDENS:
        for name, program in golden.programs.items():
            path = folder / name
            path.write_text(
                f"#!{sys.executable}\nimport sys\n"
                f"if sys.argv[1:] != {program['arguments']!r}:\n    sys.exit(f'unexpected: {{sys.argv[1:]}}')\n"
                f"print({program['prints']!r})\n"
            )
            path.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def gateway(services, start_through, make_module_gateway, programs, keys):
    config, environment = {"credentials": {}, "routes": {}}, {"PATH": f"{programs}:{os.environ['PATH']}"}
    for golden in GOLDENS:
        credentials, routes = golden.configuration(PRESETS[golden.name]["routes"])
        config["credentials"] |= credentials
        config["routes"] |= routes
        for name, value in golden.environment.items():
            value = keys.environment(value)
            assert environment.setdefault(name, value) == value, f"{name} has two values"
    gateway = make_module_gateway(config, environment=environment)
    for golden in GOLDENS:
        for name, content in golden.files.items():
            (gateway.folder / name).write_text(keys.fill(content))
    gateway.wrapper = start_through
    return gateway.start()


@pytest.mark.parametrize("golden", GOLDENS, ids=repr)
def test_nothing_else_leaves_the_gateway(golden, gateway, services):
    if golden.login:
        log_in(golden, gateway, services)
    for exchange in golden.exchanges:
        services.announce(exchange["wire"])
        method, path = exchange["send"].split(" ", 1)
        dummies = {name: DUMMY for name in exchange["wire"][-1]["headers"]} | exchange.get("headers", {})
        url = f"{gateway.url}/{golden.route(exchange)}{path}"
        answer = requests.request(method, url, headers=dummies, timeout=20)
        expect_no(services.problems(), answer.text)
        assert answer.status_code == 200, answer.text


def expect_no(problems, answer):
    # In the message each of them is whole.
    assert not problems, "\n".join([*problems, answer])


def log_in(golden, gateway, services):
    services.announce(golden.login["wire"])
    login = Login(gateway, golden.name)
    page, _, query = login.page.partition("?")
    found = dict(urllib.parse.parse_qsl(query, strict_parsing=True)) if query else {}
    assert page == golden.login["page"]
    expected = golden.login["query"]
    assert {name: "any" if expected.get(name) == "any" else value for name, value in found.items()} == expected
    if "paste" in golden.login:
        ended = login.paste(golden.login["paste"])
    else:
        requests.get(login.redirect, params={"code": "code-1", "state": found["state"]}, timeout=20)
        ended = login.end()
    expect_no(services.problems(), str(ended))
    assert ended[0] == 0, ended

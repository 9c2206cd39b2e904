"""Who may use the gateway, and what of them reaches the upstream: nothing."""

import base64
import contextlib
import os
import stat
import subprocess

import pytest
import requests
from harness.configs import BEARER, CANARY
from harness import processes, raw
from harness.other_user import CLOSED_OUT, LET_IN, MAY_NOT_CONNECT
from harness.script import get

CLIENT_TOKEN = CANARY + "-client"


@pytest.fixture
def open_gateway(origin, start_gateway):
    return start_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER}}})


@pytest.fixture
def open_origin(make_origin):
    return make_origin()


@pytest.fixture
def closed_gateway(origin, open_origin, start_gateway):
    return start_gateway(
        {
            "access": {"clients": {"laptop": {"token": CLIENT_TOKEN}, "other": {"token": CANARY + "-other"}}},
            "routes": {
                "api": {
                    "upstream": origin.url,
                    "auth": BEARER,
                    "clients": ["laptop"],
                    "allow": [{"methods": ["GET", "HEAD"], "path": "/public/**"}],
                },
                "open": {"upstream": open_origin.url, "auth": "none"},
            },
        }
    )


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8080", "localhost.evil.example"])
def test_a_foreign_host_is_misdirected(open_gateway, origin, host):
    answer = requests.get(open_gateway.url + "/api/x", headers={"Host": host}, timeout=20)
    assert answer.status_code == 421
    assert "evil" not in answer.text, "the name is not reflected"
    assert origin.count() == 0


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1:{port}", "api.localhost:{port}"])
def test_our_own_names_are_welcome(open_gateway, origin, host):
    path = "/x" if host.startswith("api") else "/api/x"
    headers = {"Host": host.format(port=open_gateway.port)}
    assert requests.get(open_gateway.url + path, headers=headers, timeout=20).status_code == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_cross_site_browser_request_is_refused(open_gateway, origin, fields):
    answer = requests.post(open_gateway.url + "/api/x", data=b"side effect", headers=fields, timeout=20)
    assert answer.status_code == 403
    assert answer.json()["type"].endswith("origin-refused")
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert origin.count() == 0


PAGE = "https://app.example.com"


@pytest.mark.parametrize(
    "fields, is_welcome",
    [
        ([f"Origin: {PAGE}"], True),
        ([f"Origin: {PAGE}", "Sec-Fetch-Site: cross-site"], True),
        (["Origin: HTTPS://App.Example.com"], True),
        (["Sec-Fetch-Site: same-origin"], True),
        (["Sec-Fetch-Site: none"], True),
        (["Sec-Fetch-Site: cross-site"], False),
        ([f"Origin: {PAGE}.evil"], False),
        (["Origin: https://app.example.co"], False),
        (["Origin: https://evil.app.example.com"], False),
        (["Origin: http://app.example.com"], False),
        ([f"Origin: {PAGE}:8443"], False),
        (["Origin: null"], False),
        (["Origin: "], False),
        ([f"Origin: {PAGE} https://evil.example"], False),
        ([f"Origin: {PAGE}", "Origin: https://evil.example"], False),
        (["Origin: https://evil.example", f"Origin: {PAGE}"], False),
    ],
)
def test_the_pages_of_a_listed_origin_and_no_others_are_welcome(origin, start_gateway, fields, is_welcome):
    routes = {"api": {"upstream": origin.url, "auth": BEARER}}
    gateway = start_gateway({"access": {"allow_origins": [PAGE]}, "routes": routes})
    answer = raw.exchange(gateway.port, get(gateway, *fields, "Connection: close"))
    assert answer.status == (200 if is_welcome else 403), answer.data
    assert origin.count() == (1 if is_welcome else 0)


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
def test_the_admin_listener_has_the_same_rules(open_gateway, path):
    url = open_gateway.admin_url + path
    assert requests.get(url, timeout=20).status_code == 200
    assert requests.get(url, headers={"Host": "evil.example"}, timeout=20).status_code == 421
    assert requests.get(url, headers={"Origin": "https://evil.example"}, timeout=20).status_code == 403


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    "fields",
    [
        {"Authorization": f"Bearer {CLIENT_TOKEN}"},
        {"Proxy-Authorization": f"Bearer {CLIENT_TOKEN}"},
        {"Proxy-Authorization": basic("laptop", CLIENT_TOKEN)},
        {"Authorization": basic("laptop", CLIENT_TOKEN)},
    ],
)
def test_a_client_token_lets_in_and_goes_no_further(closed_gateway, origin, fields):
    answer = requests.get(closed_gateway.url + "/api/public/x", headers=fields, timeout=20)
    assert answer.status_code == 200, answer.text
    assert origin.last().value("authorization") == f"Bearer {CANARY}"
    assert origin.last().value("proxy-authorization") is None
    assert b"-client" not in origin.raw()


def test_a_client_token_does_not_go_through_a_route_without_authentication(closed_gateway, open_origin):
    fields = {"Authorization": f"Bearer {CLIENT_TOKEN}"}
    assert requests.get(closed_gateway.url + "/open/x", headers=fields, timeout=20).status_code == 200
    assert open_origin.last().value("authorization") is None
    assert b"-client" not in open_origin.raw()


@pytest.mark.parametrize(
    "fields",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {CLIENT_TOKEN}x"}, {"Authorization": "Bearer "}],
)
def test_without_its_token_a_client_stays_outside(closed_gateway, origin, fields):
    answer = requests.get(closed_gateway.url + "/api/public/x", headers=fields, timeout=20)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer realm=")
    assert answer.json()["type"].endswith("client-auth-required")
    assert origin.count() == 0


def test_in_proxy_form_a_client_without_token_gets_407(closed_gateway, origin):
    with requests.Session() as session:
        session.trust_env = False
        session.proxies = {"http": closed_gateway.url}
        answer = session.get(origin.url + "/public/x", timeout=20)
        assert answer.status_code == 407
        assert answer.headers["Proxy-Authenticate"]
    assert origin.count() == 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/private/x", "403"),
        ("POST", "/api/public/x", "403"),
        ("GET", "/api/publicity", "403"),
        ("GET", "/api/public/../private/x", "400"),
        ("GET", "/api/public/%2e%2e/private/x", "400"),
        ("GET", "/api/public/..%2fprivate/x", "400"),
        ("GET", "/api/public/..%5cprivate/x", "400"),
        ("GET", "/api/public/%00", "400"),
    ],
)
def test_what_is_not_allowed_does_not_get_through(closed_gateway, origin, method, path, status):
    # The client library would tidy the path up before sending it.
    result = subprocess.run(
        ["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "--path-as-is", "-X", method]
        + ["-H", f"Authorization: Bearer {CLIENT_TOKEN}", closed_gateway.url + path],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
        env=processes.environment(),
    )
    assert result.stdout == status, result
    assert origin.count() == 0


def test_a_client_of_another_route_is_forbidden(closed_gateway, origin):
    fields = {"Authorization": f"Bearer {CANARY}-other"}
    answer = requests.get(closed_gateway.url + "/api/public/x", headers=fields, timeout=20)
    assert answer.status_code == 403
    assert answer.json()["type"].endswith("route-forbidden")
    assert origin.count() == 0


def test_a_refused_client_is_in_the_audit_log(closed_gateway):
    requests.get(closed_gateway.url + "/api/public/x", timeout=20)
    denied = processes.wait_until(
        lambda: [event for event in closed_gateway.events() if event["event"] == "client_denied"], 10, "the event is there"
    )
    assert denied[0]["route"] == "api"


def test_a_unix_socket_is_for_its_owner(origin, start_gateway, short_folder):
    path = short_folder / "proxy.sock"
    gateway = start_gateway(
        {"routes": {"api": {"upstream": origin.url, "auth": BEARER}}}, listeners=[{"unix": str(path)}]
    )
    mode = path.stat().st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    result = subprocess.run(
        ["curl", "-sS", "--unix-socket", str(path), "http://localhost/api/x"],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
        env=processes.environment(),
    )
    assert result.stdout == "hello from the origin\n", result
    assert origin.last().value("authorization") == f"Bearer {CANARY}"
    gateway.stop()
    assert not path.exists()


def test_a_unix_socket_lets_in_the_users_it_names(origin, start_gateway, short_folder, other_users):
    named, unnamed = other_users
    shared, own = short_folder / "shared.sock", short_folder / "own.sock"
    start_gateway(
        {"routes": {"api": {"upstream": origin.url, "auth": BEARER}}},
        listeners=[{"unix": str(shared), "allow_users": [named.number]}, {"unix": str(own)}],
    )
    assert named.get(shared, "/api/x") in LET_IN
    assert unnamed.get(shared, "/api/x") in CLOSED_OUT
    assert named.get(own, "/api/x") in MAY_NOT_CONNECT


def test_the_state_is_for_its_owner(open_gateway):
    requests.get(open_gateway.url + "/api/x", timeout=20)
    folder = open_gateway.folder / "state"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {}
    for path in folder.iterdir():
        # What is written anew is renamed to its place meanwhile.
        with contextlib.suppress(FileNotFoundError):
            modes[path.name] = stat.S_IMODE(path.stat().st_mode)
    assert "audit.sqlite" in modes and [name for name, mode in modes.items() if mode & 0o077] == []


def test_a_tls_listener_wants_a_certificate_of_its_authority(origin, certificate_authority, start_gateway):
    certificate, key = certificate_authority.issue("gateway", "IP:127.0.0.1,DNS:localhost")
    client_certificate, client_key = certificate_authority.issue("client", "DNS:client.test", usage="clientAuth")
    os.chmod(key, 0o600)
    port = processes.free_port()
    gateway = start_gateway(
        {"routes": {"api": {"upstream": origin.url, "auth": BEARER}}},
        listeners=[
            {
                "address": f"127.0.0.1:{port}",
                "tls": {
                    "certificate": str(certificate),
                    "private_key": {"file": str(key)},
                    "client_ca": str(certificate_authority.certificate),
                },
            }
        ],
    )
    url = f"https://127.0.0.1:{port}/api/x"
    ca = str(certificate_authority.certificate)
    with requests.Session() as session:
        session.trust_env = False
        answer = session.get(url, verify=ca, cert=(str(client_certificate), str(client_key)), timeout=20)
        assert answer.text == "hello from the origin\n"
    origin.forget()
    with requests.Session() as session, pytest.raises(requests.RequestException):
        session.trust_env = False
        session.get(url, verify=ca, timeout=20)
    assert origin.count() == 0
    assert gateway.process.poll() is None


def test_a_listener_off_loopback_without_clients_is_refused_at_load(make_gateway, origin):
    gateway = make_gateway(
        {
            "listeners": {"proxy": [{"address": "0.0.0.0:18080"}]},
            "routes": {"api": {"upstream": origin.url, "auth": BEARER}},
        }
    )
    result = gateway.run("check")
    assert result.returncode == 3
    assert "0.0.0.0" in result.stderr + result.stdout and "access.clients" in result.stderr + result.stdout

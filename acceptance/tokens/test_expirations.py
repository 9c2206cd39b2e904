"""What ends at a known time is counted down, and said ahead of time wherever somebody may look."""

import datetime
import json

import pytest
import requests
from harness import processes
from harness.browser import Browser
from harness.login import Login
from harness.person import Person
from harness.tls import CertificateAuthority, openssl


def day(offset):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=offset)).strftime("%Y-%m-%d")


def bearer(origin, **more):
    return {
        "credentials": {"key": {"strategy": "header", "name": "X-Key", "value": "0123456789", **more}},
        "routes": {"api": {"upstream": origin.url, "auth": "key"}},
    }


def expirations(gateway):
    return {expiration["of"]: expiration for expiration in requests.get(f"{gateway.admin_url}/api/expirations", timeout=10).json()}


def reasons(gateway):
    return requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10).json()["reasons"]


def metrics(gateway):
    return requests.get(f"{gateway.admin_url}/metrics", timeout=10).text


def announced(gateway):
    return [event["detail"] for event in gateway.events("--event", "expiring_soon")]


def test_a_secret_is_counted_down_and_said_ahead_of_its_end(start_gateway, origin):
    gateway = start_gateway(bearer(origin, expires=day(100)))
    assert not expirations(gateway)["key"]["is_soon"]
    assert reasons(gateway) == []
    status = gateway.run("status")
    assert status.returncode == 0 and "99d" in status.stdout and "secret" in status.stdout, status
    assert announced(gateway) == []

    gateway.configure(bearer(origin, expires=day(5)))
    assert gateway.run("reload").returncode == 0
    status = gateway.run("status")
    assert status.returncode == 1 and "needs a person: key" in status.stderr, status
    assert "Get a new secret for key" in status.stdout
    [expiration] = json.loads(gateway.run("status", "--json").stdout)["expirations"]
    assert expiration["kind"] == "secret" and 3 * 86400 < expiration["remaining_seconds"] <= 5 * 86400 and expiration["is_soon"]
    assert "key: its secret expires in 4d" in reasons(gateway)[0]
    assert requests.get(f"{gateway.admin_url}/readyz", timeout=10).status_code == 200
    assert 'gateway_expires_soon{kind="secret",of="key"} 1' in metrics(gateway)
    page = requests.get(f"{gateway.admin_url}/", timeout=10).text
    assert "4 days" in page and "Get a new secret for key" in page

    gateway.configure(bearer(origin, expires=day(-1)))
    assert gateway.run("reload").returncode == 0
    assert "its secret has expired" in reasons(gateway)[0]

    gateway.configure(bearer(origin))
    assert gateway.run("reload").returncode == 0
    assert gateway.run("status").returncode == 0
    assert "gateway_ends" not in metrics(gateway)


def test_an_end_that_is_near_at_the_start_is_in_the_audit_log(start_gateway, origin):
    gateway = start_gateway(bearer(origin, expires=day(3)))
    [detail] = processes.wait_until(lambda: announced(gateway), 10, "it is announced")
    assert detail == {"kind": "secret", "of": "key"}
    assert "Expires soon" in gateway.text() and "0123456789" not in gateway.text()


def test_a_date_that_is_none_is_refused(make_gateway, origin):
    gateway = make_gateway(bearer(origin, expires="next year"))
    result = gateway.run("check")
    assert result.returncode == 3 and "credentials.key.expires" in result.stderr and "2027-01-31" in result.stderr


def certificate(authority, name, end):
    """A certificate that began 100 days before `end`, both in days from now."""
    key, request, path = (authority.folder / f"{name}{suffix}" for suffix in ("-key.pem", ".csr", ".pem"))
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", *curve, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
    folder = authority.folder / name
    folder.mkdir()
    (folder / "index.txt").write_text("")
    (folder / "serial").write_text("01\n")
    (folder / "ca.cnf").write_text(
        f"[ca]\ndefault_ca=x\n[x]\ndir={folder}\nnew_certs_dir={folder}\ndatabase={folder}/index.txt\n"
        f"serial={folder}/serial\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n"
    )
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=end)
    openssl(
        *("ca", "-batch", "-config", folder / "ca.cnf", "-cert", authority.certificate, "-keyfile", authority.key),
        *("-in", request, "-out", path, "-notext"),
        *("-startdate", (moment - datetime.timedelta(days=100)).strftime("%Y%m%d%H%M%SZ")),
        *("-enddate", moment.strftime("%Y%m%d%H%M%SZ")),
    )
    return path, key


def test_certificates_of_listeners_and_routes_are_counted_down(start_gateway, origin, tmp_path):
    authority = CertificateAuthority(tmp_path, "ends")
    served, served_key = certificate(authority, "served", 10)
    ours, ours_key = certificate(authority, "ours", 50)
    port = processes.free_port()
    config = {
        "access": {"require_client": False},
        "routes": {
            "api": {
                "upstream": "https://127.0.0.1:1",
                "auth": "none",
                "tls": {"ca": str(authority.certificate), "certificate": str(ours), "private_key": {"file": str(ours_key)}},
            }
        },
    }
    listener = {"address": f"127.0.0.1:{port}", "tls": {"certificate": str(served), "private_key": {"file": str(served_key)}}}
    gateway = start_gateway(config, [listener])
    found = expirations(gateway)
    assert found[f"listeners.proxy.127.0.0.1:{port}.tls"]["is_soon"]
    assert not found["routes.api.tls"]["is_soon"]
    assert {expiration["kind"] for expiration in found.values()} == {"certificate"}
    status = gateway.run("status")
    assert status.returncode == 1 and f"Replace the certificate {served}" in status.stdout, status
    assert "50d" in status.stdout or "49d" in status.stdout

    # What counts is what is served: the new file, from the reload on.
    fresh, fresh_key = certificate(authority, "fresh", 90)
    served.write_bytes(fresh.read_bytes())
    served_key.write_bytes(fresh_key.read_bytes())
    assert gateway.run("status").returncode == 1
    assert gateway.run("reload").returncode == 0
    assert gateway.run("status").returncode == 0


def test_a_login_that_nobody_prolongs_is_said_ahead_of_its_end(start_gateway, make_authority):
    authority = make_authority()

    def config(lifetime):
        return {
            "credentials": {"me": authority.login_credential(refresh_token_lifetime=lifetime)},
            "routes": {"me": {"upstream": f"{authority.url}/api", "auth": "me"}},
        }

    gateway = start_gateway(config("60d"))
    login = Login(gateway, "me", "--no-browser")
    assert requests.get(Person().decide(login.page), timeout=20).status_code == 200
    assert login.end()[0] == 0
    expiration = expirations(gateway)["me"]
    assert expiration["kind"] == "login" and not expiration["is_soon"] and expiration["action"] == "authgateway login me"
    assert gateway.run("status").returncode == 0
    assert 'gateway_expires_in_seconds{kind="login",of="me"} 51' in metrics(gateway)
    assert "60d" in gateway.run("token", "show", "me").stdout


@pytest.fixture
def browser(tmp_path):
    browser = Browser(tmp_path)
    yield browser
    browser.stop()


def test_the_tables_of_the_page_fit_into_1100_pixels(start_gateway, sandbox, browser):
    gateway = start_gateway(
        {
            "credentials": {
                "box-service-account": {
                    "strategy": "oauth2_client_credentials",
                    "token_url": "http://127.0.0.1:1/token",
                    "client_id": "a",
                    "client_secret": "0123456789",
                    "expires": day(3),
                },
                "campus-of-the-university": {
                    "strategy": "duke_session",
                    "client_name": "dukemobile",
                    "base_url": sandbox["DUKE_URL"],
                },
                "devbox": {"strategy": "box_developer_token", "token": {"env": "SANDBOX_BOX_DEVELOPER_TOKEN"}},
            },
            "routes": {
                "box": {"upstream": "https://api.box.com", "auth": "box-service-account"},
                "campus": {"upstream": sandbox["DUKE_URL"], "auth": "campus-of-the-university"},
                "dev": {"upstream": sandbox["BOX_URL"], "auth": "devbox"},
            },
        },
        environment=sandbox.environment,
    )
    assert requests.get(f"{gateway.url}/box/x", timeout=20).status_code == 502
    browser.resize(1100, 900)
    browser.open(gateway.admin_url + "/")
    browser.until("document.querySelectorAll('.route').length == 3 && document.querySelectorAll('#events li').length >= 3")
    # With all details open, nothing on the page is wider than the page, and no text is wider than its box.
    browser.run("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    assert browser.run("document.scrollingElement.scrollWidth") <= 1100
    wide = browser.run(
        "[...document.querySelectorAll('main *')].filter((e) => e.clientWidth > 1 && e.scrollWidth > e.clientWidth)"
        ".map((e) => [e.tagName, e.className, e.textContent.trim().slice(0, 40), e.scrollWidth, e.clientWidth])"
    )
    assert wide == []

"""`authgateway doctor`: what is wrong with everything around the gateway, and that looking changes nothing."""

import contextlib
import datetime
import email.utils
import http.server
import json
import os
import sqlite3
import threading

import pytest
import requests
from harness import login, processes
from harness.configs import BEARER, CANARY
from harness.person import Person


def findings(gateway, *arguments, code=None):
    """All of them as `(group, level, subject, text)`, and whole by group and subject."""
    result = gateway.run("doctor", "--json", *arguments)
    assert result.stderr == "", result
    report = json.loads(result.stdout)
    errors = [found for found in report["findings"] if found["level"] == "error"]
    assert report["ok"] == (errors == []) and report["errors"] == len(errors)
    assert result.returncode == (1 if errors else 0), result.stdout
    assert code is None or result.returncode == code, result.stdout
    assert CANARY not in result.stdout
    return report["findings"]


def errors(found, group=None):
    return [one for one in found if one["level"] == "error" and group in (None, one["group"])]


def about(found, group, subject):
    [one] = [one for one in found if one["group"] == group and one["subject"] == subject]
    return one


def whole(origin, authority, **changes):
    return {
        "credentials": {"me": authority.credential()},
        "routes": {"api": {"upstream": origin.url, "auth": "me"}, **changes},
    }


class Clock:
    """An authority whose clock is wrong."""

    def __init__(self, ahead):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_HEAD(self):
                now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=ahead)
                self.send_response_only(404)
                self.send_header("Date", email.utils.format_datetime(now, usegmt=True))
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def credential(self):
        url = f"http://127.0.0.1:{self.server.server_port}/token"
        return {"strategy": "oauth2_client_credentials", "token_url": url, "client_id": "a", "client_secret": CANARY}

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


# MARK: Where all is well


def test_all_is_well_and_nothing_was_changed(make_gateway, authority, origin):
    config = whole(origin, authority)
    # In plain text it would be a warning.
    secret, config["credentials"]["me"]["client_secret"] = config["credentials"]["me"]["client_secret"], {"env": "SECRET"}
    gateway = make_gateway(config, environment={"SECRET": secret})
    before = sorted(gateway.folder.iterdir())
    found = findings(gateway, code=0)
    assert about(found, "configuration", str(gateway.file))["text"] == "1 route, 1 credential"
    assert about(found, "ports", f"127.0.0.1:{gateway.port}")["text"] == "free"
    assert about(found, "upstreams", "api")["level"] == "ok"
    assert about(found, "authorities", authority.url)["level"] == "ok"
    assert about(found, "clock", authority.url)["level"] == "ok"
    assert "obtained" in about(found, "credentials", "me")["text"]
    assert {one["level"] for one in found} == {"ok"}, found
    assert origin.requests == [] and origin.raw() == b"", "an upstream is sent nothing"
    assert sorted(gateway.folder.iterdir()) == before, "nothing is created"
    people = gateway.run("doctor")
    assert (people.returncode, people.stderr) == (0, "") and people.stdout.endswith("no problem\n"), people
    assert "\ncredentials\n  ok       me: a token was obtained and discarded\n" in people.stdout


def test_offline_sends_nothing(make_gateway, make_origin, make_token_server):
    origin, server = make_origin(), make_token_server()
    credential = {"strategy": "delegated", "url": server.url + "/?id=1", "request_auth": {"bearer": CANARY}}
    gateway = make_gateway({"credentials": {"me": credential}, "routes": {"api": {"upstream": origin.url, "auth": "me"}}})
    found = findings(gateway, "--offline", code=0)
    assert origin.streams == [] and server.requests == []
    assert about(found, "upstreams", "api")["level"] == "skipped"
    assert about(found, "credentials", "me")["level"] == "skipped"


def test_a_running_gateway_is_asked_and_not_disturbed(start_gateway, authority, origin):
    gateway = start_gateway(whole(origin, authority))
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    tokens = authority.tokens()
    found = findings(gateway, code=0)
    assert about(found, "ports", f"127.0.0.1:{gateway.port}")["text"] == "in use by the running gateway"
    assert about(found, "ports", f"127.0.0.1:{gateway.admin_port}")["text"] == "in use by the running gateway"
    texts = [one["text"] for one in found if one["group"] == "gateway"]
    assert texts == ["a gateway runs and is ready", "it serves the configuration as it is in the file"]
    assert about(found, "credentials", "me")["text"].startswith("valid, expires in ")
    assert about(found, "store", str(gateway.folder / "state" / "tokens.sqlite"))["level"] == "ok"
    assert "newest" in about(found, "audit", str(gateway.folder / "state" / "audit.sqlite"))["text"]
    assert authority.tokens() == tokens, "the token is the gateway's own"
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    assert gateway.run("audit", "verify").returncode == 0
    # No reload, of which the gateway makes one by itself, takes this up.
    gateway.configure({**whole(origin, authority), "workers": 7})
    other = [one for one in findings(gateway, code=0) if one["group"] == "gateway"][-1]
    assert other["level"] == "warning" and other["command"] == "authgateway plan", other
    assert other["text"] == "it serves another configuration than the file: workers", other


def test_a_refresh_token_is_never_spent(start_gateway, authority):
    gateway = start_gateway(login.config(authority))
    assert "login" in errors(findings(gateway), "credentials")[0]["command"]
    attempt = login.Login(gateway, "me")
    assert requests.get(Person().decide(attempt.page), timeout=20).status_code == 200
    assert attempt.end()[0] == 0
    spendable = authority.refresh_tokens()
    assert about(findings(gateway), "credentials", "me")["level"] == "ok"
    gateway.stop()
    found = about(findings(gateway), "credentials", "me")
    assert found["level"] == "ok" and "would spend its refresh token" in found["text"]
    assert authority.refresh_tokens() == spendable
    gateway.start()
    assert login.works(gateway)


# MARK: Where something is wrong


def test_an_upstream_that_is_down_and_a_name_that_is_none(make_gateway, authority, origin):
    nowhere = {"upstream": "https://nowhere.invalid", "auth": "none"}
    down = {"upstream": f"http://127.0.0.1:{processes.free_port()}", "auth": "none"}
    gateway = make_gateway(whole(origin, authority, nowhere=nowhere, down=down))
    found = findings(gateway, code=1)
    assert [(one["group"], one["subject"]) for one in errors(found)] == [
        ("names", "nowhere.invalid"), ("upstreams", "down"),
    ]
    assert about(found, "names", "nowhere.invalid")["command"] == "getent ahosts nowhere.invalid"
    assert about(found, "upstreams", "down")["command"].startswith("curl ")


def test_a_wrong_secret(make_gateway, authority, origin):
    config = whole(origin, authority)
    config["credentials"]["me"]["client_secret"] = CANARY
    found = findings(make_gateway(config), code=1)
    [wrong] = errors(found)
    assert (wrong["group"], wrong["subject"]) == ("credentials", "me")
    assert "invalid_client" in wrong["text"] and wrong["command"].startswith("authgateway ")


def test_tls_that_is_not_trusted_and_a_wrong_name(make_gateway, tls_upstream, certificate_authority):
    def route(**tls):
        return {"upstream": tls_upstream.url, "auth": BEARER, "tls": tls}

    trusted = {"ca": str(certificate_authority.certificate)}
    gateway = make_gateway({"routes": {"good": route(**trusted)}})
    found = findings(gateway)
    assert about(found, "tls", tls_upstream.url)["text"].startswith("trusted; the certificate expires on ")
    # It is of two days.
    assert about(found, "tls", tls_upstream.url)["level"] == "warning"
    gateway.configure({"routes": {"bad": {"upstream": tls_upstream.url, "auth": BEARER}}})
    [wrong] = errors(findings(gateway, code=1))
    assert wrong["group"] == "tls" and "tls.ca of route bad" in wrong["remedy"]
    gateway.configure({"routes": {"named": route(**trusted, server_name="other.test")}})
    [wrong] = errors(findings(gateway, code=1))
    assert wrong["group"] == "tls"


@pytest.mark.parametrize("ahead, level", [(600, "error"), (-20, "warning")])
def test_a_clock_that_is_wrong(make_gateway, origin, ahead, level):
    clock = Clock(ahead)
    try:
        config = {"credentials": {"me": clock.credential()}, "routes": {"api": {"upstream": origin.url, "auth": "me"}}}
        [found] = [one for one in findings(make_gateway(config)) if one["group"] == "clock"]
        assert found["level"] == level and found["command"] == "timedatectl set-ntp true"
        assert ("behind" in found["text"]) == (ahead > 0)
    finally:
        clock.stop()


def test_files_and_ports(start_gateway, authority, origin):
    gateway = start_gateway(whole(origin, authority))
    gateway.stop()
    state = gateway.folder / "state"
    os.chmod(state / "token.key", 0o640)
    os.chmod(gateway.file, 0o664)
    with contextlib.closing(processes.socket.create_server(("127.0.0.1", gateway.port))):
        found = findings(gateway, code=1)
    assert about(found, "files", str(state / "token.key"))["command"] == f"chmod 600 {state}/token.key"
    assert [one["command"] for one in found if one["group"] == "files" and one["level"] == "warning"] == [
        f"chmod g-w {gateway.file}"
    ]
    taken = about(found, "ports", f"127.0.0.1:{gateway.port}")
    assert taken["level"] == "error" and taken["command"] == f"ss -ltnp 'sport = :{gateway.port}'"


def test_an_audit_log_that_was_changed_and_a_key_that_is_gone(start_gateway, authority, origin):
    gateway = start_gateway(whole(origin, authority))
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    gateway.stop()
    state = gateway.folder / "state"
    with contextlib.closing(sqlite3.connect(state / "audit.sqlite")) as database:
        database.execute("drop trigger token_events_refuse_update")
        database.execute("update token_events set credential = 'other' where id = (select max(id) from token_events)")
        database.commit()
    [wrong] = errors(findings(gateway, code=1))
    assert wrong["group"] == "audit" and wrong["command"] == "authgateway audit verify"
    (state / "token.key").rename(gateway.folder / "aside")
    found = findings(gateway, code=1)
    assert {one["group"] for one in errors(found)} == {"store", "audit"}
    assert all("Restore" in one["remedy"] for one in errors(found))
    assert not (state / "token.key").exists(), "no key is made"


def test_a_configuration_with_mistakes_is_all_that_is_said(make_gateway):
    gateway = make_gateway({"routes": {"api": {"upstream": "ftp://x", "auth": BEARER}}})
    found = findings(gateway, code=1)
    assert {one["group"] for one in found} == {"configuration"}
    assert errors(found)[0]["command"] == f"authgateway check {gateway.file}"


def test_thousands_of_routes_are_a_page(make_gateway, origin):
    """Of 10,000 routes it printed 2.6 MB. --json has all of them."""
    routes = {f"r{number}": {"upstream": origin.url, "auth": "none"} for number in range(2_000)}
    gateway = make_gateway({"routes": routes})
    people = gateway.run("doctor", timeout=120)
    assert people.returncode == 0 and len(people.stdout) < 8_000, len(people.stdout)
    assert "r0, r1, r2, r3, r4 and 1995 more: " in people.stdout, people.stdout
    assert len([one for one in findings(gateway, code=0) if one["group"] == "upstreams"]) == 2_000


def test_without_the_variables_of_the_gateway_the_rest_is_checked(start_gateway, origin):
    """Under a service manager, only the gateway has them."""
    route = {"upstream": origin.url, "auth": {"strategy": "bearer", "token": {"env": "ONLY_THERE"}}}
    gateway = start_gateway({"routes": {"api": route}}, environment={"ONLY_THERE": CANARY})
    gateway.environment.pop("ONLY_THERE")
    found = findings(gateway)
    assert errors(found, "configuration") == [], found
    [missing] = [one for one in found if "ONLY_THERE" in one["text"]]
    assert missing["level"] == "skipped" and "only the gateway has it" in missing["text"]
    assert {"gateway", "ports", "store", "audit", "upstreams"} <= {one["group"] for one in found}, found
    gateway.environment["ONLY_THERE"] = CANARY

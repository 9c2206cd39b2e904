"""Changing the configuration of a gateway that runs."""

import concurrent.futures
import json
import signal
import socket
import ssl
import threading
import time

import pytest
import requests

from harness.configs import CANARY
from harness import processes
from harness.events import named, wait_for_events
from harness.gateway import command
from harness.login import Login
from harness.origin import response
from harness.person import Person
from harness.tls import CertificateAuthority
from harness.tls_script import client_context, tls_connect
from harness.token_server import who

#: What these origins answer unless they are told otherwise.
ORIGIN = b"hello from the origin\n"


def routes(**named):
    return {"routes": {name: {"auth": "none", **route} for name, route in named.items()}}


def readiness(gateway):
    return requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=5).json()


def body(gateway, path):
    return requests.get(gateway.url + path, timeout=10).text


@pytest.fixture
def two_origins(make_origin):
    return make_origin(lambda _: response(200, b"first")), make_origin(lambda _: response(200, b"second"))


class TestWhatCausesIt:
    def test_reload_prints_what_changed(self, start_gateway, two_origins):
        first, second = two_origins
        gateway = start_gateway(routes(a={"upstream": first.url}, gone={"upstream": first.url}))
        assert body(gateway, "/a") == "first"
        gateway.configure(routes(a={"upstream": second.url}, new={"upstream": second.url}))
        result = gateway.run("reload")
        assert result.returncode == 0, result.stderr
        assert f"~ routes.a changed\n    upstream: {first.url} (plaintext) -> {second.url} (plaintext)" in result.stdout
        assert "+ routes.new added" in result.stdout and "- routes.gone dropped" in result.stdout
        assert body(gateway, "/a") == "second" and body(gateway, "/new") == "second"
        assert requests.get(gateway.url + "/gone", timeout=5).status_code == 404
        loaded = named(gateway, "config_loaded")
        assert [event.get("trigger") for event in loaded][-1] == "reload"
        assert loaded[-1]["detail"]["cause"] == "operator"

    def test_a_signal_reloads_and_two_at_once_harm_nobody(self, start_gateway, make_origin, tmp_path):
        """A secret changes and no file of the configuration: nobody watches that while all is well, so only the signal can be why."""
        origin = make_origin(who)
        secret = tmp_path / "secret"
        secret.touch(mode=0o600)
        secret.write_text("first")
        auth = {"strategy": "bearer", "token": {"file": str(secret)}}
        gateway = start_gateway(routes(a={"upstream": origin.url, "auth": auth}))
        assert body(gateway, "/a") == "Bearer first"
        began = len(named(gateway, "config_loaded"))
        for text, signals in (("second", 1), ("third", 2), ("fourth", 1)):
            secret.write_text(text)
            for _ in range(signals):
                gateway.process.send_signal(signal.SIGHUP)
            processes.wait_until(lambda text=text: body(gateway, "/a") == f"Bearer {text}", 10, lambda: gateway.text())
        assert gateway.stop() == 0
        reloads = named(gateway, "config_loaded")[began:]
        # Two that come at once are one or two.
        assert [event["detail"]["cause"] for event in reloads] in (["signal"] * 3, ["signal"] * 4)
        assert named(gateway, "config_refused") == []

    def test_a_replaced_file_is_noticed(self, start_gateway, two_origins):
        first, second = two_origins
        gateway = start_gateway(routes(a={"upstream": first.url}))
        text = gateway.file.read_text().replace(first.url, second.url)
        beside = gateway.folder / "edited"
        beside.write_text(text)
        beside.rename(gateway.file)
        processes.wait_until(lambda: body(gateway, "/a") == "second", 10, lambda: gateway.text())
        assert named(gateway, "config_loaded")[-1]["detail"]["cause"] == "files"

    def test_a_swapped_link_and_a_new_include_are_noticed(self, make_gateway, two_origins):
        """As Kubernetes does: the file is a link into a folder that is itself behind a link."""
        first, second = two_origins
        gateway = make_gateway({**routes(a={"upstream": first.url}), "include": "conf.d/*.yaml"})
        for name, origin in (("one", first), ("two", second)):
            (gateway.folder / name).mkdir()
            text = gateway.file.read_text().replace(first.url, origin.url)
            (gateway.folder / name / "gateway.yaml").write_text(text.replace("./state", str(gateway.folder / "state")))
        (gateway.folder / "conf.d").mkdir()
        gateway.file.unlink()
        (gateway.folder / "..data").symlink_to("one")
        gateway.file.symlink_to("..data/gateway.yaml")
        gateway.start()
        assert body(gateway, "/a") == "first"
        (gateway.folder / "..new").symlink_to("two")
        (gateway.folder / "..new").rename(gateway.folder / "..data")
        processes.wait_until(lambda: body(gateway, "/a") == "second", 10, lambda: gateway.text())
        (gateway.folder / "conf.d" / "more.yaml").write_text(json.dumps(routes(more={"upstream": first.url})))
        processes.wait_until(lambda: body(gateway, "/more") == "first", 10, lambda: gateway.text())


class TestRefusal:
    def test_a_mistake_keeps_the_running_configuration(self, start_gateway, origin):
        gateway = start_gateway(routes(a={"upstream": origin.url}))
        good = gateway.file.read_text()
        gateway.file.write_text(good.replace('"auth"', '"oauth"') + f"\n# {CANARY}")
        result = gateway.run("reload")
        assert result.returncode == 3
        assert "gateway.yaml:" in result.stderr and 'unknown key "oauth"' in result.stderr
        assert "the running configuration was kept" in result.stderr
        assert requests.get(gateway.url + "/a", timeout=5).status_code == 200
        [refused] = [json.loads(line) for line in gateway.text().splitlines() if "Configuration refused" in line]
        assert 'unknown key "oauth"' in refused["text"]
        state = readiness(gateway)
        assert state["is_ready"] and any("configuration refused" in reason for reason in state["reasons"])
        page = requests.get(gateway.admin_url, timeout=5).text
        assert "Configuration refused at" in page, "it is the title of something to do"
        assert named(gateway, "config_refused")
        gateway.file.write_text(good)
        assert gateway.run("reload").returncode == 0
        assert readiness(gateway)["reasons"] == []

    def test_a_mistake_is_noticed_by_itself_once(self, start_gateway, origin):
        gateway = start_gateway(routes(a={"upstream": origin.url}))
        gateway.file.write_text(gateway.file.read_text().replace('"auth"', '"oauth"'))
        wait_for_events(gateway, "config_refused", 1)
        time.sleep(3)
        assert len(named(gateway, "config_refused")) == 1
        assert requests.get(gateway.url + "/a", timeout=5).status_code == 200

    def test_a_mended_secret_file_is_noticed(self, start_gateway, origin, tmp_path):
        secret = tmp_path / "secret"
        secret.write_text("first\n")
        secret.chmod(0o600)
        auth = {"strategy": "bearer", "token": {"file": str(secret)}}
        gateway = start_gateway({"routes": {"a": {"upstream": origin.url, "auth": auth}}})
        secret.write_text("second\n")
        secret.chmod(0o644)
        assert gateway.run("reload").returncode == 3
        assert "others may read" in " ".join(readiness(gateway)["reasons"])
        secret.chmod(0o600)
        processes.wait_until(lambda: readiness(gateway)["reasons"] == [], 20, lambda: str(readiness(gateway)))
        body(gateway, "/a")
        assert origin.last().value("authorization") == "Bearer second"
        # From here on nothing is wrong, and a rotation of the secret waits for a reload.
        loaded = len(named(gateway, "config_loaded"))
        secret.write_text("third\n")
        assert gateway.run("reload").returncode == 0
        body(gateway, "/a")
        assert origin.last().value("authorization") == "Bearer third"
        assert len(named(gateway, "config_loaded")) == loaded + 1

    @pytest.mark.parametrize("place", ["listener", "route"])
    def test_a_mended_certificate_is_noticed(self, start_gateway, origin, certificate_authority, tmp_path, place):
        certificate = tmp_path / "certificate.pem"
        good, key = certificate_authority.issue("localhost-mended", "IP:127.0.0.1")
        certificate.write_bytes(good.read_bytes())
        if place == "listener":
            tls = {"certificate": str(certificate), "private_key": {"file": str(key)}}
            gateway = start_gateway(
                routes(a={"upstream": origin.url}),
                listeners=[{"address": f"127.0.0.1:{processes.free_port()}", "tls": tls}],
            )
        else:
            route = {"upstream": "https://127.0.0.1:9", "tls": {"ca": str(certificate)}}
            gateway = start_gateway(routes(a={"upstream": origin.url}, b=route))
        certificate.write_text("no certificate\n")
        assert gateway.run("reload").returncode == 1
        assert "TLS settings cannot be used" in " ".join(readiness(gateway)["reasons"])
        certificate.write_bytes(good.read_bytes())
        processes.wait_until(lambda: readiness(gateway)["reasons"] == [], 20, lambda: str(readiness(gateway)))

    def test_an_address_in_use_is_refused(self, start_gateway, origin):
        gateway = start_gateway(routes(a={"upstream": origin.url}))
        gateway.configure(routes(a={"upstream": origin.url}), listeners=[{"address": f"127.0.0.1:{origin.port}"}])
        result = gateway.run("reload")
        assert result.returncode == 1 and "in use" in result.stderr
        assert requests.get(gateway.url + "/a", timeout=5).status_code == 200

    def test_what_needs_a_restart_is_named(self, start_gateway, origin):
        gateway = start_gateway(routes(a={"upstream": origin.url}))
        gateway.configure({**routes(a={"upstream": origin.url}), "workers": 7, "audit": {"usage": "none"}})
        result = gateway.run("reload")
        assert result.returncode == 3
        assert "workers: auto -> 7" in result.stderr and "audit.usage: minute -> none" in result.stderr
        assert "restart" in result.stderr

    def test_no_gateway_is_exit_code_4(self, make_gateway, origin):
        assert make_gateway(routes(a={"upstream": origin.url})).run("reload").returncode == 4


class TestListeners:
    def test_added_and_removed(self, start_gateway, origin):
        gateway = start_gateway(routes(a={"upstream": origin.url}))
        port = processes.free_port()
        file = gateway.folder / "proxy.sock"
        plain = routes(a={"upstream": origin.url})
        gateway.configure(plain, listeners=[{"address": f"127.0.0.1:{port}"}, {"unix": str(file)}])
        assert gateway.run("reload").returncode == 0
        session = requests.Session()
        assert session.get(f"http://127.0.0.1:{port}/a", timeout=5).status_code == 200
        assert file.is_socket()
        gateway.configure(plain)
        assert gateway.run("reload").returncode == 0
        with pytest.raises(requests.ConnectionError):
            session.get(f"http://127.0.0.1:{port}/a", timeout=5)
        assert not file.exists()
        assert requests.get(gateway.url + "/a", timeout=5).status_code == 200

    def test_a_head_that_was_on_its_way_is_the_last_of_a_removed_listener(self, start_gateway, origin):
        port = processes.free_port()
        plain = routes(a={"upstream": origin.url})
        gateway = start_gateway(plain, listeners=[{"address": f"127.0.0.1:{port}"}])
        head = f"GET /a HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode()
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(head)
            # What was sent before is read before this is answered.
            assert requests.get(f"http://127.0.0.1:{port}/a", timeout=5).status_code == 200
            gateway.configure(plain)
            assert gateway.run("reload").returncode == 0
            connection.sendall(b"\r\n" + head + b"\r\n")
            received = b""
            while part := connection.recv(65536):
                received += part
        assert received.count(b"HTTP/1.1 200") == 1 and b"Connection: close\r\n" in received

    def test_a_new_certificate_is_used(self, start_gateway, origin, certificate_authority, tmp_path):
        port = processes.free_port()
        certificate, key = tmp_path / "live.pem", tmp_path / "live.key"
        authority = str(certificate_authority.certificate)

        def issue(name):
            new, new_key = certificate_authority.issue(name, "IP:127.0.0.1")
            certificate.write_bytes(new.read_bytes())
            key.write_bytes(new_key.read_bytes())
            key.chmod(0o600)

        issue("reload-one")
        tls = {"certificate": str(certificate), "private_key": {"file": str(key)}}
        gateway = start_gateway(
            routes(a={"upstream": origin.url}), listeners=[{"address": f"127.0.0.1:{port}", "tls": tls}]
        )
        before = ssl.get_server_certificate(("127.0.0.1", port))
        assert requests.get(f"https://127.0.0.1:{port}/a", verify=authority, timeout=5).status_code == 200
        issue("reload-two")
        assert gateway.run("reload").returncode == 0
        assert ssl.get_server_certificate(("127.0.0.1", port)) != before
        assert requests.get(f"https://127.0.0.1:{port}/a", verify=authority, timeout=5).status_code == 200

    @pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "written-again"])
    def test_clients_of_an_authority_that_is_no_longer_there_are_let_go(
        self, start_gateway, origin, certificate_authority, tmp_path, replaced
    ):
        port, live = processes.free_port(), tmp_path / "live-ca.pem"
        certificate, key = certificate_authority.issue("client-ca-server", "IP:127.0.0.1")
        key.chmod(0o600)
        authorities = [CertificateAuthority(tmp_path, name) for name in ("old", "new")]
        shown = [authority.issue(f"{authority.name}-client", "DNS:client", "clientAuth") for authority in authorities]
        live.write_bytes(authorities[0].certificate.read_bytes())
        tls = {"certificate": str(certificate), "private_key": {"file": str(key)}, "client_ca": str(live)}
        gateway = start_gateway(
            routes(a={"upstream": origin.url}), listeners=[{"address": f"127.0.0.1:{port}", "tls": tls}]
        )

        def dial(own):
            context = client_context(certificate_authority)
            context.load_cert_chain(*own)
            return tls_connect(port, context)

        def is_answered(client):
            client.send(f"GET /a HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            return client.head().startswith(b"HTTP/1.1 200 ") and client.exactly(len(ORIGIN)) == ORIGIN

        with dial(shown[0]) as client:
            assert is_answered(client)
            live.write_bytes(authorities[replaced].certificate.read_bytes())
            assert gateway.run("reload").returncode == 0
            if replaced:
                assert client.to_end() == b"" and client.ended == "end"
            else:
                assert client.is_quiet(0.3) and is_answered(client)
        with dial(shown[replaced]) as client:
            assert is_answered(client)


class TestCredentials:
    def test_a_token_outlives_a_reload_that_does_not_concern_it(self, start_gateway, make_authority):
        authority = make_authority()
        config = {
            "credentials": {"service": authority.credential()},
            "routes": {"api": {"upstream": f"{authority.url}/api", "auth": "service"}},
        }
        gateway = start_gateway(config)
        assert requests.get(gateway.url + "/api/x", timeout=10).status_code == 200
        config["routes"]["more"] = {"upstream": f"{authority.url}/api/more", "auth": "service"}
        gateway.configure(config)
        assert gateway.run("reload").returncode == 0
        assert requests.get(gateway.url + "/more/x", timeout=10).status_code == 200
        assert len(authority.tokens()) == 1
        config["credentials"]["service"]["scopes"] = ["read", "write"]
        gateway.configure(config)
        assert gateway.run("reload").returncode == 0
        assert requests.get(gateway.url + "/api/x", timeout=10).status_code == 200
        assert len(authority.tokens()) == 2

    def test_a_secret_file_is_read_again(self, start_gateway, make_origin, tmp_path):
        origin = make_origin()
        folder = tmp_path / "with-secret"
        folder.mkdir()

        def write(text):
            (folder / "secret").write_text(text)
            (folder / "secret").chmod(0o600)

        config = routes(a={"upstream": origin.url, "auth": {"strategy": "bearer", "token": {"file": "secret"}}})
        write("before")
        gateway = start_gateway(config, folder=folder)
        requests.get(gateway.url + "/a", timeout=5)
        assert origin.last().value("authorization") == "Bearer before"
        write("after")
        assert gateway.run("reload").returncode == 0
        requests.get(gateway.url + "/a", timeout=5)
        assert origin.last().value("authorization") == "Bearer after"

    def test_a_credential_that_is_dropped_and_comes_back_during_its_rotation(self, start_gateway, make_authority):
        """The refresh token that is being spent is not spent a second time."""
        authority = make_authority(token_delay=2.0)
        whole = {
            "credentials": {"me": authority.login_credential()},
            "routes": {"api": {"upstream": f"{authority.url}/api", "auth": "me"}},
        }
        gateway = start_gateway(whole)
        login = Login(gateway, "me", "--no-browser")
        requests.get(Person().decide(login.page), timeout=20)
        assert login.end()[0] == 0
        renewal = threading.Thread(target=gateway.run, args=("token", "refresh", "me"))
        renewal.start()
        processes.wait_until(lambda: named(gateway, "renewing"), 10, lambda: gateway.text())
        for config in ({"routes": {"other": {"upstream": authority.url, "auth": "none"}}}, whole):
            gateway.configure(config)
            assert gateway.run("reload").returncode == 0
        assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
        renewal.join()
        assert len(named(gateway, "renewing")) == 1 and not named(gateway, "renewal_failed")
        # The keeper that the reload brought says so.
        assert named(gateway, "loaded")[-1]["trigger"] == "reload"

    def test_a_reload_during_a_renewal_asks_once(self, start_gateway, make_authority):
        """The call that is under way counts for the new plan, too."""
        authority = make_authority(token_delay=2.0)
        config = {
            "credentials": {"service": authority.credential()},
            "routes": {"api": {"upstream": f"{authority.url}/api", "auth": "service"}},
        }
        gateway = start_gateway(config)
        answers = []

        def ask():
            answers.append(requests.get(gateway.url + "/api/x", timeout=20).status_code)

        first = threading.Thread(target=ask)
        first.start()
        processes.wait_until(lambda: any(e["event"] == "acquiring" for e in gateway.events()), 10, lambda: gateway.text())
        config["routes"]["more"] = {"upstream": f"{authority.url}/api/more", "auth": "service"}
        gateway.configure(config)
        assert gateway.run("reload").returncode == 0
        ask()
        first.join()
        assert answers == [200, 200]
        assert len(authority.tokens()) == 1

    @pytest.mark.parametrize("operation, code", [("lock", "locked"), ("unlock", None)])
    def test_a_lock_that_waits_for_its_turn_holds_for_the_credential_that_a_reload_brings(
        self, start_gateway, make_authority, operation, code
    ):
        authority = make_authority(token_delay=4.0)
        config = {
            "credentials": {"service": authority.credential()},
            "routes": {"api": {"upstream": f"{authority.url}/api", "auth": "service"}},
        }
        gateway = start_gateway(config)

        def answer():
            return requests.get(gateway.url + "/api/x", timeout=20)

        def is_stored():
            locks = gateway.folder / "state" / "locks.json"
            return locks.exists() and ("service" in locks.read_text()) == (operation == "lock")

        renewal = threading.Thread(target=gateway.run, args=("token", "refresh", "service"))
        renewal.start()
        processes.wait_until(lambda: named(gateway, "acquiring"), 10, lambda: gateway.text())
        ordered = []
        if operation == "unlock":
            # It waits for its turn, too; that it holds at once is enough.
            locking = threading.Thread(target=gateway.run, args=("token", "lock", "service"))
            locking.start()
            processes.wait_until(lambda: (gateway.folder / "state" / "locks.json").exists(), 3, "the lock")
        order = threading.Thread(target=lambda: ordered.append(gateway.run("token", operation, "service")))
        order.start()
        if operation == "unlock":
            processes.wait_until(is_stored, 3, "the file of locks")
        else:
            time.sleep(1)
        config["credentials"]["service"]["scopes"] = ["read", "write"]
        gateway.configure(config)
        assert gateway.run("reload").returncode == 0
        answered = answer()
        order.join()
        renewal.join()
        assert ordered[0].returncode == 0 and f"is {operation}ed" in ordered[0].stdout, ordered
        for said in (answered, answer()):
            assert (said.json()["code"] if code else said.status_code) == (code or 200), said.text
        assert f"{operation}ed" in [event["event"] for event in gateway.events()]
        assert is_stored()


def test_at_most_64_reloads_wait(start_gateway, make_origin, tmp_path):
    """For one that is under way, which the program of a secret holds up."""
    origin, program, held, runs = make_origin(who), tmp_path / "print-token", tmp_path / "held", tmp_path / "runs"
    program.write_text(f"#!/bin/sh\necho >> {runs}\nwhile [ -e {held} ]; do sleep 0.05; done\necho {CANARY}\n")
    program.chmod(0o755)
    gateway = start_gateway(routes(a={"upstream": origin.url, "auth": {"strategy": "bearer", "token": {"exec": [str(program)]}}}))
    headers = {"Authorization": f"Bearer {(gateway.folder / 'state' / 'admin.token').read_text().strip()}"}

    def reload(_=None):
        return requests.post(f"{gateway.admin_url}/api/reload", headers=headers, timeout=60).text

    began = runs.read_text().count("\n")
    held.touch()
    with concurrent.futures.ThreadPoolExecutor(70) as pool:
        under_way = pool.submit(reload)
        processes.wait_until(lambda: runs.read_text().count("\n") > began, 10, lambda: gateway.text())
        waiting = [pool.submit(reload) for _ in range(65)]
        refused, _ = concurrent.futures.wait(waiting, timeout=20, return_when=concurrent.futures.FIRST_COMPLETED)
        held.unlink()
    assert ["too many reloads are waiting" in done.result() for done in refused] == [True]
    assert "too many" not in under_way.result() + "".join(done.result() for done in waiting if done not in refused)


def reload_under_load(gateway, urls, count, threads=4):
    """Requests without a pause while the routes change `count` times; returns what went wrong and how many there were."""
    done, failures, sent = threading.Event(), [], [0] * threads

    def ask(number):
        session = requests.Session()
        while not done.is_set():
            try:
                answer = session.get(gateway.url + "/a", timeout=20)
                if answer.status_code != 200:
                    failures.append((answer.status_code, answer.text))
            except requests.RequestException as error:
                failures.append(repr(error))
            sent[number] += 1

    workers = [threading.Thread(target=ask, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    token = (gateway.folder / "state" / "admin.token").read_text().strip()
    try:
        for number in range(count):
            gateway.configure(
                routes(a={"upstream": urls[number % len(urls)]}, **{f"r{number}": {"upstream": urls[0]}})
            )
            answer = requests.post(
                f"{gateway.admin_url}/api/reload", headers={"Authorization": f"Bearer {token}"}, timeout=20
            )
            assert answer.status_code == 200, answer.text
    finally:
        done.set()
        for worker in workers:
            worker.join()
    return failures, sum(sent)


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_reloads_under_load_lose_no_request(start_gateway, two_origins, count):
    gateway = start_gateway(routes(a={"upstream": two_origins[0].url}))
    failures, sent = reload_under_load(gateway, [origin.url for origin in two_origins], count)
    assert failures == []
    assert sent > count


class TestPlan:
    def test_it_shows_what_a_reload_would_change(self, start_gateway, two_origins):
        first, second = two_origins
        config = routes(a={"upstream": first.url})
        config["routes"]["s"] = {"upstream": first.url, "auth": {"strategy": "bearer", "token": f"{CANARY}-1"}}
        gateway = start_gateway(config)
        result = gateway.run("plan")
        assert result.returncode == 0 and "Compared with the running gateway:\nNothing changes." in result.stdout
        config["routes"]["s"]["auth"]["token"] = f"{CANARY}-2"
        config["routes"]["a"]["upstream"] = second.url
        other = gateway.folder / "new.yaml"
        whole = json.loads(gateway.file.read_text())
        other.write_text(json.dumps({**whole, "routes": config["routes"], "limits": {"drain": "1s"}}))
        result = command("plan", "--config", other, cwd=gateway.folder)
        assert "~ credentials.routes.s changed" in result.stdout
        assert f"    upstream: {first.url} (plaintext) -> {second.url} (plaintext)" in result.stdout
        assert "~ limits.drain changed (needs a restart)" in result.stdout
        changes = json.loads(command("plan", "--json", "--config", other, cwd=gateway.folder).stdout)["changes"]
        assert {"kind": "changed", "path": "credentials.routes.s"}.items() <= next(
            change.items() for change in changes if change["path"] == "credentials.routes.s"
        )
        assert CANARY not in result.stdout + result.stderr
        against = command("plan", "--config", other, "--against", gateway.file, cwd=gateway.folder)
        assert "~ credentials.routes.s changed" in against.stdout
        gateway.stop()
        alone = gateway.run("plan")
        assert alone.returncode == 0 and "Not compared with a running gateway" in alone.stderr

    def test_two_processes_make_the_same_digests(self, start_gateway, two_origins):
        """The upstream serves the token endpoint too, so the route guards it: a digest once held an address of the process."""
        url = two_origins[0].url
        auth = {"strategy": "oauth2_client_credentials", "token_url": f"{url}/oauth/token", "client_id": "x", "client_secret": CANARY}
        gateway = start_gateway(routes(a={"upstream": url, "auth": auth, "whoami": {"path": "/me", "shows": "/login"}}))
        for _ in range(3):
            assert "Compared with the running gateway:\nNothing changes." in gateway.run("plan").stdout

        def digest():
            return requests.get(f"{gateway.admin_url}/api/overview", timeout=5).json()["configuration_digest"]

        first = digest()
        assert gateway.stop() == 0
        gateway.start()
        assert digest() == first, "gateways of a fleet compare it"

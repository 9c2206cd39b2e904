"""Every request that fails leaves a trace: in the audit log, in the log and in the metrics, and floods leave few."""

import concurrent.futures
import contextlib
import json
import socket
import ssl
import time

import requests
from harness import raw
from harness.configs import BEARER, CANARY
from harness.events import named
from harness.origin import response
from harness.processes import wait_until
from harness.script import get
from harness.tls import CertificateAuthority
from harness.tls_script import server_context

#: Short, so that each failure comes soon.
LIMITS = {"response_timeout": "500ms", "connect_timeout": "2s", "body_idle_timeout": "500ms"}


def detail(event):
    return event["detail"]


def failures(gateway):
    return named(gateway, "request_failed")


def wait_for_failures(gateway, count):
    wait_until(lambda: len(failures(gateway)) >= count, 20, lambda: f"{count} events, not {failures(gateway)}")
    return failures(gateway)


def start(start_gateway, upstream, auth=BEARER, **route):
    route = {"upstream": upstream, "auth": auth, "allow_plaintext": True, **route}
    return start_gateway({"limits": LIMITS, "routes": {"api": route}})


@contextlib.contextmanager
def silent():
    """Accepts, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_who_is_down_is_said_at_once(start_gateway):
    gateway = start(start_gateway, "http://127.0.0.1:1")
    answer = requests.get(gateway.url + "/api/users/42?key=secret", headers={"X-Request-Id": "mine"}, timeout=20)
    [event] = wait_for_failures(gateway, 1)
    assert event["error_code"] == "connection_refused" and event["http_status"] == 502 and event["outcome"] == "failed"
    assert event["route"] == "api" and event["credential"] == "routes.api" and event["client_request_id"] == "mine"
    assert event["request_id"] == answer.headers["Gateway-Request-Id"]
    said = detail(event)
    assert said["peer"] == "127.0.0.1" and said["path"] == "/api/users/{id}" and said["method"] == "GET"
    assert "is it running?" in said["explanation"]
    assert "secret" not in json.dumps(event) and CANARY not in json.dumps(event)
    assert named(gateway, "injected") == [], "nothing has left"
    [line] = [line for line in gateway.text().splitlines() if "Request failed" in line]
    assert '"level":"warning"' in line and "connection_refused" in line
    metrics = requests.get(gateway.admin_url + "/metrics", timeout=20).text
    assert 'gateway_requests_failed_total{route="api",reason="connection_refused"} 1' in metrics


def test_reasons_are_told_apart(start_gateway, make_script, make_origin, certificate_authority, tmp_path):
    def broken(wire, number):
        head = wire.head()
        if b"/garbage" in head:
            wire.send(b"garbage\r\n\r\n")
        elif b"/cut" in head:
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")

    strange = CertificateAuthority(tmp_path, "strange")
    certificate, key = strange.issue("server", "IP:127.0.0.1,DNS:localhost")
    plain = make_script(lambda wire, number: wire.send(b"HTTP/1.1 400 x\r\n\r\n"))
    with silent() as quiet, tls_server(certificate, key) as untrusted:
        routes = {
            "down": "http://127.0.0.1:1",
            "nowhere": "http://does-not-exist.invalid",
            "silent": f"http://127.0.0.1:{quiet}",
            "broken": make_script(broken).url,
            "plain": plain.url.replace("http://", "https://"),
            "untrusted": f"https://127.0.0.1:{untrusted}",
            "sad": make_origin(lambda request: response(503, b"sad")).url,
            "rejecting": make_origin(lambda request: response(401, b"no")).url,
        }
        gateway = start_gateway(
            {
                "limits": LIMITS,
                "routes": {
                    name: {"upstream": url, "auth": BEARER, "allow_plaintext": True} for name, url in routes.items()
                },
            }
        )
        asked = {
            "/down/x": "connection_refused", "/nowhere/x": "name_not_resolved", "/silent/x": "response_timeout",
            "/broken/garbage": "upstream-invalid-response", "/broken/cut": "connection_lost",
            "/plain/x": "tls_handshake_failed", "/untrusted/x": "certificate_untrusted", "/sad/x": "upstream_status",
            "/rejecting/x": "credential_rejected",
        }
        for path in asked:
            with contextlib.suppress(requests.RequestException):
                requests.get(gateway.url + path, timeout=20)
        events = wait_for_failures(gateway, len(asked))
    assert {event["detail"]["path"]: event["error_code"] for event in events} == asked
    by_path = {event["detail"]["path"]: event for event in events}
    assert by_path["/broken/cut"]["detail"]["cut"] == "true" and by_path["/broken/cut"]["http_status"] == 200
    assert by_path["/sad/x"]["http_status"] == 503 and by_path["/rejecting/x"]["http_status"] == 401
    assert "tls.ca" in by_path["/untrusted/x"]["detail"]["explanation"]
    for path in ("/sad/x", "/rejecting/x"):
        said = by_path[path]["detail"]
        assert int(said["response_ms"]) >= int(said["connection_ms"]) >= int(said["credential_ms"])


@contextlib.contextmanager
def tls_server(certificate, key):
    """Makes handshakes, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:

        def serve():
            context = server_context(certificate, key)
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with contextlib.suppress(OSError, ssl.SSLError), connection:
                    context.wrap_socket(connection, server_side=True).recv(1)

        pool.submit(serve)
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_a_certificate_that_has_expired_is_called_that(start_gateway, certificate_authority):
    certificate, key = certificate_authority.issue("expired", "IP:127.0.0.1", days=-1)
    with tls_server(certificate, key) as port:
        gateway = start(start_gateway, f"https://127.0.0.1:{port}", tls={"ca": str(certificate_authority.certificate)})
        answer = requests.get(gateway.url + "/api/x", timeout=20)
        assert answer.status_code == 502 and "has expired" in answer.json()["detail"]
        [event] = wait_for_failures(gateway, 1)
    assert event["error_code"] == "certificate_expired"


def test_many_are_one_row_and_a_count(start_gateway):
    gateway = start(start_gateway, "http://127.0.0.1:1")
    ids = [requests.get(gateway.url + f"/api/{n}", timeout=20).headers["Gateway-Request-Id"] for n in range(200)]
    assert len(wait_for_failures(gateway, 1)) == 1
    gateway.stop()
    first, rest = failures(gateway)
    assert first["request_id"] == ids[0] and "count" not in detail(first)
    assert detail(rest)["count"] == "199", "nothing is lost at the stop"
    assert detail(rest)["requests"].split() == ids[1:16]
    # Those that share a row are found by it.
    assert [json.loads(line)["id"] for line in gateway.run("audit", "query", "--request", ids[7], "--json").stdout.splitlines()] == [rest["id"]]
    assert len([line for line in gateway.text().splitlines() if "Request failed" in line]) == 2
    assert gateway.run("audit", "verify").returncode == 0


def test_one_noisy_client_does_not_silence_another(start_gateway, make_origin):
    origin = make_origin()
    clients = {name: {"token": f"{CANARY}-{name}-0123456789"} for name in ("noisy", "quiet")}
    routes = {f"r{number}": {"upstream": "http://127.0.0.1:1", "auth": "none"} for number in range(60)}
    routes["api"] = {"upstream": origin.url, "auth": "none"}
    gateway = start_gateway({"access": {"clients": clients}, "limits": {"request_body_bytes": 1}, "routes": routes})

    def token(name):
        return {"Authorization": f"Bearer {CANARY}-{name}-0123456789"}

    with requests.Session() as session:
        for number in range(60):
            session.get(f"{gateway.url}/r{number}/x", headers=token("noisy"), timeout=20)
    assert requests.post(gateway.url + "/api/x", data=b"long", headers=token("quiet"), timeout=20).status_code == 413
    wait_until(
        lambda: any(event["client"] == "quiet" for event in failures(gateway)), 5, "the quiet client has a row soon"
    )
    wait_until(lambda: len(failures(gateway)) == 61, 30, lambda: f"all have a row in the end: {len(failures(gateway))}")


def test_denials_say_where_they_come_from_and_are_merged(start_gateway, origin):
    clients = {"laptop": {"token": f"{CANARY}-laptop-0123456789"}}
    gateway = start_gateway({"access": {"clients": clients}, "routes": {"api": {"upstream": origin.url, "auth": BEARER}}})
    for _ in range(50):
        assert requests.get(gateway.url + "/api/x", headers={"Authorization": "Bearer wrong"}, timeout=20).status_code == 401
    gateway.stop()
    first, rest = named(gateway, "client_denied")
    assert detail(first)["peer"] == "127.0.0.1" and first["error_code"] == "client-auth-required"
    assert detail(rest)["count"] == "49"
    assert failures(gateway) == []


def test_stray_requests_are_lines_of_the_log_and_no_rows(start_gateway, origin):
    gateway = start(start_gateway, origin.url)
    asked = [
        get(gateway, "Connection: close", path="/nowhere"),
        get(gateway, "Connection: close", method="TRACE"),
        b"GET / HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n",
    ]
    for request, status in zip(asked, (404, 405, 421), strict=True):
        for _ in range(20):
            assert raw.exchange(gateway.port, request).status == status
    gateway.stop()
    lines = [json.loads(line) for line in gateway.text().splitlines() if "Request without a route" in line]
    assert [(line["status"], line.get("count")) for line in lines][:3] == [("404", None), ("405", None), ("421", None)]
    assert sorted((line["status"], line["count"]) for line in lines[3:]) == [("404", "19"), ("405", "19"), ("421", "19")]
    assert {line["peer"] for line in lines} == {"127.0.0.1"}
    assert {line["host"] for line in lines if line["status"] == "421"} == {"elsewhere.example"}
    assert {event["event"] for event in gateway.events()} & {"request_failed", "client_denied"} == set()


def test_a_credential_that_cannot_be_had_is_a_failure_with_its_name(start_gateway, origin):
    auth = {
        "strategy": "oauth2_client_credentials", "token_url": "http://127.0.0.1:1/token", "client_id": "a",
        "client_secret": CANARY,
    }
    gateway = start(start_gateway, origin.url, auth=auth)
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 502
    [event] = wait_for_failures(gateway, 1)
    assert event["error_code"] == "token-endpoint-unreachable" and event["credential"] == "routes.api"
    assert named(gateway, "injected") == []
    assert origin.count() == 0


def test_what_a_client_sent_cannot_forge_a_line(start_gateway, origin):
    gateway = start(start_gateway, "http://127.0.0.1:1")
    path = "/api/%0a%1b[2J/alice@example.com/eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
    raw.exchange(gateway.port, get(gateway, "Connection: close", path=path))
    [event] = wait_for_failures(gateway, 1)
    assert detail(event)["path"] == "/api/{id}/{id}.com/{id}"
    for hidden in ("alice", "eyJ"):
        assert hidden not in json.dumps(event) and hidden not in gateway.text()


def test_injected_comes_with_the_head_that_left(start_gateway, make_script):
    """Over TLS, too, where the handshake fails first."""
    with silent() as quiet:
        gateway = start_gateway(
            {
                "limits": {**LIMITS, "connect_timeout": "300ms"},
                "routes": {"api": {"upstream": f"https://127.0.0.1:{quiet}", "auth": BEARER}},
            }
        )
        assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 504
        [event] = wait_for_failures(gateway, 1)
        assert event["error_code"] == "tls_timeout"
        time.sleep(0.2)
        assert named(gateway, "injected") == []

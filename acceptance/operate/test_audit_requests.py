"""`audit.usage: request`: a row for each request."""

import concurrent.futures
import json
import subprocess
import threading

import pytest
import requests
from harness.configs import BEARER
from harness import processes
from harness.origin import response
from harness.script import connect, get


def config(origin, usage="request"):
    return {
        "audit": {"usage": usage},
        "routes": {
            "api": {"upstream": origin.url, "auth": BEARER, "allow": [{"methods": ["GET", "POST"], "path": "/**"}]},
            "open": {"upstream": origin.url, "auth": "none"},
            "down": {"upstream": "http://127.0.0.1:1", "auth": BEARER},
        },
    }


@pytest.fixture
def origin(make_origin):
    return make_origin(lambda request: response(404 if "missing" in request.target else 200, b"hello"))


def rows(gateway, *filters):
    result = gateway.run("audit", "query", "--requests", "--json", *filters)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def wait_for_rows(gateway, count):
    processes.wait_until(lambda: len(rows(gateway)) >= count, 20, lambda: f"{count} rows, not {rows(gateway)}")


def test_every_request_that_was_sent_on_has_a_row(start_gateway, origin):
    gateway = start_gateway(config(origin))
    given = {"X-Request-Id": "mine-1"}
    assert requests.get(gateway.url + "/api/a?secret=1", headers=given, timeout=10).status_code == 200
    assert requests.post(gateway.url + "/api/missing", data=b"12345", timeout=10).status_code == 404
    assert requests.get(gateway.url + "/open/x", timeout=10).status_code == 200
    assert requests.get(gateway.url + "/down/x", timeout=10).status_code == 502
    # Refused by the gateway before anything was sent on.
    assert requests.delete(gateway.url + "/api/a", timeout=10).status_code == 403
    assert requests.get(gateway.url + "/nowhere", timeout=10).status_code == 404
    wait_for_rows(gateway, 4)
    found = rows(gateway)
    assert [(row["route"], row["method"], row["status"]) for row in found] == [
        ("api", "GET", 200), ("api", "POST", 404), ("open", "GET", 200), ("down", "GET", 502),
    ]
    assert found[0]["credential"] == "routes.api" and found[2]["credential"] is None
    assert found[1]["bytes_received"] == 5 and found[0]["bytes_sent"] > 0
    assert found[3]["problem"] == "upstream-unreachable"
    assert "secret" not in json.dumps(found), "neither paths nor queries are kept"
    assert [row["status"] for row in rows(gateway, "--failed")] == [404, 502]
    assert [row["route"] for row in rows(gateway, "--route", "open")] == ["open"]
    people = gateway.run("audit", "query", "--requests")
    assert people.returncode == 0 and len(people.stdout.splitlines()) == 4 and "routes.api" in people.stdout
    assert len(gateway.run("audit", "export", "--requests").stdout.splitlines()) == 4
    # Events and counts are as they are without it.
    assert all("event" in row for row in gateway.events())
    assert gateway.run("audit", "query", "--requests", "--event", "acquired").returncode == 2
    gateway.stop()
    stats = json.loads(gateway.run("audit", "stats", "--json").stdout)
    assert stats["calls"] == 3
    assert gateway.run("audit", "verify").returncode == 0


def test_the_plain_shell_reads_them(start_gateway, origin):
    gateway = start_gateway(config(origin))
    assert requests.get(gateway.url + "/api/a", timeout=10).status_code == 200
    wait_for_rows(gateway, 1)
    database = gateway.folder / "state" / "audit.sqlite"
    sql = "select route, method, status, credential from token_requests"
    done = subprocess.run(["sqlite3", "-readonly", str(database), sql], check=True, capture_output=True, text=True, timeout=20)
    assert done.stdout == "api|GET|200|routes.api\n", done


def test_a_stop_loses_none_of_many(start_gateway, origin):
    gateway = start_gateway(config(origin))

    def ask(_):
        with requests.Session() as session:
            return [session.get(gateway.url + "/api/a", timeout=20).status_code for _ in range(50)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert {status for statuses in pool.map(ask, range(8)) for status in statuses} == {200}
    metrics = requests.get(gateway.admin_url + "/metrics", timeout=10).text
    assert "gateway_audit_requests_lost_total 0" in metrics
    gateway.stop()
    assert len(rows(gateway)) == 400


def test_per_minute_there_are_none(start_gateway, origin):
    gateway = start_gateway(config(origin, usage="minute"))
    assert requests.get(gateway.url + "/api/a", timeout=10).status_code == 200
    gateway.stop()
    assert json.loads(gateway.run("audit", "stats", "--json").stdout)["calls"] == 1
    silent = gateway.run("audit", "query", "--requests")
    assert (silent.returncode, silent.stdout) == (1, "")
    assert "audit.usage is minute, so single requests are not recorded" in silent.stderr
    assert "authgateway audit stats --by client" in silent.stderr


@pytest.mark.parametrize("usage, advice", [
    ("none", "audit.usage: none counts no requests"),
    ("minute", "authgateway audit stats --by client"),
    ("request", "authgateway audit query --requests --credential api --client build"),
])
def test_that_a_client_used_a_token_is_no_event(start_gateway, origin, usage, advice):
    """But the first use of each token is. The two filters together found nothing for others, without a word on where that is."""
    tokens = {name: f"{name}-secret-of-32-characters-or-so" for name in ("laptop", "build")}
    whole = {
        "audit": {"usage": usage},
        "access": {"clients": {name: {"token": token} for name, token in tokens.items()}},
        "credentials": {"api": BEARER},
        "routes": {"api": {"upstream": origin.url, "auth": "api"}},
    }
    gateway = start_gateway(whole)
    for token in tokens.values():
        assert requests.get(gateway.url + "/api/a", headers={"Authorization": f"Bearer {token}"}, timeout=10).status_code == 200
    gateway.stop()
    silent = gateway.run("audit", "query", "--credential", "api", "--client", "build")
    assert (silent.returncode, silent.stdout) == (0, "")
    assert "no matching events; using a token is not an event" in silent.stderr and advice in silent.stderr, silent.stderr
    if usage == "request":
        assert len(rows(gateway, "--credential", "api", "--client", "build")) == 1


def test_requests_without_a_credential_that_ended_in_a_problem_have_a_row_too(start_gateway, make_script):
    """They reached the upstream, and may have done something there."""

    def steps(wire, number):
        head = wire.head()
        if b"/slow" in head:
            wire.to_end()
        elif b"/broken" in head:
            wire.send(b"garbage\r\n\r\n")
        elif b"/cut" in head:
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")

    origin = make_script(steps)
    routes = {"open": {"upstream": origin.url, "auth": "none"}, "down": {"upstream": "http://127.0.0.1:1", "auth": "none"}}
    gateway = start_gateway({"audit": {"usage": "request"}, "limits": {"response_timeout": "500ms"}, "routes": routes})
    for path in ("open/slow", "open/broken", "open/cut", "down/x"):
        with connect(gateway.port) as client:
            client.send(get(gateway, "Connection: close", "Content-Length: 2", method="POST", path=f"/{path}") + b"hi")
            client.to_end()
    wait_for_rows(gateway, 3)
    gateway.stop()
    assert [(row["route"], row["status"]) for row in rows(gateway)] == [("open", 504), ("open", 502), ("open", 200)]


def test_what_goes_through_a_tunnel_is_counted_both_ways(start_gateway, make_script):
    size = 300_000

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        wire.send(wire.exactly(size))
        wire.to_end()

    gateway = start_gateway(config(make_script(steps)))
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: Upgrade", "Upgrade: echo"))
        assert client.head().startswith(b"HTTP/1.1 101 ")
        threading.Thread(target=client.send, args=(b"u" * size,), daemon=True).start()
        assert client.exactly(size) == b"u" * size
        client.end_of_writing()
        client.to_end()
    wait_for_rows(gateway, 1)
    [row] = rows(gateway)
    assert (row["bytes_received"], row["bytes_sent"]) == (size, size)
    counted = requests.get(gateway.admin_url + "/metrics", timeout=10).text
    assert f'gateway_received_bytes_total{{route="api"}} {size}' in counted


@pytest.mark.parametrize("count, is_cut", [(200, False), (201, True)])
def test_a_past_request_is_shown_with_the_first_200_rows_of_its_id(start_gateway, origin, count, is_cut):
    """A client chooses its IDs, and can use one for all of its requests."""
    gateway = start_gateway(config(origin))
    with requests.Session() as session:
        for _ in range(count):
            assert session.get(gateway.url + "/api/a", headers={"X-Request-Id": "mine"}, timeout=10).status_code == 200
    wait_for_rows(gateway, count)
    assert gateway.stop() == 0
    result = gateway.run("explain", "mine")
    assert result.returncode == 0, result.stderr
    assert ("the audit log, whose first 200 rows of this ID are shown" in result.stdout) == is_cut, result.stdout[-500:]
    assert ("audit query --request mine looks at all" in result.stdout) == is_cut

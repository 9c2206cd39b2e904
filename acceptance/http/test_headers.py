"""Header fields that a route sets and removes, judged by what reached the origin."""

import re
import time
from email.utils import parsedate_to_datetime

import pytest
import requests
from harness.configs import CANARY
from harness import raw
from harness.script import answering, get

SECRET = CANARY + "-header"


def start(start_gateway, origin, auth="none", headers=None, **more):
    return start_gateway(
        {"routes": {"api": {"upstream": origin.url, "auth": auth, "headers": headers}}, **more},
        environment={"HEADER_SECRET": SECRET},
    )


def test_credential_user_and_headers_are_composed(origin, start_gateway):
    auth = {"strategy": "box_developer_token", "token": CANARY, "as_user": "42"}
    headers = {"set": {"X-Tenant": "acme", "X-Api-Key": {"env": "HEADER_SECRET"}}, "remove": ["X-Other", "X-Debug"]}
    gateway = start(start_gateway, origin, auth, headers)
    theirs = {"Authorization": "Basic bWluZQ==", "as-user": "1", "x-tenant": "mine", "X-Other": "a", "X-Kept": "yes"}
    for _ in range(2):
        assert requests.get(gateway.url + "/api/x", headers=theirs, timeout=20).status_code == 200
        seen = origin.last()
        assert seen.value("authorization") == f"Bearer {CANARY}"
        assert seen.value("as-user") == "42"
        assert (seen.value("x-tenant"), seen.value("x-api-key")) == ("acme", SECRET)
        assert seen.value("x-other") is None
        assert seen.value("x-kept") == "yes"
        assert b"mine" not in origin.raw()


def test_a_client_cannot_name_the_user_that_box_acts_for(origin, start_gateway):
    gateway = start(start_gateway, origin, {"strategy": "box_developer_token", "token": CANARY})
    assert requests.get(gateway.url + "/api/x", headers={"as_user": "1"}, timeout=20).status_code == 400
    assert origin.requests == []
    assert requests.get(gateway.url + "/api/x", headers={"As-User": "1"}, timeout=20).status_code == 200
    assert origin.last().value("authorization") == f"Bearer {CANARY}"
    assert origin.last().value("as-user") is None


def test_a_route_without_a_credential_has_them_too(origin, start_gateway):
    gateway = start(start_gateway, origin, headers={"set": {"X-Tenant": "acme"}, "remove": ["Authorization", "Origin"]})
    assert requests.get(gateway.url + "/api/x", auth=("me", "mine"), timeout=20).status_code == 200
    assert origin.last().value("x-tenant") == "acme"
    assert origin.last().value("authorization") is None


@pytest.mark.parametrize(
    "fields, status",
    [
        ("Connection: close\r\nX-TENANT: mine\r\nx-tenant: mine", 200),
        ("Connection: close, x-tenant\r\nX-Tenant: mine", 200),
        ("X_Tenant: mine", 400),
        ("Connection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Tenant\r\n\r\n1\r\na\r\n0\r\nX-Tenant: mine", 200),
    ],
    ids=["twice", "nominated", "look-alike", "trailer"],
)
def test_nothing_of_the_clients_arrives_under_the_name(origin, start_gateway, fields, status):
    """What a server could read as either name is refused; of the rest, the client's is left out."""
    gateway = start(start_gateway, origin, headers={"set": {"X-Tenant": "acme"}})
    request = f"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n{fields}\r\n\r\n"
    answer = raw.exchange(gateway.port, request.encode())
    assert answer.status == status, answer.data
    if status == 400:
        assert answer.refuses(400) and origin.raw() == b""
        return
    assert origin.count() == 1 and origin.last().value("x-tenant") == "acme"
    assert b"mine" not in origin.raw()


def test_the_value_of_a_secret_is_nowhere_to_be_seen(origin, start_gateway):
    gateway = start(start_gateway, origin, headers={"set": {"X-Api-Key": {"env": "HEADER_SECRET"}}})
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    assert origin.last().value("x-api-key") == SECRET
    plans = [gateway.run("plan"), gateway.run("plan", "--json"), gateway.run("routes")]
    assert "headers.set: [X-Api-Key]" in plans[0].stdout
    seen = [text for plan in plans for text in (plan.stdout, plan.stderr)] + [gateway.text()]
    assert not any(SECRET in text for text in seen)
    assert not any(SECRET.encode() in data for data in gateway.files().values())


def test_a_reload_changes_them(origin, start_gateway):
    gateway = start(start_gateway, origin, headers={"set": {"X-Tenant": "one"}})
    with requests.Session() as session:
        assert session.get(gateway.url + "/api/x", timeout=20).status_code == 200
        assert origin.last().value("x-tenant") == "one"
        route = {"upstream": origin.url, "auth": "none", "headers": {"set": {"X-Tenant": "two"}}}
        gateway.configure({"routes": {"api": route}})
        result = gateway.run("reload")
        assert result.returncode == 0, result.stderr
        assert "~ routes.api changed" in result.stdout
        assert session.get(gateway.url + "/api/x", timeout=20).status_code == 200
        assert origin.last().value("x-tenant") == "two"


FORWARDED = {
    "Forwarded": "for=192.0.2.1",
    "X-Forwarded-For": "192.0.2.1",
    "X-Forwarded-Host": "theirs.example",
    "X-Real-IP": "192.0.2.1",
}


@pytest.mark.parametrize(
    "policy, seen",
    [
        ("pass", {name.lower(): [value] for name, value in FORWARDED.items()}),
        ("remove", {}),
        (
            "replace",
            {
                "forwarded": ['for=127.0.0.1;host="127.0.0.1:PORT";proto=http'],
                "x-forwarded-for": ["127.0.0.1"],
                "x-forwarded-host": ["127.0.0.1:PORT"],
                "x-forwarded-proto": ["http"],
            },
        ),
        (
            "append",
            {
                "forwarded": ["for=192.0.2.1", 'for=127.0.0.1;host="127.0.0.1:PORT";proto=http'],
                "x-forwarded-for": ["192.0.2.1", "127.0.0.1"],
                "x-forwarded-host": ["theirs.example"],
                "x-real-ip": ["192.0.2.1"],
            },
        ),
    ],
)
def test_a_route_says_what_tells_where_a_request_came_from(origin, start_gateway, policy, seen):
    gateway = start(start_gateway, origin, headers={"forwarded": policy})
    assert requests.get(gateway.url + "/api/x", headers=FORWARDED, timeout=20).status_code == 200
    found = {}
    for name, value in origin.last().fields:
        if "forwarded" in (name := name.lower()) or name == "x-real-ip":
            found.setdefault(name, []).append(value.replace(str(gateway.port), "PORT"))
    assert found == seen


@pytest.mark.parametrize("line", [b"", b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"])
def test_every_answer_has_one_date(make_script, start_gateway, line):
    gateway = start(start_gateway, make_script(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + line + b"\r\n")))
    before = time.time() - 1
    answer = raw.exchange(gateway.port, get(gateway, "Connection: close"))
    (date,) = re.findall(rb"(?im)^date: (.*)\r$", answer.head + b"\r\n")
    if line:
        assert line == b"Date: " + date + b"\r\n"
    else:
        assert before <= parsedate_to_datetime(date.decode()).timestamp() <= time.time() + 1
    own = requests.get(gateway.url + "/nowhere", timeout=20)
    assert own.status_code == 404
    assert before <= parsedate_to_datetime(own.headers["Date"]).timestamp() <= time.time() + 1

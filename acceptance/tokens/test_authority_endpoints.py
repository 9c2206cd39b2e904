"""Where the gateway gets its tokens is out of the clients' reach on a route that carries them."""

import json
import subprocess

import pytest
from harness.configs import CANARY
from harness import processes
from harness.origin import ok, response

TOKEN = CANARY + "-token"


@pytest.fixture
def box(make_origin):
    """API and authority on one host, as at Box."""

    def answer(request):
        if request.target != "/oauth2/token":
            return ok(request)
        body = json.dumps({"access_token": TOKEN, "token_type": "bearer", "expires_in": 3600})
        return response(200, body.encode())

    return make_origin(answer)


def start(start_gateway, box, **route):
    auth = {
        "strategy": "box_ccg",
        "client_id": "app",
        "client_secret": CANARY + "-secret",
        "subject": {"enterprise": "1"},
        "token_url": f"{box.url}/oauth2/token",
    }
    return start_gateway(
        {
            "tokens": {"store": "memory"},
            "credentials": {"box": auth},
            "routes": {"box": {"upstream": box.url, "auth": "box", **route}},
        }
    )


def send(gateway, box, path, method="POST"):
    """The status, the problem's type, and what reached the origin besides the gateway's own token call."""
    before = box.count()
    result = subprocess.run(
        ["curl", "-s", "-w", "\n%{http_code}", "--path-as-is", "-X", method, "-d", "token=x", gateway.url + path],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
        env=processes.environment(),
    )
    body, _, status = result.stdout.rpartition("\n")
    kind = json.loads(body)["type"].rpartition(":")[2] if status.startswith("4") else None
    return int(status), kind, [request.target for request in box.requests[before:]]


@pytest.mark.parametrize("method", ["POST", "GET", "PUT"])
@pytest.mark.parametrize("path", ["/oauth2/token", "/oauth2/revoke", "/oauth2/token?x=1"])
def test_what_the_gateway_asks_clients_cannot(start_gateway, box, path, method):
    gateway = start(start_gateway, box)
    assert send(gateway, box, "/box/2.0/files/1")[0] == 200, "the token is at hand from here on"
    assert box.last().value("authorization") == f"Bearer {TOKEN}"
    assert send(gateway, box, "/box" + path, method) == (403, "route-forbidden", [])
    denied = processes.wait_until(
        lambda: [event for event in gateway.events() if event["event"] == "client_denied"], 10, "the event is there"
    )
    assert [event["route"] for event in denied] == ["box"]


FORBIDDEN, REFUSED = (403, "route-forbidden"), (400, "request-refused")


@pytest.mark.parametrize(
    "path, expected",
    [
        ("/oauth2/%74oken", FORBIDDEN),
        ("/oauth2/%2574oken", FORBIDDEN),
        ("/oauth2//token", FORBIDDEN),
        ("//oauth2/token", FORBIDDEN),
        ("/oauth2/token/", FORBIDDEN),
        ("/OAuth2/Token", FORBIDDEN),
        ("/oauth2;x/token;y=z", FORBIDDEN),
        ("/./oauth2/token", REFUSED),
        ("/2.0/../oauth2/token", REFUSED),
        ("/2.0/%2e%2e/oauth2/token", REFUSED),
        ("/2.0/%252e%252e/oauth2/token", REFUSED),
        ("/oauth2%2ftoken", FORBIDDEN),
        ("/oauth2%5ctoken", REFUSED),
    ],
)
def test_no_spelling_leads_around_it(start_gateway, box, path, expected):
    gateway = start(start_gateway, box)
    assert send(gateway, box, "/box" + path) == (*expected, [])


def test_a_rule_that_names_the_path_opens_it(start_gateway, box):
    allow = [{"methods": ["POST"], "path": "/oauth2/revoke"}, {"path": "/**"}]
    gateway = start(start_gateway, box, allow=allow)
    assert send(gateway, box, "/box/2.0/files/1")[0] == 200
    assert send(gateway, box, "/box/oauth2/revoke") == (200, None, ["/oauth2/revoke"])
    assert send(gateway, box, "/box/oauth2/revoke", "PUT") == (403, "route-forbidden", [])
    assert send(gateway, box, "/box/oauth2/token") == (403, "route-forbidden", []), "/** does not name it"


def test_other_hosts_and_bare_routes_are_as_they_were(start_gateway, box, make_origin):
    other = make_origin()
    gateway = start_gateway(
        {
            "tokens": {"store": "memory"},
            "credentials": {
                "box": {
                    "strategy": "box_developer_token",
                    "token": TOKEN,
                    "client_id": "app",
                    "client_secret": CANARY,
                    "revoke_url": f"{box.url}/oauth2/revoke",
                }
            },
            "routes": {
                "bare": {"upstream": box.url, "auth": "none"},
                "other": {"upstream": other.url, "auth": "box"},
                "box": {"upstream": f"{box.url}/oauth2", "auth": "box"},
            },
        }
    )
    assert send(gateway, box, "/bare/oauth2/revoke") == (200, None, ["/oauth2/revoke"])
    assert send(gateway, other, "/other/oauth2/revoke") == (200, None, ["/oauth2/revoke"])
    assert send(gateway, box, "/box/revoke") == (403, "route-forbidden", [])
    assert send(gateway, box, "/box/oauth2/revoke") == (200, None, ["/oauth2/oauth2/revoke"])

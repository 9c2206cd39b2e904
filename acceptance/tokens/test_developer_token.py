"""`obtained_at` of a Box developer token: its hour begins when it was made, not when the gateway first saw it."""

import datetime

import pytest
import requests
from harness.configs import CANARY, with_route


def ago(**parts):
    moment = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(**parts)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def developer(**changes):
    return {"strategy": "box_developer_token", "token": CANARY, **changes}


def token(gateway):
    [token] = requests.get(f"{gateway.admin_url}/api/tokens", timeout=10).json()
    return token


LEFT = {
    "nothing is said": (None, 60),
    "it was made 40 minutes ago": ({"minutes": 40}, 20),
    "it was made a minute ago": ({"minutes": 1}, 59),
    # The hour cannot begin in the future, which would make it longer.
    "it was made tomorrow": ({"days": -1}, 60),
}


@pytest.mark.parametrize("age, minutes", LEFT.values(), ids=[name.replace(" ", "-") for name in LEFT])
def test_the_hour_is_counted_from_when_the_token_was_made(start_gateway, origin, age, minutes):
    made = {"obtained_at": ago(**age)} if age else {}
    gateway = start_gateway(with_route(developer(**made), origin.url))
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    # Half a minute for a machine that is busy; what is told apart are minutes.
    assert minutes * 60 - 30 < token(gateway)["remaining_seconds"] <= minutes * 60
    obtained = token(gateway)["obtained_at"]
    if age and age.get("minutes"):
        assert obtained.startswith(made["obtained_at"].removesuffix("Z"))
    else:
        assert obtained <= ago(seconds=-1), "it was obtained when the gateway saw it"


def test_a_token_that_is_older_than_an_hour_is_not_used(start_gateway, origin):
    gateway = start_gateway(with_route(developer(obtained_at=ago(minutes=61)), origin.url))
    refused = requests.get(gateway.url + "/api/x", timeout=20)
    assert refused.status_code == 503 and refused.json()["code"] == "static-token-expired", refused.text
    assert origin.count() == 0
    assert gateway.run("status").returncode == 1

    # A new token with its own time is used after a reload.
    gateway.configure(with_route(developer(token=CANARY + "-next", obtained_at=ago(minutes=5)), origin.url))
    assert gateway.run("reload").returncode == 0
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    assert origin.last().value("authorization") == f"Bearer {CANARY}-next"
    assert 54 * 60 < token(gateway)["remaining_seconds"] <= 55 * 60


def test_its_end_is_announced_ten_minutes_ahead(start_gateway, origin):
    gateway = start_gateway(with_route(developer(obtained_at=ago(minutes=51)), origin.url))
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    status = gateway.run("status")
    assert status.returncode == 1 and "needs a person: me" in status.stderr, status


@pytest.mark.parametrize("time", ["yesterday", "2026-03-01", "2026-03-01 09:30:00"])
def test_a_time_that_is_none_is_refused(make_gateway, origin, time):
    checked = make_gateway(with_route(developer(obtained_at=time), origin.url)).run("check")
    assert checked.returncode == 3 and "credentials.me.obtained_at: expected a time such as" in checked.stderr, checked


def test_a_login_says_where_the_token_comes_from(start_gateway, origin):
    gateway = start_gateway(with_route(developer(), origin.url))
    refused = gateway.run("login", "me", "--no-browser")
    assert refused.returncode != 0 and "needs no login" not in refused.stderr, refused
    assert "me has no login. Get a token in the Box developer console" in refused.stderr, refused
    assert "authgateway token import me" in refused.stderr, refused

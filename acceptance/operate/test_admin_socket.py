"""`listeners.admin: {unix: PATH}`: the admin listener on a unix socket, and every command through it."""

import json
import os
import socket
import stat

import pytest
import requests
from harness.configs import box_ccg
from harness.events import token_of
from harness.login import Login
from harness.other_user import CLOSED_OUT, LET_IN, MAY_NOT_CONNECT


@pytest.fixture
def place(short_folder):
    return short_folder / "admin.sock"


def config(sandbox):
    return {
        "credentials": {
            "service": box_ccg(sandbox, client_secret={"env": "SANDBOX_BOX_CLIENT_SECRET"}),
            "campus": {
                "strategy": "duke_session",
                "environment": "release",
                "client_name": "dukemobile",
                "base_url": sandbox["DUKE_URL"],
            },
        },
        "routes": {
            "box": {"upstream": sandbox["BOX_URL"], "auth": "service"},
            "duke": {"upstream": sandbox["DUKE_URL"], "auth": "campus"},
        },
    }


@pytest.fixture
def gateway(sandbox, place, start_gateway):
    return start_gateway(config(sandbox), environment=sandbox.environment, admin={"unix": str(place)})


def test_the_socket_is_for_its_owner_and_goes_with_the_gateway(gateway, place):
    mode = place.stat().st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    assert gateway.admin_socket("GET", "/healthz") == (200, "ok\n")
    assert gateway.admin_socket("GET", "/healthz", Origin="https://evil.example")[0] == 403
    assert f'"admin":"unix:{place}"' in gateway.text()
    code = gateway.stop()
    assert code == 0, gateway.text()
    assert not place.exists(), gateway.text()


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (["status", "--json"], 1, '"ready"'),
        (["routes"], 0, "/box"),
        (["token", "list"], 0, "service"),
        (["token", "show", "service"], 0, "service"),
        (["token", "refresh", "service"], 0, "new token"),
        (["token", "lock", "service"], 0, "locked"),
        (["token", "unlock", "service"], 0, "unlocked"),
        (["token", "clear", "service"], 0, "cleared"),
        (["plan"], 0, "Compared with the running gateway"),
        (["reload"], 0, "Loaded."),
        (["audit", "query", "--event", "gateway_started"], 0, "gateway_started"),
    ],
)
def test_every_command_goes_through_it(gateway, arguments, status, words):
    result = gateway.run(*arguments)
    if arguments[0] != "status":
        assert (result.returncode, result.stderr) == (status, ""), result
        assert words in result.stdout
    else:
        # A login is needed for campus.
        assert result.returncode == 1 and json.loads(result.stdout)["readiness"]["is_ready"], result


def test_secrets_come_through_it_too(sandbox, gateway):
    token = gateway.run("token", "get", "service").stdout.strip()
    headers = {"Authorization": f"Bearer {token}"}
    assert requests.get(sandbox["BOX_URL"] + "/2.0/users/me", headers=headers, timeout=20).status_code == 200
    weaker = gateway.run("token", "downscope", "service", "--scope", "item_preview").stdout.strip()
    assert weaker and weaker != token
    revoked = gateway.run("token", "revoke", "service")
    assert (revoked.returncode, revoked.stderr) == (0, ""), revoked
    assert requests.get(sandbox["BOX_URL"] + "/2.0/users/me", headers=headers, timeout=20).status_code == 401
    imported = gateway.run("token", "import", "service", input="an-imported-token\n")
    assert (imported.returncode, imported.stderr) == (0, ""), imported
    assert token_of(gateway, "service") == "an-imported-token"
    # The gateway did all of it, no command by itself.
    done = [event["event"] for event in gateway.events("--credential", "service") if event.get("trigger") == "operator"]
    assert done == ["revealed", "downscoped", "revoked", "imported", "revealed"]


def test_a_login_and_a_logout_go_through_it(sandbox, gateway):
    refused = gateway.run("login", "campus", "--manual", input="nonsense\n")
    assert refused.returncode == 1 and "neither the address where the browser ended up nor a code" in refused.stderr, refused
    assert requests.get(gateway.url + "/duke/api/me", timeout=20).status_code == 503
    login = Login(gateway, "campus")
    end = requests.get(login.page, params={"netid": "ds123"}, allow_redirects=False, timeout=20).headers["Location"]
    assert login.paste(sandbox["DUKE_URL"] + end)[0] == 0, login.text()
    # What runs has the tokens at once, and loses them at once.
    assert requests.get(gateway.url + "/duke/api/me", timeout=20).json()["netid"] == "ds123"
    ended = gateway.run("logout", "campus")
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    assert requests.get(gateway.url + "/duke/api/me", timeout=20).status_code == 503
    done = [event["event"] for event in gateway.events("--credential", "campus") if event.get("trigger") == "operator"]
    assert done == ["login_started", "login_failed", "login_started", "login_completed", "revoked"]


def test_what_a_killed_gateway_left_behind_is_no_obstacle(gateway, place):
    gateway.kill()
    assert place.exists()
    gone = gateway.run("status")
    assert gone.returncode == 4 and f"no gateway answers at unix:{place}" in gone.stderr, gone
    gateway.start()
    assert gateway.run("routes").returncode == 0


def refused_start(make_gateway, sandbox, place):
    other = make_gateway(config(sandbox), environment=sandbox.environment, admin={"unix": str(place)})
    result = other.run("run")
    assert result.returncode == 1, result
    return result.stderr


def test_a_socket_in_use_is_left_alone(sandbox, gateway, place, make_gateway):
    words = refused_start(make_gateway, sandbox, place)
    assert f"unix:{place}: another process listens there" in words and "listeners.admin.unix" in words
    assert gateway.run("routes").returncode == 0


def test_a_file_in_the_way_and_a_folder_that_is_missing_are_explained(sandbox, place, make_gateway):
    place.write_text("mine")
    assert "a file that is not a socket is in the way" in refused_start(make_gateway, sandbox, place)
    assert place.read_text() == "mine"
    missing = place.parent / "none" / "admin.sock"
    assert "No such file or directory" in refused_start(make_gateway, sandbox, missing)


@pytest.mark.parametrize(
    "admin, words",
    [
        ({"unix": "/tmp/" + "a" * 100}, "the path of a socket has at most 103 bytes"),
        ({"unix": "a.sock", "address": "127.0.0.1:1"}, "exactly one of address and unix"),
        ({"unix": "a.sock", "allow_users": ["no-such-user-here"]}, "no user"),
        ({"address": "127.0.0.1:1", "allow_users": [0]}, "is for unix sockets only"),
    ],
)
def test_mistakes_are_found_by_check(sandbox, make_gateway, admin, words):
    other = make_gateway(config(sandbox), environment=sandbox.environment, admin=admin)
    result = other.run("check")
    assert result.returncode == 3 and words in result.stderr, result


def test_the_plan_shows_it_and_a_reload_does_not_move_it(sandbox, gateway, place):
    assert f"admin: unix {place}" in gateway.run("plan").stdout
    gateway.admin = {"unix": str(place), "allow_users": [1]}
    gateway.configure(config(sandbox))
    result = gateway.run("reload")
    assert result.returncode == 3 and "listeners.admin" in result.stderr, result


@pytest.mark.root
def test_it_lets_in_the_users_it_names(sandbox, place, start_gateway, other_users):
    named, unnamed = other_users
    allowed = {"unix": str(place), "allow_users": [named.number]}
    start_gateway(config(sandbox), environment=sandbox.environment, admin=allowed)
    assert named.get(place, "/healthz") in LET_IN
    assert unnamed.get(place, "/healthz") in CLOSED_OUT
    own = place.parent / "own.sock"
    start_gateway(config(sandbox), environment=sandbox.environment, admin={"unix": str(own)})
    assert named.get(own, "/healthz") in MAY_NOT_CONNECT


@pytest.mark.root
def test_the_socket_of_another_user_is_not_sent_the_token(gateway, place, other_users):
    other = other_users[0].number
    token = (gateway.folder / "state" / "admin.token").read_bytes().strip()
    place.rename(place.parent / "own.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        os.chown(place, other, other)
        result = gateway.run("token", "lock", "service")
        assert result.returncode == 1 and f"belongs to another user ({other})" in result.stderr, result
        listener.settimeout(0.2)
        with pytest.raises(TimeoutError):
            listener.accept()
        assert token.decode() not in result.stdout + result.stderr
    place.unlink()
    # Root's command of a gateway that runs as somebody else: whoever owns the token may be sent it.
    (place.parent / "own.sock").rename(place)
    os.chown(place, other, other)
    os.chown(gateway.folder / "state" / "admin.token", other, other)
    result = gateway.run("token", "lock", "service")
    assert result.returncode == 0, result

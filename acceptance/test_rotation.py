"""Refresh tokens that count once, at an authority that ends the whole login when one is used twice."""

import collections
import pathlib
import shutil
import subprocess
import threading

import pytest
import requests
from harness.gateway import command
from harness.login import Login
from harness.person import Person
from harness.processes import wait_until

ROUTES = ["one", "two", "three", "four"]


def config(authority):
    return {
        "credentials": {"me": {**authority.login_credential(), "renew": {"at_least": "1s"}}},
        "routes": {name: {"upstream": f"{authority.url}/api", "auth": "me"} for name in ROUTES},
    }


def log_in(gateway):
    login = Login(gateway, "me", "--no-browser")
    assert requests.get(Person().decide(login.page), timeout=20).status_code == 200
    code, _, words = login.end()
    assert code == 0, words


def status_of(gateway):
    [token] = requests.get(f"{gateway.admin_url}/api/tokens", timeout=10).json()
    return token


@pytest.mark.parametrize("expiries", [20, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_expiries_from_four_routes_at_once_spend_each_refresh_token_once(make_authority, start_gateway, expiries):
    authority = make_authority(lifetime=1)
    gateway = start_gateway(config(authority))
    log_in(gateway)
    statuses = collections.Counter()
    stop = threading.Event()

    def client(route):
        with requests.Session() as session:
            while not stop.wait(0.02):
                statuses[session.get(f"{gateway.url}/{route}/x", timeout=20).status_code] += 1

    clients = [threading.Thread(target=client, args=[route]) for route in ROUTES for _ in range(2)]
    for thread in clients:
        thread.start()
    try:
        # The authority forgets an access token when its refresh token is spent; these it keeps.
        wait_until(lambda: len(authority.refresh_tokens()) > expiries, 4 * expiries + 20, "so many renewals", pause=0.2)
    finally:
        stop.set()
        for thread in clients:
            thread.join()

    assert set(statuses) == {200}, statuses
    assert statuses[200] > expiries
    *spent, current = authority.refresh_tokens()
    assert all(spent) and current is None, "each refresh token was spent, the last one is alive"
    assert gateway.events("--failed") == []


# MARK: A process that is killed


@pytest.fixture(scope="module")
def killer(tmp_path_factory):
    library = tmp_path_factory.mktemp("killer") / "kill_at_write.so"
    source = pathlib.Path(__file__).with_name("harness") / "kill_at_write.c"
    compiler = shutil.which("cc") or shutil.which("clang")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def rotate_and_die(gateway, trigger, number):
    """Kills the gateway at its write of this number during a renewal; false when the renewal has no such write."""
    trigger.write_text(str(number), encoding="ascii")
    # Without the gateway's environment: the command is to live.
    answer = command("token", "refresh", "me", "--config", gateway.file, cwd=gateway.folder)
    trigger.unlink()
    if answer.returncode == 0 and gateway.process.poll() is None:
        # The last event may still be on its way to the disk.
        return False
    gateway.process.wait(20)
    assert gateway.process.returncode == -9, gateway.text()
    gateway.reader.join(5)
    gateway.process.stdout.close()
    return True


def outcome(gateway):
    """What a killed gateway comes to after its next start: `works`, or `uncertain` with what to do."""
    def settled():
        status = status_of(gateway)
        return status if status["state"] == "valid" or "action" in status else None

    status = wait_until(settled, 20, lambda: f"the renewal was taken up: {status_of(gateway)}")
    answer = requests.get(f"{gateway.url}/one/x", timeout=20)
    if status["state"] == "valid":
        assert answer.status_code == 200, answer.text
        return "works"
    # Never silence: the state says what happened, and both it and the refusal say what to do.
    assert status["state"] == "rotation_uncertain", status
    assert status["action"] == "authgateway login me"
    assert "was lost" in status["last_error"]
    if answer.status_code == 401:
        # The authority has ended the old access token too, which only the upstream could tell.
        assert answer.headers["Gateway-Token"]
        answer = requests.get(f"{gateway.url}/one/x", timeout=20)
    assert answer.status_code == 503, answer.text
    assert answer.json()["command"] == "authgateway login me"
    return "uncertain"


def test_a_kill_at_any_write_of_a_rotation_leaves_a_pair_or_a_plain_word(
    make_authority, start_gateway, killer, tmp_path
):
    authority = make_authority()
    trigger = tmp_path / "kill-at"
    gateway = start_gateway(
        config(authority), environment={"LD_PRELOAD": str(killer), "KILL_AT_WRITE": str(trigger)}
    )
    log_in(gateway)
    outcomes = {}
    for number in range(1, 200):
        if not rotate_and_die(gateway, trigger, number):
            break
        verified = gateway.run("audit", "verify")
        assert verified.returncode == 0, f"killed at write {number}: {verified.stdout}{verified.stderr}"
        gateway.start()
        outcomes[number] = outcome(gateway)
        if outcomes[number] != "works":
            log_in(gateway)
            assert outcome(gateway) == "works"
        for path, content in gateway.files().items():
            assert b"s3cret-of-web" not in content, path
    else:
        raise AssertionError("the renewal has no end")
    found = list(outcomes.values())
    assert len(found) >= 20, outcomes
    # Before the request leaves nothing is lost, nor once the new pair is stored; in between only the authority knows.
    assert found[0] == found[-1] == "works", outcomes
    assert "uncertain" in found, outcomes

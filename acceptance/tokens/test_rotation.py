"""Refresh tokens that count once, at an authority that ends the whole login when one is used twice."""

import collections
import concurrent.futures
import queue
import sqlite3
import threading
import time

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


# A request that takes longer than a token lives has its second token rejected, too: no place for a busy machine.
@pytest.mark.timing
@pytest.mark.parametrize("expiries", [8, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
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
    print(f"\n{len(spent)} refresh tokens spent, {statuses[200]} requests answered, by four routes")
    assert all(spent) and current is None, "each refresh token was spent, the last one is alive"
    assert gateway.events("--failed") == []


# MARK: A process that is killed


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


def test_a_kill_at_any_write_of_a_refresh_asks_nobody_for_the_password(make_authority, start_gateway, killer, tmp_path):
    """The configuration holds it, so the gateway sends it where the refresh token may be spent."""
    authority = make_authority()
    trigger = tmp_path / "kill-at"
    whole = config(authority)
    whole["credentials"]["me"] = authority.password_credential()
    gateway = start_gateway(whole, environment={"LD_PRELOAD": str(killer), "KILL_AT_WRITE": str(trigger)})
    assert requests.get(f"{gateway.url}/one/x", timeout=20).status_code == 200
    for number in range(1, 200):
        if not rotate_and_die(gateway, trigger, number):
            break
        gateway.start()
        assert outcome(gateway) == "works", number
    else:
        raise AssertionError("the renewal has no end")
    assert number > 10


def renew_until_killed(gateway, trigger, number):
    """Renews again and again, until the write of this number has ended the gateway."""
    token = (gateway.folder / "state" / "admin.token").read_text(encoding="ascii").strip()
    trigger.write_text(str(number), encoding="ascii")
    try:
        # Two renewals have more than 40 writes.
        for _ in range(number // 20 + 2):
            requests.post(
                f"{gateway.admin_url}/api/tokens/me/refresh", headers={"Authorization": f"Bearer {token}"}, timeout=20
            )
    except requests.RequestException:
        pass
    expect_killed(gateway, trigger)


def start_and_be_killed(gateway, trigger, number):
    """False when a start has no such write."""
    trigger.write_text(str(number), encoding="ascii")
    try:
        gateway.start()
    except AssertionError:
        expect_killed(gateway, trigger)
        return True
    trigger.unlink()
    return False


def expect_killed(gateway, trigger):
    assert gateway.process.wait(20) == -9, gateway.text()
    gateway.reader.join(5)
    gateway.process.stdout.close()
    trigger.unlink()


def take_up_again(gateway):
    """Starts a killed gateway; both databases are whole, and there is a pair or a plain word."""
    verified = gateway.run("audit", "verify")
    assert verified.returncode == 0, f"{verified.stdout}{verified.stderr}"
    for name in ("audit", "tokens"):
        with sqlite3.connect(f"file:{gateway.folder}/state/{name}.sqlite?mode=ro", uri=True) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    gateway.start()
    found = outcome(gateway)
    if found != "works":
        log_in(gateway)
        assert outcome(gateway) == "works"
    return found


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_kill_at_each_of_500_writes_leaves_a_pair_or_a_plain_word(make_authority, start_gateway, killer, tmp_path):
    """Each round ends where the next one begins: with a gateway that was started on what a kill has left."""
    numbers = queue.SimpleQueue()
    for number in range(1, 501):
        numbers.put(number)

    def prepare(lane):
        authority = make_authority()
        trigger = tmp_path / f"kill-at-{lane}"
        environment = {"LD_PRELOAD": str(killer), "KILL_AT_WRITE": str(trigger)}
        gateway = start_gateway(config(authority), environment=environment)
        log_in(gateway)
        return gateway, trigger

    def renewals(gateway, trigger):
        found = {}
        while True:
            try:
                number = numbers.get_nowait()
            except queue.Empty:
                return found
            renew_until_killed(gateway, trigger, number)
            found[number] = take_up_again(gateway)

    def starts(gateway, trigger):
        found = {}
        for number in range(1, 200):
            gateway.stop()
            if not start_and_be_killed(gateway, trigger, number):
                return found
            found[number] = take_up_again(gateway)
        raise AssertionError("the start has no end")

    began = time.monotonic()
    lanes = [prepare(lane) for lane in range(4)]
    with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
        first = pool.submit(starts, *lanes[0])
        others = [pool.submit(renewals, *lane) for lane in lanes[1:]]
        at_start = first.result()
        others.append(pool.submit(renewals, *lanes[0]))
        found = {number: word for other in others for number, word in other.result().items()}
    counts = [dict(collections.Counter(words.values())) for words in (found, at_start)]
    print(f"\nkilled in renewals: {counts[0]}; in starts: {counts[1]}; {time.monotonic() - began:.0f} s")
    assert sorted(found) == list(range(1, 501))
    assert counts[0]["uncertain"] > 0 and counts[0]["works"] > counts[0]["uncertain"], counts
    assert set(counts[1]) == {"works"} and len(at_start) >= 5, counts

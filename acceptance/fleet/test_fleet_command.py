"""`authgateway fleet`, and what operators are told of the other gateways."""

import json
import time

import pytest
from harness.gateway import command
from harness.login import config, log_in_both, works
from harness.processes import wait_until


@pytest.fixture
def start_pair(start_pair):
    """Each gateway of the pair is in the list, and follows."""

    def start(config, url, **more):
        pair = start_pair({**config, **more}, url)
        wait_until(lambda: all(lags(pair[0])) and len(lags(pair[0])) == 2, 10, "both gateways are in the list and follow")
        return pair

    return start


def fleet(gateway):
    done = gateway.run("fleet", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["gateways"]


def lags(gateway):
    return [member.get("lag_seconds") is not None for member in fleet(gateway)]


def operate(gateway, *arguments):
    """The answer as JSON, and how long it took."""
    begun = time.monotonic()
    done = gateway.run("token", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), time.monotonic() - begun


def test_each_gateway_lists_both(authority, server, start_pair):
    pair = start_pair(config(authority), server.database("tokens"))
    lists = [fleet(gateway) for gateway in pair]
    assert [member["id"] for member in lists[0]] == [member["id"] for member in lists[1]]
    assert len({member["id"] for member in lists[0]}) == 2
    for member in lists[0]:
        assert len(member["id"]) == 16 and member["host"] and member["started_at"]
        assert not member["version_differs"] and not member["clock_is_off"]
        assert abs(member["clock_offset_seconds"]) < 1 and member["last_seen_seconds"] < 3
        assert member["lag_seconds"] < 1.5 and member["unshipped"] >= 0
    table = pair[0].run("fleet").stdout
    assert table.startswith("HOST") and all(member["id"] in table for member in lists[0])


def test_an_answer_waits_until_the_other_gateway_has_followed(authority, server, start_pair):
    pair = start_pair(config(authority), server.database("tokens"))
    log_in_both(pair)
    for verb in ("lock", "unlock", "clear"):
        report, _ = operate(pair[0], verb, "me")
        assert report["fleet"] == {"unacknowledged": []} and "acknowledged" not in report["message"]
        if verb != "unlock":
            assert not works(pair[1]), "without waiting: the answer says that it has followed"


@pytest.mark.timing
def test_a_halted_gateway_is_named_and_follows_later(authority, server, start_pair):
    one, other = pair = start_pair(config(authority), server.database("tokens"))
    log_in_both(pair)
    with other.halted():
        report, seconds = operate(one, "lock", "me")
        assert 1.5 < seconds < 4.5, "it is waited for, and not for long"
        [silent] = report["fleet"]["unacknowledged"]
        assert silent["host"] and silent["last_seen_seconds"] < 5
        assert f"1 gateway has not acknowledged it: {silent['host']} ({silent['id']}, last seen " in report["message"]
        assert not works(one), "the lock holds here nevertheless"
        wait_until(lambda: max(member["last_seen_seconds"] for member in fleet(one)) > 5.5, 20, "it was not seen for a while")
        report, seconds = operate(one, "unlock", "me")
        assert seconds < 1.5, "a gateway that is gone is not waited for"
        assert [member["id"] for member in report["fleet"]["unacknowledged"]] == [silent["id"]]
        assert "did not follow" in one.run("fleet").stdout
        operate(one, "lock", "me")
    wait_until(lambda: not works(other), 3, "it follows when it goes on")
    wait_until(lambda: all(lags(one)), 5, "and acknowledges")
    report, _ = operate(one, "unlock", "me")
    assert report["fleet"] == {"unacknowledged": []}
    assert works(other)


def test_a_gateway_that_stops_disappears_and_one_that_is_killed_stays(authority, server, start_pair):
    one, other = start_pair(config(authority), server.database("tokens"))
    names = {member["id"] for member in fleet(one)}
    other.stop()
    # An answer is shared for a second.
    wait_until(lambda: len(fleet(one)) == 1, 5, "it is gone")
    other.start()
    wait_until(lambda: {member["id"] for member in fleet(one)} == names, 5, "it comes back with its name")
    other.kill()
    assert len(fleet(one)) == 2
    one.stop()
    done = one.run("fleet", "--json")
    assert done.returncode == 0 and "No gateway runs here; the database is asked." in done.stderr
    assert len(json.loads(done.stdout)["gateways"]) == 1


def test_a_reload_is_told_and_a_configuration_that_differs_is_marked(authority, server, start_pair):
    one, other = start_pair(config(authority), server.database("tokens"))
    before = {member["id"]: member["configuration_digest"] for member in fleet(one)}
    whole = json.loads(other.file.read_text())
    whole["limits"] = {**whole.get("limits", {}), "connect_timeout": "7s"}
    other.file.write_text(json.dumps(whole))
    assert other.run("reload").returncode == 0

    def changed():
        return [member["id"] for member in fleet(one) if member["configuration_digest"] != before[member["id"]]]

    wait_until(lambda: len(changed()) == 1, 2, "the new digest is told")
    assert all(member["configuration_differs"] for member in fleet(one)), "of two, each differs from the other"


def test_without_the_database_the_answer_says_that_it_is_not_known(authority, server, start_pair):
    one, _ = pair = start_pair(config(authority), server.database("tokens"))
    log_in_both(pair)
    server.stop()
    # An answer is shared for a second.
    wait_until(lambda: one.run("fleet").returncode == 1, 5, "the database cannot be asked")
    done = one.run("fleet")
    # On a slow machine the deadline may come before the server has stopped listening.
    assert done.returncode == 1 and ("cannot be used" in done.stderr or "did not answer in time" in done.stderr), done
    done = one.run("token", "clear", "me", "--json")
    if done.returncode == 0:
        assert "It is not known whether the other gateways have applied it" in json.loads(done.stdout)["message"]
    server.start()


@pytest.mark.timing
@pytest.mark.parametrize("audit", [{}, {"audit": {"store": "postgres"}}], ids=["local", "postgres"])
def test_a_lock_does_not_wait_for_a_database_that_hangs(authority, server, start_pair, audit):
    one, other = pair = start_pair(config(authority), server.database("tokens"), **audit)
    log_in_both(pair)
    with server.halted():
        begun = time.monotonic()
        done = one.run("token", "lock", "me")
        # The command itself takes a part of it.
        assert time.monotonic() - begun < 3.5, done
        answer = done.stdout + done.stderr
        assert "me is locked on this gateway" in answer and "The other gateways do not know it yet" in answer, answer
        assert ("not recorded yet" in answer) == bool(audit), answer
        assert not works(one), "the lock holds here"
    wait_until(lambda: not works(other), 30, "the other gateway follows when the database works again")


def test_a_store_that_is_not_shared_has_no_fleet(start_gateway, origin):
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}})
    done = gateway.run("fleet")
    assert done.returncode == 1 and "tokens.store is not postgres" in done.stderr
    gateway.stop()
    done = gateway.run("fleet")
    assert done.returncode == 1 and "tokens.store is not postgres" in done.stderr


def test_help_has_examples(tmp_path):
    text = command("fleet", "--help", cwd=tmp_path).stdout
    assert "authgateway fleet --json" in text and "LAG" in text

"""Steps in any order, taken with a gateway and with a model of it: harness/token_machine.py."""

import concurrent.futures
import contextlib

import pytest
import requests
from harness import processes, token_machine
from harness.known import StillBroken, known
from harness.token_machine import Timed, config, explore, run_for
from hypothesis import errors, strategies
from hypothesis.stateful import RuleBasedStateMachine, rule

# MARK: Known faults


@known("sent-after-lock")
def test_a_request_that_waits_for_a_connection_does_not_leave_with_a_token_that_is_locked_meanwhile(start_gateway, sandbox):
    gateway = start_gateway(
        config(workers=1, limits={"connections_per_upstream": 1}), environment=sandbox.environment
    )
    assert requests.get(f"{gateway.url}/box/echo", timeout=20).status_code == 200
    before = sandbox.state()["requests"]["upstream"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        slow = pool.submit(requests.get, f"{gateway.url}/open/public/slow?ms=1500", timeout=20)
        processes.wait_until(lambda: sandbox.state()["requests"]["upstream"] > before, 10, "the slow request")
        waiting = pool.submit(requests.get, f"{gateway.url}/box/echo", timeout=20)
        # The only event loop reads what comes later after that.
        for _ in range(3):
            assert requests.get(f"{gateway.url}/nothing", timeout=20).status_code == 404
        assert gateway.run("token", "lock", "box").returncode == 0
        assert not slow.done(), "the machine is too slow to tell"
        answer = waiting.result()
        assert slow.result().status_code == 200
    if answer.status_code == 200 or sandbox.state()["requests"]["upstream"] != before + 1:
        raise StillBroken(answer.text)
    assert answer.json()["code"] == "locked"


@known("response-continues-after-lock")
def test_a_lock_cuts_an_answer_that_is_under_way(start_gateway, sandbox):
    gateway = start_gateway(config(), environment=sandbox.environment)
    with requests.get(f"{gateway.url}/box/sse?events=40&interval_ms=50", stream=True, timeout=20) as answer:
        events = answer.iter_lines()
        assert next(events)
        assert gateway.run("token", "lock", "box").returncode == 0
        with contextlib.suppress(requests.RequestException):
            raise StillBroken(f"{len(list(events))} lines came after the lock")


@pytest.mark.parametrize("word", ["token_expired", "bad_refresh_token"])
def test_a_password_brings_the_next_token_however_the_refresh_token_is_refused(word, start_gateway, sandbox):
    gateway = start_gateway(config(), environment=sandbox.environment)
    assert requests.get(f"{gateway.url}/person/echo", timeout=20).status_code == 200
    sandbox.set("oauth", token_status=400, token_error=word, token_next=1, revoke_access=True)
    answer = requests.get(f"{gateway.url}/person/echo", timeout=20)
    assert answer.status_code == 200, answer.text
    assert sandbox.state()["double_spends"]["oauth"] == 0


# MARK: Steps in any order


@pytest.mark.slow
@pytest.mark.seeded
@pytest.mark.timeout(600)
def test_a_minute_of_steps_in_any_order(tmp_path):
    explore(tmp_path, 50)


@pytest.mark.soak
@pytest.mark.seeded
@pytest.mark.timeout(4500)
def test_an_hour_of_steps_in_any_order(tmp_path):
    explore(tmp_path, 3600)


# MARK: What such a run proves


class Numbers(Timed, RuleBasedStateMachine):
    """A machine without a gateway."""

    def __init__(self):
        super().__init__()
        self.begin_example()

    @rule(data=strategies.data())
    def draw(self, data):
        type(self).steps += 1
        data.draw(strategies.integers(0, self.highest()))

    def highest(self):
        return 9


def test_a_run_without_time_takes_the_least_number_of_steps():
    Machine = type("Machine", (Numbers,), {})
    run_for(0, Machine)
    assert Machine.examples >= token_machine.MINIMUM_EXAMPLES and Machine.steps >= token_machine.MINIMUM_STEPS
    # And not the 20 examples of a round: it ends when it has enough.
    assert Machine.examples < 20


def test_a_run_without_examples_fails():
    def end_at_once(self):
        raise token_machine.TimeIsOver

    Machine = type("Machine", (Numbers,), {"begin_example": end_at_once})
    with pytest.raises(AssertionError, match="0 examples with 0 steps"):
        run_for(50, Machine)


def test_steps_that_depend_on_more_than_the_seed_fail():
    Machine = type("Machine", (Numbers,), {"highest": lambda self: 9 + self.steps % 7})
    with pytest.raises(errors.Flaky):
        run_for(50, Machine)


def test_a_failure_that_does_not_come_again_fails():
    class Machine(Numbers):
        def highest(self):
            if self.steps == 5:
                type(self).failures += 1
                raise AssertionError("once")
            return 9

    with pytest.raises(errors.FlakyFailure):
        run_for(50, Machine)

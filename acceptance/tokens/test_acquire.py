"""`acquire_on: startup`, and `check --acquire`: tokens before a request needs them."""

import json

import requests
from harness import processes
from harness.configs import box_ccg, duke_session
from harness.events import named, wait_for_events


def config(sandbox, **credentials):
    return {
        "credentials": credentials,
        "routes": {name: {"upstream": sandbox["BOX_URL"], "auth": name} for name in credentials},
    }


def test_a_token_is_there_before_the_first_request(start_gateway, sandbox):
    idle = box_ccg(sandbox, subject={"user": sandbox["BOX_USER_ID"]})
    gateway = start_gateway(config(sandbox, eager=box_ccg(sandbox, acquire_on="startup"), idle=idle))
    wait_for_events(gateway, "acquired")
    (event,) = named(gateway, "acquired")
    assert (event["credential"], event["trigger"]) == ("eager", "startup")
    assert sandbox.token_calls("box") == 1
    assert requests.get(gateway.url + "/eager/2.0/users/me", timeout=20).status_code == 200
    assert sandbox.token_calls("box") == 1
    gateway.stop()
    gateway.start()
    assert requests.get(gateway.url + "/eager/2.0/users/me", timeout=20).status_code == 200
    assert sandbox.token_calls("box") == 1, "a stored token is enough"


def test_a_reload_that_brings_the_credential_obtains_its_token(start_gateway, sandbox):
    gateway = start_gateway(config(sandbox, idle=box_ccg(sandbox)))
    gateway.configure(config(sandbox, idle=box_ccg(sandbox), eager=box_ccg(sandbox, subject={"user": sandbox["BOX_USER_ID"]}, acquire_on="startup")))
    assert gateway.run("reload").returncode == 0
    wait_for_events(gateway, "acquired")
    (event,) = named(gateway, "acquired")
    assert (event["credential"], event["trigger"]) == ("eager", "reload")


def test_an_authority_that_is_silent_does_not_hold_up_the_start(start_gateway, sandbox, token_server, origin):
    """The start is over, and requests are answered, while the authority still has the first call."""
    token_server.open.clear()
    whole = config(sandbox, eager=box_ccg(sandbox, acquire_on="startup", token_url=token_server.url + "/token"))
    whole["routes"] = {"eager": {"upstream": origin.url, "auth": "eager"}, "plain": {"upstream": origin.url, "auth": "none"}}
    gateway = start_gateway(whole)
    processes.wait_until(lambda: token_server.count() == 1, 10, "the token is asked for")
    assert requests.get(f"{gateway.admin_url}/readyz", timeout=10).status_code == 200
    assert requests.get(gateway.url + "/plain/x", timeout=10).status_code == 200
    names = [event["event"] for event in gateway.events("--credential", "eager")]
    assert names == ["acquiring"] and token_server.count() == 1, "nothing has come of the first call yet"
    token_server.open.set()
    wait_for_events(gateway, "acquired")
    (event,) = named(gateway, "acquired")
    assert (event["credential"], event["trigger"]) == ("eager", "startup")
    assert requests.get(gateway.url + "/eager/x", timeout=20).status_code == 200
    assert origin.last().value("authorization") == "Bearer token-1-of-/token" and token_server.count() == 1


def test_an_authority_that_is_down_does_not_hold_up_the_start(start_gateway, sandbox):
    gateway = start_gateway(config(sandbox, eager=box_ccg(sandbox, acquire_on="startup", token_url="http://127.0.0.1:1/token")))
    wait_for_events(gateway, "acquisition_failed")

    def reasons():
        answer = requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10)
        assert answer.status_code == 200
        return answer.json()["reasons"]

    processes.wait_until(
        lambda: any("eager" in reason and "refuses connections" in reason for reason in reasons()), 10, lambda: str(reasons())
    )
    assert "refuses connections" in gateway.run("status").stdout
    refused = requests.get(gateway.url + "/eager/2.0/users/me", timeout=20)
    assert (refused.status_code, refused.json()["code"]) == (502, "token-endpoint-unreachable")


def test_a_credential_that_needs_a_person_says_so_and_no_more(start_gateway, sandbox):
    credential = {
        "strategy": "duke_session",
        "client_name": sandbox["DUKE_CLIENT"],
        "base_url": sandbox["DUKE_URL"],
        "acquire_on": "startup",
    }
    gateway = start_gateway(config(sandbox, campus=credential))
    (token,) = json.loads(gateway.run("token", "list", "--json").stdout)
    assert token["state"] == "login_required"
    assert sandbox.token_calls("duke") == 0


# MARK: check --acquire


def test_check_fetches_a_token_of_each_and_keeps_none(make_gateway, sandbox):
    weaker = {"strategy": "oauth2_token_exchange", "parent": "service", "scopes": ["item_preview"]}
    campus = duke_session(sandbox)
    fixed = {"strategy": "bearer", "token": "abc"}
    gateway = make_gateway(config(sandbox, weaker=weaker, service=box_ccg(sandbox), campus=campus, fixed=fixed))
    done = gateway.run("check", "--acquire")
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[1:] == [
        "weaker: a token was obtained.",
        "service: a token was obtained.",
        "campus: not tried: it would spend the token that renews it.",
        "fixed: not tried: it is what the configuration says.",
    ]
    assert sandbox.token_calls("duke") == 0
    assert not (gateway.folder / "state").exists()


def test_check_says_which_one_fails(make_gateway, sandbox):
    gateway = make_gateway(config(sandbox, good=box_ccg(sandbox), wrong=box_ccg(sandbox, client_secret="wrong")))
    done = gateway.run("check", "--acquire")
    assert done.returncode == 1 and "failed for wrong" in done.stderr, done
    assert "good: a token was obtained." in done.stdout and "wrong: failed: " in done.stdout
    assert gateway.run("check").returncode == 0


def test_check_without_it_asks_nobody(make_gateway, sandbox):
    gateway = make_gateway(config(sandbox, service=box_ccg(sandbox)))
    assert gateway.run("check").returncode == 0
    assert sandbox.token_calls("box") == 0

"""Takes steps in any order with a gateway and with the model of it (`model.py`), and compares both after each step.

Steps are requests, commands of an operator, reloads, kills, and an authority that forgets tokens or drops connections. The
responses, `token list`, and the counters of the authority have to be as the model says: the gateway renews no token twice, uses
none after it was withdrawn, and loses none.

Each run prints its seeds. `AUTHGATEWAY_SEED=NUMBER` repeats one of them and shortens the example that failed.
`AUTHGATEWAY_STATEFUL_SECONDS` sets the length of a run, which has at least `MINIMUM_EXAMPLES` and `MINIMUM_STEPS` in any case.
"""

import base64
import collections
import concurrent.futures
import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import threading
import time

import hypothesis
import pytest
import requests
from hypothesis import Phase, strategies
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from . import known, model, processes, seeds
from .configs import BOX, DUKE
from .gateway import Gateway
from .sandbox import Sandbox

SUBJECTS = {"enterprise": "${SANDBOX_BOX_ENTERPRISE_ID}", "user": "${SANDBOX_BOX_USER_ID}"}
OAUTH_CLIENT = {"client_id": "${SANDBOX_OAUTH_CLIENT_ID}", "client_secret": {"env": "SANDBOX_OAUTH_CLIENT_SECRET"}}
OAUTH_ENDPOINTS = {"token_url": "${SANDBOX_OAUTH_URL}/oauth/token", "revoke_url": "${SANDBOX_OAUTH_URL}/oauth/revoke"}
LOGIN = {
    "strategy": "oauth2_authorization_code",
    "authorize_url": "${SANDBOX_OAUTH_URL}/oauth/authorize",
    **OAUTH_ENDPOINTS,
    **OAUTH_CLIENT,
}
PERSON = {
    "strategy": "oauth2_password",
    "username": "${SANDBOX_OAUTH_USER}",
    "password": {"env": "SANDBOX_OAUTH_PASSWORD"},
    **OAUTH_ENDPOINTS,
    **OAUTH_CLIENT,
}
DEVELOPER = {
    "strategy": "box_developer_token",
    "token": {"env": "SANDBOX_BOX_DEVELOPER_TOKEN"},
    "client_id": "${SANDBOX_BOX_CLIENT_ID}",
    "client_secret": {"env": "SANDBOX_BOX_CLIENT_SECRET"},
    "revoke_url": "${SANDBOX_BOX_URL}/oauth2/revoke",
}


def config(subject="enterprise", **changes):
    credentials = {
        "box": {**BOX, "subject": {subject: SUBJECTS[subject]}},
        "login": LOGIN,
        "duke": DUKE,
        "dev": DEVELOPER,
        "person": PERSON,
    }
    routes = {name: {"upstream": "${SANDBOX_UPSTREAM_URL}", "auth": name} for name in credentials}
    routes["open"] = {"upstream": "${SANDBOX_UPSTREAM_URL}", "auth": "none"}
    return {"credentials": credentials, "routes": routes, "limits": {"connections_per_upstream": 8}, **changes}


#: Credentials that accept imported tokens.
IMPORTED = ("dev", "login", "duke")
#: Tokens of the sandbox, and secrets of clients, in plain text. No log and no file may contain one.
IN_CLEAR = re.compile(
    rb"(box|oauth|duke)-(access|refresh|session)-\d+-[\w-]{20}|eyJ[\w-]{10,}\.eyJ|sandbox-(box|oauth)-secret|sandbox-passphrase"
)
#: The `code` of a refusal, by the reason that the model has for it.
CODES = {"login": {"login-required", "reauthorization-required"}, "static": {"static-token-expired"}}
#: How a call to the authority can fail, and the settings of the sandbox for it.
FAULTS = {
    "before": {"drop_before_commit": 1},
    "after": {"drop_after_commit": 1},
    "busy": {"token_status": 503, "token_next": 1},
}
#: What a refresh command is answered then.
STATUSES = {"before": 502, "after": 502, "busy": 503}
NO_FAULTS = {"drop_before_commit": 0, "drop_after_commit": 0, "token_status": None, "token_error": None, "token_next": None}
#: The error codes with which an authority refuses a refresh token.
REFUSALS = ["invalid_grant", "invalid_token", "token_expired", "bad_refresh_token"]


def token_id(value):
    """The name of a token in the reports of the sandbox."""
    if value.startswith("eyJ"):
        payload = value.split(".")[1]
        return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["jti"]
    return "-".join(value.split("-")[:3])


#: A run proves something if it has taken so much. It goes on after its time until it has.
MINIMUM_EXAMPLES = 5
MINIMUM_STEPS = 100


class NothingToDo(Exception):
    """The step applies to no credential in its present state."""


class TimeIsOver(KeyboardInterrupt):
    """Ends a run between two examples. As an interrupt, it is neither a failure nor the end of an example to hypothesis.

    An example that does nothing because the time is over would make hypothesis report a flaky test: the same choices led elsewhere.
    """


def step(function):
    """A rule. After it everything has to be as the model says, and sometimes a request checks that."""

    @functools.wraps(function)
    def taken(self, data, **drawn):
        try:
            function(self, data, **drawn)
            self.check()
            self.since_start += 1
            type(self).steps += 1
            if data.draw(strategies.booleans(), "with a request"):
                self.ask_for(data.draw(strategies.sampled_from(list(self.credentials.values())), "request"))
                self.check()
        except NothingToDo:
            pass
        # The exceptions with which hypothesis ends an example are not failures.
        except (Exception, pytest.fail.Exception) as error:
            self.fail(error)
            raise

    return taken


#: A start takes long, and finds more after other steps.
has_run = precondition(lambda self: self.since_start >= 2)
#: After a failed call the gateway pauses for seconds.
has_patience = precondition(lambda self: self.pauses < 2)
#: A kill may come before the gateway has stored a rejection.
has_saved = precondition(lambda self: not any(found.is_rejection_unsaved for found in self.credentials.values()))


class Timed:
    """A state machine that counts what it does, for `run_for`."""

    #: No example begins after this time, unless the run has not reached its minimum or an example has failed.
    deadline = float("inf")
    examples = steps = failures = 0

    def begin_example(self):
        if not self.failures and time.monotonic() > self.deadline and self.has_minimum():
            raise TimeIsOver
        type(self).examples += 1

    @classmethod
    def has_minimum(cls):
        return cls.examples >= MINIMUM_EXAMPLES and cls.steps >= MINIMUM_STEPS


class Tokens(Timed, RuleBasedStateMachine):
    """`explore` sets the first attributes."""

    sandbox = folder = None

    def __init__(self):
        super().__init__()
        self.begin_example()
        self.since_start = self.pauses = 0
        self.trace = []
        self.has_failed = False
        self.sandbox.reset()
        self.gateway = Gateway(self.folder / f"{self.examples}", config(), environment=self.sandbox.environment)
        self.box, self.oauth, self.duke = model.Authority(), model.Authority(), model.SessionAuthority()
        self.authorities = {"box": self.box, "oauth": self.oauth, "duke": self.duke}
        # The sandbox revokes these two together with the tokens that it issues.
        developer, session = self.box.issue(), self.duke.issue(refresh_token="live")
        developer.id, session.id = map(self.name_of, ("BOX_DEVELOPER_TOKEN", "DUKE_ACCESS_TOKEN"))
        self.credentials = {
            "box": model.Subjects("box", self.box, list(SUBJECTS)),
            "login": model.Login("login", self.oauth),
            "duke": model.Session("duke", self.duke, seed=session),
            "dev": model.Developer("dev", self.box, seed=developer),
            "person": model.Password("person", self.oauth),
        }
        #: Of the requests.
        self.numbers = itertools.count()
        #: The last entry of the upstream's journal that the test has read.
        self.seen = -1
        #: For each credential, the tokens that the upstream has received, and those that it must not receive again.
        self.used = collections.defaultdict(set)
        self.withdrawn = collections.defaultdict(set)
        self.generations = dict.fromkeys(self.credentials, 0)
        #: Credentials that were locked before the present step.
        self.quiet = set()
        try:
            self.gateway.start()
            self.bring(self.credentials["login"])
            self.check()
        except BaseException as error:
            self.fail(error)
            self.gateway.process.kill()
            raise

    # MARK: Parts of steps

    def say(self, text):
        self.trace.append(text)

    def name_of(self, seed):
        """The name of a token of the environment at the upstream. Each reset changes it."""
        fields = {"Authorization": f"Bearer {self.sandbox[seed]}"}
        answer = requests.get(self.sandbox["UPSTREAM_URL"] + "/echo", headers=fields, timeout=20)
        return answer.json()["authorization"]["credential"]

    def fail(self, error):
        self.has_failed = True
        type(self).failures += 1
        # hypothesis reports only the failure of its last run, which may be another one.
        print(f"\n{type(error).__name__}: {error}")
        print("\nThe steps of the example that failed:", *self.trace, sep="\n  ")
        print("The end of the log:", *self.gateway.text().splitlines()[-40:], sep="\n  ")

    def pick(self, data, condition=lambda credential: True):
        """A credential that meets the condition."""
        names = [name for name, credential in self.credentials.items() if condition(credential)]
        if not names:
            raise NothingToDo
        return self.credentials[data.draw(strategies.sampled_from(names), "credential")]

    def ask_for(self, credential):
        expected = credential.request()
        answer = self.send(credential)
        self.say(f"request {credential.name}: {answer.status_code}")
        self.judge(credential, answer, expected)

    def send(self, credential):
        """On a path of its own: rejections on one path, soon one after the other, are not all taken for the end of the token.

        A token that only a person replaces ends where it has worked: it always has the same path.
        """
        number = next(self.numbers) if credential.renews else 0
        return requests.get(f"{self.gateway.url}/{credential.name}/echo/r{number}/{credential.name}", timeout=30)

    def admin(self, path, data=None):
        token = (self.gateway.folder / "state/admin.token").read_text().strip()
        fields = {"Authorization": f"Bearer {token}"}
        return requests.post(f"{self.gateway.admin_url}/api/{path}", headers=fields, data=data, timeout=60)

    def command(self, verb, credential, data=None):
        answer = self.admin(f"tokens/{credential.name}/{verb}", data)
        self.say(f"{verb} {credential.name}: {answer.status_code} {answer.text[:160].strip() if not answer.ok else ''}")
        return answer

    def origin(self, credential):
        return next(name for name, authority in self.authorities.items() if authority is credential.authority)

    @contextlib.contextmanager
    def fault(self, credential, **switches):
        self.sandbox.set(self.origin(credential), **switches)
        try:
            yield
        finally:
            self.sandbox.set(self.origin(credential), token_delay_ms=0, **NO_FAULTS)

    def judge(self, credential, answer, expected, failed=False):
        """Compares a response with the model's: a status, and the pair whose token was sent."""
        status, pair = expected
        allowed = {502, 503} if failed and status == 503 else {status}
        assert answer.status_code in allowed, f"{credential.name}: {answer.status_code}, expected {expected}: {answer.text}"
        if status == 200:
            seen = answer.json()["authorization"]
            if pair.id is None:
                assert seen["credential"] not in self.used[credential.key], f"{credential.name}: an old token was sent again"
                pair.id = seen["credential"]
            assert seen["credential"] == pair.id, f"{credential.name}: another token than the model's was sent"
            if isinstance(credential, model.Subjects):
                assert seen["subject"].startswith(credential.subject), seen
            self.used[credential.key].add(pair.id)
        elif not failed and status == 503:
            code = answer.json()["code"]
            assert code in ({"locked"} if credential.is_locked else CODES[credential.stopped_code]), answer.text

    def settle(self, credential):
        """Waits until the pause after a failed call is over."""
        if credential.phase != "pausing":
            return
        self.pauses += 1
        if credential.is_usable:
            # The gateway tries again without a request.
            credential.renew()
            return
        deadline = time.monotonic() + 30
        while True:
            answer = self.send(credential)
            wait = answer.headers.get("Retry-After")
            if not (answer.status_code in (502, 503) and wait):
                break
            assert time.monotonic() < deadline, answer.text
            time.sleep(int(wait))
        self.say(f"request {credential.name} after the pause: {answer.status_code}")
        self.judge(credential, answer, credential.request())

    def found(self):
        """The present values of `token list` and of the authorities."""
        answer = requests.get(f"{self.gateway.admin_url}/api/tokens", timeout=30)
        state = self.sandbox.state()
        return {
            "tokens": {
                token["credential"]: (token["state"], token["generation"], "action" in token) for token in answer.json()
            },
            "token calls": {name: state["token_calls"][name] for name in self.authorities},
            "double spends": {name: state["double_spends"][name] for name in self.authorities},
        }

    def expected(self):
        return {
            "tokens": {name: (found.state, found.generation, found.needs_person) for name, found in self.credentials.items()},
            "token calls": {name: authority.calls for name, authority in self.authorities.items()},
            "double spends": {name: authority.double_spends for name, authority in self.authorities.items()},
        }

    def check(self):
        # The gateway may still be working on the step.
        def difference():
            return f"found {self.found()}, expected {self.expected()}"

        processes.wait_until(lambda: self.found() == self.expected(), 20, difference, pause=0.005)
        for name, entry in self.new_entries():
            assert name not in self.quiet, f"a request with the locked credential {name} reached the upstream: {entry}"
        self.quiet = {name for name, credential in self.credentials.items() if credential.is_locked}
        for name, credential in self.credentials.items():
            assert credential.generation >= self.generations[name], f"{name}: its generation went back"
            self.generations[name] = credential.generation

    def new_entries(self):
        """The requests that the upstream received since the last call, by credential. None may have a withdrawn token."""
        url = f"{self.sandbox['UPSTREAM_URL']}/_sandbox/requests?origin=upstream&last=500"
        entries = [entry for entry in requests.get(url, timeout=30).json()["requests"] if entry["sequence"] > self.seen]
        self.seen = max([self.seen, *(entry["sequence"] for entry in entries)])
        found = []
        for entry in entries:
            name = entry["target"].rpartition("/")[2]
            if name not in self.credentials:
                continue
            seen = entry["authorization"]
            token = seen.get("credential") or seen["reason"].split()[0]
            key = self.credentials[name].key
            self.used[key].add(token)
            if "/early/" in entry["target"]:
                continue
            assert token not in self.withdrawn[key], f"{token} reached the upstream after it was withdrawn"
            found.append((name, entry))
        return found

    def learn(self, credential, entries):
        """Notes which token the upstream accepted."""
        for _, entry in entries:
            credential.held.pair.id = entry["authorization"]["credential"]

    def withdraw(self, credential, seed_counts_again=False):
        """A command has confirmed that the token is gone."""
        gone = self.used[credential.key] | {credential.held.pair.id if credential.held else None}
        self.withdrawn[credential.key] |= gone - {None}
        if seed_counts_again and credential.seed:
            self.withdrawn[credential.key].discard(credential.seed.id)

    def stop(self):
        self.say("stop")
        assert self.gateway.stop() == 0
        for credential in self.credentials.values():
            credential.end()

    def start(self):
        self.gateway.start()
        self.since_start = 0
        self.generations = dict.fromkeys(self.credentials, 0)

    def verify(self):
        verified = self.gateway.run("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr

    # MARK: Requests

    @rule(data=strategies.data())
    @step
    def request(self, data):
        self.ask_for(self.pick(data))

    @rule(data=strategies.data())
    @step
    def request_with_all(self, data):
        for credential in self.credentials.values():
            self.ask_for(credential)

    @rule(data=strategies.data())
    @step
    def many_requests_at_once(self, data):
        credential = self.pick(data, lambda found: found.will_call and found.copy().request()[0] == 200)
        expected = credential.request()
        with self.fault(credential, token_delay_ms=50), concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: self.send(credential), range(6)))
        self.say(f"6 requests {credential.name}: {[answer.status_code for answer in answers]}")
        for answer in answers:
            self.judge(credential, answer, expected)

    @rule(data=strategies.data(), fault=strategies.sampled_from(list(FAULTS)))
    @step
    @has_patience
    def request_while_the_authority_fails(self, data, fault):
        credential = self.pick(data, lambda found: found.will_call and found.failures < 2)
        with self.fault(credential, **FAULTS[fault]):
            expected = credential.request(fault)
            answer = self.send(credential)
        self.say(f"request {credential.name}, authority fails ({fault}): {answer.status_code}")
        self.judge(credential, answer, expected, failed=True)
        self.settle(credential)

    # MARK: Commands of an operator

    @rule(data=strategies.data())
    @step
    def refresh(self, data):
        credential = self.pick(data)
        answer = self.command("refresh", credential)
        outcome = credential.refresh()
        assert answer.ok == (outcome == "ok"), f"{outcome}: {answer.text}"
        assert answer.status_code != 500, answer.text

    @rule(data=strategies.data(), fault=strategies.sampled_from(list(FAULTS)))
    @step
    @has_patience
    def refresh_while_the_authority_fails(self, data, fault):
        credential = self.pick(data, lambda found: found.refresh_calls and found.failures < 2)
        with self.fault(credential, **FAULTS[fault]):
            answer = self.command("refresh", credential)
        self.say(f"  authority fails ({fault})")
        outcome = credential.refresh(fault)
        assert answer.status_code == STATUSES[fault], f"{outcome}: {answer.text}"
        self.settle(credential)

    @rule(data=strategies.data(), word=strategies.sampled_from(REFUSALS))
    @step
    def refresh_that_the_authority_refuses(self, data, word):
        """A credential with a password gets its next token with that. For another one a person has to log in."""
        credential = self.pick(
            data,
            lambda found: found.name in ("login", "person")
            and found.refresh_calls and found.record and not found.is_uncertain,
        )
        with self.fault(credential, token_status=400, token_error=word, token_next=1):
            answer = self.command("refresh", credential)
        outcome = credential.refresh("refused")
        assert answer.ok == (outcome == "ok"), f"{outcome}: {answer.text}"
        assert answer.status_code != 500, answer.text

    @rule(data=strategies.data())
    @step
    def lock(self, data):
        credential = self.pick(data, lambda found: not found.is_locked)
        assert self.command("lock", credential).ok
        self.new_entries()
        credential.lock()
        self.quiet.add(credential.name)
        answer = self.send(credential)
        self.judge(credential, answer, credential.request())

    @rule(data=strategies.data())
    @step
    def unlock(self, data):
        credential = self.pick(data, lambda found: found.is_locked)
        assert self.command("unlock", credential).ok
        credential.unlock()
        self.quiet.discard(credential.name)

    @rule(data=strategies.data())
    @step
    def clear(self, data):
        credential = self.pick(data)
        self.new_entries()
        assert self.command("clear", credential).ok
        self.withdraw(credential, seed_counts_again=True)
        credential.clear()

    @rule(data=strategies.data())
    @step
    def revoke(self, data):
        credential = self.pick(data)
        self.new_entries()
        answer = self.command("revoke", credential)
        assert answer.ok, answer.text
        self.withdraw(credential)
        credential.revoke()

    def import_tokens(self, credential):
        """A pair that works, as a person would import it."""
        if credential.name == "duke":
            page = requests.get(f"{self.sandbox['DUKE_URL']}/dukemobile/login?netid=abc", allow_redirects=False, timeout=20)
            tokens = dict(part.split("=", 1) for part in page.headers["Location"].split("?", 1)[1].split("&"))
            pair = self.duke.issue(refresh_token="live")
        elif credential.name == "login":
            tokens = self.ask("oauth", "/oauth/token", grant_type="password", username="USER", password="PASSWORD")
            pair = self.oauth.issue(refresh_token="live")
        else:
            tokens = self.ask(
                "box", "/oauth2/token", grant_type="client_credentials", box_subject_type="enterprise",
                box_subject_id="ENTERPRISE_ID",
            )
            pair = self.box.issue()
        pair.id = token_id(tokens["access_token"])
        return tokens, pair

    def bring(self, credential):
        tokens, pair = self.import_tokens(credential)
        answer = self.command("import", credential, json.dumps(tokens))
        assert answer.ok, answer.text
        credential.take(pair)

    def ask(self, origin, path, **form):
        """A token call of the test. Values in capitals name variables of the environment."""
        prefix = origin.upper()
        form |= {"client_id": "CLIENT_ID", "client_secret": "CLIENT_SECRET"}
        form = {key: self.sandbox[f"{prefix}_{value}"] if value.isupper() else value for key, value in form.items()}
        answer = requests.post(self.sandbox[f"{prefix}_URL"] + path, data=form, timeout=20)
        assert answer.status_code == 200, answer.text
        self.authorities[origin].calls += 1
        return answer.json()

    @rule(data=strategies.data())
    @step
    def import_a_token(self, data):
        credential = self.pick(data, lambda found: found.name in IMPORTED)
        self.bring(credential)

    @rule(data=strategies.data())
    @step
    def import_a_token_that_is_refused(self, data):
        credential = self.pick(data, lambda found: found.rotates and not found.is_locked)
        answer = self.command("import", credential, json.dumps({"access_token": "no", "refresh_token": "nothing"}))
        assert 400 <= answer.status_code < 600 and answer.status_code != 500, answer.text
        credential.refuse_import()

    @rule(data=strategies.data())
    @step
    def lock_while_a_token_is_fetched(self, data):
        """The gateway refuses the requests that wait for the token, and keeps the token."""
        credential = self.pick(
            data, lambda found: found.will_call and not found.is_usable and found.is_opened and found.copy().call() == "ok"
        )
        calls = credential.authority.calls
        credential.call()
        credential.lock()
        with self.fault(credential, token_delay_ms=800), concurrent.futures.ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(self.send, credential) for _ in range(3)]
            origin = self.origin(credential)
            processes.wait_until(lambda: self.sandbox.token_calls(origin) > calls, 10, "the token call", pause=0.005)
            is_under_way = self.sandbox.state()["token_calls_under_way"] > 0
            assert self.command("lock", credential).ok
            answers = [answer.result() for answer in waiting]
        if not is_under_way:
            # On a slow machine the token may come before the lock.
            self.learn(credential, self.new_entries())
        self.quiet.add(credential.name)
        for answer in answers:
            if is_under_way or answer.status_code != 200:
                self.judge(credential, answer, (503, None))

    @rule(data=strategies.data())
    @step
    def lock_while_a_request_waits_for_a_connection(self, data):
        credential = self.pick(data, lambda found: found.is_usable and found.held.pair.access)
        before = self.sandbox.state()["requests"]["upstream"]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            slow = [pool.submit(requests.get, f"{self.gateway.url}/open/public/slow?ms=300", timeout=30) for _ in range(8)]
            processes.wait_until(
                lambda: self.sandbox.state()["requests"]["upstream"] == before + 8, 10, "the slow requests", pause=0.005
            )
            waiting = pool.submit(self.send, credential)
            # On a slow machine it may not wait yet.
            time.sleep(0.02)
            assert self.command("lock", credential).ok
            still_busy = not any(request.done() for request in slow)
            assert all(request.result().status_code == 200 for request in slow)
            answer = waiting.result()
        self.say(f"  a request that had waited for a connection: {answer.status_code}")
        entries = self.new_entries()
        self.learn(credential, entries)
        credential.lock()
        if still_busy and "sent-after-lock" not in known.FAULTS:
            assert not entries and answer.status_code == 503, f"a locked token was sent: {answer.status_code}"

    @rule(data=strategies.data())
    @step
    def lock_while_an_answer_is_under_way(self, data):
        credential = self.pick(data, lambda found: found.is_usable and found.held.pair.access)
        url = f"{self.gateway.url}/{credential.name}/sse?events=60&interval_ms=50"
        with requests.get(url, stream=True, timeout=30) as answer:
            assert answer.status_code == 200
            events = answer.iter_lines()
            next(events)
            assert self.command("lock", credential).ok
            self.say("  an answer was under way")
            self.new_entries()
            credential.lock()
            self.quiet.add(credential.name)
            if "response-continues-after-lock" not in known.FAULTS:
                with pytest.raises(requests.RequestException):
                    list(events)

    @contextlib.contextmanager
    def load(self, credential, clients=3):
        """Clients send requests until the block ends, and then one more each. Collects (whether it is the last one, response)."""
        answers, is_over = [], threading.Event()

        def client():
            with requests.Session() as session:
                while True:
                    is_late = is_over.is_set()
                    path = f"echo/{'late' if is_late else 'early'}/{credential.name}"
                    try:
                        answer = session.get(f"{self.gateway.url}/{credential.name}/{path}", timeout=30)
                    except requests.ConnectionError:
                        answer = None
                    answers.append((is_late, answer))
                    if is_late or answer is None:
                        return

        threads = [threading.Thread(target=client) for _ in range(clients)]
        for thread in threads:
            thread.start()
        try:
            processes.wait_until(lambda: len(answers) >= clients, 20, "the first answers", pause=0.002)
            if credential.is_usable and credential.held.pair.access:
                self.judge(credential, answers[0][1], (200, credential.held.pair))
            yield answers
        finally:
            is_over.set()
            for thread in threads:
                thread.join()

    @rule(data=strategies.data(), verb=strategies.sampled_from(["lock", "clear", "revoke", "refresh", "import", "bad"]))
    @step
    def command_under_load(self, data, verb):
        """A request that begins after the response to the command has one expected outcome. For an earlier one there are two."""
        credential = self.pick(
            data,
            lambda found: found.is_usable and found.phase == "ready" and found.held.pair.access
            and (verb != "import" or found.name in IMPORTED) and (verb != "refresh" or found.renews)
            and (verb != "bad" or found.rotates)
            # Otherwise the next request would change the state again.
            and (verb != "clear" or found.seed is None or found.seed.access),
        )
        with self.load(credential) as answers:
            if verb == "import":
                tokens, pair = self.import_tokens(credential)
                answer = self.command(verb, credential, json.dumps(tokens))
            elif verb == "bad":
                answer = self.command("import", credential, json.dumps({"access_token": "no", "refresh_token": "nothing"}))
            else:
                answer = self.command(verb, credential)
            assert answer.ok == (verb != "bad"), answer.text
        if verb in ("clear", "revoke"):
            self.withdraw(credential, seed_counts_again=verb == "clear")
        if verb == "import":
            credential.take(pair)
        elif verb == "bad":
            credential.refuse_import()
        elif verb == "lock":
            credential.lock()
            self.quiet.add(credential.name)
        else:
            getattr(credential, verb)()
        expected = credential.request()
        self.say(f"  under load: {[(is_late, answer.status_code) for is_late, answer in answers][-8:]}")
        for is_late, answer in answers:
            if is_late:
                self.judge(credential, answer, expected)
            elif verb in ("refresh", "import", "bad"):
                assert answer.status_code == 200, answer.text
            else:
                # A 401: the authority revoked the token while the request was in progress.
                assert answer.status_code in (200, 503) or (verb == "revoke" and answer.status_code == 401), answer.text

    # MARK: Reloads

    def reload(self, **changes):
        subject = self.credentials["box"].subject
        self.gateway.configure(config(subject, **changes))
        return self.admin("reload")

    @rule(data=strategies.data())
    @step
    def reload_without_a_change(self, data):
        assert self.reload().ok

    @rule(data=strategies.data())
    @step
    def reload_with_another_subject(self, data):
        box = self.credentials["box"]
        subject = next(other for other in SUBJECTS if other != box.subject)
        self.gateway.configure(config(subject))
        answer = self.admin("reload")
        self.say(f"reload with subject {subject}: {answer.status_code}")
        assert answer.ok, answer.text
        self.generations["box"] = 0
        box.change(subject)

    @rule(data=strategies.data())
    @step
    def reload_that_is_refused(self, data):
        self.say("reload with a mistake")
        assert self.reload(limits={"no": "such limit"}).status_code == 409
        assert self.reload().ok

    # MARK: The process

    @rule(data=strategies.data())
    @step
    @has_run
    def restart(self, data):
        self.stop()
        self.start()
        for credential in self.credentials.values():
            credential.start()

    @rule(data=strategies.data())
    @step
    @has_run
    @has_saved
    def kill(self, data):
        credential = data.draw(strategies.sampled_from(list(self.credentials.values())), "load")
        has_load = credential.is_settled and data.draw(strategies.booleans(), "under load")
        with self.load(credential) if has_load else contextlib.nullcontext():
            self.gateway.kill()
        self.say(f"kill{' under load ' + credential.name if has_load else ''}")
        self.verify()
        self.start()
        for credential in self.credentials.values():
            credential.start()

    @rule(data=strategies.data(), commits=strategies.booleans())
    @step
    @has_run
    @has_saved
    def kill_while_a_token_is_fetched(self, data, commits):
        credential = self.pick(data, lambda found: found.refresh_calls)
        origin, calls = self.origin(credential), credential.authority.calls
        with self.fault(credential, token_delay_ms=200, **FAULTS["after" if commits else "before"]):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                command = pool.submit(self.admin, f"tokens/{credential.name}/refresh")
                processes.wait_until(lambda: self.sandbox.token_calls(origin) > calls, 10, "the token call", pause=0.005)
                self.gateway.kill()
                # On a slow machine the call may have failed already. The outcome is the same.
                with contextlib.suppress(requests.RequestException):
                    assert not command.result().ok
            self.say(f"kill during refresh {credential.name}, which the authority {'has' if commits else 'has not'} seen")
            processes.wait_until(
                lambda: self.sandbox.state()["token_calls_under_way"] == 0, 10, "the end of the token call", pause=0.005
            )
        self.verify()
        credential.refresh("after" if commits else "before")
        self.start()
        for found in self.credentials.values():
            found.start()

    @rule(data=strategies.data(), verb=strategies.sampled_from(["lock", "unlock", "clear", "revoke"]))
    @step
    @has_run
    def command_without_a_gateway(self, data, verb):
        credential = self.pick(data, lambda found: found.is_locked == (verb == "unlock"))
        self.stop()
        for found in self.credentials.values():
            found.start()
        done = self.gateway.run("token", verb, credential.name)
        self.say(f"{verb} {credential.name} without a gateway: {done.returncode}")
        assert done.returncode == 0, done.stderr
        if verb in ("clear", "revoke"):
            self.withdraw(credential, seed_counts_again=verb == "clear")
        getattr(credential, verb)()
        if verb == "unlock":
            self.quiet.discard(credential.name)
        self.start()
        for found in self.credentials.values():
            found.start()

    # MARK: The authority

    @rule(
        data=strategies.data(),
        authority=strategies.sampled_from(["box", "oauth", "duke"]),
        access_alone=strategies.booleans(),
    )
    @step
    def authority_forgets(self, data, authority, access_alone):
        self.say(f"{authority} forgets {'its access tokens' if access_alone else 'all its tokens'}")
        self.sandbox.set(authority, **{"revoke_access" if access_alone else "revoke_all": True})
        self.authorities[authority].forget(access_alone)

    # MARK: The end

    def teardown(self):
        if self.has_failed:
            self.gateway.process.kill()
            self.gateway.process.wait()
            return
        try:
            self.stop()
            self.verify()
            leak = IN_CLEAR.search(bytes(self.gateway.log))
            assert leak is None, f"in the log: {leak}"
            for path, content in self.gateway.files().items():
                leak = IN_CLEAR.search(content)
                assert leak is None, f"in {path}: {leak}"
            assert "Fatal error" not in self.gateway.text()
        except BaseException as error:
            self.fail(error)
            raise
        shutil.rmtree(self.gateway.folder)


def explore(folder, seconds):
    seconds = float(os.environ.get("AUTHGATEWAY_STATEFUL_SECONDS", seconds))
    Machine = type("Machine", (Tokens,), {"folder": folder})

    @contextlib.contextmanager
    def fresh_sandbox():
        """One for each round: the tokens that a sandbox gives away at its start live for an hour."""
        Machine.sandbox = Sandbox(folder)
        try:
            yield
        finally:
            Machine.sandbox.stop()

    run_for(seconds, Machine, fresh_sandbox)


def run_for(seconds, Machine, around=contextlib.nullcontext):
    """Runs examples, with one seed after the other, until the time is over; or only those of the given seed.

    An example whose steps depend on anything but its seed fails: then its seed repeats nothing.
    """
    asked = seeds.setting()
    is_repeated = isinstance(asked, int)
    if not is_repeated:
        Machine.deadline = time.monotonic() + seconds
    settings = hypothesis.settings(
        max_examples=20,
        stateful_step_count=30,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
        # To shorten an example takes minutes. A run with its seed does that.
        phases=[Phase.generate, Phase.shrink] if is_repeated else [Phase.generate],
    )
    for round in itertools.count():
        if asked is None:
            seeds.announce(seed := seeds.ORDINARY + round)
        else:
            seed = seeds.choose()
        try:
            with around():
                run_state_machine_as_test(hypothesis.seed(seed)(Machine), settings=settings)
        except TimeIsOver:
            break
        if is_repeated:
            break
    print(f"{Machine.examples} examples, {Machine.steps} steps")
    assert Machine.has_minimum(), f"{Machine.examples} examples with {Machine.steps} steps prove nothing"

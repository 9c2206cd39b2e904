"""Hostile clients and hostile origins around a whole gateway, plain and over TLS, while an operator reloads, locks and clears.

`AUTHGATEWAY_SEED` repeats what was sent. `AUTHGATEWAY_WHOLE_FUZZ_SECONDS` sets the duration (default 30 s).
"""

import collections
import contextlib
import itertools
import json
import os
import random
import threading
import time

import pytest
import requests

from harness import proc, processes
from harness.configs import CANARY
from harness.hostile import SECRET, HostileClient, HostileOrigin, Problem
from harness.origin import response
from harness.script import connect
from harness.tls_script import client_context, server_context, serving, tls_connect

SECONDS = float(os.environ.get("AUTHGATEWAY_WHOLE_FUZZ_SECONDS", "30"))
ROUND = 5
CLIENTS = 6
#: The maximum peak of resident memory. A run of 30 s reaches about 45 MiB.
PEAK_MIB = 120
#: Words in the output of a program that crashes.
CRASH = ("Fatal error", "Crash", "crashed", "Precondition failed", "Assertion failed", "Swift runtime failure", "💣")


class Setup:
    """The gateway, its origins, and its token server."""

    def __init__(self, seed, make_gateway, make_origin, token_server, certificate_authority):
        certificate, key = serving(certificate_authority, "fuzz")
        context = server_context(certificate, key)
        self.authority_file = str(certificate_authority.certificate)
        self.origins = {
            "plain": HostileOrigin(seed),
            "secure": HostileOrigin(seed, context),
            "fixed": HostileOrigin(seed, rejects=0.1),
            "open": HostileOrigin(seed, rejects=0.1),
        }
        self.innocent = make_origin(lambda request: response(200, b"innocent"))
        self.tokens = token_server
        numbers = itertools.count()
        self.tokens.answer = lambda asked, _: (
            200,
            {},
            json.dumps({"access_token": f"{CANARY}-{asked.user}-{next(numbers)}", "expires_in": 3600}),
        )
        self.secure_port = processes.free_port()
        tls = {"certificate": str(certificate), "private_key": {"file": str(key)}}
        self.listener = {"address": f"127.0.0.1:{self.secure_port}", "tls": tls}
        self.context = client_context(certificate_authority)
        secrets = {f"FUZZ_{name.upper()}": f"{CANARY}-{name}-0" for name in ("client", "probe", "fixed")}
        self.gateway = make_gateway(self.config(random.Random(seed)), [self.listener], secrets)

    def config(self, source):
        """A random configuration. All of them serve the same routes."""

        def oauth(name):
            return {
                "strategy": "oauth2_client_credentials",
                "token_url": f"{self.tokens.url}/token?id={name}",
                "client_id": "fuzzer",
                "client_secret": {"env": "FUZZ_CLIENT"},
                "client_auth": source.choice(("body", "basic")),
                "retry_on": source.choice(([401], [401, 403])),
            }

        def route(name, auth, **more):
            return {"upstream": self.origins[name].url, "auth": auth, **more}

        routes = {
            "plain": route("plain", "plain", headers={"forwarded": source.choice(("pass", "remove", "replace", "append"))}),
            "secure": route("secure", "secure", tls={"ca": self.authority_file}),
            "fixed": route("fixed", "fixed", allow=[{"path": "/**"}]),
            "open": route("open", "none"),
            "probe": {"upstream": self.innocent.url, "auth": {"strategy": "bearer", "token": {"env": "FUZZ_PROBE"}}},
        }
        if source.random() < 0.3:
            routes["more"] = {**routes["open"], "match": {"path": "/more"}}
        if source.random() < 0.3:
            routes["open"]["headers"] = {"set": {"X-Tenant": "acme"}, "remove": ["Cookie"]}
        return {
            "workers": 2,
            "limits": {
                "header_timeout": "2s",
                "body_idle_timeout": "2s",
                "response_timeout": source.choice(("1s", "2s")),
                "idle_timeout": source.choice(("1s", "10s")),
                "credential_timeout": "2s",
                "connect_timeout": "2s",
                "header_bytes": source.choice(("8KiB", "32KiB")),
                "replay_body_bytes": source.choice(("0B", "1KiB", "64KiB")),
                "connections_per_upstream": source.choice((4, 64)),
            },
            "credentials": {
                "plain": oauth("plain"),
                "secure": oauth("secure"),
                "fixed": {"strategy": "bearer", "token": {"env": "FUZZ_FIXED"}},
            },
            "routes": routes,
        }

    def probe(self):
        """An innocent client gets its response on both listeners."""
        for dial in (lambda: connect(self.gateway.port, 10), lambda: tls_connect(self.secure_port, self.context, seconds=10)):
            with dial() as client:
                port = client.connection.getpeername()[1]
                client.send(b"GET /probe/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % port)
                head = client.head()
                assert head.startswith(b"HTTP/1.1 200 "), head
                assert client.exactly(8) == b"innocent"

    def drop(self):
        for origin in self.origins.values():
            origin.drop()
        self.innocent.drop()

    def stop(self):
        for origin in self.origins.values():
            origin.stop()


class Operator:
    """Reloads, locks, clears, probes the admin listener, and notes when each credential was locked."""

    #: Credentials whose tokens come from the token server. The third is static; test_static_credentials.py locks those.
    FETCHED = ("plain", "secure")
    NAMES = (*FETCHED, "fixed")

    def __init__(self, seed, setup, problems):
        self.source = random.Random(f"{seed} operator")
        self.setup = setup
        self.gateway = setup.gateway
        self.problems = problems
        #: (name, time of the response to the lock, time of the request to unlock)
        self.locks = []
        self.reloads = 0

    def run(self, until):
        actions = {self.reload: 4, self.lock: 3, self.clear: 1, self.refresh: 1, self.probe_admin: 6, self.break_config: 1}
        while time.monotonic() < until and not self.problems:
            try:
                self.source.choices(list(actions), list(actions.values()))[0]()
            except Exception as problem:
                self.problems.append(Problem(f"the operator: {problem!r}", "", b"", b"", set()))

    def run_command(self, *words, codes=(0,)):
        done = self.gateway.run(*words)
        assert done.returncode in codes, (words, done)
        for text in (done.stdout, done.stderr):
            assert CANARY not in text, (words, text)

    def reload(self):
        self.gateway.configure(self.setup.config(self.source), [self.setup.listener])
        self.run_command("reload")
        self.reloads += 1

    def break_config(self):
        text = self.gateway.file.read_text()
        self.gateway.file.write_text(text.replace('"routes"', self.source.choice(('"rout"', '"routes', "\t- x: [")), 1))
        self.run_command("reload", codes=(3,))
        self.gateway.file.write_text(text)

    def lock(self):
        name = self.source.choice(self.NAMES)
        self.run_command("token", "lock", name)
        answered = time.monotonic()
        time.sleep(self.source.uniform(0, 0.3))
        self.locks.append((name, answered, time.monotonic()))
        self.run_command("token", "unlock", name)

    def clear(self):
        self.run_command("token", "clear", self.source.choice(self.FETCHED))

    def refresh(self):
        self.run_command("token", "refresh", self.source.choice(self.FETCHED))

    def probe_admin(self):
        path = self.source.choice(("metrics", "readyz?verbose", "healthz", "", "api/tokens", "nowhere", "%00", "tokens/plain"))
        method = self.source.choice(("GET", "GET", "POST", "DELETE"))
        answer = requests.request(method, f"{self.gateway.admin_url}/{path}", data=b"x" * 100, timeout=10)
        assert CANARY.encode() not in answer.content, (path, answer.content)


def check_origins(setup, clients, operator):
    """Checks what the origins received."""
    began = {}
    for client in clients:
        began |= client.began
    for name, origin in setup.origins.items():
        own = {name.encode()} if name in Operator.NAMES else set()
        assert origin.secrets <= own, f"{name} was sent {origin.secrets}"
        for identity, secret, when in origin.heads:
            if not secret or identity not in began:
                continue
            for locked, answered, unlocked in operator.locks:
                late = locked == name and answered <= began[identity] and when < unlocked
                assert not late, f"{identity} began {began[identity] - answered:.3f} s after {name} was locked, and was sent"
    seen = {name for name in SECRET.findall(setup.innocent.raw())}
    assert seen == {b"probe"}, seen


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 2 + 150)
def test_nothing_leaks_or_stops_under_hostile_clients_and_origins(
    make_gateway, make_origin, token_server, certificate_authority, seed
):
    setup = Setup(seed, make_gateway, make_origin, token_server, certificate_authority)
    with contextlib.ExitStack() as stack:
        stack.callback(setup.stop)
        gateway = setup.gateway.start()
        setup.probe()
        setup.drop()
        before = proc.descriptors(gateway.process.pid)

        problems = []
        ports = (gateway.port, setup.secure_port)
        clients = [HostileClient(seed, number, ports, setup.context, problems) for number in range(CLIENTS)]
        operator = Operator(seed, setup, problems)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            until = min(end, time.monotonic() + ROUND)
            threads = [threading.Thread(target=actor.run, args=(until,), daemon=True) for actor in (*clients, operator)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive(), f"seed {seed}: a client or the operator got stuck"
            assert gateway.process.poll() is None, f"seed {seed}: it ended with {gateway.process.returncode}:\n{gateway.text()}"
            assert not problems, f"seed {seed}: {problems[0].describe(setup.origins.values())}"
            setup.probe()

        operator.reload()
        setup.drop()
        processes.wait_until(
            lambda: proc.descriptors(gateway.process.pid) <= before + 3,
            20,
            lambda: f"seed {seed}: {proc.descriptors(gateway.process.pid)} descriptors, {before} before",
        )
        check_origins(setup, clients, operator)
        verified = gateway.run("audit", "verify")
        assert verified.returncode == 0, verified
        peak = proc.peak_memory_mib(gateway.process.pid)
        assert peak < PEAK_MIB, f"seed {seed}: {peak} MiB"
        gateway.stop()
        assert not [line for line in gateway.text().splitlines() if any(word in line for word in CRASH)]
    report(setup, clients, operator, peak)


def report(setup, clients, operator, peak):
    """Prints what was done, and fails if that was too little to prove something."""
    connections = sum(client.count for client in clients)
    answers = sum(client.answers for client in clients)
    statuses = sum((client.statuses for client in clients), start=collections.Counter())
    behaviours = sum((origin.behaviours for origin in setup.origins.values()), start=collections.Counter())
    credentialed = {name: sum(1 for _, secret, _ in setup.origins[name].heads if secret) for name in Operator.NAMES}
    print(f"{connections} connections, {answers} answers of an origin, {operator.reloads} reloads, {len(operator.locks)} locks")
    print(f"requests with a credential: {credentialed}; peak {peak:.0f} MiB; {setup.tokens.count()} tokens")
    print(f"statuses {dict(sorted(statuses.items()))}\nconducts {dict(behaviours)}")
    assert connections > SECONDS * 10 and answers > SECONDS * 5
    assert operator.reloads > SECONDS / 10 and len(operator.locks) > SECONDS / 10
    assert all(count > SECONDS for count in credentialed.values())
    began = [moment for client in clients for moment in client.began.values()]
    assert any(answered <= moment < unlocked for _, answered, unlocked in operator.locks for moment in began)

"""Several gateways with one token store, and logins whose refresh tokens are valid once."""

import collections
import concurrent.futures
import contextlib
import itertools
import random
import threading
import time

import requests

from .processes import wait_until

KEY = bytes(range(32))


def token_key(folder):
    """A file with the key that gateways share."""
    key = folder / "token.key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    return key


def shared_tokens(url, key, **more):
    """`tokens` of gateways that share the database at `url`."""
    return {"store": "postgres", "url": url, "key": {"file": str(key)}, **more}


class Fleet:
    """Gateways on the database at `url` with credentials `c0`, `c1`, …, each with a route of its name.

    `gateways` and `credentials` say how many. `environments` has the environment of a gateway by its number.
    """

    def __init__(self, make_gateway, folder, authority, url, gateways=4, credentials=20, environments=None, **tokens):
        self.authority = authority
        self.names = [f"c{number}" for number in range(credentials)]
        # Clients of the password grant get refresh tokens without a browser; to the gateway it is a login.
        login = authority.login_credential(client_id="pw", client_secret="s3cret-of-pw", renew={"at_least": "1s"})
        config = {
            "credentials": dict.fromkeys(self.names, login),
            "routes": {name: {"upstream": f"{authority.url}/api", "auth": name} for name in self.names},
            "tokens": shared_tokens(url, token_key(folder), **tokens),
        }
        self.gateways = [make_gateway(config, environment=(environments or {}).get(number)) for number in range(gateways)]
        #: How many tokens were imported: each is a generation that no renewal has brought.
        self.imports = 0
        self.counting = threading.Lock()

    def start(self):
        # The first one makes the tables.
        self.gateways[0].start()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda gateway: gateway.start(), self.gateways[1:]))
        return self

    def seed(self):
        """Logs in with every credential, and waits until each gateway uses what came of it."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(self.log_in, self.names))
        wait_until(self.are_all_valid, 60, self.states, pause=0.2)
        return self

    def log_in(self, name, gateway=None):
        """A person's login: the tokens are imported, which renews them once."""
        gateway = gateway or self.gateways[0]
        token = (gateway.folder / "state" / "admin.token").read_text(encoding="ascii").strip()
        answer = requests.post(
            f"{gateway.admin_url}/api/tokens/{name}/import",
            json=self.authority.log_in(),
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        with self.counting:
            self.imports += 1

    # MARK: What the gateways say

    def tokens(self):
        """The tokens of every gateway that runs, by its number."""
        running = [(number, gateway) for number, gateway in enumerate(self.gateways) if gateway.process.poll() is None]
        return {number: requests.get(f"{gateway.admin_url}/api/tokens", timeout=30).json() for number, gateway in running}

    def states(self):
        """How many credentials each gateway has in each state."""
        return {number: collections.Counter(token["state"] for token in found) for number, found in self.tokens().items()}

    def without_login(self):
        """The credentials that some gateway wants a login for. After a lost answer the state is the first one, at all of them."""
        states = ("rotation_uncertain", "login_required")
        tokens = [token for found in self.tokens().values() for token in found]
        return {token["credential"] for token in tokens if token["state"] in states and token.get("action")}

    def are_all_valid(self):
        return all(works(gateway, name) for gateway in self.gateways for name in self.names)

    # MARK: What the authority says

    def renewals(self):
        """How often the authority answered with a new pair, or with the one that it had given before."""
        return self.authority.calls().get("refresh_token ok", 0)

    def refusals(self):
        """{error: how often}"""
        calls = self.authority.calls().items()
        return {name.partition(" ")[2]: count for name, count in calls if name.startswith("refresh_token ") and not name.endswith(" ok")}

    def stored_renewals(self, server, database):
        """How many renewals were stored: all generations but those that were imported."""
        return int(server.sql("select sum(generation) from authgateway.token", database)) - self.imports

    def renews(self, more=20, seconds=90):
        """Waits until the authority has answered so many renewals more."""
        goal = self.renewals() + more
        wait_until(lambda: self.renewals() >= goal, seconds, lambda: f"{goal} renewals: {self.authority.calls()}", pause=0.2)

    def require_nothing_lost(self, server, database):
        """Each refresh token was sent once, each answer was stored, and all gateways have the last one."""
        self.settle()
        renewals, stored = self.renewals(), self.stored_renewals(server, database)
        print(f"\n{renewals} answers of the authority, {stored} stored, refused {self.refusals()}", end="")
        assert self.refusals() == {}
        assert stored == renewals
        # Each login has one refresh token that was not spent yet.
        assert sum(1 for revoked in self.authority.refresh_tokens() if not revoked) == len(self.names)
        generations = [[token["generation"] for token in tokens] for tokens in self.tokens().values()]
        assert all(found == generations[0] for found in generations), generations

    def settle(self, seconds=60, but=frozenset()):
        """Lets the tokens live for an hour from now on, and waits until each gateway has such a one for each credential."""
        self.authority.change(lifetime=3600, token_delay=0)

        def is_quiet():
            tokens = [token for found in self.tokens().values() for token in found if token["credential"] not in but]
            return all(token["state"] == "valid" and token.get("remaining_seconds", 0) > 600 for token in tokens)

        wait_until(is_quiet, seconds, self.states, pause=0.2)


def works(gateway, name):
    return requests.get(f"{gateway.url}/{name}/x", timeout=60).status_code == 200


class Load:
    """Clients that ask for random credentials all the time. Each goes to the next address where nobody answers."""

    def __init__(self, urls, names, clients=4, pause=0.04, methods=("GET",)):
        self.urls, self.names, self.pause, self.methods = list(urls), list(names), pause, list(methods)
        self.stopping = threading.Event()
        self.statuses = collections.Counter()
        #: (time, name, status, text) of what was not answered with 200.
        self.failures = []
        self.slowest = 0.0
        self.pool = concurrent.futures.ThreadPoolExecutor(clients)
        self.work = [self.pool.submit(self._run, number) for number in range(clients)]

    def _run(self, number):
        chance = random.Random(number)
        turns = itertools.cycle(range(number, number + len(self.urls)))
        with requests.Session() as session:
            while not self.stopping.wait(self.pause):
                self._ask(session, chance, next(turns))

    def _ask(self, session, chance, turn):
        name, method, began = chance.choice(self.names), chance.choice(self.methods), time.monotonic()
        error = None
        for other in range(len(self.urls)):
            address = f"{self.urls[(turn + other) % len(self.urls)]}/{name}/x"
            try:
                answer = session.request(method, address, data=b"x" * 2000 if method == "POST" else None, timeout=60)
            except requests.RequestException as refused:
                error = refused
                continue
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.statuses[answer.status_code] += 1
            if answer.status_code != 200:
                self.failures.append((time.time(), name, answer.status_code, answer.text[:300]))
            return
        self.statuses["none"] += 1
        self.failures.append((time.time(), name, "none", repr(error)))

    def goes_on(self, more=40, seconds=60):
        goal = self.statuses[200] + more
        wait_until(lambda: self.statuses[200] >= goal, seconds, lambda: f"requests are answered: {self.statuses}")

    def end(self):
        self.stopping.set()
        self.pool.shutdown()
        for work in self.work:
            work.result()


@contextlib.contextmanager
def load(fleet, **options):
    running = Load([gateway.url for gateway in fleet.gateways], fleet.names, **options)
    try:
        yield running
    finally:
        running.end()

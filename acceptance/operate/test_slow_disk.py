"""A database that another program holds locked, and a disk that does not answer: nobody who only looks waits for them."""

import contextlib
import sqlite3
import threading
import time

import pytest
import requests
from harness import processes
from harness.configs import DUKE
from harness.events import named, wait_for_events
from harness.libraries import shared_library

READS = ("/", "/readyz", "/readyz?verbose", "/healthz", "/metrics", "/api/tokens", "/api/tokens/service", "/api/routes", "/api/expirations")


@pytest.fixture(scope="session")
def holder(tmp_path_factory):
    """The library of harness/hold_sync.c."""
    return shared_library(tmp_path_factory.mktemp("holder"), "hold_sync.c")


class Disk:
    """Stops answering for one database, or another file, as long as the block lasts."""

    def __init__(self, library, file):
        self.file = file
        self.environment = {"LD_PRELOAD": str(library), "HOLD_SYNC": str(file)}

    @contextlib.contextmanager
    def held(self, gateway, name, end=".sqlite"):
        self.file.write_text(f"/{name}{end}")
        try:
            yield
        finally:
            self.file.unlink()


class OpenTransaction:
    """What somebody leaves open in the sqlite3 shell."""

    environment = {}

    def __init__(self, statement):
        self.statement = statement

    @contextlib.contextmanager
    def held(self, gateway, name):
        path = gateway.folder / "state" / f"{name}.sqlite"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=20)) as shell:
            shell.execute(self.statement)
            yield
            shell.execute("ROLLBACK")


LOCKED, SLOW = "another process holds a write transaction on", "a write has been under way for"


@pytest.fixture(params=["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "disk"])
def trouble(request, holder, tmp_path):
    """What is wrong, and how it is called."""
    if request.param == "disk":
        return Disk(holder, tmp_path / "held"), SLOW
    return OpenTransaction(request.param), LOCKED


def config(authority, sandbox, **more):
    return {
        "credentials": {"service": authority.credential(), "campus": DUKE},
        "routes": {
            "api": {"upstream": f"{authority.url}/api", "auth": "service"},
            "campus": {"upstream": "${SANDBOX_DUKE_URL}", "auth": "campus"},
        },
        **more,
    }


@pytest.fixture
def make(make_gateway, authority, sandbox, trouble):
    def make(**more):
        gateway = make_gateway(config(authority, sandbox, **more), environment={**sandbox.environment, **trouble[0].environment})
        gateway.start()
        assert use(gateway) == 200
        return gateway

    return make


def use(gateway, path="/api/x"):
    return requests.get(gateway.url + path, timeout=30).status_code


def is_refused(gateway):
    """A request that is under way when the lock takes effect may be cut off; then the next one tells."""
    try:
        return use(gateway) == 503
    except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
        return False


def readiness(gateway):
    answer = requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10)
    return answer.status_code, " ".join(answer.json()["reasons"])


def until_ready(gateway):
    processes.wait_until(lambda: readiness(gateway)[0] == 200, 15, lambda: str(readiness(gateway)))


def watch_reads(gateway, seconds):
    """Everything that only looks, over and over: the longest wait of each, and what the readiness said."""
    waits, said = {}, []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for path in READS:
            begun = time.monotonic()
            answer = requests.get(gateway.admin_url + path, timeout=30)
            waits[path] = max(waits.get(path, 0), time.monotonic() - begun)
            assert answer.status_code in ((200, 503) if "readyz" in path else (200,)), (path, answer.text)
            if "verbose" in path:
                said.append((answer.status_code, " ".join(answer.json()["reasons"])))
    return waits, said


class Command(threading.Thread):
    """A subcommand beside the test."""

    def __init__(self, gateway, *arguments):
        super().__init__()
        self.gateway, self.arguments = gateway, arguments
        self.start()

    def run(self):
        self.result = self.gateway.run(*self.arguments, timeout=90)

    def end(self):
        self.join(90)
        return self.result


@pytest.mark.timing
@pytest.mark.parametrize("name, credential", [("audit", "service"), ("tokens", "campus")])
def test_reads_are_answered_at_once_and_name_the_cause(make, trouble, name, credential):
    gateway = make()
    assert use(gateway, "/campus/api/me") == 200
    situation, words = trouble
    with situation.held(gateway, name):
        refresh = Command(gateway, "token", "refresh", credential)
        # Longer than any wait for a lock that there is.
        waits, said = watch_reads(gateway, 14)
        assert max(waits.values()) < 1, waits
        assert any(code == 503 and words in text for code, text in said), said
        assert not any("moved or removed" in text for _, text in said), said
        code, text = readiness(gateway)
        assert code == 503 and words in text and f"{name}.sqlite" in text, text
        if words == LOCKED:
            assert f"fuser {gateway.folder}/state/{name}.sqlite" in text
        begun = time.monotonic()
        status = gateway.run("status")
        assert time.monotonic() - begun < 4, "a start of the program, and answers at once"
        assert status.returncode == 1 and words in status.stdout and "not ready: " in status.stderr, status
        assert use(gateway) == 200, "the live token is still used"
        result = refresh.end()
        assert result.returncode == 1, result
    until_ready(gateway)
    assert gateway.run("token", "refresh", credential).returncode == 0
    assert gateway.run("audit", "verify").returncode == 0


def test_what_withdraws_a_right_takes_effect_and_is_recorded_later(make, trouble):
    gateway = make()
    situation, _ = trouble
    with situation.held(gateway, "audit"):
        begun = time.monotonic()
        lock = Command(gateway, "token", "lock", "service")
        processes.wait_until(lambda: is_refused(gateway), 3, "the lock counts before it is recorded")
        locked = lock.end()
        assert locked.returncode == 0 and "is locked" in locked.stdout and "not recorded yet" in locked.stdout, locked
        assert time.monotonic() - begun < 15
        unlocked = gateway.run("token", "unlock", "service", timeout=60)
        assert unlocked.returncode == 1 and "is still locked: the audit log cannot record the unlock" in unlocked.stderr, unlocked
        assert use(gateway) == 503
        cleared = gateway.run("token", "clear", "service", timeout=60)
        assert cleared.returncode == 0 and "not recorded yet" in cleared.stdout, cleared
        assert gateway.run("token", "get", "service", timeout=60).returncode == 1
        assert '"service"' in (gateway.folder / "state" / "locks.json").read_text()
    wait_for_events(gateway, "locked")
    wait_for_events(gateway, "cleared")
    assert len(named(gateway, "locked")) == 1 and len(named(gateway, "cleared")) == 1
    assert named(gateway, "unlocked") == []
    assert gateway.run("token", "unlock", "service").returncode == 0
    assert use(gateway) == 200
    assert gateway.run("audit", "verify").returncode == 0


def test_a_lock_counts_although_its_file_cannot_be_written_and_is_stored_later(make_gateway, authority, sandbox, holder, tmp_path):
    disk = Disk(holder, tmp_path / "held")
    gateway = make_gateway(config(authority, sandbox), environment={**sandbox.environment, **disk.environment}).start()
    assert use(gateway) == 200
    stored = gateway.folder / "state" / "locks.json"
    with disk.held(gateway, "locks", ".json"):
        lock = Command(gateway, "token", "lock", "service")
        processes.wait_until(lambda: is_refused(gateway), 3, "the lock counts before it is stored")
        waits, _ = watch_reads(gateway, 5)
        assert max(waits.values()) < 1, waits
        result = lock.end()
        assert result.returncode == 1 and "service is locked, but only until the gateway stops" in result.stderr, result
        assert not stored.exists()
    processes.wait_until(lambda: stored.exists() and '"service"' in stored.read_text(), 10, "the lock is stored")
    gateway.kill()
    gateway.start()
    assert use(gateway) == 503, "also after a kill"
    assert len(named(gateway, "locked")) == 1


def test_a_gateway_stops_in_time(make, trouble):
    gateway = make()
    with trouble[0].held(gateway, "audit"):
        Command(gateway, "token", "lock", "service").end()
        begun = time.monotonic()
        gateway.stop(40)
        assert time.monotonic() - begun < 35
    # What an operator did and no row tells of is at least in the log.
    assert "A lock or revocation is missing from the audit log" in gateway.text()


def test_status_says_that_the_gateway_does_not_answer_and_not_that_the_address_is_wrong(start_gateway, authority):
    gateway = start_gateway({"routes": {"api": {"upstream": authority.url, "auth": "none"}}})
    with gateway.halted():
        begun = time.monotonic()
        status = gateway.run("status")
        assert time.monotonic() - begun < 10
    assert status.returncode == 4, status
    assert f"(process {gateway.process.pid})" in status.stderr and "runs and does not answer: GET /readyz" in status.stderr, status
    assert "address" not in status.stderr

"""Disks that are full or broken, a clock that jumps, a process that is killed in the middle of a write."""

import glob
import os
import pathlib
import shutil
import sqlite3
import subprocess
import time

import pytest
import requests

from harness.bytes import noise
from harness import processes
from harness.configs import BOX, DUKE

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system and tracing need root")
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def readiness(gateway):
    answer = requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10)
    return answer.status_code, answer.json()["reasons"]


def is_ready(gateway):
    return readiness(gateway)[0] == 200


def service(authority, **more):
    return {
        "credentials": {"service": authority.credential()},
        "routes": {"api": {"upstream": f"{authority.url}/api", "auth": "service"}},
        **more,
    }


def campus(sandbox, **more):
    """A credential whose tokens rotate."""
    return {
        "credentials": {
            "campus": DUKE
        },
        "routes": {"campus": {"upstream": "${SANDBOX_DUKE_URL}", "auth": "campus"}},
        **more,
    }


def status(gateway, path="/api/x"):
    return requests.get(gateway.url + path, timeout=30).status_code


def assert_whole(gateway):
    tables = 0
    for name in ("tokens", "audit"):
        path = gateway.folder / "state" / f"{name}.sqlite"
        if path.exists():
            with sqlite3.connect(path) as database:
                assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
                tables = database.execute("select count(*) from sqlite_master").fetchone()[0]
            database.close()
    # A process that was killed before its first commit has left an empty file.
    if tables > 0:
        result = gateway.run("audit", "verify")
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one MiB, and a way to fill it and to make room again."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "none", str(folder)], check=True)

    class Disk:
        path = folder
        filler = folder / "filler"

        def fill(self):
            with open(self.filler, "wb", buffering=0) as file:
                for size in (65536, 4096):
                    try:
                        while True:
                            file.write(b"x" * size)
                    except OSError:
                        continue

        def make_room(self):
            self.filler.unlink()

    yield Disk()
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.root
@needs_root
class TestFullDisk:
    def test_no_new_token_is_used_and_it_recovers_without_a_restart(self, start_gateway, make_authority, small_disk):
        authority = make_authority()
        gateway = start_gateway({**service(authority), "state_directory": str(small_disk.path / "state")})
        assert status(gateway) == 200
        small_disk.fill()
        result = gateway.run("token", "refresh", "service")
        # A log file with room left in it takes a few events more.
        for _ in range(200):
            if result.returncode != 0:
                break
            result = gateway.run("token", "refresh", "service")
        assert result.returncode == 1 and "audit log cannot be written" in result.stderr
        code, reasons = readiness(gateway)
        assert code == 503 and any("audit log cannot be written" in reason for reason in reasons)
        assert status(gateway) == 200, "the live token is still used"
        small_disk.make_room()
        processes.wait_until(lambda: is_ready(gateway), 10, lambda: str(readiness(gateway)))
        assert gateway.run("token", "refresh", "service").returncode == 0
        assert status(gateway) == 200
        assert gateway.run("audit", "verify").returncode == 0

    def test_degrade_serves_on_and_says_so(self, start_gateway, make_authority, small_disk):
        authority = make_authority()
        config = service(authority, audit={"on_failure": "degrade"}, state_directory=str(small_disk.path / "state"))
        gateway = start_gateway(config)
        assert status(gateway) == 200
        small_disk.fill()

        def says_so():
            assert gateway.run("token", "refresh", "service").returncode == 0
            return any("degrade" in reason for reason in readiness(gateway)[1])

        processes.wait_until(says_so, 60, lambda: str(readiness(gateway)))
        assert is_ready(gateway)
        assert status(gateway) == 200
        assert "Token event could not be recorded" in gateway.text()
        small_disk.make_room()
        processes.wait_until(lambda: readiness(gateway)[1] == [], 10, lambda: str(readiness(gateway)))
        assert gateway.run("audit", "verify").returncode == 0


class Strace:
    """Makes system calls of a running process fail, on some files."""

    def __init__(self, process, paths, *injections):
        words = [word for path in paths for word in ("-P", str(path))]
        for injection in injections:
            words += ["-e", f"inject={injection}"]
        self.process = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", "/dev/null", *words, "-p", str(process.pid)], stderr=subprocess.PIPE
        )
        tracer = f"TracerPid:\t{self.process.pid}"
        processes.wait_until(
            lambda: all(
                tracer in pathlib.Path(task, "status").read_text(encoding="ascii")
                for task in glob.glob(f"/proc/{process.pid}/task/*")
            ),
            10,
            "strace is attached",
        )

    def stop(self):
        processes.end(self.process)


def database_files(gateway, name):
    path = gateway.folder / "state" / f"{name}.sqlite"
    return [path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")]


@pytest.mark.root
@needs_root
@needs_strace
class TestInputOutputErrors:
    def test_on_the_audit_log(self, start_gateway, make_authority):
        authority = make_authority()
        gateway = start_gateway(service(authority))
        assert status(gateway) == 200
        issued = len(authority.tokens())
        strace = Strace(gateway.process, database_files(gateway, "audit"), "fdatasync,fsync:error=EIO")
        try:
            result = gateway.run("token", "refresh", "service")
            assert result.returncode == 1 and "audit log cannot be written" in result.stderr
            assert len(authority.tokens()) == issued, "a token was asked for without a record"
            code, reasons = readiness(gateway)
            assert code == 503 and "I/O error" in " ".join(reasons)
            assert status(gateway) == 200, "the live token is still used"
        finally:
            strace.stop()
        processes.wait_until(lambda: is_ready(gateway), 10, lambda: str(readiness(gateway)))
        assert gateway.run("token", "refresh", "service").returncode == 0
        assert_whole(gateway)

    def test_on_the_token_store(self, start_gateway, sandbox):
        gateway = start_gateway(campus(sandbox), environment=sandbox.environment)
        assert status(gateway, "/campus/api/me") == 200
        strace = Strace(gateway.process, database_files(gateway, "tokens"), "fdatasync,fsync:error=EIO")
        try:
            result = gateway.run("token", "refresh", "campus")
            assert result.returncode == 1 and "refresh token of campus is not used" in result.stderr
            code, reasons = readiness(gateway)
            assert code == 503 and "campus cannot be renewed" in " ".join(reasons)
            assert status(gateway, "/campus/api/me") == 200, "the live token is still used"
        finally:
            strace.stop()
        processes.wait_until(lambda: is_ready(gateway), 10, lambda: str(readiness(gateway)))
        assert gateway.run("token", "refresh", "campus").returncode == 0
        assert status(gateway, "/campus/api/me") == 200
        assert_whole(gateway)


@pytest.mark.timing
@pytest.mark.parametrize("jump", ["+1h", "-1h"])
def test_a_jump_of_the_clock_costs_at_most_one_renewal(start_gateway, make_authority, clock, jump):
    authority = make_authority(lifetime=3600)
    gateway = start_gateway(service(authority), environment=clock.environment)
    assert status(gateway) == 200
    clock.set(jump)
    seen = set()
    end = time.monotonic() + 6
    while time.monotonic() < end:
        seen.add(status(gateway))
        time.sleep(0.1)
    assert seen == {200}
    assert len(authority.tokens()) <= 2
    before = gateway.events()[0]["at"]
    assert gateway.run("token", "refresh", "service").returncode == 0
    after = gateway.events("--event", "renewed")[-1]["at"]
    assert (after > before) == (jump == "+1h"), "the gateway did not notice the jump"
    assert status(gateway) == 200
    assert_whole(gateway)
    gateway.kill()


@pytest.mark.root
@needs_root
@needs_strace
def test_a_kill_at_a_write_leaves_both_databases_whole(make_gateway, sandbox):
    """Starts one gateway over and over and kills it at its nth write to a database, in the middle of renewals.

    The kernel does it here, in the middle of the call. test_rotation.py kills at each single write, by a library.
    """
    config = campus(sandbox)
    config["credentials"]["box"] = BOX
    config["routes"]["box"] = {"upstream": "${SANDBOX_BOX_URL}", "auth": "box"}
    gateway = make_gateway(config, environment=sandbox.environment)
    paths = database_files(gateway, "audit") + database_files(gateway, "tokens")
    words = [word for path in paths for word in ("-P", str(path))]
    for number in range(1, 85, 7):
        gateway.wrapper = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", *words]
        gateway.wrapper += ["-e", f"inject=pwrite64:signal=SIGKILL:when={number}"]
        try:
            gateway.start()
            token = (gateway.folder / "state" / "admin.token").read_text().strip()
            for turn in range(300):
                requests.post(
                    f"{gateway.admin_url}/api/tokens/{('box', 'campus')[turn % 2]}/refresh",
                    headers={"Authorization": f"Bearer {token}"},
                    timeout=20,
                )
        except (AssertionError, requests.RequestException):
            pass
        assert gateway.process.wait(20) == -9, f"write {number}: {gateway.text()}"
        assert_whole(gateway)
    gateway.wrapper = []
    gateway.start()
    assert requests.get(gateway.url + "/box/2.0/users/me", timeout=20).status_code == 200
    gateway.stop()
    assert_whole(gateway)


class TestKeys:
    def test_a_refused_start_leaves_no_new_key(self, make_gateway, make_authority):
        gateway = make_gateway(service(make_authority()))
        gateway.start()
        assert status(gateway) == 200
        gateway.stop()
        key = gateway.folder / "state" / "token.key"
        saved = key.read_bytes()
        key.unlink()
        with pytest.raises(AssertionError, match=r"installation key .* is missing"):
            gateway.start()
        assert not key.exists()
        key.write_bytes(saved)
        key.chmod(0o600)
        gateway.start()
        assert status(gateway) == 200

    def test_verify_with_another_key_says_so(self, start_gateway, make_authority):
        gateway = start_gateway(service(make_authority()))
        assert status(gateway) == 200
        gateway.stop()
        key = gateway.folder / "state" / "token.key"
        saved = key.read_bytes()
        key.write_bytes(bytes(reversed(saved)) if saved != bytes(reversed(saved)) else noise(len(saved)))
        result = gateway.run("audit", "verify")
        assert result.returncode == 1 and "another installation key" in result.stderr, result
        key.unlink()
        result = gateway.run("audit", "verify")
        assert result.returncode == 1 and "there is no installation key" in result.stderr
        key.write_bytes(saved)
        key.chmod(0o600)
        assert gateway.run("audit", "verify").returncode == 0

"""An audit log whose database is gone: what the gateway says, and that what it says helps."""

import contextlib
import json
import shutil
import sqlite3

import pytest
import requests
from harness import processes
from harness.events import named


def config(authority, on_missing=None, **more):
    audit = {"path": "./log/audit.sqlite", **({"on_missing": on_missing} if on_missing else {})}
    return {
        "audit": audit,
        "credentials": {"service": authority.credential()},
        "routes": {"api": {"upstream": f"{authority.url}/api", "auth": "service"}},
        **more,
    }


def use(gateway):
    return requests.get(f"{gateway.url}/api/x", timeout=30).status_code


def readiness(gateway):
    answer = requests.get(f"{gateway.admin_url}/readyz?verbose", timeout=10)
    return answer.status_code, " ".join(answer.json()["reasons"])


def until(gateway, code, words):
    processes.wait_until(
        lambda: readiness(gateway)[0] == code and words in readiness(gateway)[1], 10, lambda: str(readiness(gateway))
    )


def path(gateway):
    return gateway.folder / "log" / "audit.sqlite"


def files(gateway):
    return [path(gateway).with_name("audit.sqlite" + end) for end in ("", "-wal", "-shm")]


def lost(gateway):
    """What `audit verify` says, as text and as JSON."""
    text = gateway.run("audit", "verify")
    assert text.returncode == 0, text
    return text.stdout, json.loads(gateway.run("audit", "verify", "--json").stdout)


def remove_file(gateway):
    path(gateway).unlink()


def remove_all(gateway):
    for file in files(gateway):
        file.unlink(missing_ok=True)


def remove_at_once(folder):
    """Removes a folder in which the gateway may create files at this very moment."""
    away = folder.with_name(folder.name + "-away")
    folder.rename(away)
    shutil.rmtree(away)


def remove_folder(gateway):
    remove_at_once(gateway.folder / "log")


REMOVALS = [remove_file, remove_all, remove_folder]


SET_RECREATE = "set audit.on_missing: recreate and restart the gateway"
RESTART = "restart the gateway, which starts a new log. Its head file is gone, too"


class TestRefuse:
    def refused(self, gateway, advice):
        until(gateway, 503, "is gone")
        reason = readiness(gateway)[1]
        assert "move it back" in reason and advice in reason
        assert "is gone" in gateway.run("status").stdout
        result = gateway.run("token", "refresh", "service")
        assert result.returncode == 1 and "audit log cannot be written" in result.stderr
        assert use(gateway) == 200, "the live token is still used"

    @pytest.mark.parametrize("moved", ["file", "folder"])
    def test_what_was_moved_is_moved_back(self, start_gateway, authority, moved):
        gateway = start_gateway(config(authority))
        assert use(gateway) == 200
        place = path(gateway) if moved == "file" else gateway.folder / "log"
        place.rename(place.with_name("moved"))
        self.refused(gateway, SET_RECREATE if moved == "file" else RESTART)
        place.with_name("moved").rename(place)
        until(gateway, 200, "")
        assert gateway.run("token", "refresh", "service").returncode == 0
        assert gateway.run("audit", "verify").returncode == 0

    @pytest.mark.parametrize("remove", [remove_file, remove_all])
    def test_what_is_lost_is_begun_anew_when_the_configuration_says_so(self, start_gateway, authority, remove):
        gateway = start_gateway(config(authority))
        assert use(gateway) == 200
        rows = len(gateway.events())
        remove(gateway)
        self.refused(gateway, SET_RECREATE)
        gateway.stop()
        # A restart alone would hide the loss, and says the same again.
        for _ in range(2):
            refused = gateway.run("run")
            assert refused.returncode == 1 and f"its head file names row {rows}" in refused.stderr, refused
            assert "set audit.on_missing: recreate and restart the gateway" in refused.stderr
        gateway.configure(config(authority, "recreate"))
        gateway.start()
        until(gateway, 200, f"rows up to {rows} are lost")
        assert use(gateway) == 200
        text, result = lost(gateway)
        assert f"rows up to {rows} are lost" in text and result["lost_to"] == rows
        # The setting may be taken back, and the next start goes on.
        gateway.stop()
        gateway.configure(config(authority))
        gateway.start()
        assert lost(gateway)[1]["lost_to"] == rows
        assert "lost" not in readiness(gateway)[1]

    def test_what_is_lost_with_its_folder_is_begun_anew_by_a_restart(self, start_gateway, authority):
        gateway = start_gateway(config(authority))
        assert use(gateway) == 200
        remove_folder(gateway)
        self.refused(gateway, RESTART)
        gateway.stop()
        gateway.start()
        until(gateway, 200, "")
        assert use(gateway) == 200
        assert "lost_to" not in lost(gateway)[1], "nothing tells of it, as was said"

    def test_a_copy_with_every_row_counts_after_a_restart(self, start_gateway, authority):
        gateway = start_gateway(config(authority))
        assert use(gateway) == 200
        copy = gateway.folder / "copy.sqlite"
        with contextlib.closing(sqlite3.connect(path(gateway))) as old, contextlib.closing(sqlite3.connect(copy)) as new:
            old.backup(new)
        remove_file(gateway)
        copy.rename(path(gateway))
        until(gateway, 503, "is not the file that this gateway opened")
        assert "restart the gateway" in readiness(gateway)[1]
        gateway.stop()
        gateway.start()
        until(gateway, 200, "")
        assert use(gateway) == 200
        assert "lost_to" not in lost(gateway)[1]


class TestRecreate:
    @pytest.mark.parametrize("remove", REMOVALS)
    def test_a_new_log_is_begun_at_once_and_tells_of_the_loss(self, start_gateway, authority, remove):
        gateway = start_gateway(config(authority, "recreate"))
        assert use(gateway) == 200
        rows = len(gateway.events())
        remove(gateway)
        assert gateway.run("token", "refresh", "service").returncode == 0
        until(gateway, 200, f"rows up to {rows} are lost")
        assert "the audit log was gone; the gateway started a new one" in gateway.text()
        events = gateway.events()
        assert events[0]["event"] == "audit_recreated" and events[0]["id"] == rows + 1
        assert events[0]["detail"] == {"lost_to": str(rows)} and events[0]["outcome"] == "failed"
        assert {"renewing", "renewed"} <= {event["event"] for event in events}
        text, result = lost(gateway)
        assert f"rows up to {rows} are lost" in text and result["lost_to"] == rows
        assert f"rows up to {rows} are lost" in gateway.run("status").stdout
        # Another gateway cannot take the new file.
        gateway.stop()
        gateway.start()
        assert lost(gateway)[1]["lost_to"] == rows

    def test_the_start_begins_a_new_one(self, start_gateway, authority):
        gateway = start_gateway(config(authority, "recreate"))
        assert use(gateway) == 200
        gateway.stop()
        rows = len(gateway.events())
        remove_all(gateway)
        gateway.start()
        assert [event["event"] for event in gateway.events()][:2] == ["audit_recreated", "gateway_started"]
        assert lost(gateway)[1]["lost_to"] == rows

    def test_who_follows_the_log_sees_that_it_goes_on(self, start_gateway, authority):
        gateway = start_gateway(config(authority, "recreate"))
        assert use(gateway) == 200
        remove_all(gateway)
        assert gateway.run("token", "refresh", "service").returncode == 0
        ids = [event["id"] for event in gateway.events()]
        assert ids == list(range(ids[0], ids[0] + len(ids))) and ids[0] > 1
        assert len(named(gateway, "audit_recreated")) == 1


class TestStateDirectory:
    """With the whole state directory the key is gone, too, and other steps help."""

    def started(self, start_gateway, authority, on_missing):
        gateway = start_gateway({**config(authority), "audit": {"on_missing": on_missing}})
        assert use(gateway) == 200
        return gateway, gateway.folder / "state"

    def test_refuse_moved_back(self, start_gateway, authority):
        gateway, state = self.started(start_gateway, authority, "refuse")
        state.rename(state.with_name("moved"))
        until(gateway, 503, "so is the installation key")
        assert "If they were moved, move them back" in readiness(gateway)[1]
        state.with_name("moved").rename(state)
        until(gateway, 200, "")
        assert readiness(gateway)[1] == ""
        assert gateway.run("token", "refresh", "service").returncode == 0

    def test_refuse_lost(self, start_gateway, authority):
        gateway, state = self.started(start_gateway, authority, "refuse")
        remove_at_once(state)
        until(gateway, 503, "restart the gateway with an empty state directory")
        gateway.stop()
        gateway.start()
        assert use(gateway) == 200
        assert gateway.run("audit", "verify").returncode == 0

    def test_recreate_goes_on_and_says_what_the_next_start_needs(self, start_gateway, authority):
        gateway, state = self.started(start_gateway, authority, "recreate")
        remove_at_once(state)
        until(gateway, 200, "the audit log was missing and was created again")
        until(gateway, 200, f"the installation key {state}/token.key is gone; put it back")
        gateway.stop()
        refused = gateway.run("run")
        assert refused.returncode == 1 and "restore the key from its copy, or move" in refused.stderr, refused
        remove_at_once(state)
        gateway.start()
        assert use(gateway) == 200

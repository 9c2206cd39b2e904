"""`state backup` and `state restore`: one state of all databases, while the gateway works, and back into its place."""

import concurrent.futures
import json
import shutil
import sqlite3
import stat
import threading

import pytest
import requests
from harness.bytes import noise
from harness.configs import box_ccg
from harness.gateway import Gateway, command
from harness.login import log_in
from harness.processes import wait_until


def config(sandbox, **tokens):
    return {
        "tokens": tokens,
        "credentials": {
            "campus": {
                "strategy": "duke_session",
                "client_name": "dukemobile",
                "base_url": sandbox["DUKE_URL"],
                "access_token": {"env": "SANDBOX_DUKE_ACCESS_TOKEN"},
                "session_token": {"env": "SANDBOX_DUKE_SESSION_TOKEN"},
            },
            "machine": box_ccg(sandbox),
        },
        "routes": {
            "campus": {"upstream": sandbox["DUKE_URL"], "auth": "campus"},
            "machine": {"upstream": sandbox["BOX_URL"], "auth": "machine"},
        },
    }


def backup(gateway, folder, *options):
    result = gateway.run("state", "backup", folder, *options, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads((folder / "manifest.json").read_text())


def restore(gateway, folder, *options):
    return gateway.run("state", "restore", folder, *options, timeout=60)


def state(gateway, name=""):
    return gateway.folder / "state" / name


def names(gateway):
    return [event["event"] for event in gateway.events() if event["event"].startswith("state_")]


def verified(gateway, *options):
    result = gateway.run("audit", "verify", *options)
    assert result.returncode == 0, result.stdout + result.stderr


def statuses(gateway):
    return {token["credential"]: token for token in requests.get(f"{gateway.admin_url}/api/tokens", timeout=20).json()}


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_backup_under_load_is_one_state_and_comes_back(sandbox, start_gateway, tmp_path):
    gateway = start_gateway(config(sandbox), environment=sandbox.environment)
    stop, answers = threading.Event(), []

    def work(route):
        with requests.Session() as session:
            while not stop.is_set():
                answers.append(session.get(f"{gateway.url}/{route}", timeout=20).status_code)

    def renew():
        while not stop.is_set():
            gateway.run("token", "refresh", "machine")

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for route in ["campus/api/me", "campus/api/me", "machine/2.0/users/me"]:
            pool.submit(work, route)
        pool.submit(renew)
        try:
            wait_until(lambda: len(answers) > 20, 20, "requests are answered")
            folders = [tmp_path / f"backup-{number}" for number in range(3)]
            manifests = [backup(gateway, folder, "--with-keys") for folder in folders]
        finally:
            stop.set()
    assert len(set(answers)) <= 2 and answers.count(200) > 20, "the gateway goes on"
    for folder, manifest in zip(folders, manifests, strict=True):
        # A copy verifies by itself, with the key that is in it.
        copy = folder / "audit.sqlite"
        result = command("audit", "verify", "--path", copy, "--key", folder / "keys/installation.key", cwd=tmp_path)
        assert result.returncode == 0, result.stdout + result.stderr
        assert manifest["audit_verified"] and manifest["tokens"] == 2 and manifest["format"] == 1
        assert {file["name"] for file in manifest["files"]} == files_of(folder) - {"manifest.json"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()} == {0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [manifest["last_audit_row"] for manifest in manifests] == sorted({m["last_audit_row"] for m in manifests})
    assert names(gateway) == ["state_backed_up"] * 3
    before = statuses(gateway)
    gateway.stop()

    other = Gateway(tmp_path / "other", config(sandbox), environment=sandbox.environment)
    result = restore(other, folders[-1])
    assert result.returncode == 0, result.stderr
    assert "may have been used since" in result.stdout and "authgateway token refresh" in result.stdout
    verified(other)
    other.start()
    try:
        assert names(other) == ["state_backed_up"] * 3 + ["state_restored"]
        found = statuses(other)
        assert all(found[name]["generation"] <= before[name]["generation"] for name in found)
        assert found["campus"]["state"] == "rotation_uncertain", found["campus"]
        assert found["machine"]["state"] in ("valid", "refreshing"), found["machine"]
        assert requests.get(f"{other.url}/machine/2.0/users/me", timeout=20).status_code == 200
        verified(other)
    finally:
        other.stop()


def with_login(authority):
    return {
        "credentials": {"me": {**authority.login_credential(), "renew": {"at_least": "1s"}}},
        "routes": {"one": {"upstream": f"{authority.url}/api", "auth": "me"}},
    }


def test_a_spent_refresh_token_is_not_sent_after_a_restore(make_authority, start_gateway, tmp_path):
    """The authority ends the login of whoever holds the successor when a refresh token is used twice."""
    authority = make_authority()
    gateway = start_gateway(with_login(authority))
    log_in(gateway)
    folder = tmp_path / "backup"
    backup(gateway, folder, "--with-keys")
    assert gateway.run("token", "refresh", "me").returncode == 0, "the backed up refresh token is spent now"
    assert requests.get(f"{gateway.url}/one/x", timeout=20).status_code == 200

    # A second machine takes the backup while the first one works.
    other = start_restored(tmp_path / "other", with_login(authority), folder)
    try:
        wait_until(lambda: "action" in statuses(other)["me"], 20, "the record was read")
        status = statuses(other)["me"]
        assert (status["state"], status["action"]) == ("rotation_uncertain", "authgateway login me"), status
        # Its access token died with the renewal, as the upstream says.
        wait_until(
            lambda: requests.get(f"{other.url}/one/x", timeout=20).status_code == 503, 20, "the dead token is not used"
        )
        answer = requests.get(f"{other.url}/one/x", timeout=20).json()
        assert answer["type"].endswith("reauthorization-required"), answer
        assert "comes from a backup" in answer["detail"] and answer["command"] == "authgateway login me"
        assert "comes from a backup" in other.run("token", "show", "me").stdout
        assert [event["event"] for event in other.events("--failed")].count("login_required") >= 1
        assert authority.refresh_tokens().count(None) == 1, "the login of the first machine lives"
        assert gateway.run("token", "refresh", "me").returncode == 0
        assert requests.get(f"{gateway.url}/one/x", timeout=20).status_code == 200
        log_in(other)
        assert requests.get(f"{other.url}/one/x", timeout=20).status_code == 200
        assert statuses(other)["me"]["state"] == "valid"
    finally:
        other.stop()


def start_restored(folder, config, backup):
    gateway = Gateway(folder, config)
    result = restore(gateway, backup)
    assert result.returncode == 0, result.stderr
    return gateway.start()


def test_who_knows_that_nothing_was_spent_refreshes(make_authority, start_gateway, tmp_path):
    authority = make_authority()
    gateway = start_gateway(with_login(authority))
    log_in(gateway)
    gateway.stop()
    folder = tmp_path / "backup"
    backup(gateway, folder, "--with-keys")
    other = start_restored(tmp_path / "other", with_login(authority), folder)
    try:
        assert requests.get(f"{other.url}/one/x", timeout=20).status_code == 200, "a live token is used to its end"
        result = other.run("token", "refresh", "me")
        assert result.returncode == 0, result.stderr
        assert statuses(other)["me"]["state"] == "valid"
        assert requests.get(f"{other.url}/one/x", timeout=20).status_code == 200
    finally:
        other.stop()


def test_a_refused_refresh_says_that_the_backup_is_too_old(make_authority, start_gateway, tmp_path):
    authority = make_authority()
    gateway = start_gateway(with_login(authority))
    log_in(gateway)
    folder = tmp_path / "backup"
    backup(gateway, folder, "--with-keys")
    assert gateway.run("token", "refresh", "me").returncode == 0
    gateway.stop()
    other = start_restored(tmp_path / "other", with_login(authority), folder)
    try:
        assert other.run("token", "refresh", "me").returncode == 1
        shown = other.run("token", "show", "me").stdout
        assert "it was used after the backup, or it has expired" in shown, shown
        assert statuses(other)["me"]["action"] == "authgateway login me"
    finally:
        other.stop()


def test_without_keys_it_says_which_key_it_needs(sandbox, start_gateway, tmp_path):
    gateway = start_gateway(config(sandbox), environment=sandbox.environment)
    assert requests.get(f"{gateway.url}/machine/2.0/users/me", timeout=20).status_code == 200
    assert gateway.run("key", "rotate").returncode == 0
    folder = tmp_path / "backup"
    manifest = backup(gateway, folder)
    gateway.stop()
    assert manifest["has_store_key"] and not manifest["includes_keys"]
    assert not any(file.startswith(("keys", "secrets")) for file in files_of(folder))
    other = Gateway(tmp_path / "other", config(sandbox), environment=sandbox.environment)
    result = restore(other, folder)
    assert result.returncode == 1 and f"instance {manifest['instance']}" in result.stderr, result.stderr
    assert "state/token.key (mode 0600)" in result.stderr

    state(other, "token.key").write_bytes(noise(32))
    state(other, "token.key").chmod(0o600)
    result = restore(other, folder)
    assert result.returncode == 1 and "made with another installation key" in result.stderr, result.stderr
    shutil.copy(state(gateway, "token.key"), state(other, "token.key"))
    result = restore(other, folder)
    assert result.returncode == 1 and "state/token.key.encryption (mode 0600)" in result.stderr, result.stderr
    shutil.copy(state(gateway, "token.key.encryption"), state(other))
    assert {path.name for path in state(other).iterdir()} == {".gitignore", "gateway.lock", "token.key", "token.key.encryption"}
    result = restore(other, folder)
    assert result.returncode == 0, result.stderr
    other.start()
    try:
        assert requests.get(f"{other.url}/machine/2.0/users/me", timeout=20).status_code == 200
        verified(other)
    finally:
        other.stop()


def test_what_is_there_is_moved_aside_and_kept(sandbox, start_gateway, tmp_path):
    gateway = start_gateway(config(sandbox), environment=sandbox.environment)
    assert requests.get(f"{gateway.url}/machine/2.0/users/me", timeout=20).status_code == 200
    assert gateway.run("token", "lock", "machine").returncode == 0
    folder = tmp_path / "backup"
    backup(gateway, folder)
    assert gateway.run("token", "unlock", "machine").returncode == 0
    assert gateway.run("token", "lock", "campus").returncode == 0
    result = restore(gateway, folder, "--replace")
    assert result.returncode == 1 and "another gateway" in result.stderr, result.stderr
    gateway.stop()
    result = restore(gateway, folder)
    assert result.returncode == 1 and "is not empty" in result.stderr and "--replace" in result.stderr, result.stderr
    before = {path.name: path.read_bytes() for path in state(gateway).iterdir() if path.is_file()}
    for _ in range(2):
        result = restore(gateway, folder, "--replace")
        assert result.returncode == 0 and "campus, machine" in result.stdout, result
    assert json.loads(state(gateway, "locks.json").read_text()) == ["campus", "machine"], "locked since, or as it was then"
    aside = sorted(state(gateway).glob("replaced-*"))
    assert len(aside) == 2, aside
    for name in ["audit.sqlite", "audit.sqlite.head", "tokens.sqlite"]:
        assert (aside[0] / name).read_bytes() == before[name], name
    assert state(gateway, "token.key").read_bytes() == before["token.key"], "the key stays where it is"
    assert not list(state(gateway).glob("restor*"))
    gateway.start()
    assert requests.get(f"{gateway.url}/machine/2.0/users/me", timeout=20).status_code == 503, "locked, as it was then"
    verified(gateway)


@pytest.mark.parametrize("name", ["audit.sqlite", "tokens.sqlite", "locks.json", "manifest.json"])
def test_a_changed_backup_changes_nothing(sandbox, start_gateway, tmp_path, name):
    gateway = start_gateway(config(sandbox), environment=sandbox.environment)
    assert requests.get(f"{gateway.url}/machine/2.0/users/me", timeout=20).status_code == 200
    assert gateway.run("token", "lock", "machine").returncode == 0
    folder = tmp_path / "backup"
    manifest = backup(gateway, folder)
    gateway.stop()
    if name == "manifest.json":
        # Whoever can write the folder can make fitting digests, and no code.
        manifest["includes_keys"] = True
        (folder / name).write_text(json.dumps(manifest))
    else:
        (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    before = gateway.files()
    result = restore(gateway, folder, "--replace")
    assert result.returncode == 1 and "was changed after the backup" in result.stderr, result.stderr
    changed = {path.name for path in set(before) | set(gateway.files()) if before.get(path) != gateway.files().get(path)}
    assert changed <= {"gateway.lock"}
    gateway.start()


@pytest.mark.parametrize(
    "change", [{"format": 2}, {"schemas": {"audit": 99, "tokens": 1}}, {"schemas": {"audit": 1, "tokens": 99}}]
)
def test_a_backup_of_a_newer_version_is_refused(sandbox, start_gateway, tmp_path, change):
    gateway = start_gateway(config(sandbox), environment=sandbox.environment)
    folder = tmp_path / "backup"
    manifest = backup(gateway, folder)
    gateway.stop()
    (folder / "manifest.json").write_text(json.dumps(manifest | change))
    result = restore(gateway, folder, "--replace")
    assert result.returncode == 1 and "a newer version of authgateway made the backup" in result.stderr, result.stderr


def test_a_folder_that_is_no_backup(sandbox, make_gateway, start_gateway, tmp_path):
    gateway = make_gateway(config(sandbox), environment=sandbox.environment)
    result = gateway.run("state", "backup", tmp_path / "early")
    assert result.returncode == 1 and "no installation key" in result.stderr, result.stderr
    assert not (tmp_path / "early").exists() and not state(gateway).exists()
    gateway.start()
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    result = gateway.run("state", "backup", full)
    assert result.returncode == 1 and "is not empty" in result.stderr, result.stderr
    result = gateway.run("state", "backup", state(gateway, "copy"))
    assert result.returncode == 2 and "is in the state directory" in result.stderr, result.stderr
    result = gateway.run("state", "backup", tmp_path / "missing" / "copy")
    assert result.returncode == 1 and "cannot be made" in result.stderr, result.stderr
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o700)
    backup(gateway, empty)
    assert names(gateway) == ["state_backed_up"]
    gateway.stop()
    result = restore(gateway, full, "--replace")
    assert result.returncode == 1 and "is not a complete backup" in result.stderr, result.stderr


def test_it_works_without_a_gateway(sandbox, start_gateway, tmp_path):
    gateway = start_gateway(config(sandbox), environment=sandbox.environment)
    assert requests.get(f"{gateway.url}/machine/2.0/users/me", timeout=20).status_code == 200
    gateway.stop()
    manifest = backup(gateway, tmp_path / "backup")
    assert names(gateway) == ["state_backed_up"]
    with sqlite3.connect(tmp_path / "backup" / "audit.sqlite") as copied:
        rows = copied.execute("select max(id) from token_events").fetchone()
    copied.close()
    assert rows == (manifest["last_audit_row"],)
    verified(gateway)


def test_databases_elsewhere_come_back_to_their_places(sandbox, start_gateway, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    places = {
        **config(sandbox, path=str(tmp_path / "elsewhere/t.db")),
        "audit": {"path": str(tmp_path / "elsewhere/a.db")},
    }
    gateway = start_gateway(places, environment=sandbox.environment)
    assert requests.get(f"{gateway.url}/machine/2.0/users/me", timeout=20).status_code == 200
    backup(gateway, tmp_path / "backup", "--with-keys")
    gateway.stop()
    result = restore(gateway, tmp_path / "backup", "--replace")
    assert result.returncode == 0, result.stderr
    kept = {path.name.split(".replaced-")[0] for path in (tmp_path / "elsewhere").glob("*.replaced-*")}
    assert {"t.db", "a.db", "a.db.head"} <= kept
    assert not list((tmp_path / "elsewhere").glob("*.restoring-*"))
    gateway.start()
    assert names(gateway) == ["state_backed_up", "state_restored"]
    verified(gateway)


def test_a_restore_that_did_not_finish_keeps_the_gateway_from_starting(sandbox, start_gateway, tmp_path):
    gateway = start_gateway(config(sandbox), environment=sandbox.environment)
    backup(gateway, tmp_path / "backup")
    gateway.stop()
    state(gateway, "restore.unfinished").touch()
    with pytest.raises(AssertionError, match="did not finish"):
        gateway.start()
    assert restore(gateway, tmp_path / "backup", "--replace").returncode == 0
    gateway.start()

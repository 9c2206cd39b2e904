"""`key rotate`: the store's key is replaced while the gateway serves, without it, and in spite of a kill at any write."""

import json
import stat

import pytest
import requests
from harness.bytes import noise
from harness.configs import box_ccg
from harness.gateway import command


def config(sandbox, **tokens):
    return {
        "tokens": tokens,
        "credentials": {
            "service": box_ccg(sandbox),
            "campus": {
                "strategy": "duke_session",
                "client_name": "dukemobile",
                "base_url": sandbox["DUKE_URL"],
                "access_token": {"env": "SANDBOX_DUKE_ACCESS_TOKEN"},
                "session_token": {"env": "SANDBOX_DUKE_SESSION_TOKEN"},
            },
        },
        "routes": {
            "box": {"upstream": sandbox["BOX_URL"], "auth": "service"},
            "campus": {"upstream": sandbox["DUKE_URL"], "auth": "campus"},
        },
    }


def generations(gateway):
    assert requests.get(f"{gateway.url}/box/2.0/users/me", timeout=20).status_code == 200
    assert requests.get(f"{gateway.url}/campus/api/me", timeout=20).status_code == 200
    tokens = requests.get(f"{gateway.admin_url}/api/tokens", timeout=20).json()
    return {token["credential"]: token["generation"] for token in tokens}


def names(gateway):
    return [event["event"] for event in gateway.events() if event["event"].startswith("key_")]


def state(gateway, name):
    return gateway.folder / "state" / name


def rotate(gateway, **options):
    result = gateway.run("key", "rotate", **options)
    assert result.returncode == 0, result.stderr
    return result


def verified(gateway):
    result = gateway.run("audit", "verify")
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_running_gateway_goes_on_and_its_tokens_outlive_the_key(sandbox, start_gateway):
    gateway = start_gateway(config(sandbox), environment=sandbox.environment)
    before, calls = generations(gateway), sandbox.token_calls("box")
    installation = state(gateway, "token.key").read_bytes()
    keys = set()
    for _ in range(3):
        answer = gateway.run("key", "rotate", "--json")
        assert answer.returncode == 0, answer.stderr
        assert json.loads(answer.stdout) == {"file": str(state(gateway, "token.key.encryption")), "tokens": 2}
        keys.add(state(gateway, "token.key.encryption").read_bytes())
        assert generations(gateway) == before
    assert len(keys) == 3, "each time another key"
    assert stat.S_IMODE(state(gateway, "token.key.encryption").stat().st_mode) == 0o600
    assert state(gateway, "token.key").read_bytes() == installation
    gateway.stop()
    gateway.start()
    assert generations(gateway) == before and sandbox.token_calls("box") == calls, "no token was asked for"
    assert names(gateway) == ["key_rotating", "key_rotated"] * 3
    verified(gateway)
    gateway.stop()

    key = state(gateway, "token.key.encryption")
    saved = key.read_bytes()
    key.unlink()
    with pytest.raises(AssertionError, match=r"encrypted with another key.*previous_encryption_key"):
        gateway.start()
    key.write_bytes(saved)
    key.chmod(0o644)
    with pytest.raises(AssertionError, match="chmod 600"):
        gateway.start()


def test_it_works_without_a_gateway(sandbox, start_gateway):
    gateway = start_gateway(config(sandbox), environment=sandbox.environment)
    before = generations(gateway)
    gateway.stop()
    # Nothing but the files is needed: none of the credentials' secrets are set here.
    result = command("key", "rotate", "--config", gateway.file, cwd=gateway.folder)
    assert result.returncode == 0 and "No gateway runs here" in result.stderr, result
    assert "2 tokens are re-encrypted" in result.stdout and "token.key.encryption" in result.stdout
    verified(gateway)
    gateway.start()
    assert generations(gateway) == before
    assert names(gateway) == ["key_rotating", "key_rotated"]


def test_without_a_store_there_is_nothing_to_do(sandbox, make_gateway):
    gateway = make_gateway(config(sandbox), environment=sandbox.environment)
    result = gateway.run("key", "rotate")
    assert result.returncode == 4 and "there is no token store" in result.stderr
    assert not (gateway.folder / "state").exists()
    gateway.configure(config(sandbox, store="memory"))
    gateway.start()
    result = gateway.run("key", "rotate")
    assert result.returncode == 1 and "tokens.store: sqlite" in result.stderr


def test_a_key_of_the_environment_is_replaced_at_a_start(sandbox, start_gateway):
    first, second, third = (noise(32, number).hex() for number in range(3))
    environment = {**sandbox.environment, "KEY_1": first, "KEY_2": second, "KEY_3": third}
    gateway = start_gateway(config(sandbox, key={"env": "KEY_1"}), environment=environment)
    before, calls = generations(gateway), sandbox.token_calls("box")
    refused = gateway.run("key", "rotate")
    assert refused.returncode == 1 and "tokens.previous_encryption_key" in refused.stderr, refused
    assert gateway.run("key", "rotate").stdout == ""

    def restart(**tokens):
        gateway.stop()
        gateway.configure(config(sandbox, key={"env": "KEY_1"}, **tokens))
        gateway.start()
        assert generations(gateway) == before and sandbox.token_calls("box") == calls
        verified(gateway)

    restart(encryption_key={"env": "KEY_2"}, previous_encryption_key={"env": "KEY_1"})
    assert names(gateway) == ["key_rotating", "key_rotated"]
    restart(encryption_key={"env": "KEY_2"}, previous_encryption_key={"env": "KEY_1"})
    restart(encryption_key={"env": "KEY_2"})
    assert names(gateway) == ["key_rotating", "key_rotated"], "once"
    restart(encryption_key={"env": "KEY_3"}, previous_encryption_key={"env": "KEY_2"})
    assert names(gateway) == ["key_rotating", "key_rotated"] * 2
    # A file takes over, and is then the gateway's to replace.
    restart(encryption_key={"file": "state/store.key"}, previous_encryption_key={"env": "KEY_3"})
    assert stat.S_IMODE(state(gateway, "store.key").stat().st_mode) == 0o600
    rotate(gateway)
    restart(encryption_key={"file": "state/store.key"})
    for path, content in gateway.files().items():
        for key in (first, second, third):
            assert key.encode() not in content and bytes.fromhex(key) not in content, path
        assert key.encode() not in bytes(gateway.log)
    gateway.stop()
    gateway.configure(config(sandbox, key={"env": "KEY_1"}, encryption_key={"env": "KEY_1"}))
    with pytest.raises(AssertionError, match="encrypted with another key"):
        gateway.start()


def test_a_disk_that_takes_no_key_changes_nothing(sandbox, start_gateway):
    gateway = start_gateway(
        config(sandbox, encryption_key={"file": "keys/store.key"}), environment=sandbox.environment
    )
    before = generations(gateway)
    folder = gateway.folder / "keys"
    saved = (folder / "store.key").read_bytes()
    # Root writes where it likes, but not into a folder that is not there.
    folder.rename(gateway.folder / "away")
    (gateway.folder / "keys").write_text("")
    refused = gateway.run("key", "rotate")
    assert refused.returncode == 1 and "cannot" in refused.stderr, refused
    (gateway.folder / "keys").unlink()
    (gateway.folder / "away").rename(folder)
    assert (folder / "store.key").read_bytes() == saved
    gateway.stop()
    gateway.start()
    assert generations(gateway) == before


def test_a_start_removes_its_own_leftovers_alone_and_says_so(sandbox, start_gateway):
    gateway = start_gateway(
        config(sandbox, encryption_key={"file": "keys/store.key"}), environment=sandbox.environment
    )
    before = generations(gateway)
    gateway.stop()
    folder = gateway.folder / "keys"
    others = ["store.key.new", "store.key.new.txt", "store.key.authgateway-rotation.txt"]
    for name in others:
        (folder / name).write_text("an operator's")
    leftover = folder / "store.key.authgateway-rotation"
    leftover.write_bytes(noise(32))
    leftover.chmod(0o644)
    with pytest.raises(AssertionError, match=r"store\.key\.authgateway-rotation cannot be used.*chmod 600"):
        gateway.start()
    assert leftover.exists()
    leftover.chmod(0o600)
    gateway.start()
    assert generations(gateway) == before
    assert sorted(path.name for path in folder.iterdir()) == sorted(["store.key", *others])
    assert "interrupted replacement" in gateway.text() and leftover.name in gateway.text()


# MARK: A process that is killed


def outcome(gateway, before, number):
    """Starts a killed gateway again: every token is there, and one key is left."""
    gateway.start()
    assert generations(gateway) == before, f"killed at write {number}: {gateway.text()}"
    keys = sorted(path.name for path in (gateway.folder / "state").glob("token.key*"))
    assert keys in (["token.key"], ["token.key", "token.key.encryption"]), f"killed at write {number}: {keys}"
    verified(gateway)


#: Every so many writes; all of them in the long run.
STEPS = pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.soak)])


@STEPS
def test_a_kill_at_any_write_leaves_a_store_that_opens(sandbox, start_gateway, killer, tmp_path, step):
    trigger = tmp_path / "kill-at"
    environment = {**sandbox.environment, "LD_PRELOAD": str(killer), "KILL_AT_WRITE": str(trigger)}
    gateway = start_gateway(config(sandbox), environment=environment)
    before, calls = generations(gateway), sandbox.token_calls("box")
    changed = []
    for number in range(1, 200, step):
        key = state(gateway, "token.key.encryption")
        earlier = key.read_bytes() if key.exists() else None
        token = state(gateway, "admin.token").read_text().strip()
        trigger.write_text(str(number), encoding="ascii")
        try:
            # Not the command: it would do without the gateway what that did not end.
            requests.post(
                f"{gateway.admin_url}/api/key/rotate", headers={"Authorization": f"Bearer {token}"}, timeout=20
            ).raise_for_status()
            trigger.unlink()
            # The rotation has no such write, but what follows it may have had one by now.
            gateway.expected_ends = {0, -9}
            break
        except requests.ConnectionError:
            trigger.unlink()
        gateway.process.wait(20)
        assert gateway.process.returncode == -9, gateway.text()
        outcome(gateway, before, number)
        changed.append(earlier != (key.read_bytes() if key.exists() else None))
    else:
        raise AssertionError("the rotation has no end")
    assert len(changed) >= 15 // step, changed
    # Other writes of the gateway may come in between, so where exactly the key changes is not always the same.
    assert not changed[0] and changed[-1], changed
    assert sandbox.token_calls("box") == calls, "no token was lost"


@STEPS
def test_a_kill_of_a_start_that_replaces_the_key_leaves_a_store_that_opens(sandbox, start_gateway, killer, tmp_path, step):
    trigger = tmp_path / "kill-at"
    keys = {f"KEY_{number}": noise(32, number).hex() for number in (1, 2)}
    environment = {**sandbox.environment, **keys, "LD_PRELOAD": str(killer), "KILL_AT_WRITE": str(trigger)}
    gateway = start_gateway(config(sandbox, key={"env": "KEY_1"}), environment=environment)
    before = generations(gateway)
    gateway.stop()
    both = {"encryption_key": {"env": "KEY_2"}, "previous_encryption_key": {"env": "KEY_1"}}
    kills = 0
    for number in range(1, 200, step):
        # The other way round each time: there is something to replace whatever came of it.
        both["encryption_key"], both["previous_encryption_key"] = both["previous_encryption_key"], both["encryption_key"]
        gateway.configure(config(sandbox, key={"env": "KEY_1"}, **both))
        trigger.write_text(str(number), encoding="ascii")
        try:
            gateway.start()
        except AssertionError:
            trigger.unlink()
            assert gateway.process.wait(20) == -9, gateway.text()
            kills += 1
        else:
            trigger.unlink()
            # The start has no such write, but what follows it may have had one by now.
            gateway.expected_ends = {0, -9}
            break
        gateway.start()
        assert generations(gateway) == before, f"killed at write {number}: {gateway.text()}"
        verified(gateway)
        gateway.stop()
    else:
        raise AssertionError("the start has no end")
    assert kills >= 30 // step
    assert names(gateway).count("key_rotated") >= 20 // step


@STEPS
def test_a_kill_without_a_gateway_leaves_a_store_that_opens(sandbox, start_gateway, killer, tmp_path, step):
    trigger = tmp_path / "kill-at"
    gateway = start_gateway(config(sandbox), environment=sandbox.environment)
    before = generations(gateway)
    gateway.stop()
    kills = 0
    for number in range(1, 200, step):
        trigger.write_text(str(number), encoding="ascii")
        answer = command(
            "key", "rotate", "--config", gateway.file, cwd=gateway.folder,
            LD_PRELOAD=str(killer), KILL_AT_WRITE=str(trigger),
        )
        trigger.unlink()
        if answer.returncode == 0:
            break
        assert answer.returncode == -9, answer
        kills += 1
        outcome(gateway, before, number)
        gateway.stop()
    else:
        raise AssertionError("the rotation has no end")
    assert kills >= 30 // step

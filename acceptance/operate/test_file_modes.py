"""Who else may write to the configuration decides where credentials are sent: such files and folders are refused."""

import json
import os
import shutil
import subprocess

import pytest
from harness.configs import plain_config
from harness.gateway import BINARY, command


@pytest.fixture
def gateway(make_gateway, origin):
    """Not started; its configuration includes `conf.d/*.yaml`, and every file and folder belongs to its owner alone."""
    made = make_gateway({**plain_config(origin), "include": "conf.d/*.yaml"})
    folder = made.folder / "conf.d"
    folder.mkdir()
    (folder / "more.yaml").write_text(json.dumps({"access": {}}))
    for path in (made.folder, folder):
        path.chmod(0o755)
    for path in (made.file, folder / "more.yaml"):
        path.chmod(0o644)
    return made


PLACES = ["gateway.yaml", ".", "conf.d", "conf.d/more.yaml"]


def place(gateway, name):
    return gateway.file if name == "gateway.yaml" else gateway.folder / name


def test_the_modes_of_others_are_accepted(gateway):
    result = gateway.run("check", "--strict-modes")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("subcommand", ["check", "run", "plan", "status"])
def test_what_every_user_may_write_to_is_refused(gateway, name, subcommand):
    path = place(gateway, name)
    path.chmod(path.stat().st_mode | 0o002)
    result = gateway.run(subcommand)
    assert result.returncode == 3, result
    assert "every user of this machine can" in result.stderr and f"chmod o-w {path}\n" in result.stderr, result


@pytest.mark.parametrize("name", PLACES)
def test_what_the_group_may_write_to_is_a_warning(gateway, name):
    path = place(gateway, name)
    path.chmod(path.stat().st_mode | 0o020)
    result = gateway.run("check")
    assert result.returncode == 0 and "warning: its group can" in result.stderr, result
    assert result.stderr.count("chmod g-w") == 1, result.stderr
    for subcommand in ("check", "run"):
        strict = gateway.run(subcommand, "--strict-modes")
        assert strict.returncode == 3 and "--strict-modes" in strict.stderr, strict


def test_no_program_of_a_refused_file_is_run(gateway):
    """Whoever can write the file could name any program as a secret."""
    trace = gateway.folder / "trace"
    token = {"exec": ["touch", str(trace)]}
    gateway.configure({"routes": {"a": {"upstream": "https://a.example.com", "auth": {"strategy": "bearer", "token": token}}}})
    gateway.file.chmod(0o666)
    assert gateway.run("check").returncode == 3
    assert not trace.exists()


OWN_PRESET = """\
own:
  title: One of our own
  docs: https://wiki.acme.example/own
  read: unverified
  credential: {{strategy: exec, command: [touch, "{trace}"]}}
  routes: {{api: {{upstream: "https://own.acme.example"}}}}
"""


@pytest.mark.parametrize("name", ["presets", "presets/own.yaml"])
def test_no_preset_is_taken_from_where_every_user_may_write(gateway, name):
    trace = gateway.folder / "trace"
    folder = gateway.folder / "presets"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "own.yaml").write_text(OWN_PRESET.format(trace=trace))
    (folder / "own.yaml").chmod(0o644)
    gateway.configure({"presets": "./presets", "routes": {"own": {"preset": "own"}}})
    assert gateway.run("check", "--strict-modes").returncode == 0
    path = gateway.folder / name
    path.chmod(path.stat().st_mode | 0o020)
    warned, strict = gateway.run("check"), gateway.run("check", "--strict-modes")
    assert warned.returncode == 0 and "warning: presets: its group can" in warned.stderr, warned
    assert strict.returncode == 3, strict
    path.chmod(path.stat().st_mode | 0o002)
    for arguments in (("check",), ("check", "--acquire"), ("run",)):
        result = gateway.run(*arguments)
        assert result.returncode == 3, result
        assert "error: presets: every user of this machine can" in result.stderr, result
        assert f"chmod o-w {path}\n" in result.stderr, result
    assert not trace.exists()


def test_a_sticky_folder_is_as_good_as_its_files(gateway):
    gateway.folder.chmod(0o1777)
    assert gateway.run("check").returncode == 0
    # Everybody can add a file to it, and the pattern would find that.
    (gateway.folder / "conf.d").chmod(0o1777)
    result = gateway.run("check")
    assert result.returncode == 3 and "conf.d" in result.stderr, result


@pytest.mark.parametrize("what", ["file", "folder", "link", "include"])
@pytest.mark.parametrize("subcommand", ["check", "status", "doctor"])
def test_what_a_stranger_has_put_into_a_shared_folder_is_refused(gateway, other_users, tmp_path, what, subcommand):
    """Everybody can put a gateway.yaml into /tmp, for whoever runs a command there."""
    stranger = other_users[0].number
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    trace = tmp_path / "trace"
    token = {"exec": ["touch", str(trace)]}
    planted = {"routes": {"a": {"upstream": "https://a.example.com", "auth": {"strategy": "bearer", "token": token}}}}
    file = shared / {"folder": "of-them/gateway.yaml"}.get(what, "gateway.yaml")
    file.parent.mkdir(exist_ok=True)
    if what == "link":
        real = tmp_path / "real.yaml"
        real.write_text(json.dumps({"version": 1, **planted}))
        file.symlink_to(real)
        os.chown(file, stranger, stranger, follow_symlinks=False)
        bad = file
    else:
        file.write_text(json.dumps({"version": 1, **planted}))
        bad = file.parent if what == "folder" else file
        os.chown(bad, stranger, stranger)
    if what == "include":
        gateway.configure({"include": str(file)})
        result = gateway.run(subcommand)
    else:
        result = command(subcommand, cwd=file.parent)
    assert result.returncode != 0, result
    assert f"{bad} belongs to another user ({stranger})" in result.stdout + result.stderr, result
    assert not trace.exists()


def test_the_folders_behind_a_link_count(gateway, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(gateway.file, other / "real.yaml")
    (other / "conf.d").mkdir()
    (tmp_path / "link.yaml").symlink_to(other / "real.yaml")
    arguments = ("check", "--config", tmp_path / "link.yaml")
    assert command(*arguments, cwd=tmp_path).returncode == 0
    other.chmod(0o777)
    result = command(*arguments, cwd=tmp_path)
    assert result.returncode == 3 and f"chmod o-w {other}" in result.stderr, result


@pytest.mark.root
def test_a_read_only_mount_is_accepted(gateway):
    """As Kubernetes mounts its volumes: with mode 0777, and nobody can write there."""
    gateway.file.chmod(0o666)
    gateway.folder.chmod(0o777)
    mount = f'mount --bind "{gateway.folder}" "{gateway.folder}" && mount -o remount,ro,bind "{gateway.folder}"'
    whole = [BINARY, "check", "--strict-modes", "--config", str(gateway.file)]
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", f'{mount}; cd "{gateway.folder}"; exec "$@"', "sh", *whole],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert result.returncode == 0, result


def test_a_reload_refuses_what_a_start_refuses(gateway):
    gateway.start("--strict-modes")
    gateway.file.chmod(0o664)
    result = gateway.run("reload")
    assert result.returncode != 0 and "its group can" in result.stdout + result.stderr, result
    gateway.file.chmod(0o644)
    assert gateway.run("reload").returncode == 0

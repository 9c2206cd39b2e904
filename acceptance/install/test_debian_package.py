"""The Debian package: what lintian says, and how it is installed, upgraded, removed and purged."""

import subprocess

import pytest
from harness import processes
from harness.packages import run, with_version

CONFIGURATION = "/etc/authgateway/gateway.yaml"
STATE = "/var/lib/private/authgateway"
#: As dpkg -s says it.
INSTALLED, CONFIGURED = "install ok installed", "deinstall ok config-files"


def state_of(machine):
    return machine.run("dpkg-query", "--show", "--showformat", "${Status}", "authgateway")


@pytest.mark.timeout(400)
def test_lintian_finds_no_error(debian_package):
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error,warning", debian_package], capture_output=True, text=True, timeout=380, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_depends_on_the_libraries_of_debian(debian_package):
    needed = run("dpkg-deb", "--field", debian_package, "Depends")
    packages = {dependency.split()[0] for dependency in needed.split(",")}
    assert {"libsqlite3-0", "libyaml-0-2", "libc6"} <= packages, needed
    assert not any(name.startswith("libswift") for name in packages), "the Swift runtime is linked statically"
    # Loaded when tokens are in PostgreSQL (docs/internals/adr/0044).
    assert run("dpkg-deb", "--field", debian_package, "Recommends").strip() == "libpq5" and "libpq5" not in packages


@pytest.mark.root
def test_installed_it_has_a_configuration_that_serves(machine, debian_package, network):
    machine.install(debian_package)
    assert state_of(machine) == INSTALLED
    said = machine.run("authgateway", "check", "--strict-modes", "--config", CONFIGURATION)
    assert "no problem" in said, said
    # Neither started nor enabled.
    units = [path for path in machine.found("authgateway.service") if not path.startswith("/usr/share/doc/")]
    assert sorted(units) == [f"/usr/lib/systemd/{manager}/authgateway.service" for manager in ("system", "user")]
    assert machine.path("/etc/authgateway/secrets").stat().st_mode & 0o777 == 0o700
    unit = machine.path("/usr/lib/systemd/system/authgateway.service").read_text(encoding="utf-8")
    assert "ExecStart=/usr/bin/authgateway run " in unit

    gateway = subprocess.Popen(machine.command("/usr/bin/authgateway", "run", "--config", CONFIGURATION), stderr=subprocess.DEVNULL)
    try:
        processes.wait_until(lambda: processes.is_listening(8081), 20, "it listens")
        assert machine.run("authgateway", "status", "--alive", "--config", CONFIGURATION) == "ok\n"
    finally:
        processes.end(gateway)


@pytest.mark.root
def test_an_upgrade_keeps_what_was_changed_and_a_purge_removes_all(machine, debian_package, tmp_path):
    machine.install(debian_package)
    before = machine.found("*authgateway*")
    configuration = machine.path(CONFIGURATION)
    mine = configuration.read_text(encoding="utf-8").replace("8080", "18080")
    configuration.write_text(mine, encoding="utf-8")
    machine.path(STATE).mkdir(parents=True)
    machine.path(STATE + "/audit.sqlite").write_text("kept", encoding="utf-8")
    machine.path("/var/lib/authgateway").symlink_to("private/authgateway")
    secret = machine.path("/etc/authgateway/secrets/box-client-secret")
    secret.write_text("mine", encoding="utf-8")

    machine.install(with_version(debian_package, "99.0.0", tmp_path))
    assert machine.run("dpkg-query", "--show", "--showformat", "${Version}", "authgateway") == "99.0.0"
    assert configuration.read_text(encoding="utf-8") == mine
    assert machine.run("authgateway", "version").startswith("authgateway ")

    machine.run("dpkg", "--remove", "authgateway")
    assert state_of(machine) == CONFIGURED
    assert not machine.path("/usr/bin/authgateway").exists()
    assert configuration.read_text(encoding="utf-8") == mine and machine.path(STATE + "/audit.sqlite").exists()

    machine.install(debian_package)
    assert state_of(machine) == INSTALLED and configuration.read_text(encoding="utf-8") == mine
    assert [path for path in before if path not in machine.found("*authgateway*")] == [], "as after the first time"
    assert not machine.path("/etc/systemd/system/authgateway.service").is_symlink(), "no longer masked"

    machine.run("dpkg", "--purge", "authgateway")
    # A secret that a person put there is that person's.
    assert machine.found("*authgateway*") == ["/etc/authgateway"] and secret.exists()


@pytest.mark.root
def test_without_certificates_of_authorities_it_says_what_to_install(machine, debian_package):
    machine.install(debian_package)
    machine.run("rm", "-r", "/etc/ssl/certs")
    command = machine.command("/usr/bin/authgateway", "check", "--config", CONFIGURATION)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3 and "install the package ca-certificates" in done.stderr, done


@pytest.mark.root
def test_removed_without_a_change_nothing_is_left(machine, debian_package):
    machine.install(debian_package)
    machine.run("dpkg", "--purge", "authgateway")
    assert machine.found("*authgateway*") == []

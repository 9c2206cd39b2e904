"""`authgateway ca`: making, installing and replacing the local CA, and what doctor and check say of it."""

import os
import pathlib
import shlex
import shutil
import subprocess

import pytest
import requests
from cryptography import x509
from harness import processes
from harness.configs import BEARER
from harness.gateway import BINARY


@pytest.fixture
def intercepting(make_gateway):
    def make(folder=None, **more):
        routes = {"api": {"upstream": "https://api.example.test", "auth": BEARER}}
        place = {"address": f"127.0.0.1:{processes.free_port()}", "intercept": True}
        return make_gateway({"routes": routes, **more}, listeners=[place], folder=folder)

    return make


def roots(gateway):
    return x509.load_pem_x509_certificates((gateway.folder / "state/ca/ca.pem").read_bytes())


def test_it_can_be_made_before_the_start(intercepting):
    gateway = intercepting(ca={"days": 30})
    assert gateway.run("ca", "status").returncode == 1
    done = gateway.run("ca", "create")
    assert done.returncode == 0 and "api.example.test" in done.stdout and "ca install" in done.stdout, done
    assert "is complete" in gateway.run("ca", "create").stdout
    [root] = roots(gateway)
    assert (root.not_valid_after_utc - root.not_valid_before_utc).days == 30
    gateway.start()
    assert roots(gateway) == [root]
    refused = gateway.run("ca", "create")
    assert refused.returncode == 1 and "a gateway uses" in refused.stderr, refused
    assert gateway.run("status").returncode == 0


def test_a_rotation_makes_a_new_one(intercepting):
    gateway = intercepting()
    assert gateway.run("ca", "create").returncode == 0
    first = roots(gateway)
    assert gateway.run("ca", "rotate").returncode == 0
    second = roots(gateway)
    gateway.start()
    done = gateway.run("ca", "rotate")
    assert done.returncode == 0 and "api.example.test" in done.stdout and "ca install" in done.stdout, done
    assert len({*first, *second, *roots(gateway)}) == 3
    assert [event["event"] for event in gateway.events() if event["event"] == "authority_rotated"] == ["authority_rotated"]


def test_nothing_to_sign_for_is_said(make_gateway):
    place = {"address": f"127.0.0.1:{processes.free_port()}", "intercept": True}
    plain = {"routes": {"plain": {"upstream": "http://127.0.0.1:9", "auth": "none"}}}
    gateway = make_gateway(plain, listeners=[place])
    checked = gateway.run("check")
    assert checked.returncode == 0 and "warning" in checked.stderr and "intercepts nothing" in checked.stderr, checked
    done = gateway.run("ca", "create")
    assert done.returncode == 3 and "no route leads to an https:// upstream" in done.stderr, done
    gateway.configure({"routes": {"api": {"upstream": "https://api.example.test", "auth": BEARER}}})
    done = gateway.run("ca", "create")
    assert done.returncode == 3 and "intercept: true" in done.stderr, done


def test_a_permitted_suffix_needs_no_new_trust(intercepting):
    gateway = intercepting(ca={"permit": ["example.test"]}).start()
    before = roots(gateway)
    text = gateway.file.read_text()
    gateway.file.write_text(text.replace("https://api.example.test", "https://other.example.test"))
    done = gateway.run("reload")
    assert done.returncode == 0 and "have to be trusted" not in done.stdout, done
    assert roots(gateway) == before


def test_status_and_doctor_say_who_trusts_it(intercepting, tmp_path):
    gateway = intercepting()
    assert gateway.run("ca", "create").returncode == 0
    own = str(gateway.folder / "state/ca/ca.pem")
    done = gateway.run("ca", "status", CURL_CA_BUNDLE=own, PIP_CERT=str(tmp_path / "none"))
    lines = {tuple(line.split()[:2]): line for line in done.stdout.splitlines() if line.strip()}
    assert done.returncode == 0 and lines["variable", "CURL_CA_BUNDLE"].endswith(" trusted"), done
    assert lines["variable", "PIP_CERT"].endswith("cannot be read"), done
    assert any(kind == "system" and line.endswith("not trusted") for (kind, _), line in lines.items()), done
    found = gateway.run("doctor", "--offline")
    assert "local CA" in found.stdout and "does not trust it" in found.stdout, found


def alone(gateway, *commands):
    """In a mount namespace in which the machine's trust can be changed without harm."""
    places = "/etc/ssl /usr/local/share/ca-certificates"
    lines = [
        "set -e",
        f"for place in {places}; do mkdir -p $place; copy=$(mktemp -d); cp -a $place/. $copy; mount --bind $copy $place; done",
        *[shlex.join(map(str, command)) if isinstance(command, (list, tuple)) else command for command in commands],
    ]
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines)]
    clean = processes.environment()
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=180, env=clean, cwd=gateway.folder)


@pytest.mark.root
def test_the_machine_trusts_it_after_an_install_and_not_after_an_uninstall(intercepting):
    gateway = intercepting()
    assert gateway.run("ca", "create").returncode == 0
    ca = [BINARY, "ca"]
    config = ["--config", gateway.file]
    verify = "openssl verify -CApath /etc/ssl/certs state/ca/ca.pem"
    done = alone(
        gateway,
        [*ca, "install", *config],
        [*ca, "status", *config],
        verify,
        "echo ---",
        [*ca, "rotate", *config],
        [*ca, "install", *config],
        verify,
        "echo ---",
        [*ca, "uninstall", *config],
        [*ca, "status", *config],
        f"! {verify}",
        "! ls /usr/local/share/ca-certificates/authgateway-*",
    )
    assert done.returncode == 0, done
    installed, again, removed = done.stdout.split("---\n")
    assert "wrote /usr/local/share/ca-certificates/authgateway-" in installed and "ran update-ca-certificates" in installed
    assert "state/ca/ca.pem: OK" in installed and "state/ca/ca.pem: OK" in again and "not trusted" not in installed, done
    assert removed.count("removed /usr/local") == 2 and "trusted" in removed, done
    assert not list(pathlib.Path("/usr/local/share/ca-certificates").glob("authgateway-*"))


def test_only_root_changes_what_the_machine_trusts(intercepting, other_users, short_folder):
    # Where the other user can read it.
    gateway = intercepting(folder=short_folder / "gateway")
    assert gateway.run("ca", "create").returncode == 0
    for path in [gateway.folder, *gateway.folder.rglob("*")]:
        os.chown(path, 65533, 65533)
    command = ["setpriv", "--reuid=65533", "--clear-groups", BINARY, "ca", "install", "--config", gateway.file]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30, env=processes.environment(), cwd="/")
    assert done.returncode == 1 and "only root can change what this machine trusts" in done.stderr, done
    assert "sudo authgateway ca install" in done.stderr, done
    assert not list(pathlib.Path("/usr/local/share/ca-certificates").glob("authgateway-*"))


def test_another_user_is_told_that_it_may_not_read_it(intercepting, short_folder, other_users):
    """It said that there is no local CA."""
    gateway = intercepting(folder=short_folder / "gateway").start()
    program = short_folder / "authgateway"
    shutil.copy(BINARY, program)
    done = subprocess.run(
        [program, "ca", "show", "--config", gateway.file],
        check=False, capture_output=True, text=True, timeout=30, user=other_users[0].number, env={},
    )
    assert done.returncode == 1 and "there is no local CA" not in done.stderr, done
    assert "state/ca/ca.pem, cannot be read: this user may not read it; run this as the gateway's user" in done.stderr, done
    assert f"curl {gateway.admin_url}/ca.pem" in done.stderr, done


def test_the_admin_listener_has_the_certificates(intercepting, start_gateway):
    gateway = intercepting().start()
    answer = requests.get(gateway.admin_url + "/ca.pem", timeout=10)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/x-pem-file")
    assert x509.load_pem_x509_certificates(answer.content) == roots(gateway)
    assert "PRIVATE KEY" not in answer.text
    without = start_gateway({"routes": {"plain": {"upstream": "http://127.0.0.1:9", "auth": "none"}}})
    answer = requests.get(without.admin_url + "/ca.pem", timeout=10)
    assert answer.status_code == 404 and "no local CA" in answer.json()["detail"]


def test_a_damaged_file_is_not_taken_for_no_authority(intercepting):
    gateway = intercepting().start()
    (gateway.folder / "state/ca/ca.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    answer = requests.get(gateway.admin_url + "/ca.pem", timeout=10)
    assert answer.status_code == 500 and "are damaged; a gateway writes new ones" in answer.json()["detail"], answer.text

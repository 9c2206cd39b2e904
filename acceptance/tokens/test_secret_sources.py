"""`{systemd_credential: NAME}`: secrets that systemd passes in a folder (`LoadCredential=`)."""

import pytest
import requests
from harness.configs import CANARY, with_route


@pytest.fixture
def credentials(tmp_path):
    """What `CREDENTIALS_DIRECTORY` names."""
    folder = tmp_path / "credentials"
    folder.mkdir(mode=0o700)
    return folder


def put(folder, name, text):
    """As systemd writes it: others may not enter the folder, and the file's mode is no matter then."""
    (folder / name).write_text(text)
    (folder / name).chmod(0o444)


def upstream_token(name="upstream-token"):
    return {"strategy": "bearer", "token": {"systemd_credential": name}}


def environment(folder):
    return {"CREDENTIALS_DIRECTORY": str(folder)}


def test_a_secret_comes_from_the_folder_and_is_read_again_with_a_reload(start_gateway, origin, credentials):
    put(credentials, "upstream-token", CANARY + "\n")
    gateway = start_gateway(with_route(upstream_token(), origin.url), environment=environment(credentials))
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    assert origin.last().value("authorization") == f"Bearer {CANARY}", "the newline belongs to the file"

    (credentials / "upstream-token").unlink()
    put(credentials, "upstream-token", CANARY + "-next")
    assert gateway.run("reload").returncode == 0
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    assert origin.last().value("authorization") == f"Bearer {CANARY}-next"


REFUSED = {
    "no folder": ("upstream-token", False, "add LoadCredential=upstream-token:"),
    "no such credential": ("another", True, "credentials/another: no such file"),
    "a path": ("../credentials/upstream-token", True, "the name of a systemd credential has no slash"),
    "the folder itself": (".", True, "the name of a systemd credential has no slash"),
}


@pytest.mark.parametrize("name, has_folder, words", REFUSED.values(), ids=[name.replace(" ", "-") for name in REFUSED])
def test_what_systemd_does_not_pass_is_a_problem_at_load(make_gateway, origin, credentials, name, has_folder, words):
    put(credentials, "upstream-token", CANARY)
    folder = environment(credentials) if has_folder else {"CREDENTIALS_DIRECTORY": None}
    checked = make_gateway(with_route(upstream_token(name), origin.url), environment=folder).run("check")
    assert checked.returncode == 3, checked
    assert "credentials.me.token" in checked.stderr and words in checked.stderr, checked
    assert CANARY not in checked.stdout + checked.stderr


def test_the_key_of_the_installation_can_come_from_there(make_gateway, origin, credentials):
    """The token store opens with it, and with no other."""
    put(credentials, "store-key", "a1" * 32)
    put(credentials, "other-key", "b2" * 32)
    credential = {"strategy": "box_developer_token", "token": CANARY}

    def config(name):
        return {"tokens": {"key": {"systemd_credential": name}}, **with_route(credential, origin.url)}

    gateway = make_gateway(config("store-key"), environment=environment(credentials)).start()
    assert gateway.run("token", "import", "me", input='{"access_token": "imported", "expires_in": 3000}').returncode == 0
    assert not (gateway.folder / "state" / "token.key").exists(), "no key of its own was made"
    assert gateway.run("audit", "verify").returncode == 0
    gateway.stop()
    gateway.configure(config("other-key"))
    refused = gateway.run("run")
    assert refused.returncode == 1 and "key" in refused.stderr, refused
    gateway.configure(config("store-key"))
    gateway.start()
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    assert origin.last().value("authorization") == "Bearer imported"

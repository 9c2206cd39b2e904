"""`github_app` against an API that refuses any other form than GitHub's."""

import pytest
import requests
from harness.github import APP_ID, GitHub
from harness.jwt_authority import KeyPair


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return KeyPair(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def github(keys):
    github = GitHub(keys)
    yield github
    github.stop()


def start(make_gateway, github, keys, **block):
    app = {"strategy": "github_app", "app_id": APP_ID, "private_key": {"file": "app.pem"}, "api_url": github.url, **block}
    gateway = make_gateway({"credentials": {"app": app}, "routes": {"all": {"upstream": github.url, "auth": "app"}}})
    file = gateway.folder / "app.pem"
    file.touch(mode=0o600)
    # As GitHub hands it out: PKCS#1.
    file.write_text(keys.private("plain"))
    return gateway.start()


def get(gateway, path):
    return requests.get(gateway.url + path, timeout=20)


def test_a_token_of_an_installation(github, make_gateway, keys):
    more = {"repositories": ["web"], "permissions": {"contents": "read"}}
    gateway = start(make_gateway, github, keys, installation_id=42, **more)
    for _ in range(2):
        assert get(gateway, "/all/repos/acme/web").status_code == 200
    assert github.asked == [more]
    # A token that GitHub no longer knows is replaced within the request that notices.
    github.tokens.clear()
    assert get(gateway, "/all/repos/acme/web").status_code == 200
    assert github.asked == [more, more]


@pytest.mark.parametrize("owner", ["acme", "ada"])
def test_the_installation_of_an_owner(github, make_gateway, keys, owner):
    gateway = start(make_gateway, github, keys, owner=owner)
    assert get(gateway, f"/all/repos/{owner}/web").status_code == 200
    assert github.asked == [None]
    posts = [request.target for request in github.requests if request.method == "POST"]
    assert posts == [f"/app/installations/{42 if owner == 'acme' else 43}/access_tokens"]


def test_git_takes_the_token_as_a_password(github, make_gateway, keys):
    gateway = start(make_gateway, github, keys, installation_id=42, apply={"basic": "x-access-token"})
    assert get(gateway, "/all/git/acme/web.git/info/refs?service=git-upload-pack").status_code == 200


def test_a_token_is_revoked(github, make_gateway, keys):
    gateway = start(make_gateway, github, keys, installation_id=42)
    assert get(gateway, "/all/repos/acme/web").status_code == 200
    result = gateway.run("token", "revoke", "app")
    assert result.returncode == 0, result
    assert github.tokens == set()
    assert get(gateway, "/all/repos/acme/web").status_code == 200


def test_clients_do_not_get_where_tokens_come_from(github, make_gateway, keys):
    gateway = start(make_gateway, github, keys, owner="acme")
    for method, path in (("POST", "/app/installations/42/access_tokens"), ("DELETE", "/installation/token")):
        assert requests.request(method, gateway.url + "/all" + path, timeout=20).status_code == 403
    assert github.count() == 0


@pytest.mark.parametrize("block, advice", [({"installation_id": 9}, "check installation_id"), ({"owner": "nobody"}, "check owner")])
def test_what_is_not_there_is_explained(github, make_gateway, keys, block, advice):
    answer = get(start(make_gateway, github, keys, **block), "/all/repos/acme/web")
    assert answer.status_code == 500
    assert "GitHub refused the request for a token (status 404)" in answer.json()["detail"]
    assert advice in answer.json()["detail"]


def test_another_key_is_explained(github, make_gateway, tmp_path):
    answer = get(start(make_gateway, github, KeyPair(tmp_path), installation_id=42), "/all/repos/acme/web")
    assert answer.status_code == 500
    assert "(status 401): check app_id or client_id, and that private_key is a key of this app" in answer.json()["detail"]

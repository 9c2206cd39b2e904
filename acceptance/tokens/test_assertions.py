"""Signed assertions: `box_jwt`, `oauth2_jwt_bearer` and `private_key_jwt` against Authlib's verification."""

import base64
import json
import pathlib
import urllib.parse

import pytest
import requests
from harness.jwt_authority import FORMS, PASSPHRASE, JWTAuthority, KeyPair
from harness.origin import response


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return KeyPair(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def make_authority(keys):
    made = []

    def make(**options):
        made.append(JWTAuthority(keys, **options))
        return made[-1]

    yield make
    for authority in made:
        authority.stop()


def box_gateway(authority, make_gateway, settings, **more):
    gateway = make_gateway(
        {
            "credentials": {
                "box": {
                    "strategy": "box_jwt",
                    "app_settings": "box-app.json",
                    "token_url": authority.token_url,
                    **more,
                }
            },
            "routes": {
                "box": {"upstream": authority.url + "/api", "auth": "box"},
                "ada": {
                    "upstream": authority.url + "/api",
                    "auth": {"credential": "box", "subject": {"user": "42"}, "as_user": "7"},
                },
            },
        }
    )
    file = gateway.folder / "box-app.json"
    file.write_text(settings)
    file.chmod(0o600)
    return gateway


@pytest.mark.parametrize("form", FORMS)
def test_the_app_settings_file_is_all_it_takes(make_authority, make_gateway, form):
    authority = make_authority()
    gateway = box_gateway(authority, make_gateway, authority.app_settings(form)).start()
    assert requests.get(gateway.url + "/box/x", timeout=20).status_code == 200
    (call,) = authority.calls()
    assert set(call["form"]) == {"grant_type", "assertion", "client_id", "client_secret"}
    assert {name: call["claims"][name] for name in ("iss", "sub", "box_sub_type", "aud")} == {
        "iss": "box-app",
        "sub": "12345",
        "box_sub_type": "enterprise",
        "aud": "https://api.box.com/oauth2/token",
    }
    assert set(call["claims"]) == {"iss", "sub", "box_sub_type", "aud", "exp", "jti"}


def test_a_route_speaks_for_another_user_and_revoked_tokens_are_replaced(make_authority, make_gateway):
    authority = make_authority()
    gateway = box_gateway(authority, make_gateway, authority.app_settings(), algorithm="RS512").start()
    for path in ("/box/x", "/ada/x"):
        assert requests.get(gateway.url + path, timeout=20).status_code == 200
    authority.forget()
    for path in ("/box/x", "/ada/x"):
        assert requests.get(gateway.url + path, timeout=20).status_code == 200
    claims = [call["claims"] for call in authority.calls()]
    assert [(claim["box_sub_type"], claim["sub"]) for claim in claims] == [("enterprise", "12345"), ("user", "42")] * 2
    assert len({claim["jti"] for claim in claims}) == 4


@pytest.mark.parametrize("offset", [-3600, 45, 3600])
def test_a_clock_that_is_wrong_is_repaired_by_the_date_of_the_answer(make_authority, make_gateway, offset):
    authority = make_authority(clock_offset=offset)
    gateway = box_gateway(authority, make_gateway, authority.app_settings()).start()
    assert requests.get(gateway.url + "/box/x", timeout=20).status_code == 200
    first, second = [call["claims"] for call in authority.calls()]
    assert first["jti"] != second["jti"]
    assert abs(second["exp"] - first["exp"] - offset) <= 2
    # One attempt, although it took two requests.
    assert [event["event"] for event in gateway.events() if event["event"].startswith("acquir")] == [
        "acquiring",
        "acquired",
    ]


@pytest.mark.parametrize("offset", [-3600, -45, 45, 3600])
def test_a_clock_of_the_gateway_that_is_wrong_is_repaired_too(make_authority, make_gateway, clock, offset):
    authority = make_authority()
    gateway = box_gateway(authority, make_gateway, authority.app_settings())
    gateway.environment = clock.environment
    clock.set(f"{offset:+}")
    gateway.start()
    assert requests.get(gateway.url + "/box/x", timeout=20).status_code == 200
    first, second = [call["claims"] for call in authority.calls()]
    assert first["jti"] != second["jti"]
    assert abs(first["exp"] - second["exp"] - offset) <= 3
    assert requests.get(gateway.url + "/box/y", timeout=20).status_code == 200
    assert len(authority.calls()) == 2
    gateway.kill()


def test_an_unknown_subject_is_final_and_explained(make_authority, make_gateway):
    authority = make_authority()
    gateway = box_gateway(authority, make_gateway, authority.app_settings(), subject={"user": "1"}).start()
    for _ in range(3):
        answer = requests.get(gateway.url + "/box/x", timeout=20)
        assert answer.status_code == 500
        assert "does not know the subject" in answer.json()["detail"]
    assert len(authority.calls()) == 1


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: text.replace(PASSPHRASE, "wrong"), "the passphrase does not open the private key"),
        (lambda text: "{}", "is not the JSON file that the Box developer console hands out"),
        (lambda text: text.replace("PRIVATE KEY", "CERTIFICATE"), "holds a"),
    ],
)
def test_a_wrong_file_is_a_mistake_with_a_position(make_authority, make_gateway, change, message):
    authority = make_authority()
    gateway = box_gateway(authority, make_gateway, change(authority.app_settings()))
    result = gateway.run("check")
    assert result.returncode == 3
    assert "credentials.box.app_settings" in result.stdout + result.stderr
    assert message in result.stdout + result.stderr


def test_a_file_that_others_can_read_is_refused(make_authority, make_gateway):
    authority = make_authority()
    gateway = box_gateway(authority, make_gateway, authority.app_settings())
    (gateway.folder / "box-app.json").chmod(0o644)
    result = gateway.run("check")
    assert result.returncode == 3
    assert "chmod 600" in result.stdout + result.stderr


def private_parts(keys):
    """What nobody but the gateway may hold: the lines of the key as Box hands it out, of the key in it, and the passphrase."""
    parts = {PASSPHRASE}
    for form in ("pkcs8-des3", "plain"):
        parts |= {line for line in keys.private(form).splitlines() if len(line) == 64}
    whole = base64.b64decode("".join(line for line in keys.private("plain").splitlines() if "-" not in line))
    # As bytes, too: any stretch of the key, wherever a copy may be aligned.
    return [part.encode() for part in parts], [whole[start : start + 32] for start in range(64, len(whole) - 32, 32)]


def test_the_private_key_leaves_the_gateway_nowhere(make_authority, make_gateway, make_origin, keys):
    """A client, the upstream and the authority get what was signed with it. Logs, databases and commands say nothing of it."""
    authority = make_authority()
    watched = make_origin(lambda request: forwarded(authority, request))
    gateway = box_gateway(authority, make_gateway, authority.app_settings())
    whole = json.loads(gateway.file.read_text())
    whole["credentials"]["box"]["token_url"] = watched.url + "/oauth2/token"
    for route in whole["routes"].values():
        route["upstream"] = watched.url + "/api"
    gateway.file.write_text(json.dumps(whole))
    gateway.start("--log-level", "trace", "--access-log")
    said = b""
    for path in ("/box/x", "/ada/x"):
        answer = requests.get(gateway.url + path, timeout=20)
        assert answer.status_code == 200
        said += str(answer.headers).encode() + answer.content
    assert [request.target for request in watched.requests] == ["/oauth2/token", "/api/x"] * 2
    for arguments in (
        ["check"], ["plan", "--json"], ["routes", "--json"], ["status", "--json"], ["token", "list", "--json"], ["token", "get", "box"],
        ["token", "show", "box"], ["audit", "query", "--json"], ["audit", "export"],
    ):  # fmt: skip
        result = gateway.run(*arguments)
        assert result.returncode == 0, result
        said += (result.stdout + result.stderr).encode()
    for path in ("/", "/metrics", "/readyz?verbose", "/api/tokens", "/api/routes"):
        said += requests.get(gateway.admin_url + path, timeout=20).content
    said += pathlib.Path(f"/proc/{gateway.process.pid}/cmdline").read_bytes()
    running = gateway.files()
    gateway.stop()
    found = {"what the gateway said": said, "what reached the origin": watched.raw(), "the log": gateway.text().encode()}
    found |= {str(path): content for files in (running, gateway.files()) for path, content in files.items()}
    lines, stretches = private_parts(keys)
    for place, content in found.items():
        # As a form or a query would have it, too.
        content += urllib.parse.unquote_to_bytes(content)
        assert not any(part in content for part in [*lines, *stretches]), place
        assert b"PRIVATE KEY" not in content, place
    # The file that it came from is the one place that has it.
    assert all(line in (gateway.folder / "box-app.json").read_bytes() for line in lines if line in keys.private("pkcs8-des3").encode())


def forwarded(authority, request):
    """The same request to the authority, and its answer."""
    fields = {name: value for name, value in request.fields if name in ("authorization", "content-type")}
    answer = requests.request(request.method, authority.url + request.target, headers=fields, data=request.body, timeout=20)
    return response(answer.status_code, answer.content)


def generic_gateway(authority, make_gateway, algorithm):
    """Running, with a route for the assertion grant and one for a client that signs."""
    key = {"algorithm": algorithm, "key_id": "k1", "passphrase": {"env": "KEY_PASSPHRASE"}}
    places = {"token_url": authority.token_url, "revoke_url": authority.url + "/oauth2/revoke"}
    gateway = make_gateway(
        {
            "credentials": {
                "robot": {
                    "strategy": "oauth2_jwt_bearer",
                    "key": {"file": "key.pem"},
                    "claims": {"iss": "robot", "sub": "ada"},
                    **places,
                    **key,
                },
                "signer": {
                    "strategy": "oauth2_client_credentials",
                    "client_id": "signer",
                    "client_auth": "private_key_jwt",
                    "private_key": {"file": "key.pem"},
                    **places,
                    **key,
                },
            },
            "routes": {
                name: {"upstream": authority.url + "/api", "auth": name} for name in ("robot", "signer")
            },
        },
        environment={"KEY_PASSPHRASE": PASSPHRASE},
    )
    file = gateway.folder / "key.pem"
    file.write_text(authority.keys.private("pkcs8-aes256"))
    file.chmod(0o600)
    return gateway.start()


@pytest.mark.parametrize("algorithm", ["RS256", "PS256"])
def test_the_generic_grant_and_the_client_assertion_verify(make_authority, make_gateway, algorithm):
    gateway = generic_gateway(make_authority(), make_gateway, algorithm)
    for path in ("/robot/x", "/signer/x"):
        answer = requests.get(gateway.url + path, timeout=20)
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("offset", [-3600, 3600])
def test_whatever_is_signed_is_signed_by_the_clock_of_the_authority(make_authority, make_gateway, offset):
    gateway = generic_gateway(make_authority(clock_offset=offset), make_gateway, "RS256")
    for name in ("robot", "signer"):
        answer = requests.get(f"{gateway.url}/{name}/x", timeout=20)
        assert answer.status_code == 200, answer.text
    # Authlib names no claim when it refuses a client, so it is the clocks that tell.
    result = gateway.run("token", "revoke", "signer")
    assert result.returncode == 0, result.stdout + result.stderr
    failed = [event["event"] for event in gateway.events() if event["outcome"] == "failed"]
    assert failed == []

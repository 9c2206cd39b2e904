"""`init`, `add` and `presets`: from an empty folder to a service that answers with one's own credential."""

import concurrent.futures
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import threading
import time

import pytest
import requests
from harness.configs import BEARER, CANARY
from harness import processes
from harness.gateway import BINARY, command
from harness.origin import RecordingOrigin, response

#: A preset of one's own: the real ones lead to hosts that no test may call.
PRESET = """\
acme:
  title: Acme, for tests
  docs: https://docs.acme.example
  read: unverified
  parameters:
    port: {{what: The port of the service, example: "80"}}
  secrets:
    ACME_TOKEN: {{what: A token of Acme, where: "https://acme.example/tokens"}}
  credential: {{strategy: bearer, token: {{env: ACME_TOKEN}}}}
  routes:
    api: {{upstream: "http://127.0.0.1:${{port}}", whoami: {{path: /user, shows: /login}}}}
    files: {{upstream: "http://127.0.0.1:${{port}}/files"}}
"""

CONFIG = """\
version: 1   # The first line stays.
presets: ./presets

listeners:
  proxy: [{address: 127.0.0.1:0}]
  admin: {address: 127.0.0.1:0}

routes:
  # Nothing to see.
  open: {upstream: "http://127.0.0.1:9", auth: none}
"""


def answer(request):
    if request.value("authorization") != f"Bearer {CANARY}":
        return response(401, b'{"message": "Bad credentials"}')
    return response(200, b'{"login": "ada"}', "Content-Type: application/json")


@pytest.fixture
def service():
    origin = RecordingOrigin(answer)
    yield origin
    origin.stop()


@pytest.fixture
def port(service):
    return service.url.rsplit(":", 1)[1]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets/acme.yaml").write_text(PRESET.format())
    (tmp_path / "gateway.yaml").write_text(CONFIG)
    return tmp_path


def add(folder, *arguments, **options):
    return command("add", *arguments, cwd=folder, **{"ACME_TOKEN": None, **options})


def test_at_most_8_services_are_asked_at_a_time(tmp_path):
    """The ninth is asked when one has answered."""
    arrived, most, lock = [0], [0], threading.Lock()

    def answered(request):
        with lock:
            arrived[0] += 1
            most[0] = max(most[0], arrived[0])
        time.sleep(0.5)
        with lock:
            arrived[0] -= 1
        return answer(request)

    origin = RecordingOrigin(answered)
    route = {"upstream": origin.url, "whoami": {"path": "/user", "shows": "/login"}, "auth": BEARER}
    config = {"version": 1, "routes": {f"r{number}": route for number in range(12)}}
    (tmp_path / "gateway.yaml").write_text(json.dumps(config))
    try:
        result = command("check", "--acquire", cwd=tmp_path)
    finally:
        origin.stop()
    assert result.stdout.count("the credential is that of ada") == 12, result
    assert most == [8]


# add


def test_credential_and_routes_are_added_behind_what_is_there(folder, port):
    result = add(folder, "acme", "--with", f"port={port}")
    assert result.returncode == 0, result
    text = (folder / "gateway.yaml").read_text()
    assert text.startswith(CONFIG.split("routes:")[0]) and "  # Nothing to see.\n  open: {" in text
    assert f'  acme:\n    preset: acme\n    with: {{port: "{port}"}}\n    token: {{env: ACME_TOKEN}}\n' in text
    assert f'  acme-files:\n    preset: acme/files\n    with: {{port: "{port}"}}\n    auth: acme\n' in text
    # What was added is shown, and what is still to be done.
    assert "\n+  acme-files:\n" in result.stdout
    assert "Set ACME_TOKEN where the gateway starts: A token of Acme (https://acme.example/tokens).\n" in result.stdout
    assert command("check", "--no-secrets", cwd=folder).returncode == 0


def test_the_service_is_asked_whose_credential_it_is(folder, port, service):
    result = add(folder, "acme", "--with", f"port={port}", ACME_TOKEN=CANARY)
    assert result.returncode == 0 and CANARY not in result.stdout + result.stderr, result
    assert "acme: GET /user: the credential is that of ada.\n" in result.stdout
    assert service.last().line == "GET /user HTTP/1.1" and service.count() == 1
    # Nothing is left of the gateway that asked.
    assert sorted(path.name for path in folder.iterdir()) == ["gateway.yaml", "presets"]


def test_a_refused_credential_is_said(folder, port):
    result = add(folder, "acme", "--with", f"port={port}", ACME_TOKEN="wrong-token")
    assert "acme: GET /user: the service rejects the credential (401).\n" in result.stdout, result


def test_nothing_is_sent_with_no_whoami(folder, port, service):
    assert add(folder, "acme", "--with", f"port={port}", "--no-whoami", ACME_TOKEN=CANARY).returncode == 0
    assert service.count() == 0


def test_a_dry_run_shows_the_difference_and_writes_nothing(folder, port):
    result = add(folder, "acme", "--with", f"port={port}", "--dry-run")
    assert result.returncode == 0 and "\n+  acme:\n" in result.stdout and "Nothing was written." in result.stdout, result
    assert (folder / "gateway.yaml").read_text() == CONFIG


def test_a_pasted_secret_goes_into_a_file_of_its_own(folder, port):
    result = add(folder, "acme", "box", "--with", f"port={port}", "--secret", "-", input=CANARY + "\n")
    assert result.returncode == 0 and CANARY not in result.stdout + result.stderr, result
    file = folder / "state/secrets/box.ACME_TOKEN"
    assert file.read_text().strip() == CANARY and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    text = (folder / "gateway.yaml").read_text()
    assert CANARY not in text and "token: {file: ./state/secrets/box.ACME_TOKEN}" in text
    assert "the credential is that of ada" in result.stdout


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("env:OTHER", "{env: OTHER}"),
        ("file:acme.token", "{file: acme.token}"),
        ("systemd:acme", "{systemd_credential: acme}"),
        ("ACME_TOKEN=env:OTHER", "{env: OTHER}"),
    ],
)
def test_where_a_secret_comes_from_can_be_said(folder, port, source, written):
    result = add(folder, "acme", "--with", f"port={port}", "--secret", source, "--no-whoami")
    assert result.returncode == 0, result
    assert f"token: {written}\n" in (folder / "gateway.yaml").read_text()


@pytest.mark.parametrize("subcommand", ["add", "init"])
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("env:MY_KEY", "Set MY_KEY where the gateway starts: An API key "),
        ("file:missing.txt", "The gateway cannot read missing.txt. Put this into it: An API key "),
        ("systemd:key", "Add LoadCredential=key:FILE to the unit of the gateway: An API key "),
    ],
)
def test_a_secret_that_is_not_there_is_said(folder, service, subcommand, source, said):
    if subcommand == "init":
        (folder / "gateway.yaml").unlink()
    result = command(subcommand, "openai", "--upstream", service.url, "--secret", source, cwd=folder, input="", MY_KEY=None)
    assert result.returncode == 0 and result.stdout.count(said) == 1 and result.stderr == "", result
    assert service.count() == 0


def test_why_the_service_is_not_asked_is_said(folder, port, service):
    text = CONFIG + f'  other: {{upstream: "{service.url}", auth: {{strategy: bearer, token: {{env: OTHER}}}}}}\n'
    (folder / "gateway.yaml").write_text(text)
    result = add(folder, "acme", "--with", f"port={port}", ACME_TOKEN=CANARY, OTHER=None)
    assert result.returncode == 0 and "OTHER" in result.stderr and "the service was not asked" in result.stderr, result
    assert service.count() == 0


def test_a_dollar_sign_is_not_replaced_later(folder, service):
    (folder / "a${HOME}b").write_text(CANARY)
    (folder / "a${HOME}b").chmod(0o600)
    result = add(folder, "github", "--upstream", service.url, "--secret", "file:./a${HOME}b")
    assert result.returncode == 0 and "the credential is that of ada" in result.stdout, result


def test_a_server_of_ones_own_stands_in(folder, service):
    """Only the first route: the others would still lead to the real service."""
    result = add(folder, "github", "--upstream", service.url, "--secret", "env:ACME_TOKEN", ACME_TOKEN=CANARY)
    assert result.returncode == 0 and "github: GET /user: the credential is that of ada.\n" in result.stdout, result
    text = (folder / "gateway.yaml").read_text()
    assert f"  github:\n    preset: github\n    upstream: {service.url}\n    auth: github\n" in text
    assert "github-uploads" not in text


MISTAKES = [
    (["acme"], 2, 'the preset acme needs "port": add --with port=80'),
    (["acme", "--with", "prt=1"], 2, 'the preset acme has no parameter "prt"; did you mean "port"?'),
    (["acme", "--with", "port"], 2, "--with is NAME=VALUE"),
    (["acme", "--with", "port=1", "--secret", CANARY], 2, "--secret is env:NAME, file:PATH, systemd:NAME or - (to paste it)"),
    (["acme", "--with", "port=1", "--secret", "ACME_TOKN=env:X"], 2, 'no secret "ACME_TOKN"; did you mean "ACME_TOKEN"?'),
    (["acmee", "--with", "port=1"], 1, 'no preset is named "acmee"; did you mean "acme"?'),
    (["acme", "open", "--with", "port=1"], 1, 'routes has an entry "open" already; add it under another name'),
    (["acme", "a/b", "--with", "port=1"], 2, "a name has at most 64 letters, digits"),
    (["acme", "--with", "port=not-a-port"], 3, "upstream"),
]


@pytest.mark.parametrize(("arguments", "status", "words"), MISTAKES, ids=[each[2][:40] for each in MISTAKES])
def test_a_mistake_is_explained_and_nothing_is_changed(folder, arguments, status, words):
    result = add(folder, *arguments)
    assert result.returncode == status and words in result.stderr, result
    assert CANARY not in result.stdout + result.stderr
    assert (folder / "gateway.yaml").read_text() == CONFIG
    assert sorted(path.name for path in folder.iterdir()) == ["gateway.yaml", "presets"]


def test_a_secret_that_was_pasted_is_not_kept_for_a_configuration_that_is_refused(folder):
    result = add(folder, "acme", "--with", "port=not-a-port", "--secret", "-", input=CANARY)
    assert result.returncode == 3, result
    assert not (folder / "state").exists()


def at_once(folder, *names):
    """Adds the same service under these names with a pasted secret, all at once: (status, standard error) of each."""
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        wanted = ("--with", "port=1", "--secret", "-", "--no-whoami")
        results = list(pool.map(lambda name: add(folder, "acme", name, *wanted, input=CANARY), names))
    return [(result.returncode, result.stderr) for result in results]


def test_of_two_commands_at_once_none_loses_what_the_other_wrote(folder):
    for _ in range(5):
        (folder / "gateway.yaml").write_text(CONFIG)
        shutil.rmtree(folder / "state", ignore_errors=True)
        statuses = [status for status, _ in at_once(folder, "same", "same")]
        assert sorted(statuses) == [0, 1]
        assert "file: ./state/secrets/same.ACME_TOKEN" in (folder / "gateway.yaml").read_text()
        assert (folder / "state/secrets/same.ACME_TOKEN").exists()

        names = ["one", "two", "three"]
        for name, (status, error) in zip(names, at_once(folder, *names), strict=True):
            written = f"  {name}:\n" in (folder / "gateway.yaml").read_text()
            assert written == (status == 0) == (folder / f"state/secrets/{name}.ACME_TOKEN").exists(), (name, status, error)
            assert written or "run the command again" in error, error


@pytest.mark.root
def test_root_keeps_no_secret_from_a_gateway_of_another_user(folder):
    os.chown(folder, 65534, 65534)
    os.chown(folder / "gateway.yaml", 65534, 65534)
    refused = add(folder, "acme", "--with", "port=1", "--secret", "-", input=CANARY)
    assert refused.returncode == 3 and f"{folder} belongs to another user (65534)" in refused.stderr, refused
    assert "--config gateway.yaml" in refused.stderr, refused
    result = add(folder, "acme", "--config", "gateway.yaml", "--with", "port=1", "--secret", "-", input=CANARY)
    assert result.returncode == 1 and "would belong to root, and the user 65534 runs the gateway" in result.stderr, result
    assert (folder / "gateway.yaml").read_text() == CONFIG and not (folder / "state").exists()


def test_a_pasted_secret_that_nothing_uses_any_more_is_named(folder):
    assert add(folder, "acme", "--with", "port=1", "--secret", "-", "--no-whoami", input=CANARY).returncode == 0
    for route in ("acme", "acme-files"):
        assert command("remove", route, "--route", "--yes", cwd=folder).returncode == 0
    result = command("remove", "acme", "--yes", cwd=folder)
    assert result.returncode == 0, result
    assert f"  rm {folder}/state/secrets/acme.ACME_TOKEN\n" in result.stdout, result
    assert (folder / "state/secrets/acme.ACME_TOKEN").exists()


def test_with_routes_the_secret_that_was_pasted_goes_too(folder):
    """And no other one: neither that of another service, nor a file that `add` did not write."""
    own = folder / "own.token"
    own.write_text(CANARY)
    for name, source in (("acme", "-"), ("other", "-"), ("mine", "file:own.token")):
        added = add(folder, "acme", name, "--with", "port=1", "--secret", source, "--no-whoami", input=CANARY)
        assert added.returncode == 0, added
    for name in ("acme", "mine"):
        result = command("remove", name, "--with-routes", "--yes", cwd=folder)
        assert result.returncode == 0, result
        assert (f"  {folder}/state/secrets/acme.ACME_TOKEN\n" in result.stdout) == (name == "acme"), result
    assert [path.name for path in (folder / "state/secrets").iterdir()] == ["other.ACME_TOKEN"]
    assert own.exists()


@pytest.mark.parametrize("subcommand", ["add", "init"])
def test_git_ignores_what_was_pasted(folder, subcommand):
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    if subcommand == "init":
        (folder / "gateway.yaml").unlink()
    result = command(subcommand, "openai", "--secret", "-", *(["--no-whoami"] if subcommand == "add" else []), cwd=folder, input=CANARY)
    assert result.returncode == 0, result
    assert f"and git ignores it:\n  {folder}/state/secrets/openai.OPENAI_API_KEY\n" in result.stdout, result
    shown = subprocess.run(["git", "status", "--short", "-uall"], cwd=folder, check=True, capture_output=True, text=True)
    assert "gateway.yaml" in shown.stdout and "state" not in shown.stdout, shown


def test_a_listener_for_exec_is_written_where_there_is_none(folder):
    (folder / "gateway.yaml").write_text(CONFIG.replace("listeners:\n  proxy: [{address: 127.0.0.1:0}]\n", "listeners:\n"))
    assert add(folder, "acme", "--with", "port=1", "--no-whoami").returncode == 0
    text = (folder / "gateway.yaml").read_text()
    assert "  proxy: [{address: 127.0.0.1:8080, intercept: true, connect: {unrouted: tunnel}}]\n" in text, text


def test_a_listener_of_ones_own_is_not_changed(folder):
    result = add(folder, "acme", "--with", "port=1", "--no-whoami")
    assert result.returncode == 0 and "set intercept: true on a listener of listeners.proxy" in result.stdout, result
    assert CONFIG.split("routes:")[0] in (folder / "gateway.yaml").read_text()


def test_without_a_configuration_init_is_named(tmp_path):
    result = command("add", "github", cwd=tmp_path)
    assert result.returncode == 3 and "authgateway init github" in result.stderr, result
    mistyped = command("add", "githb", cwd=tmp_path)
    assert mistyped.returncode == 1 and 'no preset is named "githb"; did you mean "github"?' in mistyped.stderr, mistyped


def test_a_running_gateway_picks_it_up(make_gateway, service, port):
    gateway = make_gateway({}, environment={"ACME_TOKEN": CANARY})
    (gateway.folder / "presets").mkdir()
    (gateway.folder / "presets/acme.yaml").write_text(PRESET.format())
    text = CONFIG.replace("127.0.0.1:0", f"127.0.0.1:{gateway.port}", 1)
    gateway.file.write_text(text.replace("127.0.0.1:0", f"127.0.0.1:{gateway.admin_port}"))
    gateway.start()
    result = add(gateway.folder, "acme", "--with", f"port={port}")
    assert result.returncode == 0 and f"The running gateway (process {gateway.process.pid}) serves it now." in result.stdout
    # What the gateway has, and this shell has not, is not missing.
    assert "Set ACME_TOKEN" not in result.stdout and "The service was not asked" in result.stdout
    assert requests.get(gateway.url + "/acme/user", timeout=5).status_code == 200
    assert service.last().value("authorization") == f"Bearer {CANARY}"

    # Of this shell, which lacks a variable of another credential, the running gateway needs nothing.
    pasted = add(gateway.folder, "acme", "other", "--with", f"port={port}", "--secret", "-", input="pasted-here")
    assert pasted.returncode == 0 and pasted.stderr == "", pasted
    assert pasted.stdout.endswith("The service was not asked: other secrets of the configuration are not set here.\n"), pasted


# check --acquire


def test_check_acquire_asks_as_well(folder, port):
    assert add(folder, "acme", "--with", f"port={port}").returncode == 0
    good = command("check", "--acquire", cwd=folder, ACME_TOKEN=CANARY)
    assert good.returncode == 0 and "acme: GET /user: the credential is that of ada.\n" in good.stdout, good
    bad = command("check", "--acquire", cwd=folder, ACME_TOKEN="wrong-token")
    assert bad.returncode == 1 and "the service rejects the credential (401)" in bad.stdout, bad
    assert "failed for acme" in bad.stderr


def test_doctor_says_whose_credential_it_is(folder, port):
    assert add(folder, "acme", "--with", f"port={port}").returncode == 0
    good = command("doctor", cwd=folder, ACME_TOKEN=CANARY)
    assert "route acme" in good.stdout and "the credential is that of ada" in good.stdout, good
    bad = command("doctor", cwd=folder, ACME_TOKEN="wrong-token")
    assert bad.returncode == 1 and "the service rejects the credential (401)" in bad.stdout, bad
    assert "Replace the secret of acme, or give its account access." in bad.stdout
    offline = command("doctor", "--offline", cwd=folder, ACME_TOKEN=CANARY)
    assert "GET /user" not in offline.stdout, offline


def test_doctor_says_that_it_could_not_ask(folder, port):
    assert add(folder, "acme", "--with", f"port={port}").returncode == 0
    result = command("doctor", cwd=folder, ACME_TOKEN=CANARY, TMPDIR=str(folder / "not-there"))
    assert "services" in result.stdout and "could not be asked" in result.stdout, result
    assert "authgateway check --acquire" in result.stdout, result


@pytest.mark.slow
def test_doctor_says_that_services_took_too_long(folder):
    """More of them than are asked at a time, and none answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        route = f'{{upstream: "http://127.0.0.1:{silent.getsockname()[1]}", auth: {{strategy: bearer, token: {{env: ACME_TOKEN}}}}, whoami: /user}}'
        routes = "".join(f"  r{index}: {route}\n" for index in range(17))
        (folder / "gateway.yaml").write_text(CONFIG + routes)
        result = command("doctor", cwd=folder, ACME_TOKEN=CANARY, timeout=90)
    assert "did not answer within 30s" in result.stdout and "route r1" not in result.stdout, result


def test_a_locked_credential_asks_nothing(make_gateway, service):
    config = {
        "credentials": {"acme": {"strategy": "exec", "command": ["printenv", "ACME_TOKEN"], "environment": {"ACME_TOKEN": {"env": "ACME_TOKEN"}},
                                 "format": "text"}},
        "routes": {"acme": {"upstream": service.url, "auth": "acme", "whoami": {"path": "/user", "shows": "/login"}}},
    }  # fmt: skip
    gateway = make_gateway(config, environment={"ACME_TOKEN": CANARY})
    gateway.start()
    assert gateway.run("token", "lock", "acme").returncode == 0
    gateway.stop()
    locked = command("check", "--acquire", cwd=gateway.folder, ACME_TOKEN=CANARY)
    assert service.count() == 0 and "GET /user" in locked.stdout and locked.returncode == 1, locked
    assert command("token", "unlock", "acme", cwd=gateway.folder, ACME_TOKEN=CANARY).returncode == 0
    free = command("check", "--acquire", cwd=gateway.folder, ACME_TOKEN=CANARY)
    assert "acme: GET /user: the credential is that of ada.\n" in free.stdout, free


# init


def test_init_writes_a_configuration_for_the_sandbox(tmp_path):
    result = command("init", cwd=tmp_path, input="")
    assert result.returncode == 0 and "\n  authgateway run --sandbox\n" in result.stdout, result
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gateway.yaml", "sandbox.yaml", "state"]
    assert [path.name for path in (tmp_path / "state").iterdir()] == [".gitignore"]
    again = command("init", cwd=tmp_path, input="")
    assert again.returncode == 1 and "gateway.yaml is there already; add a service to it" in again.stderr, again


@pytest.mark.parametrize("port", [8079, 8080, 8081, 22_222])
def test_init_for_the_sandbox_takes_the_port(tmp_path, port):
    """Beside the usual port, where the new one of one listener is the usual one of the other."""
    assert command("init", "--port", port, cwd=tmp_path, input="").returncode == 0
    text = (tmp_path / "gateway.yaml").read_text()
    assert re.findall(r"address: 127\.0\.0\.1:(\d+)", text) == [str(port), str(port + 1)], text
    assert command("check", cwd=tmp_path).returncode == 0


def test_without_the_sandbox_its_routes_are_absent(tmp_path, service):
    """What `init` wrote for the sandbox holds without it, also after `add`."""
    assert command("init", cwd=tmp_path, input="").returncode == 0
    file = tmp_path / "gateway.yaml"
    ports = {8080: processes.free_port(), 8081: processes.free_port()}
    text = file.read_text()
    for usual, free in ports.items():
        text = text.replace(f"127.0.0.1:{usual}", f"127.0.0.1:{free}")
    file.write_text(text)
    checked = command("check", cwd=tmp_path)
    assert (checked.returncode, checked.stderr) == (0, ""), checked
    # A secret that this shell has: the service is asked with the plan of a plain `run`.
    added = command("add", "github", "--upstream", service.url, "--secret", "env:ACME_TOKEN", cwd=tmp_path, ACME_TOKEN=CANARY)
    assert (added.returncode, added.stderr) == (0, "") and "the credential is that of ada" in added.stdout, added
    for arguments, names in [([], ["example", "github"]), (["--sandbox"], ["box", "example", "github"])]:
        process = subprocess.Popen(
            [BINARY, "run", *arguments], cwd=tmp_path, env=processes.environment(ACME_TOKEN=CANARY), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            processes.wait_until(lambda: processes.is_listening(ports[8081]), 20, "it listens")
            found = command("routes", "--json", cwd=tmp_path)
            listed = [route["name"] for route in json.loads(found.stdout)]
            assert set(names) <= set(listed) and ("box" in listed) == bool(arguments), listed
            assert requests.get(f"http://127.0.0.1:{ports[8080]}/github/user", timeout=10).json() == {"login": "ada"}
            # A program as `exec` runs it has the gateway as its proxy.
            program = command("exec", "--", "printenv", "HTTPS_PROXY", "SSL_CERT_FILE", cwd=tmp_path)
            assert program.returncode == 0 and f"http://127.0.0.1:{ports[8080]}" in program.stdout, program
        finally:
            process.terminate()
            said = process.communicate(timeout=30)[1].decode()
        assert (arguments or "SANDBOX_" not in said) and process.returncode == 0, said


def test_init_with_a_preset(tmp_path):
    result = command("init", "github", cwd=tmp_path, input="", GITHUB_TOKEN=None)
    assert result.returncode == 0 and "\n  curl http://127.0.0.1:8080/github/user\n" in result.stdout, result
    assert "Set GITHUB_TOKEN where the gateway starts" in result.stdout
    text = (tmp_path / "gateway.yaml").read_text()
    assert text.startswith("# Adds a valid credential to each request. Serve it:\n#   authgateway run\n")
    assert stat.S_IMODE((tmp_path / "gateway.yaml").stat().st_mode) == 0o600
    assert command("check", "--no-secrets", cwd=tmp_path).returncode == 0
    assert command("fmt", "--check", cwd=tmp_path).returncode == 0


def test_init_with_a_url_is_all_that_a_first_request_needs(make_gateway, service):
    gateway = make_gateway({})
    gateway.file.unlink()
    gateway.admin_port = gateway.port + 1
    arguments = ["init", service.url, "acme", "--secret", "-", "--port", gateway.port]
    result = command(*arguments, cwd=gateway.folder, input=CANARY)
    assert result.returncode == 0 and CANARY not in result.stdout + result.stderr, result
    text = gateway.file.read_text()
    assert "token: {file: ./state/secrets/acme.ACME_TOKEN}" in text and f"upstream: {service.url}" in text
    gateway.start()
    assert requests.get(gateway.url + "/acme/user", timeout=5).json() == {"login": "ada"}
    # The harness looks for secrets in what the gateway leaves.
    (gateway.folder / "state/secrets/acme.ACME_TOKEN").unlink()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["githb"], 1, 'no preset is named "githb"; did you mean "github"?'),
        (["ftp://x.example"], 2, "ftp://x.example: expected a URL"),
        (["--secret", "env:X"], 2, "--with, --secret and --upstream need a service."),
        (["github", "--port", "65535"], 2, "--port must be between 1 and 65534."),
    ],
)
def test_a_mistake_of_init_is_explained(tmp_path, arguments, code, words):
    result = command("init", *arguments, cwd=tmp_path, input="")
    assert result.returncode == code and words in result.stderr, result
    assert list(tmp_path.iterdir()) == []


# presets


def test_presets_are_listed_and_searched(folder):
    listed = command("presets", cwd=folder)
    assert listed.returncode == 0 and "\nacme " in listed.stdout and "\ngithub " in listed.stdout, listed
    found = json.loads(command("presets", "list", "box", "jwt", "--json", cwd=folder).stdout)
    assert [each["name"] for each in found] == ["box-jwt"]
    nothing = command("presets", "list", "no-such-service", cwd=folder)
    assert nothing.returncode == 1 and 'no preset has "no-such-service"' in nothing.stderr, nothing


def test_a_preset_is_shown_with_what_to_bring(folder):
    shown = command("presets", "show", "acme", cwd=folder)
    assert shown.returncode == 0, shown
    assert "  ACME_TOKEN\n    A token of Acme\n    https://acme.example/tokens\n" in shown.stdout
    assert "  with.port\n    The port of the service, for example 80\n" in shown.stdout
    assert '    credentials:\n      acme:\n        preset: acme\n        with: {port: "80"}\n' in shown.stdout
    # From a folder without a configuration, too.
    assert "GITHUB_TOKEN" in command("presets", "show", "github", cwd=folder / "presets").stdout

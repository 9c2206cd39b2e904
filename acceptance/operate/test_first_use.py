"""As a new user would: everything that goes wrong says what is wrong and what to do."""

import re
import signal
import socket
import subprocess
import threading

import pytest
import requests
from harness.configs import CANARY
from harness import examples, processes
from harness.gateway import BINARY, ROOT, command

WRONG = """\
version: 1
routes:
  box:
    upstream: https://api.box.com
    auth:
      strategy: box_ccg
      clientid: abc
      client_secret: {env: BOX_CLIENT_SECRET}
      subject: {enterprise: "1", user: "2"}
"""


def test_every_mistake_is_shown_where_it_is(tmp_path):
    (tmp_path / "gateway.yaml").write_text(WRONG, encoding="utf-8")
    for subcommand in ("check", "run"):
        result = command(subcommand, "--config", "gateway.yaml", cwd=tmp_path, BOX_CLIENT_SECRET=None)
        assert result.returncode == 3, result
        text = result.stderr + result.stdout
        assert 'gateway.yaml:7:7: error: routes.box.auth: unknown key "clientid"; did you mean "client_id"?' in text
        # What stands behind an unknown key could be a secret.
        assert "    7 |       clientid: ***\n      |       ^~~~~~~~\n" in text
        assert re.search(r"gateway\.yaml:8:\d+: error: routes\.box\.auth\.client_secret.*: .*BOX_CLIENT_SECRET", text), text
        assert re.search(r"gateway\.yaml:9:\d+: error: routes\.box\.auth\.subject", text), text
        assert "3 problems; nothing was started." in text


def test_a_missing_file_is_named(tmp_path):
    result = command("check", "--config", "nowhere.yaml", cwd=tmp_path)
    assert result.returncode == 3
    assert "nowhere.yaml" in result.stderr


@pytest.mark.parametrize("arguments", [["frobnicate"], ["run", "--frob"], ["audit", "frob"]])
def test_wrong_usage_is_exit_code_2(tmp_path, arguments):
    result = command(*arguments, cwd=tmp_path)
    assert result.returncode == 2, result
    assert "\nUsage: authgateway" in result.stderr, result


@pytest.mark.parametrize(
    "arguments",
    [[], ["run"], ["check"], ["plan"], ["routes"], ["status"], ["audit"], ["audit", "tail"], ["audit", "query"]]
    + [["audit", "stats"], ["audit", "verify"], ["token"], ["token", "list"], ["token", "refresh"], ["token", "clear"]]
    + [["sandbox"]],
)
def test_every_command_has_help_with_examples(tmp_path, arguments):
    result = command(*arguments, "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert "authgateway" in result.stdout and "xample" in result.stdout


def test_version(tmp_path):
    result = command("version", cwd=tmp_path)
    assert result.returncode == 0 and re.search(r"\d+\.\d+\.\d+", result.stdout)


def test_a_port_in_use_is_exit_code_1_and_is_named(origin, make_gateway):
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}})
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", gateway.port))
        taken.listen()
        result = gateway.run("run")
    assert result.returncode == 1
    assert str(gateway.port) in result.stderr and "in use" in result.stderr


def test_an_unknown_upstream_name_is_a_502_that_names_it(start_gateway):
    gateway = start_gateway({"routes": {"api": {"upstream": "https://nowhere.invalid", "auth": "none"}}})
    answer = requests.get(gateway.url + "/api/x", timeout=30)
    assert answer.status_code == 502
    assert "nowhere.invalid" in answer.text


def test_a_secret_file_that_others_can_read_is_refused(tmp_path, make_gateway, origin):
    secret = tmp_path / "secret"
    secret.write_text(CANARY, encoding="ascii")
    secret.chmod(0o644)
    auth = {"strategy": "bearer", "token": {"file": str(secret)}}
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": auth}}})
    result = gateway.run("check")
    assert result.returncode == 3
    assert str(secret) in result.stderr and "chmod 600" in result.stderr and CANARY not in result.stderr
    secret.chmod(0o600)
    assert gateway.run("check").returncode == 0


def test_a_term_signal_lets_the_request_finish(make_origin, start_gateway):
    arrived, go_on = threading.Event(), threading.Event()

    def slow(request):
        arrived.set()
        go_on.wait(20)
        return b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"

    origin = make_origin(slow)
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}})
    answers = []
    client = threading.Thread(target=lambda: answers.append(requests.get(gateway.url + "/api/x", timeout=30)))
    client.start()
    assert arrived.wait(10)
    gateway.process.send_signal(signal.SIGTERM)
    processes.wait_until(lambda: not processes.is_listening(gateway.port), 10, "it accepts nothing new")
    assert gateway.process.poll() is None
    go_on.set()
    client.join()
    assert answers[0].text == "done"
    assert gateway.process.wait(20) == 0


def test_a_second_signal_ends_it_at_once(make_origin, start_gateway):
    arrived, never = threading.Event(), threading.Event()

    def silent(request):
        arrived.set()
        never.wait(60)
        return b""

    origin = make_origin(silent)
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}})

    def client():
        try:
            requests.get(gateway.url + "/api/x", timeout=60)
        except requests.RequestException:
            pass

    thread = threading.Thread(target=client)
    thread.start()
    assert arrived.wait(10)
    gateway.process.send_signal(signal.SIGINT)
    processes.wait_until(lambda: not processes.is_listening(gateway.port), 10, "it accepts nothing new")
    gateway.expected_ends = {1}
    gateway.process.send_signal(signal.SIGINT)
    assert gateway.process.wait(5) == 1
    never.set()
    thread.join()


def test_the_example_configurations_are_whole(tmp_path):
    files = examples.whole()
    assert len(files) > 18
    examples.write_what_they_read(tmp_path)
    wrong = {}
    for example in files:
        text = example.read_text(encoding="utf-8")
        copy = tmp_path / example.name
        copy.write_text(text, encoding="utf-8")
        result = command("check", "--config", copy, cwd=tmp_path, **examples.variables(text))
        if result.returncode != 0:
            wrong[example.name] = result.stderr
    assert not wrong, "\n".join(wrong.values())


@pytest.mark.parametrize("page", ["README.md", "docs/configuration.md"])
def test_what_the_documentation_shows_is_whole(tmp_path, certificate_authority, page):
    text = (ROOT / page).read_text(encoding="utf-8")
    [config] = re.findall(r"```yaml\n(version: 1\n.*?)```", text, re.DOTALL)
    (tmp_path / "gateway.yaml").write_text(config, encoding="utf-8")
    for name in set(re.findall(r"file: ([\w./-]+)", config)):
        secret = tmp_path / name
        secret.parent.mkdir(exist_ok=True)
        secret.touch(mode=0o600)
        secret.write_text("a-secret-of-some-length", encoding="ascii")
    certificate, key = certificate_authority.issue("documented", "DNS:localhost")
    for name, source in {"cert": certificate, "key": key, "ca": certificate_authority.certificate, "corp-ca": certificate_authority.certificate}.items():
        (tmp_path / f"{name}.pem").write_bytes(source.read_bytes())
    variables = {name: "1234" for pair in re.findall(r"\$\{(\w+)|\benv: (\w+)", config) for name in pair if name}
    result = command("check", "--config", "gateway.yaml", cwd=tmp_path, **variables)
    assert result.returncode == 0, result.stderr


@pytest.mark.root
def test_in_an_empty_folder_the_sandbox_brings_its_configuration(tmp_path, network):
    """The network is the test's own, so that the ports of that configuration are free."""
    file, routes = tmp_path / "gateway.yaml", tmp_path / "sandbox.yaml"
    # Their first lines name a file of the repository.
    expected, sandbox = ((ROOT / path.name).read_text(encoding="utf-8").partition("\n")[2] for path in (file, routes))

    def served():
        process = subprocess.Popen(
            [BINARY, "run", "--sandbox"], cwd=tmp_path, env=processes.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            processes.wait_until(lambda: processes.is_listening(8080), 20, "it listens")
            assert requests.get("http://127.0.0.1:8080/reports/echo", timeout=10).status_code == 200
        finally:
            process.terminate()
        return process.communicate(timeout=20)[1].decode()

    assert "Wrote gateway.yaml and sandbox.yaml" in served()
    assert file.read_text(encoding="utf-8") == expected and file.stat().st_mode & 0o777 == 0o600
    assert routes.read_text(encoding="utf-8") == sandbox and routes.stat().st_mode & 0o777 == 0o600
    mine = expected.replace("workers: auto", "workers: 1")
    file.write_text(mine, encoding="utf-8")
    assert "Wrote" not in served()
    assert file.read_text(encoding="utf-8") == mine


@pytest.mark.parametrize(
    "arguments, variable", [(["run"], None), (["run", "--sandbox", "--config", "other.yaml"], None), (["run", "--sandbox"], "other.yaml")]
)
def test_no_configuration_is_made_up_where_one_was_meant(tmp_path, arguments, variable):
    result = command(*arguments, cwd=tmp_path, AUTHGATEWAY_CONFIG=variable)
    assert result.returncode == 3 and "no such file" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["notes.txt", ".git", "gateway.yml"])
def test_a_folder_with_other_files_gets_no_configuration_unasked(tmp_path, name):
    (tmp_path / name).touch()
    result = command("run", "--sandbox", cwd=tmp_path)
    assert result.returncode == 3 and "this folder is not empty" in result.stderr and "authgateway init" in result.stderr, result
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_first_run_serves_the_sandbox(tmp_path):
    proxy, admin = processes.free_port(), processes.free_port()
    text = (ROOT / "gateway.yaml").read_text(encoding="utf-8")
    assert "127.0.0.1:8080" in text and "127.0.0.1:8081" in text
    config = tmp_path / "gateway.yaml"
    config.write_text(
        text.replace("127.0.0.1:8080", f"127.0.0.1:{proxy}").replace("127.0.0.1:8081", f"127.0.0.1:{admin}"),
        encoding="utf-8",
    )
    (tmp_path / "sandbox.yaml").write_bytes((ROOT / "sandbox.yaml").read_bytes())
    process = subprocess.Popen(
        [BINARY, "run", "--sandbox", "--config", str(config)],
        cwd=tmp_path,
        env=processes.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    log = bytearray()

    def read():
        while chunk := process.stdout.read1(65536):
            log.extend(chunk)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        processes.wait_until(lambda: log.count(b"curl ") >= 3, 30, lambda: f"three lines to paste:\n{log.decode()}")
        lines = [line.strip() for line in log.decode().splitlines() if line.strip().startswith("curl ")]
        for line in lines[:3]:
            result = subprocess.run(
                line.replace("curl ", "curl -sS --fail-with-body --max-time 20 ", 1),
                check=False,
                shell=True,
                capture_output=True,
                text=True,
                timeout=30,
                cwd=tmp_path,
                env=processes.environment(),
            )
            assert result.returncode == 0, f"{line}\n{result}\n{log.decode()}"
        query = "select event, credential from token_events where event = 'acquired'"
        shell = subprocess.run(
            ["sqlite3", str(tmp_path / "state/audit.sqlite"), query], check=False, capture_output=True, text=True, timeout=20
        )
        assert shell.returncode == 0 and "acquired|" in shell.stdout, shell
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) == 0
        reader.join(5)
        process.stdout.close()

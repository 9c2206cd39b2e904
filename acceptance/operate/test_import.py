"""`import`: services of other programs' files become credentials and routes; their secrets never stand in the YAML."""

import json
import os
import stat

import pytest
from harness.configs import CANARY
from harness.gateway import command

START = """\
version: 1
state_directory: ./state

# Mine.
routes:
  open: {upstream: 'https://a.example', auth: none}
"""

NETRC = f"machine api.example.com login me password {CANARY}\nmachine other.example.org login me password {CANARY}\n"
NGINX = (
    "http { server { location / { proxy_pass https://api.example.com/v1/;"
    f' proxy_set_header Authorization "Bearer {CANARY}"; }} }} }}\n'
)
INJECTOR = "type.googleapis.com/envoy.extensions.filters.http.credential_injector.v3.CredentialInjector"
ENVOY = f"""\
static_resources:
  listeners:
    - filter_chains:
        - filters:
            - typed_config:
                http_filters:
                  - typed_config:
                      "@type": {INJECTOR}
                      credential:
                        typed_config:
                          "@type": type.googleapis.com/envoy.extensions.http.injected_credentials.generic.v3.Generic
                          credential: {{name: token}}
                route_config: {{virtual_hosts: [{{routes: [{{route: {{cluster: api}}}}]}}]}}
  clusters:
    - name: api
      transport_socket: {{name: tls}}
      load_assignment:
        endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address:
          {{address: api.example.com, port_value: 443}}}}}}}}]}}]
  secrets: [{{name: token, generic_secret: {{secret: {{inline_string: "Bearer {CANARY}"}}}}}}]
"""
DOCKER = '{"auths": {"registry.example.com": {"auth": "bWU6Q0FOQVJZLTVmMmM5YQ=="}}}\n'


def start(folder):
    file = folder / "gateway.yaml"
    file.write_text(START, encoding="utf-8")
    return file


def source(folder, text):
    (folder / "source").write_text(text, encoding="utf-8")
    return "source"


def secret(folder):
    [file] = (folder / "state/secrets").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return file.read_text()


@pytest.mark.parametrize(
    ("option", "text", "upstream", "strategy"),
    [
        ("--netrc", NETRC, "https://api.example.com", "basic"),
        ("--nginx", NGINX, "https://api.example.com/v1", "bearer"),
        ("--envoy", ENVOY, "https://api.example.com", "bearer"),
        ("--docker", DOCKER, "https://registry.example.com", "basic"),
    ],
)
def test_a_secret_in_clear_goes_to_a_file_of_its_own(tmp_path, option, text, upstream, strategy):
    file = start(tmp_path)
    host = ["--host", "api.example.com"] if option == "--netrc" else []
    result = command("import", option, source(tmp_path, text), *host, "--yes", cwd=tmp_path)
    written = file.read_text()
    assert result.returncode == 0 and CANARY not in result.stdout + result.stderr + written, result
    assert "is still there" in result.stdout and "state/secrets/example (mode 0600)" in result.stdout, result
    assert secret(tmp_path) == CANARY
    assert f"credentials:\n  example:\n    strategy: {strategy}\n" in written
    assert f"  example:\n    upstream: {upstream}\n    auth: example\n" in written
    assert "# Mine.\nroutes:\n  open: {upstream: 'https://a.example', auth: none}\n" in written
    checked = command("check", cwd=tmp_path)
    assert checked.returncode == 0, checked


@pytest.mark.parametrize(
    ("registry", "preset"), [("https://index.docker.io/v1/", "docker-hub"), ("ghcr.io", "ghcr"), ("quay.io", "quay")]
)
def test_a_registry_with_a_token_server_is_imported_with_its_preset(tmp_path, registry, preset):
    file = start(tmp_path)
    text = DOCKER.replace("registry.example.com", registry)
    result = command("import", "--docker", source(tmp_path, text), "--yes", cwd=tmp_path)
    assert result.returncode == 0 and CANARY not in result.stdout + result.stderr + file.read_text(), result
    assert secret(tmp_path) == CANARY
    checked = command("check", cwd=tmp_path)
    assert checked.returncode == 0, checked
    plan = json.loads(command("plan", "--json", cwd=tmp_path).stdout)
    assert [found["strategy"] for found in plan["credentials"]] == ["registry"], plan
    assert f"credentials:\n  {preset}:\n    preset: {preset}\n    username: me\n" in file.read_text()


def test_a_curl_command_is_read_from_standard_input_and_its_variable_is_named(tmp_path):
    file = start(tmp_path)
    text = "curl -H \"Authorization: Bearer $API_TOKEN\" 'https://api.example.com/v1/things?page=2'"
    result = command("import", "--curl", "-", "--yes", cwd=tmp_path, input=text)
    assert result.returncode == 0 and "set API_TOKEN where the gateway is started" in result.stdout, result
    assert "token: {env: API_TOKEN}" in file.read_text() and not (tmp_path / "state").exists()


def test_a_document_of_openapi_names_variables(tmp_path):
    file = start(tmp_path)
    schemes = '{"securitySchemes": {"a": {"type": "http", "scheme": "bearer"}}}'
    text = f'{{"openapi": "3.0.0", "info": {{"title": "Pets"}}, "components": {schemes}}}'
    nowhere = command("import", "--openapi", source(tmp_path, text), "--yes", cwd=tmp_path)
    assert nowhere.returncode == 1 and "add --upstream URL" in nowhere.stderr, nowhere
    result = command("import", "--openapi", "source", "--upstream", "https://pets.example.com", "--yes", cwd=tmp_path)
    assert result.returncode == 0 and "token: {env: PETS_TOKEN}" in file.read_text(), result


def test_gh_is_asked_for_its_token(tmp_path):
    file = start(tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/gh"
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    program.write_text(f"#!/bin/sh\n[ \"$*\" = 'auth token' ] && echo {CANARY}\n")
    program.chmod(0o755)
    result = command("import", "--gh", "--yes", cwd=tmp_path, PATH=path)
    assert result.returncode == 0 and CANARY not in result.stdout + result.stderr, result
    assert "token: {exec: [gh, auth, token]}" in file.read_text() and "asks for it with: gh auth token" in result.stdout
    program.write_text("#!/bin/sh\nexit 1\n")
    refused = command("import", "--gh", "--yes", cwd=tmp_path, PATH=path)
    assert refused.returncode == 1 and "gh auth login" in refused.stderr, refused


def test_nothing_is_left_without_an_answer_or_a_service(tmp_path):
    file = start(tmp_path)
    silent = command("import", "--netrc", source(tmp_path, NETRC), cwd=tmp_path)
    assert silent.returncode == 2 and "add --yes" in silent.stderr, silent
    nothing = command("import", "--netrc", "source", "--host", "none.example.com", "--yes", cwd=tmp_path)
    assert nothing.returncode == 1 and "there are api.example.com, other.example.org" in nothing.stderr, nothing
    several = command("import", "--netrc", "source", "--gh", cwd=tmp_path)
    assert several.returncode == 2 and "Give one of" in several.stderr, several
    assert file.read_text() == START and not (tmp_path / "state").exists()


def test_what_would_be_no_valid_configuration_leaves_no_secret_behind(tmp_path):
    file = start(tmp_path)
    text = NGINX.replace("https://api", "http://api")
    result = command("import", "--nginx", source(tmp_path, text), "--yes", cwd=tmp_path)
    assert result.returncode == 3 and CANARY not in result.stdout + result.stderr, result
    assert file.read_text() == START and not (tmp_path / "state").exists()

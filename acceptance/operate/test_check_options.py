"""`check FILE`, `check --json` and `check --no-secrets`."""

import json
import resource
import stat

import pytest
from harness.configs import CANARY
from harness.gateway import command

WHOLE = """\
version: 1
access:
  clients:
    ci: {token: {env: CI_TOKEN}}
routes:
  api: {upstream: "${UPSTREAM}", auth: {strategy: bearer, token: {exec: [./token]}}, clients: [ci]}
  box:
    upstream: https://api.box.com
    auth: {strategy: box_jwt, app_settings: /run/secrets/box.json}
"""
WRONG = """\
version: 1
routes:
  api:
    upsteam: https://api.example.com
    auth: {strategy: bearer, token: %s}
"""


def write(folder, text, name="gateway.yaml"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_the_file_is_named_as_an_argument(tmp_path):
    write(tmp_path, WHOLE.replace("upstream", "upsteam"), "other.yaml")
    result = command("check", "other.yaml", cwd=tmp_path)
    assert result.returncode == 3 and "other.yaml:6:" in result.stderr, result
    twice = command("check", "other.yaml", "--config", "other.yaml", cwd=tmp_path)
    assert twice.returncode == 2 and "once" in twice.stderr, twice


def test_the_environment_names_the_file(tmp_path):
    write(tmp_path, WHOLE.replace("version: 1", "version: 2"), "other.yaml")
    named = command("check", "--no-secrets", cwd=tmp_path, AUTHGATEWAY_CONFIG="other.yaml")
    assert named.returncode == 3 and "other.yaml:1:10" in named.stderr, named
    write(tmp_path, WHOLE, "good.yaml")
    option = command("check", "--no-secrets", "--config", "good.yaml", cwd=tmp_path, AUTHGATEWAY_CONFIG="other.yaml")
    assert option.returncode == 0, "the option counts before the variable"
    empty = command("check", cwd=tmp_path, AUTHGATEWAY_CONFIG="")
    assert empty.returncode == 3 and "gateway.yaml" in empty.stderr, empty


def test_json_has_the_place_of_each_mistake_and_no_secret(tmp_path):
    write(tmp_path, WRONG % CANARY)
    result = command("check", "--json", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (3, "") and CANARY not in result.stdout, result
    report = json.loads(result.stdout)
    assert report["valid"] is False
    assert (report["errors"], report["warnings"]) == (1, 1)
    [error] = [each for each in report["diagnostics"] if each["severity"] == "error"]
    assert (error["file"], error["line"], error["column"], error["length"]) == ("gateway.yaml", 4, 5, 7)
    assert error["path"] == "routes.api" and 'did you mean "upstream"?' in error["message"]


def test_json_of_a_whole_configuration(tmp_path):
    write(tmp_path, "version: 1\nroutes: {api: {upstream: https://api.example.com, auth: none}}\n")
    result = command("check", "--json", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, ""), result
    assert json.loads(result.stdout) == {"valid": True, "errors": 0, "warnings": 0, "diagnostics": []}


def test_json_of_a_missing_file(tmp_path):
    result = command("check", "--json", "nowhere.yaml", cwd=tmp_path)
    assert result.returncode == 3
    [error] = json.loads(result.stdout)["diagnostics"]
    assert error["file"] == "nowhere.yaml" and "no such file" in error["message"]


def test_without_secrets_nothing_is_read_and_nothing_runs(tmp_path):
    program = write(tmp_path, "#!/bin/sh\ntouch ran\necho secret\n", "token")
    program.chmod(stat.S_IRWXU)
    write(tmp_path, WHOLE)
    assert command("check", cwd=tmp_path).returncode == 3
    (tmp_path / "ran").unlink()
    result = command("check", "--no-secrets", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, ""), result
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("wrong, words", [
    (WHOLE.replace("clients: [ci]", "clients: [cl]"), 'no client is named "cl"; did you mean "ci"?'),
    (WHOLE.replace("exec", "exce"), 'unknown key "exce"; did you mean "exec"?'),
    (WHOLE.replace("box_jwt", "box_jtw"), 'did you mean "box_jwt"?'),
])
def test_without_secrets_the_rest_is_checked(tmp_path, wrong, words):
    write(tmp_path, wrong)
    result = command("check", "--no-secrets", cwd=tmp_path)
    assert result.returncode == 3 and words in result.stderr, result


@pytest.mark.parametrize("other", ["--no-secrets", "--json"])
def test_acquire_needs_the_secrets_and_has_no_json(tmp_path, other):
    result = command("check", "--acquire", other, cwd=tmp_path)
    assert result.returncode == 2 and other in result.stderr, result


def test_advice_names_what_there_is(tmp_path):
    write(tmp_path, "version: 1\nroutes:\n  api:\n    upstream: https://a.example\n    auth: {strategy: client_secret_basic}\n")
    result = command("check", cwd=tmp_path)
    assert result.returncode == 3 and '"oauth2_client_credentials" with "client_auth: basic"' in result.stderr, result
    write(tmp_path, "version: 1\nroutes:\n  api: https://a.example\n")
    result = command("check", cwd=tmp_path)
    assert "= for example:\n          api:\n            upstream: https://api.example.com\n" in result.stderr, result


def test_a_file_with_warnings_has_them_in_its_summary(tmp_path):
    """It said "no problem." beside them."""
    write(tmp_path, "version: 1\ncredentials:\n  idle: {strategy: none}\nroutes:\n  api: {upstream: https://a.example, auth: none}\n")
    result = command("check", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "gateway.yaml: 1 route, 1 credential, 1 warning.\n"), result
    assert "no route uses this credential" in result.stderr
    result = command("check", "--no-secrets", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "gateway.yaml: 1 warning; no secret was read.\n"), result


def test_a_warning_that_follows_from_an_error_comes_behind_it(tmp_path):
    write(tmp_path, "version: 1\ncredentials:\n  one: {strategy: none}\nroutes:\n  api: {upstream: https://a.example, auth: two}\n")
    result = command("check", cwd=tmp_path)
    assert result.returncode == 3
    cause, effect = 'no credential is named "two"', "no route uses this credential"
    assert 0 < result.stderr.find(cause) < result.stderr.find(effect), result


@pytest.mark.parametrize("arguments, meant", [
    (["statsu"], "authgateway status"), (["validate"], "authgateway check"), (["audit", "tial"], "authgateway audit tail")
])
def test_a_subcommand_that_does_not_exist_is_corrected(tmp_path, arguments, meant):
    result = command(*arguments, cwd=tmp_path)
    assert result.returncode == 2 and f"Did you mean this?\n  {meant}\n" in result.stderr, result


def test_a_key_is_explained(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    explained = command("config", "explain", "limits.drain", cwd=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert explained.returncode == 0, explained
    # About 10 ms; asking every decoder took seconds.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.2
    for words in ("a duration from 0s to 1h", "30s", "limits:\n      drain: 10s"):
        assert words in explained.stdout, explained
    [key] = json.loads(command("config", "explain", "credentials.box.strategy", "--json", cwd=tmp_path).stdout)
    assert key["path"] == "credentials.NAME.strategy" and key["example"], key
    unknown = command("config", "explain", "limits.drian", cwd=tmp_path)
    assert unknown.returncode == 1 and "authgateway config explain limits.drain" in unknown.stderr, unknown
    listed = command("config", "explain", cwd=tmp_path)
    assert listed.returncode == 0 and "state_directory" in listed.stdout and "oauth2_password" in listed.stdout

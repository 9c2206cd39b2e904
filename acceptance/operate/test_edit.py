"""`remove` and `fmt`: a configuration is edited, and everything else in it stays."""

import json
import os
import stat

from harness.configs import CANARY
from harness.gateway import command

TEXT = f"""\
version: 1

credentials:
  # Of the first.
  box: {{strategy: bearer, token: {CANARY}}}
  # Of the second.
  github:
    strategy: bearer
    token: {{env: GITHUB_TOKEN}}
    # Deeper: still of the second.

routes:
  box: {{upstream: "https://api.box.com", auth: box}}   # Behind it.
  github: {{upstream: "https://api.github.com", auth: github}}
  issues: {{upstream: "https://api.github.com/issues", auth: {{credential: github}}}}
"""


def write(folder, text=TEXT, name="gateway.yaml"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_route_is_removed_and_the_rest_stays(tmp_path):
    file = write(tmp_path)
    file.chmod(0o640)
    result = command("remove", "issues", "--yes", cwd=tmp_path)
    assert result.returncode == 0 and CANARY not in result.stdout + result.stderr, result
    assert "\n-  issues: {upstream:" in result.stdout and "Wrote gateway.yaml." in result.stdout, result
    assert file.read_text() == TEXT[: TEXT.index("  issues:")]
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["gateway.yaml"]


def test_a_credential_in_use_stays_unless_its_routes_go_as_well(tmp_path):
    file = write(tmp_path, TEXT.replace("  github: {upstream", "  hub: {upstream"))
    refused = command("remove", "github", "--yes", cwd=tmp_path)
    assert refused.returncode == 1, refused
    assert "is used by the routes hub, issues; add --with-routes" in refused.stderr, refused
    result = command("remove", "github", "--with-routes", "--yes", cwd=tmp_path)
    assert result.returncode == 0, result
    text = file.read_text()
    assert "github" not in text and "second" not in text and text.startswith(TEXT[: TEXT.index("  # Of the second.")])


def test_a_name_of_both_kinds_is_asked_for(tmp_path):
    file = write(tmp_path)
    result = command("remove", "github", "--yes", cwd=tmp_path)
    assert result.returncode == 2 and "\n  authgateway remove github --with-routes" in result.stderr, result
    assert command("remove", "github", "--route", "--yes", cwd=tmp_path).returncode == 0
    assert "\n  github:\n" in file.read_text() and "github.com," not in file.read_text()


def test_nothing_is_written_without_an_answer_or_a_name(tmp_path):
    file = write(tmp_path)
    silent = command("remove", "issues", cwd=tmp_path)
    assert silent.returncode == 2 and "add --yes" in silent.stderr and "-  issues:" in silent.stdout, silent
    unknown = command("remove", "isues", "--yes", cwd=tmp_path)
    assert unknown.returncode == 1 and 'did you mean "issues"?' in unknown.stderr, unknown
    assert file.read_text() == TEXT


def test_a_running_gateway_says_what_it_makes_of_it(make_gateway):
    gateway = make_gateway({})
    # Commands edit files with a key on each line.
    keys = json.loads(gateway.file.read_text()).items()
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in keys if key != "routes")
    gateway.file.write_text(text + 'routes:\n  here: {upstream: "http://127.0.0.1:9/", auth: none}\n')
    gateway.start()
    process = f"The running gateway (process {gateway.process.pid})"
    refused = gateway.run("add", "github", "--secret", "env:MISSING_TOKEN", "--no-whoami")
    assert refused.returncode == 0 and f"{process} did not load it:" in refused.stdout, refused
    assert "MISSING_TOKEN is not set in the environment of the running gateway" in refused.stdout, refused
    removed = gateway.run("remove", "github", "--with-routes", "--yes")
    assert removed.returncode == 0 and f"{process} serves it now." in removed.stdout, removed


def test_what_would_be_no_valid_configuration_is_not_written(tmp_path):
    file = write(tmp_path)
    result = command("remove", "github", "--credential", "--yes", cwd=tmp_path)
    assert result.returncode == 1, result
    text = "version: 1\nroutes:\n  a: {upstream: 'https://a.example', auth: none}\n  b: {upstreem: x}\n"
    file = write(tmp_path, text)
    broken = command("remove", "a", "--yes", cwd=tmp_path)
    assert broken.returncode == 3 and "upstreem" in broken.stderr and file.read_text() == text, broken
    assert command("remove", "b", "--yes", cwd=tmp_path).returncode == 0, "what is wrong can be removed"


def test_a_file_that_is_included_twice_takes_no_other_ones_place(tmp_path):
    write(tmp_path, "version: 1\ninclude: [empty.yaml, empty.yaml, one.yaml, two.yaml]\n")
    write(tmp_path, "{}\n", "empty.yaml")
    one = write(tmp_path, 'routes:\n  a: {upstream: "http://127.0.0.1:9", auth: none}\n  b: {upstream: "http://127.0.0.1:9", auth: none}\n', "one.yaml")
    two = write(tmp_path, 'routes:\n  c: {upstream: "http://127.0.0.1:9", auth: none}\n', "two.yaml")
    before = two.read_text()
    result = command("remove", "a", "--yes", cwd=tmp_path)
    assert result.returncode == 0 and "Wrote one.yaml." in result.stdout, result
    assert "  a:" not in one.read_text() and "  b:" in one.read_text() and two.read_text() == before


def test_the_entry_may_stand_in_an_included_file_behind_a_link(tmp_path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "real").mkdir()
    first = "routes:\n  a: {upstream: 'https://a.example', auth: none}\n"
    real = write(tmp_path / "real", first + "  # Of b.\n  b: {upstream: 'https://b.example', auth: none}\n")
    os.symlink(real, tmp_path / "conf.d/one.yaml")
    main = write(tmp_path, "version: 1\ninclude: conf.d/*.yaml\n")
    result = command("remove", "b", "--yes", cwd=tmp_path)
    assert result.returncode == 0 and "--- conf.d/one.yaml" in result.stdout, result
    assert real.read_text() == first
    assert (tmp_path / "conf.d/one.yaml").is_symlink() and main.read_text().startswith("version: 1\ninclude")


def test_fmt_changes_the_looks_and_nothing_else(tmp_path):
    text = "version:   1\nroutes:\n    # Of a.\n    a:\n        upstream: 'https://a.example'  \n"
    text += "        auth: none\n\n\n"
    file = write(tmp_path, text)
    checked = command("fmt", "--check", cwd=tmp_path)
    assert checked.returncode == 1 and checked.stdout.startswith("--- gateway.yaml\n+++ "), checked
    assert "\n-version:   1\n" in checked.stdout and "\n+version: 1\n" in checked.stdout, checked
    assert file.read_text() == text
    result = command("fmt", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "Formatted gateway.yaml.\n"), result
    expected = "version: 1\n\nroutes:\n  # Of a.\n  a:\n    upstream: 'https://a.example'\n    auth: none\n"
    assert file.read_text() == expected
    again = command("fmt", "--check", "gateway.yaml", cwd=tmp_path)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", ""), again
    write(tmp_path, "version: 1\n  routes: {\n")
    broken = command("fmt", cwd=tmp_path)
    assert broken.returncode == 3 and "gateway.yaml:2:" in broken.stderr, broken

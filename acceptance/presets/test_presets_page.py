"""docs/reference/presets.md lists the presets of the program, and docs/presets.md shows how they are used."""

import re

from harness import golden, preset_page
from harness.gateway import ROOT, command


def test_the_page_is_what_the_program_says():
    advice = "write it again: PYTHONPATH=acceptance python3 -m harness.preset_page"
    assert preset_page.PAGE.read_text(encoding="utf-8") == preset_page.page(preset_page.known()), advice


def test_the_program_has_the_presets_of_the_folder():
    assert [preset["name"] for preset in preset_page.known()] == sorted(golden.presets())


def test_the_configuration_on_the_page_is_whole(tmp_path):
    text = (ROOT / "docs/presets.md").read_text(encoding="utf-8")
    [config] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "gateway.yaml").write_text(config, encoding="utf-8")
    (tmp_path / "gitlab.token").touch(mode=0o600)
    (tmp_path / "gitlab.token").write_text("a-token-of-some-length", encoding="ascii")
    secrets = {"BUILDKITE_API_TOKEN": "a-token-of-some-length", "STRIPE_API_KEY": "a-token-of-some-length"}
    result = command("check", cwd=tmp_path, **secrets)
    assert (result.returncode, result.stdout) == (0, "gateway.yaml: 4 routes, 3 credentials, no problem.\n"), result

"""`authgateway explain-error`, and the page that is made from its texts."""

import json
import re

import pytest
from harness.gateway import ROOT, command
from harness.schema import all_keys

ALL = "docs/errors.md"


def entries():
    return json.loads(command("explain-error", "--json", cwd=ROOT).stdout)


def test_the_list_and_the_page_have_the_same_entries():
    page = (ROOT / ALL).read_text(encoding="utf-8")
    listed = command("explain-error", cwd=ROOT).stdout
    codes = [code for entry in entries() for code in entry["codes"]]
    assert len(codes) > 90
    for code in codes:
        assert re.search(rf"^\|.*`{code}`.*\|$", page, re.MULTILINE), code
        assert re.search(rf"^{code} ", listed, re.MULTILINE), code
    for entry in entries():
        assert entry["advice"]["remedy"] in page, entry


def test_an_entry_says_who_can_fix_it():
    result = command("explain-error", "urn:authgateway:problem:login-required", cwd=ROOT)
    assert result.returncode == 0
    assert "status 503" in result.stdout and "who can fix it: the operator of the gateway" in result.stdout
    assert "\n    authgateway login NAME\n" in result.stdout


@pytest.mark.parametrize("word, meant", [("login-requierd", "login-required"), ("no-rout", "no-route"), ("zzzz", None)])
def test_another_word_is_an_error_that_says_what_was_meant(word, meant):
    result = command("explain-error", word, cwd=ROOT)
    assert result.returncode == 1
    assert (f'did you mean "{meant}"' if meant else "`authgateway explain-error` lists them") in result.stderr


def test_each_key_that_an_entry_names_is_one():
    commands = {command for entry in entries() for command in entry["advice"]["commands"] if " config explain " in command}
    assert len(commands) > 5
    assert [each for each in commands if each.rpartition(" ")[2].rpartition(".")[2] not in all_keys()] == []

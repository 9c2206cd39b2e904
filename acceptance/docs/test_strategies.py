"""docs/strategies has a page for each strategy of the schema, with its presets and what goes wrong."""

import json
import re

import pytest
from harness import preset_page
from harness.documents import blocks, links
from harness.examples import ROOT
from harness.gateway import command
from harness.schema import SCHEMA

#: As the schema has them.
STRATEGIES = [choice["if"]["properties"]["strategy"]["const"] for choice in SCHEMA["$defs"]["credential"]["else"]["allOf"]]
HEADINGS = ["Example", "Presets", "Keys", "What is sent", "Renewal", "What goes wrong", "Limits"]


def page(strategy):
    return (preset_page.STRATEGIES / f"{strategy}.md").read_text(encoding="utf-8")


def section(strategy, heading):
    return page(strategy).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_each_strategy_has_a_page():
    assert sorted(preset_page.strategy_pages()) == sorted(STRATEGIES)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_page_has_the_same_sections_as_the_others(strategy):
    assert page(strategy).startswith(f"# {strategy}\n")
    assert re.findall(r"^## (.*)$", page(strategy), re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_page_shows_a_whole_configuration_with_the_strategy_and_a_request(strategy):
    [config] = [block for block in blocks(f"docs/strategies/{strategy}.md") if block.is_whole]
    assert re.search(rf"\bstrategy: {strategy}\b" if strategy != "none" else "auth: none\n", config.text)
    assert re.search(r"^(GET|POST) /\S* HTTP/1.1$", section(strategy, "What is sent"), re.MULTILINE)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_page_names_the_presets_of_the_strategy(strategy):
    advice = "write it again: python acceptance/harness/preset_page.py"
    [found] = preset_page.SECTION.findall(page(strategy))
    assert found == preset_page.section(strategy, preset_page.known()), advice


def test_each_preset_has_a_strategy_of_the_schema():
    assert {preset["strategy"] for preset in preset_page.known()} <= set(STRATEGIES)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_goes_wrong_are_codes_that_the_program_knows(strategy):
    known = {code for entry in json.loads(command("explain-error", "--json", cwd=ROOT).stdout) for code in entry["codes"]}
    named = re.findall(r"\[`([\w-]+)`\]\(\.\./errors\.md", section(strategy, "What goes wrong"))
    assert named and set(named) <= known, set(named) - known


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_index_leads_to_each_page(strategy):
    assert f"{strategy}.md" in links("docs/strategies/README.md")

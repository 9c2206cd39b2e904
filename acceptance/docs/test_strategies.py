"""docs/strategies describes each strategy of the schema, with a configuration, a request, and what goes wrong."""

import json
import re

import pytest
from harness import preset_page
from harness.documents import blocks, links
from harness.examples import ROOT
from harness.gateway import command
from harness.reference_page import strategy_places
from harness.schema import SCHEMA

#: As the schema has them.
STRATEGIES = [choice["if"]["properties"]["strategy"]["const"] for choice in SCHEMA["$defs"]["credential"]["else"]["allOf"]]
PAGES = sorted(f"docs/strategies/{path.name}" for path in (ROOT / "docs/strategies").glob("*.md"))


def section(strategy):
    """What stands below the heading of the strategy, with the page that has it."""
    page = f"docs/strategies/{strategy_places()[strategy].partition('#')[0]}"
    text = (ROOT / page).read_text(encoding="utf-8")
    return page, text.partition(f"\n## {strategy}\n")[2].partition("\n## ")[0]


def test_each_strategy_has_one_section():
    headings = [heading for page in PAGES for heading in re.findall(r"^## ([a-z0-9_]+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)]
    assert sorted(headings) == sorted(STRATEGIES)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_section_shows_a_whole_configuration_with_the_strategy_and_a_request(strategy):
    page, text = section(strategy)
    [config] = [block for block in blocks(page, text) if block.is_whole]
    assert re.search(rf"\bstrategy: {strategy}\b" if strategy != "none" else "auth: none\n", config.text)
    assert re.search(r"^(GET|POST) /\S* HTTP/1.1$", text, re.MULTILINE)


def test_each_preset_has_a_strategy_of_the_schema():
    assert {preset["strategy"] for preset in preset_page.known()} <= set(STRATEGIES)


@pytest.mark.parametrize("page", PAGES)
def test_what_goes_wrong_are_codes_that_the_program_knows(page):
    known = {code for entry in json.loads(command("explain-error", "--json", cwd=ROOT).stdout) for code in entry["codes"]}
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"\[`([\w-]+)`\]\(\.\./errors\.md", text)
    assert (named or page == "docs/strategies/README.md") and set(named) <= known, set(named) - known


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_index_leads_to_each_section(strategy):
    assert strategy_places()[strategy] in links("docs/strategies/README.md")


@pytest.mark.parametrize("strategy", [strategy for strategy in STRATEGIES if strategy != "none"])
def test_the_reference_has_a_page_for_each_strategy(strategy):
    text = (ROOT / f"docs/reference/strategies/{strategy}.md").read_text(encoding="utf-8")
    assert f"](../../strategies/{strategy_places()[strategy]})" in text

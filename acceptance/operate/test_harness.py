"""Rules for the acceptance tests: what the harness has, no test module writes once more."""

import ast
import re

import pytest
from harness.gateway import ROOT

MODULES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "acceptance").glob("*/test_*.py"))}
BEARER = re.compile(r'\{\s*"strategy":\s*"bearer",\s*"token":\s*(CANARY|"CANARY-5f2c9a"),?\s*\}')


def attributes(text):
    return {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize(
    "is_wrong, instead",
    [
        (lambda text: BEARER.search(text), "BEARER of harness/configs.py"),
        (lambda text: "TokenServer(" in text, "the fixtures token_server and make_token_server"),
        (lambda text: '"AUTHGATEWAY_SEED"' in text, "harness/seeds.py"),
        (lambda text: "xfail" in attributes(text), "harness/known.py"),
    ],
    ids=["bearer", "token-server", "seed", "known-fault"],
)
def test_no_module_repeats_what_the_harness_has(is_wrong, instead):
    assert [name for name, text in MODULES.items() if is_wrong(text) and name != "test_harness.py"] == [], f"use {instead}"


def test_the_bearer_literal_is_found():
    assert BEARER.search('auth = {"strategy": "bearer", "token": CANARY}')
    assert not BEARER.search('auth = {"strategy": "bearer", "token": CANARY, "expires": "30m"}')

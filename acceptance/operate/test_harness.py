"""Rules for the acceptance tests: what the harness has, no test module writes once more."""

import ast
import os
import re
import subprocess
import sys

import pytest
from harness.gateway import ROOT

MODULES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "acceptance").glob("*/test_*.py"))}
#: What chooses without the seed of the test.
UNSEEDED = re.compile(r"\burandom\b|\brandom\.(?!Random\()\w+\(|\brandom\.Random\(\)|\bSystemRandom\b|\bderandomize\b|@seed\(")
BEARER = re.compile(r'\{\s*"strategy":\s*"bearer",\s*"token":\s*(CANARY|"CANARY-5f2c9a"),?\s*\}')


def attributes(text):
    return {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize(
    "is_wrong, instead",
    [
        (lambda text: BEARER.search(text), "BEARER of harness/configs.py"),
        (lambda text: "TokenServer(" in text, "the fixtures token_server and make_token_server"),
        (lambda text: '"AUTHGATEWAY_SEED"' in text, "harness/seeds.py"),
        (lambda text: UNSEEDED.search(text), "the fixture seed"),
        (lambda text: "xfail" in attributes(text), "harness/known.py"),
    ],
    ids=["bearer", "token-server", "seed", "random", "known-fault"],
)
def test_no_module_repeats_what_the_harness_has(is_wrong, instead):
    assert [name for name, text in MODULES.items() if is_wrong(text) and name != "test_harness.py"] == [], f"use {instead}"


def test_the_bearer_literal_is_found():
    assert BEARER.search('auth = {"strategy": "bearer", "token": CANARY}')
    assert not BEARER.search('auth = {"strategy": "bearer", "token": CANARY, "expires": "30m"}')


def test_a_choice_without_a_seed_is_found():
    for text in ("random.choice(names)", "random.Random().random()", "settings(derandomize=False)"):
        assert UNSEEDED.search(text), text
    assert not UNSEEDED.search("source = random.Random(seed)")


SEEDED = """
import random
from hypothesis import given, settings, strategies

def test_of_the_fixture(seed):
    print("drawn", random.Random(seed).randrange(1 << 30))

examples = []

@settings(max_examples=5)
@given(strategies.integers())
def test_of_hypothesis(number):
    examples.append(number)

def test_without_a_seed():
    pass

def teardown_module():
    print("examples", hash(tuple(examples)))
"""


def draws(folder, seed=None):
    """What the tests above draw in a run with that seed, by name, and the seeds that the run tells. Only those that are marked run."""
    (folder / "test_seeded.py").write_text(SEEDED)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AUTHGATEWAY_SEED"))}
    environment["PYTHONPATH"] = str(ROOT / "acceptance")
    if seed:
        environment["AUTHGATEWAY_SEED"] = seed
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "acceptance/pytest.ini", "--rootdir", folder, "-p", "conftest"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain", "-rA", "-m", "seeded", folder]
    text = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.findall(r"(?m)^PASSED .*::(\w+)", text) == ["test_of_the_fixture", "test_of_hypothesis"], text
    return dict(re.findall(r"(?m)^(drawn|examples) (-?\d+)$", text)), re.findall(r"(?m)^AUTHGATEWAY_SEED=(\d+) ", text)


def test_an_ordinary_run_draws_the_same_every_time_and_a_random_one_can_be_repeated(tmp_path):
    first, _ = draws(tmp_path)
    assert draws(tmp_path)[0] == first
    new, (of_the_fixture, of_hypothesis) = draws(tmp_path, "random")
    assert new["drawn"] != first["drawn"] and new["examples"] != first["examples"]
    assert draws(tmp_path, of_the_fixture)[0]["drawn"] == new["drawn"]
    assert draws(tmp_path, of_hypothesis)[0]["examples"] == new["examples"]

"""The JSON Schema against a validator that this project did not write."""

import jsonschema
import pytest
import yaml

from harness.examples import Loader, load
from harness.gateway import ROOT, command
from harness.schema import SCHEMA, VALIDATOR

EXAMPLES = [
    *sorted((ROOT / "examples/strategies").glob("*.yaml")),
    *sorted((ROOT / "examples/client-authentication").glob("*.yaml")),
    *sorted((ROOT / "examples/token-server").glob("*.yaml")),
    ROOT / "gateway.yaml",
    ROOT / "sandbox.yaml",
]
#: Mistakes that a schema can see; the others need the decoders.
VISIBLE = ["bad-values", "match", "missing-key", "unknown-key", "unknown-strategy", "wrong-type", "no-version", "version"]


@pytest.fixture(scope="module")
def validator():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return VALIDATOR


def test_the_command_prints_the_file(tmp_path):
    result = command("config", "schema", cwd=tmp_path)
    assert result.returncode == 0
    assert result.stdout == (ROOT / "schema/gateway.schema.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_valid_and_names_the_schema(validator, path):
    assert [error.message for error in validator.iter_errors(load(path))] == []
    first = path.read_text(encoding="utf-8").splitlines()[0]
    prefix = "# yaml-language-server: $schema="
    assert first.startswith(prefix)
    assert (path.parent / first.removeprefix(prefix)).resolve() == (ROOT / "schema/gateway.schema.json").resolve()


@pytest.mark.parametrize("name", VISIBLE)
def test_mistakes_are_found(validator, name):
    assert list(validator.iter_errors(load(ROOT / f"examples/errors/{name}.yaml")))


def test_the_example_of_the_documentation_is_valid(validator):
    text = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    block = text.split("```yaml\n", 1)[1].split("```", 1)[0]
    assert [error.message for error in validator.iter_errors(yaml.load(block, Loader))] == []

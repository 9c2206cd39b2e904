"""The tests that documents name: which of them there are, and which of them run."""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile

from .gateway import ROOT
from .marks import ALL_TESTS

ACCEPTANCE = ROOT / "acceptance"

# MARK: Acceptance tests

#: Writes down the marks of each test, those of make soak included.
LISTER = """
import json
from harness.marks import marks_by_name
def pytest_collection_finish(session):
    with open(RESULT, "w") as file:
        json.dump(marks_by_name(session.items), file)
"""


def collected(config, files):
    """The marks of every variant of the tests in these files, under `file::test`: of this run, if it has the whole of each file."""
    tests = config.stash.get(ALL_TESTS, {})
    if set(files) <= {name.partition("::")[0] for name in tests} and not any("::" in argument for argument in config.args):
        return tests
    return collected_anew(frozenset(files))


@functools.cache
def collected_anew(files):
    return listed(ACCEPTANCE, *(path.relative_to(ACCEPTANCE) for path in ACCEPTANCE.rglob("test_*.py") if path.name in files))


def listed(folder, *files):
    with tempfile.TemporaryDirectory() as own:
        result_path = os.path.join(own, "found")
        with open(os.path.join(own, "lister.py"), "w", encoding="utf-8") as file:
            file.write(LISTER.replace("RESULT", repr(result_path)))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment["PYTHONPATH"] = f"{own}:{ROOT / 'acceptance'}"
        # Without the markers' default, so that the long runs are there, and told from the others.
        arguments = ["--collect-only", "-q", "-m", "", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "lister", *map(str, files)]
        command = [sys.executable, "-m", "pytest", "-c", ROOT / "acceptance/pytest.ini", "--rootdir", folder, *arguments]
        result = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stdout + result.stderr
        with open(result_path, encoding="utf-8") as file:
            return json.load(file)


def run_in_every_run(file, tests):
    """Those of a file that `make test` runs: not skipped, not expected to fail, and not in soak alone."""
    return [
        name
        for name, variants in tests.items()
        if name.startswith(f"{file}::") and any(not {"skip", "xfail", "soak"} & set(marks) for marks in variants)
    ]


# MARK: Unit tests

#: Strings (raw, of several lines, plain) and comments of Swift: nothing in them is code.
NO_CODE = re.compile(r'(#+)"(?s:.*?)"\1|"""(?s:.*?)"""|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*(?s:.*?)\*/')


def swift_tests(text, suite):
    """The functions of a suite that carry `@Test` and are not disabled."""
    text = NO_CODE.sub(lambda found: '""' if found[0][0] in '"#' else " ", text)
    if not re.search(rf"\b(struct|class|actor|enum|extension) {suite}\b", text):
        return set()
    for start in re.finditer(r"@Suite\b", text):
        arguments, rest = after_parentheses(text[start.end() :].lstrip())
        if ".disabled" in arguments and re.match(rf"\s*(?:@?\w+\s+)*?(struct|class|actor|enum) {suite}\b", rest):
            return set()
    found = set()
    for start in re.finditer(r"@Test\b", text):
        arguments, rest = after_parentheses(text[start.end() :].lstrip())
        function = re.match(r"\s*(?:@?\w+\s+)*?func (\w+)\s*[(<]", rest)
        if function and ".disabled" not in arguments:
            found.add(function[1])
    return found


def after_parentheses(text):
    """What stands in the parentheses that a text begins with, and what follows them."""
    depth = 0
    for index, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return (text[: index + 1], text[index + 1 :]) if index else ("", text)
    return text, ""

"""Which failures `make test` forgives: small suites that fail in one way each, run as scripts/test runs the real one."""

import pathlib
import subprocess
import sys

import pytest
from harness.gateway import ROOT

CONFTEST = f"""
import importlib.util, sys
sys.path.insert(0, {str(ROOT / "acceptance")!r})
pytest_plugins = ["harness.outcomes"]
spec = importlib.util.spec_from_file_location("whole_conftest", {str(ROOT / "acceptance/conftest.py")!r})
whole = importlib.util.module_from_spec(spec)
spec.loader.exec_module(whole)
make_module_gateway, make_gateway = whole.make_module_gateway, whole.make_gateway
pytest_runtest_teardown = whole.pytest_runtest_teardown
"""
HEAD = """
import os, pathlib, signal, subprocess
import pytest
from harness.configs import CANARY
CONFIG = {"routes": {"a": {"upstream": "http://127.0.0.1:9", "auth": "none"}}}

@pytest.fixture(scope="module")
def gateway(make_module_gateway):
    return make_module_gateway(CONFIG).start()

def fails_once():
    mark = pathlib.Path(__file__).with_name("ran")
    first = not mark.exists()
    mark.touch()
    assert not first, "a slow moment"

def test_another(gateway):
    pass
"""
LAST = """
def test_the_last_of_the_module(gateway):
    pass
"""
FINAL = {
    "a secret in the log": ("gateway.log += CANARY.encode()", "an error at teardown", "test_it"),
    "a secret in a file": (
        '(gateway.folder / "state/note").write_text(CANARY)', "an error at teardown", "test_the_last_of_the_module",
    ),
    "a crash": ("gateway.process.kill(); gateway.process.wait()", "the gateway ended with -9", "test_it"),
    "a broken audit log": (
        'for file in (gateway.folder / "state").glob("audit.sqlite*"): file.write_bytes(b"damaged" * 99)\n'
        '    assert gateway.run("audit", "verify").returncode == 0',
        "audit verify failed", "test_it",
    ),
}  # fmt: skip


@pytest.fixture
def suite(tmp_path):
    folder = tmp_path / "suite"
    folder.mkdir()
    (tmp_path / "reports").mkdir()
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    seeded: chooses at random\n", encoding="utf-8")
    return folder


def run(suite, body, mark=""):
    (suite / "test_module.py").write_text(f"{HEAD}\n{mark}\ndef test_it(gateway):\n    {body}\n{LAST}", encoding="utf-8")
    script = pathlib.Path(ROOT, "scripts/acceptance.py")
    options = ["-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", "--", "suite"]
    command = [sys.executable, script, "small", suite.parent / "reports", suite.parent, *options]
    done = subprocess.run(command, cwd=suite.parent, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("how", FINAL)
def test_a_serious_fault_fails_each_run_and_names_its_test(suite, how):
    body, reason, test = FINAL[how]
    for _ in range(2):
        code, output = run(suite, body)
        assert code == 1 and "once more" not in output, output
        assert any(line.startswith("final: ") and test in line and reason in line for line in output.splitlines()), output


def test_a_test_that_chooses_at_random_has_no_second_chance(suite):
    code, output = run(suite, "fails_once()", mark="@pytest.mark.seeded")
    assert code == 1 and "a test that chooses at random" in output and "once more" not in output, output


def test_a_slow_moment_is_forgiven_and_counted(suite):
    for count, words in [(1, "in 1 run"), (2, "in 2 runs: fix it, or mark it timing")]:
        code, output = run(suite, "fails_once()")
        assert code == 0 and "once more, alone" in output and "3 passed" in output, output
        forgiven = (suite.parent / "reports/forgiven.txt").read_text(encoding="utf-8")
        assert f"test_module.py::test_it: {words}\n" in forgiven, (count, forgiven)
        (suite / "ran").unlink()


def test_what_fails_again_with_its_module_fails_the_run(suite):
    code, output = run(suite, "assert False")
    assert code == 1 and "once more, alone" in output, output


def test_more_than_a_few_failures_are_no_slow_moment(suite):
    more = "\n".join(f"def test_{number}(gateway): assert False" for number in range(4))
    code, output = run(suite, f"fails_once()\n{more}")
    assert code == 1 and "once more" not in output, output

"""Which failures `make test` forgives: small suites that fail in one way each, run as scripts/test runs the real one."""

import os
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
#: Each in a module of its own: what happens, the reason that is given, and the test that is named.
FINAL = {
    "a secret in the log": ("gateway.log += CANARY.encode()", "an error at teardown", "test_it"),
    "a secret in a file": (
        '(gateway.folder / "state/note").write_text(CANARY)', "an error at teardown", "test_the_last_of_the_module",
    ),
    "a secret in an answer": ('answer = CANARY; assert CANARY not in answer', "a secret where it must not be", "test_it"),
    "a skip": ('pytest.skip("nothing is installed")', "skipped, which CI does not expect", "test_it"),
    "a command that crashes": (
        'process = subprocess.Popen(["sleep", "9"]); process.send_signal(signal.SIGSEGV); process.wait(); assert False',
        "sleep crashed with signal 11", "test_it",
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


def write(suite, name, body, mark=""):
    (suite / f"test_{name}.py").write_text(f"{HEAD}\n{mark}\ndef test_it(gateway):\n    {body}\n{LAST}", encoding="utf-8")


def run(suite):
    script = pathlib.Path(ROOT, "scripts/acceptance.py")
    options = ["-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", "--", "suite"]
    command = [sys.executable, script, "small", suite.parent / "reports", suite.parent, *options]
    done = subprocess.run(
        command, cwd=suite.parent, capture_output=True, text=True, timeout=120, check=False, env=os.environ | {"CI": "true"}
    )
    return done.returncode, done.stdout + done.stderr


def test_a_serious_fault_fails_each_run_and_names_its_test(suite):
    for number, (body, _, _) in enumerate(FINAL.values()):
        write(suite, f"fault_{number}", body)
    write(suite, "random", "fails_once()", mark="@pytest.mark.seeded")
    # Another module that fails would otherwise be all that runs again.
    (suite / "test_unreadable.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    expected = [(f"test_fault_{number}.py::{test}", reason) for number, (_, reason, test) in enumerate(FINAL.values())]
    expected += [("test_random.py::test_it", "a test that chooses at random"), ("test_unreadable.py", "could not be collected")]
    for _ in range(2):
        (suite / "ran").unlink(missing_ok=True)
        code, output = run(suite)
        final = [line for line in output.splitlines() if line.startswith("final: ")]
        missing = [(test, reason) for test, reason in expected if not any(test in line and reason in line for line in final)]
        assert code == 1 and missing == [] and "once more" not in output, output


@pytest.mark.parametrize("fault", ["a skip", "a module that cannot be read"])
def test_one_that_may_be_forgiven_hides_no_other(suite, fault):
    write(suite, "slow", "fails_once()")
    if fault == "a skip":
        write(suite, "other", FINAL[fault][0])
    else:
        (suite / "test_other.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    code, output = run(suite)
    assert code == 1 and "final: suite/test_other.py" in output.replace("final: test_other", "final: suite/test_other"), output
    assert "once more" not in output, output


def test_a_slow_moment_is_forgiven_and_counted(suite):
    write(suite, "module", "fails_once()")
    for count, words in [(1, "in 1 run"), (2, "in 2 runs: fix it, or mark it timing")]:
        code, output = run(suite)
        assert code == 0 and "once more, alone" in output and "3 passed" in output, output
        forgiven = (suite.parent / "reports/forgiven.txt").read_text(encoding="utf-8")
        assert f"test_module.py::test_it: {words}\n" in forgiven, (count, forgiven)
        (suite / "ran").unlink()


@pytest.mark.parametrize(
    "body", ["assert False", 'fails_once() if not pathlib.Path(__file__).with_name("ran").exists() else pytest.skip("not now")']
)
def test_what_does_not_pass_with_its_module_fails_the_run(suite, body):
    write(suite, "module", body)
    code, output = run(suite)
    assert code == 1 and "once more, alone" in output, output


def test_more_than_a_few_failures_are_no_slow_moment(suite):
    write(suite, "module", "fails_once()\n" + "\n".join(f"def test_{number}(gateway): assert False" for number in range(4)))
    code, output = run(suite)
    assert code == 1 and "once more" not in output, output

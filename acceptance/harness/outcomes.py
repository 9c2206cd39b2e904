"""What a run says of its tests, beside passed and failed: which failures count at once, and how long each file took.

A test that fails for a slow moment of a shared machine may run once more (scripts/acceptance.py). These failures may not, because a
second run could pass over the fault: an error at teardown, a secret where it must not be, a crash, a failed `audit verify`, any
failure of a test that chooses at random, a module that could not be collected, and in CI a skip.
"""

import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

#: How a program ends that has trapped, or touched memory that is not its own.
SIGNALS = (signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
#: Of the program itself, and of a shell whose last command it was.
CRASHES = {-number: number for number in SIGNALS} | {128 + number: number for number in SIGNALS}
#: An assertion that something secret is nowhere.
LEAK = re.compile(r"\bassert\b(?=.*\bnot in\b).*(canary|secret|token|password)", re.IGNORECASE | re.DOTALL)
#: What harness code saw during the current test that makes its failure final.
_seen = []


def note(what):
    """Records a reason that makes a failure of the current test final. A test that passes may have some."""
    _seen.append(what)


class WatchedProcess(subprocess.Popen):
    """Every process that a test starts: none of them may crash."""

    started = []

    def __init__(self, args, *more, **options):
        super().__init__(args, *more, **options)
        words = [args] if isinstance(args, (str, bytes, os.PathLike)) else args
        self.name = pathlib.Path(os.fsdecode(words[0])).name
        self.started.append(self)

    @classmethod
    def crashed(cls):
        """Those that have crashed since the last call."""
        ended = [process for process in cls.started if process.returncode is not None]
        cls.started[:] = [process for process in cls.started if process.returncode is None]
        return [f"{process.name} crashed with signal {CRASHES[process.returncode].value}" for process in ended if process.returncode in CRASHES]


def is_leak(call):
    return call.excinfo.errisinstance(AssertionError) and bool(LEAK.search(str(call.excinfo.traceback[-1].statement)))


def pytest_addoption(parser):
    parser.addoption("--outcomes", metavar="FILE", help="write failures and times of files as JSON")
    parser.addoption("--durations-of", metavar="FILE", help="times of files in an earlier run: the slowest start first")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _seen.clear()
    WatchedProcess.crashed()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        reasons = list(dict.fromkeys(_seen + WatchedProcess.crashed()))
        if is_leak(call):
            reasons.append("a secret where it must not be")
        if report.when == "teardown":
            reasons.append("an error at teardown")
        if item.get_closest_marker("seeded"):
            reasons.append("a test that chooses at random")
        report.user_properties += [("final", reason) for reason in reasons]
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Files that took longest start first, so that none of them is left alone at the end. Tests of a file keep their order."""
    path = config.getoption("durations_of")
    if path and pathlib.Path(path).exists():
        seconds = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        items.sort(key=lambda item: -seconds.get(file_of(item.nodeid), 0))


def file_of(nodeid):
    return nodeid.partition("::")[0]


class Recorder:
    """Of the process that hears of every test: the only one, or that of the workers."""

    def __init__(self, path, root):
        self.path, self.root = pathlib.Path(path), root
        self.failed, self.passed, self.seconds = {}, [], {}

    def pytest_runtest_logreport(self, report):
        file = file_of(report.nodeid)
        self.seconds[file] = self.seconds.get(file, 0) + getattr(report, "duration", 0)
        if report.passed and report.when == "call":
            self.passed.append(report.nodeid)
        if report.failed:
            reasons = [reason for name, reason in report.user_properties if name == "final"]
            if report.when not in ("setup", "call", "teardown"):
                reasons.append("the process of the tests ended")
            self.failed.setdefault(report.nodeid, []).extend(reasons)
        self.skips(report)

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed.setdefault(report.nodeid, []).append("could not be collected")
        self.skips(report)

    def skips(self, report):
        """In CI everything is there, so a skip means that something was not proved."""
        if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
            self.failed.setdefault(report.nodeid, []).append("skipped, which CI does not expect")

    def pytest_sessionfinish(self):
        outcomes = {"root": str(self.root), "failed": self.failed, "passed": self.passed, "seconds": {file: round(time, 2) for file, time in self.seconds.items()}}
        self.path.write_text(json.dumps(outcomes), encoding="utf-8")


def pytest_configure(config):
    subprocess.Popen = WatchedProcess
    path = config.getoption("outcomes")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path, config.rootpath))

"""What a run says of its tests, beside passed and failed: which failures count at once, and how long each file took.

A test that fails for a slow moment of a shared machine may run once more (scripts/acceptance.py). These failures may not, because a
second run could pass over the fault: an error at teardown, a secret where it must not be, a crash, a failed `audit verify`, and
any failure of a test that chooses at random.
"""

import json
import pathlib

import pytest

#: What harness code saw during the current test that makes its failure final.
_seen = []


def note(what):
    """Called where something happened that is fine in a test that passes, and final in one that fails."""
    _seen.append(what)


def pytest_addoption(parser):
    parser.addoption("--outcomes", metavar="FILE", help="write failures and times of files as JSON")
    parser.addoption("--durations-of", metavar="FILE", help="times of files in an earlier run: the slowest start first")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _seen.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        reasons = list(dict.fromkeys(_seen))
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
        self.failed, self.seconds = {}, {}

    def pytest_runtest_logreport(self, report):
        file = file_of(report.nodeid)
        self.seconds[file] = self.seconds.get(file, 0) + getattr(report, "duration", 0)
        if report.failed:
            reasons = [reason for name, reason in report.user_properties if name == "final"]
            if report.when not in ("setup", "call", "teardown"):
                reasons.append("the process of the tests ended")
            self.failed.setdefault(report.nodeid, []).extend(reasons)

    def pytest_sessionfinish(self):
        outcomes = {"root": str(self.root), "failed": self.failed, "seconds": {file: round(time, 2) for file, time in self.seconds.items()}}
        self.path.write_text(json.dumps(outcomes), encoding="utf-8")


def pytest_configure(config):
    path = config.getoption("outcomes")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path, config.rootpath))

"""The marks that tests carry, for the test that looks after the tests which documents name."""

import pytest

#: Of the configuration of pytest: what `marks_by_name` says of a run before tests are deselected.
ALL_TESTS = pytest.StashKey()


def marks_by_name(items):
    """The marks of every variant of every test, under `file::test`."""
    found = {}
    for item in items:
        marks = []
        for mark in item.iter_markers():
            skips = mark.name == "skipif" and bool(mark.args) and mark.args[0] is True
            marks.append("skip" if skips else mark.name)
        path, _, rest = item.nodeid.partition("::")
        found.setdefault(path.rpartition("/")[2] + "::" + rest.partition("[")[0], []).append(marks)
    return found

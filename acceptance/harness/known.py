"""Faults of the gateway that are known and not fixed yet.

A test shows each of them and is expected to fail: `@known("...")`. When a fault is fixed, its test passes, and pytest reports that
as a failure. Then remove the entry here. Checks elsewhere that a fault would fail are left out while its entry is here.
"""

import pytest

#: What happens, and what should happen.
FAULTS: dict[str, str] = {}


class StillBroken(AssertionError):
    """A test has shown that a fault of `FAULTS` is still there."""


def known(name, raises=StillBroken):
    """Marks the test that shows a fault. Without the entry it is a test like any other."""
    return pytest.mark.xfail(name in FAULTS, reason=FAULTS.get(name, ""), raises=raises, strict=True)

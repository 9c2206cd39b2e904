"""Which variants of a test `make test` leaves to `make nightly`, which sets AUTHGATEWAY_EVERY."""

import os

from .postgresql import VERSIONS

#: Where a test has TLS, from nowhere to everywhere.
TLS_SIDES = ("none", "listener", "origin", "both")
_sides = {}


def pytest_collection_modifyitems(config, items):
    if os.environ.get("AUTHGATEWAY_EVERY"):
        return
    left_out = [item for item in items if is_for_nightly(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not is_for_nightly(item)]


def is_for_nightly(item):
    """Says whether the variant of a test runs with AUTHGATEWAY_EVERY=1 only: the same test with TLS on fewer sides, or with another
    version of PostgreSQL than the oldest."""
    values = getattr(item, "callspec", None)
    values = values.params if values else {}
    if isinstance(values.get("version", values.get("server")), int):
        return values.get("version", values.get("server")) != VERSIONS[0]
    return values.get("side") in TLS_SIDES and values["side"] != most_inclusive(item)


def most_inclusive(item):
    """Of the sides on which the test of an item has TLS, the last in TLS_SIDES."""
    sides = _sides.setdefault(item.function, set())
    if not sides:
        for mark in item.iter_markers("parametrize"):
            names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
            if "side" in names:
                position = names.index("side")
                sides.update(value if len(names) == 1 else value[position] for value in mark.args[1])
    return max(sides & set(TLS_SIDES), key=TLS_SIDES.index, default=None)

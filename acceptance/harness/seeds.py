"""The seeds of tests that choose at random: those that use the fixture `seed`, or hypothesis.

Such a test carries the marker `seeded`. An ordinary run gives it the same seed every time, so that nobody's change fails for
something that it did not touch. `AUTHGATEWAY_SEED=random` draws a new seed for each test and prints it, and
`AUTHGATEWAY_SEED=NUMBER` repeats a run.
"""

import os
import secrets

import hypothesis
from hypothesis import HealthCheck

#: The seed of an ordinary run.
ORDINARY = 1
RANDOM = "random"


def setting():
    """What `AUTHGATEWAY_SEED` asks for: a number, `random`, or None in an ordinary run."""
    text = os.environ.get("AUTHGATEWAY_SEED", "")
    return text if text == RANDOM else int(text) if text else None


def choose():
    """The seed of a test. Prints how to repeat the run."""
    asked = setting()
    seed = ORDINARY if asked is None else secrets.randbelow(1 << 32) if asked == RANDOM else asked
    announce(seed)
    return seed


def announce(seed):
    print(f"AUTHGATEWAY_SEED={seed} repeats this run", flush=True)


def configure():
    """How hypothesis makes examples. Decorators of tests set how many, and inherit the rest from here."""
    common = {"deadline": None, "database": None, "print_blob": True, "suppress_health_check": list(HealthCheck)}
    hypothesis.settings.register_profile("ordinary", derandomize=True, **common)
    hypothesis.settings.register_profile("seeded", derandomize=False, **common)
    hypothesis.settings.load_profile("ordinary" if setting() is None else "seeded")


def uses_hypothesis(item):
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def is_seeded(item):
    return "seed" in getattr(item, "fixturenames", ()) or uses_hypothesis(item)


def give_seed(item):
    """Before a test runs. In an ordinary run hypothesis derives its examples from the test itself."""
    if uses_hypothesis(item) and setting() is not None:
        hypothesis.seed(choose())(getattr(item.obj, "__func__", item.obj))

"""The seed of tests that choose at random. `AUTHGATEWAY_SEED=NUMBER` repeats a run."""

import os
import secrets


def given():
    """The seed of the environment, or None."""
    text = os.environ.get("AUTHGATEWAY_SEED")
    return int(text) if text else None


def choose(default=None):
    """The seed of the environment, otherwise `default`, otherwise a new one. Prints how to repeat the run."""
    seed = given()
    if seed is None:
        seed = secrets.randbelow(1 << 32) if default is None else default
    print(f"AUTHGATEWAY_SEED={seed} repeats this run", flush=True)
    return seed

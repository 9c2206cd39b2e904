"""What the tests of messages share."""

import pytest
from harness.corpus import gunicorn_reader


@pytest.fixture(scope="session")
def treq():
    """gunicorn's own reader of its corpus."""
    return gunicorn_reader()

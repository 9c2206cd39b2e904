"""What the tests of messages share."""

import pytest
from harness.configs import plain_config
from harness.corpus import gunicorn_reader
from harness.origin import RecordingOrigin
from harness.script import StandingOrigin


@pytest.fixture(scope="session")
def treq():
    """gunicorn's own reader of its corpus."""
    return gunicorn_reader()


# One gateway for all tests of a module whose cases need no configuration of their own


@pytest.fixture(scope="module")
def standing(make_module_gateway):
    origin = StandingOrigin()
    yield make_module_gateway(plain_config(origin)).start(), origin
    origin.stop()


@pytest.fixture
def shared(standing):
    """As `against`, without limits."""
    gateway, origin = standing

    def start(steps):
        origin.begin(steps)
        return standing

    yield start
    origin.settle()
    assert origin.failures == []
    assert gateway.process.poll() is None, gateway.text()


@pytest.fixture(scope="module")
def standing_recorder():
    origin = RecordingOrigin()
    yield origin
    origin.stop()


@pytest.fixture
def recorder(standing_recorder):
    """A recording origin that remembers nothing of the tests before."""
    yield standing_recorder
    standing_recorder.renew()

"""What the tests of HTTP/2 share."""

import contextlib

import pytest
from harness import http2
from harness.configs import plain_config


@pytest.fixture
def served(start_gateway, origin):
    """A gateway before a recording origin; `client()` connects by prior knowledge."""

    def start(config=None, **limits):
        gateway = start_gateway({**(config or plain_config(origin)), "limits": limits})
        gateway.client = lambda **options: http2.connect(gateway.port, **options)
        return gateway

    return start


@pytest.fixture
def client(served):
    with contextlib.closing(served().client()) as client:
        yield client

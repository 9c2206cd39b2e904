"""What the tests of engines share: other proxies that ask for the fields of a request."""

import json

import pytest
from harness.issuer import Issuer


@pytest.fixture
def issuer():
    issuer = Issuer()
    yield issuer
    issuer.stop()


@pytest.fixture
def problem():
    """Checks that an answer is a problem document, and returns its code."""

    def read(answer):
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.headers["Cache-Control"] == "no-store"
        document = json.loads(answer.body)
        assert document["status"] == answer.status
        return document["code"]

    return read

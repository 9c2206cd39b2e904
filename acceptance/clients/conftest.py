"""What the tests of clients share."""

import pytest
from harness.configs import CANARY
from harness.tls import nginx_over_tls


@pytest.fixture(scope="session")
def named_upstream(tmp_path_factory, certificate_authority):
    """nginx with TLS for the name localhost; wants the canary as its bearer token."""
    certificate, key = certificate_authority.issue("named", "DNS:localhost,IP:127.0.0.1")
    nginx = nginx_over_tls(tmp_path_factory.mktemp("nginx"), certificate, key, f"Bearer {CANARY}")
    yield nginx
    nginx.stop()

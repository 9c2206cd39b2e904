import pytest
from harness.fleet import shared_tokens, token_key
from harness.postgresql import PostgreSQL


@pytest.fixture
def server(short_folder):
    server = PostgreSQL(short_folder / "pg")
    yield server
    server.stop()


@pytest.fixture
def key(tmp_path):
    """One for all gateways."""
    return token_key(tmp_path)


@pytest.fixture
def start_pair(make_gateway, key):
    """Two gateways with one database and one key. `more` are settings of `tokens`."""

    def start(config, url, **more):
        return [make_gateway({**config, "tokens": shared_tokens(url, key, **more)}).start() for _ in range(2)]

    return start

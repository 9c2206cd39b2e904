"""Four gateways, one PostgreSQL, and refresh tokens that are valid once at an authority that ends the whole login when one comes twice."""

import secrets
import time

import pytest
from harness.fleet import Fleet, load
from harness.postgresql import VERSIONS, PgBouncer, running

GATEWAYS = 4


@pytest.fixture(scope="module", params=VERSIONS)
def server(request):
    with running(version=request.param) as server:
        yield server


@pytest.fixture
def start_fleet(make_gateway, make_authority, tmp_path, server):
    """Returns the fleet and the name of its database."""

    def start(lifetime, token_delay=0.0, grace=0, pooler=None, **options):
        name = f"fleet_{secrets.token_hex(4)}"
        url = server.database(name)
        authority = make_authority(lifetime=lifetime, token_delay=token_delay, grace=grace)
        fleet = Fleet(make_gateway, tmp_path, authority, pooler.url(name) if pooler else url, gateways=GATEWAYS, **options)
        return fleet.start().seed(), name

    return start


# MARK: Expirations


def pass_expirations(fleet, expirations, seconds):
    """Clients ask at all gateways, until the authority has renewed that often. Returns what the clients got."""
    began = time.monotonic()
    with load(fleet) as clients:
        fleet.renews(expirations, seconds)
    return clients, time.monotonic() - began


@pytest.mark.timing
@pytest.mark.parametrize("expirations", [150, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_four_gateways_spend_each_refresh_token_once(start_fleet, server, expirations):
    # Fewer in a second than the authority can answer.
    fleet, name = start_fleet(lifetime=4, credentials=30) if expirations < 1000 else start_fleet(lifetime=6, credentials=80)
    clients, seconds = pass_expirations(fleet, expirations, seconds=60 + expirations / 5)
    fleet.require_nothing_lost(server, name)
    print(f"; {GATEWAYS} gateways, {seconds:.0f} s; requests {dict(clients.statuses)}, slowest {clients.slowest:.1f} s")
    assert clients.failures == []


@pytest.mark.timing
@pytest.mark.parametrize("server", VERSIONS[:1], indirect=True)
@pytest.mark.parametrize("expirations", [80, pytest.param(2_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_a_pooler_in_transaction_mode_changes_nothing(start_fleet, server, short_folder, expirations):
    """Without notifications: gateways ask for changes."""
    pooler = PgBouncer(short_folder / "pooler", server)
    try:
        fleet, name = start_fleet(lifetime=4, credentials=20, pooler=pooler)
        clients, seconds = pass_expirations(fleet, expirations, seconds=60 + expirations / 3)
        fleet.require_nothing_lost(server, name)
        print(f"; through PgBouncer, {seconds:.0f} s; requests {dict(clients.statuses)}, slowest {clients.slowest:.1f} s")
        assert clients.failures == []
    finally:
        pooler.stop()

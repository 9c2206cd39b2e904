"""A database that restarts, halts, is cut off, or is replaced by its standby, while gateways renew."""

import contextlib
import time

import pytest
from harness.fleet import Fleet, load
from harness.idle_connections import CONNECTIONS
from harness.postgresql import VERSIONS, PostgreSQL
from harness.processes import wait_until
from harness.second_host import SecondHost

#: What a client may see while the database is away and a token has expired. 504: the request timed out before the cause was known.
PATIENT = {200, 401, 503, 504}
#: How many seconds a token lives.
LIFETIME = 4


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def make_server(short_folder, version):
    with contextlib.ExitStack() as stops:

        def make(**options):
            folder = short_folder / f"pg{len(made)}"
            made.append(PostgreSQL(folder, version=version, **options))
            stops.callback(lambda server: server.process.poll() is None and server.stop(), made[-1])
            return made[-1]

        made = []
        yield make


@pytest.fixture
def make_fleet(make_gateway, tmp_path):
    def make(authority, url, **options):
        fleet = Fleet(make_gateway, tmp_path, authority, url, **{"gateways": 3, "credentials": 20, **options})
        return fleet.start().seed()

    return make


def outlive_tokens():
    """Waits until each token that is valid now has ended."""
    time.sleep(LIFETIME + 2)


def require_nothing_lost(fleet, server, clients, what):
    """`what` was done to the database, while these clients asked."""
    fleet.require_nothing_lost(server, "tokens")
    print(f"; {what}, requests {dict(clients.statuses)}")
    assert set(clients.statuses) <= PATIENT


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [3, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_restarts_under_load_lose_no_token(make_authority, make_server, make_fleet, restarts):
    server = make_server()
    fleet = make_fleet(make_authority(lifetime=LIFETIME), server.database("tokens"))
    with load(fleet) as clients:
        for _ in range(restarts):
            fleet.renews()
            server.restart()
        fleet.renews()
    require_nothing_lost(fleet, server, clients, f"{restarts} restarts")


@pytest.mark.slow
@pytest.mark.parametrize("failovers", [1, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_a_failover_to_the_synchronous_standby_loses_no_token(make_authority, make_server, make_fleet, failovers):
    """Gateways know the addresses of both. The server crashes under load, and the standby takes its place."""
    primary = make_server()
    primary.database("tokens")
    standby = make_standby(make_server, primary)
    # The next ones take the port of a server that has crashed.
    fleet = make_fleet(make_authority(lifetime=LIFETIME), primary.network_url("tokens", standby))
    ports = primary.port, standby.port
    times = []
    with load(fleet) as clients:
        for number in range(failovers):
            fleet.renews()
            primary.crash()
            began = time.monotonic()
            standby.promote()
            fleet.renews()
            times.append(time.monotonic() - began)
            if number + 1 < failovers:
                free = next(port for port in ports if port != standby.port)
                primary, standby = standby, make_standby(make_server, standby, free)
    what = f"{failovers} failovers, 20 renewals at most {max(times):.1f} s after it"
    require_nothing_lost(fleet, standby, clients, what)


def make_standby(make_server, primary, port=None):
    standby = make_server(primary=primary, port=port)
    # From now on a commit waits for the standby.
    primary.sql("alter system set synchronous_standby_names = '*'")
    primary.sql("select pg_reload_conf()")
    wait_until(lambda: primary.sql("select sync_state from pg_stat_replication") == "sync", 20, "the standby is synchronous")
    return standby


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_a_halted_database_spends_no_refresh_token(make_authority, make_server, make_fleet, times):
    server = make_server()
    fleet = make_fleet(make_authority(lifetime=LIFETIME), server.database("tokens"))
    with load(fleet) as clients:
        for _ in range(times):
            fleet.renews()
            with server.halted():
                outlive_tokens()
                clients.goes_on(0)
        fleet.renews()
    require_nothing_lost(fleet, server, clients, f"halted {times} times")


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_a_database_that_the_network_cuts_off_spends_no_refresh_token(network, make_authority, make_server, make_fleet, times):
    host = SecondHost()
    try:
        server = make_server(address=host.address, within=host.within)
        server.database("tokens")
        fleet = make_fleet(make_authority(own=True, lifetime=LIFETIME), server.network_url("tokens"), allow_unverified=True)
        with load(fleet) as clients:
            for _ in range(times):
                fleet.renews()
                host.cut()
                outlive_tokens()
                host.connect()
            fleet.renews()
        require_nothing_lost(fleet, server, clients, f"cut off {times} times")
        sessions = "select count(*) from pg_stat_activity where datname = 'tokens' and pid <> pg_backend_pid()"
        # The server ends the sessions that the cut has left behind, and not only after hours.
        most = CONNECTIONS * len(fleet.gateways)
        wait_until(lambda: int(server.sql(sessions)) <= most, 40, lambda: f"{server.sql(sessions)} sessions", pause=1)
    finally:
        host.stop()

"""Many gateways on one database, gateways whose clocks differ, and gateways that are restarted one after the other."""

import contextlib
import datetime
import secrets
import time

import pytest
from harness.debian import nginx
from harness.fleet import Fleet, Load, load
from harness.idle_connections import CONNECTIONS, Gateways
from harness.postgresql import running
from harness.proc import resident_mib


@pytest.fixture(scope="module")
def server():
    # Those of a hundred gateways, and some for tests.
    with running(settings={"max_connections": 100 * CONNECTIONS + 20}.items(), version=18) as server:
        yield server


@pytest.fixture
def database(server):
    name = f"scale_{secrets.token_hex(4)}"
    server.database(name)
    return name


# MARK: Many gateways


@pytest.mark.timing
# A hundred gateways adopt each new token a hundred times: two cores cannot do that for all tokens every three seconds.
@pytest.mark.parametrize("gateways, lifetime", [(4, 6), pytest.param(100, 60, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_the_connections_of_a_hundred_gateways(make_gateway, make_authority, tmp_path, server, database, gateways, lifetime):
    """What is no gateway of a hundred has connections as one, and is told of each change as one."""
    url = server.url(database)
    authority = make_authority(lifetime=lifetime)
    fleet = Fleet(make_gateway, tmp_path, authority, url, gateways=gateways, credentials=20).start()
    others = Gateways(url, 100 - gateways)
    try:
        fleet.seed()
        with load(fleet) as clients:
            fleet.renews(60, seconds=60 + 4 * lifetime)
        count = server.sql("select count(*) from pg_stat_activity where datname is not null", database)
        memory = sum(resident_mib(gateway.process.pid) for gateway in fleet.gateways)
        fleet.require_nothing_lost(server, database)
    finally:
        others.close()
    print(f"; {gateways} gateways with {memory:.0f} MiB, {count} connections", end="")
    print(f"; requests {dict(clients.statuses)}, slowest {clients.slowest:.1f} s")
    assert int(count) >= 100 * CONNECTIONS
    assert clients.failures == []


# MARK: Clocks


@pytest.mark.timing
@pytest.mark.parametrize("offset", [60, -60])
def test_clocks_a_minute_apart_cost_no_token(make_gateway, make_authority, tmp_path, clock, server, database, offset):
    clock.set(f"{offset:+d}")
    authority = make_authority(lifetime=6)
    url, environments = server.url(database), {1: clock.environment}
    fleet = Fleet(make_gateway, tmp_path, authority, url, gateways=2, credentials=10, environments=environments)
    try:
        fleet.start().seed()
        began = fleet.renewals()
        with load(fleet) as clients:
            time.sleep(10)
        renewals = fleet.renewals() - began
        right, wrong = (datetime.datetime.fromisoformat(tokens[0]["renews_at"]) for tokens in fleet.tokens().values())
        assert abs((wrong - right).total_seconds() - offset) < 20, "the clock of the other gateway is wrong"
        fleet.require_nothing_lost(server, database)
        print(f"; {offset:+d} s, {renewals} renewals in 10 s, requests {dict(clients.statuses)}")
        assert clients.failures == []
        # A token is renewed when half of its six seconds is left, or a little earlier; not with each look.
        assert renewals <= len(fleet.names) * (10 / 2.7 + 2)
    finally:
        fleet.gateways[1].kill()


# MARK: Rolling restarts


@pytest.mark.timing
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_a_rolling_restart_is_not_noticed_by_clients(make_gateway, make_authority, tmp_path, server, database, rounds):
    """Behind nginx as in examples/deployments/nginx-systemd, and with clients that go to the next gateway by themselves."""
    authority = make_authority(lifetime=6)
    fleet = Fleet(make_gateway, tmp_path, authority, server.url(database), gateways=3, credentials=10).start().seed()
    servers = " ".join(f"server 127.0.0.1:{gateway.port} max_fails=0;" for gateway in fleet.gateways)
    front = nginx(
        tmp_path / "nginx",
        "location / { proxy_pass http://fleet; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $host;"
        " proxy_next_upstream error timeout; proxy_next_upstream_tries 2; proxy_connect_timeout 2s; }",
        http=f"upstream fleet {{ {servers} keepalive 32; keepalive_timeout 30s; }}",
    )
    with contextlib.ExitStack() as ends:
        ends.callback(front.stop)
        behind = Load([front.url], fleet.names, methods=["GET", "POST"])
        ends.callback(behind.end)
        beside = ends.enter_context(load(fleet))
        for _ in range(rounds):
            for gateway in fleet.gateways:
                fleet.renews(10)
                assert gateway.stop() == 0
                behind.goes_on()
                gateway.start()
                behind.goes_on()
                beside.goes_on()
    fleet.require_nothing_lost(server, database)
    print(f"; {3 * rounds} restarts; behind nginx {dict(behind.statuses)}, beside it {dict(beside.statuses)}")
    assert behind.failures == [] and beside.failures == []

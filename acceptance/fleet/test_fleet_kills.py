"""A gateway that is killed while it renews: another one goes on, and no refresh token comes twice that need not."""

import random
import secrets
import time

import pytest
from harness.fleet import Fleet, load
from harness.postgresql import running
from harness.processes import wait_until

#: How long a lease lasts that nobody prolongs.
LEASE = 20


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


class Kills:
    """Kills gateways at random moments, and learns which credentials they were renewing."""

    def __init__(self, fleet, server, database):
        self.fleet, self.server, self.database = fleet, server, database
        #: The credential of each row.
        self.names = {}
        #: Those whose lease a killed gateway has left behind.
        self.hit = set()
        #: How many kills have met at least one lease, and how many leases there were in all.
        self.met = self.leases = self.kills = self.logins = 0
        #: How many kills may have met a gateway that took up what an earlier kill had left behind, and when that was, by credential.
        self.again = 0
        self.hit_at = {}

    def seed(self):
        """One after the other: what is new in the table is the credential's."""
        for name in self.fleet.names:
            self.fleet.log_in(name)
            rows = self.server.sql("select key from authgateway.token", self.database).split()
            [new] = set(rows) - set(self.names)
            self.names[new] = name
        wait_until(self.fleet.are_all_valid, 30, self.fleet.states, pause=0.2)

    def left_behind(self, moment):
        """The credentials whose lease was taken before that moment, or while a statement was on its way, and that nobody has ended."""
        taken = f"lease_until > clock_timestamp() and lease_until < to_timestamp({moment + LEASE + 1})"
        rows = self.server.sql(f"select key from authgateway.token where {taken}", self.database).split()
        return {self.names[row] for row in rows}

    def kill(self, gateway):
        gateway.kill()
        moment = time.time()
        # A gateway that lives ends its lease within this time.
        time.sleep(2.5)
        found = self.left_behind(moment)
        gateway.start()
        self.again += sum(1 for name in found if moment - self.hit_at.get(name, 0) < LEASE + 15)
        self.hit_at.update(dict.fromkeys(found, moment))
        self.hit |= found
        self.kills += 1
        self.met += bool(found)
        self.leases += len(found)

    def recover(self):
        """Until every gateway has a token for each credential. The last leases end by themselves."""
        time.sleep(LEASE)

        def is_over():
            self.log_in_again()
            return self.fleet.are_all_valid()

        wait_until(is_over, 90, self.fleet.states, pause=0.5)

    def log_in_again(self):
        """A person does so where the authority has ended the login."""
        for name in self.fleet.without_login():
            assert name in self.hit, f"{name}: no gateway was killed that renewed it"
            self.fleet.log_in(name)
            self.logins += 1


@pytest.mark.slow
@pytest.mark.parametrize("grace", [0, 3600], ids=["strict", "grace"])
@pytest.mark.parametrize(
    "kills", [pytest.param(3, marks=pytest.mark.timeout(400)), pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_a_kill_of_the_gateway_with_the_lease_spends_no_refresh_token_of_others(
    make_gateway, make_authority, tmp_path, server, seed, kills, grace
):
    chance = random.Random(seed)
    name = f"kills_{secrets.token_hex(4)}"
    url = server.database(name)
    authority = make_authority(lifetime=4, grace=grace)
    fleet = Fleet(make_gateway, tmp_path, authority, url, gateways=4, credentials=12).start()
    killing = Kills(fleet, server, name)
    killing.seed()
    # Slow answers, so that at any moment every gateway is renewing something.
    authority.change(token_delay=1)
    with load(fleet) as clients:
        while killing.met < kills:
            time.sleep(chance.uniform(0, 0.5))
            killing.kill(chance.choice(fleet.gateways))
            killing.log_in_again()
            clients.goes_on()
        killing.recover()
    fleet.settle()

    lost = fleet.renewals() - fleet.stored_renewals(server, name)
    print(
        f"\n{killing.kills} kills, {killing.met} of a gateway with a lease, {killing.leases} leases left behind; {fleet.renewals()} calls, "
        f"{lost} answers lost with a gateway; refused {fleet.refusals()}, {killing.logins} logins; "
        f"requests {dict(clients.statuses)}"
    )
    assert 0 <= lost <= killing.leases
    if grace:
        assert fleet.refusals() == {} and killing.logins == 0
    else:
        # Whoever takes up the renewal sends the refresh token again, then the one before it: only the authority knows whether they
        # were spent. The others are told. A gateway that is killed while it takes up a renewal tells nobody.
        refused = fleet.refusals().get("invalid_grant", 0)
        assert set(fleet.refusals()) <= {"invalid_grant"} and killing.logins == lost
        assert 2 * lost <= refused <= 2 * (lost + killing.again), (refused, lost, killing.again)
    failed = {name for _, name, _, _ in clients.failures}
    assert failed <= killing.hit, "clients notice what a killed gateway was renewing, at most"
    assert set(clients.statuses) <= {200, 401, 503, 504}

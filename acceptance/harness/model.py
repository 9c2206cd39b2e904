"""What the gateway promises about tokens, as a model: what the authority knows, what the gateway holds, what a step changes.

The model sends nothing. A test takes the same steps with a gateway and compares: the answers, `token list`, and the counters of
the authority.
"""

import copy
import dataclasses


class Family(list):
    """The pairs that came from one login: they end together."""

    def end(self):
        for pair in self:
            pair.end()


class Pair:
    """An access token and what renews it, as the authority knows them."""

    def __init__(self, family, renewal=None, access=True, id=None):
        #: Whether the authority accepts the access token.
        self.access = access
        #: `live`, `spent` (used once, another use is a double spend), `dead`, or None where nothing renews.
        self.renewal = renewal
        #: How the upstream names the access token, once that is known.
        self.id = id
        self.family = family
        family.append(self)

    def end(self):
        self.access = False
        if self.renewal == "live":
            self.renewal = "dead"


class Authority:
    def __init__(self):
        self.calls = 0
        self.double_spends = 0
        self.pairs = []

    def issue(self, family=None, renewal=None):
        pair = Pair(Family() if family is None else family, renewal)
        self.pairs.append(pair)
        return pair

    def forget(self, access_alone):
        for pair in self.pairs:
            if access_alone:
                pair.access = False
            else:
                pair.end()

    def rotate(self, pair):
        """Spends what renews. None is a refusal; the reuse of a spent one ends the family."""
        self.calls += 1
        if pair.renewal == "spent":
            self.double_spends += 1
            pair.family.end()
        if pair.renewal != "live":
            return None
        pair.renewal = "spent"
        return self.issue(pair.family, "live")


class SessionAuthority(Authority):
    """Duke: wants both tokens of a pair, and ends the old pair at once. A reuse ends nothing."""

    def rotate(self, pair, session=None):
        session = session or pair
        self.calls += 1
        if session.renewal == "spent":
            self.double_spends += 1
        if session.renewal != "live" or not pair.access:
            return None
        pair.family.end()
        pair.renewal = "spent"
        return self.issue(pair.family, "live")


@dataclasses.dataclass
class Record:
    """What the gateway keeps of a token, in memory and in its store."""

    pair: Pair | None
    generation: int
    is_rejected: bool = False
    #: Dead for good: keeps the token of the configuration from being taken up again.
    is_revoked: bool = False
    #: A renewal was begun, and nobody knows whether the authority saw it.
    is_cut_off: bool = False
    previous: Pair | None = None

    def copy(self):
        return dataclasses.replace(self)


class Credential:
    """One credential of a gateway that runs.

    `state`, `generation` and `needs_person` are what `token list` has to show. Each step is a method; `request` also says what
    the client has to receive.
    """

    #: Whether the gateway gets the next token by itself.
    renews = True
    #: Whether a renewal spends what the next one needs, so that a lost answer leaves doubt.
    rotates = False
    #: Why a person is needed when there is no token and no way to get one.
    stopped_code = None

    def __init__(self, name, authority, seed=None):
        self.name = name
        self.authority = authority
        #: The token that stands in the configuration.
        self.seed = seed
        self.stored = None
        self.is_locked = False
        self.start()

    # What there is to see.

    @property
    def state(self):
        if self.is_locked:
            return "locked"
        if self.is_uncertain:
            return "rotation_uncertain"
        if self.phase == "empty":
            return "login_required" if self.needs_login_first else "empty"
        if self.phase == "stopped":
            if not self.renews and self.held:
                return "rejected" if self.held.is_rejected else "valid"
            return "login_required" if self.stopped_code == "login" else "failed"
        return "rejected" if self.held.is_rejected else "valid"

    @property
    def generation(self):
        return self.held.generation if self.held else self.top

    @property
    def needs_person(self):
        """Whether it says what a person has to do."""
        if self.phase == "stopped":
            return self.state != "valid"
        return self.is_locked or self.state == "login_required"

    @property
    def needs_login_first(self):
        return False

    @property
    def key(self):
        """Which token it has, where there can be several."""
        return self.name

    @property
    def is_settled(self):
        """Whether a request changes nothing."""
        if self.is_usable:
            return self.held.pair.access
        return self.is_locked or self.phase == "stopped"

    @property
    def is_usable(self):
        """Whether the gateway thinks that it has a token to send."""
        return not self.is_locked and self.held is not None and not self.held.is_rejected

    @property
    def will_call(self):
        """Whether the next request makes the gateway ask the authority."""
        if self.is_locked or self.phase == "stopped":
            return False
        if self.is_usable:
            return not self.held.pair.access and self.can_call(self.record)
        if not self.is_opened and self.seed:
            return not self.seed.access and self.can_call(Record(self.seed, 0))
        return self.can_call(self.record)

    @property
    def refresh_calls(self):
        """Whether an operator's refresh makes the gateway ask the authority."""
        if self.is_locked or not self.renews:
            return False
        record = self.record
        if not self.is_opened and record is None and self.seed:
            record = Record(self.seed, 0)
        return self.can_call(record)

    def can_call(self, record):
        return True

    # A process begins and ends.

    def start(self):
        """The gateway starts, or a reload brings the credential: what is stored counts."""
        self.record = None
        self.held = None
        #: The highest generation that this process has seen.
        self.top = 0
        self.phase = "empty"
        self.is_opened = False
        self.is_uncertain = False
        #: Calls that failed since the last token.
        self.failures = 0
        #: The upstream rejected the token, and the store may not know yet.
        self.is_rejection_unsaved = False
        self.has_looked = False
        if not self.is_locked:
            self.look()

    def end(self):
        """The gateway stops, and stores what it had not yet."""
        if self.is_rejection_unsaved:
            self.stored.is_rejected = True

    def look(self):
        """The first look into the store and the configuration."""
        self.has_looked = True
        if self.phase != "empty" or self.is_opened:
            return
        if self.stored is None and self.seed is None:
            self.is_opened = True
        elif self.stored is not None and self.stored.is_revoked:
            self.record = self.stored.copy()
            self.is_opened = True
            self.stop()
        else:
            self.open()

    def open(self):
        """Takes up what the store or the configuration holds."""
        if self.stored is None and self.seed is not None:
            self.save(Record(self.seed, self.top + 1))
        elif self.stored is not None:
            self.record = self.stored.copy()
        self.is_opened = True
        self.is_uncertain = self.record.is_cut_off
        if self.record.is_rejected and self.has_obstacle(self.record):
            return self.stop()
        self.install(self.record)
        if self.is_uncertain:
            self.renew()

    def save(self, record):
        self.record = record
        self.stored = record.copy()
        self.is_rejection_unsaved = False

    def install(self, record):
        self.held = record
        self.top = max(self.top, record.generation)
        self.phase = "ready"
        self.failures = 0

    def stop(self, keeps=False):
        self.phase = "stopped"
        self.failures += 1
        if not keeps:
            self.held = None

    @property
    def next_generation(self):
        return max(self.top, self.record.generation if self.record else 0) + 1

    def has_obstacle(self, record):
        """Whether only a person can bring the next token."""
        return False

    # Calls.

    def call(self, fault=None, by_operator=False):
        """What a call comes to: `ok`, `stopped`, or `failed` where the answer did not come.

        `fault` is what becomes of the first token call: lost `before` or `after` it took effect, or the authority is `busy` or
        has `refused`.
        """
        if not self.is_opened and (self.stored is not None or self.seed is not None):
            if by_operator:
                self.save(self.stored.copy() if self.stored else Record(self.seed, self.top + 1))
                self.is_opened = True
                self.is_uncertain = self.record.is_cut_off
            else:
                self.open()
                return "ok"
        self.is_opened = True
        return self.renew(fault)

    def accept(self, pair, previous=None):
        self.is_uncertain = False
        self.save(Record(pair, self.next_generation, previous=previous))
        self.install(self.record)
        return "ok"

    def fail(self):
        """The answer did not come; the gateway tries again after a pause."""
        self.failures += 1
        self.phase = "pausing"
        return "failed"

    def rotate(self, pair, fault):
        if fault == "refused":
            self.authority.calls += 1
            return None
        return self.authority.rotate(pair)

    # Requests.

    def request(self, fault=None):
        """What a request is answered: (status, whose token reached the upstream last, or None). `fault` hits the next call."""
        if self.is_locked:
            return 503, None
        if not self.is_usable and self.phase != "stopped":
            outcome = self.call(fault)
            if outcome != "ok":
                return 503, None
            if not self.is_usable:
                return self.request(fault)
        if not self.is_usable:
            return 503, None
        sent = self.held.pair
        if sent.access:
            return 200, sent
        self.held.is_rejected = True
        if self.phase != "ready":
            self.is_rejection_unsaved = True
            return 401, sent
        self.stored.is_rejected = True
        # A token that nobody can renew is kept and shown as rejected.
        if self.call(fault) != "ok":
            return 401, sent
        return 200, self.held.pair

    # Operators.

    def refresh(self, fault=None):
        """`ok`, `stopped`, `failed`, or `refused` where nothing is tried."""
        if self.is_locked or not self.renews:
            return "refused"
        return self.call(fault, by_operator=True)

    def lock(self):
        self.is_locked = True

    def unlock(self):
        self.is_locked = False
        if not self.has_looked:
            self.look()

    def clear(self):
        self.record = self.held = self.stored = None
        self.is_opened = False
        self.leave()

    def leave(self):
        """There is no token any more."""
        self.is_uncertain = False
        self.is_rejection_unsaved = False
        self.has_looked = True
        self.held = None
        seeded = self.record is None and self.seed is not None
        if not seeded and self.has_obstacle(self.record):
            self.stop()
        else:
            self.phase = "empty"
        self.failures = 0

    def look_for_order(self):
        if not self.is_opened and self.record is None:
            if self.stored:
                self.record = self.stored.copy()
            elif self.seed:
                self.record = Record(self.seed, self.top + 1)

    def revoke(self):
        """Whether there was a token to revoke."""
        self.look_for_order()
        if self.record is None or self.record.is_revoked:
            return False
        self.record.pair.family.end()
        if self.seed:
            self.save(Record(None, self.record.generation, is_rejected=True, is_revoked=True))
            self.is_opened = True
        else:
            self.record = self.stored = None
            self.is_opened = False
        self.leave()
        return True

    def take(self, pair):
        """An operator imports a pair that is good."""
        self.look_for_order()
        self.is_uncertain = False
        self.is_opened = self.has_looked = True
        self.save(Record(pair, self.next_generation))
        self.install(self.record)
        if self.rotates and not self.is_locked:
            assert self.renew() == "ok"

    def take_bad(self):
        """An operator imports a pair that the authority refuses: all stays as it was."""
        self.look_for_order()
        earlier = self.record
        self.top = self.next_generation
        self.authority.calls += 1
        self.is_opened = self.has_looked = True
        self.is_uncertain = False
        if earlier is None:
            self.record = self.stored = None
            self.leave()
        elif earlier.is_revoked:
            self.save(earlier)
            self.leave()
        else:
            self.save(earlier)
            self.install(self.record)

    def copy(self):
        return copy.deepcopy(self)


class ServerGrant(Credential):
    """Asks anew each time, and spends nothing by that."""

    def renew(self, fault=None):
        self.authority.calls += 1
        if fault in ("before", "busy"):
            return self.fail()
        pair = self.authority.issue()
        return self.fail() if fault else self.accept(pair)


class Subjects(ServerGrant):
    """A server's grant whose subject a reload changes: each subject has a token of its own."""

    def __init__(self, name, authority, subjects):
        self.subject = subjects[0]
        self.records = dict.fromkeys(subjects)
        super().__init__(name, authority)

    @property
    def key(self):
        return f"{self.name} {self.subject}"

    @property
    def stored(self):
        return self.records[self.subject]

    @stored.setter
    def stored(self, record):
        self.records[self.subject] = record

    def change(self, subject):
        if subject != self.subject:
            self.subject = subject
            self.start()


class Password(Credential):
    """Renews with a refresh token, and with the password where that is refused."""

    def renew(self, fault=None):
        pair = self.record.pair if self.record else None
        if pair is None:
            self.authority.calls += 1
            if fault in ("before", "busy"):
                return self.fail()
            fresh = self.authority.issue(renewal="live")
            return self.fail() if fault else self.accept(fresh)
        if fault in ("before", "busy"):
            self.authority.calls += 1
            return self.fail()
        fresh = self.rotate(pair, fault)
        if fault == "after":
            return self.fail()
        if fresh is None:
            self.authority.calls += 1
            fresh = self.authority.issue(renewal="live")
        return self.accept(fresh)


class Login(Credential):
    """Began with a person's login, and lives from refresh tokens that count once."""

    rotates = True
    stopped_code = "login"

    @property
    def needs_person(self):
        """Whether it says what a person has to do."""
        if self.phase == "stopped":
            return self.state != "valid"
        return self.is_locked or self.state == "login_required"

    @property
    def needs_login_first(self):
        return self.seed is None

    def has_obstacle(self, record):
        return record is None or record.pair is None

    def can_call(self, record):
        return not self.has_obstacle(record)

    #: Whether a refusal makes the gateway forget what it has.
    forgets_when_refused = False

    def renew(self, fault=None):
        if self.has_obstacle(self.record):
            self.stop(keeps=self.held is not None)
            return "stopped"
        pair = self.record.pair
        if fault in ("before", "busy"):
            self.authority.calls += 1
            self.is_uncertain = self.is_uncertain or fault == "before"
            return self.doubt()
        fresh = self.rotate(pair, fault)
        if fault == "after":
            self.is_uncertain = True
            return self.doubt()
        if fresh:
            return self.accept(fresh, previous=pair)
        # After a lost answer the token before it is tried once: the authority may not have seen the last one confirmed.
        if self.is_uncertain and self.record.previous:
            fresh = self.rotate_previous(pair)
            if fresh:
                return self.accept(fresh, previous=self.record.previous)
        self.record.is_cut_off = False
        self.save(self.record)
        if self.forgets_when_refused:
            self.save(Record(None, self.record.generation, is_rejected=True, is_revoked=True))
            self.stop()
        else:
            self.stop(keeps=True)
        return "stopped"

    def rotate_previous(self, pair):
        return self.authority.rotate(self.record.previous)

    def doubt(self):
        """A call has failed; whether it is in doubt stands in the store."""
        self.record.is_cut_off = self.is_uncertain
        self.save(self.record)
        return self.fail()


class Session(Login):
    """Two tokens that rotate together, with a pair in the configuration to begin with."""

    forgets_when_refused = True

    def rotate_previous(self, pair):
        return self.authority.rotate(pair, self.record.previous)


class Developer(Credential):
    """A token that a person brings, and that nothing renews."""

    renews = False
    stopped_code = "static"

    def has_obstacle(self, record):
        return True

    def can_call(self, record):
        return False

    def renew(self, fault=None):
        self.stop(keeps=self.held is not None)
        return "stopped"

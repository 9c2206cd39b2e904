"""A model of what the gateway promises about tokens: what the authority knows, what the gateway holds, and what a step changes.

The model sends nothing. A test takes the same steps with a gateway, and then compares the responses, `token list`, and the counters
of the authority with the model.
"""

import copy
import dataclasses


class Grant(list):
    """The pairs that came from one login. They end together."""

    def end(self):
        for pair in self:
            pair.end()


class Pair:
    """An access token and its refresh token, as the authority knows them."""

    def __init__(self, grant, refresh_token=None, access=True, id=None):
        #: Whether the authority accepts the access token.
        self.access = access
        #: `live`, `spent` (used once: another use is a double spend), `dead`, or None if there is no refresh token.
        self.refresh_token = refresh_token
        #: The name of the access token at the upstream, once a test knows it.
        self.id = id
        self.grant = grant
        grant.append(self)

    def end(self):
        self.access = False
        if self.refresh_token == "live":
            self.refresh_token = "dead"


class Authority:
    def __init__(self):
        self.calls = 0
        self.double_spends = 0
        self.pairs = []

    def issue(self, grant=None, refresh_token=None):
        pair = Pair(Grant() if grant is None else grant, refresh_token)
        self.pairs.append(pair)
        return pair

    def forget(self, access_alone):
        for pair in self.pairs:
            if access_alone:
                pair.access = False
            else:
                pair.end()

    def rotate(self, pair):
        """Spends the refresh token. None is a refusal. The reuse of a spent refresh token ends the grant."""
        self.calls += 1
        if pair.refresh_token == "spent":
            self.double_spends += 1
            pair.grant.end()
        if pair.refresh_token != "live":
            return None
        pair.refresh_token = "spent"
        return self.issue(pair.grant, "live")


class SessionAuthority(Authority):
    """Duke's authority needs both tokens of a pair, and ends the old pair at once. A reuse ends nothing."""

    def rotate(self, pair, session=None):
        session = session or pair
        self.calls += 1
        if session.refresh_token == "spent":
            self.double_spends += 1
        if session.refresh_token != "live" or not pair.access:
            return None
        pair.grant.end()
        pair.refresh_token = "spent"
        return self.issue(pair.grant, "live")


@dataclasses.dataclass
class Record:
    """What the gateway keeps of a token in memory and in its store."""

    pair: Pair | None
    generation: int
    is_rejected: bool = False
    #: Set for ever. The gateway does not use the token of the configuration again.
    is_revoked: bool = False
    #: The gateway began a refresh and does not know whether the authority received it.
    refresh_was_interrupted: bool = False
    #: The authority has refused the refresh token. Only an operator has it sent again.
    is_refused: bool = False
    #: It was refused after a response was lost.
    is_refused_uncertainly: bool = False
    previous: Pair | None = None

    @property
    def is_uncertain(self):
        return self.refresh_was_interrupted or self.is_refused_uncertainly

    def copy(self):
        return dataclasses.replace(self)


class Credential:
    """One credential of a running gateway.

    `token list` has to show `state`, `generation` and `needs_person`. Each step is a method. `request` also returns what the client
    has to receive.
    """

    #: Whether the gateway gets the next token by itself.
    renews = True
    #: Whether a refresh spends the refresh token. Then the gateway does not know what is left after it lost a response.
    rotates = False
    #: Whether nothing but a refresh token or a person brings the next token.
    needs_refresh_token = True
    #: Why a person is needed if the gateway has no token and cannot get one.
    stopped_code = None

    def __init__(self, name, authority, seed=None):
        self.name = name
        self.authority = authority
        #: The token of the configuration.
        self.seed = seed
        self.stored = None
        self.is_locked = False
        self.start()

    # What a test can observe.

    @property
    def state(self):
        if self.is_locked:
            return "locked"
        if self.is_uncertain and self.needs_refresh_token:
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
        """Whether `token list` says what a person has to do."""
        if self.phase == "stopped":
            return self.state != "valid"
        return self.is_locked or self.state == "login_required"

    @property
    def needs_login_first(self):
        return False

    @property
    def key(self):
        """Names the token, where the credential can have several."""
        return self.name

    @property
    def is_settled(self):
        """Whether a request changes nothing."""
        if self.is_usable:
            return self.held.pair.access
        return self.is_locked or self.phase == "stopped"

    @property
    def is_usable(self):
        """Whether the gateway believes that it has a token to send."""
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
        """Whether a refresh command makes the gateway ask the authority."""
        if self.is_locked or not self.renews:
            return False
        record = self.record
        if not self.is_opened and record is None and self.seed:
            record = Record(self.seed, 0)
        return self.can_call(record)

    def can_call(self, record):
        return True

    # The process starts and stops.

    def start(self):
        """The gateway starts, or a reload adds the credential. The gateway uses what the store has."""
        self.record = None
        self.held = None
        #: The highest generation that this process has seen.
        self.top = 0
        self.phase = "empty"
        self.is_opened = False
        self.is_uncertain = False
        #: The number of failed calls since the last token.
        self.failures = 0
        #: The upstream rejected the token, and the store may not have that yet.
        self.is_rejection_unsaved = False
        self.has_looked = False
        if not self.is_locked:
            self.look()

    def end(self):
        """The gateway stops. It stores what it has not stored yet."""
        if self.is_rejection_unsaved:
            self.stored.is_rejected = True

    def look(self):
        """The gateway reads the store and the configuration for the first time."""
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
        """Uses the token of the store, otherwise the token of the configuration."""
        if self.stored is None and self.seed is not None:
            self.save(Record(self.seed, self.top + 1))
        elif self.stored is not None:
            self.record = self.stored.copy()
        self.is_opened = True
        self.is_uncertain = self.record.is_uncertain
        if self.record.is_rejected and (self.record.is_refused or self.needs_login(self.record)):
            return self.stop()
        self.install(self.record)
        if self.record.is_refused:
            self.stop(keeps=True)
        elif self.is_uncertain:
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

    def needs_login(self, record):
        """Whether only a person can provide the next token."""
        return False

    # Calls.

    def call(self, fault=None, by_operator=False):
        """The outcome of a call: `ok`, `stopped`, or `failed` if no response came.

        `fault` is the outcome of the first token call: lost `before` or `after` it took effect, or the authority is `busy`, or it has
        `refused` the call.
        """
        if not self.is_opened and (self.stored is not None or self.seed is not None):
            if by_operator:
                self.save(self.stored.copy() if self.stored else Record(self.seed, self.top + 1))
                self.is_opened = True
                self.is_uncertain = self.record.is_uncertain
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
        """No response came. The gateway tries again after a pause."""
        self.failures += 1
        self.phase = "pausing"
        return "failed"

    def mark_uncertain(self):
        """A call failed. The store records whether the authority may have received it."""
        self.record.refresh_was_interrupted = self.is_uncertain
        self.save(self.record)
        return self.fail()

    def rotate(self, pair, fault):
        if fault == "refused":
            self.authority.calls += 1
            return None
        return self.authority.rotate(pair)

    # Requests.

    def request(self, fault=None):
        """The response to a request: its status, and the pair whose token the upstream received last, or None.

        `fault` happens to the next token call.
        """
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
        # The gateway keeps a token that cannot be renewed, and shows it as rejected.
        if self.call(fault) != "ok":
            return 401, sent
        return 200, self.held.pair

    # Operators.

    def refresh(self, fault=None):
        """`ok`, `stopped`, `failed`, or `refused` if the gateway does not try."""
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
        """The token is gone."""
        self.is_uncertain = False
        self.is_rejection_unsaved = False
        self.has_looked = True
        self.held = None
        seeded = self.record is None and self.seed is not None
        if not seeded and self.needs_login(self.record):
            self.stop()
        else:
            self.phase = "empty"
        self.failures = 0

    def load_for_command(self):
        if not self.is_opened and self.record is None:
            if self.stored:
                self.record = self.stored.copy()
            elif self.seed:
                self.record = Record(self.seed, self.top + 1)

    def revoke(self):
        """Whether there was a token to revoke."""
        self.load_for_command()
        if self.record is None or self.record.is_revoked:
            return False
        self.record.pair.grant.end()
        if self.seed:
            self.save(Record(None, self.record.generation, is_rejected=True, is_revoked=True))
            self.is_opened = True
        else:
            self.record = self.stored = None
            self.is_opened = False
        self.leave()
        return True

    def take(self, pair):
        """An operator imports a pair that works."""
        self.load_for_command()
        self.is_uncertain = False
        self.is_opened = self.has_looked = True
        self.save(Record(pair, self.next_generation))
        self.install(self.record)
        if self.rotates and not self.is_locked:
            assert self.renew() == "ok"

    def refuse_import(self):
        """An operator imports a pair that the authority refuses. The token stays as it was."""
        self.load_for_command()
        earlier, failures = self.record, self.failures
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
            # They count on: the pause after the next one is longer.
            self.failures = failures
            if earlier.is_refused:
                self.is_uncertain = earlier.is_uncertain
                self.stop(keeps=True)

    def copy(self):
        return copy.deepcopy(self)


class ServerGrant(Credential):
    """Gets each token with a new request, which spends nothing."""

    def renew(self, fault=None):
        self.authority.calls += 1
        if fault in ("before", "busy"):
            return self.fail()
        pair = self.authority.issue()
        return self.fail() if fault else self.accept(pair)


class Subjects(ServerGrant):
    """A server's grant whose subject a reload changes. Each subject has its own token."""

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
    """Gets the next token with a refresh token, and with the password if the authority refuses that or may have spent it."""

    needs_refresh_token = False

    def renew(self, fault=None):
        pair = self.record.pair if self.record else None
        if pair is None or self.is_uncertain:
            self.authority.calls += 1
            if fault in ("before", "busy"):
                return self.fail()
            fresh = self.authority.issue(refresh_token="live")
            return self.fail() if fault else self.accept(fresh)
        if fault in ("before", "busy"):
            self.authority.calls += 1
            self.is_uncertain = fault == "before"
            return self.mark_uncertain()
        fresh = self.rotate(pair, fault)
        if fault == "after":
            self.is_uncertain = True
            return self.mark_uncertain()
        if fresh is None:
            self.authority.calls += 1
            fresh = self.authority.issue(refresh_token="live")
        return self.accept(fresh)


class Login(Credential):
    """A person logged in once. Each refresh token since then works once."""

    rotates = True
    stopped_code = "login"

    @property
    def needs_login_first(self):
        return self.seed is None

    def needs_login(self, record):
        return record is None or record.pair is None

    def can_call(self, record):
        return not self.needs_login(record)

    #: Whether the gateway discards its tokens after a refusal.
    forgets_when_refused = False

    def renew(self, fault=None):
        if self.needs_login(self.record):
            self.stop(keeps=self.held is not None)
            return "stopped"
        pair = self.record.pair
        self.record.is_refused = self.record.is_refused_uncertainly = False
        if fault in ("before", "busy"):
            self.authority.calls += 1
            self.is_uncertain = self.is_uncertain or fault == "before"
            return self.mark_uncertain()
        fresh = self.rotate(pair, fault)
        if fault == "after":
            self.is_uncertain = True
            return self.mark_uncertain()
        if fresh:
            return self.accept(fresh, previous=pair)
        # After a lost response the gateway tries the previous token once: the authority may not have seen the last one confirmed.
        if self.is_uncertain and self.record.previous:
            fresh = self.rotate_previous(pair)
            if fresh:
                return self.accept(fresh, previous=self.record.previous)
        self.record.refresh_was_interrupted = False
        self.record.is_refused, self.record.is_refused_uncertainly = True, self.is_uncertain
        self.save(self.record)
        if self.forgets_when_refused:
            self.save(Record(None, self.record.generation, is_rejected=True, is_revoked=True))
            self.stop()
        else:
            self.stop(keeps=True)
        return "stopped"

    def rotate_previous(self, pair):
        return self.authority.rotate(self.record.previous)


class Session(Login):
    """Two tokens that rotate together. The first pair is in the configuration."""

    forgets_when_refused = True

    def rotate_previous(self, pair):
        return self.authority.rotate(pair, self.record.previous)


class Developer(Credential):
    """A token that a person provides. The gateway cannot renew it."""

    renews = False
    stopped_code = "static"

    def needs_login(self, record):
        return True

    def can_call(self, record):
        return False

    def renew(self, fault=None):
        self.stop(keeps=self.held is not None)
        return "stopped"

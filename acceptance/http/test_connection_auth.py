"""NTLM and Negotiate authenticate a connection: no client is ever answered as the one that authenticated it."""

import base64
import json
import random
import time

import pytest
from harness import processes, raw
from harness.configs import BEARER
from harness.origin import response
from harness.script import connect, get

#: The first and the third message of the handshake (MS-NLMP), as far as this origin reads them.
FIRST = base64.b64encode(b"NTLMSSP\0\1\0\0\0").decode()


def third(user, challenge):
    return base64.b64encode(f"NTLMSSP\0\3 {user} {challenge}".encode()).decode()


class ConnectionOrigin:
    """Authenticates connections: a request without credentials is answered for the user whom its connection belongs to."""

    def __init__(self, make_script, scheme="NTLM"):
        self.scheme = scheme
        self.origin = make_script(self.steps)
        self.url, self.port = self.origin.url, self.origin.port

    def steps(self, wire, number):
        user = None
        while (head := wire.head()).endswith(b"\r\n\r\n"):
            fields = dict(line.lower().partition(": ")[::2] for line in head.decode("latin-1").split("\r\n")[1:])
            wire.exactly(int(fields.get("content-length", 0)))
            [sent] = [line[15:] for line in head.decode().split("\r\n") if line.lower().startswith("authorization: ")] or [""]
            scheme, _, message = sent.partition(" ")
            if scheme.lower() == self.scheme.lower():
                if message == FIRST:
                    wire.send(self.unauthorized(f"{self.scheme} {self.challenge(number)}"))
                    continue
                _, name, challenge = base64.b64decode(message).decode().split(" ")
                # The answer to the challenge of another connection is none.
                user = name if challenge == self.challenge(number) else None
            if user is None:
                wire.send(self.unauthorized(self.scheme))
            else:
                wire.send(response(200, f"{user} on {number}".encode()))

    @staticmethod
    def challenge(number):
        return base64.b64encode(f"challenge-{number}".encode()).decode()

    @staticmethod
    def unauthorized(*challenges):
        return response(401, b"no", *(f"WWW-Authenticate: {challenge}" for challenge in challenges))


class Client:
    """A client connection; `ask` returns the status, the body, and the challenges."""

    def __init__(self, gateway, *fields, path="/api/x"):
        self.gateway, self.fields, self.path = gateway, fields, path
        self.wire = connect(gateway.port)

    def ask(self, authorization=None, body=None):
        fields = [*self.fields, *([f"Authorization: {authorization}"] if authorization else [])]
        if body is not None:
            fields.append(f"Content-Length: {len(body)}")
        method = "GET" if body is None else "POST"
        self.wire.send(get(self.gateway, *fields, path=self.path, method=method) + (body or b""))
        head = raw.Answer(self.wire.head())
        [length] = head.values("content-length")
        return head.status, self.wire.exactly(int(length)).decode(), head.values("www-authenticate")

    def log_in(self, user, scheme="NTLM", body=None):
        """The handshake, as a library does it on one connection."""
        status, _, challenges = self.ask(body=body)
        assert (status, challenges) == (401, [scheme])
        status, _, [challenge] = self.ask(f"{scheme} {FIRST}", body)
        assert status == 401 and challenge.startswith(scheme + " ")
        status, text, _ = self.ask(f"{scheme} {third(user, challenge.partition(' ')[2])}", body)
        assert status == 200 and text.startswith(user + " on "), text
        return text

    def close(self):
        self.wire.close()


@pytest.fixture
def dial():
    """Connects clients, and closes them in the end."""
    made = []

    def dial(*arguments, **options):
        made.append(Client(*arguments, **options))
        return made[-1]

    yield dial
    for client in made:
        client.close()


def config(origin, **route):
    # One worker, so that a connection that is free would be used by whoever comes next.
    return {"workers": 1, "routes": {"api": {"upstream": origin.url, "auth": "none", **route}}}


# Without the key


def test_who_comes_later_is_not_answered_as_who_authenticated(make_script, start_gateway):
    origin = ConnectionOrigin(make_script)
    gateway = start_gateway(config(origin))
    for message in (FIRST, third("ada", origin.challenge(0))):
        raw.exchange(gateway.port, get(gateway, "Connection: close", f"Authorization: NTLM {message}"))
    eve = raw.exchange(gateway.port, get(gateway, "Connection: close"))
    assert eve.status == 401 and b"ada" not in eve.body, eve.data


#: The challenges of an upstream, each a field, and what is left of them.
CHALLENGES = {
    "ntlm": (["NTLM"], []),
    "negotiate": (["Negotiate"], []),
    "small letters": (["ntlm", "negotiate"], []),
    "with a message": (["NTLM TlRMTVNTUAACAAAA", "Negotiate YIIBhg=="], []),
    "others": (["Kerberos", "Nego2", "PKU2U", "CredSSP abc="], []),
    "beside basic": (["Negotiate", "NTLM", 'Basic realm="office"'], ['Basic realm="office"']),
    "in one field": (['Negotiate, NTLM, Basic realm="a, b", Bearer'], ['Basic realm="a, b", Bearer']),
    "between others": (
        ['Bearer realm="x", NTLM, Digest realm="y", qop="auth"'],
        ['Bearer realm="x", Digest realm="y", qop="auth"'],
    ),
    "not well formed": (['Negotiate=abc, Basic realm="x'], []),
    "only mentioned": (['Basic realm="Negotiate"', 'Bearer x="ntlm"'], ['Basic realm="Negotiate"', 'Bearer x="ntlm"']),
}


@pytest.mark.parametrize("auth", ["none", BEARER], ids=["none", "credential"])
@pytest.mark.parametrize("given, left", CHALLENGES.values(), ids=[name.replace(" ", "-") for name in CHALLENGES])
def test_challenges_of_these_schemes_are_removed(make_origin, start_gateway, auth, given, left):
    origin = make_origin(lambda request: response(401, b"no", *(f"WWW-Authenticate: {value}" for value in given)))
    gateway = start_gateway(config(origin, auth=auth))
    answer = raw.exchange(gateway.port, get(gateway, "Connection: close"))
    assert (answer.status, answer.body) == (401, b"no")
    assert answer.values("www-authenticate") == left


#: Credentials of a request that are refused.
REFUSED = [
    "NTLM TlRMTVNTUAABAAAA",
    "ntlm TlRMTVNTUAABAAAA",
    "Negotiate YIIBhg==",
    "NEGOTIATE  YIIBhg==",
    "Kerberos abc",
    "NTLM",
    "Basic bWU6bWluZQ==, NTLM TlRMTVNTUAABAAAA",
]


@pytest.mark.parametrize("credentials", REFUSED)
def test_requests_with_such_credentials_are_refused(origin, start_gateway, credentials):
    gateway = start_gateway(config(origin))
    answer = raw.exchange(gateway.port, get(gateway, "Connection: close", f"Authorization: {credentials}"))
    problem = json.loads(answer.body)
    assert answer.status == 403 and problem["code"] == "route-forbidden", answer.data
    assert "connection_auth" in problem["detail"]
    assert origin.raw() == b""


def test_no_such_credentials_reach_an_upstream_in_proxy_authorization(origin, start_gateway):
    gateway = start_gateway(config(origin))
    raw.exchange(gateway.port, get(gateway, "Connection: close", "Proxy-Authorization: NTLM TlRMTVNTUAABAAAA"))
    assert b"NTLM" not in origin.raw()


@pytest.mark.parametrize("credentials", ["Basic bnRsbTpuZWdvdGlhdGU=", "Bearer ntlm", 'Digest realm="Negotiate"', "NTLMv3 abc"])
def test_other_credentials_pass_whatever_words_are_in_them(origin, start_gateway, credentials):
    gateway = start_gateway(config(origin))
    answer = raw.exchange(gateway.port, get(gateway, "Connection: close", f"Authorization: {credentials}"))
    assert answer.status == 200 and origin.last().value("authorization") == credentials


def test_with_a_credential_the_clients_field_is_replaced_as_ever(origin, start_gateway):
    """Nothing of it is forwarded, so nothing has to be refused."""
    gateway = start_gateway(config(origin, auth=BEARER))
    answer = raw.exchange(gateway.port, get(gateway, "Connection: close", "Authorization: NTLM TlRMTVNTUAABAAAA"))
    assert answer.status == 200 and origin.last().value("authorization") == f"Bearer {BEARER['token']}"


# With the key


@pytest.fixture
def start(make_script, start_gateway):
    """An origin that authenticates connections, and a gateway before it that lets clients do so."""

    def start(scheme="NTLM", access=None, routes=None, **more):
        origin = ConnectionOrigin(make_script, scheme)
        whole = config(origin, connection_auth=True) | more
        whole["routes"] |= {name: {"upstream": origin.url, "auth": "none"} for name in routes or []}
        return start_gateway(whole | ({"access": access} if access else {})), origin

    return start


@pytest.mark.parametrize("scheme", ["NTLM", "Negotiate"])
def test_a_client_connection_keeps_its_upstream_connection_over_the_handshake(start, dial, scheme):
    gateway, origin = start(scheme)
    ada = dial(gateway)
    said = ada.log_in("ada", scheme)
    # The connection is authenticated: no further credentials.
    assert [ada.ask() for _ in range(5)] == [(200, said, [])] * 5
    assert len(origin.origin.wires) == 1


def test_a_handshake_with_content_works_too(start, dial):
    gateway, origin = start()
    assert dial(gateway).log_in("ada", body=b"x" * 5000) == "ada on 0"
    assert len(origin.origin.wires) == 1


def test_no_client_is_answered_as_another(start, dial, seed):
    """Twelve clients in turns of chance: some log in, some do not, some come again on a new connection."""
    gateway, _ = start()
    source = random.Random(seed)
    clients, expected = {}, {}
    for number in range(12):
        clients[number], expected[number] = dial(gateway), None
    for _ in range(150):
        number = source.randrange(len(clients))
        action = source.random()
        if action < 0.15:
            clients[number].close()
            clients[number], expected[number] = dial(gateway), None
        elif action < 0.4 and expected[number] is None:
            expected[number] = clients[number].log_in(f"user-{number}")
        else:
            status, text, _ = clients[number].ask()
            assert (status, text) == ((200, expected[number]) if expected[number] else (401, "no"))


def test_an_upstream_connection_ends_with_its_client(start, dial):
    """Whether it is authenticated or not: the gateway cannot know that of every scheme."""
    gateway, origin = start()
    ada, bob = dial(gateway), dial(gateway)
    ada.log_in("ada")
    assert bob.ask()[0] == 401
    assert len(origin.origin.wires) == 2
    ada.close()
    bob.close()
    processes.wait_until(lambda: origin.origin.ended == 2, 5, "the origin sees both ends")
    assert dial(gateway).ask()[:2] == (401, "no")
    assert len(origin.origin.wires) == 3


@pytest.mark.parametrize("workers", [1, 2])
def test_idle_ones_give_way_to_those_who_wait(start, dial, workers):
    """A client with many idle connections does not keep all places; a handshake is not interrupted."""
    gateway, origin = start(workers=workers, limits={"connections_per_upstream": 3, "connect_timeout": "20s"})
    idle = [dial(gateway) for _ in range(3)]
    for number, client in enumerate(idle):
        client.log_in(f"idle-{number}")
    began = time.monotonic()
    # Not while its client may be about to answer a challenge.
    assert dial(gateway).log_in("late") == "late on 3"
    assert 1.5 < time.monotonic() - began < 10
    processes.wait_until(lambda: origin.origin.ended == 1, 5, "one of the idle ones has ended")


def test_a_route_without_the_key_gets_no_authenticated_connection(start, dial):
    """To the same upstream, while the client that has it is idle."""
    gateway, _ = start(routes=["other"])
    ada = dial(gateway)
    ada.log_in("ada")
    status, text, challenges = dial(gateway, path="/other/x").ask()
    assert (status, text, challenges) == (401, "no", [])
    assert ada.ask()[1] == "ada on 0"


def test_a_client_of_the_gateway_has_its_token_in_the_other_field(start, dial):
    """`Authorization` is taken by the scheme."""
    gateway, origin = start(access={"clients": {"laptop": {"token": "token-of-the-laptop"}}})
    ada = dial(gateway, "Proxy-Authorization: Bearer token-of-the-laptop")
    assert ada.log_in("ada") == "ada on 0"
    assert ada.ask()[1] == "ada on 0"
    assert b"token-of-the-laptop" not in origin.origin.wires[0].received
    stranger = raw.exchange(gateway.port, get(gateway, "Connection: close", f"Authorization: NTLM {FIRST}"))
    # From the gateway: the origin would offer NTLM.
    assert stranger.status == 401 and json.loads(stranger.body)["code"] == "client-auth-required", stranger.data


def test_the_key_is_a_mistake_beside_a_credential(origin, make_gateway):
    result = make_gateway(config(origin, auth=BEARER, connection_auth=True)).run("check")
    assert result.returncode == 3 and "routes.api.connection_auth" in result.stderr, result.stderr


def test_the_plan_shows_the_key(origin, make_gateway):
    result = make_gateway(config(origin, connection_auth=True)).run("plan")
    assert result.returncode == 0 and "connection_auth: true" in result.stdout, result.stderr

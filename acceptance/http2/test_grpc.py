"""gRPC through the gateway, with the library that most people use on both sides."""

import os
import pathlib
import queue
import socket

import grpc
import pytest
from harness.bytes import noise
from harness import processes
from harness.configs import BEARER, CANARY
from harness.grpc_origin import MIB, SERVICE, GRPCOrigin
from harness.issuer import Issuer

#: By which its route is chosen on plaintext connections.
HOST = "grpc.test"
TOKEN = "token-of-the-laptop-1"


def canary(authorization):
    return authorization == f"Bearer {CANARY}"


@pytest.fixture(params=["by CONNECT, to TLS", "by prior knowledge, to plaintext"])
def world(request, make_gateway, certificate_authority):
    world = World("CONNECT" in request.param, make_gateway, certificate_authority)
    yield world
    if world.origin:
        world.origin.stop()


class World:
    """An origin, a gateway before it, and a channel of a client."""

    def __init__(self, is_secure, make_gateway, certificate_authority):
        self.is_secure, self.make_gateway, self.authority = is_secure, make_gateway, certificate_authority
        self.origin = None

    def start(self, takes=canary, credential=BEARER, origin=True, **more):
        secure = self.authority.issue("named", "DNS:localhost,IP:127.0.0.1") if self.is_secure else (None, None)
        self.port = processes.free_port()
        self.origin = GRPCOrigin(takes, *secure, address=f"127.0.0.1:{self.port}") if origin else None
        place = {"address": f"127.0.0.1:{processes.free_port()}", "intercept": self.is_secure}
        if self.is_secure:
            route = {"upstream": f"https://localhost:{self.port}", "tls": {"ca": str(self.authority.certificate)}, "protocol": "auto"}
        else:
            route = {"upstream": f"http://127.0.0.1:{self.port}", "protocol": "http2", "match": {"hosts": [HOST]}}
        self.gateway = self.make_gateway({"routes": {"grpc": {**route, "auth": credential}}, **more}, listeners=[place])
        self.gateway.start()
        self.place = place["address"]
        return self

    def channel(self, proof=""):
        options = [("grpc.max_receive_message_length", 20 * MIB), ("grpc.max_send_message_length", 20 * MIB)]
        if not self.is_secure:
            return grpc.insecure_channel(self.place, [*options, ("grpc.default_authority", HOST), ("grpc.enable_http_proxy", 0)])
        ca = self.gateway.run("ca", "show", "--path").stdout.strip()
        trust = grpc.ssl_channel_credentials(pathlib.Path(ca).read_bytes())
        return grpc.secure_channel(f"localhost:{self.port}", trust, [*options, ("grpc.http_proxy", f"http://{proof}{self.place}")])


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def unary(channel, request=b"x", method="Unary", timeout=20, **more):
    return channel.unary_unary(SERVICE + method)(request, timeout=timeout, **more)


def test_a_unary_call_has_the_credential_and_all_metadata(world):
    world.start()
    with world.channel() as channel:
        call = channel.unary_unary(SERVICE + "Unary")
        answer, done = call.with_call(b"a" * 100, timeout=20, metadata=(("of-the-client", "words"), ("more-bin", b"\1\xfe")))
        assert answer == b"a" * 100
        first, last = dict(done.initial_metadata()), dict(done.trailing_metadata())
        assert first["first"] == "words" and first["bytes-bin"] == b"\0\xff" and last["last"] == "words"
    [(method, fields)] = world.origin.seen
    assert method == "Unary" and fields["of-the-client"] == "words" and fields["more-bin"] == b"\1\xfe"


def test_streams_of_all_kinds(world):
    world.start()
    with world.channel() as channel:
        found = channel.unary_stream(SERVICE + "Server")(b"1000", timeout=20)
        assert [int(message) for message in found] == list(range(1000))
        parts = [noise(10_000, number) for number in range(200)]
        assert channel.stream_unary(SERVICE + "Client")(iter(parts), timeout=20) == b"".join(parts)


def test_both_sides_of_a_stream_talk_in_turn(world):
    """A message is answered before the next is sent: nothing waits for more."""
    world.start()
    sent = queue.Queue()
    with world.channel() as channel:
        found = channel.stream_stream(SERVICE + "Both")(iter(sent.get, None), timeout=20)
        for number in range(100):
            sent.put(b"%d" % number)
            assert next(found) == b"%d" % number
        sent.put(None)
        assert list(found) == []


def test_a_message_of_16_mib(world):
    world.start()
    message = noise(1 << 20) * 16
    with world.channel() as channel:
        assert unary(channel, message, timeout=60) == message


def test_a_deadline_reaches_the_server_and_ends_its_call(world):
    world.start()
    with world.channel() as channel:
        with pytest.raises(grpc.RpcError) as failed:
            unary(channel, method="Wait", timeout=1)
        assert failed.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert world.origin.cancelled.wait(5), "the server's call has ended, too"
    [left] = world.origin.deadlines
    assert 0 < left <= 1


def test_a_client_that_cancels_ends_the_call_of_the_server(world):
    world.start()
    with world.channel() as channel:
        call = channel.unary_unary(SERVICE + "Wait").future(b"x", timeout=30)
        processes.wait_until(lambda: world.origin.deadlines, 5, "it is there")
        call.cancel()
        assert world.origin.cancelled.wait(5)
        assert unary(channel) == b"x", "the connection goes on"


def test_a_failure_of_the_server_is_passed(world):
    world.start()
    with world.channel() as channel, pytest.raises(grpc.RpcError) as failed:
        unary(channel, method="Fail")
    assert failed.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert failed.value.details() == "not so: 100% \N{EM DASH}"


def test_a_rejected_token_is_renewed_and_the_call_repeated(world):
    """UNAUTHENTICATED in an answer of trailers alone is what 401 is elsewhere."""
    issuer = Issuer()
    try:
        world.start(takes=lambda value: value == "Bearer token-2", credential=issuer.credential(), tokens={"store": "memory"})
        with world.channel() as channel:
            assert unary(channel, b"held") == b"held"
            assert unary(channel, b"next") == b"next"
        assert [fields["authorization"] for _, fields in world.origin.seen] == ["Bearer token-1", "Bearer token-2", "Bearer token-2"]
        assert issuer.count == 2
    finally:
        issuer.stop()


def code_of(channel, **more):
    with pytest.raises(grpc.RpcError) as failed:
        unary(channel, **more)
    return failed.value.code(), failed.value.details()


def test_an_upstream_that_is_down_is_unavailable(world):
    world.start(origin=False)
    with world.channel() as channel:
        code, details = code_of(channel)
    assert code == grpc.StatusCode.UNAVAILABLE and "does not accept connections" in details, details


def test_a_credential_that_cannot_be_had_is_unavailable(world):
    """Not UNAUTHENTICATED: a gateway before this one would renew its own token."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/token"
        credential = {"strategy": "oauth2_client_credentials", "client_id": "a", "client_secret": "b" * 20, "token_url": url}
        world.start(credential=credential)
        with world.channel() as channel:
            code, _ = code_of(channel)
    assert code == grpc.StatusCode.UNAVAILABLE and world.origin.seen == []


def test_a_client_that_does_not_prove_itself_is_unauthenticated(world):
    world.start(access={"clients": {"laptop": {"token": TOKEN}}})
    if world.is_secure:
        with world.channel(f"laptop:{TOKEN}@") as channel:
            assert unary(channel) == b"x"
        return
    with world.channel() as channel:
        code, _ = code_of(channel)
        assert code == grpc.StatusCode.UNAUTHENTICATED and world.origin.seen == []
        assert unary(channel, metadata=(("proxy-authorization", f"Bearer {TOKEN}"),)) == b"x"


def test_many_calls_share_a_connection(world):
    world.start()
    with world.channel() as channel:
        calls = [channel.unary_unary(SERVICE + "Unary").future(b"%d" % number, timeout=30) for number in range(200)]
        assert [int(call.result()) for call in calls] == list(range(200))

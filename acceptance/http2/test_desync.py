"""Random requests by HTTP/2, many of them wrong, before origins of both versions: they read what was answered, and nothing else."""

import collections
import contextlib
import hashlib
import json
import random

import pytest
from harness.configs import BEARER, plain_config
from harness.counts import TIMEOUT, generated
from harness.origin import response

#: On one connection; a client that breaks more rules is sent away.
AT_ONCE = 50

METHODS = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "X-OWN", "TRACE", "CONNECT", "get", "G T", "PRI", ""]
NAMES = [
    *("accept", "cookie", "x-a", "te", "expect", "trailer", "content-type", "via", "forwarded", "authorization", "x_b"),
    *("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host", "content-length", "http2-settings"),
    *("content_length", "transfer_encoding", "X-Upper", "a b", "a:b", "a\r\nb", ":path", ":method", ":authority", ":x"),
]
VALUES = [
    *("1", "a", "", "trailers", "chunked", "gzip, chunked", "close", "100-continue", "localhost", "other", "a, b", "0", "5", "10"),
    *("+5", "5, 5", " 5", "5 ", "\t5", "a\r\nX-Smuggled: 1", "a\nX-Smuggled: 1", "a\rb", "a\0b", "a\x01b", "a\x7fb", "é", "x" * 5000),
    *("a\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n", "0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n", "HTTP/1.1"),
]
PATHS = ["", "?q=1", "?a b", "/a b", " HTTP/1.1\r\nX-Smuggled: 1", "#f", "/../x", "/%2e%2e/x", "/é", "\r\n\r\nGET /smuggled HTTP/1.1"]
AUTHORITIES = ["localhost", "127.0.0.1", "LOCALHOST", "other", "", "user@localhost", "localhost\r\nX-Smuggled: 1", "a b", "localhost:80"]
SCHEMES = ["http", "https", "ftp", ""]


def mostly(chance, choice, usual, others):
    return choice.choice(others) if choice.random() < chance else usual


class Sent:
    """One request, and what its origin must have read if it was answered."""

    def __init__(self, number, choice):
        self.parts = [bytes([97 + number % 26]) * choice.choice([0, 1, 5, 300]) for _ in range(choice.choice([0, 0, 1, 2, 3]))]
        self.body = b"".join(self.parts)
        # The library ends a connection on which trailers follow for a stream that was reset, so that the rest of these is right.
        self.trailers = [self.field(choice)] if self.parts and choice.random() < 0.1 else None
        wrong = 0 if self.trailers else 1
        self.path = f"/api/{number}" + mostly(0.1 * wrong, choice, "", PATHS)
        self.method = mostly(0.1 * wrong, choice, choice.choice(METHODS[1:3]), METHODS)
        self.target = self.path.removeprefix("/api")
        self.fields = self.pseudo(choice, wrong)
        self.fields += [self.field(choice) for _ in range(wrong * choice.choice([0, 1, 1, 2, 4]))]
        if self.parts and choice.random() < 0.4:
            self.fields.append(("content-length", str(len(self.body) + wrong * choice.choice([0, 0, 0, 1, -1, 100]))))
        if choice.random() < 0.02 * wrong:
            choice.shuffle(self.fields)
        # A field may have taken the place of one that was left out.
        self.method = dict(self.fields).get(":method")

    def pseudo(self, choice, wrong):
        fields = [
            (":method", self.method),
            (":scheme", mostly(0.05 * wrong, choice, "http", SCHEMES)),
            (":authority", mostly(0.1 * wrong, choice, "localhost", AUTHORITIES)),
            (":path", self.path),
        ]
        if choice.random() < 0.03 * wrong:
            fields.pop(choice.randrange(4))
        return fields

    @staticmethod
    def field(choice):
        usual = ("x-note", str(choice.random()))
        return (choice.choice(NAMES), choice.choice(VALUES)) if choice.random() < 0.3 else usual

    def send(self, client):
        """Returns its stream; what follows a reset has no effect."""
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, self.fields, end_stream=not self.parts)
        for index, part in enumerate(self.parts):
            is_last = index == len(self.parts) - 1 and not self.trailers
            client.h2.send_data(stream, part, end_stream=is_last, pad_length=len(part) % 7 or None)
        if self.trailers:
            client.h2.send_headers(stream, self.trailers, end_stream=True)
        return stream


def told(method, target, body):
    """What an origin has read, for the client."""
    return json.dumps([method, target, hashlib.sha256(body).hexdigest()]).encode()


class HTTP1:
    """An origin of HTTP/1.1."""

    def __init__(self, make_origin):
        self.origin = make_origin(lambda request: response(200, told(request.method, request.target, request.body)))
        self.config = plain_config(self.origin)

    def requests(self):
        """Method, target and content of all that have come whole."""
        return [(request.method, request.target, request.body) for request in self.origin.requests]

    def text(self):
        return self.origin.raw()


class HTTP2:
    """An origin of HTTP/2, whose library refuses malformed heads."""

    def __init__(self, make_http2_origin):
        self.origin = make_http2_origin()
        self.origin.respond = self.respond
        self.config = {"routes": {"api": {"upstream": self.origin.url, "protocol": "http2", "auth": BEARER}}}

    @staticmethod
    def read(stream):
        return stream.value(":method"), stream.path, bytes(stream.body)

    def respond(self, stream):
        stream.answer(200, b"" if stream.value(":method") == "HEAD" else told(*self.read(stream)))

    def requests(self):
        return [self.read(stream) for stream in self.origin.requests if stream.is_complete]

    def text(self):
        return repr([(stream.fields, stream.trailers, stream.body) for stream in self.origin.requests]).encode()


@pytest.fixture(params=["HTTP/1.1", "HTTP/2"])
def origin(request):
    kind, make = {"HTTP/1.1": (HTTP1, "make_origin"), "HTTP/2": (HTTP2, "make_http2_origin")}[request.param]
    return kind(request.getfixturevalue(make))


@pytest.mark.timeout(TIMEOUT)
def test_the_origin_reads_what_was_answered(served, origin, seed):
    count = generated(2_000)
    choice = random.Random(seed)
    gateway = served(origin.config)
    outcomes = collections.Counter()
    answered, broken = {}, {}
    for start in range(0, count, AT_ONCE):
        sent = [Sent(number, choice) for number in range(start, start + AT_ONCE)]
        with contextlib.closing(gateway.client(seconds=30)) as client:
            streams = [(request, request.send(client)) for request in sent]
            client.flush()
            client.finish(*(stream for _, stream in streams))
        for request, stream in streams:
            answer = client.responses[stream]
            outcomes[answer.status or "reset"] += 1
            if answer.status != 200:
                # Its rest was found wrong when the origin had what was right.
                broken[request.target] = request
                continue
            answered[request.target] = request
            read = told(request.method, request.target, request.body)
            assert request.method == "HEAD" or answer.body == read, request.fields
    assert outcomes[200] > count / 4 and outcomes["reset"] > count / 20 and outcomes[400] > count / 100, outcomes
    received = {target: (method, body) for method, target, body in origin.requests()}
    assert len(received) == len(origin.requests()), "no request comes twice"
    assert answered.keys() <= received.keys()
    for target, (method, body) in received.items():
        sent = answered.get(target) or broken[target]
        assert method == sent.method and sent.body.startswith(body), sent.fields
        assert target in broken or body == sent.body, sent.fields
    assert b"smuggled" not in origin.text().lower()
    assert gateway.process.poll() is None

"""Clients and origins that send anything, for the fuzzer of the whole program.

The seed, the number of the client and the number of its connection decide what a client sends. The seed and the identity of the
request decide what an origin sends. Identities are unique. An origin repeats the identity of the request, so each response shows to
which request it belongs.
"""

import collections
import contextlib
import itertools
import random
import re
import socket
import ssl
import struct
import threading
import time
import typing
import zlib

from .wire import StrictReader, chunk, chunked

_IDENTITY = re.compile(rb"id-(([0-9a-f]{8})-[0-9]{4})-([0-9a-f]{8})-end")

#: A secret of the gateway in any text, with the name of its credential.
SECRET = re.compile(rb"CANARY-5f2c9a-([a-z]+)-[0-9]+")


def identity_of(tag, number):
    """`tag` has eight digits and names the client's connection. The checksum shows whether an identity was damaged."""
    text = b"%s-%04d" % (tag, number)
    return b"id-%s-%08x-end" % (text, zlib.crc32(text))


def identities(data):
    """The undamaged identities in `data`, each with its tag."""
    found = _IDENTITY.finditer(data)
    return [(match.group(), match[2]) for match in found if b"%08x" % zlib.crc32(match[1]) == match[3]]


#: Pieces that `mutated` puts into messages.
PIECES = [
    b"\r\n", b"\n", b"\r", b"\0", b"\r\n\r\n", b" ", b"\t", b":", b";", b",", b'"', b"%00", b"%2f..", b"//", b"\x80", b"\xff" * 4,
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding : chunked\r\n",
    b"Content-Length: 0\r\n", b"Content-Length: 5\r\n", b"Content-Length: 99999999999999999999\r\n", b"Content-Length: +1\r\n",
    b"Connection: close\r\n", b"Connection: keep-alive, Authorization\r\n", b"Connection: upgrade\r\nUpgrade: echo\r\n",
    b"Host: evil.example\r\n", b"Expect: 100-continue\r\n", b"0\r\n\r\n", b"5;a=b\r\nhello\r\n", b"ffffffffffffffff\r\n",
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 101 Switching Protocols\r\n", b"GET /probe HTTP/1.1\r\n", b"A" * 9000, b"X: y\r\n" * 120,
    b"Trailer: Authorization\r\n", b"Via: 1.1 authgateway\r\n", b"Authorization: Bearer mine\r\n", b" folded\r\n",
]  # fmt: skip


def mutated(source, data):
    """Changes, removes, repeats, moves or inserts some bytes."""
    data = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 3, 6))):
        start = source.randrange(len(data) + 1)
        end = min(len(data), start + source.choice((1, 1, 2, 4, 16, 64)))
        other = source.randrange(len(data) + 1)
        kind = source.randrange(7)
        if kind == 0 and start < len(data):
            data[start] ^= 1 << source.randrange(8)
        elif kind == 1:
            del data[start:end]
        elif kind == 2:
            data[other:other] = data[start:end]
        elif kind == 3:
            data[start:end] = bytes(source.randrange(256) for _ in range(end - start))
        elif kind == 4:
            lines = data.split(b"\r\n")
            source.shuffle(lines)
            data = bytearray(b"\r\n".join(lines))
        else:
            data[start:start] = source.choice(PIECES)
    return bytes(data)


def pieces(source, data):
    """Cuts `data` at a few places. Each part is sent at once."""
    places = sorted(source.randrange(len(data) + 1) for _ in range(source.choice((0, 0, 1, 2, 5)))) if data else []
    if source.random() < 0.03:
        places = list(range(1, min(len(data), 300)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def chunks(source, body, trailers=b""):
    """Chunked content with random chunks and chunk extensions."""
    result = []
    while body:
        size = source.randrange(1, len(body) + 1)
        extension = source.choice((b"", b"", b";a", b';a="b;c"'))
        result.append(chunk(body[:size], extension))
        body = body[size:]
    return chunked(result, trailers)


def reset(connection):
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(OSError):
        connection.close()


class HostileOrigin:
    """Answers each request as its identity decides. Keeps what the test checks in the end."""

    def __init__(self, seed, context=None, rejects=0.004):
        self.seed = seed
        self.context = context
        #: The share of responses with status 401.
        self.rejects = rejects
        self.lock = threading.Lock()
        self.seen = collections.Counter()
        #: For each request head: its identity, the secret in it, and the time.
        self.heads = []
        #: The credentials whose secrets arrived, in a head or elsewhere.
        self.secrets = set()
        self.behaviours = collections.Counter()
        #: For each connection, its requests and the behaviour for each.
        self.histories = []
        self.connections = set()
        self.is_open = True
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"http{'s' if self.context else ''}://127.0.0.1:{self.port}"

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with self.lock:
            self.connections.add(connection)
        raw = connection
        try:
            connection.settimeout(20)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True, suppress_ragged_eofs=True)
                with self.lock:
                    self.connections.discard(raw)
                    self.connections.add(connection)
            reader = _Reader(connection, self)
            while self.is_open and self._answer(reader, connection):
                pass
        except (OSError, ValueError):
            pass
        finally:
            with self.lock:
                self.connections.discard(connection)
                self.connections.discard(raw)
            # Over TLS this ends the connection without close_notify.
            connection.close()

    def _answer(self, reader, connection):
        """True if the connection stays open."""
        head = reader.head()
        if not head:
            return False
        found = identities(head)
        identity = found[0][0] if found else b"unknown"
        with self.lock:
            self.seen[identity] += 1
            time_of_head = time.monotonic()
            secret = SECRET.search(head)
            self.heads.append((identity, secret.group() if secret else None, time_of_head))
            source = random.Random(f"{self.seed} {identity} {self.seen[identity]}")
        behaviour = self._choose(source, head)
        self.behaviours[behaviour.__name__] += 1
        reader.history.append((identity.decode(), behaviour.__name__))
        return behaviour(source, head, identity, reader, connection)

    def _choose(self, source, head):
        if source.random() < self.rejects:
            return self._rejecting
        if b"\r\nupgrade:" in head.lower() and source.random() < 0.7:
            return self._switching
        behaviours = {
            self._good: 45, self._damaged: 18, self._gone: 4, self._cut: 8, self._silent: 1, self._two_responses: 6, self._early: 6,
            self._slow: 3, self._oversized: 3, self._interim: 6, self._switching: 1,
        }  # fmt: skip
        return source.choices(list(behaviours), list(behaviours.values()))[0]

    # The behaviours of an origin. Each returns True if the connection stays open.
    #
    # An origin reads the whole content before the next head. It sends anything that looks like a second response at once, and keeps
    # it short, so that it arrives together with the first. Later it would look like the response to the next request.

    def _response(self, source, head, identity, longest=4000):
        """The bytes, and True if the end of the connection ends the content."""
        status = source.choice((200, 200, 200, 201, 204, 206, 302, 304, 404, 429, 500, 503))
        body = (identity + b" ") * min(longest, source.choice((0, 1, 2, 50, 4000)))
        fields = b"HTTP/1.1 %d Status\r\nX-Echo: %s\r\n" % (status, identity)
        fields += source.choice((b"", b"Connection: keep-alive\r\n", b"Set-Cookie: a=b\r\nSet-Cookie: c=d\r\n", b"Via: 1.1 x\r\n"))
        if head.startswith(b"HEAD "):
            return fields + b"Content-Length: %d\r\n\r\n" % len(body), False
        if status in (204, 304):
            return fields + b"\r\n", False
        framing = source.randrange(4)
        if framing == 0:
            trailers = source.choice((b"", b"X-Trailer: %s\r\n" % identity, b"Content-Length: 3\r\n"))
            return fields + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(source, body, trailers), False
        if framing == 1:
            return fields + b"Connection: close\r\n\r\n" + body, True
        return fields + b"Content-Length: %d\r\n\r\n" % len(body) + body, False

    def _send(self, source, connection, data):
        for part in pieces(source, data):
            connection.sendall(part)

    def _good(self, source, head, identity, reader, connection):
        reader.body(head)
        data, is_last = self._response(source, head, identity)
        self._send(source, connection, data)
        return not is_last and source.random() < 0.95

    def _interim(self, source, head, identity, reader, connection):
        for _ in range(source.randrange(1, 4)):
            connection.sendall(source.choice((b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\nX-Echo: %s\r\n\r\n" % identity)))
        return self._good(source, head, identity, reader, connection)

    def _damaged(self, source, head, identity, reader, connection):
        reader.body(head)
        connection.sendall(mutated(source, self._response(source, head, identity, longest=50)[0]))
        return source.random() < 0.5

    def _two_responses(self, source, head, identity, reader, connection):
        """Sends a second response that belongs to no request."""
        reader.body(head)
        first, second = (self._response(source, head, identity, longest=50)[0] for _ in range(2))
        connection.sendall(first + second[: source.choice((1, 40, 5000))])
        return source.random() < 0.8

    def _early(self, source, head, identity, reader, connection):
        self._send(source, connection, self._response(source, head, identity)[0])
        if source.random() < 0.5:
            return False
        reader.body(head)
        return True

    def _gone(self, source, head, identity, reader, connection):
        reset(connection)
        return False

    def _cut(self, source, head, identity, reader, connection):
        reader.body(head)
        data, _ = self._response(source, head, identity)
        connection.sendall(data[: source.randrange(len(data) + 1)])
        if source.random() < 0.5:
            reset(connection)
        return False

    def _silent(self, source, head, identity, reader, connection):
        reader.to_end()
        return False

    def _slow(self, source, head, identity, reader, connection):
        reader.body(head)
        data, _ = self._response(source, head, identity)
        for at in range(0, min(len(data), 60), 3):
            connection.sendall(data[at : at + 3])
            time.sleep(0.002)
        connection.sendall(data[60:])
        return True

    def _oversized(self, source, head, identity, reader, connection):
        reader.body(head)
        fields = source.choice((b"X: %s\r\n" % (b"a" * 40_000), b"X: y\r\n" * 300, b""))
        body = identity + b"x" * 400_000
        connection.sendall(b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n" % (fields, len(body)) + body)
        return True

    def _rejecting(self, source, head, identity, reader, connection):
        reader.body(head)
        challenge = source.choice(
            (b'Bearer error="invalid_token"', b"Bearer", b'Basic realm="a, b", Bearer error=insufficient_scope', b'Bearer realm="')
        )
        if source.random() < 0.3:
            challenge = mutated(source, challenge).replace(b"\r", b"").replace(b"\n", b"")
        connection.sendall(
            b"HTTP/1.1 401 Unauthorized\r\nX-Echo: %s\r\nWWW-Authenticate: %s\r\nContent-Length: 0\r\n\r\n" % (identity, challenge)
        )
        return True

    def _switching(self, source, head, identity, reader, connection):
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n" + identity)
        for _ in range(source.randrange(6)):
            if reader.some():
                connection.sendall(identity)
        if source.random() < 0.4:
            reset(connection)
        return False

    def drop(self):
        """Ends every open connection."""
        with self.lock:
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def stop(self):
        self.is_open = False
        # A thread that accepts would keep the socket open after a close alone.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.drop()


class _Reader(StrictReader):
    """Reads the requests of a gateway, and collects the secrets in them."""

    def __init__(self, connection, origin):
        super().__init__(self.some)
        self.connection = connection
        self.origin = origin
        self.last = b""
        self.history = []
        origin.histories.append(self.history)

    def some(self):
        data = self.connection.recv(65536)
        # A secret may arrive in two parts.
        for secret in SECRET.findall(self.last + data):
            self.origin.secrets.add(secret)
        self.last = (self.last + data)[-64:]
        return data

    def body(self, head):
        head = head.lower()
        if b"\r\nexpect: 100-continue" in head:
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if re.search(rb"\r\ntransfer-encoding:[ \t]*chunked", head):
            self.chunks()
        elif length := re.search(rb"\r\ncontent-length:[ \t]*(\d+)", head):
            self.exactly(int(length[1]))


class Problem(typing.NamedTuple):
    """Bytes that a client must never receive."""

    text: str
    where: str
    sent: bytes
    received: bytes
    names: set

    def describe(self, origins):
        """Includes the history of the connections to the origins over which the requests in question went."""
        histories = [history for origin in origins for history in origin.histories if self.names & {name for name, _ in history}]
        lines = [self.text, self.where, f"sent {self.sent!r}", f"received {_short(self.received)!r}"]
        return "\n".join([*lines, *(f"origin {history}" for history in histories)])


def _short(data):
    """Shortens repeated identities: a body may have nothing else."""
    return re.sub(rb"((?:id-[0-9a-f-]{22}-end) ?)\1{3,}", rb"\1...", data)[:20_000]


class HostileClient:
    """Opens one connection after the other. Adds a `Problem` for bytes that no client may receive."""

    def __init__(self, seed, number, ports, context, problems):
        self.seed = seed
        self.number = number
        #: The ports of the listeners without and with TLS.
        self.ports = ports
        self.context = context
        self.problems = problems
        self.count = 0
        #: The time when each request began, before its first byte was sent.
        self.began = {}
        self.statuses = collections.Counter()
        self.answers = 0

    def run(self, until):
        while time.monotonic() < until and not self.problems:
            self.count += 1
            self.one()

    def one(self):
        source = random.Random(f"{self.seed} client {self.number} {self.count}")
        tag = b"%02x%06x" % (self.number, self.count)
        is_secure = source.random() < 0.4
        names = [identity_of(tag, number) for number in range(source.choice((1, 1, 2, 3, 6)))]
        data = b"".join(self.request(source, identity, self.ports[is_secure]) for identity in names)
        if source.random() < 0.4:
            data = mutated(source, data)
        now = time.monotonic()
        for identity in names:
            self.began[identity] = now
        received = self.exchange(source, data, is_secure)
        self.judge(tag, data, received)

    def request(self, source, identity, port):
        route = source.choices(("plain", "secure", "fixed", "open", "probe", "nowhere"), (6, 6, 4, 3, 1, 1))[0].encode()
        host = b"127.0.0.1:%d" % port
        body = (identity + b"b") * source.choice((0, 1, 3, 200, 5000))
        odd = (b"%41/./x", b"a//b", b"..%2f", b"../probe", b"%zz")
        target = b"/%s/%s" % (route, source.choice((b"x", b"a/b?c=d", b"") if source.random() < 0.9 else odd))
        if source.random() < 0.05:
            target = b"http://" + host + target
        head = b" %s HTTP/1.%d\r\nHost: %s\r\nX-Id: %s\r\n" % (target, source.random() < 0.95, host, identity)
        more = (b"", b"", b"Accept-Encoding: gzip\r\n", b"TE: trailers\r\n", b"Connection: X-Y\r\nX-Y: z\r\n")
        head += source.choice((*more, b"Authorization: Bearer mine\r\n"))
        kind = source.randrange(8)
        if kind <= 2:
            return source.choice((b"GET", b"GET", b"HEAD", b"DELETE", b"OPTIONS")) + head + b"\r\n"
        if kind == 3:
            return b"GET" + head + b"Connection: Upgrade\r\nUpgrade: echo\r\n\r\n"
        expect = source.choice((b"", b"", b"Expect: 100-continue\r\n"))
        if kind <= 5:
            return b"POST" + head + expect + b"Content-Length: %d\r\n\r\n" % len(body) + body
        trailers = source.choice((b"", b"X-Trailer: a\r\n", b"Authorization: Bearer mine\r\n"))
        return b"PUT" + head + expect + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(source, body, trailers)

    def exchange(self, source, data, is_secure):
        """Sends `data` and returns all bytes that came back. Every wait is short."""
        received = b""
        try:
            connection = socket.create_connection(("127.0.0.1", self.ports[is_secure]), 5)
        except OSError:
            return received
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            # Sometimes it speaks without TLS to the listener with TLS.
            if is_secure and source.random() < 0.97:
                connection = self.context.wrap_socket(connection, suppress_ragged_eofs=True)
            connection.settimeout(source.choice((0.02, 0.02, 0.1, 0.1, 0.6)))
            last = source.random()
            for number, part in enumerate(pieces(source, data)):
                connection.sendall(part)
                if last < 0.05 and number == 1:
                    return received
            if 0.05 <= last < 0.15 and not isinstance(connection, ssl.SSLSocket):
                connection.shutdown(socket.SHUT_WR)
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline and (part := connection.recv(65536)):
                received += part
                if 0.15 <= last < 0.2:
                    break
                if b" 101 " in part[:20]:
                    connection.sendall(b"through the tunnel")
            if last < 0.3:
                reset(connection)
        except (OSError, ValueError):
            pass
        finally:
            connection.close()
        return received

    def judge(self, tag, sent, received):
        def problem(text):
            names = {identity.decode() for identity, _ in (*identities(received), *identities(sent))}
            self.problems.append(Problem(text, f"client {self.number}, connection {self.count}", sent, received, names))

        if SECRET.search(received) or b"CANARY" in received:
            problem("a client received a credential")
        came = [identity for identity, _ in identities(received)]
        if any(other != tag for _, other in identities(received)):
            problem("a client received the answer to another's request")
        # A response may contain its identity several times.
        order = iter([identity for identity, _ in identities(sent)])
        if not all(identity in order for identity, _ in itertools.groupby(came)):
            problem("the answers are not in the order of the requests")
        for status in re.findall(rb"HTTP/1\.1 (\d\d\d) ", received):
            self.statuses[int(status)] += 1
        self.answers += received.count(b"\r\nX-Echo: id-" + tag)


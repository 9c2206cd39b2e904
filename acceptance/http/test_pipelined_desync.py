"""Random requests by HTTP/1.1, many behind one another on a connection, some of them wrong, by several clients at once.

A strict origin says in each answer what it has read. So each answer has to be about the request in whose place it comes, and the origin
must have read what was answered, and nothing else.
"""

import collections
import concurrent.futures
import hashlib
import json
import random
import socket

import pytest
from harness.configs import plain_config
from harness.counts import TIMEOUT, generated
from harness.origin import response
from harness.wire import StrictReader, chunk, chunked

CLIENTS = 4
#: On one connection; what is behind a wrong one is not read.
AT_ONCE = 50
#: Of how many requests one is wrong.
WRONG = 12

NEXT = b"GET /api/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODIES = [b"", b"a", b"hello", b"x" * 300, b"\r\n\r\n", b"0\r\n\r\n", NEXT, b"0\r\n\r\n" + NEXT, b"5\r\nhello\r\n0\r\n\r\n" + NEXT]
METHODS = [b"GET", b"GET", b"POST", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"HEAD", b"X-OWN"]
LINES = [
    *(b"Accept: */*", b"accept-encoding:gzip", b"X-A: \t b \t", b"X-B:", b"Cookie: a=b; c=d", b"TE: trailers", b"X-Obs: \xe9"),
    *(b"X-Long: " + b"y" * 3000, b"Via: 1.1 other", b"X-Chunked: chunked", b"X-Length: 5", b"Trailer: X-Sum", b"Connection: keep-alive"),
    *(b"Content-Type: text/plain", b"Range: bytes=0-1", b"X-Note: Content-Length: 3", b"X-Note: Transfer-Encoding: chunked"),
]
#: Instead of the field with the length, which is the number; none may be served.
LENGTHS = [
    *(b"Content-Length: +%d", b"Content-Length: %d, %d", b"Content-Length: %d\r\nContent-Length: %d", b"Content-Length: 0x%x"),
    *(b"Content-Length : %d", b"Content-Length: %d\r\nTransfer-Encoding: chunked", b"Content_Length: %d\r\nContent-Length: %d"),
    *(b"Content-Length: %d \x0b", b"Content-Length:\r\n %d", b"X: y\rContent-Length: %d", b"Content-Length: -%d", b"Content-Length: %d.0"),
]
#: Instead of the field that says that chunks follow.
CODINGS = [
    *(b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding:\x0bchunked"),
    *(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"Transfer-Encoding: chunked, gzip", b"Transfer-Encoding : chunked"),
    *(b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"Transfer_Encoding: chunked", b'Transfer-Encoding: "chunked"', b"Transfer-Encoding: "),
]
#: Instead of a field that is right.
BROKEN = [
    *(b"X-A : b", b"X A: b", b"X-A: b\0c", b"X-A: b\r\n c", b" X-A: b", b"X-A: b\rX-B: c", b": b", b"X-A", b"Host: other", b"X-A: b\nX-B: c"),
]
#: Instead of the first chunk.
CHUNKS = [
    *(b"zz\r\nhello\r\n", b"5\nhello\n", b"5\r\nhelloXX", b"-5\r\nhello\r\n", b"5 \r\nhello\r\n", b"0x5\r\nhello\r\n", b"\r\nhello\r\n"),
    *(b"5;a\nb\r\nhello\r\n", b"fffffffffffffffff\r\nhello\r\n", b"+5\r\nhello\r\n", b"5\r\nhello\n", b"5\r\nhello\r\n0\r\nX : y\r\n\r\n"),
]


class Sent:
    """One request, and what its origin must read if it is served at all."""

    def __init__(self, name, choice):
        self.method = choice.choice(METHODS)
        self.target = f"/{name}" + choice.choice(["", "?q=1", "?" + "z" * 200, "/%41;b=c"])
        self.body = choice.choice(BODIES)
        self.is_wrong = choice.randrange(WRONG) == 0
        lines = [choice.choice(LINES) for _ in range(choice.randrange(4))]
        framing = choice.choice(["none", "length", "length", "chunked", "chunked"])
        kind = choice.choice(["framing", "framing", "field", "line"]) if self.is_wrong else ""
        if framing == "none":
            self.body, content = b"", b""
            kind = kind and "field"
        elif framing == "length":
            content = self.body
            length = choice.choice(LENGTHS) if kind == "framing" else b"Content-Length: %d"
            lines.append(length % ((len(self.body),) * length.count(b"%")))
        else:
            is_broken = kind == "framing" and choice.randrange(2)
            right = choice.choice([b"Transfer-Encoding: chunked", b"transfer-encoding:Chunked"])
            lines.append(choice.choice(CODINGS) if kind == "framing" and not is_broken else right)
            content = (choice.choice(CHUNKS) if is_broken else b"") + self.chunks(choice)
        if kind == "field":
            lines.insert(choice.randrange(len(lines) + 1), choice.choice(BROKEN))
        choice.shuffle(lines)
        target = choice.choice(["/api", "/api", "http://localhost/api"]) + self.target
        line = self.method + b" " + target.encode() + b" HTTP/1.1"
        if kind == "line":
            small, spaced = line.replace(b"HTTP", b"http"), line.replace(b" ", b"  ", 1)
            line = choice.choice([line + b" ", line[:-3] + b"2.0", small, spaced, line + b"\0"])
        self.data = b"\r\n".join([line, b"Host: localhost", *lines, b"", content])

    def chunks(self, choice):
        parts, rest = [], self.body
        while rest:
            size = choice.randrange(1, len(rest) + 1)
            part, rest = rest[:size], rest[size:]
            extension = choice.choice([b"", b"", b";a", b";a=b", b';a="\\"b"'])
            parts.append(choice.choice([b"", b"", b"0", b"000"]) + chunk(part, extension))
        return chunked(parts, choice.choice([b"", b"", b"X-Sum: 1\r\n", b"X-A: b\r\nContent-Length: 3\r\n"]))


def told(request):
    """What the origin has read, for the client. After a HEAD it sends content, too, which is no answer to anybody."""
    digest = hashlib.sha256(request.body).hexdigest()
    return response(200, json.dumps([request.method, request.target, digest]).encode())


def answer(reader, is_head):
    """Status, head and content of the next response; None at the end of the connection."""
    while head := reader.head():
        status = int(head[9:12])
        if status >= 200:
            fields = head.lower().split(b"\r\n")
            [length] = [int(field[15:]) for field in fields if field.startswith(b"content-length:")]
            return status, b"connection: close" in fields, b"" if is_head else reader.exactly(length)
    return None


def client(port, name, seed, count):
    """What was served, by target, and how often each status came."""
    choice = random.Random(seed * CLIENTS + name)
    served, statuses, number = {}, collections.Counter(), 0
    while statuses.total() < count:
        sent = [Sent(f"{name}-{number + place}", choice) for place in range(choice.randrange(1, AT_ONCE))]
        number += len(sent)
        with socket.create_connection(("127.0.0.1", port), 30) as connection:
            connection.sendall(b"".join(request.data for request in sent))
            reader = StrictReader(lambda connection=connection: connection.recv(65_536))
            for request in sent:
                status, ends, content = answer(reader, request.method == b"HEAD")
                statuses[status] += 1
                assert (status != 200) == request.is_wrong, (status, content, request.data)
                if status != 200:
                    # Nobody knows where the next one would begin.
                    assert ends and reader.to_end() == b"", request.data
                    break
                read = [request.method.decode(), request.target, hashlib.sha256(request.body).hexdigest()]
                assert request.method == b"HEAD" or json.loads(content) == read, request.data
                served[request.target] = request
    return served, statuses


@pytest.mark.timeout(TIMEOUT)
def test_each_answer_is_about_the_request_in_its_place(make_origin, start_gateway, seed):
    count = generated(4_000)
    origin = make_origin(told)
    gateway = start_gateway(plain_config(origin))
    served, statuses = {}, collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client, gateway.port, name, seed, count // CLIENTS) for name in range(CLIENTS)]
        for one in clients:
            more, found = one.result()
            served |= more
            statuses += found
    print(dict(statuses))
    assert statuses[200] > count / 2 and statuses[400] > count / 50, statuses
    received = {request.target: request for request in origin.requests}
    assert len(received) == len(origin.requests), "no request comes twice"
    assert received.keys() == served.keys(), "what was refused, and what was behind it, has come nowhere"
    for target, request in received.items():
        assert (request.method.encode(), request.body) == (served[target].method, served[target].body)
    assert gateway.process.poll() is None

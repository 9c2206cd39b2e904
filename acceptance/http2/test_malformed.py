"""Requests that RFC 9113 section 8 calls malformed reset their stream; nothing of them reaches the upstream."""

import contextlib

import pytest
from h2.errors import ErrorCodes
from harness import http2

GET = dict(http2.Client.fields())


def changed(**values):
    """The pseudo-header fields, some of them changed or left out."""
    names = {f":{name}": value for name, value in values.items()}
    return [(name, names.get(name, value)) for name, value in GET.items() if names.get(name, value) is not None]


MALFORMED = {
    "upper case": [*changed(), ("X-Name", "1")],
    "space in a name": [*changed(), ("a b", "1")],
    "line feed in a value": [*changed(), ("x", "a\nb: c")],
    "carriage return in a value": [*changed(), ("x", "a\r\nb: c")],
    "nul in a value": [*changed(), ("x", "a\0b")],
    "space before a value": [*changed(), ("x", " a")],
    "connection": [*changed(), ("connection", "close")],
    "keep-alive": [*changed(), ("keep-alive", "timeout=5")],
    "proxy-connection": [*changed(), ("proxy-connection", "close")],
    "transfer-encoding": [*changed(), ("transfer-encoding", "chunked")],
    "upgrade": [*changed(), ("upgrade", "websocket")],
    "te": [*changed(), ("te", "gzip")],
    "no method": changed(method=None),
    "no scheme": changed(scheme=None),
    "no path": changed(path=None),
    "empty path": changed(path=""),
    "absolute path": changed(path="http://localhost/api/x"),
    "smuggled line": changed(path="/api/x HTTP/1.1\r\nHost: other\r\n\r\n"),
    "space in the path": changed(path="/api/x y"),
    "method with a space": changed(method="GET /api/y HTTP/1.1\r\nx:"),
    "unknown pseudo field": [*changed(), (":other", "1")],
    "a response's pseudo field": [*changed(), (":status", "200")],
    "duplicate pseudo field": [*changed(), (":path", "/api/y")],
    "late pseudo field": [(":method", "GET"), ("x", "1"), *changed(method=None)],
    "host that differs": [*changed(), ("host", "other")],
    "length without content": [*changed(), ("content-length", "5")],
    "protocol without CONNECT": [(":protocol", "websocket"), *changed()],
    "unknown protocol": [(":protocol", "other"), *changed(method="CONNECT")],
    "connect with a path": changed(method="CONNECT"),
}


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=MALFORMED)
def test_it_is_reset(client, origin, fields):
    answer = client.finish(client.begin(fields=fields))
    assert (answer.reset, answer.status) == (ErrorCodes.PROTOCOL_ERROR, None)
    assert origin.count() == 0
    assert client.ask().status == 200, "the connection goes on"


REFUSED = {
    "two hosts": (400, [*changed(authority=None), ("host", "localhost"), ("host", "localhost")]),
    "no host": (400, changed(authority=None)),
    "host with a user": (400, changed(authority="user@localhost")),
    "two lengths": (400, [*changed(method="POST"), ("content-length", "1"), ("content-length", "1")]),
    "length that is no number": (400, [*changed(method="POST"), ("content-length", "+1")]),
    "framing look-alike": (400, [*changed(), ("transfer_encoding", "chunked")]),
    "control byte": (400, [*changed(), ("x", "a\1b")]),
    "fragment": (400, changed(path="/api/x#y")),
    "trace": (405, changed(method="TRACE")),
    "connect": (405, [(":method", "CONNECT"), (":authority", "localhost:443")]),
    "too many fields": (431, [*changed(), *((f"x-{number}", "1") for number in range(101))]),
    "long head": (431, [*changed(), ("x", "a" * 33_000)]),
}


@pytest.mark.parametrize("status, fields", REFUSED.values(), ids=REFUSED)
def test_what_http1_refuses_is_refused(client, origin, status, fields):
    client.until(lambda: client.settings)
    client.ask(path="/nowhere")
    content = ("content-length" in dict(fields)) or dict(fields)[":method"] == "CONNECT"
    answer = client.finish(client.begin(fields=fields, end=not content))
    assert answer.status == status and answer.value("content-type") == "application/problem+json"
    assert origin.count() == 0
    assert client.ask().status == 200


@pytest.mark.parametrize("content", [b"", b"1234", b"123456"], ids=["none", "short", "long"])
def test_content_of_another_length(client, origin, content):
    stream = client.begin(("content-length", "5"), method="POST", end=False)
    # The library counts for itself; the frames are made by hand.
    client.send(client.frame(0, 1, stream, content))
    assert client.finish(stream).reset == ErrorCodes.PROTOCOL_ERROR
    assert origin.count() == 0


@pytest.mark.parametrize("trailers", [[(":path", "/")], [("X-Sum", "1")], [("connection", "close")]])
def test_malformed_trailers(client, origin, trailers):
    stream = client.begin(method="POST", end=False)
    client.content(stream, b"abc", end=False)
    client.h2.send_headers(stream, trailers, end_stream=True)
    client.flush()
    assert client.finish(stream).reset == ErrorCodes.PROTOCOL_ERROR
    assert client.ask().status == 200


def test_a_head_that_cannot_be_decoded_ends_the_connection(served):
    with contextlib.closing(served().client()) as client:
        # An index that no table has.
        client.send(client.frame(1, 5, 1, b"\xff\xff\xff\xff\x0f"))
        assert client.until_end() == [ErrorCodes.COMPRESSION_ERROR]

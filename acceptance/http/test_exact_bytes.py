"""Whole heads, byte for byte: what the origin gets of a request, and the client of its answer."""

import re

import pytest
from harness.configs import CANARY, plain_config
from harness import raw
from harness.origin import response
from harness.script import OK, connect, get

#: In an order and in spellings that whoever keeps fields in a table would lose, with what stays on its hop in between.
ASKED = """\
POST {path} HTTP/1.1
x-second: b
ACCEPT: text/html;q=0.5, */*
hOsT: 127.0.0.1:{gateway}
Connection: close, X-Private
X-First:   padded\t
X-PRIVATE: a
x-second: a
Cookie: c=d; e="f"
Content-length: 2
X-Empty:
aUTHORIZATION: Basic mine
X_Under: score
Keep-Alive: 5
X-Bytes: \xe4\xf6\xff
User-Agent: odd/1.0

"""

ARRIVED = """\
POST {path} HTTP/1.1
Host: 127.0.0.1:{origin}
Authorization: Bearer {token}
x-second: b
ACCEPT: text/html;q=0.5, */*
X-First:   padded\t
x-second: a
Cookie: c=d; e="f"
Content-length: 2
X-Empty:
X_Under: score
X-Bytes: \xe4\xf6\xff
User-Agent: odd/1.0
Via: 1.1 {via}

"""

ANSWERED = """\
HTTP/1.1 299 Whatever You Say
x-Second: b
ETAG: W/"a"
Connection: X-Private
date: Sun, 06 Nov 1994 08:49:37 GMT
X-Private: a
Set-Cookie: a=b; Path=/
CONTENT-LENGTH: 2
Keep-Alive: timeout=5
x-Second:   a\t
set-cookie: c=d
Content-Encoding: gzip
X-Empty:
Server: odd/1.0 (\xe4\xf6\xff)

"""

RECEIVED = """\
HTTP/1.1 299 Whatever You Say
x-Second: b
ETAG: W/"a"
date: Sun, 06 Nov 1994 08:49:37 GMT
Set-Cookie: a=b; Path=/api
CONTENT-LENGTH: 2
x-Second:   a\t
set-cookie: c=d
Content-Encoding: gzip
X-Empty:
Server: odd/1.0 (\xe4\xf6\xff)
Via: 1.1 {via}
Proxy-Status: authgateway; next-hop="127.0.0.1:{origin}"; received-status=299
Gateway-Request-Id: {id}
Connection: close

"""


def on_the_wire(head, **places):
    return head.format(**places).replace("\n", "\r\n").encode("latin-1")


@pytest.fixture
def gateway(origin, start_gateway):
    config = plain_config(origin)
    # Otherwise they would be dropped beside the credential.
    config["routes"]["api"]["cookies"] = "pass"
    return start_gateway(config)


def via(answer):
    """The name that this gateway gives itself, which no other has."""
    [line] = answer.values("via")
    return line.removeprefix("1.1 ")


def test_a_head_arrives_byte_for_byte_but_for_what_is_the_gateways(origin, gateway):
    origin.answer = lambda request: on_the_wire(ANSWERED) + b"ok"
    path = "/a%2Db;c=d//?e=%2f&"
    answer = raw.exchange(gateway.port, on_the_wire(ASKED, path="/api" + path, gateway=gateway.port) + b"\r\n")
    [name] = answer.values("gateway-request-id")
    assert re.fullmatch(r"[0-9a-v]{7,}-[0-9a-v]+", name)
    own = {"origin": origin.port, "via": via(answer), "id": name}
    assert origin.raw() == on_the_wire(ARRIVED, path=path, token=CANARY, **own) + b"\r\n"
    assert answer.data == on_the_wire(RECEIVED, **own) + b"ok"


def test_a_head_without_any_field_of_its_own_gets_none_but_the_gateways(origin, gateway):
    """What a client library would add: an Accept, an Accept-Encoding, a User-Agent, a Connection."""
    with connect(gateway.port) as client:
        client.send(get(gateway))
        name = via(raw.Answer(client.head()))
    expected = f"GET /x HTTP/1.1\nHost: 127.0.0.1:{origin.port}\nAuthorization: Bearer {CANARY}\nVia: 1.1 {name}\n\n"
    assert origin.raw() == on_the_wire(expected)


@pytest.mark.parametrize(
    "line", ["Accept-Encoding: gzip;q=0.5 ,br,  identity", "aCCEPT-eNCODING:", "Accept-Encoding: x-unheard-of"]
)
def test_what_a_client_says_of_encodings_arrives_as_it_was_said(origin, gateway, line):
    """And the body is passed on in whatever the origin has chosen: here it is no gzip at all."""
    origin.answer = lambda request: response(200, b"\x1f\x8b\x00!", "Content-Encoding: gzip")
    answer = raw.exchange(gateway.port, get(gateway, line, "Connection: close"))
    assert f"\r\n{line}\r\n".encode() in origin.raw() and origin.raw().lower().count(b"accept-encoding") == 1
    assert answer.values("content-encoding") == ["gzip"] and answer.body == b"\x1f\x8b\x00!"


@pytest.mark.parametrize("to", ["elsewhere", "here"])
@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
def test_no_redirect_is_followed(origin, gateway, make_origin, status, to):
    """The credential is for this upstream: where it points to, be it itself, is the client's business."""
    elsewhere = make_origin()
    location = f"Location: {(elsewhere if to == 'elsewhere' else origin).url}/y?z#f"
    moved = f"HTTP/1.1 {status} Moved\r\n{location}\r\nContent-Length: 5\r\n\r\nmoved".encode()
    origin.answer = lambda request: moved if request.target == "/x" else OK
    answer = raw.exchange(gateway.port, get(gateway, "Content-Length: 2", "Connection: close", method="POST") + b"hi")
    assert (answer.status, answer.body) == (status, b"moved")
    told = location.replace(f"{origin.url}/", f"{gateway.url}/api/")
    assert f"\r\n{told}\r\n".encode() in answer.head + b"\r\n"
    assert [(request.method, request.target, request.body) for request in origin.requests] == [("POST", "/x", b"hi")]
    assert elsewhere.raw() == b""


#: Queries of a client on a route whose credential is the parameter `key`, and what the origin gets before that.
QUERIES = {
    "": "",
    "?": "",
    "?a=1": "a=1&",
    "?q=select+1;": "q=select+1;&",
    "?a=1&;b=2": "a=1&;b=2&",
    "?a=;;x": "a=;;x&",
    "?css=a:b;&z=1": "css=a:b;&z=1&",
    "?&&": "&&&",
    "?key=x": "",
    "?key=x&key=y;key": "",
    "?a=1&key=x&b=2": "a=1&b=2&",
    "?a=1&key=x;b=2": "a=1&b=2&",
    "?a=1;key=x&b=2": "a=1&b=2&",
    "?a=1;key=x;b=2": "a=1;b=2&",
    "?key=x;a=1": "a=1&",
    "?a=1;k%65y=x;key": "a=1&",
    "?keys=1&b=key": "keys=1&b=key&",
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_credential_in_the_query_changes_no_other_parameter(origin, start_gateway, query):
    """Some take only `&` for an end, some `;` as well: what stays has to mean the same to both."""
    auth = {"strategy": "header", "query": "key", "value": "ours"}
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": auth}}})
    raw.exchange(gateway.port, get(gateway, "Connection: close", path=f"/api/x{query}"))
    assert origin.last().target == f"/x?{QUERIES[query]}key=ours"

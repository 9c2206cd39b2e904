"""The fields of answers: what stays on the hop to the origin, and what is too broken to be passed on."""

import pytest
from harness.script import OK, answering, connect, get

BODY = b"Content-Length: 2\r\n\r\nok"


def answered(start, answer, *fields, **options):
    """The head and the body that a client gets for this answer of the origin."""
    gateway, origin = start(answering(answer), **options)
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: close", *fields))
        head = client.head()
        return head, client.to_end(), client, origin


# Fields of one hop


HOP_BY_HOP = {
    "keep-alive": b"Keep-Alive: timeout=5, max=100\r\n",
    "proxy-connection": b"Proxy-Connection: keep-alive\r\n",
    "te": b"TE: trailers\r\n",
    "upgrade": b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
    "upgrade-alone": b"Upgrade: h2c, websocket\r\n",
    "proxy-authenticate": b'Proxy-Authenticate: Basic realm="origin"\r\n',
    "proxy-authorization": b"Proxy-Authorization: Basic bWluZTptaW5l\r\n",
    # What leads around the gateway, or is about another host than the client's.
    "alt-svc": b'Alt-Svc: h3=":443"; ma=86400\r\n',
    "strict-transport-security": b"Strict-Transport-Security: max-age=63072000; includeSubDomains\r\n",
    "http2-settings": b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    "authorization": b"Authorization: Bearer echoed\r\n",
    "x-hop": b"X-Hop: a\r\nConnection: x-hop\r\n",
    "x-two": b"Connection: keep-alive\r\nX-Two: a\r\nx-two: b\r\nConnection: , X-TWO ,\r\n",
    "etag": b'Connection: ETag\r\nETag: "a"\r\n',
}


@pytest.mark.parametrize("name", HOP_BY_HOP)
def test_a_field_of_the_hop_to_the_origin_stays_there(shared, name):
    """RFC 9110 §7.6.1, whether it is one by its name or because `Connection` nominates it."""
    answer = b"HTTP/1.1 200 OK\r\nX-First: 1\r\n" + HOP_BY_HOP[name] + b"X-Last: 2\r\n" + BODY
    head, body, _, _ = answered(shared, answer)
    lower = head.lower()
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and body == b"ok"
    assert f"\r\n{name.removesuffix('-alone')}:".encode() not in lower, head
    assert b"\r\nX-First: 1\r\n" in head and b"\r\nX-Last: 2\r\n" in head
    assert lower.count(b"\r\nconnection:") == 1 and b"\r\nConnection: close\r\n" in head, "only our own"


def test_the_same_holds_for_interim_answers_and_for_a_switch(shared):
    interim = b"HTTP/1.1 103 Early Hints\r\nConnection: X-Hop\r\nX-Hop: a\r\nKeep-Alive: timeout=5\r\nLink: <a>\r\n\r\n"
    switch = (
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade, X-Hop\r\nUpgrade: echo\r\nX-Hop: a\r\nKeep-Alive: a\r\n\r\n"
    )
    gateway, _ = shared(answering(interim + switch))
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: Upgrade", "Upgrade: echo"))
        assert client.head() == b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"
        head = client.head()
        assert head.startswith(b"HTTP/1.1 101 ") and b"\r\nUpgrade: echo\r\n" in head
        assert b"\r\nConnection: Upgrade\r\n" in head and b"x-hop" not in head.lower() and b"keep-alive" not in head.lower()


@pytest.mark.parametrize("name", ["Content-Length", "Transfer-Encoding"])
def test_a_framing_field_that_connection_nominates_is_not_lost(shared, name):
    """Without it the client would find another end of the body."""
    framed = BODY if name == "Content-Length" else b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    field, _, content = framed.partition(b"\r\n\r\n")
    head, body, _, _ = answered(shared, b"HTTP/1.1 200 OK\r\nConnection: " + name.encode() + b"\r\n" + framed)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n" + field + b"\r\n") and body == content, (head, body)
    assert head.lower().count(b"\r\nconnection:") == 1 and b"\r\nConnection: close\r\n" in head, "only our own"


# Heads that are broken


BROKEN_FIELDS = {
    "zero byte": b"X-A: a\x00b\r\n",
    "carriage return": b"X-A: a\rSet-Cookie: a=b\r\n",
    "carriage return at the end": b"X-A: a\r\r\n",
    "line feed": b"X-A: a\nSet-Cookie: a=b\r\n",
    "bell": b"X-A: a\x07\r\n",
    "backspace": b"X-A: a\x08b\r\n",
    "vertical tab": b"X-A: a\x0bb\r\n",
    "form feed": b"X-A: a\x0cb\r\n",
    "escape": b"X-A: \x1b[31m\r\n",
    "unit separator": b"X-A: a\x1fb\r\n",
    "delete": b"X-A: a\x7fb\r\n",
    "zero byte alone": b"X-A: \x00\r\n",
    "zero byte in the name": b"X\x00A: a\r\n",
    "space in the name": b"X A: a\r\n",
    "space before the colon": b"X-A : a\r\n",
    "no name": b": a\r\n",
    "no colon": b"X-A\r\n",
    "byte beyond ASCII in the name": b"X-\xc3\xa4: a\r\n",
    "folded": b"X-A: a\r\n b\r\n",
    "folded with a tab": b"X-A: a\r\n\tb\r\n",
    "folded first": b" X-A: a\r\n",
}


@pytest.mark.parametrize("field", BROKEN_FIELDS.values(), ids=[name.replace(" ", "-") for name in BROKEN_FIELDS])
@pytest.mark.parametrize("interim", [b"", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"], ids=["final", "after-103"])
def test_a_broken_field_of_an_answer_is_a_502(shared, field, interim):
    head, body, client, _ = answered(shared, interim + b"HTTP/1.1 200 OK\r\n" + field + BODY)
    if interim:
        assert head == interim
        head, _, body = body.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 502 ") and b"upstream-invalid-response" in body, head
    assert b"set-cookie" not in client.received.lower() and b"X-A" not in client.received


@pytest.mark.parametrize("field", BROKEN_FIELDS.values(), ids=[name.replace(" ", "-") for name in BROKEN_FIELDS])
def test_a_broken_field_of_an_interim_answer_is_a_502(shared, field):
    head, _, client, _ = answered(shared, b"HTTP/1.1 103 Early Hints\r\n" + field + b"\r\n" + OK)
    assert head.startswith(b"HTTP/1.1 502 "), head
    assert b"set-cookie" not in client.received.lower() and b"X-A" not in client.received


@pytest.mark.parametrize("byte", [0x09, 0x21, 0x7E, 0x80, 0xE4, 0xFF])
def test_a_value_may_have_any_visible_byte_a_tab_and_what_is_beyond_ascii(shared, byte):
    field = b"X-A: a" + bytes([byte]) + b"b\r\n"
    head, body, _, _ = answered(shared, b"HTTP/1.1 200 OK\r\n" + field + BODY)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"\r\n" + field in head and body == b"ok"


TABS = {
    "before the coding": b"Transfer-Encoding:\tchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "behind the coding": b"Transfer-Encoding: chunked\t\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "among spaces before the coding": b"Transfer-Encoding: \t chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "before the length": b"Content-Length:\t2\r\n\r\nok",
    "behind the length": b"Content-Length: 2\t\r\n\r\nok",
    "among spaces before the length": b"Content-Length: \t 2\r\n\r\nok",
}


@pytest.mark.parametrize("framing", TABS.values(), ids=[name.replace(" ", "-") for name in TABS])
def test_a_tab_around_the_framing_of_an_answer_is_a_502(shared, framing):
    """As for requests: who takes only spaces away reads no length and no coding there."""
    head, _, client, _ = answered(shared, b"HTTP/1.1 200 OK\r\n" + framing)
    assert head.startswith(b"HTTP/1.1 502 "), head
    assert b"\t" not in client.received


BROKEN_FRAMING = {
    "length and chunked": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
    "equal lengths": b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "list of lengths": b"Content-Length: 2, 2\r\n\r\nok",
    "signed length": b"Content-Length: +2\r\n\r\nok",
    "negative length": b"Content-Length: -2\r\n\r\nok",
    "empty length": b"Content-Length: \r\n\r\n",
    "huge length": b"Content-Length: 99999999999999999999\r\n\r\nok",
    "other coding": b"Transfer-Encoding: gzip\r\n\r\nok",
    "two codings": b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "identity": b"Transfer-Encoding: identity\r\n\r\nok",
    "vertical tab": b"Transfer-Encoding:\x0bchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "space before the colon": b"Transfer-Encoding : chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("framing", BROKEN_FRAMING.values(), ids=[name.replace(" ", "-") for name in BROKEN_FRAMING])
def test_broken_framing_of_an_answer_is_a_502(shared, framing):
    head, _, _, _ = answered(shared, b"HTTP/1.1 200 OK\r\n" + framing)
    assert head.startswith(b"HTTP/1.1 502 "), head


def test_chunks_in_an_answer_of_1_0_are_a_502(shared):
    head, _, _, _ = answered(shared, b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 502 "), head


@pytest.mark.parametrize(
    "line",
    [b"HTTP/2.0 200 OK", b"HTTP/1.2 200 OK", b"http/1.1 200 OK", b"HTTP/1.1  200 OK", b"HTTP/1.1 2000 OK", b"HTTP/1.1 20 OK"]
    + [
        b"HTTP/1.1 099 Low",
        b"HTTP/1.1 2x0 OK",
        b"HTTP/1.1\t200 OK",
        b"HTTP/1.1 200 O\x00K",
        b"HTTP/1.1 200 O\rK",
        b"ICY 200 OK",
    ],
)
def test_a_broken_status_line_is_a_502(shared, line):
    head, _, _, _ = answered(shared, line + b"\r\n" + BODY)
    assert head.startswith(b"HTTP/1.1 502 "), head


# Heads that are too large


@pytest.mark.parametrize("interim", [b"", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"], ids=["final", "after-103"])
@pytest.mark.parametrize(
    "fields",
    [b"X-A: " + b"a" * 2100 + b"\r\n", b"".join(b"X-%d: a\r\n" % number for number in range(21)), b"X-A: a" * 50_000],
    ids=["bytes", "fields", "endless"],
)
def test_a_head_beyond_the_limits_is_a_502(against, fields, interim):
    answer = interim + b"HTTP/1.1 200 OK\r\n" + fields + BODY
    head, body, _, _ = answered(against, answer, header_bytes="2KiB", header_fields=20)
    if interim:
        assert head == interim
        head = body
    assert head.startswith(b"HTTP/1.1 502 "), head


def test_a_head_within_the_limits_passes(against):
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 80) for number in range(19))
    head, body, _, _ = answered(against, b"HTTP/1.1 200 OK\r\n" + fields + BODY, header_bytes="2KiB", header_fields=20)
    assert head.startswith(b"HTTP/1.1 200 ") and fields in head and body == b"ok"


def test_what_a_broken_answer_left_is_nobodys_answer(shared):
    """Its connection is closed, whatever came with it."""
    poison = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length:\x0b2\r\n\r\nok" + poison if number == 0 else OK)
        assert wire.to_end() == b""

    gateway, origin = shared(steps)
    with connect(gateway.port) as client:
        for status in (b"502", b"200"):
            client.send(get(gateway))
            head = client.head()
            assert head[9:12] == status, head
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            client.exactly(length)
    assert len(origin.wires) == 2 and b"poison" not in client.received


@pytest.mark.parametrize("fields", [b"X-Api-Key: CANARY-5f2c9a\r\n", b"x-api-key: another\r\n", b"X_API_key: CANARY-5f2c9a\r\n"])
def test_a_field_that_carries_the_credential_does_not_come_back(origin, make_script, start_gateway, fields):
    """An origin that echoes what it was asked with, in its head, before it and behind its content."""
    early = b"HTTP/1.1 103 Early Hints\r\n" + fields + b"Link: <a>\r\n\r\n"
    final = b"HTTP/1.1 200 OK\r\nX-First: 1\r\n" + fields + b"X-Last: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
    script = make_script(answering(early + final + b"2\r\nok\r\n0\r\n" + fields + b"X-Sum: 1\r\n\r\n"))
    auth = {"strategy": "header", "name": "X-Api-Key", "value": "CANARY-5f2c9a"}
    routes = {"api": {"upstream": script.url, "auth": auth}, "open": {"upstream": script.url, "auth": "none"}}
    gateway = start_gateway({"routes": routes})
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: close"))
        received = client.to_end()
    assert b"x-api-key" not in received.lower().replace(b"_", b"-") and b"X-Sum: 1" in received
    assert b"\r\nX-First: 1\r\nX-Last: 2\r\n" in received
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: close", path="/open/x"))
        assert client.to_end().count(fields) == 3, "where the gateway sets none it is the origin's own"


@pytest.mark.parametrize("closes", [False, True])
def test_a_426_says_what_to_upgrade_to(shared, closes):
    """RFC 9110 §15.5.22."""
    answer = b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade, X-Hop\r\nX-Hop: a\r\n"
    gateway, _ = shared(answering(answer + BODY))
    with connect(gateway.port) as client:
        client.send(get(gateway, *(["Connection: close"] if closes else [])))
        head = client.head()
        assert client.exactly(2) == b"ok"
        assert b"\r\nUpgrade: websocket\r\n" in head and b"\r\nConnection: Upgrade\r\n" in head
        assert (b"\r\nConnection: close\r\n" in head) == closes and b"x-hop" not in head.lower()
        if not closes:
            client.send(get(gateway, "Connection: close"))
            assert client.head().startswith(b"HTTP/1.1 426 ")


def test_an_answer_to_head_has_no_content_whatever_the_origin_sends(shared):
    """What stands behind its head is nobody's answer: the connection is not used again."""
    poison = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
    gateway, origin = shared(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + poison))
    with connect(gateway.port) as client:
        client.send(get(gateway, method="HEAD"))
        assert client.head().startswith(b"HTTP/1.1 200 ")
        client.send(get(gateway, "Connection: close", method="HEAD"))
        assert client.head().startswith(b"HTTP/1.1 200 ") and client.to_end() == b""
    assert len(origin.wires) == 2

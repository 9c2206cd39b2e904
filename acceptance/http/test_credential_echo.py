"""An upstream that repeats the URI that it was asked for: no client gets the credential that the route put into the query."""

import json
import urllib.parse

import pytest
from harness import raw
from harness.configs import CANARY
from harness.origin import response
from harness.script import connect, get

#: With characters that are spelt in several ways in a URI.
SECRET = f"{CANARY}/a+b"
SPELLINGS = {
    "as it was sent": urllib.parse.quote(SECRET, safe=""),
    "small hexadecimal digits": urllib.parse.quote(SECRET, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
    "slash as it is": urllib.parse.quote(SECRET, safe="/"),
    "every byte": "".join(f"%{byte:02X}" for byte in SECRET.encode()),
    "twice": urllib.parse.quote(urllib.parse.quote(SECRET, safe=""), safe=""),
    "three times": urllib.parse.quote(urllib.parse.quote(urllib.parse.quote(SECRET, safe=""), safe=""), safe=""),
    "decoded": SECRET,
    "capital letters": urllib.parse.quote(SECRET.upper(), safe=""),
}
#: Links are another matter (test_links.py).
UNCHANGED = {"rewrite": {"links": False}}
#: Where it stands; S is the secret.
PLACES = {
    "the parameter": "/y?a=1&key=S&b=2",
    "the only parameter": "https://elsewhere.example/y?key=S",
    "behind a semicolon": "/y?a=1;key=S;b=2",
    "several times": "/y?key=S&a=1&key=S&KEY=S",
    "another spelling of the name": "/y?k%65y=S&a=1",
    "another name": "/y?token=S",
    "the fragment": "/y?a=1#key=S",
    "query and fragment": "/y?key=S#access=S",
    "the path": "/y/S/z?a=1",
    "the user": "https://S@elsewhere.example/y",
    "another URI": "/login?next=%2Fy%3Fkey%3DS",
}
FIELDS = {
    "Location": "{uri}",
    "location": "{uri}",
    "Content-Location": "{uri}",
    "Refresh": "5; url={uri}",
    "Link": '<{uri}>; rel="next", </z>; rel=up',
}


def ids(table):
    return [name.replace(" ", "-") for name in table]


def auth(**changes):
    return {"strategy": "header", "query": "key", "value": SECRET, **changes}


@pytest.fixture(scope="module")
def gateway(standing_recorder, make_module_gateway):
    """With a route whose credential is in the query, and one without a credential."""
    routes = {
        "api": {"upstream": standing_recorder.url, "auth": auth(), **UNCHANGED},
        "open": {"upstream": standing_recorder.url, "auth": "none", **UNCHANGED},
    }
    return make_module_gateway({"routes": routes}).start()


def ask(gateway, path="/api/x?a=1"):
    return raw.exchange(gateway.port, get(gateway, "Connection: close", path=path))


def shows(data):
    """Whether somebody who decodes it as often as they like finds the secret, or the beginning of it."""
    text = data.decode("latin-1")
    for _ in range(6):
        if CANARY.lower() in text.lower():
            return True
        text = urllib.parse.unquote(text)
    return False


@pytest.mark.parametrize("place", PLACES.values(), ids=ids(PLACES))
@pytest.mark.parametrize("field", FIELDS)
def test_no_spelling_of_the_credential_comes_back(gateway, recorder, field, place):
    for spelling in SPELLINGS.values():
        line = f"{field}: {FIELDS[field].format(uri=place.replace('S', spelling))}"
        assert shows(line.encode())
        recorder.answer = lambda request, line=line: response(302, b"moved", line, "X-Kept: yes")
        answer = ask(gateway)
        assert (answer.status, answer.body) == (302, b"moved")
        assert answer.values("x-kept") == ["yes"]
        assert not shows(answer.data), answer.head
    assert recorder.last().target == f"/x?a=1&key={SPELLINGS['as it was sent']}"


#: What the origin says, and what the client gets.
REST = {
    "/y?a=1&key=S&b=2": "/y?a=1&b=2",
    "/y?key=S&b=2#top": "/y?b=2#top",
    "/y?a=1&key=S": "/y?a=1",
    "https://elsewhere.example/y?a=1&key=S#top": "https://elsewhere.example/y?a=1#top",
}


@pytest.mark.parametrize("uri", REST)
@pytest.mark.parametrize("field", FIELDS)
def test_the_rest_of_the_uri_is_kept(gateway, recorder, field, uri):
    value = FIELDS[field]
    line = f"{field}: {value.format(uri=uri.replace('S', SPELLINGS['as it was sent']))}"
    recorder.answer = lambda request: response(302, b"", line)
    assert ask(gateway).values(field.lower()) == [value.format(uri=REST[uri])]


@pytest.mark.parametrize(
    "uri", ["/y?a=1&b=2", "https://elsewhere.example/y?key=theirs&a=%zz#key", "/y?a=%2525", "?", "/y?keys=1;a=&&b"]
)
@pytest.mark.parametrize("field", FIELDS)
def test_a_uri_without_the_credential_is_not_changed(gateway, recorder, field, uri):
    value = FIELDS[field].format(uri=uri)
    recorder.answer = lambda request: response(302, b"", f"{field}: {value}")
    assert ask(gateway).values(field.lower()) == [value]


def test_fields_of_several_lines_are_looked_at_one_by_one(gateway, recorder):
    secret = SPELLINGS["as it was sent"]
    links = ["</a>; rel=prev", f"</b?key={secret}&p=2>; rel=next", f"</{secret}>; rel=self", "</c>; rel=up"]
    recorder.answer = lambda request: response(200, b"", *(f"Link: {link}" for link in links))
    assert ask(gateway).values("link") == ["</a>; rel=prev", "</b?p=2>; rel=next", "</c>; rel=up"]


def test_an_informational_answer_does_not_repeat_it_either(gateway, recorder):
    link = f"Link: </style.css?key={SPELLINGS['as it was sent']}>; rel=preload"
    recorder.answer = lambda request: f"HTTP/1.1 103 Early Hints\r\n{link}\r\n\r\n".encode() + response(200, b"ok")
    answer = ask(gateway)
    assert answer.status == 103 and b"HTTP/1.1 200 " in answer.data
    assert not shows(answer.data), answer.data


def test_nor_does_an_answer_that_opens_a_tunnel(make_script, start_gateway):
    def steps(wire, number):
        target = wire.head().split(b" ")[1].decode()
        fields = f"Connection: Upgrade\r\nUpgrade: chat\r\nContent-Location: {target}\r\n"
        wire.send(f"HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n".encode())
        wire.to_end()

    gateway = start_gateway({"routes": {"api": {"upstream": make_script(steps).url, "auth": auth(), **UNCHANGED}}})
    with connect(gateway.port) as client:
        client.send(get(gateway, "Connection: Upgrade", "Upgrade: chat"))
        head = client.head()
    assert head.startswith(b"HTTP/1.1 101 ") and not shows(head), head


def test_a_token_that_is_renewed_is_not_repeated_whichever_it_is(token_server, make_origin, start_gateway):
    """The one before the renewal and the one after it."""
    token_server.answer = lambda asked, token: (200, {}, json.dumps({"access_token": f"{CANARY}-{token_server.count()}"}))
    repeating = make_origin(lambda request: response(302, b"", f"Location: {request.target}"))
    recipe = {
        "strategy": "recipe",
        "acquire": [{"method": "GET", "url": token_server.url + "/token", "outputs": {"token": "/access_token"}}],
        "apply": {"query": "key"},
    }
    config = {"credentials": {"me": recipe}, "routes": {"api": {"upstream": repeating.url, "auth": "me", **UNCHANGED}}}
    gateway = start_gateway(config)
    for number in (1, 2):
        answer = ask(gateway)
        assert answer.values("location") == ["/x?a=1"], answer.head
        assert repeating.last().target == f"/x?a=1&key={CANARY}-{number}"
        assert gateway.run("token", "refresh", "me").returncode == 0


def test_without_a_credential_in_the_query_nothing_is_changed(gateway, recorder):
    """The same text of a client is the client's."""
    line = f"Location: /y?key={SPELLINGS['as it was sent']}"
    recorder.answer = lambda request: response(302, b"", line)
    assert ask(gateway, "/open/x").values("location") == [line.partition(": ")[2]]

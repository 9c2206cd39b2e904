"""Answers of authorization servers that are odd, broken or hostile, and what has to become of the tokens in them.

One table for every strategy that meets such answers, in logins and in refreshes. `OddAuthority` gives one of them to the first
request of a credential, and pairs to all others; it keeps which refresh tokens it was sent.
"""

import collections
import dataclasses
import gzip
import json
import threading
import typing
import urllib.parse
import zlib

import requests

from .origin import response
from .processes import wait_until
from .wire import chunk, chunked

#: Both tokens of the answer are used.
USED = "used"
#: No token comes of it, and its refresh token is kept: it is sent first, and the one before if it is refused.
KEPT = "kept"
#: The access token is used, and nothing takes the place of the refresh token that was sent, which is probably spent.
SPENT = "spent"
#: Nothing of it is kept. The refresh token at hand is sent again.
IGNORED = "ignored"

JSON = "Content-Type: application/json"
FORM = "Content-Type: application/x-www-form-urlencoded"


@dataclasses.dataclass(frozen=True)
class Odd:
    outcome: str
    #: `write(access, refresh, sent)` is the answer as bytes; `sent` is the refresh token of the request, if there is one.
    write: typing.Callable
    #: Only strategies that read `token_type` see something odd in it.
    is_oauth: bool = False


def text(members, *fields, status=200):
    body = members if isinstance(members, bytes) else json.dumps(members).encode()
    # A field of the test comes first, and the usual type only where it names none.
    types = [] if any(field.startswith("Content-Type:") for field in fields) else [JSON]
    head = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}", *fields, *types]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def pair(access, refresh, **more):
    return {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600, **more}


def with_type(value):
    return Odd(USED, lambda access, refresh, sent: text(pair(access, refresh, token_type=value)))


def of_type(value):
    return Odd(KEPT, lambda access, refresh, sent: text(pair(access, refresh, token_type=value)), is_oauth=True)


def besides(member):
    """A pair beside this member, as raw bytes."""
    return Odd(USED, lambda access, refresh, sent: text(b"{" + member + b"," + json.dumps(pair(access, refresh)).encode()[1:]))


def without_access(member):
    """A refresh token beside this member, as raw bytes."""
    tail = lambda refresh: b'"expires_in":3600,"refresh_token":' + json.dumps(refresh).encode() + b"}"
    return Odd(KEPT, lambda access, refresh, sent: text(b"{" + member + tail(refresh)))


def without_refresh(value):
    """An access token beside this refresh token, as raw bytes."""
    head = lambda access: b'{"expires_in":3600,"access_token":' + json.dumps(access).encode()
    return Odd(SPENT, lambda access, refresh, sent: text(head(access) + b',"refresh_token":' + value + b"}"))


def ignored(write):
    return Odd(IGNORED, write)


def packed(pack, coding, outcome=USED, cut=0):
    def write(access, refresh, sent):
        body = pack(json.dumps(pair(access, refresh)).encode())
        return text(body[: len(body) - cut], f"Content-Encoding: {coding}")

    return Odd(outcome, write)


def in_chunks(access, refresh, sent):
    body = gzip.compress(json.dumps(pair(access, refresh)).encode())
    head = f"HTTP/1.1 200 OK\r\n{JSON}\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + chunked([chunk(body[:7]), chunk(body[7:])])


def form(kind):
    return Odd(USED, lambda access, refresh, sent: text(urllib.parse.urlencode(pair(access, refresh)).encode() + b"\r\n", kind))


BOMB = gzip.compress(b" " * (64 << 20), compresslevel=1)

ODD = {
    # MARK: token_type
    "a-type-of-its-own": with_type("BearerToken"),
    "an-empty-type": with_type(""),
    "a-type-with-a-blank": with_type("Bearer "),
    "the-type-of-a-bot": with_type("bot"),
    "a-type-in-words": with_type("Application Access Token"),
    "a-type-that-is-a-number": with_type(7),
    "mac": of_type("mac"),
    "dpop": of_type("DPoP"),
    "pop": of_type("pop"),
    "not-applicable": of_type("N_A"),
    # MARK: bytes
    "latin-1": besides(b'"scope":"caf\xe9"'),
    "a-raw-tab": besides(b'"scope":"read\twrite"'),
    "a-raw-line-break": besides(b'"message":"one\ntwo"'),
    "half-of-a-surrogate-pair": besides(rb'"name":"\ud83d"'),
    "half-of-a-surrogate-pair-before-an-escape": besides(rb'"name":"\ud83d\"x"'),
    "an-unknown-escape": besides(rb'"name":"it\'s"'),
    "a-number-without-bounds": besides(b'"id":1e999'),
    "a-byte-order-mark": Odd(USED, lambda access, refresh, sent: text(b"\xef\xbb\xbf" + json.dumps(pair(access, refresh)).encode())),
    # MARK: members
    "no-error": besides(b'"error":null'),
    "an-empty-error": besides(b'"error":{}'),
    "an-error-in-a-word": besides(b'"error":"success"'),
    "an-error-that-says-ok": besides(b'"error":{"code":0,"message":"ok"}'),
    "an-unused-member-twice": besides(b'"scope":"read","scope":"write"'),
    "a-lifetime-in-words": Odd(USED, lambda access, refresh, sent: text(pair(access, refresh, expires_in="soon"))),
    "no-lifetime-left": Odd(USED, lambda access, refresh, sent: text(pair(access, refresh, expires_in=0))),
    "no-access-token": without_access(b""),
    "a-null-as-access-token": without_access(b'"access_token":null,'),
    "an-access-token-in-latin-1": without_access(b'"access_token":"caf\xe9",'),
    "an-access-token-with-a-raw-tab": without_access(b'"access_token":"a\tb",'),
    "an-access-token-with-a-field": without_access(rb'"access_token":"a\r\nX-Evil: 1",'),
    "two-access-tokens": without_access(b'"access_token":"one","access_token":"two",'),
    "a-list-of-access-tokens": without_access(b'"access_token":["one"],'),
    "an-access-token-of-64-kib": without_access(b'"access_token":"' + b"a" * 65536 + b'",'),
    "two-refresh-tokens-beside-a-token": without_refresh(b'"one","refresh_token":"two"'),
    "a-refresh-token-with-a-field": without_refresh(rb'"a\r\nX-Evil: 1"'),
    "two-refresh-tokens": ignored(lambda access, refresh, sent: text(b'{"refresh_token":"one","refresh_token":"two"}')),
    "a-list-of-refresh-tokens": ignored(lambda access, refresh, sent: text({"refresh_token": ["is invalid"]})),
    "an-empty-refresh-token": ignored(lambda access, refresh, sent: text({"refresh_token": ""})),
    "the-refresh-token-that-was-sent": ignored(lambda access, refresh, sent: text({"refresh_token": sent or ""})),
    "a-refresh-token-with-an-error": ignored(lambda access, refresh, sent: text({"error": "server_error", "refresh_token": refresh})),
    "a-refresh-token-with-a-failure": ignored(lambda access, refresh, sent: text({"refresh_token": refresh}, status=503)),
    # MARK: other documents
    "a-form": form(FORM),
    "a-form-with-a-charset": form("Content-Type: Application/X-WWW-Form-URLencoded; charset=utf-8"),
    "created": Odd(USED, lambda access, refresh, sent: text(pair(access, refresh), status=201)),
    "a-form-with-a-bare-name": Odd(
        USED, lambda access, refresh, sent: text(b"ok&" + urllib.parse.urlencode(pair(access, refresh)).encode(), FORM)
    ),
    "json-called-html": Odd(USED, lambda access, refresh, sent: text(pair(access, refresh), "Content-Type: text/html")),
    "json-called-a-form": Odd(USED, lambda access, refresh, sent: text(pair(access, refresh), FORM)),
    "a-form-called-text": ignored(
        lambda access, refresh, sent: text(urllib.parse.urlencode(pair(access, refresh)).encode(), "Content-Type: text/plain")
    ),
    "a-page": ignored(lambda access, refresh, sent: text(b"<html><title>Welcome</title></html>", "Content-Type: text/html")),
    "nothing": ignored(lambda access, refresh, sent: text(b"")),
    # MARK: compression
    "gzip": packed(gzip.compress, "gzip"),
    "x-gzip": packed(gzip.compress, "x-gzip"),
    "gzip-in-capitals": packed(gzip.compress, "GZIP"),
    "gzip-in-chunks": Odd(USED, in_chunks),
    "deflate": packed(zlib.compress, "deflate"),
    "gzip-and-identity": packed(gzip.compress, "gzip, identity"),
    "gzip-and-zeros": packed(lambda body: gzip.compress(body) + bytes(16), "gzip"),
    "gzip-of-two-members": packed(lambda body: gzip.compress(body) + gzip.compress(b"\n"), "gzip"),
    "half-of-gzip": packed(gzip.compress, "gzip", IGNORED, cut=12),
    "gzip-twice": packed(lambda body: gzip.compress(gzip.compress(body)), "gzip, gzip", IGNORED),
    "gzip-that-is-none": packed(lambda body: body, "gzip", IGNORED),
    "brotli": packed(lambda body: body, "br", IGNORED),
    "a-bomb": ignored(lambda access, refresh, sent: text(BOMB, "Content-Encoding: gzip")),
}


def of_outcome(*outcomes, oauth=True):
    """The names of those rows, without what only strategies that read `token_type` meet where `oauth` is false."""
    return [name for name, odd in ODD.items() if odd.outcome in outcomes and (oauth or not odd.is_oauth)]


class OddAuthority:
    """Issues pairs at `/NAME`: `access-N-NAME` and `refresh-N-NAME`, where N counts the requests. The first answer, or the one of
    the number in `turns`, is the row in `ODD` that `rows` names, or the one that is called NAME."""

    def __init__(self, make_origin, rows=None, turns=None):
        self.rows, self.turns = rows or {}, turns or {}
        self.lock = threading.Lock()
        #: By name: the refresh tokens that came, in order; None for a request without one.
        self.sent = collections.defaultdict(list)
        #: Refresh tokens that are answered with `invalid_grant`.
        self.refused = set()
        self.origin = make_origin(self.answer)

    def url(self, name):
        return f"{self.origin.url}/{name}"

    def answer(self, request):
        name = request.target.strip("/").partition("?")[0]
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        sent = form.get("refresh_token") or request.value("x-session-token")
        with self.lock:
            self.sent[name].append(sent)
            number = len(self.sent[name])
        if sent in self.refused:
            return response(400, b'{"error":"invalid_grant"}', JSON)
        access, refresh = f"access-{number}-{name}", f"refresh-{number}-{name}"
        odd = ODD.get(self.rows.get(name, name)) if number == self.turns.get(name, 1) else None
        return odd.write(access, refresh, sent) if odd else text(pair(access, refresh))


# MARK: Credentials at it, each with a route of its name


def recipe(authority, name):
    return {
        "strategy": "recipe",
        "initial": {"token": f"access-0-{name}", "renewal": f"refresh-0-{name}"},
        "refresh": [
            {
                "method": "POST",
                "url": authority.url(name),
                "body": {"form": {"refresh_token": "{{renewal}}"}},
                "outputs": {
                    "token": "/access_token",
                    "renewal": "/refresh_token",
                    "expires_in": {"json": "/expires_in", "optional": True},
                },
            }
        ],
    }


def config(authority, credential, names, origin, **more):
    return {
        "credentials": {name: credential(authority, name) for name in names},
        "routes": {name: {"upstream": origin.url, "auth": name} for name in names},
        **more,
    }


def refresh(gateway, name):
    token = (gateway.folder / "state" / "admin.token").read_text(encoding="ascii").strip()
    return requests.post(
        f"{gateway.admin_url}/api/tokens/{name}/refresh", headers={"Authorization": f"Bearer {token}"}, timeout=30
    )


def until_sent(authority, gateway, name, count):
    """Refreshes until so many refresh tokens were sent. The gateway may do so by itself."""

    def has_sent():
        if len(authority.sent[name]) < count:
            refresh(gateway, name)
        return len(authority.sent[name]) >= count

    wait_until(has_sent, 30, lambda: f"{name}: {count} refreshes, of {authority.sent[name]}")

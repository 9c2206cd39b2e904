"""Corpora of raw requests, judged by what a recording origin saw: gunicorn's, and our own for what no corpus has."""

import re

import pytest
from harness.configs import BEARER, CANARY
from harness import raw
from harness.corpus import CUT_OFF, GUNICORN, addressed_to, corpus, own_cases
from harness.origin import RecordingOrigin
from harness.processes import free_port

#: Sent behind every request: it arrives if, and only if, the gateway found the end where the origin finds it.
SENTINEL = b"GET /sentinel HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"

# What gunicorn takes and we do not. Each is the stricter reading.
STRICTER = {
    "fragment in the target": {"005"},
    "space before the colon": {"028"},
    "a coding besides chunked": {
        *("025", "025_line", "029", "030"),
        *("rfc9112_smuggle_gzip_chunked_01", "rfc9112_smuggle_te_identity_chunked_01"),
    },
    "a framing field spelt with an underscore": {"040", "040_compat"},
    "folded line": {"compat_obs_fold", "compat_obs_fold_huge"},
    "the PROXY protocol": {"pp_01", "pp_02", "pp_04", "pp_05"},
    "user information in the target": {"rfc9112_target_absolute_userinfo_01"},
    "CONNECT": {"rfc9112_target_authority_connect_01", "rfc9112_target_authority_ipv6_01"},
}

# What gunicorn refuses by a setting of its own or by a policy of its own; the message has one reading and passes.
POLICY = {
    "gunicorn's test sets lower limits": {*("006", "007", "008", "010", "011", "012", "017"), "limit_header_default_01"},
    "gunicorn's rule on methods": {"003c"},
    "gunicorn's rule on X-Forwarded fields": {"019"},
    "two Content-Types are the origin's business": {"041"},
    "the trailer is dropped, the request passes": {
        *("rfc9110_trailer_forbidden_cl_01", "rfc9110_trailer_forbidden_host_01", "rfc9110_trailer_forbidden_te_01"),
    },
}

# What arrives although nobody put our host into it.
OURS = {
    "valid": {
        "HTTP/1.0 without a host": {*("001", "008", "017", "019", "020", "022", "024", "026")},
        "localhost": {"padding_01"},
    },
    "invalid": {
        "HTTP/1.0 without a host": {*("006", "007", "008"), "limit_header_default_01"},
        "localhost": {"041"},
    },
}


def reasons(table):
    return {name: reason for reason, names in table.items() for name in names}


@pytest.fixture
def origin(recorder):
    return recorder


def everything(origin):
    """A route that takes any path."""
    return {"all": {"upstream": origin.url, "match": {"path": "/"}, "auth": BEARER}}


@pytest.fixture(scope="module")
def gateway(standing_recorder, make_module_gateway):
    return make_module_gateway({"routes": everything(standing_recorder)}).start()


def send(gateway, data):
    host = b"127.0.0.1:%d" % gateway.port
    return raw.exchange(gateway.port, data + SENTINEL.replace(b"{host}", host))


def expectations(treq, path):
    request = treq.load_py(str(path.with_suffix(".py")))["request"]
    return request if isinstance(request, list) else [request]


def seen(origin):
    requests = list(origin.requests)
    assert all(request.values("authorization") == [f"Bearer {CANARY}"] for request in requests)
    if requests and requests[-1].target == "/sentinel":
        requests.pop()
    assert all(request.target != "/sentinel" for request in requests)
    return requests


#: Of one hop, or the gateway's own: what arrives of these is judged elsewhere.
NOT_PASSED_ON = {
    *("connection", "keep-alive", "proxy-connection", "te", "upgrade", "proxy-authenticate", "proxy-authorization"),
    *("host", "authorization", "via"),
}


def passed_on(fields):
    """gunicorn states names in capitals."""
    fields = [(name.lower(), value) for name, value in fields]
    return [(name, value) for name, value in fields if name not in NOT_PASSED_ON]


def test_the_corpus_is_whole_and_every_exception_is_of_it():
    if GUNICORN is None:
        pytest.skip("no corpus: run scripts/setup-tests")
    valid, invalid = ({path.values[0].stem for path in corpus(kind)} for kind in ("valid", "invalid"))
    assert (len(valid), len(invalid)) == (62, 81)
    assert reasons(STRICTER).keys() | CUT_OFF | reasons(OURS["valid"]).keys() <= valid
    assert reasons(POLICY).keys() | reasons(OURS["invalid"]).keys() <= invalid


@pytest.mark.parametrize("path", corpus("valid"))
def test_a_valid_request_arrives_as_it_was_meant_or_not_at_all(gateway, origin, treq, path):
    data = addressed_to(b"127.0.0.1:%d" % gateway.port, treq.request(str(path), []).data)
    if path.stem in CUT_OFF:
        raw.exchange(gateway.port, data, end_of_writing=True)
        assert origin.count() == 0
        return
    answer = send(gateway, data)
    if path.stem in reasons(STRICTER):
        assert answer.refuses(400, 405) and seen(origin) == [], answer.data
        assert origin.raw() == b""
        return
    assert answer.status == 200, answer.data
    arrived = seen(origin)
    assert len(arrived) == len(expectations(treq, path))
    for request, expected in zip(arrived, expectations(treq, path), strict=True):
        target = re.sub(r"\Ahttps?://[^/]+", "", expected["uri"]["raw"])
        # gunicorn can be told to write methods in capitals; we leave them.
        assert request.method.upper() == expected["method"].upper()
        assert (request.target, request.body) == (target, expected["body"] or b"")
        assert passed_on(request.fields) == passed_on(expected["headers"])


@pytest.mark.parametrize("path", corpus("invalid"))
def test_an_invalid_request_does_not_arrive(gateway, origin, treq, path):
    data = addressed_to(b"127.0.0.1:%d" % gateway.port, treq.badrequest(str(path)).data)
    answer = send(gateway, data)
    if path.stem in reasons(POLICY):
        assert answer.status == 200, answer.data
        assert len(seen(origin)) == 1
        return
    assert origin.count() == 0, [request.head for request in origin.requests]
    assert answer.refuses(400, 431, 505), answer.data
    assert b"/sentinel" not in origin.raw()


@pytest.mark.parametrize("kind", ["valid", "invalid"])
def test_no_request_of_the_corpus_gets_past_its_host(origin, start_gateway, treq, kind):
    """As they are, hosts and all: only what names us, or no host, which 1.0 need not, arrives, and the first request of it."""
    # What is cut off, or would be kept for more, is not waited for.
    limits = {"header_timeout": "500ms", "body_idle_timeout": "500ms", "idle_timeout": "500ms"}
    gateway = start_gateway({"limits": limits, "routes": everything(origin)})
    for path in sorted((GUNICORN / "requests" / kind).glob("*.http")):
        data = (treq.request(str(path), []) if kind == "valid" else treq.badrequest(str(path))).data
        origin.forget()
        answer = raw.exchange(gateway.port, data)
        if path.stem in reasons(OURS[kind]):
            assert answer.status == 200, (path.stem, answer.data)
            assert [request.target.encode() for request in origin.requests] == [data.split(b" ")[1]], path.stem
        else:
            assert answer.status is not None and 400 <= answer.status < 600, (path.stem, answer.data)
            assert origin.requests == [], path.stem
        assert all(request.values("authorization") == [f"Bearer {CANARY}"] for request in origin.requests)
        assert all(request.values("host") == [f"127.0.0.1:{origin.port}"] for request in origin.requests)


# Our own corpus: corpus/README.md has the format.


@pytest.fixture(scope="module")
def many_routes(standing_recorder, make_module_gateway):
    """A route for each way of guarding one."""
    url, key = standing_recorder.url, {"strategy": "header", "name": "X-Api-Key", "value": CANARY}
    routes = {
        "api": {"upstream": url + "/base", "auth": BEARER},
        "key": {"upstream": url, "auth": key},
        "ruled": {"upstream": url, "auth": BEARER, "allow": [{"methods": ["GET"], "path": "/public/**"}]},
        "open": {"upstream": url, "auth": "none"},
    }
    return make_module_gateway({"routes": routes}).start()


@pytest.fixture(scope="module")
def direct():
    """An origin that is asked without a gateway."""
    origin = RecordingOrigin()
    yield origin
    origin.stop()


#: What arrives of whose credential, by the route that a request names; one in absolute form names the first.
CREDENTIALS = {
    "api": {"authorization": [f"Bearer {CANARY}"], "x-api-key": []},
    "key": {"authorization": [], "x-api-key": [CANARY]},
    "ruled": {"authorization": [f"Bearer {CANARY}"], "x-api-key": []},
    "open": {"authorization": [], "x-api-key": []},
}


def credentials(request):
    return {name: request.values(name) for name in ("authorization", "x-api-key")}


def content(request):
    """What the gateway has no business with: the method, the body and its framing, the client's own fields."""
    own = [field for field in request.fields if field[0].startswith(("x-", "x_")) and field[0] != "x-api-key"]
    return request.method, request.framing, request.body, own


@pytest.mark.parametrize("case", list(own_cases()))
def test_our_own_corpus(many_routes, origin, direct, case):
    places = {
        "{host}": f"127.0.0.1:{many_routes.port}",
        "{port}": str(many_routes.port),
        "{other_port}": str(free_port()),
        "{origin}": f"127.0.0.1:{origin.port}",
    }
    sentinel = f"GET /open/sentinel HTTP/1.1\r\nHost: {places['{host}']}\r\nConnection: close\r\n\r\n".encode()
    answer = raw.exchange(many_routes.port, case.data(places) + sentinel)
    *arrived, last = list(origin.requests) or [None]
    if last and last.target != "/sentinel":
        arrived.append(last)
    kind, _, rest = case.verdict.partition(" ")
    if kind == "refused":
        assert arrived == [] and answer.status == int(rest), answer.data
        if int(rest) in (400, 405, 414, 431, 505):
            assert answer.refuses(int(rest)), answer.data
            assert origin.raw() == b"", "nothing of a doubtful connection arrives"
        return
    assert kind == "arrives", case.verdict
    assert [request.target for request in arrived] == rest.split()
    assert answer.data.count(b"HTTP/1.1 200 ") == len(arrived) + 1, answer.data
    assert last.target == "/sentinel" and credentials(last) == CREDENTIALS["open"], "the request ends where it is meant to"
    # The origin, asked without a gateway, reads what is meant.
    direct.renew()
    raw.exchange(direct.port, case.data(places), end_of_writing=True)
    assert len(direct.requests) == len(arrived)
    for request, meant in zip(arrived, direct.requests, strict=True):
        route = "api" if "://" in meant.target else meant.target.split("/")[1]
        assert credentials(request) == CREDENTIALS[route], request.head
        assert content(request) == content(meant)
        assert b"mine" not in request.head.lower() + request.body
        assert request.values("host") == [f"127.0.0.1:{origin.port}"]

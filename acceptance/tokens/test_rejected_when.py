"""`rejected_when`: sessions that end by a redirect to the login or by its page, and not by a 401."""

import gzip
import json

import pytest
import requests
from harness.events import named
from harness.origin import response

FORM = b'<html><form action="/login"><input type="password" name="password"></form></html>'
SLACK = {"status": [200], "body": r'"error":\s*"invalid_auth"'}
PAGE = {"body": '<input type="password"'}
LOCATION = {"location": "/accounts/login"}


def html(body, *fields):
    return response(200, body, *fields).replace(b"text/plain", b"text/html")


def chunked(body, size):
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


ENDS = {
    "a redirect": (LOCATION, response(302, b"", "Location: /accounts/login/?next=/x")),
    "a redirect with the whole URL": (LOCATION, response(303, b"", "Location: {url}/accounts/login")),
    "a page": (PAGE, html(FORM)),
    "a page in chunks": (PAGE, chunked(FORM, 7)),
    "the end of a page within the limit": (PAGE, html(b" " * 60_000 + FORM)),
    "the end of a page in tiny chunks": (PAGE, chunked(b" " * 20_000 + FORM, 1)),
    "an error with status 200": (SLACK, response(200, b'{"ok": false, "error": "invalid_auth"}')),
    "a status alone": ({"status": [303]}, response(303, b"", "Location: /elsewhere")),
}
OTHERS = {
    "a redirect to elsewhere": (LOCATION, response(302, b"", "Location: /accounts/logins")),
    "a redirect to another host": (LOCATION, response(302, b"", "Location: https://id.example.com/accounts/login")),
    "another error": (SLACK, response(200, b'{"ok": false, "error": "channel_not_found"}')),
    "a page behind the limit": (PAGE, html(b" " * 65_536 + FORM)),
    "a page of another status": ({**PAGE, "status": [403]}, html(FORM)),
    "a compressed page": (PAGE, html(gzip.compress(FORM), "Content-Encoding: gzip")),
}


class Application:
    """Ends the first session by `end`, and takes every other one."""

    def __init__(self, make_origin):
        self.logins = 0
        self.end = b""
        self.ended = {"s1"}
        self.origin = make_origin(self.answer)

    def answer(self, request):
        if request.target == "/session":
            self.logins += 1
            return response(200, json.dumps({"t": f"s{self.logins}"}).encode())
        if request.value("x-session") in self.ended:
            return self.end.replace(b"{url}", self.origin.url.encode())
        return response(200, b"yes")

    def config(self, rule):
        login = {"method": "POST", "url": self.origin.url + "/session", "outputs": {"token": "/t"}}
        credential = {"strategy": "recipe", "acquire": [login], "apply": {"header": "X-Session"}, "rejected_when": rule}
        return {"credentials": {"app": credential}, "routes": {"api": {"upstream": self.origin.url, "auth": "app"}}}

    def forwarded(self):
        return [request for request in self.origin.requests if request.target != "/session"]


@pytest.fixture
def application(make_origin):
    return Application(make_origin)


def ask(gateway, method="GET", **options):
    return requests.request(method, gateway.url + "/api/x", timeout=20, allow_redirects=False, **options)


def cases(table):
    return pytest.mark.parametrize("rule, end", table.values(), ids=[name.replace(" ", "-") for name in table])


@cases(ENDS)
def test_the_session_is_renewed_and_the_request_sent_again(application, start_gateway, rule, end):
    application.end = end
    gateway = start_gateway(application.config(rule))
    for _ in range(2):
        answer = ask(gateway)
        assert (answer.status_code, answer.text) == (200, "yes")
    assert application.logins == 2 and len(application.forwarded()) == 3
    assert [event["trigger"] for event in named(gateway, "renewed")] == ["rejected"]


@cases(OTHERS)
def test_another_response_is_passed_on_whole(application, start_gateway, rule, end):
    application.end = end
    gateway = start_gateway(application.config(rule))
    for _ in range(2):
        answer = ask(gateway)
        assert answer.status_code == int(end[9:12])
    assert application.logins == 1 and len(application.forwarded()) == 2
    if b"Content-Encoding" not in end:
        assert answer.content == end.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("rule, end", [ENDS["a redirect"], ENDS["a page"]], ids=["redirect", "page"])
def test_what_may_have_been_done_is_not_done_again(application, start_gateway, method, rule, end):
    application.end = end
    gateway = start_gateway(application.config(rule))
    answer = ask(gateway, method, data=b"order=1")
    assert answer.status_code == int(end[9:12])
    assert 'reason="only GET and HEAD are sent again"' in answer.headers["Gateway-Token"]
    assert len(application.forwarded()) == 1
    # But the session is renewed.
    assert (ask(gateway, method, data=b"order=2").text, application.logins) == ("yes", 2)


@pytest.mark.parametrize("status, is_sent_again", [(302, False), (419, True)])
def test_a_status_of_refusal_alone_sends_every_method_again(application, start_gateway, status, is_sent_again):
    application.end = response(status, b"no", "Location: /elsewhere")
    gateway = start_gateway(application.config({"status": [status]}))
    assert (ask(gateway, "POST", data=b"order=1").text == "yes") == is_sent_again
    assert (ask(gateway, "POST", data=b"order=2").text, application.logins) == ("yes", 2)


@pytest.mark.parametrize("rule, end", [ENDS["a redirect"], ENDS["a page"]], ids=["redirect", "page"])
def test_an_application_that_refuses_every_session_causes_few_logins(application, start_gateway, rule, end):
    application.end = end
    application.ended = {f"s{number}" for number in range(1, 100)}
    gateway = start_gateway(application.config(rule))
    for _ in range(20):
        assert ask(gateway).status_code == int(end[9:12])
    assert application.logins == 2


def test_a_page_that_ends_with_its_connection_is_looked_at(start_gateway, make_origin):
    class Closing(Application):
        def answer(self, request):
            if request.target == "/session":
                yield super().answer(request)
                return
            page = FORM if request.value("x-session") in self.ended else b"yes"
            yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + page
            raise ConnectionAbortedError

    application = Closing(make_origin)
    gateway = start_gateway(application.config(PAGE))
    assert ask(gateway).text == "yes"
    assert application.logins == 2


def test_the_upstream_is_asked_for_a_body_that_can_be_read(application, start_gateway):
    gateway = start_gateway(application.config(PAGE))
    application.ended = set()
    assert ask(gateway, headers={"Accept-Encoding": "gzip, br"}).text == "yes"
    assert application.forwarded()[0].value("accept-encoding") == "identity"
    assert ask(gateway, "HEAD").status_code == 200


def test_an_event_stream_is_not_held_back(application, start_gateway):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    application.end = head + b"5\r\nfirst\r\n"
    gateway = start_gateway(application.config(PAGE))
    with ask(gateway, stream=True) as answer:
        assert next(answer.iter_content(5)) == b"first"


def test_a_page_that_comes_slowly_is_held_back_for_a_second(application, start_gateway):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    application.end = head + b"5\r\nfirst\r\n"
    gateway = start_gateway(application.config(PAGE))
    with ask(gateway, stream=True) as answer:
        assert next(answer.iter_content(5)) == b"first"


@pytest.mark.parametrize("size", [0, 100, 300_000], ids=["empty", "short", "long"])
def test_a_page_by_http2_is_looked_at(make_http2_origin, application, start_gateway, size):
    origin = make_http2_origin()
    seen = []

    def respond(stream):
        session = dict(stream.fields).get("x-session")
        seen.append(session)
        body = FORM if session == "s1" else b"y" * size
        stream.answer(200, body, [("content-type", "text/html")])

    origin.respond = respond
    config = application.config(PAGE)
    config["routes"]["api"].update(upstream=origin.url, protocol="http2")
    gateway = start_gateway(config)
    for _ in range(2):
        assert len(ask(gateway).content) == size
    assert seen == ["s1", "s2", "s2"]

"""Links and pages of other origins, with HTTP/2 on one side or both."""

import contextlib

import pytest
from harness import http2
from harness.configs import BEARER
from harness.origin import response

PAGE = "https://app.example.com"
FIELDS = [("link", '</items?page=2>; rel="next"'), ("access-control-allow-origin", "*"), ("set-cookie", "s=1; path=/")]


def h1_origin(make_origin, _):
    origin = make_origin()
    location = f"location: {origin.url}/made"
    origin.answer = lambda request: response(201, b"made", location, *(f"{name}: {value}" for name, value in FIELDS))
    return origin


def h2_origin(_, make_http2_origin):
    origin = make_http2_origin()
    origin.respond = lambda stream: stream.answer(201, b"made", [("location", f"{origin.url}/made"), *FIELDS])
    return origin


@pytest.mark.parametrize("make", [h1_origin, h2_origin], ids=["http1", "http2"])
def test_links_lead_to_the_gateway_and_a_listed_page_may_read(make, make_origin, make_http2_origin, start_gateway):
    origin = make(make_origin, make_http2_origin)
    route = {"upstream": origin.url, "auth": BEARER, "cookies": "pass"}
    if make is h2_origin:
        route["protocol"] = "http2"
    gateway = start_gateway({"routes": {"api": route}, "access": {"allow_origins": [PAGE]}})
    authority = f"localhost:{gateway.port}"
    with contextlib.closing(http2.connect(gateway.port)) as client:
        answer = client.ask(
            ("origin", PAGE), ("destination", f"http://{authority}/api/new"), method="MOVE", authority=authority
        )
        assert answer.status == 201
        assert answer.value("location") == f"http://{authority}/api/made"
        assert answer.value("link") == '</api/items?page=2>; rel="next"'
        assert answer.value("set-cookie") == "s=1; path=/api"
        assert answer.value("access-control-allow-origin") == PAGE and answer.value("vary") == "Origin"
        [request] = origin.requests
        assert request.value("destination") == f"{origin.url}/new"
        question = (("origin", PAGE), ("access-control-request-method", "PUT"))
        preflight = client.ask(*question, method="OPTIONS", authority=authority)
        assert preflight.status == 204 and preflight.value("access-control-allow-methods") == "PUT"
        refused = client.ask(("origin", "https://evil.example"), authority=authority)
        assert refused.status == 403 and b"access.allow_origins" in refused.body
        assert len(origin.requests) == 1

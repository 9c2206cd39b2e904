"""Chromium with a page of another origin: a listed one can use the gateway, and reads what it is answered."""

import json

import pytest
from harness.browser import Browser
from harness.configs import BEARER, CANARY
from harness.origin import response

TOKEN = "token-of-the-laptop-1"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.stop()


def page(_):
    return response(200, b"<!doctype html><title>page</title>").replace(b"text/plain", b"text/html")


@pytest.fixture
def world(start_gateway, make_origin, browser):
    listed, other = make_origin(page), make_origin(page)
    answered = ["Access-Control-Allow-Origin: https://elsewhere.example", 'Link: </items?page=2>; rel="next"', "Set-Cookie: s=1; Path=/"]
    upstream = make_origin(lambda request: response(200, b'{"items": []}', *answered))
    gateway = start_gateway(
        {
            "access": {"allow_origins": [listed.url], "clients": {"laptop": {"token": TOKEN}}},
            "routes": {
                "api": {"upstream": upstream.url, "auth": BEARER},
                "web": {"upstream": upstream.url, "auth": "none", "cookies": "pass"},
            },
        }
    )

    class World:
        origin = upstream
        other_page = other.url
        page = listed.url

        @staticmethod
        def fetch(target, **options):
            """What `fetch` gives the script of the page that is open."""
            script = f"""
                fetch({json.dumps(gateway.url + target)}, {json.dumps(options)}).then(
                    async (answer) => ({{status: answer.status, text: await answer.text(), fields: [...answer.headers.keys()],
                        link: answer.headers.get("link"), id: answer.headers.get("gateway-request-id")}}),
                    (error) => ({{error: String(error)}}))"""
            return browser.run(script)

    browser.open(listed.url)
    return World


def test_a_listed_page_sends_what_needs_a_preflight_and_reads_the_fields(world):
    answer = world.fetch("/api/items", method="PUT", headers={"Authorization": f"Bearer {TOKEN}", "X-A": "1"}, body="{}")
    assert answer.get("status") == 200 and answer["text"] == '{"items": []}', answer
    assert answer["link"] == '</api/items?page=2>; rel="next"' and answer["id"]
    [request] = world.origin.requests
    assert (request.method, request.value("x-a"), request.value("authorization")) == ("PUT", "1", f"Bearer {CANARY}")


def test_a_listed_page_reads_why_it_was_refused(world):
    answer = world.fetch("/api/items")
    assert answer["status"] == 401 and "client-auth-required" in answer["text"], answer
    assert world.origin.count() == 0


def test_cookies_go_along_where_they_pass(world):
    fields = {"Authorization": f"Bearer {TOKEN}"}
    assert world.fetch("/web/a", credentials="include", headers=fields)["status"] == 200
    assert world.fetch("/web/b", credentials="include", headers=fields)["status"] == 200
    assert world.origin.last().value("cookie") == "s=1"
    # Without cookies on that route, the browser keeps the answer from the page.
    assert "error" in world.fetch("/api/items", credentials="include", headers=fields)


def test_another_page_can_send_and_read_nothing(world, browser):
    browser.open(world.other_page)
    assert "error" in world.fetch("/api/items", method="PUT", headers={"Authorization": f"Bearer {TOKEN}"}, body="{}")
    assert "error" in world.fetch("/web/items")
    assert world.fetch("/web/items", mode="no-cors")["status"] == 0
    assert world.origin.count() == 0

"""The status page in Chromium: with and without its script, for eyes, keyboards and screen readers; and its events for programs."""

import json
import threading

import pytest
import requests
from harness.browser import Browser
from harness.configs import BEARER
from harness.processes import free_port, wait_until

#: A login that nobody has made.
LOGIN = {
    "strategy": "oauth2_authorization_code",
    "client_id": "web",
    "authorize_url": "https://login.example/authorize",
    "token_url": "https://login.example/token",
}
TABLE = "#routes .table"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.stop()


@pytest.fixture
def browser(chromium):
    chromium.new_window()
    chromium.resize(1280, 900)
    chromium.prefer("light")
    yield chromium
    chromium.forbid_scripts(False)


def config(origin, **more):
    return {
        "credentials": {"me": LOGIN, "fixed": BEARER, "trial": {"strategy": "box_developer_token", "token": "of-an-hour"}},
        "routes": {
            "api": {"upstream": origin.url, "auth": "fixed"},
            "trial": {"upstream": origin.url, "auth": "trial"},
            "closed": {"upstream": f"http://127.0.0.1:{free_port()}", "auth": "none"},
            "campus": {"upstream": origin.url, "auth": "me"},
        },
        "access": {"clients": {"ci": {"token": "a-client-token-of-ci-1234"}}, "require_client": False},
        **more,
    }


@pytest.fixture
def gateway(start_gateway, origin):
    gateway = start_gateway(config(origin))
    for path, status in {"/api/x": 200, "/trial/x": 200, "/closed/x": 502, "/campus/x": 503}.items():
        assert requests.get(gateway.url + path, timeout=20).status_code == status
    return gateway


def admin_token(gateway):
    return (gateway.folder / "state/admin.token").read_text().strip()


def give_token(browser, gateway):
    browser.until("document.querySelector('#ask-token').open")
    browser.fill("#admin-token", admin_token(gateway))
    browser.click("#ask-token button.primary")


class TestWhatIsShown:
    def test_the_worst_first_and_what_to_type(self, gateway, browser):
        browser.open(gateway.admin_url)
        browser.until("document.title.startsWith('Serving · ')")
        needs = browser.run("document.querySelector('#needs').innerText")
        assert "me: a login is needed" in needs and "authgateway login me" in needs
        assert browser.run("document.querySelector('#needs .need.bad a.button').getAttribute('href')") == "/login?credential=me"

    def test_traffic_errors_and_lines_to_copy(self, gateway, browser):
        browser.open(gateway.admin_url)
        browser.until("document.querySelector('#r-closed .errors')?.innerText.startsWith('100 %')", 30)
        assert browser.run("document.querySelector('#r-api .errors').innerText").startswith("0.0 %")
        assert "requests fail" in browser.run("document.querySelector('#r-closed summary').textContent")
        browser.click("#r-api summary")
        snippets = browser.run("document.querySelector('#r-api .inside').innerText")
        assert f"curl {gateway.url}/api/" in snippets and f"http_proxy={gateway.url}" in snippets
        traffic = {route["route"]: route for route in requests.get(f"{gateway.admin_url}/api/traffic", timeout=10).json()}
        assert sum(traffic["closed"]["requests"]) == sum(traffic["closed"]["errors"]) == 1
        assert sum(traffic["api"]["requests"]) == 1 and sum(traffic["api"]["errors"]) == 0
        assert len(traffic["api"]["requests"]) == 60 and traffic["api"]["p50_milliseconds"] > 0

    def test_the_hour_of_all_requests_of_a_route_and_of_a_client(self, gateway, browser):
        given = {"Authorization": "Bearer a-client-token-of-ci-1234"}
        assert requests.get(f"{gateway.url}/api/x", headers=given, timeout=20).status_code == 200
        hour = requests.get(f"{gateway.admin_url}/api/traffic/hour", timeout=10).json()
        clients = {client.get("client"): client for client in hour["clients"]}
        assert sum(clients["ci"]["requests"]) == 1 and sum(clients[None]["requests"]) == 4, hour
        assert len(hour["latencies"]["upstream_p50"]) == 60 and max(filter(None, hour["latencies"]["gateway_p99"])) > 0
        browser.open(gateway.admin_url)
        browser.until("document.querySelector('#traffic').textContent.includes('All requests, last hour: 5 requests, 2 errors')", 30)
        choose = "(() => { const field = document.querySelector('#traffic select'); field.value = '%s';"
        choose += " field.dispatchEvent(new Event('change', { bubbles: true })); })()"

        def shows(value, text):
            # A page that has just been loaded may not listen yet.
            browser.run(choose % value)
            return browser.run(f"document.querySelector('#traffic').textContent.includes('{text}')")

        for value, text in (
            ("route:closed", "Route closed, last hour: 1 request, 1 error"),
            ("client:ci", "Client ci, last hour: 1 request, 0 errors"),
        ):
            wait_until(lambda value=value, text=text: shows(value, text), 30, text, pause=1)
        assert browser.run("location.search") == "?traffic=client%3Aci"

    def test_a_strip_for_each_credential(self, gateway, browser):
        assert gateway.run("token", "lock", "trial").returncode == 0

        def is_drawn():
            # A page that is loaded in the second of the lock has nothing to draw yet.
            browser.open(gateway.admin_url)
            return browser.run("!!document.querySelector('#c-trial .strip .locked')")

        wait_until(is_drawn, 30, "the lock is in the strip", pause=1)
        assert "locked 1×" in browser.run("document.querySelector('#c-trial summary').textContent")
        assert browser.run("document.querySelector('#c-trial .next').innerText") == "authgateway token unlock trial"
        browser.until("document.querySelector('#c-trial .state').innerText.includes('since')")
        browser.run("document.querySelectorAll('#credentials nav a')[1].click()")
        browser.until("document.querySelector('#c-trial summary').textContent.includes('Last 7 days: ')")
        assert browser.run("location.search") == "?span=7d"
        browser.run("document.querySelectorAll('#credentials nav a')[2].click()")
        browser.until("!document.querySelector('#c-fixed')")
        assert browser.run("!!document.querySelector('#c-me') && !!document.querySelector('#c-trial')")

    def test_who_used_a_credential(self, gateway, browser):
        given = {"Authorization": "Bearer a-client-token-of-ci-1234"}
        assert requests.get(f"{gateway.url}/api/x", headers=given, timeout=20).status_code == 200
        open_page(browser, gateway)

        def used():
            # The log has the uses of the last seconds later.
            browser.run("document.querySelector('#c-fixed').remove()")
            browser.run("document.dispatchEvent(new Event('visibilitychange'))")
            browser.until("!!document.querySelector('#c-fixed')")
            browser.run("document.querySelector('#c-fixed').open = true")
            browser.until("document.querySelector('#c-fixed .who').innerText.includes('sed it in the last 24 hours')")
            return "ci" in browser.run("document.querySelector('#c-fixed .who').innerText")

        wait_until(used, 90, "the uses are in the log", pause=2)
        rows = browser.run("[...document.querySelectorAll('#c-fixed .who tbody tr')].map((row) => row.innerText.split('\\t').slice(0, 4))")
        assert sorted(rows) == [["ci", "1", "0", "0"], ["no name", "1", "0", "0"]]
        assert browser.violations() == []

    def test_what_is_opened_moves_nothing_but_what_stands_below(self, gateway, browser):
        open_page(browser, gateway)
        places = "[...document.querySelectorAll('.entry, .route')].map((each) => [each.id, each.getBoundingClientRect().top + scrollY])"
        before = dict(browser.run(places))
        browser.run("document.querySelector('#c-trial').open = true; document.querySelector('#r-closed').open = true")
        browser.run("document.querySelector('#c-trial').open = false; document.querySelector('#r-closed').open = false")
        assert dict(browser.run(places)) == before
        browser.run("document.querySelector('#c-trial').open = true")
        after = dict(browser.run(places))
        assert all(after[name] == place for name, place in before.items() if place <= before["c-trial"])

    def test_no_command_breaks_within_a_word(self, gateway, browser):
        browser.resize(390, 900)
        open_page(browser, gateway)
        browser.run("document.querySelectorAll('details').forEach((details) => (details.open = true))")
        broken = browser.run(
            "[...document.querySelectorAll('.command code, .next code')].flatMap((code) => {"
            " const text = code.firstChild; const range = document.createRange();"
            " return [...text.data.matchAll(/\\S+/g)].filter((word) => {"
            "  range.setStart(text, word.index); range.setEnd(text, word.index + word[0].length);"
            "  return word[0].length < 30 && range.getClientRects().length > 1; }).map((word) => word[0]); })"
        )
        assert broken == []

    def test_an_event_comes_by_itself(self, gateway, browser):
        browser.open(gateway.admin_url)
        browser.until("document.documentElement.classList.contains('scripted')")
        browser.run("window.isSame = true")
        assert gateway.run("token", "lock", "trial").returncode == 0
        browser.until("document.querySelector('#events li').innerText.includes('locked')", 10)
        browser.until("document.querySelector('#c-trial .word').innerText == 'locked'", 15)
        assert browser.run("window.isSame"), "the page was not loaded again"

    def test_filters_pause_and_deep_links(self, gateway, browser):
        browser.open(f"{gateway.admin_url}/?credential=trial")
        browser.until("!!document.querySelector('#events')")
        assert "fixed" not in browser.run("document.querySelector('#events').innerText")
        browser.open(gateway.admin_url)
        browser.click("a[data-kind=configuration]")
        browser.until("location.search == '?kind=configuration'")
        browser.until("[...document.querySelectorAll('#events .event')].every((row) => /config|gateway/.test(row.innerText))")
        browser.click("#pause")
        assert gateway.run("token", "lock", "trial").returncode == 0
        browser.until("document.querySelector('#pause').innerText.includes('1 new')", 10)
        assert "locked" not in browser.run("document.querySelector('#events').innerText")
        browser.click("#pause")
        browser.until("document.querySelector('#events').innerText.includes('locked')")

    def test_every_request_can_be_followed(self, gateway, browser):
        browser.open(f"{gateway.admin_url}/?kind=requests")
        browser.until("document.querySelectorAll('#events li').length == 4")

        # The stream begins a moment after the page.
        def comes():
            requests.get(f"{gateway.url}/api/again", timeout=20)
            return browser.run("document.querySelectorAll('#events li').length") > 4

        wait_until(comes, 20, "a request is on the page", pause=0.5)

    def test_without_the_script_it_is_the_same_page(self, gateway, browser):
        browser.forbid_scripts()
        browser.open(gateway.admin_url)
        browser.until("!!document.querySelector('#live')")
        shown = browser.text
        for text in ("me: a login is needed", "closed", "trial", "gateway_started", "Reload this page"):
            assert text in shown, text
        assert not browser.run("document.querySelector('#pause').checkVisibility()"), "nothing that does nothing"
        browser.run("document.querySelector('#r-api').open = true")
        assert browser.run("document.querySelector('#c-trial a.plain-only').getAttribute('href')") == "/token?credential=trial"
        # Times are the same for everybody then.
        assert "UTC" in browser.run("document.querySelector('#state time[data-style]').innerText")

    def test_a_gateway_that_is_gone_is_not_green(self, gateway, browser):
        browser.open(gateway.admin_url)
        browser.until("document.documentElement.classList.contains('scripted')")
        gateway.stop()
        browser.until("document.querySelector('.pill').innerText.startsWith('No answer since')", 15)
        assert "bad" in browser.run("document.querySelector('.pill').className")


def open_page(browser, gateway):
    """Waits for the script: a click before it does nothing."""
    browser.open(gateway.admin_url)
    browser.until("document.documentElement.classList.contains('scripted')")


class TestActions:
    def test_the_token_is_asked_for_once_in_a_tab(self, gateway, browser):
        open_page(browser, gateway)
        browser.run("document.querySelector('#c-trial').open = true")
        browser.click("#c-trial [data-operation=lock]")
        browser.until("document.querySelector('#confirm').open")
        assert "trial" in browser.run("document.querySelector('#confirm').innerText")
        browser.click("#confirm-yes")
        browser.until("document.querySelector('#ask-token').open")
        browser.fill("#admin-token", "wrong")
        browser.click("#ask-token button.primary")
        browser.until("document.querySelector('#ask-token').open && !document.querySelector('#wrong-token').hidden")
        give_token(browser, gateway)
        browser.until("document.querySelector('#c-trial .word').innerText == 'locked'")
        browser.click("#c-trial [data-operation=unlock]")
        browser.until("document.querySelector('#c-trial .word').innerText == 'valid'")
        browser.click("[data-reload]")
        browser.until("document.querySelector('#notice').innerText.includes('The configuration is loaded')")
        assert browser.run("document.querySelector('#c-trial').open"), "what was opened stays open"
        events = [event["event"] for event in gateway.events("--credential", "trial")]
        assert events.count("locked") == events.count("unlocked") == 1

    def test_another_tab_does_not_have_the_token(self, gateway, browser):
        open_page(browser, gateway)
        browser.click("[data-reload]")
        give_token(browser, gateway)
        browser.until("document.querySelector('#notice').innerText.includes('loaded')")
        browser.new_window()
        open_page(browser, gateway)
        browser.click("[data-reload]")
        browser.until("document.querySelector('#ask-token').open")
        assert browser.run("localStorage.length == 0 && document.cookie == ''")

    def test_nothing_happens_without_a_yes(self, gateway, browser):
        open_page(browser, gateway)
        browser.run("document.querySelector('#c-trial').open = true")
        browser.click("#c-trial [data-operation=clear]")
        browser.until("document.querySelector('#confirm').open")
        browser.press("Escape")
        browser.until("!document.querySelector('#confirm').open")
        assert not browser.run("document.querySelector('#ask-token').open")
        assert "cleared" not in [event["event"] for event in gateway.events("--credential", "trial")]


FORMS = [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]


class TestForEverybody:
    @pytest.mark.parametrize(("scheme", "width"), FORMS)
    def test_axe_finds_nothing(self, gateway, browser, scheme, width):
        browser.resize(width, 900)
        browser.prefer(scheme)
        browser.open(gateway.admin_url)
        browser.until("document.documentElement.classList.contains('scripted')")
        browser.run("document.querySelectorAll('details').forEach((details) => (details.open = true))")
        assert browser.violations() == []
        assert browser.run("document.scrollingElement.scrollWidth") <= width, "nothing scrolls sideways"
        browser.click("#c-trial [data-operation=clear]")
        browser.until("document.querySelector('#confirm').open")
        assert browser.violations() == []
        browser.click("#confirm-yes")
        browser.until("document.querySelector('#ask-token').open")
        assert browser.violations() == []

    @pytest.mark.parametrize("path", ["/login?credential=me", "/token?credential=trial", "/explain?q=x"])
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_axe_finds_nothing_on_other_pages(self, gateway, browser, scheme, path):
        browser.prefer(scheme)
        browser.open(gateway.admin_url + path)
        browser.until("document.readyState == 'complete'")
        assert browser.violations() == []

    def test_a_keyboard_is_enough(self, gateway, browser):
        browser.open(gateway.admin_url)
        browser.until("document.documentElement.classList.contains('scripted')")
        order = []
        for _ in range(60):
            browser.press("Tab")
            place = browser.run(
                "(() => { const box = document.activeElement.getBoundingClientRect();"
                " return [document.activeElement.id || document.activeElement.textContent.trim().slice(0, 20),"
                " document.activeElement.closest('section, header, footer')?.id, box.top + scrollY]; })()"
            )
            if place[0] == "" or (order and place[1] is None):
                break
            order.append(place)
        sections = list(dict.fromkeys(section for _, section, _ in order if section))
        assert sections == ["state", "explain", "needs", "traffic", "routes", "credentials", "live"], "as the eye goes"
        browser.run("document.querySelector('#r-api summary').focus()")
        browser.press("Enter")
        browser.until("document.querySelector('#r-api').open")

    def test_no_script_and_no_style_but_ours(self, gateway, browser):
        answer = requests.get(gateway.admin_url, timeout=10)
        policy = dict(rule.strip().split(" ", 1) for rule in answer.headers["Content-Security-Policy"].split(";"))
        assert policy == {
            "default-src": "'none'", "style-src": "'self'", "script-src": "'self'", "connect-src": "'self'",
            "img-src": "'self'", "form-action": "'self'", "base-uri": "'none'", "frame-ancestors": "'none'",
        }  # fmt: skip
        browser.open(gateway.admin_url)
        browser.until("document.documentElement.classList.contains('scripted')")
        origins = browser.run("[...new Set(performance.getEntriesByType('resource').map((entry) => new URL(entry.name).origin))]")
        assert origins == [gateway.admin_url]
        browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.isBroken = true\">')")
        assert not browser.run("new Promise((done) => setTimeout(() => done(!!window.isBroken), 500))")


class Stream:
    """Server-sent events as they come."""

    def __init__(self, url, **fields):
        self.answer = requests.get(url, headers={"Accept": "text/event-stream", **fields}, stream=True, timeout=(10, 40))
        assert self.answer.status_code == 200, self.answer.text
        self.text = ""
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            for part in self.answer.iter_content(None):
                self.text += part.decode()
        except requests.RequestException as error:
            self.text += f"\nended with {type(error).__name__}"

    def events(self):
        return [json.loads(line[6:]) for line in self.text.splitlines() if line.startswith("data: {")]

    def until(self, name, seconds=10):
        wait_until(lambda: any(event["event"] == name for event in self.events()), seconds, lambda: f"{name}: {self.text}")


class TestEvents:
    def test_a_list_and_a_stream_of_the_same(self, gateway):
        url = f"{gateway.admin_url}/api/events"
        listed = requests.get(url, timeout=10).json()
        assert listed["is_complete"] and listed["events"][-1]["event"] == "gateway_started"
        ids = [event["id"] for event in listed["events"]]
        assert ids == sorted(ids, reverse=True)
        stream = Stream(url + "?credential=trial")
        assert gateway.run("token", "lock", "trial").returncode == 0
        stream.until("locked")
        assert {event["credential"] for event in stream.events()} == {"trial"}
        [locked] = [event for event in stream.events() if event["event"] == "locked"]
        assert requests.get(f"{url}?since={locked['id'] - 1}&kind=locked", timeout=10).json()["events"] == [locked]
        rows = [event for event in gateway.events("--credential", "trial") if event["event"] == "locked"]
        assert [row["id"] for row in rows] == [locked["id"]]

    def test_who_was_away_gets_what_was_missed(self, gateway):
        last = requests.get(f"{gateway.admin_url}/api/events?limit=1", timeout=10).json()["events"][0]["id"]
        assert gateway.run("token", "lock", "trial").returncode == 0
        stream = Stream(f"{gateway.admin_url}/api/events", **{"Last-Event-ID": str(last)})
        stream.until("locked")
        # Also over a restart: the log remembers.
        gateway.stop()
        gateway.start()
        again = self.whole(f"{gateway.admin_url}/api/events", last)
        again.until("gateway_started")
        again.until("locked")

    @staticmethod
    def whole(url, last):
        """A stream that lacks nothing. Soon after a start the log is still being read, and the stream says so."""

        def opened():
            stream = Stream(url, **{"Last-Event-ID": str(last)})
            wait_until(lambda: "retry: " in stream.text, 10, "the stream begins")
            return None if "event: gap" in stream.text else stream

        return wait_until(opened, 10, "the log is read")

    def test_a_slow_stream_holds_up_neither_the_gateway_nor_its_stop(self, gateway):
        streams = [
            requests.get(f"{gateway.admin_url}/live", stream=True, timeout=(10, 40)) for _ in range(8)
        ]
        assert all(stream.status_code == 200 for stream in streams)
        assert requests.get(f"{gateway.url}/api/x", timeout=20).status_code == 200
        gateway.stop(seconds=10)
        for stream in streams:
            stream.close()

    def test_there_is_room_for_operators_beside_the_streams(self, gateway):
        streams = [requests.get(f"{gateway.admin_url}/live", stream=True, timeout=(10, 40)) for _ in range(32)]
        refused = requests.get(f"{gateway.admin_url}/live", timeout=10)
        assert refused.status_code == 503 and refused.headers["Retry-After"] == "5"
        # 1: a login is needed.
        status = gateway.run("status")
        assert status.returncode == 1 and "authgateway login me" in status.stdout, status
        streams.pop().close()
        wait_until(lambda: requests.get(f"{gateway.admin_url}/live", stream=True, timeout=10).ok, 10, "a place is free")
        for stream in streams:
            stream.close()

    def test_an_unknown_kind_is_answered_with_the_one_that_was_meant(self, gateway):
        answer = requests.get(f"{gateway.admin_url}/api/events?kind=failure", timeout=10)
        assert answer.status_code == 400 and 'did you mean "failures"?' in answer.json()["detail"]


class TestRequireToken:
    @pytest.fixture
    def closed(self, make_gateway, origin):
        gateway = make_gateway(config(origin))
        gateway.admin["require_token"] = True
        gateway.configure(config(origin))
        return gateway.start()

    def test_nothing_is_seen_without_it(self, closed):
        for path in ("/metrics", "/api/tokens", "/api/events", "/api/overview", "/live", "/readyz?verbose"):
            answer = requests.get(closed.admin_url + path, timeout=10)
            assert answer.status_code == 401 and "box_developer_token" not in answer.text, path
            answer = requests.get(
                closed.admin_url + path, stream=True, headers={"Authorization": f"Bearer {admin_token(closed)}"}, timeout=10
            )
            assert answer.status_code == 200, path
            answer.close()
        assert requests.get(f"{closed.admin_url}/healthz", timeout=10).status_code == 200
        assert requests.get(f"{closed.admin_url}/readyz", timeout=10).status_code == 200

    def test_commands_send_it_where_they_are_asked(self, closed):
        status = closed.run("status")
        assert "trial" in status.stdout, status
        assert closed.run("token", "list").returncode == 0

    def test_the_page_asks_for_it(self, closed, browser):
        browser.open(closed.admin_url)
        browser.until("!!document.querySelector('#page-token')")
        assert "trial" not in browser.run("document.documentElement.outerHTML")
        assert browser.violations() == []
        browser.fill("#page-token", admin_token(closed))
        browser.click("button.primary")
        browser.until("document.querySelector('#c-trial .word')?.innerText == 'valid'")
        assert closed.run("token", "lock", "trial").returncode == 0
        browser.until("document.querySelector('#events').innerText.includes('locked')", 10)
        browser.until("document.querySelector('#c-trial .word').innerText == 'locked'", 15)
        browser.open(closed.admin_url)
        browser.until("!!document.querySelector('#c-trial')")

    def test_the_page_asks_for_it_without_a_script(self, closed, browser):
        browser.forbid_scripts()
        browser.open(closed.admin_url)
        browser.fill("#page-token", admin_token(closed))
        browser.click("button.primary")
        browser.until("!!document.querySelector('#c-trial')")

"""What is kept in the audit log (`usage: none`, `retention`), and how a part of it is shown."""

import contextlib
import datetime
import json
import pathlib
import re
import sqlite3
import subprocess

import pytest
import requests
from harness import processes
from harness.configs import BEARER, CANARY
from harness.events import named
from harness.gateway import command
from harness.origin import RecordingOrigin
from harness.terminal import on_a_terminal


def config(origin, **audit):
    """Two clients, one of whom may use the route; what the other asks for is an event with its name."""
    clients = {name: {"token": f"{CANARY}-{name}"} for name in ("laptop", "phone")}
    auth = {"strategy": "box_developer_token", "token": CANARY}
    route = {"upstream": origin.url, "auth": auth}
    routes = {"api": {**route, "clients": ["laptop"]}, "open": route}
    return {"audit": audit, "access": {"clients": clients}, "routes": routes}


def ask(gateway, client, path="/api/x"):
    headers = {"Authorization": f"Bearer {CANARY}-{client}"}
    return requests.get(gateway.url + path, headers=headers, timeout=20).status_code


def rows(gateway, table):
    with contextlib.closing(sqlite3.connect(gateway.folder / "state" / "audit.sqlite", timeout=20)) as database:
        return database.execute(f"select count(*) from {table}").fetchone()[0]


def query(gateway, *filters):
    """The events, and with `--requests` the requests."""
    result = gateway.run("audit", "query", "--json", *filters)
    assert result.returncode == 0, result
    return [json.loads(line) for line in result.stdout.splitlines()]


# MARK: What is kept


@pytest.mark.parametrize("usage, counts, requested", [("none", 0, 0), ("minute", 3, 0), ("request", 3, 3)])
def test_uses_are_counted_unless_usage_is_none(start_gateway, origin, usage, counts, requested):
    gateway = start_gateway(config(origin, usage=usage))
    assert [ask(gateway, "laptop") for _ in range(3)] == [200] * 3
    metrics = requests.get(gateway.admin_url + "/metrics", timeout=10).text
    # What was counted is written when the gateway stops, at the latest.
    gateway.stop()
    assert json.loads(gateway.run("audit", "stats", "--json").stdout)["calls"] == counts
    assert (rows(gateway, "token_use") > 0) == (counts > 0)
    assert rows(gateway, "token_requests") == requested
    # Events and metrics have nothing to do with it.
    assert named(gateway, "injected") != []
    assert re.search(r'^gateway_requests_total\{.*route="api".*\} 3$', metrics, re.MULTILINE), metrics
    assert gateway.run("audit", "verify").returncode == 0


def keep_uses(gateway, days):
    """Counts and requests of so many days ago, as the gateway would have written them: they stand outside the chain."""
    at = f"{datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days):%Y-%m-%dT%H:%M:00.000Z}"
    with contextlib.closing(sqlite3.connect(gateway.folder / "state" / "audit.sqlite", timeout=20)) as database:
        use = {"minute": at, "route": f"{days}d", "client": "", "credential": "c", "generation": 1, "status_class": 2}
        asked = {"at": at, "request_id": "r", "route": f"{days}d", "method": "GET", "status": 200}
        asked |= {"replayed": 0, "duration_ms": 1, "instance": "i"}
        numbers = {"bytes_received": 0, "bytes_sent": 0}
        for table, row in (
            ("token_use", {**use, "requests": 1, **numbers}), ("token_requests", {**asked, **numbers})
        ):
            marks = ", ".join("?" * len(row))
            database.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", list(row.values()))
        database.commit()


def kept_uses(gateway):
    with contextlib.closing(sqlite3.connect(gateway.folder / "state" / "audit.sqlite", timeout=20)) as database:
        tables = ("token_use", "token_requests")
        found = [database.execute(f"select route from {table} where route like '%d'").fetchall() for table in tables]
    return [sorted(route for (route,) in table) for table in found]


@pytest.mark.parametrize("retention, is_removed", [("72h", True), ("90d", False)])
def test_what_is_older_than_retention_is_removed_and_the_rest_can_be_verified(
    make_gateway, origin, clock, retention, is_removed
):
    gateway = make_gateway(config(origin, usage="request", retention=retention), environment=clock.environment)
    clock.set("-5d")
    gateway.start()
    assert [ask(gateway, "laptop"), ask(gateway, "phone")] == [200, 403]
    processes.wait_until(lambda: named(gateway, "client_denied"), 10, "the refusal is in the log")
    gateway.kill()
    old = query(gateway)
    for days in (5, 1):
        keep_uses(gateway, days)

    clock.set("-1d")
    gateway.start()
    gateway.kill()
    clock.set("+0")
    gateway.start()
    gone = old[-1]["id"] if is_removed else 0
    first = lambda: query(gateway)[0]["id"]
    processes.wait_until(lambda: first() == gone + 1, 10, lambda: f"it begins behind {gone}, not with {first()}")
    uses = ["1d"] if is_removed else ["1d", "5d"]
    assert kept_uses(gateway) == [uses, uses]
    left = query(gateway)
    assert [event["id"] for event in left] == list(range(gone + 1, gone + 1 + len(left)))
    assert [event["event"] for event in left].count("gateway_started") == (2 if is_removed else 3), "what is younger stays"
    verified = json.loads(gateway.run("audit", "verify", "--json").stdout)
    assert (verified["rows"], verified["pruned_to"]) == (len(left), gone)
    assert (f"rows up to {gone} were removed by retention" in gateway.run("audit", "verify").stdout) == is_removed
    gateway.kill()


@pytest.mark.parametrize("retention, words", [("59m", "1h"), ("4000d", "3650d"), ("90", "expected")])
def test_a_retention_that_is_none_is_refused(make_gateway, origin, retention, words):
    checked = make_gateway(config(origin, retention=retention)).run("check")
    assert checked.returncode == 3 and "audit.retention" in checked.stderr and words in checked.stderr, checked


# MARK: What is shown


def fill(gateway):
    """Events of both clients, before and after a command of an operator."""
    gateway.start()
    for client in ("laptop", "phone", "laptop"):
        ask(gateway, client)
    assert [ask(gateway, "phone", "/open/x"), ask(gateway, "laptop", "/open/x")] == [200, 200]
    assert gateway.run("token", "lock", "routes.api").returncode == 0
    assert gateway.run("token", "unlock", "routes.api").returncode == 0
    processes.wait_until(lambda: len(query(gateway, "--requests")) == 4, 10, "the requests are in the log")
    processes.wait_until(lambda: len(named(gateway, "client_denied")) == 1, 10, "the refusal is in the log")
    return gateway


@pytest.fixture(scope="module")
def gateway(make_module_gateway):
    """For tests that only read its log."""
    origin = RecordingOrigin()
    yield fill(make_module_gateway(config(origin, usage="request")))
    origin.stop()


@pytest.fixture
def own_gateway(make_gateway, origin):
    return fill(make_gateway(config(origin, usage="request")))


def test_since_is_where_it_begins_and_until_is_where_it_ends(gateway):
    events = query(gateway)
    [locked] = [event for event in events if event["event"] == "locked"]
    [unlocked] = [event for event in events if event["event"] == "unlocked"]
    before = [event for event in events if event["at"] < locked["at"]]
    after = [event for event in events if event["at"] >= locked["at"]]
    # The time itself belongs to what begins there, and not to what ends there.
    assert query(gateway, "--since", locked["at"]) == after and locked in after
    assert query(gateway, "--until", locked["at"]) == before and len(before) > 3
    assert query(gateway, "--since", locked["at"], "--until", unlocked["at"]) == [
        event for event in after if event["at"] < unlocked["at"]
    ]
    turned = ("--since", unlocked["at"], "--until", locked["at"])
    for words in (["query"], ["export"], ["tail"], ["stats"], ["who", "routes.api"]):
        refused = gateway.run("audit", *words, *turned)
        assert refused.returncode == 2 and "before it begins" in refused.stderr, refused
    refused = gateway.run("audit", "stats", "--last", "1h", "--until", "2h")
    assert refused.returncode == 2 and "before it begins" in refused.stderr, refused
    exported = gateway.run("audit", "export", "--until", locked["at"])
    assert [json.loads(line) for line in exported.stdout.splitlines()] == before
    tail = gateway.run("audit", "tail", "--json", "-n", "2", "--until", locked["at"])
    assert [json.loads(line) for line in tail.stdout.splitlines()] == before[-2:]
    requested = query(gateway, "--requests")
    assert len(requested) == 4
    assert query(gateway, "--requests", "--until", locked["at"]) == [row for row in requested if row["at"] < locked["at"]]
    assert query(gateway, "--requests", "--since", requested[0]["at"]) == requested


def test_a_time_can_be_how_long_ago(gateway):
    events = query(gateway)
    for ago in ("30m", "2h", "7d"):
        assert query(gateway, "--since", ago) == events
        assert query(gateway, "--until", ago) == []


def test_how_long_ago_is_counted_from_now(make_gateway, origin, clock):
    gateway = make_gateway(config(origin), environment=clock.environment)
    clock.set("-3h")
    gateway.start()
    gateway.kill()
    old = query(gateway)
    clock.set("+0")
    gateway.start()
    gateway.kill()
    events = query(gateway)
    new = events[len(old):]
    assert old and new
    assert query(gateway, "--since", "2h") == new and query(gateway, "--until", "2h") == old
    assert query(gateway, "--since", "4h") == events and query(gateway, "--since", "4h", "--until", "2h") == old


@pytest.mark.parametrize("option", ["--since", "--until"])
@pytest.mark.parametrize("time", ["tomorrow", "2h30", "2026-13-01T00:00:00Z", "-2h", "25:00"])
def test_a_time_that_cannot_be_read_is_wrong_usage(gateway, option, time):
    for words in (["query"], ["export"], ["tail"], ["stats"], ["who", "routes.api"]):
        refused = gateway.run("audit", *words, f"{option}={time}")
        assert (refused.returncode, refused.stdout) == (2, ""), refused
        assert f'cannot read the time "{time}"' in refused.stderr and "30m, 2h, 7d" in refused.stderr, refused


def test_a_time_can_be_typed_as_people_say_it(gateway):
    """In local time: the zone of the command, wherever the gateway was."""
    events = query(gateway)
    began = datetime.datetime.fromisoformat(events[0]["at"].replace("Z", "+00:00"))
    for zone, hours in (("UTC", 0), ("XYZ-5", 5), ("XYZ+8", -8)):
        here = began.astimezone(datetime.timezone(datetime.timedelta(hours=hours)))
        before, after = here - datetime.timedelta(minutes=1), here + datetime.timedelta(minutes=30)
        for since in (f"{before:%Y-%m-%d %H:%M}", f"{before:%Y-%m-%dT%H:%M:%S}", f"{before:%H:%M}"):
            shown = gateway.run("audit", "query", "--json", "--since", since, TZ=zone)
            assert [json.loads(line) for line in shown.stdout.splitlines()] == events, (zone, since, shown.stderr)
        shown = gateway.run("audit", "query", "--json", "--since", f"{after:%Y-%m-%d %H:%M}", TZ=zone)
        assert (shown.returncode, shown.stdout) == (0, ""), (zone, after)
    # The hour that --since names the beginning of, a day ago.
    assert query(gateway, "--since", "yesterday 14:00", "--until", "14:01") == []
    assert query(gateway, "--since", "yesterday", "--failed") == [event for event in events if event["outcome"] == "failed"]


# MARK: Who used it


def who(gateway, *arguments, status=0):
    result = gateway.run("audit", "who", *arguments, "--json")
    assert result.returncode == status, result
    return json.loads(result.stdout)


@pytest.fixture
def two_credentials(make_gateway, origin):
    """As `own_gateway`, where the routes share no secret."""
    whole = config(origin, usage="request")
    whole["routes"]["open"]["auth"] = {"strategy": "bearer", "token": f"{CANARY}-open"}
    return fill(make_gateway(whole))


def test_who_used_a_credential(two_credentials):
    gateway = two_credentials
    gateway.stop()
    answer = who(gateway, "routes.api")
    assert [(group["name"], group["requests"]) for group in answer["groups"]] == [("laptop", 2)]
    [group] = answer["groups"]
    assert group["results"] == [{"status": "2xx", "requests": 2}] and answer["by"] == "client"
    requested = [row for row in query(gateway, "--requests") if row["credential"] == "routes.api"]
    assert (group["first_at"], group["first_request_id"]) == (requested[0]["at"], requested[0]["request_id"])
    assert (group["last_at"], group["last_request_id"]) == (requested[-1]["at"], requested[-1]["request_id"])
    assert answer["total"]["requests"] == 2 and answer["recorded_since"] <= group["first_at"]
    other = who(gateway, "routes.open")
    assert {group["name"]: group["requests"] for group in other["groups"]} == {"laptop": 1, "phone": 1}
    assert [group["name"] for group in who(gateway, "routes.open", "--by", "route")["groups"]] == ["open"]
    assert [group["name"] for group in who(gateway, "routes.open", "--by", "status")["groups"]] == ["2xx"]

    shown = gateway.run("audit", "who", "routes.open", "--since", "1h")
    assert shown.returncode == 0 and shown.stdout.startswith("Uses of routes.open from "), shown
    assert re.search(r"^phone +1 +2xx 1 ", shown.stdout, re.MULTILINE) and "LAST REQUEST" in shown.stdout
    nobody = gateway.run("audit", "who", "routes.open", "--since", "yesterday", "--until", "today")
    # What is before the oldest use cannot be answered.
    assert nobody.returncode == 1 and "not in the log" in nobody.stderr and nobody.stdout == "", nobody
    unknown = gateway.run("audit", "who", "routes.opem")
    assert unknown.returncode == 2 and "routes.open" in unknown.stderr, unknown
    assert gateway.run("audit", "who", "routes.open", "--by", "clients").returncode == 2


@pytest.mark.parametrize("usage", ["minute", "request"])
def test_a_use_is_in_the_answer_at_once(start_gateway, origin, usage):
    """The gateway writes uses every few seconds; a command has it write them before it reads the log."""
    gateway = start_gateway(config(origin, usage=usage))
    assert ask(gateway, "laptop") == 200
    assert who(gateway, "routes.api")["total"]["requests"] == 1
    assert ask(gateway, "laptop") == 200
    stats = json.loads(gateway.run("audit", "stats", "--by", "client", "--json").stdout)
    assert stats["total"]["requests"] == 2
    assert ask(gateway, "laptop") == 200
    answer = requests.post(f"{gateway.admin_url}/api/audit/who/routes.api", timeout=20).json()
    assert answer["total"]["requests"] == 3
    if usage == "request":
        assert ask(gateway, "laptop") == 200
        assert len(query(gateway, "--requests")) == 4


def test_it_is_said_where_the_newest_uses_may_be_missing(start_gateway, origin):
    gateway = start_gateway(config(origin))
    assert ask(gateway, "laptop") == 200
    assert who(gateway, "routes.api")["total"]["requests"] == 1
    (gateway.folder / "state" / "admin.token").unlink()
    shown = gateway.run("audit", "who", "routes.api")
    assert shown.returncode == 0 and "uses of the last 15 s may be missing" in shown.stderr, shown
    # No refusal of the command itself stands in the log.
    assert query(gateway, "--event", "client_denied") == []
    gateway.stop()
    assert gateway.run("audit", "who", "routes.api").stderr == ""


def test_the_admin_listener_says_who_used_it(two_credentials):
    gateway = two_credentials
    url = f"{gateway.admin_url}/api/audit/who/routes.open"
    total = lambda: requests.post(url, timeout=20).json().get("total", {}).get("requests")
    processes.wait_until(lambda: total() == 2, 30, lambda: f"the uses are in the log, not {total()}")
    answer = requests.post(url, json={"by": "client", "since": "2h"}, timeout=20).json()
    assert {group["name"]: group["requests"] for group in answer["groups"]} == {"laptop": 1, "phone": 1}
    assert requests.post(url, json={"since": "tomorrow"}, timeout=20).status_code == 400
    assert requests.post(url, json={"until": "7d"}, timeout=20).status_code == 400
    turned = requests.post(url, json={"since": "2h", "until": "3h"}, timeout=20)
    assert turned.status_code == 400 and "before it begins" in turned.json()["detail"]
    nobody = requests.post(f"{gateway.admin_url}/api/audit/who/nobody", timeout=20)
    assert nobody.status_code == 404 and "nobody" in nobody.json()["detail"]


def test_refusals_are_told_apart(start_gateway, make_script):
    statuses = [401, 403, 429, 404, 200]
    left = iter(statuses)

    def steps(wire, number):
        wire.head()
        wire.send(f"HTTP/1.1 {next(left)} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())

    whole = config(make_script(steps), usage="minute")
    # A token that can be replaced would be, after the 401.
    whole["routes"]["api"]["auth"] = BEARER
    gateway = start_gateway(whole)
    assert [ask(gateway, "laptop") for _ in statuses] == statuses
    gateway.stop()
    groups = who(gateway, "routes.api", "--by", "status")["groups"]
    assert [(group["name"], group["requests"]) for group in groups] == [
        ("2xx", 1), ("401", 1), ("403", 1), ("429", 1), ("4xx", 1)
    ]
    assert all("last_request_id" not in group for group in groups), "single requests are not recorded"


def test_what_is_not_recorded_is_said(start_gateway, origin):
    gateway = start_gateway(config(origin, usage="none"))
    assert ask(gateway, "laptop") == 200
    gateway.stop()
    for words in (["who", "routes.api"], ["stats", "--by", "client"], ["query", "--requests"], ["export", "--requests"]):
        refused = gateway.run("audit", *words)
        assert (refused.returncode, refused.stdout) == (1, "") and "audit.usage is none" in refused.stderr, refused
    assert gateway.run("audit", "stats").returncode == 0


def test_it_is_said_that_the_log_begins_later(gateway):
    for words in (["query"], ["export"], ["stats"], ["stats", "--by", "client"]):
        before = gateway.run("audit", *words, "--since", "yesterday", "--until", "yesterday 14:00")
        assert before.returncode == 0 and "the log begins at " in before.stderr, before
        assert "the log begins" not in gateway.run("audit", *words, "--since", "yesterday").stderr


def test_sums_of_one_credential_or_client(gateway):
    stats = lambda *words: json.loads(gateway.run("audit", "stats", "--json", *words).stdout)
    whole = stats()
    api = stats("--credential", "routes.api")
    assert [row["name"] for row in api["credentials"]] == ["routes.api"] and api["credential"] == "routes.api"
    assert 0 < api["events"] < whole["events"]
    assert stats("--client", "phone")["events"] == len(query(gateway, "--client", "phone"))
    assert stats("--until", "1h")["events"] == 0 and stats("--since", "1h")["events"] == whole["events"]
    assert gateway.run("audit", "stats", "--last", "1h", "--since", "1h").returncode == 2
    assert gateway.run("audit", "stats", "--client", "phome").returncode == 2


def test_client_leaves_what_that_client_caused(gateway):
    events = query(gateway)
    for client in ("laptop", "phone"):
        found = query(gateway, "--client", client)
        assert found == [event for event in events if event.get("client") == client] != []
    assert [event["event"] for event in query(gateway, "--client", "phone", "--failed")] == ["client_denied"]
    assert [row["route"] for row in query(gateway, "--requests", "--client", "laptop")] == ["api", "api", "open"]
    assert [row["route"] for row in query(gateway, "--requests", "--client", "phone")] == ["open"]


def test_path_is_read_in_the_place_of_the_configurations_database(own_gateway, tmp_path):
    copy = tmp_path / "copy.sqlite"
    source = own_gateway.folder / "state" / "audit.sqlite"
    with contextlib.closing(sqlite3.connect(source, timeout=20)) as old, contextlib.closing(sqlite3.connect(copy)) as new:
        old.backup(new)
    events = query(own_gateway)
    assert own_gateway.run("token", "lock", "routes.api").returncode == 0
    assert len(query(own_gateway)) > len(events)
    assert query(own_gateway, "--path", copy) == events

    # Nothing else of the configuration is needed, so it need not be there.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for arguments in (("query", "--json"), ("export",), ("tail", "--json", "-n", "1000")):
        shown = command("audit", *arguments, "--path", copy, cwd=elsewhere)
        assert shown.returncode == 0, shown
        assert [json.loads(line) for line in shown.stdout.splitlines()] == events
    stats = json.loads(command("audit", "stats", "--json", "--path", copy, cwd=elsewhere).stdout)
    assert stats["events"] == len(events)
    missing = command("audit", "query", "--path", tmp_path / "none.sqlite", cwd=elsewhere)
    assert missing.returncode == 1 and "none.sqlite" in missing.stderr and not (tmp_path / "none.sqlite").exists()


def test_a_copy_is_verified_with_the_key_of_the_configuration(own_gateway, tmp_path):
    own_gateway.stop()
    copy = tmp_path / "copy.sqlite"
    source = own_gateway.folder / "state" / "audit.sqlite"
    copy.write_bytes(source.read_bytes())
    # Without its head nobody knows whether the end was cut off.
    headless = own_gateway.run("audit", "verify", "--path", copy)
    assert headless.returncode == 0 and "--head ID:HASH" in headless.stdout, headless
    pathlib.Path(f"{copy}.head").write_bytes(pathlib.Path(f"{source}.head").read_bytes())
    verified = own_gateway.run("audit", "verify", "--path", copy)
    assert verified.returncode == 0 and f"{len(query(own_gateway))} rows" in verified.stdout, verified
    with contextlib.closing(sqlite3.connect(copy)) as database:
        for (name,) in database.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            database.execute(f"drop trigger {name}")
        assert database.execute("update token_events set credential = 'other' where event = 'injected'").rowcount > 0
        database.commit()
    assert own_gateway.run("audit", "verify", "--path", copy).returncode == 5
    assert own_gateway.run("audit", "verify").returncode == 0, "the log itself is whole"


def backup(gateway, copy):
    """As sqlite3's `.backup` makes it."""
    source = gateway.folder / "state" / "audit.sqlite"
    subprocess.run(["sqlite3", str(source), f".backup {copy}"], check=True, timeout=20)


def test_a_backup_that_ends_before_the_log_is_whole(own_gateway, tmp_path):
    copy = tmp_path / "copy.sqlite"
    backup(own_gateway, copy)
    rows = len(query(own_gateway))
    assert own_gateway.run("token", "lock", "routes.api").returncode == 0
    verified = own_gateway.run("audit", "verify", "--path", copy)
    assert verified.returncode == 0 and verified.stdout.startswith(f"The copy is intact: {rows} rows"), verified
    assert f"The log itself has gone on to row {rows + 1}." in verified.stdout
    said = json.loads(own_gateway.run("audit", "verify", "--json", "--path", copy).stdout)
    assert said["is_copy"] and said["rows"] == rows
    assert {"source": "log_head", "row": rows + 1, "is_compared": False} in said["compared"]
    # The key alone is enough, away from the configuration.
    key = own_gateway.folder / "state" / "token.key"
    elsewhere = command("audit", "verify", "--path", copy, "--key", key, cwd=tmp_path)
    assert elsewhere.returncode == 0 and f"{rows} rows" in elsewhere.stdout, elsewhere
    other = tmp_path / "other.key"
    other.write_text("ab" * 32 + "\n")
    other.chmod(0o600)
    foreign = command("audit", "verify", "--path", copy, "--key", other, cwd=tmp_path)
    assert foreign.returncode == 1 and "another installation key" in foreign.stderr, foreign


def test_a_row_that_is_named_has_to_be_in_the_copy(own_gateway, tmp_path):
    copy = tmp_path / "copy.sqlite"
    backup(own_gateway, copy)
    events = query(own_gateway)
    named = f"{events[-1]['id']}:{events[-1]['hash']}"
    verified = own_gateway.run("audit", "verify", "--path", copy, "--head", named)
    assert verified.returncode == 0 and "It holds the row that --head names." in verified.stdout, verified
    assert own_gateway.run("token", "lock", "routes.api").returncode == 0
    [locked] = query(own_gateway)[-1:]
    later = own_gateway.run("audit", "verify", "--path", copy, "--head", f"{locked['id']}:{locked['hash']}")
    assert later.returncode == 5 and "rolled_back" in later.stderr, later
    for wrong in ("5", "5:abc", "x:" + "0" * 64):
        refused = own_gateway.run("audit", "verify", "--head", wrong)
        assert refused.returncode == 2 and "cannot read --head" in refused.stderr, refused


# MARK: Names

UNKNOWN = [
    ("--client", "phon", 'no client "phon"', 'did you mean "phone"?'),
    ("--route", "apis", 'no route "apis"', 'did you mean "api"?'),
    ("--credential", "routes.apu", 'no credential "routes.apu"', 'did you mean "routes.api"?'),
    ("--event", "locket", 'no event "locket"', 'did you mean "locked"?'),
    ("--client", "xyz", 'no client "xyz"', "it knows laptop, phone"),
]


@pytest.mark.parametrize("option, name, words, hint", UNKNOWN)
@pytest.mark.parametrize("verb", [["query"], ["export"], ["tail"], ["tail", "-f"]])
def test_a_name_that_nobody_has_is_wrong_usage(gateway, verb, option, name, words, hint):
    refused = gateway.run("audit", *verb, option, name)
    assert (refused.returncode, refused.stdout) == (2, ""), refused
    assert words in refused.stderr and hint in refused.stderr, refused


def test_a_name_that_the_configuration_has_no_more_is_found_in_the_log(own_gateway, tmp_path):
    own_gateway.stop()
    events = query(own_gateway, "--client", "phone")
    assert events and query(own_gateway, "--credential", "routes.api[user:42]") == [], "subjects are no names"
    renamed = own_gateway.file.read_text().replace("phone", "tablet")
    own_gateway.file.write_text(renamed)
    assert query(own_gateway, "--client", "phone") == events
    assert query(own_gateway, "--client", "tablet") == [], "it has done nothing so far"
    copy = tmp_path / "copy.sqlite"
    backup(own_gateway, copy)
    foreign = own_gateway.run("audit", "query", "--path", copy, "--client", "tablet")
    assert foreign.returncode == 2 and 'in the log' in foreign.stderr, "only the log counts there"


# MARK: Sums

SUMS = {
    "client": {"laptop": (3, 0), "phone": (1, 0)},
    "route": {"api": (2, 0), "open": (2, 0)},
    # Both routes say the same of it.
    "credential": {"routes.api": (4, 0)},
}


@pytest.mark.parametrize("by", [*SUMS, "upstream"])
def test_requests_are_summed_up_by(own_gateway, origin, by):
    own_gateway.stop()
    expected = SUMS.get(by, {origin.url.rstrip("/"): (4, 0)})
    said = json.loads(own_gateway.run("audit", "stats", "--by", by, "--last", "1h", "--json").stdout)
    assert said["by"] == by and said["since"].endswith("Z")
    groups = {group["name"]: (group["requests"], group["errors"]) for group in said["groups"]}
    assert groups == expected, said
    assert said["total"]["requests"] == 4 and said["total"]["bytes_sent"] > 0
    shown = own_gateway.run("audit", "stats", "--by", by)
    lines = shown.stdout.splitlines()
    assert lines[0].split()[:3] == [by.upper(), "REQUESTS", "ERRORS"], shown
    assert [line.split()[0] for line in lines[1:]] == [*sorted(expected), "total"], shown


def test_sums_of_a_time_leave_out_what_is_older(own_gateway):
    own_gateway.stop()
    everything = json.loads(own_gateway.run("audit", "stats", "--json").stdout)
    assert everything["events"] == len(query(own_gateway)) and "since" not in everything
    recent = json.loads(own_gateway.run("audit", "stats", "--json", "--last", "1h").stdout)
    assert recent["events"] == everything["events"] and recent["calls"] == 4
    for wrong in ("yesterday", "0h", "1w", "-1h"):
        refused = own_gateway.run("audit", "stats", f"--last={wrong}")
        assert refused.returncode == 2 and "30m, 2h or 7d" in refused.stderr, refused
    refused = own_gateway.run("audit", "stats", "--by", "cleint")
    assert refused.returncode == 2 and 'did you mean "client"?' in refused.stderr, refused


# East, west with half an hour, and none; neither has a summer time.
ZONES = {"Asia/Kolkata": ("+05:30", 330), "Pacific/Marquesas": ("-09:30", -570), "UTC": ("+00:00", 0)}


@pytest.mark.parametrize("zone", ZONES)
def test_local_shows_the_time_of_the_place(gateway, zone):
    suffix, minutes = ZONES[zone]
    events = query(gateway)
    expected = []
    for event in events:
        moment = datetime.datetime.fromisoformat(event["at"]) + datetime.timedelta(minutes=minutes)
        expected.append(f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}{suffix}")
    for verb in (["query"], ["tail", "-n", "1000"]):
        shown = gateway.run("audit", *verb, "--local", TZ=zone)
        assert [line.split()[0] for line in shown.stdout.splitlines()] == expected, shown
        plain = gateway.run("audit", *verb, TZ=zone)
        assert [line.split()[0] for line in plain.stdout.splitlines()] == [event["at"] for event in events]
    # Programs get what they always get.
    assert query(gateway, "--local") == events
    requested = gateway.run("audit", "query", "--requests", "--local", TZ=zone).stdout.splitlines()
    assert len(requested) == 4 and all(line.split()[0].endswith(suffix) for line in requested)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_lines_fit_the_terminal(gateway, columns):
    events = query(gateway)
    for words in (["query"], ["tail", "-n", "1000"], ["query", "--requests"]):
        shown = on_a_terminal(gateway, "audit", *words, columns=columns, NO_COLOR="1")
        assert max(map(len, shown.splitlines())) <= columns and "\x1b" not in shown, shown
        rows = [line for line in shown.splitlines() if not line.startswith(" ")]
        assert len(rows) == (4 if "--requests" in words else len(events)), shown
    wide = on_a_terminal(gateway, "audit", "tail", "-n", "1000", "--wide", columns=columns, NO_COLOR="1")
    assert wide == gateway.run("audit", "tail", "-n", "1000").stdout, "one line for each row, as in a pipe"
    colored = on_a_terminal(gateway, "audit", "tail", "-n", "1000", columns=columns)
    assert re.search(r"\x1b\[33mlocked", colored) and re.search(r"\x1b\[31mclient_denied", colored)
    assert re.search(r"\x1b\[36mgateway_started", colored)


def test_an_index_of_somebody_else_hides_no_row(start_gateway, origin):
    """Whoever can write the file can put an index into it that lacks rows."""
    gateway = start_gateway(config(origin))
    assert ask(gateway, "phone") == 403
    processes.wait_until(lambda: named(gateway, "client_denied"), 20, "the denial is a row")
    gateway.stop()
    with contextlib.closing(sqlite3.connect(gateway.folder / "state" / "audit.sqlite")) as database:
        database.execute("PRAGMA writable_schema = 1")
        database.execute("CREATE INDEX planted ON token_events (event, id) WHERE event <> 'client_denied'")
        shown = "CREATE INDEX planted ON token_events (event, id)"
        database.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'planted'", (shown,))
        database.commit()
    assert len(gateway.events("--event", "client_denied")) == 1

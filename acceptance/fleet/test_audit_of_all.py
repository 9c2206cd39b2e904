"""`audit … --all`: the logs of all gateways, from the database that they share."""

import contextlib
import json
import os
import secrets
import sqlite3
import tempfile

import pytest
import requests
from harness.configs import plain_config
from harness.gateway import command
from harness.postgresql import PostgreSQL

#: The tables of the database, and where their rows come from.
TABLES = {"audit_event": "token_events", "audit_checkpoint": "audit_checkpoints", "audit_use": "token_use"}


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory):
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        os.chmod(folder, 0o755)
        server = PostgreSQL(folder + "/one")
        yield server
        server.stop()


class Fleet:
    """The log of one gateway, shipped under two names: what two gateways with the same events would ship."""

    def __init__(self, gateway, server, origin):
        self.gateway, self.server = gateway, server
        self.database = f"test_{secrets.token_hex(4)}"
        server.database(self.database)
        # Its state is that of the gateway, which has a store of its own: no gateway ships to this database.
        self.file = gateway.folder / "fleet.yaml"
        tokens = {"store": "postgres", "url": server.url(self.database), "key": {"file": "./state/token.key"}}
        config = {"version": 1, "state_directory": "./state", "tokens": tokens, **plain_config(origin)}
        self.file.write_text(json.dumps(config), encoding="utf-8")
        assert self.run("store", "migrate").returncode == 0
        for number in (1, 2):
            self.ship(f"chain-{number}", f"gw-{number}")

    def run(self, *arguments):
        return command(*arguments, "--config", self.file, cwd=self.gateway.folder)

    def sql(self, text):
        return self.server.sql(text, self.database)

    def ship(self, chain, host):
        with contextlib.closing(sqlite3.connect(self.gateway.folder / "state/audit.sqlite")) as log:
            log.row_factory = sqlite3.Row
            for table, source in TABLES.items():
                rows = [{**dict(row), "chain": chain} for row in log.execute(f"select * from {source}")]
                record = f"json_populate_recordset(null::authgateway.{table}, $rows${json.dumps(rows)}$rows$)"
                self.sql(f"insert into authgateway.{table} select * from {record}")
            check = log.execute("select value from audit_log where name = 'key_check'").fetchone()[0]
            last, end = log.execute("select id, hash from token_events order by id desc limit 1").fetchone()
        self.sql(f"insert into authgateway.audit_chain values ('{chain}', '{host}', '{check}', {last}, '{end}')")


@pytest.fixture
def fleet(start_gateway, shared_server, origin):
    gateway = start_gateway(plain_config(origin))
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    gateway.stop()
    return Fleet(gateway, shared_server, origin)


def lines(result):
    assert result.returncode == 0, result
    return result.stdout.splitlines()


def test_rows_of_all_gateways_name_their_gateway(fleet):
    own = [json.loads(line) for line in lines(fleet.gateway.run("audit", "query", "--json"))]
    found = [json.loads(line) for line in lines(fleet.run("audit", "query", "--all", "--json"))]
    for number in (1, 2):
        members = {"gateway": f"gw-{number}", "chain": f"chain-{number}"}
        assert [row for row in found if row["chain"] == members["chain"]] == [{**members, **row} for row in own]
    assert [row["at"] for row in found] == sorted(row["at"] for row in found) and len(found) == 2 * len(own)
    assert lines(fleet.run("audit", "export", "--all")) == lines(fleet.run("audit", "query", "--all", "--json"))
    started = lines(fleet.run("audit", "query", "--all", "--event", "gateway_started"))
    assert [line.split()[0] for line in started] == ["gw-1", "gw-2"]
    assert all("gateway_started" in line for line in started)
    assert lines(fleet.run("audit", "query", "--all", "--route", "api", "--until", "1h")) == []
    unknown = fleet.run("audit", "query", "--all", "--route", "apj")
    assert unknown.returncode == 2 and 'there is no route "apj"' in unknown.stderr


def test_sums_are_those_of_all_gateways(fleet):
    own = json.loads(fleet.gateway.run("audit", "stats", "--json").stdout)
    found = json.loads(fleet.run("audit", "stats", "--all", "--json").stdout)
    assert found["calls"] == 2 * own["calls"] == 2 and found["events"] == 2 * own["events"]
    groups = json.loads(fleet.run("audit", "stats", "--all", "--by", "route", "--last", "1h", "--json").stdout)["groups"]
    assert [group["requests"] for group in groups if group.get("name") == "api"] == [2]


def test_who_used_a_credential_on_any_gateway(fleet):
    who = lambda run, *words: json.loads(run("audit", "who", "routes.api", "--json", *words).stdout)
    own, found = who(fleet.gateway.run), who(fleet.run, "--all")
    assert own["total"]["requests"] == 1 and found["total"]["requests"] == 2
    assert found["groups"][0]["results"] == [{"status": "2xx", "requests": 2}]
    for grouping in ("client", "route", "status"):
        names = [[group.get("name") for group in who(run, "--by", grouping, *words)["groups"]]
                 for run, *words in ((fleet.gateway.run,), (fleet.run, "--all"))]
        assert names[0] == names[1] and len(names[0]) == 1, grouping
    stats = json.loads(fleet.run("audit", "stats", "--all", "--credential", "routes.api", "--since", "1h", "--json").stdout)
    assert stats["calls"] == 2 and [row["name"] for row in stats["credentials"]] == ["routes.api"]
    late = fleet.run("audit", "who", "routes.api", "--all", "--until", "1h")
    assert late.returncode == 1 and "not in the log" in late.stderr
    for words in (["who", "routes.api"], ["who", "routes.api", "--since", "0s"], ["stats", "--by", "client"]):
        assert "uses of the last 15 s may be missing" in fleet.run("audit", *words, "--all").stderr, words
    earlier = fleet.run("audit", "stats", "--all", "--by", "client", "--until", "1h")
    assert earlier.returncode == 0 and "may be missing" not in earlier.stderr, earlier


def test_each_chain_is_verified(fleet):
    intact = fleet.run("audit", "verify", "--all")
    assert [line.split()[:3] for line in lines(intact)] == [["gw-1", "chain-1", "intact"], ["gw-2", "chain-2", "intact"]]
    fleet.sql("update authgateway.audit_event set route = 'x' where chain = 'chain-2' and id = 2")
    broken = fleet.run("audit", "verify", "--all")
    assert broken.returncode == 5 and "1 of 2 chains is broken" in broken.stderr
    assert [line.split()[2] for line in broken.stdout.splitlines()] == ["intact", "broken"]
    asked = fleet.run("audit", "verify", "--all", "--json")
    chains = json.loads(asked.stdout)["chains"]
    assert asked.returncode == 5 and [chain.get("breach", {}).get("row") for chain in chains] == [None, 2]
    fleet.sql("update authgateway.audit_chain set key_check = 'other'")
    other = fleet.run("audit", "verify", "--all")
    assert other.returncode == 1 and other.stdout.count("other key") == 2
    fleet.sql("delete from authgateway.audit_chain; delete from authgateway.audit_event")
    empty = fleet.run("audit", "verify", "--all")
    assert empty.returncode == 1 and "holds no audit log yet" in empty.stderr


def test_what_all_cannot_read_is_said(fleet):
    gateway = fleet.gateway
    own = gateway.run("audit", "query", "--all")
    assert own.returncode == 1 and "tokens.store is sqlite here; leave out --all" in own.stderr
    for words in (["verify", "--path", "x"], ["query", "--requests"], ["verify", "--head", "1:x"]):
        refused = fleet.run("audit", words[0], "--all", *words[1:])
        assert refused.returncode == 2 and words[1] in refused.stderr, refused
    fleet.sql("drop schema authgateway cascade")
    gone = fleet.run("audit", "stats", "--all")
    assert gone.returncode == 1 and "authgateway store migrate" in gone.stderr

"""docs/audit.md names every column that readers see, and asks nothing that takes long of a log of many million rows."""

import re
import sqlite3

from harness.configs import plain_config
from harness.gateway import ROOT


def test_the_tables_of_the_page_have_the_columns_of_the_database(start_gateway, origin):
    page = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    gateway = start_gateway(plain_config(origin))
    connection = sqlite3.connect(f"file:{gateway.folder / 'state/audit.sqlite'}?mode=ro", uri=True)
    for table in ("token_events", "token_requests", "token_use"):
        columns = {row[1] for row in connection.execute(f"PRAGMA table_xinfo({table})")}
        section = page.partition(f"\n`{table}` ")[2].partition("|---|---|\n")[2]
        rows = section.partition("\n\n")[0]
        assert set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) == columns, table
    connection.close()


def questions():
    """The SQL of the page."""
    page = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    return re.findall(r"^```sql\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_each_question_of_the_page_finds_its_rows_by_an_index(start_gateway, origin):
    """SQLite chooses the plan by the indices alone: the tables need no rows for it."""
    gateway = start_gateway(plain_config(origin))
    connection = sqlite3.connect(f"file:{gateway.folder / 'state/audit.sqlite'}?mode=ro", uri=True)
    assert len(questions()) > 8
    for question in questions():
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {question}")]
        assert any(step.startswith("SEARCH token_") for step in plan), (question, plan)
        assert not any(step.startswith("SCAN") for step in plan), (question, plan)
    connection.close()


def test_the_views_of_the_page_are_in_the_database(start_gateway, origin):
    page = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)` \|", page.partition("| view |")[2].partition("\n\n")[0], re.MULTILINE)
    gateway = start_gateway(plain_config(origin))
    connection = sqlite3.connect(f"file:{gateway.folder / 'state/audit.sqlite'}?mode=ro", uri=True)
    made = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'view'")}
    assert set(named) == made - {"credential_history"} and len(named) == 4
    for name in named:
        columns = [column[0] for column in connection.execute(f"SELECT * FROM {name} LIMIT 1").description]
        assert columns[0] == "time", name
    connection.close()

"""docs/audit.md names every column that readers see."""

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

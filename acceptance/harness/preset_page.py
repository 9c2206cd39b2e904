"""Writes docs/reference/presets.md from what the program says. Run it after a preset has changed:

AUTHGATEWAY_BINARY=… PYTHONPATH=acceptance python3 -m harness.preset_page
"""

import json
import os
import pathlib
import subprocess
import tempfile

from .reference_page import strategy_places

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/presets.md"
BINARY = os.environ.get("AUTHGATEWAY_BINARY", str(ROOT / ".build/release/authgateway"))

HEAD = """# List of presets

[Presets](../presets.md) says how to use them. `acceptance/harness/preset_page.py` writes this page from `authgateway presets list --json`.

[`authgateway exec`](../https.md#secrets-in-the-environment) sets variables for API keys, and URLs only for programs that ignore the proxy.

The last column says when the documentation of the service was read for the preset. `unverified` means that the preset was written from memory.

"""


def known():
    """The presets that the program has."""
    # In an empty folder: a configuration could name other presets.
    with tempfile.TemporaryDirectory() as folder:
        command = [BINARY, "presets", "list", "--json"]
        return json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=30).stdout)


def secret(need):
    return f"[`{need['variable']}`]({need['where']})" if need.get("where") else f"`{need['variable']}`"


def page(presets):
    places = strategy_places()
    rows = ["| preset | service | secrets to bring | set by `exec` | strategy | documentation read |", "|---|---|---|---|---|---|"]
    for preset in presets:
        secrets = ", ".join(map(secret, preset["secrets"]))
        tools = ", ".join(f"`{tool['name']}`" for tool in preset["tools"])
        strategy = f"[`{preset['strategy']}`](../strategies/{places[preset['strategy']]})"
        rows.append(f"| `{preset['name']}` | {preset['title']} | {secrets} | {tools} | {strategy} | [{preset['read']}]({preset['docs']}) |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(known()), encoding="utf-8")

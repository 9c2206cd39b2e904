"""Writes docs/presets.md from what the program says. Run it after a preset has changed:

AUTHGATEWAY_BINARY=… python acceptance/harness/preset_page.py
"""

import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/presets.md"
BINARY = os.environ.get("AUTHGATEWAY_BINARY", str(ROOT / ".build/release/authgateway"))

HEAD = """# Presets

A preset is a service that the gateway knows by name: its hosts, how it authenticates, and what secret to bring. This page is written by
`acceptance/harness/preset_page.py` from `authgateway presets --json`.

```sh
authgateway presets show github
authgateway add github
```

In a configuration, `preset: NAME` in a credential or a route stands for the keys of the preset
([configuration.md](configuration.md)). What the configuration says itself takes their place.

The last column says when the documentation of the service was read for the preset. `unverified` means that the preset was written from
what its author knew of the service. Either way a test compares what leaves the gateway with a file in `acceptance/presets/wire`.

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
    rows = ["| preset | service | secrets to bring | documentation read |", "|---|---|---|---|"]
    for preset in presets:
        secrets = ", ".join(map(secret, preset["secrets"]))
        rows.append(f"| `{preset['name']}` | {preset['title']} | {secrets} | [{preset['read']}]({preset['docs']}) |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(known()), encoding="utf-8")

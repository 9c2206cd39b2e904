"""Writes docs/presets.md, and the presets on the pages of docs/strategies, from what the program says. Run it after a preset has changed:

AUTHGATEWAY_BINARY=… python acceptance/harness/preset_page.py
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/presets.md"
STRATEGIES = ROOT / "docs/strategies"
SECTION = re.compile(r"(?<=^## Presets\n\n).*?(?=^## )", re.MULTILINE | re.DOTALL)
BINARY = os.environ.get("AUTHGATEWAY_BINARY", str(ROOT / ".build/release/authgateway"))

HEAD = """# Presets

A preset is a service that the gateway knows by name: its hosts, how it authenticates, and what secret to bring. This page is written by
`acceptance/harness/preset_page.py` from `authgateway presets list --json`.
[Strategies](strategies/README.md) says how each way to authenticate works, and what goes wrong.

```sh
authgateway presets show gitlab
authgateway add gitlab
```

`add` writes entries such as these:

```yaml
version: 1
credentials:
  gitlab:
    preset: gitlab
    value: {file: gitlab.token}          # instead of the variable that the preset reads
  buildkite:
    preset: buildkite
routes:
  gitlab:
    preset: gitlab
    with: {host: gitlab.example.com}     # a parameter of the preset
    auth: gitlab
  buildkite:
    preset: buildkite                    # its first route
    auth: buildkite
  buildkite-graphql:
    preset: buildkite/graphql            # another one
    auth: buildkite
  stripe:
    preset: stripe                       # without auth: the credential of the preset, too
```

- What the configuration says itself takes the place of what the preset says.
- `presets show NAME` lists the variables, the parameters and the routes of a preset.
- `presets: FOLDER` names a folder with presets of your own, `*.yaml`. They replace built-in ones of the same name. The files in
  `Sources/CPresets/presets` show how a preset is written.
- `doctor`, `add` and `check --acquire` send the `whoami` request of a route, which shows whose credential it is.

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
    rows = ["| preset | service | secrets to bring | strategy | documentation read |", "|---|---|---|---|---|"]
    for preset in presets:
        secrets = ", ".join(map(secret, preset["secrets"]))
        strategy = f"[`{preset['strategy']}`](strategies/{preset['strategy']}.md)"
        rows.append(f"| `{preset['name']}` | {preset['title']} | {secrets} | {strategy} | [{preset['read']}]({preset['docs']}) |")
    return HEAD + "\n".join(rows) + "\n"


def section(strategy, presets):
    """What the page of a strategy says below the heading "Presets"."""
    names = [f"`{preset['name']}`" for preset in presets if preset["strategy"] == strategy]
    if not names:
        return "No preset uses this strategy.\n\n"
    rows = ["- " + ", ".join(names[start : start + 6]) for start in range(0, len(names), 6)]
    return "[What each preset needs](../presets.md):\n\n" + "\n".join(rows) + "\n\n"


def strategy_pages():
    """The pages of strategies, by the name of the strategy."""
    found = {path.stem: path for path in STRATEGIES.glob("*.md")}
    return {name: path for name, path in found.items() if SECTION.search(path.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    presets = known()
    PAGE.write_text(page(presets), encoding="utf-8")
    for name, path in strategy_pages().items():
        text = path.read_text(encoding="utf-8")
        path.write_text(SECTION.sub(lambda _, name=name: section(name, presets), text), encoding="utf-8")

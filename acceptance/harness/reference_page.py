"""Writes docs/reference.md from schema/keys.json. `make schema` writes both."""

import itertools
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference.md"
KEYS = ROOT / "schema/keys.json"
#: How the path of a credential's key begins.
OF_CREDENTIALS = "credentials.NAME."

HEAD = """# Reference of the configuration

This page lists each key of `gateway.yaml`, as `authgateway config explain` describes it. `make schema` writes the page.
[Configuration](configuration.md) is the guide.

```sh
authgateway config explain limits.drain
```

- `NAME` in a path stands for a name that you choose. `[]` marks an element of a list.
- A key that is not marked as required may be left out.
- A route may have a credential of its own: `auth` takes the keys of a strategy, too.
- Durations are `250ms`, `30s`, `10m`, `1h` or `90d`. Sizes are `64KiB` or `1MiB`. Shares are `10%`.
- An example shows where a key stands. It can lack other keys that its section requires.

"""


def known():
    """Every key that the program has: a unit test compares the file with the decoders."""
    return json.loads(KEYS.read_text(encoding="utf-8"))


def anchor(heading):
    """As GitHub names headings."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def sections(keys):
    """The keys below each heading: a section of the document, keys of several strategies, or one strategy."""
    found, strategies, shared = {}, {}, []
    for key in keys:
        users = key["strategies"]
        if not users:
            found.setdefault(key["path"].partition(".")[0], []).append(key)
        elif len(users) == 1:
            strategies.setdefault(users[0], []).append(key)
        else:
            shared.append(key)
    plain = {name: group for name, group in found.items() if len(group) == 1 and not group[0]["keys"]}
    names = {name for key in keys for name in key["strategies"]}
    strategies |= {name: strategies.get(name, []) for name in names}
    whole = {"Top level": [group[0] for group in plain.values()]}
    whole |= {f"Section {name}": group for name, group in found.items() if name not in plain}
    return whole, shared, dict(sorted(strategies.items()))


def title(key, is_ambiguous):
    """The heading of a key. Two strategies may have keys of the same name."""
    return f"{key['path']} ({', '.join(key['strategies'])})" if is_ambiguous and key["strategies"] else key["path"]


class Page:
    """The text, with one heading of its own for each key."""

    def __init__(self, keys):
        names = [anchor(key["path"]) for key in keys]
        self.keys = keys
        self.ambiguous = {name for name in names if names.count(name) > 1}
        self.lines = []

    def heading(self, key):
        return title(key, anchor(key["path"]) in self.ambiguous)

    def link(self, key):
        return f"[`{key['path'].removeprefix(OF_CREDENTIALS)}`](#{anchor(self.heading(key))})"

    def entry(self, key):
        """One key: what it is for, its facts, its example."""
        facts = [f"type: {key['type']}"]
        if "default" in key:
            facts.append(f"default: `{key['default']}`")
        if key["required"]:
            facts.append("required: yes")
        if len(key["strategies"]) > 1:
            facts.append("strategies: " + ", ".join(f"`{name}`" for name in key["strategies"]))
        self.lines += [f"#### {self.heading(key)}", ""]
        self.lines += [key["meaning"].replace("*", "\\*"), ""]
        self.lines += [f"- {fact}" for fact in facts] + [""]
        if "example" in key:
            self.lines += ["```yaml part", *key["example"].split("\n"), "```", ""]

    def group(self, heading, level, keys, intro=()):
        self.lines += [f"{'#' * level} {heading}", "", *intro]
        for is_explained, some in itertools.groupby(keys, lambda key: "meaning" in key):
            if is_explained:
                for key in some:
                    self.entry(key)
            else:
                self.parts(some)

    def parts(self, keys):
        """Keys deep within one above, whose example shows them."""
        self.lines += ["The example above, or that of the key itself, shows how these keys are used:", ""]
        self.lines += ["| key | type | required |", "|---|---|---|"]
        for key in keys:
            self.lines.append(f"| `{key['path'].removeprefix(OF_CREDENTIALS)}` | {key['type']} | {'yes' if key['required'] else ''} |")
        self.lines.append("")

    @property
    def text(self):
        plain, shared, strategies = sections(self.keys)
        self.lines = [HEAD.rstrip(), "", "## Contents", ""]
        self.lines += [f"- [{name}](#{anchor(name)})" for name in plain]
        self.lines += ["- [Keys of several strategies](#keys-of-several-strategies)"]
        self.lines += [f"- [Strategy {name}](#{anchor(f'Strategy {name}')})" for name in strategies] + [""]
        for name, keys in plain.items():
            self.group(name, 2, keys)
        self.group("Keys of several strategies", 2, shared)
        for name, keys in strategies.items():
            also = [key for key in shared if name in key["strategies"] and key["path"].count(".") == OF_CREDENTIALS.count(".")]
            intro = ["Keys that other strategies have, too:", "", *(f"- {self.link(key)}" for key in also), ""] if also else []
            self.group(f"Strategy {name}", 2, keys, intro)
        return "\n".join(self.lines).rstrip() + "\n"


def page(keys):
    return Page(keys).text


if __name__ == "__main__":
    PAGE.write_text(page(known()), encoding="utf-8")

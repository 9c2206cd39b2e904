"""Writes the pages of docs/reference from schema/keys.json: one for each block of the configuration, and one for each strategy.

`make schema` writes both.
"""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/reference"
INDEX = "README.md"
#: Pages of the folder that other programs write.
OTHERS = {"presets.md"}
KEYS = ROOT / "schema/keys.json"
EXAMPLES = ROOT / "examples/strategies"
#: How the path of a credential's key begins.
OF_CREDENTIALS = "credentials.NAME."

HEAD = """# Configuration reference

Every key of `gateway.yaml`, with its type, default and meaning. `authgateway config explain` prints the same for one key, with an example:

```sh
authgateway config explain limits.drain
```

[Configuration](../configuration.md) is the guide, and [the list of presets](presets.md) is beside these pages. These pages are made from the keys that the program declares (`make schema`).

## How to read the tables

- `NAME` in a path stands for a name that you choose. `[]` marks an element of a list.
- **required** instead of a default marks a key that its block must have. Every other key is optional.
- Durations are written as `250ms`, `30s`, `10m`, `1h` or `90d`, sizes as `64KiB` or `1MiB`, and shares as `10%`.
- An example shows where a key goes. It may lack other keys that its block requires.

### Secrets

A *secret* is `{env: NAME}`, `{file: PATH}`, `{exec: [PROGRAM, ARGUMENT]}` or `{systemd_credential: NAME}`, or the secret itself as a string, which
causes a warning. A *string or reference* is a string, or comes from one of the same sources, but is not treated as a secret.
[Values and secrets](../configuration.md#values-and-secrets) has the details.
"""

#: Blocks whose keys are names that people choose.
MAPPINGS = {"credentials", "routes"}

#: Types whose values need no example beside what the type says.
PLAIN = re.compile(r"true or false|duration|size|whole number|share|one of|mapping|secret")


def known():
    """Every key that the program has: a unit test compares the file with the decoders."""
    return json.loads(KEYS.read_text(encoding="utf-8"))


def place(key):
    """The name of the anchor of a key: its path as `config explain` prints it, without brackets."""
    return key["path"].replace("[]", "")


def pages_of(key):
    """The pages that list a key, as `config explain` names the first of them."""
    if key["strategies"]:
        return [f"strategies/{name}.md" for name in key["strategies"]]
    first = key["path"].partition(".")[0]
    return [INDEX if first == key["path"] and not key["keys"] and first not in MAPPINGS else f"{first}.md"]


def parent(key):
    """The path of the block that a key stands in; empty for a key of the document."""
    return key["path"].rpartition(".")[0].removesuffix("[]")


def strategy_places():
    """Where each strategy is described, below docs/strategies: the page, and the heading that is its name."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/strategies").glob("*.md"))}
    return {name: f"{page}#{name}" for page, text in pages.items() for name in re.findall(r"^## ([a-z0-9_]+)$", text, re.MULTILINE)}


def escaped(text):
    """As the text of a cell."""
    return text.replace("*", "\\*").replace("|", "\\|")


def short(kind, index):
    """The type of a key, as a cell says it. `index` leads to the page that explains secrets."""
    kind = re.sub(r"^a secret: .*", "a secret", kind)
    kind = re.sub(r", or a reference such as .*", " or reference", kind)
    kind = re.sub(r"(^|, or )an? ", r"\1", kind)
    return re.sub(r"\b(secrets?|reference)\b", rf"[\1]({index}#secrets)", escaped(kind), count=1)


class Page:
    """One page. Its keys are of one block of the document or of one strategy, with what stands below them."""

    def __init__(self, name, title, keys, intro=(), root=""):
        self.name = name
        self.title = title
        self.keys = keys
        self.intro = list(intro)
        self.root = root
        #: The blocks of the page by their path, each with its keys.
        self.blocks = {}
        for key in keys:
            if key["path"] != root and not key["path"].endswith(".NAME"):
                self.blocks.setdefault(parent(key), []).append(key)
            elif key["path"].endswith(".NAME") and key["keys"]:
                self.blocks.setdefault(key["path"], [])
        self.by_path = {key["path"]: key for key in keys}
        self.index = "../" * name.count("/") + INDEX

    def heading(self, path):
        return path.removeprefix(OF_CREDENTIALS) if self.name.startswith("strategies/") else path

    def cell(self, key):
        name = key["path"].rpartition(".")[2]
        block = next((path for path in (key["path"], f"{key['path']}.NAME") if self.blocks.get(path)), None)
        link = f"[`{name}`](#{anchor(self.heading(block))})" if block else f"`{name}`"
        return f'<a id="{place(key)}"></a>{link}'

    def meaning(self, key):
        """What a key is for, with an example of a value whose form the type does not say."""
        text = escaped(key["meaning"])
        name = re.escape(key["path"].rpartition(".")[2])
        value = re.search(rf"(?:^|[ -]){name}: (\S.*)\Z", key.get("example", ""), re.MULTILINE)
        if not value or value[1] == key.get("default") or PLAIN.search(key["type"]):
            return text
        example = value[1].replace("|", "\\|")
        return f"{text} Example: `{example}`"

    def row(self, key):
        default = key.get("default", "")
        # What cannot be written as a value, such as "no limit", is prose.
        is_value = default and not re.match(r"[a-z]+ |\d+, or", default)
        default = "**required**" if key["required"] else f"`{default}`" if is_value else default
        return f"| {self.cell(key)} | {short(key['type'], self.index)} | {default} | {self.meaning(key)} |"

    def block(self, path, keys):
        key = self.by_path.get(path)
        named = path.endswith(".NAME")
        lines = []
        if path not in (self.root, OF_CREDENTIALS.removesuffix(".")) or (path != self.root and not self.name.startswith("strategies/")):
            lines += [f"## {self.heading(path)}", ""]
        if key and (named or path == self.root):
            lines += [f'<a id="{place(key)}"></a>', ""]
        if key:
            lines += [key["meaning"].replace("*", "\\*"), ""]
        if key and "example" in key:
            lines += ["```yaml part", *key["example"].split("\n"), "```", ""]
        if keys:
            lines += ["| key | type | default | meaning |", "|---|---|---|---|", *map(self.row, keys), ""]
        return lines

    @property
    def text(self):
        lines = [f"# {self.title}", "", *self.intro]
        if self.root and self.root not in self.blocks:
            lines += self.block(self.root, [])
        for path in sorted(self.blocks, key=lambda path: (path != self.root, path)):
            lines += self.block(path, self.blocks[path])
        return "\n".join(lines).rstrip() + "\n"


def anchor(heading):
    """As GitHub names headings."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def block_pages(keys):
    """A page for each block of the document."""
    plain = [key for key in keys if not key["strategies"]]
    for name in [key["path"] for key in plain if "." not in key["path"] and pages_of(key) != [INDEX]]:
        own = [key for key in plain if key["path"].partition(".")[0] == name]
        yield Page(f"{name}.md", name, own, root=name)


def strategy_pages(keys):
    """A page for each strategy, with all its keys: those of several strategies stand on each of their pages."""
    places = strategy_places()
    for name in sorted({name for key in keys for name in key["strategies"]}):
        own = [key for key in keys if name in key["strategies"]]
        example = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8").partition("\n")[2]
        intro = [f"The keys of a credential with `strategy: {name}`. [Strategies](../../strategies/{places[name]}) says when to use it.", ""]
        intro += ["```yaml", *example.rstrip().split("\n"), "```", ""]
        intro += ["Every credential can also have [`preset`, `with` and `vend`](../credentials.md).", ""]
        yield Page(f"strategies/{name}.md", name, own, intro)


def pages(keys):
    """The text of each page, by its path below docs/reference."""
    blocks, strategies = list(block_pages(keys)), list(strategy_pages(keys))
    by_path = {key["path"]: key for key in keys}
    index = [HEAD, "## Blocks", "", "| block | meaning |", "|---|---|"]
    index += [f"| [`{page.title}`]({page.name}) | {escaped(by_path[page.title]['meaning'])} |" for page in blocks]
    index += ["", "Strategies, which decide the other keys of a credential:", ""]
    index += [f"- [`{page.title}`]({page.name})" for page in strategies] + [""]
    named = {page.title for page in blocks}
    index += ["## Keys of the document", "", "| key | type | default | meaning |", "|---|---|---|---|"]
    top = Page(INDEX, "", [key for key in keys if "." not in key["path"] and key["path"] not in named])
    index += [top.row(key) for key in top.keys]
    texts = {page.name: page.text for page in blocks + strategies}
    return texts | {INDEX: "\n".join(index) + "\n"}


def write(keys):
    texts = pages(keys)
    for path in FOLDER.rglob("*.md"):
        if str(path.relative_to(FOLDER)) not in {*texts, *OTHERS}:
            path.unlink()
    for name, text in texts.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(known())

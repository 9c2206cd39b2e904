"""`--help` of every subcommand, found from the help itself: that it explains, and that it and the documents name the same."""

import functools
import pathlib
import re
import shlex
import tempfile

import pytest
from harness import documents
from harness.gateway import ROOT, command


class Help:
    """The help of one subcommand, taken apart."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        head, *sections = re.split(r"^(?=[A-Z][A-Z ]+:)", text, flags=re.MULTILINE)
        assert head == "", text
        #: For example {"OVERVIEW": "Find every mistake in the configuration.\n\nExamples: …"}.
        self.sections = {name: body for name, _, body in (section.partition(":") for section in sections)}

    #: `-c, --config <file>`, `<name>` or `list`: one name of an entry, with its value.
    NAME = r"(?:--?[a-z][a-z-]*(?: <[^>]+>)?|<[^>]+>|[a-z][a-z-]*)"

    def entries(self, section):
        """What the section lists, with what it says about each: entries are indented by two, and what goes on by more."""
        found = []
        for line in self.sections.get(section, "").splitlines():
            if entry := re.fullmatch(rf"  ({self.NAME}(?:, {self.NAME})*)(?: +(.*))?", line):
                found.append([entry[1], entry[2] or ""])
            elif found and line.startswith("    "):
                found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
        return dict(found)

    @property
    def options(self):
        """Every name of every option, with what is said about it: `--config` and `-c` have the same words."""
        named = {}
        for name, words in self.entries("OPTIONS").items():
            for spelling in re.findall(r"(?<![\w<-])--?[a-z][a-z-]*", name):
                named[spelling] = words
        return named

    @property
    def subcommands(self):
        """The program has groups of them, each with a heading of its own."""
        groups = [name for name in self.sections if name not in ("OVERVIEW", "USAGE", "ARGUMENTS", "OPTIONS")]
        return {name: words for group in groups for name, words in self.entries(group).items()}


def help_of(path):
    with tempfile.TemporaryDirectory() as folder:
        result = command(*path, "--help", cwd=folder)
        assert (result.returncode, result.stderr) == (0, ""), result
        assert list(pathlib.Path(folder).iterdir()) == []
    return Help(path, result.stdout)


@functools.cache
def commands():
    """All of them by their path, `()` being the program itself."""
    found, left = {}, [()]
    while left:
        path = left.pop()
        found[path] = help_of(path)
        left += [(*path, name) for name in found[path].subcommands if name != "help"]
    return found


def named_command(words):
    """The longest beginning of the words that is a subcommand."""
    length = 0
    while length < len(words) and tuple(words[: length + 1]) in commands():
        length += 1
    return commands()[tuple(words[:length])], words[length:]


def options_in(words):
    # Behind `--` stands the command line of another program.
    own = words[: words.index("--")] if "--" in words else words
    return [word.partition("=")[0] for word in own if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)]


def split(words, separators):
    """The words between the separators."""
    parts = [[]]
    for word in words:
        if word in separators:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def test_the_help_leads_to_every_subcommand():
    """Guards what is below: were the help taken apart wrongly, it would prove nothing."""
    assert len(commands()) > 30, sorted(commands())
    for path in (("run",), ("token", "revoke"), ("audit", "query"), ("config", "schema"), ("key", "rotate")):
        assert path in commands()
    assert {"-c", "--config", "--since", "--requests", "-h", "--help"} <= set(commands()[("audit", "query")].options)


def test_each_has_an_overview_and_says_how_it_is_used():
    for path, shown in commands().items():
        # The first paragraph; lines are broken to the width of a terminal.
        overview = " ".join(shown.sections.get("OVERVIEW", "").strip().partition("\n\n")[0].split())
        assert overview.endswith("."), f"{path}: {overview}"
        assert " ".join(("authgateway", *path)) in shown.sections["USAGE"], path
    # The list of a command says of each the same as that one says of itself.
    for path, shown in commands().items():
        for name, words in shown.subcommands.items():
            if name != "help":
                own = " ".join(commands()[(*path, name)].sections["OVERVIEW"].split())
                words = words.removeprefix("(default)").strip()
                assert words and own.startswith(words), f"{path} {name}: {words}"


def test_the_commands_stand_in_groups():
    groups = list(commands()[()].sections)
    assert groups == ["OVERVIEW", "USAGE", "OPTIONS", "SERVE", "CONFIGURE", "TOKENS", "OBSERVE", "TRUST", "STATE", "PROGRAM"]
    assert list(commands()[()].entries("TOKENS")) == ["token", "login", "logout"]


def test_no_line_of_usage_is_over_100_columns(tmp_path):
    for path, shown in commands().items():
        assert max(map(len, shown.text.splitlines())) <= 100, path
        wrong = command(*path, "--frobnicate", cwd=tmp_path)
        assert (wrong.returncode, wrong.stdout) == (2, "") and max(map(len, wrong.stderr.splitlines())) <= 100, wrong


def test_json_has_a_short_spelling_everywhere():
    for path, shown in commands().items():
        assert ("--json" in shown.options) == ("-o" in shown.options), path


def test_each_option_and_argument_is_explained():
    for path, shown in commands().items():
        for section in ("OPTIONS", "ARGUMENTS"):
            for name, words in shown.entries(section).items():
                # A default alone explains nothing.
                said = re.sub(r"\(default: [^)]*\)", "", words).strip()
                assert said, f"{path} {name}: {words!r}"
        assert "--help" in shown.options, path


def test_what_the_usage_shows_is_what_the_options_list():
    for path, shown in commands().items():
        usage = shown.sections["USAGE"]
        used = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", usage))
        assert used <= set(shown.options), f"{path}: {used - set(shown.options)}"
        for entry in shown.entries("OPTIONS"):
            spellings = set(re.findall(r"(?<![\w<-])--?[a-z][a-z-]*", entry))
            # A command with many of them says only that there are some.
            assert spellings & (used | {"--help", "--version"}) or "<options>" in usage, f"{path}: {entry}"


def test_each_example_can_be_typed():
    """Its subcommand is one, and has the options of the example."""
    count = 0
    for path, shown in commands().items():
        # A backslash at the end of a line joins it with the next one, as in a shell.
        overview = re.sub(r" \\\n\s*", " ", shown.sections.get("OVERVIEW", ""))
        for line in re.findall(r"^\s+(authgateway .*)$", overview, re.MULTILINE):
            # What explains an example stands behind two spaces. A quote that is open would be a line that was broken.
            example = shlex.shlex(re.split(r"\s{2,}", line)[0], posix=True, punctuation_chars=True)
            example.whitespace_split = True
            for words in split(list(example), {"&&", "|", ";"}):
                if words[:1] == ["authgateway"]:
                    found, rest = named_command(words[1:])
                    assert found.path, f"{path}: {line}"
                    assert set(options_in(rest)) <= set(found.options), f"{path}: {line}"
                    count += 1
        assert "xample" in shown.text or shown.subcommands or path == ("version",), f"{path} has no example"
    assert count > 40, count


# MARK: The documents

DOCUMENTS = [ROOT / page for page in documents.pages()]
#: Options of other programs that the documents name.
FOREIGN = {"--unix-socket", "--pinnedpubkey", "--network", "--env-file"}


def spans(document):
    """What stands in backquotes or in a block, line by line; configurations hold no commands."""
    text = re.sub(r"^```yaml.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^```.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", rest)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.stem)
def test_each_command_of_the_documents_exists_with_its_options(document):
    for span in spans(document):
        for part in re.split(r"&&|\|", span.partition(" # ")[0]):
            words = part.replace("…", "").replace(",", " ").split()
            if "authgateway" not in words:
                continue
            found, rest = named_command(words[words.index("authgateway") + 1 :])
            # `authgateway`, or what a paragraph says of any of them, such as `authgateway --help`.
            assert found.path or not rest or rest[0].startswith("-"), f"{document.name}: {span}"
            assert set(options_in(rest)) <= set(found.options), f"{document.name}: {span}"


def test_each_option_of_operations_exists():
    """Also where the command is named in the sentence, as in "takes `--json`"."""
    known = {option for shown in commands().values() for option in shown.options}
    for document in DOCUMENTS:
        if document.parent == ROOT / "docs" and document.stem in ("operations", "configuration", "tokens", "https", "watching"):
            written = {option for span in spans(document) for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", span)}
            assert written <= known | FOREIGN, f"{document.name}: {written - known - FOREIGN}"
            assert written, document


TOKEN_TABLE = "| `authgateway token …` |"


def token_page():
    """The one page that has the table."""
    [page] = [document for document in DOCUMENTS if TOKEN_TABLE in document.read_text()]
    return page


def token_table():
    """The rows of `authgateway token …`: the commands in the first column."""
    text = token_page().read_text()
    table = text[text.index(TOKEN_TABLE) :].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines()[2:]]
    return [span.split() for row in rows for span in re.findall(r"`([^`]+)`", row)]


def test_the_table_of_token_commands_is_whole():
    written = {}
    for name, *words in token_table():
        written.setdefault(name, set()).update(options_in([word.strip("[]…") for word in words]))
    token = commands()[("token",)]
    assert set(written) == set(token.subcommands) - {"help"}
    for name, options in written.items():
        assert options <= set(commands()[("token", name)].options), name
    # The other way round: what only one of them has is in the table or the text.
    text = token_page().read_text()
    for name in written:
        special = {option for option in commands()[("token", name)].options if option.startswith("--")}
        for option in special - {"--config", "--help", "--version"}:
            assert re.search(rf"(?<![\w-]){option}\b", text), f"token {name} {option} is not in {token_page().name}"


def test_each_command_is_in_the_documents():
    """But the ones that a sentence would not help with."""
    text = "\n".join(span for document in DOCUMENTS for span in spans(document))
    for path in commands():
        if len(path) == 1 and path[0] not in ("version",):
            assert re.search(rf"\bauthgateway {path[0]}\b", text), f"no document names `authgateway {path[0]}`"
        if path[:1] in (("audit",), ("key",), ("config",)) and len(path) == 2:
            assert re.search(rf"\b{' '.join(path)}\b", text), f"no document names `{' '.join(path)}`"

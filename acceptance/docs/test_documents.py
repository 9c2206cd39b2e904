"""Every command and every configuration that the documents show works as it stands there (acceptance/harness/documents.py)."""

import pathlib
import re

import pytest
from harness import documents, proofs
from harness.gateway import ROOT

PAGES = documents.pages()
#: What stands before the first block of a page, where its reader has more than an empty folder.
SETUP = ROOT / "acceptance/docs/setup"
LANGUAGES = {"sh", "yaml", "text", "json", "sql", "swift", "python", "nginx", "ini"}
OPTIONS = {"exit", "background", "output", "fragment", "part", "file", "test", "skip"}
#: Run by a test of its own, which has the files of a release.
INSTALL = "docs/install.md"


@pytest.mark.parametrize("page", [page for page in PAGES if page != INSTALL])
def test_a_page_works_from_top_to_bottom(page, tmp_path):
    setup = SETUP / page.rpartition("/")[2]
    documents.run_page(page, tmp_path, setup=setup.read_text(encoding="utf-8") if setup.exists() else "")


def test_what_stands_before_a_page_belongs_to_one():
    assert {path.name for path in SETUP.iterdir()} <= {page.rpartition("/")[2] for page in PAGES}


def test_each_block_names_its_language():
    for block in (block for page in PAGES for block in documents.blocks(page)):
        assert block.language in LANGUAGES, f"{block.place}: {block.language!r}"
        assert set(block.options) <= OPTIONS, f"{block.place}: {block.options}"


def test_swift_is_the_text_of_a_file_that_is_compiled():
    shown = [block for page in PAGES for block in documents.blocks(page) if block.language == "swift"]
    assert len(shown) == 2
    for block in shown:
        assert block.text == (ROOT / block.options["file"]).read_text(encoding="utf-8"), block.place


def test_blocks_that_another_test_runs_are_named_there():
    for block in (block for page in PAGES for block in documents.blocks(page) if "test" in block.options):
        assert f'"{block.page}"' in (ROOT / block.options["test"]).read_text(encoding="utf-8"), block.place


def test_blocks_that_are_not_run_say_why():
    skipped = [block for page in PAGES for block in documents.blocks(page) if block.is_skipped]
    assert [block.place for block in skipped if not block.options["skip"].strip()] == []


def test_the_readme_begins_with_what_works_from_a_clone():
    """The commands that need nothing but a clone come first; the request between them is one that the page itself runs later."""
    found = [block for block in documents.blocks("README.md") if block.language == "sh"]
    first, request, second = (block.text.strip() for block in found[:3])
    assert (first, second) == ("make run", "make test")
    assert request.startswith("curl ") and request in [block.text.strip() for block in found[3:] if not block.is_skipped]
    targets = re.findall(r"^(\w+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"run", "test"} <= set(targets)
    # The package is not the first thing that is named.
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.index("make run") < text.index("make test") < text.index("authgateway init") and text.index("make test") < text.index(".deb")


#: Made from what the program says, to look things up in.
GENERATED = re.compile(r"docs/reference(/.*)?\.md")
#: How many words all pages of users may have.
WORDS = 25_000


def test_users_have_little_to_read():
    counts = {page: documents.words(page) for page in documents.user_pages() if not GENERATED.fullmatch(page)}
    assert sum(counts.values()) <= WORDS, "\n".join(f"{count:6} {page}" for page, count in sorted(counts.items(), key=lambda each: -each[1]))
    assert counts["README.md"] <= 900


def test_words_are_those_of_sentences_and_tables():
    text = "# One two\n\nThree [four five](page.md#six) - `six`.\n\n| seven |\n|---|\n| eight |\n\n```sh\nnine\n```\n"
    assert documents.words("page.md", text) == 8


def test_the_comparison_of_the_readme_is_short():
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n| | AuthGateway |")[2].partition("\n\n")[0]
    assert len(table.splitlines()[2:]) == 6


def test_the_indices_lead_to_each_page():
    """docs/README.md to those of users, the other one to what is behind them."""
    for index, folder in {"docs/README.md": "docs", "docs/internals/README.md": "docs/internals"}.items():
        pages = {path.name for path in (ROOT / folder).glob("*.md")} - {"README.md"}
        assert pages - {link.partition("#")[0] for link in documents.links(index)} == set(), index


def test_pages_that_other_files_name_are_there():
    """In code, messages, scripts and tests, as a path from the root: a page, or a decision by its number."""
    folders = [".ci", ".github", "Benchmarks", "Sources", "Tests", "acceptance", "examples", "packaging", "scripts"]
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")] + list(ROOT.iterdir())
    named = {}
    for path in files:
        if not path.is_file() or path.name == "CHANGELOG.md" or path.suffix in (".pyc", ".proftext", ".order"):
            continue
        text = path.read_bytes().decode(errors="replace")
        for name in re.findall(r"(?<![\w/.-])docs/(?:[\w/-]+\.md|(?:internals/)?adr/\d{4})", text):
            named.setdefault(name, path.relative_to(ROOT))
    # What tests of the linter make up.
    named.pop("docs/page.md")
    assert len(named) > 15
    assert {name: place for name, place in named.items() if not list(ROOT.glob(f"{name}*"))} == {}


def test_pictures_are_small_and_shown():
    shown = {pathlib.Path(link).name for page in documents.user_pages() for link in documents.links(page)}
    pictures = list((ROOT / "docs/images").iterdir())
    assert {picture.name for picture in pictures} <= shown
    for picture in pictures:
        assert picture.stat().st_size < 150_000, picture
    # Readers choose light or dark, and whether something moves.
    recording = (ROOT / "docs/images/terminal.svg").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in recording and "prefers-reduced-motion" in recording and "<title>" in recording


PROMISES = ROOT / "docs/internals/correctness.md"


def promises(text):
    """The rows of its tables, as (promise, tests)."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [row for row in rows if row != ["Promise", "Tests"]]


def unproved(text, tests, swift):
    """What is wrong with the proofs of a promise, a sentence for each. `tests` are of pytest, `swift` the files of unit tests."""
    found = []
    for promise, *proof in promises(text):
        names = re.findall(r"`([^`]+)`", " ".join(proof))
        if not names or proof != [", ".join(f"`{name}`" for name in names)]:
            found.append(f"{promise} needs a list of tests")
        for name in names:
            if "/" in name:
                runs = (ROOT / name).exists()
            elif name.endswith(".py"):
                runs = proofs.run_in_every_run(name, tests)
            else:
                runs = any(proofs.swift_tests(file, name) for file in swift if name in file)
            if not runs:
                found.append(f"no test of {name} runs")
    return found


@pytest.fixture(scope="module")
def all_tests(request):
    files = re.findall(r"`(test_\w+\.py)`", PROMISES.read_text(encoding="utf-8"))
    unit_tests = [path.read_text(encoding="utf-8") for path in (ROOT / "Tests").rglob("*.swift")]
    return proofs.collected(request.config, files), unit_tests


def test_the_tests_that_hold_the_promises_are_there_and_run(all_tests):
    text = PROMISES.read_text(encoding="utf-8")
    assert len(promises(text)) > 100
    assert unproved(text, *all_tests) == []


@pytest.mark.parametrize(
    "row, problem",
    [
        ("| It holds. | |", "It holds. needs a list of tests"),
        ("| It holds. | see the tests |", "It holds. needs a list of tests"),
        ("| It holds. | `test_some.py` and others |", "It holds. needs a list of tests"),
        ("| It holds. | `test_none.py` |", "no test of test_none.py runs"),
        ("| It holds. | `test_left_out.py` |", "no test of test_left_out.py runs"),
        ("| It holds. | `test_some.py`, `NoTests` |", "no test of NoTests runs"),
        ("| It holds. | `OffTests` |", "no test of OffTests runs"),
        ("| It holds. | `SomeTest` |", "no test of SomeTest runs"),
        ("| It holds. | `scripts/nothing` |", "no test of scripts/nothing runs"),
    ],
)
def test_a_promise_without_a_test_that_runs_is_found(row, problem):
    tests = {
        "test_some.py::test_it": [["soak"], ["slow"]],
        "test_left_out.py::test_skipped": [["skip"]],
        "test_left_out.py::test_expected_to_fail": [["xfail"]],
        "test_left_out.py::test_long": [["soak"]],
    }
    swift = [
        '@Suite("Some") struct SomeTests {\n    @Test func it() {}\n}',
        "struct NoTests {\n    func helper() {}\n}",
        '@Suite("Off", .disabled("later"))\nstruct OffTests {\n    @Test func it() {}\n}',
    ]
    good = "| Promise | Tests |\n|---|---|\n| It is so. | `test_some.py`, `SomeTests`, `scripts/test` |\n"
    assert unproved(good, tests, swift) == []
    assert unproved(good + row, tests, swift) == [problem]


@pytest.mark.parametrize(
    "text, what",
    [
        ("```sh\nauthgateway frobnicate\n```", "ended with 2"),
        ("```sh\nfalse | true\n```", "ended with 1"),
        ("```sh exit=3\ntrue\n```", "ended with 0"),
        ("```sh\necho one\n```\n\n```text output\ntwo\n```", "is not in the output"),
        ("```yaml\nroutes: {api: {upstreem: https://api.example.com}}\n```", "did you mean"),
        ("```yaml fragment=credential\nstrategy: bearer\n```", "token"),
        ("```yaml part\nlimits: {drian: 5s}\n```", "limits"),
        ("```sh background\nauthgateway run --config nowhere.yaml\n```", "is ready"),
    ],
)
def test_a_block_that_does_not_work_is_found(tmp_path, monkeypatch, text, what):
    monkeypatch.setattr(documents, "DEADLINE", 5)
    with pytest.raises(AssertionError, match=what):
        documents.run_page("page.md", tmp_path, text)


def test_a_page_is_one_session(tmp_path):
    text = "```sh\nexport WORD=three\ncd /\n```\n\n```sh\necho one two $WORD from $PWD\n```\n\n```text output\none … three from /\n```"
    documents.run_page("page.md", tmp_path, text)


def test_the_map_of_the_sources_names_what_is_there():
    text = (ROOT / "docs/internals/architecture.md").read_text(encoding="utf-8")
    table = text.partition("\n| Target |")[2].partition("\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| (\w+) \|(.*)$", table, re.MULTILINE))
    targets = {path.name for path in (ROOT / "Sources").iterdir() if re.match("Gateway|authgateway", path.name)} - {"GatewayTesting"}
    assert set(rows) == targets
    # These are large: a reader finds the folder in the row.
    for target in ["GatewayTokens", "GatewayProxy", "GatewayApp", "GatewayTools"]:
        folders = {path.name for path in (ROOT / "Sources" / target).iterdir() if path.is_dir()}
        assert set(re.findall(r"`(\w+)`", rows[target])) == folders, target
    for path in re.findall(r"`(Gateway\w+/[^`]+)`", text):
        assert (ROOT / "Sources" / path).exists(), path
    places = [path for folder in ("Sources", "Tests") for path in (ROOT / folder).rglob("*")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in places if path.suffix == ".swift")
    known = set(re.findall(r"\b(?:struct|enum|class|protocol|actor|typealias) (\w+)", code))
    known |= {path.name for path in places if path.is_dir()} | {"Service", "ServiceGroup"}  # of swift-service-lifecycle
    assert set(re.findall(r"`([A-Z]\w+)(?:\.[^`/]+)?`", text)) - known == set()


def test_the_decisions_are_numbered_without_gaps():
    decisions = sorted(path for path in (ROOT / "docs/internals/adr").glob("*.md") if path.name != "README.md")
    assert [int(path.name.partition("-")[0]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        title, status = path.read_text(encoding="utf-8").splitlines()[:3:2]
        assert title.startswith(f"# {int(path.name[:4])}. "), path.name
        assert re.match(r"Status: (accepted\b|superseded by \[ADR \d+\]\()", status), f"{path.name}: {status}"

"""Every command and every configuration that the documents show works as it stands there (acceptance/harness/documents.py)."""

import re

import pytest
from harness import documents
from harness.gateway import ROOT

PAGES = documents.pages()
#: What stands before the first block of a page, where its reader has more than an empty folder.
SETUP = ROOT / "acceptance/docs/setup"
#: Blocks that no test runs, on all pages together.
MAXIMUM_SKIPPED = 12
LANGUAGES = {"sh", "yaml", "text", "json", "sql", "swift", "python", "nginx", "ini"}
OPTIONS = {"exit", "background", "output", "fragment", "part", "file", "test", "skip"}
#: Run by a test of its own, which has the files of a release.
INSTALL = "docs/install.md"


@pytest.mark.parametrize("page", [page for page in PAGES if page != INSTALL])
def test_a_page_works_from_top_to_bottom(page, tmp_path):
    setup = SETUP / page.rpartition("/")[2]
    documents.run_page(page, tmp_path, setup=setup.read_text(encoding="utf-8") if setup.exists() else "")


@pytest.mark.parametrize("page", PAGES)
def test_each_block_names_its_language(page):
    for block in documents.blocks(page):
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


def test_blocks_that_are_not_run_say_why_and_are_few():
    skipped = [block for page in PAGES for block in documents.blocks(page) if block.is_skipped]
    assert [block.place for block in skipped if len(block.options["skip"].split()) < 3] == []
    assert len(skipped) <= MAXIMUM_SKIPPED, [block.place for block in skipped]


@pytest.mark.parametrize("page", PAGES)
def test_sentences_have_at_most_25_words_and_cells_15(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    long = [f"{count}: {sentence}" for count, sentence in documents.prose(text) if count > 25]
    long += [f"{count}: {cell}" for count, cell in documents.cells(text) if count > 15]
    assert not long, "\n".join(long)


def test_the_tests_that_hold_the_promises_are_there():
    tests = {path.name for path in (ROOT / "acceptance").rglob("test_*.py")}
    for path in (ROOT / "Tests").rglob("*.swift"):
        tests.update(re.findall(r"^(?:struct|final class) (\w+Tests)\b", path.read_text(encoding="utf-8"), re.MULTILINE))
    rows = re.findall(r"^\| .* \| (`.*`) \|$", (ROOT / "docs/correctness.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert len(rows) > 80
    assert [name for name in sorted(named - tests) if not ("/" in name and (ROOT / name).exists())] == []


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


def test_long_sentences_are_counted():
    text = "# A heading\n\nOne two three. Four `a b c` five.\n\n| cell one | cell two |\n|---|---|\n"
    assert [count for count, _ in documents.prose(text)] == [2, 3, 3, 2, 2]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_heading(page):
    wrong = [link for link in documents.links(page) if not documents.leads_somewhere(page, link)]
    assert not wrong, wrong


@pytest.mark.parametrize("target", ["Core/GatewayCore", "App/GatewayRuntime"])
def test_the_page_of_the_architecture_names_each_folder(target):
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = text.partition(f"\n{target.partition('/')[2]}, from the lowest layer up:\n")[2].partition("\n|---|---|\n")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines() for name in row.split("|")[1].strip().split(", ")]
    assert sorted(named) == sorted(path.name for path in (ROOT / "Sources" / target).iterdir() if path.is_dir())

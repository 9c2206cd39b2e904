"""docs/internals/capabilities.md: each row has a claim, a way that exists and tests that run; the mistakes that this finds are tried."""

import functools
import re
import subprocess
import sys

import pytest
import yaml
from harness import documents, proofs
from harness.gateway import BINARY, ROOT
from harness.schema import SCHEMA, all_keys, wrong_keys

DOCUMENT = ROOT / "docs/internals/capabilities.md"
#: How many capabilities each part has.
EXPECTED = [f"{part}{number}" for part, last in zip("ABCDEF", (39, 33, 18, 22, 17, 16), strict=True) for number in range(1, last + 1)]
#: States, problems, events and fields that the program says, and what it calls the program of a store with.
WORDS = {
    "login_required", "login-required", "acquisition_failed", "renewal_failed", "renewed", "revocation_failed", "http_status",
    "store", "get", "erase",
}  # fmt: skip
#: What users read: a request that a capability names is documented on one of them.
PAGES = documents.user_pages()
SOURCES = ["GatewayHTTP", "GatewayEvents", "GatewayTokens", "GatewayProxy", "GatewayApp", "GatewayAudit", "GatewayTokenStores"]


def cells(text):
    """The cells of each row of a table that begins with something like a number of a capability."""
    lines = [line.strip() for line in text.splitlines() if re.match(r"\|\s*[A-Za-z]\s?\d+", line)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]


def problems(text):
    """What is wrong with the document, a sentence for each mistake."""
    found = []
    numbers = [row[0] for row in cells(text)]
    if numbers != EXPECTED:
        wrong = next((pair for pair in zip(numbers, EXPECTED, strict=False) if pair[0] != pair[1]), None)
        found.append(f"{wrong[0]} stands where {wrong[1]} belongs" if wrong else f"{len(numbers)} rows, not {len(EXPECTED)}")
    claims = {}
    for number, *row in cells(text):
        if len(row) != 3 or not all(row):
            found.append(f"{number} needs a claim, a way and a proof")
            continue
        claim, how, proof = row
        if claim in claims:
            found.append(f"{number} says the same as {claims[claim]}")
        claims.setdefault(claim, number)
        if how.startswith("does not apply"):
            if not re.fullmatch(r"does not apply: .+", how) or proof != "-":
                found.append(f"{number} does not apply: that needs a reason, and no proof")
            continue
        found += [f"{number}: {problem}" for code in re.findall(r"`([^`]*)`", how) if (problem := unknown(code))]
        names = re.findall(r"`([^`]+)`", proof)
        if not names or proof != ", ".join(f"`{name}`" for name in names):
            found.append(f"{number} needs a list of tests as its proof, not {proof!r}")
        if len(set(names)) != len(names):
            found.append(f"{number} names a test twice")
        mentions_soak = "soak" in claim + how
        found += [f"{number}: {problem}" for name in names if (problem := no_proof(name, mentions_soak))]
    return found


# MARK: The way: commands, keys, strategies


@functools.cache
def unknown(code):
    """Why a piece of code in the second column is none that the program knows, or None."""
    if code.startswith("authgateway "):
        return unknown_command(code.split()[1:])
    if re.match(r"[A-Z]+ /", code):
        return None if any(f"`{code}`" in (ROOT / page).read_text() for page in PAGES) else f"no page documents {code}"
    if template := re.fullmatch(r"\{\{(\w+)(\.[A-Z]+)?\}\}", code):
        return None if template[1] in all_keys() else f"{code} names no key of the configuration"
    if member := re.fullmatch(r"([A-Z]\w+)\.(\w+)", code):
        ports = (ROOT / "Sources").glob(f"*/Ports/{member[1]}.swift")
        is_there = any(re.search(rf"\bfunc {member[2]}\(", port.read_text()) for port in ports)
        return None if is_there else f"there is no {code}"
    try:
        value = yaml.safe_load(code)
    except yaml.YAMLError:
        return f"{code} is no YAML"
    if isinstance(value, str) and "." in value:
        *parents, last = value.split(".")
        value = {last: None}
        for parent in reversed(parents):
            value = {parent: value}
    if isinstance(value, str):
        if value in WORDS:
            return None if is_said(value) else f"the program never says {value}"
        return None if value in all_keys() or value in strategies() else f"{value} is no key, strategy or word of the program"
    if not isinstance(value, dict):
        return f"{code} is neither a key nor a command"
    return wrong_keys(value)


def strategies():
    return SCHEMA["$defs"]["credential"]["else"]["properties"]["strategy"]["enum"]


def unknown_command(words):
    """Asks the program for the help of the command, and looks for the options there."""
    options = [word for word in words if word.startswith("-")]
    names = [word for word in words if word.isupper()]
    path = [word for word in words if word not in options and word not in names and word != "…"]
    help = help_of(*path)
    if not re.search(rf"^USAGE: {' '.join(['authgateway', *path])}(?![\w-])(?! <subcommand>)", help, re.MULTILINE):
        return f"there is no command authgateway {' '.join(path)}"
    # A long usage has several lines.
    if names and not re.search(r"^USAGE: (.+\n +)*.*(<name>|<credential>)", help, re.MULTILINE):
        return f"authgateway {' '.join(path)} takes no {names[0]}"
    for option in options:
        if not re.search(rf"(?m)^\s+(-\w, )?{option}\b", help):
            return f"authgateway {' '.join(path)} has no {option}"
    return None


@functools.cache
def help_of(*path):
    return subprocess.run([BINARY, "help", *path], check=False, capture_output=True, text=True, timeout=30).stdout


@functools.cache
def source():
    return "".join(path.read_text() for folder in SOURCES for path in (ROOT / "Sources" / folder).rglob("*.swift"))


def is_said(word):
    """Whether it is a text of the program, or the name of a case that has no other text."""
    return f'"{word}"' in source() or re.search(rf"(?m)^\s*case {word}$", source())


# MARK: The proof: tests that run


def no_proof(name, may_be_soak):
    """Why a name is none of a test that runs, or None."""
    if "::" in name:
        variants = collected().get(name, [])
        if not variants:
            return f"pytest collects no {name}"
        if skipped := next((marks for marks in variants if {"skip", "xfail"} & set(marks)), None):
            return f"{name} is marked {' '.join(skipped)}"
        if all("soak" in marks for marks in variants) and not may_be_soak:
            return f"{name} runs in soak alone, and the row does not say so"
        return None
    suite, _, test = name.partition(".")
    count = sum(test in found for found in swift_suites(suite))
    if not count:
        return f"there is no test {name} that carries @Test and runs"
    return f"{name} stands in {count} files" if count > 1 else None


#: The marks of every variant of the acceptance tests in the files that the document names, under `file::test`.
collected = None


@pytest.fixture(autouse=True)
def use_what_was_collected(request):
    global collected
    if collected is None:
        found = proofs.collected(request.config, named_files())
        collected = lambda: found


def named_files():
    return {file for row in cells(DOCUMENT.read_text()) for file in re.findall(r"`(test_\w+\.py)::", row[-1])}


@functools.cache
def swift_suites(suite):
    """The tests of each file that has the name of the suite."""
    return [proofs.swift_tests(path.read_text(), suite) for path in (ROOT / "Tests").rglob(f"{suite}.swift")]


# MARK: The tests


def test_every_capability_names_a_way_that_exists_and_tests_that_run():
    assert problems(DOCUMENT.read_text()) == []


def test_no_more_than_three_capabilities_do_not_apply():
    left_out = [row[0] for row in cells(DOCUMENT.read_text()) if row[2].startswith("does not apply")]
    assert left_out == ["A17", "B11", "C18"]


def changed(number, column, new):
    """Another text in a cell of the row: 0 is the number, 3 the proof."""

    def change(text):
        [line] = [line for line in text.splitlines() if line.startswith(f"| {number} |")]
        row = line.strip("| ").split(" | ")
        row[column] = new
        return text.replace(line, f"| {' | '.join(row)} |")

    return change


def without(number):
    return lambda text: re.sub(rf"(?m)^\| {number} \|.*\n", "", text)


def way(new):
    return changed("B6", 2, new)


def proof(new):
    return changed("B6", 3, new)


TEST = "`test_delegated.py::test_the_request_is_what_the_templates_say`"


@pytest.mark.parametrize(
    "change, problem",
    [
        # Rows
        (without("B6"), "B7 stands where B6 belongs"),
        (without("F16"), "144 rows, not 145"),
        (changed("B6", 0, "B7"), "B7 stands where B6 belongs"),
        (changed("B6", 0, "B 6"), "B 6 stands where B6 belongs"),
        (changed("B6", 0, "F6"), "F6 stands where B6 belongs"),
        (changed("B6", 1, ""), "B6 needs a claim, a way and a proof"),
        (changed("B6", 1, "token store: read"), "B20 says the same as B6"),
        (way(""), "B6 needs a claim, a way and a proof"),
        (proof(""), "B6 needs a claim, a way and a proof"),
        (way("`delegated` | more"), "B6 needs a claim, a way and a proof"),
        (way("does not apply"), "B6 does not apply: that needs a reason"),
        (way("does not apply: HTTP serves every language"), "B6 does not apply: that needs a reason, and no proof"),
        (changed("C18", 3, TEST), "C18 does not apply: that needs a reason, and no proof"),
        # Ways
        (way("`strategy: delegate`"), 'B6: strategy cannot be "delegate"'),
        (way("`delegate`"), "B6: delegate is no key, strategy or word of the program"),
        (way("`urls`"), "B6: urls is no key, strategy or word of the program"),
        (way("`urls: x`"), "B6: urls is no key of the configuration"),
        (way("`renew: {ahead, at_most}`"), "B6: renew cannot be"),
        (way("`renew: maybe`"), 'B6: renew cannot be "maybe"'),
        (way("`subject: {enterprises: \"…\"}`"), "B6: subject cannot be"),
        (way("`auth: {credential: NAME, subject: {enterprises: \"…\"}}`"), "B6: auth cannot be"),
        (way("`auth: {credentials: NAME}`"), "B6: auth cannot be"),
        (way("`tokens: {store: redis}`"), "B6: tokens cannot be"),
        (way("`tokens: {store: command, command: yes}`"), "B6: tokens cannot be"),
        (way("`mode: challenged`"), "B6: mode cannot be"),
        (way("`unique_id: {field: X}`"), "B6: unique_id cannot be"),
        (way("`limits.credential_timeouts`"), "B6: limits cannot be"),
        (way("`limit.credential_timeout`"), "B6: limit is no key"),
        (way("`downscopes:`"), "B6: downscopes is no key"),
        (way("`{envs}`"), "B6: envs is no key"),
        (way("`{{unique}}`"), "B6: {{unique}} names no key"),
        (way("`{{infos.NAME}}`"), "B6: {{infos.NAME}} names no key"),
        (way("`authgateway frob`"), "B6: there is no command authgateway frob"),
        (way("`authgateway token`"), "B6: there is no command authgateway token"),
        (way("`authgateway token frob NAME`"), "B6: there is no command authgateway token frob"),
        (way("`authgateway token get NAME --frob`"), "B6: authgateway token get has no --frob"),
        (way("`authgateway check NAME`"), "B6: authgateway check takes no NAME"),
        (way("`POST /token/NAME`"), "B6: no page documents POST /token/NAME"),
        (way("`TokenStore.read`"), "B6: there is no TokenStore.read"),
        (way("`TokenStores.load`"), "B6: there is no TokenStores.load"),
        (way("`[a]`"), "B6: [a] is neither a key nor a command"),
        (way("`a: b: c`"), "B6: a: b: c is no YAML"),
        # Proofs
        (proof("-"), "B6 needs a list of tests as its proof"),
        (proof("see the tests"), "B6 needs a list of tests as its proof"),
        (proof(TEST + " and more"), "B6 needs a list of tests as its proof"),
        (proof(f"{TEST}, {TEST}"), "B6 names a test twice"),
        (proof("`test_delegated.py::test_the_request`"), "B6: pytest collects no test_delegated.py::test_the_request"),
        (proof("`test_delegate.py::test_a_form_is_sent`"), "B6: pytest collects no test_delegate.py::test_a_form_is_sent"),
        (proof("`test_delegated.py::good`"), "B6: pytest collects no test_delegated.py::good"),
        (
            proof("`test_rotation.py::test_a_kill_at_each_of_500_writes_leaves_a_pair_or_a_plain_word`"),
            "B6: test_rotation.py::test_a_kill_at_each_of_500_writes_leaves_a_pair_or_a_plain_word runs in soak alone",
        ),
        (proof("`DelegatedTests.aTextIsNoToken`"), "B6: there is no test DelegatedTests.aTextIsNoToken"),
        (proof("`DelegatedTests.token`"), "B6: there is no test DelegatedTests.token"),
        (proof("`DelegateTests.aTextIsTheToken`"), "B6: there is no test DelegateTests.aTextIsTheToken"),
    ],
)
def test_a_mistake_in_the_document_is_found(change, problem):
    text = DOCUMENT.read_text()
    wrong = change(text)
    assert wrong != text
    found = problems(wrong)
    assert any(one.startswith(problem) for one in found), found


def test_a_long_run_is_a_proof_where_the_row_says_so():
    name = "test_rotation.py::test_a_kill_at_each_of_500_writes_leaves_a_pair_or_a_plain_word"
    text = changed("B6", 3, f"`{name}`")(DOCUMENT.read_text())
    assert problems(changed("B6", 2, "`strategy: delegated`, tried in soak")(text)) == []


TESTS = """
import pytest
def test_runs(): pass
@pytest.mark.parametrize("number", [1, 2])
def test_runs_twice(number): pass
@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_runs_longer_in_soak(number): pass
@pytest.mark.skipif(False, reason="never")
def test_is_never_skipped(): pass
@pytest.mark.skip(reason="later")
def test_is_skipped(): pass
@pytest.mark.skipif(True, reason="always")
def test_is_always_skipped(): pass
@pytest.mark.xfail(strict=True, reason="not fixed")
def test_fails(): pass
@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.xfail)])
def test_fails_in_part(number): pass
@pytest.mark.soak
def test_runs_in_soak(): pass
# def test_is_a_comment(): pass
def helper(): pass
"""
SKIPPED = "import pytest\npytest.skip('all of it', allow_module_level=True)\ndef test_of_it(): pass\n"


def test_a_test_that_does_not_run_proves_nothing(tmp_path, monkeypatch):
    for name, text in {"test_some.py": TESTS, "test_none.py": SKIPPED}.items():
        (tmp_path / "folder").mkdir(exist_ok=True)
        (tmp_path / "folder" / name).write_text(text)
    found = proofs.listed(tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "collected", lambda: found)
    for name in ("runs", "runs_twice", "runs_longer_in_soak", "is_never_skipped"):
        assert no_proof(f"test_some.py::test_{name}", False) is None
    for name, problem in {
        "test_is_skipped": "is marked",
        "test_is_always_skipped": "is marked",
        "test_fails": "is marked",
        "test_fails_in_part": "is marked",
        "test_runs_in_soak": "runs in soak alone",
        "test_is_a_comment": "pytest collects no",
        "helper": "pytest collects no",
    }.items():
        assert problem in (no_proof(f"test_some.py::{name}", False) or ""), name
    assert "pytest collects no" in no_proof("test_none.py::test_of_it", False)
    assert no_proof("test_some.py::test_runs_in_soak", True) is None


SWIFT = """
@Suite("Some", .timeLimit(.minutes(1)))
struct SomeTests {
    @Test func plain() {}
    @Test("with a name (and https://example.com)") func named() async throws {}
    @Test(arguments: [("a(", Duration.seconds(1)), (#"b")"#, .seconds(2))])
    func withArguments(_ text: String, _ duration: Duration) {}
    @Test @MainActor private func onTheMainActor() {}
    @Test(.disabled("later")) func disabled() {}
    // @Test func commented() {}
    /* @Test func commentedToo() {} */
    func helper() {}
    @Test func before() {}
    func afterwards() {}
    let text = "@Test func quoted() {}"
}
"""


def test_a_function_without_its_attribute_is_no_test():
    assert proofs.swift_tests(SWIFT, "SomeTests") == {"plain", "named", "withArguments", "onTheMainActor", "before"}
    assert proofs.swift_tests(SWIFT, "OtherTests") == set()

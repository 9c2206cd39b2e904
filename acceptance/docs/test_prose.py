"""The one linter of the documents: words that read like a translation, and links that lead nowhere."""

from harness import documents

PAGE = "docs/page.md"


def test_the_documents_have_no_dead_links_and_no_forbidden_words():
    planted = {
        "If it is not to\nbe had, wait.": [f'{PAGE}:1: "to be had"'],
        "One.\n\n```sh\ntrue\n```\n\nWhoever reads it, and `whoever`.": [f'{PAGE}:7: "whoever"'],
        "See [this](nowhere.md).": [f"{PAGE}: nowhere.md leads nowhere"],
        "See [this](security.md#no-such-heading).": [f"{PAGE}: security.md#no-such-heading leads nowhere"],
        "See [this](#below).\n\n```sh\n# Below\n```\n": [f"{PAGE}: #below leads nowhere"],
        "# Below\n\nSee [this](#below), [that](internals/architecture.md#targets), [others](internals/adr/) and `nobody's`.": [],
    }
    for text, expected in planted.items():
        assert [fault.partition("; write: ")[0] for fault in documents.faults(PAGE, text)] == expected, text
    found = [fault for page in documents.linted() for fault in documents.faults(page)]
    assert not found, "\n".join(found)

"""docs/reference lists the keys of the program."""

import os
import re

from harness import reference_page
from harness.gateway import ROOT, command
from harness.schema import all_keys


def written():
    """The pages as they stand there, by their paths below docs/reference."""
    folder = reference_page.FOLDER
    texts = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*.md")}
    return {name: text for name, text in texts.items() if name not in reference_page.OTHERS}


def anchors(text):
    return re.findall(r'<a id="([^"]+)"></a>', text)


def test_the_pages_are_current():
    keys = reference_page.known()
    if "UPDATE_EXPECTED" in os.environ:
        reference_page.write(keys)
    assert written() == reference_page.pages(keys), "make schema writes the pages"
    # The others stand within a reference to a secret or within `whoami`, or name the credential of a route.
    others = {"credential", "env", "exec", "shows", "systemd_credential", "ttl"}
    assert set(all_keys()) - {key["path"].rpartition(".")[2] for key in keys} <= others


def test_each_key_has_a_place_of_its_own():
    """On the page of its block, or on the page of each strategy that has it."""
    pages = written()
    for name, text in pages.items():
        found = anchors(text)
        assert sorted(found) == sorted(set(found)), name
        headings = [reference_page.anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
        assert sorted(headings) == sorted(set(headings)), name
    keys = reference_page.known()
    assert len(keys) > 400
    for key in keys:
        for page in reference_page.pages_of(key):
            assert reference_page.place(key) in anchors(pages[page]), (page, key["path"])


def test_no_key_loses_its_meaning():
    pages = written()
    for key in reference_page.known():
        for page in reference_page.pages_of(key):
            assert reference_page.escaped(key["meaning"]) in pages[page], (page, key["path"])


def test_the_program_names_the_place_of_a_key():
    """`config explain` prints it, and it is there."""
    for word in ["limits.drain", "routes.NAME.tls.pin", "listeners.proxy.connect.allow", "workers", "box_ccg.subject", "credentials.NAME.vend"]:
        found = re.findall(r"^  page: +docs/reference/(\S+)#(\S+)$", command("config", "explain", word, cwd=ROOT).stdout, re.MULTILINE)
        assert found, word
        for page, name in found:
            assert name in anchors(written()[page]), (word, page, name)

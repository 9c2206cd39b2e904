"""docs/reference.md lists the keys of the program."""

import os
import re

from harness import reference_page
from harness.schema import all_keys


def test_the_page_is_current():
    keys = reference_page.known()
    text = reference_page.page(keys)
    if "UPDATE_EXPECTED" in os.environ:
        reference_page.PAGE.write_text(text, encoding="utf-8")
    assert reference_page.PAGE.read_text(encoding="utf-8") == text, "make schema writes the page"
    # The others stand within a reference to a secret or within `whoami`, or name the credential of a route.
    others = {"credential", "env", "exec", "shows", "systemd_credential", "ttl"}
    assert set(all_keys()) - {key["path"].rpartition(".")[2] for key in keys} <= others


def test_each_key_has_a_heading_of_its_own():
    headings = re.findall(r"^#+ (.*)$", reference_page.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = [reference_page.anchor(heading) for heading in headings]
    assert len(anchors) > 300
    assert {anchor for anchor in anchors if anchors.count(anchor) > 1} == set()

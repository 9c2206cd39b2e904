"""docs/capabilities.md against the tests that it names."""

import re
from harness.gateway import ROOT

EXPECTED = [f"{part}{number}" for part, last in zip("ABCDE", (39, 33, 18, 20, 17)) for number in range(1, last + 1)]


def rows():
    text = (ROOT / "docs/capabilities.md").read_text()
    cells = [re.split(r" \| ", line.strip("| \n")) for line in text.splitlines() if re.match(r"\| [A-E]\d+ \|", line)]
    return {row[0]: row[1:] for row in cells}


def exists(name):
    if "::" in name:
        file, test = name.split("::")
        path = ROOT / "acceptance" / file
        return path.is_file() and re.search(rf"^(async )?def {test}\(", path.read_text(), re.M)
    file, test = name.split(".")
    return any(re.search(rf"\bfunc {test}\(", path.read_text()) for path in (ROOT / "Tests").rglob(f"{file}.swift"))


def test_every_capability_is_listed_with_the_test_that_proves_it():
    table = rows()
    assert list(table) == EXPECTED
    left_out = []
    for number, (capability, how, proof) in table.items():
        if how.startswith("does not apply: "):
            left_out.append(number)
            continue
        names = re.findall(r"`([^`]+)`", proof)
        assert names and proof == ", ".join(f"`{name}`" for name in names), f"{number}: {proof}"
        missing = [name for name in names if not exists(name)]
        assert not missing, f"{number} names tests that are not there: {missing}"
    assert len(left_out) <= 8, left_out

"""Prints the slowest tests of some reports and their seconds.

    python3 scripts/slowest.py 15 .build/reports/*.xml

A report is JUnit's XML, as `pytest --junit-xml` and `swift test --xunit-output` write it. The seconds of tests that ran side by
side include the time in which they waited for a processor.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def tests(path):
    """The tests of a report: (seconds, name)."""
    try:
        cases = ElementTree.parse(path).iter("testcase")
        return [(float(case.get("time") or 0), f"{case.get('classname') or ''}.{case.get('name')}".lstrip(".")) for case in cases]
    except (OSError, ValueError, ElementTree.ParseError) as error:
        print(f"error: {path} cannot be read as a report: {error}", file=sys.stderr)
        return []


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        sys.exit("usage: slowest.py COUNT REPORT...")
    rows = [row for path in sys.argv[2:] for row in tests(pathlib.Path(path))]
    for time, test in sorted(rows, reverse=True)[: int(sys.argv[1])] or sys.exit("error: the reports name no test"):
        print(f"{time:9.2f} s  {test}")

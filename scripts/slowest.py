"""Prints the slowest tests of some reports and their seconds.

    python3 scripts/slowest.py 15 .build/reports/*.xml .build/reports/*.jsonl

A report is JUnit's XML, as pytest's --junit-xml and `swift test --xunit-output` write it, or the event stream of Swift Testing
(--event-stream-output-path). Only the event stream is right for tests that ran side by side: in the XML their waiting counts.
"""

import collections
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def tests(path):
    """The tests of a report: (seconds, name)."""
    try:
        with path.open(encoding="utf-8") as file:
            return of_events(map(json.loads, file)) if path.suffix == ".jsonl" else of_junit(ElementTree.parse(file))
    except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
        print(f"error: {path} cannot be read as a report: {error}", file=sys.stderr)
        return []


def of_junit(report):
    cases = [(case, f"{case.get('classname') or ''}.{case.get('name')}") for case in report.iter("testcase")]
    return [(float(case.get("time") or 0), name.lstrip(".")) for case, name in cases]


def of_events(lines):
    begun, seconds = {}, collections.Counter()
    for event in (line["payload"] for line in lines if line["kind"] == "event"):
        case = (event.get("testID"), event.get("_testCase", {}).get("id"))
        if event["kind"] == "testCaseStarted":
            begun[case] = event["instant"]["absolute"]
        elif event["kind"] == "testCaseEnded" and case in begun:
            seconds[case[0]] += event["instant"]["absolute"] - begun.pop(case)
    return [(time, ".".join(test.split("/")[:-1])) for test, time in seconds.items()]


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        sys.exit("usage: slowest.py COUNT REPORT...")
    rows = [row for path in sys.argv[2:] for row in tests(pathlib.Path(path))]
    for time, test in sorted(rows, reverse=True)[: int(sys.argv[1])] or sys.exit("error: the reports name no test"):
        print(f"{time:9.2f} s  {test}")

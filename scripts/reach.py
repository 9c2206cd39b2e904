#!/usr/bin/env python3
"""Says what a change can reach: which unit tests and which acceptance tests `make quick` runs.

    reach.py choose PACKAGE.json SECONDS CACHE FILE...
    reach.py remember CACHE REPORT.xml...

The package is what `swift package dump-package` prints. SECONDS is how long acceptance tests may take, and unit tests besides those of
the changed targets themselves. Both count by what they took at the last `make test`, which has that remembered. Prints three lines: a
filter for unit tests, paths of acceptance tests, and what was left out.
"""

import json
import os
import pathlib
import re
import sys
import xml.etree.ElementTree

#: Where the acceptance tests of a target are.
FOLDERS = {
    "GatewayStrategies": ["tokens", "presets"],
    "GatewayTokens": ["tokens", "fleet"],
    "GatewayTokenClient": ["tokens"],
    "GatewayTokenStores": ["tokens", "fleet"],
    "GatewayFiles": ["operate", "fleet"],
    "GatewayAudit": ["operate", "fleet"],
    "GatewayProxy": ["http", "http2", "clients", "authz", "limits"],
    "GatewayLocalAuthority": ["clients"],
    "GatewaySandbox": ["operate"],
    "GatewayConfiguration": ["operate", "presets"],
    "GatewayHTTP": ["http", "http2", "clients"],
    "GatewayEvents": ["operate"],
    "GatewayApp": ["operate", "login", "presets"],
    "GatewayTools": ["operate", "login", "presets"],
    "authgateway": ["operate"],
}
#: A module whose tests all run in `make nightly` or `make soak`.
MEASURES = re.compile(r"^pytestmark = .*\b(timing|soak)\b", re.MULTILINE)
#: A module without a time of its own.
UNKNOWN_SECONDS = 10


def test_targets(package):
    """The test targets by the targets that they name as dependencies."""
    users = {}
    for target in package["targets"]:
        if target["type"] != "test":
            continue
        for dependency in target["dependencies"]:
            for name in dependency.get("byName", dependency.get("target", []))[:1]:
                users.setdefault(name, set()).add(target["name"])
    return users


def words_of(path):
    """The words of a file's name, without those that say nothing: `Box/BoxJWT+Claims.swift` is about box and jwt."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+", pathlib.Path(path).stem)
    return {word.lower() for word in words} - {"gateway", "strategy", "command", "client", "connection", "and", "of"}


def relevance(module, words):
    """How much a module of tests is about these words: in its name, then in its text."""
    name = module.stem.lower()
    text = module.read_text(encoding="utf-8").lower()
    return sum(100 for word in words if word in name) + min(99, sum(text.count(word) for word in words))


def chosen_modules(changed, seconds, durations):
    """What fits into the time, most relevant first, and what does not."""
    modules = {module: 0 for module in sorted(pathlib.Path("acceptance").glob("*/test_*.py")) if not MEASURES.search(module.read_text(encoding="utf-8"))}
    for path in changed:
        parts = path.split("/")
        folders = FOLDERS.get(parts[1], []) if parts[0] == "Sources" and len(parts) > 2 else []
        # Of a target without a row, the file's name tells where to look first.
        folders = folders or (["http", "tokens", "operate"] if path.startswith("Sources/") else [])
        words = words_of(path)
        for folder in folders:
            for module in modules:
                if module.parent.name == folder:
                    modules[module] = max(modules[module], relevance(module, words))
    chosen = [pathlib.Path(path) for path in changed if re.fullmatch(r"acceptance/.*/test_\w+\.py", path) and pathlib.Path(path).exists()]
    left_out = []
    for module in sorted(modules, key=lambda module: -modules[module]):
        if module in chosen:
            continue
        needed = durations.get(str(module.relative_to("acceptance")), UNKNOWN_SECONDS)
        if modules[module] and needed <= seconds:
            seconds -= needed
            chosen.append(module)
        else:
            left_out.append(module)
    return chosen, left_out


def summary(left_out):
    """The modules, or how many of a folder where that is shorter to read."""
    folders = {}
    for module in left_out:
        folders.setdefault(module.parent, []).append(module)
    for folder, modules in sorted(folders.items()):
        if len(modules) > 3:
            yield f"{folder} ({len(modules)} modules)"
        else:
            yield from map(str, modules)


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def remember(cache, *reports):
    """How long the unit tests of each target took."""
    path = pathlib.Path(cache, "durations-unit.json")
    seconds = read_json(path)
    for report in filter(os.path.exists, reports):
        new = {}
        for test in xml.etree.ElementTree.parse(report).iter("testcase"):
            target = test.get("classname").partition(".")[0]
            new[target] = round(new.get(target, 0) + float(test.get("time", 0)), 2)
        seconds |= new
    path.write_text(json.dumps(seconds), encoding="utf-8")


def chosen_suites(changed, seconds, durations, users):
    """The unit tests of what was changed, and of those who use it as many as fit into the time, the quickest first."""
    own, others = set(), {"ArchitectureTests"}
    for path in changed:
        parts = path.split("/")
        if parts[0] == "Sources" and len(parts) > 2:
            using = users.get(parts[1], set())
            own |= using & {f"{parts[1]}Tests"}
            others |= using
        elif parts[0] == "Tests" and len(parts) > 2:
            own.add(parts[1])
    for suite in sorted(others - own, key=lambda suite: durations.get(suite, UNKNOWN_SECONDS)):
        seconds -= durations.get(suite, UNKNOWN_SECONDS)
        # Something has to run where no target is named like the changed one.
        if seconds >= 0 or not own:
            own.add(suite)
    return own


def choose(package, seconds, cache, *changed):
    package = json.loads(pathlib.Path(package).read_text(encoding="utf-8"))
    acceptance, unit = (read_json(pathlib.Path(cache, f"durations-{name}.json")) for name in ("acceptance", "unit"))
    suites = chosen_suites(changed, float(seconds), unit, test_targets(package))
    every = {target["name"] for target in package["targets"] if target["type"] == "test"}
    chosen, left_out = chosen_modules(changed, float(seconds), acceptance)
    print(f"^({'|'.join(sorted(suites))})\\.")
    print(*chosen)
    print(*sorted(every - suites), *summary(left_out))


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("choose", "remember"):
        sys.exit(__doc__)
    {"choose": choose, "remember": remember}[sys.argv[1]](*sys.argv[2:])

"""How many of the gateway's own records in the optimisation profile match the code of the last release build.

A record says how often the code of one function ran. The compiler uses it only for a function of that name whose branches are
the same; any other function it optimizes as without a profile (docs/internals/adr/0021).

`record` reads the output of a release build with `-pgo-view-counts=text`, in which the compiler names each function whose
record it used. A build compiles only modules that have changed, so the names of other modules are kept from earlier builds.
`report` prints the share of records that were used.

Usage: profile_match.py record PROFILE SOURCES STATE < OUTPUT
       profile_match.py report PROFILE SOURCES STATE
"""

import hashlib
import json
import pathlib
import re
import sys

#: In percent. Below it, `make profile` counts anew before a release.
ENOUGH = 85


def modules(sources):
    return [path.name for path in sources.iterdir() if path.is_dir()]


def module(function, known):
    """The module of the gateway that a function's name begins with, or None."""
    places = [(function.find(part), name) for name in known for part in (f"{len(name)}{name}", f"{name}.build/") if part in function]
    return min(places)[1] if places else None


def own_records(profile, known):
    """By module, the functions of the gateway that the profile has counts for."""
    records = {}
    for record in profile.read_text(encoding="utf-8").partition(":ir\n")[2].split("\n\n"):
        function = record.strip().partition("\n")[0]
        if name := module(function, known):
            records.setdefault(name, set()).add(function)
    return records


def digest(profile, sources):
    whole = hashlib.sha256(profile.read_bytes())
    for path in sorted(sources.rglob("*.swift")):
        whole.update(f"{path.relative_to(sources)}\0".encode() + path.read_bytes())
    return whole.hexdigest()


def record(profile, sources, state, output):
    known = modules(sources)
    used = json.loads(state.read_text(encoding="utf-8"))["used"] if state.exists() else {}
    compiled = set(re.findall(r"(?m)^\[\d+/\d+\] Compiling (\w+)", output))
    # Two threads of the compiler write at the same time, but each name in one piece.
    named = set(re.findall(r"(?:pgo-view-counts|block-frequency-info): *([^\s:]+)", output))
    for name, functions in own_records(profile, known).items():
        if name in compiled:
            used[name] = sorted(function for function in functions if function.rpartition(";")[2] in named)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text(json.dumps({"digest": digest(profile, sources), "used": used}), encoding="utf-8")


def report(profile, sources, state):
    found = json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}
    records = own_records(profile, modules(sources))
    if found.get("digest") != digest(profile, sources) or not set(records) <= set(found["used"]):
        print("profile: not known before a release build of these sources")
        return
    total = sum(map(len, records.values()))
    used = sum(len(functions & set(found["used"][name])) for name, functions in records.items())
    percent = 100 * used // total
    print(f"profile: {used} of {total} records of the gateway's own code are used ({percent} %)")
    if percent < ENOUGH:
        print(f"profile: warning: fewer than {ENOUGH} %. A release needs more: `make profile` counts anew (docs/internals/adr/0021)")


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in ("record", "report"):
        raise SystemExit(__doc__)
    profile, sources, state = map(pathlib.Path, sys.argv[2:])
    if sys.argv[1] == "record":
        record(profile, sources, state, sys.stdin.read())
    else:
        report(profile, sources, state)


if __name__ == "__main__":
    main()

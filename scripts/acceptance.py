#!/usr/bin/env python3
"""Runs acceptance tests, and decides whether a failure may be forgiven.

    acceptance.py NAME REPORTS CACHE [OPTION OF PYTEST]... [-- PATH...]

A few tests that fail run again with their whole module, alone: the tests share one machine, and some wait for something that a busy
moment delays. What acceptance/harness/outcomes.py calls final is not run again. Each forgiven test is printed with how many
runs needed that so far; one that needed it twice has to be fixed, or gets the marker `timing`.
"""

import collections
import json
import pathlib
import shutil
import subprocess
import sys
import time

#: If more tests fail, none is forgiven.
MOST_FORGIVEN = 3


def run(options, paths, report, outcomes):
    """The exit code of pytest and what it recorded."""
    outcomes.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "--junit-xml", str(report), "--outcomes", str(outcomes), *options, *paths]
    code = subprocess.run(command, check=False).returncode
    recorded = json.loads(outcomes.read_text(encoding="utf-8")) if outcomes.exists() else {"failed": {}, "passed": [], "seconds": {}}
    return code, recorded


def final_failures(failed):
    return {test: reasons for test, reasons in failed.items() if reasons}


def forgive(tests, ran_again, history):
    """Prints the tests, and remembers them for the next run."""
    earlier = collections.Counter(history.read_text(encoding="utf-8").splitlines()) if history.exists() else collections.Counter()
    with history.open("a", encoding="utf-8") as file:
        file.writelines(f"{test}\n" for test in tests)
    lines = [f"{len(tests)} failed and passed with their modules alone ({ran_again})"]
    for test in tests:
        count = earlier[test] + 1
        lines.append(f"  {test}: in {count} run{'s: fix it, or mark it timing' if count > 1 else ''}")
    return lines


def main(name, reports, cache, *arguments):
    reports, cache = pathlib.Path(reports), pathlib.Path(cache)
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options, paths = list(arguments[:split]), list(arguments[split + 1 :]) or ["acceptance"]
    outcomes, durations = reports / f"{name}.json", reports / f"{name}-durations.json"
    known = cache / f"durations-{name}.json"
    # A copy, since workers have to read the same one, and another run may write it meanwhile.
    if known.exists():
        shutil.copy(known, durations)
    code, recorded = run([*options, "--durations-of", str(durations)], paths, reports / f"{name}.xml", outcomes)
    if recorded["seconds"] and paths == ["acceptance"]:
        changed = known.with_name(f"{known.name}.{time.time_ns()}")
        # A run of some tests knows nothing of the others.
        earlier = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
        changed.write_text(json.dumps(earlier | recorded["seconds"]), encoding="utf-8")
        changed.replace(known)
    failed = recorded["failed"]
    final = final_failures(failed)
    for test, reasons in final.items():
        print(f"final: {test}: {', '.join(dict.fromkeys(reasons))}")
    if final:
        return code or 1
    if code != 1 or not failed or len(failed) > MOST_FORGIVEN:
        return code
    modules = sorted({str(pathlib.Path(recorded["root"], test.partition("::")[0])) for test in failed})
    print(f"==> once more, alone: {' '.join(modules)}", flush=True)
    started = time.monotonic()
    alone = [option for option in options if option != "--no-loadscope-reorder"] + ["--numprocesses", "0"]
    code, again = run(alone, modules, reports / f"{name}-again.xml", reports / f"{name}-again.json")
    if code == 0 and (again["failed"] or not set(failed) <= set(again["passed"])):
        print("not forgiven: the second run did not pass the same tests")
        return 1
    if code == 0:
        seconds = f"{', '.join(modules)} in {time.monotonic() - started:.0f} s"
        with (reports / "forgiven.txt").open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in forgive(sorted(failed), seconds, cache / "forgiven-tests.txt"))
    return code


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

"""The scripts of the project report what failed: with a stand-in for the compiler, and without building anything."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from harness.gateway import ROOT

#: What a process of unit tests prints last, and how it exits.
RUNS = {
    "passed": ("✔ Test run with 5 tests in 2 suites passed after 0.1 seconds.", 0),
    "failed": ("✘ Test run with 5 tests in 2 suites failed after 0.1 seconds with 1 issue.", 1),
    "crashed": ("◇ Test run started.", 132),
    "found none": ("✔ Test run with 0 tests in 0 suites passed after 0.1 seconds.", 0),
}
#: Builds a program that "tests" as the environment says.
SWIFT = """#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
        --version) echo "Swift version 6.3 (stand-in)" ;;
        --scratch-path) folder=$2/debug ;;
        --build-tests) made=yes ;;
        release) exit 1 ;;
    esac
    shift
done
[ "$made" = yes ] || exit 0
mkdir -p "$folder"
printf '#!/bin/sh\\necho "$SWIFT_TEST_OUTPUT"\\nexit $SWIFT_TEST_STATUS\\n' >"$folder/AuthGatewayPackageTests.xctest"
chmod +x "$folder/AuthGatewayPackageTests.xctest"
eval "$WHILE_BUILDING"
"""


@pytest.fixture
def checkout(tmp_path):
    """A copy of the scripts whose steps do nothing but for those of lib.sh and test."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Package.swift", folder)
    for name in ["setup", "setup-tests"]:
        (folder / "scripts" / name).write_text("#!/bin/sh\n", encoding="utf-8")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in [("swift", SWIFT), ("swiftc", "#!/bin/sh\nexit 1\n")]:
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    return folder


def run(checkout, script, *arguments, **variables):
    programs = f"{checkout.parent / 'bin'}:{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if name not in ("AUTHGATEWAY_OBJECTS", "AUTHGATEWAY_TREE")}
    environment |= {"PATH": programs, "AUTHGATEWAY_CACHE": str(checkout.parent / "cache")} | variables
    return subprocess.run(
        [checkout / "scripts" / script, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("how", RUNS)
def test_a_stage_passes_only_if_its_tests_did(checkout, how):
    output, status = RUNS[how]
    done = run(checkout, "test", SWIFT_TEST_OUTPUT=output, SWIFT_TEST_STATUS=str(status))
    expected = "passed" if how == "passed" else "FAILED"
    assert re.findall(r"(?m)^ *\d+ s  unit tests: (\w+)$", done.stdout) == [expected], done.stdout + done.stderr
    # The stand-in builds no release, so the run ends there, and says where its time went.
    assert done.returncode == 1 and "build the release: FAILED" in done.stdout and "s  in all" in done.stdout


@pytest.mark.parametrize(
    ("cache", "words"),
    [
        ("relative/folder", "absolute path"),
        ("{other}", "is not empty and not this project's cache"),
        ("{open}", "others may write"),
    ],
)
def test_a_cache_is_a_folder_of_its_own(checkout, cache, words):
    other, writable = checkout.parent / "other", checkout.parent / "open"
    (other / "debian").mkdir(parents=True)
    (other / "debian/rules").write_text("mine", encoding="utf-8")
    writable.mkdir()
    writable.chmod(0o777)
    done = run(checkout, "test", AUTHGATEWAY_CACHE=cache.format(other=other, open=writable))
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert (other / "debian/rules").read_text(encoding="utf-8") == "mine"


def test_a_file_that_changes_during_the_build_is_not_tested(checkout):
    change = f"echo changed >>{checkout}/Package.swift"
    done = run(checkout, "test", SWIFT_TEST_OUTPUT=RUNS["passed"][0], SWIFT_TEST_STATUS="0", WHILE_BUILDING=change)
    assert done.returncode == 1 and "Package.swift); run this again" in done.stderr, done.stdout + done.stderr
    assert "unit tests" not in done.stdout.replace("build the unit tests", "")


def test_the_tree_of_the_builds_follows_the_checkout(tmp_path):
    checkout, tree = tmp_path / "checkout", tmp_path / "tree"
    sync = [sys.executable, ROOT / "scripts/sync_tree.py"]

    def files():
        return {str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*") if path.is_file()}

    def update():
        subprocess.run([*sync, "update", checkout, tree], check=True, capture_output=True, timeout=60)
        return subprocess.run([*sync, "compare", checkout, tree], capture_output=True, timeout=60, check=False).returncode

    subprocess.run(["git", "init", "--quiet", checkout], check=True, timeout=60)
    (checkout / "Sources").mkdir()
    for name, text in {".gitignore": "*.log\n", "Sources/a.swift": "a", "Sources/b.swift": "b", "x.log": "ignored"}.items():
        (checkout / name).write_text(text)
    subprocess.run(["git", "-C", checkout, "add", "Sources/a.swift"], check=True, timeout=60)
    assert update() == 0
    assert files() == {".gitignore": "*.log\n", "Sources/a.swift": "a", "Sources/b.swift": "b"}
    times = {path: path.stat().st_mtime_ns for path in (tree / "Sources").iterdir()}
    (tree / "Package.resolved").write_text("versions")
    # The same bytes at another time, other bytes of the same length, a file and a folder in each other's place.
    os.utime(checkout / "Sources/a.swift", (1, 1))
    (checkout / "Sources/b.swift").write_text("c")
    (checkout / "Sources/d").mkdir()
    (checkout / "Sources/d/e.swift").write_text("e")
    assert update() == 0
    assert (tree / "Sources/a.swift").stat().st_mtime_ns == times[tree / "Sources/a.swift"]
    assert (tree / "Sources/b.swift").stat().st_mtime_ns != times[tree / "Sources/b.swift"]
    shutil.rmtree(checkout / "Sources/d")
    (checkout / "Sources/d").write_text("a file")
    (checkout / "Sources/b.swift").unlink()
    (checkout / "Sources/a.swift").chmod(0o755)
    assert update() == 0
    assert files() == {".gitignore": "*.log\n", "Sources/a.swift": "a", "Sources/d": "a file", "Package.resolved": "versions"}
    assert os.access(tree / "Sources/a.swift", os.X_OK)
    # What a test wrote into the tree goes back to the checkout.
    (tree / "Sources/d").write_text("expected")
    assert subprocess.run([*sync, "compare", checkout, tree], capture_output=True, timeout=60, check=False).returncode == 1
    subprocess.run([*sync, "collect", checkout, tree], check=True, timeout=60)
    assert (checkout / "Sources/d").read_text() == "expected"
    # What was deleted here stays so.
    (checkout / "Sources/a.swift").unlink()
    subprocess.run([*sync, "collect", checkout, tree], check=True, timeout=60)
    assert not (checkout / "Sources/a.swift").exists()


@pytest.mark.parametrize("place", ["above the tree", "in the checkout"])
def test_a_copy_follows_no_link_and_removes_none_of_others(tmp_path, place):
    """People link their cache folder to a larger disk; some caches have to lie in the checkout."""
    checkout, disk = tmp_path / "checkout", tmp_path / "disk"
    for folder in (checkout / "Sources", disk):
        folder.mkdir(parents=True)
    (checkout / "Sources/a.swift").write_text("a")
    link = (tmp_path if place == "above the tree" else checkout) / "cache"
    link.symlink_to(disk)
    tree = link / "build/tree" if place == "above the tree" else checkout / "own/tree"
    for text in ("a", "b"):
        (checkout / "Sources/a.swift").write_text(text)
        subprocess.run([sys.executable, ROOT / "scripts/sync_tree.py", "update", checkout, tree], check=True, capture_output=True, timeout=60)
        assert link.is_symlink() and (tree / "Sources/a.swift").read_text() == text
        assert not (tree / "own").exists()


def commit_of(folder, cache):
    """What the scripts in that folder take for the commit of the sources, and its time."""
    command = ["bash", "-c", "source scripts/lib.sh; source_commit"]
    environment = os.environ | {"AUTHGATEWAY_CACHE": str(cache)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_sources_know_their_commit_with_and_without_git(tmp_path):
    def git(*words, **options):
        return subprocess.run(["git", *words], check=True, capture_output=True, timeout=60, **options).stdout

    expected = git("log", "-1", "--format=%H %ct", cwd=ROOT).decode()
    clone, archive = tmp_path / "clone", tmp_path / "archive"
    git("clone", "--quiet", str(ROOT), str(clone))
    assert commit_of(clone, tmp_path / "cache") == expected
    (clone / "README.md").write_text("changed", encoding="utf-8")
    assert commit_of(clone, tmp_path / "cache") == expected.replace(" ", "-modified ")
    archive.mkdir()
    subprocess.run(["tar", "-x", "-C", archive], input=git("archive", "HEAD", cwd=ROOT), check=True, timeout=60)
    assert commit_of(archive, tmp_path / "cache") == expected


def test_quick_chooses_the_changed_target_and_what_else_fits(tmp_path):
    def target(name, *dependencies):
        return {"name": name, "type": "test" if name.endswith("Tests") else "regular", "dependencies": [{"byName": [one, None]} for one in dependencies]}

    targets = [target("GatewayProxyTests", "GatewayProxy"), target("LongTests", "GatewayProxy"), target("ShortTests", "GatewayProxy")]
    targets.append(target("OtherTests", "GatewayAudit"))
    (tmp_path / "package.json").write_text(json.dumps({"targets": targets}), encoding="utf-8")
    report = '<testsuites><testcase classname="{}.A" name="a()" time="{}"/></testsuites>'
    reports = []
    for name, seconds in {"GatewayProxyTests": 40, "LongTests": 14, "ShortTests": 2, "ArchitectureTests": 20}.items():
        reports.append(tmp_path / f"{name}.xml")
        reports[-1].write_text(report.format(name, seconds), encoding="utf-8")
    script = [sys.executable, ROOT / "scripts/reach.py"]
    subprocess.run([*script, "remember", tmp_path, *reports], check=True, timeout=60)

    def choose(*changed):
        command = [*script, "choose", tmp_path / "package.json", "15", tmp_path, *changed]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()

    suites, modules, left_out = choose("Sources/GatewayProxy/HTTP2/HTTP2Trailers.swift")
    assert suites == r"^(GatewayProxyTests|ShortTests)\."
    assert modules != "" and all(module.startswith("acceptance/") for module in modules.split())
    assert {"LongTests", "OtherTests"} <= set(left_out.split()) and "acceptance/install" in left_out
    # A test module that is gone cannot run.
    assert choose("acceptance/http/test_gone.py")[1] == "" and choose("acceptance/http/test_names.py")[1] == "acceptance/http/test_names.py"

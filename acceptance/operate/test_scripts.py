"""The scripts of the project report what failed: with a stand-in for the compiler, and without building anything."""

import os
import re
import shutil
import subprocess

import pytest
from harness.gateway import ROOT

#: What `swift test` prints last, and how it exits.
RUNS = {
    "passed": ("✔ Test run with 5 tests in 2 suites passed after 0.1 seconds.", 0),
    "failed": ("✘ Test run with 5 tests in 2 suites failed after 0.1 seconds with 1 issue.", 1),
    "crashed": ("◇ Test run started.", 132),
    "found none": ("✔ Test run with 0 tests in 0 suites passed after 0.1 seconds.", 0),
}
SWIFT = """#!/bin/sh
case $1 in
    --version) echo "Swift version 6.3 (stand-in)" ;;
    test) echo "$SWIFT_TEST_OUTPUT"; exit "$SWIFT_TEST_STATUS" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    """A copy of the scripts whose steps do nothing but for those of lib.sh and test."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    shutil.copy(ROOT / "Package.swift", folder)
    for name in ["setup", "setup-tests", "fuzz"]:
        (folder / "scripts" / name).write_text("#!/bin/sh\n", encoding="utf-8")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in [("swift", SWIFT), ("swiftc", "#!/bin/sh\nexit 1\n")]:
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    return folder


def run(checkout, script, *arguments, **variables):
    programs = f"{checkout.parent / 'bin'}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": programs, "AUTHGATEWAY_CACHE": str(checkout.parent / "cache")} | variables
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

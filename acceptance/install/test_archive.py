"""The archive: it runs where it is unpacked, with libraries of its own."""

import json
import pathlib
import subprocess
import time

import pytest
import requests
from harness import processes
from harness.packages import make_dist, run


def unpack(archive, folder):
    run("tar", "--extract", "--file", archive, "--directory", folder)
    (tree,) = folder.glob("authgateway-*")
    return tree


@pytest.mark.timing
@pytest.mark.root
def test_the_first_request_is_served_ten_seconds_after_unpacking(archive, tmp_path, network):
    """Outside of the repository, in an empty folder, as the documents say it."""
    begin = time.monotonic()
    tree = unpack(archive, tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    gateway = subprocess.Popen([tree / "bin/authgateway", "run", "--sandbox"], cwd=empty, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        processes.wait_until(lambda: processes.is_listening(8080), 10, "it listens", pause=0.02)
        answer = requests.get("http://127.0.0.1:8080/box/2.0/users/me", timeout=10)
        assert answer.status_code == 200, answer.text
        assert time.monotonic() - begin < 10
        maps = pathlib.Path(f"/proc/{gateway.pid}/maps").read_text(encoding="utf-8")
        for library in ("libsqlite3", "libyaml"):
            assert f"{tree}/lib/authgateway/{library}" in maps, "its own, not that of the machine"
    finally:
        processes.end(gateway)
    assert gateway.returncode == 0, "it stops when it is asked to"


def test_it_holds_what_an_installation_has(archive, tmp_path):
    tree = unpack(archive, tmp_path)
    for path in (
        "LICENSE", "README.md", "gateway.yaml", "sandbox.yaml", "share/man/man1/authgateway.1.gz", "share/man/man1/authgateway-token-show.1.gz",
        "share/bash-completion/completions/authgateway", "share/zsh/site-functions/_authgateway",
        "share/fish/vendor_completions.d/authgateway.fish", "share/systemd/system/authgateway.service",
        "share/systemd/user/authgateway.service",
        "share/doc/authgateway/examples/strategies/bearer.yaml", "share/doc/authgateway/THIRD-PARTY-NOTICES.gz",
        "share/doc/authgateway/copyright/libsqlite3-0", "share/doc/authgateway/docs/configuration.md",
    ):  # fmt: skip
        assert (tree / path).is_file(), path


def test_the_same_program_makes_the_same_bytes(dist, tmp_path):
    """Elsewhere, at another time, for another user's umask, language and clock."""
    again = make_dist(tmp_path / "again", TZ="Asia/Tokyo", LC_ALL="C.UTF-8", TMPDIR=str(tmp_path))
    assert (again / "SHA256SUMS").read_text(encoding="ascii") == (dist / "SHA256SUMS").read_text(encoding="ascii")


def test_the_checksums_and_the_provenance_name_the_files(dist):
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist)
    (file,) = dist.glob("*.provenance.json")
    provenance = json.loads(file.read_text(encoding="utf-8"))
    sums = dict(reversed(line.split()) for line in (dist / "SHA256SUMS").read_text(encoding="ascii").splitlines())
    named = {subject["name"]: subject["digest"]["sha256"] for subject in provenance["subject"]}
    assert named == {name: digest for name, digest in sums.items() if name != file.name}
    build = provenance["predicate"]["buildDefinition"]
    assert len(build["externalParameters"]["commit"].partition("-")[0]) == 40
    assert build["internalParameters"]["toolchain"].startswith("swift-6.")
    flags = build["internalParameters"]["swift"]
    assert "--static-swift-stdlib" in flags and not any("/root/" in flag or "/home/" in flag for flag in flags), flags

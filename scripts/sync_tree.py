#!/usr/bin/env python3
"""Makes a folder hold the files of a checkout, byte for byte, and nothing else.

    sync_tree.py update CHECKOUT TREE     copies what differs and removes what is gone
    sync_tree.py compare CHECKOUT TREE    fails if a file differs, is missing or is left over
    sync_tree.py collect CHECKOUT TREE    copies files that a test wrote in TREE back to CHECKOUT

A file whose bytes are the same keeps its time, so the build system compiles only what changed. Files that git tracks and
untracked files that it does not ignore belong to a checkout. Without git, all files outside of `.build` do, except for Python's caches.
"""

import filecmp
import os
import pathlib
import shutil
import stat
import subprocess
import sys

# The build writes it beside Package.swift; git ignores it.
KEPT = {"Package.resolved"}


def files_of(checkout):
    """The paths that belong to a checkout, relative to it."""
    listed = subprocess.run(
        ["git", "-C", checkout, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if listed.returncode == 0 and (checkout / ".git").exists():
        names = {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}
        # git lists a tracked file that was deleted, too.
        return {name for name in names if os.path.lexists(checkout / name)}
    return files_below(checkout)


def files_below(folder):
    found = set()
    for parent, folders, names in os.walk(folder):
        here = pathlib.Path(parent)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [name for name in folders if name not in links and name != "__pycache__" and (here != folder or name not in (".build", ".git"))]
        found.update(str((here / name).relative_to(folder)) for name in names + links)
    return found


def is_same(one, other):
    try:
        first, second = one.lstat(), other.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_IFMT(first.st_mode) != stat.S_IFMT(second.st_mode):
        return False
    if one.is_symlink():
        return os.readlink(one) == os.readlink(other)
    executable = bool(first.st_mode & 0o100) == bool(second.st_mode & 0o100)
    return executable and first.st_size == second.st_size and filecmp.cmp(one, other, shallow=False)


def copy(source, target):
    for parent in reversed(target.relative_to(target.anchor).parents):
        # A folder may have been a file or a link before.
        place = pathlib.Path(target.anchor) / parent
        if place.is_symlink() or place.is_file():
            place.unlink()
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if source.is_symlink():
        target.symlink_to(os.readlink(source))
    else:
        # Without its time: a file that was checked out at an older commit is new to the build.
        shutil.copyfile(source, target)
        target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)


def differences(checkout, tree):
    """What differs: paths to copy, and paths to remove."""
    wanted = files_of(checkout)
    changed = {name for name in wanted if not is_same(checkout / name, tree / name)}
    left_over = files_below(tree) - wanted - KEPT
    return changed, left_over


def update(checkout, tree):
    tree.mkdir(parents=True, exist_ok=True)
    changed, left_over = differences(checkout, tree)
    for name in left_over:
        (tree / name).unlink()
        for parent in (tree / name).parents:
            if parent == tree or any(parent.iterdir()):
                break
            parent.rmdir()
    for name in sorted(changed):
        copy(checkout / name, tree / name)
    if changed or left_over:
        print(f"sync: {len(changed)} files changed, {len(left_over)} removed since the last build")


def compare(checkout, tree):
    changed, left_over = differences(checkout, tree)
    if changed or left_over:
        names = ", ".join(sorted(changed | left_over)[:5])
        sys.exit(f"error: {checkout} changed while it was built ({names}); run this again")


def collect(checkout, tree):
    changed, left_over = differences(checkout, tree)
    for name in changed | left_over:
        if (tree / name).is_file():
            copy(tree / name, checkout / name)
            print(f"sync: took {name} from the build")


if __name__ == "__main__":
    action, checkout, tree = sys.argv[1:]
    {"update": update, "compare": compare, "collect": collect}[action](pathlib.Path(checkout), pathlib.Path(tree))

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
# What a gateway that runs in the checkout keeps there: gateway.yaml.
STATE = {"state"}


def files_of(checkout, tree):
    """The paths that belong to a checkout, relative to it."""
    if (checkout / ".git").exists():
        command = ["git", "-C", checkout, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
        listed = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        if listed.returncode != 0:
            sys.exit(f"error: git cannot list the files of {checkout}")
        names = {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}
    else:
        names = {name for name in files_below(checkout) if name.split("/")[0] not in STATE}
    # git lists a tracked file that was deleted, too. The cache may lie in the checkout.
    own = tree.parent.resolve()
    inside = own.relative_to(checkout.resolve()) if own.is_relative_to(checkout.resolve()) else None
    return {name for name in names if is_copied(checkout / name) and not (inside and pathlib.PurePath(name).is_relative_to(inside))}


def is_copied(path):
    """Files and links; not the sockets of a gateway that runs in the checkout."""
    return path.is_symlink() or path.is_file()


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


def copy(name, origin, destination):
    """Copies a file from one folder to the same place in another one."""
    source, target = origin / name, destination / name
    for parent in reversed(pathlib.PurePath(name).parents[:-1]):
        # A folder may have been a file or a link before.
        place = destination / parent
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
        # What only its owner may read stays so.
        target.chmod(stat.S_IMODE(source.stat().st_mode))


def differences(checkout, tree):
    """What differs: paths to copy, and paths to remove."""
    wanted = files_of(checkout, tree)
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
        copy(name, checkout, tree)
    # Packages as this checkout has resolved them, if it has.
    if (checkout / "Package.resolved").exists() and not is_same(checkout / "Package.resolved", tree / "Package.resolved"):
        copy("Package.resolved", checkout, tree)
    (tree.parent / "tree.copied").touch()
    if changed or left_over:
        print(f"sync: {len(changed)} files changed, {len(left_over)} removed since the last build")


def compare(checkout, tree):
    changed, left_over = differences(checkout, tree)
    if changed or left_over:
        names = ", ".join(sorted(changed | left_over)[:5])
        sys.exit(f"error: {checkout} changed while it was built ({names}); run this again")


def collect(checkout, tree):
    changed, left_over = differences(checkout, tree)
    copied = (tree.parent / "tree.copied").stat().st_mtime
    for name in sorted(changed | left_over):
        written, own = tree / name, checkout / name
        if not written.is_file() or written.stat().st_mtime <= copied:
            continue
        if own.exists() and own.stat().st_mtime > copied:
            print(f"sync: left {name}, which changed here meanwhile")
            continue
        copy(name, tree, checkout)
        print(f"sync: took {name} from the build")


if __name__ == "__main__":
    action, checkout, tree = sys.argv[1:]
    {"update": update, "compare": compare, "collect": collect}[action](pathlib.Path(checkout), pathlib.Path(tree))

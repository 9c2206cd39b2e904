"""What `scripts/dist` makes of the program under test, and a minimal Debian to install it in."""

import fcntl
import os
import pathlib
import shutil
import subprocess

from .gateway import BINARY, CACHE, ROOT


def run(*words, **options):
    """Its output; what it said when it fails."""
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True, timeout=170, **options)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def make_dist(folder, **changes):
    """The files of a release, compressed as little as can be."""
    environment = {**os.environ, "AUTHGATEWAY_BINARY": BINARY, "AUTHGATEWAY_DIST_LEVEL": "0", **changes}
    for name in ("AUTHGATEWAY_OBJECTS", "AUTHGATEWAY_TREE"):
        environment.pop(name, None)
    run(ROOT / "scripts/dist", "--package", folder, env=environment, cwd=ROOT)
    return folder


def shared_dist(folder):
    """The same, made by the first of several processes that ask for it."""
    folder = pathlib.Path(folder)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "SHA256SUMS").exists():
            shutil.rmtree(folder, ignore_errors=True)
            make_dist(folder)
    return folder


def with_version(package, version, folder):
    """The package once more, with another version."""
    tree = folder / version
    run("dpkg-deb", "--raw-extract", package, tree)
    control = tree / "DEBIAN/control"
    lines = control.read_text(encoding="utf-8").splitlines()
    control.write_text("\n".join(f"Version: {version}" if line.startswith("Version:") else line for line in lines) + "\n")
    made = folder / f"authgateway_{version}.deb"
    run("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, made)
    return made


class Machine:
    """A minimal Debian in a folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        (root,) = CACHE.glob("debian-root-*.tar")
        run("tar", "--extract", "--numeric-owner", "--file", root, "--directory", self.folder)
        shutil.copy("/etc/resolv.conf", self.folder / "etc/resolv.conf")

    def path(self, name):
        return self.folder / name.lstrip("/")

    def command(self, *words, user=None):
        """The words that run a command in there, with a /proc that is gone when it ends: Swift finds its arguments there."""
        inside = ["/usr/sbin/chroot", *([f"--userspec={user}"] if user else []), str(self.folder), *map(str, words)]
        return ["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$0/proc" && exec "$@"', str(self.folder), *inside]

    def run(self, *words, user=None):
        proxies = {name: value for name, value in os.environ.items() if name.lower() in ("http_proxy", "https_proxy", "no_proxy")}
        environment = {**proxies, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
        return run(*self.command(*words, user=user), env=environment)

    def install(self, package, *options):
        shutil.copy(package, self.path("/tmp/package.deb"))
        self.run("dpkg", *options, "--install", "/tmp/package.deb")
        self.path("/tmp/package.deb").unlink()

    def found(self, pattern):
        """The files whose names match, as paths in there."""
        found = run("find", self.folder, "-xdev", "-name", pattern).splitlines()
        return sorted("/" + str(pathlib.Path(path).relative_to(self.folder)) for path in found)

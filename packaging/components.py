"""What a release consists of: Swift packages, what they bring along, the toolchain, and Debian's libraries."""

import json
import pathlib
import re
import subprocess

#: By the name of the Debian package. Their texts are in /usr/share/doc/PACKAGE/copyright.
DEBIAN_LICENCES = {
    "libc6": "LGPL-2.1-or-later",
    "libgcc-s1": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libsqlite3-0": "blessing",
    "libstdc++6": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libyaml-0-2": "MIT",
    "zlib1g": "Zlib",
}

#: Whose copies of BoringSSL are in the program, with the file that names the revision.
BORINGSSL = {"swift-nio-ssl": "Sources/CNIOBoringSSL/hash.txt", "swift-crypto": "Sources/CCryptoBoringSSL/hash.txt"}


def texts(checkout):
    """The files of a package that have to go along with the program."""
    return [file for file in sorted(checkout.iterdir()) if re.match(r"(LICEN[CS]E|NOTICE|COPYING)", file.name, re.IGNORECASE)]


def licence(checkout):
    """The SPDX name of the licence. A package with one that is not known here stops the release: a person has to look."""
    text = " ".join(" ".join(file.read_text(encoding="utf-8").split()) for file in texts(checkout) if file.name.startswith("LICEN"))
    if "Apache License Version 2.0" in text:
        return "Apache-2.0"
    if "Permission is hereby granted, free of charge" in text:
        return "MIT"
    raise SystemExit(f"error: the licence of {checkout.name} is not known; see packaging/components.py")


def swift_packages(resolved, checkouts):
    """Of `Package.resolved`, in the order of their names, with the folder that each was built from."""
    folders = {folder.name.lower(): folder for folder in pathlib.Path(checkouts).iterdir()}
    for pin in sorted(json.loads(pathlib.Path(resolved).read_text(encoding="utf-8"))["pins"], key=lambda pin: pin["identity"]):
        location = pin["location"].removesuffix(".git")
        folder = folders[location.rpartition("/")[2].lower()]
        yield {
            "name": folder.name,
            "version": pin["state"].get("version", pin["state"]["revision"]),
            "revision": pin["state"]["revision"],
            "location": location,
            "licence": licence(folder),
            "folder": folder,
        }


def boringssl(packages):
    """The copies that two packages hold."""
    for package in packages:
        if file := BORINGSSL.get(package["name"]):
            yield package["name"], (package["folder"] / file).read_text(encoding="utf-8").split()[-1]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def libraries(program):
    """The shared libraries that the program is linked to: {soname: path}."""
    names = re.findall(r"\(NEEDED\).*\[([^]]+)\]", output("readelf", "-dW", program))
    paths = dict(re.findall(r"^\s*(\S+) => (\S+)", output("ldd", program), re.MULTILINE))
    return {name: paths[name] for name in names if name in paths}


def debian_packages(program):
    """Those that the libraries come from: {package: version}, and which library is whose."""
    versions, owners = {}, {}
    for name, path in sorted(libraries(program).items()):
        for candidate in (path, str(pathlib.Path(path).resolve()), "/usr" + path):
            found = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True, timeout=60, check=False)
            if found.returncode == 0:
                break
        else:
            raise SystemExit(f"error: {path} belongs to no Debian package")
        package = found.stdout.split(":")[0]
        owners[name] = package
        versions[package] = output("dpkg-query", "-W", "-f", "${Version}", package)
    return dict(sorted(versions.items())), owners

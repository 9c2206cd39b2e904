#!/usr/bin/env python3
"""Prints the licences and notices that have to go along with the program: notices.py RESOLVED CHECKOUTS.

With --copyright, the file `copyright` of a Debian package instead (its format 1.0).
"""

import sys

import components

HEAD = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: authgateway

Files: *
Copyright: The AuthGateway authors
License: Apache-2.0
Comment:
 The program is linked with the Swift runtime (Apache-2.0 with Runtime Library Exception), with ICU (Unicode-3.0), with
 copies of BoringSSL (Apache-2.0, ISC and OpenSSL), and with the packages below. Their notices are in
 /usr/share/doc/authgateway/THIRD-PARTY-NOTICES.gz.
"""
APACHE = """
License: Apache-2.0
 On Debian systems, the text of the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.
"""


def indented(text):
    return "\n".join(" " + (line.rstrip() or ".") for line in text.strip().splitlines())


def copyright_file(packages):
    print(HEAD)
    for package in packages:
        name = package["licence"] if package["licence"] == "Apache-2.0" else f"{package['licence']}-{package['name']}"
        print(f"Files: {package['name']}\nCopyright: The authors of {package['name']}\nLicense: {name}\nComment: {package['location']}\n")
    print(APACHE.strip())
    for package in packages:
        if package["licence"] != "Apache-2.0":
            text = "\n".join(file.read_text(encoding="utf-8") for file in components.texts(package["folder"]))
            print(f"\nLicense: {package['licence']}-{package['name']}\n{indented(text)}")


def notices(packages):
    print("AuthGateway contains these packages. Their licences and notices follow.\n")
    for package in packages:
        print(f"- {package['name']} {package['version']} ({package['licence']}), {package['location']}")
    for package in packages:
        for file in components.texts(package["folder"]):
            print(f"\n{'=' * 80}\n{package['name']}: {file.name}\n{'=' * 80}\n\n{file.read_text(encoding='utf-8').strip()}")


if __name__ == "__main__":
    *options, resolved, checkouts = sys.argv[1:]
    (copyright_file if options else notices)(list(components.swift_packages(resolved, checkouts)))

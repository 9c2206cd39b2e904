#!/usr/bin/env python3
"""Prints the bill of materials, CycloneDX 1.6: sbom.py PROGRAM VERSION COMMIT SECONDS TOOLCHAIN RESOLVED CHECKOUTS.

It depends on nothing but these, so that the same sources and libraries have the same one.
"""

import datetime
import json
import sys
import uuid

import components


def licences(expression):
    return [{"expression": expression}] if " " in expression else [{"license": {"id": expression}}]


def library(name, version, licence, purl, **more):
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": licences(licence),
        "purl": purl,
        **more,
    }


def swift_package(package):
    purl = f"pkg:swift/{package['location'].partition('://')[2]}@{package['version']}"
    return library(
        package["name"],
        package["version"],
        package["licence"],
        purl,
        externalReferences=[{"type": "vcs", "url": package["location"]}],
        properties=[{"name": "authgateway:revision", "value": package["revision"]}],
    )


def main(program, version, commit, seconds, toolchain, resolved, checkouts):
    packages = list(components.swift_packages(resolved, checkouts))
    debian, _ = components.debian_packages(program)
    found = [swift_package(package) for package in packages]
    for owner, revision in components.boringssl(packages):
        purl = f"pkg:generic/boringssl@{revision}?vendored_by={owner}"
        found.append(library("boringssl", revision, "Apache-2.0 AND ISC AND OpenSSL", purl, description=f"A copy in {owner}."))
    runtime = "The Swift runtime and standard library, Foundation, Dispatch and ICU, linked statically."
    found.append(library("swift", toolchain, "Apache-2.0 WITH Swift-exception", f"pkg:generic/swift@{toolchain}", description=runtime))
    for name, number in debian.items():
        purl = f"pkg:deb/debian/{name}@{number}"
        found.append(library(name, number, components.DEBIAN_LICENCES[name], purl, description="Linked dynamically."))
    own = f"pkg:generic/authgateway@{version}"
    at = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'authgateway:{version}:{commit}')}",
        "version": 1,
        "metadata": {
            "timestamp": at,
            "tools": {"components": [{"type": "application", "name": "swift", "version": toolchain}]},
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "authgateway",
                "version": version,
                "licenses": licences("Apache-2.0"),
                "purl": own,
                "properties": [{"name": "authgateway:commit", "value": commit}],
            },
        },
        "components": found,
        "dependencies": [{"ref": own, "dependsOn": [component["bom-ref"] for component in found]}],
    }
    print(json.dumps(document, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])

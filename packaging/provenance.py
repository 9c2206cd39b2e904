#!/usr/bin/env python3
"""Prints where the files of a release come from, as a statement of in-toto with SLSA's provenance (slsa.dev/spec/v1.0):
provenance.py FOLDER VERSION COMMIT SECONDS TOOLCHAIN PROFILE RESOLVED PROGRAM <flags. Flags stand on a line each."""

import hashlib
import json
import pathlib
import sys

import components


def main(folder, version, commit, seconds, toolchain, profile, resolved, program):
    files = sorted(file for file in pathlib.Path(folder).iterdir() if file.name.startswith("authgateway"))
    pins = json.loads(pathlib.Path(resolved).read_text(encoding="utf-8"))["pins"]
    debian, _ = components.debian_packages(program)
    materials = [
        {"name": pin["identity"], "uri": "git+" + pin["location"], "digest": {"gitCommit": pin["state"]["revision"]}}
        for pin in sorted(pins, key=lambda pin: pin["identity"])
    ]
    materials += [{"name": name, "uri": f"pkg:deb/debian/{name}@{number}"} for name, number in debian.items()]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}} for file in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "scripts/dist",
                "externalParameters": {"commit": commit, "version": version},
                "internalParameters": {
                    "toolchain": toolchain,
                    "profile": profile == "profile",
                    "sourceDateEpoch": int(seconds),
                    "swift": sys.stdin.read().split("\n")[:-1],
                },
                "resolvedDependencies": materials,
            },
            "runDetails": {"builder": {"id": "scripts/dist"}},
        },
    }
    print(json.dumps(statement, indent=2))


if __name__ == "__main__":
    main(*sys.argv[1:])

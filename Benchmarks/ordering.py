"""Which functions run while the gateway serves: the linker lays them side by side, so that few pages of the program are in use.

What only a start needs is not among them: the release is run under callgrind, which begins to count once it listens.
`make profile` runs this.

Usage: ordering.py GATEWAY OUTPUT
"""

import argparse
import collections
import pathlib
import re
import subprocess
import tempfile

import authz_side_by_side
import proxies
import training


class Counted:
    """A stage whose gateway runs under callgrind."""

    OPTIONS = ("--demangle=no", "--compress-strings=no", "--compress-pos=no")

    def command(self, name):
        words = super().command(name)
        if name not in self.gateways:
            return words
        options = ["--tool=callgrind", "--instr-atstart=no", *self.OPTIONS]
        return ["valgrind", *options, f"--callgrind-out-file={self.folder}/counts", *words]

    def count(self, pid):
        """Begins to count."""
        subprocess.run(["callgrind_control", "--instr=on", str(pid)], check=True, capture_output=True)

    def end(self, name):
        """Ends the gateway, which writes what was counted."""
        process = self.processes.pop(name)
        process.terminate()
        process.wait(60)


class CountedStage(Counted, proxies.Stage):
    """Clients send requests."""


class CountedAuthzStage(Counted, authz_side_by_side.AuthzStage):
    """Engines ask."""


#: The counting program runs one thread at a time, some fifty times slower: in less time nothing may be answered.
SECONDS = 6


def instructions(kind, drive, binary, **options):
    """How many instructions each function ran under the load, by its name."""
    with tempfile.TemporaryDirectory(prefix="ordering-") as folder:
        with kind(folder, {"gateway": binary}, **options) as stage:
            stage.start("upstream")
            pid = stage.start("gateway")
            stage.count(pid)
            drive(stage)
            stage.end("gateway")
        return counted(pathlib.Path(folder, "counts").read_text(encoding="utf-8"))


def without_debug(binary, folder):
    """A copy of the program that valgrind can read: it gives up where it does not know the kind of debug information."""
    stripped = f"{folder}/authgateway"
    sections = ["--strip-debug", "--remove-section", ".gnu_debuglink"]
    subprocess.run(["objcopy", *sections, binary, stripped], check=True)
    return stripped


def drive(stage):
    """Without pauses: they would only be waited for."""
    training.drive(stage, SECONDS, paced=False)


def drive_authz(stage):
    training.drive_authz(stage, SECONDS)


def counted(text):
    """Sums up what each function ran itself; the line behind `calls=` is what it called."""
    costs, function, is_call = collections.Counter(), None, False
    for line in text.splitlines():
        if line.startswith("fn="):
            # A recursion has its depth behind its name.
            function = re.sub(r"'\d+$", "", line.removeprefix("fn="))
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"\d+ \d+$", line):
            if not is_call:
                costs[function] += int(line.split()[1])
            is_call = False
    return costs


def defined(binary):
    """The names of all functions that are in the program itself."""
    lines = subprocess.run(["nm", "--defined-only", binary], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split(maxsplit=2)[2] for line in lines if line.split(maxsplit=2)[1] in "tTwW"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway")
    parser.add_argument("output", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stripped-") as folder:
        stripped = without_debug(options.gateway, folder)
        counts = [instructions(CountedStage, drive, stripped, **options) for options in training.STAGES]
        counts.append(instructions(CountedAuthzStage, drive_authz, stripped))
    # What only TLS needs lies behind the rest, what only HTTP/2 needs behind that, and what only engines need comes last.
    order = [name for count in counts for name in sorted(count, key=lambda name: (-count[name], name))]
    names = defined(options.gateway)
    ordered = [name for name in dict.fromkeys(order) if name in names]
    if len(ordered) < 1000:
        raise SystemExit(f"only {len(ordered)} functions were counted: something went wrong")
    options.output.write_text("\n".join(ordered) + "\n", encoding="utf-8")
    print(f"{options.output}: {len(ordered)} functions")


if __name__ == "__main__":
    main()

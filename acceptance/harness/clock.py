"""A clock of the gateway's own, that a test sets: libfaketime (Debian package faketime)."""

import contextlib
import glob
import os
import pathlib
import subprocess

import pytest

from . import processes

LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), None)
needs_faketime = pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed (Debian package faketime)")


class FakeClock:
    """The wall clock of the processes that have `environment`; time that merely passes is real.

    The library loses a timer of libdispatch now and then (once in thirty stops of a gateway, and never without it), so a test
    kills what it has started in the end.
    """

    def __init__(self, folder, memory):
        self.file = pathlib.Path(folder) / "clock"
        self.set("+0")
        self.environment = {
            "LD_PRELOAD": LIBRARY,
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_SHARED": memory,
        }

    def set(self, offset):
        """`+1h`, or seconds such as `-45`: how far it is from the real one."""
        self.file.write_text(offset + "\n")


@contextlib.contextmanager
def fake_clock(folder):
    """With the shared memory of a faketime that runs.

    The library makes its own when it is given none, and announces that by changing the environment, after which a Swift
    program no longer finds its arguments.
    """
    with subprocess.Popen(["faketime", "-f", "+0", "sleep", "600"]) as helper:
        children = f"/proc/{helper.pid}/task/{helper.pid}/children"

        def memory():
            for child in pathlib.Path(children).read_text(encoding="ascii").split():
                for word in pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                    if word.startswith(b"FAKETIME_SHARED="):
                        return child, word.partition(b"=")[2].decode()
            return None

        child, value = processes.wait_until(memory, 10, "faketime has made its memory")
        yield FakeClock(folder, value)
        os.kill(int(child), 15)

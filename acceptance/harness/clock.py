"""A clock of the gateway's own, that a test sets."""

import os
import pathlib
import re
import struct

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


class FalseClock:
    """The wall clock of the processes that have `environment`; time that merely passes is real. With `all_time`, that is the
    test's, too: timers that a process has set before do not hear of a change until they fire."""

    def __init__(self, library, folder):
        self.file = pathlib.Path(folder) / "clock"
        self.file.write_bytes(bytes(16))
        self.set("+0")
        self.environment = {"LD_PRELOAD": str(library), "FALSE_CLOCK": str(self.file)}
        self.all_time = {**self.environment, "FALSE_CLOCK_MONOTONIC": "1"}

    def set(self, offset, pace=1.0):
        """`+1h`, or seconds such as `-45`: how far it is from the real one. It counts the time since a process began at this pace."""
        count, unit = re.fullmatch(r"([+-][\d.]+)([smhd]?)", offset).groups()
        values = struct.pack("=qq", round(float(count) * SECONDS[unit] * 1_000_000_000), round(pace * 1000))
        # In place: the processes have the file in their memory.
        with self.file.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), values, 0)

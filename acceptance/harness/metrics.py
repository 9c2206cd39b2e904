"""What /proc says of a process."""

import os
import time

from .processes import wait_until


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def steady_descriptors(pid):
    """Once their number stays the same: the connection that has found a gateway ready is gone by then."""

    def same():
        count = descriptors(pid)
        time.sleep(0.3)
        return count if descriptors(pid) == count else None

    return wait_until(same, 10, "it is quiet")


def forget_peak(pid):
    """The peak of its memory begins again at what it has now."""
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024

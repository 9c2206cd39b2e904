"""Numbers of one process from /proc: threads, descriptors, memory."""

import contextlib
import os
import time

import pytest

from .processes import wait_until


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def user(pid):
    """The effective user."""
    return int(_status(pid, "Uid").split()[1])


@contextlib.contextmanager
def shown_to_root():
    """The gateway hides its memory, and the system then shows this to root alone."""
    try:
        yield
    except PermissionError:
        pytest.skip("needs root: the gateway hides its memory")


def descriptor_numbers(pid):
    with shown_to_root():
        return [int(name) for name in os.listdir(f"/proc/{pid}/fd")]


def descriptors(pid):
    return len(descriptor_numbers(pid))


def steady_descriptors(pid):
    """The number once it stays the same: the gateway still closes the connection that checked whether it was ready."""

    def same():
        count = descriptors(pid)
        time.sleep(0.3)
        return count if descriptors(pid) == count else None

    return wait_until(same, 10, "the number of descriptors stays the same")


def forget_peak(pid):
    """Resets the peak of its resident memory to the present value."""
    with shown_to_root(), open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def resident_mib(pid):
    return _status_mib(pid, "VmRSS")


def peak_memory_mib(pid):
    return _status_mib(pid, "VmHWM")


def _status_mib(pid, name):
    return int(_status(pid, name).split()[0]) / 1024


def _status(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(f"{name}:"):
                return line.partition(":")[2].strip()
    raise AssertionError(f"no {name} in /proc/{pid}/status")

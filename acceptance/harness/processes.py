"""Starting, watching and ending processes."""

import atexit
import contextlib
import fcntl
import functools
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time


class PortBlock:
    """Ports for listeners of tests, of a block that no other test process has and that the system gives to no client.

    A port that the system picks (port 0, closed again) could be given to a connection before its listener starts.
    """

    SIZE = 1000
    #: Browsers open no connection to it (fetch.spec.whatwg.org, "port blocking"); the other ports of that list are below all blocks.
    BLOCKED = 10_080

    def __init__(self):
        self.first = self.lock = None
        self.given = 0

    def claim(self):
        """The first block without an owner. The lock ends with this process."""
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            lowest, highest = map(int, file.read().split())
        below, above = range(10_000, lowest - self.SIZE, self.SIZE), range(highest + 1, 65_535 - self.SIZE, self.SIZE)
        for first in [*below, *above]:
            # Open until this process ends.
            lock = open(pathlib.Path(tempfile.gettempdir(), f"authgateway-ports-{first}.lock"), "ab")  # noqa: SIM115
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            self.first, self.lock = first, lock
            return
        raise AssertionError("no block of ports is free")

    def next(self):
        if self.lock is None:
            self.claim()
        for _ in range(self.SIZE):
            port = self.first + self.given % self.SIZE
            self.given += 1
            if port == self.BLOCKED:
                continue
            with socket.socket() as probe, contextlib.suppress(OSError):
                # As a listener does: a port on which only closed connections linger is free.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                return port
        raise AssertionError(f"no port is free from {self.first} on")


BLOCK = PortBlock()


def free_port():
    """A port on which nothing listens, given out once until all of the block have been."""
    return BLOCK.next()


def within(seconds, condition, pause=0.02):
    """What the condition gives when it holds, at the latest after that time; what it gave last otherwise."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() <= deadline:
        time.sleep(pause)
    return value


def wait_until(condition, seconds, what, pause=0.02):
    """Polls for something that sends no signal when it happens; `what` (a text, or what makes one) goes into the failure."""
    if value := within(seconds, condition, pause):
        return value
    raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")


def is_listening(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def first_line(process, seconds):
    """For a process whose output is not buffered: what is readable is also what is left to read."""
    ready, _, _ = select.select([process.stdout], [], [], max(0, seconds))
    line = process.stdout.readline() if ready else b""
    if not line:
        process.kill()
        raise AssertionError(f"{process.args[:3]} said nothing within {seconds} s")
    return line.decode().strip()


def first_json(process, seconds):
    """The value that a process prints first, over as many lines as it takes."""
    deadline = time.monotonic() + seconds
    text = ""
    while True:
        text += first_line(process, deadline - time.monotonic()) + "\n"
        try:
            return json.loads(text)
        except ValueError:
            continue


def end(process, seconds=10):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


@functools.cache
def _runtime_directory():
    """One for this process of tests, removed at its end."""
    folder = tempfile.mkdtemp(prefix="authgateway-runtime-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def environment(**changes):
    """Ours without what would steer a client or the gateway elsewhere; a value of None removes a name."""
    steering = {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "authgateway_config", "runtime_directory", "no_color"}
    result = {name: value for name, value in os.environ.items() if name.lower() not in steering}
    # Commands find running gateways here: not those of the machine's user.
    result["XDG_RUNTIME_DIR"] = _runtime_directory()
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result

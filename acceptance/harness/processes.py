"""Starting, watching and ending processes."""

import json
import os
import select
import signal
import socket
import subprocess
import time


#: What was given out: nobody listens there yet, so the system could name it once more.
GIVEN = set()


def free_port():
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in GIVEN:
            GIVEN.add(port)
            return port


def wait_until(condition, seconds, what, pause=0.02):
    """Polls for something that tells nobody when it happens; `what` (a text, or what makes one) goes into the failure."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(pause)


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


def peak_memory_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    raise AssertionError("no VmHWM")


def environment(**changes):
    """Ours without what would steer a client or the gateway elsewhere; a value of None removes a name."""
    steering = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}
    result = {name: value for name, value in os.environ.items() if name.lower() not in steering}
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result

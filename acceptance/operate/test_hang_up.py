"""SIGHUP: a terminal that is closed ends the gateway that was started on it; everything else is a reload."""

import contextlib
import os
import pty
import signal
import sys

import pytest
import requests
from harness import processes
from harness.configs import plain_config

#: Runs a program on a terminal of its own, in a session of its own; with SIGHUP ignored when asked.
ON_TERMINAL = """
import os, signal, sys
os.setsid()
terminal = os.open(sys.argv[1], os.O_RDWR)
os.dup2(terminal, 0)
os.close(terminal)
if sys.argv[2] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.execvp(sys.argv[3], sys.argv[3:])
"""


@pytest.fixture
def terminal():
    """The side of the terminal emulator, and the name of the other side."""
    ours, theirs = pty.openpty()
    yield ours, os.ttyname(theirs)
    for descriptor in (ours, theirs):
        with contextlib.suppress(OSError):
            os.close(descriptor)


@pytest.fixture
def start_on(make_gateway, origin, terminal):
    def start(how="plain", *through):
        gateway = make_gateway(plain_config(origin))
        gateway.wrapper = [sys.executable, "-c", ON_TERMINAL, terminal[1], how, *through]
        return gateway.start()

    return start


def reloads(gateway):
    return [event for event in gateway.events("--event", "config_loaded") if event["detail"].get("cause") == "signal"]


def is_serving(gateway):
    return requests.get(gateway.url + "/api/x", timeout=10).status_code == 200


def test_a_closed_terminal_ends_the_gateway(start_on, terminal):
    gateway = start_on()
    assert is_serving(gateway)
    os.close(terminal[0])
    assert gateway.process.wait(20) == 0
    assert [event["event"] for event in gateway.events()][-1] == "gateway_stopped"


def test_it_is_also_ended_behind_a_shell(start_on, terminal):
    """The shell leads the session, and the gateway is one of its jobs."""
    gateway = start_on("plain", "sh", "-c", '"$@"; exit $?', "sh")
    os.close(terminal[0])
    # The shell ends by the signal.
    gateway.expected_ends = {0, -signal.SIGHUP}
    gateway.process.wait(20)
    processes.wait_until(lambda: not processes.is_listening(gateway.port), 20, "the gateway has ended")


def test_a_signal_that_a_person_sends_is_a_reload(start_on):
    gateway = start_on()
    gateway.process.send_signal(signal.SIGHUP)
    processes.wait_until(lambda: reloads(gateway), 20, gateway.text)
    assert is_serving(gateway)


def test_without_a_terminal_it_is_a_reload(start_gateway, origin):
    gateway = start_gateway(plain_config(origin))
    gateway.process.send_signal(signal.SIGHUP)
    processes.wait_until(lambda: reloads(gateway), 20, gateway.text)
    assert is_serving(gateway)


def test_an_ignored_signal_stays_ignored(start_on, terminal):
    gateway = start_on("nohup")
    os.close(terminal[0])
    gateway.process.send_signal(signal.SIGHUP)
    assert gateway.run("reload").returncode == 0
    assert is_serving(gateway) and not reloads(gateway)
    assert gateway.stop() == 0

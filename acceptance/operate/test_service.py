"""Under a service manager: what it is told, what the process hides, and the unit that comes with the gateway."""

import configparser
import re
import resource
import shutil
import socket
import subprocess
import time

import pytest
import requests
from harness.configs import plain_config
from harness.gateway import ROOT

UNIT = ROOT / "examples/deployments/authgateway.service"


class Manager:
    """Hears what is sent to NOTIFY_SOCKET."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)

    def next(self, seconds):
        self.socket.settimeout(seconds)
        return self.socket.recv(4096).decode()

    def is_silent(self, seconds):
        try:
            return not self.next(seconds)
        except TimeoutError:
            return True

    def drain(self):
        while not self.is_silent(0.001):
            pass


@pytest.fixture(params=["path", "abstract"])
def manager(request, short_folder):
    name = f"{short_folder}/notify"
    made = Manager(name if request.param == "path" else "\0" + name)
    made.name = name if request.param == "path" else "@" + name
    yield made
    made.socket.close()


def test_the_manager_is_told_of_the_start_the_life_and_the_stop(manager, make_gateway, origin):
    environment = {"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "1000000"}
    gateway = make_gateway(plain_config(origin), environment=environment).start()
    said = {manager.next(10) for _ in range(4)}
    assert said == {"READY=1", "WATCHDOG=1"}
    manager.drain()
    with gateway.halted():
        manager.drain()
        assert manager.is_silent(2), "a process that takes no turn reports nothing"
    assert manager.next(5) == "WATCHDOG=1"
    assert gateway.stop() == 0
    while (word := manager.next(5)) == "WATCHDOG=1":
        pass
    assert word == "STOPPING=1"


def test_without_a_watchdog_only_start_and_stop_are_told(manager, make_gateway, origin):
    gateway = make_gateway(plain_config(origin), environment={"NOTIFY_SOCKET": manager.name}).start()
    assert manager.next(10) == "READY=1" and manager.is_silent(2)
    assert gateway.stop() == 0
    assert manager.next(5) == "STOPPING=1"


def test_a_manager_that_is_gone_is_no_trouble(make_gateway, origin, short_folder):
    environment = {"NOTIFY_SOCKET": f"{short_folder}/nobody", "WATCHDOG_USEC": "200000"}
    gateway = make_gateway(plain_config(origin), environment=environment).start()
    time.sleep(0.5)
    assert requests.get(gateway.url + "/api/x", timeout=10).status_code == 200


def test_no_core_dump_is_written(start_gateway, origin):
    gateway = start_gateway(plain_config(origin))
    assert resource.prlimit(gateway.process.pid, resource.RLIMIT_CORE) == (0, 0)


def unit():
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(UNIT, encoding="utf-8")
    return parser["Service"]


def test_the_unit_limits_what_a_gateway_can_do():
    service = unit()
    expected = {
        "Type": "notify",
        "LimitCORE": "0",
        "ProtectKernelLogs": "yes",
        "ProtectHostname": "yes",
        "ProcSubset": "pid",
        "PrivateUsers": "yes",
    }
    assert {key: service.get(key) for key in expected} == expected
    assert service["WatchdogSec"] and service["TasksMax"] and service["MemoryMax"]
    # A later line of SystemCallFilter would be the only one that this parser sees.
    assert "SystemCallFilter=@system-service" in UNIT.read_text(encoding="utf-8").splitlines()


def test_the_exposure_of_the_unit_is_low():
    """Where systemd is not installed, the settings above have to do."""
    if shutil.which("systemd-analyze"):
        command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)]
        result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        exposure = re.search(r"Overall exposure level for .*: ([0-9.]+)", result.stdout)
        assert exposure and float(exposure[1]) <= 1.3, result

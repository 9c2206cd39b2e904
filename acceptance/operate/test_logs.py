"""The log: written beside the work, never in its way."""

import json
import os
import subprocess

import pytest
import requests
from harness import processes
from harness.configs import plain_config
from harness.gateway import BINARY


def test_a_refused_reload_waits_for_no_reader_either(make_gateway, origin):
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}})
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [BINARY, "run", "--config", str(gateway.file)],
        cwd=gateway.folder,
        env=processes.environment(),
        stdout=subprocess.DEVNULL,
        stderr=writer,
    )
    try:
        processes.wait_until(lambda: processes.is_listening(gateway.port), 20, "listening")
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(writer, True)
        gateway.file.write_text(gateway.file.read_text().replace('"auth"', '"oauth"'))
        result = gateway.run("reload", timeout=20)
        assert result.returncode == 3 and 'unknown key "oauth"' in result.stderr
    finally:
        process.kill()
        process.wait()
        os.close(writer)
        os.close(reader)


def test_a_log_that_nobody_reads_stops_nothing(make_gateway, origin):
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": "none"}}})
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [BINARY, "run", "--config", str(gateway.file), "--access-log"],
        cwd=gateway.folder,
        env=processes.environment(),
        stdout=subprocess.DEVNULL,
        stderr=writer,
    )
    os.close(writer)
    try:
        processes.wait_until(lambda: processes.is_listening(gateway.port), 20, "listening")
        with requests.Session() as session:
            # Far more lines than a pipe holds.
            for _ in range(1500):
                assert session.get(f"{gateway.url}/api/x", timeout=5).status_code == 200
        process.terminate()
        assert process.wait(10) == 0, "nor is the end waited for"
        received = b""
        while chunk := os.read(reader, 1 << 16):
            received += chunk
    finally:
        process.kill()
        os.close(reader)
    whole = received[: received.rindex(b"\n")].splitlines()
    assert all(json.loads(line)["message"] for line in whole)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_standard_file_that_is_closed_becomes_no_other(make_gateway, origin, closed):
    """A log line would go to a client, or into a database."""
    gateway = make_gateway(plain_config(origin))
    gateway.wrapper = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    gateway.start()
    assert requests.get(gateway.url + "/api/x", timeout=20).status_code == 200
    files = {number: os.readlink(f"/proc/{gateway.process.pid}/fd/{number}") for number in range(3)}
    assert all(name == "/dev/null" or name.startswith("pipe:") for name in files.values()), files
    assert all(files[int(word[0])] == "/dev/null" for word in closed.split())


def test_a_command_whose_output_is_closed_says_so():
    command = ["sh", "-c", 'exec "$@" 1>&-', "sh", BINARY, "version"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30, env=processes.environment())
    assert done.returncode == 1 and done.stderr == "authgateway: the output could not be written: Bad file descriptor\n"
    everything = ["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", BINARY, "version"]
    assert subprocess.run(everything, check=False, timeout=30, env=processes.environment()).returncode == 1


def test_every_line_is_json_also_of_warnings_and_refused_configurations(make_gateway, origin, tmp_path):
    """A collector of logs took the lines between them for faults."""
    gateway = make_gateway({"routes": {"api": {"upstream": origin.url, "auth": {"strategy": "bearer", "token": "x" * 24}}}})
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [BINARY, "run", "--config", str(gateway.file)],
            cwd=gateway.folder,
            env=processes.environment(),
            stdout=file,
            stderr=file,
        )
        try:
            processes.wait_until(lambda: b"Gateway started" in log.read_bytes(), 20, "serving")
            good = gateway.file.read_text()
            gateway.file.write_text(good.replace('"auth"', '"oauth"'))
            assert gateway.run("reload").returncode == 3
            gateway.file.write_text(good)
            assert gateway.run("reload").returncode == 0
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.wait()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    [warned] = [line for line in lines if line["message"] == "Configuration has warnings"][:1]
    assert warned["level"] == "warning" and "a secret in plain text" in warned["text"] and "x" * 24 not in str(lines)
    [started] = [line for line in lines if line["message"] == "Gateway started"]
    assert started["proxy"] == f"http://127.0.0.1:{gateway.port}" and started["version"], started
    [refused] = [line for line in lines if line["message"].startswith("Configuration refused")]
    assert 'unknown key "oauth"' in refused["text"] and "the running configuration was kept" in refused["text"]

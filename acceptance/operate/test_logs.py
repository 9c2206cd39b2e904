"""The log: written beside the work, never in its way."""

import json
import os
import subprocess

import requests
from harness import processes
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

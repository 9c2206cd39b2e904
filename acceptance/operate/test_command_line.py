"""What every command shares: short spellings, completions, the nearest word after a typing mistake, notes on empty
results, and progress on a terminal."""

import json
import os
import pty
import shutil
import socket
import subprocess

import pytest
from harness import processes
from harness.gateway import BINARY, command


def test_the_version_has_two_spellings(tmp_path):
    short = command("-v", cwd=tmp_path)
    assert (short.returncode, short.stderr) == (0, "") and short.stdout == command("--version", cwd=tmp_path).stdout
    # Behind a command it could be meant for a program.
    assert command("exec", "curl", "-v", cwd=tmp_path).returncode == 2


def test_json_has_two_spellings(tmp_path):
    short = command("version", "-o", "json", cwd=tmp_path)
    assert short.returncode == 0 and json.loads(short.stdout) == json.loads(command("version", "--json", cwd=tmp_path).stdout)
    assert command("version", "-o", "text", cwd=tmp_path).stdout == command("version", cwd=tmp_path).stdout
    unknown = command("version", "-o", "yaml", cwd=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "") and "text" in unknown.stderr and "json" in unknown.stderr, unknown
    assert command("version", "--json", "-o", "text", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    "words, meant",
    [
        (["chekc"], "Did you mean this?\n  authgateway check\n"),
        (["token", "lsit"], "Did you mean this?\n  authgateway token list\n"),
        (["audti", "tail"], "Did you mean this?\n  authgateway audit tail\n"),
        (["completoin", "bash"], "Did you mean this?\n  authgateway completion\n"),
        (["check", "--confg", "x.yaml"], "Did you mean '--config'?"),
        (["check", "--hlep"], "Did you mean this?\n  --help\n"),
        (["help", "chekc"], "Did you mean this?\n  authgateway check --help\n"),
        (["completion", "bahs"], "bash"),
    ],
    ids=" ".join,
)
def test_a_typing_mistake_is_told_what_was_meant(tmp_path, words, meant):
    wrong = command(*words, cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "") and meant in wrong.stderr, wrong


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completions_are_a_script_of_the_shell(tmp_path, shell):
    done = command("completion", shell, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and not done.stdout.startswith("#!"), done
    assert all(word in done.stdout for word in ("audit", "completion", "token-lifetime"))
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(done.stdout, encoding="utf-8")
        read = subprocess.run([shell, "-n", script], capture_output=True, text=True, timeout=60, check=False)
        assert (read.returncode, read.stderr) == (0, ""), read


# Empty results


def test_an_empty_result_is_said_on_standard_error(make_gateway):
    gateway = make_gateway({"tokens": {"store": "memory"}, "routes": {"api": {"upstream": "http://127.0.0.1:9", "auth": "none"}}}).start()
    empty = {
        ("token", "list"): "The configuration has no credential.\n",
        ("token", "clear", "--all"): "No credential has a token.\n",
        ("audit", "query", "--event", "renewed"): "no matching events\n",
        ("audit", "tail", "--event", "renewed"): "no matching events\n",
        ("audit", "export", "--failed"): "no matching events\n",
    }
    for words, note in empty.items():
        done = gateway.run(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", note), done
    # Programs get an empty list.
    for words in (("token", "list"), ("token", "clear", "--all")):
        done = gateway.run(*words, "-o", "json")
        assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, [], ""), done


# Progress


def errors_on_a_terminal(gateway, *arguments):
    """What the command writes to standard error, which is a terminal."""
    ours, theirs = pty.openpty()
    command = [BINARY, *arguments, "--config", str(gateway.file)]
    environment = processes.environment(TERM="xterm")
    process = subprocess.Popen(command, cwd=gateway.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    text = b""
    # Linux says EIO when the last writer is gone.
    try:
        while piece := os.read(ours, 4096):
            text += piece
    except OSError:
        pass
    os.close(ours)
    assert process.wait(30) == 1
    processes.end(process)
    return text.decode()


@pytest.fixture
def slow_doctor(make_gateway):
    """Its upstream does not answer, so `doctor` takes 5 seconds."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield make_gateway({"routes": {"api": {"upstream": f"https://127.0.0.1:{silent.getsockname()[1]}", "auth": "none"}}})


def test_long_work_shows_its_progress_and_takes_it_away(slow_doctor):
    shown = errors_on_a_terminal(slow_doctor, "doctor")
    lines = shown.split("\r")[1:]
    assert all(line.endswith("\x1b[K") for line in lines) and lines[-1] == "\x1b[K" and shown.endswith(lines[-1]), shown
    assert "Checking files, stores, servers and credentials: 5 of 6 parts (83 %), 2s" in shown
    # At most five times a second.
    assert 10 < len(lines) < 30


def test_programs_are_shown_no_progress(slow_doctor):
    assert errors_on_a_terminal(slow_doctor, "doctor", "--json") == ""
    assert slow_doctor.run("doctor").stderr == ""

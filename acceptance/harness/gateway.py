"""The gateway as a process, and its command line."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading

import requests

from . import outcomes, processes

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Where scripts/setup-tests unpacks servers and corpora.
CACHE = pathlib.Path(
    os.environ.get("AUTHGATEWAY_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "authgateway")
)
BINARY = os.environ.get("AUTHGATEWAY_BINARY", str(ROOT / ".build/release/authgateway"))


def command(*arguments, cwd, timeout=30, input=None, **changes):
    """Runs one subcommand to its end. A change of None removes a name from the environment."""
    done = subprocess.run(
        [BINARY, *map(str, arguments)],
        check=False,
        cwd=cwd,
        env=processes.environment(**changes),
        capture_output=True,
        text=True,
        timeout=timeout,
        input=input,
    )
    if arguments[:2] == ("audit", "verify") and done.returncode != 0:
        outcomes.note("audit verify failed")
    return done


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


#: The gateways that were started and may still run, of the test and of its module.
_started = []


def started():
    """Those; each that has ended is among them once more."""
    gateways = _started.copy()
    forget(gateway for gateway in gateways if gateway.process.poll() is not None)
    return gateways


def forget(gateways):
    gone = set(map(id, gateways))
    _started[:] = [gateway for gateway in _started if id(gateway) not in gone]


class Gateway:
    """A gateway in a folder of its own. `config` lacks the listeners and the state: they are added here.

    `admin` is the admin listener where it is not a port. `authz` of `config` goes to the listeners.
    """

    def __init__(self, folder, config, listeners=None, environment=None, admin=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = processes.free_port()
        self.admin_port = processes.free_port()
        self.admin = admin or {"address": f"127.0.0.1:{self.admin_port}"}
        self.file = self.folder / "gateway.yaml"
        self.environment = environment or {}
        #: What the gateway is started through, for example strace with its options.
        self.wrapper = []
        self.process = None
        #: Exit codes that a stop may find: of a program that was asked to stop, or what a test has done to it.
        self.expected_ends = {0}
        self.log = bytearray()
        self.configure(config, listeners)

    def configure(self, config, listeners=None):
        config = dict(config)
        engines = config.pop("authz", None)
        whole = {
            "version": 1,
            "state_directory": "./state",
            "listeners": {
                "proxy": [{"address": f"127.0.0.1:{self.port}"}, *(listeners or [])],
                "admin": self.admin,
                **({"authz": engines} if engines else {}),
            },
            **config,
        }
        # JSON is YAML.
        self.file.write_text(json.dumps(whole, indent=2), encoding="utf-8")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin_url(self):
        return f"http://127.0.0.1:{self.admin_port}"

    def start(self, *arguments, seconds=30):
        self.check_end()
        self.expected_ends = {0, -signal.SIGKILL} if self.is_killed_at_a_write else {0}
        self.process = subprocess.Popen(
            [*self.wrapper, BINARY, "run", "--config", str(self.file), *arguments],
            cwd=self.folder,
            env=processes.environment(**self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if all(gateway is not self for gateway in _started):
            _started.append(self)
        self.reader = threading.Thread(target=self._read_log, args=(self.process.stdout,), daemon=True)
        self.reader.start()
        processes.wait_until(self._has_answered, seconds, lambda: f"the gateway is ready; it said:\n{self.text()}")
        return self

    def _read_log(self, stream):
        while chunk := stream.read1(65536):
            self.log += chunk

    def _has_answered(self):
        if self.process.poll() is not None:
            self.reader.join(5)
            # A refused start is said here; of a crash the stop tells again.
            if self.process.returncode > 0:
                self.expected_ends = {self.process.returncode}
            raise AssertionError(f"the gateway ended with {self.process.returncode}:\n{self.text()}")
        try:
            # Not ready is an answer too: a credential may be broken on purpose.
            return self._readiness() in (200, 503)
        except (requests.RequestException, OSError, http.client.HTTPException):
            return False

    def _readiness(self):
        if "unix" not in self.admin and "tls" not in self.admin:
            return requests.get(f"{self.admin_url}/readyz", timeout=5).status_code
        return self.admin_socket("GET", "/readyz")[0]

    def admin_socket(self, method, path, **fields):
        """A request to the admin listener on its socket, or on the one beside a listener with TLS: the status and the text."""
        place = self.admin.get("unix") or str(self.folder / "state" / "admin.sock")
        connection = SocketConnection(place, 5)
        try:
            connection.request(method, path, headers=fields)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def text(self):
        return self.log.decode(errors="replace")

    def run(self, *arguments, **options):
        """A subcommand with this gateway's configuration, for example `run("audit", "verify")`."""
        return command(*arguments, "--config", self.file, cwd=self.folder, **self.environment, **options)

    @contextlib.contextmanager
    def halted(self):
        """Takes no turn, and then finds at once all that happened meanwhile."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            processes.wait_until(self.is_halted, 5, "every thread has stopped")
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def is_halted(self):
        """A thread goes on for a moment after the signal is sent."""
        stats = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/stat")
        return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats)

    def kill(self):
        self.check_end()
        self.expected_ends = {-signal.SIGKILL}
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.reader.join(5)

    @property
    def is_killed_at_a_write(self):
        """By harness/kill_at_write.c, or by strace."""
        return "KILL_AT_WRITE" in self.environment or any("signal=SIGKILL" in word for word in self.wrapper)

    def check_end(self):
        """A program that has ended by itself is a failure, also where a test was about to kill it or starts another one."""
        code = None if self.process is None else self.process.poll()
        if code is not None:
            self._require_expected(code)

    def _require_expected(self, code):
        if code not in self.expected_ends:
            outcomes.note(f"the gateway ended with {code}")
        assert code in self.expected_ends, f"the gateway ended with {code}:\n{self.text()}"

    def stop(self, seconds=40):
        """Asks to stop and returns the exit code, which has to be one of `expected_ends`."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"the gateway did not stop within {seconds} s:\n{self.text()}") from None
        self.reader.join(5)
        self.process.stdout.close()
        self._require_expected(self.process.returncode)
        return self.process.returncode

    def events(self, *filters):
        """The audit log through the command line, oldest first."""
        result = self.run("audit", "query", "--json", *filters)
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines() if line.strip()]

    def files(self):
        """Every file the gateway wrote, with its bytes."""
        found = {}
        for path in (self.folder / "state").rglob("*"):
            # A running gateway replaces files: one that has just been renamed is found under its new name.
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    found[path] = path.read_bytes()
        return found

"""A PostgreSQL server of the test, and PgBouncer in front of it. Both refuse to run as root."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess

from . import debian, processes

#: Who plays the server's user, when the tests run as root.
USER = 65534


def binaries():
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    assert found, "no PostgreSQL server is in /usr/lib/postgresql: run scripts/setup-tests"
    return found[-1].parent


def as_user():
    return {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}


class PostgreSQL:
    """Listens on a Unix socket in `folder`, whose path must be short, and on a port of 127.0.0.1."""

    def __init__(self, folder, authentication="trust", settings=(), tls=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = processes.free_port()
        self.settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            "fsync": "off",
            **dict(settings),
        }
        self.process = None
        if os.geteuid() == 0:
            os.chown(self.folder, USER, USER)
        self._run(binaries() / "initdb", "-D", self.folder / "data", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N")
        hosts = f"local all all trust\nhost all all 127.0.0.1/32 {authentication}\n"
        (self.folder / "data/pg_hba.conf").write_text(hosts, encoding="ascii")
        if tls:
            for name, source in zip(("server.crt", "server.key"), tls):
                path = self.folder / "data" / name
                shutil.copy(source, path)
                path.chmod(0o600)
                if os.geteuid() == 0:
                    os.chown(path, USER, USER)
            self.settings["ssl"] = "on"
        self.start()

    def _run(self, *command):
        environment = processes.environment(HOME=str(self.folder))
        subprocess.run(
            [str(word) for word in command], env=environment, cwd=self.folder, check=True, capture_output=True, timeout=60, **as_user()
        )

    def start(self):
        options = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        self.log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            [str(binaries() / "postgres"), "-D", str(self.folder / "data"), *options],
            env=processes.environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            **as_user(),
        )
        processes.wait_until(self._answers, 30, lambda: f"PostgreSQL answers: {(self.folder / 'log').read_text()}")

    def _answers(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.sql("select 1") == "1"

    def sql(self, statement, database="postgres", user="postgres"):
        command = [binaries() / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-p", self.port]
        command += ["-U", user, "-d", database, "-c", statement]
        done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=30)
        return done.stdout.strip()

    def database(self, name):
        self.sql(f"create database {name}")
        return self.url(name)

    def url(self, name, user="postgres"):
        """By the Unix socket."""
        return f"postgresql://{user}@/{name}?host={self.folder}&port={self.port}"

    def stop(self):
        """Fast: sessions end, and what was committed stays."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)
        self.log.close()

    def restart(self):
        self.stop()
        self.start()

    def _processes(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    @contextlib.contextmanager
    def halted(self):
        """Takes no turn: connections are accepted by the system, and nothing is answered."""
        halted = self._processes()
        for process in halted:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in halted:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)


class PgBouncer:
    """In transaction mode: each transaction may get another connection of the server."""

    def __init__(self, folder, server):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.port = processes.free_port()
        # The unpacked one is in a folder of the user who runs the tests.
        program = folder / "pgbouncer"
        shutil.copy(debian.binary("pgbouncer"), program)
        libraries = folder / "libraries"
        libraries.mkdir()
        for library in debian.UNPACKED.glob("usr/lib/*-linux-gnu/lib*.so*"):
            if library.name.startswith(("libcares", "libevent")):
                shutil.copy(library, libraries / library.name)
        (folder / "pgbouncer.ini").write_text(
            f"""[databases]
* = host={server.folder} port={server.port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
auth_type = any
pool_mode = transaction
default_pool_size = 4
unix_socket_dir =
logfile = {folder}/log
""",
            encoding="ascii",
        )
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, USER, USER)
        self.process = subprocess.Popen(
            [str(program), str(folder / "pgbouncer.ini")],
            env=processes.environment(LD_LIBRARY_PATH=str(libraries)),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **as_user(),
        )
        processes.wait_until(lambda: processes.is_listening(self.port), 20, lambda: (folder / "log").read_text())

    def url(self, name):
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}?sslmode=disable"

    def stop(self):
        processes.end(self.process)

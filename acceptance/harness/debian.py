"""Debian's nginx, HAProxy, tinyproxy and squid, unpacked by scripts/setup-tests, and gunicorn, each as a process with a configuration of the test."""

import os
import pathlib
import shutil
import subprocess
import sys

from . import processes
from .gateway import CACHE, ROOT

UNPACKED = CACHE / "debian"


def binary(name):
    return shutil.which(name) or str(next(UNPACKED.glob(f"usr/*bin/{name}")))


def environment():
    libraries = ":".join(map(str, UNPACKED.glob("usr/lib/*-linux-gnu")))
    return processes.environment(LD_LIBRARY_PATH=libraries)


class Server:
    def __init__(self, folder, command, port, scheme="http", **changes):
        self.folder = pathlib.Path(folder)
        self.port = port
        self.scheme = scheme
        self.log = (self.folder / "log").open("wb")
        self.process = subprocess.Popen(
            [str(word) for word in command],
            cwd=self.folder,
            env={**environment(), **changes},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        processes.wait_until(self._listens, 60, lambda: f"it listens: {self.text()}")

    def _listens(self):
        assert self.process.poll() is None, self.text()
        return processes.is_listening(self.port)

    def text(self):
        return (self.folder / "log").read_text(errors="replace")

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def stop(self):
        processes.end(self.process)
        self.log.close()


def nginx(folder, server, upstream=None, http="", scheme="http"):
    """`server` and `http` are directives of these blocks. `upstream` is the address of the upstream `next` with kept connections."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    port = processes.free_port()
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    group = f"upstream next {{ server {upstream}; keepalive 8; }}" if upstream else ""
    secure = "ssl" if scheme == "https" else ""
    (folder / "nginx.conf").write_text(
        f"""daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
        events {{ worker_connections 512; }}
        http {{
          {temporary} access_log off; default_type application/octet-stream; client_max_body_size 0; {group} {http}
          server {{ listen 127.0.0.1:{port} backlog=1024 {secure}; {server} }}
        }}""",
        encoding="ascii",
    )
    command = [binary("nginx"), "-p", folder, "-e", folder / "error.log", "-c", folder / "nginx.conf"]
    return Server(folder, command, port, scheme)


def haproxy(folder, backend, *options):
    """A front that passes everything on to the address `backend`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    port = processes.free_port()
    more = "\n          ".join(options)
    (folder / "haproxy.cfg").write_text(
        f"""
        global
          maxconn 2000
        defaults
          mode http
          timeout connect 5s
          timeout client 30s
          timeout server 30s
          option http-keep-alive
        frontend front
          bind 127.0.0.1:{port}
          default_backend next
        backend next
          http-reuse always
          {more}
          server one {backend}
""",
        encoding="ascii",
    )
    return Server(folder, [binary("haproxy"), "-db", "-f", folder / "haproxy.cfg"], port)


def tinyproxy(folder, user, password):
    """A proxy for clients, with a login."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    port = processes.free_port()
    options = f"Port {port}\nListen 127.0.0.1\nTimeout 60\nBasicAuth {user} {password}\n"
    (folder / "tinyproxy.conf").write_text(options, encoding="ascii")
    return Server(folder, [binary("tinyproxy"), "-d", "-c", folder / "tinyproxy.conf"], port)


def squid(folder, user, password, tls=None):
    """A proxy for clients, with a login; `tls` is the certificate and the key that clients are shown."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    port = processes.free_port()
    # basic_ncsa_auth knows what openssl and htpasswd write.
    hashed = ["openssl", "passwd", "-apr1", "-stdin"]
    hashed = subprocess.run(hashed, input=password, check=True, capture_output=True, text=True, timeout=30).stdout
    (folder / "users").write_text(f"{user}:{hashed}", encoding="ascii")
    secure = f"https_port 127.0.0.1:{port} tls-cert={tls[0]} tls-key={tls[1]}" if tls else f"http_port 127.0.0.1:{port}"
    share = UNPACKED / "usr/share/squid"
    (folder / "squid.conf").write_text(
        f"""
        {secure}
        visible_hostname squid.test
        pid_filename none
        cache deny all
        cache_log stdio:/dev/stderr
        access_log stdio:/dev/stdout
        coredump_dir {folder}
        mime_table {share}/mime.conf
        icon_directory {share}/icons
        error_directory {share}-langpack/templates
        unlinkd_program {UNPACKED}/usr/lib/squid/unlinkd
        pinger_enable off
        netdb_filename none
        shutdown_lifetime 0 seconds
        auth_param basic program {UNPACKED}/usr/lib/squid/basic_ncsa_auth {folder}/users
        auth_param basic children 1
        auth_param basic realm company
        acl known proxy_auth REQUIRED
        http_access allow known
        http_access deny all
""",
        encoding="ascii",
    )
    # It refuses to be root, and any other user could not read these folders: it is told that it is one.
    other = ["unshare", "--user", "--map-user=1000"] if os.geteuid() == 0 else []
    command = [*other, UNPACKED / "usr/sbin/squid", "-N", "-f", folder / "squid.conf"]
    return Server(folder, command, port, "https" if tls else "http")


def gunicorn(folder, application, *options, **changes):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    port = processes.free_port()
    # On a busy machine a worker may be silent for longer than the 30 s after which gunicorn kills it, with its requests.
    patience = ["--keep-alive", "30", "--timeout", "300"]
    command = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--threads", "4", *patience]
    module = str(ROOT / "acceptance/harness")
    return Server(folder, [*command, "--pythonpath", module, *options, application], port, **changes)

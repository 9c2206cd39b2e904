"""Debian's Apache with WebDAV and Subversion, behind Basic or Digest authentication."""

import base64
import hashlib
import pathlib

from . import processes
from .debian import Server

MODULES = ("mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "dav")


def apache(folder, user, password, locations, modules=(), more=(), certificate=None, key=None, digest=None, realms=()):
    """`locations` are the directives of each location, by its path; `more` are those of the server; `digest` are those of mod_auth_digest.

    `realms` are the paths of locations whose realm is their path, in place of `test`.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    port = processes.free_port()
    sha = base64.b64encode(hashlib.sha1(password.encode(), usedforsecurity=False).digest()).decode()
    (folder / "users").write_text(f"{user}:{{SHA}}{sha}\n", encoding="ascii")
    secure = f"SSLEngine on\nSSLCertificateFile {certificate}\nSSLCertificateKeyFile {key}" if certificate else ""
    loaded = (*MODULES, *modules, *(("ssl",) if certificate else ()), *(("auth_digest",) if digest is not None else ()))
    guard = f"AuthType Basic\nAuthBasicProvider file\nAuthUserFile {folder}/users\nRequire valid-user"
    if digest is not None:
        hashes = {realm: hashlib.md5(f"{user}:{realm}:{password}".encode(), usedforsecurity=False) for realm in ("test", *realms)}
        lines = [f"{user}:{realm}:{hashed.hexdigest()}\n" for realm, hashed in hashes.items()]
        (folder / "digests").write_text("".join(lines), encoding="ascii")
        guard = f"AuthType Digest\nAuthDigestProvider file\nAuthUserFile {folder}/digests\nRequire valid-user"
        guard = "\n".join([guard, *digest])
    (folder / "apache.conf").write_text(
        "\n".join(
            [
                f"ServerRoot {folder}",
                *(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in loaded),
                f"Listen 127.0.0.1:{port}",
                f"PidFile {folder}/pid",
                f"ErrorLog {folder}/errors",
                f"DocumentRoot {folder}",
                "ServerName localhost",
                "StartServers 1",
                f"Mutex file:{folder}",
                # Where root runs the tests.
                "User nobody",
                "Group nogroup",
                secure,
                *more,
                *(
                    f"<Location {path}>\nAuthName {path if path in realms else 'test'}\n{directives}\n{guard}\n</Location>"
                    for path, directives in locations.items()
                ),
            ]
        )
        + "\n",
        encoding="ascii",
    )
    scheme = "https" if certificate else "http"
    return Server(folder, ["apache2", "-X", "-d", folder, "-f", folder / "apache.conf"], port, scheme)

"""Clients that ask for what their servers' answers name: pages of a list, uploads, resources, packages."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile

import github
import pytest
from harness import debian, processes
from harness.apache import apache
from harness.clients import curl
from harness.configs import BEARER, CANARY
from harness.origin import response

ROBOT = {"strategy": "basic", "username": "robot", "password": CANARY}


@pytest.fixture
def served(short_folder):
    """Starts servers, some as another user."""
    made = []

    def start(make, *arguments, **options):
        made.append(make(short_folder / f"server-{len(made)}", *arguments, **options))
        return made[-1]

    yield start
    for server in made:
        server.stop()


def run(*command, folder, input="", **changes):
    return subprocess.run(
        [str(word) for word in command],
        check=False,
        cwd=folder,
        input=input,
        capture_output=True,
        text=True,
        timeout=60,
        env={**debian.environment(), "HOME": str(folder), **changes},
    )


# By path


def test_github_pages_through_the_gateway(start_gateway, origin):
    """PyGithub refuses links to another server than its own."""

    def answer(request):
        assert request.value("authorization") == f"Bearer {CANARY}"
        page = int(request.target.rpartition("page=")[2] if "page=" in request.target else 1)
        issues = [{"number": page, "title": f"issue {page}", "url": f"{origin.url}/v3/repos/a/b/issues/{page}"}]
        more = [f'Link: <{origin.url}/v3/repos/a/b/issues?page={page + 1}>; rel="next"'] if page < 3 else []
        return response(200, json.dumps(issues).encode(), *more).replace(b"text/plain", b"application/json")

    origin.answer = answer
    gateway = start_gateway({"routes": {"github": {"upstream": origin.url + "/v3", "auth": BEARER}}})
    client = github.Github(base_url=f"{gateway.url}/github", retry=None, lazy=True)
    issues = client.get_repo("a/b").get_issues()
    assert [issue.title for issue in issues] == ["issue 1", "issue 2", "issue 3"]


def image(folder):
    """An OCI image of one small layer."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(content, media_type):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": f"sha256:{digest}", "size": len(content)}

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as layer:
        entry = tarfile.TarInfo("hello")
        entry.size = 6
        layer.addfile(entry, io.BytesIO(b"hello\n"))
    raw = packed.getvalue()
    layer = blob(gzip.compress(raw, mtime=0), "layer.v1.tar+gzip")
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(raw).hexdigest()]},
    }
    manifest = {
        "schemaVersion": 2,
        "config": blob(json.dumps(config).encode(), "config.v1+json"),
        "layers": [layer],
    }
    index = {"schemaVersion": 2, "manifests": [blob(json.dumps(manifest).encode(), "manifest.v1+json")]}
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="ascii")
    (folder / "index.json").write_text(json.dumps(index), encoding="ascii")
    return folder


def registry(folder):
    """Debian's docker-registry. The hash is that of the canary."""
    folder.mkdir()
    port = processes.free_port()
    users = folder / "users"
    users.write_text("robot:$2b$04$jiEH35mkQdE/P954eS54/uNRCnB3iaI06g0oHaJghuH6z7EylNcmO\n", encoding="ascii")
    (folder / "registry.yaml").write_text(
        json.dumps(
            {
                "version": 0.1,
                "log": {"accesslog": {"disabled": True}},
                "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
                "http": {"addr": f"127.0.0.1:{port}", "secret": "of the uploads"},
                "auth": {"htpasswd": {"realm": "test", "path": str(users)}},
            }
        ),
        encoding="ascii",
    )
    command = [debian.binary("docker-registry"), "serve", folder / "registry.yaml"]
    return debian.Server(folder, command, port)


def test_skopeo_pushes_to_a_registry(start_gateway, served, tmp_path):
    """The registry names the URL of each upload."""
    server = served(registry)
    # The path of the protocol is that of the route.
    routes = {"registry": {"upstream": server.url + "/v2", "match": {"path": "/v2"}, "auth": ROBOT}}
    gateway = start_gateway({"routes": routes})
    name = f"127.0.0.1:{gateway.port}/team/hello:1"
    words = ("--insecure-policy", "copy", "--dest-no-creds", "--dest-tls-verify=false", f"oci:{image(tmp_path / 'image')}")
    done = run(debian.binary("skopeo"), *words, f"docker://{name}", folder=tmp_path)
    assert done.returncode == 0, done
    tags = json.loads(curl(f"{gateway.url}/v2/team/hello/tags/list").stdout)
    assert tags == {"name": "team/hello", "tags": ["1"]}


# By host and by interception


@pytest.fixture
def reached(start_gateway, certificate_authority):
    """The URL by which clients reach an upstream, and the port of the proxy and its authority where there is one."""

    def reached(server, intercepts):
        port = server.port
        route = {"auth": ROBOT}
        if intercepts:
            route |= {"upstream": f"https://localhost:{port}", "tls": {"ca": str(certificate_authority.certificate)}}
        else:
            route |= {"upstream": server.url, "match": {"hosts": ["localhost"]}, "rewrite": {"links": True}}
        proxy = processes.free_port()
        more = [{"address": f"127.0.0.1:{proxy}", "intercept": True}] if intercepts else None
        gateway = start_gateway({"routes": {"up": route}}, listeners=more)
        if not intercepts:
            return f"http://localhost:{gateway.port}", None, None
        return f"https://localhost:{port}", proxy, gateway.run("ca", "show", "--path").stdout.strip()

    return reached


@pytest.fixture
def pair(certificate_authority):
    def pair(intercepts):
        if not intercepts:
            return {}
        certificate, key = certificate_authority.issue("linked", "DNS:localhost,IP:127.0.0.1")
        return {"certificate": certificate, "key": key}

    return pair


@pytest.mark.parametrize("intercepts", [False, True], ids=["host", "intercepted"])
def test_subversion_checks_out_and_commits(reached, served, pair, tmp_path, short_folder, intercepts):
    repository = short_folder / "repository"
    assert run("svnadmin", "create", repository, folder=tmp_path).returncode == 0
    opened(repository)
    server = served(
        apache, "robot", CANARY, {"/svn": f"DAV svn\nSVNPath {repository}"}, modules=("dav_svn",), **pair(intercepts)
    )
    url, proxy, authority = reached(server, intercepts)
    options = {}
    if proxy:
        options = {"http-proxy-host": "127.0.0.1", "http-proxy-port": proxy, "ssl-authority-files": authority}
    settings = [word for name, value in options.items() for word in ("--config-option", f"servers:global:{name}={value}")]

    def svn(*words, folder=tmp_path):
        done = run("svn", *words, "--non-interactive", "--no-auth-cache", *settings, folder=folder)
        assert done.returncode == 0, done
        return done.stdout

    svn("mkdir", "-m", "begin", f"{url}/svn/trunk")
    svn("checkout", f"{url}/svn/trunk", "work")
    (tmp_path / "work/file").write_text("one\n", encoding="ascii")
    svn("add", "file", folder=tmp_path / "work")
    svn("commit", "-m", "first", folder=tmp_path / "work")
    # COPY with a Destination.
    svn("copy", "-m", "tag", f"{url}/svn/trunk", f"{url}/svn/tag")
    assert svn("cat", f"{url}/svn/tag/file") == "one\n"


def opened(folder):
    """For the user that Apache's processes are."""
    for path in (folder, *folder.rglob("*")):
        os.chmod(path, 0o777 if path.is_dir() else 0o666)


def test_cadaver_moves_and_copies(reached, served, tmp_path, short_folder):
    files = short_folder / "files"
    (files / "dav").mkdir(parents=True)
    opened(files)
    locks = f"DavLockDB {files}/locks"
    server = served(apache, "robot", CANARY, {"/dav": "DAV On"}, modules=("dav_fs",), more=(locks,))
    (server.folder / "dav").symlink_to(files / "dav")
    url, *_ = reached(server, False)
    (tmp_path / "one").write_text("one\n", encoding="ascii")
    script = f"open {url}/dav/\nput one\ncopy one two\nmove one three\nls\nquit\n"
    done = run("cadaver", folder=tmp_path, input=script)
    assert sorted(path.name for path in (files / "dav").iterdir()) == ["three", "two"], done


@pytest.mark.parametrize("intercepts", [False, True], ids=["host", "intercepted"])
def test_rclone_lists_and_copies(make_gateway, names, served, certificate_authority, tmp_path, short_folder, intercepts):
    """It takes no proxy for names of this machine, so the server has another one."""
    files = short_folder / "files"
    (files / "dav").mkdir(parents=True)
    opened(files)
    names.addresses = {"dav.test": ["127.0.0.1"]}
    certificate, key = certificate_authority.issue("dav", "DNS:dav.test")
    secure = {"certificate": certificate, "key": key} if intercepts else {}
    locks = f"DavLockDB {files}/locks"
    server = served(apache, "robot", CANARY, {"/dav": "DAV On"}, modules=("dav_fs",), more=(locks,), **secure)
    (server.folder / "dav").symlink_to(files / "dav")
    upstream = f"{server.scheme}://dav.test:{server.port}"
    proxy = f"127.0.0.1:{processes.free_port()}"
    route = {"upstream": upstream, "auth": ROBOT}
    if intercepts:
        route["tls"] = {"ca": str(certificate_authority.certificate)}
    else:
        route |= {"match": {"hosts": ["localhost"]}, "rewrite": {"links": True}, "allow_plaintext": True}
    gateway = make_gateway({"routes": {"dav": route}}, listeners=[{"address": proxy, "intercept": True}] if intercepts else None)
    gateway.wrapper = names.wrapper()
    gateway.start()
    options = ["--config", "/dev/null", "--webdav-vendor", "other", "--retries", "1"]
    if intercepts:
        options += ["--webdav-url", f"{upstream}/dav", "--ca-cert", gateway.run("ca", "show", "--path").stdout.strip()]
    else:
        options += ["--webdav-url", f"http://localhost:{gateway.port}/dav"]

    def rclone(*words):
        done = run(debian.binary("rclone"), *words, *options, folder=tmp_path, **({"HTTPS_PROXY": f"http://{proxy}"} if intercepts else {}))
        assert done.returncode == 0, done
        return done.stdout

    (tmp_path / "one").write_text("one\n", encoding="ascii")
    rclone("copy", "one", ":webdav:folder")
    # COPY and MOVE with a Destination.
    rclone("copyto", ":webdav:folder/one", ":webdav:two")
    rclone("moveto", ":webdav:folder/one", ":webdav:folder/three")
    assert sorted(rclone("lsf", "-R", ":webdav:").split()) == ["folder/", "folder/three", "two"]
    assert rclone("cat", ":webdav:folder/three") == "one\n"


def wheel(folder):
    folder.mkdir()
    name = "linked_example-1.0"
    parts = {
        "linked_example.py": "here = True\n",
        f"{name}.dist-info/METADATA": "Metadata-Version: 2.1\nName: linked-example\nVersion: 1.0\n",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as archive:
        for path, text in parts.items():
            archive.writestr(path, text)
    return folder


@pytest.mark.parametrize("intercepts", [False, True], ids=["host", "intercepted"])
def test_pip_installs_from_an_index(reached, served, pair, tmp_path, intercepts):
    made = pair(intercepts)
    options = ("--certfile", made["certificate"], "--keyfile", made["key"]) if made else ()
    variables = {"INDEX_USER": "robot", "INDEX_PASSWORD": CANARY, "INDEX_FOLDER": str(wheel(tmp_path / "packages"))}
    server = served(debian.gunicorn, "pypi_server:application", *options, **variables)
    url, proxy, authority = reached(server, intercepts)
    words = ("--proxy", f"http://127.0.0.1:{proxy}", "--cert", authority) if proxy else ("--trusted-host", "localhost")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--isolated", "--no-cache-dir", "--no-input")
    done = run(*pip, "download", "--no-deps", "--index-url", f"{url}/simple", *words, "linked-example", folder=tmp_path)
    assert done.returncode == 0 and (tmp_path / "linked_example-1.0-py3-none-any.whl").exists(), done

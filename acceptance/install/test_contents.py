"""What comes with the program: man pages, completions, the bill of materials, and nothing of the machine that built it."""

import gzip
import json
import os
import re
import shutil
import subprocess

import pytest
from harness.gateway import BINARY, CACHE, ROOT, command
from harness.packages import run


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What `make install` lays out."""
    folder = tmp_path_factory.mktemp("installed")
    run("make", "install", f"DESTDIR={folder}", "PREFIX=/opt/gateway", cwd=ROOT, env={**os.environ, "AUTHGATEWAY_BINARY": BINARY})
    return folder


def test_each_command_has_a_man_page_without_a_mistake(installed, tmp_path):
    parser = json.loads(command("--experimental-dump-help", cwd=tmp_path).stdout)["command"]

    def names(node, above=()):
        path = (*above, node["commandName"])
        yield "-".join(path)
        for child in node.get("subcommands", []):
            if child["commandName"] != "help":
                yield from names(child, path)

    pages = {page.name.removesuffix(".1.gz"): page for page in (installed / "opt/gateway/share/man/man1").iterdir()}
    assert sorted(pages) == sorted(names(parser))
    plain = []
    for name, page in pages.items():
        plain.append(tmp_path / f"{name}.1")
        plain[-1].write_bytes(gzip.decompress(page.read_bytes()))
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *plain], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    shown = run("mandoc", "-T", "utf8", tmp_path / "authgateway-audit-tail.1")
    shown = re.sub(r".\x08", "", shown)
    assert "authgateway audit tail -f -n 50 --credential box-service" in shown, "examples stand as they are typed"
    assert "--follow" in shown and "‐‐follow" not in shown, "options are typed with plain hyphens"
    shown = re.sub(r".\x08", "", run("mandoc", "-T", "utf8", tmp_path / "authgateway.1"))
    assert "-v, --version" in shown and "authgateway run --sandbox" in shown
    assert [name for name, page in pages.items() if b".SH EXAMPLES" not in gzip.decompress(page.read_bytes())] == []


COMPLETIONS = {
    "bash": "bash-completion/completions/authgateway",
    "zsh": "zsh/site-functions/_authgateway",
    "fish": "fish/vendor_completions.d/authgateway.fish",
}


@pytest.mark.parametrize("shell", COMPLETIONS)
def test_the_command_prints_the_completions_that_are_installed(installed, shell, tmp_path):
    script = command("completion", shell, cwd=tmp_path)
    assert (script.returncode, script.stderr) == (0, ""), script
    file = installed / "opt/gateway/share" / COMPLETIONS[shell]
    assert file.read_text(encoding="utf-8") == script.stdout


def test_bash_completes_commands_and_options(installed):
    file = installed / "opt/gateway/share/bash-completion/completions/authgateway"
    script = f"""
        source {file}
        complete -p authgateway
        COMP_WORDS=(authgateway tok) COMP_CWORD=1 COMP_LINE='authgateway tok' COMP_POINT=15 COMP_TYPE=9
        $(complete -p authgateway | sed -E 's/.*-F ([^ ]+).*/\\1/') authgateway tok authgateway
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert "token" in run("bash", "-c", script, env={**os.environ, "PATH": f"{installed}/opt/gateway/bin:{os.environ['PATH']}"}).split()


def test_the_unit_starts_the_program_that_was_installed(installed):
    unit = (installed / "opt/gateway/lib/systemd/system/authgateway.service").read_text(encoding="utf-8")
    assert "\nExecStart=/opt/gateway/bin/authgateway run --strict-modes --config /etc/authgateway/gateway.yaml\n" in unit
    assert (installed / "etc/authgateway/gateway.yaml").exists() and (installed / "etc/authgateway/secrets").is_dir()


def test_the_unit_of_a_user_starts_the_program_that_was_installed(installed):
    file = installed / "opt/gateway/lib/systemd/user/authgateway.service"
    text = file.read_text(encoding="utf-8")
    assert "\nExecStart=/opt/gateway/bin/authgateway run --strict-modes --config %E/authgateway/gateway.yaml\n" in text
    if not shutil.which("systemd-analyze"):
        return
    # Without a user's manager: the file is checked against the program that is there.
    file.write_text(text.replace("/opt/gateway", f"{installed}/opt/gateway"), encoding="utf-8")
    said = run("systemd-analyze", "--user", "--man=no", "verify", file, env={**os.environ, "XDG_RUNTIME_DIR": str(installed)})
    assert said.strip() == ""


def test_a_configuration_that_is_there_stays(installed):
    file = installed / "etc/authgateway/gateway.yaml"
    file.write_text("mine", encoding="utf-8")
    run("make", "install", f"DESTDIR={installed}", "PREFIX=/opt/gateway", cwd=ROOT, env={**os.environ, "AUTHGATEWAY_BINARY": BINARY})
    assert file.read_text(encoding="utf-8") == "mine"


def test_the_bill_of_materials_names_every_package_with_its_licence(dist):
    (file,) = dist.glob("*.cdx.json")
    document = json.loads(file.read_text(encoding="utf-8"))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    found = {component["name"]: component for component in document["components"]}
    pins = dict(re.findall(r'url: "[^"]*/([^"/]+)", exact: "([^"]+)"', (ROOT / "Package.swift").read_text(encoding="utf-8")))
    assert len(pins) > 10 and {name: found[name]["version"] for name in pins} == pins
    assert all(component["licenses"] and component["version"] for component in found.values())
    assert {"libsqlite3-0", "libyaml-0-2", "libc6", "boringssl", "swift"} <= set(found)
    references = [component["bom-ref"] for component in document["components"]]
    assert len(references) == len(set(references)) and document["dependencies"][0]["dependsOn"] == references


def test_a_release_says_which_commit_it_is_and_holds_no_path(tmp_path):
    version = json.loads(command("version", "--json", cwd=tmp_path).stdout)
    assert re.fullmatch(r"\d+\.\d+\.\d+", version["version"])
    if version["build"]["configuration"] == "debug":
        assert "commit" not in version and version["build"]["profile"] is False
        return
    assert re.fullmatch(r"[0-9a-f]{40}(-modified)?", version["commit"]) and version["commit_date"].endswith("Z")
    assert version["build"]["toolchain"].startswith("swift-") and version["build"]["target"]
    with open(BINARY, "rb") as file:
        content = file.read()
    assert str(CACHE).encode() not in content and str(ROOT).encode() not in content

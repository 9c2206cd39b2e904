"""docs/install.md works as it stands there, with the files of a release made of the program under test."""

import pytest
from harness import documents

PAGE = "docs/install.md"
#: They stand for what the machine lacks. Units are looked for, and not started.
COMMANDS = {
    "sudo": 'exec "$@"\n',
    "systemctl": 'for unit; do case $unit in authgateway*)\n'
    '    ls "/usr/lib/systemd/system/$unit" "/usr/lib/systemd/system/$unit.service" 2>/dev/null | grep . || exit 1\n'
    "esac done\n",
}


def test_the_page_works_from_top_to_bottom(dist, tmp_path):
    documents.run_page(PAGE, tmp_path, files=dist.iterdir())


@pytest.mark.root
def test_the_commands_install_and_check_the_package(machine, debian_package):
    for name, text in COMMANDS.items():
        program = machine.path(f"/usr/local/bin/{name}")
        program.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
        program.chmod(0o755)
    machine.path(f"/tmp/{debian_package.name}").write_bytes(debian_package.read_bytes())
    blocks = [block for block in documents.blocks(PAGE) if "test" in block.options]
    assert len(blocks) == 3
    for block in blocks:
        machine.run("sh", "-ec", f"cd /tmp\nPATH=/usr/local/bin:$PATH\n{block.text}")
    # The README has the same command.
    (readme,) = [block for block in documents.blocks("README.md") if "test" in block.options]
    assert readme.text == blocks[0].text

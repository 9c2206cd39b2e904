"""docs/presets.md lists the presets of the program."""

from harness import golden, preset_page


def test_the_page_is_what_the_program_says():
    advice = "write it again: python acceptance/harness/preset_page.py"
    assert preset_page.PAGE.read_text(encoding="utf-8") == preset_page.page(preset_page.known()), advice


def test_the_program_has_the_presets_of_the_folder():
    assert [preset["name"] for preset in preset_page.known()] == sorted(golden.presets())

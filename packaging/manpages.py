#!/usr/bin/env python3
"""Writes a man page for each command, from what the argument parser says: manpages.py PROGRAM FOLDER DATE.

PROGRAM answers `--experimental-dump-help`. The pages are named after the commands, as those of git: authgateway-audit-tail.1.
"""

import json
import pathlib
import re
import subprocess
import sys

#: What the parser does not know, for the page of the program itself.
MORE = r"""
.SH EXIT STATUS
.IP 0 4
done
.IP 1 4
failed
.IP 2 4
wrong usage
.IP 3 4
the configuration has an error
.IP 4 4
no gateway answers
.IP 5 4
the audit log is broken
.SH ENVIRONMENT
.TP
.B AUTHGATEWAY_CONFIG
The configuration file, where \fB\-\-config\fR names none.
.TP
.B NO_COLOR
Set to anything: no colours.
.SH FILES
.TP
.I gateway.yaml
The configuration in the current folder.
.TP
.I /etc/authgateway/gateway.yaml
The configuration that the systemd unit serves.
.TP
.I /var/lib/authgateway
What that service keeps: tokens, keys and the audit log.
"""


def escaped(text):
    """Text as roff shows it: what is typed stays as it is, so that it can be copied."""
    for plain, roff in (("\\", r"\e"), ("-", r"\-"), ("'", r"\(aq"), ("`", r"\(ga"), ("^", r"\(ha"), ("~", r"\(ti")):
        text = text.replace(plain, roff)
    return re.sub(r"^\.", r"\\&.", text, flags=re.MULTILINE)


def option_names(argument):
    names = [("-" if name["kind"] == "short" else "--") + name["name"] for name in argument["names"]]
    return sorted(names, key=len)


def listed(path, command):
    """The arguments that a page lists. Only the program itself takes -v, which the parser does not know."""
    for argument in shown(command):
        if len(path) == 1 and argument["valueName"] == "version":
            argument = {**argument, "names": [{"kind": "short", "name": "v"}, *argument["names"]]}
        yield argument


def value(argument):
    return r"\fI" + escaped(argument["valueName"]) + r"\fR"


def shown(command):
    return [argument for argument in command.get("arguments", []) if argument["shouldDisplay"]]


def synopsis(path, command):
    words = [r"\fB" + escaped(" ".join(path)) + r"\fR"]
    for argument in shown(command):
        # Every command has these, as every page says.
        if argument["valueName"] in ("help", "version"):
            continue
        if argument["kind"] == "positional":
            word = value(argument) + (" ..." if argument["isRepeating"] else "")
            if argument["parsingStrategy"] == "postTerminator":
                word = r"\-\- " + word
        else:
            word = r"\fB" + escaped(option_names(argument)[-1]) + r"\fR"
            if argument["kind"] == "option":
                word += " " + value(argument)
        words.append(f"[{word}]" if argument["isOptional"] else word)
    if command.get("subcommands"):
        words.append(r"\fIcommand\fR")
    return " ".join(words)


def verbatim(lines):
    return [".RS 4", ".nf", *(escaped(line) for line in lines), ".fi", ".RE"]


def parts(discussion):
    """Description and examples, as lines of roff."""
    description, examples = [], []
    for paragraph in re.split(r"\n\s*\n", discussion.strip("\n")):
        lines = paragraph.split("\n")
        if lines == [""]:
            continue
        into = description
        if re.fullmatch(r"Examples?:", lines[0]):
            into, lines = examples, lines[1:]
        # A section begins with a paragraph anyway.
        if into is description or into:
            into.append(".PP")
        indented = []
        for line in [*lines, ""]:
            if line.startswith("  "):
                indented.append(line[2:])
                continue
            if indented:
                into += verbatim(indented)
                indented = []
            if line:
                into.append(escaped(line))
    return description, examples


def entries(title, arguments, name):
    if not arguments:
        return []
    lines = [f".SH {title}"]
    for argument in arguments:
        words = argument.get("abstract", "")
        if "defaultValue" in argument:
            words += f" (default: {argument['defaultValue']})"
        lines += [".TP", name(argument), escaped(words.strip())]
    return lines


def option_heading(argument):
    names = ", ".join(r"\fB" + escaped(name) + r"\fR" for name in option_names(argument))
    return names + (" " + value(argument) if argument["kind"] == "option" else "")


def page(path, command, date, version):
    name = "-".join(path)
    described, examples = parts(command.get("discussion", ""))
    arguments = list(listed(path, command))
    subcommands = [each for each in command.get("subcommands", []) if each["shouldDisplay"] and each["commandName"] != "help"]
    # The first letter is small, as man pages have it, unless it is an abbreviation.
    abstract = command["abstract"].rstrip(".")
    small = abstract if abstract[1:2].isupper() else abstract[0].lower() + abstract[1:]
    lines = [f'.TH "{name.upper()}" 1 "{date}" "authgateway {version}" "AuthGateway"']
    lines += [".SH NAME", escaped(f"{name}") + r" \- " + escaped(small)]
    lines += [".SH SYNOPSIS", synopsis(path, command), ".SH DESCRIPTION", escaped(command["abstract"]), *described]
    if subcommands:
        lines.append(".SH COMMANDS")
        for each in subcommands:
            target = escaped("-".join([*path, each["commandName"]]))
            lines += [".TP", rf"\fB{target}\fR(1)", escaped(each["abstract"])]
    lines += entries("ARGUMENTS", [each for each in arguments if each["kind"] == "positional"], value)
    lines += entries("OPTIONS", [each for each in arguments if each["kind"] != "positional"], option_heading)
    if examples:
        lines += [".SH EXAMPLES", *examples]
    if len(path) == 1:
        lines += MORE.strip("\n").split("\n")
    else:
        lines += [".SH SEE ALSO", rf"\fB{escaped('-'.join(path[:-1]))}\fR(1)"]
    return name, "\n".join(lines) + "\n"


def pages(path, command, date, version):
    path = [*path, command["commandName"]]
    yield page(path, command, date, version)
    for subcommand in command.get("subcommands", []):
        if subcommand["shouldDisplay"] and subcommand["commandName"] != "help":
            yield from pages(path, subcommand, date, version)


def main(program, folder, date):
    def output(*arguments):
        return subprocess.run([program, *arguments], check=True, capture_output=True, text=True, timeout=60).stdout

    version = output("version").split()[1]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages([], json.loads(output("--experimental-dump-help"))["command"], date, version):
        (folder / f"{name}.1").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

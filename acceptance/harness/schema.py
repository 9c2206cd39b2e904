"""The JSON Schema of the configuration: what it offers at each place."""

import functools
import json
import re

import jsonschema

from .gateway import ROOT

SCHEMA = json.loads((ROOT / "schema/gateway.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
#: Values from the environment.
VARIABLE = SCHEMA["$defs"]["variable"]
#: What stands for any value in an example: … or NAME.
PLACEHOLDER = re.compile(r"…|[A-Z]+")


def forms(schema, value=None):
    """The alternatives of a schema, without references. For a mapping with a strategy, only those of the strategy."""
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "else" in schema and "properties" in schema:
        # A route: with a preset, or with all that it needs.
        whole = {key: part for key, part in schema.items() if key not in ("if", "then", "else")}
        properties = {**schema["properties"], **schema["else"]["properties"]}
        return [{**whole, "required": ["preset"]}, {**whole, **schema["else"], "properties": properties}]
    if "else" in schema:
        preset = {"type": "object", "required": ["preset"], **schema["then"]}
        return [preset, *forms(schema["else"], value)]
    if "anyOf" in schema:
        return [form for option in schema["anyOf"] for form in forms(option, value)]
    if "allOf" not in schema:
        return [schema]
    kind = value.get("strategy") if isinstance(value, dict) else None
    whole = []
    for choice in schema["allOf"]:
        name = choice["if"]["properties"]["strategy"]["const"]
        [own] = forms(choice["then"])
        if kind in (None, name):
            properties = {**schema["properties"], **own["properties"], "strategy": {"const": name}}
            required = [*schema["required"], *own.get("required", [])]
            whole.append({"type": "object", "properties": properties, "required": required, "additionalProperties": False})
    return whole


def of_key(form, key):
    """The schema of a key in a mapping, or None."""
    return form.get("properties", {}).get(key) or form.get("additionalProperties") or None


def mapping_forms(schema, value):
    """The alternatives for this mapping: those whose required keys it has, otherwise all."""
    all_forms = [form for form in forms(schema, value) if form.get("type") == "object"]
    return [form for form in all_forms if set(form.get("required", [])) <= set(value)] or all_forms


def places(value, schema=SCHEMA, path=()):
    """Every place of a configuration, with its value and its schema. The first is the whole configuration."""
    yield path, value, schema
    if isinstance(value, list):
        items = next((form["items"] for form in forms(schema) if form.get("type") == "array" and "items" in form), {})
        for index, element in enumerate(value):
            yield from places(element, items, (*path, index))
    if isinstance(value, dict):
        for key, element in value.items():
            known = [of_key(form, key) for form in mapping_forms(schema, value)]
            yield from places(element, next((one for one in known if one), {}), (*path, key))


@functools.cache
def all_keys():
    """All keys, each with the schemas that it has at different places."""
    found = {}

    def walk(node):
        if isinstance(node, dict):
            for key, value in node.get("properties", {}).items() if isinstance(node.get("properties"), dict) else ():
                found.setdefault(key, []).append(value)
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(SCHEMA)
    return found


# Parts of configurations, as documents show them


def wrong_keys(part):
    """A sentence about a key or a value of this part that the schema allows nowhere, or None."""
    for key, inner in part.items():
        if key not in all_keys():
            return f"{key} is no key of the configuration"
        if not any(fits(inner, schema, key) for schema in all_keys()[key]):
            return f"{key} cannot be {json.dumps(inner, ensure_ascii=False)}"
    return None


def wrong_place(part):
    """As `wrong_keys`, for the way from the top of a document to one key, or for what stands at its end."""
    wrong = first = wrong_keys(part)
    while wrong and len(part) == 1 and isinstance(next(iter(part.values())), dict):
        part = next(iter(part.values()))
        wrong = wrong_keys(part)
    return wrong and first


def is_placeholder(value):
    """A key without a value (None) is one, too."""
    return value is None or (isinstance(value, str) and PLACEHOLDER.fullmatch(value))


def fits(value, schema, key):
    """Whether the schema allows the value of this key, apart from keys that are missing."""
    if is_placeholder(value):
        return True
    known = value
    if isinstance(value, dict):
        known = {name: inner for name, inner in value.items() if not is_placeholder(inner)}
    return any(fits_form(value, form, key) for form in forms(schema, known))


def fits_form(value, form, key):
    if not form.keys() - {"description", "default", "examples"}:
        return True
    if isinstance(value, list):
        return form.get("type") == "array" and all(fits(element, form["items"], key) for element in value if "items" in form)
    if not isinstance(value, dict):
        return bool({"type", "enum", "const"} & form.keys()) and jsonschema.Draft202012Validator(form).is_valid(value)
    if form.get("type") != "object":
        return False
    if "properties" not in form and not form.get("additionalProperties"):
        # The schema has the details of this key at other places.
        others = [form for schema in all_keys()[key] for form in forms(schema, value) if "properties" in form]
        return not others or any(fits_form(value, other, key) for other in others)
    return all(isinstance(of_key(form, name), dict) and fits(inner, of_key(form, name), name) for name, inner in value.items())

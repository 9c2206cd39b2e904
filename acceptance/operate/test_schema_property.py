"""Schema and decoder say the same: configurations that one refuses for their form, the other refuses, too.

The schema knows keys and spellings only. What values mean together is for the decoder alone, so a configuration that the schema
accepts may still be refused. It may not be refused for its form: an unknown key, a missing key, a value of the wrong type.
"""

import copy
import json
import re
import string

import pytest
from harness import examples
from harness.gateway import ROOT, command
from harness.schema import SCHEMA, VALIDATOR, VARIABLE, all_keys, forms, mapping_forms, places
from hypothesis import event, given, settings
from hypothesis import strategies as st

#: What the decoder says about the form of a configuration.
FORM = re.compile(
    r"unknown key |missing key \"[^\"]+\"$"
    r"|expected a (mapping|sequence|scalar|string|secret|whole number)\b|expected a name or a mapping"
    r"|expected true or false|expected one of |expected a duration |expected a size |expected a percentage "
    r"|must be between -?\d+ and \d+$|.* is not supported by this version"
)

#: Where the form depends on more than the schema knows: the place, the decoder's words, and the reason.
LEFT_TO_THE_DECODER = [
    (
        r"routes\.[\w.-]+\.auth\.subject(\..*)?",
        "(unknown|missing) key |expected ",
        "the schema does not know which credential the route names, nor what that one takes for a subject",
    ),
    (
        ".*",
        'unknown key "(private_key|passphrase|key_id|algorithm|audience|certificate)"',
        "what proves a client depends on `client_auth`, which may be wrong itself",
    ),
    ("", 'missing key "routes"$', "`include` may bring the routes"),
    ("tokens", 'missing key "(command|url)"$', "only `store: command` and `store: postgres` need it, and the schema has no such conditions"),
    (
        r"listeners\.\w+(\[\d+\])?\.tls",
        'missing key "(certificate|private_key)"$',
        "a listener with `ca: local` needs neither, and the schema has no such conditions",
    ),
    (
        r"credentials\.[\w.-]+|routes\.[\w.-]+\.auth",
        'missing key "(client_id|client_secret|key_id|private_key|assertion|tls)"$',
        "`box_jwt` takes them from `app_settings`, and OAuth strategies want what `client_auth` says",
    ),
    (
        r"credentials\.[\w.-]+|routes\.[\w.-]+\.auth",
        'missing key "(access_key_id|secret_access_key|assume_role)"$',
        "`aws_sigv4` needs no access key beside `credential_process`, `parent` or `web_identity`",
    ),
    (
        r"credentials\.[\w.-]+|routes\.[\w.-]+\.auth",
        'missing key "(key|claims|parent|token_url)"$',
        "`oauth2_jwt_bearer` needs none of them beside `assertion`, nor `oauth2_token_exchange` a parent beside `subject_token`",
    ),
    (
        r"(credentials\.[\w.-]+|routes\.[\w.-]+\.auth)\.initial",
        "unknown key ",
        "the steps of a recipe say what it keeps",
    ),
]

EXAMPLES = {path.stem + "@" + path.parent.name: examples.load(path) for path in examples.whole()}


# Configurations


def at(document, path):
    for part in path:
        document = document[part]
    return document


def replaced(document, path, value):
    document = copy.deepcopy(document)
    if not path:
        return value
    at(document, path[:-1])[path[-1]] = value
    return document


# What to write


def scalars_by_key(value, key=None):
    if isinstance(value, dict):
        for name, element in value.items():
            yield from scalars_by_key(element, name)
    elif isinstance(value, list):
        for element in value:
            yield from scalars_by_key(element, key)
    else:
        yield key, value


def collected():
    """From the examples: what stands behind each key, and all keys."""
    texts, keys = {}, set()
    for document in EXAMPLES.values():
        for key, value in scalars_by_key(document):
            texts.setdefault(key, []).append(value)
        for _, value, _ in places(document):
            keys.update(value if isinstance(value, dict) else ())
    return texts, keys


TEXTS, KEYS = collected()
#: Keys of the schema and of the examples, words that the documentation sets in code, and texts that the decoders ask for.
VOCABULARY = sorted(
    KEYS
    | set(all_keys())
    | {
        word
        for page in [ROOT / "docs/configuration.md", *(ROOT / "docs/strategies").glob("*.md")]
        for word in re.findall(r"`([a-z][a-z0-9_]{2,})`", page.read_text(encoding="utf-8"))
    }
    | {
        word
        for folder in ["GatewayStrategies", "GatewayConfiguration/Fields", "GatewayTokens/Configuration", "GatewayProxy/Plan", "GatewayApp/Plan", "GatewayApp/Schema"]
        for path in (ROOT / "Sources" / folder).rglob("*.swift")
        for word in re.findall(r'\b(?:string|scalar|has|fields|node|elements|secret|choice|know)\("([a-z0-9_]+)"', path.read_text(encoding="utf-8"))
    }
)
#: So many problems the program shows.
SHOWN = 100
#: How it says that a key has no business where it stands.
REFUSED_KEY = re.compile(r'^(?:unknown key )?"([^"]+)" ?(?=has no effect|is not supported|;|$)')
NAMES = st.sampled_from(["one", "two.b", "Three_3"])


def texts(key):
    return st.sampled_from([*TEXTS.get(key, []), "x", "two words", 7, 1.5, True])


def values(schema, key=None, depth=0):
    """Anything that the schema accepts, but for variables: what they hold is not the schema's matter."""
    return st.deferred(lambda: st.one_of([value(form, key, depth) for form in forms(schema) if form != VARIABLE]))


def value(form, key, depth):
    if "const" in form:
        return st.just(form["const"])
    if "enum" in form:
        return st.sampled_from(form["enum"])
    kind = form.get("type")
    if kind == "object":
        return mapping(form, depth)
    if kind == "array":
        return st.lists(values(form.get("items", {}), key, depth + 1), max_size=2)
    if kind == "integer":
        return st.integers(form["minimum"], form.get("maximum", 1 << 40))
    if kind == "boolean":
        return st.booleans()
    if "pattern" in form:
        return st.from_regex(form["pattern"], fullmatch=True, alphabet=string.ascii_letters + string.digits + "%.-_")
    if kind:
        return texts(key).filter(lambda text: isinstance(text, str) or kind != "string")
    return texts(key) | st.lists(texts(key), max_size=2)


def mapping(form, depth):
    properties, required = form.get("properties", {}), form.get("required", [])
    needed = {key: values(properties.get(key, {}), key, depth + 1) for key in required}
    optional = {key: values(schema, key, depth + 1) for key, schema in properties.items() if key not in required}
    fixed = st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True).flatmap(
        lambda keys: st.fixed_dictionaries(needed | {key: optional[key] for key in keys})
    ) if optional else st.fixed_dictionaries(needed)
    if not isinstance(form.get("additionalProperties"), dict):
        return fixed
    return st.builds(lambda own, names: {**names, **own}, fixed, st.dictionaries(NAMES, values(form["additionalProperties"], None, depth + 1), max_size=2))


# What the program says


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """Runs `authgateway check`: whether it accepts a configuration, and the places and words of its errors."""
    folder = tmp_path_factory.mktemp("schema")
    examples.write_what_they_read(folder)
    variables = {}
    for path in examples.whole():
        variables |= examples.variables(path.read_text(encoding="utf-8"))

    def judge(document):
        # JSON is YAML.
        (folder / "gateway.yaml").write_text(json.dumps(document, indent=1), encoding="utf-8")
        result = command("check", "--config", "gateway.yaml", cwd=folder, **variables)
        assert result.returncode in (0, 3), f"{result.returncode}: {result.stderr}"
        errors = re.findall(r"(?m)^[^ ][^:]*(?::\d+:\d+)?: error: (?:([\w.\[\]-]+): )?(.*)$", result.stderr)
        assert bool(errors) == (result.returncode != 0), result.stderr
        return result.returncode == 0, errors

    return judge


def faults_of_form(errors):
    def is_left(path, message):
        return any(re.fullmatch(place, path) and re.match(words, message) for place, words, _ in LEFT_TO_THE_DECODER)

    return [f"{path}: {message}" for path, message in errors if FORM.match(message) and not is_left(path, message)]


def agree(judge, document):
    """One document, both directions."""
    refused = next(VALIDATOR.iter_errors(document), None)
    is_accepted, errors = judge(document)
    if refused is not None:
        event("the schema refuses")
        assert not is_accepted, f"the schema refuses what check accepts: {refused.json_path}: {refused.message}"
    else:
        event("both accept" if is_accepted else "the schema accepts, check refuses for what values mean")
        assert faults_of_form(errors) == [], "check refuses the form of what the schema accepts"


# The tests


def test_both_accept_the_examples(judge):
    for name, document in EXAMPLES.items():
        assert VALIDATOR.is_valid(document), name
        is_accepted, errors = judge(document)
        assert is_accepted, (name, errors)


def test_both_accept_in_initial_what_a_recipe_keeps(judge):
    step = {"url": "https://portal.example.com/refresh", "headers": {"X-Device": "{{device}}"}, "outputs": {"token": "/token"}}
    recipe = {"strategy": "recipe", "refresh": [step], "keep": ["device"], "initial": {"token": "1", "device": "2"}}
    document = {"version": 1, "routes": {"portal": {"upstream": "https://portal.example.com", "auth": recipe}}}
    for accepted in (document, replaced(document, ("routes", "portal", "auth", "initial", "device"), {"env": "HOME"})):
        assert [error.message for error in VALIDATOR.iter_errors(accepted)] == []
        assert judge(accepted) == (True, [])
    for wrong in (["2"], {"probe": "2"}):
        refused = replaced(document, ("routes", "portal", "auth", "initial", "device"), wrong)
        assert not VALIDATOR.is_valid(refused)
        assert not judge(refused)[0]


def closed_mappings():
    """From the examples, one mapping for each set of keys that the schema knows, where it refuses all others."""
    seen = set()
    for document in EXAMPLES.values():
        for path, found, schema in places(document):
            # Of alternatives, the decoder knows all keys and says which exclude each other.
            meant = [form for form in forms(schema, found) if form.get("type") == "object"] if isinstance(found, dict) else []
            known = frozenset(key for form in meant for key in form.get("properties", {}))
            if meant and known not in seen and all(form.get("additionalProperties") is False for form in meant):
                seen.add(known)
                yield document, path, found, known


def test_a_key_that_the_schema_refuses_is_unknown_to_the_decoder(judge):
    def unknown(document, path, found, keys):
        _, errors = judge(replaced(document, path, {**found, **dict.fromkeys(keys, "x")}))
        if len(errors) == SHOWN:
            half = len(keys) // 2
            return unknown(document, path, found, keys[:half]) | unknown(document, path, found, keys[half:])
        return {key for _, message in errors for key in REFUSED_KEY.findall(message)}

    wrong = {}
    for document, path, found, known in closed_mappings():
        added = [key for key in VOCABULARY if key not in known]
        said = set()
        for first in range(0, len(added), SHOWN - 5):
            said |= unknown(document, path, found, added[first : first + SHOWN - 5])
        if left := set(added) - said:
            wrong[path] = sorted(left)
    assert not wrong, f"the decoder takes keys that the schema does not have: {wrong}"


OTHER_TYPES = [{}, [], {"x": 1}, ["x"], [1], [{}], "x", "", 0, -1, 7, 1.5, 10**10, True, False, "true", "7", "7s"]


@st.composite
def mutations(draw):
    """An example with one change: a key dropped, renamed or added, or a value of another kind."""
    document = EXAMPLES[draw(st.sampled_from(sorted(EXAMPLES)))]
    everywhere = list(places(document))
    path, found, _ = draw(st.sampled_from(everywhere))
    if isinstance(found, dict) and draw(st.integers(0, 3)):
        changed = dict(found)
        change = draw(st.sampled_from(["drop", "rename", "add"]))
        if change == "add" or not changed:
            changed[draw(st.sampled_from(VOCABULARY))] = draw(st.sampled_from(OTHER_TYPES))
        else:
            key = draw(st.sampled_from(sorted(changed)))
            taken = changed.pop(key)
            if change == "rename":
                changed[draw(st.sampled_from([key.upper(), key + "s", key[:-1], *VOCABULARY]))] = taken
        return replaced(document, path, changed)
    return replaced(document, path, draw(st.sampled_from(OTHER_TYPES)))


@settings(max_examples=250)
@given(mutations())
def test_what_is_wrong_with_a_changed_example_is_wrong_for_both(judge, document):
    agree(judge, document)


@st.composite
def extensions(draw):
    """An example in which a mapping has more of the keys that the schema offers there, or a value is another one."""
    document = EXAMPLES[draw(st.sampled_from(sorted(EXAMPLES)))]
    path, found, schema = draw(st.sampled_from([place for place in places(document) if place[0]]))
    if not isinstance(found, dict):
        return replaced(document, path, draw(values(schema, path[-1])))
    form = draw(st.sampled_from(mapping_forms(schema, found) or [{}]))
    absent = sorted(set(form.get("properties", {})) - set(found))
    keys = draw(st.lists(st.sampled_from(absent), min_size=1, max_size=6, unique=True)) if absent else []
    return replaced(document, path, {**found, **{key: draw(values(form["properties"][key], key)) for key in keys}})


@settings(max_examples=250)
@given(extensions())
def test_what_the_schema_offers_has_a_form_that_the_decoder_takes(judge, document):
    agree(judge, document)


@settings(max_examples=100)
@given(values({**SCHEMA, "required": ["version", "routes"]}))
def test_a_configuration_made_from_the_schema_has_a_form_that_the_decoder_takes(judge, document):
    document.pop("include", None)
    assert VALIDATOR.is_valid(document)
    agree(judge, document)

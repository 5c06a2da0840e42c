"""YAML with line numbers: the core schema of YAML 1.2, without tags, anchors and merges.

YAML 1.1 reads NO as false and 1e-6 as text. Here plain words are text and 1e-6 is a number.
"""

from __future__ import annotations

import re

import yaml

from dfprivacy.jobs.faults import Faults
from dfprivacy.jobs.marked import Marked, Plain

_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Plain] = {"": None, "~": None, "null": None, "true": True, "false": False}
_TAGS = {
    yaml.ScalarNode: "tag:yaml.org,2002:str",
    yaml.SequenceNode: "tag:yaml.org,2002:seq",
    yaml.MappingNode: "tag:yaml.org,2002:map",
}


def read_yaml(text: str, faults: Faults) -> Marked | None:
    """Return a YAML document with its lines; None if it can't be read at all."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.BaseLoader)):
            faults.add(1, "aliases (*name) are not read: write the fields out")
            return None
        node = yaml.compose(text, yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        faults.add(mark.line + 1 if mark else 1, f"this is not YAML: {error.problem}")
        return None
    except yaml.YAMLError:
        faults.add(1, "this is not YAML: it holds a character that YAML does not allow")
        return None
    return Marked(None, 1) if node is None else _marked(node, _line(node), faults)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _marked(node: yaml.Node, line: int, faults: Faults) -> Marked:
    if node.tag != _TAGS[type(node)]:
        faults.add(line, f"the tag {node.tag!r} is not read: leave it out")
    if isinstance(node, yaml.MappingNode):
        return Marked(_fields(node, faults), line)
    if isinstance(node, yaml.SequenceNode):
        return Marked(tuple(_marked(item, _line(item), faults) for item in node.value), line)
    quoted = isinstance(node, yaml.ScalarNode) and node.style
    return Marked(node.value if quoted else plain(node.value), line)


def _fields(node: yaml.MappingNode, faults: Faults) -> dict[str, Marked]:
    found: dict[str, Marked] = {}
    for key, item in node.value:
        if not isinstance(key, yaml.ScalarNode):
            faults.add(_line(key), "a field's name is a plain text")
        elif key.value in found:
            faults.add(_line(key), f"{key.value!r} stands here a second time")
        else:
            found[key.value] = _marked(item, _line(key), faults)
    return found


def plain(text: str) -> Plain:
    """Return what an unquoted word of YAML means.

    >>> plain("1e-6"), plain("NO"), plain("12"), plain("2024-01-31"), plain("null")
    (1e-06, 'NO', 12, '2024-01-31', None)
    """
    if text.lower() in _WORDS and text in {text.lower(), text.capitalize(), text.upper()}:
        return _WORDS[text.lower()]
    if _INTEGER.match(text) and len(text) <= 300:
        return int(text)
    return float(text) if _FLOAT.match(text) else text

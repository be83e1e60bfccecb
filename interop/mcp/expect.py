"""Runs the checks of `expectations.json` on a client: an object with one method for each `do`."""

import json
from pathlib import Path

STEPS = Path(__file__).with_name("expectations.json")


def differences(wanted, got, era, path=""):
    """Returns the differences between `got` and `wanted`: wanted keys must match, more keys are allowed.

    A list wants each of its items somewhere. An object whose keys begin with `$` is a rule.
    """
    if isinstance(wanted, dict) and wanted and all(key.startswith("$") for key in wanted):
        for rule, value in wanted.items():
            if rule == "$era":
                yield from differences(value[era], got, era, path)
            elif not HOLDS[rule](value, got):
                yield f"{path}: wanted {rule} {value!r}, got {got!r:.800}"
    elif isinstance(wanted, dict):
        if not isinstance(got, dict):
            yield f"{path}: wanted an object, got {got!r:.200}"
            return
        for key, value in wanted.items():
            yield from differences(value, got.get(key), era, f"{path}.{key}")
    elif isinstance(wanted, list):
        for number, item in enumerate(wanted):
            if not any(not list(differences(item, candidate, era)) for candidate in got or []):
                yield f"{path}[{number}]: nothing like {item!r} in {got!r:.800}"
    elif wanted != got or isinstance(wanted, bool) != isinstance(got, bool):
        yield f"{path}: wanted {wanted!r}, got {got!r:.800}"


def counted(wanted, got):
    return sum(item.startswith(wanted["prefix"]) for item in got) == wanted["is"]


# Rules: each compares a value with its argument.
HOLDS = {
    "$atLeast": lambda value, got: got >= value,
    "$atMostChars": lambda value, got: len(got) <= value,
    "$contains": lambda value, got: all(part in (got or "") for part in value),
    "$count": counted,
    "$exactly": lambda value, got: sorted(got) == value,
    "$not": lambda value, got: got != value,
    "$unique": lambda value, got: value == (len(set(got)) == len(got)),
}


async def run(client, era):
    """Returns the number of passed checks. The first failure raises."""
    count = 0
    for step in json.loads(STEPS.read_text()):
        if reason := client.cannot.get(step["do"]):
            print(f"left out, {reason}: {step['what']}")
            continue
        method = getattr(client, step["do"].replace("-", "_"))
        try:
            got = await method(**step.get("with", {}))
        except Exception as error:
            raise AssertionError(f"{step['what']}: {error!r}") from error
        found = list(differences(step["expect"], got, era))
        if found:
            raise AssertionError(f"{step['what']}:\n  " + "\n  ".join(found))
        count += 1
    return count

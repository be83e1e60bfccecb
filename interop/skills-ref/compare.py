"""Compare the verdicts of `skills validate` with those of the package skills-ref.

Both judge the same few thousand folders. Every difference has to be explained by an entry of
differences.json, and every entry has to explain one: it names what only one side says (`ours`, `theirs`; `*` is
anything, `readable` that a side reads what the other cannot), may ask for a pattern in the document or in their
message, and gives the reason. The first entry that fits counts.

    python compare.py --binary target/release/skills
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import skills_ref

from cases import generate

HERE = Path(__file__).resolve().parent
SHOWN = 20

# Messages of skills-ref, mapped to our codes.
THEIR_WORDS = [
    ("frontmatter-missing", "must start with YAML frontmatter"),
    ("frontmatter-open", "frontmatter not properly closed"),
    ("yaml", "Invalid YAML in frontmatter"),
    ("not-a-mapping", "frontmatter must be a YAML mapping"),
    ("file-name", "Missing required file"),
    ("unknown-field", "Unexpected fields in frontmatter"),
    ("name-missing", "Missing required field in frontmatter: name|Field 'name' must be a non-empty string"),
    ("name-too-long", "exceeds 64 character limit"),
    ("name-lowercase", "must be lowercase"),
    ("name-edge-hyphen", "cannot start or end with a hyphen"),
    ("name-doubled-hyphen", "cannot contain consecutive hyphens"),
    ("name-character", "contains invalid characters"),
    ("name-directory", "must match skill name"),
    ("description-missing",
     "Missing required field in frontmatter: description|Field 'description' must be a non-empty string"),
    ("description-too-long", "Description exceeds"),
    ("compatibility-type", "Field 'compatibility' must be a string"),
    ("compatibility-too-long", "Compatibility exceeds"),
]

# Codes that are more specific than a message of skills-ref.
SAME = {
    "client-extension": "unknown-field",
    "name-type": "name-missing",
    "description-type": "description-missing",
    "duplicate-key": "yaml",
    "yaml-colon": "yaml",
    "empty": "frontmatter-missing",
}

# After one of these, skills-ref checks nothing else.
FATAL = {"frontmatter-missing", "frontmatter-open", "yaml", "not-a-mapping", "encoding", "too-large", "crash"}


def their_verdict(folder):
    """Returns codes with their messages."""
    try:
        messages = skills_ref.validate(folder)
    except Exception as error:  # It lets several exceptions through; which ones is part of the comparison.
        return {"crash": f"{type(error).__name__}: {error}"}
    verdict = {}
    for message in messages:
        codes = [code for code, words in THEIR_WORDS if re.search(words, message)]
        if not codes:
            sys.exit(f"skills-ref says something unknown: {message}")
        verdict[codes[0]] = message
    return verdict


def our_verdicts(binary, tree, options):
    """Returns the errors of every folder by its number."""
    ran = subprocess.run([binary, "validate", "--json", *options, str(tree)], capture_output=True, check=False)
    if ran.returncode not in (0, 1) or not ran.stdout:
        sys.exit(f"skills validate ended with status {ran.returncode}: {ran.stderr.decode()}")
    verdicts = {}
    for skill in json.loads(ran.stdout)["skills"]:
        errors = [finding for finding in skill["findings"] if finding["level"] == "error"]
        number = Path(skill["path"]).relative_to(tree).parts[0]
        verdicts[number] = {SAME.get(error["code"], error["code"]): error["message"] for error in errors}
    return verdicts


def differences(ours, theirs):
    """Returns the codes that only one side reports. If a side cannot read the document, only that counts."""
    our_end, their_end = FATAL & ours.keys(), FATAL & theirs.keys()
    if our_end or their_end:
        if our_end != their_end:
            yield (min(our_end) if our_end else "readable"), (min(their_end) if their_end else "readable")
        return
    for code in sorted(ours.keys() - theirs.keys()):
        yield code, None
    for code in sorted(theirs.keys() - ours.keys()):
        yield None, code


def explains(entry, mode, difference, case, theirs):
    ours_only, theirs_only = difference
    message = theirs.get(theirs_only, "")
    text = case.document.decode(errors="surrogateescape")
    return (
        entry["mode"] in ("any", mode)
        and entry.get("ours") in ("*", ours_only)
        and entry.get("theirs") in ("*", theirs_only)
        and re.search(entry.get("message", ""), message, re.DOTALL)
        and re.search(entry.get("document", ""), text, re.DOTALL)
    )


def write(cases, tree):
    for number, case in enumerate(cases):
        folder = tree / f"{number:05}" / case.directory
        folder.mkdir(parents=True)
        (folder / case.file).write_bytes(case.document)
        yield folder


def parse_arguments():
    parser = argparse.ArgumentParser(description="Compare our verdicts with those of skills-ref.")
    parser.add_argument("--binary", required=True, help="the binary with the command `validate`")
    return parser.parse_args()


def main():
    binary = parse_arguments().binary
    known = json.loads((HERE / "differences.json").read_text())
    used, unknown, compared, agreed, alike = Counter(), [], 0, 0, 0
    cases = generate()
    with tempfile.TemporaryDirectory(prefix="skills-ref-") as scratch:
        tree = Path(scratch)
        theirs = [their_verdict(folder) for folder in write(cases, tree)]
        for mode, options in [("unicode", ["--unicode"]), ("ascii", [])]:
            ours = our_verdicts(binary, tree, options)
            for number, case in enumerate(cases):
                found = list(differences(ours[f"{number:05}"], theirs[number]))
                compared += 1
                agreed += not found
                alike += bool(ours[f"{number:05}"]) == bool(theirs[number])
                for difference in found:
                    entry = next((e for e in known if explains(e, mode, difference, case, theirs[number])), None)
                    if entry:
                        used[entry["id"]] += 1
                    else:
                        unknown.append((mode, difference, case, ours[f"{number:05}"], theirs[number]))
    valid = sum(not verdict for verdict in theirs)
    print(f"{len(cases)} inputs, {valid} of them valid to skills-ref; of {compared} comparisons")
    print(f"{alike} agree whether the skill is valid, {agreed} also in every reason")
    for entry in known:
        print(f"{used[entry['id']]:5}  {entry['id']}: {entry['reason']}")
    unused = [entry["id"] for entry in known if not used[entry["id"]]]
    for mode, difference, case, ours, theirs in unknown[:SHOWN]:
        print(f"\nnot explained ({mode}): ours {difference[0]}, theirs {difference[1]}")
        print(f"  folder {case.directory!r}, file {case.file}\n  {case.document!r}\n  ours   {ours}\n  theirs {theirs}")
    if unknown:
        kinds = Counter((mode, *difference) for mode, difference, *_ in unknown)
        print(f"\n{len(unknown)} differences are not explained:")
        for kind, count in kinds.most_common():
            print(f"{count:5}  {kind}")
    if unused:
        print(f"\nno longer occurs, and has to go: {', '.join(unused)}")
    if unknown or unused:
        return 1
    print(f"checks {compared}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

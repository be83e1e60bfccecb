"""Bundles with nested files, imported with `skills add`: one folder, one archive."""

import base64
import tarfile

ADD_SECONDS = 60

# One transparent pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

SKILL = """---
name: {name}
description: {description}
license: Apache-2.0
metadata:
  author: interop
  version: "1.2"
allowed-tools: Bash(git diff:*) Read
---

# {title}

See [the list](references/lists/long/checklist.md).
"""

FILES = {
    "references/checklist.md": b"# Checklist\n",
    "references/lists/long/checklist.md": "# Länge zählt\n".encode(),
    "references/with space.md": b"# Space\n",
    "scripts/run.sh": b"#!/bin/sh\necho done\n",
    "assets/pixel.png": base64.b64decode(PNG),
    "assets/empty": b"",
}


def add(bench, bus):
    """Adds two bundles and returns the folder with the files of both."""
    folder = bench.folder / "bundles"
    review, notes = folder / "code-review", folder / "release-notes"
    write(review, "code-review", "Code review", "How to review a change.")
    write(notes, "release-notes", "Release notes", "How to write release notes.")
    archive = folder.with_suffix(".tar.gz")
    with tarfile.open(archive, "w:gz") as file:
        file.add(notes, "release-notes")
    process = bench.start("add", [bench.server_binary, "add", str(review), str(archive), "--url", bus])
    process.finish(ADD_SECONDS)
    if "added 2, changed 0, unchanged 0, failed 0" not in process.stdout():
        raise RuntimeError(f"skills add said: {process.stdout()}")
    return folder


def write(folder, name, title, description):
    files = {"SKILL.md": SKILL.format(name=name, title=title, description=description).encode(), **FILES}
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)

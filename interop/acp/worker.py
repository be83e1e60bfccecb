"""Content for the ACP client: a prompt and skills, one of which has no valid name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "mcp"))

from worker import serve  # noqa: E402

PDF = """---
name: pdf
description: Reads PDF files.
license: MIT
allowed-tools: Bash(pdftotext:*) Read
metadata:
  author: ann
---
# PDF

Read it.
"""


def register(worker):
    arguments = [{"name": "who", "description": "Who to greet", "required": True}, {"name": "tone"}]
    worker.prompt("greet", lambda data: {"content": f"Greet {data['who']}."}, "Greets.", arguments)
    worker.skill("pdf", PDF)
    worker.skill("long", "# Long\n\n" + "A line of text.\n" * 16_000)
    worker.skill("not_a_name", "# N\n\nText.\n")


serve(register)

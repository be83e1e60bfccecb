"""Runs the tests of store and vault, and the whole end-to-end suite, with their stores on a PostgreSQL in a temporary folder.

Tests about the file of the embedded store record that they do not run; their names have to be those of
`embedded_only.txt`, so that none is left out unnoticed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

from ports import free_port

from postgres.database import Database

# Nothing here crashes PostgreSQL, so that its writes need not be durable.
SETTINGS = "max_connections = 400\nfsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"
ALLOWED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "embedded_only.txt")


def check_left_out(log):
    """Compares the tests that did not run with the list. Returns the number of differences."""
    with open(ALLOWED) as file:
        allowed = {line.strip() for line in file if line.strip() and not line.startswith("#")}
    with open(log) as file:
        left_out = {line.split(": ")[0] for line in file}
    for test in sorted(left_out - allowed):
        print(f"suite: {test} does not run on PostgreSQL, but is not in embedded_only.txt")
    for test in sorted(allowed - left_out):
        print(f"suite: {test} is in embedded_only.txt, but runs on PostgreSQL or does not exist")
    print(f"suite: {len(left_out)} tests need the embedded store")
    return len(left_out ^ allowed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    options = parser.parse_args()
    log = tempfile.NamedTemporaryFile(prefix="skills-embedded-")
    database = Database(free_port(), settings=SETTINGS)
    try:
        environment = {**os.environ, "SKILLS_TEST_STORE": database.url(), "SKILLS_TEST_EMBEDDED_LOG": log.name}
        failed = 0
        for package, target in (("skills-store", ["--test", "it"]), ("skills-vault", ["--lib"]), ("skills", ["--test", "it"])):
            started = time.monotonic()
            command = ["cargo", "test", "--quiet", "--package", package, *target]
            failed += subprocess.run(command, cwd=options.root, env=environment).returncode != 0
            print(f"suite: {package} took {time.monotonic() - started:.0f} s")
        failed += check_left_out(log.name)
    finally:
        database.stop()
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

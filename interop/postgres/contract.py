"""Runs the tests of the store on a PostgreSQL in a temporary folder."""

import argparse
import os
import subprocess
import sys

from ports import free_port

from postgres.database import Database


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    options = parser.parse_args()
    database = Database(free_port())
    try:
        environment = {**os.environ, "SKILLS_TEST_STORE": database.url()}
        command = ["cargo", "test", "--quiet", "--package", "skills-store", "--test", "it"]
        done = subprocess.run(command, cwd=options.root, env=environment)
    finally:
        database.stop()
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()

"""Runs checks one after the other, each with a database and a folder of its own."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback

from ports import free_port

from postgres.database import Database


def run_checks(checks):
    """Runs functions of `(program, database, folder)`. Exits with status 1 if one fails."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    failed = []
    for check in checks:
        name = check.__name__.replace("_", " ")
        if not all(word in name for word in options.words):
            continue
        database, folder = Database(free_port()), tempfile.mkdtemp(prefix="skills-check-")
        try:
            check(options.server, database, folder)
            print(f"postgres: ok: {name}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
        except Exception:
            failed.append(name)
            print(f"postgres: FAILED: {name} (files in {folder})\n{traceback.format_exc()}", flush=True)
        finally:
            database.stop()
    sys.exit(1 if failed else 0)


def command(program, *arguments, store=None, data_dir=None, env=None, text=None):
    """Runs a command to its end. Returns status, standard output and standard error."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SKILLS_", "PG"))}
    environment |= {"SKILLS_STORE": store} if store else {}
    environment |= {"SKILLS_DATA_DIR": data_dir} if data_dir else {}
    done = subprocess.run([program, *arguments], env=environment | (env or {}), input=text, text=True,
                          capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def answer(*arguments, **options):
    """Runs a command that must succeed. Returns its JSON."""
    status, out, said = command(*arguments, "--json", **options)
    assert status == 0, said
    return json.loads(out)


def refusal(*arguments, **options):
    """Runs a command that must fail. Returns the code of its error."""
    status, out, said = command(*arguments, "--json", **options)
    assert status == 1, (status, out, said)
    return json.loads(said)["error"]["code"]

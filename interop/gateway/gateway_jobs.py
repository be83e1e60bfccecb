"""Schemathesis tests the gateway against its OpenAPI description, with valid and invalid requests.

All checks are enabled. It runs as a user, as an administrator and anonymously, always with the same seed.
"""

import json
import re
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent

RUN_SECONDS = 180
SEED = "20260401"
EXAMPLES = "20"

ADMIN_KEY = "an-administrators-secret-0123456789"
INTERNAL_API_SECRET = "another-secret-of-insiders-0123456789"
MASTER_ENCRYPTION_KEY = "00112233445566778899aabbccddeeff" * 2
ENVIRONMENT = {
    "ADMIN_KEY": ADMIN_KEY,
    "INTERNAL_API_SECRET": INTERNAL_API_SECRET,
    "MASTER_ENCRYPTION_KEY": MASTER_ENCRYPTION_KEY,
}


def jobs(options, failure):
    program = str(options.cache / f"schemathesis-{options.schemathesis}" / "bin" / "schemathesis")
    for who in ["user", "administrator", "nobody"]:
        yield f"gateway schemathesis {options.schemathesis} {who}", job(program, who, failure)


def job(program, who, failure):
    def run(bench):
        server, _ = bench.start_server(**ENVIRONMENT)
        key = seed(bench.http)
        credential = {"user": key, "administrator": ADMIN_KEY, "nobody": None}[who]
        command = [program, "--config-file", str(HERE / "schemathesis.toml"), "run", f"{bench.http}/v1/openapi.json"]
        command += ["--checks", "all", "--max-examples", EXAMPLES, "--seed", SEED, "--workers", "1", "--no-color"]
        if credential:
            command += ["--header", f"Authorization: Bearer {credential}"]
        # It stores findings in its working directory and would repeat them first.
        process = bench.start("schemathesis", command, cwd=bench.folder)
        process.finish(RUN_SECONDS)
        bench.checks += generated(process.stdout(), failure)
        bench.stop_server(server)

    return run


def generated(output, failure):
    """Returns the number of requests; a run without requests is a failure."""
    match = re.search(r"(\d+) generated", output)
    if not match or match[1] == "0":
        raise failure("schemathesis made no requests")
    return int(match[1])


def seed(http):
    """Content of every tier, secrets, and a key."""
    made = ask(http, "POST", "/v1/admin/keys", ADMIN_KEY, {"user_uid": "ann", "tier": "SCALE"})
    for status, name in [("private", "plan"), ("official", "uniskill_weather"), ("public", "uniskill_weather")]:
        manifest = {
            "id": name,
            "meta": {"name": name, "description": "A tool.", "parameters": {"type": "object", "properties": {}}},
            # Nobody is there, and nobody is asked: it needs a secret that is not set.
            "config": {"endpoint": "https://nobody.invalid/{{SECRETS.NEEDED}}", "method": "GET"},
        }
        body = {"user_uid": "ann", "skill_name": name, "status": status, "manifest": manifest}
        ask(http, "POST", "/v1/admin/sync_skill", INTERNAL_API_SECRET, body)
    ask(http, "PUT", "/v1/secrets/TOKEN", made["key"], {"value": "plain text"})
    return made["key"]


def ask(http, method, path, credential, body):
    headers = {"Authorization": f"Bearer {credential}", "Content-Type": "application/json"}
    request = urllib.request.Request(http + path, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)

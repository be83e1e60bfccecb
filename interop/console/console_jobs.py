"""The console in a real browser: Debian's chromium, driven by playwright-core, with axe-core."""

from pathlib import Path

HERE = Path(__file__).resolve().parent

RUN_SECONDS = 600

TOKEN = "the-token-of-the-server-0123456789"
SECRETS = {
    "ADMIN_KEY": "an-administrators-secret-0123456789",
    "INTERNAL_API_SECRET": "another-secret-of-insiders-0123456789",
    "MASTER_ENCRYPTION_KEY": "00112233445566778899aabbccddeeff" * 2,
}
# The person at this machine is the administrator unless there is a token or an administrator's key.
CHECKS = {
    "walk": {},
    "publish": {},
    "versions": {},
    "pages": {},
    "large": {},
    "users": SECRETS | {"SKILLS_HTTP_TOKEN": TOKEN},
    "hostile": {name: SECRETS[name] for name in ["INTERNAL_API_SECRET", "MASTER_ENCRYPTION_KEY"]},
}


def jobs(options, failure):
    packages = str(options.cache / "console-node")
    for name, environment in CHECKS.items():
        yield f"console {name}", job(name, environment, packages, failure)


def job(name, environment, packages, failure):
    def run(bench):
        server, url = bench.start_server(**environment)
        data = str(bench.folder / "data")
        command = ["node", str(HERE / "run.mjs"), name, bench.http, url, data, bench.server_binary, packages]
        process = bench.start(name, command, **environment)
        process.finish(RUN_SECONDS)
        lines = process.stdout().strip().splitlines()
        for line in lines:
            if line.startswith("measured "):
                print(f"console {name}: {line}", flush=True)
        last = lines[-1:]
        if not last or not last[0].startswith("checks "):
            raise failure(f"{name} made no checks")
        bench.checks += int(last[0].removeprefix("checks "))
        bench.stop_server(server)

    return run

"""The official conformance suite, with `expected-failures.yml` as its baseline.

The suite itself fails when a scenario or check fails that is not listed, and when a listed one passes. What it
does not notice is added here: a scenario that was to run and did not, and an entry for one that does not exist.
"""

import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "expected-failures.yml"

REVISIONS = ["2025-06-18", "2025-11-25", "2026-07-28"]
# The extension belongs to no revision: its scenarios are selected explicitly.
EXTENSION = ["sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"]
EXTENSION_REVISIONS = ["2025-11-25", "2026-07-28"]

SUITE_SECONDS = 180


class Suite:
    def __init__(self, bench, failure, node, program):
        self.bench, self.failure = bench, failure
        self.command = [node, program]

    def run(self, url, name, *options):
        """Counts the checks that passed. An unexpected failure is reported with its reason."""
        results = self.bench.folder / f"results-{name}"
        command = [*self.command, "server", "--url", url, "--expected-failures", str(BASELINE), "-o", str(results)]
        process = self.bench.start(name, [*command, *options])
        try:
            process.finish(SUITE_SECONDS)
        except self.failure as failure:
            raise self.failure(f"{failure}\n" + "\n".join(self.unexpected(process, results))) from None
        self.bench.checks += sum(check["status"] == "SUCCESS" for _, check in outcomes(results))
        return process

    def unexpected(self, process, results):
        """Returns the report of the suite with the reasons from its result files."""
        said = process.stdout()
        for entry in re.findall(r"^  ✓ (\S+)$", said.partition("Stale baseline entries")[2], re.MULTILINE):
            yield f"passes, but is listed: {entry}"
        unexpected = re.findall(r"^  ✗ (\S+)$", said.partition("Unexpected failures (")[2], re.MULTILINE)
        for scenario, check in outcomes(results):
            if check["status"] not in ["FAILURE", "WARNING"]:
                continue
            if scenario in unexpected or f"{scenario}:{check['id']}" in unexpected:
                yield f"{scenario}:{check['id']}: {check.get('errorMessage') or check['description']}"

    def scenarios(self, *options):
        process = self.bench.start("list", [*self.command, "list", "--server", *options])
        process.finish(SUITE_SECONDS)
        return set(re.findall(r"^  - (\S+)", process.stdout(), re.MULTILINE))

    def revision(self, url, revision):
        wanted = self.scenarios("--spec-version", revision)
        process = self.run(url, revision, "--suite", "all", "--spec-version", revision)
        ran = set(re.findall(r"^=== Running scenario: (\S+) ===", process.stdout(), re.MULTILINE))
        if not wanted or wanted != ran:
            raise self.failure(f"these scenarios did not run: {sorted(wanted - ran)}")

    def extension(self, url):
        failures = []
        for revision in EXTENSION_REVISIONS:
            for scenario in EXTENSION:
                name = f"{scenario}-{revision}"
                try:
                    self.run(url, name, "--scenario", scenario, "--spec-version", revision, "--force")
                except self.failure as failure:
                    failures.append(str(failure))
        if failures:
            raise self.failure("\n".join(failures))
        listed = set(re.findall(r"^  - ([a-z0-9-]+)", BASELINE.read_text(), re.MULTILINE))
        if unknown := listed - self.scenarios():
            raise self.failure(f"{BASELINE.name} lists what the suite does not have: {sorted(unknown)}")


def outcomes(results):
    """Yields pairs of a scenario and one of its checks."""
    for path in sorted(results.glob("server-*/checks.json")):
        scenario = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT.*", path.parent.name)[1]
        for check in json.loads(path.read_text()):
            yield scenario, check

"""Checks of one attack theme: one line each, and a verdict for the theme."""

import time


class Check:
    """Collects the findings of one attack. Every `that` that does not hold fails the check."""

    def __init__(self):
        self.failures = []
        self.notes = []

    def that(self, holds, otherwise):
        if not holds:
            self.failures.append(str(otherwise))

    def note(self, text):
        """Adds a figure to the line."""
        self.notes.append(str(text))


class Report:
    """Runs attacks one after the other and prints a line for each."""

    def __init__(self, bench):
        self.bench = bench
        self.failed = []

    def attack(self, number, name, run):
        """Runs `run(check)`. An exception is a failure: an attack that could not run proves nothing."""
        check = Check()
        started = time.monotonic()
        try:
            run(check)
        except Exception as error:  # noqa: BLE001
            check.failures.append(f"{type(error).__name__}: {error}")
        seconds = time.monotonic() - started
        verdict = "FAIL" if check.failures else "ok  "
        said = "; ".join(dict.fromkeys(check.failures or check.notes))
        print(f"{verdict} {number} {name}: {said + ', ' if said else ''}{seconds:.1f} s", flush=True)
        self.bench.checks += 1
        if check.failures:
            self.failed.append(number)

    def left_out(self, reason):
        self.bench.left_out[reason] += 1

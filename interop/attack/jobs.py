"""Attacks on a running server, by theme: each theme has its own server and prints a line for every attack.

`interop/run attack memory` runs one theme.
"""

import importlib

from .report import Report
from .test_server import TestServer

THEMES = ["files", "web", "functions", "memory", "config", "keys", "live", "connections", "cli", "vault", "shares"]


def jobs(_options, failure):
    for theme in THEMES:
        yield f"attack {theme}", job(theme, failure)


def job(theme, failure):
    def run(bench):
        module = importlib.import_module(f".{theme}", __package__)
        server = TestServer(bench, getattr(module, "ARGUMENTS", ()), getattr(module, "CONFIG", None),
                    **getattr(module, "ENVIRONMENT", {}))
        report = Report(bench)
        module.run(report, server)
        if fault := server.fault():
            raise failure(fault)
        if report.failed:
            raise failure(f"attacks that succeeded or could not be made: {', '.join(report.failed)}")

    return run

"""Memory and CPU of a process, as reported by the operating system."""

import os
import re
import time
from pathlib import Path

MB = 1_000_000
TICK = 1 / os.sysconf("SC_CLK_TCK")


class Usage:
    """Readings of one process from /proc."""

    def __init__(self, pid):
        self.folder = Path("/proc") / str(pid)

    def field(self, name):
        match = re.search(rf"^{name}:\s+(\d+) kB$", (self.folder / "status").read_text(), re.MULTILINE)
        return int(match[1]) * 1024

    def resident(self):
        return self.field("VmRSS")

    def peak(self):
        return self.field("VmHWM")

    def reset_peak(self):
        """Resets the peak to the current resident memory."""
        (self.folder / "clear_refs").write_text("5")

    def cpu(self):
        """Returns the CPU seconds, user and system, of all threads."""
        fields = (self.folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK

    def settle(self, seconds=10):
        """Waits until the process is idle and returns its resident memory."""
        end = time.monotonic() + seconds
        before = self.cpu()
        while time.monotonic() < end:
            time.sleep(0.25)
            now = self.cpu()
            if now - before <= TICK:
                break
            before = now
        return self.resident()

    def wait_resident(self, below, seconds):
        """Returns whether the resident memory falls below a bound within a number of seconds."""
        end = time.monotonic() + seconds
        while self.resident() >= below and time.monotonic() < end:
            time.sleep(0.1)
        return self.resident() < below


class Cost:
    """Peak memory and CPU of a `with` block, above the values before it."""

    def __init__(self, usage):
        self.usage = usage

    def __enter__(self):
        self.idle = self.usage.settle()
        self.usage.reset_peak()
        self.cpu_before = self.usage.cpu()
        return self

    def __exit__(self, *_):
        self.usage.settle()
        self.bytes = self.usage.peak() - self.idle
        self.cpu = self.usage.cpu() - self.cpu_before

    def __str__(self):
        return f"+{self.bytes / MB:.0f} MB, {self.cpu * 1000:.0f} ms CPU"

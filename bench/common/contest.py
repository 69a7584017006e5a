# SPDX-License-Identifier: Apache-2.0
"""What the comparisons with peers share: setting up, contestants, flags.

A contestant is a process of its own that stays up and answers orders, one line
of JSON each. All take turns, so that what disturbs the machine disturbs all
alike.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

# What is installed for a package, first to last until one can be had.
SOURCES = {
    "jax": ("jax",),
    "torch": ("torch",),
    "tensorflow": ("tensorflow-cpu", "tensorflow"),
}
SECONDS_TO_START = 900  # torch.compile needs minutes on a slow machine.
SECONDS_TO_ANSWER = 300
MOST_STEPS = 20000      # In one turn.


class Failed(Exception):
    """Why a contestant is left out."""


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- Setting up ------------------------------------------------------------
def run_logged(words, log, folder=None):
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as file:
        done = subprocess.run(words, cwd=folder, stdout=file,
                              stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL)
    return done.returncode == 0


def last_lines(log, count=3):
    lines = [line.strip() for line in log.read_text(errors="replace")
             .splitlines() if line.strip()]
    return " | ".join(lines[-count:]) or "no word of why"


def build_ours(root, build, target):
    """Our contestant, the target bench_TARGET of the release."""
    say(f"building {build / 'bench'}: the release with bench/contestants")
    log = build / "compare" / "build.log"
    where = ["-B", str(build / "bench")]
    if not run_logged(["cmake", "--preset", "bench", *where], log, root) or \
            not run_logged(["cmake", "--build", str(build / "bench"),
                            "--target", f"bench_{target}"], log, root):
        sys.exit(f"the build failed: {last_lines(log, 20)}\nall of it: {log}")
    return build / "bench" / "contestants" / target


def versions_of(python):
    code = ("import importlib.metadata as m, json; print(json.dumps("
            "{d.metadata['Name'].lower().replace('_', '-'): d.version "
            "for d in m.distributions()}))")
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def install(build, package_of):
    """The environment's Python, the versions of what it has, and why a peer is
    not there. `package_of` has the package of each peer."""
    packages = list(dict.fromkeys(package_of.values()))
    folder = build / "peers"
    python = folder / "bin" / "python"
    missing = {}
    if packages and not python.exists():
        say(f"making the virtual environment {folder}")
        log = build / "compare" / "venv.log"
        if not run_logged([sys.executable, "-m", "venv", str(folder)], log):
            why = f"no virtual environment: {last_lines(log)}"
            return python, {}, dict.fromkeys(package_of, why)
    have = versions_of(python) if packages else {}
    for package in packages:
        if any(source in have for source in SOURCES[package]):
            continue
        log = build / "compare" / f"install-{package}.log"
        for source in SOURCES[package]:
            say(f"installing {source} and what it needs from PyPI")
            if run_logged([str(python), "-m", "pip", "install", source], log):
                break
        else:
            missing[package] = f"pip: {last_lines(log, 1)}"
    if packages:
        have = versions_of(python)
    versions = {package: have[source] for package in packages
                for source in SOURCES[package] if source in have}
    return python, versions, {name: missing[package]
                              for name, package in package_of.items()
                              if package in missing}


# ---- Contestants -----------------------------------------------------------
class Contestant:
    """A process that answers 'run K' with the times of K steps. What is to be
    said beside is `behind`."""

    def __init__(self, name, words, log, env=None):
        self.name, self.log = name, log
        self.rounds = []   # The times of each round's steps, in ms.
        self.estimate = 0  # Of a step, in ms.
        self.behind = ""
        with open(log, "w") as errors:
            start = time.monotonic()
            self.process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True, start_new_session=True, env=env)
        self.first = self._read(SECONDS_TO_START)
        self.first_step = time.monotonic() - start

    def _read(self, seconds):
        timer = threading.Timer(seconds, self._kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        try:
            return json.loads(line)
        except ValueError:
            self.close()
            raise Failed(last_lines(self.log) if not line.strip()
                         else f"it answered {line.strip()!r}") from None

    def run(self, steps):
        answer = self.ask("run", steps)
        self.estimate = statistics.median(answer["ms"])
        return answer

    def ask(self, order, count):
        try:
            self.process.stdin.write(f"{order} {count}{self.behind}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.close()
            raise Failed(last_lines(self.log)) from None
        return self._read(SECONDS_TO_ANSWER)

    def take_turn(self, seconds):
        """Some steps to warm up, then those that count."""
        self.run(max(1, self.steps_in(seconds) // 10))
        self.rounds.append(self.run(self.steps_in(seconds))["ms"])

    def steps_in(self, seconds):
        count = round(seconds * 1e3 / max(self.estimate, 1e-4))
        return max(1, min(MOST_STEPS, count))

    def peak_rss(self, with_children):
        """The most memory it ever had, in MB; shared pages count each time."""
        pids, total = [self.process.pid], 0
        for pid in pids:
            try:
                proc = Path(f"/proc/{pid}")
                for line in (proc / "status").read_text().splitlines():
                    if line.startswith("VmHWM:"):
                        total += int(line.split()[1])
                if with_children:
                    children = proc / "task" / str(pid) / "children"
                    pids += [int(p) for p in children.read_text().split()]
            except OSError:
                pass  # It has ended.
        return total * 1024 / 1e6

    def _kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        self._kill()  # It, or whom it left behind.
        self.process.wait()


# ---- Flags and words -------------------------------------------------------
def cpu_name():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "unknown"


def one_of(allowed):
    def parse(text):
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(
                    f"there is no '{name}'; there are {', '.join(allowed)}")
        return names
    return parse


def count(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected at least 1")
    return number

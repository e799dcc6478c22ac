#!/usr/bin/env python3
"""Measures what building the library costs, and what it adds to a program.

    python3 .ci/build-times.py            measures, and prints the line of README.md
    python3 .ci/build-times.py --update   also writes the line

Both builds begin from nothing, in directories of their own. Let nothing else run meanwhile.
"""
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
MARK = "<!-- build times: python3 .ci/build-times.py --update -->\n"


def build(directory, *options):
    """Builds, and returns the seconds, the seconds of processor time, and the most memory of one process in bytes."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["swift", "build", "--scratch-path", directory, *options]
    if subprocess.run(command, cwd=README.parent, stdout=sys.stderr).returncode:
        sys.exit(f"{' '.join(command)} failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begin, used, after.ru_maxrss * 1024


def main():
    with tempfile.TemporaryDirectory() as debug, tempfile.TemporaryDirectory() as release:
        wall, used, _ = build(debug, "--product", "QuickStart")
        _, used_in_release, memory = build(release, "-c", "release", "--target", "Trunkline")
        build(release, "-c", "release", "--product", "QuickStart")
        program = pathlib.Path(release, "release", "QuickStart")
        subprocess.run(["strip", program], check=True)
        size = program.stat().st_size
    line = (
        f"The first `swift run QuickStart` builds for {wall:.0f} s on {os.cpu_count()} processors ({used:.0f} s of processor time). "
        f"In release, `import Trunkline` costs {used_in_release:.0f} s of processor time and {memory / 1e9:.1f} GB of memory "
        f"once, and the quick start has {size / 1e6:.1f} MB without symbols (without Swift's own libraries).\n"
    )
    print(line, end="")
    if sys.argv[1:] == ["--update"]:
        text = README.read_text()
        changed = re.sub(re.escape(MARK) + r".*\n", lambda _: MARK + line, text)
        if MARK not in text:
            sys.exit(f"README.md has no line {MARK}")
        README.write_text(changed)


main()

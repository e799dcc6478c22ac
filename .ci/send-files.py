"""Lists the files of this package that one `send` executes, from the call to its response, in a debug build.

    python3 .ci/send-files.py          prints their number, and that of those with a decision; fails if that is above its limit
    python3 .ci/send-files.py --all    prints the files and the lines with decisions

Counts with callgrind how often each line runs for some number of requests, one after the other on a ready link, and for twice as
many: a line belongs to a request if the difference is at least one for each. A decision is a line with a condition: `if`,
`guard`, `switch`, `while`, `for`, `??`, `&&`, `||` or `? :`. Needs valgrind, and a debug build with
debug information (`swift build`, or the step `build` without `CI`).
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM = ".build/debug/trunkline-bench"
COUNT = 64
ENGINE = ("TrunklineCore/", "TrunklineLayouts/")  # the server of the path is in other modules
LIMIT = 45  # it only becomes lower, unless what is in one file becomes several
DECISION = re.compile(r"\b(if|guard|switch|while|for)\s|\?\?|&&|\|\|| \? .* : ")
NAME = re.compile(r"\((\d+)\)(?: (.*))?")


def costs(count):
    """How many instructions each line of the sources took: {(path, line): instructions}."""
    with tempfile.NamedTemporaryFile() as output:
        subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output.name}", PROGRAM, "path", "client", str(count)],
            check=True, capture_output=True,
        )
        text = pathlib.Path(output.name).read_text()
    root = f"{pathlib.Path.cwd()}/Sources/"
    names, found = {}, collections.Counter()
    file, line, isCall = None, 0, False
    for row in text.splitlines():
        key, _, value = row.partition("=")
        if key in ("fl", "fi", "fe"):
            number, name = NAME.match(value).groups()
            file = names[number] = name or names[number]
        elif key in ("cfi", "cfl"):
            number, name = NAME.match(value).groups()
            names[number] = name or names[number]
        elif key == "calls":
            isCall = True
        elif row and row[0] in "0123456789+-*":
            fields = row.split()
            line = int(fields[0]) if fields[0][0].isdigit() else line + int(fields[0].replace("*", "0"))
            # The cost of a call is that of what was called, which has lines of its own.
            if not isCall and file and file.startswith(root):
                found[file.removeprefix(root), line] += int(fields[1])
            isCall = False
    return found


once, twice = costs(COUNT), costs(2 * COUNT)
executed = collections.defaultdict(set)
for (file, line), cost in twice.items():
    if cost - once[file, line] >= COUNT and file.startswith(ENGINE):
        executed[file].add(line)
if not executed:
    sys.exit("the debug build has no debug information: run swift build")
decisions = {}
for file, numbers in executed.items():
    source = pathlib.Path("Sources", file).read_text().splitlines()
    lines = [(n, source[n - 1].strip()) for n in sorted(numbers) if 0 < n <= len(source)]
    decisions[file] = [(n, text) for n, text in lines if not text.startswith("//") and DECISION.search(text)]
if "--all" in sys.argv:
    for file in sorted(executed):
        print(f"{file}: {len(executed[file])} lines")
        for number, text in decisions[file]:
            print(f"    {number}: {text[:100]}")
deciding = sum(map(bool, decisions.values()))
print(f"one send executes {len(executed)} files above TrunklineIO, {deciding} of them with a decision")
if deciding > LIMIT:
    sys.exit(f"more than {LIMIT} files with a decision")

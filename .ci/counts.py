"""Counts what a request costs, and compares it with ceilings.

    python3 .ci/counts.py           prints the counts; fails if one is above its ceiling in .ci/ceilings.json
    python3 .ci/counts.py --update  writes the ceilings: what was counted, and a margin

It needs the benchmark that `bash .ci/run benchmark` builds, and valgrind for the instructions. Times are not compared:
they depend on the machine. Instructions are the difference between running a path n times and 2n times, so that the
start does not count.
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

CEILINGS = pathlib.Path(".ci/ceilings.json")
PATHS = {"codec": 6400, "client": 1280, "cluster": 1280}  # requests; see CodePath.swift
# Requests over a socket to an echo server, which is not counted.
LOADS = {
    "one in flight": "--concurrency 1 --requests 1000",
    "256 in flight": "--concurrency 256 --requests 10000",
    "256 in flight, pinned": "--concurrency 256 --requests 10000 --pinned",
    "batches of 64": "--concurrency 256 --requests 10000 --batch 64",
}
# With one request in flight, or with batches, the count depends on which thread runs when: by up to a tenth, or a
# thirtieth. So it is a median. The rounds end when most of them are on one side of the ceiling: so is the median then.
ROUNDS = {"one in flight": 5, "batches of 64": 5}
MARGIN = 0.10


def instructions(command):
    with tempfile.TemporaryDirectory() as directory:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out", *command]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        sys.exit(f"{' '.join(command)} failed\n{done.stderr}")
    return int(found[1])


def instructions_over_socket(bench, load):
    """Returns the instructions per request: the difference of n and 2n requests after the same warm-up."""
    server = subprocess.Popen([bench, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = server.stdout.readline().strip()
        words = load.split()
        position = words.index("--requests") + 1
        n = int(words[position])
        counted = []
        for requests in (n, 2 * n):
            words[position] = str(requests)
            counted.append(instructions([bench, "--port", port, "--payload", "64", "--warmup", str(n), *words]))
        return (counted[1] - counted[0]) / n
    finally:
        server.kill()
        server.wait()


def rounds_over_socket(bench, load, most, ceiling):
    """The counts of up to `most` rounds; without a ceiling, of all of them."""
    rounds = []
    while len(rounds) < most:
        rounds.append(instructions_over_socket(bench, load))
        if ceiling is not None:
            below = sum(count <= ceiling for count in rounds)
            if max(below, len(rounds) - below) > most // 2:
                break
    return rounds


def count(ceilings):
    bench = ".build-bench/release/trunkline-bench"
    counts = json.loads(subprocess.run([bench, "counts"], check=True, stdout=subprocess.PIPE, text=True).stdout)
    for path, n in PATHS.items():
        single, double = (instructions([bench, "path", path, str(requests)]) for requests in (n, 2 * n))
        counts[f"instructions per request, {path}"] = (double - single) / n
    for name, load in LOADS.items():
        most = ROUNDS.get(name, 1)
        name = f"instructions per request, {name}"
        counts[name] = statistics.median(rounds_over_socket(bench, load, most, ceilings.get(name)))
    return counts


def main(arguments):
    if arguments not in ([], ["--update"]):
        sys.exit(__doc__)
    counts = count({} if arguments else json.loads(CEILINGS.read_text()))
    if arguments:
        # Scheduling changes the counts of allocations by a few hundredths, which is much if they are near zero.
        ceilings = {name: round(value * (1 + MARGIN) + 0.05, 2) for name, value in counts.items()}
        CEILINGS.write_text(json.dumps(ceilings, indent=4) + "\n")
    ceilings = json.loads(CEILINGS.read_text())
    if ceilings.keys() != counts.keys():
        sys.exit(f"the names of the counts and of the ceilings differ: {sorted(ceilings.keys() ^ counts.keys())}")
    print(f"{'':48}{'count':>12}{'ceiling':>12}")
    for name, value in counts.items():
        print(f"{name:48}{value:12.2f}{ceilings[name]:12.2f}{'  TOO HIGH' if value > ceilings[name] else ''}")
    if any(value > ceilings[name] for name, value in counts.items()):
        sys.exit("If the increase is intended, run python3 .ci/counts.py --update and commit .ci/ceilings.json.")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Counts what each parser of a peer's bytes costs with the contents that are most expensive for it.

    python3 .ci/parsers.py           prints the counts; fails if one is too high
    python3 .ci/parsers.py --update  writes the ceilings: what was counted, and a margin

It needs valgrind and the benchmark that `bash .ci/run benchmark` builds. Times are shown and not compared.
"""

import json
import pathlib
import subprocess
import sys

CEILINGS = pathlib.Path(".ci/parser-ceilings.json")
BENCH = ".build-bench/release/trunkline-bench"
MARGIN = 0.10
# Instructions per byte of a message that may be large, whatever its content: about 5 ns.
MOST = 80
# Bytes that arrive in pieces of a kibibyte may cost as much again as at once, and this much for each byte: what it takes to
# read a piece. A parser that begins anew with each piece takes hundreds of times as much.
OF_PIECES = 6


class Case:
    """The counts of one case, per byte or, for small messages, per message."""

    def __init__(self, values):
        (size, in_pieces), (at_once, pieces) = values["bytes"], values["instructions"]
        if at_once is None:
            sys.exit("valgrind is not installed")
        self.is_small, self.limit = values["small"], values["limit"]
        self.per_byte = at_once / size
        self.cost = at_once / values["frames"] if self.is_small else self.per_byte
        self.in_pieces = None if pieces is None else pieces / in_pieces
        self.time = values["ns"] / size

    def problem(self, ceiling):
        if self.cost > ceiling:
            return "TOO HIGH"
        if not self.is_small and not self.limit and self.cost > MOST:
            return f"MORE THAN {MOST} FOR A LARGE MESSAGE"
        if self.in_pieces is not None and self.in_pieces > 2 * self.per_byte + OF_PIECES:
            return "TOO MUCH IN PIECES"
        return ""


def main(arguments):
    if arguments not in ([], ["--update"]):
        sys.exit(__doc__)
    done = subprocess.run([BENCH, "parsers"], check=True, stdout=subprocess.PIPE, text=True)
    cases = {name: Case(values) for name, values in json.loads(done.stdout).items()}
    if arguments:
        ceilings = {name: round(case.cost * (1 + MARGIN) + 0.05, 1) for name, case in cases.items()}
        CEILINGS.write_text(json.dumps(ceilings, indent=4) + "\n")
    ceilings = json.loads(CEILINGS.read_text())
    if ceilings.keys() != cases.keys():
        sys.exit(f"the names of the counts and of the ceilings differ: {sorted(ceilings.keys() ^ cases.keys())}")
    print(f"{'instructions':64}{'per':>8}{'count':>10}{'ceiling':>10}{'in pieces':>11}{'ns/byte':>9}")
    problems = 0
    for name, case in cases.items():
        unit = "message" if case.is_small else "byte"
        pieces = "" if case.in_pieces is None else f"×{case.in_pieces / case.per_byte:.2f}"
        if case.in_pieces is not None and case.per_byte < OF_PIECES:
            pieces = f"{case.in_pieces:.1f}"
        problem = case.problem(ceilings[name])
        problems += problem != ""
        print(f"{name:64}{unit:>8}{case.cost:10.1f}{ceilings[name]:10.1f}{pieces:>11}{case.time:9.1f}  {problem}".rstrip())
    if problems:
        sys.exit("If the increase is intended, run python3 .ci/parsers.py --update and commit .ci/parser-ceilings.json.")


if __name__ == "__main__":
    main(sys.argv[1:])

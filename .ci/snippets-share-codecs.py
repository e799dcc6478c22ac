#!/usr/bin/env python3
"""A codec of Tests/TrunklineInteropTests/NAME/*Codec.swift stands, line by line, in the snippet NAME if there is one."""
import sys
from pathlib import Path

root = Path(__file__).parent.parent
count = 0
for codec in sorted((root / "Tests/TrunklineInteropTests").glob("*/*Codec.swift")):
    snippet = root / "Snippets" / f"{codec.parent.name}.swift"
    if not snippet.exists():
        continue
    lines = codec.read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("import ")).strip()
    if text not in snippet.read_text():
        sys.exit(f"{snippet.relative_to(root)} and {codec.relative_to(root)} have different codecs")
    count += 1
if not count:
    sys.exit("no snippet shares its codec with the tests")

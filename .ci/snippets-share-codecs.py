#!/usr/bin/env python3
"""Checks that the snippet NAME, if it exists, contains the codec of Tests/TrunklineInteropTests/NAME/*Codec.swift unchanged."""
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
        sys.exit(f"{snippet.relative_to(root)} and {codec.relative_to(root)} contain different codecs")
    count += 1
if not count:
    sys.exit("no snippet has a codec in common with the tests")

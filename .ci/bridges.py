#!/usr/bin/env python3
"""Writes the code of the article about bridges to the folders of the programs that run it.

    python3 .ci/bridges.py DIR    writes DIR/NAME/NAME.swift for each block that is marked `<!-- bridge: NAME.swift -->`

Fails if a block has more than 40 lines, or if a bridge has no program (`.ci/bridges/NAME/main.swift`) or the other way round.
"""
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parent.parent
article = root / "Sources/Trunkline/Documentation.docc/Articles/Bridges.md"
blocks = dict(re.findall(r"^<!-- bridge: (\w+)\.swift -->\n```swift\n((?:.*\n)*?)```", article.read_text(), re.M))
programs = {path.parent.name for path in (root / ".ci/bridges").glob("*/main.swift")}
if set(blocks) != programs:
    sys.exit(f"the bridges of {article.name} and their programs differ: {sorted(set(blocks) ^ programs)}")
for name, code in blocks.items():
    if code.count("\n") > 40:
        sys.exit(f"{article.name}: {name} has {code.count(chr(10))} lines, more than 40")
    (Path(sys.argv[1]) / name / f"{name}.swift").write_text(code)

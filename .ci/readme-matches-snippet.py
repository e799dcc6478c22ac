#!/usr/bin/env python3
"""Every Swift block of README.md that names a snippet in the line above must be contained in that snippet."""
import re
import sys
import textwrap
from pathlib import Path

root = Path(__file__).parent.parent
blocks = re.findall(r"<!-- snippet: (\w+) -->\n```swift\n(.*?)```", (root / "README.md").read_text(), re.S)
if not blocks:
    sys.exit("README.md shows no snippet")
for name, code in blocks:
    # Compared without leading blanks: a snippet may nest what the README shows flat.
    flat = lambda text: [line.strip() for line in text.splitlines() if line.strip()]
    snippet, shown = flat((root / "Snippets" / f"{name}.swift").read_text()), flat(textwrap.dedent(code))
    rest = iter(snippet)
    missing = [line for line in shown if line not in rest]
    if missing:
        sys.exit(f"README.md shows what Snippets/{name}.swift does not have, in this order: {missing[0]}")

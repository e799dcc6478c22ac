#!/usr/bin/env python3
"""Every Swift block of README.md, and of the articles, that names a snippet in the line above must be contained in it."""
import re
import sys
import textwrap
from pathlib import Path

root = Path(__file__).parent.parent
for page in [root / "README.md", *sorted(root.glob("Sources/*/Documentation.docc/*.md"))]:
    blocks = re.findall(r"<!-- snippet: (\w+) -->\n```swift\n(.*?)```", page.read_text(), re.S)
    if page.name == "README.md" and not blocks:
        sys.exit("README.md shows no snippet")
    for name, code in blocks:
        # Compared without leading blanks: a snippet may nest what the page shows flat.
        flat = lambda text: [line.strip() for line in text.splitlines() if line.strip()]
        snippet, shown = flat((root / "Snippets" / f"{name}.swift").read_text()), flat(textwrap.dedent(code))
        rest = iter(snippet)
        missing = [line for line in shown if line not in rest]
        if missing:
            sys.exit(f"{page.name} shows what Snippets/{name}.swift does not have, in this order: {missing[0]}")

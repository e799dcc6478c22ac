#!/usr/bin/env python3
"""Checks the blocks of Swift and YAML in README.md and the articles: each names its source in the line above.

Code must be part of its source, and YAML all of it.

    <!-- snippet: Name -->               Snippets/Name.swift, or Sources/Name/main.swift
    <!-- test: Tests/path/Name.swift --> that file
    <!-- bridge: Name.swift -->         no source: `.ci/consumers` compiles the block itself, and runs it
    <!-- not compiled: reason -->        no source, such as a package manifest
    <!-- file: path -->                  YAML: that file
"""
import re
import sys
import textwrap
from pathlib import Path

root = Path(__file__).parent.parent
for page in [root / "README.md", *sorted(root.glob("Sources/*/Documentation.docc/**/*.md"))]:
    blocks = re.findall(r"^(.*)\n```swift\n((?:.*\n)*?)```", page.read_text(), re.M)
    if page.name == "README.md" and not blocks:
        sys.exit("README.md contains no code")
    for mark, code in blocks:
        marked = re.fullmatch(r"<!-- (snippet|test|bridge|not compiled): (.+) -->", mark)
        if marked is None:
            sys.exit(f"{page.name}: the line above this code does not name its source: {code.splitlines()[0]}")
        kind, name = marked.groups()
        if kind in ("bridge", "not compiled"):
            continue
        path = f"Snippets/{name}.swift" if kind == "snippet" else name
        if kind == "snippet" and not (root / path).exists():
            path = f"Sources/{name}/main.swift"
        # Indentation is ignored, because code may be nested in the source.
        flat = lambda text: [line.strip() for line in text.splitlines() if line.strip()]
        source, shown = flat((root / path).read_text()), flat(textwrap.dedent(code))
        rest = iter(source)
        missing = [line for line in shown if line not in rest]
        if missing:
            sys.exit(f"{page.name} contains a line that {path} does not have, or has elsewhere: {missing[0]}")
    for mark, text in re.findall(r"^(.*)\n```yaml\n((?:.*\n)*?)```", page.read_text(), re.M):
        marked = re.fullmatch(r"<!-- (file|not compiled): (.+) -->", mark)
        if marked is None:
            sys.exit(f"{page.name}: the line above this YAML does not name its source: {text.splitlines()[0]}")
        if marked[1] == "file" and text != (root / marked[2]).read_text():
            sys.exit(f"the YAML of {marked[2]} in {page.name} differs from that file")

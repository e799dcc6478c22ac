#!/usr/bin/env python3
"""A codec that is a snippet and that the interop tests use is one text: what is below the imports of the test's file must
be in the snippet as it is."""
import sys
from pathlib import Path

root = Path(__file__).parent.parent
for snippet, codec in {"Redis": "Redis/RESPCodec", "MQTT": "MQTT/MQTTCodec"}.items():
    text = (root / "Tests" / "TrunklineInteropTests" / f"{codec}.swift").read_text()
    text = text[text.index("// MARK: - The protocol") :]
    if text not in (root / "Snippets" / f"{snippet}.swift").read_text():
        sys.exit(f"Snippets/{snippet}.swift does not contain the text of Tests/TrunklineInteropTests/{codec}.swift")

"""Draws the diagrams of the documentation: the states of a connection, and the life of a request.

    python3 .ci/diagrams.py           checks that the files are up to date
    python3 .ci/diagrams.py --update  writes them

Each diagram has a file for light pages and one for dark pages (`states.svg`, `states~dark.svg`). DocC selects one.
They are 960 pixels wide: by this width, `.ci/site/css/trunkline.css` finds them, to let them scroll on a narrow screen.
"""

import pathlib
import sys
from html import escape

RESOURCES = pathlib.Path("Sources/Trunkline/Documentation.docc/Resources")
LIGHT = dict(text="#1d1d1f", faint="#5a5a62", line="#6e6e76", fill="#eaf2ff", edge="#2a6fd6", good="#e4f6e8", goodedge="#2b8a3e",
             bad="#fdeaea", badedge="#c92a2a", group="#a9a9b2")
DARK = dict(text="#f5f5f7", faint="#b4b4bd", line="#a1a1aa", fill="#152a4a", edge="#6ea8ff", good="#12331c", goodedge="#69db7c",
            bad="#431a1a", badedge="#ff8787", group="#6b6b75")


class Diagram:
    def __init__(self, width, height, title, colors):
        self.colors, self.parts = colors, []
        self.head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="-apple-system, Helvetica, Arial, sans-serif"><title>{escape(title)}</title>'
            f'<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
            f'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="{colors["line"]}"/></marker></defs>'
        )

    def text(self, x, y, words, size=13, color="text", anchor="middle", weight="normal", font=None):
        family = f' font-family="{font}"' if font else ""
        for index, line in enumerate(words.split("\n")):
            self.parts.append(
                f'<text x="{x}" y="{y + index * (size + 4)}" font-size="{size}" fill="{self.colors[color]}" '
                f'text-anchor="{anchor}" font-weight="{weight}"{family}>{escape(line)}</text>'
            )

    def box(self, x, y, width, height, name, below="", kind="fill"):
        """A box around its name, with a smaller line below it. `kind`: fill, good or bad."""
        edge = {"fill": "edge", "good": "goodedge", "bad": "badedge"}[kind]
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{self.colors[kind]}" '
            f'stroke="{self.colors[edge]}" stroke-width="1.5"/>'
        )
        lines = below.count("\n") + 1 if below else 0
        top = y + height / 2 + 5 - lines * 8
        self.text(x + width / 2, top, name, 14, weight="600", font="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace")
        if below:
            self.text(x + width / 2, top + 17, below, 12, "faint")

    def group(self, x, y, width, height, name):
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="12" fill="none" stroke="{self.colors["group"]}" '
            f'stroke-width="1.2" stroke-dasharray="5 4"/>'
        )
        self.text(x + 12, y + 19, name, 12, "faint", "start")

    def arrow(self, path, label="", x=0, y=0, anchor="middle"):
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{self.colors["line"]}" stroke-width="1.5" marker-end="url(#arrow)"/>'
        )
        if label:
            self.text(x, y, label, 12, "faint", anchor)

    def svg(self):
        return self.head + "\n" + "\n".join(self.parts) + "\n</svg>\n"


def states(colors):
    d = Diagram(960, 470, "The states of a connection", colors)
    # An attempt.
    d.group(190, 90, 560, 96, "an attempt at one endpoint")
    for index, name in enumerate(["resolving", "connecting", "securing", "handshaking"]):
        d.box(206 + index * 136, 122, 120, 46, name, "tls:// only" if name == "securing" else "")
        if index:
            d.arrow(f"M{190 + index * 136},145 L{204 + index * 136},145")
    d.arrow("M420,88 C400,48 480,48 460,86", "the attempt failed: next endpoint", 440, 50)
    d.box(20, 112, 110, 56, "idle", "no link needed")
    d.box(826, 112, 114, 56, "ready", "sends requests", "good")
    d.arrow("M130,132 L188,132", "a request", 159, 124)
    d.arrow("M188,156 L132,156", "gave up", 159, 173)
    d.arrow("M750,140 L824,140", "link ready", 787, 132)
    d.arrow("M866,110 C850,58 916,58 902,108", "planned change", 884, 62)
    d.arrow("M840,110 C790,8 140,-10 76,110", "the server closed the link cleanly, and nothing needs one", 450, 14)
    # Pauses.
    d.box(300, 262, 130, 56, "waiting", "back-off")
    d.box(560, 262, 130, 56, "noNetwork", "no route to a server")
    d.arrow("M330,188 L330,260", "every endpoint\nfailed", 322, 218, "end")
    d.arrow("M400,262 L400,188", "back-off over", 408, 236, "start")
    d.arrow("M590,188 L590,260", "no route", 582, 228, "end")
    d.arrow("M660,262 L660,188", "a route appears", 668, 236, "start")
    d.arrow("M883,170 L883,350 Q883,356 877,356 L371,356 Q365,356 365,350 L365,320", "the link was lost", 700, 349)
    # From any state.
    d.box(206, 400, 130, 50, "suspended")
    d.box(560, 400, 130, 50, "draining", "requests finish")
    d.box(810, 400, 130, 50, "closed", "", "bad")
    d.group(410, 404, 76, 42, "")
    d.text(448, 429, "any state", 12, "faint")
    d.arrow("M410,425 L338,425", "suspend()", 374, 417)
    d.arrow("M486,425 L558,425", "close()", 522, 417)
    d.arrow("M204,425 L81,425 Q75,425 75,419 L75,170", "resume()", 82, 300, "start")
    d.arrow("M690,425 L808,425", "no request left", 749, 417)
    return d.svg()


def request(colors):
    d = Diagram(960, 376, "The life of a request", colors)
    d.box(20, 60, 130, 60, "send", "the caller waits")
    d.box(240, 60, 150, 60, "queued", "in the client")
    d.box(480, 60, 170, 60, "in flight", "on a link, by its serial")
    d.box(770, 60, 170, 60, "response", "the caller goes on", "good")
    d.arrow("M150,90 L238,90", "request ID", 194, 82)
    d.arrow("M390,90 L478,90", "serial", 434, 82)
    d.arrow("M650,90 L768,90", "the server answers", 709, 82)
    d.arrow("M565,58 C545,4 335,4 315,58", "the link was lost, and no byte was written", 440, 14)
    # How it fails.
    d.box(220, 240, 190, 64, "fate: notSent", "never sent", "bad")
    d.box(470, 240, 190, 64, "fate: unknown", "may have been carried out", "bad")
    d.box(760, 240, 180, 64, "fate: answered", "rejected by the server", "bad")
    d.arrow("M315,120 L315,238", "deadline, cancellation,\nlimit, close", 306, 172, "end")
    d.arrow("M565,120 L565,238", "deadline, cancellation,\nlink lost, protocol violation", 574, 172, "start")
    d.arrow("M855,120 L855,238", "error status", 864, 184, "start")
    d.arrow("M468,288 C432,288 452,112 392,106", "retry policy\nallows it", 452, 180, "start")
    d.text(480, 342, "After a deadline or cancellation a cancel frame tells the server, where the protocol has one. The serial is reserved", 13, "faint")
    d.text(480, 362, "until the late response arrives or the quarantine ends. Until then, a late response cannot reach another request.", 13, "faint")
    return d.svg()


def main(arguments):
    if arguments not in ([], ["--update"]):
        sys.exit(__doc__)
    for draw in (states, request):
        for suffix, colors in (("", LIGHT), ("~dark", DARK)):
            path, drawing = RESOURCES / f"{draw.__name__}{suffix}.svg", draw(colors)
            if arguments:
                RESOURCES.mkdir(exist_ok=True)
                path.write_text(drawing)
            elif not path.exists() or path.read_text() != drawing:
                sys.exit(f"{path} is out of date; run python3 .ci/diagrams.py --update")


if __name__ == "__main__":
    main(sys.argv[1:])

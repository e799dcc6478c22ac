"""Draws the plots of the article about performance, and writes the tables of the article and the README.

    python3 .ci/plot.py                 checks that the files match .ci/performance.json
    python3 .ci/plot.py --update        writes the files
    python3 .ci/plot.py RESULTS.json    first replaces .ci/performance.json by the medians of these measurements

RESULTS.json has "date", "cpus" and "rows". A row is one run: the members of the line that `trunkline-bench --port` prints.
"""

import json
import math
import pathlib
import statistics
import sys

sys.dont_write_bytecode = True  # or the import below leaves a directory behind

from diagrams import DARK, LIGHT, RESOURCES, Diagram

DATA = pathlib.Path(".ci/performance.json")
ARTICLE = pathlib.Path("Sources/Trunkline/Documentation.docc/Articles/Performance.md")
PAYLOAD = 64
COLUMNS = ["req_per_s", "cpu_us_per_req", "max_rss_kb"]
PEERS = {
    "trunkline": ("send", "#2a78d6", "#3987e5"),
    "trunkline-pinned": ("send, pinned", "#1baf7a", "#199e70"),
    "trunkline-batch": ("send(all:)", "#8a5fd0", "#a583e0"),
    "nio-best": ("SwiftNIO, tuned", "#e8722c", "#e8834a"),
    "nio-async": ("SwiftNIO, async", "#c08a00", "#c98500"),
    "go-mux": ("Go", "#d55181", "#d55181"),
    "rust-tokio": ("Rust, Tokio", "#b03a2e", "#e06a5c"),
    "limit-c": ("C, no client", "#77777f", "#9a9aa2"),
}


def compact(results):
    cells = {}
    for row in results["rows"]:
        if row["payload"] == PAYLOAD and row["peer"] in PEERS:
            cells.setdefault((list(PEERS).index(row["peer"]), row["concurrency"]), []).append(row)
    rows = [
        [list(PEERS)[peer], concurrency, *(float(f"{statistics.median(r[c] for r in runs):.3g}") for c in COLUMNS)]
        for (peer, concurrency), runs in sorted(cells.items())
    ]
    # Peers with noisy results run more often.
    head = {"date": results["date"], "cpus": results["cpus"], "runs": min(map(len, cells.values()))}
    lines = ",\n".join("        " + json.dumps(row) for row in rows)
    return json.dumps(head, indent=4)[:-2] + f',\n    "rows": [\n{lines}\n    ]\n}}\n'


def number(value):
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    return f"{value / 1000:.3g} k" if value >= 1000 else f"{value:.2g}" if value < 1 else f"{value:.3g}"


def table(data, column, levels, peers=PEERS, scale=1):
    cells = {(row[0], row[1]): row[2 + COLUMNS.index(column)] / scale for row in data["rows"]}
    lines = ["| Client | " + " | ".join(f"{level:,}" for level in levels) + " |", "|---|" + "--:|" * len(levels)]
    for peer in peers:
        name = f"`{PEERS[peer][0]}`" if peer == "trunkline" or peer == "trunkline-batch" else PEERS[peer][0]
        values = [number(cells[peer, level]) if (peer, level) in cells else "–" for level in levels]
        lines.append(f"| {name.replace('send, pinned', '`send` on `client.executor`')} | " + " | ".join(values) + " |")
    return "\n".join(lines)


def plot(data, column, title, colors, dark):
    # Narrow enough for a telephone; two fit side by side on a wide screen.
    width, left, right, top_edge, bottom_edge = 430, 46, 318, 44, 300
    d = Diagram(width, 348, title, colors)
    rows = [(row[0], row[1], row[2 + COLUMNS.index(column)]) for row in data["rows"]]
    bottom, top = (f(math.log10(row[2]) for row in rows) for f in (min, max))
    bottom, top = math.floor(bottom), math.ceil(top)
    x = lambda level: left + math.log2(level) / 16 * (right - left)
    y = lambda value: bottom_edge - (math.log10(value) - bottom) / (top - bottom) * (bottom_edge - top_edge)
    d.text(2, 22, title, 14, anchor="start", weight="600")
    for power in range(bottom, top + 1):
        at = round(y(10**power), 1)
        d.parts.append(f'<path d="M{left},{at} H{right}" stroke="{colors["group"]}" stroke-width="0.5"/>')
        d.text(left - 6, at + 4, number(10.0**power), 12, "faint", "end")
    # From the right, without the names that would touch the one before.
    free = width
    for level in sorted({row[1] for row in rows}, reverse=True):
        if x(level) + 22 <= free:
            d.text(round(x(level), 1), bottom_edge + 20, f"{level:,}", 12, "faint")
            free = x(level) - 22
    d.text((left + right) / 2, bottom_edge + 40, "requests in flight", 12, "faint")
    ends = []
    for peer, (name, light, darker) in PEERS.items():
        points = [(round(x(row[1]), 1), round(y(row[2]), 1)) for row in rows if row[0] == peer]
        if not points:
            continue
        color = darker if dark else light
        path = " L".join(f"{a},{b}" for a, b in points)
        thickness = 2.5 if peer.startswith("trunkline") else 1.5
        d.parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="{thickness}"/>')
        d.parts += [f'<circle cx="{a}" cy="{b}" r="3" fill="{color}"/>' for a, b in points]
        ends.append((points[-1][1], name, color))
    last = 0
    for at, name, color in sorted(ends):
        last = max(at, last + 17)
        d.parts.append(f'<circle cx="{right + 12}" cy="{last}" r="4" fill="{color}"/>')
        d.text(right + 20, last + 4, name, 12, anchor="start")
    return d.svg()


def replaced(path, marker, text):
    """The text of the file with `text` between its two markers."""
    begin, end = f"<!-- {marker} -->", f"<!-- end of {marker} -->"
    head, rest = path.read_text().split(begin)
    return f"{head}{begin}\n{text}\n{end}{rest.split(end)[1]}"


def main(arguments):
    if len(arguments) > 1:
        sys.exit(__doc__)
    if arguments and arguments[0] != "--update":
        DATA.write_text(compact(json.loads(pathlib.Path(arguments[0]).read_text())))
    data = json.loads(DATA.read_text())
    levels = sorted({row[1] for row in data["rows"]})
    tables = (
        f"Requests per second:\n\n{table(data, 'req_per_s', levels)}\n\n"
        f"CPU time of the client per request, in µs:\n\n{table(data, 'cpu_us_per_req', levels)}\n\n"
        f"Peak memory of the client's process, in MiB:\n\n{table(data, 'max_rss_kb', levels, scale=1024)}\n\n"
        f"Measured on {data['date'][:10]}, {data['cpus']} processors, medians of {data['runs']} runs."
    )
    files = {ARTICLE: replaced(ARTICLE, "measurements", tables)}
    short = [level for level in (1, 16, 256, 4096, 65536) if level in levels]
    readme = pathlib.Path("README.md")
    files[readme] = replaced(readme, "measurements", table(data, "cpu_us_per_req", short))
    for name, column, title in (
        ("throughput", "req_per_s", "Requests per second"),
        ("processor-time", "cpu_us_per_req", "CPU time of the client per request, µs"),
    ):
        for suffix, colors in (("", LIGHT), ("~dark", DARK)):
            files[RESOURCES / f"{name}{suffix}.svg"] = plot(data, column, title, colors, suffix != "")
    for path, text in files.items():
        if arguments:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path} is out of date; run python3 .ci/plot.py --update")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Writes the Grafana dashboard of the article *In production* from the table of metrics in *Exporting metrics*.

    python3 .ci/dashboard.py           checks that the file is up to date
    python3 .ci/dashboard.py --update  writes it

A test compares the table with the metrics in the code. Every metric is in a panel: counters as rates, gauges as they
are, with their limit beside them, and histograms as percentiles. A metric that belongs to no row of `ROWS` is an error.
"""

import json
import pathlib
import re
import sys

TABLE = pathlib.Path("Sources/TrunklineTelemetry/Documentation.docc/Articles/ExportingMetrics.md")
DASHBOARD = pathlib.Path("Sources/Trunkline/Documentation.docc/Resources/trunkline-dashboard.json")

# Titles of rows in their order, and how the names of their metrics begin.
ROWS = {
    "Calls": r"rpc\.client\.call\.|trunkline\.delay\.",
    "Requests": r"trunkline\.(request|message|response)\.",
    "Links": r"trunkline\.(link|address|tls|ping|heartbeat|datagram)\.",
    "Limits of links": r"trunkline\.(serial|outbound)\.",
    "Pushes": r"trunkline\.push\.",
    "Requests of the server": r"trunkline\.server_request\.",
    "Cache": r"trunkline\.cache\.",
    "Observers and the log": r"trunkline\.observer\.",
    "Frames and bytes": r"trunkline\.(frames?|io)\b",
    "TCP": r"trunkline\.tcp\.",
    "Clusters": r"trunkline\.cluster\.",
}
# The limits of metrics that do not have the same name with `.limit`.
LIMITS = {
    "trunkline.serial.limit": "trunkline.serial.held",
    "trunkline.request.waiting.limit": "trunkline.request.pending",
}
# Labels of servers make too many lines for percentiles and rates: a panel has a line for each client and other label.
SERVER = {"server.address", "server.port", "network.peer.address"}
SELECTOR = 'instance=~"$instance", trunkline_client_name=~"$client"'
SOURCE = {"type": "prometheus", "uid": "${source}"}


class Metric:
    def __init__(self, row):
        self.name, self.kind, self.unit, attributes, self.help = row
        self.attributes = re.findall(r"`([^`]+)`", attributes)

    @property
    def prometheus(self):
        unit = {"s": "_seconds", "By": "_bytes"}.get(self.unit, "")
        return self.name.replace(".", "_") + unit + ("_total" if self.kind == "counter" else "")

    @property
    def grafana_unit(self):
        if self.kind == "counter":
            return {"By": "Bps", "{request}": "reqps", "{call}": "reqps"}.get(self.unit, "cps")
        return {"By": "bytes", "s": "s"}.get(self.unit, "short")

    @property
    def title(self):
        words = self.name.removeprefix("trunkline.").removeprefix("rpc.client.").replace("_", " ").split(".")
        words = [{"io": "I/O", "tcp": "TCP", "rtt": "RTT"}.get(word, word) for word in words]
        # "Requests accepted", but "Request errors".
        if not words[-1].endswith("s"):
            plural = lambda word: word + ("es" if word.endswith("sh") else "s")
            words = [plural(word) if self.unit == f"{{{word}}}" else word for word in words]
        title = " ".join(words)
        return title[0].upper() + title[1:] + (" per second" if self.kind == "counter" else "")


def metrics():
    rows = re.findall(
        r"^\| `((?:rpc|trunkline)\.[^`]+)` \| (\w+) \| `([^`]+)` \| (.*?) \| (.+) \|$", TABLE.read_text(), re.M
    )
    return [Metric(row) for row in rows]


def label(attribute):
    return attribute.replace(".", "_")


def grouped(attributes, *further):
    return ", ".join([*further, "trunkline_client_name", *map(label, attributes)])


def legend(attributes, suffix=""):
    return " ".join(["{{trunkline_client_name}}", *(f"{{{{{label(name)}}}}}" for name in attributes)]) + suffix


def queries(metric, limit):
    """Expressions and legends."""
    name, attributes = metric.prometheus, metric.attributes
    if metric.kind == "histogram":
        shown = [each for each in attributes if each not in SERVER]
        rate = f"rate({name}_bucket{{{SELECTOR}}}[$__rate_interval])"
        for percent in (50, 99):
            expression = f"histogram_quantile({percent / 100}, sum by ({grouped(shown, 'le')}) ({rate}))"
            yield expression, legend(shown, f" p{percent}")
    elif metric.kind == "counter":
        shown = [each for each in attributes if each not in SERVER or metric.name == "trunkline.address.failures"]
        yield f"sum by ({grouped(shown)}) (rate({name}{{{SELECTOR}}}[$__rate_interval]))", legend(shown)
    elif metric.name == "trunkline.tls.certificate.not_after":
        yield f"min by ({grouped(attributes)}) ({name}{{{SELECTOR}}} - time())", legend(attributes)
    else:
        function = "max" if metric.unit == "s" else "sum"
        yield f"{function} by ({grouped(attributes)}) ({name}{{{SELECTOR}}})", legend(attributes)
    if limit:
        expression = f"sum by ({grouped(limit.attributes)}) ({limit.prometheus}{{{SELECTOR}}})"
        yield expression, legend(limit.attributes, " limit")


def panel(title, description, unit, expressions):
    lines = {"drawStyle": "line", "fillOpacity": 0, "lineWidth": 1, "showPoints": "never", "spanNulls": False}
    # A limit is in the legend. As a line it would press the values to the ground; a click on it shows the line.
    limits = {
        "matcher": {"id": "byRegexp", "options": "/ limit$/"},
        "properties": [{"id": "custom.hideFrom", "value": {"legend": False, "tooltip": False, "viz": True}}],
    }
    targets = [
        {"datasource": SOURCE, "expr": expression, "legendFormat": text, "range": True, "refId": chr(ord("A") + index)}
        for index, (expression, text) in enumerate(expressions)
    ]
    return {
        "type": "timeseries",
        "title": title,
        "description": description,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "custom": lines}, "overrides": [limits]},
        # Most series of a metric with causes or codes are zero: those that are not come first.
        "options": {
            "legend": {
                "calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom", "showLegend": True,
                "sortBy": "Max", "sortDesc": True,
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": targets,
    }  # fmt: skip


def overview():
    """The panels at the top: what to look at first."""
    calls, by, name = "rpc_client_call_duration_seconds", "sum by (trunkline_client_name)", "{{trunkline_client_name}}"

    def rate(suffix, labels=""):
        return f"rate({calls}_{suffix}{{{SELECTOR}{labels}}}[$__rate_interval])"

    ready = f'{by} (trunkline_link_state{{{SELECTOR}, trunkline_link_state="ready"}})'
    yield panel("Links that are ready", "Without one, requests wait.", "short", [(ready, name)])
    yield panel("Calls per second", "Calls that ended in any way.", "reqps", [(f"{by} ({rate('count')})", name)])
    failed = rate("count", ', error_type!=""')
    share = f"{by} ({failed}) / {by} ({rate('count')})"
    text = "Also cancelled calls. Of a cluster: of tries."
    yield panel("Share of calls that fail", text, "percentunit", [(share, name)])
    succeeded = rate("bucket", ', error_type=""')
    slow = f"histogram_quantile(0.99, sum by (le, trunkline_client_name) ({succeeded}))"
    yield panel("p99 of calls that succeed", "With waiting and retries.", "s", [(slow, name)])
    used = [
        ("trunkline_serial_held", "trunkline_serial_limit", "serials"),
        ("trunkline_request_in_flight", "trunkline_request_in_flight_limit", "in flight"),
        ("trunkline_request_waiting_size_bytes", "trunkline_request_waiting_size_limit_bytes", "waiting"),
        ("trunkline_outbound_size_bytes", "trunkline_outbound_size_limit_bytes", "outbound"),
    ]
    shares = [
        (f"max by (trunkline_client_name) ({a}{{{SELECTOR}}} / ({b}{{{SELECTOR}}} > 0))", f"{name} {text}")
        for a, b, text in used
    ]
    yield panel("Use of limits", "A value divided by its limit.", "percentunit", shares)
    labels = f'{SELECTOR}, trunkline_delay_type="late"'
    late = f"max by (trunkline_client_name) (rate(trunkline_delay_duration_seconds_sum{{{labels}}}[$__rate_interval]))"
    text = "The share of time in which the event loop did not run what was due."
    yield panel("Lateness of the event loop", text, "percentunit", [(late, name)])


def rows():
    """Titles, and the panels of each row."""
    all_metrics = metrics()
    by_name = {metric.name: metric for metric in all_metrics}
    limits = {}
    for metric in all_metrics:
        of = LIMITS.get(metric.name) or metric.name.removesuffix(".limit")
        if of != metric.name:
            limits[of] = metric
    panels = {title: [] for title in ROWS}
    for metric in all_metrics:
        if metric in limits.values():
            continue
        row = next((title for title, names in ROWS.items() if re.match(names, metric.name)), None)
        if row is None:
            sys.exit(f"{metric.name} belongs to no row of {__file__}")
        title, help_text, limit = metric.title, metric.help, limits.get(metric.name)
        if metric.name == "trunkline.tls.certificate.not_after":
            title, help_text = "Time until a certificate expires", "By whose it is: the server's, or this client's"
        if limit:
            help_text += f". The limit: {limit.help[0].lower()}{limit.help[1:]}"
        panels[row].append(panel(title, help_text + ".", metric.grafana_unit, queries(metric, limit)))
    assert set(limits) <= set(by_name), limits
    return [("Overview", list(overview())), *panels.items()]


def variable(name, title, query):
    return {
        "name": name, "label": title, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name},
        "definition": query, "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }  # fmt: skip


def dashboard():
    panels, y = [], 0
    for title, members in rows():
        # Rows other than the first are collapsed, and contain their panels.
        is_open = title == "Overview"
        row = {"type": "row", "title": title, "collapsed": not is_open, "panels": []}
        row["gridPos"] = {"h": 1, "w": 24, "x": 0, "y": y}
        panels.append(row)
        y += 1
        for index, member in enumerate(members):
            member["gridPos"] = {"h": 9, "w": 8, "x": index % 3 * 8, "y": y + index // 3 * 9}
            (panels if is_open else row["panels"]).append(member)
        if is_open:
            y += (len(members) + 2) // 3 * 9
    number = 0
    for each in panels:
        for one in [each, *each.get("panels", [])]:
            number += 1
            one["id"] = number
    names = '__name__=~"trunkline_link_attempts_total|trunkline_cluster_call_begun_total"'
    clients = f'label_values({{{names}, instance=~"$instance"}}, trunkline_client_name)'
    return {
        "title": "Trunkline",
        "description": "All metrics of the clients and clusters of Trunkline.",
        "uid": "trunkline",
        "tags": ["trunkline"],
        "schemaVersion": 41,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {
            "list": [
                {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1,
                 "current": {}},
                variable("instance", "Instance", f"label_values({{{names}}}, instance)"),
                variable("client", "Client", clients),
            ]
        },
        "panels": panels,
    }  # fmt: skip


def expressions(board):
    """All queries of a dashboard."""
    for each in board["panels"]:
        for one in [each, *each.get("panels", [])]:
            for query in one.get("targets", []):
                yield one["title"], query["expr"]


def main(arguments):
    if arguments not in ([], ["--update"]):
        sys.exit(__doc__)
    board = dashboard()
    shown = " ".join(expression for _, expression in expressions(board))
    missing = [each.name for each in metrics() if not re.search(rf"\b{each.prometheus}(_bucket)?\{{", shown)]
    if missing or not metrics():
        sys.exit(f"no panel shows {missing}")
    text = json.dumps(board, indent=2) + "\n"
    if arguments:
        DASHBOARD.write_text(text)
    elif not DASHBOARD.exists() or DASHBOARD.read_text() != text:
        sys.exit(f"{DASHBOARD} is out of date; run python3 .ci/dashboard.py --update")


if __name__ == "__main__":
    main(sys.argv[1:])

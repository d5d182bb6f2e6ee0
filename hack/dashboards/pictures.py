"""Draws dashboards from what a Prometheus answers: pictures.py PROMETHEUS SECONDS OUT FILE…

Each FILE becomes OUT/NAME.png, with its rows, advice and panels where Grafana has
them, if there is data for any panel. SECONDS is how far back the panels look.
The PNG says in its text "Dashboard" which SHA-256 the FILE had, by which a test
finds pictures of dashboards that have changed since.
"""

import hashlib
import json
import pathlib
import re
import sys
import textwrap
import time
import urllib.parse
import urllib.request

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot, ticker  # noqa: E402 (a backend is chosen first)

COLUMNS, INCH = 24, 0.55
INK, MUTED, GRID = "#1f2430", "#5c6470", "#d9dde3"
COLOURS = ["#2f6db5", "#d9822b", "#3d9a58", "#b8413b", "#7b5ea7", "#5b7f95", "#a8872b", "#c2628f"]
SUFFIX = {"s": "s", "Bps": "B/s", "bytes": "B", "ops": "/s", "short": ""}


def ask(prometheus, query, seconds):
    """The series of a query over the last seconds: labels and points."""
    now = time.time()
    parameters = urllib.parse.urlencode({"query": query, "start": now - seconds, "end": now, "step": 1})
    with urllib.request.urlopen(f"{prometheus}/api/v1/query_range?{parameters}") as answer:
        result = json.load(answer)["data"]["result"]
    for series in result:
        points = [(at - now, float(value)) for at, value in series["values"]]
        yield series["metric"], [(at, value) for at, value in points if value == value and abs(value) != float("inf")]


def legend(template, labels):
    name = re.sub(r"{{\s*(\w+)\s*}}", lambda m: labels.get(m.group(1), ""), template)
    return name if len(name) <= 28 else name[:13] + "…" + name[-13:]


def draw(axes, panel, prometheus, seconds):
    """Draws a panel, and returns how many lines it has."""
    room = 6 * panel["gridPos"]["w"]  # of characters, before the title of the next panel
    axes.set_title(panel["title"], loc="left", fontsize=min(10, 10 * room / len(panel["title"])), color=INK)
    series = [
        (max(value for _, value in points), legend(target["legendFormat"], labels), points)
        for target in panel["targets"]
        for labels, points in ask(prometheus, target["expr"].replace("$namespace", ".*"), seconds)
        if points
    ]
    shown = sorted(series, key=lambda s: -s[0])[:len(COLOURS)]
    for colour, (_, name, points) in zip(COLOURS, sorted(shown, key=lambda s: s[1])):
        axes.plot(*zip(*points), color=colour, linewidth=1.4, label=name)
    largest = shown[0][0] if shown else 0
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    if not shown:
        axes.set_yticks([])
        axes.set_xticks([])
        axes.text(0.5, 0.5, "no data in this mesh", ha="center", va="center", color=MUTED, transform=axes.transAxes)
        return 0
    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    if unit == "percentunit":
        axes.yaxis.set_major_formatter(ticker.PercentFormatter(1))
    elif largest > 0.5 or SUFFIX[unit]:
        axes.yaxis.set_major_formatter(ticker.EngFormatter(unit=SUFFIX[unit], sep=" " if SUFFIX[unit] else ""))
    axes.yaxis.set_major_locator(ticker.MaxNLocator(4))
    axes.xaxis.set_major_locator(ticker.MultipleLocator(60))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda at, _: f"{at / 60:.0f}m" if at else "now"))
    axes.set_xlim(-seconds, 0)
    axes.set_ylim(bottom=0, top=None if largest > 0 else 1)
    axes.tick_params(colors=MUTED, labelsize=8, length=0)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    columns = 1 if any(len(s[1]) > 16 for s in shown) else 2
    axes.legend(fontsize=7, facecolor="white", edgecolor="none", framealpha=0.75, loc="best", ncols=columns, labelcolor=MUTED, handlelength=1)
    return len(shown)


def place(figure, at, height):
    """The axes of a panel: its place in Grafana's grid, less a margin for titles and ticks."""
    left, right, above, below = 1.5, 0.2, 0.65, 0.75
    width, tall = COLUMNS, height + 2
    return figure.add_axes((
        (at["x"] + left) / width, 1 - (2 + at["y"] + at["h"] - below) / tall,
        (at["w"] - left - right) / width, max(0.1, at["h"] - above - below) / tall,
    ))


def picture(dashboard, prometheus, seconds):
    """A dashboard, or None if there is no data for any of its panels."""
    height = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in dashboard["panels"])
    figure = pyplot.figure(figsize=(COLUMNS * INCH, (height + 2) * INCH * 0.6), facecolor="white")
    figure.text(0.012, 1 - 1 / (height + 2), dashboard["title"], fontsize=15, color=INK, va="center")
    lines = 0
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        if panel["type"] == "timeseries":
            lines += draw(place(figure, at, height), panel, prometheus, seconds)
            continue
        middle = 1 - (2 + at["y"] + at["h"] / 2) / (height + 2)
        if panel["type"] == "row":
            figure.text(0.012, middle, panel["title"], fontsize=12, fontweight="bold", color=INK, va="center")
        else:
            words = textwrap.fill(panel["options"]["content"], 150)
            figure.text(0.012, middle, words, fontsize=9, color=MUTED, va="center")
    return figure if lines else None


def main():
    prometheus, seconds, out = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    for file in map(pathlib.Path, sys.argv[4:]):
        content = file.read_bytes()
        figure = picture(json.loads(content), prometheus, seconds)
        if figure:
            text = {"Dashboard": hashlib.sha256(content).hexdigest()}
            figure.savefig(out / f"{file.stem}.png", dpi=80, metadata=text)


main()

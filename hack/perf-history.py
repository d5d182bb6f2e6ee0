#!/usr/bin/env python3
"""Keeps what labs and benchmarks have measured, version by version, and says what became worse.

  hack/perf-history.py verify HISTORY          says what is wrong with the file, if anything; a new one may be missing
  hack/perf-history.py add [--committed TIME] HISTORY REPORT...
                                               adds results of "lateen perf lab -o json", or a file of "go test -bench";
                                               TIME is when the version was committed, as 2026-11-29T00:41:27Z
  hack/perf-history.py check HISTORY           exit code 1 if a figure of the newest version is worse, by the rule below
  hack/perf-history.py page HISTORY PAGE NOTE  writes a page with the trend of each figure, and SVG files beside it;
                                               NOTE, if there is one, says how it was measured

A history has one line of JSON for each figure of each run: version, committed, time (when it was measured), machine,
name, unit, value. Versions stand in the order of their commits. Figures of different machines are never compared.

The rule: a figure is worse if its mean over the runs of a version is more than 10 % above the mean of the version
before, and Welch's t-test says so with 99 % confidence (one-sided). Both need three runs at least; with fewer
nothing is said. Figures that have no better direction (how many sidecars there were) are kept, and not judged.
"""
import glob
import itertools
import json
import math
import os
import sys
import textwrap

THRESHOLD = 0.10
RUNS = 3
# What each line has as a text.
FIELDS = ("version", "time", "machine", "name", "unit")
# In these units less is better: those of labs, and those of Go's benchmarks.
JUDGED = {"seconds", "bytes", "cores", "ns/op", "B/op", "allocs/op"}
# The 0.99 quantile of Student's t distribution by degrees of freedom.
STUDENT = [31.82, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.718, 2.681, 2.650, 2.624, 2.602]
NORMAL = 2.326


def figures_of_lab(report):
    """The figures of a report of lateen perf lab."""
    machine = report["machine"]
    common = {
        "version": report.get("lateen") or "unknown", "time": report["start"],
        "machine": f"{machine.get('cpu') or machine.get('arch')}, {machine['cores']} CPUs",
    }
    for table in report["tables"]:
        for row in table["rows"]:
            for column, cell in zip(table["columns"], row["cells"]):
                if cell.get("ours") is None:
                    continue
                name = f"{report['lab']} at {report['scale']:g}: {table['title']}: {row['name']}: {column['name']}"
                yield dict(common, name=name, unit=column["unit"], value=cell["ours"])


def figures_of_benchmarks(text):
    """The figures of go test -bench, which begins with lines as "cpu: AMD EPYC" and "lateen: v1"."""
    facts = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0].endswith(":"):
            facts[words[0][:-1]] = " ".join(words[1:])
        if len(words) < 4 or not words[0].startswith("Benchmark"):
            continue
        for value, unit in zip(words[2::2], words[3::2]):
            yield {
                "version": facts.get("lateen") or facts.get("commit") or "unknown", "time": facts.get("date", ""),
                "machine": f"{facts.get('cpu', 'unknown')}, {facts.get('cores', '?')} CPUs", "name": words[0],
                "unit": unit, "value": float(value),
            }


def read_report(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        report = json.loads(text)
    except ValueError:
        figures = list(figures_of_benchmarks(text))
        if not figures:
            raise SystemExit(f"{path} has no figures: want a whole report of lateen perf lab -o json, or a file of "
                             "go test -bench") from None
        return figures
    if not isinstance(report, dict) or report.get("kind") != "lab":
        raise SystemExit(f"{path}: want a report of lateen perf lab -o json, or a file of go test -bench")
    return list(figures_of_lab(report))


def flaw_of(line):
    """What is wrong with a line of a history, or None."""
    try:
        figure = json.loads(line)
    except ValueError as error:
        return f"the line is cut off, or is no JSON ({error})"
    if not isinstance(figure, dict):
        return "the line is no JSON object"
    for field in FIELDS:
        if not isinstance(figure.get(field), str) or field != "time" and not figure[field]:
            return f"the line has no {field}, or one that is no text"
    value = figure.get("value")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return "the line has no value, or one that is no number"
    return None


def text_of(history):
    """The text of a history: none if the file does not exist."""
    if not os.path.exists(history):
        return ""
    try:
        with open(history, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"{history} cannot be read: {error}") from None
    if not text.strip():
        raise SystemExit(f"{history} is empty: take it back from git, or remove it, and a new history begins")
    return text


def read(history):
    """The lines of a history, in order. A broken line ends the program."""
    lines = []
    for number, line in enumerate(text_of(history).split("\n"), 1):
        if not line.strip():
            continue
        flaw = flaw_of(line)
        if flaw:
            raise SystemExit(
                f"{history}:{number}: {flaw}. Want what hack/perf-history.py add writes: "
                f"take the file back from git (git log -- {os.path.basename(history)} in its directory), "
                f"or remove the line (sed -i {number}d {history}); its version then has a run less of that figure")
        lines.append(json.loads(line))
    return lines


def order_of(lines):
    """The versions in the order of their commits, with when each was committed, or else first measured."""
    times = {}
    for line in lines:
        at = line.get("committed") or line["time"]
        times[line["version"]] = min(at, times.get(line["version"], at))
    return dict(sorted(times.items(), key=lambda version: version[1]))


def series(lines):
    """By figure (machine, name, unit): a list of versions with their values, oldest first."""
    all_, order = {}, list(order_of(lines))
    for line in lines:
        versions = all_.setdefault((line["machine"], line["name"], line["unit"]), {})
        versions.setdefault(line["version"], []).append(line["value"])
    return {key: sorted(versions.items(), key=lambda v: order.index(v[0])) for key, versions in all_.items()}


def mean_variance(values):
    mean = sum(values) / len(values)
    return mean, sum((v - mean) ** 2 for v in values) / (len(values) - 1)


def is_worse(before, now):
    """The rule above. It returns None if there are too few runs for it."""
    if min(len(before), len(now)) < RUNS:
        return None
    (m1, v1), (m2, v2) = mean_variance(before), mean_variance(now)
    if m2 <= m1 * (1 + THRESHOLD):
        return False
    error = v1 / len(before) + v2 / len(now)
    if error == 0:
        return True
    degrees = error ** 2 / ((v1 / len(before)) ** 2 / (len(before) - 1) + (v2 / len(now)) ** 2 / (len(now) - 1))
    at = max(int(degrees), 1)
    return (m2 - m1) / math.sqrt(error) > (STUDENT[at - 1] if at <= len(STUDENT) else NORMAL + 4.0 / at)


def add(history, *reports):
    committed = None
    if history == "--committed":
        if len(reports) < 3:
            raise SystemExit(__doc__)
        committed, history, *reports = reports
    read(history)
    lines = [line for path in reports for line in read_report(path)]
    for line in lines:
        if line["version"].endswith("-dirty") or line["version"] in ("dev", "unknown"):
            raise SystemExit(f"version {line['version']}: want a commit that others can check out and measure: commit "
                             f"what is changed, build anew, and measure again; nothing is added to {history}")
        if committed:
            line["committed"] = committed
    text = text_of(history)
    text += "" if text.endswith("\n") or not text else "\n"
    text += "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    with open(history + ".new", "w", encoding="utf-8") as file:  # whole or not at all, whatever ends this program
        file.write(text)
    os.replace(history + ".new", history)
    print(f"{len(lines)} figures added to {history}")


def verify(history):
    read(history)


def judged(versions):
    """Each version with the one before it: (before, version, verdict of the rule, by how much the mean is above)."""
    for (old, before), (new, now) in zip(versions, versions[1:]):
        a, b = sum(before) / len(before), sum(now) / len(now)
        yield old, new, is_worse(before, now), change(a, b)


def change(a, b):
    return b / a - 1 if a else float(b > a)


def newest_of(lines):
    """The newest version with the numbers of its figures by verdict, and a line for each figure that is worse."""
    newest = list(order_of(lines))[-1]
    worse, said, unsaid = [], 0, 0
    for (machine, name, unit), versions in sorted(series(lines).items()):
        if unit not in JUDGED or len(versions) < 2 or versions[-1][0] != newest:
            continue
        *_, (old, _, verdict, more) = judged(versions)
        said, unsaid = said + (verdict is not None), unsaid + (verdict is None)
        if verdict:
            mean = sum(versions[-1][1]) / len(versions[-1][1])
            worse.append(f"{name}: {mean:g} {unit}, {100 * more:.0f} % more than {old} ({machine})")
    few = f"{unsaid} with too few runs (want {RUNS} of each)"
    return f"{newest}: {said} figures judged, {len(worse)} worse, {few}", worse


def check(history):
    lines = read(history)
    if not lines:
        raise SystemExit(f"{history} has no lines: want what hack/perf-history.py add writes")
    said, worse = newest_of(lines)
    print("\n  ".join([said, *worse]))
    return 1 if worse else 0


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def chart(title, unit, versions):
    """An SVG: a point for each run, a line through the means."""
    width, height, left, top, bottom = 640, 220, 60, 34, 46
    highest = max(max(values) for _, values in versions) or 1
    x = lambda i: left + (width - left - 30) * (i + 0.5) / len(versions)
    y = lambda v: top + (height - top - bottom) * (1 - v / (1.1 * highest))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{left}" y="20" font-size="13">{escaped(title)} ({escaped(unit)})</text>']
    for part in (0, 0.5, 1):
        out.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(part * highest):.1f}" y2="{y(part * highest):.1f}" '
                   'stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{y(part * highest) + 4:.1f}" font-size="11" text-anchor="end">'
                   f'{part * highest:.3g}</text>')
    means = []
    for i, (version, values) in enumerate(versions):
        means.append(f"{x(i):.1f},{y(sum(values) / len(values)):.1f}")
        out += [f'<circle cx="{x(i):.1f}" cy="{y(v):.1f}" r="3" fill="#5470c6" fill-opacity="0.6"/>' for v in values]
        if (len(versions) - 1 - i) % math.ceil(len(versions) / 10):
            continue  # there is room for ten names
        out.append(f'<text x="{x(i):.1f}" y="{height - bottom + 18}" font-size="10" text-anchor="middle">'
                   f'{escaped(version)}</text>')
    out.append(f'<polyline points="{" ".join(means)}" fill="none" stroke="#5470c6" stroke-width="1.5"/></svg>')
    return "\n".join(out) + "\n"


PAGE = """# The history of Lateen's own figures

What each version took, as `hack/perf-history.sh` has measured it. Each version is a commit, and is
measured at the same sizes: a table in that script has them, and each heading says its own ("at
0.02" is 2 % of the published size).

A figure is worse if its mean is more than 10 % above the version before and Welch's t-test agrees
with 99 % confidence, of three runs each. The script fails if that is so of the newest version. The
column "the rule" names all versions of which it is so. A rise in many small steps is not worse by
the rule: the column "change" shows it, from the first version to the last. Counts have no better
direction: they are not judged. A trend shows means, and spans a quarter of the greatest at least.
"""
SPARKS = "▁▂▃▄▅▆▇█"
# A trend has so many of the newest versions.
TREND = 30


def trend(means):
    """Bars of the newest means. Differences that are small beside the means look small."""
    means = means[-TREND:]
    highest = max(means)
    lowest = min(min(means), 0.75 * highest)
    step = (highest - lowest) / (len(SPARKS) - 1) or 1
    return "".join(SPARKS[round((m - lowest) / step)] for m in means)


def shown(value, unit):
    """A value in a unit that is easy to read."""
    if unit == "bytes":
        return f"{value / 2 ** 20:.1f} MiB"
    if unit == "seconds" and value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.4g} {unit if unit != 'count' else ''}".strip()


def rule(versions, unit):
    """What the rule says of all versions of a figure."""
    if unit not in JUDGED:
        return "not judged"
    verdicts = list(judged(versions))
    known = [v for v in verdicts if v[2] is not None]
    if not known:
        return "one version" if not verdicts else "too few runs"
    worse = [f"{new} ({100 * more:+.0f} %)" for _, new, verdict, more in known if verdict]
    text = "worse: " + ", ".join(worse) if worse else "none worse"
    return text if len(known) == len(verdicts) else f"{text} (of {len(known)} of {len(verdicts)})"


def row(name, unit, versions):
    means = [sum(values) / len(values) for _, values in versions]
    first, last = means[0], means[-1]
    cells = [name, trend(means), shown(first, unit), shown(last, unit), f"{100 * change(first, last):+.1f} %",
             rule(versions, unit)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def parts(name):
    """The heading of a figure, which is its lab, and its name under that."""
    heading, colon, rest = name.partition(": ")
    return (heading, rest) if colon else ("Benchmarks", name)


def versions_table(lines):
    runs = {}
    for line in lines:
        key = line["name"], line["unit"], line["machine"]
        runs.setdefault(line["version"], {}).setdefault(key, []).append(line)
    out = ["| version | committed | runs |\n|---|---|---|\n"]
    for version, at in order_of(lines).items():
        counts = [len(same) for same in runs[version].values()]
        least, most = min(counts), max(counts)
        out.append(f"| {version} | {at[:16].replace('T', ' ')} | {most if least == most else f'{least} to {most}'} |\n")
    return "".join(out)


def section(heading, figures, draw):
    """The table of the figures of a lab, and the charts of those that are judged."""
    out = [f"\n### {heading}\n\n| figure | trend | first | last | change | the rule |\n|---|---|---|---|---|---|\n"]
    out += [row(name, unit, versions) for name, unit, versions in figures]
    for name, unit, versions in figures:
        if unit in JUDGED:
            out.append(f"\n![{name}]({draw(chart(f'{heading}: {name}', unit, versions))})\n")
    return "".join(out)


def drawer(base):
    """A function that writes a chart into a file of the next number, and returns its place. Those of before go."""
    os.makedirs(base, exist_ok=True)
    for old in glob.glob(os.path.join(glob.escape(base), "[0-9][0-9][0-9].svg")):
        os.remove(old)
    numbers = itertools.count(1)

    def draw(svg):
        name = f"{next(numbers):03d}.svg"
        with open(os.path.join(base, name), "w", encoding="utf-8") as file:
            file.write(svg)
        return f"{os.path.basename(base)}/{name}"
    return draw


def page(history, path, note=""):
    lines = read(history)
    if not lines:
        raise SystemExit(f"{history} has no lines: want what hack/perf-history.py add writes")
    said, worse = newest_of(lines)
    out = [PAGE] + ["\n" + textwrap.fill(text, 100) + "\n" for text in (note, f"The newest version, {said}.") if text]
    out += ["\n"] * bool(worse) + [textwrap.fill(f"* {line}", 100, subsequent_indent="  ") + "\n" for line in worse]
    draw = drawer(os.path.splitext(path)[0])
    machines = {}
    for (machine, name, unit), versions in sorted(series(lines).items()):
        heading, rest = parts(name)
        machines.setdefault(machine, {}).setdefault(heading, []).append((rest, unit, versions))
    for machine, headings in machines.items():
        out.append(f"\n## {machine}\n\n" + versions_table([line for line in lines if line["machine"] == machine]))
        out += [section(heading, figures, draw) for heading, figures in sorted(headings.items())]
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(out))


def main(words):
    commands = {"verify": (verify, 1, 1), "add": (add, 2, None), "check": (check, 1, 1), "page": (page, 2, 3)}
    command, least, most = commands.get(words[0] if words else "", (None, 0, 0))
    arguments = words[1:]
    if command is None or len(arguments) < least or most is not None and len(arguments) > most:
        raise SystemExit(__doc__)
    return command(*arguments) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Keeps what labs and benchmarks have measured, version by version, and says what became worse.

  hack/perf-history.py add HISTORY REPORT...   adds results of "lateen perf lab -o json", or a file of "go test -bench"
  hack/perf-history.py check HISTORY           exit code 1 if a figure of the newest version is worse, by the rule below
  hack/perf-history.py page HISTORY PAGE NOTE  writes a page with a chart of each figure, as SVG files beside the page;
                                               NOTE, if there is one, says how it was measured

A history has one line of JSON for each figure of each run: version, time, machine, name, unit, value. Figures of
different machines are never compared.

The rule: a figure is worse if its mean over the runs of the newest version is more than 10 % above the mean of the
version before, and Welch's t-test says so with 99 % confidence (one-sided). Both need three runs at least; with fewer
nothing is said. Figures that have no better direction (how many sidecars there were) are kept, and not judged.
"""
import json
import math
import os
import sys
import textwrap

THRESHOLD = 0.10
RUNS = 3
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
                "machine": f"{facts.get('cpu', 'unknown')}, {facts.get('cores', '?')} CPUs", "name": words[0], "unit": unit, "value": float(value),
            }


def read_report(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        report = json.loads(text)
    except ValueError:
        return list(figures_of_benchmarks(text))
    if not isinstance(report, dict) or report.get("kind") != "lab":
        raise SystemExit(f"{path}: want a report of lateen perf lab -o json, or a file of go test -bench")
    return list(figures_of_lab(report))


def read(history):
    """The lines of a history, in order."""
    if not os.path.exists(history):
        return []
    with open(history, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def series(lines):
    """By figure (machine, name, unit): a list of versions with their values, oldest first."""
    all_ = {}
    for line in lines:
        versions = all_.setdefault((line["machine"], line["name"], line["unit"]), {})
        versions.setdefault(line["version"], []).append(line["value"])
    return {key: list(versions.items()) for key, versions in all_.items()}


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
    lines = [line for path in reports for line in read_report(path)]
    with open(history, "a", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, sort_keys=True) + "\n")
    print(f"{len(lines)} figures added to {history}")


def check(history):
    lines = read(history)
    if not lines:
        raise SystemExit(f"{history} has no lines: want what hack/perf-history.py add writes")
    newest = lines[-1]["version"]
    worse, judged, unsaid = [], 0, 0
    for (machine, name, unit), versions in sorted(series(lines).items()):
        if unit not in JUDGED or len(versions) < 2 or versions[-1][0] != newest:
            continue
        (old, before), (_, now) = versions[-2:]
        verdict = is_worse(before, now)
        unsaid, judged = unsaid + (verdict is None), judged + (verdict is not None)
        if verdict:
            a, b = mean_variance(before)[0], mean_variance(now)[0]
            worse.append(f"{name}: {b:g} {unit}, {100 * (b / a - 1) if a else 100:.0f} % more than {old} ({machine})")
    print(f"{newest}: {judged} figures judged, {len(worse)} worse, {unsaid} with too few runs (want {RUNS} of each)")
    for line in worse:
        print("  " + line)
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
        out.append(f'<text x="{x(i):.1f}" y="{height - bottom + 18}" font-size="11" text-anchor="middle">'
                   f'{escaped(version)}</text>')
    out.append(f'<polyline points="{" ".join(means)}" fill="none" stroke="#5470c6" stroke-width="1.5"/></svg>')
    return "\n".join(out) + "\n"


PAGE = """# The history of Lateen's own figures

What each version took, as `hack/perf-history.sh` has measured it: points are runs, the line goes
through their means. The script fails if a figure of the newest version is more than 10 % above that
of the version before and Welch's t-test agrees with 99 % confidence, of three runs each.
"""


def page(history, path, note=""):
    base = os.path.splitext(path)[0]
    os.makedirs(base, exist_ok=True)
    out, drawn = [PAGE + ("\n" + textwrap.fill(note, 100) + "\n" if note else "")], {}
    for (machine, name, unit), versions in sorted(series(read(history)).items()):
        if unit not in JUDGED:
            continue
        number = drawn[machine] = drawn.get(machine, 0) + 1
        if number == 1:
            out.append(f"\n## {machine}\n")
        file = f"{len(out):03d}.svg"
        with open(os.path.join(base, file), "w", encoding="utf-8") as svg:
            svg.write(chart(name, unit, versions))
        out.append(f"\n{textwrap.fill(name, 100)}\n\n![the chart of it]({os.path.basename(base)}/{file})\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(out))


def main(words):
    commands = {"add": (add, 2, None), "check": (check, 1, 1), "page": (page, 2, 3)}
    command, least, most = commands.get(words[0] if words else "", (None, 0, 0))
    arguments = words[1:]
    if command is None or len(arguments) < least or most is not None and len(arguments) > most:
        raise SystemExit(__doc__)
    return command(*arguments) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

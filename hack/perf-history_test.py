#!/usr/bin/env python3
"""Tests of perf-history.py: python3 hack/perf-history_test.py"""
import contextlib
import importlib.util
import io
import json
import os
import tempfile
import unittest

spec = importlib.util.spec_from_file_location(
    "history", os.path.join(os.path.dirname(os.path.abspath(__file__)), "perf-history.py"))
history = importlib.util.module_from_spec(spec)
spec.loader.exec_module(history)


def report(version, cpu):
    return {
        "kind": "lab", "lab": "book", "lateen": version, "start": "2026-11-25T12:00:00Z", "scale": 1,
        "machine": {"cpu": "AMD EPYC", "cores": 2},
        "tables": [{
            "title": "Ten new services",
            "columns": [{"name": "CPU", "unit": "seconds"}, {"name": "sidecars", "unit": "count"}],
            "rows": [{"name": "as is", "cells": [{"ours": cpu, "published": "1 s"}, {"ours": 100 * cpu}]},
                     {"name": "scoped", "cells": [{"published": "2 s"}, {}]}],
        }],
    }


class History(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.file = os.path.join(self.directory, "history.jsonl")

    def run_of(self, version, *values):
        for i, v in enumerate(values):
            path = os.path.join(self.directory, f"{version}-{i}.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(report(version, v), file)
            self.quietly(history.add, self.file, path)

    def quietly(self, function, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = function(*arguments)
        return code, out.getvalue()

    def test_a_worse_version_fails(self):
        self.run_of("v1", 1.00, 1.01, 0.99)
        self.run_of("v2", 1.30, 1.31, 1.29)
        code, text = self.quietly(history.check, self.file)
        self.assertEqual(code, 1)
        self.assertIn("as is: CPU: 1.3 seconds, 30 % more than v1", text)
        self.assertNotIn("sidecars", text, "a count has no better direction")

    def test_noise_and_small_changes_pass(self):
        self.run_of("v1", 0.5, 1.0, 1.5)
        self.run_of("v2", 0.8, 1.3, 1.8)  # 30 % more, and within the noise
        self.assertEqual(self.quietly(history.check, self.file)[0], 0)
        self.run_of("v3", 1.35, 1.36, 1.37)  # less than 10 % more
        self.assertEqual(self.quietly(history.check, self.file)[0], 0)

    def test_two_runs_say_nothing(self):
        self.run_of("v1", 1, 1)
        self.run_of("v2", 2, 2)
        code, text = self.quietly(history.check, self.file)
        self.assertEqual(code, 0)
        self.assertIn("0 figures judged, 0 worse, 1 with too few runs", text)

    def test_versions_of_other_machines_are_not_compared(self):
        self.run_of("v1", 1, 1, 1)
        self.run_of("v2", 2, 2, 2)
        lines = history.read(self.file)
        for line in lines[:6]:
            line["machine"] = "another"
        with open(self.file, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        self.assertEqual(self.quietly(history.check, self.file)[0], 0)

    def test_benchmarks_are_read(self):
        path = os.path.join(self.directory, "bench.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("cpu: AMD EPYC\ncommit: v1\nBenchmarkApply/x-2  \t100\t 12345 ns/op\t 67 B/op\t 8 allocs/op\n")
        figures = history.read_report(path)
        self.assertEqual([(f["unit"], f["value"]) for f in figures], [("ns/op", 12345), ("B/op", 67), ("allocs/op", 8)])
        self.assertEqual(figures[0]["version"], "v1")

    def test_the_page_draws_what_is_judged(self):
        self.run_of("v1", 1, 1.1)
        self.run_of("v<2>", 1.2)
        path = os.path.join(self.directory, "history.md")
        history.page(self.file, path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count("!["), 1)
        [name] = os.listdir(os.path.join(self.directory, "history"))
        with open(os.path.join(self.directory, "history", name), encoding="utf-8") as file:
            svg = file.read()
        self.assertEqual(svg.count("<circle"), 3)
        self.assertIn("v&lt;2&gt;", svg)

    def refuses(self, want, function, *arguments):
        with self.assertRaisesRegex(SystemExit, want):
            self.quietly(function, *arguments)

    def test_a_broken_history_is_refused_with_its_line(self):
        self.quietly(history.verify, self.file)  # a new one
        self.run_of("v1", 1, 1)
        self.quietly(history.verify, self.file)
        with open(self.file, encoding="utf-8") as file:
            whole = file.read()
        flaws = {
            whole[:-30]: "history.jsonl:4: the line is cut off.*take the file back from git.*sed -i 4d",
            whole[30:]: "history.jsonl:1: the line is cut off",
            whole.replace('"unit": "seconds"', '"unit": 3', 1): "history.jsonl:1: the line has no unit",
            whole.replace('"value": 1,', '"value": NaN,', 1): "history.jsonl:1: the line has no value",
            whole + "[]\n": "history.jsonl:5: the line is no JSON object",
            "": "is empty: take it back from git",
        }
        path = os.path.join(self.directory, "v1-0.json")
        for text, want in flaws.items():
            with open(self.file, "w", encoding="utf-8") as file:
                file.write(text)
            self.refuses(want, history.verify, self.file)
            self.refuses(want, history.add, self.file, path)
            with open(self.file, encoding="utf-8") as file:
                self.assertEqual(file.read(), text)

    def test_a_last_line_without_an_end_stays_a_line(self):
        self.run_of("v1", 1)
        with open(self.file, encoding="utf-8") as file:
            text = file.read()
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(text.rstrip("\n"))
        self.run_of("v2", 1)
        self.assertEqual(len(history.read(self.file)), 4)

    def test_versions_that_nobody_can_check_out_are_refused(self):
        for version in ("0123abcd-dirty", "dev"):
            path = os.path.join(self.directory, "report.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(report(version, 1), file)
            self.refuses(f"version {version}: want a commit that others can check out", history.add, self.file, path)
        self.assertFalse(os.path.exists(self.file))

    def test_a_report_that_is_cut_off_is_refused(self):
        path = os.path.join(self.directory, "report.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(report("v1", 1))[:-20])
        self.refuses("report.json has no figures", history.add, self.file, path)

    def test_versions_stand_in_the_order_of_commits(self):
        for version, day in (("v2", 2), ("v3", 3), ("v1", 1)):
            path = os.path.join(self.directory, "report.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(report(version, day), file)
            self.quietly(history.add, "--committed", f"2026-11-0{day}T00:00:00Z", self.file, path)
        for versions in history.series(history.read(self.file)).values():
            self.assertEqual([version for version, _ in versions], ["v1", "v2", "v3"])
        self.assertRegex(self.quietly(history.check, self.file)[1], "^v3: ")

    def test_the_page_has_trends_and_the_rule(self):
        self.run_of("v1", 1.00, 1.01, 0.99)
        self.run_of("v2", 1.30, 1.31, 1.29)
        self.run_of("v3", 0.50, 0.51, 0.49)
        path = os.path.join(self.directory, "history.md")
        history.page(self.file, path, "It was measured here.")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("\nIt was measured here.\n", text)
        self.assertIn("| Ten new services: as is: CPU | ▅█▁ | 1 seconds | 500 ms | -50.0 % | worse: v2 (+30 %) |\n", text)
        self.assertIn("| Ten new services: as is: sidecars | ▅█▁ | 100 | 50 | -50.0 % | not judged |\n", text)
        self.assertIn("0 worse", text)

    def test_small_differences_look_small(self):
        self.assertEqual(history.trend([100, 101, 100]), "███")
        self.assertEqual(history.trend([0, 0]), "▁▁")
        self.assertEqual(len(history.trend([1] * 100)), history.TREND)

    def test_other_files_are_refused(self):
        path = os.path.join(self.directory, "x.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{}")
        with self.assertRaisesRegex(SystemExit, "want a report of lateen perf lab"):
            history.read_report(path)


if __name__ == "__main__":
    unittest.main()

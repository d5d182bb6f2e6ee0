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

    def test_other_files_are_refused(self):
        path = os.path.join(self.directory, "x.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{}")
        with self.assertRaisesRegex(SystemExit, "want a report of lateen perf lab"):
            history.read_report(path)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""The committed conformance files are what the oracle writes, there are enough, and each algorithm shows each answer.
LABELS: slow
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import generate  # noqa: E402
from timeline import OUTCOMES  # noqa: E402

ALGORITHMS = ("token-bucket", "leaky-bucket", "fixed-window epoch", "fixed-window first-request",
              "fixed-window calendar", "sliding-window", "sliding-log", "leaky-queue", "concurrency")
FIELD_CASES = ("B01", "B03", "B09", "B11", "B13", "B15", "B17", "B19", "B22", "B23", "B25", "B27", "B29", "B54",
               "B56", "B57", "B59", "F06", "F10")
OPERATIONS = {"reserve", "acquire", "wait", "settle", "cancel", "renew", "release", "leave", "refund", "reset", "reload", "restart",
              "store"}


class Conformance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = list(generate.timelines())

    def test_files_are_what_the_oracle_writes(self):
        committed = {path.name: path.read_text(encoding="utf-8") for path in generate.HOME.glob("*.test.yaml")}
        made = {f"{timeline.name}.test.yaml": timeline.text() for timeline in self.made}
        self.assertEqual(sorted(committed), sorted(made), "run test/oracle/generate.py")
        for name, text in made.items():
            self.assertEqual(committed[name], text, f"{name}: run test/oracle/generate.py")

    def test_there_are_thousands_of_steps(self):
        self.assertGreaterEqual(sum(timeline.step_count for timeline in self.made), 9000)

    def test_every_operation_is_there(self):
        self.assertEqual(set().union(*(timeline.operations for timeline in self.made)), OPERATIONS)

    def test_every_algorithm_gives_every_answer(self):
        covered = set().union(*(timeline.covered for timeline in self.made))
        wanted = {(algorithm, outcome) for algorithm in ALGORITHMS for outcome in OUTCOMES}
        self.assertEqual(sorted(wanted - covered), [])

    def test_field_cases_are_there_by_number(self):
        for number in FIELD_CASES:
            self.assertTrue(any(timeline.name.startswith(number + "-") for timeline in self.made), number)


if __name__ == "__main__":
    unittest.main()

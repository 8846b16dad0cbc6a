# SPDX-License-Identifier: Apache-2.0
"""Each examples/NAME.c prints what its first comment says it prints."""

import glob
import os
import re
import subprocess
import unittest

BUILD = os.environ["WEIR_BUILD"]
SOURCE = os.environ["WEIR_SOURCE"]


class Examples(unittest.TestCase):
    def test_examples_print_what_they_say(self):
        sources = sorted(glob.glob(os.path.join(SOURCE, "examples", "*.c")))
        self.assertGreaterEqual(len(sources), 4)
        for source in sources:
            name = os.path.basename(source)[:-2]
            with self.subTest(example=name):
                with open(source, encoding="utf-8") as file:
                    text = file.read()
                said = re.search(r"^ \* Prints:\n((?: \*     .*\n)+)", text, re.M)
                self.assertIsNotNone(said, "no `Prints:` in the first comment")
                expected = said.group(1).replace(" *     ", "")
                done = subprocess.run([os.path.join(BUILD, "examples", "example_" + name)], cwd=SOURCE,
                                      capture_output=True, text=True, check=False, timeout=30)
                self.assertEqual(done.stderr, "")
                self.assertEqual(done.stdout, expected)
                self.assertEqual(done.returncode, 0)

    def test_examples_are_short(self):
        for source in glob.glob(os.path.join(SOURCE, "examples", "*.c")):
            with open(source, encoding="utf-8") as file:
                self.assertLess(len(file.readlines()), 70, source)


if __name__ == "__main__":
    unittest.main()

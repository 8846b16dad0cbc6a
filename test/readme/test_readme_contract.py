# SPDX-License-Identifier: Apache-2.0
"""The README's contract has a test file, and every example contract has one beside it."""

import glob
import os
import re
import textwrap
import unittest

SOURCE = os.environ["WEIR_SOURCE"]


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


class Contracts(unittest.TestCase):
    def test_the_readme_and_its_test_file_have_one_contract(self):
        shown = re.search(r"```yaml\n(weir: 1\n.*?)```", read("README.md"), re.S).group(1)
        played = re.search(r"^contract:\n(.*?)^timeline:", read("examples", "readme.test.yaml"), re.S | re.M).group(1)
        self.assertEqual(textwrap.dedent(played), shown)

    def test_every_example_contract_has_a_test_file(self):
        # Proxies' own configurations lie beside the contracts.
        contracts = [path for path in glob.glob(os.path.join(SOURCE, "examples", "**", "*.yaml"), recursive=True)
                     if not path.endswith(".test.yaml")
                     and re.search(r"^weir: 1$", read(os.path.relpath(path, SOURCE)), re.M)]
        self.assertGreaterEqual(len(contracts), 17)
        for path in contracts:
            test = path.removesuffix(".yaml") + ".test.yaml"
            with self.subTest(contract=os.path.relpath(path, SOURCE)):
                self.assertTrue(os.path.exists(test), "add " + os.path.relpath(test, SOURCE))
                self.assertIn(f"contract: {os.path.basename(path)}\n", read(os.path.relpath(test, SOURCE)))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual pages: they build, mandoc finds nothing in them, they refer to pages that exist."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("WEIR_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PAGES = sorted(glob.glob(os.path.join(SOURCE, "docs", "man", "*.scd")))

# What scdoc itself writes on every page.
HARMLESS = "skipping paragraph macro"


class Manuals(unittest.TestCase):
    @unittest.skipUnless(shutil.which("scdoc") and shutil.which("mandoc"), "scdoc or mandoc is missing")
    def test_pages_build_and_have_no_faults(self):
        with tempfile.TemporaryDirectory() as folder:
            for page in PAGES:
                with self.subTest(os.path.basename(page)), open(page, "rb") as source:
                    built = subprocess.run(["scdoc"], stdin=source, capture_output=True, check=True).stdout
                    path = os.path.join(folder, os.path.basename(page)[:-len(".scd")])
                    with open(path, "wb") as file:
                        file.write(built)
                    said = subprocess.run(["mandoc", "-Tlint", "-W", "warning", path], capture_output=True, text=True)
                    faults = [line for line in said.stdout.splitlines() if HARMLESS not in line]
                    self.assertEqual(faults, [])

    def test_references_lead_somewhere(self):
        names = {os.path.basename(page)[:-len(".scd")] for page in PAGES}
        self.assertIn("weir.1", names)
        for page in PAGES:
            with open(page, encoding="utf-8") as file:
                text = file.read()
            first = re.match(r"([a-z-]+)\((\d)\)\n", text)
            self.assertEqual(f"{first.group(1)}.{first.group(2)}", os.path.basename(page)[:-len(".scd")])
            for name, section in re.findall(r"\*((?:lib)?weir[a-z-]*)\*\((\d)\)", text):
                self.assertIn(f"{name}.{section}", names, page)


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv)

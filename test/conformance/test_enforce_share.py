# SPDX-License-Identifier: Apache-2.0
"""`enforce: 25%`: which keys are enforced is nobody's to predict, but their share is (within six standard deviations)."""

import os
import subprocess
import tempfile
import unittest

BUILD = os.environ.get("WEIR_BUILD", "build")
KEYS = 300


def enforced(share):
    """How many of KEYS keys are refused their second request."""
    text = ("weir: 1\nlimits:\n  - { name: l, key: [tenant], algorithm: fixed-window, rate: 1/1d, "
            f"enforce: {share} }}\n")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as contract:
        contract.write(text)
        contract.flush()
        done = [subprocess.run([os.path.join(BUILD, "weir"), "check", contract.name, f"tenant=t{number}", "--times", "2"],
                               capture_output=True, text=True, check=False) for number in range(KEYS)]
    assert all(one.returncode in (0, 1) for one in done), done[0].stderr
    return sum(one.returncode for one in done)


class Share(unittest.TestCase):
    def test_a_quarter_of_the_keys(self):
        self.assertTrue(30 <= enforced("25%") <= 120)

    def test_most_of_the_keys(self):
        self.assertTrue(KEYS - 40 <= enforced("97%") <= KEYS)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write test/conformance/*.test.yaml: `python3 test/oracle/generate.py` (or --into FOLDER).

The files are committed so that everybody can read and play them; test_conformance_fresh.py checks that this
program still writes the same bytes, so the oracle stays their only source.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import calls  # noqa: E402
import cases  # noqa: E402
import change  # noqa: E402
import field  # noqa: E402
import field_changes  # noqa: E402
import field_waiting  # noqa: E402
import fleet_cases  # noqa: E402
import lease_cases  # noqa: E402
import mixed  # noqa: E402
import permits  # noqa: E402
import roam  # noqa: E402
import roam_fleet  # noqa: E402
import roam_waiting  # noqa: E402
import waiting  # noqa: E402
import wander  # noqa: E402

HOME = pathlib.Path(__file__).resolve().parent.parent / "conformance"


def timelines(without=()):
    for module in (cases, mixed, wander, calls, change, roam, field, field_changes, waiting, permits, roam_waiting,
                   field_waiting, fleet_cases, lease_cases, roam_fleet):
        for make in module.FILES if module.__name__ not in without else ():
            made = make()
            for timeline in made if isinstance(made, list) else [made]:
                timeline.finish()
                yield timeline


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--into", type=pathlib.Path, default=HOME)
    folder = options.parse_args().into
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for timeline in timelines():
        assert timeline.name not in written
        written[timeline.name] = timeline
        (folder / f"{timeline.name}.test.yaml").write_text(timeline.text(), encoding="utf-8")
    for old in folder.glob("*.test.yaml"):
        if old.name.removesuffix(".test.yaml") not in written:
            old.unlink()
    print(f"{len(written)} files, {sum(t.step_count for t in written.values())} steps in {folder}")


if __name__ == "__main__":
    main()

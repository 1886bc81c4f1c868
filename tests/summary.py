#!/usr/bin/env python3
"""Add up CTest runs and print "N passed, N failed, N skipped" as the last line.

usage: summary.py [--no-skips] [--note=TEXT] RESULTS.xml...

A suite's own counts are used where its output has them (GoogleTest's, lit's, or a
line "N passed, N failed, N skipped"); any other suite counts as one test. The exit
status is 1 when something failed, when nothing ran, or, with --no-skips, when
something was skipped. TEXT says what was not run at all.
"""

import argparse
import re
import sys
import xml.etree.ElementTree as ElementTree

OWN_LINE = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
LIT_LINE = re.compile(r"^  (\w[\w ]*?) *: *(\d+)(?: \(|$)", re.M)
LIT_KINDS = {
    "Passed": 0, "Passed With Retry": 0, "Expectedly Failed": 0,
    "Failed": 1, "Unresolved": 1, "Timed Out": 1, "Unexpectedly Passed": 1,
    "Unsupported": 2, "Skipped": 2, "Excluded": None,
}  # fmt: skip
UNSUPPORTED = re.compile(r"^Unsupported Tests \(\d+\):\n((?:  .*\n)+)", re.M)
GTEST_LINE = re.compile(r"^\[  (PASSED|FAILED|SKIPPED) +\] (\d+) tests?", re.M)
GTEST_KINDS = {"PASSED": 0, "FAILED": 1, "SKIPPED": 2}


def own_counts(output: str) -> list[int] | None:
    """What the suite said of itself as [passed, failed, skipped]."""
    if lines := OWN_LINE.findall(output):
        return [int(count) for count in lines[-1]]
    counts = [0, 0, 0]
    if "Testing Time:" in output:
        for kind, number in LIT_LINE.findall(output.split("Testing Time:")[-1]):
            if LIT_KINDS.get(kind) is not None:
                counts[LIT_KINDS[kind]] += int(number)
    else:
        for kind, number in GTEST_LINE.findall(output):
            counts[GTEST_KINDS[kind]] += int(number)
    return counts if any(counts) else None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-skips", action="store_true")
    parser.add_argument("--note")
    parser.add_argument("results", nargs="+")
    args = parser.parse_args()

    total = [0, 0, 0]
    broken, skips = [], []
    print()
    for case in (case for path in args.results
                 for case in ElementTree.parse(path).getroot().iter("testcase")):  # fmt: skip
        name, status = case.get("name"), case.get("status")
        output = case.findtext("system-out") or ""
        counts = own_counts(output)
        if status == "run":
            counts = counts or [1, 0, 0]
        elif status == "fail":
            # A crash may come after every test has been counted as passed.
            counts = counts or [0, 0, 0]
            counts[1] = max(counts[1], 1)
        else:
            counts = [0, 0, 1]
        if counts[1]:
            broken.append(name)
        if counts[2]:
            skips.append(name)
        total = [a + b for a, b in zip(total, counts)]
        seconds = float(case.get("time") or 0)
        print(f"{name:32} {counts[0]:6} passed {counts[1]:4} failed {counts[2]:4} skipped"
              f" {seconds:8.1f} s")
        listed = UNSUPPORTED.search(output)
        for line in listed.group(1).splitlines() if listed else ():
            print(f"    unsupported: {line.strip()}")
        for line in output.splitlines():
            if re.match(r"(SKIP|skipped:|\[  SKIPPED \] [\w./]+$)", line.strip()):
                print(f"    {line.strip()}")

    if broken:
        print(f"\nFAILED: {' '.join(broken)}")
    if skips:
        print(f"\nSKIPPED: {' '.join(skips)}" + (" (not allowed here)" if args.no_skips else ""))
    if not any(total):
        print("\nno tests ran")
    if args.note:
        print(f"\nNOT RUN: {args.note}")
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] or not any(total) or (args.no_skips and total[2]) else 0


if __name__ == "__main__":
    sys.exit(main())

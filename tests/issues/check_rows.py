#!/usr/bin/python3
"""Fails when the table of README.md misses a row, a row names no test, a named test is not in the tree, or a test
that is called after a row is not in it.

Reads the text of the sources only, so it needs no build. `--self-test` proves that each rule can fail.
Run: tests/issues/check_rows.py [ROOT]
"""
import os
import re
import sys

ROWS = [f"B{i}" for i in range(1, 43)]
# What a row says that has no test yet: "open: why".
OPEN = "open: "

ROW = re.compile(r"^\| (B\d+) \|[^|]*\|([^|]*)\|$", re.MULTILINE)
NAMED = re.compile(r"`(\w+)\.(\w+)`")
TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)


def problems(table, tests):
    """What is wrong with the table's text, given the tests of the tree as {(suite, name)}."""
    rows = ROW.findall(table)
    names = [row for row, _ in rows]
    for row in ROWS:
        if names.count(row) != 1:
            yield f"{row} is in the table {names.count(row)} times"
    for row in names:
        if row not in ROWS:
            yield f"{row} is no row of the list"
    for row, cell in rows:
        named = NAMED.findall(cell)
        if not named and not cell.strip().startswith(OPEN):
            yield f"{row} names no test"
        for test in named:
            if test not in tests:
                yield f"{row} names {test[0]}.{test[1]}, which is not in the tree"
        for suite, name in sorted(tests):
            if suite == row and (suite, name) not in named:
                yield f"{suite}.{name} is not in its row"
    for suite, name in sorted(tests):
        if re.fullmatch(r"B\d+", suite) and suite not in names:
            yield f"{suite}.{name} has no row"


def tests_of(root):
    found = set()
    for directory, _, names in os.walk(os.path.join(root, "tests")):
        for name in names:
            if name.endswith(".cpp"):
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    found.update(TEST.findall(file.read()))
    return found


def self_test():
    tests = {("B2", "Works"), ("Suite", "Works")}
    lines = [f"| {row} | a symptom | `Suite.Works` |" for row in ROWS]
    lines[1] = "| B2 | a symptom | `B2.Works`, `Suite.Works` |"
    right = "\n".join(lines)

    def changed(index, line):
        return "\n".join(lines[:index] + ([line] if line else []) + lines[index + 1:])

    wrong = [
        changed(4, ""), changed(4, lines[3]), changed(4, "| B5 | a symptom | later |"),
        changed(4, "| B5 | a symptom | `Suite.Breaks` |"), changed(1, "| B2 | a symptom | `Suite.Works` |"),
        right + "\n| B43 | a symptom | `Suite.Works` |",
    ]
    missed = [text for text in wrong if not list(problems(text, tests))]
    for text in missed:
        print("not found in:", text, sep="\n")
    accused = list(problems(right, tests)) + list(problems(changed(4, "| B5 | a symptom | open: why |"), tests))
    accused += [] if list(problems(right, tests | {("B99", "Works")})) else ["a test without a row is accepted"]
    for line in accused:
        print("found but right:", line)
    return 1 if missed or accused else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "../..")
    with open(os.path.join(here, "README.md"), encoding="utf-8") as file:
        table = file.read()
    tests = tests_of(root)
    found = list(problems(table, tests))
    for line in found:
        print(line)
    for row, cell in ROW.findall(table):
        if cell.strip().startswith(OPEN):
            print(f"{row} is {cell.strip()}")
    print(f"{len(ROWS)} rows, {len(tests)} tests in the tree, {len(found)} problems")
    return 1 if found or not tests else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Fails when the tables of tests/fault/*.md lack a row of the matrix F01 to F42, have one twice, or name a test that is not in
the tree; and when a failpoint of the code is armed by no test.

Reads the text of the sources only, so it needs no build. `--self-test` proves that each rule can fail.
Run: tests/fault/check_tables.py [ROOT]
"""
import glob
import os
import re
import sys

ROWS = [f"F{i:02}" for i in range(1, 43)]
ROW = re.compile(r"^\| (F\d+) \|(.*)\|$", re.MULTILINE)
NAMED = re.compile(r"`(\w+)\.(\w+)`")
TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
PLACE = re.compile(r'NPU_FAILPOINT(?:_ERRNO|_ASKED)?\("([\w.]+)"')
# A name with a dot that is no test: a file, or a place in the code.
OTHER = re.compile(r"\.(md|cpp|hpp|py|c)$|^(coll|train|client|ctl|engine|adopt|reconnect|ckpt|launch)\.")


def problems(text, tests, rows=None):
    """What is wrong with the text of the tables, given the tests of the tree as {(suite, name)}."""
    seen = []
    for row, cells in ROW.findall(text):
        if row not in ROWS:
            yield f"{row} is no row of the matrix"
        if row in seen:
            yield f"{row} is in the tables twice"
        seen.append(row)
        for test in NAMED.findall(cells):
            if test not in tests and not OTHER.search(".".join(test)):
                yield f"{row} names {test[0]}.{test[1]}, which is not in the tree"
    for row in rows or ROWS:
        if row not in seen:
            yield f"{row} is in no table"


def unarmed(code, tests):
    """Failpoints of `code` whose name is nowhere in the text of the tests."""
    for name in sorted(set(PLACE.findall(code))):
        if not re.search(rf"\b{re.escape(name)}\b", tests):
            yield f"no test arms the failpoint {name}"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def text_of(root, folders, endings):
    paths = (path for folder in folders for path in glob.glob(os.path.join(root, folder, "**/*"), recursive=True))
    return "\n".join(read(path) for path in paths if path.endswith(endings))


def tests_of(root):
    found = set()
    for path in glob.glob(os.path.join(root, "tests/**/*.cpp"), recursive=True):
        found.update(TEST.findall(read(path)))
    return found


def self_test():
    tests = {("Suite", "Works")}
    rows = ["F01", "F02"]
    right = "| F01 | a fault | `Suite.Works`, `store.md` |\n| F02 | another | 1 s | open: later |\n"
    wrong = [right + "| F43 | a fault | `Suite.Works` |", right + "| F01 | again | `Suite.Works` |",
             right + "| F03 | a fault | `Suite.Breaks` |", right.splitlines()[0]]
    code = 'NPU_FAILPOINT("a.b"); if (NPU_FAILPOINT_ASKED("a.bc", kClose)) return;'
    missed = [text for text in wrong if not list(problems(text, tests, rows))]
    missed += [] if list(unarmed(code, "a.b=kill")) == ["no test arms the failpoint a.bc"] else [code]
    accused = list(problems(right, tests, rows)) + list(unarmed(code, "a.b=kill a.bc=close@2"))
    for line in missed + accused:
        print("self-test:", line)
    return 1 if missed or accused else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "../..")
    text = "\n".join(read(path) for path in sorted(glob.glob(os.path.join(here, "*.md"))))
    tests = tests_of(root)
    code = text_of(root, ["client", "daemon", "shm"], (".cpp",))
    found = list(problems(text, tests)) + list(unarmed(code, text_of(root, ["tests"], (".cpp", ".hpp", "/chaos"))))
    for line in found:
        print(line)
    places = len(set(PLACE.findall(code)))
    print(f"{len(ROW.findall(text))} rows, {len(tests)} tests in the tree, {places} failpoints, {len(found)} problems")
    return 1 if found or not tests or not places else 0


if __name__ == "__main__":
    sys.exit(main())

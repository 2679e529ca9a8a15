#!/usr/bin/python3
"""Holds docs/migration.md against what proves it: every row S1-S79 and T1-T25 is in the page and has a proof in
seed_rows.txt, and every proof holds. Prints the table.

Run: tests/e2e/seed_rows.py ROOT NPU
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROWS = [f"S{i}" for i in range(1, 80)] + [f"T{i}" for i in range(1, 26)]
TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
JOB = """name: tiny
devices: 0-1
model: {arch: resnet20, num_classes: 10}
data: {format: synthetic, train_samples: 64, val_samples: 32, image_size: 32, channels: 3}
train: {epochs: 1, batch_size: 16}
"""


class Prover:
    """What a proof is checked against: the tree, the program, a folder of photos and a job."""

    def __init__(self, root, npu, scratch):
        self.root, self.npu, self.scratch = root, npu, scratch
        self.tests = {f"{suite}.{name}" for path in (root / "tests").rglob("*.cpp")
                      for suite, name in TEST.findall(path.read_text(errors="replace"))}
        for folder in ("train/cat", "train/dog", "val/cat"):
            (scratch / "photos" / folder).mkdir(parents=True)
        (scratch / "job.yaml").write_text(JOB)

    def run(self, words):
        # Nothing of the host: no daemon, no store, no variables of a rank.
        env = {"PATH": os.environ["PATH"], "HOME": str(self.scratch), "XDG_RUNTIME_DIR": str(self.scratch),
               "NPUD_SOCKET": str(self.scratch / "none.sock")}
        words = [w.replace("{photos}", str(self.scratch / "photos")).replace("{job}", str(self.scratch / "job.yaml"))
                 for w in words]
        while words and re.match(r"[A-Z_]+=", words[0]):
            name, value = words.pop(0).split("=", 1)
            env[name] = value
        return subprocess.run([self.npu, *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=30)

    def check(self, kind, proof):
        """None, or what does not hold."""
        if kind == "test":
            return None if proof in self.tests else "there is no such test"
        if kind == "doc":
            name, words = proof.split(": ", 1)
            text = re.sub(r"\s+", " ", (self.root / name).read_text().replace('"\n', ""))
            return None if words in text else f"{name} does not say so"
        args, expected = proof.split(" => ", 1)
        if kind == "print":
            got = self.run(["launch", *shlex.split(args), "--print-job"])
            code, words = 0, expected
        elif kind == "refuse":
            got = self.run(shlex.split(args))
            number, words = expected.split(": ", 1)
            code = int(number)
        else:
            return f"unknown kind {kind}"
        if got.returncode == code and words in got.stdout + got.stderr:
            return None
        return f"exit code {got.returncode}: {(got.stderr or got.stdout).strip()}"


def main():
    root, npu = pathlib.Path(sys.argv[1]), sys.argv[2]
    page = set(re.findall(r"^\| ([ST]\d+) \|", (root / "docs/migration.md").read_text(), re.MULTILINE))
    proofs = {}
    for line in (root / "tests/e2e/seed_rows.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            row, kind, proof = line.split(" ", 2)
            proofs.setdefault(row, []).append((kind, proof))
    failures = [f"{row}: not in docs/migration.md" for row in ROWS if row not in page]
    failures += [f"{row}: has no proof" for row in ROWS if row not in proofs]
    failures += [f"{row}: is no row" for row in sorted((page | set(proofs)) - set(ROWS))]
    with tempfile.TemporaryDirectory(prefix="npu-seed-rows-") as scratch:
        prover = Prover(root, npu, pathlib.Path(scratch))
        for row in ROWS:
            for kind, proof in proofs.get(row, []):
                why = prover.check(kind, proof)
                print(f"{row:<4} {'ok  ' if why is None else 'FAIL'} {kind:<6} {proof}")
                if why is not None:
                    failures.append(f"{row}: {kind} {proof}: {why}")
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"{len(ROWS)} rows, {sum(map(len, proofs.values()))} proofs, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

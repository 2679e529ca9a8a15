#!/usr/bin/env python3
"""Runs the examples of a page against a real daemon with a run going on: every line of its ```sh blocks that pipes
npu into jq. A line may end in '#=> text': that is then what it prints. usage: doc_examples.py PAGE NPU NPUD"""
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

JOB = """name: resnet20-fashion-mnist
devices: 0-1
model: {arch: resnet20, num_classes: 10}
data: {format: synthetic, train_samples: 64, val_samples: 32, image_size: 32, channels: 3}
train: {epochs: 100000, batch_size: 16, print_freq: 1}
checkpoint: {every_epochs: 1}
"""
LIMIT_S = 60  # of a hang


def examples(page):
    """(command, expected output or None) of each example."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S):
        for line in block.splitlines():
            command, _, expected = line.partition("#=>")
            if command.startswith("npu ") and "| jq" in command:
                yield command.strip(), expected.strip() or None


def wait_for_text(path, text):
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if text in path.read_text():
            return True
        time.sleep(0.02)
    return False


def run(command, expected, env):
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], env=env, capture_output=True, text=True,
                          timeout=LIMIT_S)
    print(f"$ {command}\n{done.stdout[:500]}{done.stderr}", end="")
    if done.returncode != 0 or done.stderr:
        return f"exit code {done.returncode}"
    if expected is None:
        return None if done.stdout else "it prints nothing"
    return None if done.stdout.strip() == expected else f"it does not print: {expected}"


def main():
    page, npu, npud = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    found = list(examples(page.read_text()))
    assert len(found) >= 8, f"only {len(found)} examples in {page}"
    failures = []
    with tempfile.TemporaryDirectory(prefix="npu-docs-") as root:
        env = {"PATH": f"{pathlib.Path(npu).parent}:/usr/bin:/bin", "HOME": root, "XDG_RUNTIME_DIR": root,
               "XDG_STATE_HOME": f"{root}/state", "NPUD_SOCKET": f"{root}/run/npud.sock"}
        job = pathlib.Path(root, "job.yaml")
        job.write_text(JOB)
        daemon = subprocess.Popen([npud, "--runtime-dir", f"{root}/run", "--state-dir", f"{root}/npud"],
                                  env=env | {"NPU_LOG": "error"})
        launch = None
        try:
            for _ in range(1000):
                if subprocess.run([npu, "ps"], env=env, capture_output=True).returncode == 0:
                    break
            said = pathlib.Path(root, "launch.txt")
            with open(said, "w") as stdout:
                launch = subprocess.Popen([npu, "launch", str(job)], env=env, stdout=stdout)
            # From the second epoch on there is a checkpoint.
            assert wait_for_text(said, "Epoch: [1]"), "the run did not start"
            for command, expected in found:
                problem = run(command, expected, env)
                if problem:
                    failures.append(f"{page}: `{command}`: {problem}")
        finally:
            if launch:
                launch.send_signal(signal.SIGTERM)
                launch.wait(timeout=LIMIT_S)
            daemon.terminate()
            daemon.wait(timeout=LIMIT_S)
    print("\n".join(failures) or f"{len(found)} examples, all as the page says")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs programs that must not outlive their measurement: each in a session of its own, ended as a whole.

A time-out, a signal to the script or an error in it ends the session; only SIGKILL of the script leaves it behind.
"""
import contextlib
import os
import signal
import subprocess
import tempfile
import time


class Failed(Exception):
    """A measurement that did not come about; the text says which and why."""


def session_members(session):
    """Living processes of a session. Not the process group: mpirun gives each rank a group of its own."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(name))
    return found


def end_session(process, grace=3):
    """SIGTERM, so that mpirun removes its files, then SIGKILL; returns when all are gone or cannot be killed."""
    for sig, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, grace)):
        deadline = time.monotonic() + seconds
        members = session_members(process.pid)
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sig)
        while members and time.monotonic() < deadline:
            process.poll()
            time.sleep(0.02)
            members = session_members(process.pid)
    process.poll()


def clean_environment(directory):
    """Ours without what would steer npu from outside; temporary files of all sides in one place."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NPU", "OMPI_"))}
    return dict(kept, TMPDIR=directory, OMP_NUM_THREADS="1")


def tail(file):
    """The last lines of what a process said, as one."""
    file.seek(0)
    return " | ".join(line.strip() for line in file.read().splitlines()[-6:] if line.strip())


def run(command, directory, timeout):
    """Stdout of a command that has to end with 0. Files instead of pipes: a reader could wait for ever."""
    with tempfile.TemporaryFile("w+", dir=directory) as out, tempfile.TemporaryFile("w+", dir=directory) as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=directory,
                                   env=clean_environment(directory), start_new_session=True)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(command)}: killed, it did not end within {timeout:g} s: {tail(err)}") from None
        finally:
            end_session(process)
        if code != 0:
            raise Failed(f"{' '.join(command)}: ended with {code}, expected 0: {tail(err) or tail(out)}")
        out.seek(0)
        return out.read()

#!/usr/bin/env python3
"""Fails when docs/troubleshooting.md lacks an entry for an exit code or an error code that the sources can
print, or has one that no source knows. usage: troubleshooting.py ROOT | --self-test"""
import pathlib
import re
import sys

# Where codes come from: the enum of exit codes, the launcher's own, and HCCL's codes wherever they are written.
EXIT_ENUM = "shm/base/error.hpp"
EXIT_STOPPED = "client/launch/rank_env.hpp"
FAULT_FOLDERS = ("client", "daemon", "shm", "config")


def exit_codes(error_hpp, rank_env_hpp):
    enum = re.search(r"enum class Exit[^{]*\{(.*?)\};", error_hpp, re.S)[1]
    codes = {int(value) for value in re.findall(r"=\s*(\d+)", enum)}
    return codes | {int(re.search(r"kExitStopped = (\d+)", rank_env_hpp)[1])}


def fault_codes(text):
    return set(re.findall(r'"(E[IJ]\d{4})"', text))


def documented(page):
    """(exit codes, fault codes) that are headings."""
    exits = {int(code) for code in re.findall(r"^### Exit code (\d+)\b", page, re.M)}
    return exits, set(re.findall(r"^### (E[IJ]\d{4})\b", page, re.M))


def problems(exits, faults, page):
    page_exits, page_faults = documented(page)
    for what, known, has in (("exit code", exits, page_exits), ("error code", faults, page_faults)):
        for code in sorted(known - has):
            yield f"docs/troubleshooting.md: no entry for {what} {code}"
        for code in sorted(has - known):
            yield f"docs/troubleshooting.md: {what} {code} is in no source"
    for title, body in re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", page, re.M | re.S):
        if len(body.split()) < 8:
            yield f"docs/troubleshooting.md: '{title}' says too little"


def self_test():
    exits = exit_codes("enum class Exit : uint8_t {\n  kOk = 0,\n  kUsage = 64,\n};", "kExitStopped = 80;")
    assert exits == {0, 64, 80}
    assert fault_codes('{"EI0001", "x"} EJ0002') == {"EI0001"}
    good = "".join(f"### {t}: x\none two three four five six seven eight\n" for t in
                   ("Exit code 0", "Exit code 64", "Exit code 80", "EI0001"))
    assert not list(problems(exits, {"EI0001"}, good))
    assert list(problems(exits | {65}, {"EI0001"}, good)) == ["docs/troubleshooting.md: no entry for exit code 65"]
    assert list(problems(exits, set(), good)) == ["docs/troubleshooting.md: error code EI0001 is in no source"]
    assert list(problems(exits, {"EI0001"}, good.replace(" eight", "", 1)))


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1])
    exits = exit_codes((root / EXIT_ENUM).read_text(), (root / EXIT_STOPPED).read_text())
    faults = set()
    for folder in FAULT_FOLDERS:
        for path in (root / folder).rglob("*.cpp"):
            faults |= fault_codes(path.read_text())
    assert len(exits) > 10 and len(faults) > 10, "the sources have moved: this test looks at the wrong place"
    found = list(problems(exits, faults, (root / "docs/troubleshooting.md").read_text()))
    print("\n".join(found) or f"{len(exits)} exit codes and {len(faults)} error codes, each with an entry")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

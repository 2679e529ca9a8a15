#!/usr/bin/python3
"""Writes the sources that the model tests compile: the product's own, with std::atomic replaced by the checker's, a few
constants made small, hand-over fields tracked, and known bugs that a test can switch on.

Every edit names text that must be in the source exactly once; if the source moves on, this fails and says which edit.
Run: mirror.py ROOT OUT     writes OUT/<path> for each file of FILES, the extracts and tests/model/mutants.hpp
     mirror.py --list       names what is read and what is written: two lines, each separated by semicolons
"""
import os
import re
import sys

FILES = [
    "shm/layout_data.hpp", "shm/progress_data.hpp", "shm/submit_data.hpp", "shm/status_data.hpp", "shm/board_data.hpp", "shm/hints_data.hpp",
    "shm/journal_data.hpp",
    "shm/futex.hpp", "shm/submit_client.hpp", "shm/submit_client.cpp", "shm/submit_daemon.hpp",
    "shm/submit_daemon.cpp",
    "daemon/collectives/parker.hpp", "daemon/collectives/run_memory.cpp", "daemon/collectives/active.hpp",
    "daemon/collectives/active.cpp", "daemon/collectives/ring.hpp", "daemon/collectives/ring.cpp",
    "daemon/collectives/helper.hpp", "daemon/collectives/helper.cpp",
    "client/api/device_queue.hpp", "client/api/device_queue.cpp",
]

# Two slots, two communicators, three ranks: enough for every protocol to go round, few enough to explore.
CONSTANTS = {
    "shm/layout_data.hpp": {"size_t kLineBytes": 16, "uint32_t kMaxDevices": 3},
    "shm/submit_data.hpp": {"uint32_t kQueueDepth": 2, "uint32_t kInlineBytes": 8},
    "shm/hints_data.hpp": {"uint32_t kMaxCommunicators": 2},
    "shm/status_data.hpp": {"uint32_t kErrorTextBytes": 16, "uint32_t kErrorTexts": 2},
    "shm/board_data.hpp": {"uint32_t kAbortTextBytes": 16},
    "client/api/device_queue.cpp": {"int kYields": 1},
}

# What one side writes plainly and another reads: all scalar fields of a structure, or single fields.
TRACKED = {
    "shm/submit_data.hpp": ["struct alignas(kLineBytes) Descriptor {", "struct alignas(kLineBytes) VectorArgs {"],
    "shm/status_data.hpp": ["struct alignas(kLineBytes) Completion {"],
    "shm/board_data.hpp": ["uint32_t code;", "int32_t culprit;", "int64_t pid;"],
    "daemon/collectives/active.hpp": ["uint32_t ranks = 0;", "uint64_t slices = 0;"],
    "daemon/collectives/ring.cpp": ["struct Token {"],
}
SCALAR = re.compile(r"\b(uint64_t|uint32_t|uint8_t|int64_t|int32_t|double) ((?!reserved)\w+(?: = \d+|\[\w+\])?;)")

# Text -> text: a model's thread is no thread of the system. A yield is a place to switch, no more: relacy's own yield
# makes later loads return new values.
EDITS = [
    ("client/api/device_queue.cpp", "::sched_yield()", "rl::ctx().sched()"),
    ("shm/submit_client.cpp", "  return reinterpret_cast<uintptr_t>(&token);",
     "  return rl::thread_index() + 1u + token;"),
]

# Functions taken out of a file whose rest has no place in a model: written -> (file, first lines).
EXTRACTS = {
    "daemon/collectives/engine_sleep.inc": ("daemon/collectives/engine.cpp", [
        "bool Engine::Impl::work_waits() const {", "void Engine::Impl::sleep() {"]),
    "daemon/collectives/set_asleep.inc": ("daemon/collectives/engine_run.hpp", [
        "  void set_asleep(uint32_t value) noexcept {"]),
}

CLIENT = "shm/submit_client.cpp"
ANSWER = "shm/submit_daemon.cpp"
BOARD = "daemon/collectives/run_memory.cpp"
QUEUE = "client/api/device_queue.cpp"
ENGINE = "daemon/collectives/engine.cpp"
ENGINE_RUN = "daemon/collectives/engine_run.hpp"
PARKER = "daemon/collectives/parker.hpp"
HELPER = "daemon/collectives/helper.cpp"
ACTIVE = "daemon/collectives/active.cpp"

# Bugs: (file, text, text). The first text must be there once; in the second, MUTANT(name) is true when a test has
# switched that bug on. Lines stay what they were.
MUTANTS = [
    # Entries and completions change hands.
    (CLIENT, "entry.stamp.store(ticket + 1, std::memory_order_seq_cst);",
     "entry.stamp.store(ticket + 1, MUTANT(kStampRelaxed) ? std::memory_order_relaxed : MUTANT(kStampReleased) ? "
     "std::memory_order_release : std::memory_order_seq_cst);"),
    (CLIENT, "  entry.generation = generation_;\n",
     "  if (MUTANT(kStampBeforeEntry)) entry.stamp.store(ticket + 1, std::memory_order_seq_cst); "
     "entry.generation = generation_;\n"),
    (ANSWER, "slot.stamp.store(ticket + 1, std::memory_order_release);",
     "slot.stamp.store(ticket + 1, MUTANT(kCompletionRelaxed) ? std::memory_order_relaxed : "
     "std::memory_order_release);"),
    # Slots are used again.
    (CLIENT, "turn_[ticket % kQueueDepth].store(ticket + kQueueDepth, std::memory_order_release);",
     "turn_[ticket % kQueueDepth].store(ticket + kQueueDepth, MUTANT(kTurnRelaxed) ? std::memory_order_relaxed : "
     "std::memory_order_release);"),
    (CLIENT, "if (stamp != previous + 1) return Slot::kHeld;",
     "if (!MUTANT(kAbandonedSlotTakenEarly) && stamp != previous + 1) return Slot::kHeld;"),
    (CLIENT, "  const bool mine = turn_[slot].compare_exchange_strong(",
     "  if (MUTANT(kAbandonedSlotTakenTwice)) turn_[slot].store(ticket, std::memory_order_release); "
     "const bool mine = MUTANT(kAbandonedSlotTakenTwice) || turn_[slot].compare_exchange_strong("),
    (CLIENT, "holder == held(previous, Holder::kIdle) &&",
     "(MUTANT(kThreadOfAnEarlierTicket) || holder == held(previous, Holder::kIdle)) &&"),
    (CLIENT, "return holder == held(previous, Holder::kWaiting) ?",
     "return holder == held(previous, MUTANT(kWaitingHolderNotSeen) ? Holder::kGone : Holder::kWaiting) ?"),
    (CLIENT, "futex_wait(released_, word, kWaitSlice);",
     "futex_wait(released_, MUTANT(kRoomWordReadLate) ? released_.load(std::memory_order_seq_cst) : word, "
     "kWaitSlice);"),
    (CLIENT, "  released_.fetch_add(1, std::memory_order_seq_cst);\n",
     "  if (!MUTANT(kRoomWordNotBumped)) released_.fetch_add(1, std::memory_order_seq_cst);\n"),
    (CLIENT, "  set_holder(ticket, Holder::kGone);\n  wake_room_waiters();\n",
     "  set_holder(ticket, Holder::kGone);\n  if (!MUTANT(kAbandonedSilently)) wake_room_waiters();\n"),
    (CLIENT, "    page_.rank.waiting.fetch_add(1, std::memory_order_seq_cst);\n",
     "    page_.rank.waiting.fetch_add(MUTANT(kRoomWaiterNotFlagged) ? 0 : 1, std::memory_order_seq_cst);\n"),
    (CLIENT, "    page_.rank.waiting.fetch_sub(1, std::memory_order_relaxed);\n",
     "    page_.rank.waiting.fetch_sub(MUTANT(kRoomWaiterNotFlagged) ? 0 : 1, std::memory_order_relaxed);\n"),
    (CLIENT, "if (look_at(ticket) == Slot::kHeld) futex_wait(board_",
     "if (MUTANT(kGoneNotCheckedAgain) || (MUTANT(kPassedSlotAwaited) ? look_at(ticket) != Slot::kFree : "
     "look_at(ticket) == Slot::kHeld)) futex_wait(board_"),
    # Submitters wake the engine.
    (CLIENT, "    write_entry(ticket + i, requests[i]);\n  }\n  announce(ticket, requests.size(), before, arrival);\n",
     "    if (MUTANT(kAnnouncedBeforeStamp) && i == 0) announce(ticket, requests.size(), before, arrival); "
     "write_entry(ticket + i, requests[i]);\n  }\n"
     "  if (!MUTANT(kAnnouncedBeforeStamp)) announce(ticket, requests.size(), before, arrival);\n"),
    (CLIENT, "counts[arrival.rank].fetch_add(n, std::memory_order_seq_cst);",
     "counts[arrival.rank].fetch_add(n, MUTANT(kArrivalRelaxed) ? std::memory_order_relaxed : "
     "std::memory_order_seq_cst);"),
    (CLIENT, "counts[r].load(std::memory_order_seq_cst) <= before",
     "counts[r].load(std::memory_order_seq_cst) <= (MUTANT(kArrivalOneTooMany) ? before + 1 : before)"),
    (CLIENT, "next_.load(std::memory_order_seq_cst) == first + n",
     "(MUTANT(kLaterTicketForgotten) || next_.load(MUTANT(kLaterTicketRelaxed) ? std::memory_order_relaxed : "
     "std::memory_order_seq_cst) == first + n)"),
    (CLIENT, "board_.engine.asleep.load(std::memory_order_seq_cst)",
     "board_.engine.asleep.load(MUTANT(kAsleepRelaxed) ? std::memory_order_relaxed : std::memory_order_seq_cst)"),
    (CLIENT, "  hints_.doorbell.value.fetch_add(1, std::memory_order_seq_cst);\n",
     "  if (!MUTANT(kDoorbellNotBumped)) hints_.doorbell.value.fetch_add(1, std::memory_order_seq_cst);\n"),
    (ENGINE, "    run->set_asleep(1);\n", "    if (!MUTANT(kAsleepAfterCheck)) run->set_asleep(1);\n"),
    (ENGINE, "  if (!work_waits()) {\n",
     "  if (!work_waits()) { if (MUTANT(kAsleepAfterCheck)) for (auto& run : runs) run->set_asleep(1);\n"),
    (ENGINE_RUN, "asleep.store(value, std::memory_order_seq_cst);",
     "asleep.store(value, MUTANT(kAsleepStoredRelaxed) ? std::memory_order_relaxed : std::memory_order_seq_cst);"),
    # The engine wakes members.
    (BOARD, "  board.doorbell.value.fetch_add(1, std::memory_order_seq_cst);\n  uint32_t sleepers = 0;\n",
     "  if (!MUTANT(kBoardBumpedLate)) board.doorbell.value.fetch_add(1, std::memory_order_seq_cst);\n"
     "  uint32_t sleepers = 0;\n"),
    (BOARD, "  if (sleepers != 0) shm::futex_wake_bits(",
     "  if (MUTANT(kBoardBumpedLate)) board.doorbell.value.fetch_add(1, std::memory_order_seq_cst); "
     "if (sleepers != 0) shm::futex_wake_bits("),
    (BOARD, "rank.waiting.load(std::memory_order_seq_cst)",
     "rank.waiting.load(MUTANT(kWaitingRelaxed) ? std::memory_order_relaxed : std::memory_order_seq_cst)"),
    (BOARD, "                            std::memory_order_release);\n",
     "                            MUTANT(kAbortRelaxed) ? std::memory_order_relaxed : std::memory_order_release);\n"),
    (BOARD, "shm::futex_wake_bits(board.doorbell.value, UINT32_MAX);",
     "shm::futex_wake_bits(board.doorbell.value, MUTANT(kAbortWakesOne) ? 1 : UINT32_MAX);"),
    (QUEUE, "futex_wait_bits(board.doorbell.value, bell,",
     "futex_wait_bits(board.doorbell.value, MUTANT(kBellReadLate) ? "
     "board.doorbell.value.load(std::memory_order_seq_cst) : bell,"),
    # Engine threads hand work to each other.
    (PARKER, "asleep_.store(1, std::memory_order_seq_cst);",
     "asleep_.store(1, MUTANT(kParkedRelaxed) ? std::memory_order_relaxed : std::memory_order_seq_cst);"),
    (PARKER, "if (asleep_.load(std::memory_order_seq_cst) != 0)",
     "if (asleep_.load(MUTANT(kNotifyRelaxed) ? std::memory_order_relaxed : std::memory_order_seq_cst) != 0)"),
    (PARKER, "    word_.fetch_add(1, std::memory_order_seq_cst);\n",
     "    if (!MUTANT(kParkerWordNotBumped)) word_.fetch_add(1, std::memory_order_seq_cst);\n"),
    (HELPER, "  if (!queue_->tasks.push(task)) return false;\n  parker_.notify();\n",
     "  if (MUTANT(kNotifiedBeforePush)) parker_.notify(); if (!queue_->tasks.push(task)) return false;\n"
     "  if (!MUTANT(kNotifiedBeforePush)) parker_.notify();\n"),
    (HELPER, "    bool work = stop_.load(std::memory_order_acquire) || ",
     "    bool work = MUTANT(kParkedWithoutCheck) ? false : stop_.load(std::memory_order_acquire) || "),
    (HELPER, "users.fetch_sub(1, std::memory_order_acq_rel);",
     "users.fetch_sub(1, MUTANT(kUsersRelaxed) ? std::memory_order_relaxed : std::memory_order_acq_rel);"),
    (HELPER, "    if (d + 1 == end && next != nullptr) next->notify();\n",
     "    if (d + 1 == end && next != nullptr && !MUTANT(kNextNotTold)) next->notify();\n"),
    (HELPER, "    if (d + 2 == ranks && coordinator != nullptr) coordinator->notify();\n",
     "    if (d + 2 == ranks && coordinator != nullptr && !MUTANT(kFinishNotTold)) coordinator->notify();\n"),
    (ACTIVE, "  a.done.fetch_add(1, std::memory_order_release);\n",
     "  a.done.fetch_add(1, MUTANT(kDoneRelaxed) ? std::memory_order_relaxed : std::memory_order_release);\n"),
]
# The one in shadow/boost/lockfree/detail/atomic.hpp.
MORE_MUTANTS = ["kQueueIndexRelaxed"]
MUTANT = re.compile(r"MUTANT\((\w+)\)")


def replace_once(path, text, old, new):
    found = text.count(old)
    if found != 1:
        sys.exit(f"mirror: {path} has {found} places like the following, one was expected; adapt {__file__}:\n{old}")
    return text.replace(old, new)


def shrink(path, text):
    for name, value in CONSTANTS.get(path, {}).items():
        text, found = re.subn(rf"(constexpr {name} = )[^;]+;", rf"\g<1>{value};", text)
        if found != 1:
            sys.exit(f"mirror: {path} has no constant '{name}'; adapt {__file__}")
    return text


def track(path, text):
    for start in TRACKED.get(path, []):
        if text.count(start) != 1:
            sys.exit(f"mirror: {path} has {text.count(start)} of '{start}', one was expected; adapt {__file__}")
        begin = text.find(start)
        end = text.find("\n}", begin) if start.endswith("{") else begin + len(start)
        text = text[:begin] + SCALAR.sub(r"npu::model::Tracked<\1> \2", text[begin:end]) + text[end:]
    return text


def without_layout_checks(text):
    """Sizes differ here; lines are kept."""
    return re.sub(r"^static_assert\(.*?\);", lambda m: "\n" * m[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)


def mirror(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    text = shrink(path, text)
    text = track(path, text)
    if path.endswith("_data.hpp"):
        text = without_layout_checks(text)
    for where, old, new in EDITS + MUTANTS:
        if where == path:
            text = replace_once(path, text, old, new)
    return text.replace("std::atomic<", "npu::model::Atomic<").replace("std::thread", "npu::model::Thread")


def placed(root, path, text, line=1):
    return f'#line {line} "{os.path.join(root, path)}"\n{text}'


def extract(root, path, starts):
    text = mirror(root, path)
    parts = []
    for start in starts:
        if text.count(f"\n{start}\n") != 1:
            sys.exit(f"mirror: {path} has no function '{start}'; adapt {__file__}")
        begin = text.find(f"\n{start}\n") + 1
        indent = start[:len(start) - len(start.lstrip())]
        close = f"\n{indent}}}\n"
        end = text.find(close, begin) + len(close)
        parts.append(placed(root, path, text[begin:end], text.count("\n", 0, begin) + 1))
    return "".join(parts)


def mutants_header():
    found = [name for _, _, new in MUTANTS for name in MUTANT.findall(new)]
    names = "".join(f"  {name},\n" for name in dict.fromkeys(found + MORE_MUTANTS))
    return ("// Written by mirror.py.\n#pragma once\n\nnamespace npu::model {\n\nenum class Mutant {\n  kNone,\n"
            f"{names}}};\n\n}}  // namespace npu::model\n")


def write(out, path, text):
    full = os.path.join(out, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    if sys.argv[1:] == ["--list"]:
        print(";".join(sorted({*FILES, *(path for path, _ in EXTRACTS.values())})))
        print(";".join([*FILES, *EXTRACTS, "tests/model/mutants.hpp"]))
        return
    root, out = sys.argv[1:]
    root = os.path.abspath(root)
    for path in FILES:
        write(out, path, '#include "tests/model/relacy_suite.hpp"\n' + placed(root, path, mirror(root, path)))
    for written, (path, starts) in EXTRACTS.items():
        write(out, written, extract(root, path, starts))
    write(out, "tests/model/mutants.hpp", mutants_header())


if __name__ == "__main__":
    main()

// What the tests of restarts share: a job that saves often, what a straight run of it ends with,
// and a launch whose end is read to the last record.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>

#include "client/record/curves.hpp"
#include "tests/e2e/e2e_fixture.hpp"

namespace npu::e2e {

/// All that a launch said.
struct Story {
  int code = -1;
  std::vector<client::Event> events;
  std::string err;

  [[nodiscard]] std::vector<client::RestartEvent> restarts() const {
    return all<client::RestartEvent>();
  }
  [[nodiscard]] std::vector<client::StartEvent> starts() const { return all<client::StartEvent>(); }
  [[nodiscard]] std::vector<client::DoneEvent> dones() const { return all<client::DoneEvent>(); }
  /// Digest of the only `done`, which is the last record; empty when it is not so.
  [[nodiscard]] std::string digest() const {
    const auto found = dones();
    const bool last = !events.empty() && std::holds_alternative<client::DoneEvent>(events.back());
    return found.size() == 1 && last ? found[0].weights_digest : "";
  }

 private:
  template <typename Wanted>
  [[nodiscard]] std::vector<Wanted> all() const {
    std::vector<Wanted> found;
    for (const client::Event& event : events) {
      if (const auto* one = std::get_if<Wanted>(&event)) found.push_back(*one);
    }
    return found;
  }
};

class RestartFixture : public E2eTest {
 protected:
  /// 48 steps, a checkpoint every three.
  const std::vector<std::string> often_ = {"checkpoint.every_steps=3", "train.epochs=6"};
  /// The same, but that a daemon's death ends the attempt.
  const std::vector<std::string> without_takeover_ = {"checkpoint.every_steps=3", "train.epochs=6",
                                                      "collectives.reconnect=0"};
  static constexpr int64_t kSteps = 48;

  static std::vector<std::string> restarting(int most, const std::string& backoff = "0.1") {
    return {"--max-restarts", std::to_string(most), "--restart-backoff", backoff};
  }

  /// What the job ends with when nothing happens to it.
  std::string straight_digest() {
    std::vector<std::string> sets = often_;
    sets.emplace_back("name=straight");
    const client::DoneEvent straight = done(sets);
    EXPECT_FALSE(straight.weights_digest.empty());
    return straight.weights_digest;
  }

  /// What a launch says up to its first checkpoint, or the first after what was read before.
  static std::string up_to_a_checkpoint(Background& launch) {
    std::string text = launch.read_until("\"type\":\"checkpoint\"");
    EXPECT_THAT(text, testing::HasSubstr("\"type\":\"checkpoint\""));
    return text;
  }

  /// Reads a launch to its end; `already` is what was read of it before.
  static Story end_of(Background& launch, std::string already) {
    already += launch.read_until("no record has this text");
    Story story;
    story.code = launch.wait();
    story.events = events_of(already);
    story.err = launch.err();
    return story;
  }

  /// The rank's process among the launcher's children, 0 if there is none.
  static pid_t rank_process(Background& launch, int rank) {
    for (const pid_t pid : launch.children("train")) {
      const std::string env = contents("/proc/" + std::to_string(pid) + "/environ");
      if (env.find(std::string("\0RANK=", 6) + std::to_string(rank) + '\0') != std::string::npos)
        return pid;
    }
    return 0;
  }

  /// The launcher's private npud, once it is another process than `before`; 0 if none comes.
  static pid_t next_daemon(Background& launch, pid_t before) {
    pid_t now = 0;
    (void)holds_within(milliseconds(30'000), [&] {
      const auto daemons = launch.children("npud");
      now = daemons.size() == 1 && daemons[0] != before ? daemons[0] : 0;
      return now != 0 || !launch.running();
    });
    return now;
  }

  /// Numbers of the steps in the run folder's curves, markers applied.
  std::vector<int64_t> recorded_steps(const std::string& name = "tiny") const {
    const auto curves = client::read_curves(root_ + "/state/npu/runs/" + name, name);
    std::vector<int64_t> steps;
    if (!curves) return steps;
    for (const auto& row : curves->steps.rows) steps.push_back(static_cast<int64_t>(row[0]));
    return steps;
  }

  static std::vector<int64_t> first_steps(int64_t n) {
    std::vector<int64_t> steps;
    for (int64_t i = 1; i <= n; ++i) steps.push_back(i);
    return steps;
  }
};

}  // namespace npu::e2e

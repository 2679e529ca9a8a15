// Two users side by side: neither sees, reads, joins, lists or ends what is the other's. F23.
#include <gmock/gmock.h>

#include "tests/fault/store_fixture.hpp"
#include "tests/users/users_fixture.hpp"

namespace npu::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kSecret = "secret-of-alice";

class Isolation : public UsersTest {
 protected:
  void SetUp() override {
    UsersTest::SetUp();
    if (IsSkipped()) return;
    start();
    alice_.emplace(kAlice, adding(socket(), kSecret, 0));
    ASSERT_EQ(alice_->hear(), "running");
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(alice_->ask("more"), "running") << "whatever was tried, her run goes on";
    EXPECT_EQ(alice_->ask("stop"), "ended well");
    EXPECT_EQ(alice_->end(), 0);
  }

  std::optional<UserProcess> alice_;
};

TEST_F(Isolation, RunsOfOneNameAndKeyAreTwoRunsSideBySide) {
  UserProcess bob(kBob, adding(socket(), kSecret, 2));
  ASSERT_EQ(bob.hear(), "running");
  EXPECT_EQ(alice_->ask("more"), "running");
  EXPECT_EQ(bob.ask("more"), "running");
  const auto all = client::list_runs(socket());  // as root
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 2u);
  for (const auto& run : *all) {
    EXPECT_EQ(run.name, kSecret);
    EXPECT_EQ(run.joined, 2);
    EXPECT_EQ(run.ranks[0].device, run.uid == static_cast<int64_t>(kAlice.uid) ? 0 : 2);
  }
  // A death in one is nothing to the other.
  bob.kill();
  EXPECT_EQ(bob.end(), 128 + SIGKILL);
}

TEST_F(Isolation, AnotherUsersRunIsNotListedAndItsDevicesHaveNoName) {
  const std::string seen = as(kBob, [this] {
    const auto info = client::query_info(socket());
    const auto runs = client::list_runs(socket());
    if (!info || !runs) return std::string("not answered");
    std::string all = fmt::format("runs {} {}; ", info->runs.size(), runs->size());
    for (int d = 0; d < 3; ++d) {
      const auto& device = info->devices[static_cast<size_t>(d)];
      all += fmt::format("{} '{}' {} {} {} {}; ", device.state, device.run, device.rank, device.pid,
                         device.uid, device.collectives);
    }
    return all;
  });
  EXPECT_EQ(seen, "runs 0 0; busy '' -1 0 -1 0; busy '' -1 0 -1 0; idle '' -1 0 -1 0; ");
}

TEST_F(Isolation, NameAndKeyDoNotLetAnotherUserJoin) {
  const std::string refused = as(kBob, [this] {
    AddingRun intruder(socket(), kSecret, 0);
    return intruder.why();
  });
  EXPECT_THAT(refused, HasSubstr("another user holds it"));
  EXPECT_THAT(refused, Not(HasSubstr(kSecret)));
  EXPECT_THAT(refused, Not(HasSubstr(std::to_string(alice_->pid()))));
}

TEST_F(Isolation, EndingReadingAndDrainingAreRefusedAsForARunThatIsNotThere) {
  const auto ask = [this](const std::string& run) {
    std::string all;
    const auto ended = client::evict_run(socket(), run, -1, "because");
    all += ended ? "ended" : text_of(ended.error());
    const auto hers = client::evict_run(socket(), run, kAlice.uid, "because");
    all += hers ? "ended" : text_of(hers.error());
    const auto trace = client::read_run_trace(socket(), run, 10);
    all += trace ? "read" : text_of(trace.error());
    const auto opened = client::open_checkpoint(socket(), run, client::kNewestStep);
    all += opened ? "opened" : text_of(opened.error());
    const auto listed = client::list_checkpoints(socket(), run, false);
    all += listed ? "listed" : text_of(listed.error());
    for (size_t at = all.find(run); at != std::string::npos; at = all.find(run))
      all.replace(at, run.size(), "X");
    return all;
  };
  const std::string forbidden = as(kBob, [&] { return ask(kSecret); });
  const std::string unknown = as(kBob, [&] { return ask("no-such-run"); });
  EXPECT_EQ(forbidden, unknown);
  EXPECT_THAT(forbidden, HasSubstr("66 end run 'X': no such run of yours"));
  const std::string drained = as(kBob, [this] {
    const auto done = client::drain_daemon(socket());
    return done ? "drained" : text_of(done.error());
  });
  EXPECT_THAT(
      drained,
      HasSubstr("77 drain the daemon: root and the members of its administrators' group may"));
}

TEST_F(Isolation, CheckpointsAreOpenToTheirUserOnly) {
  UserProcess writer(kAlice, [this](UserProcess& me) {
    fault::TinyRun run(socket(), "kept", 4);
    const auto report = run.commit(7, 3).get();
    me.say(report ? report->path : text_of(report.error()));
    (void)me.hear();
    return 0;
  });
  const std::string path = writer.hear();
  ASSERT_THAT(path, HasSubstr("/kept/step-7"));
  const auto look = [&] {
    const auto all = client::list_checkpoints(socket(), "", false);
    const auto files = client::open_checkpoint(socket(), "kept", 7);
    const bool on_disk = ::access((path + "/model.safetensors").c_str(), R_OK) == 0;
    return fmt::format("{} listed, opened {}, on disk {}", all ? all->size() : 99,
                       files.has_value(), on_disk);
  };
  EXPECT_EQ(as(kAlice, look), "1 listed, opened true, on disk false");
  EXPECT_EQ(as(kBob, look), "0 listed, opened false, on disk false");
  EXPECT_EQ(as(kCarol, look), "0 listed, opened false, on disk false")
      << "an administrator ends runs, "
         "and reads nobody's weights";
  writer.say("done");
  EXPECT_EQ(writer.end(), 0);
}

}  // namespace
}  // namespace npu::test

// npu metrics against a real npud: what a scrape shows, to whom, over HTTP, and what is refused.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <optional>

#include "cli_fixture.hpp"
#include "client/api/admin.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/exposition.hpp"
#include "tests/support/http_get.hpp"
#include "tests/support/scrape.hpp"

namespace npu::cli {
namespace {

using test::Exposed;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::StartsWith;

constexpr int kTries = 1000;  // of 20 ms: a hang

class MetricsTest : public CliTest {
 protected:
  Exposed scrape() { return test::scrape(daemon_.socket()); }

  /// The first scrape for which `condition` holds: the text is up to 200 ms old.
  Exposed scrape_until(const std::function<bool(const Exposed&)>& condition) {
    for (int i = 0; i < kTries; ++i) {
      Exposed got = scrape();
      if (condition(got)) return got;
      ::poll(nullptr, 0, 20);
    }
    ADD_FAILURE() << "the scrape that was waited for did not come";
    return {};
  }

  std::vector<pid_t> start_endless_run(const std::string& name) {
    return test::fork_ranks(
        daemon_.socket(), 2,
        [](client::Device& device) {
          device.describe_training("resnet8", "fp32");
          for (uint64_t step = 1;; ++step) {
            device.set_progress(step);
            device.report_step({.epoch = 3, .loss = 0.5, .top1 = 0.25, .learning_rate = 0.1, .samples = 32});
            auto work = device.world().barrier();
            if (!work || !work->wait()) return 0;
          }
        },
        name);
  }

  static void end(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
    (void)test::wait_ranks(pids);
  }

  test::DaemonProcess daemon_;
};

TEST_F(MetricsTest, AFreshDaemonExportsEveryFamilyWell) {
  const Outcome got = npu({"metrics", "--socket", daemon_.socket()});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.err, "");
  const Exposed exposed = test::read_exposition(got.out);
  EXPECT_THAT(exposed.problems, IsEmpty());
  EXPECT_GT(exposed.families.size(), 50u);
  EXPECT_EQ(exposed.sum("npud_device_info"), 8);
  EXPECT_GT(exposed.value("process_resident_memory_bytes").value_or(0), 1e6);
  EXPECT_GT(exposed.value("npud_start_time_seconds").value_or(0), 1e9);
  EXPECT_GE(exposed.value("npud_control_requests_total", {{"method", "hello"}, {"code", "ok"}}).value_or(0), 1);
  EXPECT_GE(exposed.value("npud_log_messages_total", {{"level", "info"}}).value_or(0), 1);
  EXPECT_EQ(exposed.sum("npud_runs"), 0);
  EXPECT_EQ(exposed.value("npud_config_reload_success"), 1);
}

TEST_F(MetricsTest, ARunAppearsMovesAndGoes) {
  const auto pids = start_endless_run("moving");
  const Exposed first = scrape_until([](const Exposed& e) { return e.sum("npud_run_samples_total") > 0; });
  const Exposed later = scrape_until([&](const Exposed& e) {
    return e.sum("npud_run_step") > first.sum("npud_run_step") &&
           e.sum("npud_collective_ops_total", {{"op", "barrier"}}) >
               first.sum("npud_collective_ops_total", {{"op", "barrier"}});
  });
  EXPECT_EQ(later.value("npud_run_info", {{"run", "moving"}, {"arch", "resnet8"}, {"world_size", "2"}}), 1);
  EXPECT_EQ(later.value("npud_run_loss", {{"run", "moving"}, {"split", "train"}}), 0.5);
  EXPECT_EQ(later.value("npud_run_epoch", {{"run", "moving"}}), 3);
  EXPECT_EQ(later.sum("npud_device_attached", {{"run", "moving"}}), 2);
  EXPECT_EQ(later.sum("npud_device_state", {{"state", "busy"}}), 2);
  EXPECT_EQ(later.value("npud_runs", {{"state", "running"}}), 1);
  EXPECT_LE(later.value("npud_collective_inflight").value_or(99), 2);
  EXPECT_GT(later.sum("npud_collective_arrival_skew_seconds_count"), 0);
  end(pids);
  const Exposed after = scrape_until([](const Exposed& e) { return e.sum("npud_runs") == 0; });
  for (const auto& [name, family] : after.families) {
    for (const auto& sample : family.samples) {
      EXPECT_TRUE(!sample.labels.contains("run") || sample.labels.at("run").empty()) << name;
    }
  }
  EXPECT_EQ(after.value("npud_runs_total", {{"result", "failed"}}), 1);
  EXPECT_EQ(after.sum("npud_device_detach_total", {{"reason", "killed"}}), 2);
}

TEST_F(MetricsTest, AStoppedRankIsStalledAndTheOthersAreNot) {
  const auto pids = start_endless_run("stuck");
  (void)scrape_until([](const Exposed& e) { return e.sum("npud_run_samples_total") > 0; });
  ::kill(pids[1], SIGSTOP);
  const Exposed got = scrape_until([](const Exposed& e) { return e.sum("npud_device_healthy") < 8; });
  EXPECT_EQ(got.value("npud_device_state", {{"device", "1"}, {"state", "stall"}}), 1);
  EXPECT_EQ(got.value("npud_device_state", {{"device", "0"}, {"state", "busy"}}), 1);
  EXPECT_GE(got.value("npud_device_heartbeat_age_seconds", {{"device", "1"}}).value_or(0), 10);
  EXPECT_EQ(got.value("npud_ring_depth", {{"device", "0"}}), 1);
  EXPECT_EQ(got.value("npud_collective_inflight"), 1);
  end(pids);
}

TEST_F(MetricsTest, AnotherUserSeesThatADeviceIsTakenAndNoMore) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  const std::filesystem::path run = std::filesystem::path(daemon_.socket()).parent_path();
  ASSERT_EQ(::chmod(daemon_.socket().c_str(), 0666), 0);
  ASSERT_EQ(::chmod(run.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(run.parent_path().c_str(), 0755), 0);
  const auto pids = start_endless_run("secret-run");
  (void)scrape_until([](const Exposed& e) { return e.sum("npud_run_samples_total") > 0; });
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    if (::setresuid(20'001, 20'001, 20'001) != 0) ::_exit(1);
    const auto text = client::read_metrics(daemon_.socket());
    if (!text) ::_exit(2);
    if (text->find("secret") != std::string::npos) ::_exit(3);
    const Exposed got = test::read_exposition(*text);
    if (!got.problems.empty() || got.sum("npud_device_attached") != 2) ::_exit(4);
    if (!got.families.at("npud_run_info").samples.empty()) ::_exit(5);
    ::_exit(got.value("npud_runs", {{"state", "running"}}) == 1 ? 0 : 6);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(stranger, &status, 0), stranger);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  end(pids);
}

TEST_F(MetricsTest, AFloodOfScrapesGetsOneTextAMoment) {
  const auto one = client::read_metrics(daemon_.socket());
  const auto begin = Clock::now();
  int different = 0, asked = 0;
  for (std::string last = *one; asked < 200; ++asked) {
    const auto next = client::read_metrics(daemon_.socket());
    ASSERT_TRUE(next) << next.error().message;
    different += *next != last ? 1 : 0;
    last = *next;
  }
  EXPECT_LE(different, 1 + std::chrono::duration<double>(Clock::now() - begin).count() / 0.2);
}

/// `npu metrics --listen` in the background.
class Served {
 public:
  explicit Served(const std::string& socket) : err_(::memfd_create("err", MFD_CLOEXEC)) {
    client::ChildSpec spec{.path = NPU_PATH,
                           .argv = {"npu", "metrics", "--socket", socket, "--listen", "127.0.0.1:0"},
                           .env = {"PATH=/usr/bin:/bin"},
                           .stderr_fd = err_.get()};
    auto started = client::Child::start(spec);
    EXPECT_TRUE(started);
    child_.emplace(std::move(*started));
  }

  /// From what it says once it listens.
  int port() {
    for (int i = 0; i < kTries && err().find("/metrics\n") == std::string::npos; ++i) ::poll(nullptr, 0, 20);
    const std::string text = err();
    EXPECT_THAT(text, MatchesRegex("npu metrics: serving http://127.0.0.1:[0-9]+/metrics\n"));
    const size_t at = text.rfind(':');
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + 1);
  }
  std::string err() const {
    std::string all(static_cast<size_t>(::lseek(err_.get(), 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(err_.get(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    return all;
  }
  int stop(int signal) {
    ::kill(child_->pid(), signal);
    const int code = child_->wait().code();
    child_.reset();
    return code;
  }

 private:
  UniqueFd err_;
  std::optional<client::Child> child_;
};

constexpr const char* kScrape = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST_F(MetricsTest, IsServedUntilItIsToldToStop) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Served sut(daemon_.socket());
    const std::string got = test::http(sut.port(), kScrape);
    EXPECT_THAT(got, StartsWith("HTTP/1.1 200 OK"));
    const Exposed exposed = test::read_exposition(test::body_of(got));
    EXPECT_THAT(exposed.problems, IsEmpty());
    EXPECT_EQ(exposed.sum("npud_device_info"), 8);
    EXPECT_EQ(sut.stop(signal), 0);
  }
}

TEST_F(MetricsTest, ADaemonThatIsGoneIs503UntilItIsBack) {
  Served sut(daemon_.socket());
  const int port = sut.port();
  daemon_.stop(SIGKILL);
  const std::string gone = test::http(port, kScrape);
  EXPECT_THAT(gone, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(gone, HasSubstr("find a daemon: none answers"));
  daemon_.start();
  EXPECT_THAT(test::http(port, kScrape), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(sut.stop(SIGTERM), 0);
}

TEST_F(MetricsTest, WrongInputIsOneSentence) {
  const auto expect_sentence = [](const Outcome& got, int code, const std::string& text) {
    EXPECT_EQ(got.code, code) << got.err;
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, StartsWith("npu metrics: error: "));
    EXPECT_THAT(got.err, HasSubstr(text));
    EXPECT_EQ(std::ranges::count(got.err, '\n'), 1) << got.err;
  };
  expect_sentence(npu({"metrics", "--socket", root_ + "/none.sock"}), 69, "/none.sock");
  expect_sentence(npu({"metrics", "--listen", "9464"}), 64, "ADDRESS:PORT was expected");
  expect_sentence(npu({"metrics", "--listen", "0.0.0.0:9464"}), 64, "asks for no password");
  Served taken(daemon_.socket());
  const std::string address = "127.0.0.1:" + std::to_string(taken.port());
  expect_sentence(npu({"metrics", "--listen", address}), 75, address);
  EXPECT_EQ(npu({"metrics", "extra"}).code, 64);
  EXPECT_EQ(taken.stop(SIGTERM), 0);
}

/// A daemon with a configuration file, which may change.
class MetricsConfigTest : public testing::Test {
 protected:
  void reload(const std::string& text) {
    std::ofstream(config_) << text;
    ::kill(daemon_.pid(), SIGHUP);
  }
  /// True once a scrape has this value.
  bool becomes(const std::string& name, double value) {
    for (int i = 0; i < kTries; ++i) {
      const auto text = client::read_metrics(daemon_.socket());
      if (!text) return false;
      const Exposed got = test::read_exposition(*text);
      EXPECT_THAT(got.problems, IsEmpty());
      if (got.value(name) == value) return true;
      ::poll(nullptr, 0, 20);
    }
    return false;
  }

  test::TempDir dir_;
  const std::string config_ = dir_.path() + "/npud.yaml";
  const bool written_ = static_cast<bool>(std::ofstream(config_) << "metrics: {compat: ascend}\n");
  test::DaemonProcess daemon_{{"--config", config_}};
};

TEST_F(MetricsConfigTest, AscendsNamesAreThereIfItSaysSo) {
  EXPECT_TRUE(becomes("machine_npu_nums", 8));
  const auto text = client::read_metrics(daemon_.socket());
  EXPECT_EQ(test::read_exposition(text.value_or("")).value("npu_chip_info_health_status", {{"id", "3"}}), 1);
}

TEST_F(MetricsConfigTest, ABadReloadShowsUntilAGoodOne) {
  ASSERT_TRUE(becomes("npud_config_reload_success", 1));
  reload("metrics: {compat: both}\n");
  EXPECT_TRUE(becomes("npud_config_reload_success", 0));
  reload("metrics: {compat: none}\n");
  EXPECT_TRUE(becomes("npud_config_reload_success", 1));
  const auto text = client::read_metrics(daemon_.socket());
  EXPECT_EQ(text.value_or("machine_npu").find("machine_npu"), std::string::npos);
}

}  // namespace
}  // namespace npu::cli

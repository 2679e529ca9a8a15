// What goes wrong before or while a job runs: one sentence with the offending value, the exit code
// that scripts rely on, and nothing left: no process (the fixture looks), no half-written step.
#include <gmock/gmock.h>

#include "e2e_fixture.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class BadInputTest : public E2eTest {
 protected:
  void expect_refused(const Outcome& got, int code, const std::vector<std::string>& words) {
    EXPECT_EQ(got.code, code) << got.err;
    EXPECT_EQ(got.code, last_error_code(got.out)) << got.out;
    for (const std::string& word : words) EXPECT_THAT(got.err, HasSubstr(word));
    EXPECT_THAT(got.err, AllOf(Not(HasSubstr("terminate called")), Not(HasSubstr("what():")),
                               Not(HasSubstr("check failed"))));
  }

  /// Step directories and temporary files below a store.
  static std::vector<std::string> files_below(const std::string& dir) {
    std::vector<std::string> found;
    if (!fs::exists(dir)) return found;
    for (const auto& entry : fs::recursive_directory_iterator(dir)) {
      if (entry.is_regular_file()) found.push_back(entry.path().string());
    }
    return found;
  }

  /// Runs a shell command as root of a mount namespace of its own.
  Outcome in_namespace(const std::string& command) {
    const std::string script = file("script.sh", command);
    const UniqueFd out(::memfd_create("out", MFD_CLOEXEC)), err(::memfd_create("err", MFD_CLOEXEC));
    client::ChildSpec spec{.path = "/usr/bin/unshare",
                           .argv = {"unshare", "-m", "sh", script},
                           .env = env_,
                           .stdout_fd = out.get(),
                           .stderr_fd = err.get()};
    auto child = client::Child::start(spec);
    EXPECT_TRUE(child);
    if (!child) return {};
    const int code = child->wait().code();
    const auto text = [](int fd) { return contents("/proc/self/fd/" + std::to_string(fd)); };
    return {code, text(out.get()), text(err.get())};
  }

  /// Whether this user may mount a tmpfs that nobody else sees.
  bool can_mount() {
    return ::geteuid() == 0 &&
           in_namespace("mkdir -p " + root_ + "/m && mount -t tmpfs none " + root_ + "/m\n").code ==
               0;
  }

 private:
  static int last_error_code(const std::string& out) {
    const auto error = last<client::ErrorEvent>(events_of(out));
    return error ? error->exit_code : -1;
  }
};

TEST_F(BadInputTest, MissingDataIsNoInput) {
  const std::string path = root_ + "/no-such-set";
  expect_refused(launch({"data.format=idx", "data.path=" + path}), 66,
                 {path, "train-images-idx3-ubyte", "data.path"});
}

TEST_F(BadInputTest, TruncatedDataIsBadData) {
  // An honest header of 10 images, then 3 of its 7840 bytes.
  const std::string header("\0\0\10\3\0\0\0\12\0\0\0\34\0\0\0\34", 16);
  fs::create_directory(root_ + "/idx");
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    file(std::string("idx/") + name, header + "abc");
  }
  expect_refused(launch({"data.format=idx", "data.path=" + root_ + "/idx"}), 65,
                 {root_ + "/idx/train-images-idx3-ubyte", "truncated", "7840"});
}

TEST_F(BadInputTest, BadJobIsNamedBeforeAnythingStarts) {
  const struct {
    const char* set;
    std::vector<std::string> words;
  } cases[] = {
      {"train.batchsize=3", {"unknown key 'train.batchsize'", "train.batch_size"}},
      {"train.batch_size=33", {"33", "4 ranks"}},
      {"train.batch_size=many", {"many"}},
      {"devices=0,0", {"device 0", "twice"}},
      {"devices=0,9", {"9", "0..7"}},
      {"model.arch=resnet21", {"resnet21", "resnet20"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.set);
    expect_refused(launch({c.set}), 78, c.words);
  }
  EXPECT_FALSE(fs::exists(root_ + "/state"));
}

TEST_F(BadInputTest, BadKeyInTheFileIsNamedWithItsPlace) {
  const std::string path = file("bad.yaml", "name: bad\ntrain:\n  epochs: 1\n  epoch_count: 2\n");
  expect_refused(npu({"launch", path, "-o", "json"}), 78, {path + ":4:", "epoch_count"});
}

TEST_F(BadInputTest, MissingJobFileIsNoInput) {
  expect_refused(npu({"launch", root_ + "/none.yaml", "-o", "json"}), 66, {root_ + "/none.yaml"});
}

TEST_F(BadInputTest, BusyDeviceNamesItsHolder) {
  const test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  Background holder(env_, job("holder"), {"train.epochs=100000", "devices=0-1"});
  ASSERT_THAT(holder.read_until("\"step\":2,"), HasSubstr("\"step\":2,"));
  const auto ranks = holder.children("train");
  ASSERT_EQ(ranks.size(), 2u);
  const Outcome got = launch({"devices=1-2"});
  expect_refused(got, 75, {"device 1", "holder", std::to_string(ranks[1])});
  // The one that was there first is not disturbed.
  EXPECT_THAT(holder.read_until("\"type\":\"step\""), HasSubstr("\"type\":\"step\""));
  holder.kill(SIGTERM);
  EXPECT_EQ(holder.wait(), 80);
}

TEST_F(BadInputTest, RequiredDaemonThatIsNotThereIsUnavailable) {
  expect_refused(launch({}, {"--daemon", "require"}), 69, {"none.sock", "npud"});
  expect_refused(launch({}, {"--daemon", "require", "--socket", root_ + "/x.sock"}), 69,
                 {"x.sock"});
}

TEST_F(BadInputTest, FullDiskEndsTheJobAndLeavesNoHalfStep) {
  if (!can_mount()) GTEST_SKIP() << "needs root and a mount namespace of its own";
  const std::string dir = root_ + "/m";
  // resnet20 with its optimizer state is 2.2 MB.
  const Outcome got = in_namespace(
      "mount -t tmpfs -o size=1m,mode=0700 none " + dir + "\n" + NPU_PATH + " launch " + job() +
      " -o json --set model.arch=resnet20 --set train.epochs=1 --state-dir " + dir + " >" + root_ +
      "/out\nrc=$?\nfind " + dir + " -mindepth 3\nexit $rc\n");
  expect_refused({got.code, contents(root_ + "/out"), got.err}, 73,
                 {"No space left", "run 'tiny' step 8"});
  EXPECT_EQ(got.out, "") << "files left in the store";
}

TEST_F(BadInputTest, ReadOnlyStateDirectoryEndsTheJob) {
  if (!can_mount()) GTEST_SKIP() << "needs root and a mount namespace of its own";
  const std::string dir = root_ + "/m";
  const Outcome got =
      in_namespace("mount -t tmpfs -o ro,mode=0700 none " + dir + "\n" + NPU_PATH + " launch " +
                   job() + " -o json --state-dir " + dir + " >" + root_ + "/out\n");
  EXPECT_EQ(got.code, 73) << got.err;
  EXPECT_THAT(got.err, HasSubstr("Read-only file system"));
}

}  // namespace
}  // namespace npu::e2e

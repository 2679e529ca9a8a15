// --color, -q and -v: known to every command, and what they change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli_fixture.hpp"
#include "tests/support/on_terminal.hpp"

namespace npu::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class GlobalOptionsTest : public CliTest {
 protected:
  /// What the launch of a small job writes to a terminal.
  std::string on_terminal(const Words& options, const Words& more_env) {
    auto env = env_;
    env.emplace_back("TERM=xterm");
    env.insert(env.end(), more_env.begin(), more_env.end());
    Words args = {"npu", "launch", job(), "--set", "checkpoint.resume=never"};
    args.insert(args.end(), options.begin(), options.end());
    test::OnTerminal sut(args, env, 100);
    EXPECT_EQ(sut.end(), 0) << sut.output();
    return sut.output();
  }
};

TEST_F(GlobalOptionsTest, EveryCommandKnowsThemAndRefusesWhatIsNone) {
  for (const Words& command :
       {Words{"launch"}, Words{"train"}, Words{"eval"}, Words{"info"}, Words{"ps"}, Words{"logs"},
        Words{"stop"}, Words{"plot"}, Words{"ckpt", "ls"}, Words{"ckpt", "export"},
        Words{"config", "check"}, Words{"bench", "all-reduce"}, Words{"bench", "step"}}) {
    Words args = command;
    args.emplace_back("--help");
    const Outcome help = npu(args);
    EXPECT_EQ(help.code, 0);
    for (const char* option : {"--color WHEN", "-q,--quiet", "-v,--verbose"}) {
      EXPECT_THAT(help.out, HasSubstr(option)) << command.back();
    }
    args.back() = "--color=blue";
    const Outcome wrong = npu(args);
    EXPECT_EQ(wrong.code, 64) << command.back();
    EXPECT_THAT(wrong.err, HasSubstr("--color: blue not in")) << command.back();
    EXPECT_EQ(std::ranges::count(wrong.err, '\n'), 1) << wrong.err;
  }
  EXPECT_EQ(npu({"--color", "blue", "config", "schema"}).code, 64);
  EXPECT_EQ(npu({"-q", "config", "schema"}).code, 0);
}

TEST_F(GlobalOptionsTest, QuietLaunchSaysNothingThatNobodyHasToActOn) {
  const Outcome loud = npu({"launch", job()});
  ASSERT_EQ(loud.code, 0);
  EXPECT_THAT(loud.err, HasSubstr("started a private npud"));
  const Outcome quiet = npu({"launch", job(), "-q"});
  ASSERT_EQ(quiet.code, 0);
  EXPECT_EQ(quiet.err, "");
  EXPECT_THAT(quiet.out, HasSubstr("done: 1 epochs"));
  EXPECT_EQ(npu({"launch", job(), "-q", "-o", "json"}).err, "");
}

TEST_F(GlobalOptionsTest, QuietDoesNotHideAnError) {
  const Outcome got = npu({"info", "-q", "--socket", root_ + "/none.sock"});
  EXPECT_EQ(got.code, 69);
  EXPECT_THAT(got.err, HasSubstr("npu info: error: find a daemon"));
}

TEST_F(GlobalOptionsTest, VerboseSaysWhatIsUsed) {
  const Outcome once = npu({"launch", job(), "-v"});
  EXPECT_THAT(once.err, HasSubstr("npu launch: curves and logs go to '" + root_));
  EXPECT_THAT(once.err, Not(HasSubstr("[info]")));
  EXPECT_THAT(npu({"ckpt", "ls", "-v"}).err, HasSubstr("npu ckpt: asks a private daemon at '"));
  EXPECT_THAT(npu({"logs", "tiny", "-v"}).err, HasSubstr("npu logs: reads '" + root_));
  EXPECT_THAT(npu({"launch", job(), "-vv"}).err, HasSubstr("info"));
}

TEST_F(GlobalOptionsTest, ColourFollowsTheOptionThenNoColorThenTheTerminal) {
  constexpr const char* kColour = "\x1b[36m";
  EXPECT_THAT(on_terminal({}, {}), HasSubstr(kColour));
  EXPECT_THAT(on_terminal({}, {"NO_COLOR=1"}), Not(HasSubstr(kColour)));
  EXPECT_THAT(on_terminal({"--color", "never"}, {}), Not(HasSubstr(kColour)));
  EXPECT_THAT(on_terminal({"--color", "always"}, {"NO_COLOR=1"}), HasSubstr(kColour));
}

}  // namespace
}  // namespace npu::cli

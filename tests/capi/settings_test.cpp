#include "client/capi/settings.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace npu::capi {
namespace {

const char* no_environment(const char*) { return nullptr; }

const char* launcher_environment(const char* name) {
  return std::string_view(name) == "NPU_RUN_KEY" ? "from-the-launcher" : nullptr;
}

const char* long_key_environment(const char* name) {
  return std::string_view(name) == "NPU_RUN_KEY" ? "0123456789012345678901234567890123456789"
                                                 : nullptr;
}

InitArguments arguments(const npu_config_t* config = nullptr) { return {8, 3, "job", config}; }

/// The sentence of the refusal; empty if there is none.
std::string refusal(const InitArguments& given, GetEnv get = no_environment) {
  const auto settings = make_settings(given, get);
  if (settings) return {};
  EXPECT_EQ(settings.error().code, Code::kInvalidArgument);
  return settings.error().message;
}

TEST(Settings, WithoutConfigurationAndEnvironmentAreTheDocumentedDefaults) {
  const auto sut = make_settings(arguments(), no_environment);
  ASSERT_TRUE(sut);
  EXPECT_EQ(sut->attach.run, "job");
  EXPECT_EQ(sut->attach.run_key, "");
  EXPECT_EQ(sut->attach.socket, "");
  EXPECT_EQ(sut->attach.world, 8u);
  EXPECT_EQ(sut->attach.rank, 3u);
  EXPECT_EQ(sut->attach.device, 3u);
  EXPECT_EQ(sut->attach.arena_bytes, uint64_t{64} << 20);
  EXPECT_EQ(sut->attach.staging_bytes, uint64_t{16} << 20);
  EXPECT_EQ(sut->attach.join_timeout, milliseconds(60'000));
  EXPECT_FALSE(sut->collective.timeout);  // NPU_COLL_TIMEOUT, else a minute
  EXPECT_EQ(sut->collective.algorithm, shm::Algorithm::kAuto);
  EXPECT_FALSE(sut->collective.strict);
}

TEST(Settings, TheEnvironmentGivesTheKey) {
  const auto sut = make_settings(arguments(), launcher_environment);
  ASSERT_TRUE(sut);
  EXPECT_EQ(sut->attach.run_key, "from-the-launcher");
}

TEST(Settings, TheConfigurationWinsOverTheEnvironment) {
  npu_config_t config = NPU_CONFIG_INIT;
  config.socket = "/s";
  config.run_key = "mine";
  config.device = 5;
  config.algorithm = NPU_ALGORITHM_DIRECT;
  config.arena_bytes = 5000;
  config.staging_bytes = 100;
  config.join_timeout_ms = 0;
  config.timeout_ms = 0;
  config.strict = 1;
  const auto sut = make_settings(arguments(&config), launcher_environment);
  ASSERT_TRUE(sut);
  EXPECT_EQ(sut->attach.socket, "/s");
  EXPECT_EQ(sut->attach.run_key, "mine");
  EXPECT_EQ(sut->attach.device, 5u);
  EXPECT_EQ(sut->attach.arena_bytes, 8192u);   // whole pages
  EXPECT_EQ(sut->attach.staging_bytes, 128u);  // whole lines
  EXPECT_EQ(sut->attach.join_timeout, milliseconds(0));
  EXPECT_EQ(sut->collective.timeout, milliseconds(0));
  EXPECT_EQ(sut->collective.algorithm, shm::Algorithm::kDirect);
  EXPECT_TRUE(sut->collective.strict);
}

TEST(Settings, BadArgumentsAreRefused) {
  EXPECT_NE(refusal({8, 8, "job", nullptr}), "");
  EXPECT_NE(refusal({0, 0, "job", nullptr}), "");
  EXPECT_NE(refusal({9, 0, "job", nullptr}), "");
  EXPECT_NE(refusal({8, 0, nullptr, nullptr}), "");
  EXPECT_NE(refusal({8, 0, "", nullptr}), "");
  EXPECT_NE(refusal({8, 0, "../etc", nullptr}), "");
}

TEST(Settings, AConfigurationOfAnotherVersionOrNotInitialisedIsRefused) {
  npu_config_t config{};
  EXPECT_NE(refusal(arguments(&config)).find("NPU_CONFIG_INIT"), std::string::npos);
  config = NPU_CONFIG_INIT;
  config.version = NPU_CONFIG_VERSION + 1;
  EXPECT_NE(refusal(arguments(&config)), "");
  config = NPU_CONFIG_INIT;
  config.size += 8;
  EXPECT_NE(refusal(arguments(&config)), "");
}

TEST(Settings, EveryFieldOutOfRangeIsNamed) {
  struct Case {
    const char* field;
    void (*spoil)(npu_config_t&);
  };
  constexpr Case kCases[] = {
      {"device", [](npu_config_t& c) { c.device = -2; }},
      {"algorithm", [](npu_config_t& c) { c.algorithm = 3; }},
      {"arena_bytes", [](npu_config_t& c) { c.arena_bytes = UINT64_MAX; }},
      {"staging", [](npu_config_t& c) { c.staging_bytes = int64_t{64} << 20; }},
      {"staging_bytes", [](npu_config_t& c) { c.staging_bytes = -2; }},
      {"join_timeout_ms", [](npu_config_t& c) { c.join_timeout_ms = -1; }},
      {"timeout_ms", [](npu_config_t& c) { c.timeout_ms = UINT32_MAX; }},
      {"strict", [](npu_config_t& c) { c.strict = 2; }},
      {"reserved", [](npu_config_t& c) { c.reserved = 1; }},
  };
  for (const Case& c : kCases) {
    npu_config_t config = NPU_CONFIG_INIT;
    c.spoil(config);
    EXPECT_NE(refusal(arguments(&config)).find(c.field), std::string::npos) << c.field;
  }
}

TEST(Settings, AKeyThatWouldBeCutIsRefusedWithItsOrigin) {
  npu_config_t config = NPU_CONFIG_INIT;
  EXPECT_NE(refusal(arguments(&config), long_key_environment).find("NPU_RUN_KEY"),
            std::string::npos);
  config.run_key = "";
  EXPECT_EQ(refusal(arguments(&config), long_key_environment), "");
  config.run_key = long_key_environment("NPU_RUN_KEY");
  EXPECT_NE(refusal(arguments(&config)).find("run_key"), std::string::npos);
}

}  // namespace
}  // namespace npu::capi

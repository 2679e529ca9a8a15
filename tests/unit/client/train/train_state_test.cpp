// state.json: what is written is read back to the bit, and nothing wrong gets in.
#include "client/train/train_state.hpp"

#include <gmock/gmock.h>

namespace npu::client {
namespace {

using testing::HasSubstr;

const CheckpointIdentity kIdentity = {
    .arch = "resnet8",
    .num_classes = 10,
    .world = 2,
    .global_batch = 16,
    .seed = 7,
    .amp = true,
    .start_epoch = 3,
    .settings = {{"optimizer.lr", "0.1"}, {"schedule.kind", "cosine"}}};

TrainState used_state() {
  TrainState s;
  s.next_epoch = 2;
  s.step_in_epoch = 3;
  s.global_step = 19;
  s.sums = {1.0 / 3, 4, 5, 6};
  s.skipped_steps = 9;
  s.scaler = model::dynamic_scale(65536, 300);
  s.scaler->scale = 1.0F / 3;
  s.scaler->growth_factor = 1.1;
  s.scaler->backoff_factor = 0.3;
  s.scaler->growth_tracker = 299;
  s.scaler->skipped_steps = 9;
  s.scaler->consecutive_skips = 4;
  return s;
}

/// The text with one thing in it changed.
std::string changed(const std::string& what, const std::string& to) {
  std::string text = state_to_json(used_state(), kIdentity);
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << text;
  return at == std::string::npos ? text : text.replace(at, what.size(), to);
}

TEST(StateJson, ScalerComesBackExactly) {
  const auto sut = state_from_json(state_to_json(used_state(), kIdentity));
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->state.scaler, used_state().scaler);
  EXPECT_EQ(sut->state.skipped_steps, 9);
  EXPECT_TRUE(sut->identity.amp);
}

TEST(StateJson, HoldsAllThatAResumedRunNeeds) {
  config::Job job;
  job.precision.amp = true;
  const std::string text = state_to_json(used_state(), identity_of(job, {"cat", "dog"}));
  // Beside the tensors: position (also of sampler and augmentation, which are functions of seed,
  // epoch and step), best epoch, scaler, model, data, schedule, who wrote it.
  for (const char* key : {"schema",
                          "version",
                          "next_epoch",
                          "step_in_epoch",
                          "global_step",
                          "epoch_samples",
                          "epoch_loss_sum",
                          "best_acc1",
                          "best_epoch",
                          "skipped_steps",
                          "seed",
                          "world",
                          "global_batch",
                          "arch",
                          "num_classes",
                          "class_table",
                          "class_table_hash",
                          "amp",
                          "dynamic",
                          "scale",
                          "growth_factor",
                          "backoff_factor",
                          "growth_interval",
                          "growth_tracker",
                          "consecutive_skips",
                          "profile",
                          "optimizer.lr",
                          "optimizer.momentum",
                          "schedule.kind",
                          "schedule.step_size",
                          "schedule.gamma",
                          "schedule.warmup_epochs",
                          "precision.dtype",
                          "precision.loss_scale",
                          "data.augment",
                          "train.epochs",
                          "train.accumulate"}) {
    EXPECT_THAT(text, HasSubstr("\"" + std::string(key) + "\":"));
  }
}

TEST(StateJson, ClassTableComesBackWithItsHash) {
  CheckpointIdentity identity = identity_of(config::Job{}, {"cat", "a \"b\"\n", "\xff\xfe"});
  const auto sut = state_from_json(state_to_json(used_state(), identity));
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->identity.class_hash, identity.class_hash);
  ASSERT_EQ(sut->identity.classes.size(), 3U);
  EXPECT_EQ(sut->identity.classes[1], identity.classes[1]);
  EXPECT_TRUE(check_class_table(sut->identity, identity, "p")) << "bytes that are no text, too";
}

TEST(StateJson, LongClassTableIsKeptAsItsHash) {
  data::ClassTable many(100'000, "a name of some length");
  for (size_t i = 0; i < many.size(); ++i) many[i] += std::to_string(i);
  const CheckpointIdentity identity = identity_of(config::Job{}, many);
  const std::string text = state_to_json(used_state(), identity);
  EXPECT_LT(text.size(), 10'000U);
  const auto sut = state_from_json(text);
  ASSERT_TRUE(sut);
  EXPECT_TRUE(check_class_table(sut->identity, identity, "p"));
  many[5] += "x";
  EXPECT_FALSE(check_class_table(sut->identity, identity_of(config::Job{}, many), "p"));
}

TEST(CheckClassTable, ListsTheDifferenceUnlessOneSideKnowsNone) {
  const auto of = [](const data::ClassTable& table) { return identity_of(config::Job{}, table); };
  EXPECT_TRUE(check_class_table(of({"a", "b"}), of({"a", "b"}), "p"));
  EXPECT_TRUE(check_class_table(of({}), of({"a"}), "p"));
  EXPECT_TRUE(check_class_table(of({"a"}), of({}), "p"));
  const auto sut = check_class_table(of({"a", "b"}), of({"a", "c"}), "/run/step-3");
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBadData);
  EXPECT_NE(sut.error().message.find("lacks 'b'; has besides 'c'"), std::string::npos);
  EXPECT_NE(sut.error().message.find("/run/step-3"), std::string::npos);
}

TEST(StateJson, NoScalerComesBackAsNone) {
  TrainState state = used_state();
  state.scaler.reset();
  const auto sut = state_from_json(state_to_json(state, kIdentity));
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_FALSE(sut->state.scaler);
}

TEST(StateJson, FileWithoutAScalerIsOneWithoutAmp) {
  std::string text = changed("\"scaler\"", "\"scaler_of_another\"");
  text.replace(text.find("\"amp\""), 5, "\"amq\"");
  const auto sut = state_from_json(text);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_FALSE(sut->state.scaler);
  EXPECT_FALSE(sut->identity.amp);
}

TEST(StateJson, BadScalerIsRefusedByName) {
  auto got = state_from_json(changed("\"growth_interval\": 300", "\"growth_interval\": 0"));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kDataLoss);
  EXPECT_THAT(got.error().message, HasSubstr("growth_interval is 0"));

  got = state_from_json(changed("\"growth_tracker\": 299", "\"growth_tracker\": \"x\""));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kDataLoss);

  got = state_from_json(changed("\"consecutive_skips\"", "\"other\""));
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("consecutive_skips"));
}

TEST(StateJson, SaysHowTheRunWasTrained) {
  const auto sut = state_from_json(state_to_json(used_state(), kIdentity));
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->identity.settings, kIdentity.settings);
  EXPECT_EQ(sut->identity.start_epoch, 3);
}

TEST(StateJson, Schema1IsReadWithoutSettings) {
  std::string text = changed("\"schema\": 2", "\"schema\": 1");
  text.replace(text.find("\"settings\""), 10, "\"settingz\"");
  text.replace(text.find("\"start_epoch\""), 13, "\"start_epocz\"");
  const auto sut = state_from_json(text);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_TRUE(sut->identity.settings.empty());
  EXPECT_FALSE(sut->identity.start_epoch);
  EXPECT_EQ(sut->state.global_step, 19);
}

TEST(StateJson, LaterSchemaIsRefused) {
  const auto got = state_from_json(changed("\"schema\": 2", "\"schema\": 3"));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kUnimplemented);
  EXPECT_THAT(got.error().message, HasSubstr("schema 3 is newer than this program's 2"));
}

TEST(StateJson, SettingsThatAreNoValuesOfAJobFileAreRefused) {
  for (const char* value : {"7", "[1]", "\"a\\nb\"", "\"\\u0000\"", "null"}) {
    const auto got = state_from_json(changed("\"cosine\"", value));
    ASSERT_FALSE(got) << value;
    EXPECT_EQ(got.error().code, Code::kDataLoss) << value;
  }
  const std::string text = changed("\"cosine\"", '"' + std::string(70'000, 'x') + '"');
  EXPECT_FALSE(state_from_json(text));
}

TEST(StateJson, NumbersThatAreNoIntegersOrDoNotFitAreRefused) {
  const std::string field = "\"next_epoch\": " + std::to_string(used_state().next_epoch);
  for (const char* value : {"4294967296", "-2147483649", "1.5", "1e300", "\"1\"", "null", "[1]"}) {
    const auto got = state_from_json(changed(field, "\"next_epoch\": " + std::string(value)));
    ASSERT_FALSE(got) << value;
    EXPECT_EQ(got.error().code, Code::kDataLoss) << value;
    EXPECT_THAT(got.error().message, HasSubstr("next_epoch")) << value;
  }
  const std::string bits = std::to_string(std::bit_cast<uint64_t>(used_state().sums.loss));
  EXPECT_FALSE(state_from_json(changed("\"bits\": " + bits, "\"bits\": -1")));
}

TEST(StateJson, CutAnywhereIsDataLoss) {
  const std::string text = state_to_json(used_state(), kIdentity);
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    const auto got = state_from_json(std::string_view(text).substr(0, length));
    ASSERT_FALSE(got) << length;
    EXPECT_EQ(got.error().code, Code::kDataLoss) << length;
  }
}

TEST(Identity, HoldsWhatDecidesTheTrainingAndNotWhereItRuns) {
  const auto job = config::load_job_text("name: a\noptimizer: {lr: 0.3}\n", "job.yaml");
  ASSERT_TRUE(job);
  std::string keys;
  for (const config::Setting& s : identity_of(*job, {}).settings)
    keys += s.key + "=" + s.value + "\n";
  for (const char* wanted : {"optimizer.lr=0.3\n", "optimizer.momentum=0.9\n", "train.epochs=90\n",
                             "schedule.kind=step\n", "schedule.warmup_form=linear\n",
                             "schedule.milestones=[]\n", "profile=pytorch\n"}) {
    EXPECT_THAT(keys, HasSubstr(wanted));
  }
  for (const char* other : {"name=", "devices=", "output.", "checkpoint.", "data.path", "workers",
                            "print_freq", "model.pretrained"}) {
    EXPECT_THAT(keys, testing::Not(HasSubstr(other)));
  }
}

}  // namespace
}  // namespace npu::client

#include "client/data/loader.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "client/data/memory_source.hpp"
#include "client/data/synthetic.hpp"

namespace npu::data {
namespace {

using testing::HasSubstr;

class Buffers {
 public:
  Buffers(size_t slots, size_t batch, const ImageShape& shape) {
    for (size_t i = 0; i < slots; ++i) {
      images_.emplace_back(batch * shape.elements());
      labels_.emplace_back(batch);
    }
    for (size_t i = 0; i < slots; ++i) slots_.push_back({images_[i].data(), labels_[i].data()});
  }
  [[nodiscard]] std::span<const Slot> slots() const { return slots_; }

 private:
  std::vector<std::vector<float>> images_;
  std::vector<std::vector<int32_t>> labels_;
  std::vector<Slot> slots_;
};

using Delivered = std::pair<std::vector<int32_t>, std::vector<float>>;

class Loader : public testing::Test {
 protected:
  static Dataset data() {
    return std::move(
        make_synthetic({.shape = {8, 8, 1}, .train_samples = 103, .val_samples = 1})->train);
  }

  static std::unique_ptr<BatchLoader> make(const Buffers& buffers, int workers) {
    auto sut = BatchLoader::create(buffers.slots(), {.workers = workers});
    EXPECT_TRUE(sut) << sut.error().message;
    return sut ? std::move(*sut) : nullptr;
  }

  std::unique_ptr<BatchLoader> make(BatchPlan plan, const Buffers& buffers, int workers) {
    auto sut = make(buffers, workers);
    if (sut) sut->begin(pass(std::move(plan)));
    return sut;
  }

  [[nodiscard]] Pass pass(BatchPlan plan, int epoch = 4) const {
    return {&source_, std::move(plan), epoch};
  }

  // All labels and pixels in order of delivery.
  Delivered drain(BatchLoader& sut) {
    Delivered out;
    int64_t index = 0;
    while (true) {
      const auto batch = sut.next();
      EXPECT_TRUE(batch) << batch.error().message;
      if (!batch || batch->index < 0) return out;
      EXPECT_EQ(batch->index, index++);
      const auto n = static_cast<size_t>(batch->n);
      out.first.insert(out.first.end(), batch->labels, batch->labels + n);
      out.second.insert(out.second.end(), batch->images,
                        batch->images + n * source_.shape().elements());
      sut.release(*batch);
    }
  }

  MemorySource source_{data(), Augmenter({8, 8, 1}, {}, config::Augment::kCifar, 7)};
};

TEST_F(Loader, DeliversTheSameBytesForAnyNumberOfWorkersAndSlots) {
  const auto plan = train_plan(source_.size(), {.seed = 1, .epoch = 4}, 5);
  ASSERT_TRUE(plan);
  const Buffers one(1, 5, source_.shape());
  const auto expected = drain(*make(*plan, one, 0));
  ASSERT_EQ(expected.first.size(), 100u);
  for (const int workers : {1, 2, 3, 8, 50}) {
    for (const size_t slots : {1u, 2u, 3u, 7u}) {
      const Buffers buffers(slots, 5, source_.shape());
      auto sut = make(*plan, buffers, workers);
      ASSERT_TRUE(sut);
      EXPECT_EQ(drain(*sut), expected) << workers << " workers, " << slots << " slots";
    }
  }
}

TEST_F(Loader, LastValidationBatchIsSmallerAndTheEndStays) {
  const Buffers buffers(2, 50, source_.shape());
  auto sut = make(val_plan(source_.size(), 1, 0, 50), buffers, 1);
  ASSERT_TRUE(sut);
  std::vector<int> sizes;
  for (int i = 0; i < 5; ++i) {
    const auto batch = sut->next();
    ASSERT_TRUE(batch);
    sizes.push_back(batch->n);
    sut->release(*batch);
  }
  EXPECT_THAT(sizes, testing::ElementsAre(50, 50, 3, 0, 0));
}

TEST_F(Loader, EmptyPlanEndsAtOnce) {
  const Buffers buffers(2, 4, source_.shape());
  for (const int workers : {0, 2}) {
    auto sut = make(val_plan(3, 8, 7, 4), buffers, workers);
    ASSERT_TRUE(sut);
    EXPECT_EQ(sut->next()->index, -1);
  }
}

TEST_F(Loader, BadSampleIsAnErrorAtItsBatchAndStays) {
  const BatchPlan plan{.samples = {0, 1, 2, 3, 999, 5, 6, 7, 8}, .batch = 2};
  const Buffers buffers(3, 2, source_.shape());
  for (const int workers : {0, 1, 2, 3}) {
    auto sut = make(plan, buffers, workers);
    ASSERT_TRUE(sut);
    for (int i = 0; i < 2; ++i) {
      const auto batch = sut->next();
      ASSERT_TRUE(batch) << batch.error().message;
      sut->release(*batch);
    }
    for (int i = 0; i < 2; ++i) {
      const auto bad = sut->next();
      ASSERT_FALSE(bad);
      EXPECT_THAT(bad.error().message, HasSubstr("load batch 2: sample 999 is outside the 103"));
    }
  }
}

TEST_F(Loader, HoldingAllSlotsIsAnErrorNotADeadlock) {
  const Buffers buffers(2, 2, source_.shape());
  for (const int workers : {0, 1, 2}) {
    auto sut = make(val_plan(20, 1, 0, 2), buffers, workers);
    ASSERT_TRUE(sut);
    const auto a = sut->next();
    const auto b = sut->next();
    ASSERT_TRUE(a && b);
    EXPECT_NE(a->images, b->images);
    const auto third = sut->next();
    ASSERT_FALSE(third);
    EXPECT_EQ(third.error().code, Code::kFailedPrecondition);
    sut->release(*a);
    EXPECT_TRUE(sut->next()) << "releasing continues";
  }
}

TEST_F(Loader, AHeldSlotIsNotOverwritten) {
  const Buffers buffers(3, 2, source_.shape());
  auto sut = make(val_plan(40, 1, 0, 2), buffers, 1);
  ASSERT_TRUE(sut);
  const auto held = sut->next();
  ASSERT_TRUE(held);
  const std::vector<float> before(held->images, held->images + 2 * source_.shape().elements());
  for (int i = 0; i < 15; ++i) {
    const auto batch = sut->next();
    ASSERT_TRUE(batch);
    sut->release(*batch);
  }
  EXPECT_TRUE(std::equal(before.begin(), before.end(), held->images));
}

TEST_F(Loader, StopsInMidEpochWithBatchesOutAndWaiting) {
  const Buffers buffers(4, 2, source_.shape());
  for (int round = 0; round < 200; ++round) {
    auto sut = make(val_plan(100, 1, 0, 2), buffers, 1 + round % 4);
    ASSERT_TRUE(sut);
    for (int i = 0; i < round % 4; ++i) {
      const auto batch = sut->next();
      ASSERT_TRUE(batch);
      if (i != 0) sut->release(*batch);
    }
  }
}

TEST_F(Loader, IdleWorkersSleep) {
  const Buffers buffers(2, 2, source_.shape());
  auto sut = make(val_plan(100, 1, 0, 2), buffers, 2);
  ASSERT_TRUE(sut);
  const auto first = sut->next();
  ASSERT_TRUE(first);
  const auto cpu = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  };
  const auto before = cpu();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the time that is measured
  EXPECT_LT(cpu() - before, std::chrono::milliseconds(50));
}

TEST_F(Loader, AnnouncedPassesFollowWithTheSameBytes) {
  const auto first = *train_plan(source_.size(), {.seed = 1, .epoch = 0}, 5);
  const auto second = *train_plan(source_.size(), {.seed = 1, .epoch = 1}, 5);
  const Buffers buffers(3, 5, source_.shape());
  for (const int workers : {0, 1, 3}) {
    auto plain = make(buffers, workers);
    plain->begin(pass(first, 0));
    const Delivered a = drain(*plain);
    plain->begin(pass(second, 1));
    const Delivered b = drain(*plain);

    auto sut = make(buffers, workers);
    sut->begin(pass(first, 0));
    sut->announce(pass(second, 1));
    EXPECT_EQ(drain(*sut), a);
    EXPECT_EQ(sut->next()->index, -1) << "the end stays until begin()";
    sut->begin(pass(second, 1));
    sut->announce(pass(first, 0));
    EXPECT_EQ(drain(*sut), b);
  }
}

TEST_F(Loader, WrongAnnouncementsAndEarlyBeginsChangeNothing) {
  const auto plan = *train_plan(source_.size(), {.seed = 1, .epoch = 0}, 5);
  const Buffers buffers(3, 5, source_.shape());
  const Delivered expected = drain(*make(plan, buffers, 0));
  for (const int workers : {1, 2}) {
    auto sut = make(buffers, workers);
    for (int round = 0; round < 20; ++round) {
      sut->begin(pass(val_plan(source_.size(), 1, 0, 4), 3));
      sut->announce(pass(plan, 99));
      const auto held = sut->next();
      ASSERT_TRUE(held);
      for (int i = 0; i < round; ++i) sut->release(*sut->next());
      sut->begin(pass(plan));  // in mid-pass, one batch still out
      sut->release(*held);
      EXPECT_EQ(drain(*sut), expected);
    }
  }
}

TEST_F(Loader, ThePassAfterAnErrorIsWhole) {
  const BatchPlan bad{.samples = {0, 1, 2, 3, 999, 5, 6, 7, 8}, .batch = 2};
  const auto plan = *train_plan(source_.size(), {.seed = 1, .epoch = 0}, 2);
  const Buffers buffers(3, 2, source_.shape());
  const Delivered expected = drain(*make(plan, buffers, 0));
  for (const int workers : {0, 2}) {
    auto sut = make(bad, buffers, workers);
    for (int i = 0; i < 2; ++i) sut->release(*sut->next());
    ASSERT_FALSE(sut->next());
    sut->begin(pass(plan));
    EXPECT_EQ(drain(*sut), expected);
  }
}

/// Every third sample cannot be read and is left out; every seventh has a stand-in.
class Gaps final : public SampleSource {
 public:
  [[nodiscard]] size_t size() const noexcept override { return 100; }
  [[nodiscard]] const ImageShape& shape() const noexcept override { return shape_; }
  [[nodiscard]] std::unique_ptr<SampleReader> reader() const override {
    return std::make_unique<Reader>();
  }

 private:
  class Reader final : public SampleReader {
    Result<Outcome> read(size_t sample, int, float* out, int32_t* label) override {
      if (sample % 3 == 0) return Outcome::kLeftOut;
      out[0] = out[1] = static_cast<float>(sample);
      *label = static_cast<int32_t>(sample);
      return sample % 7 == 0 ? Outcome::kStandIn : Outcome::kSample;
    }
  };
  ImageShape shape_{1, 2, 1};
};

TEST(LoaderGaps, LeftOutSamplesCloseUpAndAreCounted) {
  const Gaps source;
  const Buffers buffers(3, 10, source.shape());
  for (const int workers : {0, 1, 4}) {
    auto sut = *BatchLoader::create(buffers.slots(), {.workers = workers});
    sut->begin({&source, val_plan(100, 1, 0, 10), 0});
    std::vector<int> seen;
    int bad = 0;
    for (int i = 0; i < 10; ++i) {
      const auto batch = sut->next();
      ASSERT_TRUE(batch);
      for (int k = 0; k < batch->n; ++k) {
        EXPECT_EQ(batch->images[2 * k + 1], static_cast<float>(batch->labels[k]));
        seen.push_back(batch->labels[k]);
      }
      bad += batch->bad;
      sut->release(*batch);
    }
    EXPECT_EQ(seen.size(), 66U);
    EXPECT_TRUE(std::ranges::is_sorted(seen));
    EXPECT_EQ(bad, 34 + 10) << "a third, and the sevenths of the rest";
    EXPECT_EQ(sut->next()->index, -1);
  }
}

TEST_F(Loader, NeedsASlot) {
  const auto sut = BatchLoader::create({}, {.workers = 1});
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().code, Code::kInvalidArgument);
}

TEST(WorkersPerRank, RoundsUp) {
  EXPECT_EQ(workers_per_rank(0, 8), 0);
  EXPECT_EQ(workers_per_rank(2, 8), 1);
  EXPECT_EQ(workers_per_rank(9, 8), 2);
  EXPECT_EQ(workers_per_rank(160, 8), 20);
}

}  // namespace
}  // namespace npu::data

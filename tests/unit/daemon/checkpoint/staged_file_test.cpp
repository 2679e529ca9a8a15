// One file through the bounce buffer: sizes around the buffer, and that the hash is of what was
// written.
#include "daemon/checkpoint/staged_file.hpp"

#include "store_fixture.hpp"

namespace npu::daemon {
namespace {

class StagedFileTest : public StoreFixture {
 protected:
  StagedFileTest() : dir_(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  UniqueFd dir_;
  std::vector<std::byte> bounce_ = std::vector<std::byte>(kBounceBytes);
};

TEST_F(StagedFileTest, SizesAroundTheBufferComeOutWhole) {
  int n = 0;
  for (const size_t size : {size_t{0}, size_t{1}, kBounceBytes - 1, kBounceBytes, kBounceBytes + 1,
                            2 * kBounceBytes + 3}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
    const std::string name = "file" + std::to_string(n++);
    auto sut = StagedFile::create(FileOps::system(), dir_.get(), name, size, bounce_, "test");
    ASSERT_TRUE(sut.has_value()) << sut.error().message;
    const auto source = std::as_bytes(std::span(bytes));
    const size_t cut = size / 3;
    ASSERT_TRUE(sut->append(source.first(cut)).has_value());
    ASSERT_TRUE(sut->append(source.subspan(cut)).has_value());
    const auto file = sut->finish();
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ(file->xxh3_128, xxh3_128(source));
    EXPECT_EQ(slurp(root_ + "/" + name), bytes) << size;
  }
}

// Writes a few bytes at a time and is interrupted in between, as a signal-ridden process on a slow
// disk would see.
class HesitantOps final : public FileOps {
 public:
  ssize_t write(int fd, std::span<const std::byte> bytes) override {
    if (++calls_ % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    return FileOps::write(fd, bytes.first(std::min<size_t>(bytes.size(), 1000)));
  }
  int fallocate(int, uint64_t) override {
    errno = EOPNOTSUPP;
    return -1;
  }

 private:
  int calls_ = 0;
};

TEST_F(StagedFileTest, ShortAndInterruptedWritesAndMissingFallocateAreNoErrors) {
  HesitantOps ops;
  const std::string bytes(100'003, 'y');
  auto sut = StagedFile::create(ops, dir_.get(), "file", bytes.size(), bounce_, "test");
  ASSERT_TRUE(sut.has_value()) << sut.error().message;
  ASSERT_TRUE(sut->append(std::as_bytes(std::span(bytes))).has_value());
  ASSERT_TRUE(sut->finish().has_value());
  EXPECT_EQ(slurp(root_ + "/file"), bytes);
}

TEST_F(StagedFileTest, ExistingNameIsNotOverwritten) {
  std::ofstream(root_ + "/file") << "mine";
  const auto sut = StagedFile::create(FileOps::system(), dir_.get(), "file", 1, bounce_, "test");
  ASSERT_FALSE(sut.has_value());
  EXPECT_EQ(sut.error().code, Code::kAlreadyExists);
}

}  // namespace
}  // namespace npu::daemon

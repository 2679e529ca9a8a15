#include "client/record/tensorboard_file.hpp"

#include <unistd.h>

#include <array>

#include "client/record/tfevents.hpp"

namespace npu::client {
namespace {

constexpr int kNames = 100;  // launches of one run in one second

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

Result<TensorboardFile> TensorboardFile::create(const std::string& folder, double now,
                                                int64_t next_step, bool restart) {
  const std::string path =
      fmt::format("{}/events.out.tfevents.{}.{}", folder, static_cast<int64_t>(now), host_name());
  auto file = AppendFile::create(path);
  for (int n = 1; n < kNames && !file && file.error().code == Code::kAlreadyExists; ++n) {
    file = AppendFile::create(fmt::format("{}.{}", path, n));
  }
  if (!file) return tl::make_unexpected(std::move(file.error()));
  TensorboardFile out(std::move(*file));
  NPU_TRY_VOID(out.file_.append(tf_event_record({now, 0, TfVersion{}})));
  if (restart) {
    NPU_TRY_VOID(out.file_.append(tf_event_record({now, next_step, TfSessionStart{}})));
  }
  NPU_TRY_VOID(out.flush());
  return out;
}

Result<void> TensorboardFile::scalar(const std::string& tag, double value, int64_t step,
                                     double now) {
  return file_.append(tf_event_record({now, step, TfScalar{tag, static_cast<float>(value)}}));
}

}  // namespace npu::client

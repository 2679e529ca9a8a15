#include "client/cli/ckpt_view.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shm/base/units.hpp"
#include "shm/format/safetensors.hpp"

namespace npu::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxStateBytes = 1u << 20;

Result<uint64_t> size_of(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return fail_errno("stat a file of the checkpoint");
  return static_cast<uint64_t>(st.st_size);
}

std::string local_time(int64_t unix_time) {
  const std::time_t time = unix_time;
  std::tm parts{};
  if (::localtime_r(&time, &parts) == nullptr) return "NA";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts);
}

std::string tensor_lines(const SafetensorsHeader& header) {
  size_t width = 4;
  for (const TensorEntry& t : header.tensors) width = std::max(width, t.name.size());
  std::string text;
  for (const TensorEntry& t : header.tensors) {
    text += fmt::format("  {:<{}}  {:<5} [{}]\n", t.name, width, file_dtype_name(t.dtype),
                        fmt::join(t.shape, ", "));
  }
  return text;
}

}  // namespace

std::string checkpoints_table(const std::vector<client::CheckpointInfo>& all) {
  size_t width = 3;
  for (const auto& c : all) width = std::max(width, c.run.size());
  std::string text = fmt::format("{:<{}}  {:>10}  {:>10}  {:<19}  {:<7} PATH\n", "RUN", width,
                                 "STEP", "SIZE", "SAVED", "STATE");
  for (const auto& c : all) {
    text += fmt::format("{:<{}}  {:>9}{}{} {:>10}  {:<19}  {:<7} {}\n", c.run, width, c.step,
                        c.latest ? '*' : ' ', c.best ? '+' : ' ', format_bytes(c.bytes),
                        local_time(c.unix_time), c.state, c.path);
  }
  return text;
}

std::string checkpoints_json(const std::vector<client::CheckpointInfo>& all) {
  Json list = Json::array();
  for (const auto& c : all) {
    list.push_back({{"run", c.run},
                    {"step", c.step},
                    {"bytes", c.bytes},
                    {"unix_time", c.unix_time},
                    {"latest", c.latest},
                    {"best", c.best},
                    {"state", c.state},
                    {"path", c.path}});
  }
  const Json out = {{"schema", 1}, {"checkpoints", list}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Result<std::string> checkpoint_contents(client::CheckpointFiles files) {
  NPU_TRY(const uint64_t model_bytes, size_of(files.model.get()));
  NPU_TRY(const uint64_t optimizer_bytes, size_of(files.optimizer.get()));
  NPU_TRY(const uint64_t state_bytes, size_of(files.state.get()));
  std::string state(std::min(state_bytes, kMaxStateBytes), '\0');
  NPU_TRY_VOID(
      pread_all(files.state.get(), std::as_writable_bytes(std::span(state)), 0, "state.json"));
  NPU_TRY(const SafetensorsFile model,
          SafetensorsFile::open(std::move(files.model), "model.safetensors"));
  std::string text = fmt::format("step {}  {}\n", files.step, files.path);
  text += fmt::format("model.safetensors {}   optimizer.safetensors {}   state.json {}\n",
                      format_bytes(model_bytes), format_bytes(optimizer_bytes),
                      format_bytes(state_bytes));
  text += state + (state.ends_with('\n') ? "" : "\n");
  text += fmt::format("{} tensors\n", model.header().tensors.size());
  return text + tensor_lines(model.header());
}

}  // namespace npu::cli

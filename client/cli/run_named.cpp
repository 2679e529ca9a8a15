#include "client/cli/run_named.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "client/record/run_folder.hpp"
#include "config/diagnostics.hpp"
#include "shm/messages.hpp"

namespace npu::cli {
namespace {

constexpr size_t kListed = 8;

std::string folder_of_runs(const std::optional<std::string>& dir) {
  return client::runs_folder(dir, [](const char* name) { return std::getenv(name); });
}

}  // namespace

std::string run_folder_named(const std::optional<std::string>& dir, const std::string& run) {
  return run.find('/') != std::string::npos ? run : folder_of_runs(dir) + '/' + run;
}

std::vector<std::string> recorded_runs(const std::optional<std::string>& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of_runs(dir), error)) {
    const std::string name = entry.path().filename();
    if (shm::valid_run_name(name)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::string suggestion(const std::string& run, std::vector<std::string> known) {
  std::ranges::sort(known);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  const std::vector<std::string_view> views(known.begin(), known.end());
  if (const auto near = config::closest(run, views); !near.empty()) {
    return "did you mean '" + std::string(near) + "'?";
  }
  std::string text;
  for (size_t i = 0; i < std::min(known.size(), kListed); ++i) {
    text += (text.empty() ? "known: '" : ", '") + known[i] + "'";
  }
  if (known.size() > kListed) text += " and " + std::to_string(known.size() - kListed) + " more";
  return text.empty() ? "none is known" : text;
}

}  // namespace npu::cli

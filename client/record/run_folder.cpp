#include "client/record/run_folder.hpp"

#include <filesystem>

namespace npu::client {

std::string runs_folder(const std::optional<std::string>& dir, const GetEnv& env) {
  if (dir && !dir->empty()) return *dir;
  const auto value = [&env](const char* name) -> std::string {
    const char* text = env(name);
    return text != nullptr ? text : "";
  };
  if (const std::string state = value("XDG_STATE_HOME"); !state.empty()) return state + "/npu/runs";
  if (const std::string home = value("HOME"); !home.empty()) {
    return home + "/.local/state/npu/runs";
  }
  return "";
}

Result<void> make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail_errno(error.value(), fmt::format("create the folder '{}'", folder));
  return {};
}

}  // namespace npu::client

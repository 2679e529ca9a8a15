#include "daemon/service/reload.hpp"

namespace npu::daemon {
namespace {

void add(std::string& list, std::string_view item, std::string_view separator) {
  if (!list.empty()) list += separator;
  list += item;
}

}  // namespace

Result<Reloaded> read_again(const std::string& path, const config::DaemonConfig& started,
                            const config::DaemonConfig& present) {
  Reloaded reloaded;
  NPU_TRY(reloaded.config, config::load_daemon_config(path));
  for (const auto& key : config::differences(present, reloaded.config)) {
    if (key.reloadable) add(reloaded.changed, key.path, ", ");
  }
  for (const auto& key : config::differences(started, reloaded.config)) {
    if (!key.reloadable) add(reloaded.needs_restart, key.path, ", ");
  }
  return reloaded;
}

std::string in_one_line(std::string_view message) {
  std::string found;
  for (std::string_view rest = message; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (rest.substr(0, end).find(": error: ") != std::string_view::npos) {
      add(found, rest.substr(0, end), "; ");
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return found.empty() ? std::string(message.substr(0, message.find('\n'))) : found;
}

}  // namespace npu::daemon

#include "shm/paths.hpp"

#include <unistd.h>

#include <cstdlib>

namespace npu::shm {
namespace {

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string tmp_dir() { return "/tmp/npud-" + std::to_string(::getuid()); }

}  // namespace

std::string default_runtime_dir() {
  if (std::string dir = env("RUNTIME_DIRECTORY"); !dir.empty()) return dir;
  if (std::string dir = env("XDG_RUNTIME_DIR"); !dir.empty()) return dir + "/npud";
  return tmp_dir();
}

std::string default_state_dir() {
  if (std::string dir = env("STATE_DIRECTORY"); !dir.empty()) return dir;
  if (std::string dir = env("XDG_STATE_HOME"); !dir.empty()) return dir + "/npud";
  if (std::string dir = env("HOME"); !dir.empty()) return dir + "/.local/state/npud";
  return tmp_dir() + "/state";
}

std::vector<std::string> default_sockets() {
  if (std::string socket = env("NPUD_SOCKET"); !socket.empty()) return {socket};
  std::vector<std::string> sockets;
  if (std::string dir = env("XDG_RUNTIME_DIR"); !dir.empty()) {
    sockets.push_back(dir + "/npud/" + kSocketName);
  }
  sockets.push_back(tmp_dir() + "/" + kSocketName);
  sockets.push_back(std::string("/run/npud/") + kSocketName);
  return sockets;
}

}  // namespace npu::shm

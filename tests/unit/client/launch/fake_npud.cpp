// A stand-in for npud in tests of the launcher: takes the same arguments, listens, ends on SIGTERM.
// FAKE_NPUD=fail exits at once with 78; =deaf never listens; =stubborn ignores SIGTERM.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

int main(int argc, char** argv) {
  const char* mode_text = std::getenv("FAKE_NPUD");
  const std::string_view mode = mode_text != nullptr ? mode_text : "";
  if (mode == "fail") return 78;
  if (mode == "stubborn") std::signal(SIGTERM, SIG_IGN);
  std::string dir;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--runtime-dir") dir = argv[i + 1];
  }
  if (mode != "deaf") {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = dir + "/npud.sock";
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 74;
    if (::listen(fd, 8) != 0) return 74;
  }
  for (;;) ::pause();
}

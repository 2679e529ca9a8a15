// Fuzzes the control server as clients see it: a whole server runs in this process, with its engine
// and its store, and the input says what up to four connections do to it. After each input the server
// must answer a polite client, and no device may stay taken.
//
// Input: steps of one byte (what, which connection), then what they need; see Script.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "daemon/control/server.hpp"
#include "shm/channel.hpp"
#include "shm/futex.hpp"
#include "shm/hints_data.hpp"
#include "shm/messages.hpp"
#include "shm/submit_data.hpp"

namespace npu::fuzz {
namespace {

constexpr uint32_t kDevices = 4;
constexpr uint64_t kDeviceBytes = 1 << 17;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "control_fuzz: %s\n", what);
  std::abort();
}

/// The server and the directory that it lives in; both stay until the end of the process.
class Rig {
 public:
  Rig() {
    dir_ = "/tmp/npu-fuzz-XXXXXX";
    if (::mkdtemp(dir_.data()) == nullptr) fail("no directory");
    auto server = daemon::Server::start({.runtime_dir = dir_ + "/run",
                                         .state_dir = dir_ + "/state",
                                         .devices = kDevices,
                                         .device_memory_bytes = kDeviceBytes,
                                         .engine_threads = 2});
    if (!server) fail(server.error().message.c_str());
    server_ = std::move(*server);
    socket_ = server_->socket_path();
    std::thread([this] { server_->run(); }).detach();
  }
  [[nodiscard]] const std::string& socket() const noexcept { return socket_; }
  [[nodiscard]] const std::string& dir() const noexcept { return dir_; }

 private:
  std::string dir_, socket_;
  std::unique_ptr<daemon::Server> server_;
};

Rig& rig() {
  static Rig& the_rig = *new Rig;
  static const bool registered = [] {
    return std::atexit([] {
             std::error_code ignored;
             std::filesystem::remove_all(rig().dir(), ignored);
           }) == 0;
  }();
  (void)registered;
  return the_rig;
}

shm::Hello good_hello() {
  auto hello = shm::make_message<shm::Hello>(1);
  hello.magic = shm::kHelloMagic;
  hello.protocol_major = shm::kProtocolMajor;
  hello.layout_hash = shm::layout_hash();
  return hello;
}

class Client {
 public:
  Client() {
    auto fd = shm::connect_to(rig().socket());
    if (fd) fd_ = std::move(*fd);
  }
  ~Client() {
    for (const auto& [at, bytes] : maps_) ::munmap(at, bytes);
  }
  Client(Client&&) = delete;

  void send(const void* bytes, size_t size, bool with_fd = false) {
    const int fds[1] = {fd_.get()};
    if (fd_.valid() && size <= 2 * shm::kMaxMessageBytes && !drains(bytes, size)) {
      (void)shm::send(fd_.get(), bytes, size, std::span<const int>(fds, with_fd ? 1 : 0));
    }
  }
  /// This user may end the server, and that is no discovery.
  static bool drains(const void* bytes, size_t size) {
    uint32_t type = 0;
    if (size >= sizeof(type)) std::memcpy(&type, bytes, sizeof(type));
    return type == static_cast<uint32_t>(shm::MessageType::kDrain);
  }
  /// Takes what is there, or one message if it is to be waited for; keeps the pages of an attach.
  std::optional<shm::Received> take(bool wait) {
    shm::Received message;
    std::optional<shm::Received> last;
    for (;;) {
      const auto status = shm::receive(fd_.get(), message);
      if (status == shm::ReceiveStatus::kEmpty && wait && !last) {
        if (!shm::wait_readable(fd_.get(), Deadline::after(std::chrono::seconds(20)))) {
          fail("the server does not answer");
        }
        continue;
      }
      if (status != shm::ReceiveStatus::kMessage) return last;
      if (message.is<shm::Attached>() && message.fds.size() >= 5) map(message);
      last = std::move(message);
      if (wait) return last;
    }
  }
  void wait_a_moment() {
    pollfd p{fd_.get(), POLLIN, 0};
    (void)::poll(&p, 1, 10);
  }
  /// Writes 64 bytes anywhere into the submit page or the hint page.
  void poke(size_t which, size_t at, std::span<const uint8_t> bytes) {
    if (maps_.size() != 2) return;
    const auto& [base, size] = maps_[which % 2];
    const size_t begin = at % (size - 64);
    std::memcpy(static_cast<char*>(base) + begin, bytes.data(), std::min<size_t>(bytes.size(), 64));
  }
  /// The next entry, stamped as it has to be.
  void submit(std::span<const uint8_t> bytes) {
    if (maps_.size() != 2) return;
    auto& page = *static_cast<shm::SubmitPage*>(maps_[0].first);
    auto& entry = page.entries[ticket_ % shm::kQueueDepth];
    std::memset(reinterpret_cast<char*>(&entry) + 8, 0, sizeof(entry) - 8);
    std::memcpy(reinterpret_cast<char*>(&entry) + 16, bytes.data(),
                std::min(bytes.size(), sizeof(entry) - 16));
    entry.generation = generation_;
    entry.count %= 1 << 16;
    entry.op %= shm::kOpCount;
    entry.stamp.store(++ticket_);
    auto& hints = *static_cast<shm::RunHints*>(maps_[1].first);
    hints.doorbell.value.fetch_add(1);
    shm::futex_wake(hints.doorbell.value, 1);
  }

 private:
  void map(const shm::Received& message) {
    if (!maps_.empty()) return;
    generation_ = message.as<shm::Attached>().generation;
    for (const size_t i : {size_t{1}, size_t{4}}) {
      struct stat st {};
      if (::fstat(message.fds[i].get(), &st) != 0) return;
      const auto bytes = static_cast<size_t>(st.st_size);
      void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, message.fds[i].get(), 0);
      if (at == MAP_FAILED) fail("a page of a rank cannot be mapped");
      maps_.emplace_back(at, bytes);
    }
  }

  UniqueFd fd_;
  uint64_t generation_ = 0, ticket_ = 0;
  std::vector<std::pair<void*, size_t>> maps_;  // submit page, hint page
};

/// Reads numbers off the input; zero behind its end.
class Script {
 public:
  explicit Script(std::span<const uint8_t> rest) : rest_(rest) {}
  [[nodiscard]] bool more() const noexcept { return !rest_.empty(); }
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  size_t number() { return byte() | size_t{byte()} << 8; }
  std::span<const uint8_t> bytes(size_t n) {
    const auto taken = rest_.first(std::min(n, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const uint8_t> rest_;
};

template <typename M>
void send_typed(Client& client, Script& script) {
  M message{};
  const auto body = script.bytes(sizeof(M) - sizeof(shm::MessageHeader));
  std::memcpy(reinterpret_cast<char*>(&message) + sizeof(shm::MessageHeader), body.data(), body.size());
  message.header = shm::make_message<M>(script.byte()).header;
  client.send(&message, sizeof(message));
}

/// An attach that has a chance: small numbers, one of three names.
void send_attach(Client& client, Script& script) {
  auto attach = shm::make_message<shm::Attach>(2);
  attach.world = 1 + script.byte() % 3;
  attach.rank = script.byte() % 3;
  attach.device = script.byte() % (kDevices + 1);
  attach.arena_bytes = script.number() * 3;
  shm::put_text(attach.run, std::string(1, static_cast<char>('a' + script.byte() % 3)));
  client.send(&attach, sizeof(attach));
}

/// A place in the line that has a chance, under the names of send_attach.
void send_queue_join(Client& client, Script& script) {
  auto join = shm::make_message<shm::QueueJoin>(4);
  join.devices = script.byte() % (2U << kDevices);
  shm::put_text(join.run, std::string(1, static_cast<char>('a' + script.byte() % 3)));
  client.send(&join, sizeof(join));
}

void send_message(Client& client, Script& script) {
  switch (script.byte() % 13) {
    case 0:
      return send_typed<shm::Hello>(client, script);
    case 1:
      return send_typed<shm::Attach>(client, script);
    case 2:
      return send_typed<shm::CheckpointCommit>(client, script);
    case 3:
      return send_typed<shm::CheckpointList>(client, script);
    case 4:
      return send_typed<shm::CheckpointOpen>(client, script);
    case 5:
      return send_typed<shm::TraceOpen>(client, script);
    case 6:
    case 7:
      return send_attach(client, script);
    case 9:
      return send_queue_join(client, script);
    case 10:
      return send_typed<shm::QueueJoin>(client, script);
    case 11:
      return send_typed<shm::Evict>(client, script);
    case 12: {
      auto evict = shm::make_message<shm::Evict>(6);
      evict.uid = -1;
      shm::put_text(evict.run, std::string(1, static_cast<char>('a' + script.byte() % 3)));
      return client.send(&evict, sizeof(evict));
    }
    default: {
      const auto plain = shm::make_plain(static_cast<shm::MessageType>(script.byte() % 30), 3);
      client.send(&plain, sizeof(plain));
    }
  }
}

void step(std::array<std::unique_ptr<Client>, 4>& clients, Script& script) {
  const uint8_t what = script.byte();
  auto& client = clients[what / 8 % clients.size()];
  if (client == nullptr) {
    client = std::make_unique<Client>();
    const auto hello = good_hello();
    if (what < 224) client->send(&hello, sizeof(hello));
  }
  switch (what % 8) {
    case 0:
    case 1:
      return send_message(*client, script);
    case 2: {
      const auto raw = script.bytes(script.number() % 4200);
      return client->send(raw.data(), raw.size(), what >= 128);
    }
    case 3:
      client.reset();
      return;
    case 4:
      (void)client->take(false);
      return;
    case 5:
      // Nothing may be due; what comes at all comes soon.
      if (script.byte() % 4 == 0) client->wait_a_moment();
      (void)client->take(false);
      return;
    case 6:
      return client->poke(script.byte(), script.number(), script.bytes(64));
    default:
      return client->submit(script.bytes(112));
  }
}

/// True if no device is taken. Aborts if the answer is not one.
bool polite_client_sees_all_idle() {
  Client client;
  const auto hello = good_hello();
  client.send(&hello, sizeof(hello));
  const auto welcome = client.take(true);
  if (!welcome || !welcome->is<shm::Welcome>()) fail("a polite client is not welcome");
  const auto info = shm::make_plain(shm::MessageType::kInfo, 2);
  client.send(&info, sizeof(info));
  uint32_t devices = 0, busy = 0;
  for (;;) {
    const auto row = client.take(true);
    if (!row) fail("a listing without an end");
    if (row->type() == shm::MessageType::kEnd) break;
    if (!row->is<shm::DeviceRow>()) continue;
    ++devices;
    busy += row->as<shm::DeviceRow>().busy;
  }
  if (devices != kDevices) fail("devices are missing");
  return busy == 0;
}

void run(std::span<const uint8_t> data) {
  {
    std::array<std::unique_ptr<Client>, 4> clients;
    Script script(data);
    while (script.more()) step(clients, script);
    for (const auto& client : clients) {
      const auto detach = shm::make_plain(shm::MessageType::kDetach, 9);
      if (client != nullptr) client->send(&detach, sizeof(detach));
    }
  }
  for (int i = 0; i < 10'000; ++i) {
    if (polite_client_sees_all_idle()) return;
    ::usleep(500);
  }
  fail("a device stays taken");
}

}  // namespace
}  // namespace npu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  npu::fuzz::run({data, size});
  return 0;
}

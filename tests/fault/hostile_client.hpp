// Clients without manners: they say to a daemon what a test tells them to, byte by byte.
#pragma once

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shm/board_data.hpp"
#include "shm/channel.hpp"
#include "shm/futex.hpp"
#include "shm/hints_data.hpp"
#include "shm/messages.hpp"
#include "shm/status_data.hpp"
#include "shm/submit_data.hpp"

namespace npu::test {

/// No wait of these tests is longer; it is for hangs, not for times.
inline constexpr auto kHangLimit = std::chrono::seconds(30);

class RawClient {
 public:
  explicit RawClient(const std::string& socket) {
    if (auto fd = shm::connect_to(socket)) fd_ = std::move(*fd);
  }

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void close() { fd_.reset(); }

  /// False if the socket did not take it.
  bool send_bytes(const void* bytes, size_t size, std::span<const int> fds = {}) {
    // By hand: any number of descriptors.
    iovec iov{const_cast<void*>(bytes), size};
    std::vector<char> control(CMSG_SPACE(sizeof(int) * fds.size()), 0);
    msghdr msg{};
    msg.msg_iov = &iov;
    msg.msg_iovlen = 1;
    if (!fds.empty()) {
      msg.msg_control = control.data();
      msg.msg_controllen = control.size();
      cmsghdr* c = CMSG_FIRSTHDR(&msg);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
      std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
    }
    return ::sendmsg(fd_.get(), &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  }
  template <typename M>
  bool send(const M& message, std::span<const int> fds = {}) {
    return send_bytes(&message, sizeof(M), fds);
  }
  bool send_plain(shm::MessageType type, uint64_t request = 1) {
    return send(shm::make_plain(type, request));
  }

  static shm::Hello good_hello() {
    auto hello = shm::make_message<shm::Hello>(1);
    hello.magic = shm::kHelloMagic;
    hello.protocol_major = shm::kProtocolMajor;
    hello.protocol_minor = shm::kProtocolMinor;
    hello.layout_hash = shm::layout_hash();
    shm::put_text(hello.build, "hostile");
    return hello;
  }
  bool hello() {
    if (!send(good_hello())) return false;
    const auto answer = receive();
    return answer && answer->is<shm::Welcome>();
  }

  /// The next message; nothing when the daemon closed the connection, or said nothing for too long.
  std::optional<shm::Received> receive() {
    const Deadline deadline = Deadline::after(kHangLimit);
    shm::Received message;
    for (;;) {
      switch (shm::receive(fd_.get(), message)) {
        case shm::ReceiveStatus::kMessage:
          return message;
        case shm::ReceiveStatus::kEmpty:
          break;
        default:
          return std::nullopt;
      }
      if (!shm::wait_readable(fd_.get(), deadline)) return std::nullopt;
    }
  }

  /// True if the daemon closes the connection; `last_words` is the last error that it sent.
  bool ended() {
    const Deadline deadline = Deadline::after(kHangLimit);
    shm::Received message;
    while (!deadline.passed()) {
      const auto status = shm::receive(fd_.get(), message);
      if (status == shm::ReceiveStatus::kClosed) return true;
      if (status == shm::ReceiveStatus::kMessage && message.size == sizeof(shm::ErrorReply)) {
        last_words = shm::get_text(message.as<shm::ErrorReply>().text);
      }
      if (status == shm::ReceiveStatus::kEmpty) (void)shm::wait_readable(fd_.get(), deadline);
    }
    return false;
  }

  /// The error that answers, or is sent unasked; empty if something else comes.
  std::string error_text() {
    const auto answer = receive();
    if (!answer || answer->size != sizeof(shm::ErrorReply)) return {};
    return shm::get_text(answer->as<shm::ErrorReply>().text);
  }

  std::string last_words;

 private:
  UniqueFd fd_;
};

/// A mapping of what the daemon handed over.
class RawMap {
 public:
  RawMap() = default;
  RawMap(int fd, int protection) {
    struct stat st {};
    if (::fstat(fd, &st) != 0) return;
    void* at = ::mmap(nullptr, static_cast<size_t>(st.st_size), protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return;
    data_ = at;
    size_ = static_cast<size_t>(st.st_size);
  }
  RawMap(RawMap&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  RawMap& operator=(RawMap&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~RawMap() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] size_t size() const noexcept { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

/// A rank that holds its descriptors and pages in its own hands. All by itself it is a whole run.
class RawRank : public RawClient {
 public:
  enum Fd : size_t { kArena, kSubmit, kStatus, kBoard, kHints };

  /// Null if the daemon refused. A device that the run before has not given back yet is waited for;
  /// ranks of a world of several are not.
  static std::unique_ptr<RawRank> attach(const std::string& socket, const std::string& run,
                                         uint32_t device, uint64_t arena_bytes = 1 << 20,
                                         uint32_t world = 1, uint32_t rank = 0,
                                         bool survives = false) {
    const Deadline deadline = Deadline::after(kHangLimit);
    auto made = std::make_unique<RawRank>(socket);
    if (!made->hello()) return nullptr;
    std::optional<shm::Received> answer;
    for (bool busy = true; busy; ::usleep(1000)) {
      auto message = attach_message(run, device, arena_bytes, world, rank);
      message.survives = survives ? 1 : 0;
      if (!made->send(message)) return nullptr;
      answer = made->receive();
      if (!answer || deadline.passed()) return nullptr;
      busy = answer->is<shm::ErrorReply>() &&
             answer->as<shm::ErrorReply>().exit == static_cast<uint8_t>(Exit::kBusy);
    }
    if (!answer->is<shm::Attached>() || answer->fds.size() < 5) return nullptr;
    made->generation = answer->as<shm::Attached>().generation;
    made->fds = std::move(answer->fds);
    for (const Fd fd : {kArena, kSubmit, kHints})
      made->maps[fd] = RawMap(made->fds[fd].get(), PROT_READ | PROT_WRITE);
    for (const Fd fd : {kStatus, kBoard}) made->maps[fd] = RawMap(made->fds[fd].get(), PROT_READ);
    while (world == 1 && made->board().members.state.load() !=
                             static_cast<uint32_t>(shm::RunState::kRunning)) {
      if (deadline.passed()) return nullptr;
      ::usleep(200);
    }
    return made;
  }
  explicit RawRank(const std::string& socket) : RawClient(socket) {}

  static shm::Attach attach_message(const std::string& run, uint32_t device, uint64_t arena_bytes,
                                    uint32_t world = 1, uint32_t rank = 0) {
    auto message = shm::make_message<shm::Attach>(2);
    message.arena_bytes = arena_bytes;
    message.job_hash = 1;
    message.world = world;
    message.rank = rank;
    message.device = device;
    shm::put_text(message.run, run);
    shm::put_text(message.key, "0123456789abcdef0123456789abcdef");
    return message;
  }

  [[nodiscard]] shm::SubmitPage& submit() const {
    return *static_cast<shm::SubmitPage*>(maps[kSubmit].data());
  }
  [[nodiscard]] const shm::StatusPage& status() const {
    return *static_cast<const shm::StatusPage*>(maps[kStatus].data());
  }
  [[nodiscard]] const shm::RunBoard& board() const {
    return *static_cast<const shm::RunBoard*>(maps[kBoard].data());
  }
  [[nodiscard]] shm::RunHints& hints() const {
    return *static_cast<shm::RunHints*>(maps[kHints].data());
  }
  void kick() const {
    hints().doorbell.value.fetch_add(1);
    shm::futex_wake(hints().doorbell.value, 1);
  }
  /// Publishes entry `ticket` as it is and wakes the engine.
  void publish(uint64_t ticket) const {
    submit().entries[ticket % shm::kQueueDepth].stamp.store(ticket + 1);
    kick();
  }
  [[nodiscard]] bool aborted() const {
    return board().members.state.load() == static_cast<uint32_t>(shm::RunState::kAborted);
  }
  /// Waits for the answer to `ticket`; its code, or -1 if the run was aborted or nothing came.
  [[nodiscard]] int answer(uint64_t ticket) const {
    const Deadline deadline = Deadline::after(kHangLimit);
    const shm::Completion& slot = status().completions[ticket % shm::kQueueDepth];
    while (slot.stamp.load(std::memory_order_acquire) != ticket + 1) {
      if (aborted() || deadline.passed()) return -1;
      ::usleep(50);
    }
    return slot.code;
  }
  /// A barrier of the whole run, alone in it: the engine still serves this rank.
  [[nodiscard]] bool barrier(uint64_t ticket) const {
    auto& entry = submit().entries[ticket % shm::kQueueDepth];
    std::memset(reinterpret_cast<char*>(&entry) + sizeof(entry.stamp), 0,
                sizeof(entry) - sizeof(entry.stamp));
    entry.generation = generation;
    entry.op = static_cast<uint8_t>(shm::Op::kBarrier);
    publish(ticket);
    return answer(ticket) == 0;
  }

  uint64_t generation = 0;
  std::vector<UniqueFd> fds;
  RawMap maps[5];
};

}  // namespace npu::test

// One prepared oneDNN primitive: its arguments are laid out at creation, so an execution only swaps
// pointers. The library's headers stay in the *_onednn.cpp files; here its handles are opaque.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "shm/base/error.hpp"

struct dnnl_engine;
struct dnnl_stream;
struct dnnl_primitive_desc;

namespace npu::model {

class Profile;

/// The CPU engine and the in-order stream that all primitives of a network run on.
class Context {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Context>> create();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] dnnl_engine* engine() const noexcept;
  [[nodiscard]] dnnl_stream* stream() const noexcept;

  /// Times every execution from now on; null ends it.
  void set_profile(Profile* profile) noexcept { profile_ = profile; }
  [[nodiscard]] Profile* profile() const noexcept { return profile_; }

 private:
  struct Handles;
  explicit Context(std::unique_ptr<Handles> handles);
  std::unique_ptr<Handles> handles_;
  Profile* profile_ = nullptr;
};

/// A weights layout as oneDNN describes it (a memory descriptor, by value).
class Layout {
 public:
  Layout() = default;
  explicit Layout(std::string bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  /// Padded sizes, blocks and strides as text: equal for equal layouts, in every process.
  [[nodiscard]] std::string signature() const;
  /// Compares what the descriptors mean; their unused bytes may differ.
  friend bool operator==(const Layout& a, const Layout& b) noexcept;

 private:
  std::string bytes_;
};

/// An executable primitive. Thread: one execution at a time. Cost: no allocation once created.
class Primitive {
 public:
  /// Prepares `desc` for the arguments `args` (DNNL_ARG_*), passed to `execute` in the same order.
  [[nodiscard]] static Result<std::unique_ptr<Primitive>> create(std::shared_ptr<Context> context,
                                                                 const dnnl_primitive_desc* desc,
                                                                 std::initializer_list<int> args);
  /// Copies between two layouts of one tensor.
  [[nodiscard]] static Result<std::unique_ptr<Primitive>> reorder(std::shared_ptr<Context> context,
                                                                  const Layout& from,
                                                                  const Layout& to);
  ~Primitive();
  Primitive(const Primitive&) = delete;
  Primitive& operator=(const Primitive&) = delete;

  /// Runs to completion. `data` in the order of `args`; `scratch` holds scratch_bytes(), 64-byte
  /// aligned.
  void execute(std::initializer_list<const void*> data, std::byte* scratch);

  [[nodiscard]] uint64_t scratch_bytes() const noexcept;
  /// oneDNN's name of the chosen implementation, e.g. "jit:avx512_core".
  [[nodiscard]] std::string_view implementation() const noexcept;

 private:
  struct State;
  explicit Primitive(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Bytes of a tensor in `layout`, padding included.
[[nodiscard]] uint64_t layout_bytes(const Layout& layout) noexcept;

}  // namespace npu::model

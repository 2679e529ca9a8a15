// Plain copies of a network's state, made beside its computing: with primitives of their own, from
// memory that the caller names. Where each entry lies in the flat memory is known here alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "model/network.hpp"

namespace npu::model {

/// Thread: one call at a time, on any thread, also while the network computes, as long as nobody
/// writes the memory that is read. Calls set the caller's OpenMP thread count to one. Movable, not
/// copyable; independent of the network once created.
class StateExporter {
 public:
  enum class Use : uint8_t {
    kCopies,  // all of it
    kPlaces,  // owned() and buffer() only
  };
  /// Errors: internal (oneDNN). Cost: up to a second of a deep network's JIT for copies.
  [[nodiscard]] static Result<StateExporter> create(const Network& network, Use use = Use::kCopies);

  StateExporter(StateExporter&&) noexcept;
  StateExporter& operator=(StateExporter&&) noexcept;
  ~StateExporter();

  /// Parameter entry i in file order; `flat` is ordered as Network::parameters_flat(): that, the
  /// momentum, or a copy of either. `out` has exactly `count` elements.
  void parameter(size_t i, std::span<const float> flat, std::span<float> out);

  /// What parameter entry i owns of such memory, in the layout that is computed with.
  [[nodiscard]] std::span<const float> owned(size_t i, std::span<const float> flat) const;

  /// Values of entry i of kind kBuffer; `buffers` is ordered as Network::bn_buffers().
  [[nodiscard]] std::span<const float> buffer(size_t i, std::span<const float> buffers) const;

 private:
  struct Impl;
  explicit StateExporter(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace npu::model

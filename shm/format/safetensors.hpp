// The safetensors container: a strict reader for untrusted files and a deterministic writer plan.
// It knows headers and byte ranges only; the payload (NaN included) is never interpreted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/dtype.hpp"
#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"

namespace npu {

/// Element types a file may carry. BOOL is read only: nothing in this project computes on it.
enum class FileDType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool
};

/// "F32", "BF16", "BOOL", ...: the spelling inside a header.
[[nodiscard]] std::string_view file_dtype_name(FileDType dtype) noexcept;
[[nodiscard]] std::optional<FileDType> parse_file_dtype(std::string_view name) noexcept;
[[nodiscard]] size_t file_dtype_size(FileDType dtype) noexcept;
/// Nothing for BOOL.
[[nodiscard]] std::optional<DType> to_dtype(FileDType dtype) noexcept;
[[nodiscard]] FileDType to_file_dtype(DType dtype) noexcept;

using TensorShape = std::vector<uint64_t>;  // empty = a scalar; a 0 = no elements

/// "[64, 3, 7, 7]"
[[nodiscard]] std::string shape_text(std::span<const uint64_t> shape);

/// The header limit of the reference implementation; `kMaxTensorRank` is ours and bounds hostile
/// shapes.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr size_t kMaxTensorRank = 64;

/// elements x width; nothing when the product does not fit 64 bits.
[[nodiscard]] std::optional<uint64_t> tensor_bytes(FileDType dtype,
                                                   std::span<const uint64_t> shape) noexcept;

/// One tensor of a file; [begin, end) is relative to the data buffer behind the header.
struct TensorEntry {
  std::string name;
  FileDType dtype = FileDType::kF32;
  TensorShape shape;
  uint64_t begin = 0;
  uint64_t end = 0;

  [[nodiscard]] uint64_t size_bytes() const noexcept { return end - begin; }
};

using TensorMetadata = std::map<std::string, std::string>;

/// A validated header. Invariants: entries are sorted by `begin` and tile [0, data_bytes) without
/// gap or overlap; names are unique UTF-8; each size is elements x width.
struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;
  TensorMetadata metadata;
  uint64_t data_offset = 0;  // where the buffer starts in the file: 8 + header length
  uint64_t data_bytes = 0;

  /// Nothing for an unknown name. Cost: linear.
  [[nodiscard]] const TensorEntry* find(std::string_view name) const noexcept;
};

/// Length of the JSON header, from the first 8 bytes of a file of `file_bytes`; `where` names it in
/// messages. Errors: data_loss when the prefix, the limit or the file size does not hold.
[[nodiscard]] Result<uint64_t> safetensors_header_bytes(std::span<const std::byte> first8,
                                                        uint64_t file_bytes,
                                                        std::string_view where);

/// Parses the JSON header (without the 8-byte prefix) of a file of `file_bytes` bytes.
/// Errors: data_loss naming `where`, the tensor and the rule: not UTF-8, not an object, duplicate
/// or unknown key, unknown dtype, bad shape, size mismatch, gap, overlap, bytes left over. Cost:
/// linear, no recursion. Source: format section of huggingface/safetensors README.
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors_header(std::string_view json,
                                                                 uint64_t file_bytes,
                                                                 std::string_view where);

/// The same for a whole file in memory; `file` is only read during the call.
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file,
                                                          std::string_view where);

/// An open file with a validated header. Owns its descriptor; the file offset is neither used nor
/// moved. Thread: const methods from any thread.
class SafetensorsFile {
 public:
  /// `name` is used in messages only. Errors: data_loss as parse_safetensors_header; I/O errors as
  /// errno says.
  [[nodiscard]] static Result<SafetensorsFile> open(UniqueFd fd, std::string name);

  [[nodiscard]] const SafetensorsHeader& header() const noexcept { return header_; }
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const noexcept { return header_.tensors; }
  [[nodiscard]] const TensorMetadata& metadata() const noexcept { return header_.metadata; }
  [[nodiscard]] const TensorEntry* find(std::string_view tensor) const noexcept {
    return header_.find(tensor);
  }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// Fills `out` with the raw little-endian bytes of `entry` (one of tensors()).
  /// Errors: invalid_argument when `out` is not entry.size_bytes() long; data_loss when the file
  /// shrank.
  [[nodiscard]] Result<void> read_tensor(const TensorEntry& entry, std::span<std::byte> out) const;

 private:
  SafetensorsFile(UniqueFd fd, std::string name, SafetensorsHeader header)
      : fd_(std::move(fd)), name_(std::move(name)), header_(std::move(header)) {}
  UniqueFd fd_;
  std::string name_;
  SafetensorsHeader header_;
};

/// What a writer wants to store.
struct TensorSpec {
  std::string name;
  FileDType dtype = FileDType::kF32;
  TensorShape shape;
};

/// The bytes before the data, and where each tensor goes. Equal input in any order gives equal
/// bytes.
class SafetensorsPlan {
 public:
  /// Where `tensors[index]` of build()'s argument goes; `offset` is from the start of the file.
  struct Placement {
    size_t index = 0;
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
  };

  /// Order: decreasing width, then name by bytes. The header is padded with spaces so that data
  /// starts at a multiple of 8. Errors: invalid_argument (duplicate, reserved or non-UTF-8 name,
  /// overflow, rank, header too large).
  [[nodiscard]] static Result<SafetensorsPlan> build(std::span<const TensorSpec> tensors,
                                                     const TensorMetadata& metadata = {});

  /// 8-byte prefix, JSON and padding: write it first, then the tensors in order of placements().
  [[nodiscard]] std::span<const std::byte> header() const noexcept { return header_; }
  /// In file order, contiguous.
  [[nodiscard]] const std::vector<Placement>& placements() const noexcept { return placements_; }
  [[nodiscard]] uint64_t file_bytes() const noexcept { return file_bytes_; }

 private:
  std::vector<std::byte> header_;
  std::vector<Placement> placements_;
  uint64_t file_bytes_ = 0;
};

}  // namespace npu

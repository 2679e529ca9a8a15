#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "shm/format/printable.hpp"
#include "shm/format/safetensors.hpp"
#include "shm/format/strict_json.hpp"

namespace npu {
namespace {

// {"__metadata__": {str: str}, name: {"dtype": str, "shape": [u64], "data_offsets": [u64, u64]}}
class HeaderHandler final : public JsonHandler {
 public:
  explicit HeaderHandler(SafetensorsHeader* header) : header_(*header) {}

  bool on_begin_object() override {
    switch (state_) {
      case State::kStart:
        state_ = State::kTop;
        return true;
      case State::kTop:
        return begin_member();
      default:
        return unexpected("an object");
    }
  }

  bool on_end_object() override {
    if (state_ == State::kTensor) return end_tensor();
    state_ = State::kTop;  // from __metadata__, or the end of the text
    return true;
  }

  bool on_begin_array() override {
    if (state_ != State::kTensor || key_ == "dtype") return unexpected("an array");
    state_ = State::kArray;
    return true;
  }

  bool on_end_array() override {
    state_ = State::kTensor;
    return true;
  }

  bool on_key(std::string&& key) override {
    if (state_ == State::kTop) {
      name_ = std::move(key);
      return true;
    }
    if (state_ == State::kTensor && !claim_field(key)) return false;
    key_ = std::move(key);
    return true;
  }

  bool on_string(std::string&& value) override {
    if (state_ == State::kMetadata) {
      if (header_.metadata.emplace(key_, std::move(value)).second) return true;
      return reject(fmt::format("metadata key '{}' appears twice", printable(key_)));
    }
    if (state_ != State::kTensor || key_ != "dtype") return unexpected("a string");
    const auto dtype = parse_file_dtype(value);
    if (!dtype) {
      return reject(fmt::format("tensor '{}': dtype '{}' is not known", printable(name_),
                                printable(value, 20)));
    }
    header_.tensors.back().dtype = *dtype;
    return true;
  }

  bool on_unsigned(uint64_t value) override {
    if (state_ != State::kArray) return unexpected("a number");
    if (key_ == "shape") {
      header_.tensors.back().shape.push_back(value);
      if (header_.tensors.back().shape.size() <= kMaxTensorRank) return true;
      return reject(fmt::format("tensor '{}': rank above {}", printable(name_), kMaxTensorRank));
    }
    if (offset_count_ == 2) return reject_tensor("data_offsets must be two numbers");
    (offset_count_ == 0 ? header_.tensors.back().begin : header_.tensors.back().end) = value;
    ++offset_count_;
    return true;
  }

 private:
  enum class State : uint8_t { kStart, kTop, kMetadata, kTensor, kArray };
  static constexpr unsigned kDtypeSeen = 1, kShapeSeen = 2, kOffsetsSeen = 4;

  bool begin_member() {
    if (name_ == "__metadata__") {
      if (metadata_seen_) return reject("key '__metadata__' appears twice");
      metadata_seen_ = true;
      state_ = State::kMetadata;
      return true;
    }
    header_.tensors.emplace_back().name = name_;
    fields_ = 0;
    offset_count_ = 0;
    state_ = State::kTensor;
    return true;
  }

  bool claim_field(const std::string& key) {
    const unsigned field = key == "dtype"          ? kDtypeSeen
                           : key == "shape"        ? kShapeSeen
                           : key == "data_offsets" ? kOffsetsSeen
                                                   : 0;
    if (field == 0) return reject_tensor(fmt::format("unknown field '{}'", printable(key)));
    if ((fields_ & field) != 0) return reject_tensor(fmt::format("field '{}' appears twice", key));
    fields_ |= field;
    return true;
  }

  bool end_tensor() {
    if (fields_ != (kDtypeSeen | kShapeSeen | kOffsetsSeen)) {
      return reject_tensor("needs dtype, shape and data_offsets");
    }
    if (offset_count_ != 2) return reject_tensor("data_offsets must be two numbers");
    state_ = State::kTop;
    return true;
  }

  bool reject_tensor(const std::string& why) {
    return reject(fmt::format("tensor '{}': {}", printable(name_), why));
  }

  bool unexpected(std::string_view what) {
    return reject(fmt::format("{} is not expected in '{}'", what, printable(name_)));
  }

  SafetensorsHeader& header_;
  State state_ = State::kStart;
  std::string name_;  // current key of the top object
  std::string key_;   // current key below it
  unsigned fields_ = 0;
  unsigned offset_count_ = 0;
  bool metadata_seen_ = false;
};

Result<void> check_unique(const SafetensorsHeader& header, std::string_view where) {
  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const auto& tensor : header.tensors) names.emplace_back(tensor.name);
  std::ranges::sort(names);  // not a hash set: a hostile file could pick colliding names
  const auto twin = std::ranges::adjacent_find(names);
  if (twin == names.end()) return {};
  return fail(Code::kDataLoss, "{}: tensor '{}' appears twice", where, printable(*twin));
}

Result<void> check_sizes(const SafetensorsHeader& header, std::string_view where) {
  for (const auto& tensor : header.tensors) {
    const auto reject = [&](std::string_view why) {
      return fail(Code::kDataLoss, "{}: tensor '{}' [{}, {}): {}", where, printable(tensor.name),
                  tensor.begin, tensor.end, why);
    };
    if (tensor.begin > tensor.end) return reject("begins after its end");
    if (tensor.end > header.data_bytes) {
      return reject(fmt::format("ends beyond the {} data bytes of the file; it was cut or damaged",
                                header.data_bytes));
    }
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!bytes) return reject("its shape does not fit 64 bits");
    if (*bytes != tensor.size_bytes()) {
      return reject(
          fmt::format("shape and dtype {} need {} bytes", file_dtype_name(tensor.dtype), *bytes));
    }
  }
  return {};
}

// Sorted ranges must tile the buffer: what no tensor owns could carry anything, what two own is
// ambiguous.
Result<void> check_tiling(const SafetensorsHeader& header, std::string_view where) {
  uint64_t position = 0;
  for (const auto& tensor : header.tensors) {
    if (tensor.begin != position) {
      return fail(Code::kDataLoss, "{}: tensor '{}' begins at {}, expected {} ({})", where,
                  printable(tensor.name), tensor.begin, position,
                  tensor.begin > position ? "a gap" : "an overlap");
    }
    position = tensor.end;
  }
  if (position != header.data_bytes) {
    return fail(Code::kDataLoss, "{}: {} bytes after the last tensor belong to none", where,
                header.data_bytes - position);
  }
  return {};
}

}  // namespace

Result<uint64_t> safetensors_header_bytes(std::span<const std::byte> first8, uint64_t file_bytes,
                                          std::string_view where) {
  if (first8.size() < 8 || file_bytes < 8) {
    return fail(Code::kDataLoss, "{}: {} bytes are too few for a safetensors file", where,
                file_bytes);
  }
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(first8[i]);
  if (length > kMaxSafetensorsHeaderBytes) {
    return fail(Code::kDataLoss, "{}: header of {} bytes is above the limit of {}", where, length,
                kMaxSafetensorsHeaderBytes);
  }
  if (length > file_bytes - 8) {
    return fail(Code::kDataLoss, "{}: header of {} bytes ends beyond the file of {} bytes", where,
                length, file_bytes);
  }
  if (length < 2) {
    return fail(Code::kDataLoss, "{}: header of {} bytes is too small for a JSON object", where,
                length);
  }
  return length;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t file_bytes,
                                                   std::string_view where) {
  if (file_bytes < 8 || json.size() > file_bytes - 8) {
    return fail(Code::kDataLoss, "{}: header ends beyond the file of {} bytes", where, file_bytes);
  }
  SafetensorsHeader header;
  header.data_offset = 8 + json.size();
  header.data_bytes = file_bytes - header.data_offset;
  HeaderHandler handler(&header);
  NPU_TRY_VOID(read_json(json, 3, handler, where));
  NPU_TRY_VOID(check_unique(header, where));
  NPU_TRY_VOID(check_sizes(header, where));
  std::ranges::sort(header.tensors, {},
                    [](const TensorEntry& tensor) { return std::pair(tensor.begin, tensor.end); });
  NPU_TRY_VOID(check_tiling(header, where));
  return header;
}

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file,
                                            std::string_view where) {
  NPU_TRY(
      const uint64_t length,
      safetensors_header_bytes(file.first(std::min<size_t>(8, file.size())), file.size(), where));
  const std::string_view json(reinterpret_cast<const char*>(file.data()) + 8, length);
  return parse_safetensors_header(json, file.size(), where);
}

Result<SafetensorsFile> SafetensorsFile::open(UniqueFd fd, std::string name) {
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return fail_errno("stat " + name);
  if (!S_ISREG(info.st_mode)) {
    return fail_exit(Code::kInvalidArgument, Exit::kNoInput, "open {}: a regular file is needed",
                     name);
  }
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  std::byte first8[8] = {};
  if (file_bytes >= 8) NPU_TRY_VOID(pread_all(fd.get(), first8, 0, name));
  NPU_TRY(const uint64_t length, safetensors_header_bytes(first8, file_bytes, name));
  std::string json(length, '\0');
  NPU_TRY_VOID(pread_all(fd.get(), std::as_writable_bytes(std::span(json)), 8, name));
  NPU_TRY(SafetensorsHeader header, parse_safetensors_header(json, file_bytes, name));
  return SafetensorsFile(std::move(fd), std::move(name), std::move(header));
}

Result<void> SafetensorsFile::read_tensor(const TensorEntry& entry,
                                          std::span<std::byte> out) const {
  if (out.size() != entry.size_bytes()) {
    return fail(Code::kInvalidArgument, "read tensor '{}' of {}: buffer of {} bytes, needs {}",
                printable(entry.name), name_, out.size(), entry.size_bytes());
  }
  return pread_all(fd_.get(), out, header_.data_offset + entry.begin, name_);
}

}  // namespace npu

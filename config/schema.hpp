// One table drives everything about a configuration file: reading, printing, its documentation.
// A Field binds a key path to a member of a live object, with its type, range, choices and one line
// of doc.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "config/diagnostics.hpp"
#include "config/job.hpp"
#include "config/key_doc.hpp"
#include "config/yaml_tree.hpp"
#include "shm/base/error.hpp"

namespace npu::config {

struct UserQuota;

// Slots whose text form differs from what their C++ type suggests.
struct EnumSlot {
  uint8_t* value;  // the enum's underlying byte; names come from Field::choices, by value
};
struct NameSlot {
  std::string* value;  // [a-z0-9._-]{1,64}, begins with a letter or digit: it becomes a directory
};
struct BytesSlot {
  uint64_t* value;
};
struct DevicesSlot {
  std::vector<int>* value;
};
struct UserQuotasSlot {
  std::vector<UserQuota>* value;
};
struct LossScaleSlot {
  double* value;  // 0 = dynamic
};
struct ResumeSlot {
  ResumeKind* kind;
  std::string* path;
};

using Slot =
    std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::optional<int64_t>*,
                 std::optional<std::string>*, std::vector<int>*, std::vector<double>*,
                 std::vector<std::string>*, std::chrono::milliseconds*, EnumSlot, NameSlot,
                 BytesSlot, DevicesSlot, UserQuotasSlot, LossScaleSlot, ResumeSlot>;

struct Range {
  double min = 0;
  double max = 0;
  bool above_min = false;  // min itself is refused
};

struct Field {
  std::string_view path;  // "train.epochs"; at most one dot
  Slot slot;
  Range range;                                // numbers, sizes, durations (ms)
  std::span<const std::string_view> choices;  // enums and closed sets of text
  std::string_view doc;
  bool hashed = true;  // part of job_hash: two ranks that differ here would not train the same run
  bool reloadable = false;  // of the daemon: SIGHUP puts it into effect
};

/// Where each key was written; keys that kept their default are absent.
struct Places {
  std::map<std::string, Place, std::less<>> written;
  std::set<std::string, std::less<>> refused;  // written, but the value did not pass
};

/// Reads `root` into the fields' slots. Unknown and duplicate keys, wrong types and ranges go to
/// `out`.
void read_fields(const Node& root, std::span<const Field> fields, Places& places, Diagnostics& out);

/// Applies "a.b=v"; `number` counts from 1 and marks the places. A later override of a key wins.
void apply_override(const std::string& text, int number, std::span<const Field> fields,
                    Places& places, Diagnostics& out);

/// Whole file, at most kMaxFileBytes. Errors: not_found (exit 66); too large (exit 78).
[[nodiscard]] Result<std::string> read_config_file(const std::string& path);

/// parse_yaml, read_fields, then the overrides. False if `text` is not YAML: then skip cross-key
/// checks.
[[nodiscard]] bool read_text(std::string_view text, std::span<const std::string> overrides,
                             std::span<const Field> fields, Places& places, Diagnostics& out);

/// The rendered diagnostics as an error with exit 78, or success if there are none.
[[nodiscard]] Result<void> finish(const Diagnostics& out, std::string_view tail);

/// One value into one slot; the slot keeps its value when `value` is refused.
void assign(const Field& field, const Node& value, Diagnostics& out);

/// The slot's present value as YAML that assign() reads back to the same bits.
[[nodiscard]] std::string value_text(const Field& field);

/// "integer 1..100000", "one of: step, cosine", ...
[[nodiscard]] std::string type_text(const Field& field);

/// All fields as block-style YAML, in table order.
[[nodiscard]] std::string print_fields(std::span<const Field> fields);

/// Key, type, default and doc of all fields.
[[nodiscard]] std::vector<KeyDoc> key_docs(std::span<const Field> fields);

/// The same as text, one key a paragraph of three lines.
[[nodiscard]] std::string schema_fields(std::span<const Field> fields);

/// The table bound to `job`; the default of a key is what a fresh Job holds.
[[nodiscard]] std::vector<Field> job_fields(Job& job);

/// Rules that span keys: batch over ranks, nesterov, milestones, required paths.
void check_job(const Job& job, const Places& places, Diagnostics& out);

}  // namespace npu::config

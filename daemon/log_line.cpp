#include "daemon/log_line.hpp"

#include "shm/format/printable.hpp"

namespace npu::daemon {
namespace {

/// Unit separator: a control character, so printable() leaves none in a text.
constexpr char kSeparator = '\x1f';
/// Stands before a value that is a text.
constexpr char kText = '\'';
constexpr size_t kMaxText = 1024;
constexpr size_t kMaxLine = 4096;

struct Piece {
  std::string_view key, value;
  bool text = false;
};

/// Calls use(Piece) for each field behind the words; returns the words.
template <typename F>
std::string_view take_apart(std::string_view packed, F&& use) {
  size_t at = packed.find(kSeparator);
  const std::string_view words = packed.substr(0, at);
  while (at != packed.npos) {
    const size_t next = packed.find(kSeparator, at + 1);
    std::string_view field = packed.substr(at + 1, next == packed.npos ? next : next - at - 1);
    const size_t equals = std::min(field.find('='), field.size());
    Piece piece{field.substr(0, equals), field.substr(std::min(equals + 1, field.size())), false};
    if (!piece.value.empty() && piece.value.front() == kText) {
      piece.text = true;
      piece.value.remove_prefix(1);
    }
    use(piece);
    at = next;
  }
  return words;
}

void append_quoted(std::string& line, std::string_view text) {
  line += '\'';
  for (const char c : text) {
    if (c == '\'') line += '\\';
    line += c;
  }
  line += '\'';
}

}  // namespace

std::string pack_line(std::string_view what, std::span<const LogField> fields) {
  std::string packed = printable(what, kMaxText);
  for (const LogField& field : fields) {
    packed += kSeparator;
    packed += field.key();
    packed += '=';
    if (field.is_text()) packed += kText;
    packed += printable(field.value(), kMaxText);
  }
  return packed;
}

std::string line_text(std::string_view packed) {
  std::string fields;
  const std::string_view words = take_apart(packed, [&fields](const Piece& piece) {
    fields += ' ';
    fields += printable(piece.key);
    fields += '=';
    const std::string value = printable(piece.value, kMaxText);
    if (piece.text) {
      append_quoted(fields, value);
    } else {
      fields += value;
    }
  });
  return printable(words, kMaxLine) + fields;
}

std::vector<std::pair<std::string, std::string>> line_fields(std::string_view packed) {
  std::vector<std::pair<std::string, std::string>> fields;
  (void)take_apart(packed, [&fields](const Piece& piece) {
    std::string name = "NPU_";
    for (const char c : piece.key) {
      name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
    fields.emplace_back(std::move(name), printable(piece.value, kMaxText));
  });
  return fields;
}

}  // namespace npu::daemon

#include "client/record/tfevents.hpp"

#include <bit>
#include <boost/crc.hpp>
#include <cstring>
#include <optional>

namespace npu::client {
namespace {

static_assert(std::endian::native == std::endian::little);

// Fields of Event, Summary, Summary.Value and SessionLog.
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr uint32_t kSummaryValue = 1, kTag = 1, kSimpleValue = 2, kStatus = 1, kStatusStart = 1;
constexpr std::string_view kVersion = "brain.Event:2";
enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

std::string key(uint32_t field, Wire wire) { return varint(field << 3 | wire); }

std::string bytes_field(uint32_t field, std::string_view bytes) {
  return key(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}

std::string body(const TfVersion&) { return bytes_field(kFileVersion, kVersion); }

std::string body(const TfScalar& scalar) {
  const std::string value =
      bytes_field(kTag, scalar.tag) + key(kSimpleValue, kFixed32) + raw(scalar.value);
  return bytes_field(kSummary, bytes_field(kSummaryValue, value));
}

std::string body(const TfSessionStart&) {
  return bytes_field(kSessionLog, key(kStatus, kVarint) + varint(kStatusStart));
}

/// Takes values off the front of untrusted bytes; nothing once they do not suffice.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }

  template <typename T>
  std::optional<T> fixed() {
    const auto bytes = take(sizeof(T));
    if (!bytes) return std::nullopt;
    T value;
    std::memcpy(&value, bytes->data(), sizeof value);
    return value;
  }

  std::optional<std::string_view> take(uint64_t n) {
    if (n > rest_.size()) return std::nullopt;
    const std::string_view bytes = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return bytes;
  }

  std::optional<uint64_t> number() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
      const auto byte = fixed<uint8_t>();
      if (!byte) return std::nullopt;
      value |= static_cast<uint64_t>(*byte & 0x7f) << shift;
      if ((*byte & 0x80) == 0) return value;
    }
    return std::nullopt;
  }

 private:
  std::string_view rest_;
};

/// One field of a message: numbers of either width as bits, or bytes.
struct Field {
  uint64_t id = 0;
  Wire wire = kVarint;
  uint64_t bits = 0;
  std::string_view bytes;

  [[nodiscard]] bool is(uint32_t wanted, Wire type) const { return id == wanted && wire == type; }
};

std::optional<Field> next_field(Reader& reader) {
  const auto head = reader.number();
  if (!head) return std::nullopt;
  Field field{.id = *head >> 3, .wire = static_cast<Wire>(*head & 7), .bits = 0, .bytes = {}};
  std::optional<uint64_t> bits;
  switch (field.wire) {
    case kVarint:
      bits = reader.number();
      break;
    case kFixed64:
      bits = reader.fixed<uint64_t>();
      break;
    case kFixed32:
      bits = reader.fixed<uint32_t>();
      break;
    case kBytes: {
      const auto size = reader.number();
      const auto bytes = size ? reader.take(*size) : std::nullopt;
      if (!bytes) return std::nullopt;
      field.bytes = *bytes;
      bits = 0;
      break;
    }
  }
  if (!bits) return std::nullopt;
  field.bits = *bits;
  return field;
}

/// Calls `visit` for every field; false if the bytes are no message.
template <typename Visit>
bool each_field(std::string_view message, const Visit& visit) {
  Reader reader(message);
  while (!reader.at_end()) {
    const auto field = next_field(reader);
    if (!field || !visit(*field)) return false;
  }
  return true;
}

bool parse_value(std::string_view message, TfScalar& out) {
  return each_field(message, [&](const Field& f) {
    if (f.is(kTag, kBytes)) out.tag = f.bytes;
    if (f.is(kSimpleValue, kFixed32))
      out.value = std::bit_cast<float>(static_cast<uint32_t>(f.bits));
    return true;
  });
}

/// False: not a message. `known` says whether it is one of the three kinds.
bool parse_event(std::string_view message, TfEvent& out, bool& known) {
  known = false;
  return each_field(message, [&](const Field& f) {
    if (f.is(kWallTime, kFixed64)) out.wall_time = std::bit_cast<double>(f.bits);
    if (f.is(kStep, kVarint)) out.step = static_cast<int64_t>(f.bits);
    if (f.is(kFileVersion, kBytes)) {
      out.what = TfVersion{};
      known = f.bytes == kVersion;
    }
    if (f.is(kSessionLog, kBytes)) {
      out.what = TfSessionStart{};
      return each_field(f.bytes, [&](const Field& g) {
        known = known || (g.is(kStatus, kVarint) && g.bits == kStatusStart);
        return true;
      });
    }
    if (!f.is(kSummary, kBytes)) return true;
    return each_field(f.bytes, [&](const Field& g) {
      if (!g.is(kSummaryValue, kBytes)) return true;
      TfScalar scalar;
      known = parse_value(g.bytes, scalar);
      out.what = scalar;
      return known;
    });
  });
}

}  // namespace

uint32_t crc32c(std::string_view bytes) noexcept {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

uint32_t masked_crc32c(std::string_view bytes) noexcept {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

std::string tf_record(std::string_view payload) {
  const std::string length = raw(static_cast<uint64_t>(payload.size()));
  return length + raw(masked_crc32c(length)) + std::string(payload) + raw(masked_crc32c(payload));
}

std::string tf_event_record(const TfEvent& event) {
  std::string payload = key(kWallTime, kFixed64) + raw(event.wall_time);
  // Protobuf leaves out what is zero.
  if (event.step != 0) payload += key(kStep, kVarint) + varint(static_cast<uint64_t>(event.step));
  payload += std::visit([](const auto& what) { return body(what); }, event.what);
  return tf_record(payload);
}

Result<TfEventFile> read_tf_events(std::string_view bytes) {
  TfEventFile file;
  Reader reader(bytes);
  for (size_t record = 0; !reader.at_end(); ++record) {
    const auto length = reader.take(sizeof(uint64_t));
    const auto length_crc = length ? reader.fixed<uint32_t>() : std::nullopt;
    if (length_crc && *length_crc != masked_crc32c(*length)) {
      return fail(Code::kDataLoss, "read event record {}: checksum of its length does not hold",
                  record);
    }
    const auto payload =
        length_crc ? reader.take(*Reader(*length).fixed<uint64_t>()) : std::nullopt;
    const auto crc = payload ? reader.fixed<uint32_t>() : std::nullopt;
    if (!crc) {
      file.cut = true;
      return file;
    }
    TfEvent event;
    bool known = false;
    if (*crc != masked_crc32c(*payload) || !parse_event(*payload, event, known)) {
      return fail(Code::kDataLoss, "read event record {}: {} bytes that are no event", record,
                  payload->size());
    }
    if (known) file.events.push_back(std::move(event));
  }
  return file;
}

}  // namespace npu::client

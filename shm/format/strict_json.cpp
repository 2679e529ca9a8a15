#include "shm/format/strict_json.hpp"

#include <nlohmann/json.hpp>

#include "shm/format/printable.hpp"

namespace npu {
namespace {

using Json = nlohmann::json;

// Adapts the parser's events; nlohmann's strict mode already checks UTF-8 inside strings.
class SaxAdapter final : public nlohmann::json_sax<Json> {
 public:
  SaxAdapter(JsonHandler& handler, int max_depth) : handler_(handler), max_depth_(max_depth) {}

  bool null() override { return handler_.reject("null is not expected anywhere"); }
  bool boolean(bool) override { return handler_.reject("a boolean is not expected anywhere"); }
  bool number_integer(number_integer_t value) override {
    return handler_.reject(fmt::format("{} is negative", value));
  }
  bool number_unsigned(number_unsigned_t value) override { return handler_.on_unsigned(value); }
  bool number_float(number_float_t, const string_t& text) override {
    return handler_.reject(
        fmt::format("{} is not an unsigned 64-bit integer", printable(text, 40)));
  }
  bool string(string_t& value) override { return handler_.on_string(std::move(value)); }
  bool binary(binary_t&) override { return handler_.reject("binary data is not expected"); }
  bool key(string_t& value) override { return handler_.on_key(std::move(value)); }
  bool start_object(size_t) override { return enter() && handler_.on_begin_object(); }
  bool end_object() override { return leave() && handler_.on_end_object(); }
  bool start_array(size_t) override { return enter() && handler_.on_begin_array(); }
  bool end_array() override { return leave() && handler_.on_end_array(); }
  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    const bool utf8 = std::string_view(error.what()).find("UTF-8") != std::string_view::npos;
    return handler_.reject(
        fmt::format("{} near byte {}", utf8 ? "not valid UTF-8" : "not valid JSON", position));
  }

 private:
  bool enter() {
    if (++depth_ <= max_depth_) return true;
    return handler_.reject(fmt::format("nested deeper than {} levels", max_depth_));
  }
  bool leave() {
    --depth_;
    return true;
  }

  JsonHandler& handler_;
  int max_depth_;
  int depth_ = 0;
};

}  // namespace

Result<void> read_json(std::string_view text, int max_depth, JsonHandler& handler,
                       std::string_view where) {
  if (text.empty() || text.front() != '{') {
    return fail(Code::kDataLoss, "{}: the JSON text does not start with '{{'", where);
  }
  // The parser takes a NUL for the end of its input and would accept anything behind it.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fail(Code::kDataLoss, "{}: not valid JSON near byte {} (a NUL byte)", where, nul);
  }
  try {
    SaxAdapter adapter(handler, max_depth);
    if (!Json::sax_parse(text.begin(), text.end(), &adapter)) {
      return fail(Code::kDataLoss, "{}: {}", where, handler.problem());
    }
  } catch (const std::exception& error) {
    return fail(Code::kDataLoss, "{}: not valid JSON ({})", where, printable(error.what()));
  }
  return {};
}

Result<std::string> json_quote(std::string_view text) {
  try {
    return Json(text).dump();
  } catch (const std::exception&) {
    return fail(Code::kInvalidArgument, "write '{}' as JSON: the name is not valid UTF-8",
                printable(text));
  }
}

}  // namespace npu

#include "client/frontend/rank_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/diagnostics.hpp"
#include "shm/base/fd.hpp"

namespace npu::frontend {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxBytes = 1 << 20;
constexpr size_t kMaxServerId = 63, kMaxDevices = 8;

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  Result<RankTable> read(std::string_view text) {
    // Refuses what a tree would hide: of two equal keys it keeps the last one.
    std::vector<std::vector<std::string>> keys;
    std::string twice;
    const auto watch = [&](int, json::parse_event_t event, json& value) {
      if (event == json::parse_event_t::object_start) keys.emplace_back();
      if (event == json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
      if (event == json::parse_event_t::key && !keys.empty()) {
        const auto& key = value.get_ref<const std::string&>();
        if (std::ranges::find(keys.back(), key) != keys.back().end()) twice = key;
        keys.back().push_back(key);
      }
      return true;
    };
    const json top = json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
    if (top.is_discarded() || !top.is_object()) return refuse("is not a JSON object");
    if (!twice.empty()) return refuse("has the key {} twice in one object", config::quoted(twice));
    NPU_TRY_VOID(head(top));
    NPU_TRY(const json* const server, only_server(top));
    return devices(*server);
  }

 private:
  template <typename... Args>
  tl::unexpected<Error> refuse(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(Code::kDataLoss, "rank table '{}' {}", name_,
                fmt::format(text, std::forward<Args>(args)...));
  }

  /// The member `key`, which has to be a string.
  Result<std::string> text(const json& object, const char* key, const char* where) const {
    const auto found = object.find(key);
    if (found == object.end()) return refuse("has no {} in {}", key, where);
    if (!found->is_string()) return refuse("has a {} in {} that is no string", key, where);
    return found->get<std::string>();
  }

  Result<int> id(const json& object, const char* key, int limit) const {
    NPU_TRY(const std::string value, text(object, key, "a device"));
    int number = -1;
    const char* const last = value.data() + value.size();
    const auto [end, error] = std::from_chars(value.data(), last, number);
    if (error == std::errc() && end == last && number >= 0 && number < limit) return number;
    return refuse("has {} {} where 0 to {} was expected", key, config::quoted(value), limit - 1);
  }

  Result<void> head(const json& top) const {
    NPU_TRY(const std::string status, text(top, "status", "the table"));
    if (status == "initializing") {
      return refuse("has status initializing: it is still being written; wait for completed");
    }
    if (status != "completed") {
      return refuse("has status {} where completed was expected", config::quoted(status));
    }
    NPU_TRY(const std::string version, text(top, "version", "the table"));
    if (version == "1.0" || version == "1.2") return {};
    return refuse("has version {} where 1.0 or 1.2 was expected", config::quoted(version));
  }

  Result<const json*> only_server(const json& top) const {
    NPU_TRY(const std::string count, text(top, "server_count", "the table"));
    const auto list = top.find("server_list");
    if (list == top.end() || !list->is_array()) return refuse("has no list server_list");
    if (count != fmt::format("{}", list->size())) {
      return refuse("says server_count {} and lists {}", config::quoted(count), list->size());
    }
    if (list->size() != 1) {
      return refuse("lists {} servers; all ranks are on this host, so there is one", list->size());
    }
    const json& server = list->front();
    if (!server.is_object()) return refuse("has a server that is no object");
    NPU_TRY(const std::string id, text(server, "server_id", "a server"));
    if (id.empty() || id.size() > kMaxServerId) {
      return refuse("has a server_id of {} bytes where 1 to {} were expected", id.size(),
                    kMaxServerId);
    }
    // Addresses are for servers that have to find each other.
    for (const char* key : {"host_ip", "host_nic_ip"}) {
      if (server.contains(key)) NPU_TRY_VOID(text(server, key, "a server"));
    }
    return &server;
  }

  Result<RankTable> devices(const json& server) const {
    const auto list = server.find("device");
    if (list == server.end() || !list->is_array()) return refuse("has no list device");
    if (list->empty() || list->size() > kMaxDevices) {
      return refuse("lists {} devices where 1 to {} were expected", list->size(), kMaxDevices);
    }
    const int count = static_cast<int>(list->size());
    std::vector<int> by_rank(list->size(), -1);
    for (const json& device : *list) {
      if (!device.is_object()) return refuse("has a device that is no object");
      NPU_TRY(const int rank, id(device, "rank_id", count));
      NPU_TRY(const int number, id(device, "device_id", static_cast<int>(kMaxDevices)));
      if (device.contains("device_ip")) NPU_TRY_VOID(text(device, "device_ip", "a device"));
      if (by_rank[static_cast<size_t>(rank)] >= 0) return refuse("gives rank_id {} twice", rank);
      if (std::ranges::find(by_rank, number) != by_rank.end()) {
        return refuse("gives device_id {} twice", number);
      }
      by_rank[static_cast<size_t>(rank)] = number;
    }
    for (size_t r = 1; r < by_rank.size(); ++r) {
      if (by_rank[r] > by_rank[r - 1]) continue;
      return refuse(
          "gives rank {} device {} and rank {} device {}; ranks take devices in ascending "
          "order here",
          r - 1, by_rank[r - 1], r, by_rank[r]);
    }
    return RankTable{std::move(by_rank)};
  }

  const std::string& name_;
};

}  // namespace

Result<RankTable> load_rank_table(const std::string& path) {
  auto text = read_file(path, kMaxBytes);
  if (!text) {
    text.error().message = "rank table: " + text.error().message;
    return tl::make_unexpected(std::move(text.error()));
  }
  return parse_rank_table(*text, path);
}

Result<RankTable> parse_rank_table(std::string_view text, const std::string& name) {
  return Reader(name).read(text);
}

}  // namespace npu::frontend

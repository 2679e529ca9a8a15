#include "config/quotas.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/load.hpp"
#include "config/value_text.hpp"

namespace npu::config {
namespace {

constexpr double kPiB = static_cast<double>(uint64_t{1} << 50);
constexpr std::string_view kSection = "quotas.";

std::string_view key_of(const Field& field) { return field.path.substr(kSection.size()); }

/// The keys of one user.
void read_user(const std::string& prefix, const Node& map, UserQuota& user, Diagnostics& out) {
  Quota scratch;
  const std::vector<Field> fields = quota_fields(scratch);
  for (size_t i = 0; i < map.items.size(); ++i) {
    const Node& key = map.keys[i];
    const auto found = std::ranges::find(fields, std::string_view(key.text), key_of);
    if (key.kind != Node::Kind::kScalar || found == fields.end()) {
      std::vector<std::string_view> names;
      for (const Field& field : fields) names.push_back(key_of(field));
      const std::string_view near = closest(key.text, names);
      out.add(key.place, fmt::format("{}: unknown key {}", prefix, quoted(key.text)),
              near.empty() ? "one of: " + join(names) : fmt::format("did you mean '{}'?", near));
      continue;
    }
    const auto kind = static_cast<size_t>(found - fields.begin());
    if (user.most[kind]) {
      out.add(key.place, fmt::format("{}: duplicate key {}", prefix, quoted(key.text)));
      continue;
    }
    Field field = *found;
    const std::string path = fmt::format("{}.{}", prefix, key.text);
    field.path = path;
    assign(field, map.items[i], out);
    user.most[kind] = scratch.most[kind];
  }
}

}  // namespace

std::vector<Field> quota_fields(Quota& quota) {
  auto& most = quota.most;
  return {
      {"quotas.devices", &most[0], {0, 8}, {}, "devices of one user's runs, 0 = no limit"},
      {"quotas.memory",
       BytesSlot{&most[1]},
       {0, kPiB},
       {},
       "device memory of one user's runs, 0 = no limit"},
      {"quotas.sessions",
       &most[2],
       {0, 256},
       {},
       "connections of one user, 0 = no limit but the daemon's own"},
      {"quotas.staged",
       BytesSlot{&most[3]},
       {0, kPiB},
       {},
       "snapshots of one user that are being written, 0 = no limit"},
      {"quotas.checkpoints",
       BytesSlot{&most[4]},
       {0, kPiB},
       {},
       "one user's checkpoints on disk, one being written included, 0 = no limit"},
      {"quotas.messages_per_second",
       &most[5],
       {0, 1e6},
       {},
       "requests of one user, all connections together, 0 = no limit but each connection's"},
  };
}

void assign_user_quotas(const Field& field, const Node& node, std::vector<UserQuota>& users,
                        Diagnostics& out) {
  const size_t before = out.size();
  std::vector<UserQuota> read;
  if (node.kind != Node::Kind::kMap && node.kind != Node::Kind::kNull) {
    out.add(node.place,
            fmt::format("{}: expected {}, got {}", field.path, type_text(field), describe(node)));
  }
  for (size_t i = 0; i < node.items.size() && node.kind == Node::Kind::kMap; ++i) {
    const Node& key = node.keys[i];
    const Node& value = node.items[i];
    if (key.kind != Node::Kind::kScalar || key.text.empty() || key.text.size() > 256) {
      out.add(key.place, fmt::format("{}: a key must be a user's name or uid", field.path));
      continue;
    }
    const std::string prefix = fmt::format("{}.{}", field.path, quoted(key.text));
    if (std::ranges::find(read, key.text, &UserQuota::user) != read.end()) {
      out.add(key.place, fmt::format("{}: this user is there already", prefix));
      continue;
    }
    if (value.kind != Node::Kind::kMap) {
      out.add(value.place, fmt::format("{}: expected keys such as {{devices: 2}}, got {}", prefix,
                                       describe(value)));
      continue;
    }
    read.push_back({.user = key.text});
    read_user(prefix, value, read.back(), out);
  }
  if (out.size() == before) users = std::move(read);
}

std::string user_quotas_text(const std::vector<UserQuota>& users) {
  Quota scratch;
  const std::vector<Field> fields = quota_fields(scratch);
  std::string text;
  for (const UserQuota& user : users) {
    std::string keys;
    for (size_t kind = 0; kind < kQuotaKinds; ++kind) {
      if (!user.most[kind]) continue;
      scratch.most[kind] = *user.most[kind];
      keys += fmt::format("{}{}: {}", keys.empty() ? "" : ", ", key_of(fields[kind]),
                          value_text(fields[kind]));
    }
    text += fmt::format("{}{}: {{{}}}", text.empty() ? "" : ", ", yaml_scalar(user.user), keys);
  }
  return '{' + text + '}';
}

}  // namespace npu::config

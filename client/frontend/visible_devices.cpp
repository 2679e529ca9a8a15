#include "client/frontend/visible_devices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/diagnostics.hpp"

namespace npu::frontend {
namespace {

constexpr std::string_view kAscend = "ASCEND_RT_VISIBLE_DEVICES", kOurs = "NPU_VISIBLE_DEVICES";
constexpr int kDevices = 8;

std::string known(const VisibleDevices& visible) {
  return visible.ids.empty() ? "no device" : fmt::format("{}", fmt::join(visible.ids, ","));
}

}  // namespace

VisibleDevices parse_visible(std::string_view variable, std::string_view list) {
  VisibleDevices out{.variable = std::string(variable), .ids = {}, .warning = {}};
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view item = list.substr(begin, end - begin);
    const int id = item.size() == 1 ? item[0] - '0' : -1;
    const bool ascends = out.ids.empty() || id > out.ids.back();
    if (id < 0 || id >= kDevices || !ascends) {
      out.warning = fmt::format(
          "environment: {}={} is read up to {}, which is no id of 0 to 7 above the one before it: "
          "{} is visible",
          variable, config::quoted(list), config::quoted(item), known(out));
      return out;
    }
    out.ids.push_back(id);
    begin = end + 1;
  }
  return out;
}

Result<std::optional<VisibleDevices>> visible_devices(const GetEnv& get) {
  const auto text = [&](std::string_view name) {
    const char* value = get(name.data());
    return std::string_view(value != nullptr ? value : "");
  };
  const std::string_view ascend = text(kAscend), ours = text(kOurs);
  if (ascend.empty() && ours.empty()) return std::nullopt;
  if (!ascend.empty() && !ours.empty() && ascend != ours) {
    return fail(Code::kInvalidArgument, "environment: {}={} but {}={}; set one of them", kAscend,
                config::quoted(ascend), kOurs, config::quoted(ours));
  }
  return ascend.empty() ? parse_visible(kOurs, ours) : parse_visible(kAscend, ascend);
}

Result<std::vector<int>> renumber(std::span<const int> devices, const VisibleDevices& visible) {
  std::vector<int> out, missing;
  for (const int device : devices) {
    if (static_cast<size_t>(device) < visible.ids.size()) {
      out.push_back(visible.ids[static_cast<size_t>(device)]);
    } else {
      missing.push_back(device);
    }
  }
  if (missing.empty()) return out;
  const size_t n = visible.ids.size();
  const std::string remedy =
      n == 0 ? "set it to a list such as 0,1"
             : fmt::format("use --set devices=0{}", n == 1 ? "" : fmt::format("-{}", n - 1));
  return fail_exit(Code::kFailedPrecondition, Exit::kBadConfig,
                   "environment: {} leaves {} to see, numbered from 0, but the job wants device {} "
                   "as well; {}, or change the variable",
                   visible.variable, known(visible), fmt::join(missing, ", "), remedy);
}

}  // namespace npu::frontend

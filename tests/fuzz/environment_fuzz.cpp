// Fuzzes what a user's environment may hold: a rank table, a list of visible devices, HCCL_ALGO and
// the numbers of HCCL. Whatever is accepted must keep the promises of its header.
//
// Input: one byte that chooses the parser, then the text.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "client/api/hccl_env.hpp"
#include "client/frontend/rank_table.hpp"
#include "client/frontend/visible_devices.hpp"

namespace {

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "accepted, but %s\n", what);
  std::abort();
}

bool ascending_ids(const std::vector<int>& ids) {
  return std::ranges::all_of(ids, [](int id) { return id >= 0 && id < 8; }) &&
         std::ranges::adjacent_find(ids, std::ranges::greater_equal()) == ids.end();
}

void fuzz_hccl(const char* variable, const std::string& text) {
  const auto get = [&](const char* name) -> const char* {
    return std::string_view(name) == variable ? text.c_str() : nullptr;
  };
  const auto env = npu::client::hccl_environment(get);
  if (!env) return;
  const auto limit = std::chrono::seconds(17340);
  expect(!env->timeout || (env->timeout->count() >= 0 && *env->timeout <= limit), "timeout");
  expect(!env->timeout || env->timeout->count() % 68'000 == 0, "timeout no multiple of 68 s");
  expect(!env->join_timeout || *env->join_timeout >= std::chrono::seconds(120), "join timeout");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: {
      const auto table = npu::frontend::parse_rank_table(text, "t");
      expect(!table || (ascending_ids(table->devices) && !table->devices.empty()), "rank table");
      break;
    }
    case 1:
      expect(ascending_ids(npu::frontend::parse_visible("V", text).ids), "visible devices");
      break;
    case 2:
      fuzz_hccl("HCCL_ALGO", text);
      break;
    default:
      fuzz_hccl(data[0] < 128 ? "HCCL_EXEC_TIMEOUT" : "HCCL_CONNECT_TIMEOUT", text);
  }
  return 0;
}

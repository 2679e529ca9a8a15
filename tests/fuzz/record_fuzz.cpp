// Fuzzes what reads the files of a run folder: CSV tables, and TensorBoard records. The first byte
// chooses: a table, a file of records as it is, or one record whose checksums hold.
#include <cstdlib>

#include "client/record/curves.hpp"
#include "client/record/tfevents.hpp"

namespace npu::client {
namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void table(std::string_view text) {
  const Table table = parse_table(text);
  for (const auto& row : table.rows) check(row.size() == table.columns.size());
  check(curve_of(table, "loss", 7).size() <= 7);
}

}  // namespace
}  // namespace npu::client

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, unsigned long size) {
  using namespace npu::client;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 't') {
    table(rest);
  } else if (data[0] == 'f') {
    (void)read_tf_events(rest);
  } else {
    const auto file = read_tf_events(tf_record(rest));
    check(!file || (file->events.size() <= 1 && !file->cut));
  }
  return 0;
}

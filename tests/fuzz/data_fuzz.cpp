// Fuzzes readers of data sets: IDX files, plain and gzip ('i' images, 'l' labels), the records of
// CIFAR's binary version ('c' ten classes, 'C' a hundred) and its lists of class names ('n'). What is
// accepted must have the sizes and ranges that the header promises.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "client/data/cifar_records.hpp"
#include "client/data/class_table.hpp"
#include "client/data/idx.hpp"

namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "data_fuzz: accepted, but %s\n", what);
  std::abort();
}

void idx(std::span<const uint8_t> bytes, uint32_t rank) {
  static const int file = ::memfd_create("idx", MFD_CLOEXEC);
  if (::ftruncate(file, 0) != 0) return;
  if (::pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return;
  const auto array = npu::data::read_idx("/proc/self/fd/" + std::to_string(file), rank);
  if (!array) return;
  check(array->dims.size() == rank, "it has other dimensions");
  uint64_t size = 1;
  for (const uint32_t n : array->dims) size *= n;
  check(size == array->bytes.size() && size > 0, "it is not as long as its dimensions say");
  check(array->md5.size() == 32, "it has no checksum");
}

void cifar(std::span<const uint8_t> bytes, const npu::data::CifarRecords& layout) {
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  if (!npu::data::append_cifar("f", bytes, layout, pixels, labels)) return;
  check(labels.size() == layout.records && pixels.size() == layout.records * 3072, "records are missing");
  for (const int32_t label : labels) check(label >= 0 && label < layout.classes, "a label is no class");
}

void names(const std::string& text) {
  const auto table = npu::data::parse_class_names("f", text, 10);
  if (!table) return;
  check(table->empty() || table->size() == 10, "classes are missing");
  for (const auto& name : *table) check(!name.empty(), "a name is empty");
  (void)npu::data::class_table_hash(*table);
  auto other = *table;
  std::ranges::reverse(other);
  check(other == *table || !npu::data::class_table_difference(*table, other).empty(),
        "a difference is not told");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  switch (data[0]) {
    case 'i':
      idx(rest, 3);
      break;
    case 'l':
      idx(rest, 1);
      break;
    case 'c':
      cifar(rest, {.label_bytes = 1, .label_at = 0, .classes = 10, .records = rest.size() / 3073});
      break;
    case 'C':
      cifar(rest, {.label_bytes = 2, .label_at = 1, .classes = 100, .records = rest.size() / 3074});
      break;
    default:
      names(std::string(rest.begin(), rest.end()));
  }
  return 0;
}

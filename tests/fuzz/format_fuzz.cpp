// Fuzzes the readers of a checkpoint's files: MANIFEST.json, as it is ('m') and with a digest that
// holds ('M'), so that the parser behind it is reached; safetensors files ('s'); and state.json
// ('t'). What is accepted must keep the promises of its header, and a manifest must be written as it
// was read.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "client/train/train_state.hpp"
#include "shm/format/manifest.hpp"
#include "shm/format/manifest_rules.hpp"
#include "shm/format/safetensors.hpp"

namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "format_fuzz: accepted, but %s\n", what);
  std::abort();
}

void manifest(const std::string& text) {
  const auto parsed = npu::parse_manifest(text, "m");
  if (!parsed) return;
  for (const auto& tensor : parsed->tensors) {
    check(parsed->find_file(tensor.file) != nullptr, "a tensor is in a file that is not listed");
  }
  const auto written = npu::write_manifest(*parsed);
  check(written.has_value(), "it cannot be written");
  const auto again = npu::parse_manifest(*written, "again");
  check(again.has_value() && *again == *parsed, "it is read back as something else");
}

void safetensors(std::string_view bytes) {
  const auto header = npu::parse_safetensors(std::as_bytes(std::span(bytes)), "s");
  if (!header) return;
  uint64_t at = 0;
  for (const auto& tensor : header->tensors) {
    check(tensor.begin == at && tensor.end >= at, "its tensors leave a gap or overlap");
    at = tensor.end;
    uint64_t elements = 1;
    for (const uint64_t n : tensor.shape) elements *= n;
    check(elements == 0 || tensor.size_bytes() % elements == 0, "a tensor is not its shape");
    check(header->find(tensor.name) == &tensor, "a name is there twice");
  }
  check(header->data_offset + at == bytes.size(), "bytes are left over");
}

void state(const std::string& text) {
  const auto parsed = npu::client::state_from_json(text);
  if (!parsed) return;
  const auto& s = parsed->state;
  check(s.next_epoch >= 0 && s.step_in_epoch >= 0 && s.global_step >= 0, "it counts below zero");
  const std::string written = npu::client::state_to_json(s, parsed->identity);
  const auto again = npu::client::state_from_json(written);
  check(again.has_value(), "it is not read back");
  check(npu::client::state_to_json(again->state, again->identity) == written,
        "it is read back as something else");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 's':
      safetensors(text);
      break;
    case 't':
      state(text);
      break;
    case 'M':
      manifest(text + npu::manifest_trailer(text));
      break;
    default:
      manifest(text);
  }
  return 0;
}

#include "client/launch/line_splitter.hpp"

#include <algorithm>

namespace npu::client {

void LineSplitter::feed(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const size_t room = kCap - partial_.size();
    const size_t take = std::min({newline, room, bytes.size()});
    partial_.append(bytes.substr(0, take));
    bytes.remove_prefix(take);
    if (newline == take) {
      bytes.remove_prefix(1);
      if (partial_.ends_with('\r')) partial_.pop_back();
    } else if (partial_.size() < kCap) {
      return;
    }
    on_line(partial_);
    partial_.clear();
  }
}

void LineSplitter::flush(const OnLine& on_line) {
  if (partial_.empty()) return;
  on_line(partial_);
  partial_.clear();
}

}  // namespace npu::client

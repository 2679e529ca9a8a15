// MD5 of a stream of bytes, only to recognise published data sets; it protects nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace npu::data {

/// Thread: one at a time. Where the local crypto policy forbids MD5, the result is empty.
class Md5 {
 public:
  Md5();
  void update(std::span<const uint8_t> bytes);
  /// 32 lower-case hex digits, or "" if MD5 is not available. Call once.
  [[nodiscard]] std::string finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
  bool usable_ = false;
};

}  // namespace npu::data

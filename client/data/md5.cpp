// The only file that includes OpenSSL.
#include "client/data/md5.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace npu::data {

void Md5::Free::operator()(evp_md_ctx_st* context) const noexcept { EVP_MD_CTX_free(context); }

Md5::Md5() : context_(EVP_MD_CTX_new()) {
  usable_ = context_ && EVP_DigestInit_ex(context_.get(), EVP_md5(), nullptr) == 1;
}

void Md5::update(std::span<const uint8_t> bytes) {
  if (usable_) usable_ = EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1;
}

std::string Md5::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (!usable_ || EVP_DigestFinal_ex(context_.get(), digest.data(), &size) != 1) return {};
  usable_ = false;
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace npu::data

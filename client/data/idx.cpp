// zlib's gzip reader passes plain files through unchanged, so both kinds share one path.
#include "client/data/idx.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "client/data/md5.hpp"
#include "shm/base/fd.hpp"

namespace npu::data {
namespace {

constexpr size_t kChunk = size_t{1} << 20;
// Deflate cannot expand by more than this; a header that asks for more than the file can hold is
// truncated without reading it. (zlib manual: 1032:1.)
constexpr uint64_t kMaxExpansion = 1032;

struct CloseGz {
  void operator()(gzFile file) const noexcept { gzclose_r(file); }
};
using GzHandle = std::unique_ptr<gzFile_s, CloseGz>;

std::string_view type_name(unsigned type) {
  switch (type) {
    case 0x08:
      return "unsigned bytes";
    case 0x09:
      return "signed bytes";
    case 0x0B:
      return "16-bit integers";
    case 0x0C:
      return "32-bit integers";
    case 0x0D:
      return "floats";
    case 0x0E:
      return "doubles";
    default:
      return "no IDX type";
  }
}

class Reader {
 public:
  Reader(std::string path, gzFile file, uint64_t file_bytes)
      : path_(std::move(path)), file_(file), file_bytes_(file_bytes) {}

  // Exactly `out.size()` bytes; `what` completes "truncated in ...".
  Result<void> fill(std::span<uint8_t> out, std::string_view what) {
    size_t done = 0;
    while (done < out.size()) {
      const auto want = static_cast<unsigned>(std::min(kChunk, out.size() - done));
      const int got = gzread(file_, out.data() + done, want);
      if (got < 0) return damaged();
      if (got == 0) {
        int code = Z_OK;
        gzerror(file_, &code);
        if (code != Z_OK && code != Z_BUF_ERROR) return damaged();
        return fail(Code::kDataLoss, "read '{}': truncated in {}, {} of {} bytes are there", path_,
                    what, done, out.size());
      }
      md5_.update(out.subspan(done, static_cast<size_t>(got)));
      done += static_cast<size_t>(got);
    }
    return {};
  }

  Result<std::vector<uint32_t>> header(uint32_t rank) {
    std::array<uint8_t, 4> magic{};
    NPU_TRY_VOID(fill(magic, "the magic number"));
    if (magic[0] != 0 || magic[1] != 0 || magic[3] == 0) {
      return fail(Code::kDataLoss,
                  "read '{}': begins with {:02x}{:02x}{:02x}{:02x}, expected the IDX magic {:08x}",
                  path_, magic[0], magic[1], magic[2], magic[3], 0x800u + rank);
    }
    if (magic[2] != 0x08) {
      return fail(Code::kDataLoss,
                  "read '{}': holds {} (type {:02x}), expected unsigned bytes (08)", path_,
                  type_name(magic[2]), magic[2]);
    }
    if (magic[3] != rank) {
      return fail(Code::kDataLoss, "read '{}': has {} dimensions, expected {} ({})", path_,
                  magic[3], rank, rank == 1 ? "labels" : "images");
    }
    std::vector<uint8_t> raw(size_t{4} * rank);
    NPU_TRY_VOID(fill(raw, "the sizes"));
    std::vector<uint32_t> dims(rank);
    for (uint32_t i = 0; i < rank; ++i) {
      for (size_t b = 0; b < 4; ++b) dims[i] = dims[i] << 8 | raw[size_t{4} * i + b];
    }
    return dims;
  }

  Result<std::vector<uint8_t>> body(const std::vector<uint32_t>& dims) {
    NPU_TRY(const uint64_t size, body_size(dims));
    std::vector<uint8_t> bytes;
    while (bytes.size() < size) {  // grows only as far as the file really goes
      const size_t done = bytes.size();
      bytes.resize(std::min<uint64_t>(size, done + std::max(kChunk, done)));
      NPU_TRY_VOID(fill(std::span(bytes).subspan(done), "the data"));
    }
    // One byte more reaches the end of the stream, where gzip's own checksum is compared.
    uint8_t extra = 0;
    const int got = gzread(file_, &extra, 1);
    int code = Z_OK;
    gzerror(file_, &code);
    if (got < 0 || (code != Z_OK && code != Z_BUF_ERROR)) return damaged();
    if (got == 0 && code == Z_BUF_ERROR) {
      return fail(Code::kDataLoss, "read '{}': truncated in the gzip trailer", path_);
    }
    if (got > 0) {
      return fail(Code::kDataLoss, "read '{}': bytes follow the {} that its header announces",
                  path_, size);
    }
    return bytes;
  }

  std::string md5() { return md5_.finish(); }

 private:
  tl::unexpected<Error> damaged() {
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (code == Z_ERRNO) return fail_errno("read '" + path_ + "'");
    return fail(Code::kDataLoss, "read '{}': damaged gzip data ({})", path_, text);
  }

  Result<uint64_t> body_size(const std::vector<uint32_t>& dims) const {
    uint64_t size = 1;
    for (const uint32_t dim : dims) {
      if (dim == 0) return fail(Code::kDataLoss, "read '{}': holds no items", path_);
      // dims are below 2^32 and size stays below the limit of 2^32, so this cannot wrap.
      size *= dim;
      if (size > kMaxIdxBytes) {
        return fail(Code::kDataLoss,
                    "read '{}': its header announces more than the {} bytes accepted", path_,
                    kMaxIdxBytes);
      }
    }
    const uint64_t most = gzdirect(file_) != 0 ? file_bytes_ : file_bytes_ * kMaxExpansion;
    if (size > most) {
      return fail(Code::kDataLoss,
                  "read '{}': truncated, its header announces {} bytes of data and the file has {}",
                  path_, size, file_bytes_);
    }
    return size;
  }

  std::string path_;
  gzFile file_;
  uint64_t file_bytes_;
  Md5 md5_;
};

}  // namespace

Result<IdxArray> read_idx(const std::string& path, uint32_t rank) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("open '" + path + "'");
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("stat '" + path + "'");
  if (!S_ISREG(st.st_mode)) {
    return fail_exit(Code::kInvalidArgument, Exit::kNoInput, "read '{}': not a regular file", path);
  }
  const GzHandle file(gzdopen(fd.get(), "rb"));
  if (!file) {
    return fail(Code::kResourceExhausted, "read '{}': no memory for the decompressor", path);
  }
  (void)fd.release();  // gzclose closes it
  gzbuffer(file.get(), 256 * 1024);
  Reader reader(path, file.get(), static_cast<uint64_t>(st.st_size));
  IdxArray out;
  out.path = path;
  NPU_TRY(out.dims, reader.header(rank));
  NPU_TRY(out.bytes, reader.body(out.dims));
  out.md5 = reader.md5();
  return out;
}

}  // namespace npu::data

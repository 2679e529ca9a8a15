#include "client/cli/ckpt_average.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "shm/format/safetensors.hpp"

namespace npu::cli {
namespace {

const std::string kPrefix = "ema.";

struct Source {
  const SafetensorsFile* file;
  const TensorEntry* entry;
};

Result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) return fail_errno("write the averaged model");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace

Result<UniqueFd> averaged_model(client::CheckpointFiles files) {
  NPU_TRY(const auto model,
          SafetensorsFile::open(std::move(files.model), files.path + "/model.safetensors"));
  NPU_TRY(const auto optimizer,
          SafetensorsFile::open(std::move(files.optimizer), files.path + "/optimizer.safetensors"));
  std::vector<TensorSpec> specs;
  std::vector<Source> sources;
  size_t averaged = 0;
  for (const TensorEntry& entry : model.tensors()) {
    const TensorEntry* const average = optimizer.find(kPrefix + entry.name);
    averaged += average != nullptr ? 1 : 0;
    sources.push_back(average != nullptr ? Source{&optimizer, average} : Source{&model, &entry});
    specs.push_back({entry.name, sources.back().entry->dtype, sources.back().entry->shape});
  }
  if (averaged == 0) {
    return fail(Code::kNotFound,
                "'{}' holds no averaged weights; a job keeps them with train.ema_decay",
                files.path);
  }
  NPU_TRY(const SafetensorsPlan plan, SafetensorsPlan::build(specs, model.metadata()));
  UniqueFd out(::memfd_create("averaged-model", MFD_CLOEXEC));
  if (!out.valid()) return fail_errno("memfd_create");
  NPU_TRY_VOID(write_all(out.get(), plan.header()));
  std::vector<std::byte> bytes;
  for (const SafetensorsPlan::Placement& place : plan.placements()) {
    const Source& source = sources[place.index];
    bytes.resize(place.size_bytes);
    NPU_TRY_VOID(source.file->read_tensor(*source.entry, bytes));
    NPU_TRY_VOID(write_all(out.get(), bytes));
  }
  return out;
}

}  // namespace npu::cli

#include "daemon/checkpoint/stage.hpp"

#include "daemon/checkpoint/dir_io.hpp"
#include "daemon/checkpoint/staged_file.hpp"
#include "daemon/checkpoint/store.hpp"
#include "shm/base/failpoint.hpp"
#include "shm/format/printable.hpp"

namespace npu::daemon {
namespace {

Result<SafetensorsPlan> plan_file(std::span<const SnapshotTensor> tensors,
                                  const TensorMetadata& metadata) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    if (dtype_size(tensor.dtype) == 0) {
      return fail(Code::kInvalidArgument, "snapshot: tensor '{}' has unknown dtype {}",
                  printable(tensor.name), static_cast<unsigned>(tensor.dtype));
    }
    const FileDType dtype = to_file_dtype(tensor.dtype);
    const auto bytes = tensor_bytes(dtype, tensor.shape);
    if (!bytes || *bytes != tensor.source.size()) {
      return fail(Code::kInvalidArgument,
                  "snapshot: tensor '{}' stages {} bytes, its shape and dtype {} need {}",
                  printable(tensor.name), tensor.source.size(), dtype_name(tensor.dtype),
                  bytes ? std::to_string(*bytes) : "more than 64 bits hold");
    }
    specs.push_back({tensor.name, dtype, tensor.shape});
  }
  return SafetensorsPlan::build(specs, metadata);
}

Result<void> write_tensors(StagedFile& file, const SafetensorsPlan& plan,
                           std::span<const SnapshotTensor> tensors) {
  NPU_TRY_VOID(file.append(plan.header()));
  Xxh3 hash(Xxh3::Width::k64);
  for (const auto& placement : plan.placements()) {
    const SnapshotTensor& tensor = tensors[placement.index];
    hash.reset();
    NPU_TRY_VOID(file.append(tensor.source, &hash));
    if (const uint64_t digest = hash.digest64(); digest != tensor.xxh3_64) {
      return fail(Code::kDataLoss,
                  "torn snapshot: tensor '{}' changed while it was written (declared digest {}, "
                  "found {}); leave staged memory alone until the checkpoint is durable",
                  printable(tensor.name), to_hex(tensor.xxh3_64), to_hex(digest));
    }
  }
  return {};
}

// The digests in the manifest are the ones that were just found equal to the declared ones.
void list_tensors(Manifest* manifest, const char* file, const SafetensorsPlan& plan,
                  std::span<const SnapshotTensor> tensors) {
  for (const auto& placement : plan.placements()) {
    const SnapshotTensor& tensor = tensors[placement.index];
    manifest->tensors.push_back({file, tensor.name, tensor.xxh3_64});
  }
}

}  // namespace

Result<StagePlan> plan_snapshot(const Snapshot& snapshot) {
  NPU_TRY_VOID(check_run_name(snapshot.run));
  if (snapshot.keep < 1) {
    return fail(Code::kInvalidArgument, "snapshot: keep is 0, expected at least 1");
  }
  if (snapshot.state_json.size() > kMaxStateJsonBytes) {
    return fail(Code::kInvalidArgument, "snapshot: {} bytes of state, at most {}",
                snapshot.state_json.size(), kMaxStateJsonBytes);
  }
  NPU_TRY(SafetensorsPlan model, plan_file(snapshot.model, snapshot.model_metadata));
  NPU_TRY(SafetensorsPlan optimizer, plan_file(snapshot.optimizer, {}));
  return StagePlan{std::move(model), std::move(optimizer)};
}

Result<Manifest> write_checkpoint(FileOps& ops, int dir, const Snapshot& snapshot,
                                  const StagePlan& plan, uint64_t sequence) {
  const std::string what = fmt::format("run '{}' step {}", snapshot.run, snapshot.step);
  const auto state = std::as_bytes(std::span(snapshot.state_json));
  std::vector<std::byte> bounce(kBounceBytes);
  Manifest manifest{.run = snapshot.run,
                    .step = snapshot.step,
                    .sequence = sequence,
                    .created_unix_ms = ops.unix_ms(),
                    .weights_digest = snapshot.weights_digest};

  // All reservations first: a disk that is too small is found before the first byte is written.
  // Each file gets its turn at the bounce buffer only after the one before it is finished.
  NPU_TRY(StagedFile model,
          StagedFile::create(ops, dir, kModelFile, plan.model.file_bytes(), bounce, what));
  NPU_TRY(StagedFile optimizer,
          StagedFile::create(ops, dir, kOptimizerFile, plan.optimizer.file_bytes(), bounce, what));
  NPU_TRY(StagedFile state_file,
          StagedFile::create(ops, dir, kStateFile, state.size(), bounce, what));
  NPU_FAILPOINT("ckpt.after_fallocate");

  NPU_TRY_VOID(write_tensors(model, plan.model, snapshot.model));
  NPU_TRY(manifest.files.emplace_back(), model.finish());
  NPU_TRY_VOID(write_tensors(optimizer, plan.optimizer, snapshot.optimizer));
  NPU_TRY(manifest.files.emplace_back(), optimizer.finish());
  NPU_TRY_VOID(state_file.append(state));
  NPU_TRY(manifest.files.emplace_back(), state_file.finish());

  list_tensors(&manifest, kModelFile, plan.model, snapshot.model);
  list_tensors(&manifest, kOptimizerFile, plan.optimizer, snapshot.optimizer);
  NPU_TRY(const std::string text, write_manifest(manifest));
  NPU_TRY(StagedFile manifest_file,
          StagedFile::create(ops, dir, kManifestFile, text.size(), bounce, what));
  NPU_TRY_VOID(manifest_file.append(std::as_bytes(std::span(text))));
  NPU_TRY_VOID(manifest_file.finish());
  NPU_TRY_VOID(sync(ops, dir, "the directory of " + what));
  NPU_FAILPOINT("ckpt.after_dir_fsync");
  return manifest;
}

}  // namespace npu::daemon

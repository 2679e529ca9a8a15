#include "model/profile.hpp"

#include <ctime>

namespace npu::model {

std::string_view kernel_kind_name(KernelKind kind) noexcept {
  switch (kind) {
    case KernelKind::kConvForward:
      return "conv fwd";
    case KernelKind::kConvBackwardData:
      return "conv bwd data";
    case KernelKind::kConvBackwardWeights:
      return "conv bwd weights";
    case KernelKind::kReorder:
      return "reorder";
    case KernelKind::kMoments:
      return "moments";
    case KernelKind::kNormalise:
      return "normalise";
    case KernelKind::kBnBackward:
      return "bn_backward";
    case KernelKind::kJoin:
      return "join";
    case KernelKind::kReduce:
      return "reduce";
    case KernelKind::kAdd:
      return "add";
    case KernelKind::kConvert:
      return "convert";
    case KernelKind::kPool:
      return "pool";
    case KernelKind::kFc:
      return "fc";
    case KernelKind::kLoss:
      return "loss";
    case KernelKind::kSgd:
      return "sgd";
    case KernelKind::kOther:
      return "other";
  }
  return "unknown";
}

void Profile::name(const void* key, std::string layer) { names_[key] = std::move(layer); }

int64_t Profile::now_ns() const noexcept {
  timespec t{};
  ::clock_gettime(clock_ == Clock::kThread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void Profile::add(const void* key, const KernelWork& work, int64_t ns) {
  std::vector<size_t>& index = rows_of_[key];
  index.resize(kKernelKinds);
  size_t& at = index[static_cast<size_t>(work.kind)];
  if (at == 0) {
    const auto named = names_.find(key);
    rows_.push_back(
        {.layer = named == names_.end() ? "network" : named->second, .kind = work.kind});
    at = rows_.size();
  }
  ProfileRow& row = rows_[at - 1];
  ++row.calls;
  row.seconds += 1e-9 * static_cast<double>(ns);
  row.flops += work.flops;
  row.bytes += work.bytes;
}

void Profile::clear() {
  rows_.clear();
  rows_of_.clear();
}

void Timed::finish() {
  const int64_t ns = profile_->now_ns() - begin_ns_;
  if (key_ != nullptr) {
    profile_->add(key_, work_, ns);
  } else {
    profile_->add(work_, ns);
  }
}

}  // namespace npu::model

#include "model/state_exporter.hpp"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "model/network_impl.hpp"

namespace npu::model {
namespace {

/// Where an entry lies in the memory of its kind, and how it gets into file order.
struct Place {
  uint64_t offset = 0;  // floats
  uint64_t length = 0;
  std::unique_ptr<Primitive> to_plain;  // null: it lies in file order already
};

/// The layouts that a parameter is kept in and written in; empty for vectors, which have one.
struct Layouts {
  Layout master, plain;
};

Layouts layouts_of(Graph& graph, const Parameter& parameter, size_t index) {
  if (parameter.role == Role::kFcWeight) {
    const Linear& fc = graph.train_fc ? *graph.train_fc : *graph.eval_fc;
    return {fc.master_layout(), fc.plain_layout()};
  }
  Layouts found;
  if (parameter.role != Role::kConvWeight) return found;
  graph.each_unit([&](ConvBn& unit) {
    if (unit.weight_index != index) return;
    const Convolution& conv = unit.train ? *unit.train : *unit.eval;
    found = {conv.master_layout(), conv.plain_layout()};
  });
  return found;
}

}  // namespace

struct StateExporter::Impl {
  std::vector<StateEntry> entries;
  std::vector<Place> places;
  std::vector<std::byte> scratch;

  [[nodiscard]] std::byte* aligned_scratch() noexcept {
    constexpr uintptr_t kLine = 64;
    const auto at = reinterpret_cast<uintptr_t>(scratch.data());
    return scratch.data() + ((at + kLine - 1) / kLine * kLine - at);
  }
};

StateExporter::StateExporter(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
StateExporter::StateExporter(StateExporter&&) noexcept = default;
StateExporter& StateExporter::operator=(StateExporter&&) noexcept = default;
StateExporter::~StateExporter() = default;

Result<StateExporter> StateExporter::create(const Network& network, Use use) {
  Network::Impl& m = *network.impl_;
  // An engine and a stream of its own: the network's belong to the thread that trains.
  NPU_TRY(const std::shared_ptr<Context> context, Context::create());
  auto impl = std::make_unique<Impl>();
  impl->entries = m.entries;
  uint64_t scratch = 0;
  for (size_t i = 0; i < m.entries.size(); ++i) {
    const StateRef& ref = m.entry_refs[i];
    Place place;
    if (m.entries[i].kind == StateKind::kParameter) {
      const Parameter& parameter = m.parameters[ref.parameter];
      place.offset = parameter.offset;
      place.length = parameter.physical;
      const Layouts layouts = layouts_of(m.graph, parameter, ref.parameter);
      if (use == Use::kCopies && layouts.master != layouts.plain) {
        NPU_TRY(place.to_plain, Primitive::reorder(context, layouts.master, layouts.plain));
        scratch = std::max(scratch, place.to_plain->scratch_bytes());
      }
    } else if (m.entries[i].kind == StateKind::kBuffer) {
      place.length = m.entries[i].count;
      place.offset = ref.unit->buffer_offset + (ref.variance ? place.length : 0);
    }
    impl->places.push_back(std::move(place));
  }
  impl->scratch.resize(scratch + 64);
  return StateExporter(std::move(impl));
}

void StateExporter::parameter(size_t i, std::span<const float> flat, std::span<float> out) {
  const std::span<const float> from = owned(i, flat);
  NPU_CHECK(out.size() == impl_->entries[i].count);
  const auto& to_plain = impl_->places[i].to_plain;
  if (!to_plain) {
    std::copy_n(from.data(), out.size(), out.data());
    return;
  }
  omp_set_num_threads(1);
  to_plain->execute({from.data(), out.data()}, impl_->aligned_scratch());
}

std::span<const float> StateExporter::owned(size_t i, std::span<const float> flat) const {
  NPU_CHECK(impl_->entries[i].kind == StateKind::kParameter);
  return flat.subspan(impl_->places[i].offset, impl_->places[i].length);
}

std::span<const float> StateExporter::buffer(size_t i, std::span<const float> buffers) const {
  NPU_CHECK(impl_->entries[i].kind == StateKind::kBuffer);
  return buffers.subspan(impl_->places[i].offset, impl_->places[i].length);
}

}  // namespace npu::model

// npu_stream_*: the ordered queues of a rank, and waiting for them.
#include "client/capi/call.hpp"
#include "client/capi/rank.hpp"

namespace npu::capi {
namespace {

struct StreamPlace {
  std::shared_ptr<Rank> rank;  // null: the rank is gone, and with it all that was enqueued
  uint8_t id = 0;
};

/// The default stream without a communicator means something only if there is one rank.
Result<StreamPlace> only_default(const char* what) {
  StreamPlace place;
  for (const auto& comm : comms().all()) {
    if (place.rank != nullptr && place.rank != comm->rank) {
      return fail(Code::kFailedPrecondition,
                  "{}: the stream is null, but this process has several ranks; pass what "
                  "npu_comm_default_stream gives",
                  what);
    }
    place.rank = comm->rank;
  }
  return place;
}

Result<StreamPlace> place_of(npu_stream_t handle, const char* what) {
  if (handle == nullptr) return only_default(what);
  const auto stream = streams().find(reinterpret_cast<uintptr_t>(handle));
  if (stream != nullptr) return StreamPlace{stream->rank.lock(), stream->id};
  return fail(Code::kInvalidArgument,
              "{}: {} is no stream: it was destroyed, or did not come from npu_stream_create", what,
              static_cast<const void*>(handle));
}

Result<void> synchronize(const char* what, npu_stream_t handle, Deadline deadline) {
  NPU_TRY(const StreamPlace place, place_of(handle, what));
  if (place.rank == nullptr) return {};
  Outstanding& outstanding = place.rank->outstanding();
  if (!outstanding.finish_stream(place.id, deadline)) {
    return fail(Code::kDeadlineExceeded,
                "{}: stream {} of rank {} is not finished; call again, or let the operations' own "
                "deadline decide",
                what, place.id, place.rank->device().rank());
  }
  if (auto error = outstanding.take_stream_error(place.id))
    return tl::unexpected(std::move(*error));
  return {};
}

Result<void> destroy(npu_stream_t handle) {
  NPU_TRY(const StreamPlace place, place_of(handle, "npu_stream_destroy"));
  if (handle == nullptr || (place.rank != nullptr && place.id == 0)) {
    return fail(Code::kInvalidArgument,
                "npu_stream_destroy: the default stream lasts as long as its rank");
  }
  if (streams().remove(reinterpret_cast<uintptr_t>(handle)) == nullptr) {
    return fail(Code::kInvalidArgument,
                "npu_stream_destroy: another thread is destroying the same stream");
  }
  if (place.rank == nullptr) return {};
  Outstanding& outstanding = place.rank->outstanding();
  (void)outstanding.finish_stream(place.id, Deadline::never());
  auto error = outstanding.take_stream_error(place.id);
  place.rank->device().destroy_stream({place.id});
  if (error) return tl::unexpected(std::move(*error));
  return {};
}

Result<npu_stream_t> create(npu_comm_t handle) {
  NPU_TRY(const auto comm, find_comm(handle, "npu_stream_create"));
  NPU_TRY(const client::Stream stream, comm->rank->device().create_stream());
  return to_handle({comm->rank, stream.id});
}

}  // namespace
}  // namespace npu::capi

using namespace npu;  // the functions below have C names

npu_result_t npu_stream_create(npu_comm_t comm, npu_stream_t* stream) {
  return capi::call("npu_stream_create", [&]() -> Result<void> {
    if (stream == nullptr) return capi::null_pointer("npu_stream_create", "where the handle goes");
    *stream = nullptr;
    NPU_TRY(*stream, capi::create(comm));
    return {};
  });
}

npu_result_t npu_stream_destroy(npu_stream_t stream) {
  return capi::call("npu_stream_destroy", [&] { return capi::destroy(stream); });
}

npu_result_t npu_comm_default_stream(npu_comm_t comm, npu_stream_t* stream) {
  constexpr const char* kWhat = "npu_comm_default_stream";
  return capi::call(kWhat, [&]() -> Result<void> {
    if (stream == nullptr) return capi::null_pointer(kWhat, "where the handle goes");
    *stream = nullptr;
    NPU_TRY(const auto found, capi::find_comm(comm, kWhat));
    *stream = found->rank->default_stream();
    return {};
  });
}

npu_result_t npu_stream_synchronize(npu_stream_t stream) {
  return capi::call("npu_stream_synchronize", [&] {
    return capi::synchronize("npu_stream_synchronize", stream, Deadline::never());
  });
}

npu_result_t npu_stream_synchronize_timeout(npu_stream_t stream, uint32_t timeout_ms) {
  constexpr const char* kWhat = "npu_stream_synchronize_timeout";
  return capi::call(kWhat, [&] {
    return capi::synchronize(kWhat, stream, Deadline::after(milliseconds(timeout_ms)));
  });
}

npu_result_t npu_stream_query(npu_stream_t stream, int* done) {
  return capi::call("npu_stream_query", [&]() -> Result<void> {
    if (done == nullptr) return capi::null_pointer("npu_stream_query", "where the answer goes");
    *done = 0;
    NPU_TRY(const capi::StreamPlace place, capi::place_of(stream, "npu_stream_query"));
    *done = place.rank == nullptr || place.rank->outstanding().reap(place.id) ? 1 : 0;
    return {};
  });
}

// npu_comm_*: joining a run, splitting, leaving, and what can be asked.
#include <sys/random.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "client/api/admin.hpp"
#include "client/api/rank_place.hpp"
#include "client/capi/call.hpp"
#include "client/capi/rank.hpp"

namespace npu::capi {
namespace {

const char* environment(const char* name) { return std::getenv(name); }

Result<npu_comm_t> join(const InitArguments& arguments) {
  NPU_TRY(Settings settings, make_settings(arguments, environment));
  NPU_TRY(settings.attach.socket, client::find_daemon(settings.attach.socket));
  NPU_TRY(auto device, client::Device::attach(settings.attach));
  auto comm = std::make_shared<Comm>();
  comm->rank = std::make_shared<Rank>(std::move(device), settings.collective);
  comm->communicator = &comm->rank->device().world();
  comm->name = settings.attach.run;
  comm->rank->opened();
  Rank::name_default_stream(comm->rank);
  return to_handle(std::move(comm));
}

Result<npu_comm_t> split(const Comm& parent, int32_t color, int32_t key) {
  Rank& rank = *parent.rank;
  rank.make_room_to_block();
  NPU_TRY(auto made, parent.communicator->split(color, key, rank.options()));
  if (made == nullptr) return npu_comm_t{nullptr};
  auto comm = std::make_shared<Comm>();
  comm->rank = parent.rank;
  comm->owned = std::move(made);
  comm->communicator = comm->owned.get();
  comm->name = parent.name.substr(0, parent.name.find('/')) + fmt::format("/{}", comm->id());
  rank.opened();
  return to_handle(std::move(comm));
}

/// All steps are taken; the first error is returned.
Result<void> destroy(Comm& comm) {
  Rank& rank = *comm.rank;
  rank.close(comm);
  rank.outstanding().finish_communicator(comm.id());
  std::optional<Error> first = rank.outstanding().communicator_error(comm.id(), true);
  const auto keep = [&first](const Result<void>& done) {
    if (!done && !first) first = done.error();
  };
  if (comm.owned != nullptr) {
    rank.make_room_to_block();
    keep(comm.communicator->destroy(rank.options()));
  }
  // Asked before the daemon is told: what ended the run may be on its way here.
  if (auto failure = comm.communicator->failure(); failure && !first) first = std::move(failure);
  keep(rank.closed());
  if (first) return tl::unexpected(std::move(*first));
  return {};
}

Result<void> make_unique_id(npu_unique_id_t& id) {
  std::array<unsigned char, 16> bytes{};
  // Up to 256 bytes arrive whole or not at all.
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail_errno("npu_get_unique_id: getrandom");
  std::memset(id.name, 0, sizeof(id.name));
  char* at = fmt::format_to(id.name, "id-");
  for (const unsigned char byte : bytes) at = fmt::format_to(at, "{:02x}", byte);
  return {};
}

Result<void> copy_name(const Comm& comm, char* name, size_t bytes) {
  if (bytes <= comm.name.size()) {
    return fail(Code::kInvalidArgument,
                "npu_comm_name: '{}' and its terminator take {} bytes, {} were passed; "
                "NPU_COMM_NAME_BYTES are always enough",
                comm.name, comm.name.size() + 1, bytes);
  }
  std::memcpy(name, comm.name.c_str(), comm.name.size() + 1);
  return {};
}

npu_result_t async_error(Comm& comm) {
  Outstanding& outstanding = comm.rank->outstanding();
  for (uint8_t stream = 0; stream < shm::kMaxStreams; ++stream) (void)outstanding.reap(stream);
  auto error = comm.communicator->failure();
  if (!error) error = outstanding.communicator_error(comm.id(), false);
  return error ? report(*error) : NPU_SUCCESS;
}

/// For the calls that need a communicator and one more pointer.
template <typename Body>
npu_result_t ask(const char* what, npu_comm_t handle, const void* out, Body&& body) noexcept {
  return call(what, [&]() -> Result<void> {
    if (out == nullptr) return null_pointer(what, "where the answer goes");
    NPU_TRY(const auto comm, find_comm(handle, what));
    return body(*comm);
  });
}

}  // namespace
}  // namespace npu::capi

using namespace npu;  // the functions below have C names

npu_result_t npu_get_unique_id(npu_unique_id_t* id) {
  return capi::call("npu_get_unique_id", [&]() -> Result<void> {
    if (id == nullptr) return capi::null_pointer("npu_get_unique_id", "the id");
    return capi::make_unique_id(*id);
  });
}

npu_result_t npu_comm_init_rank(npu_comm_t* comm, uint32_t nranks, const char* run_name,
                                uint32_t rank, const npu_config_t* config) {
  return capi::call("npu_comm_init_rank", [&]() -> Result<void> {
    if (comm == nullptr) return capi::null_pointer("npu_comm_init_rank", "where the handle goes");
    *comm = nullptr;
    NPU_TRY(*comm, capi::join({nranks, rank, run_name, config}));
    return {};
  });
}

npu_result_t npu_comm_init_env(npu_comm_t* comm, const char* run_name, const npu_config_t* config) {
  return capi::call("npu_comm_init_env", [&]() -> Result<void> {
    if (comm == nullptr) return capi::null_pointer("npu_comm_init_env", "where the handle goes");
    *comm = nullptr;
    NPU_TRY(const auto place, client::rank_from_environment(capi::environment));
    if (!place) return {};
    npu_config_t with_device = NPU_CONFIG_INIT;
    // A configuration of another size is refused by join, unread.
    const bool readable = config == nullptr || config->size == sizeof with_device;
    if (place->device && readable) {
      if (config != nullptr) with_device = *config;
      if (with_device.device == NPU_CONFIG_DEFAULT) with_device.device = *place->device;
      config = &with_device;
    }
    NPU_TRY(*comm, capi::join({static_cast<uint32_t>(place->world),
                               static_cast<uint32_t>(place->rank), run_name, config}));
    return {};
  });
}

npu_result_t npu_comm_split(npu_comm_t comm, int32_t color, int32_t key, npu_comm_t* out) {
  if (out != nullptr) *out = nullptr;
  return capi::ask("npu_comm_split", comm, out, [&](capi::Comm& parent) -> Result<void> {
    NPU_TRY(*out, capi::split(parent, color, key));
    return {};
  });
}

npu_result_t npu_comm_destroy(npu_comm_t comm) {
  return capi::call("npu_comm_destroy", [&]() -> Result<void> {
    const auto removed = capi::comms().remove(reinterpret_cast<uintptr_t>(comm));
    if (removed != nullptr) return capi::destroy(*removed);
    NPU_TRY_VOID(capi::find_comm(comm, "npu_comm_destroy"));
    return {};
  });
}

npu_result_t npu_comm_rank(npu_comm_t comm, uint32_t* rank) {
  return capi::ask("npu_comm_rank", comm, rank, [&](capi::Comm& c) -> Result<void> {
    *rank = c.communicator->rank();
    return {};
  });
}

npu_result_t npu_comm_size(npu_comm_t comm, uint32_t* size) {
  return capi::ask("npu_comm_size", comm, size, [&](capi::Comm& c) -> Result<void> {
    *size = c.communicator->size();
    return {};
  });
}

npu_result_t npu_comm_name(npu_comm_t comm, char* name, size_t bytes) {
  return capi::ask("npu_comm_name", comm, name,
                   [&](capi::Comm& c) { return capi::copy_name(c, name, bytes); });
}

npu_result_t npu_comm_async_error(npu_comm_t comm, npu_result_t* error) {
  return capi::ask("npu_comm_async_error", comm, error, [&](capi::Comm& c) -> Result<void> {
    *error = capi::async_error(c);
    return {};
  });
}

npu_result_t npu_comm_suspend(npu_comm_t comm) {
  return capi::call("npu_comm_suspend", [&]() -> Result<void> {
    NPU_TRY(const auto found, capi::find_comm(comm, "npu_comm_suspend"));
    found->communicator->suspend();
    return {};
  });
}

npu_result_t npu_comm_resume(npu_comm_t comm) {
  return capi::call("npu_comm_resume", [&]() -> Result<void> {
    NPU_TRY(const auto found, capi::find_comm(comm, "npu_comm_resume"));
    found->communicator->resume();
    return {};
  });
}

npu_result_t npu_comm_staged_copies(npu_comm_t comm, uint64_t* copies) {
  return capi::ask("npu_comm_staged_copies", comm, copies, [&](capi::Comm& c) -> Result<void> {
    *copies = c.rank->device().staged_copies();
    return {};
  });
}

npu_result_t npu_mem_alloc(npu_comm_t comm, uint64_t bytes, void** memory) {
  if (memory != nullptr) *memory = nullptr;
  return capi::ask("npu_mem_alloc", comm, memory, [&](capi::Comm& c) -> Result<void> {
    NPU_TRY(*memory, c.rank->memory().allocate(bytes, "npu_mem_alloc"));
    return {};
  });
}

npu_result_t npu_mem_free(npu_comm_t comm, void* memory) {
  return capi::call("npu_mem_free", [&]() -> Result<void> {
    NPU_TRY(const auto found, capi::find_comm(comm, "npu_mem_free"));
    if (memory == nullptr || found->rank->memory().release(memory)) return {};
    return fail(Code::kInvalidArgument,
                "npu_mem_free: {} was not allocated by rank {} of run '{}', or was freed before",
                memory, found->rank->device().rank(), found->name);
  });
}

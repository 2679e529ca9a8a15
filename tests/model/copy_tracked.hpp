// The daemon's copy of an entry, field by field: bytes of Tracked fields must not be copied. Read
// before shm/submit_daemon.cpp, whose template it precedes.
#pragma once

#include <cstring>

#include "shm/submit_data.hpp"

namespace npu::shm {

inline void copy_once(Descriptor& to, const Descriptor& from) noexcept {
  to.generation = from.generation;
  to.count = from.count;
  to.send_offset = from.send_offset;
  to.recv_offset = from.recv_offset;
  to.scale = from.scale;
  to.communicator = from.communicator;
  to.timeout_ms = from.timeout_ms;
  to.root = from.root;
  to.flags = from.flags;
  to.op = from.op;
  to.dtype = from.dtype;
  to.reduce_op = from.reduce_op;
  to.algorithm = from.algorithm;
  to.stream = from.stream;
  std::memcpy(to.inline_payload, from.inline_payload, kInlineBytes);
}

inline void copy_once(VectorArgs& to, const VectorArgs& from) noexcept { to = from; }

}  // namespace npu::shm

#include "daemon/control/limits.hpp"

namespace npu::daemon {

Result<void> admit(int64_t uid, const House& house) {
  if (house.most_of_uid != 0 && house.of_uid >= house.most_of_uid) {
    return fail_exit(
        Code::kResourceExhausted, Exit::kBusy,
        "connect: 1 more is wanted, uid {} has {} connections, the limit of one user is {} "
        "(quotas.sessions of npud); close some",
        uid, house.of_uid, house.most_of_uid);
  }
  if (house.half_open_of_uid >= kMaxHalfOpenOfUid) {
    return fail_exit(
        Code::kResourceExhausted, Exit::kBusy,
        "connect: uid {} has {} connections that said nothing yet, the limit is {}; try again", uid,
        house.half_open_of_uid, kMaxHalfOpenOfUid);
  }
  const size_t most = house.admin ? kMaxSessions + kReservedSessions : kMaxSessions;
  if (house.sessions >= most) {
    return fail_exit(Code::kResourceExhausted, Exit::kBusy,
                     "connect: the daemon has {} connections, the limit is {}; try again later",
                     house.sessions, most);
  }
  // An admin may use half of what is kept back.
  const int spare = house.admin ? kSpareFds / 2 : kSpareFds;
  if (house.fd >= house.fd_limit - spare) {
    return fail_exit(Code::kResourceExhausted, Exit::kBusy,
                     "connect: the daemon uses {} of its {} descriptors and keeps {} for those who "
                     "are connected; try again later, or raise LimitNOFILE",
                     house.fd, house.fd_limit, spare);
  }
  return {};
}

}  // namespace npu::daemon

// Every form of a failpoint, compiled as in a release: cmake/no_failpoints.sh must find no name in
// the object.
#include <cerrno>

#include "shm/base/failpoint.hpp"

namespace npu {

int pass_all_forms(int x) {
  NPU_FAILPOINT("absent.plain");
  if (const int e = NPU_FAILPOINT_ERRNO("absent.errno"); e != 0) errno = e;
  if (NPU_FAILPOINT_ASKED("absent.asked", failpoint::Action::kClose)) return -x;
  return x;
}

}  // namespace npu

// A message of every site that has a code of HCCL's, word for word.
#include "client/launch/fault_code.hpp"

#include <gtest/gtest.h>

#include "shm/base/error.hpp"

namespace npu::client {
namespace {

struct Said {
  Code code;
  Exit exit;
  const char* message;
  const char* fault;  // "" = none
  const char* suspect;
};

const Said kSaid[] = {
    {Code::kInvalidArgument, Exit::kUsage,
     "environment: RANK is set but WORLD_SIZE, LOCAL_RANK is not; set all of RANK, WORLD_SIZE, "
     "LOCAL_RANK or none",
     "EI0001", ""},
    {Code::kInvalidArgument, Exit::kBadConfig,
     "environment: HCCL_CONNECT_TIMEOUT='1' where 120 to 7200 seconds was expected", "EI0001", ""},
    {Code::kInvalidArgument, Exit::kBadConfig,
     "NPU_COLL_ALGO='tree': 'tree' is not understood; write ring, direct or auto", "EI0001", ""},
    {Code::kFailedPrecondition, Exit::kBadConfig,
     "environment: ASCEND_RT_VISIBLE_DEVICES leaves 4,5 to see, numbered from 0", "EI0001", ""},
    {Code::kDeadlineExceeded, Exit::kPeerFailed,
     "all-reduce seq 18: rank 3 did not arrive within 60 s (rank 3: pid 11, last submitted seq "
     "17); "
     "ranks 0-2 waited",
     "EI0002", "3"},
    {Code::kAborted, Exit::kPeerFailed, "rank 5 (pid 11186) died before collective seq 18",
     "EI0002", "5"},
    {Code::kInvalidArgument, Exit::kUsage, "all-reduce seq 3 of 8 fp32: rank 1 passed a bad dtype",
     "EI0003", "1"},
    {Code::kInvalidArgument, Exit::kUsage,
     "all_reduce: a buffer of 64 bytes is not inside the device's arena; allocate it there",
     "EI0003", ""},
    {Code::kDataLoss, Exit::kBadData, "rank table 't.json' gives rank_id 0 twice", "EI0004", ""},
    {Code::kNotFound, Exit::kNoInput, "rank table: open '/none': No such file or directory",
     "EI0004", ""},
    {Code::kFailedPrecondition, Exit::kBadConfig,
     "rank table: it lists devices 2,3 but the job has 0,1; use --set devices=2,3", "EI0014", ""},
    {Code::kFailedPrecondition, Exit::kUsage,
     "ranks 0 and 2 differ in count: all-reduce of 8 against all-reduce of 9", "EI0005", "0"},
    {Code::kDeadlineExceeded, Exit::kPeerFailed,
     "join run 'x': rank(s) 2,3 of 4 did not come within 60 s", "EI0006", "2,3"},
    {Code::kResourceExhausted, Exit::kBusy,
     "split: no room for 2 more communicators, 63 of 64 are in use; destroy some first", "EI0007",
     ""},
    {Code::kFailedPrecondition, Exit::kNoDaemon,
     "connect: this client (build 'a') speaks protocol 1.0 layout 00, the daemon (build 'b') "
     "accepts "
     "2.0 layout 01; install the same version of npu and npud",
     "EI0008", ""},
    {Code::kUnavailable, Exit::kNoDaemon,
     "the daemon at '/run/npud.sock' is gone: its connection closed; start it again", "EI0009", ""},
    {Code::kUnavailable, Exit::kNoDaemon, "find a daemon: none answers at '/run/npud.sock'",
     "EI0009", ""},
    {Code::kResourceExhausted, Exit::kBusy,
     "attach device 3: the run wants 3 GiB of device memory, 0 are used, the limit is 1 GiB",
     "EI0011", ""},
    {Code::kFailedPrecondition, Exit::kUsage,
     "join run 'x': rank 1's job (00) is not the others' (01); start all ranks with the same file",
     "EI0014", "1"},
    {Code::kInvalidArgument, Exit::kUsage,
     "environment: MASTER_PORT: '**' stands for a port of your choice; leave it out", "EI0019", ""},
    {Code::kUnavailable, Exit::kBusy,
     "attach device 3: rank 3 (pid 20413) of run 'x' holds it since 14:02; run `npu info`",
     "EJ0001", "3"},
    {Code::kUnavailable, Exit::kBusy, "join run 'x': another launch of it is going on (pid 7)",
     "EJ0001", ""},
    {Code::kDataLoss, Exit::kBadData, "read 'model.safetensors': digest differs", "", ""},
    {Code::kInvalidArgument, Exit::kUsage, "--epochs: 'many' is not a whole number", "", ""},
};

TEST(FaultCode, EverySituationKeepsItsCode) {
  for (const Said& said : kSaid) {
    const FaultCode* sut =
        fault_code(code_name(said.code), static_cast<int>(said.exit), said.message);
    EXPECT_EQ(sut != nullptr ? std::string(sut->code) : "", said.fault) << said.message;
    if (sut != nullptr) {
      EXPECT_FALSE(sut->cause.empty());
      EXPECT_FALSE(sut->remedy.empty());
    }
  }
}

TEST(FaultCode, SuspectIsTheRankThatTheMessageNamesFirst) {
  for (const Said& said : kSaid)
    EXPECT_EQ(suspect_ranks(said.message), said.suspect) << said.message;
  EXPECT_EQ(suspect_ranks("rank"), "");
  EXPECT_EQ(suspect_ranks("rank "), "");
  EXPECT_EQ(suspect_ranks("ranks ,-"), "");
}

TEST(FaultLine, HasCodeCauseSuspectAndRemedy) {
  EXPECT_EQ(fault_line("unavailable", 75, "join run 'x': another launch of it is going on", 4),
            "EJ0001: another process holds the device or the run; suspect: rank 4; remedy: end the "
            "process that the message names, or wait for it");
  EXPECT_EQ(fault_line("internal", 70, "broken", 0), "");
}

}  // namespace
}  // namespace npu::client

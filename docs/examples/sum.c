/* Sums the rank numbers of all ranks, in device memory. */
#include <npu/npu.h>
#include <stdio.h>

static int complain(const char* what) {
  fprintf(stderr, "sum: %s: %s\n", what, npu_last_error());
  return 1;
}

int main(void) {
  npu_comm_t comm;
  if (npu_comm_init_env(&comm, "sum", NULL) != NPU_SUCCESS) return complain("join");
  uint32_t rank = 0, size = 0;
  void* memory = NULL;
  if (npu_comm_rank(comm, &rank) != NPU_SUCCESS || npu_comm_size(comm, &size) != NPU_SUCCESS) return complain("ask");
  if (npu_mem_alloc(comm, sizeof(int32_t), &memory) != NPU_SUCCESS) return complain("allocate");
  int32_t* value = memory;
  *value = (int32_t)rank;
  if (npu_all_reduce(value, value, 1, NPU_INT32, NPU_SUM, comm, NULL) != NPU_SUCCESS) return complain("all-reduce");
  if (npu_stream_synchronize(NULL) != NPU_SUCCESS) return complain("synchronize");
  printf("rank %u of %u: %d\n", (unsigned)rank, (unsigned)size, (int)*value);
  return npu_comm_destroy(comm) == NPU_SUCCESS ? 0 : complain("leave");
}

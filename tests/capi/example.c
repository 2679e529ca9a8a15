/* Every operation of npu.h on eight ranks, with every element checked: as eight processes and as
   eight threads of one process. Usage: capi_example processes|threads SOCKET */
#define _POSIX_C_SOURCE 200809L

#include <npu/npu.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 8, MAX_COUNT = 10007, GUARD = 0x5ca1ab1e };

static const uint64_t counts[] = {1, 7, 11, 1024, MAX_COUNT};

struct rank {
  const char* socket;
  const char* run;
  uint32_t rank, size;
  npu_comm_t comm;
  npu_stream_t stream;
  int32_t* send; /* RANKS * MAX_COUNT elements of device memory each, and room for a guard */
  int32_t* recv;
};

static int complain(const struct rank* me, const char* what, int line, npu_result_t result) {
  fprintf(stderr, "rank %u: line %d: %s: %s: %s\n", (unsigned)me->rank, line, what,
          npu_error_string(result), result == NPU_SUCCESS ? "" : npu_last_error());
  return 1;
}

#define TRY(call)                                                              \
  do {                                                                         \
    const npu_result_t result_ = (call);                                       \
    if (result_ != NPU_SUCCESS) return complain(me, #call, __LINE__, result_); \
  } while (0)

#define EXPECT(condition)                                                     \
  do {                                                                        \
    if (!(condition)) return complain(me, #condition, __LINE__, NPU_SUCCESS); \
  } while (0)

#define RUN(function)              \
  do {                             \
    if ((function) != 0) return 1; \
  } while (0)

static int32_t value(uint32_t rank, uint64_t i) {
  return (int32_t)(rank * 1000003u + (uint32_t)i * 31u);
}

static int32_t sum_at(uint32_t size, uint64_t i) {
  uint32_t sum = 0; /* integers wrap */
  for (uint32_t r = 0; r < size; ++r) sum += (uint32_t)value(r, i);
  return (int32_t)sum;
}

/* Own values in send, -1 in recv, a guard behind its first `received` elements. */
static void prepare(const struct rank* me, uint64_t received) {
  for (uint64_t i = 0; i < (uint64_t)RANKS * MAX_COUNT; ++i) {
    me->send[i] = value(me->rank, i);
    me->recv[i] = -1;
  }
  me->recv[received] = GUARD;
}

static int all_reduce(const struct rank* me, uint64_t n) {
  prepare(me, n);
  TRY(npu_all_reduce(me->send, me->recv, n, NPU_INT32, NPU_SUM, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n; ++i) EXPECT(me->recv[i] == sum_at(me->size, i));
  EXPECT(me->recv[n] == GUARD);
  TRY(npu_all_reduce(me->send, me->send, n, NPU_INT32, NPU_MAX, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n; ++i) EXPECT(me->send[i] == value(me->size - 1, i));
  return 0;
}

static int scaled_sums(const struct rank* me, uint64_t n) {
  float* send = (float*)me->send;
  float* recv = (float*)me->recv;
  const uint64_t all = n * me->size;
  for (uint64_t i = 0; i < all; ++i) send[i] = (float)(me->rank + 1 + i % 5);
    /* (1 + 2 + ... + size) + size * (i % 5), of which a quarter is exact in fp32 */
#define SUM(i) (0.25f * (float)(me->size * (me->size + 1) / 2 + me->size * ((i) % 5)))
  TRY(npu_all_reduce_scaled(send, recv, n, NPU_FLOAT32, 0.25, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n; ++i) EXPECT(recv[i] == SUM(i));
  TRY(npu_reduce_scaled(send, recv, n, NPU_FLOAT32, 0.25, 0, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n; ++i) EXPECT(recv[i] == SUM(i));
  TRY(npu_reduce_scatter_scaled(send, recv, n, NPU_FLOAT32, 0.25, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n; ++i) EXPECT(recv[i] == SUM(me->rank * n + i));
#undef SUM
  return 0;
}

static int rooted(const struct rank* me, uint64_t n, uint32_t root) {
  const int is_root = me->rank == root;
  prepare(me, n);
  TRY(npu_reduce(me->send, is_root ? me->recv : NULL, n, NPU_INT32, NPU_SUM, root, me->comm,
                 me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n; ++i) EXPECT(me->recv[i] == (is_root ? sum_at(me->size, i) : -1));
  prepare(me, n);
  TRY(npu_broadcast(is_root ? me->send : NULL, me->recv, n, NPU_INT32, root, me->comm, me->stream));
  TRY(npu_bcast(me->send, n, NPU_INT32, root, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n; ++i) EXPECT(me->recv[i] == value(root, i));
  for (uint64_t i = 0; i < n; ++i) EXPECT(me->send[i] == value(root, i));
  EXPECT(me->recv[n] == GUARD);
  prepare(me, n);
  TRY(npu_scatter(is_root ? me->send : NULL, me->recv, n, NPU_INT32, root, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n; ++i) EXPECT(me->recv[i] == value(root, me->rank * n + i));
  EXPECT(me->recv[n] == GUARD);
  prepare(me, n * me->size);
  TRY(npu_gather(me->send, is_root ? me->recv : NULL, n, NPU_INT32, root, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n * me->size; ++i) {
    EXPECT(me->recv[i] == (is_root ? value((uint32_t)(i / n), i % n) : -1));
  }
  return 0;
}

static int symmetric(const struct rank* me, uint64_t n) {
  const uint64_t all = n * me->size;
  prepare(me, all);
  TRY(npu_all_gather(me->send, me->recv, n, NPU_INT32, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < all; ++i) EXPECT(me->recv[i] == value((uint32_t)(i / n), i % n));
  EXPECT(me->recv[all] == GUARD);
  prepare(me, n);
  TRY(npu_reduce_scatter(me->send, me->recv, n, NPU_INT32, NPU_SUM, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n; ++i) EXPECT(me->recv[i] == sum_at(me->size, me->rank * n + i));
  EXPECT(me->recv[n] == GUARD);
  prepare(me, all);
  TRY(npu_all_to_all(me->send, me->recv, n, NPU_INT32, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < all; ++i) {
    EXPECT(me->recv[i] == value((uint32_t)(i / n), me->rank * n + i % n));
  }
  return 0;
}

/* Rank r has r + n elements, with gaps of 3 between the parts. */
static int vectors(const struct rank* me, uint64_t n) {
  uint64_t part[RANKS], place[RANKS], end = 0;
  for (uint32_t r = 0; r < me->size; ++r) {
    part[r] = r + n;
    place[r] = end;
    end += part[r] + 3;
  }
  const uint64_t own = part[me->rank];
  prepare(me, end);
  TRY(npu_all_gather_v(me->send, own, me->recv, part, place, NPU_INT32, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint32_t r = 0; r < me->size; ++r) {
    for (uint64_t i = 0; i < part[r]; ++i) EXPECT(me->recv[place[r] + i] == value(r, i));
    for (uint64_t i = 0; i < 3; ++i) EXPECT(me->recv[place[r] + part[r] + i] == -1);
  }
  EXPECT(me->recv[end] == GUARD);
  prepare(me, own);
  TRY(npu_reduce_scatter_v(me->send, part, place, me->recv, own, NPU_INT32, NPU_SUM, me->comm,
                           me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < own; ++i) {
    EXPECT(me->recv[i] == sum_at(me->size, place[me->rank] + i));
  }
  EXPECT(me->recv[own] == GUARD);
  return 0;
}

/* Rank i sends i + j elements to rank j. */
static int all_to_all_v(const struct rank* me) {
  uint64_t part[RANKS], place[RANKS], end = 0;
  for (uint32_t r = 0; r < me->size; ++r) {
    part[r] = me->rank + r;
    place[r] = end;
    end += part[r] + 1;
  }
  prepare(me, end);
  TRY(npu_all_to_all_v(me->send, part, place, me->recv, part, place, NPU_INT32, me->comm,
                       me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint32_t r = 0; r < me->size; ++r) {
    uint64_t there = 0; /* where rank r keeps what it sends to this one */
    for (uint32_t k = 0; k < me->rank; ++k) there += r + k + 1;
    for (uint64_t i = 0; i < part[r]; ++i) EXPECT(me->recv[place[r] + i] == value(r, there + i));
    EXPECT(me->recv[place[r] + part[r]] == -1);
  }
  EXPECT(me->recv[end] == GUARD);
  return 0;
}

static int send_and_receive(const struct rank* me, uint64_t n) {
  const uint32_t partner = me->rank ^ 1u;
  prepare(me, n);
  if (me->rank < partner) {
    TRY(npu_send(me->send, n, NPU_INT32, partner, me->comm, me->stream));
    TRY(npu_recv(me->recv, n, NPU_INT32, partner, me->comm, me->stream));
  } else {
    TRY(npu_recv(me->recv, n, NPU_INT32, partner, me->comm, me->stream));
    TRY(npu_send(me->send, n, NPU_INT32, partner, me->comm, me->stream));
  }
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n; ++i) EXPECT(me->recv[i] == value(partner, i));
  EXPECT(me->recv[n] == GUARD);
  return 0;
}

/* Everybody sends to the right and receives from the left, at the same time. */
static int ring(const struct rank* me, uint64_t n) {
  const uint32_t right = (me->rank + 1) % me->size;
  const uint32_t left = (me->rank + me->size - 1) % me->size;
  const npu_send_recv_item_t items[] = {{NPU_SEND, me->send, n, NPU_INT32, right},
                                        {NPU_RECV, me->recv, n, NPU_INT32, left}};
  prepare(me, n);
  TRY(npu_batch_send_recv(items, 2, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n; ++i) EXPECT(me->recv[i] == value(left, i));
  EXPECT(me->recv[n] == GUARD);
  return 0;
}

/* Operations of one stream see each other's results, whatever way their payloads take. */
static int chain(const struct rank* me, uint64_t n) {
  int32_t elsewhere[64] = {0}; /* not device memory */
  prepare(me, n);
  TRY(npu_all_reduce(me->send, me->recv, n, NPU_INT32, NPU_SUM, me->comm, me->stream));
  TRY(npu_all_reduce(me->recv, elsewhere, 1, NPU_INT32, NPU_SUM, me->comm, me->stream));
  TRY(npu_bcast(elsewhere, 64, NPU_INT32, 0, me->comm, me->stream));
  TRY(npu_all_reduce(elsewhere, me->recv, 64, NPU_INT32, NPU_MAX, me->comm, me->stream));
  TRY(npu_bcast(me->recv, n, NPU_INT32, 1, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  EXPECT(me->recv[0] == (int32_t)(me->size * (uint32_t)sum_at(me->size, 0)));
  for (uint64_t i = 1; i < n; ++i) {
    EXPECT(me->recv[i] == (i < 64 ? 0 : sum_at(me->size, i)));
  }
  return 0;
}

static int default_stream(const struct rank* me, uint64_t n) {
  npu_stream_t handle;
  int done = 0;
  prepare(me, n);
  TRY(npu_all_reduce(me->send, me->recv, n, NPU_INT32, NPU_SUM, me->comm, NULL));
  TRY(npu_comm_default_stream(me->comm, &handle));
  while (!done) TRY(npu_stream_query(handle, &done));
  for (uint64_t i = 0; i < n; ++i) EXPECT(me->recv[i] == sum_at(me->size, i));
  TRY(npu_barrier(me->comm, handle));
  TRY(npu_stream_synchronize_timeout(handle, 0));
  return 0;
}

static int halves(const struct rank* me, uint64_t n) {
  npu_comm_t half, none;
  char name[NPU_COMM_NAME_BYTES];
  uint32_t rank, size;
  /* the key turns the order round */
  TRY(npu_comm_split(me->comm, (int32_t)(me->rank % 2), -(int32_t)me->rank, &half));
  TRY(npu_comm_split(half, NPU_SPLIT_NOCOLOR, 0, &none));
  EXPECT(none == NULL);
  TRY(npu_comm_rank(half, &rank));
  TRY(npu_comm_size(half, &size));
  TRY(npu_comm_name(half, name, sizeof(name)));
  EXPECT(size == me->size / 2 && rank == size - 1 - me->rank / 2);
  EXPECT(strncmp(name, me->run, strlen(me->run)) == 0 && name[strlen(me->run)] == '/');
  prepare(me, n * size);
  TRY(npu_all_gather(me->send, me->recv, n, NPU_INT32, half, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < n * size; ++i) {
    const uint32_t from = 2 * (size - 1 - (uint32_t)(i / n)) + me->rank % 2;
    EXPECT(me->recv[i] == value(from, i % n));
  }
  EXPECT(me->recv[n * size] == GUARD);
  TRY(npu_comm_destroy(half));
  return 0;
}

/* One rank passes another count: all of them hear of it, and the next operation works. */
static int disagreement(const struct rank* me) {
  npu_result_t error;
  const uint64_t n = me->rank == 3 ? 101 : 100;
  prepare(me, 100);
  TRY(npu_all_reduce(me->send, me->recv, n, NPU_INT32, NPU_SUM, me->comm, me->stream));
  EXPECT(npu_stream_synchronize(me->stream) == NPU_FAILED_PRECONDITION);
  EXPECT(strstr(npu_last_error(), "count") != NULL);
  for (uint64_t i = 0; i < 100; ++i) EXPECT(me->recv[i] == -1);
  TRY(npu_comm_async_error(me->comm, &error));
  EXPECT(error == NPU_SUCCESS);
  TRY(npu_all_reduce(me->send, me->recv, 100, NPU_INT32, NPU_SUM, me->comm, me->stream));
  TRY(npu_stream_synchronize(me->stream));
  for (uint64_t i = 0; i < 100; ++i) EXPECT(me->recv[i] == sum_at(me->size, i));
  return 0;
}

static int everything(const struct rank* me) {
  for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); ++k) {
    const uint64_t n = counts[k];
    RUN(all_reduce(me, n));
    RUN(scaled_sums(me, n));
    for (uint32_t root = 0; root < me->size; root += 3) RUN(rooted(me, n, root));
    RUN(symmetric(me, n));
    RUN(send_and_receive(me, n));
    RUN(ring(me, n));
    RUN(default_stream(me, n));
    RUN(halves(me, n));
    RUN(disagreement(me));
  }
  RUN(vectors(me, 1));
  RUN(vectors(me, 1000));
  RUN(all_to_all_v(me));
  RUN(chain(me, 1000));
  return 0;
}

static int run_rank(struct rank* me) {
  npu_config_t config = NPU_CONFIG_INIT;
  void* send;
  void* recv;
  const uint64_t bytes = ((uint64_t)RANKS * MAX_COUNT + 1) * sizeof(int32_t);
  config.socket = me->socket;
  config.arena_bytes = (uint64_t)2 << 20;
  config.join_timeout_ms = 30000;
  config.timeout_ms = 30000;
  TRY(npu_comm_init_rank(&me->comm, RANKS, me->run, me->rank, &config));
  TRY(npu_comm_size(me->comm, &me->size));
  TRY(npu_stream_create(me->comm, &me->stream));
  TRY(npu_mem_alloc(me->comm, bytes, &send));
  TRY(npu_mem_alloc(me->comm, bytes, &recv));
  me->send = send;
  me->recv = recv;
  RUN(everything(me));
  TRY(npu_mem_free(me->comm, send));
  TRY(npu_mem_free(me->comm, recv));
  TRY(npu_stream_destroy(me->stream));
  TRY(npu_comm_destroy(me->comm));
  return 0;
}

static void* thread_main(void* me) { return run_rank(me) == 0 ? me : NULL; }

static int run_threads(struct rank* ranks) {
  pthread_t threads[RANKS];
  int failed = 0;
  for (uint32_t r = 0; r < RANKS; ++r) {
    if (pthread_create(&threads[r], NULL, thread_main, &ranks[r]) != 0) abort();
  }
  for (uint32_t r = 0; r < RANKS; ++r) {
    void* ended;
    if (pthread_join(threads[r], &ended) != 0 || ended == NULL) ++failed;
  }
  return failed;
}

static int run_processes(struct rank* ranks) {
  pid_t pids[RANKS];
  int failed = 0;
  for (uint32_t r = 0; r < RANKS; ++r) {
    pids[r] = fork();
    if (pids[r] < 0) abort();
    if (pids[r] == 0) exit(run_rank(&ranks[r]));
  }
  for (uint32_t r = 0; r < RANKS; ++r) {
    int status;
    if (waitpid(pids[r], &status, 0) < 0 || status != 0) ++failed;
  }
  return failed;
}

int main(int argc, char** argv) {
  struct rank ranks[RANKS] = {{0}};
  npu_unique_id_t id;
  int failed;
  if (argc != 3 || (strcmp(argv[1], "processes") != 0 && strcmp(argv[1], "threads") != 0)) {
    fprintf(stderr, "usage: %s processes|threads SOCKET\n", argv[0]);
    return 64;
  }
  if (npu_get_unique_id(&id) != NPU_SUCCESS) {
    fprintf(stderr, "%s\n", npu_last_error());
    return 1;
  }
  for (uint32_t r = 0; r < RANKS; ++r) {
    ranks[r].socket = argv[2];
    ranks[r].run = id.name;
    ranks[r].rank = r;
  }
  failed = strcmp(argv[1], "threads") == 0 ? run_threads(ranks) : run_processes(ranks);
  if (failed != 0) fprintf(stderr, "%d of %d ranks failed\n", failed, RANKS);
  return failed == 0 ? 0 : 1;
}

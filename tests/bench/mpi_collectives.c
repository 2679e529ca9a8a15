// Times one MPI collective as `npu bench` times ours: same sizes, same rule, one JSON line on
// stdout. compare_collectives.py compiles it with mpicc and starts it under mpirun; by hand:
//   mpirun -np 8 ./mpi_collectives OP BYTES ITERATIONS WARMUP
// BYTES counts per rank, for parted operations (all-gather, reduce-scatter, scatter, gather,
// all-to-all) over all ranks. A time is one call on its slowest rank.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kAlign = 4096, kUsage = 64 };

typedef struct {
  int count;  // elements as passed to the call
  int ranks;
  float* send;
  float* recv;
} Buffers;

// Operations run in place where npu bench runs in place: all-reduce and broadcast.

static void all_reduce(const Buffers* b) {
  MPI_Allreduce(MPI_IN_PLACE, b->send, b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce(const Buffers* b) {
  MPI_Reduce(b->send, b->recv, b->count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void broadcast(const Buffers* b) {
  MPI_Bcast(b->send, b->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void all_gather(const Buffers* b) {
  MPI_Allgather(b->send, b->count, MPI_FLOAT, b->recv, b->count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void reduce_scatter(const Buffers* b) {
  MPI_Reduce_scatter_block(b->send, b->recv, b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void scatter(const Buffers* b) {
  MPI_Scatter(b->send, b->count, MPI_FLOAT, b->recv, b->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void gather(const Buffers* b) {
  MPI_Gather(b->send, b->count, MPI_FLOAT, b->recv, b->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void all_to_all(const Buffers* b) {
  MPI_Alltoall(b->send, b->count, MPI_FLOAT, b->recv, b->count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void barrier(const Buffers* b) {
  (void)b;
  MPI_Barrier(MPI_COMM_WORLD);
}

typedef struct {
  const char* name;
  void (*call)(const Buffers*);
  int parted;    // bytes count over all ranks
  int all_send;  // the send buffer holds a part for every rank
  int all_recv;  // the receive buffer holds a part of every rank
} Operation;

static const Operation kOperations[] = {
    {"all-reduce", all_reduce, 0, 0, 0}, {"reduce", reduce, 0, 0, 0},
    {"broadcast", broadcast, 0, 0, 0},   {"all-gather", all_gather, 1, 0, 1},
    {"barrier", barrier, 0, 0, 0},       {"reduce-scatter", reduce_scatter, 1, 1, 0},
    {"scatter", scatter, 1, 1, 0},       {"gather", gather, 1, 0, 1},
    {"all-to-all", all_to_all, 1, 1, 1},
};

static const Operation* find(const char* name) {
  for (size_t i = 0; i < sizeof(kOperations) / sizeof(kOperations[0]); ++i) {
    if (strcmp(kOperations[i].name, name) == 0) return &kOperations[i];
  }
  return NULL;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/// Zeros, as in npu bench: they stay finite however often they are summed. Written, so that no call
/// meets a page that is not there yet.
static float* zeros(size_t elements) {
  const size_t bytes = (elements * sizeof(float) / kAlign + 1) * kAlign;
  float* at = aligned_alloc(kAlign, bytes);
  if (at == NULL) {
    fprintf(stderr, "mpi_collectives: no memory for a buffer of %zu bytes\n", bytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
  }
  memset(at, 0, bytes);
  return at;
}

/// Microseconds of one call on its slowest rank.
static double timed(const Operation* op, const Buffers* buffers) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  op->call(buffers);
  double us = (MPI_Wtime() - begin) * 1e6;
  MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return us;
}

static void run(const Operation* op, long long bytes, int iterations, int warmup) {
  int rank = 0;
  Buffers b = {0};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
  b.count = (int)(bytes / (long long)sizeof(float) / (op->parted ? b.ranks : 1));
  b.send = zeros((size_t)b.count * (size_t)(op->all_send ? b.ranks : 1));
  b.recv = zeros((size_t)b.count * (size_t)(op->all_recv ? b.ranks : 1));
  double* times = malloc((size_t)iterations * sizeof(double));
  if (times == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < warmup; ++i) (void)timed(op, &b);
  for (int i = 0; i < iterations; ++i) times[i] = timed(op, &b);
  qsort(times, (size_t)iterations, sizeof(double), by_value);
  if (rank == 0) {
    const long long moved =
        (long long)b.count * (long long)sizeof(float) * (op->parted ? b.ranks : 1);
    const long long p99 = iterations * 99LL / 100;
    printf("{\"op\": \"%s\", \"bytes\": %lld, \"count\": %d, \"p50_us\": %.3f, \"p99_us\": %.3f}\n",
           op->name, moved, b.count, times[iterations / 2], times[p99]);
  }
  free(times);
  free(b.send);
  free(b.recv);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Operation* op = argc == 5 ? find(argv[1]) : NULL;
  const long long bytes = argc == 5 ? atoll(argv[2]) : 0;
  const int iterations = argc == 5 ? atoi(argv[3]) : 0, warmup = argc == 5 ? atoi(argv[4]) : -1;
  if (op == NULL || bytes < 1 || bytes / 4 > 0x7fffffff || iterations < 1 || warmup < 0) {
    fprintf(stderr,
            "usage: mpi_collectives OP BYTES ITERATIONS WARMUP; OP is one of all-reduce, reduce, "
            "broadcast, all-gather, reduce-scatter, scatter, gather, all-to-all, barrier\n");
    MPI_Finalize();
    return kUsage;
  }
  run(op, bytes, iterations, warmup);
  MPI_Finalize();
  return 0;
}

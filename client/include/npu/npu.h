/* The C interface of npu: communicators, device memory, streams, collectives, send and receive.
   Shaped like the calls of HCCL and NCCL; docs/c-api.md has the names side by side and what
   differs. */
#ifndef NPU_NPU_H
#define NPU_NPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== How to read this file ====

   Ranks. A program is N ranks, N <= 8, as processes, as threads of one process, or mixed. A rank
   holds one device of the daemon npud, from npu_comm_init_rank to the last npu_comm_destroy.

   Errors. Every function returns an npu_result_t unless it says otherwise; npu_last_error() has the
   sentence that belongs to it. A call that fails has enqueued nothing; handles and memory that it
   would have given are null. No C++ exception leaves a function. Errors named below are those with
   a meaning of their own; any call may also return NPU_INVALID_ARGUMENT (a null pointer, a handle
   that is not one, a value out of range), NPU_RESOURCE_EXHAUSTED (the process is out of memory),
   and, once the run is over, what ended it: NPU_ABORTED (a rank died), NPU_DEADLINE_EXCEEDED (a
   rank did not come), NPU_UNAVAILABLE (the daemon is gone). A run that is over stays so; only
   npu_comm_init_rank under the same or another name starts again.

   Threads. Any function may be called from any thread at any time, with one exception: while a
   handle is being destroyed no other call may use it. Operations that two threads enqueue on one
   communicator at the same time are ordered as they happen to come; all ranks must agree on the
   order of a communicator's operations.

   Time. Operations are asynchronous: a call returns when the operation is enqueued, its buffers
   belong to npu until npu_stream_synchronize (or a npu_stream_query that says done) on its stream,
   and results are visible to plain loads after that. Operations of one stream take effect one after
   the other, so an operation may read what an earlier one of the same stream writes. Those of
   different streams are not ordered.

   Memory. Buffers should come from npu_mem_alloc: nothing is copied then. Others may lie anywhere;
   they are copied through a staging region of the device when the operation is enqueued and back
   when it is finished. Payloads of at most 40 bytes (all-reduce, broadcast, send, receive) travel
   in the request itself and are never staged. */

/* ==== Results ==== */

/* Numbers are stable; later versions append. */
typedef enum npu_result {
  NPU_SUCCESS = 0,
  NPU_INVALID_ARGUMENT = 1,
  NPU_NOT_FOUND = 2,
  NPU_ALREADY_EXISTS = 3,
  NPU_FAILED_PRECONDITION = 4, /* ranks disagree, or the state does not allow it */
  NPU_RESOURCE_EXHAUSTED = 5,
  NPU_UNAVAILABLE = 6, /* no daemon, or the device is held by another program */
  NPU_DEADLINE_EXCEEDED = 7,
  NPU_ABORTED = 8, /* another rank of the run died or left */
  NPU_DATA_LOSS = 9,
  NPU_PERMISSION_DENIED = 10,
  NPU_UNIMPLEMENTED = 11,
  NPU_INTERNAL = 12,
  NPU_RESULT_MAX = 0x7fffffff /* no result: makes the type 32 bits wide */
} npu_result_t;

/* A few words for a result, "unknown result" for another number. Static; never null. */
const char* npu_error_string(npu_result_t result);

/* The sentence of this thread's last call that failed: what was tried, which value, what was
   expected, what to do. "" if none has. Valid until the next failing call of the same thread. */
const char* npu_last_error(void);

/* ==== Types ==== */

typedef struct npu_comm* npu_comm_t;     /* a communicator, as seen by one rank */
typedef struct npu_stream* npu_stream_t; /* an ordered queue of one rank; NULL: its default one */

/* Element types. Numbers are stable. */
typedef enum npu_dtype {
  NPU_INT8 = 0,
  NPU_INT16 = 1,
  NPU_INT32 = 2,
  NPU_FLOAT16 = 3,
  NPU_FLOAT32 = 4,
  NPU_INT64 = 5,
  NPU_UINT64 = 6,
  NPU_UINT8 = 7,
  NPU_UINT16 = 8,
  NPU_UINT32 = 9,
  NPU_FLOAT64 = 10,
  NPU_BFLOAT16 = 11,
  NPU_DTYPE_MAX = 0x7fffffff /* no type: makes the enum 32 bits wide */
} npu_dtype_t;

/* Reductions. Every element is folded over ranks 0, 1, 2, ... in this order; 16-bit floats are
   accumulated in 32 bits and rounded once; integers wrap. Numbers are stable. */
typedef enum npu_redop {
  NPU_SUM = 0,
  NPU_PROD = 1,
  NPU_MAX = 2,
  NPU_MIN = 3,
  NPU_MEAN = 4,
  NPU_PREMUL_SUM = 5,        /* what the _scaled calls do; refused by the others */
  NPU_REDOP_MAX = 0x7fffffff /* no reduction: makes the enum 32 bits wide */
} npu_redop_t;

/* A wish: the results have the same bits with every algorithm. */
typedef enum npu_algorithm {
  NPU_ALGORITHM_AUTO = 0, /* NPU_COLL_ALGO of the environment, else what the daemon chooses */
  NPU_ALGORITHM_RING = 1,
  NPU_ALGORITHM_DIRECT = 2
} npu_algorithm_t;

/* ==== Configuration ==== */

#define NPU_CONFIG_VERSION 1
#define NPU_CONFIG_DEFAULT (-1)

/* How a rank joins a run and what its operations start from. Begin with NPU_CONFIG_INIT, then set
   fields. Later versions append fields and never reorder. */
typedef struct npu_config {
  uint32_t size;    /* sizeof(npu_config_t), set by NPU_CONFIG_INIT */
  uint32_t version; /* NPU_CONFIG_VERSION, set by NPU_CONFIG_INIT */
  /* Socket of the daemon. NULL: NPUD_SOCKET, the user's runtime directory, /run/npud/npud.sock. */
  const char* socket;
  /* At most 39 bytes, the same on all ranks of one launch and different for another launch of the
     same name. NULL: NPU_RUN_KEY, which `npu launch` sets; without it none, and ranks of one user
     meet by run name alone. */
  const char* run_key;
  int32_t device;    /* 0 to 7; NPU_CONFIG_DEFAULT: the rank */
  int32_t algorithm; /* npu_algorithm_t */
  /* Device memory of this rank, bytes, rounded up to 4096; 0: 64 MiB. */
  uint64_t arena_bytes;
  /* Part of it where buffers from elsewhere are copied; the largest such buffer must fit. 0: none,
     they are refused. NPU_CONFIG_DEFAULT: a quarter. */
  int64_t staging_bytes;
  /* How long npu_comm_init_rank waits for the other ranks; 0: without limit. */
  int64_t join_timeout_ms;
  /* How long an operation waits for a rank before the run is ended; 0: without limit.
     NPU_CONFIG_DEFAULT: NPU_COLL_TIMEOUT ("60s", "500ms"), else 60 s. */
  int64_t timeout_ms;
  /* 1: 16-bit sum and mean accumulate in 64 bits, so that the bits do not depend on which rank
     holds what. The same on all ranks. */
  int32_t strict;
  int32_t reserved; /* 0 */
} npu_config_t;

#define NPU_CONFIG_INIT                                                                           \
  {                                                                                               \
    sizeof(npu_config_t), NPU_CONFIG_VERSION, NULL, NULL, NPU_CONFIG_DEFAULT, NPU_ALGORITHM_AUTO, \
        0, NPU_CONFIG_DEFAULT, 60000, NPU_CONFIG_DEFAULT, 0, 0                                    \
  }

/* ==== Communicators ==== */

#define NPU_UNIQUE_ID_BYTES 64

typedef struct npu_unique_id {
  char name[NPU_UNIQUE_ID_BYTES]; /* ends with a zero */
} npu_unique_id_t;

/* A run name that nobody else has. One rank calls it and hands the bytes to the others, by whatever
   way it started them. Not needed when they agree on a name and a key otherwise. */
npu_result_t npu_get_unique_id(npu_unique_id_t* id);

/* Joins the run `run_name` as rank `rank` of `nranks` and leases a device; blocks until all ranks
   have come. run_name: 1 to 64 of a-z 0-9 . _ -  config: NULL is NPU_CONFIG_INIT.
   Errors: NPU_UNAVAILABLE (no daemon; the device or the rank is taken, by whom; another launch of
   this name is going on); NPU_DEADLINE_EXCEEDED (names the ranks that did not come);
   NPU_FAILED_PRECONDITION (other ranks say another nranks; daemon of another version);
   NPU_RESOURCE_EXHAUSTED (device memory). */
npu_result_t npu_comm_init_rank(npu_comm_t* comm, uint32_t nranks, const char* run_name,
                                uint32_t rank, const npu_config_t* config);

/* As npu_comm_init_rank, with rank, size and device from the environment: RANK, WORLD_SIZE and
   LOCAL_RANK (torchrun), or RANK_ID, RANK_SIZE and DEVICE_ID (Ascend; the device unless the
   configuration names one). None of them set: NPU_SUCCESS and *comm is null, the program is alone.
   Errors: NPU_INVALID_ARGUMENT (only some are set; the sentence lists the others). */
npu_result_t npu_comm_init_env(npu_comm_t* comm, const char* run_name, const npu_config_t* config);

#define NPU_SPLIT_NOCOLOR (-1)

/* Ranks of equal `color` form a new communicator, ordered by `key`, then by rank; *out is null for
   a negative colour. Every rank of `comm` must call it. Blocks, after what is in the default
   stream. The new communicator shares device, memory, streams and configuration with `comm`, and
   may outlive it. Errors: NPU_RESOURCE_EXHAUSTED (64 exist in the run). */
npu_result_t npu_comm_split(npu_comm_t comm, int32_t color, int32_t key, npu_comm_t* out);

/* Finishes the communicator's operations and ends it. One that came from a split ends on all its
   ranks together: blocks until every one of them calls it, after what is in the default stream.
   With the last communicator of the rank the device is given back, and with it all its memory;
   operations that other ranks then start with this one fail.
   The handle is gone whatever is returned. Errors: the first error of its operations that nobody
   has been told; what ended the run; NPU_INVALID_ARGUMENT (destroyed before). */
npu_result_t npu_comm_destroy(npu_comm_t comm);

npu_result_t npu_comm_rank(npu_comm_t comm, uint32_t* rank);
npu_result_t npu_comm_size(npu_comm_t comm, uint32_t* size);

#define NPU_COMM_NAME_BYTES 128

/* The run's name; for one that came from a split followed by "/" and its number. At most
   NPU_COMM_NAME_BYTES with the terminator. Errors: NPU_INVALID_ARGUMENT (`bytes` too small). */
npu_result_t npu_comm_name(npu_comm_t comm, char* name, size_t bytes);

/* *error: what ended the run if it is over; else the first error of this communicator's operations
   that no npu_stream_synchronize has returned yet; else NPU_SUCCESS. npu_last_error() has its
   sentence. Does not wait and clears nothing. */
npu_result_t npu_comm_async_error(npu_comm_t comm, npu_result_t* error);

/* Until npu_comm_resume, calls that enqueue on this communicator from this rank return
   NPU_FAILED_PRECONDITION and do nothing; what was enqueued goes on. For a checkpoint: suspend,
   synchronize, write, resume. */
npu_result_t npu_comm_suspend(npu_comm_t comm);
npu_result_t npu_comm_resume(npu_comm_t comm);

/* *copies: buffers of this rank that had to be copied because they did not lie in device memory. */
npu_result_t npu_comm_staged_copies(npu_comm_t comm, uint64_t* copies);

/* ==== Memory ==== */

/* `bytes` of this rank's device memory, aligned to 128; plain memory for the program, read and
   written by loads and stores. Contents are unspecified. Errors: NPU_RESOURCE_EXHAUSTED (with what
   is free). */
npu_result_t npu_mem_alloc(npu_comm_t comm, uint64_t bytes, void** memory);

/* Operations that use it must be finished. NULL is allowed. Errors: NPU_INVALID_ARGUMENT (not
   allocated by this rank, or freed before). */
npu_result_t npu_mem_free(npu_comm_t comm, void* memory);

/* ==== Streams ==== */

/* A new stream of the rank that holds `comm`, for any of its communicators. Errors:
   NPU_RESOURCE_EXHAUSTED (a rank has at most 16, the default one included). */
npu_result_t npu_stream_create(npu_comm_t comm, npu_stream_t* stream);

/* Finishes the stream's operations and ends it. The handle is gone whatever is returned. Errors:
   the first error of its operations that nobody has been told; NPU_INVALID_ARGUMENT (destroyed
   before; the default stream). */
npu_result_t npu_stream_destroy(npu_stream_t stream);

/* The handle of the rank's default stream, for the three calls below when several ranks live in
   this process. It ends with the rank's last communicator. */
npu_result_t npu_comm_default_stream(npu_comm_t comm, npu_stream_t* stream);

/* Blocks until everything enqueued on the stream before the call is finished; returns the first
   error among the operations of the stream since the last call that returned one. The others were
   carried out or have errors of their own. NULL: the default stream of the only rank of this
   process. Errors: those of the operations, above all NPU_FAILED_PRECONDITION (ranks disagree about
   an operation; the sentence names field and ranks, no buffer was written, the run goes on);
   NPU_FAILED_PRECONDITION also for NULL when the process has several ranks. */
npu_result_t npu_stream_synchronize(npu_stream_t stream);

/* As npu_stream_synchronize, for at most `timeout_ms`; 0: without limit. NPU_DEADLINE_EXCEEDED
   while npu_stream_query says not done: that time is over, nothing is cancelled, call again. */
npu_result_t npu_stream_synchronize_timeout(npu_stream_t stream, uint32_t timeout_ms);

/* *done: 1 if everything enqueued on the stream is finished, else 0. Does not wait; an error of an
   operation stays for npu_stream_synchronize. */
npu_result_t npu_stream_query(npu_stream_t stream, int* done);

/* ==== Operations ====

   Counts are elements, ranks are those of the communicator. All ranks must pass the same operation,
   count, type, reduction and root, in the same order; a difference is NPU_FAILED_PRECONDITION on
   all of them. What only the daemon can judge for all ranks is NPU_INVALID_ARGUMENT from
   npu_stream_synchronize on all of them: a root that does not exist (a peer is refused on its rank
   only); buffers in device memory that overlap, but for the in-place forms named below, or are not
   aligned to their elements. A count of 0 is an operation that moves nothing.

   A call waits when 240 operations of its rank are unfinished or the staging region is full, until
   the oldest is finished: nothing is lost or refused. It also waits for an earlier operation of its
   stream that writes one of its buffers, if either of the two is staged or travels in the request.

   Errors of the calls: NPU_INVALID_ARGUMENT (null buffer, type or reduction out of range, count too
   large, stream of another rank); NPU_RESOURCE_EXHAUSTED (a buffer that is not device memory is
   larger than the staging region). */

/* recv[i] on every rank = reduction over ranks of send[i]. In place: send == recv. */
npu_result_t npu_all_reduce(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                            npu_redop_t op, npu_comm_t comm, npu_stream_t stream);
/* recv[i] = sum over ranks of scale * send[i]; the scale is finite and the same on all ranks. */
npu_result_t npu_all_reduce_scaled(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                                   double scale, npu_comm_t comm, npu_stream_t stream);

/* As npu_all_reduce, but only the root's recv is written; others may pass null. */
npu_result_t npu_reduce(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                        npu_redop_t op, uint32_t root, npu_comm_t comm, npu_stream_t stream);
npu_result_t npu_reduce_scaled(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                               double scale, uint32_t root, npu_comm_t comm, npu_stream_t stream);

/* recv of every rank = the root's send; others may pass null for send. In place: send == recv. */
npu_result_t npu_broadcast(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                           uint32_t root, npu_comm_t comm, npu_stream_t stream);
/* The same in place: buffer of every rank becomes the root's. */
npu_result_t npu_bcast(void* buffer, uint64_t count, npu_dtype_t dtype, uint32_t root,
                       npu_comm_t comm, npu_stream_t stream);

/* recv (size * send_count) = every rank's send, in rank order. In place: send == recv + rank *
   send_count elements. */
npu_result_t npu_all_gather(const void* send, void* recv, uint64_t send_count, npu_dtype_t dtype,
                            npu_comm_t comm, npu_stream_t stream);
/* Rank r's send, recv_counts[r] elements, arrives at recv + recv_displs[r]. Arrays of `size`
   elements; counts are equal on all ranks, displacements are each rank's own. send_count ==
   recv_counts[rank]. In place: send == recv + recv_displs[rank]. */
npu_result_t npu_all_gather_v(const void* send, uint64_t send_count, void* recv,
                              const uint64_t* recv_counts, const uint64_t* recv_displs,
                              npu_dtype_t dtype, npu_comm_t comm, npu_stream_t stream);

/* recv (recv_count) = this rank's part of the reduction of send (size * recv_count). In place: recv
   == send + rank * recv_count elements. */
npu_result_t npu_reduce_scatter(const void* send, void* recv, uint64_t recv_count,
                                npu_dtype_t dtype, npu_redop_t op, npu_comm_t comm,
                                npu_stream_t stream);
npu_result_t npu_reduce_scatter_scaled(const void* send, void* recv, uint64_t recv_count,
                                       npu_dtype_t dtype, double scale, npu_comm_t comm,
                                       npu_stream_t stream);
/* Rank r receives the reduction of the send_counts[r] elements at send + send_displs[r]. Counts are
   equal on all ranks. recv_count == send_counts[rank]. In place: recv == send + send_displs[rank].
 */
npu_result_t npu_reduce_scatter_v(const void* send, const uint64_t* send_counts,
                                  const uint64_t* send_displs, void* recv, uint64_t recv_count,
                                  npu_dtype_t dtype, npu_redop_t op, npu_comm_t comm,
                                  npu_stream_t stream);

/* recv (recv_count) = this rank's part of the root's send (size * recv_count), which is null
   elsewhere. In place on the root: recv == send + rank * recv_count elements. */
npu_result_t npu_scatter(const void* send, void* recv, uint64_t recv_count, npu_dtype_t dtype,
                         uint32_t root, npu_comm_t comm, npu_stream_t stream);
/* The root's recv (size * send_count) = every rank's send, in rank order; recv is null elsewhere.
   In place on the root: send == recv + rank * send_count elements. */
npu_result_t npu_gather(const void* send, void* recv, uint64_t send_count, npu_dtype_t dtype,
                        uint32_t root, npu_comm_t comm, npu_stream_t stream);

/* Part i of recv = part `rank` of rank i's send; `count` elements a part. Not in place. */
npu_result_t npu_all_to_all(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                            npu_comm_t comm, npu_stream_t stream);
/* The same with counts and displacements for every pair: what i sends to j is what j expects from
   i. Arrays of `size` elements. Not in place; received parts do not overlap. */
npu_result_t npu_all_to_all_v(const void* send, const uint64_t* send_counts,
                              const uint64_t* send_displs, void* recv, const uint64_t* recv_counts,
                              const uint64_t* recv_displs, npu_dtype_t dtype, npu_comm_t comm,
                              npu_stream_t stream);

/* `count` elements to rank `peer`, whose npu_recv must agree in count and type; first in, first out
   for each sender and receiver. Finished when the data has arrived. */
npu_result_t npu_send(const void* buffer, uint64_t count, npu_dtype_t dtype, uint32_t peer,
                      npu_comm_t comm, npu_stream_t stream);
npu_result_t npu_recv(void* buffer, uint64_t count, npu_dtype_t dtype, uint32_t peer,
                      npu_comm_t comm, npu_stream_t stream);

typedef enum npu_transfer {
  NPU_SEND = 0,
  NPU_RECV = 1,
  NPU_TRANSFER_MAX = 0x7fffffff /* no transfer: makes the enum 32 bits wide */
} npu_transfer_t;

/* One send or receive of a batch; `buffer` of a send is only read. */
typedef struct npu_send_recv_item {
  npu_transfer_t kind;
  void* buffer;
  uint64_t count;
  npu_dtype_t dtype;
  uint32_t peer;
} npu_send_recv_item_t;

#define NPU_BATCH_ITEMS 64

/* Sends and receives that start together, in one step of the stream: no order among them can
   deadlock. At most NPU_BATCH_ITEMS. */
npu_result_t npu_batch_send_recv(const npu_send_recv_item_t* items, uint32_t n, npu_comm_t comm,
                                 npu_stream_t stream);

/* Finished on every rank only after every rank has called it. */
npu_result_t npu_barrier(npu_comm_t comm, npu_stream_t stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* NPU_NPU_H */

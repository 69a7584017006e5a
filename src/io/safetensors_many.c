// SPDX-License-Identifier: Apache-2.0
// Reads many entries of a file in parallel, cut into pieces.
#include "base/memory/own.h"
#include "base/threads/threads.h"
#include "base/values/numbers.h"
#include "io/crc32c.h"
#include "io/safetensors.h"

// Limits: bytes of a piece, which should stay in a core's cache for its
// checksum; pieces of all workers together; total size below which no workers
// are used.
enum {
  LEAST_PIECE = 4096,
  MOST_PIECE = 1 << 20,
  MOST_SCRATCH = 4 << 20,
  LEAST_SHARED = 2 << 20
};

typedef struct job {
  const ls_safetensors_file *file;
  const ls_safetensors_wish *wishes;
  size_t count;
  size_t piece;    // Size of pieces, except the last of a request.
  int64_t *first;  // Number of each request's first piece, and of all pieces.
  uint32_t *crcs;  // One per piece; NULL: not requested.
  char *scratch;   // Room for a piece per worker; NULL: not needed.
  ls_mutex lock;   // Guards the fields below.
  // Number of the first piece that failed, or the number of pieces.
  int64_t failed;
  ls_status status;  // Status of that piece.
} job;

static void drop_job(job *j) {
  ls_allocator *allocator = ls_runtime_allocator(j->file->runtime);
  ls_mutex_deinit(&j->lock);
  ls_release(allocator, j->first);
  ls_release(allocator, j->crcs);
  ls_release(allocator, j->scratch);
}

LS_OWNED_STRUCT(job, drop_job)

static size_t pieces_of(const job *j, const ls_safetensors_wish *wish) {
  return (wish->entry->size + j->piece - 1) / j->piece;
}

// Returns the request to which a piece belongs.
static size_t wish_of(const job *j, int64_t piece) {
  return ls_count_up_to(j->first, sizeof(*j->first), j->count, piece) - 1;
}

static ls_status read_piece(const job *j, int worker, int64_t piece,
                            const ls_safetensors_wish *wish, int64_t number) {
  const size_t at = (size_t)number * j->piece;
  const size_t left = wish->entry->size - at;
  ls_safetensors_entry part = *wish->entry;
  part.offset += (int64_t)at;
  part.size = left < j->piece ? left : j->piece;
  // Skips the checksum, which is the whole entry's, not a piece's.
  part.has_crc = false;
  char *target = wish->data != NULL ? (char *)wish->data + at
                                    : j->scratch + (size_t)worker * j->piece;
  return ls_safetensors_get(j->file, &part, target,
                            j->crcs != NULL ? &j->crcs[piece] : NULL);
}

static void note_failure(job *j, int64_t piece, ls_status status) {
  ls_mutex_lock(&j->lock);
  if (piece < j->failed) {
    ls_status_free(j->status);
    j->status = status;
    __atomic_store_n(&j->failed, piece, __ATOMIC_RELAXED);
  } else {
    ls_status_free(status);
  }
  ls_mutex_unlock(&j->lock);
}

static void read_pieces(void *user, int worker, int64_t begin, int64_t end) {
  job *j = user;
  for (int64_t piece = begin; piece < end; ++piece) {
    // Pieces after a failed one are skipped.
    if (piece > __atomic_load_n(&j->failed, __ATOMIC_RELAXED)) return;
    const size_t i = wish_of(j, piece);
    const ls_status status =
        read_piece(j, worker, piece, &j->wishes[i], piece - j->first[i]);
    if (!ls_status_is_ok(status)) note_failure(j, piece, status);
  }
}

static void run_pieces(job *j, ls_workers *workers) {
  const int64_t num_pieces = j->first[j->count];
  const bool is_large = (size_t)num_pieces * j->piece >= LEAST_SHARED;
  ls_workers_share_or_run(is_large ? workers : NULL, read_pieces, j,
                          num_pieces);
}

static ls_status join_sums(const job *j, ls_safetensors_wish *wishes) {
  for (size_t i = 0; i < j->count; ++i) {
    uint32_t crc = 0;
    for (int64_t piece = j->first[i]; piece < j->first[i + 1]; ++piece) {
      const size_t at = (size_t)(piece - j->first[i]) * j->piece;
      const size_t left = wishes[i].entry->size - at;
      crc = ls_crc32c_join(crc, j->crcs[piece],
                           left < j->piece ? left : j->piece);
    }
    wishes[i].crc = crc;
    LS_RETURN_IF_ERROR(ls_safetensors_check(j->file, wishes[i].entry, crc));
  }
  return ls_ok();
}

static size_t piece_for(const job *j, size_t threads) {
  size_t piece = LEAST_PIECE;
  for (size_t i = 0; i < j->count; ++i)
    if (j->wishes[i].entry->size > piece) piece = j->wishes[i].entry->size;
  if (piece > MOST_PIECE) piece = MOST_PIECE;
  if (piece > MOST_SCRATCH / threads) piece = MOST_SCRATCH / threads;
  return piece > LEAST_PIECE ? piece : LEAST_PIECE;
}

static ls_status plan_pieces(job *j, ls_workers *workers, bool sums) {
  ls_allocator *allocator = ls_runtime_allocator(j->file->runtime);
  bool elsewhere = false;
  const size_t threads =
      workers == NULL ? 1 : (size_t)ls_workers_count(workers);
  j->piece = piece_for(j, threads);
  LS_SET_ARRAY_OR_RETURN(allocator, int64_t, j->first, j->count + 1);
  for (size_t i = 0; i < j->count; ++i) {
    j->first[i + 1] = j->first[i] + (int64_t)pieces_of(j, &j->wishes[i]);
    elsewhere |= j->wishes[i].data == NULL;
  }
  j->failed = j->first[j->count];
  if (sums) {
    LS_SET_ARRAY_OR_RETURN(allocator, uint32_t, j->crcs, (size_t)j->failed + 1);
  }
  if (elsewhere) {
    j->scratch = ls_allocate(allocator, threads * j->piece);
    LS_RETURN_IF_NO_MEMORY(j->scratch);
  }
  return ls_mutex_init(&j->lock);
}

ls_status ls_safetensors_get_many(const ls_safetensors_file *file,
                                  ls_workers *workers,
                                  ls_safetensors_wish *wishes, size_t count,
                                  ls_sums wanted) {
  LS_OWN(job, j) = {.file = file, .wishes = wishes, .count = count};
  bool sums = wanted == LS_SUMS_ALL;
  for (size_t i = 0; i < count && wanted == LS_SUMS_HELD; ++i)
    sums |= wishes[i].entry->has_crc;
  LS_RETURN_IF_ERROR(plan_pieces(&j, workers, sums));
  run_pieces(&j, workers);
  LS_RETURN_IF_ERROR(j.status);
  return sums ? join_sums(&j, wishes) : ls_ok();
}

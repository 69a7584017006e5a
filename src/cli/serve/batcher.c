// SPDX-License-Identifier: Apache-2.0
// Runs the rows of several requests together.
//
// Jobs wait in one queue. The batcher takes the first one's signature, and the
// rows of the jobs of that signature, in their order, up to the largest batch;
// a job with more rows goes through several batches. A batch runs with the next
// power of two as its size, so that few programs are compiled; rows beyond
// those of the jobs hold what an earlier batch left there. As a row's bits do
// not depend on its batch, none of this can be seen in an answer.
//
// A run takes no memory but what the library's run takes: arrays of each batch
// size are kept.
//
// A text takes one turn of the queue for each of its bytes, so that predictions
// wait for no whole text. A model computes one text at a time.
//
// Threads: any may add jobs; one runs them.
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "cli/serve/serve.h"

// Rows of a job in a batch.
typedef struct batch_part {
  cli_job *job;
  int64_t from, count;
} batch_part;

struct cli_batcher {
  cli_limits limits;
  pthread_mutex_t lock;  // Guards the queue.
  pthread_cond_t added;
  cli_job *first, **end;
  int64_t num_waiting;  // Reserved places. Atomic.
  int64_t held_bytes;   // Bytes of outputs and answers. Atomic.
  batch_part *parts;    // Parts of the batch being made.
  size_t num_parts;
};

// Outputs of the largest size that are held at a time.
enum { MOST_OUTPUTS = 4 };

// Returns the most bytes that the outputs of a job may have.
static int64_t most_output_bytes(const cli_batcher *self) {
  return self->limits.max_body * 16 * (1 << 20);
}

// Returns true for a signature whose requests run one by one, each as a whole.
static bool runs_alone(const cli_batcher *self, const cli_signature *s) {
  return !s->batched || self->limits.max_batch == 1;
}

ls_status cli_batcher_create(const cli_limits *limits, cli_batcher **out) {
  *out = NULL;
  CLI_NEW_ARRAY_OR_RETURN(cli_batcher, self, 1);
  self->limits = *limits;
  self->end = &self->first;
  self->parts = cli_allocate((size_t)limits->max_batch * sizeof(*self->parts));
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&self->added, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&self->lock, NULL);
  *out = self;
  return self->parts == NULL ? ls_out_of_memory() : ls_ok();
}

void cli_batcher_destroy(cli_batcher *batcher) {
  if (batcher == NULL) return;
  pthread_mutex_destroy(&batcher->lock);
  pthread_cond_destroy(&batcher->added);
  cli_release(batcher->parts);
  cli_release(batcher);
}

// ---- The queue -------------------------------------------------------------
int64_t cli_batcher_waiting(const cli_batcher *batcher) {
  return __atomic_load_n(&batcher->num_waiting, __ATOMIC_RELAXED);
}

bool cli_batcher_reserve(cli_batcher *batcher) {
  if (__atomic_add_fetch(&batcher->num_waiting, 1, __ATOMIC_RELAXED) <=
      batcher->limits.max_queue)
    return true;
  __atomic_sub_fetch(&batcher->num_waiting, 1, __ATOMIC_RELAXED);
  return false;
}

// Adds a job to the queue. The lock is held.
static void append_job(cli_batcher *self, cli_job *job) {
  job->next = NULL;
  *self->end = job;
  self->end = &job->next;
}

void cli_batcher_add(cli_batcher *batcher, cli_job *job) {
  job->queued_ns = cli_now_ns();
  pthread_mutex_lock(&batcher->lock);
  append_job(batcher, job);
  pthread_cond_signal(&batcher->added);
  pthread_mutex_unlock(&batcher->lock);
}

void cli_batcher_hold(cli_batcher *batcher, cli_job *job, int64_t bytes) {
  __atomic_add_fetch(&batcher->held_bytes, bytes - job->held_bytes,
                     __ATOMIC_RELAXED);
  job->held_bytes = bytes;
}

// Counts a job's outputs, unless they are too large, or those of all jobs are.
static ls_status hold_outputs(cli_batcher *self, cli_job *job, double bytes) {
  const double most = (double)most_output_bytes(self);
  if (bytes > most)
    return ls_invalid_argument(
        "the outputs have %.0f MiB, and may have %.0f, 16 times --max-body%s",
        bytes / (1 << 20), most / (1 << 20),
        job->request.rows > 1 ? ": send fewer rows" : "");
  cli_batcher_hold(self, job, (int64_t)bytes);
  return __atomic_load_n(&self->held_bytes, __ATOMIC_RELAXED) <=
                 MOST_OUTPUTS * most_output_bytes(self)
             ? ls_ok()
             : LS_STATUS(LS_UNAVAILABLE,
                         "the outputs of all requests have more bytes than may "
                         "be held: try again later");
}

// Waits for a job until a time. Returns false if there was none.
static bool await_job(cli_batcher *self, int64_t until_ns) {
  const struct timespec until = {.tv_sec = until_ns / 1000000000,
                                 .tv_nsec = until_ns % 1000000000};
  return pthread_cond_timedwait(&self->added, &self->lock, &until) == 0;
}

// Takes jobs of one signature out of the queue, into the parts of a batch.
// Returns its number of rows. The lock is held.
static int64_t take_parts(cli_batcher *self, const cli_signature *signature,
                          int64_t rows) {
  for (cli_job **at = &self->first; *at != NULL;) {
    cli_job *job = *at;
    if (job->request.signature != signature) {
      at = &job->next;
      continue;
    }
    const int64_t space = self->limits.max_batch - rows;
    const int64_t rest = job->request.rows - job->begun_rows;
    if (space == 0) break;
    const int64_t count = rest < space ? rest : space;
    self->parts[self->num_parts++] =
        (batch_part){.job = job, .from = job->begun_rows, .count = count};
    job->begun_rows += count;
    rows += count;
    if (count < rest) break;
    *at = job->next;
    if (job->next == NULL) self->end = at;
  }
  return rows;
}

static void finish_job(cli_batcher *self, cli_job *job, ls_status status) {
  job->status = ls_status_join(job->status, status);
  __atomic_sub_fetch(&self->num_waiting, 1, __ATOMIC_RELAXED);
  job->finish(job);
}

// ---- Batches ---------------------------------------------------------------
// Makes a dict with an array for each value, of `rows` rows.
static ls_status make_arrays(const ls_serving_value *values, size_t count,
                             int64_t rows, ls_nest *out) {
  const char *names[CLI_VALUES];
  ls_nest items[CLI_VALUES];
  for (size_t i = 0; i < count; ++i) {
    ls_shape shape = values[i].type.shape;
    shape.dim[0] = rows;
    names[i] = values[i].name;
    items[i] = ls_nest_zeros(values[i].type.dtype, shape);
  }
  const ls_nest made = ls_nest_dict("", names, items, count);
  const ls_status status = ls_nest_status(made);
  if (ls_status_is_ok(status)) {
    ls_nest_release(*out);
    *out = made;
  } else {
    ls_nest_release(made);
  }
  return status;
}

ls_status cli_batcher_prepare(cli_batcher *batcher, cli_job *job) {
  const cli_signature *s = job->request.signature;
  double bytes = 0;
  if (!s->batched) return ls_ok();
  for (size_t i = 0; i < s->info.num_outputs; ++i) {
    ls_type type = s->info.outputs[i].type;
    type.shape.dim[0] = 1;
    bytes += (double)job->request.rows * (double)ls_dtype_size(type.dtype) *
             (double)ls_shape_num_elements(type.shape);
  }
  LS_RETURN_IF_ERROR(hold_outputs(batcher, job, bytes));
  if (runs_alone(batcher, s)) return ls_ok();
  return make_arrays(s->info.outputs, s->info.num_outputs, job->request.rows,
                     &job->outputs);
}

// Finds the arrays for a batch, and its size.
static ls_status find_bucket(const cli_batcher *self, cli_signature *s,
                             int64_t rows, cli_bucket **out) {
  int index = 0;
  while ((INT64_C(1) << index) < rows)
    ++index;
  int64_t size = INT64_C(1) << index;
  if (size > self->limits.max_batch) size = self->limits.max_batch;
  *out = &s->buckets[index];
  return (*out)->inputs.kind != LS_KIND_NONE
             ? ls_ok()
             : make_arrays(s->info.inputs, s->info.num_inputs, size,
                           &(*out)->inputs);
}

// Copies `count` rows of each array of a dict.
static void copy_rows(ls_nest to, int64_t to_row, ls_nest from,
                      int64_t from_row, int64_t count) {
  for (size_t i = 0; i < ls_nest_count(to); ++i) {
    ls_array *target = ls_nest_as_array(ls_nest_item(to, i));
    const ls_array *source = ls_nest_as_array(ls_nest_item(from, i));
    const int64_t rows = ls_array_shape(target).dim[0];
    const size_t row = rows > 0 ? ls_array_size(target) / (size_t)rows : 0;
    memcpy((char *)ls_array_mutable_data(target) + (size_t)to_row * row,
           (const char *)ls_array_data(source) + (size_t)from_row * row,
           (size_t)count * row);
  }
}

static ls_status run_bucket(cli_signature *s, cli_bucket *bucket) {
  LS_RETURN_IF_ERROR(ls_serving_run(s->model->serving, s->info.key,
                                    bucket->inputs, &bucket->outputs));
  // Checks that a run's outputs have a row for each of the batch's.
  const ls_array *input = ls_nest_as_array(ls_nest_item(bucket->inputs, 0));
  for (size_t i = 0; i < s->info.num_outputs; ++i) {
    const ls_array *array = ls_nest_as_array(ls_nest_item(bucket->outputs, i));
    if (array == NULL ||
        ls_array_shape(array).dim[0] != ls_array_shape(input).dim[0])
      return ls_internal("output '%s' of signature '%s' has no row for each "
                         "of its inputs: serve it with --max-batch 1",
                         s->info.outputs[i].name, s->info.key);
    LS_RETURN_IF_ERROR(ls_array_wait(array));
  }
  return ls_ok();
}

static void run_batch(cli_batcher *self, cli_signature *s, int64_t rows) {
  cli_bucket *bucket = NULL;
  CLI_OWN(ls_status, status) = find_bucket(self, s, rows, &bucket);
  int64_t row = 0;
  for (size_t i = 0; ls_status_is_ok(status) && i < self->num_parts; ++i) {
    const batch_part *part = &self->parts[i];
    copy_rows(bucket->inputs, row, part->job->request.inputs, part->from,
              part->count);
    row += part->count;
  }
  if (ls_status_is_ok(status)) status = run_bucket(s, bucket);
  cli_metrics_batch(rows);
  row = 0;
  for (size_t i = 0; i < self->num_parts; ++i) {
    const batch_part *part = &self->parts[i];
    cli_job *job = part->job;
    if (ls_status_is_ok(status))
      copy_rows(job->outputs, part->from, bucket->outputs, row, part->count);
    row += part->count;
    job->done_rows += part->count;
    if (job->done_rows == job->request.rows)
      finish_job(self, job, ls_status_clone(status));
    else if (!ls_status_is_ok(status))
      job->status = ls_status_join(job->status, ls_status_clone(status));
  }
}

ls_status cli_batcher_warm(cli_batcher *batcher, cli_signature *signature) {
  cli_bucket *bucket = NULL;
  if (!signature->batched) return ls_ok();
  for (int64_t rows = 1;; rows *= 2) {
    if (rows > batcher->limits.max_batch) rows = batcher->limits.max_batch;
    LS_RETURN_IF_ERROR(find_bucket(batcher, signature, rows, &bucket));
    if (runs_alone(batcher, signature))
      return ls_serving_run(signature->model->serving, signature->info.key,
                            bucket->inputs, &bucket->outputs);
    LS_RETURN_IF_ERROR(run_bucket(signature, bucket));
    if (rows == batcher->limits.max_batch) return ls_ok();
  }
}

// ---- Runs of one job -------------------------------------------------------
static uint64_t hash_shapes(ls_nest inputs) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < ls_nest_count(inputs); ++i) {
    const ls_shape shape =
        ls_array_shape(ls_nest_as_array(ls_nest_item(inputs, i)));
    hash = (hash ^ (uint64_t)shape.rank) * UINT64_C(1099511628211);
    for (int k = 0; k < shape.rank; ++k)
      hash = (hash ^ (uint64_t)shape.dim[k]) * UINT64_C(1099511628211);
  }
  return hash;
}

static bool has_shapes(const cli_signature *s, uint64_t hash) {
  for (size_t i = 0; i < s->num_shapes; ++i)
    if (s->shapes[i] == hash) return true;
  return false;
}

// Refuses shapes beyond the first CLI_SHAPES that have run, since each one's
// program is kept.
static ls_status run_alone(cli_batcher *self, cli_job *job) {
  cli_signature *s = job->request.signature;
  const uint64_t hash = hash_shapes(job->request.inputs);
  const bool is_new = !has_shapes(s, hash);
  if (is_new && s->num_shapes == CLI_SHAPES)
    return ls_invalid_argument(
        "signature '%s' has run inputs of %d different shapes, the most that "
        "programs are kept for: use one of those",
        s->info.key, CLI_SHAPES);
  cli_metrics_batch(job->request.rows > 0 ? job->request.rows : 1);
  LS_RETURN_IF_ERROR(ls_serving_run(s->model->serving, s->info.key,
                                    job->request.inputs, &job->outputs));
  double bytes = 0;
  for (size_t i = 0; i < ls_nest_count(job->outputs); ++i) {
    const ls_array *output = ls_nest_as_array(ls_nest_item(job->outputs, i));
    LS_RETURN_IF_ERROR(ls_array_wait(output));
    bytes += (double)ls_array_size(output);
  }
  if (is_new) s->shapes[s->num_shapes++] = hash;
  return hold_outputs(self, job, bytes);
}

// Takes the first job out of the queue. The lock is held.
static cli_job *take_first(cli_batcher *self) {
  cli_job *job = self->first;
  self->first = job->next;
  if (self->first == NULL) self->end = &self->first;
  return job;
}

// ---- Texts -----------------------------------------------------------------
// Adds a byte to a text, which then waits behind all others.
static void run_text(cli_batcher *self, cli_job *job) {
  cli_text_state state;
  const ls_status status = cli_text_run(job->text, job->check(job), &state);
  if (state == CLI_TEXT_DONE) {
    finish_job(self, job, status);
    return;
  }
  if (state == CLI_TEXT_RUNS) job->begun_rows = 1;
  pthread_mutex_lock(&self->lock);
  append_job(self, job);
  pthread_mutex_unlock(&self->lock);
}

// ---- Running ---------------------------------------------------------------
// Runs the first job, with others of its signature. The lock is held, and
// released meanwhile.
static void run_first(cli_batcher *self) {
  cli_job *job = self->first;
  cli_signature *s = job->request.signature;
  const int64_t waited = cli_now_ns() - job->queued_ns;
  const bool late = waited > self->limits.timeout_s * INT64_C(1000000000);
  if (late && job->begun_rows == 0) {
    take_first(self);
    pthread_mutex_unlock(&self->lock);
    finish_job(self, job,
               LS_STATUS(LS_UNAVAILABLE,
                         "the request waited for longer than --timeout, %lld "
                         "s, behind others: try again later",
                         (long long)self->limits.timeout_s));
  } else if (job->text != NULL) {
    take_first(self);
    pthread_mutex_unlock(&self->lock);
    run_text(self, job);
  } else if (runs_alone(self, s)) {
    take_first(self);
    pthread_mutex_unlock(&self->lock);
    finish_job(self, job, run_alone(self, job));
  } else {
    const int64_t until = job->queued_ns + self->limits.max_wait_us * 1000;
    self->num_parts = 0;
    int64_t rows = take_parts(self, s, 0);
    while (rows < self->limits.max_batch && cli_now_ns() < until &&
           await_job(self, until))
      rows = take_parts(self, s, rows);
    pthread_mutex_unlock(&self->lock);
    run_batch(self, s, rows);
  }
  pthread_mutex_lock(&self->lock);
}

bool cli_batcher_run(cli_batcher *batcher, int wait_ms) {
  pthread_mutex_lock(&batcher->lock);
  if (batcher->first == NULL)
    await_job(batcher, cli_now_ns() + wait_ms * INT64_C(1000000));
  const bool found = batcher->first != NULL;
  if (found) run_first(batcher);
  pthread_mutex_unlock(&batcher->lock);
  return found;
}

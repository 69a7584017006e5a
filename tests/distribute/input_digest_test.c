// SPDX-License-Identifier: Apache-2.0
//
// What input gives is the same bytes whatever reads it: one SHA-256 of ids and
// rows, written down here, for any number of input threads, elements ahead,
// hosts and ranks; and a run that is killed again and again, and goes on with
// others of all these, has each example once in each epoch.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/allocator.h"
#include "base/values/array_internal.h"
#include "distribute/own.h"
#include "io/sha256.h"
#include "lockstep/communicator.h"
#include "lockstep/element_spec.h"
#include "lockstep/streams.h"
#include "support/inputs.h"
#include "support/pipelines.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/sanitizer.h"

enum {
  SIZE = 150,
  BATCH = 12,
  LEAVES = 3,  // ((i64[n, 3], f32[n]), i64[n] of ids).
  EPOCHS = 2,
  MOST_STEPS = EPOCHS * (SIZE / BATCH + 1),
  MOST_REPLICAS = 12,
  MOST_HOSTS = 4,
};

// As sha256sum prints those of the bytes.
static const char *const digests[] = {
    "d071b36b3e340dedf4a83ee167689fa7924592535f366ff65170ac4f78933a03",
    "374dd5c62ff3ae9d7d9ee3ae4400f769d76c0a1558b8197044424dbf1dcc971c"};

// ---- Pipelines -------------------------------------------------------------
// What it draws is the same at every time; how long it takes is not.
static ls_status draw(ls_nest element, ls_nest out, const ls_map_call *call,
                      void *user) {
  (void)user;
  if (rand() % 7 == 0) usleep((useconds_t)(rand() % 300));
  uint64_t *to = ls_nest_data(ls_nest_item(out, 0), 0);
  to[0] = call->key;
  to[1] = (uint64_t)number_in(element);
  to[2] = (uint64_t)call->epoch;
  float *scaled = ls_nest_data(ls_nest_item(out, 1), 0);
  *scaled = (float)(call->key >> 40) * 0.37F;
  return ls_ok();
}

static bool is_kept(int64_t number) { return number % 5 != 2; }

static ls_status keep_most(ls_nest element, const ls_map_call *call, void *user,
                           bool *out_keep) {
  (void)call;
  (void)user;
  if (rand() % 9 == 0) usleep((useconds_t)(rand() % 200));
  *out_keep = is_kept(ls_array_i64(ls_nest_as_array(element), 0));
  return ls_ok();
}

// An indexed one, and one of streams.
enum { INDEXED, STREAMED, PIPELINES };
static ls_dataset *pipeline(int which) {
  ls_dataset *d =
      ls_dataset_shuffle(count_to(SIZE), &(ls_shuffle_options){.seed = 3});
  if (which == STREAMED)
    d = ls_dataset_filter(d, &(ls_filter_options){.call = keep_most});
  d = ls_dataset_map(
      d, &(ls_map_options){
             .fill = draw,
             .result = LS_TUPLE(ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(3)),
                                ls_nest_spec(LS_DTYPE_F32, LS_SCALAR))});
  if (which == STREAMED)
    d = ls_dataset_shuffle(ls_dataset_prefetch(d, 3),
                           &(ls_shuffle_options){.buffer = 20});
  return ls_dataset_batch(d, &(ls_batch_options){.size = BATCH, .ids = true});
}

// ---- What readers have seen ------------------------------------------------
typedef struct cell {
  void *data;
  size_t size;
} cell;

// The rows of one reader: of a rank those of its own replicas.
typedef struct reader {
  cell cells[MOST_STEPS][LEAVES][MOST_REPLICAS];
  int64_t epochs[MOST_STEPS];
  size_t steps;
} reader;

typedef struct reading {
  int which, threads;
  int64_t ahead;
  // All of one runtime, or a host each.
  int32_t replicas, hosts;
  bool on_ranks;
  // Where it starts, and how many steps it saves behind; then some more, which
  // are lost. NULL, 0: all of it.
  char *text;
  size_t steps, lost;
  char saved[MOST_HOSTS][2000];
  reader readers[MOST_HOSTS];
} reading;

static void note(reader *self, int64_t epoch, ls_nest element) {
  ls_nest leaves[LEAVES];
  assert_true(self->steps < MOST_STEPS);
  assert_int_equal(ls_nest_flatten(element, leaves, LEAVES), LEAVES);
  for (size_t l = 0; l < LEAVES; ++l) {
    const size_t count = ls_distributed_count(leaves[l]);
    for (size_t r = 0; r < (count == 0 ? 1 : count); ++r) {
      const ls_array *array = ls_nest_as_array(
          count == 0 ? leaves[l] : ls_distributed_component(leaves[l], r));
      assert_non_null(array);
      if (ls_array_is_absent(array)) continue;
      cell *to = &self->cells[self->steps][l][r];
      to->size = ls_array_size(array);
      to->data = malloc(to->size + 1);
      assert_non_null(to->data);
      if (to->size > 0) memcpy(to->data, ls_array_data(array), to->size);
    }
  }
  self->epochs[self->steps++] = epoch;
}

static void forget(reading *self) {
  for (size_t k = 0; k < MOST_HOSTS; ++k) {
    reader *one = &self->readers[k];
    for (size_t s = 0; s < one->steps; ++s)
      for (size_t l = 0; l < LEAVES; ++l)
        for (size_t r = 0; r < MOST_REPLICAS; ++r)
          free(one->cells[s][l][r].data);
    memset(one, 0, sizeof(*one));
  }
}

// What replica r has of a step, by whichever readers have it.
static cell find_cell(const reading *self, size_t step, size_t leaf,
                      size_t replica) {
  cell found = {0};
  for (size_t k = 0; k < MOST_HOSTS; ++k) {
    const cell *one = &self->readers[k].cells[step][leaf][replica];
    if (one->data == NULL) continue;
    if (found.data != NULL) {
      assert_int_equal(one->size, found.size);
      assert_memory_equal(one->data, found.data, found.size);
    }
    found = *one;
  }
  return found;
}

static void add_step(const reading *self, size_t step, ls_sha256 *sum) {
  for (size_t l = 0; l < LEAVES; ++l)
    for (size_t r = 0; r < MOST_REPLICAS; ++r) {
      const cell one = find_cell(self, step, l, r);
      const bool is_there = r < (size_t)self->replicas;
      assert_int_equal(one.data != NULL, is_there);
      ls_sha256_add(sum, one.data, one.size);
    }
}

// ---- Reading ---------------------------------------------------------------
static void save(const reading *self, ls_distributed_iterator *iterator,
                 char *saved) {
  LS_OWN(ls_record, record) = NULL;
  LS_OWN(printed, text) = NULL;
  size_t size = 0;
  expect_ok(ls_record_create(&record));
  expect_ok(ls_distributed_iterator_save(iterator, record));
  expect_ok(ls_record_to_text(record, &text, &size));
  assert_true(size < sizeof(self->saved[0]));
  memcpy(saved, text, size + 1);
}

// Goes on by `steps`, from epoch to epoch. False: it was all.
static bool read_steps(ls_distributed_iterator *iterator, size_t steps,
                       reader *out) {
  LS_OWN(ls_nest, element) = ls_none();
  bool has = true;
  for (size_t i = 0; i < steps && has;) {
    const int64_t epoch = ls_distributed_iterator_epoch(iterator);
    expect_ok(
        ls_distributed_iterator_next_as_optional(iterator, &has, &element));
    if (has) {
      if (out != NULL) note(out, epoch, element);
      ++i;
    } else if (epoch + 1 < EPOCHS) {
      expect_ok(ls_distributed_iterator_restart(iterator));
      has = true;
    }
  }
  return has;
}

static void read_with(reading *self, ls_strategy *strategy, int32_t rank) {
  LS_OWN(ls_distributed_iterator, iterator) = NULL;
  LS_OWN(ls_nest, data) = distributed(
      strategy, pipeline(self->which),
      &(ls_input_options){.per_replica_buffer_size = LS_SOME(self->ahead)});
  expect_ok(ls_distributed_iterator_create(
      data, &(ls_distributed_iterator_options){.seed = 11}, &iterator));
  if (self->text != NULL) {
    LS_OWN(ls_record, record) = NULL;
    expect_ok(
        ls_record_from_text("place", self->text, strlen(self->text), &record));
    expect_ok(ls_distributed_iterator_restore(iterator, record));
  }
  read_steps(iterator, self->steps > 0 ? self->steps : SIZE_MAX,
             &self->readers[rank]);
  save(self, iterator, self->saved[rank]);
  // Some are given up in the middle of more, which nobody sees.
  read_steps(iterator, self->lost, NULL);
}

static ls_status read_on(ls_communicator *communicator, void *user) {
  reading *self = user;
  const int32_t replicas = self->replicas;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1,
                           .input_threads = LS_SOME(self->threads),
                           .communicator = communicator});
  LS_OWN(ls_strategy, strategy) =
      communicator != NULL ? mirrored_of(replicas)
                           : pod_of_tasks(replicas, replicas / self->hosts);
  read_with(self, strategy, communicator != NULL ? communicator->rank : 0);
  return ls_ok();
}

// In a world of its own.
static void read_all(reading *self) {
  if (!self->on_ranks) {
    expect_ok(read_on(NULL, self));
    return;
  }
  expect_ok(ls_standin_run(self->hosts, read_on, self));
  for (int32_t k = 1; k < self->hosts; ++k) {
    assert_int_equal(self->readers[k].steps, self->readers[0].steps);
    // Where a stream's source was depends on how far ahead it was.
    if (self->which == INDEXED)
      assert_string_equal(self->saved[k], self->saved[0]);
  }
}

// ---- One digest ------------------------------------------------------------
static void expect_digest(const reading *self, const ls_sha256 *sum) {
  char text[LS_SHA256_TEXT];
  ls_sha256_print(sum, text);
  if (strcmp(text, digests[self->which]) != 0)
    fail_msg("pipeline %d with %d input threads, %lld ahead, %d replicas on "
             "%d %s: %s",
             self->which, self->threads, (long long)self->ahead, self->replicas,
             self->hosts, self->on_ranks ? "ranks" : "hosts", text);
}

static void expect_all(int which, int threads, int64_t ahead, int32_t hosts,
                       bool on_ranks) {
  static reading self;
  ls_sha256 sum;
  self = (reading){.which = which,
                   .threads = threads,
                   .ahead = ahead,
                   .replicas = MOST_REPLICAS,
                   .hosts = hosts,
                   .on_ranks = on_ranks};
  read_all(&self);
  ls_sha256_init(&sum);
  for (size_t s = 0; s < self.readers[0].steps; ++s)
    add_step(&self, s, &sum);
  expect_digest(&self, &sum);
  forget(&self);
}

// Without a strategy.
static void expect_plain(int which, int threads, int64_t ahead) {
  static reading self;
  ls_runtime *runtime = NULL;
  ls_iterator *iterator = NULL;
  self = (reading){.which = which,
                   .threads = threads,
                   .ahead = ahead,
                   .replicas = 1,
                   .hosts = 1};
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.threads = 1, .input_threads = LS_SOME(threads)},
      &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  ls_dataset *d = pipeline(which);
  expect_ok(ls_iterator_create(
      d, &(ls_iterator_options){.seed = 11, .prefetch = LS_SOME(ahead)},
      &iterator));
  ls_dataset_release(d);
  ls_nest element = ls_none();
  for (int64_t epoch = 0; epoch < EPOCHS; ++epoch) {
    ls_status status = ls_ok();
    while (ls_status_is_ok(status = ls_iterator_next(iterator, &element)))
      note(&self.readers[0], epoch, element);
    expect_status(status, LS_OUT_OF_RANGE, "");
    expect_ok(ls_iterator_restart(iterator));
  }
  ls_nest_release(element);
  ls_iterator_release(iterator);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
  ls_sha256 sum;
  ls_sha256_init(&sum);
  for (size_t s = 0; s < self.readers[0].steps; ++s)
    add_step(&self, s, &sum);
  expect_digest(&self, &sum);
  forget(&self);
}

static const int many_threads[] = {0, 1, 2, 7};
static const int64_t many_ahead[] = {0, 1, 8};

TEST(threads_and_what_is_ahead_change_no_byte) {
  for (int which = 0; which < PIPELINES; ++which)
    for (size_t t = 0; t < LS_COUNT_OF(many_threads); ++t)
      for (size_t a = 0; a < LS_COUNT_OF(many_ahead); ++a)
        expect_plain(which, many_threads[t], many_ahead[a]);
}

// All combinations; with sanitizers some of them, each of its values once.
TEST(neither_do_hosts_and_ranks) {
  for (int i = 0; i < PIPELINES * 2 * MOST_HOSTS * 12; ++i) {
    const int way = i / (PIPELINES * 2 * MOST_HOSTS);
    const int32_t hosts = i / (PIPELINES * 2) % MOST_HOSTS + 1;
    if (LS_SANITIZED && (way + hosts) % 4 != 0) continue;
    expect_all(i % PIPELINES, many_threads[way % 4], many_ahead[way / 4], hosts,
               i / PIPELINES % 2 == 1);
  }
}

// ---- Kills -----------------------------------------------------------------
typedef struct chain {
  ls_sha256 sum;
  int seen[EPOCHS][SIZE];
} chain;

static void add_finished(chain *self, const reading *from) {
  for (size_t s = 0; s < from->readers[0].steps; ++s) {
    add_step(from, s, &self->sum);
    const int64_t epoch = from->readers[0].epochs[s];
    assert_in_range(epoch, 0, EPOCHS - 1);
    for (size_t r = 0; r < (size_t)from->replicas; ++r) {
      const cell ids = find_cell(from, s, LEAVES - 1, r);
      for (size_t i = 0; i < ids.size / sizeof(int64_t); ++i) {
        const int64_t id = ((const int64_t *)ids.data)[i];
        assert_in_range(id, 0, SIZE - 1);
        ++self->seen[epoch][id];
      }
    }
  }
}

// The life number `life` of a chain: with others of all that may change.
static void live(chain *self, int which, int life, char *text) {
  static const int32_t replicas[] = {12, 4, 6, 3, 8, 12};
  static reading one;
  one = (reading){.which = which,
                  .threads = many_threads[rand() % 4],
                  .ahead = many_ahead[rand() % 3],
                  .replicas = replicas[life],
                  .hosts = life % MOST_HOSTS + 1,
                  .on_ranks = rand() % 2 == 0,
                  .text = text[0] != '\0' ? text : NULL,
                  .steps = life < 5 ? 1 + (size_t)rand() % 5 : 0,
                  .lost = life < 5 ? (size_t)rand() % 5 : 0};
  // Devices of a pod are as many on each of its hosts.
  if (one.replicas % one.hosts != 0) one.on_ranks = true;
  read_all(&one);
  add_finished(self, &one);
  strcpy(text, one.saved[one.on_ranks ? rand() % one.hosts : 0]);
  forget(&one);
}

TEST(a_chain_of_kills_has_each_example_once) {
  static char text[2000];
  static chain self;
  for (int i = 0; i < PIPELINES * (LS_SANITIZED ? 2 : 10); ++i) {
    const int which = i % PIPELINES;
    self = (chain){0};
    text[0] = '\0';
    ls_sha256_init(&self.sum);
    for (int life = 0; life <= 5; ++life)
      live(&self, which, life, text);
    expect_digest(&(reading){.which = which, .replicas = -1}, &self.sum);
    for (int epoch = 0; epoch < EPOCHS; ++epoch)
      for (int id = 0; id < SIZE; ++id)
        assert_int_equal(self.seen[epoch][id],
                         which == INDEXED || is_kept(id) ? 1 : 0);
  }
}

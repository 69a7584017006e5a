// SPDX-License-Identifier: Apache-2.0
#include "data/iterator.h"

#include "base/require.h"
#include "data/own.h"
#include "data/work.h"
#include "lockstep/runtime_settings.h"

enum {
  DEFAULT_PREFETCH = 2,
  MOST_PREFETCH = 8,
  LEAST_ANCHOR_DISTANCE = 8,
  MOST_DESCRIBED = 480
};

// ---- Elements --------------------------------------------------------------
// Makes an element of an indexed data set; called by any thread.
static ls_status get_indexed(ls_iterator *self, int64_t number,
                             ls_nest *element) {
  ls_fetch *fetch = ls_work_take_fetch(&self->work);
  if (fetch == NULL) return ls_out_of_memory();
  fetch->epoch = self->epoch;
  fetch->shares = self->work.helpers != NULL;
  const ls_status status =
      ls_dataset_get(self->dataset, fetch, number, element);
  ls_work_give_fetch(&self->work, fetch);
  return ls_stage_no_end(status);
}

// Saves the stream's state as an anchor in place of the oldest one.
static ls_status drop_anchor(ls_iterator *self, int64_t number) {
  ls_anchor *anchor = &self->anchors[0];  // The oldest anchor.
  for (int i = 1; i < LS_ANCHORS; ++i) {
    if (self->anchors[i].number < anchor->number) anchor = &self->anchors[i];
  }
  if (anchor->record == NULL)
    LS_RETURN_IF_ERROR(ls_record_create(&anchor->record));
  ls_record_clear(anchor->record);
  anchor->number = -1;
  LS_RETURN_IF_ERROR(ls_stage_save(self->stage, anchor->record));
  anchor->number = number;
  return ls_ok();
}

static ls_status get_streamed(ls_iterator *self, int64_t number,
                              ls_nest *element) {
  if (self->prefetch > 0 && number % self->anchor_every == 0)
    LS_RETURN_IF_ERROR(drop_anchor(self, number));
  return ls_stage_next(self->stage, element);
}

static ls_status iterator_make_element(void *user, int64_t number,
                                       ls_nest *element) {
  ls_iterator *self = user;
  return self->stage == NULL ? get_indexed(self, number, element)
                             : get_streamed(self, number, element);
}

// ---- Making ----------------------------------------------------------------
static void destroy_iterator(ls_object *object) {
  ls_iterator *self = (ls_iterator *)object;
  ls_allocator *allocator = self->work.allocator;
  if (self->ahead != NULL && ls_making_keeps(&self->work)) {
    ls_object_init(&self->object, object->type);
    return;
  }
  __atomic_store_n(&self->work.ends, true, __ATOMIC_RELAXED);
  ls_ahead_destroy(self->ahead);
  ls_stage_close(self->stage);
  for (int i = 0; i < LS_ANCHORS; ++i)
    ls_record_destroy(self->anchors[i].record);
  for (int i = 0; i < self->num_returned; ++i)
    ls_nest_release(self->returned[i]);
  ls_mutex_deinit(&self->calls_lock);
  ls_release(allocator, self->stats);
  ls_work_deinit(&self->work);
  ls_dataset_release(self->dataset);
  ls_runtime *runtime = self->work.runtime;
  ls_release(allocator, self);
  if (runtime != NULL) ls_runtime_note_gone(runtime, LS_MADE_ITERATOR);
}

static void print_iterator(const ls_object *object, char *buffer, size_t size) {
  ls_dataset_print(((const ls_iterator *)object)->dataset, buffer, size);
}

static const ls_object_type iterator_type = {
    .name = "iterator", .destroy = destroy_iterator, .print = print_iterator};

// Returns the limit of prefetched elements if the user sets none.
static int64_t most_prefetch(const ls_iterator *self) {
  if (!self->may_grow || self->work.threads == NULL) return 0;
  if (self->stage != NULL) return LEAST_ANCHOR_DISTANCE;
  const int threads = ls_input_threads_count(self->work.threads);
  return 2 * threads > MOST_PREFETCH ? 2 * threads : MOST_PREFETCH;
}

// Returns the prefetch count of the last stage that sets one.
static int64_t find_prefetch(const ls_dataset *dataset) {
  if (dataset->prefetch >= 0 || dataset->num_inputs == 0)
    return dataset->prefetch;
  return find_prefetch(dataset->inputs[0]);
}

static ls_status choose_prefetch(ls_iterator *self, ls_opt wanted) {
  if (wanted.set && (wanted.value < 0 || wanted.value > 1 << 20))
    return ls_invalid_argument("%lld elements ahead: 0 to %d are possible",
                               wanted.value, 1 << 20);
  const int64_t prefetch = find_prefetch(self->dataset);
  self->prefetch = prefetch >= 0 ? prefetch : DEFAULT_PREFETCH;
  if (wanted.set) self->prefetch = wanted.value;
  self->may_grow = prefetch < 0 && !wanted.set;
  if (self->work.threads == NULL) self->prefetch = 0;
  self->anchor_every = self->prefetch > LEAST_ANCHOR_DISTANCE
                           ? self->prefetch
                           : LEAST_ANCHOR_DISTANCE;
  for (int i = 0; i < LS_ANCHORS; ++i)
    self->anchors[i].number = -1;
  return ls_ok();
}

// Returns the number after the last element; of an endless data set the largest
// index.
static int64_t end_of(const ls_iterator *self) {
  const ls_dataset *dataset = self->dataset;
  if (self->stage != NULL || dataset->size == LS_UNKNOWN_SIZE) return -1;
  return dataset->size >= 0 ? dataset->size : dataset->most;
}

static ls_status fill_iterator(ls_iterator *self,
                               const ls_iterator_options *options) {
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->calls_lock));
  LS_RETURN_IF_ERROR(ls_work_init(&self->work, self->dataset, options));
  LS_RETURN_IF_ERROR(choose_prefetch(self, options->prefetch));
  LS_SET_ARRAY_OR_RETURN(self->work.allocator, ls_stage_stats, self->stats,
                         self->work.num_stages);
  if (!self->dataset->indexed)
    LS_RETURN_IF_ERROR(ls_stage_open(self->dataset, &self->work, &self->stage));
  LS_RETURN_IF_ERROR(
      ls_ahead_create(&(ls_ahead_options){.make = iterator_make_element,
                                          .user = self,
                                          .parallel = self->stage == NULL,
                                          .capacity = self->prefetch,
                                          .most = most_prefetch(self),
                                          .work = &self->work,
                                          .dataset = self->dataset},
                      &self->ahead));
  ls_ahead_seek(self->ahead, 0, end_of(self));
  return ls_ok();
}

ls_status ls_iterator_create(ls_dataset *dataset,
                             const ls_iterator_options *options,
                             ls_iterator **out_iterator) {
  LS_REQUIRE_OUT(out_iterator);
  LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  const ls_iterator_options none = {0};
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_iterator, self);
  ls_object_init(&self->object, &iterator_type);
  self->work.allocator = allocator;
  self->dataset = ls_dataset_retain(dataset);
  LS_RETURN_IF_ERROR(fill_iterator(self, options != NULL ? options : &none));
  return ls_hand_over(&self, out_iterator);
}

ls_status ls_iterator_let_help(ls_iterator *iterator) {
  const bool alone = iterator->prefetch == 0 &&
                     ls_dataset_is_quick(iterator->dataset) &&
                     ls_runtime_threads(iterator->work.runtime) > 1;
  return alone ? ls_runtime_workers(iterator->work.runtime,
                                    &iterator->work.helpers)
               : ls_ok();
}

LS_COUNTED(ls_iterator)

ls_dataset *ls_iterator_dataset(const ls_iterator *iterator) {
  return iterator->dataset;
}

// ---- Iteration -------------------------------------------------------------
ls_status ls_iterator_next(ls_iterator *iterator, ls_nest *element) {
  LS_REQUIRE(element, iterator);
  LS_RETURN_IF_ERROR(ls_making_check(&iterator->work));
  ls_runtime *runtime = iterator->work.runtime;
  const int64_t began = ls_runtime_now(runtime);
  const ls_status status = ls_ahead_next(iterator->ahead, element);
  iterator->waited_nanos += ls_runtime_now(runtime) - began;
  iterator->elements += ls_status_is_ok(status);
  return status;
}

// Waits until the next element is made. Returns false if `stops` returned true
// first. Without memory for an event does not wait.
static bool wait_for_element(ls_ahead *ahead, bool (*stops)(void *user),
                             void *user) {
  enum { LOOK_NANOS = 5000000 };
  ls_event ready;
  const ls_status made = ls_event_init(&ready);
  ls_status_free(made);
  if (!ls_status_is_ok(made)) return true;
  bool stopped = false;
  if (!ls_ahead_is_ready(ahead, ls_event_set, &ready)) {
    while (!stopped && !ls_event_wait_for(&ready, LOOK_NANOS))
      stopped = stops(user);
    // If the callback cannot be withdrawn, it is just being called.
    if (!stopped || !ls_ahead_withdraw(ahead)) ls_event_wait(&ready);
  }
  ls_event_deinit(&ready);
  return !stopped;
}

bool ls_iterator_wait(ls_iterator *iterator, bool (*stops)(void *user),
                      void *user) {
  if (stops(user)) return false;
  // The check makes threads begin.
  if (ls_ahead_is_ready(iterator->ahead, NULL, NULL) ||
      !ls_ahead_has_threads(iterator->ahead))
    return true;
  ls_runtime *runtime = iterator->work.runtime;
  const int64_t began = ls_runtime_now(runtime);
  const bool ready = wait_for_element(iterator->ahead, stops, user);
  iterator->waited_nanos += ls_runtime_now(runtime) - began;
  return ready;
}

ls_status ls_iterator_seek_epoch(ls_iterator *iterator, int64_t epoch) {
  LS_REQUIRE(iterator);
  LS_RETURN_IF_ERROR(ls_making_check(&iterator->work));
  if (epoch < 0)
    return ls_invalid_argument("there is no epoch %lld: they count from 0",
                               (long long)epoch);
  ls_ahead_seek(iterator->ahead, 0, end_of(iterator));
  iterator->epoch = epoch;
  for (int i = 0; i < LS_ANCHORS; ++i)
    iterator->anchors[i].number = -1;
  return iterator->stage == NULL ? ls_ok()
                                 : ls_stage_restart(iterator->stage, epoch);
}

ls_status ls_iterator_restart(ls_iterator *iterator) {
  LS_REQUIRE(iterator);
  const int64_t epoch = iterator->epoch;
  return ls_iterator_seek_epoch(iterator, epoch == INT64_MAX ? 0 : epoch + 1);
}

int64_t ls_iterator_epoch(const ls_iterator *iterator) {
  return iterator->epoch;
}

int64_t ls_iterator_position(const ls_iterator *iterator) {
  return ls_ahead_number(iterator->ahead);
}

ls_status ls_iterator_seek(ls_iterator *iterator, int64_t position) {
  LS_REQUIRE(iterator);
  LS_RETURN_IF_ERROR(ls_making_check(&iterator->work));
  // The number of a stream's elements may be known, too.
  const int64_t end =
      iterator->stage != NULL ? iterator->dataset->size : end_of(iterator);
  if (position < 0 || (end >= 0 && position > end))
    return ls_invalid_argument(
        "'%s' has no position %lld: there are %lld elements",
        iterator->work.name, (long long)position, (long long)end);
  if (iterator->stage == NULL) {
    ls_ahead_seek(iterator->ahead, position, end);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(iterator, iterator->epoch));
  LS_RETURN_IF_ERROR(ls_stage_skip(iterator->stage, position));
  ls_ahead_seek(iterator->ahead, position, -1);
  return iterator->prefetch == 0 ? ls_ok() : drop_anchor(iterator, position);
}

// ---- Saving ----------------------------------------------------------------
// Hashes the pipeline's description, which may be too long to save.
static int64_t hash_text(const char *text) {
  return (int64_t)ls_hash(text, strlen(text), 0);
}

static ls_status iterator_describe(const ls_iterator *self, char **out_text) {
  ls_text text = {.allocator = self->work.allocator};
  ls_dataset_describe(self->dataset, &text);
  *out_text = ls_text_finish(&text);
  return *out_text == NULL ? ls_out_of_memory() : ls_ok();
}

static ls_status save_identity(const ls_iterator *self, ls_record *record) {
  LS_OWN_MEMORY(self->work.allocator, char, text) = NULL;
  LS_RETURN_IF_ERROR(iterator_describe(self, &text));
  const int64_t hash = hash_text(text);
  if (strlen(text) > MOST_DESCRIBED) text[MOST_DESCRIBED] = '\0';
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "data", text));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "data_hash", hash));
  return ls_record_set_i64(record, "seed", (int64_t)self->work.seed);
}

// Returns the newest anchor not after `position`.
static const ls_anchor *find_anchor(const ls_iterator *self, int64_t position) {
  const ls_anchor *found = NULL;
  for (int i = 0; i < LS_ANCHORS; ++i) {
    const ls_anchor *anchor = &self->anchors[i];
    if (anchor->number < 0 || anchor->number > position) continue;
    if (found == NULL || anchor->number > found->number) found = anchor;
  }
  return found;
}

static ls_status save_stream(ls_iterator *self, ls_record *record) {
  const int64_t position = ls_ahead_number(self->ahead);
  ls_record *inner = NULL;
  LS_RETURN_IF_ERROR(ls_record_add(record, "stream", &inner));
  if (self->prefetch == 0) return ls_stage_save(self->stage, inner);
  ls_ahead_pause(self->ahead);
  const ls_anchor *anchor = find_anchor(self, position);
  // Without an anchor the stage is at the position already, or has not started.
  if (anchor == NULL) return ls_stage_save(self->stage, inner);
  LS_RETURN_IF_ERROR(ls_record_copy(inner, anchor->record));
  return ls_record_set_i64(record, "again", position - anchor->number);
}

ls_status ls_iterator_save(ls_iterator *iterator, ls_record *record) {
  LS_REQUIRE(iterator, record);
  LS_RETURN_IF_ERROR(ls_making_check(&iterator->work));
  LS_RETURN_IF_ERROR(save_identity(iterator, record));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "epoch", iterator->epoch));
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "position", ls_ahead_number(iterator->ahead)));
  return iterator->stage == NULL ? ls_ok() : save_stream(iterator, record);
}

static ls_status check_identity(const ls_iterator *self,
                                const ls_record *record) {
  const char *was = NULL;
  int64_t hash = 0, seed = 0;
  LS_RETURN_IF_ERROR(ls_record_get_text(record, "data", &was));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "data_hash", &hash));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "seed", &seed));
  LS_OWN_MEMORY(self->work.allocator, char, text) = NULL;
  LS_RETURN_IF_ERROR(iterator_describe(self, &text));
  if (hash_text(text) != hash)
    return ls_invalid_argument("the checkpoint's input of '%s' was %s, this "
                               "run's is %s",
                               self->work.name, was, text);
  else if ((uint64_t)seed != self->work.seed)
    return ls_invalid_argument(
        "the checkpoint's input of '%s' was drawn with seed %llu, this run's "
        "with seed %llu",
        self->work.name, (unsigned long long)seed,
        (unsigned long long)self->work.seed);
  return ls_ok();
}

static ls_status restore_stream(ls_iterator *self, const ls_record *record,
                                int64_t position) {
  const ls_record *inner = NULL;
  int64_t again = 0;
  LS_RETURN_IF_ERROR(ls_record_find(record, "stream", &inner));
  ls_status status = ls_stage_get_count(record, "again", &again);
  if (ls_status_code(status) == LS_NOT_FOUND) {
    ls_status_free(status);
    status = ls_ok();
  }
  LS_RETURN_IF_ERROR(status);
  ls_ahead_seek(self->ahead, position, -1);
  for (int i = 0; i < LS_ANCHORS; ++i)
    self->anchors[i].number = -1;
  LS_RETURN_IF_ERROR(ls_stage_restore(self->stage, inner));
  LS_RETURN_IF_ERROR(ls_stage_skip(self->stage, again));
  return self->prefetch == 0 ? ls_ok() : drop_anchor(self, position);
}

ls_status ls_iterator_restore(ls_iterator *iterator, const ls_record *record) {
  LS_REQUIRE(iterator, record);
  LS_RETURN_IF_ERROR(ls_making_check(&iterator->work));
  int64_t epoch = 0, position = 0;
  LS_RETURN_IF_ERROR(check_identity(iterator, record));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "epoch", &epoch));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "position", &position));
  const int64_t end = end_of(iterator);
  if (epoch < 0 || position < 0 || position > INT64_MAX / 4 ||
      (end >= 0 && position > end))
    return ls_invalid_argument("'%s' has no element %lld of epoch %lld",
                               iterator->work.name, (long long)position,
                               (long long)epoch);
  ls_ahead_pause(iterator->ahead);
  const int64_t before = iterator->epoch;
  iterator->epoch = epoch;
  ls_status status = ls_ok();
  if (iterator->stage == NULL)
    ls_ahead_seek(iterator->ahead, position, end);
  else
    status = restore_stream(iterator, record, position);
  iterator->restores += ls_status_is_ok(status);
  if (ls_status_is_ok(status)) return status;
  // After the failure the stages' positions are undefined: goes back to an
  // epoch's start.
  return ls_status_join(status, ls_iterator_seek_epoch(iterator, before));
}

// ---- Statistics ------------------------------------------------------------
ls_status ls_iterator_get_stats(ls_iterator *iterator, ls_iterator_stats *out) {
  LS_REQUIRE(iterator, out);
  ls_work *work = &iterator->work;
  *out = (ls_iterator_stats){.elements = iterator->elements,
                             .waited_nanos = iterator->waited_nanos,
                             .num_stages = work->num_stages,
                             .stages = iterator->stats,
                             .slowest = ""};
  int64_t most = 0;
  ls_mutex_lock(&work->lock);
  for (size_t i = 0; i < work->num_stages; ++i) {
    iterator->stats[i] = (ls_stage_stats){
        .name = work->stages[i]->kind->name,
        .elements = work->counts[i].elements,
        .nanos = work->counts[i].nanos,
        .buffered = __atomic_load_n(&work->buffered[i], __ATOMIC_RELAXED),
        .buffered_bytes =
            __atomic_load_n(&work->buffered_bytes[i], __ATOMIC_RELAXED)};
    if (work->counts[i].nanos <= most) continue;
    most = work->counts[i].nanos;
    out->slowest = work->stages[i]->kind->name;
  }
  ls_mutex_unlock(&work->lock);
  return ls_ok();
}

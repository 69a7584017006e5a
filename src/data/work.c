// SPDX-License-Identifier: Apache-2.0
#include "data/work.h"

#include "base/plain.h"

// ---- The pipeline's data sets ----------------------------------------------
static size_t count_stages(const ls_dataset *dataset) {
  size_t count = 1;
  for (size_t i = 0; i < dataset->num_inputs; ++i)
    count += count_stages(dataset->inputs[i]);
  return count;
}

// Lists inputs first; a data set that occurs twice is listed once.
static void list_stages(ls_work *work, const ls_dataset *dataset) {
  for (size_t i = 0; i < dataset->num_inputs; ++i)
    list_stages(work, dataset->inputs[i]);
  if (ls_work_stage(work, dataset) < 0)
    work->stages[work->num_stages++] = dataset;
}

int ls_work_stage(const ls_work *work, const ls_dataset *dataset) {
  for (size_t i = work->num_stages; i > 0; --i) {
    if (work->stages[i - 1] == dataset) return (int)i - 1;
  }
  return -1;
}

ls_status ls_work_init(ls_work *work, const ls_dataset *dataset,
                       const ls_iterator_options *options) {
  work->runtime = ls_runtime_current();
  if (work->runtime == NULL) return ls_out_of_memory();
  ls_runtime_note_made(work->runtime, LS_MADE_ITERATOR);
  work->allocator = ls_runtime_allocator(work->runtime);
  work->seed = options->seed;
  LS_RETURN_IF_ERROR(ls_mutex_init(&work->lock));
  const char *name = options->name != NULL ? options->name : "iterator";
  const size_t length = strlen(name) + 1;
  const size_t most = count_stages(dataset);
  work->name = ls_allocate(work->allocator, length);
  work->stages = ls_new_array(work->allocator, const ls_dataset *, most);
  work->counts = ls_new_array(work->allocator, ls_stage_count, most);
  work->buffered = ls_new_array(work->allocator, int64_t, most);
  work->buffered_bytes = ls_new_array(work->allocator, int64_t, most);
  if (work->name == NULL || work->stages == NULL || work->counts == NULL ||
      work->buffered == NULL || work->buffered_bytes == NULL)
    return ls_out_of_memory();
  memcpy(work->name, name, length);
  list_stages(work, dataset);
  return ls_runtime_inputs(work->runtime, &work->threads);
}

void ls_work_deinit(ls_work *work) {
  while (work->idle != NULL) {
    ls_fetch *fetch = work->idle;
    work->idle = fetch->next;
    ls_fetch_deinit(fetch);
    ls_release(work->allocator, fetch);
  }
  ls_mutex_deinit(&work->lock);
  ls_release(work->allocator, work->name);
  ls_release(work->allocator, work->stages);
  ls_release(work->allocator, work->counts);
  ls_release(work->allocator, work->buffered);
  ls_release(work->allocator, work->buffered_bytes);
}

// ---- Fetches ---------------------------------------------------------------
static ls_fetch *new_fetch(ls_work *work) {
  ls_fetch *fetch = ls_new(work->allocator, ls_fetch);
  if (fetch == NULL) return NULL;
  ls_fetch_init(fetch, work->allocator, work->seed);
  fetch->work = work;
  fetch->counts =
      ls_new_array(work->allocator, ls_stage_count, work->num_stages);
  if (fetch->counts == NULL) {
    ls_release(work->allocator, fetch);
    return NULL;
  }
  ls_mutex_lock(&work->lock);
  fetch->other = work->all;
  work->all = fetch;
  ls_mutex_unlock(&work->lock);
  return fetch;
}

ls_fetch *ls_work_take_fetch(ls_work *work) {
  ls_mutex_lock(&work->lock);
  ls_fetch *fetch = work->idle;
  if (fetch != NULL) work->idle = fetch->next;
  ls_mutex_unlock(&work->lock);
  if (fetch == NULL) fetch = new_fetch(work);
  if (fetch != NULL) fetch->inner_nanos = 0;
  return fetch;
}

void ls_work_give_fetch(ls_work *work, ls_fetch *fetch) {
  if (fetch == NULL) return;
  ls_mutex_lock(&work->lock);
  for (size_t i = 0; i < work->num_stages; ++i) {
    work->counts[i].elements += fetch->counts[i].elements;
    work->counts[i].nanos += fetch->counts[i].nanos;
    fetch->counts[i] = (ls_stage_count){0};
  }
  fetch->next = work->idle;
  work->idle = fetch;
  ls_mutex_unlock(&work->lock);
}

// ---- Progress reports ------------------------------------------------------
typedef struct longest {
  const ls_dataset *at;
  int64_t since;
} longest;

static void work_look(longest *self, const ls_dataset *const *at,
                      const int64_t *since) {
  const ls_dataset *dataset = __atomic_load_n(at, __ATOMIC_RELAXED);
  const int64_t began = __atomic_load_n(since, __ATOMIC_RELAXED);
  if (dataset == NULL || (self->at != NULL && self->since <= began)) return;
  *self = (longest){dataset, began};
}

// Reports the stage of the fetch that is at work for longest, else the streams'
// stage.
void ls_work_tell(ls_work *work, char *buffer, size_t size) {
  longest found = {0};
  ls_mutex_lock(&work->lock);
  for (const ls_fetch *fetch = work->all; fetch != NULL; fetch = fetch->other)
    work_look(&found, &fetch->at, &fetch->since);
  ls_mutex_unlock(&work->lock);
  if (found.at == NULL) work_look(&found, &work->at, &work->since);
  if (found.at == NULL) {
    ls_format(buffer, size, "iterator '%s', which no input thread works for",
              work->name);
    return;
  }
  const char *title = found.at->title;
  ls_format(buffer, size, "iterator '%s', at work in %s%s%s%s for %.3g s",
            work->name, found.at->kind->name, title != NULL ? " '" : "",
            title != NULL ? title : "", title != NULL ? "'" : "",
            (double)(ls_runtime_now(work->runtime) - found.since) * 1e-9);
}

void ls_work_hold(ls_work *work, const ls_dataset *dataset, int64_t elements,
                  int64_t bytes) {
  const int stage = ls_work_stage(work, dataset);
  if (stage < 0) return;
  __atomic_fetch_add(&work->buffered[stage], elements, __ATOMIC_RELAXED);
  __atomic_fetch_add(&work->buffered_bytes[stage], bytes, __ATOMIC_RELAXED);
}

void ls_work_buffer(ls_work *work, const ls_dataset *dataset, int64_t elements,
                    int64_t bytes) {
  __atomic_fetch_add(&work->runtime->input_buffered, bytes, __ATOMIC_RELAXED);
  ls_work_hold(work, dataset, elements, bytes);
}

// ---- Allowances ------------------------------------------------------------
ls_allowance ls_allowance_of(ls_runtime *runtime, const ls_dataset *dataset) {
  ls_allowance self = {.runtime = runtime, .is_measured = dataset->rows};
  for (size_t i = 0; dataset->rows && i < dataset->num_leaves; ++i)
    self.guess += (int64_t)dataset->row_sizes[i];
  return self;
}

// The guess grows at once with larger elements and shrinks slowly with smaller
// ones.
void ls_allowance_measure(ls_allowance *self, int64_t bytes) {
  self->guess -= self->guess / 8;
  if (bytes > self->guess) self->guess = bytes;
  self->is_measured = true;
}

bool ls_allowance_count(const ls_allowance *self, int64_t bytes, bool must) {
  ls_runtime *runtime = self->runtime;
  const int64_t held =
      __atomic_add_fetch(&runtime->input_buffered, bytes, __ATOMIC_RELAXED);
  if (must || held <= runtime->input_bytes) return true;
  __atomic_sub_fetch(&runtime->input_buffered, bytes, __ATOMIC_RELAXED);
  return false;
}

bool ls_allowance_has_room(const ls_allowance *self) {
  const int64_t held =
      __atomic_load_n(&self->runtime->input_buffered, __ATOMIC_RELAXED);
  return self->is_measured && held + self->guess <= self->runtime->input_bytes;
}

bool ls_allowance_is_small(const ls_allowance *self, int64_t elements) {
  enum { PARTS = 8 };
  return self->is_measured &&
         self->guess <= self->runtime->input_bytes / PARTS / elements;
}

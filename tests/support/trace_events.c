// SPDX-License-Identifier: Apache-2.0
#include "support/trace_events.h"

#include <string.h>

#include "base/memory/allocator.h"
#include "io/json.h"
#include "support/expect.h"

// Times are decimals, so their sums may differ by a rounding.
static const double rounding = 1e-3;

static const char *text_of(const ls_json *object, const char *key) {
  const ls_json *value = object == NULL ? NULL : ls_json_find(object, key);
  return value == NULL ? "" : value->string;
}

static double number_of(const ls_json *object, const char *key, double none) {
  const ls_json *value = object == NULL ? NULL : ls_json_find(object, key);
  return value == NULL ? none : value->number;
}

// A name, of a thread say, stands in the arguments.
static trace_event event_of(const ls_json *object) {
  const ls_json *args = ls_json_find(object, "args");
  assert_int_equal(object->kind, LS_JSON_OBJECT);
  assert_true(number_of(object, "pid", -1) > 0);
  const bool is_name = text_of(object, "ph")[0] == 'M';
  return (trace_event){
      .phase = text_of(object, "ph")[0],
      .thread = (int64_t)number_of(object, "tid", -1),
      .time = number_of(object, "ts", -1),
      .length = number_of(object, "dur", -1),
      .replica = (int64_t)number_of(args, "replica", -1),
      .in_line = number_of(args, "us_in_line", -1),
      .name = is_name ? text_of(args, "name") : text_of(object, "name"),
      .kind = is_name ? text_of(object, "name") : text_of(object, "cat")};
}

bool trace_event_is_within(const trace_event *inner, const trace_event *outer) {
  return inner->time >= outer->time - rounding &&
         inner->time + inner->length <= outer->time + outer->length + rounding;
}

// Spans of a thread come one after another or one in another.
static void expect_nested(const trace_event *a, const trace_event *b) {
  if (a->phase != 'X' || b->phase != 'X' || a->thread != b->thread) return;
  assert_true(a->time >= 0 && a->length >= 0);
  assert_true(a->time + a->length <= b->time + rounding ||
              b->time + b->length <= a->time + rounding ||
              trace_event_is_within(a, b) || trace_event_is_within(b, a));
}

void trace_events_read(trace_events *all, const memory_files *files,
                       const char *path) {
  memset(all, 0, sizeof(*all));
  const memory_file *file = memory_files_find(files, path);
  assert_non_null(file);
  ls_arena_init(&all->arena, ls_allocator_system());
  const ls_json *root = NULL;
  expect_ok(ls_json_parse(&all->arena, path, file->data, file->size, &root));
  const ls_json *at = ls_json_find(root, "traceEvents")->first;
  for (; at != NULL; at = at->next) {
    assert_true(all->count < TRACE_MOST_EVENTS);
    all->items[all->count++] = event_of(at);
  }
  all->lost =
      (int64_t)number_of(ls_json_find(root, "otherData"), "lost_spans", -1);
  for (size_t i = 0; i < all->count; ++i)
    for (size_t k = 0; k < i; ++k)
      expect_nested(&all->items[i], &all->items[k]);
}

void trace_events_drop(trace_events *all) { ls_arena_deinit(&all->arena); }

const trace_event *trace_events_find(const trace_events *all, const char *kind,
                                     const char *name,
                                     const trace_event *behind) {
  for (size_t i = behind == NULL ? 0 : (size_t)(behind - all->items) + 1;
       i < all->count; ++i)
    if (strcmp(all->items[i].kind, kind) == 0 &&
        (name == NULL || strcmp(all->items[i].name, name) == 0))
      return &all->items[i];
  return NULL;
}

const trace_event *trace_events_expect(const trace_events *all,
                                       const char *kind, const char *name) {
  const trace_event *found = trace_events_find(all, kind, name, NULL);
  for (size_t i = 0; found == NULL && i < all->count; ++i)
    print_message("%s '%s'\n", all->items[i].kind, all->items[i].name);
  if (found == NULL) fail_msg("there is no %s '%s'", kind, name);
  return found;
}

size_t trace_events_count(const trace_events *all, const char *kind) {
  size_t count = 0;
  const trace_event *at = NULL;
  while ((at = trace_events_find(all, kind, NULL, at)) != NULL)
    ++count;
  return count;
}

bool trace_events_is_of(const trace_events *all, const trace_event *event,
                        const char *thread) {
  const trace_event *at = NULL;
  while ((at = trace_events_find(all, "thread_name", thread, at)) != NULL)
    if (at->thread == event->thread) return true;
  return false;
}

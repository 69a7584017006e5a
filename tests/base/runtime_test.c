// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime.h"
#include "lockstep/runtime_settings.h"

#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "base/threads/thread_state.h"
#include "base/threads/worker.h"
#include "support/fault.h"

// ---- A replaced world ------------------------------------------------------
typedef struct world {
  char log[4096];  // A line: "level source: text".
  int lines;
  int64_t time;
  const char *variables[8];  // Name, value, name, value, ...; NULL ends.
} world;

static void keep_line(void *user, const ls_log_line *line) {
  world *self = user;
  const size_t used = strlen(self->log);
  snprintf(self->log + used, sizeof(self->log) - used, "%d %s: %s\n",
           (int)line->level, line->source, line->text);
  ++self->lines;
}

static const char *look_up(void *user, const char *name) {
  const world *self = user;
  for (size_t i = 0; self->variables[i] != NULL; i += 2) {
    if (strcmp(self->variables[i], name) == 0) return self->variables[i + 1];
  }
  return NULL;
}

static int64_t fake_now(void *user) { return ((world *)user)->time; }
static int64_t fake_wall(void *user) { return ((world *)user)->time + 7; }
static void fake_sleep(void *user, int64_t nanos) {
  ((world *)user)->time += nanos;
}

static ls_runtime *make_in(world *it, int threads) {
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){
          .log = keep_line,
          .log_user = it,
          .clock = &(ls_clock){fake_now, fake_wall, fake_sleep, it},
          .environment = look_up,
          .environment_user = it,
          .threads = threads},
      &runtime));
  return runtime;
}

// ---- Creation and the current one ------------------------------------------
TEST(options_may_be_left_out) {
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(NULL, &runtime));
  assert_true(ls_runtime_threads(runtime) >= 1);
  assert_ptr_equal(ls_runtime_allocator(runtime), ls_allocator_system());
  ls_runtime_log(runtime, LS_LOG_ERROR, "test", "goes nowhere");
  const int64_t now = ls_runtime_now(runtime);
  ls_runtime_sleep(runtime, 1000000);
  assert_true(ls_runtime_now(runtime) - now >= 1000000);
  ls_runtime_sleep(runtime, -1);
  // Some time after 2020.
  assert_true(ls_runtime_wall(runtime) > INT64_C(1577836800000000000));
  assert_null(ls_runtime_environment(runtime, "LS_NO_SUCH_VARIABLE"));
  assert_non_null(ls_runtime_environment(runtime, "PATH"));
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(absurd_thread_counts_are_refused) {
  ls_runtime *runtime = NULL;
  expect_status(
      ls_runtime_create(&(ls_runtime_options){.threads = -1}, &runtime),
      LS_INVALID_ARGUMENT, "-1 threads");
  expect_status(
      ls_runtime_create(&(ls_runtime_options){.threads = 5000}, &runtime),
      LS_INVALID_ARGUMENT, "4096");
  assert_null(runtime);
}

TEST(a_thread_works_under_the_runtime_it_made_current) {
  ls_runtime *standard = ls_runtime_current();
  assert_non_null(standard);
  assert_ptr_equal(ls_runtime_current(), standard);
  world it = {0};
  ls_runtime *runtime = make_in(&it, 2);
  assert_null(ls_runtime_make_current(runtime));
  assert_ptr_equal(ls_runtime_current(), runtime);
  assert_ptr_equal(ls_runtime_make_current(NULL), runtime);
  assert_ptr_equal(ls_runtime_current(), standard);
  // Destroying the current one leaves the default one current.
  ls_runtime_make_current(runtime);
  expect_ok(ls_runtime_destroy(runtime));
  assert_ptr_equal(ls_runtime_current(), standard);
}

TEST(the_default_runtime_can_be_destroyed_and_made_again) {
  assert_non_null(ls_runtime_current());
  expect_ok(ls_runtime_destroy(NULL));
  expect_ok(ls_runtime_destroy(NULL));  // There is none now.
  ls_runtime *again = ls_runtime_current();
  assert_non_null(again);
  expect_ok(ls_runtime_destroy(again));
  assert_non_null(ls_runtime_current());
  expect_ok(ls_runtime_destroy(NULL));
}

static void find_current(void *user) {
  *(ls_runtime **)user = ls_runtime_current();
}

TEST(threads_agree_on_the_default_runtime) {
  ls_worker threads[4] = {0};
  ls_runtime *found[4] = {0};
  for (int i = 0; i < 4; ++i) {
    expect_ok(ls_worker_start(&threads[i], "t", NULL, find_current, &found[i]));
  }
  for (int i = 0; i < 4; ++i)
    ls_worker_join(&threads[i]);
  for (int i = 0; i < 4; ++i) {
    assert_non_null(found[i]);
    assert_ptr_equal(found[i], found[0]);
  }
  expect_ok(ls_runtime_destroy(NULL));
}

TEST(clock_and_environment_are_replaceable) {
  world it = {.variables = {"HOME", "/nowhere"}};
  ls_runtime *runtime = make_in(&it, 2);
  ls_runtime_sleep(runtime, INT64_C(3600000000000));  // Takes no hour.
  assert_int_equal(ls_runtime_now(runtime), INT64_C(3600000000000));
  assert_int_equal(ls_runtime_wall(runtime), INT64_C(3600000000007));
  assert_string_equal(ls_runtime_environment(runtime, "HOME"), "/nowhere");
  assert_null(ls_runtime_environment(runtime, "PATH"));
  assert_int_equal(ls_runtime_threads(runtime), 2);
  expect_ok(ls_runtime_destroy(runtime));
}

static ls_status lie_about_existence(void *user, const char *path,
                                     bool *out_exists) {
  (void)path;
  *out_exists = *(bool *)user;
  return ls_ok();
}

TEST(the_file_system_is_replaceable) {
  bool answer = true;
  ls_file_system files = *ls_file_system_system();
  files.exists = lie_about_existence;
  files.user = &answer;
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.file_system = &files, .threads = 1}, &runtime));
  const ls_file_system *got = ls_runtime_files(runtime);
  bool exists = false;
  expect_ok(got->exists(got->user, "/no/such/file", &exists));
  assert_true(exists);
  expect_ok(ls_runtime_destroy(runtime));
}

// ---- Log -------------------------------------------------------------------
TEST(lines_reach_the_sink) {
  world it = {0};
  ls_runtime *runtime = make_in(&it, 1);
  ls_runtime_log(runtime, LS_LOG_INFO, "train", "step %d", 7);
  assert_string_equal(it.log, "2 train: step 7\n");
  ls_runtime_log(NULL, LS_LOG_INFO, "train", "nobody");
  char text[2000];
  memset(text, 'x', sizeof(text) - 1);
  text[sizeof(text) - 1] = '\0';
  it.log[0] = '\0';
  ls_runtime_log(runtime, LS_LOG_ERROR, "long", "%s!", text);
  assert_int_equal(strlen(it.log), 1999 + strlen("0 long: !\n"));
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(limited_lines_come_so_often_and_no_more) {
  world it = {0};
  ls_runtime *runtime = make_in(&it, 1);
  for (int i = 0; i < 5; ++i) {
    ls_log_limited(runtime, "once", 1, LS_LOG_WARNING, "a", "once %d", i);
    ls_log_limited(runtime, "thrice", 3, LS_LOG_WARNING, "a", "thrice %d", i);
    ls_log_limited(runtime, "never", 0, LS_LOG_WARNING, "a", "never");
  }
  assert_string_equal(
      it.log, "1 a: once 0\n1 a: thrice 0\n1 a: thrice 1\n1 a: thrice 2\n");
  expect_ok(ls_runtime_destroy(runtime));
  // Another runtime counts for itself.
  it.lines = 0;
  runtime = make_in(&it, 1);
  ls_log_limited(runtime, "once", 1, LS_LOG_WARNING, "a", "once");
  assert_int_equal(it.lines, 1);
  expect_ok(ls_runtime_destroy(runtime));
}

// ---- Slots -----------------------------------------------------------------
static char order[16];
static ls_runtime *current_at_destroy;

static void destroy_slot(void *slot) {
  current_at_destroy = ls_runtime_current();
  strcat(order, slot);
}

TEST(slots_go_from_high_to_low_or_not_at_all) {
  order[0] = '\0';
  world it = {0};
  ls_runtime *runtime = make_in(&it, 1);
  assert_null(ls_runtime_slot(runtime, LS_SLOT_DATA));
  ls_runtime_lock(runtime);
  ls_runtime_lock(runtime);  // A layer may make a lower one's slot.
  ls_runtime_set_slot(runtime, LS_SLOT_GRAPH, "G", destroy_slot);
  ls_runtime_set_slot(runtime, LS_SLOT_TPU, "T", destroy_slot);
  ls_runtime_unlock(runtime);
  ls_runtime_unlock(runtime);
  ls_runtime_set_slot(runtime, LS_SLOT_ENGINE, "E", destroy_slot);
  ls_runtime_set_slot(runtime, LS_SLOT_DATA, "?", NULL);
  assert_string_equal(ls_runtime_slot(runtime, LS_SLOT_ENGINE), "E");
  ls_runtime_note_made(runtime, LS_MADE_VARIABLE);
  expect_status(ls_runtime_destroy(runtime), LS_FAILED_PRECONDITION,
                "release its variables first");
  assert_string_equal(order, "");
  assert_string_equal(ls_runtime_slot(runtime, LS_SLOT_TPU), "T");
  assert_null(ls_this_thread.work.runtime);
  ls_runtime_note_gone(runtime, LS_MADE_VARIABLE);
  expect_ok(ls_runtime_destroy(runtime));
  assert_string_equal(order, "TEG");
  assert_ptr_equal(current_at_destroy, runtime);
}

TEST(a_default_runtime_that_refuses_stays) {
  ls_runtime *standard = ls_runtime_current();
  ls_runtime_note_made(standard, LS_MADE_VARIABLE);
  expect_status(ls_runtime_destroy(NULL), LS_FAILED_PRECONDITION, "");
  assert_ptr_equal(ls_runtime_current(), standard);
  ls_runtime_note_gone(standard, LS_MADE_VARIABLE);
  expect_ok(ls_runtime_destroy(NULL));
}

// ---- Debug switches --------------------------------------------------------
TEST(switches_are_read_from_the_environment) {
  world none = {0};
  ls_runtime *runtime = make_in(&none, 3);
  assert_int_equal(ls_debug_level(runtime, LS_DEBUG_GRAPH), 0);
  assert_false(ls_debug_verify(runtime));
  assert_null(ls_debug_dump_directory(runtime));
  assert_int_equal(ls_debug_isa(runtime), LS_ISA_ANY);
  expect_ok(ls_runtime_destroy(runtime));

  world some = {.variables = {"LS_DEBUG", "graph:2", "LS_DUMP", "dumps",
                              "LS_VERIFY", "1", NULL}};
  runtime = make_in(&some, 3);
  assert_int_equal(ls_debug_level(runtime, LS_DEBUG_GRAPH), 2);
  assert_true(ls_debug_verify(runtime));
  assert_string_equal(ls_debug_dump_directory(runtime), "dumps");
  assert_int_equal(some.lines, 0);
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(threads_from_the_environment_are_a_default) {
  world it = {.variables = {"LS_THREADS", "5", "LS_ISA", "v3", NULL}};
  ls_runtime *runtime = make_in(&it, 0);
  assert_int_equal(ls_runtime_threads(runtime), 5);
  assert_int_equal(ls_debug_isa(runtime), LS_ISA_V3);
  expect_ok(ls_runtime_destroy(runtime));
  runtime = make_in(&it, 2);
  assert_int_equal(ls_runtime_threads(runtime), 2);
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(unreadable_switches_are_reported_and_ignored) {
  static const struct {
    const char *name;
    const char *value;
  } rows[] = {
      {"LS_DEBUG", "grape"},    {"LS_DEBUG", "graph:"},
      {"LS_DEBUG", "graph:10"}, {"LS_DEBUG", "graph:1,"},
      {"LS_DEBUG", ",graph"},   {"LS_DEBUG", "graph:1,x:2"},
      {"LS_DEBUG", "graph:-1"}, {"LS_VERIFY", "yes"},
      {"LS_VERIFY", "2"},       {"LS_FAULT", "7"},
      {"LS_FAULT", "alloc:"},   {"LS_FAULT", "alloc:99999999999999999999"},
      {"LS_THREADS", "0"},      {"LS_THREADS", "two"},
      {"LS_THREADS", "4097"},   {"LS_ISA", "avx"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    world it = {.variables = {rows[i].name, rows[i].value, NULL}};
    ls_runtime *runtime = make_in(&it, 0);
    assert_int_equal(it.lines, 1);
    expect_contains(it.log, "1 debug: ");
    expect_contains(it.log, rows[i].name);
    expect_contains(it.log, rows[i].value);
    assert_int_equal(ls_debug_level(runtime, LS_DEBUG_GRAPH), 0);
    assert_false(ls_debug_verify(runtime));
    assert_int_equal(ls_debug_isa(runtime), LS_ISA_ANY);
    assert_null(runtime->counting);
    expect_ok(ls_runtime_destroy(runtime));
  }
  world empty = {.variables = {"LS_VERIFY", "", "LS_DEBUG", "graph", NULL}};
  ls_runtime *runtime = make_in(&empty, 1);
  assert_int_equal(empty.lines, 0);
  assert_int_equal(ls_debug_level(runtime, LS_DEBUG_GRAPH), 1);
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(a_fault_makes_the_nth_request_fail) {
  world it = {.variables = {"LS_FAULT", "alloc:3", NULL}};
  ls_runtime *runtime = make_in(&it, 1);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  for (int i = 1; i <= 4; ++i) {
    void *memory = ls_allocate(allocator, 10);
    assert_true((memory == NULL) == (i == 3));
    ls_release(allocator, memory);
  }
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(the_help_has_a_line_for_each_switch) {
  static const char *const names[] = {
      "LS_DEBUG=",   "LS_DUMP=", "LS_VERIFY=", "LS_FAULT=",
      "LS_THREADS=", "LS_ISA=",  "area graph"};
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
    expect_contains(ls_debug_switches_help(), names[i]);
  }
}

// ---- Failing memory --------------------------------------------------------
MEMORY_TEST(create_a_runtime) {
  world it = {
      .variables = {"LS_DUMP", "dumps", "LS_FAULT", "alloc:1000", NULL}};
  ls_runtime *runtime = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_create(
      &(ls_runtime_options){.allocator = ls_current_allocator(),
                            .environment = look_up,
                            .environment_user = &it,
                            .threads = 2},
      &runtime));
  ls_workers *workers = NULL;
  ls_status status = ls_runtime_workers(runtime, &workers);
  ls_log_limited(runtime, "key", 1, LS_LOG_INFO, "a", "b");
  ls_status gone = ls_runtime_destroy(runtime);
  assert_null(gone);
  return status;
}

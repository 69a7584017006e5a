// SPDX-License-Identifier: Apache-2.0
//
// Folders of exports, and what is refused.
#include "lockstep/serving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "lockstep/lockstep.h"
#include "support/counted.h"
#include "support/served_model.h"
#include "support/spec.h"

// ---- Folders ---------------------------------------------------------------
typedef struct hands {
  int64_t seconds;
  int sleeps;
} hands;
static int64_t clock_now(void *user) {
  return ((hands *)user)->seconds * 1000000000;
}
static void clock_sleep(void *user, int64_t nanos) {
  hands *h = user;
  assert_int_equal(nanos, 1000000000);
  ++h->seconds;
  ++h->sleeps;
}

static void log_line(void *user, const ls_log_line *line) {
  char *text = user;
  const size_t size = strlen(text);
  snprintf(text + size, 4000 - size, "%d %s\n", (int)line->level, line->text);
}

static void take_second(int64_t second) {
  char path[100];
  snprintf(path, sizeof(path), "mkdir '%s/%lld'", served_folder,
           (long long)second);
  assert_int_equal(system(path), 0);
}

TEST(a_folder_that_is_there_is_waited_for) {
  LS_SPEC("E196");
  served_make_folder();
  hands h = {.seconds = 1700000000};
  const ls_clock clock = {clock_now, clock_now, clock_sleep, &h};
  static char log[4000];
  log[0] = '\0';
  const counted c = counted_begin_with(
      (ls_runtime_options){.clock = &clock, .log = log_line, .log_user = log});
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  char *path = NULL, wanted[100];
  expect_ok(ls_serving_export(&r.options, &path));
  snprintf(wanted, sizeof(wanted), "%s/1700000000", served_folder);
  assert_string_equal(path, wanted);
  assert_int_equal(h.sleeps, 0);
  ls_text_release(path);
  take_second(1700000001);
  expect_ok(ls_serving_export(&r.options, &path));
  snprintf(wanted, sizeof(wanted), "%s/1700000002", served_folder);
  assert_string_equal(path, wanted);
  assert_int_equal(h.sleeps, 2);
  expect_contains(log, "1 '");
  ls_text_release(path);
  for (int64_t i = 3; i < 12; ++i)
    take_second(1700000000 + i);
  h.sleeps = 0;
  expect_status(ls_serving_export(&r.options, &path), LS_FAILED_PRECONDITION,
                "in 10 tries");
  assert_int_equal(h.sleeps, 9);
  assert_null(path);
  served_drop(&r);
  served_close_model(&m);
  counted copy = c;
  counted_end(&copy);
  served_remove_folder(served_folder);
}

TEST(what_a_killed_export_left_is_removed) {
  LS_SPEC("E196");
  served_make_folder();
  hands h = {.seconds = 1700000000};
  const ls_clock clock = {clock_now, clock_now, clock_sleep, &h};
  LS_OWN(counted, c) =
      counted_begin_with((ls_runtime_options){.clock = &clock});
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  // The numbers of processes end far below 2^30.
  const struct {
    long long second;
    long process;
    const char *rest;
    bool stays;
  } rows[] = {{1600000000, 1 << 30, "1", false},
              {1600000000, 1 << 30, "2", false},
              {1699990000, 1 << 30, "1", true},
              {1600000000, (long)getpid(), "1", true},
              {1600000000, 1 << 30, "1.mine", true}};
  char name[5][80], path[400];
  for (size_t i = 0; i < 5; ++i) {
    snprintf(name[i], sizeof(name[i]), "temp-%lld-%ld-%s", rows[i].second,
             rows[i].process, rows[i].rest);
    snprintf(path, sizeof(path), "mkdir -p %s/%s/inner && : >%s/%s/inner/file",
             served_folder, name[i], served_folder, name[i]);
    assert_int_equal(system(path), 0);
  }
  char *made = NULL;
  expect_ok(ls_serving_export(&r.options, &made));
  for (size_t i = 0; i < 5; ++i)
    assert_int_equal(served_is_there(served_folder, name[i]), rows[i].stays);
  ls_text_release(made);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

// Another export begins and ends while a folder is made, in the same second.
typedef struct rival {
  const ls_serving_options *options;
  bool has_begun;
  char *path;
} rival;

static ls_status make_after_rival(void *user, const char *path) {
  rival *other = user;
  if (!other->has_begun) {
    other->has_begun = true;
    expect_ok(ls_serving_export(other->options, &other->path));
  }
  const ls_file_system *files = ls_file_system_system();
  return files->make_directories(files->user, path);
}

TEST(exports_of_one_second_are_kept_apart) {
  served_make_folder();
  hands h = {.seconds = 1700000000};
  rival other = {.path = NULL};
  const ls_clock clock = {clock_now, clock_now, clock_sleep, &h};
  ls_file_system files = *ls_file_system_system();
  files.user = &other;
  files.make_directories = make_after_rival;
  LS_OWN(counted, c) = counted_begin_with(
      (ls_runtime_options){.clock = &clock, .file_system = &files});
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  other.options = &r.options;
  char *path = NULL;
  expect_ok(ls_serving_export(&r.options, &path));
  assert_int_equal(h.sleeps, 1);
  assert_string_not_equal(path, other.path);
  assert_true(served_is_there(path, "variables.safetensors"));
  assert_true(served_is_there(other.path, "variables.safetensors"));
  ls_text_release(path);
  ls_text_release(other.path);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

TEST(assets_lie_beside_the_program) {
  LS_SPEC("E196");
  served_make_folder();
  char source[100];
  snprintf(source, sizeof(source), "%s/words", served_folder);
  FILE *file = fopen(source, "w");
  assert_non_null(file);
  fputs("a b c", file);
  fclose(file);
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  ls_serving_asset assets[] = {{"words.txt", source}, {"more/words", source}};
  r.options.assets = assets;
  r.options.num_assets = 2;
  char *path = NULL;
  expect_ok(ls_serving_export(&r.options, &path));
  assert_true(served_is_there(path, "assets.extra/words.txt"));
  assert_true(served_is_there(path, "assets.extra/more/words"));
  ls_text_release(path);
  static const char *const bad[] = {"", "/x", "../x", "a//b", "a/./b", "a/.."};
  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); ++i) {
    assets[0].name = bad[i];
    expect_status(ls_serving_export(&r.options, &path), LS_INVALID_ARGUMENT,
                  "inside assets.extra");
  }
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

TEST(what_failed_leaves_nothing) {
  served_make_folder();
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  const ls_serving_asset assets[] = {{"sub/words.txt", "no-such-file"}};
  r.options.assets = assets;
  r.options.num_assets = 1;
  char *path = NULL;
  expect_status(ls_serving_export(&r.options, &path), LS_NOT_FOUND,
                "asset 'sub/words.txt'");
  assert_true(served_is_empty(served_folder));
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

// A rename that is made, but not kept safely: the first one.
static ls_status rename_unsafely(void *user, const char *from, const char *to) {
  bool *failed = user;
  const ls_file_system *files = ls_file_system_system();
  LS_RETURN_IF_ERROR(files->rename(files->user, from, to));
  if (*failed) return ls_ok();
  *failed = true;
  return LS_STATUS(LS_UNAVAILABLE, "cannot sync '%s'", to);
}

TEST(a_folder_whose_name_is_not_kept_is_removed) {
  served_make_folder();
  bool failed = false;
  ls_file_system files = *ls_file_system_system();
  files.user = &failed;
  files.rename = rename_unsafely;
  LS_OWN(counted, c) =
      counted_begin_with((ls_runtime_options){.file_system = &files});
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  char *path = NULL;
  expect_status(ls_serving_export(&r.options, &path), LS_UNAVAILABLE,
                "cannot sync");
  assert_true(served_is_empty(served_folder));
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

// ---- Signatures ------------------------------------------------------------
TEST(signatures_that_cannot_serve_are_left_out) {
  LS_SPEC("E196");
  served_make_folder();
  static char log[4000];
  log[0] = '\0';
  counted c = counted_begin_with(
      (ls_runtime_options){.log = log_line, .log_user = log});
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  const ls_nest value = served_dict_of("value", ls_leaf(m.y));
  const ls_serving_signature signatures[] = {
      {{"a", LS_EXPORT_REGRESSION, value}, r.inputs},
      {{"b", LS_EXPORT_CLASSIFICATION, value}, r.inputs},
      {{"c", LS_EXPORT_REGRESSION, r.outputs}, r.inputs}};
  r.graph.signatures = signatures;
  r.graph.num_signatures = 3;
  char *path = NULL;
  expect_ok(ls_serving_export(&r.options, &path));
  expect_contains(log, "1 signature 'b' (classification) is left out");
  expect_contains(log, "1 signature 'c' (regression) is left out");
  ls_serving *s = NULL;
  ls_serving_info info;
  expect_ok(ls_serving_load(path, NULL, &s));
  assert_int_equal(ls_serving_num_signatures(s), 1);
  expect_ok(ls_serving_signature_info(s, 0, &info));
  assert_int_equal(info.kind, LS_EXPORT_REGRESSION);
  ls_nest outputs = ls_none();
  expect_status(ls_serving_run(s, NULL, ls_none(), &outputs), LS_NOT_FOUND,
                "'serving_default'; there are: 'a'");
  expect_status(ls_serving_run(s, "a", ls_none(), &outputs),
                LS_INVALID_ARGUMENT, "dict");
  ls_serving_destroy(s);
  ls_text_release(path);
  assert_null(strstr(log, "no signature that can serve"));
  r.graph.num_signatures = 0;
  r.options.base = "other-export";
  expect_ok(ls_serving_export(&r.options, &path));
  expect_contains(log, "1 the export of graph 'model' has no signature");
  ls_text_release(path);
  ls_nest_release(value);
  served_drop(&r);
  served_close_model(&m);
  counted_end(&c);
  served_remove_folder(served_folder);
  served_remove_folder("other-export");
}

static void expect_refused(const served_request *r, ls_code code,
                           const char *what) {
  char *path = NULL;
  expect_status(ls_serving_export(&r->options, &path), code, what);
  assert_null(path);
  assert_true(served_is_empty(served_folder));
}

TEST(signatures_that_do_not_fit_are_refused) {
  served_make_folder();
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  r.signature.inputs = ls_none();
  expect_refused(&r, LS_INVALID_ARGUMENT, "needs placeholder 'x'");
  const ls_nest inner = served_dict_of("y", ls_leaf(m.y));
  r.signature.inputs = inner;
  expect_refused(&r, LS_INVALID_ARGUMENT, "must be a placeholder");
  r.signature.inputs = r.inputs;
  const ls_serving_signature twice[] = {r.signature, r.signature};
  r.graph.signatures = twice;
  r.graph.num_signatures = 2;
  expect_refused(&r, LS_INVALID_ARGUMENT, "two signatures 'serving_default'");
  r.graph.signatures = &r.signature;
  r.graph.num_signatures = 1;
  const char *tag = "a/b";
  r.graph.tags = &tag;
  r.graph.num_tags = 1;
  expect_refused(&r, LS_INVALID_ARGUMENT, "tag 'a/b'");
  r.graph.tags = NULL;
  r.graph.num_tags = 0;
  const ls_serving_graph graphs[] = {r.graph, r.graph};
  r.options.graphs = graphs;
  r.options.num_graphs = 2;
  expect_refused(&r, LS_INVALID_ARGUMENT, "have the tags 'serve'");
  r.options.graphs = &r.graph;
  r.options.num_graphs = 1;
  r.signature.output.kind = (ls_export_kind)7;
  expect_refused(&r, LS_INVALID_ARGUMENT, "has kind 7");
  r.signature.output.kind = LS_EXPORT_PREDICT;
  r.graph.graph = NULL;
  expect_refused(&r, LS_INVALID_ARGUMENT, "build graph");
  ls_nest_release(inner);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

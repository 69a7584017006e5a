// SPDX-License-Identifier: Apache-2.0
// Exporters: which models they export, and what they keep.
#include <stdlib.h>
#include <sys/stat.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "estimator/own.h"
#include "lockstep/events.h"
#include "support/estimators.h"
#include "support/waits.h"

TEST(exporters_that_cannot_be_are_refused) {
  LS_SPEC("E206 E208");
  const ls_receiver_function receiver = {.call = waits_receive};
  static const char *const names[] = {NULL, "", "a/b", ".."};
  ls_exporter *exporter = NULL;
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    expect_status(
        ls_exporter_create(
            &(ls_exporter_options){.name = names[i], .receiver = receiver},
            &exporter),
        LS_INVALID_ARGUMENT, "name");
  for (int64_t keep = 0; keep > -2; --keep)
    expect_status(
        ls_exporter_create(&(ls_exporter_options){.name = "a",
                                                  .receiver = receiver,
                                                  .keep = LS_SOME(keep)},
                           &exporter),
        LS_INVALID_ARGUMENT, "give 1 or more");
  expect_status(
      ls_exporter_create(&(ls_exporter_options){.name = "a"}, &exporter),
      LS_INVALID_ARGUMENT, "receiver_fn");
  expect_status(ls_exporter_create(&(ls_exporter_options){.name = "a",
                                                          .receiver = receiver,
                                                          .events = "e"},
                                   &exporter),
                LS_INVALID_ARGUMENT, "events");
  assert_null(exporter);
}

// ---- Exporters -------------------------------------------------------------
// Whether it exports a model of this loss.
static bool exports(ls_exporter *exporter, estimator_case *c, int64_t step,
                    double loss, bool is_final) {
  LS_OWN(printed, path) = NULL;
  struct stat there;
  LS_OWN(ls_nest, metrics) =
      ls_nest_dict("", (const char *const[]){"loss", "global_step"},
                   (ls_nest[]){ls_nest_f64(loss), ls_nest_i64(step)}, 2);
  expect_ok(ls_exporter_export(
      exporter, c->estimator,
      &(ls_exporter_call){.metrics = metrics, .is_final = is_final}, &path));
  const bool did = path != NULL;
  if (did) assert_int_equal(stat(path, &there), 0);  // Others go.
  return did;
}

TEST(exporters_choose_and_keep) {
  LS_SPEC("E208");
  LS_OWN_BEGUN(waits, w, waits_begin, NULL);
  LS_OWN(estimator_case, c) = {.folder = "chosen", .repeats = true};
  estimator_case_begin(&c);
  estimator_case_train(&c, 2);
  LS_OWN(ls_exporter, final) = waits_exporter(
      (ls_exporter_options){.kind = LS_EXPORTER_FINAL, .name = "final"});
  LS_OWN(ls_exporter, latest) =
      waits_exporter((ls_exporter_options){.name = "latest"});
  LS_OWN(ls_exporter, best) = waits_exporter(
      (ls_exporter_options){.kind = LS_EXPORTER_BEST, .name = "best"});
  static const double losses[] = {5, 7, 4, 4, 6, 3, 2.5, 2, 1.5, 1};
  static const bool is_best[] = {1, 0, 1, 0, 0, 1, 1, 1, 1, 1};
  for (int i = 0; i < 10; ++i) {
    assert_int_equal(exports(final, &c, i, losses[i], i == 9), i == 9);
    assert_true(exports(latest, &c, i, losses[i], i == 9));
    assert_int_equal(exports(best, &c, i, losses[i], i == 9), is_best[i]);
  }
  assert_int_equal(waits_count_in("chosen/export/final"), 1);
  assert_int_equal(waits_count_in("chosen/export/latest"), 5);
  assert_int_equal(waits_count_in("chosen/export/best"), 5);
}

TEST(the_best_of_one_estimator_is_not_that_of_another) {
  LS_SPEC("E208");
  LS_OWN_BEGUN(waits, w, waits_begin, NULL);
  LS_OWN(ls_exporter, best) = waits_exporter(
      (ls_exporter_options){.kind = LS_EXPORTER_BEST, .name = "best"});
  static const char *const folders[] = {"one", "other"};
  for (int i = 0; i < 2; ++i) {
    LS_OWN(estimator_case, c) = {.folder = folders[i], .repeats = true};
    estimator_case_begin(&c);
    estimator_case_train(&c, 2);
    assert_true(exports(best, &c, 1, 3 + 2 * i, false));
    assert_true(exports(best, &c, 2, 2 + 2 * i, false));
    assert_false(exports(best, &c, 3, 3 + 2 * i, false));
  }
}

// What an export has a link to is somebody else's.
TEST(an_export_goes_without_what_it_links_to) {
  LS_OWN_BEGUN(waits, w, waits_begin, NULL);
  LS_OWN(estimator_case, c) = {.folder = "linked", .repeats = true};
  estimator_case_begin(&c);
  estimator_case_train(&c, 2);
  LS_OWN(ls_exporter, latest) = waits_exporter(
      (ls_exporter_options){.name = "latest", .keep = LS_SOME(1)});
  assert_true(exports(latest, &c, 1, 1, false));
  assert_int_equal(
      system("mkdir linked/others && touch linked/others/file && "
             "ln -s ../../../others \"$(echo linked/export/latest/*)\""),
      0);
  assert_true(exports(latest, &c, 2, 1, false));
  assert_int_equal(waits_count_in("linked/export/latest"), 1);
  assert_int_equal(system("test ! -e linked/export/latest/*/others && "
                          "test -e linked/others/file"),
                   0);
}

static void write_loss(const char *folder, int64_t step, double loss) {
  ls_event_writer *writer = NULL;
  expect_ok(ls_event_writer_open(
      &(ls_event_writer_options){.folder = folder, .first_step = INT64_MAX},
      &writer));
  expect_ok(ls_event_writer_scalar(writer, "loss", step, loss));
  expect_ok(ls_event_writer_close(writer));
}

static bool is_higher(void *user, ls_nest best, ls_nest metrics) {
  ++*(int *)user;
  return estimator_metric(metrics, "loss") > estimator_metric(best, "loss");
}

TEST(the_best_so_far_is_in_event_files) {
  LS_SPEC("E208");
  int asked = 0;
  LS_OWN_BEGUN(waits, w, waits_begin, NULL);
  LS_OWN(estimator_case, c) = {.folder = "recovered", .repeats = true};
  estimator_case_begin(&c);
  estimator_case_train(&c, 2);
  write_loss("recovered/eval", 1, 3);
  write_loss("recovered/eval", 2, 5);
  const ls_exporter_options o = {.kind = LS_EXPORTER_BEST, .name = "best"};
  // The first one there is, whatever was before; it is not the best.
  ls_exporter *first = waits_exporter(o);
  assert_true(exports(first, &c, 3, 4, false));
  assert_false(exports(first, &c, 4, 3.5, false));
  ls_exporter_destroy(first);
  // Another process.
  write_loss("recovered/eval", 5, 3.25);
  ls_exporter *second = waits_exporter(o);
  assert_false(exports(second, &c, 5, 3.25, false));
  assert_true(exports(second, &c, 6, 2, false));
  ls_exporter_destroy(second);
  write_loss("recovered-other", 1, 9);
  LS_OWN(ls_exporter, other) =
      waits_exporter((ls_exporter_options){.kind = LS_EXPORTER_BEST,
                                           .name = "best",
                                           .is_better = is_higher,
                                           .user = &asked,
                                           .events = "recovered-other"});
  assert_false(exports(other, &c, 7, 8, false));
  assert_true(exports(other, &c, 8, 10, false));
  assert_true(asked > 0);
}

// SPDX-License-Identifier: Apache-2.0
// A feed of an estimator, on a virtual pod: what an input function makes, and
// what comes to the cores when the feed's ops are run.
#ifndef LS_TESTS_SUPPORT_FED_H_
#define LS_TESTS_SUPPORT_FED_H_

#include "base/memory/own.h"
#include "estimator/input/input.h"
#include "support/counted.h"
#include "support/expect.h"

typedef struct fed_facts {
  const char *pod;  // "virtual:2x2,cores=1,hosts=2": a core a chip.
  ls_estimator_mode mode;
  int64_t batch;  // Of all replicas.
  ls_tpu_config tpu;
  ls_input_feed_options options;
  ls_opt seed;
  bool not_on_cores;
  ls_nest (*input)(void *user, ls_input_call *call);
  void *user;
} fed_facts;

enum { FED_CALLS = 32 };

typedef struct fed {
  counted runtime;
  fed_facts facts;
  ls_run_config *config;
  ls_tpu_resolver *resolver;
  ls_graph *graph;
  ls_scope scope;
  ls_session *session;
  ls_input_function function;
  ls_plans *plans;
  ls_estimator_calls calls;
  ls_input_feed feed;
  // What the input function was called with.
  int num_calls;
  struct {
    int64_t batch_size;
    ls_estimator_mode mode;
    ls_input_deployment at;
    char scope[80];
  } seen[FED_CALLS];
  int warnings, infos;
  char last_warning[300], infos_text[2000];
} fed;

// A runtime, a configuration, its plan where it has one, and an empty graph,
// which is current.
void fed_open(fed *self, fed_facts facts);
void fed_close(fed *self);
LS_OWNED_STRUCT(fed, fed_close)
// Makes the feed.
ls_status fed_make(fed *self);
// Both.
void fed_begin(fed *self, fed_facts facts);
// Making it is refused so.
void fed_refused(fed_facts facts, ls_code code, const char *says);

// Runs the feed's ops, in a session that is made at the first run.
ls_status fed_run(fed *self, int64_t iterations);
// The next tuple of a core: a tuple of arrays, the caller's.
ls_nest fed_take(fed *self, int host, int ordinal);
// The same, as users know it.
ls_feed_element fed_values(fed *self, ls_nest tuple);
// Expects that the rows of the features' first leaf are these numbers.
void fed_expect(fed *self, int host, int ordinal, const double *rows,
                size_t count);
#define FED_EXPECT(self, host, ordinal, ...)                                   \
  fed_expect((self), (host), (ordinal), (const double[]){__VA_ARGS__},         \
             sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

// Rows 0 to count - 1, f32 scalars, in batches of that size.
ls_dataset *fed_rows(int64_t count, int64_t batch);
// An input of 10 rows, in batches of the call's size.
ls_nest ten_fed_rows(void *user, ls_input_call *call);

#endif  // LS_TESTS_SUPPORT_FED_H_

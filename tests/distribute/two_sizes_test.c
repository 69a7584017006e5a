// SPDX-License-Identifier: Apache-2.0
//
// Strategies of other numbers of replicas in one program: each gives what it
// does in a program of its own, whatever they do for each other, on all ways to
// run them, threads and ranks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "graph/own.h"
#include "lockstep/communicator.h"
#include "lockstep/flow.h"
#include "lockstep/session.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/parties.h"
#include "support/place.h"
#include "support/sanitizer.h"
#include "support/values.h"

enum { MOST_SIZES = 3, MOST_LEAVES = 128, MOST_BYTES = 1 << 16 };

// ---- What they do together -------------------------------------------------
typedef struct world {
  const struct scene *scene;
  party parties[MOST_SIZES];
  size_t count;
  ls_nest leaves[MOST_LEAVES];
  size_t num_leaves;
  ls_status status;
} world;

typedef struct scene {
  const char *name;
  void (*play)(world *w, ls_tensor rows, ls_tensor factor);
} scene;

static void note_status(world *w, ls_status status) {
  if (ls_status_is_ok(w->status))
    w->status = status;
  else
    ls_status_free(status);
}

static void give(world *w, ls_nest leaf) {
  assert_true(w->num_leaves < MOST_LEAVES);
  w->leaves[w->num_leaves++] = leaf;
}

// Runs a party's step. The replicas' own values, which are the caller's.
static ls_nest run(world *w, party *p, ls_tensor rows, ls_tensor factor,
                   bool gives) {
  ls_nest own = ls_none();
  LS_OWN(ls_nest, results) = ls_none();
  ls_status status = party_run(p, rows, factor, &results);
  for (int32_t r = 0; gives && r < p->replicas && ls_status_is_ok(status);
       ++r) {
    ls_nest one = ls_none(), leaves[3];
    status = ls_strategy_replica_result(p->strategy, results, r, &one);
    if (!ls_status_is_ok(status)) break;
    const size_t count = ls_nest_flatten(one, leaves, 3);
    for (size_t i = 0; i < count; ++i)
      give(w, ls_nest_retain(leaves[i]));
    ls_nest_release(one);
  }
  if (ls_status_is_ok(status)) own = ls_nest_retain(ls_nest_item(results, 0));
  note_status(w, status);
  return own;
}

// The same; the mean of what replicas have, to go on with.
static ls_tensor run_to_mean(world *w, party *p, ls_tensor rows,
                             ls_tensor factor, bool gives) {
  LS_OWN(ls_nest, own) = run(w, p, rows, factor, gives);
  LS_OWN(ls_nest, mean) = ls_none();
  note_status(w, ls_strategy_reduce(p->strategy, LS_REDUCE_MEAN, own, &mean));
  return party_tensor(mean);
}

static void one_behind_the_other(world *w, ls_tensor rows, ls_tensor factor) {
  for (int k = 0; k < 2; ++k)
    for (size_t i = 0; i < w->count; ++i)
      ls_nest_release(run(w, &w->parties[i], rows, factor, true));
}

static void handed_on(world *w, ls_tensor rows, ls_tensor factor) {
  for (int k = 0; k < 2; ++k)
    for (size_t i = 0; i < w->count; ++i)
      factor = run_to_mean(w, &w->parties[i], rows, factor, true);
  give(w, ls_leaf(factor));
}

typedef struct inside {
  world *w;
  ls_tensor rows, factor;
  size_t first;
} inside;

static ls_nest below_two(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I32, 2)));
}

static ls_nest play_round(ls_nest values, void *user) {
  const inside *in = user;
  ls_tensor factor = ls_nest_tensor(values, 1);
  for (size_t i = 0; i < in->w->count; ++i)
    factor = run_to_mean(in->w, &in->w->parties[i], in->rows, factor, false);
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                  ls_leaf(factor));
}

static void in_a_loop(world *w, ls_tensor rows, ls_tensor factor) {
  inside in = {.w = w, .rows = rows};
  LS_OWN(ls_nest, last) = ls_while(
      below_two, play_round, &in,
      LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(factor)), 0);
  note_status(w, ls_nest_status(last));
  if (!ls_nest_is_failed(last)) give(w, ls_nest_retain(ls_nest_item(last, 1)));
}

static ls_nest play_first(ls_nest args, void *user) {
  (void)args;
  const inside *in = user;
  return ls_leaf(
      run_to_mean(in->w, &in->w->parties[0], in->rows, in->factor, false));
}

static ls_nest play_others(ls_nest args, void *user) {
  (void)args;
  const inside *in = user;
  ls_tensor factor = in->factor;
  for (size_t i = 1; i < in->w->count; ++i)
    factor = run_to_mean(in->w, &in->w->parties[i], in->rows, factor, false);
  return ls_leaf(factor);
}

// Each branch is taken once.
static void in_branches(world *w, ls_tensor rows, ls_tensor factor) {
  for (int k = 0; k < 2; ++k) {
    inside in = {.w = w, .rows = rows, .factor = factor};
    const ls_tensor sum = ls_reduce_sum(ls_mul(factor, factor), LS_ALL_AXES);
    const ls_tensor zero = ls_scalar(LS_DTYPE_F32, 0);
    const ls_nest made =
        ls_cond(k == 0 ? ls_greater(sum, zero) : ls_less(sum, zero), play_first,
                play_others, &in);
    note_status(w, ls_nest_status(made));
    if (ls_nest_is_failed(made)) return;
    factor = made.as.tensor;
    give(w, made);
  }
}

static const scene scenes[] = {{"one behind the other", one_behind_the_other},
                               {"handed on", handed_on},
                               {"in a loop", in_a_loop},
                               {"in branches", in_branches}};

// ---- Ways to run it --------------------------------------------------------
typedef enum way {
  WAY_APART,
  WAY_ONE,
  WAY_ONE_PLAIN,
  WAY_SESSION,
  NUM_WAYS
} way;

static const char *const way_names[] = {"a program each", "one function",
                                        "one function, plain callbacks",
                                        "a session"};

// What came out of a run, on one rank.
typedef struct outcome {
  char *bytes;
  size_t size;
} outcome;

enum { MOST_RANKS = 3 };

typedef struct job {
  const scene *scene;
  const int32_t *sizes;
  way way;
  const place *where;
  outcome out[MOST_RANKS];
  party_call calls[PARTY_MOST_CALLS];
  size_t num_calls;
} job;

static void begin_world(world *w, const job *work) {
  *w = (world){.scene = work->scene};
  for (; w->count < MOST_SIZES && work->sizes[w->count] > 0; ++w->count) {
    party *p = &w->parties[w->count];
    party_make(p, (int32_t)w->count, work->sizes[w->count]);
    p->is_plain = work->way == WAY_ONE_PLAIN;
  }
}

static void end_world(world *w) {
  for (size_t i = 0; i < w->count; ++i)
    party_drop(&w->parties[i]);
}

static ls_array *rows_array(void) {
  return array_of_numbers(LS_DTYPE_F32, LS_SHAPE(PARTY_ROWS, PARTY_WIDTH), 77);
}

static ls_array *factor_array(void) {
  return array_of_numbers(LS_DTYPE_F32, LS_SHAPE(PARTY_WIDTH), 78);
}

// What the scene gives, as a list; the caller's.
static ls_nest play(ls_nest args, void *user) {
  world *w = user;
  w->num_leaves = 0;
  w->status = ls_ok();
  w->scene->play(w, party_tensor(ls_nest_item(args, 0)),
                 party_tensor(ls_nest_item(args, 1)));
  const ls_nest made = ls_nest_sequence(LS_KIND_LIST, w->leaves, w->num_leaves);
  if (ls_status_is_ok(w->status)) return made;
  ls_nest_release(made);
  return ls_fail(w->status);
}

static void record(outcome *out, ls_array *array) {
  const size_t size = ls_array_size(array);
  assert_true(out->size + size <= MOST_BYTES);
  memcpy(out->bytes + out->size, ls_array_data(array), size);
  out->size += size;
}

static void record_leaf(outcome *out, ls_nest leaf) {
  ls_array *array = ls_nest_as_array(leaf);
  if (array != NULL) {
    record(out, array);
    return;
  }
  expect_ok(ls_tensor_value(leaf.as.tensor, &array));
  record(out, array);
  ls_array_release(array);
}

static void record_results(outcome *out, ls_nest results) {
  for (size_t i = 0; i < ls_nest_count(results); ++i)
    record_leaf(out, ls_nest_item(results, i));
}

// Of each component.
static void record_variables(outcome *out, const world *w,
                             ls_session *session) {
  for (size_t i = 0; i < 2 * w->count; ++i) {
    const party *p = &w->parties[i / 2];
    ls_variable *v = i % 2 == 0 ? p->weights : p->sums;
    const size_t parts = ls_variable_num_components(v);
    for (size_t c = 0; c < (parts == 0 ? 1 : parts); ++c) {
      ls_variable *part = parts == 0 ? v : ls_variable_component(v, c);
      LS_OWN(ls_array, array) = NULL;
      expect_ok(session == NULL
                    ? ls_variable_value(part, &array)
                    : ls_session_variable_value(session, part, &array));
      record(out, array);
    }
  }
}

enum { TIMES = 2 };

static ls_status call_world(world *w, way how, outcome *out) {
  ls_function *function = NULL;
  ls_nest results = ls_none();
  ls_status status = ls_ok();
  if (how != WAY_APART)
    expect_ok(ls_function_create(
        &(ls_function_options){.call = play, .user = w}, &function));
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(rows_array()), ls_nest_array(factor_array()));
  for (int k = 0; k < TIMES && ls_status_is_ok(status); ++k) {
    expect_ok(ls_frame_begin());
    if (function != NULL) {
      status = ls_function_call(function, args, &results);
    } else {
      ls_nest_release(results);
      results = play(args, w);
      status = ls_nest_status(results);
    }
    if (ls_status_is_ok(status)) record_results(out, results);
    expect_ok(ls_frame_end(NULL));
  }
  ls_nest_release(results);
  ls_function_release(function);
  if (ls_status_is_ok(status)) record_variables(out, w, NULL);
  return status;
}

static ls_status run_world(const job *work, outcome *out) {
  HEAP(world, w) = calloc(1, sizeof(*w));
  begin_world(w, work);
  const ls_status status = call_world(w, work->way, out);
  end_world(w);
  return status;
}

static ls_status run_session(const job *work, outcome *out) {
  HEAP(world, w) = calloc(1, sizeof(*w));
  ls_session *session = NULL;
  ls_nest fetches = ls_none(), results = ls_none();
  ls_tensor inputs[2];
  ls_op init = {0};
  LS_OWN(ls_graph, graph) = graph_named("both");
  {
    LS_GRAPH_SCOPE(graph);
    begin_world(w, work);
    inputs[0] =
        ls_placeholder(LS_DTYPE_F32, LS_SHAPE(PARTY_ROWS, PARTY_WIDTH), "rows");
    inputs[1] = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(PARTY_WIDTH), "factor");
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(inputs[0]), ls_leaf(inputs[1]));
    fetches = play(args, w);
    init = ls_global_initializer();
  }
  ls_status status = ls_nest_status(fetches);
  if (ls_status_is_ok(status)) status = ls_graph_take_error(graph);
  if (ls_status_is_ok(status)) {
    expect_ok(ls_session_create(graph, &session));
    expect_ok(ls_session_run(session, ls_nest_op(init), NULL, 0, &results));
  }
  ls_array *rows = rows_array(), *factor = factor_array();
  const ls_feed feeds[] = {{inputs[0], rows}, {inputs[1], factor}};
  for (int k = 0; k < TIMES && ls_status_is_ok(status); ++k) {
    status = ls_session_run(session, fetches, feeds, 2, &results);
    if (ls_status_is_ok(status)) record_results(out, results);
  }
  if (ls_status_is_ok(status)) record_variables(out, w, session);
  ls_array_release(rows);
  ls_array_release(factor);
  ls_nest_release(results);
  ls_nest_release(fetches);
  if (session != NULL) ls_session_destroy(session);
  end_world(w);
  return status;
}

static ls_status run_rank(ls_communicator *communicator, void *user) {
  job *work = user;
  outcome *out = &work->out[communicator != NULL ? communicator->rank : 0];
  open_place here;
  LS_RETURN_IF_ERROR(place_open(work->where, communicator, &here));
  out->bytes = malloc(MOST_BYTES);
  const ls_status status =
      work->way == WAY_SESSION ? run_session(work, out) : run_world(work, out);
  return place_close(&here, status);
}

static ls_status run_job(job *work) {
  party_forget_calls();
  const ls_status status =
      work->where->ranks == 0
          ? run_rank(NULL, work)
          : ls_standin_run(work->where->ranks, run_rank, work);
  work->num_calls = party_calls(work->calls);
  return status;
}

static void run_well(job *work) {
  const ls_status status = run_job(work);
  if (ls_status_is_ok(status)) return;
  fail_msg("%s, %s, of %d and %d replicas, %d ranks: %s", work->scene->name,
           way_names[work->way], work->sizes[0], work->sizes[1],
           work->where->ranks, ls_status_message(status));
}

static void drop(job *work) {
  for (size_t i = 0; i < MOST_RANKS; ++i)
    free(work->out[i].bytes);
}

// ---- Tests -----------------------------------------------------------------
static void expect_as(const job *wanted, const job *got) {
  const place *p = got->where;
  const size_t num_calls = wanted->num_calls;
  char where[200];
  snprintf(where, sizeof(where),
           "%s, %s, of %d and %d replicas, LS_CUT=%s LS_LANES=%s, %d threads, "
           "%d ranks",
           got->scene->name, way_names[got->way], got->sizes[0], got->sizes[1],
           p->cut, p->lanes != NULL ? p->lanes : "", p->threads, p->ranks);
  for (int k = 0; k < (p->ranks == 0 ? 1 : p->ranks); ++k)
    if (got->out[k].size != wanted->out[0].size ||
        memcmp(got->out[k].bytes, wanted->out[0].bytes, got->out[k].size) != 0)
      fail_msg("%s: other bytes than apart", where);
  // In a graph a plain callback's calls are of no replica.
  if (got->num_calls != num_calls ||
      (got->way != WAY_ONE_PLAIN &&
       memcmp(got->calls, wanted->calls, num_calls * sizeof(party_call)) != 0))
    fail_msg("%s: %zu calls of the host, which are not the %zu that there are "
             "apart",
             where, got->num_calls, num_calls);
}

static void hold(const scene *s, const int32_t *sizes, const place *places,
                 size_t count) {
  static const place plain = {"0", "cost", 1, 0};
  static job wanted, got;
  wanted = (job){.scene = s, .sizes = sizes, .where = &plain};
  run_well(&wanted);
  assert_true(wanted.out[0].size > 0 && wanted.num_calls > 0);
  for (size_t i = 0; i < count; ++i)
    for (int k = WAY_ONE; k < NUM_WAYS; ++k) {
      // Ops of a plain callback are of no replica: each rank has them all.
      if (places[i].ranks > 0 && k == WAY_ONE_PLAIN) continue;
      got =
          (job){.scene = s, .sizes = sizes, .way = (way)k, .where = &places[i]};
      run_well(&got);
      expect_as(&wanted, &got);
      drop(&got);
    }
  drop(&wanted);
}

typedef int32_t size_list[MOST_SIZES + 1];

static void hold_all(const size_list *sizes, size_t num_sizes,
                     const place *places, size_t count) {
  for (size_t i = 0; i < LS_COUNT_OF(scenes); ++i)
    for (size_t k = 0; k < num_sizes; ++k)
      if (!LS_SANITIZED || (i + k) % 4 == 0)
        hold(&scenes[i], sizes[k], places, count);
}

TEST(each_size_gives_what_it_does_in_a_program_of_its_own) {
  static const size_list sizes[] = {{2, 8}, {3, 1}, {1, 4, 3}, {8, 2, 1}};
  static const place places[] = {{"1", NULL, 1, 0},
                                 {"0", NULL, 1, 0},
                                 {"0", "threads", 2, 0},
                                 {"1", "blocks", 2, 0}};
  hold_all(sizes, LS_COUNT_OF(sizes), places, LS_COUNT_OF(places));
}

TEST(so_it_does_on_ranks) {
  static const size_list sizes[] = {{2, 8}, {8, 3}, {1, 4}, {2, 8, 1}};
  static const place places[] = {{"1", NULL, 1, 2},
                                 {"0", NULL, 1, 2},
                                 {"0", "threads", 2, 2},
                                 {"1", "blocks", 2, 2}};
  hold_all(sizes, LS_COUNT_OF(sizes), places, LS_COUNT_OF(places));
}

TEST(a_size_below_the_ranks_is_refused) {
  static const place three_ranks = {"1", NULL, 1, MOST_RANKS};
  static job work;
  work = (job){.scene = &scenes[0],
               .sizes = (int32_t[]){8, 2, 0},
               .way = WAY_ONE,
               .where = &three_ranks};
  expect_status(run_job(&work), LS_INVALID_ARGUMENT, "2 replicas on 3 ranks");
  drop(&work);
}

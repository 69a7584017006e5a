// SPDX-License-Identifier: Apache-2.0
// lockstep diff --op: makes two runs again, op by op, and finds the first
// result that differs.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare/compare.h"
#include "cli/train/train_flags.h"

static const char command[] = "diff";

// A result of an op.
typedef struct result {
  uint64_t hash, label;  // Hashes of the value, and of its name.
} result;

// The result of one run that differs from the other's.
typedef struct found_result {
  ls_array *value;
  char label[512];
  int32_t replica;
  int64_t trip;
  bool has_rows;
  int64_t example;  // Number of the example; -1: not known.
} found_result;

typedef enum op_pass {
  FIND_STEP,  // Compares the checksums after each step.
  FIND_OP,    // Compares the results of the ops of a step.
  TAKE_VALUE  // Takes the result that differs from the first run.
} op_pass;

typedef struct op_search {
  cli_again again;
  const cli_op_diff *of;
  op_pass pass;
  int run;         // The run that is made, 0 or 1.
  int64_t step;    // The last step to make: in the end the first that differs.
  uint64_t *sums;  // Checksums of the first run after each step.
  int64_t replicas;
  bool differs, no_memory;
  result *results;  // Results of the first run, in order.
  size_t count, capacity, at;
  found_result found[2];
} op_search;

// ---- Steps -----------------------------------------------------------------
static void take_sum(void *user, const char *text) {
  op_search *s = user;
  cli_member sum;
  const int64_t from = s->of->from;
  if (s->pass != FIND_STEP || !cli_json_find(text, "checksum", &sum)) return;
  cli_member member;
  if (!cli_json_find(text, "step", &member)) return;
  const int64_t step = strtoll(member.value, NULL, 10);
  const uint64_t value = strtoull(sum.value + 1, NULL, 16);
  if (step <= from || step > s->step) return;
  if (s->run == 0) {
    s->sums[step - from - 1] = value;
  } else if (s->sums[step - from - 1] != value) {
    s->step = step;
    s->differs = true;
  }
}

// ---- Ops -------------------------------------------------------------------
static uint64_t hash_text(const char *text) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; *text != '\0'; ++text)
    hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return hash;
}

static void add_result(op_search *s, result one) {
  if (s->count == s->capacity) {
    const size_t capacity = s->capacity * 2 + 1024;
    result *larger = cli_allocate(capacity * sizeof(*larger));
    s->no_memory |= larger == NULL;
    if (larger == NULL) return;
    if (s->count > 0) memcpy(larger, s->results, s->count * sizeof(*larger));
    cli_release(s->results);
    s->results = larger;
    s->capacity = capacity;
  }
  s->results[s->count++] = one;
}

static void take_found(op_search *s, const ls_op_result *from) {
  found_result *found = &s->found[s->run];
  snprintf(found->label, sizeof(found->label), "%s", from->label);
  found->replica = from->replica;
  found->trip = from->trip;
  found->has_rows = from->has_rows;
  const ls_status status =
      ls_array_create(from->dtype, from->shape, &found->value);
  if (ls_status_is_ok(status))
    memcpy(ls_array_mutable_data(found->value), from->data,
           ls_array_size(found->value));
  ls_status_free(status);
}

static void take_result(void *user, const ls_op_result *from) {
  op_search *s = user;
  const result one = {from->hash, hash_text(from->label)};
  const size_t at = s->at++;
  if (s->pass == FIND_OP && s->run == 0) {
    add_result(s, one);
  } else if (s->pass == TAKE_VALUE) {
    if (at == s->count) take_found(s, from);
  } else if (!s->differs && at < s->count &&
             (s->results[at].hash != one.hash ||
              s->results[at].label != one.label)) {
    s->differs = true;
    s->count = at;
    take_found(s, from);
  }
}

// Finds the example in whose row two values first differ.
static int64_t find_example(const op_search *s, const ls_run_context *context,
                            int64_t row) {
  const ls_nest inputs = ls_nest_item(ls_run_context_args(context), 0);
  size_t count = 0;
  if (s->found[1].replica < 0) return -1;
  for (size_t r = 0; r < (size_t)s->found[1].replica; ++r) {
    const ls_array *part =
        ls_nest_as_array(ls_distributed_component(inputs, r));
    if (part == NULL) return -1;
    row += ls_array_shape(part).dim[0];
  }
  ls_status status = ls_run_context_examples(context, NULL, 0, &count);
  int64_t *examples = cli_allocate((count + 1) * sizeof(*examples));
  int64_t example = -1;
  if (ls_status_is_ok(status) && examples != NULL)
    status = ls_run_context_examples(context, examples, count, &count);
  if (ls_status_is_ok(status) && examples != NULL && row < (int64_t)count)
    example = examples[row];
  ls_status_free(status);
  cli_release(examples);
  return example;
}

// ---- Runs ------------------------------------------------------------------
static ls_status before_step(void *user, ls_run_context *context,
                             ls_run_wish *wish) {
  op_search *s = user;
  int64_t step = 0;
  wish->most_steps = 1;
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (s->pass != FIND_STEP && step + 1 == s->step)
    ls_runtime_watch_ops(ls_runtime_current(), take_result, s);
  return ls_ok();
}

static ls_status after_step(void *user, ls_run_context *context,
                            ls_nest results) {
  op_search *s = user;
  int64_t step = 0;
  (void)results;
  s->replicas = ls_strategy_num_replicas(s->again.strategy);
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (step < s->step && !(s->pass == FIND_STEP && s->differs)) return ls_ok();
  ls_runtime_watch_ops(ls_runtime_current(), NULL, NULL);
  ls_run_context_request_stop(context);
  found_result *found = s->found;
  if (s->pass != TAKE_VALUE || found[0].value == NULL || !found[1].has_rows)
    return ls_ok();
  const cli_difference d = cli_compare(found[0].value, found[1].value);
  const ls_shape shape = ls_array_shape(found[0].value);
  if (d.first < 0 || shape.rank == 0) return ls_ok();
  const int64_t row_size = ls_shape_num_elements(shape) / shape.dim[0];
  found[1].example = find_example(s, context, d.first / row_size);
  return ls_ok();
}

static int make_run(op_search *s, op_pass pass, int run) {
  const cli_op_diff *of = s->of;
  train_flags flags = {
      .asked = {.seed = -1,
                .keep = -1,
                .threads = pass == FIND_STEP ? 0 : 1,
                .checksum = 1},
      .grace = 30,
      .quiet = true,
      .inexact = true,  // Runs that went on otherwise differ from checkpoints.
      .again = &s->again,
      .resume = of->folders[run]};
  flags.asked.model = of->model;
  flags.asked.optimizer = of->optimizer;
  if (of->from > 0) flags.resume_step = LS_SOME(of->from);
  if (of->saved[run] > 0)
    cli_train_as_saved(&flags, of->folders[run], of->saved[run]);
  s->pass = pass;
  s->run = run;
  s->at = 0;
  cli_device.find_nan = pass != FIND_STEP;
  return cli_train_run(of->syntax, &flags);
}

// ---- The search ------------------------------------------------------------
static void print_found(const op_search *s) {
  const found_result *a = &s->found[0], *b = &s->found[1];
  printf("first at step %lld, %s", (long long)s->step, b->label);
  if (b->replica >= 0 && s->replicas > 1) printf(" on replica %d", b->replica);
  if (b->trip >= 0) printf(" in trip %lld", (long long)b->trip);
  if (b->example >= 0) printf(", example %lld", (long long)b->example);
  printf(":\n");
  if (strcmp(a->label, b->label) != 0) {
    printf("  the programs differ: the other run has %s\n", a->label);
    return;
  }
  const cli_difference d = cli_compare(a->value, b->value);
  cli_print_difference("  ", "result", a->value, b->value, &d);
}

static int find_op(op_search *s) {
  int code = make_run(s, FIND_STEP, 0);
  if (code == CLI_OK) code = make_run(s, FIND_STEP, 1);
  if (code != CLI_OK) return code;
  if (!s->differs) {
    printf("made again, both runs are equal up to step %lld: what differs was "
           "recorded otherwise; 'lockstep replay' of each shows where\n",
           (long long)s->step);
    return CLI_OK;
  }
  s->differs = false;
  code = make_run(s, FIND_OP, 0);
  if (code == CLI_OK) code = make_run(s, FIND_OP, 1);
  if (code != CLI_OK) return code;
  if (s->no_memory) return cli_report(command, ls_out_of_memory());
  if (!s->differs) {
    printf("first at step %lld, ", (long long)s->step);
    if (s->at == s->count)
      printf("but no op has another result\n");
    else
      printf("where the programs differ: that of '%s' goes on after %zu equal "
             "results\n",
             s->of->folders[s->at > s->count],
             s->at < s->count ? s->at : s->count);
    return CLI_OK;
  }
  code = make_run(s, TAKE_VALUE, 0);
  if (code == CLI_OK && s->found[0].value != NULL && s->found[1].value != NULL)
    print_found(s);
  return code;
}

int cli_diff_ops(const cli_op_diff *diff) {
  op_search s = {.of = diff, .step = diff->to, .found[1].example = -1};
  s.again = (cli_again){.command = command,
                        .hook = {.name = command,
                                 .user = &s,
                                 .before_run = before_step,
                                 .after_run = after_step},
                        .log = {take_sum, &s}};
  s.sums = cli_allocate((size_t)(diff->to - diff->from + 1) * sizeof(*s.sums));
  const int code =
      s.sums != NULL ? find_op(&s) : cli_report(command, ls_out_of_memory());
  for (int i = 0; i < 2; ++i)
    ls_array_release(s.found[i].value);
  cli_release(s.results);
  cli_release(s.sums);
  return code;
}

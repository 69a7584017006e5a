// SPDX-License-Identifier: Apache-2.0
// lockstep diff: finds the first difference of two runs.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare/compare.h"

static const char command[] = "diff";
typedef struct comparing {
  const char *folders[2];
  int64_t lines, checkpoints;  // Numbers compared so far without a difference.
  bool different, json, by_op;
  int64_t equal;      // Step of the last checkpoint before a difference,
  int64_t first;      // and the first step known to differ; -1: none.
  int64_t begins[2];  // Steps from which they go on, of other runs; or 0.
  // Steps of the first checkpoint of each after the last that is equal; 0:
  // none.
  int64_t saved[2];
} comparing;

// ---- Files -----------------------------------------------------------------
// A file of both folders.
typedef struct file_pair {
  char *texts[2];
} file_pair;

static ls_status read_both(const comparing *c, const char *name,
                           file_pair *out) {
  for (int i = 0; i < 2; ++i)
    LS_RETURN_IF_ERROR(
        cli_read_text(c->folders[i], name, &out->texts[i], NULL));
  return ls_ok();
}

static void release_both(file_pair *pair) {
  cli_release(pair->texts[0]);
  cli_release(pair->texts[1]);
}
CLI_OWNED_STRUCT(file_pair, release_both)

// ---- Configurations --------------------------------------------------------
static ls_status compare_configs(comparing *c) {
  CLI_OWN(file_pair, configs) = {0};
  const char *title = "config.json";
  LS_RETURN_IF_ERROR(read_both(c, title, &configs));
  for (int i = 0; i < 2; ++i) {
    // An estimator's run has its flags in another file, that of a program of
    // its own has none.
    if (configs.texts[i] == NULL) {
      bool has_saved = false;
      title = "estimator.json";
      LS_RETURN_IF_ERROR(
          cli_read_text(c->folders[i], title, &configs.texts[i], NULL));
      LS_RETURN_IF_ERROR(cli_has_checkpoints(c->folders[i], &has_saved));
      if (configs.texts[i] == NULL && !has_saved)
        return ls_not_found("'%s' is no run folder: it has no config.json and "
                            "no checkpoint",
                            c->folders[i]);
      if (c->by_op)
        return ls_invalid_argument("--op makes the steps of models again: the "
                                   "run in '%s' is an estimator's",
                                   c->folders[i]);
    }
  }
  // Reports differences in configurations, but goes on: results may be equal.
  if (configs.texts[0] != NULL && configs.texts[1] != NULL)
    cli_compare_members(title, configs.texts[0], configs.texts[1], c->json);
  return ls_ok();
}

// ---- Metrics ---------------------------------------------------------------
static void report_longer(const comparing *c, int which, int64_t step) {
  if (!c->json) {
    printf("metrics.jsonl: '%s' continues at step %lld, '%s' has ended\n",
           c->folders[which], (long long)step, c->folders[1 - which]);
    return;
  }
  printf("{\"in\":\"metrics.jsonl\",\"step\":%lld,\"only_in\":",
         (long long)step);
  cli_print_json(c->folders[which]);
  printf("}\n");
}

static void report_alone(const comparing *c, int which, int64_t lines) {
  if (!c->json) {
    printf("metrics.jsonl: %lld line%s of '%s' %s steps that the other lacks\n",
           (long long)lines, lines == 1 ? "" : "s", c->folders[which],
           lines == 1 ? "has" : "have");
    return;
  }
  printf("{\"in\":\"metrics.jsonl\",\"lines\":%lld,\"only_in\":",
         (long long)lines);
  cli_print_json(c->folders[which]);
  printf("}\n");
}

// Reports lines that could not be compared, so that the runs are not equal.
static void report_damaged(comparing *c, int which, int64_t lines) {
  if (lines == 0) return;
  c->different = true;
  if (!c->json) {
    printf("metrics.jsonl: %lld line%s of '%s' %s damaged\n", (long long)lines,
           lines == 1 ? "" : "s", c->folders[which], lines == 1 ? "is" : "are");
    return;
  }
  printf("{\"in\":\"metrics.jsonl\",\"damaged\":%lld,\"only_in\":",
         (long long)lines);
  cli_print_json(c->folders[which]);
  printf("}\n");
}

static ls_status compare_metrics(comparing *c) {
  CLI_OWN(file_pair, files) = {0};
  LS_RETURN_IF_ERROR(read_both(c, "metrics.jsonl", &files));
  const char *at[2] = {files.texts[0], files.texts[1]};
  cli_line a = {.before = 0}, b = {.before = 0};
  cli_line_next(&at[0], &a);
  cli_line_next(&at[1], &b);
  int64_t alone[2] = {0, 0};
  while (a.text != NULL && b.text != NULL && !c->different) {
    const int which = cli_line_order(&a, &b);
    if (which == 0 && cli_lines_match(&a, &b)) {
      c->different = !cli_lines_are_equal(&a, &b, c->json);
      if (c->different) c->first = a.step;
      ++c->lines;
    }
    alone[0] += which < 0;
    alone[1] += which > 0;
    if (which <= 0) cli_line_next(&at[0], &a);
    if (which >= 0) cli_line_next(&at[1], &b);
  }
  if (!c->different && (a.text != NULL || b.text != NULL)) {
    const int longer = a.text == NULL;
    report_longer(c, longer, longer == 0 ? a.step : b.step);
    c->different = true;
  }
  for (int i = 0; i < 2; ++i)
    if (alone[i] > 0) report_alone(c, i, alone[i]);
  report_damaged(c, 0, a.damaged);
  report_damaged(c, 1, b.damaged);
  return ls_ok();
}

// ---- Checkpoints -----------------------------------------------------------
static ls_status compare_values(comparing *c, const ls_saved_file *a,
                                const ls_saved_file *b, const char *title) {
  enum { MOST_NAMED = 8 };
  static const cli_words all;
  char heading[80];
  size_t different = 0;
  snprintf(heading, sizeof(heading),
           c->json ? "{\"different\":\"%s\"}" : "%s differs:", title);
  LS_RETURN_IF_ERROR(cli_compare_files(
      a, b,
      &(cli_compare_options){.only = &all,
                             .heading = heading,
                             .most = c->json ? SIZE_MAX : MOST_NAMED,
                             .json = c->json},
      &different));
  c->different |= different > 0;
  ++c->checkpoints;
  return ls_ok();
}

static ls_status compare_step(comparing *c, int64_t step) {
  CLI_OWN(ls_saved_file, a) = NULL;
  CLI_OWN(ls_saved_file, b) = NULL;
  char title[64];
  snprintf(title, sizeof(title), "checkpoint of step %lld", (long long)step);
  LS_RETURN_IF_ERROR(cli_open_step(c->folders[0], step, &a));
  LS_RETURN_IF_ERROR(cli_open_step(c->folders[1], step, &b));
  if (c->checkpoints == 0)
    LS_RETURN_IF_ERROR(cli_compare_notes(a, b, false, c->json));
  return compare_values(c, a, b, title);
}

static int64_t first_after(int64_t step, const int64_t *steps, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (steps[i] > step) return steps[i];
  return 0;
}

// Compares checkpoints that both runs have, up to the first that differs.
static ls_status compare_checkpoints(comparing *c) {
  CLI_OWN_MEMORY(int64_t, steps) = NULL;
  CLI_OWN_MEMORY(int64_t, others) = NULL;
  size_t num_steps = 0, num_others = 0, k = 0;
  LS_RETURN_IF_ERROR(cli_checkpoint_steps(c->folders[0], &steps, &num_steps));
  LS_RETURN_IF_ERROR(cli_checkpoint_steps(c->folders[1], &others, &num_others));
  const bool before = c->different;
  c->different = false;
  for (size_t i = 0; i < num_steps && !c->different; ++i) {
    while (k < num_others && others[k] < steps[i])
      ++k;
    if (k == num_others || others[k] != steps[i]) continue;
    LS_RETURN_IF_ERROR(compare_step(c, steps[i]));
    if (c->different && (c->first < 0 || steps[i] < c->first))
      c->first = steps[i];
    if (!c->different && (c->first < 0 || steps[i] < c->first))
      c->equal = steps[i];
  }
  c->different |= before;
  c->saved[0] = first_after(c->equal, steps, num_steps);
  c->saved[1] = first_after(c->equal, others, num_others);
  return ls_ok();
}

static ls_status open_model(const char *folder, ls_saved_file **out) {
  char path[PATH_MAX + 32];
  snprintf(path, sizeof(path), "%s/model.safetensors", folder);
  return ls_saved_file_open(path, out);
}

// Compares the final models, for runs without checkpoints of equal steps.
static ls_status compare_models(comparing *c) {
  CLI_OWN(ls_saved_file, a) = NULL;
  CLI_OWN(ls_saved_file, b) = NULL;
  ls_status status = open_model(c->folders[0], &a);
  if (ls_status_is_ok(status)) status = open_model(c->folders[1], &b);
  if (ls_status_code(status) == LS_NOT_FOUND) {
    ls_status_free(status);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(status);
  return compare_values(c, a, b, "model.safetensors");
}

// ---- The command -----------------------------------------------------------
static ls_status compare_runs(void *user) {
  comparing *c = user;
  for (int i = 0; i < 2; ++i)
    LS_RETURN_IF_ERROR(cli_recover_run(c->folders[i]));
  LS_RETURN_IF_ERROR(compare_configs(c));
  LS_RETURN_IF_ERROR(compare_metrics(c));
  LS_RETURN_IF_ERROR(compare_checkpoints(c));
  if (c->checkpoints == 0) LS_RETURN_IF_ERROR(compare_models(c));
  for (int i = 0; i < 2 && c->by_op; ++i)
    LS_RETURN_IF_ERROR(
        cli_find_first_step(c->folders[i], false, &c->begins[i]));
  if (c->lines == 0 && c->checkpoints == 0)
    return ls_not_found("'%s' and '%s' have no step in common to compare",
                        c->folders[0], c->folders[1]);
  if (c->json)
    printf("{\"equal\":%s,\"lines\":%lld,\"files\":%lld}\n",
           c->different ? "false" : "true", (long long)c->lines,
           (long long)c->checkpoints);
  else if (!c->different)
    printf("equal: %lld line%s of metrics, %lld file%s of values\n",
           (long long)c->lines, c->lines == 1 ? "" : "s",
           (long long)c->checkpoints, c->checkpoints == 1 ? "" : "s");
  return ls_ok();
}

// Makes the steps between the last equal checkpoint and the first difference
// again. Returns an exit code.
static int compare_ops(const comparing *c, const char *model,
                       const char *optimizer, const cli_syntax *syntax) {
  if (!c->different) return CLI_OK;
  if (c->first <= 0) {
    printf(c->first == 0
               ? "first before step 1: the runs begin with other values\n"
               : "no step is known to differ, to be made again\n");
    return CLI_OK;
  }
  for (int i = 0; i < 2; ++i) {
    if (c->begins[i] <= c->equal) continue;
    cli_say(command,
            "the steps of '%s' cannot be made again: it goes on from step "
            "%lld of another run, and both have no equal checkpoint since",
            c->folders[i], (long long)c->begins[i]);
    return CLI_FAILED;
  }
  return cli_diff_ops(&(cli_op_diff){.folders = {c->folders[0], c->folders[1]},
                                     .saved = {c->saved[0], c->saved[1]},
                                     .from = c->equal,
                                     .to = c->first,
                                     .model = model,
                                     .optimizer = optimizer,
                                     .syntax = syntax});
}

int cli_diff(int argc, char **argv) {
  const char **folders = (const char **)argv;
  size_t count = 0;
  bool json = false, by_op = false;
  const char *model = NULL, *optimizer = NULL;
  const cli_option options[] = {
      {"op", CLI_FLAG, &by_op, NULL,
       "make both runs again, from the last checkpoint at which they are "
       "equal, and print the first step, op, element and example that differ"},
      {"model", CLI_TEXT, &model, "PATH",
       "the runs' shared library of models, for --op"},
      {"optimizer", CLI_TEXT, &optimizer, "PATH",
       "the shared library of the runs' --optimizer, for --op"},
      {"json", CLI_FLAG, &json, NULL,
       "print lines of JSON: per member that differs in, step, member, values "
       "or only_in, or the number of damaged lines; the name of the first "
       "checkpoint that differs, and its "
       "arrays as 'checkpoint diff --json' prints them; at the end equal, "
       "lines, files"},
  };
  const cli_syntax syntax = {
      .command = command,
      CLI_OPTIONS(options),
      .about =
          "Finds the first difference of two runs: the first line of "
          "metrics.jsonl that differs, and the first common checkpoint that "
          "does, with its first arrays, an element of each and its bits; times "
          "are ignored. Ends with code 0 if the results are equal, else 1; "
          "differences of config.json are shown, but do not count. After a "
          "resume, a line may have means over other steps. An estimator's run "
          "has estimator.json instead, that of a program of its own no such "
          "file.",
      .operand_form = "RUN RUN",
      .num_operands = &count};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (count != 2)
    return cli_misuse(command, "give two run folders, got %zu", count);
  if (by_op && json)
    return cli_misuse(command,
                      "--op prints text: it cannot be given with --json");
  comparing c = {.folders = {folders[0], folders[1]},
                 .json = json,
                 .by_op = by_op,
                 .first = -1};
  int code = cli_with_runtime(command, compare_runs, &c);
  if (code == CLI_OK && by_op)
    code = compare_ops(&c, model, optimizer, &syntax);
  return code == CLI_OK && c.different ? CLI_FAILED : code;
}

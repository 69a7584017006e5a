// SPDX-License-Identifier: Apache-2.0
// lockstep replay: makes steps of a run again, in memory, and compares them
// with what the run recorded.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/again/replay.h"
#include "cli/look/layers.h"

// ---- Values ----------------------------------------------------------------
// Compares the value of a variable with the file's; a variable that the file
// lacks, since it keeps a value per replica, is passed over.
static ls_status compare_variable(cli_replaying *r, const ls_saved_file *file,
                                  ls_session *session, ls_variable *variable,
                                  int64_t step) {
  ls_saved_info info;
  ls_saved_file_describe(file, &info);
  for (size_t i = 0; i < info.num_entries; ++i) {
    ls_saved_entry entry;
    CLI_OWN(ls_array, saved) = NULL;
    CLI_OWN(ls_array, value) = NULL;
    LS_RETURN_IF_ERROR(ls_saved_file_entry(file, i, &entry));
    if (strcmp(entry.name, ls_variable_name(variable)) != 0) continue;
    LS_RETURN_IF_ERROR(ls_saved_file_read(file, i, &saved));
    LS_RETURN_IF_ERROR(
        session != NULL ? ls_session_variable_value(session, variable, &value)
                        : ls_variable_value(variable, &value));
    const cli_difference found = cli_compare(saved, value);
    if (found.count == 0) return ls_ok();
    if (!r->differs)
      printf("checkpoint of step %lld differs:\n", (long long)step);
    cli_print_difference("  ", entry.name, saved, value, &found);
    r->differs = true;
    return ls_ok();
  }
  return ls_ok();
}

static ls_status compare_checkpoint(cli_replaying *r,
                                    const ls_run_context *context,
                                    int64_t step) {
  size_t count = 0, slots = 0;
  CLI_OWN_MEMORY(ls_variable *, variables) = NULL;
  CLI_OWN(ls_saved_file, file) = NULL;
  LS_RETURN_IF_ERROR(cli_open_step(r->folder, step, &file));
  LS_RETURN_IF_ERROR(cli_list_variables(r->again.model,
                                        ls_run_context_graph(context),
                                        &variables, &count, &slots));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(compare_variable(
        r, file, ls_run_context_session(context), variables[i], step));
  if (r->differs) return ls_ok();
  ++r->checkpoints;
  r->equal = step;
  return ls_ok();
}

// ---- Lines -----------------------------------------------------------------
static void take_line(void *user, const char *text) {
  cli_replaying *r = user;
  if (r->differs) return;
  cli_line_next(&text, &r->made);
  if (!cli_line_seek(&r->at_text, &r->recorded, &r->made)) return;
  r->differs = !cli_lines_are_equal(&r->recorded, &r->made, false);
  if (r->differs) return;
  ++r->lines;
  r->equal = r->made.step;
  cli_line_next(&r->at_text, &r->recorded);
}

// ---- Steps -----------------------------------------------------------------
static ls_status make_one_step(void *user, ls_run_context *context,
                               ls_run_wish *wish) {
  const cli_replaying *r = user;
  int64_t step = 0;
  if (r->estimator != NULL) return ls_ok();  // Keeps its loops as they were.
  wish->most_steps = 1;
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  return r->breakpoint.step > 0 && step == r->breakpoint.step - 1
             ? cli_breakpoint_before(&r->breakpoint, &r->again)
             : ls_ok();
}

// Lets the replay end at a spike.
static ls_status look_for_spike(cli_replaying *r,
                                const ls_run_context *context) {
  const ls_status status = cli_check_spike(&r->flags, context);
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  cli_say(r->again.command, "%s", ls_status_message(status));
  ls_status_free(status);
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &r->spike));
  r->to = r->spike;
  return ls_ok();
}

static ls_status compare_step(void *user, ls_run_context *context,
                              ls_nest results) {
  cli_replaying *r = user;
  int64_t step = 0;
  (void)results;
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  r->reached = step;
  if (r->breakpoint.step == 0) LS_RETURN_IF_ERROR(look_for_spike(r, context));
  while (r->at_step < r->num_steps && r->steps[r->at_step] < step)
    ++r->at_step;
  if (!r->differs && r->at_step < r->num_steps && r->steps[r->at_step] == step)
    LS_RETURN_IF_ERROR(compare_checkpoint(r, context, step));
  if (r->differs || step >= r->to) ls_run_context_request_stop(context);
  return r->breakpoint.step > 0 && step == r->breakpoint.step
             ? cli_breakpoint_after(&r->breakpoint, &r->again, context)
             : ls_ok();
}

// ---- Records ---------------------------------------------------------------
// The configuration with which the steps before a checkpoint were made.
typedef struct replay_aim {
  int64_t steps;  // The end, on which the rate may depend.
  char *run;      // The run's identity with its program; NULL: not read.
} replay_aim;

static void release_aim(replay_aim *aim) { ls_text_release(aim->run); }
CLI_OWNED_STRUCT(replay_aim, release_aim)

static bool is_same(const replay_aim *a, const replay_aim *b) {
  return a->steps == b->steps && strcmp(a->run, b->run) == 0;
}

static ls_status read_aim(const cli_replaying *r, int64_t step,
                          replay_aim *out) {
  const char *program = NULL;
  const ls_record *run = NULL;
  size_t size = 0;
  CLI_OWN(ls_saved_file, file) = NULL;
  CLI_OWN(ls_record, identity) = NULL;
  CLI_OWN(ls_record, states) = NULL;
  LS_RETURN_IF_ERROR(cli_open_step(r->folder, step, &file));
  LS_RETURN_IF_ERROR(ls_saved_file_records(file, &identity, &states));
  LS_RETURN_IF_ERROR(ls_record_find(states, "run", &run));
  LS_RETURN_IF_ERROR(ls_record_get_text(run, "program", &program));
  LS_RETURN_IF_ERROR(ls_record_get_i64(run, "steps", &out->steps));
  LS_RETURN_IF_ERROR(ls_record_set_text(identity, "program", program));
  return ls_record_to_text(identity, &out->run, &size);
}

// Makes the steps as the run was made then, `aim`, and not as it was in the
// end, as config.json says. Goes on from a checkpoint of another program, if
// need be.
static ls_status take_aim(cli_replaying *r, const replay_aim *aim,
                          int64_t step) {
  CLI_OWN(replay_aim, start) = {0};
  CLI_OWN(replay_aim, last) = {0};
  r->flags.asked.steps = aim->steps;
  LS_RETURN_IF_ERROR(read_aim(r, r->steps[r->num_steps - 1], &last));
  if (!is_same(aim, &last)) cli_train_as_saved(&r->flags, r->folder, step);
  if (r->began == 0) return ls_ok();
  LS_RETURN_IF_ERROR(read_aim(r, r->began, &start));
  r->flags.inexact = strcmp(start.run, aim->run) != 0;
  return ls_ok();
}

// Ends where the run was resumed with another configuration or end.
static ls_status find_aim(cli_replaying *r) {
  CLI_OWN(replay_aim, aim) = {0};
  int64_t before = r->began;
  for (size_t i = 0; i < r->num_steps; ++i) {
    const int64_t step = r->steps[i];
    CLI_OWN(replay_aim, now) = {0};
    if (step <= r->began || before >= r->to) continue;
    LS_RETURN_IF_ERROR(read_aim(r, step, &now));
    if (aim.run == NULL) {
      LS_RETURN_IF_ERROR(take_aim(r, &now, step));
      aim = now;
      now.run = NULL;
    } else if (!is_same(&aim, &now)) {
      if (r->again.check == NULL)
        cli_say(r->again.command,
                "the run went on from step %lld %s: --from %lld makes its "
                "later steps again",
                (long long)before,
                aim.steps != now.steps ? "to another end" : "with other flags",
                (long long)before);
      r->to = before;
      return ls_ok();
    }
    before = step;
  }
  return ls_ok();
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Begins a run that goes on from a step of another one at its own first
// checkpoint.
static ls_status skip_to_checkpoint(cli_replaying *r, int64_t first) {
  size_t i = 0;
  while (i < r->num_steps && r->steps[i] < first)
    ++i;
  const int64_t least = i < r->num_steps ? r->steps[i] : r->to;
  if (first == 0 || r->from >= least) return ls_ok();
  if (r->from >= 0 || least >= r->to)
    return ls_invalid_argument(
        "steps %lld to %lld cannot be made again: the run in '%s' goes on from "
        "step %lld of another one, and has its first checkpoint at step %lld",
        (long long)(r->from < first ? first : r->from), (long long)r->to,
        r->folder, (long long)first, (long long)least);
  if (least > first)
    cli_say(r->again.command,
            "begins at the first checkpoint, of step %lld: the run goes on "
            "from step %lld of another one",
            (long long)least, (long long)first);
  r->from = least;
  return ls_ok();
}

// Finds the last step recorded, the step of the checkpoint to begin with, and
// how often there are checksums.
static ls_status find_ends(cli_replaying *r) {
  int64_t last = r->num_steps > 0 ? r->steps[r->num_steps - 1] : 0;
  const int64_t last_line = cli_last_step(r->text);
  int64_t first = 0;
  const char *at = r->text;
  cli_line line = {.step = 0};
  if (last_line > last) last = last_line;
  for (cli_line_next(&at, &line); line.text != NULL; cli_line_next(&at, &line))
    if (line.kind == CLI_LINE_OF_SUM)
      r->flags.asked.checksum =
          common_divisor(line.step, r->flags.asked.checksum);
  const bool makes_none = r->again.is_checked;
  r->goes_on = r->to < 0 && r->again.check == NULL &&
               (cli_device.find_nan || r->flags.spike > 0);
  if (r->to < 0) r->to = last;
  LS_RETURN_IF_ERROR(
      cli_find_first_step(r->folder, r->estimator != NULL, &first));
  if (!makes_none) LS_RETURN_IF_ERROR(skip_to_checkpoint(r, first));
  if (r->from < 0) r->from = 0;
  if (r->goes_on) r->to = INT64_MAX;
  if (!makes_none && !r->goes_on && (r->to > last || r->from >= last))
    return ls_invalid_argument(
        "steps %lld to %lld cannot be made again: the run in '%s' recorded "
        "steps up to %lld",
        (long long)r->from, (long long)r->to, r->folder, (long long)last);
  if (!makes_none && !r->goes_on && r->from >= r->to)
    return ls_invalid_argument(
        "there is no step after step %lld up to step %lld", (long long)r->from,
        (long long)r->to);
  for (size_t i = 0; i < r->num_steps; ++i)
    if (r->steps[i] <= r->from) r->began = r->steps[i];
  return r->estimator == NULL ? find_aim(r) : ls_ok();
}

static ls_status read_records(void *user) {
  cli_replaying *r = user;
  CLI_OWN(ls_train_config, config) = NULL;
  if (r->estimator == NULL)
    LS_RETURN_IF_ERROR(ls_train_config_read(r->folder, &config));
  LS_RETURN_IF_ERROR(cli_checkpoint_steps(r->folder, &r->steps, &r->num_steps));
  LS_RETURN_IF_ERROR(cli_read_text(r->folder, "metrics.jsonl", &r->text, NULL));
  LS_RETURN_IF_ERROR(find_ends(r));
  r->at_text = r->text;
  cli_line_next(&r->at_text, &r->recorded);
  r->equal = r->made.before = r->began;
  r->flags.resume = r->folder;
  // Estimators have a checkpoint of step 0, unless others have replaced it.
  if (r->began > 0 ||
      (r->estimator != NULL && r->num_steps > 0 && r->steps[0] == 0))
    r->flags.resume_step = LS_SOME(r->began);
  return ls_ok();
}

// ---- The command -----------------------------------------------------------
static int print_end(const cli_replaying *r) {
  const long long damaged = (long long)r->recorded.damaged;
  if (damaged > 0)
    cli_say(r->again.command, "%lld line%s of metrics.jsonl %s damaged",
            damaged, damaged == 1 ? "" : "s", damaged == 1 ? "is" : "are");
  if (r->differs) {
    printf("all is equal up to step %lld\n", (long long)r->equal);
    return CLI_FAILED;
  }
  if (r->goes_on && r->reached == 0) {
    cli_say(r->again.command,
            "the run in '%s' has no step after step %lld to make again",
            r->folder, (long long)r->began);
    return CLI_FAILED;
  }
  if (r->goes_on && r->spike == 0)
    printf("no %s up to step %lld\n", r->flags.spike > 0 ? "spike" : "NaN",
           (long long)r->reached);
  if ((r->breakpoint.step > 0 || r->goes_on) && r->lines + r->checkpoints == 0)
    return CLI_OK;
  if (r->lines + r->checkpoints == 0) {
    cli_say(r->again.command,
            "the run recorded nothing about steps %lld to %lld to compare with",
            (long long)r->began, (long long)r->to);
    return CLI_FAILED;
  }
  printf("steps %lld to %lld are the same: %lld line%s of metrics, %lld "
         "checkpoint%s\n",
         (long long)r->began, (long long)(r->goes_on ? r->equal : r->to),
         (long long)r->lines, r->lines == 1 ? "" : "s",
         (long long)r->checkpoints, r->checkpoints == 1 ? "" : "s");
  return CLI_OK;
}

int cli_replay_steps(const cli_syntax *syntax, cli_replaying *r) {
  r->recorded = r->made = (cli_line){.text = NULL};
  r->lines = r->checkpoints = r->began = r->reached = r->flags.asked.steps = 0;
  r->at_step = 0;
  r->flags.resume_step = (ls_opt){0};
  r->flags.config_path[0] = '\0';
  r->flags.inexact = false;
  int code = cli_with_runtime(r->again.command, read_records, r);
  if (code == CLI_OK)
    code = r->estimator != NULL
               ? cli_estimator_make_again(r->estimator, NULL, &r->flags)
               : cli_train_run(syntax, &r->flags);
  if (code == CLI_OK && !r->again.is_checked) code = print_end(r);
  cli_release(r->steps);
  cli_release(r->text);
  r->steps = NULL;
  r->text = NULL;
  return code;
}

bool cli_replay_parse(const cli_syntax *syntax, int argc, char **argv,
                      cli_replaying *r, int *out_code) {
  char path[PATH_MAX], config[PATH_MAX];
  *out_code = CLI_USAGE;
  if (!cli_find_estimator(syntax->command, argc, argv, &r->estimator) ||
      !cli_parse(syntax, argc, argv, out_code))
    return false;
  snprintf(config, sizeof(config), "%s/config.json", r->folder);
  snprintf(path, sizeof(path), "%s/estimator.json", r->folder);
  if (r->estimator != NULL || access(config, F_OK) == 0 ||
      access(path, F_OK) != 0)
    return true;
  *out_code = CLI_USAGE;
  return cli_refuse(syntax->command,
                    "the run in '%s' is an estimator's: name its shared "
                    "library, as --model ./mine.so",
                    r->folder);
}

void cli_replay_init(cli_replaying *r, const char *command) {
  *r =
      (cli_replaying){.flags = {.asked = {.seed = -1, .keep = -1}, .grace = 30},
                      .from = -1,
                      .to = -1,
                      .again = {.command = command,
                                .hook = {.name = command,
                                         .user = r,
                                         .before_run = make_one_step,
                                         .after_run = compare_step},
                                .log = {take_line, r}}};
  r->flags.again = &r->again;
}

// Sets the step of --at, if --break is given. Returns false for other flags
// that do not go with it, which it reports.
static bool set_breakpoint(cli_replaying *r, int64_t at, bool breaks,
                           char folder[32]) {
  cli_breakpoint *breakpoint = &r->breakpoint;
  if ((at < 0) == breaks ||
      (breakpoint->folder != NULL && !breaks && r->flags.spike == 0) ||
      (breaks &&
       (r->from >= 0 || r->to >= 0 || (r->flags.spike > 0 && r->spike == 0))))
    return cli_refuse(r->again.command,
                      "--at STEP and --break belong together, with "
                      "--out, without --from, --to and --find-spike");
  if (!breaks) return true;
  if (r->estimator != NULL)
    return cli_refuse(r->again.command,
                      "--break is for a model's run: the step of an estimator "
                      "is in graph.ls, and 'lockstep train --resume RUN@STEP "
                      "--gradient-norm' goes on from one");
  snprintf(folder, 32, "step-%lld", (long long)at);
  if (breakpoint->folder == NULL) breakpoint->folder = folder;
  breakpoint->step = r->to = at;
  r->from = at - 1;
  return true;
}

// Makes the steps again and, if there is a spike, writes its files.
static int replay_to_spike(const cli_syntax *syntax, cli_replaying *r) {
  char folder[32];
  const int code = cli_replay_steps(syntax, r);
  if (r->spike == 0 || r->differs || code >= CLI_SIGNAL) return code;
  r->from = r->to = -1;
  return set_breakpoint(r, r->spike, true, folder) ? cli_replay_steps(syntax, r)
                                                   : CLI_USAGE;
}

int cli_replay(int argc, char **argv) {
  cli_replaying r;
  int64_t at = -1;
  bool breaks = false;
  char folder[32];
  cli_replay_init(&r, "replay");
  const cli_option options[] = {
      {"from", CLI_COUNT_OR_ZERO, &r.from, "STEP",
       "begin at the last checkpoint up to this step (default: before the "
       "first step)"},
      {"to", CLI_COUNT, &r.to, "STEP",
       "end after this step (default: the last one recorded, with --find-nan "
       "or --find-spike that of the run)"},
      {"at", CLI_COUNT, &at, "STEP",
       "make this step again, from the last checkpoint before it"},
      {"break", CLI_FLAG, &breaks, NULL,
       "write the batch of the step, as each replica gets it, the variables "
       "before it, and the gradients that it applies, as .npz and "
       ".safetensors; print the largest gradients"},
      {"out", CLI_TEXT, &r.breakpoint.folder, "FOLDER",
       "the folder of these files (default: step-STEP)"},
      CLI_FIND_SPIKE_OPTION(&r.flags),
      CLI_REPLAY_OPTIONS(&r.flags),
  };
  const cli_syntax syntax = {
      .command = "replay",
      .about = "Makes steps of a run again, in memory, and compares them bit "
               "by bit with what the run recorded: lines of metrics.jsonl, "
               "also with --checksum, and checkpoints. Prints the first "
               "difference, with its bits. Ends with code 0 if there is none, "
               "else 1. Nothing in the run's folder is changed.",
      CLI_OPTIONS(options),
      .operand_form = "RUN",
      .operand = &r.folder};
  int code = CLI_OK;
  if (!cli_replay_parse(&syntax, argc, argv, &r, &code)) return code;
  return set_breakpoint(&r, at, breaks, folder) ? replay_to_spike(&syntax, &r)
                                                : CLI_USAGE;
}

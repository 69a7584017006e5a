// SPDX-License-Identifier: Apache-2.0
// `lockstep train` of an estimator, in one process or on the ranks of a
// launcher.
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/estimator.h"
#include "cli/ranks.h"
#include "cli/train/train_flags.h"

// A training.
typedef struct training {
  cli_estimator e;
  const estimator_flags *flags;
  int64_t steps;  // Total; 0: until the input's end.
  char chosen[PATH_MAX];
  bool is_new;            // The folder is made by this training.
  char *json;             // Text of estimator.json.
  char *config;           // The same in one line.
  ls_progress *progress;  // NULL: quiet.
  ls_train_and_evaluation end;
} training;

// ---- Flags in the folder ---------------------------------------------------
// Runs under the lock of the folder, before its first checkpoint.
static ls_status keep_flags(void *user) {
  const training *run = user;
  return cli_estimator_keep(run->flags->folder, run->json);
}

// ---- Training --------------------------------------------------------------
// Refuses to resume a model's run.
static ls_status check_resumed(const train_flags *train) {
  char path[PATH_MAX];
  if (train->again != NULL || train->resume == NULL) return ls_ok();
  snprintf(path, sizeof(path), "%s/config.json", train->resume);
  return !cli_exists(path)
             ? ls_ok()
             : LS_STATUS(LS_FAILED_PRECONDITION,
                         "the run in '%s' is a model's, not an estimator's",
                         train->resume);
}

// Refuses to start a run in a folder that has one, and to resume in one that
// has none.
static ls_status check_folder(const training *run) {
  bool has_run = false;
  const char *folder = ls_estimator_model_dir(run->e.estimator);
  if (run->flags->train.again != NULL) return ls_ok();
  if (run->flags->train.resume != NULL)
    return cli_estimator_was_trained(&run->e);
  if (run->flags->train.overwrite) return ls_ok();
  LS_RETURN_IF_ERROR(cli_has_checkpoints(folder, &has_run));
  if (!has_run) return ls_ok();
  return LS_STATUS(LS_ALREADY_EXISTS,
                   "there is a run in '%s': --resume %s continues it, and "
                   "--overwrite replaces it",
                   folder, folder);
}

// Opens the input of steps that are made again, whose data may be checked.
static ls_nest open_input(void *user, ls_input_call *call) {
  const training *run = user;
  const cli_again *again = run->flags->train.again;
  if (again == NULL) cli_signals_handle(SIGPIPE, SIG_IGN);
  const ls_input_function *input = &run->e.type->train;
  ls_nest made = input->call(input->user, call);
  const ls_dataset *data = ls_nest_as_dataset(made);
  if (again->check == NULL || data == NULL) return made;
  const ls_status status = again->check(again->check_user, data, NULL);
  if (ls_status_is_ok(status)) return made;
  ls_nest_release(made);
  return ls_fail(status);
}

// Returns true if the checkpoints of the lowest losses are kept.
static bool keeps_loss(const ls_train_config *asked) {
  return asked->keep_best != NULL && strcmp(asked->keep_best, "loss") == 0;
}

// Returns the metric of an evaluation as the estimator calls it.
static const char *without_test(const char *metric) {
  return metric != NULL && strncmp(metric, "test_", 5) == 0 ? metric + 5 : NULL;
}

static ls_status train_with(training *run, ls_hook *const *hooks,
                            size_t num_hooks) {
  const ls_estimator_type *type = run->e.type;
  const ls_train_config *asked = &run->flags->train.asked;
  const ls_opt steps =
      run->steps > 0 ? (ls_opt)LS_SOME(run->steps) : (ls_opt){0};
  const ls_train_stop *stop =
      cli_signals_defer((unsigned)run->flags->train.grace);
  const bool overwrite = run->flags->train.overwrite;
  const cli_again *again = run->flags->train.again;
  const ls_input_function input =
      again != NULL ? (ls_input_function){.call = open_input, .user = run}
                    : type->train;
  const ls_training_lines lines = {
      .metrics = again == NULL || again->log.line != NULL,
      .log = again != NULL ? again->log : (ls_train_log){0},
      .checksum = asked->checksum,
      .gradient_norm = run->flags->train.gradient_norm,
      .attest = run->flags->train.attest,
      .config = run->config,
      .check_ranks = asked->check_ranks,
      .events = run->flags->train.events,
      .keep_best_loss = keeps_loss(asked),
      .report = run->progress != NULL ? ls_progress_show : NULL,
      .report_user = run->progress};
  if (!cli_estimator_tests(run->flags))
    return ls_estimator_train(run->e.estimator,
                              &(ls_estimator_training){.input = input,
                                                       .max_steps = steps,
                                                       .hooks = hooks,
                                                       .num_hooks = num_hooks,
                                                       .stop = stop,
                                                       .overwrite = overwrite,
                                                       .lines = lines},
                              &run->end.training);
  const int64_t eval_steps =
      asked->test_steps > 0 ? asked->test_steps : type->eval_steps;
  const bool counted = eval_steps > 0;
  return ls_train_and_evaluate(
      run->e.estimator,
      &(ls_train_spec){.input = input,
                       .max_steps = steps,
                       .hooks = hooks,
                       .num_hooks = num_hooks,
                       .stop = stop,
                       .overwrite = overwrite,
                       .lines = lines},
      &(ls_eval_spec){.input = type->eval,
                      .steps =
                          counted ? (ls_opt)LS_SOME(eval_steps) : (ls_opt){0},
                      .whole_input = !counted,
                      .throttle_secs = LS_SOME(run->flags->eval_seconds),
                      .stop_early = without_test(asked->stop_early),
                      .patience = asked->patience,
                      .min_delta = asked->min_delta,
                      .keep_best = without_test(asked->keep_best)},
      &run->end);
}

static ls_status train_estimator(training *run) {
  CLI_OWN(ls_hook, guard) = NULL;
  CLI_OWN(ls_hook, keeper) = NULL;
  CLI_OWN(ls_hook, spike) = NULL;
  CLI_OWN(ls_hook, again) = NULL;
  ls_hook *hooks[4];
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      cli_ranks_agree(cli_leads() ? check_folder(run) : ls_ok()));
  if (run->flags->train.again != NULL) {
    LS_RETURN_IF_ERROR(ls_hook_create(&run->flags->train.again->hook, &again));
    hooks[count++] = again;
  }
  if (cli_device.find_nan) {
    LS_RETURN_IF_ERROR(ls_nan_hook_named("loss", LS_FLAG_ON, &guard));
    hooks[count++] = guard;
  }
  if (run->flags->train.spike != 0) {
    LS_RETURN_IF_ERROR(cli_spike_hook(&run->flags->train, &spike));
    hooks[count++] = spike;
  }
  if (cli_leads()) {
    LS_RETURN_IF_ERROR(ls_hook_create(
        &(ls_hook_options){
            .name = "estimator.json", .user = run, .begin = keep_flags},
        &keeper));
    hooks[count++] = keeper;
  }
  LS_RETURN_IF_ERROR(
      cli_estimator_print(run->flags, run->e.type, false, &run->json));
  LS_RETURN_IF_ERROR(
      cli_estimator_print(run->flags, run->e.type, true, &run->config));
  if (!run->flags->train.quiet && cli_leads())
    LS_RETURN_IF_ERROR(cli_progress_open(run->e.runtime, &run->progress));
  const ls_status status = train_with(run, hooks, count);
  ls_progress_destroy(run->progress);
  run->progress = NULL;
  return status;
}

static int report_end(const training *run) {
  const ls_training_end *end = &run->end.training;
  const char *folder = ls_estimator_model_dir(run->e.estimator);
  if (run->flags->train.again != NULL)
    return cli_end_again(run->flags->train.again, end->step);
  const int code = end->stopped ? cli_ranks_stopped() : CLI_OK;
  if (!cli_leads()) return code;
  if (end->stopped && end->step < 0)
    cli_say("train", "stopped before the first step; there is no run");
  else if (run->end.stopped_early && !run->flags->train.quiet)
    cli_say("train",
            "stopped early after %lld steps: %s was best at step %lld, %.6g; "
            "the run is in %s",
            (long long)end->step, run->flags->train.asked.stop_early,
            (long long)run->end.best_step, run->end.best, folder);
  else if (!run->flags->train.quiet)
    cli_say("train", "%sstep %lld; the run is in %s%s",
            end->stopped ? "stopped at " : "", (long long)end->step, folder,
            end->stopped ? ", --resume continues it" : "");
  if (run->flags->train.result != NULL && !end->stopped && end->has_loss)
    printf("seed %lld: ", (long long)run->flags->train.asked.seed);
  if (run->end.metrics.kind == LS_KIND_DICT && !end->stopped)
    cli_print_metrics(run->end.metrics, false);
  else if (end->has_loss && !end->stopped)
    printf("loss: %.4f\n", end->loss);
  return code;
}

// Gives --seeds the values that report_end prints.
static void give_result(const training *run, ls_train_result *out) {
  const ls_nest metrics = run->end.metrics;
  out->tested = run->end.training.has_loss;
  out->test.loss = run->end.training.loss;
  if (!ls_estimator_has_evaluated(metrics)) return;
  out->test.loss = ls_nest_number(ls_nest_find(metrics, "loss"));
  if (!cli_is_linked(run->e.type)) return;
  out->task = cli_linked_task();
  out->test.accuracy = ls_nest_number(ls_nest_find(metrics, out->task->metric));
}

// ---- The command -----------------------------------------------------------
static bool check_flags(const estimator_flags *flags,
                        const ls_estimator_type *type) {
  const train_flags *train = &flags->train;
  const ls_train_config *asked = &train->asked;
  const char *says = NULL;
  if (type->train.call == NULL)
    says = "the estimator has no input to train with (its field 'train')";
  else if (cli_estimator_tests(flags) && type->eval.call == NULL)
    says = "--eval-every, --stop-early and --keep-best: the estimator has no "
           "input to evaluate with (its field 'eval')";
  else if (cli_estimator_tests(flags) && cli_is_linked(type) &&
           asked->test != NULL && strcmp(asked->test, "none") == 0)
    says = "--eval-every, --stop-early and --keep-best need a test set, and "
           "--test is none";
  else if (asked->test_steps > 0 && !cli_estimator_tests(flags))
    says = "--test-steps is for the evaluations of --eval-every, --stop-early "
           "and --keep-best";
  else if (asked->keep_best != NULL && !keeps_loss(asked) &&
           without_test(asked->keep_best) == NULL)
    says = "--keep-best: checkpoints of an estimator are compared by loss or "
           "by their evaluations, as by test_loss";
  else if (train->find_lr != NULL &&
           (flags->params != NULL || flags->iterations != NULL))
    says = "--find-lr chooses the rates, of one step each: leave --param and "
           "--iterations-per-loop out";
  else if (cli_is_linked(type) && train->resume == NULL &&
           flags->params != NULL && asked->learning_rate != 0)
    says = "--learning-rate and --param learning_rate: give one of them";
  else if (asked->stop_early == NULL &&
           (asked->patience != 0 || asked->min_delta != 0))
    says = "--patience and --min-delta are for --stop-early";
  else if (asked->save_every > 0 && asked->save_every_steps > 0)
    says = "--save-every and --save-every-steps: give one of them";
  else if (asked->keep_every_hours != (double)(int64_t)asked->keep_every_hours)
    says = "--keep-every-hours counts whole hours of an estimator";
  else if (train->resume_step.set && train->run_folder == NULL)
    says = "--resume RUN@STEP goes on in a new folder: add --run-dir";
  else if (train->resume_step.set && train->overwrite)
    says = "--resume RUN@STEP goes on in a new folder: remove that of "
           "--run-dir, instead of --overwrite";
  else if (train->tpu != NULL && asked->steps == 0 && type->train_steps == 0 &&
           !cli_is_linked(type))
    says = "--steps is missing: with --tpu a training does not end with its "
           "input";
  if (says != NULL) cli_refuse("train", "%s", says);
  return says == NULL;
}

// Checks that the paths of the data can be absolute, as the run keeps them.
static ls_status check_paths(const ls_train_config *asked) {
  char room[PATH_MAX];
  const char *data = asked->data, *test = asked->test;
  if (data != NULL) LS_RETURN_IF_ERROR(cli_full_data(&data, room));
  return test != NULL ? cli_full_data(&test, room) : ls_ok();
}

// Makes the folder of a training that goes on from a step of another one.
static ls_status begin_branch(const estimator_flags *flags) {
  const train_flags *train = &flags->train;
  if (!train->resume_step.set) return ls_ok();
  return cli_ranks_agree(
      cli_leads() ? cli_estimator_branch(
                        train->resume, train->resume_step.value, flags->folder)
                  : ls_ok());
}

static ls_status make_folder_in(const char *base, char path[PATH_MAX]) {
  if (base == NULL || base[0] == '\0') base = "/tmp";
  snprintf(path, PATH_MAX, "%s/lockstep-steps-XXXXXX", base);
  return mkdtemp(path) != NULL
             ? ls_ok()
             : LS_STATUS(LS_UNAVAILABLE, "cannot make a folder in '%s': %s",
                         base, strerror(errno));
}

// Makes a folder for steps that are made again, on rank 0 for all.
static ls_status make_passing_folder(char path[PATH_MAX]) {
  ls_runtime *runtime = NULL;
  ls_status status = cli_runtime_open(1, NULL, &runtime);
  if (ls_status_is_ok(status) && cli_leads())
    status = make_folder_in(ls_runtime_environment(runtime, "TMPDIR"), path);
  (void)cli_runtime_close("train", runtime, CLI_OK);
  LS_RETURN_IF_ERROR(cli_ranks_agree(status));
  return cli_ranks_send(path, PATH_MAX);
}

static int remove_entry(const char *path, const struct stat *info, int kind,
                        struct FTW *at) {
  (void)info, (void)kind, (void)at;
  return remove(path);
}

static ls_status open_and_train(training *run, estimator_flags *flags,
                                const ls_estimator_type *type) {
  const train_flags *train = &flags->train;
  const bool goes_on =
      train->resume != NULL && !train->resume_step.set && train->again == NULL;
  LS_RETURN_IF_ERROR(
      cli_ranks_agree(cli_leads() ? check_resumed(train) : ls_ok()));
  flags->folder = goes_on ? train->resume : train->run_folder;
  run->is_new = flags->folder == NULL || !cli_exists(flags->folder);
  if (flags->folder == NULL) {
    flags->folder = run->chosen;
    LS_RETURN_IF_ERROR(
        train->again != NULL
            ? make_passing_folder(run->chosen)
            : cli_choose_folder(type->name, run->chosen, sizeof(run->chosen)));
  }
  LS_RETURN_IF_ERROR(cli_ranks_agree(cli_estimator_open(
      cli_train_command(train), flags, type, LS_MODE_TRAIN, &run->e)));
  run->steps = cli_is_linked(type)      ? cli_linked_config()->steps
               : train->asked.steps > 0 ? train->asked.steps
                                        : type->train_steps;
  LS_RETURN_IF_ERROR(begin_branch(flags));
  return train_estimator(run);
}

// Returns true if nothing in a training's folder is worth keeping.
static bool is_unbegun(const training *run) {
  char metrics[PATH_MAX];
  bool has_saved = true;
  const char *folder = run->flags->folder;
  if (!run->is_new || folder == NULL) return false;
  snprintf(metrics, sizeof(metrics), "%s/metrics.jsonl", folder);
  ls_status_free(cli_has_checkpoints(folder, &has_saved));
  return !has_saved && !cli_exists(metrics);
}

static int run_training(estimator_flags *flags, const ls_estimator_type *type) {
  training run = {.flags = flags};
  const bool is_again = flags->train.again != NULL;
  const char *command = cli_train_command(&flags->train);
  const ls_status status =
      cli_estimator_note_batch(flags, open_and_train(&run, flags, type));
  cli_signals_saved();
  const int code =
      ls_status_is_ok(status)
          ? report_end(&run)
          : cli_report(command,
                       cli_note_saved(is_again ? NULL : flags->folder, status));
  if (flags->train.result != NULL) give_result(&run, flags->train.result);
  ls_train_and_evaluation_deinit(&run.end);
  cli_release(run.json);
  cli_release(run.config);
  const char *left = is_again ? run.chosen : flags->folder;
  if (cli_leads() && (is_again || (code != CLI_OK && is_unbegun(&run))))
    (void)nftw(left, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  return cli_estimator_close(command, &run.e, code);
}

// The argument that cli_with_train_flags passes on.
typedef struct estimator_words {
  estimator_flags flags;
  const ls_estimator_type *type;
} estimator_words;

static int run_words(const cli_syntax *syntax, train_flags *train, void *user) {
  const estimator_words *words = user;
  estimator_flags own = words->flags, *flags = &own;
  CLI_OWN(cli_kept_flags, kept) = {0};
  if (cli_train_has_seeds(train))
    return cli_train_seeds(syntax, train, run_words, user);
  int code = cli_train_restart(train);
  if (code != CLI_OK) return code;
  train->any_metric = true;
  if (!cli_train_check(train)) return CLI_USAGE;
  const ls_status status = check_paths(&train->asked);
  if (!ls_status_is_ok(status)) return cli_report("train", status);
  flags->train = *train;
  code =
      cli_estimator_recall("train", train->resume, flags, words->type, &kept);
  if (code != CLI_OK) return code;
  if (flags->train.own_events && flags->train.events == NULL)
    flags->train.events = "";
  const char *optimizer = flags->train.asked.optimizer;
  if (!cli_estimator_check("train", flags, words->type) ||
      !check_flags(flags, words->type) ||
      (train->resume != NULL &&
       !cli_train_check_optimizer(&train->asked,
                                  optimizer != NULL ? optimizer : "")))
    return CLI_USAGE;
  return train->find_lr != NULL
             ? cli_train_find_rate(syntax, train, run_words, user)
             : run_training(flags, words->type);
}

int cli_estimator_make_again(const ls_estimator_type *type, const char *params,
                             const train_flags *train) {
  estimator_flags flags = {.train = *train, .params = params};
  CLI_OWN(cli_kept_flags, kept) = {0};
  ls_train_config *asked = &flags.train.asked;
  const int code =
      cli_estimator_recall("train", train->resume, &flags, type, &kept);
  if (code != CLI_OK) return code;
  // Nothing is evaluated or saved.
  asked->stop_early = asked->keep_best = NULL;
  flags.train.attest = false;
  flags.eval_seconds = asked->save_every = asked->save_every_steps = 0;
  asked->checksum = train->asked.checksum;
  asked->patience = 0;
  asked->min_delta = 0;
  return run_training(&flags, type);
}

int cli_estimator_train(const ls_estimator_type *type, int argc, char **argv) {
  estimator_words words = {.type = type};
  estimator_flags *flags = &words.flags;
  const cli_option options[] = {
      CLI_PARAM_OPTION(&flags->params),
      {"iterations-per-loop", CLI_TEXT, &flags->iterations, "N|TIME",
       "steps per program on the TPU: 100, or as many as fit into a time: 30s, "
       "5m, 1h (default: the estimator's)"},
      {"eval-every", CLI_COUNT, &flags->eval_seconds, "SECONDS",
       "evaluate at the end and after checkpoints, at most this often; with "
       "--stop-early or --keep-best after each"},
  };
  return cli_with_train_flags(
      &(cli_train_words){
          .syntax =
              {.command = "train",
               .about =
                   "Trains an estimator: its model function on its input, on "
                   "the CPU, on the cores of a TPU system, or in replicas. "
                   "Prints the last loss, or the metrics of --eval-every. The "
                   "run folder gets checkpoints, metrics.jsonl, event "
                   "files, graph.ls and estimator.json. A signal ends the run "
                   "after its current "
                   "loop of steps and saves it, as for models: see 'lockstep "
                   "train --help'.",
               .subject = type->name,
               .description = type->description,
               CLI_OPTIONS(options),
               .refused = cli_is_linked(type) ? (cli_refusals){0}
                                              : cli_train_refused_by_libraries},
          .run = run_words,
          .user = &words},
      argc, argv);
}

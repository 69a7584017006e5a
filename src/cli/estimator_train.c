// SPDX-License-Identifier: Apache-2.0
// `lockstep train` of an estimator, in one process or on the ranks of a
// launcher.
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/estimator.h"
#include "cli/ranks.h"

// A training and its progress line.
typedef struct training {
  cli_estimator e;
  const cli_syntax *syntax;
  const estimator_flags *flags;
  int64_t steps;  // Total; 0: until the input's end.
  char chosen[PATH_MAX];
  cli_ticker ticker;
  int64_t first;  // First step; -1: not started.
  ls_train_and_evaluation end;
} training;

// ---- Progress --------------------------------------------------------------
static ls_status note_first_step(void *user, ls_run_context *context) {
  training *run = user;
  int64_t step = 0;
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (run->first < 0) {
    run->first = step;
    cli_ticker_begin(&run->ticker);
  }
  return ls_ok();
}

static ls_status show_step(void *user, ls_run_context *context,
                           ls_nest results) {
  training *run = user;
  int64_t step = 0;
  (void)results;
  if (!cli_ticker_due(&run->ticker)) return ls_ok();
  double loss = 0;
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  LS_RETURN_IF_ERROR(ls_run_context_number(context, "loss", &loss));
  cli_ticker_show(&run->ticker, &(cli_place){.step = step,
                                             .first = run->first,
                                             .all = run->steps,
                                             .loss = loss});
  return ls_ok();
}

static ls_status make_progress(training *run, ls_hook **out_hook) {
  run->first = -1;
  run->ticker = (cli_ticker){.terminal = cli_can_rewrite(run->e.runtime)};
  return ls_hook_create(
      &(ls_hook_options){.name = "progress",
                         .user = run,
                         .after_create_session = note_first_step,
                         .after_run = show_step},
      out_hook);
}

// ---- Flags in the folder ---------------------------------------------------
// Runs under the lock of the folder, before its first checkpoint.
static ls_status keep_flags(void *user) {
  const training *run = user;
  return cli_estimator_keep(run->flags, run->e.type);
}

static ls_status make_keeper(training *run, ls_hook **out_hook) {
  return ls_hook_create(&(ls_hook_options){.name = "estimator.json",
                                           .user = run,
                                           .begin = keep_flags},
                        out_hook);
}

// ---- Training --------------------------------------------------------------
// Refuses to start a run in a folder that has one, and to resume in one that
// has none.
static ls_status check_folder(const training *run) {
  bool has_run = false;
  const char *folder = ls_estimator_model_dir(run->e.estimator);
  if (run->flags->resume != NULL) return cli_estimator_was_trained(&run->e);
  LS_RETURN_IF_ERROR(cli_estimator_has_run(&run->e, &has_run));
  if (!has_run) return ls_ok();
  return LS_STATUS(LS_ALREADY_EXISTS,
                   "there is a run in '%s': --resume %s continues it", folder,
                   folder);
}

static ls_status train_with(training *run, ls_hook *const *hooks,
                            size_t num_hooks) {
  const ls_estimator_type *type = run->e.type;
  const ls_opt steps =
      run->steps > 0 ? (ls_opt)LS_SOME(run->steps) : (ls_opt){0};
  const ls_train_stop *stop = cli_signals_defer((unsigned)run->flags->grace);
  if (run->flags->eval_seconds == 0)
    return ls_estimator_train(run->e.estimator,
                              &(ls_estimator_training){.input = type->train,
                                                       .max_steps = steps,
                                                       .hooks = hooks,
                                                       .num_hooks = num_hooks,
                                                       .stop = stop},
                              &run->end.training);
  const bool counted = type->eval_steps > 0;
  return ls_train_and_evaluate(
      run->e.estimator,
      &(ls_train_spec){.input = type->train,
                       .max_steps = steps,
                       .hooks = hooks,
                       .num_hooks = num_hooks,
                       .stop = stop},
      &(ls_eval_spec){.input = type->eval,
                      .steps = counted ? (ls_opt)LS_SOME(type->eval_steps)
                                       : (ls_opt){0},
                      .whole_input = !counted,
                      .throttle_secs = LS_SOME(run->flags->eval_seconds)},
      &run->end);
}

static ls_status train_estimator(training *run) {
  CLI_OWN(ls_hook, progress) = NULL;
  CLI_OWN(ls_hook, guard) = NULL;
  CLI_OWN(ls_hook, keeper) = NULL;
  ls_hook *hooks[3];
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      cli_ranks_agree(cli_leads() ? check_folder(run) : ls_ok()));
  if (cli_device.find_nan) {
    LS_RETURN_IF_ERROR(ls_nan_hook_named("loss", LS_FLAG_ON, &guard));
    hooks[count++] = guard;
  }
  if (cli_leads()) {
    LS_RETURN_IF_ERROR(make_keeper(run, &keeper));
    hooks[count++] = keeper;
  }
  if (!run->flags->quiet && cli_leads()) {
    LS_RETURN_IF_ERROR(make_progress(run, &progress));
    hooks[count++] = progress;
  }
  const ls_status status = train_with(run, hooks, count);
  cli_ticker_end(&run->ticker);
  return status;
}

static int report_end(const training *run) {
  const ls_training_end *end = &run->end.training;
  const char *folder = ls_estimator_model_dir(run->e.estimator);
  if (!cli_leads())
    return end->stopped ? CLI_SIGNAL + cli_signals_first() : CLI_OK;
  char line[4 * PATH_MAX] = "";
  if (end->stopped)
    cli_estimator_resumption(run->syntax, folder, line, sizeof(line));
  if (!run->flags->quiet)
    cli_say("train", "%sstep %lld; the run is in %s%s%s",
            end->stopped ? "stopped at " : "", (long long)end->step, folder,
            end->stopped ? ", --resume continues it: " : "", line);
  if (run->end.metrics.kind == LS_KIND_DICT && !end->stopped)
    cli_print_metrics(run->end.metrics, false);
  else if (end->has_loss && !end->stopped)
    printf("loss: %.4f\n", end->loss);
  return end->stopped ? CLI_SIGNAL + cli_signals_first() : CLI_OK;
}

// ---- The command -----------------------------------------------------------
static bool check_flags(const estimator_flags *flags,
                        const ls_estimator_type *type) {
  const char *says = NULL;
  if (type->train.call == NULL)
    says = "the estimator has no input to train with (its field 'train')";
  else if (flags->eval_seconds > 0 && type->eval.call == NULL)
    says = "--eval-every: the estimator has no input to evaluate with (its "
           "field 'eval')";
  else if (flags->resume != NULL && flags->run_folder != NULL)
    says = "--resume continues in its own folder; leave --run-dir out";
  else if (flags->resume != NULL && flags->warm_start != NULL)
    says = "--resume continues with the run's values; --warm-start cannot be "
           "given with it";
  else if (flags->warm_start == NULL &&
           (flags->warm_only != NULL || flags->warm_map != NULL))
    says = "--only and --map are for --warm-start";
  else if (flags->save_seconds > 0 && flags->save_steps > 0)
    says = "--save-every and --save-every-steps: give one of them";
  else if (cli_is_linked(type) && flags->steps == 0)
    says = "--steps is missing: data of --estimator repeat for ever";
  else if (flags->tpu != NULL && flags->steps == 0 && type->train_steps == 0)
    says = "--steps is missing: with --tpu a training does not end with its "
           "input";
  if (says != NULL) cli_say("train", "%s", says);
  return says == NULL;
}

static ls_status open_and_train(training *run, estimator_flags *flags,
                                const ls_estimator_type *type) {
  run->steps = flags->steps > 0 ? flags->steps : type->train_steps;
  flags->folder = flags->resume != NULL ? flags->resume : flags->run_folder;
  if (flags->folder == NULL) {
    flags->folder = run->chosen;
    LS_RETURN_IF_ERROR(
        cli_choose_folder(type->name, run->chosen, sizeof(run->chosen)));
  }
  LS_RETURN_IF_ERROR(cli_ranks_agree(
      cli_estimator_open("train", flags, type, LS_MODE_TRAIN, &run->e)));
  return train_estimator(run);
}

static int run_training(const cli_syntax *syntax, estimator_flags *flags,
                        const ls_estimator_type *type) {
  training run = {.syntax = syntax, .flags = flags};
  const ls_status status =
      cli_estimator_note_batch(flags, open_and_train(&run, flags, type));
  cli_signals_saved();
  const int code =
      ls_status_is_ok(status)
          ? report_end(&run)
          : cli_report("train", cli_note_saved(flags->folder, status));
  ls_train_and_evaluation_deinit(&run.end);
  const int closed = cli_estimator_close("train", &run.e, code);
  // Removes the folder only if it is empty: the run did not begin.
  if (closed != CLI_OK && run.chosen[0] != '\0' && cli_leads())
    (void)rmdir(run.chosen);
  return closed;
}

// Lets a run that was started again, or has --resume auto, resume if it has a
// checkpoint.
static int restart_run(estimator_flags *flags) {
  cli_restart how = CLI_NO_RESTART;
  const int code =
      cli_ranks_restart("train", &flags->run_folder, &flags->resume, &how);
  if (how == CLI_RESUMES)
    flags->warm_start = flags->warm_only = flags->warm_map = NULL;
  return code;
}

int cli_estimator_train(const ls_estimator_type *type, int argc, char **argv) {
  estimator_flags flags = {.seed = -1, .keep = -1, .grace = 30};
  const cli_option options[] = {
      CLI_ESTIMATOR_MODEL_OPTION(&flags.model),
      CLI_LINKED_OPTION(&flags.estimator),
      CLI_LINKED_TASK_OPTIONS(&flags.data),
      CLI_LINKED_DATA_OPTIONS(&flags.data),
      CLI_PARAM_OPTION(&flags.params),
      CLI_TPU_OPTION(&flags.tpu),
      {"iterations-per-loop", CLI_TEXT, &flags.iterations, "N|TIME",
       "steps per program on the TPU: 100, or as many as fit into a time: 30s, "
       "5m, 1h (default: the estimator's)",
       0},
      {"replicas", CLI_COUNT, &flags.replicas, "N",
       "replicas of a mirrored strategy that share each batch", 1},
      CLI_THREADS_OPTION(&flags.threads),
      CLI_DEVICE_OPTIONS,
      {"batch-size", CLI_COUNT, &flags.batch_size, "N",
       "global batch size (default: the estimator's)", 1},
      {"steps", CLI_COUNT, &flags.steps, "N",
       "end after N steps in all (default: the estimator's, else the end of "
       "the input)",
       1},
      CLI_MATH_OPTION(&flags.math),
      {"seed", CLI_COUNT, &flags.seed, "N",
       "seed of everything random (default: the estimator's own)", 0},
      {"eval-every", CLI_COUNT, &flags.eval_seconds, "SECONDS",
       "evaluate at the end and during training, at most this often", 1},
      {"run-dir", CLI_TEXT, &flags.run_folder, "DIR",
       "folder of the run (default: a new runs/NAME-N)", 0},
      {"resume", CLI_TEXT, &flags.resume, "DIR",
       "continue the run there, from its newest checkpoint, as if it had not "
       "stopped; auto: the run in --run-dir if it has a checkpoint, else a new "
       "one",
       0},
      {"warm-start", CLI_TEXT, &flags.warm_start, "PATH",
       "start with the values of another run, a checkpoint, or a .safetensors "
       "or .npz file",
       0},
      {"only", CLI_TEXT, &flags.warm_only, "A,B",
       "only these variables: 'dense/*,head/bias'", 0},
      {"map", CLI_TEXT, &flags.warm_map, "OLD=NEW,...",
       "load NEW from the file's OLD", 0},
      {"save-every", CLI_COUNT, &flags.save_seconds, "SECONDS",
       "interval between checkpoints (default 60)", 1},
      {"save-every-steps", CLI_COUNT, &flags.save_steps, "N",
       "interval in steps, instead", 1},
      {"keep", CLI_COUNT, &flags.keep, "N",
       "number of newest checkpoints to keep (default 5; 0: all)", 0},
      {"grace", CLI_COUNT, &flags.grace, "SECONDS",
       "time to end and save the run after a signal (default 30; 0: no limit)",
       0},
      {"allow-inexact", CLI_FLAG, &flags.inexact, NULL,
       "resume with other flags than the run's, with other bits", 0},
      CLI_FIND_NAN_OPTION,
      CLI_TRACE_OPTION(&flags.trace),
      {"quiet", CLI_FLAG, &flags.quiet, NULL, "show no progress", 0},
  };
  const cli_syntax syntax = {
      .command = "train",
      .about =
          "Trains an estimator of a shared library: its model function on its "
          "input, on the CPU, on the cores of a TPU system, or in replicas. "
          "Prints the last loss, or the metrics of --eval-every. The run "
          "folder gets checkpoints, event files and graph.ls. A signal ends "
          "the run after its current loop of steps and saves it, as for "
          "models: see 'lockstep train --help'.",
      CLI_OPTIONS(options)};
  int code = CLI_OK;
  if (!cli_estimator_parse(&syntax, type, argc, argv, &code)) return code;
  CLI_OWN(cli_kept_flags, kept) = {0};
  if (flags.inexact && flags.resume == NULL) {
    cli_say("train", "--allow-inexact is for --resume");
    return CLI_USAGE;
  }
  code = restart_run(&flags);
  if (code == CLI_OK) code = cli_estimator_continue(&flags, type, &kept);
  if (code != CLI_OK) return code;
  if (!cli_estimator_check("train", &flags, type) || !check_flags(&flags, type))
    return CLI_USAGE;
  return run_training(&syntax, &flags, type);
}

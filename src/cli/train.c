// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "lockstep/train.h"

typedef struct train_flags {
  const char *model, *data, *run_folder, *schedule;
  int64_t replicas, threads, batch_size, epochs, steps, seed;
  double learning_rate;
  bool overwrite, quiet;
} train_flags;

// Everything that a run holds.
typedef struct session {
  ls_runtime *runtime;
  ls_strategy *strategy;
  ls_model model;
  ls_dataset *train, *test;
  ls_progress *progress;
  ls_train_result result;
} session;

// ---- Signals ---------------------------------------------------------------
static ls_train_stop stop;
static volatile sig_atomic_t stop_signal;

static void request_stop(int signal_number) {
  stop_signal = signal_number;
  ls_train_stop_request(&stop);
}

// The first signal asks the run to end, the second one ends the program.
static void watch_signals(void) {
  struct sigaction action = {.sa_handler = request_stop,
                             .sa_flags = (int)SA_RESETHAND | SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

// ---- Parts of a run --------------------------------------------------------
static ls_status open_data(const train_flags *flags, const ls_model_type *type,
                           session *run) {
  if (strcmp(flags->data, "synthetic") == 0) {
    ls_synthetic_options options = {.size = 8192,
                                    .shape = type->example_shape,
                                    .num_classes = type->num_classes};
    LS_RETURN_IF_ERROR(ls_dataset_synthetic(&options, &run->train));
    options.size = 1024;
    options.sample = 1;
    return ls_dataset_synthetic(&options, &run->test);
  }
  const char *directory =
      strcmp(flags->data, "fashion-mnist") == 0 ? NULL : flags->data;
  LS_RETURN_IF_ERROR(ls_dataset_fashion_mnist(directory, true, &run->train));
  return ls_dataset_fashion_mnist(directory, false, &run->test);
}

static void write_progress(void *user, const char *text) {
  (void)user;
  fputs(text, stderr);
}

static ls_status open_progress(session *run) {
  struct winsize window = {0};
  const bool terminal = isatty(STDERR_FILENO) == 1;
  if (terminal) (void)ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
  return ls_progress_create(&(ls_progress_options){.write = write_progress,
                                                   .terminal = terminal,
                                                   .width = window.ws_col},
                            &run->progress);
}

// A run folder of its own for a run that was not given one: the first of
// runs/MODEL-1, runs/MODEL-2, ... that is not there.
static void choose_folder(const ls_model_type *type, char *path, size_t size) {
  struct stat info;
  int number = 1;
  do {
    snprintf(path, size, "runs/%s-%d", type->name, number++);
  } while (stat(path, &info) == 0);
}

static ls_status train(const train_flags *flags, const ls_model_type *type,
                       const char *run_folder, session *run) {
  LS_RETURN_IF_ERROR(cli_runtime_open(flags->threads, &run->runtime));
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(flags->replicas)},
      &run->strategy));
  LS_RETURN_IF_ERROR(open_data(flags, type, run));
  LS_RETURN_IF_ERROR(ls_train_check_data(type, run->train));
  const bool decays = strcmp(flags->schedule, "linear") == 0;
  const int64_t steps =
      ls_train_count_steps(type, ls_dataset_size(run->train), flags->batch_size,
                           flags->epochs, flags->steps);
  LS_RETURN_IF_ERROR(
      ls_model_create(type,
                      &(ls_model_options){.seed = flags->seed,
                                          .learning_rate = flags->learning_rate,
                                          .decay_steps = decays ? steps : 0,
                                          .metrics = true},
                      &run->model));
  if (!flags->quiet) LS_RETURN_IF_ERROR(open_progress(run));
  return ls_train(
      &(ls_train_options){.model = &run->model,
                          .strategy = run->strategy,
                          .train = run->train,
                          .test = run->test,
                          .batch_size = flags->batch_size,
                          .epochs = flags->epochs,
                          .steps = flags->steps,
                          .seed = flags->seed,
                          .run_folder = run_folder,
                          .overwrite = flags->overwrite,
                          .data_name = flags->data,
                          .learning_rate = flags->learning_rate,
                          .schedule = flags->schedule,
                          .stop = &stop,
                          .report = flags->quiet ? NULL : ls_progress_show,
                          .report_user = run->progress},
      &run->result);
}

static void end(session *run) {
  ls_progress_destroy(run->progress);
  ls_model_destroy(&run->model);
  ls_dataset_release(run->train);
  ls_dataset_release(run->test);
  ls_strategy_release(run->strategy);
}

static int print_result(const train_flags *flags, const char *run_folder,
                        const ls_train_result *result) {
  if (!flags->quiet)
    cli_say("train", "%s%lld steps in %.1f s; the run is in %s",
            result->stopped ? "stopped after " : "", (long long)result->steps,
            result->seconds, run_folder);
  if (result->tested && !result->stopped)
    printf("test accuracy: %.4f\n", result->test.accuracy);
  return result->stopped ? CLI_SIGNAL + (int)stop_signal : CLI_OK;
}

// ---- The command -----------------------------------------------------------
static int run_train(const train_flags *flags) {
  const ls_model_type *type = cli_find_model("train", flags->model);
  if (type == NULL) return CLI_USAGE;
  char chosen[256];
  const char *run_folder = flags->run_folder;
  if (run_folder == NULL) {
    choose_folder(type, chosen, sizeof(chosen));
    run_folder = chosen;
  }
  watch_signals();
  session run = {0};
  ls_status status = train(flags, type, run_folder, &run);
  end(&run);  // Ends a line of progress before anything else is said.
  if (ls_status_code(status) == LS_ALREADY_EXISTS)
    status = ls_status_annotate(status, "with --run-dir, or --overwrite");
  const int code = ls_status_is_ok(status)
                       ? print_result(flags, run_folder, &run.result)
                       : cli_report("train", status);
  return cli_runtime_close("train", run.runtime, code);
}

int cli_train(int argc, char **argv) {
  train_flags flags = {.model = "mlp",
                       .data = "fashion-mnist",
                       .schedule = "linear",
                       .replicas = 1};
  const cli_option options[] = {
      {"model", CLI_TEXT, &flags.model, "NAME",
       "what to train (default mlp); see 'lockstep help'", 0},
      {"data", CLI_TEXT, &flags.data, "NAME|DIR",
       "fashion-mnist (default), synthetic, or a folder with\n"
       "the four IDX files of MNIST or its like",
       0},
      {"replicas", CLI_COUNT, &flags.replicas, "N",
       "replicas that share each batch (default 1)", 1},
      {"threads", CLI_COUNT, &flags.threads, "N",
       "compute threads (default: one per core)", 1},
      {"batch-size", CLI_COUNT, &flags.batch_size, "N",
       "examples a step, of all replicas (default: the model's)", 1},
      {"epochs", CLI_COUNT, &flags.epochs, "N",
       "passes over the training set (default: the model's)", 1},
      {"steps", CLI_COUNT, &flags.steps, "N",
       "end after so many steps (default: whole epochs)", 1},
      {"learning-rate", CLI_REAL, &flags.learning_rate, "X",
       "of the first step (default: the model's)", 0},
      {"schedule", CLI_TEXT, &flags.schedule, "NAME",
       "linear (default): the rate falls to 0 over the run;\n"
       "constant: it stays",
       0},
      {"seed", CLI_COUNT, &flags.seed, "N",
       "of first weights and order of examples (default 0)", 0},
      {"run-dir", CLI_TEXT, &flags.run_folder, "DIR",
       "where the run is kept (default: a new runs/MODEL-N)", 0},
      {"overwrite", CLI_FLAG, &flags.overwrite, NULL,
       "replace a run that is in --run-dir", 0},
      {"quiet", CLI_FLAG, &flags.quiet, NULL, "show no progress", 0},
  };
  const cli_syntax syntax = {
      .command = "train",
      .about =
          "Trains a model and prints its accuracy on the test set. The run "
          "folder gets\nconfig.json, metrics.jsonl and model.safetensors. "
          "Ctrl-C ends the run after the\nstep it is in, saves the model and "
          "exits with code 130.",
      .options = options,
      .num_options = sizeof(options) / sizeof(options[0])};
  int code = CLI_OK;
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  if (strcmp(flags.schedule, "linear") != 0 &&
      strcmp(flags.schedule, "constant") != 0) {
    cli_say("train", "--schedule is '%s', expected linear or constant",
            flags.schedule);
    return CLI_USAGE;
  }
  return run_train(&flags);
}

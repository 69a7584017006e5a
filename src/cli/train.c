// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

// What was asked for. A zero, or a seed of -1, is not given.
typedef struct train_flags {
  ls_train_config asked;
  const char *run_folder, *resume, *trace, *events;
  int64_t save_seconds;
  bool overwrite, quiet;
} train_flags;

// Everything that a run holds.
typedef struct session {
  ls_runtime *runtime;
  ls_train_config config;
  ls_train_config *resumed;  // What the run was made with; NULL: a new one.
  const char *data;          // As it was given,
  const char *test_data;     // and this too; "": it was not.
  const char *run_folder;    // As it was given, or `chosen`.
  char chosen[PATH_MAX];
  ls_strategy *strategy;
  ls_model model;
  ls_dataset *train, *test;
  int64_t examples;  // In an epoch.
  ls_progress *progress;
  ls_train_result result;
} session;

// ---- Parts of a run --------------------------------------------------------
static void write_progress(void *user, const char *text) {
  (void)user;
  fputs(text, stderr);
}

static int tell_width(void *user) {
  struct winsize window = {0};
  (void)user;
  (void)ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
  return window.ws_col;
}

// Whether a line can be rewritten there: by a terminal that knows how.
static bool can_rewrite(const ls_runtime *runtime) {
  const char *kind = ls_runtime_environment(runtime, "TERM");
  return isatty(STDERR_FILENO) == 1 && kind != NULL &&
         strcmp(kind, "dumb") != 0;
}

static ls_status open_progress(session *run) {
  return ls_progress_create(
      &(ls_progress_options){.write = write_progress,
                             .terminal = can_rewrite(run->runtime),
                             .width = tell_width},
      &run->progress);
}

static ls_status make_folder(const char *path, bool *out_made) {
  *out_made = mkdir(path, 0777) == 0;
  if (*out_made || errno == EEXIST) return ls_ok();
  char text[128] = "";
  return LS_STATUS(LS_UNAVAILABLE, "cannot make folder '%s': %s", path,
                   strerror_r(errno, text, sizeof(text)));
}

// A folder of its own for a run that was not given one: the first of
// runs/MODEL-1, runs/MODEL-2, ... that was not there, also where many runs
// begin at once.
static ls_status choose_folder(const ls_model_type *type, session *run) {
  static const char above[] = "runs";
  bool made = false;
  LS_RETURN_IF_ERROR(make_folder(above, &made));
  made = false;
  for (int number = 1; !made; ++number) {
    snprintf(run->chosen, sizeof(run->chosen), "%s/%s-%d", above, type->name,
             number);
    for (char *at = run->chosen + sizeof(above); *at != '\0'; ++at) {
      if (*at == '/') *at = '-';  // It is a folder in that one.
    }
    LS_RETURN_IF_ERROR(make_folder(run->chosen, &made));
  }
  run->run_folder = run->chosen;
  return ls_ok();
}

// ---- What the model takes --------------------------------------------------
static bool near_to(double a, double b) {
  return fabs(a - b) <= 1e-6 * fabs(b);
}

// A model of a user's might pass over a rate and its schedule: config.json is
// to tell what was done. What was asked for by a flag is refused.
static ls_status check_rate(const train_flags *flags, int64_t steps,
                            session *run) {
  ls_train_config *config = &run->config;
  if (config->optimizer[0] != '\0') return ls_ok();
  const ls_model_type *type = run->model.type;
  const ls_optimizer *optimizer = type->optimizer(run->model.self);
  if (optimizer == NULL) return ls_ok();
  const double rate = ls_optimizer_learning_rate(optimizer);
  if (flags->asked.learning_rate != 0 &&
      !near_to(rate, flags->asked.learning_rate))
    return ls_unimplemented(
        "model '%s' passes over --learning-rate: its optimizer has a rate of "
        "%g; leave it out, or give an --optimizer",
        type->name, rate);
  config->learning_rate = rate;
  const ls_schedule schedule = ls_optimizer_schedule(optimizer);
  const bool own = schedule.custom != NULL || schedule.warmup != 0;
  const bool stays = !own && schedule.kind == LS_SCHEDULE_CONSTANT;
  const bool falls =
      !own && schedule.kind == LS_SCHEDULE_LINEAR && schedule.steps == steps;
  const char *has = stays ? "constant" : (falls ? "linear" : "own");
  if (strcmp(config->schedule, has) == 0) return ls_ok();
  if (flags->asked.schedule != NULL)
    return ls_unimplemented(
        "model '%s' passes over --schedule %s: its optimizer has %s; leave it "
        "out, or give an --optimizer",
        type->name, config->schedule,
        stays ? "a rate that stays" : "a schedule of its own");
  config->schedule = has;
  return ls_ok();
}

// Data, model and all, before there is a trace of the run.
static ls_status prepare(const train_flags *flags, const ls_model_type *type,
                         session *run) {
  const ls_train_config *config = &run->config;
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(config->replicas)},
      &run->strategy));
  LS_RETURN_IF_ERROR(
      cli_open_data(&(cli_data){.data = run->data,
                                .test = run->test_data,
                                .features = config->features,
                                .split = config->split,
                                .command = flags->quiet ? NULL : "train"},
                    type, &run->train, &run->test));
  LS_RETURN_IF_ERROR(
      ls_status_annotate(ls_train_check_data(type, run->train),
                         "--data synthetic makes up examples that fit"));
  LS_RETURN_IF_ERROR(ls_train_count_examples(run->train, &run->examples));
  const int64_t steps = ls_train_count_steps(
      type, run->examples, config->batch_size, config->epochs, config->steps);
  LS_RETURN_IF_ERROR(cli_create_model(config, type, steps, &run->model));
  LS_RETURN_IF_ERROR(check_rate(flags, steps, run));
  return flags->quiet ? ls_ok() : open_progress(run);
}

static ls_status train(const train_flags *flags, const ls_model_type *type,
                       session *run) {
  const ls_train_config *config = &run->config;
  LS_RETURN_IF_ERROR(prepare(flags, type, run));
  const ls_train_stop *stop = cli_signals_defer();
  if (run->run_folder == NULL) LS_RETURN_IF_ERROR(choose_folder(type, run));
  const ls_status status = ls_train(
      &(ls_train_options){.model = &run->model,
                          .strategy = run->strategy,
                          .train = run->train,
                          .num_examples = run->examples,
                          .test = run->test,
                          .batch_size = config->batch_size,
                          .epochs = config->epochs,
                          .steps = config->steps,
                          .seed = config->seed,
                          .run_folder = run->run_folder,
                          .overwrite = flags->overwrite,
                          .resume = run->resumed != NULL,
                          .save_seconds = flags->save_seconds,
                          .events = flags->events,
                          .config = config,
                          .stop = stop,
                          .report = flags->quiet ? NULL : ls_progress_show,
                          .report_user = run->progress},
      &run->result);
  // Only a folder that is empty: the run did not begin.
  if (!ls_status_is_ok(status) && run->chosen[0] != '\0')
    (void)rmdir(run->chosen);
  return status;
}

static void end(session *run) {
  ls_progress_destroy(run->progress);
  ls_model_destroy(&run->model);
  ls_dataset_release(run->train);
  ls_dataset_release(run->test);
  ls_strategy_release(run->strategy);
}

static int print_result(const train_flags *flags, const session *run) {
  const ls_train_result *result = &run->result;
  if (result->stopped && result->steps == 0)
    cli_say("train", "stopped before the first step; there is no run");
  else if (!flags->quiet)
    cli_say("train", "%s%lld steps in %.1f s; the run is in %s%s",
            result->stopped ? "stopped after " : "", (long long)result->steps,
            result->seconds, run->run_folder,
            result->stopped ? ", --resume goes on with it" : "");
  if (result->tested && !result->stopped)
    printf("test accuracy: %.4f\n", result->test.accuracy);
  return result->stopped ? CLI_SIGNAL + cli_signals_first() : CLI_OK;
}

// ---- What was asked for ----------------------------------------------------
// Where a flag of the configuration has its place in one; -1 for other flags.
static ptrdiff_t place_of(const cli_option *option, const train_flags *flags) {
  const char *at = option->value, *first = (const char *)&flags->asked;
  return at >= first && at < first + sizeof(flags->asked) ? at - first : -1;
}

// Whether a flag names files.
static bool is_data(const cli_option *option) {
  return strcmp(option->name, "data") == 0 || strcmp(option->name, "test") == 0;
}

// Prints what a configuration has at the place of a flag; "" for what is not
// given.
static void print_value(const cli_option *option, const void *value, char *text,
                        size_t size) {
  text[0] = '\0';
  const bool seed = strcmp(option->name, "seed") == 0;
  if (option->kind == CLI_COUNT) {
    const int64_t count = *(const int64_t *)value;
    if (count != (seed ? -1 : 0))
      snprintf(text, size, "%lld", (long long)count);
  } else if (option->kind == CLI_REAL) {
    const double real = *(const double *)value;
    if (real != 0) snprintf(text, size, "%.17g", real);
  } else {
    const char *given = *(const char *const *)value;
    char full[PATH_MAX];
    if (given == NULL) return;
    if (is_data(option)) given = cli_full_data(given, full);
    snprintf(text, size, "%s", given);
  }
}

// Whether what was asked for is what the run has; says so if not. A run may
// become longer and have other threads, and its data another place. Its model
// is for cli_run_model.
static bool agrees(const cli_syntax *syntax, const train_flags *flags,
                   const ls_train_config *config) {
  static const char *const may_differ[] = {"epochs", "steps", "threads",
                                           "model"};
  for (size_t i = 0; i < syntax->num_options; ++i) {
    const cli_option *option = &syntax->options[i];
    const ptrdiff_t place = place_of(option, flags);
    bool free_to_differ = place < 0;
    for (size_t k = 0; k < 4; ++k)
      free_to_differ |= strcmp(option->name, may_differ[k]) == 0;
    if (free_to_differ) continue;
    char asked[PATH_MAX], has[PATH_MAX];
    print_value(option, option->value, asked, sizeof(asked));
    print_value(option, (const char *)config + place, has, sizeof(has));
    if (asked[0] == '\0' || strcmp(asked, has) == 0) continue;
    if (is_data(option) && cli_is_place(asked) && cli_is_place(has) &&
        has[0] != '\0')
      continue;
    cli_say("train",
            "--%s is '%s', the run in '%s' has '%s': it can only go on as it "
            "began",
            option->name, asked, flags->resume, has);
    return false;
  }
  return true;
}

// The model's own optimizer takes a learning rate and a falling one only.
static bool check_optimizer(const ls_train_config *asked) {
  const char *kinds[32];
  size_t count = 0;
  while (count < 32 && ls_optimizer_kind(count) != NULL) {
    kinds[count] = ls_optimizer_kind(count);
    ++count;
  }
  if (asked->optimizer != NULL)
    return cli_choose("train", "optimizer", asked->optimizer, kinds, count);
  const char *needs = NULL;
  if (asked->warmup != 0) needs = "warmup";
  if (asked->weight_decay != 0) needs = "weight-decay";
  if (asked->clip_norm != 0) needs = "clip-norm";
  if (asked->accumulate != 0) needs = "accumulate";
  if (asked->schedule != NULL && strcmp(asked->schedule, "cosine") == 0)
    needs = "schedule cosine";
  if (needs == NULL) return true;
  cli_say("train",
          "--%s needs an --optimizer: the model's own has no such thing",
          needs);
  return false;
}

static bool check_flags(train_flags *flags) {
  static const char *const schedules[] = {"constant", "linear", "cosine"};
  ls_train_config *asked = &flags->asked;
  if (asked->schedule != NULL &&
      !cli_choose("train", "schedule", asked->schedule, schedules, 3))
    return false;
  if (!cli_check_arithmetic("train", asked->precision, &asked->math))
    return false;
  if (asked->split >= 1) {
    cli_say("train", "--split is '%g', expected a number between 0 and 1",
            asked->split);
    return false;
  }
  if (flags->resume == NULL) return check_optimizer(asked);
  if (flags->run_folder == NULL && !flags->overwrite) return true;
  cli_say("train",
          "--resume goes on in the folder it names; --%s has no place "
          "beside it",
          flags->run_folder != NULL ? "run-dir" : "overwrite");
  return false;
}

// A new run's configuration: what was asked for, and defaults.
static ls_train_config fresh_config(const train_flags *flags) {
  ls_train_config config = flags->asked;
  if (config.model == NULL) config.model = "mlp";
  if (config.data == NULL) config.data = "fashion-mnist";
  if (config.precision == NULL) config.precision = "f32";
  if (config.optimizer == NULL) config.optimizer = "";
  if (config.schedule == NULL) config.schedule = "linear";
  if (config.test == NULL) config.test = "";
  if (config.features == NULL) config.features = "";
  if (config.replicas == 0) config.replicas = 1;
  if (config.seed < 0) config.seed = 0;
  return config;
}

// The run's configuration, with its model, to another end and with data in
// another place if that was asked for.
static ls_train_config resumed_config(const train_flags *flags,
                                      const ls_train_config *resumed,
                                      const char *model) {
  ls_train_config config = *resumed;
  config.model = model;
  if (flags->asked.data != NULL) config.data = flags->asked.data;
  if (flags->asked.test != NULL) config.test = flags->asked.test;
  if (flags->asked.epochs != 0 || flags->asked.steps != 0) {
    config.epochs = flags->asked.epochs;
    config.steps = flags->asked.steps;
  }
  return config;
}

// ---- The command -----------------------------------------------------------
static int run_session(const train_flags *flags, session *run) {
  const ls_model_type *type = cli_find_model("train", run->config.model);
  if (type == NULL) return CLI_USAGE;
  char model[PATH_MAX], data[PATH_MAX], test[PATH_MAX];
  run->run_folder = flags->resume != NULL ? flags->resume : flags->run_folder;
  run->data = run->config.data;
  run->test_data = run->config.test;
  run->config.data = cli_full_data(run->config.data, data);
  run->config.test = cli_full_data(run->config.test, test);
  run->config.model = cli_full_model(run->config.model, model, sizeof(model));
  ls_trace *trace = NULL;
  ls_status status = cli_trace_begin(run->runtime, flags->trace, &trace);
  if (ls_status_is_ok(status)) status = cli_watch_begin(run->runtime);
  if (ls_status_is_ok(status)) status = train(flags, type, run);
  cli_watch_end();
  end(run);  // Ends a line of progress before anything else is said.
  if (ls_status_code(status) == LS_ALREADY_EXISTS)
    status =
        ls_status_annotate(status, "with --run-dir, --overwrite or --resume");
  const int code = ls_status_is_ok(status) ? print_result(flags, run)
                                           : cli_report("train", status);
  return cli_trace_end("train", trace, code);
}

static int run_train(const cli_syntax *syntax, const train_flags *flags) {
  session run = {0};
  int code = CLI_OK;
  const char *model = NULL;
  const ls_train_config *asked = &flags->asked;
  ls_status status =
      flags->resume == NULL
          ? cli_runtime_open(asked->threads, asked->math, &run.runtime)
          : cli_run_open(flags->resume, asked->threads, NULL, &run.runtime,
                         &run.resumed);
  if (!ls_status_is_ok(status)) {
    code = cli_report("train", status);
  } else if (run.resumed == NULL) {
    run.config = fresh_config(flags);
    code = run_session(flags, &run);
  } else if (cli_run_model("train", flags->resume, run.resumed->model,
                           asked->model, &model) &&
             agrees(syntax, flags, run.resumed)) {
    run.config = resumed_config(flags, run.resumed, model);
    code = run_session(flags, &run);
  } else {
    code = CLI_USAGE;
  }
  ls_train_config_destroy(run.resumed);
  return cli_runtime_close("train", run.runtime, code);
}

int cli_train(int argc, char **argv) {
  train_flags flags = {.asked = {.seed = -1}};
  ls_train_config *asked = &flags.asked;
  const cli_option options[] = {
      {"model", CLI_TEXT, &asked->model, "NAME",
       "what to train (default mlp); see 'lockstep help'; or\n"
       "a shared library of models: ./mine.so, ./mine.so:NAME",
       0},
      {"data", CLI_TEXT, &asked->data, "NAME|PATH",
       "fashion-mnist (default), synthetic, a folder with the\n"
       "four IDX files of MNIST or its like or with a folder of\n"
       "PNG or JPEG images for each class, .npz, .csv or\n"
       ".tfrecord files, IDX or .npy as EXAMPLES,LABELS, or, for\n"
       "a model that learns from text, any file; several files\n"
       "by a pattern: 'train-*.csv'",
       0},
      {"test", CLI_TEXT, &asked->test, "PATH",
       "other files to test on (default: the test set that the\n"
       "data have, else the part that --split holds out)",
       0},
      {"split", CLI_REAL, &asked->split, "X",
       "how much of data without a test set is held out to test\n"
       "on, always the same examples (default 0.1)",
       0},
      CLI_FEATURES_OPTION(&asked->features),
      {"replicas", CLI_COUNT, &asked->replicas, "N",
       "replicas that share each batch (default 1)", 1},
      CLI_THREADS_OPTION(&asked->threads),
      CLI_BATCH_OPTION(&asked->batch_size),
      {"epochs", CLI_COUNT, &asked->epochs, "N",
       "passes over the training set (default: the model's)", 1},
      {"steps", CLI_COUNT, &asked->steps, "N",
       "end after so many steps (default: whole epochs)", 1},
      {"optimizer", CLI_TEXT, &asked->optimizer, "NAME",
       "sgd, momentum, nesterov, adam, adamw, lamb, adagrad,\n"
       "rmsprop or lion (default: the model's own)",
       0},
      {"learning-rate", CLI_REAL, &asked->learning_rate, "X",
       "of the first step (default: the optimizer's)", 0},
      {"schedule", CLI_TEXT, &asked->schedule, "NAME",
       "linear (default): the rate falls to 0 over the run;\n"
       "constant: it stays; cosine, with --optimizer: it falls\n"
       "along a cosine",
       0},
      {"warmup", CLI_COUNT, &asked->warmup, "N",
       "steps in which the rate rises; with --optimizer", 1},
      {"weight-decay", CLI_REAL, &asked->weight_decay, "X",
       "with --optimizer (default: its own)", 0},
      {"clip-norm", CLI_REAL, &asked->clip_norm, "X",
       "longest gradient, over all weights; with --optimizer", 0},
      {"accumulate", CLI_COUNT, &asked->accumulate, "N",
       "batches whose mean gradient moves the weights, and which\n"
       "--warmup and --schedule count as one; with --optimizer",
       1},
      CLI_PRECISION_OPTION(&asked->precision),
      CLI_MATH_OPTION(&asked->math),
      {"seed", CLI_COUNT, &asked->seed, "N",
       "of first weights and order of examples (default 0)", 0},
      {"run-dir", CLI_TEXT, &flags.run_folder, "DIR",
       "where the run is kept (default: a new runs/MODEL-N)", 0},
      {"overwrite", CLI_FLAG, &flags.overwrite, NULL,
       "replace a run that is in --run-dir, after the first step", 0},
      {"resume", CLI_TEXT, &flags.resume, "DIR",
       "go on with the run there as if it had not stopped;\n"
       "--epochs or --steps may give it another end, over\n"
       "which a falling rate then falls; --data and --model\n"
       "tell where its files and its shared library are now",
       0},
      {"save-every", CLI_COUNT, &flags.save_seconds, "SECONDS",
       "how often the run is saved (default 60)", 1},
      {"events", CLI_MAYBE, &flags.events, "[DIR]",
       "write event files for TensorBoard (default: to the run\n"
       "folder's events/): what metrics.jsonl gets, weights,\n"
       "and the graph of a step",
       0},
      CLI_TRACE_OPTION(&flags.trace),
      {"quiet", CLI_FLAG, &flags.quiet, NULL, "show no progress", 0},
  };
  const cli_syntax syntax = {
      .command = "train",
      .about =
          "Trains a model and prints its accuracy on the test set. The run "
          "folder gets\nconfig.json, metrics.jsonl, model.safetensors, and "
          "checkpoint.safetensors to\nresume from. Ctrl-C ends the run after "
          "the step it is in, saves it and exits\nwith code 130, SIGTERM and "
          "SIGHUP with 143 and 129; before the first step\nthere is no run. "
          "Ctrl-\\ tells where its replicas are. A --trace\nis "
          "written however the run ends.",
      .options = options,
      .num_options = sizeof(options) / sizeof(options[0])};
  int code = CLI_OK;
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  return check_flags(&flags) ? run_train(&syntax, &flags) : CLI_USAGE;
}

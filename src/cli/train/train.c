// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/estimator.h"
#include "cli/look/estimate.h"
#include "cli/ranks.h"
#include "cli/train/train_flags.h"
#include "lockstep/communicator.h"

// State of a training run.
typedef struct session {
  ls_runtime *runtime;
  ls_train_config config;
  ls_train_config *resumed;  // Configuration of a resumed run; NULL: a new one.
  ls_train_config *places;   // Owns paths of `resumed`, if they are others now.
  const char *data;          // The user's --data,
  const char *test_data;     // likewise; "": not given.
  const char *run_folder;    // The user's folder, or `chosen`.
  char chosen[PATH_MAX];
  ls_strategy *strategy;
  ls_model model;
  cli_opened set;
  ls_progress *progress;
  bool makes_steps;
  ls_train_result result;
} session;

// ---- Learning rate ---------------------------------------------------------
// Refuses rate flags that the model ignores: a user's model may ignore the rate
// and its schedule, and config.json must record the real ones.
static ls_status check_rate(const train_flags *flags, int64_t steps,
                            session *run) {
  ls_train_config *config = &run->config;
  if (config->optimizer[0] != '\0') return ls_ok();
  const ls_model_type *type = run->model.type;
  const ls_optimizer *optimizer = type->optimizer(run->model.self);
  if (optimizer == NULL) return ls_ok();
  const double rate = ls_optimizer_learning_rate(optimizer);
  const double asked = flags->asked.learning_rate;
  if (asked != 0 && !(fabs(rate - asked) <= 1e-6 * fabs(asked)))
    return ls_unimplemented(
        "model '%s' ignores --learning-rate: its optimizer has a rate of %g; "
        "leave the flag out, or give an --optimizer",
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
        "model '%s' ignores --schedule %s: its optimizer has %s; leave the "
        "flag out, or give an --optimizer",
        type->name, config->schedule,
        stays ? "a constant rate" : "a schedule of its own");
  config->schedule = has;
  return ls_ok();
}

// Refuses ranks that would have no replica.
static ls_status check_ranks(const session *run) {
  const ls_communicator *ranks = cli_ranks();
  const int64_t replicas = ls_strategy_num_replicas(run->strategy);
  if (ranks == NULL || replicas >= ranks->ranks) return ls_ok();
  return ls_invalid_argument(
      "--replicas is %lld, but there are %d ranks, which need one or more "
      "each: give --replicas %d, or a multiple",
      (long long)replicas, ranks->ranks, ranks->ranks);
}

// Reports the end of a resumed run's schedule if it moves.
static void tell_schedule(const train_flags *flags, const ls_model_type *type,
                          int64_t steps, const session *run) {
  const ls_train_config *was = run->resumed;
  if (was == NULL || flags->quiet || strcmp(was->schedule, "constant") == 0)
    return;
  const int64_t before = ls_train_count_steps(
      type, run->set.examples, was->batch_size, was->epochs, was->steps);
  if (steps != before)
    cli_say("train",
            "the %s schedule ends at step %lld, not %lld: the learning rate of "
            "the steps to come changes",
            was->schedule, (long long)steps, (long long)before);
}

// Refuses a run too short for a step of its optimizer; warns of a rate that
// never reaches its value.
static ls_status check_length(const train_flags *flags,
                              const ls_train_config *config, int64_t batches) {
  const int64_t each = config->accumulate > 1 ? config->accumulate : 1;
  if (batches < each)
    return ls_invalid_argument(
        "--accumulate is %lld, but the run has %lld batches: its optimizer "
        "would make no step",
        (long long)each, (long long)batches);
  if (config->warmup >= batches / each && config->warmup > 0 && !flags->quiet)
    cli_say("train",
            "--warmup is %lld, but the run has %lld steps of the optimizer: "
            "the rate does not reach its value",
            (long long)config->warmup, (long long)(batches / each));
  return ls_ok();
}

// Opens data, model and everything else before creating files of the run.
static ls_status train_prepare(const train_flags *flags,
                               const ls_model_type *type, session *run) {
  const ls_train_config *config = &run->config;
  if (run->strategy == NULL)
    LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(config->replicas)},
        &run->strategy));
  LS_RETURN_IF_ERROR(check_ranks(run));
  cli_opened *set = &run->set;
  *set = (cli_opened){.data = run->data,
                      .test = run->test_data,
                      .is_new = run->resumed == NULL,
                      .command =
                          flags->quiet || flags->again != NULL ? NULL : "train",
                      .config = &run->config,
                      .type = type};
  LS_RETURN_IF_ERROR(cli_open_training(flags, true, set));
  type = set->type;
  const int64_t steps = set->steps;
  if (run->resumed == NULL)
    LS_RETURN_IF_ERROR(check_length(flags, config, steps));
  LS_RETURN_IF_ERROR(cli_augment(config, &run->set.train));
  if (config->test_steps > 0 && run->set.tested != NULL)
    run->set.tested = ls_dataset_take(
        run->set.tested,
        config->test_steps *
            (config->batch_size > 0 ? config->batch_size : type->batch_size));
  if (flags->again != NULL &&
      flags->again->schedule.kind != LS_SCHEDULE_CONSTANT)
    return cli_create_scheduled(config, type, &flags->again->schedule,
                                &run->model);
  LS_RETURN_IF_ERROR(cli_create_model(config, type, steps, &run->model));
  LS_RETURN_IF_ERROR(check_rate(flags, steps, run));
  tell_schedule(flags, type, steps, run);
  if (cli_device.name == NULL || strcmp(cli_device.name, "cpu") == 0)
    LS_RETURN_IF_ERROR(
        cli_check_room(&run->model, config->batch_size, run->set.examples));
  // Shows no progress of steps made again, unless on a terminal.
  return flags->quiet || !cli_leads() ||
                 (flags->again != NULL && !cli_can_rewrite(run->runtime))
             ? ls_ok()
             : cli_progress_open(run->runtime, &run->progress);
}

static void train_tell(void *user, const ls_train_report *report) {
  session *run = user;
  run->makes_steps = true;
  if (report->stopped) cli_signals_saved();
  if (run->progress != NULL) ls_progress_show(run->progress, report);
}

// Returns true if the run goes on in the folder of --resume.
static bool resumes_in_place(const train_flags *flags) {
  return flags->resume != NULL && !flags->resume_step.set &&
         flags->again == NULL;
}

const char *cli_train_command(const train_flags *flags) {
  return flags->again != NULL ? flags->again->command : "train";
}

ls_opt cli_train_named_step(const train_flags *flags) {
  return flags->again == NULL ? flags->resume_step : (ls_opt){0};
}

ls_status cli_check_spike(const train_flags *flags,
                          const ls_run_context *context) {
  char examples[200];
  double loss = 0;
  int64_t step = 0;
  if (flags->spike == 0) return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_context_number(context, "loss", &loss));
  if (loss <= flags->spike) return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  cli_name_examples(context, examples, sizeof(examples));
  return ls_out_of_range("the loss is %g at step %lld, above %g: %s", loss,
                         (long long)step, flags->spike, examples);
}

ls_status cli_make_one_step(void *user, ls_run_context *context,
                            ls_run_wish *wish) {
  (void)user, (void)context;
  wish->most_steps = 1;
  return ls_ok();
}

static ls_status find_spike(void *user, ls_run_context *context,
                            ls_nest results) {
  (void)results;
  CLI_OWN(ls_status, status) = cli_check_spike(user, context);
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return cli_give(&status);
  // To an estimator LS_OUT_OF_RANGE is the end of its input.
  return LS_STATUS(LS_FAILED_PRECONDITION, "%s", ls_status_message(status));
}

ls_status cli_spike_hook(const train_flags *flags, ls_hook **out_hook) {
  return ls_hook_create(&(ls_hook_options){.name = "find-spike",
                                           .user = (void *)(uintptr_t)flags,
                                           .before_run = cli_make_one_step,
                                           .after_run = find_spike},
                        out_hook);
}

static ls_status train_from(const train_flags *flags,
                            const ls_warm_start *warm_start,
                            const ls_train_stop *stop, session *run) {
  const ls_train_config *config = &run->config;
  cli_again *again = flags->again;
  const ls_train_config *was = again == NULL ? run->resumed : NULL;
  const bool has_events = was != NULL && was->events && flags->events == NULL;
  const bool is_simulated = cli_process_current()->simulated != NULL;
  CLI_OWN(ls_hook, hook) = NULL;
  if (again != NULL) {
    again->model = &run->model;
    again->strategy = run->strategy;
    again->seed = config->seed;
    LS_RETURN_IF_ERROR(ls_hook_create(&again->hook, &hook));
  } else if (flags->spike != 0) {
    LS_RETURN_IF_ERROR(cli_spike_hook(flags, &hook));
  }
  return ls_train(
      &(ls_train_options){
          .model = &run->model,
          .strategy = run->strategy,
          .train = run->set.train,
          .num_examples = run->set.examples,
          .test = again != NULL && again->is_untested ? NULL : run->set.tested,
          .batch_size = config->batch_size,
          .epochs = config->epochs,
          .steps = config->steps,
          .only_saves = flags->only_saves,
          .seed = config->seed,
          .iterations_per_loop = flags->iterations,
          .run_folder = run->run_folder,
          .overwrite = flags->overwrite,
          .resume = resumes_in_place(flags),
          .from = flags->resume_step.set ? flags->resume : NULL,
          .from_step = flags->resume_step,
          .inexact = flags->inexact,
          .warm_start = warm_start,
          .save_seconds = config->save_every,
          .save_steps = config->save_every_steps,
          .save_background = is_simulated ? LS_FLAG_OFF : LS_FLAG_DEFAULT,
          .keep = LS_SOME(config->keep),
          .keep_best = config->keep_best,
          .keep_every_hours = config->keep_every_hours,
          .stop_early = config->stop_early,
          .patience = config->patience,
          .min_delta = config->min_delta,
          .events = has_events ? "" : flags->events,
          .config = config,
          .check_ranks = config->check_ranks,
          .checksum = again != NULL ? flags->asked.checksum : config->checksum,
          .attest = flags->attest || (was != NULL && was->attest),
          .gradient_norm = config->gradient_norm,
          .log = again != NULL ? again->log : (ls_train_log){0},
          .hooks = &hook,
          .num_hooks = hook != NULL,
          .stop = stop,
          .report = train_tell,
          .report_user = run},
      &run->result);
}

// Warm-starts the model; lists from flags were checked, lists from config.json
// are now.
static ls_status train_warm(const train_flags *flags,
                            const ls_train_config *config,
                            const ls_train_stop *stop, session *run) {
  CLI_OWN(cli_warm, warm) = {0};
  LS_RETURN_IF_ERROR(cli_warm_open(config, &warm));
  return train_from(flags, warm.start.path != NULL ? &warm.start : NULL, stop,
                    run);
}

// Says how many ranks there are, and what an uneven number of replicas costs.
static void tell_ranks(const session *run) {
  const ls_communicator *ranks = cli_ranks();
  if (ranks == NULL || ranks->rank > 0 || run->progress == NULL) return;
  const int64_t replicas = ls_strategy_num_replicas(run->strategy);
  const int64_t most = (replicas + ranks->ranks - 1) / ranks->ranks;
  if (replicas % ranks->ranks == 0)
    cli_say("train", "%d ranks, %lld replicas each", ranks->ranks,
            (long long)most);
  else
    cli_say("train",
            "%d ranks, %lld or %lld replicas each: the others wait for those "
            "with more; %lld or %lld replicas would be even",
            ranks->ranks, (long long)most - 1, (long long)most,
            (long long)((most - 1) * ranks->ranks),
            (long long)(most * ranks->ranks));
}

static ls_status train_model(const train_flags *flags,
                             const ls_model_type *type, session *run) {
  const ls_train_config *config = &run->config;
  LS_RETURN_IF_ERROR(cli_ranks_agree(train_prepare(flags, type, run)));
  tell_ranks(run);
  const cli_again *again = flags->again;
  if (again != NULL && again->check != NULL)
    LS_RETURN_IF_ERROR(
        again->check(again->check_user, run->set.train, run->set.tested));
  if (again != NULL && again->is_checked) return ls_ok();
  const ls_train_stop *stop = cli_signals_defer((unsigned)flags->grace);
  // Goes on, and saves, even if nobody reads its progress any more.
  if (again == NULL) cli_signals_handle(SIGPIPE, SIG_IGN);
  if (run->run_folder == NULL && flags->again == NULL) {
    LS_RETURN_IF_ERROR(
        cli_choose_folder(type->name, run->chosen, sizeof(run->chosen)));
    run->run_folder = run->chosen;
  }
  const ls_status status =
      cli_ranks_agree(train_warm(flags, config, stop, run));
  // Removes the folder only if it is empty: the run did not begin.
  if (!ls_status_is_ok(status) && run->chosen[0] != '\0' && cli_leads())
    (void)rmdir(run->chosen);
  return status;
}

int cli_end_again(const cli_again *again, int64_t steps) {
  const int signal = cli_signals_first();
  if (signal == 0) return CLI_OK;
  cli_say(again->command, "stopped at step %lld", (long long)steps);
  return CLI_SIGNAL + signal;
}

static int print_result(const train_flags *flags, const session *run) {
  const ls_train_result *result = &run->result;
  if (flags->result != NULL) *flags->result = *result;
  if (flags->again != NULL) return cli_end_again(flags->again, result->steps);
  const int code = result->stopped ? cli_ranks_stopped() : CLI_OK;
  if (!cli_leads()) return code;
  if (result->stopped && result->steps == 0)
    cli_say("train", "stopped before the first step; there is no run");
  else if (result->stopped_early && !flags->quiet)
    cli_say("train",
            "stopped early after %lld step%s in %.1f s: %s was best at step "
            "%lld, %.6g; the run is in %s, its best model is %s@%lld",
            (long long)result->steps, result->steps == 1 ? "" : "s",
            result->seconds, run->config.stop_early,
            (long long)result->best_step, result->best, run->run_folder,
            run->run_folder, (long long)result->best_step);
  else if (run->resumed != NULL && !run->makes_steps && !flags->quiet)
    cli_say("train",
            "the run in %s is complete, with %lld step%s; --epochs or --steps "
            "prolongs it",
            run->run_folder, (long long)result->steps,
            result->steps == 1 ? "" : "s");
  else if (!flags->quiet)
    cli_say("train", "%s%lld step%s in %.1f s; the run is in %s%s",
            result->stopped ? "stopped after " : "", (long long)result->steps,
            result->steps == 1 ? "" : "s", result->seconds, run->run_folder,
            result->stopped ? ", --resume continues it" : "");
  if (result->stopped || !result->tested) return code;
  FILE *out = cli_results();
  if (flags->result != NULL)
    fprintf(out, "seed %lld: ", (long long)run->config.seed);
  fprintf(out, "test %s: %.4f\n", result->task->metric, result->test.accuracy);
  if (!isnan(result->test.mean_iou))
    fprintf(out, "test mean_iou: %.4f\n", result->test.mean_iou);
  return CLI_OK;
}

// ---- The command -----------------------------------------------------------
static int run_session(const train_flags *flags, session *run) {
  const ls_model_type *type = cli_find_model("train", run->config.model);
  if (type == NULL) return CLI_USAGE;
  char model[PATH_MAX], data[PATH_MAX], test[PATH_MAX], warm[PATH_MAX];
  if (strcmp(run->config.data, "-") == 0 ||
      strcmp(run->config.test, "-") == 0) {
    (void)cli_refuse("train", "--data and --test are files, which a run reads "
                              "again: - is for eval and predict");
    return CLI_USAGE;
  }
  run->run_folder = resumes_in_place(flags) ? flags->resume : flags->run_folder;
  run->data = run->config.data;
  run->test_data = run->config.test;
  ls_status status = cli_full_data(&run->config.data, data);
  if (ls_status_is_ok(status)) status = cli_full_data(&run->config.test, test);
  if (!ls_status_is_ok(status)) return cli_report("train", status);
  if (run->config.warm_start[0] != '\0' &&
      realpath(run->config.warm_start, warm) != NULL)
    run->config.warm_start = warm;
  run->config.model = cli_full_model(run->config.model, model, sizeof(model));
  ls_trace *trace = NULL;
  status = cli_trace_begin(run->runtime, flags->trace, &trace);
  if (ls_status_is_ok(status)) status = cli_watch_begin(run->runtime);
  if (ls_status_is_ok(status)) status = train_model(flags, type, run);
  cli_watch_end();
  if (flags->again != NULL && flags->again->ends_at_nan &&
      ls_status_code(status) == LS_OUT_OF_RANGE) {
    ls_status_free(status);
    status = ls_ok();
  }
  ls_progress_destroy(run->progress);
  ls_model_destroy(&run->model);
  cli_close_training(&run->set);
  const ls_code failed = ls_status_code(status);
  if (failed == LS_ALREADY_EXISTS)
    status =
        ls_status_annotate(status, "with --run-dir, --overwrite or --resume");
  else
    status = cli_note_saved(run->run_folder, status);
  const int code = ls_status_is_ok(status)
                       ? print_result(flags, run)
                       : cli_report(cli_train_command(flags), status);
  return cli_trace_end("train", trace, code);
}

// Makes a strategy with one replica per core of the system; --replicas must be
// unset or equal.
static ls_status open_tpu(train_flags *flags, session *run) {
  if (flags->tpu == NULL) return ls_ok();
  CLI_OWN(ls_tpu_resolver, resolver) = NULL;
  // A queue of two batches keeps the cores busy.
  LS_RETURN_IF_ERROR(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = flags->tpu, .queue_depth = 2},
      &resolver));
  LS_RETURN_IF_ERROR(ls_tpu_strategy_create(
      &(ls_tpu_options){.resolver = resolver}, &run->strategy));
  const int64_t cores = ls_strategy_num_replicas(run->strategy);
  const int64_t asked = flags->asked.replicas;
  flags->asked.replicas = cores;
  if (asked != 0 && asked != cores)
    return ls_invalid_argument(
        "--replicas is %lld, but --tpu %s has %lld cores, with one replica "
        "each: leave --replicas out",
        (long long)asked, flags->tpu, (long long)cores);
  if (run->resumed != NULL && run->resumed->replicas != cores &&
      !flags->inexact)
    return ls_invalid_argument(
        "--tpu %s has %lld cores, the run in '%s' has %lld replicas: it can "
        "only continue with as many, or with --allow-inexact",
        flags->tpu, (long long)cores, flags->resume,
        (long long)run->resumed->replicas);
  return ls_ok();
}

// Opens the run of --resume. A checkpoint has its configuration of that time,
// config.json the places where files are now.
static ls_status open_resumed(const train_flags *flags, session *run) {
  const char *saved = flags->config_path;
  const bool is_now = saved[0] == '\0';
  LS_RETURN_IF_ERROR(cli_run_open(
      is_now ? flags->resume : saved, flags->asked.threads,
      flags->inexact ? flags->asked.math : NULL, &run->runtime, &run->resumed));
  if (is_now) return ls_ok();
  LS_RETURN_IF_ERROR(ls_train_config_read(flags->resume, &run->places));
  run->resumed->model = run->places->model;
  run->resumed->data = run->places->data;
  run->resumed->test = run->places->test;
  return ls_ok();
}

int cli_train_run(const cli_syntax *syntax, train_flags *flags) {
  const char *command = cli_train_command(flags);
  session run = {0};
  int code = CLI_OK;
  const char *model = NULL;
  const ls_train_config *asked = &flags->asked;
  ls_status status =
      flags->resume == NULL
          ? cli_runtime_open(asked->threads, asked->math, &run.runtime)
          : open_resumed(flags, &run);
  if (!ls_status_is_ok(status)) {
    code = cli_report(command, status);
  } else if (!ls_status_is_ok(status = open_tpu(flags, &run))) {
    const bool misused = ls_status_code(status) == LS_INVALID_ARGUMENT;
    code = cli_report(command, status);
    if (misused) code = CLI_USAGE;
  } else if (run.resumed == NULL) {
    run.config = cli_train_fresh(flags);
    code = run_session(flags, &run);
  } else if (cli_run_model(command, flags->resume, cli_train_named_step(flags),
                           run.resumed->model, asked->model, &model) &&
             cli_train_agrees(syntax, flags, run.resumed)) {
    run.config = cli_train_resumed(syntax, flags, run.resumed, model);
    code = run_session(flags, &run);
  } else {
    code = CLI_USAGE;
  }
  ls_strategy_release(run.strategy);
  ls_train_config_destroy(run.resumed);
  ls_train_config_destroy(run.places);
  return cli_runtime_close(command, run.runtime, code);
}

int cli_train_restart(train_flags *flags) {
  cli_restart how = CLI_NO_RESTART;
  const int code =
      cli_ranks_restart("train", &flags->run_folder, &flags->resume, &how);
  if (how != CLI_NO_RESTART) flags->overwrite = how == CLI_BEGINS_ANEW;
  if (how == CLI_BEGINS_ANEW) flags->inexact = false;
  ls_train_config *asked = &flags->asked;
  if (how == CLI_RESUMES)
    asked->warm_start = asked->warm_only = asked->warm_except =
        asked->warm_map = asked->warm_layout = NULL;
  return code;
}

static int run_train(const cli_syntax *syntax, train_flags *flags, void *user) {
  if (flags->steps >= 0) flags->asked.steps = flags->steps;
  flags->only_saves |= flags->steps == 0;
  flags->steps = -1;
  if (cli_train_has_seeds(flags))
    return cli_train_seeds(syntax, flags, run_train, user);
  const int code = cli_train_restart(flags);
  if (code != CLI_OK) return code;
  if (!cli_train_check(flags)) return CLI_USAGE;
  if (flags->only_saves && flags->find_lr != NULL)
    return cli_misuse("train", "--steps 0 saves the initial weights: there is "
                               "nothing for --find-lr to compare");
  return flags->find_lr != NULL
             ? cli_train_find_rate(syntax, flags, run_train, NULL)
             : cli_train_run(syntax, flags);
}

int cli_train(int argc, char **argv) {
  const ls_estimator_type *estimator = NULL;
  if (!cli_find_estimator("train", argc, argv, &estimator)) return CLI_USAGE;
  if (estimator != NULL) return cli_estimator_train(estimator, argc, argv);
  return cli_with_train_flags(
      &(cli_train_words){
          .syntax =
              {.command = "train",
               .about =
                   "Trains a model and prints its accuracy, or the metric of "
                   "another --task, on the test set. The run folder gets "
                   "config.json, metrics.jsonl, checkpoints to resume from "
                   "(model.ckpt-STEP.*) and, at the end, model.safetensors. "
                   "Ctrl-C ends the run after the current step, of a loop "
                   "after the steps that have their batches, saves it and "
                   "exits with code 130, SIGTERM and SIGHUP with 143 and 129; "
                   "before the first step there is no run. A second signal, or "
                   "the end of --grace, ends it at once: with code 3 if it was "
                   "not saved, so that the previous checkpoint remains. "
                   "Ctrl-\\ prints the state of its replicas. A --trace is "
                   "written however the run ends.",
               .refused = cli_train_refused_by_models},
          .run = run_train},
      argc, argv);
}

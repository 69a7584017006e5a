// SPDX-License-Identifier: Apache-2.0
// lockstep plan: memory, time and disk of a run before its first step.
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/look/estimate.h"
#include "cli/look/table.h"

typedef struct plan_flags {
  train_flags train;
  const char *params;
  bool json, no_steps;
  cli_found found;  // MODEL.
} plan_flags;

typedef struct plan {
  const plan_flags *flags;
  cli_memory memory;
  double room;            // Memory that is available.
  int64_t fitting_batch;  // Batch size that would fit, if memory does not.
  int64_t timed_steps;    // 0: not timed.
  double step_seconds, epoch_seconds, run_seconds;
  double checkpoint_bytes, model_bytes, metrics_bytes, disk_bytes, free_disk;
  int64_t kept;      // Checkpoints kept at the end.
  bool writes_more;  // One more is on the disk while it is written.
} plan;

// ---- Time ------------------------------------------------------------------
// Returns the number of steps of an epoch, whose last batch may be smaller.
static double steps_per_epoch(const cli_plan_run *run) {
  return ceil((double)run->examples / (double)run->batch_size);
}

// Times steps for some seconds, after a first one.
static ls_status time_steps(const cli_plan_run *run, const cli_step *step,
                            plan *p) {
  static const double seconds = 1.5;
  enum { MOST_STEPS = 1000 };
  CLI_OWN(ls_nest, results) = {0};
  LS_RETURN_IF_ERROR(cli_step_run(step, &results));
  const double begin = cli_now();
  double end = begin;
  for (; p->timed_steps < MOST_STEPS && end < begin + seconds;
       ++p->timed_steps) {
    LS_RETURN_IF_ERROR(cli_step_run(step, &results));
    end = cli_now();
  }
  p->step_seconds = (end - begin) / (double)p->timed_steps;
  p->epoch_seconds =
      p->step_seconds * fmin(steps_per_epoch(run), (double)run->steps);
  p->run_seconds = p->step_seconds * (double)run->steps;
  return ls_ok();
}

// ---- Disk ------------------------------------------------------------------
static double count_epochs(const cli_plan_run *run) {
  if (run->examples == 0) return 0;
  return ceil((double)run->steps / steps_per_epoch(run));
}

// Returns the metric whose best checkpoint is kept; NULL: none.
static const char *best_metric(const ls_train_config *config) {
  const char *best =
      config->keep_best != NULL ? config->keep_best : config->stop_early;
  return best != NULL && best[0] != '\0' ? best : NULL;
}

// Returns the number of saves of a run, at least the one at its end, which is
// that of the last epoch, too. Of a run whose time is not known it is more than
// those that are kept.
static double count_saves(const plan *p, const cli_plan_run *run) {
  const ls_train_config *asked = &p->flags->train.asked;
  const char *best = best_metric(&run->config);
  double others = best != NULL && strncmp(best, "test_", 5) == 0
                      ? fmax(0, count_epochs(run) - 1)
                      : 0;
  if (run->step.estimator != NULL) ++others;  // The one of step 0.
  if (asked->save_every_steps > 0)
    return others + ceil((double)run->steps / (double)asked->save_every_steps);
  if (p->timed_steps == 0) return others + (double)run->config.keep + 1;
  const double interval =
      asked->save_every > 0 ? (double)asked->save_every : 60;
  return others + fmax(1, ceil(p->run_seconds / interval));
}

static void plan_disk(const cli_plan_run *run, plan *p) {
  // Bytes of a checkpoint's names and facts, of a line of metrics, of other
  // files.
  static const double notes = 8192, line = 220, others = 4096;
  const train_flags *flags = &p->flags->train;
  const ls_train_config *config = &run->config;
  const double saves = count_saves(p, run);
  const double keeps = config->keep == 0 ? saves : (double)config->keep;
  double kept = fmin(keeps, saves) + (best_metric(config) != NULL);
  if (config->keep_every_hours > 0)
    kept += floor(p->run_seconds / 3600 / config->keep_every_hours);
  p->kept = (int64_t)fmin(kept, saves);
  p->checkpoint_bytes = p->memory.parameters + p->memory.optimizer + notes;
  p->model_bytes = run->step.estimator == NULL ? p->memory.parameters : 0;
  p->metrics_bytes =
      line * (ceil((double)run->steps / 100) + 2 * count_epochs(run)) + others;
  p->writes_more = saves > (double)p->kept;
  p->disk_bytes = p->checkpoint_bytes * ((double)p->kept + p->writes_more) +
                  p->model_bytes + p->metrics_bytes;
  p->free_disk =
      cli_free_disk(flags->run_folder != NULL ? flags->run_folder : "runs");
}

// ---- As a table ------------------------------------------------------------
static void add_row(cli_table *table, const char *name, const char *value,
                    const char *note) {
  cli_table_add(table);
  cli_table_set(table, 0, "  %s", name);
  cli_table_set(table, 1, "%s", value);
  cli_table_set(table, 2, "%s", note);
}

static void add_bytes(cli_table *table, const char *name, double bytes,
                      const char *note) {
  char text[CLI_CELL];
  if (bytes > 0) add_row(table, name, cli_format_bytes(bytes, text), note);
}

static void add_known(cli_table *table, const char *name, double bytes) {
  char text[CLI_CELL];
  add_row(table, name,
          isfinite(bytes) ? cli_format_bytes(bytes, text) : "unknown", "");
}

static void add_memory(cli_table *table, const plan *p) {
  const cli_memory *m = &p->memory;
  cli_table_add(table);
  cli_table_set(table, 0, "memory");
  add_bytes(table, "process", m->process, "measured: program, graphs");
  add_bytes(table, "data set", m->data, "measured");
  add_bytes(table, "parameters", m->parameters, "");
  add_bytes(table, "optimizer", m->optimizer, "");
  add_bytes(table, "replicas", m->replicas, "variables of the others");
  add_bytes(table, "new values", m->copies, "of parameters and optimizer");
  add_bytes(table, "step", m->values, "activations, gradients");
  add_bytes(table, "input", m->input, "batches");
  add_bytes(table, "evaluation", m->evaluation, "after each epoch");
  add_bytes(table, "saves", m->saves, "a copy while it is written");
  add_bytes(table, "peak", cli_memory_peak(m), "the sum");
  add_known(table, "available", p->room);
}

static void add_time(cli_table *table, const plan *p, const cli_plan_run *run) {
  char text[CLI_CELL], note[CLI_CELL];
  cli_table_add(table);
  cli_table_set(table, 0, "time");
  snprintf(note, sizeof(note), "measured here, mean of %lld",
           (long long)p->timed_steps);
  add_row(table, "step", cli_format_seconds(p->step_seconds, text), note);
  static const char without[] = "without input, evaluation, saves";
  if (run->examples > 0)
    add_row(table, "epoch", cli_format_seconds(p->epoch_seconds, text),
            without);
  snprintf(note, sizeof(note), "of %lld steps%s%s", (long long)run->steps,
           run->examples > 0 ? "" : ", ", run->examples > 0 ? "" : without);
  add_row(table, "run", cli_format_seconds(p->run_seconds, text), note);
}

static void add_disk(cli_table *table, const plan *p) {
  char text[CLI_CELL];
  cli_table_add(table);
  cli_table_set(table, 0, "disk");
  add_bytes(table, "checkpoint", p->checkpoint_bytes, "");
  add_row(table, "kept", cli_format_count(p->kept, text),
          p->writes_more ? "and one being written" : "");
  add_bytes(table, "model", p->model_bytes, "model.safetensors");
  add_bytes(table, "metrics", p->metrics_bytes, "estimated");
  add_bytes(table, "most", p->disk_bytes, "");
  add_known(table, "free", p->free_disk);
}

static ls_status print_plan(const plan *p, const cli_plan_run *run) {
  static const cli_column columns[] = {
      {"", false, 0}, {"", true, 0}, {"", false, 1}};
  const ls_train_config *config = &run->config;
  CLI_OWN(cli_table, table) = {.columns = columns, .num_columns = 3};
  printf("%s, %lld replica%s, %s, batch of %lld\n", config->model,
         (long long)config->replicas, config->replicas == 1 ? "" : "s",
         config->precision, (long long)run->batch_size);
  add_memory(&table, p);
  if (p->timed_steps > 0) add_time(&table, p, run);
  add_disk(&table, p);
  return cli_table_print(&table, cli_output_columns());
}

// ---- As JSON ---------------------------------------------------------------
static void print_json(const plan *p, const cli_plan_run *run) {
  const cli_memory *m = &p->memory;
  const double unknown = p->timed_steps > 0 ? 0 : NAN;
  const double no_examples = run->examples > 0 ? 0 : NAN;
  cli_print_text('{', "model", run->config.model);
  printf(",\"replicas\":%lld,\"batch_size\":%lld",
         (long long)run->config.replicas, (long long)run->batch_size);
  cli_print_member(',', "examples", (double)run->examples + no_examples, 15);
  printf(",\"steps\":%lld", (long long)run->steps);
  cli_print_member(',', "process_bytes", m->process, 15);
  cli_print_member(',', "data_bytes", m->data, 15);
  cli_print_member(',', "parameter_bytes", m->parameters, 15);
  cli_print_member(',', "optimizer_bytes", m->optimizer, 15);
  cli_print_member(',', "replicas_bytes", m->replicas, 15);
  cli_print_member(',', "copies_bytes", m->copies, 15);
  cli_print_member(',', "step_bytes", m->values, 15);
  cli_print_member(',', "input_bytes", m->input, 15);
  cli_print_member(',', "evaluation_bytes", m->evaluation, 15);
  cli_print_member(',', "saves_bytes", m->saves, 15);
  cli_print_member(',', "peak_bytes", cli_memory_peak(m), 15);
  cli_print_member(',', "available_bytes", p->room, 15);
  printf(",\"timed_steps\":%lld", (long long)p->timed_steps);
  cli_print_member(',', "step_seconds", p->step_seconds + unknown, 15);
  cli_print_member(',', "epoch_seconds",
                   p->epoch_seconds + unknown + no_examples, 15);
  cli_print_member(',', "run_seconds", p->run_seconds + unknown, 15);
  cli_print_member(',', "checkpoint_bytes", p->checkpoint_bytes, 15);
  printf(",\"checkpoints\":%lld", (long long)p->kept);
  cli_print_member(',', "disk_bytes", p->disk_bytes, 15);
  cli_print_member(',', "free_disk_bytes", p->free_disk, 15);
  printf("}\n");
}

// ---- Refusals --------------------------------------------------------------
static ls_status refuse_memory(const plan *p, const cli_plan_run *run) {
  char needed[CLI_CELL], has[CLI_CELL], advice[CLI_CELL];
  if (cli_memory_peak(&p->memory) <= p->room) return ls_ok();
  if (p->fitting_batch > 0)
    snprintf(advice, sizeof(advice), "--batch-size %lld would fit",
             (long long)p->fitting_batch);
  else
    snprintf(advice, sizeof(advice), "no smaller batch would fit either");
  return LS_STATUS(LS_RESOURCE_EXHAUSTED,
                   "a batch of %lld needs %s of memory, of which %s "
                   "are available: %s",
                   (long long)run->batch_size,
                   cli_format_bytes(cli_memory_peak(&p->memory), needed),
                   cli_format_bytes(p->room, has), advice);
}

static ls_status refuse_disk(const plan *p) {
  char needed[CLI_CELL], has[CLI_CELL];
  if (p->disk_bytes <= p->free_disk) return ls_ok();
  const double rest = p->free_disk - p->model_bytes - p->metrics_bytes;
  const double fitting = floor(rest / p->checkpoint_bytes) - 1;
  cli_format_bytes(p->disk_bytes, needed);
  cli_format_bytes(p->free_disk, has);
  if (fitting >= 1)
    return LS_STATUS(LS_RESOURCE_EXHAUSTED,
                     "the run folder needs %s of disk, of which %s are "
                     "free: --keep %.0f would fit",
                     needed, has, fitting);
  return LS_STATUS(LS_RESOURCE_EXHAUSTED,
                   "the run folder needs %s of disk, of which %s are free: "
                   "give another --run-dir",
                   needed, has);
}

// ---- The command -----------------------------------------------------------
static ls_status make_plan(plan *p) {
  const plan_flags *all = p->flags;
  CLI_OWN(cli_plan_run, run) = {.type = all->found.model,
                                .step.estimator = all->found.estimator};
  CLI_OWN(cli_step, step) = {0};
  LS_RETURN_IF_ERROR(cli_plan_run_open(&all->train, all->params, &run));
  LS_RETURN_IF_ERROR(cli_plan_memory(&run, run.batch_size, &step, &p->memory));
  p->room = cli_room();
  const bool fits = cli_memory_peak(&p->memory) <= p->room;
  if (!fits) {
    cli_step_close(&step);
    LS_RETURN_IF_ERROR(
        cli_plan_batch_size(&run, &p->memory, p->room, &p->fitting_batch));
  } else if (!p->flags->no_steps) {
    LS_RETURN_IF_ERROR(time_steps(&run, &step, p));
  }
  plan_disk(&run, p);
  if (p->flags->json)
    print_json(p, &run);
  else
    LS_RETURN_IF_ERROR(print_plan(p, &run));
  LS_RETURN_IF_ERROR(refuse_memory(p, &run));
  return refuse_disk(p);
}

// Refuses flags of runs that are not planned.
static bool check_flags(const plan_flags *all, const train_flags *flags) {
  const ls_estimator_type *type = all->found.estimator;
  const estimator_flags tests = {.train = *flags};
  const struct {
    bool is_given;
    const char *text;
  } rows[] = {
      {flags->resume != NULL, "--resume: a run that goes on is not planned"},
      {flags->tpu != NULL, "--tpu: runs on TPU systems are not planned"},
      {flags->iterations > 1,
       "--iterations-per-loop: loops of steps are not planned"},
      {flags->seeds > 0, "--seeds: one run is planned at a time"},
      {flags->find_lr != NULL, "--find-lr: a search of rates is not planned"},
      {cli_device.name != NULL && strcmp(cli_device.name, "cpu") != 0,
       "--device: runs are planned for the CPU; see 'lockstep help compile'"},
      {cli_device.find_nan, "--find-nan: runs op by op are not planned"},
      {flags->estimator, "--estimator: models of the library are planned as "
                         "models; without it the plan is that of the "
                         "model's run"},
      {type == NULL && all->params != NULL, "--param is for estimators"},
      {type != NULL && cli_estimator_tests(&tests),
       "--stop-early and --keep-best: evaluations of estimators are not "
       "planned"},
      {type != NULL && type->train.call == NULL,
       "the estimator has no input to train with (its field 'train')"},
      {type != NULL && flags->asked.steps == 0 && type->train_steps == 0,
       "--steps is missing: the estimator trains to the end of its input"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    if (!rows[i].is_given) continue;
    return cli_refuse("plan", "%s", rows[i].text);
  }
  return type == NULL || cli_params_check("plan", all->params, type);
}

static int run_plan(const cli_syntax *syntax, train_flags *flags, void *user) {
  plan_flags *all = user;
  plan p = {.flags = all};
  ls_runtime *runtime = NULL;
  (void)syntax;
  flags->any_metric = all->found.estimator != NULL;
  if (!check_flags(all, flags) || !cli_train_check(flags)) return CLI_USAGE;
  all->train = *flags;
  ls_status status =
      cli_runtime_open(flags->asked.threads, flags->asked.math, &runtime);
  if (ls_status_is_ok(status)) status = make_plan(&p);
  return cli_runtime_close("plan", runtime, cli_report("plan", status));
}

// Refuses the flags of what MODEL names.
static bool find_model(const char *model, cli_syntax *syntax, void *user) {
  plan_flags *all = user;
  if (!cli_find_type("plan", model, &all->found)) return false;
  const ls_estimator_type *type = all->found.estimator;
  syntax->subject = type != NULL ? type->name : NULL;
  syntax->refused = type != NULL ? cli_train_refused_by_libraries
                                 : cli_train_refused_by_models;
  return true;
}

int cli_plan(int argc, char **argv) {
  plan_flags all = {0};
  const cli_option options[] = {
      {"no-steps", CLI_FLAG, &all.no_steps, NULL,
       "run no steps: the plan has no times"},
      {"json", CLI_FLAG, &all.json, NULL,
       "print one line of JSON: sizes in bytes, times in seconds"},
      CLI_STEP_PARAM_OPTION(&all.params),
  };
  return cli_with_train_flags(
      &(cli_train_words){
          .syntax =
              {.command = "plan",
               .about =
                   "Plans a run of 'lockstep train' with the same flags: the "
                   "memory at its peak, the time of a step, measured by some, "
                   "of an epoch and of the run, and the disk that its folder "
                   "takes. Opens the data and compiles the step; a run that "
                   "does not fit into the memory that is available, or the "
                   "free disk, is refused with what would fit, before any "
                   "step. Flags that change neither, such as --seed, are "
                   "accepted. MODEL may be a shared library of models or "
                   "estimators: ./mine.so or ./mine.so:NAME.",
               .operand_form = "MODEL",
               CLI_OPTIONS(options)},
          .find = find_model,
          .run = run_plan,
          .user = &all},
      argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
#include "cli/train/train_flags.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/ranks.h"
#include "cli/words.h"

// Returns the offset of a flag's field in the configuration; -1 for other
// flags.
static ptrdiff_t train_flags_place_of(const cli_option *option,
                                      const train_flags *flags) {
  const char *at = option->value, *first = (const char *)&flags->asked;
  return at >= first && at < first + sizeof(flags->asked) ? at - first : -1;
}

// Returns true for flags that name files.
static bool is_data(const char *name) {
  return strcmp(name, "data") == 0 || strcmp(name, "test") == 0;
}

const char *cli_train_flag_text(const char *name, cli_kind kind,
                                const void *value, char *room) {
  room[0] = '\0';
  if (kind == CLI_COUNT || kind == CLI_COUNT_OR_ZERO) {
    const int64_t count = *(const int64_t *)value;
    if (count > 0 || (count == 0 && kind == CLI_COUNT_OR_ZERO))
      snprintf(room, PATH_MAX, "%lld", (long long)count);
  } else if (kind == CLI_REAL) {
    const double real = *(const double *)value;
    if (real != 0) snprintf(room, PATH_MAX, "%.17g", real);
  } else if (kind == CLI_FLAG) {
    if (*(const bool *)value) snprintf(room, PATH_MAX, "true");
  } else if (*(const char *const *)value != NULL) {
    const char *given = *(const char *const *)value;
    if (is_data(name)) ls_status_free(cli_full_data(&given, room));
    return given;
  }
  return room;
}

bool cli_train_differs(const train_flags *flags, const char *flag,
                       const char *asked, const char *has) {
  const char *quote = has[0] != '\0' ? "'" : "";
  cli_say(cli_train_command(flags),
          "--%s is '%s', the run in '%s' has %s%s%s: %s", flag, asked,
          flags->resume, quote, has[0] != '\0' ? has : "none", quote,
          flags->inexact         ? "results will differ"
          : flags->again != NULL ? "steps are made again with the same only"
                                 : "it can only continue with the same, or "
                                   "with --allow-inexact");
  return flags->inexact;
}

bool cli_train_is_setting(const char *name) {
  static const char *const names[] = {
      "keep",     "keep-best",   "keep-every-hours", "stop-early",
      "patience", "min-delta",   "save-every",       "save-every-steps",
      "checksum", "check-ranks", "eval-every"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); ++i) {
    const char *a = name, *b = names[i];
    for (; *a != '\0' && (*a == *b || (*a == '_' && *b == '-')); ++a, ++b) {
    }
    if (*a == *b) return true;
  }
  return false;
}

bool cli_train_optimizer_agrees(const train_flags *flags, const char *has,
                                const char *sha256) {
  char now[PATH_MAX], was[PATH_MAX];
  const char *asked = flags->asked.optimizer, *name = strrchr(has, ':');
  const char *command = cli_train_command(flags);
  const cli_optimizer *own = cli_own_optimizer();
  if (!cli_is_library(has)) return true;
  if (asked == NULL)
    return cli_refuse_library(command, "optimizer", flags->resume,
                              cli_train_named_step(flags), has);
  if (!cli_is_library(asked))
    return cli_train_differs(flags, "optimizer", asked, has);
  if (!cli_find_optimizer(command, asked)) return false;
  snprintf(now, sizeof(now), "%s' with SHA-256 '%s", own->rule->name,
           own->sha256);
  snprintf(was, sizeof(was), "%s' with SHA-256 '%s",
           name != NULL ? name + 1 : has, sha256 != NULL ? sha256 : "");
  return strcmp(now, was) == 0 ||
         cli_train_differs(flags, "optimizer", now, was);
}

bool cli_train_agrees(const cli_syntax *syntax, const train_flags *flags,
                      const ls_train_config *config) {
  const char *other =
      flags->gradient_norm && !config->gradient_norm     ? "gradient-norm"
      : flags->flip && !config->flip                     ? "flip"
      : flags->normalize && config->normalize[0] == '\0' ? "normalize"
                                                         : NULL;
  if (other != NULL)
    return cli_refuse(
        "train",
        "--%s makes other steps: the run in '%s' was begun without it, and "
        "can only continue so",
        other, flags->resume);
  if (!cli_train_check_optimizer(&flags->asked, config->optimizer) ||
      !cli_train_optimizer_agrees(flags, config->optimizer,
                                  config->optimizer_sha256))
    return false;
  static const char *const may_differ[] = {"epochs", "steps", "threads",
                                           "model"};
  for (size_t i = 0; i < syntax->num_options; ++i) {
    const cli_option *option = &syntax->options[i];
    const ptrdiff_t place = train_flags_place_of(option, flags);
    bool free_to_differ = place < 0 || cli_train_is_setting(option->name);
    for (size_t k = 0; k < sizeof(may_differ) / sizeof(*may_differ); ++k)
      free_to_differ |= strcmp(option->name, may_differ[k]) == 0;
    free_to_differ |= place == offsetof(ls_train_config, optimizer) &&
                      cli_is_library(config->optimizer);
    if (free_to_differ) continue;
    char asked_room[PATH_MAX], has_room[PATH_MAX];
    const char *asked = cli_train_flag_text(option->name, option->kind,
                                            option->value, asked_room);
    const char *has = cli_train_flag_text(
        option->name, option->kind, (const char *)config + place, has_room);
    if (asked[0] == '\0' || strcmp(asked, has) == 0) continue;
    if (is_data(option->name) && cli_is_place(asked) && cli_is_place(has) &&
        has[0] != '\0')
      continue;
    if (!cli_train_differs(flags, option->name, asked, has)) return false;
  }
  return true;
}

bool cli_train_check_optimizer(const ls_train_config *asked, const char *has) {
  const char *kinds[32];
  size_t count = 0;
  while (count < 32 && ls_optimizer_kind(count) != NULL) {
    kinds[count] = ls_optimizer_kind(count);
    ++count;
  }
  if (asked->optimizer != NULL)
    return cli_is_library(asked->optimizer)
               ? cli_find_optimizer("train", asked->optimizer)
               : cli_choose("train", "optimizer", asked->optimizer, kinds,
                            count);
  const char *needs = NULL;
  if (has[0] != '\0') return true;
  if (asked->warmup != 0) needs = "warmup";
  if (asked->weight_decay != 0) needs = "weight-decay";
  if (asked->clip_norm != 0) needs = "clip-norm";
  if (asked->accumulate != 0) needs = "accumulate";
  if (asked->schedule != NULL && strcmp(asked->schedule, "cosine") == 0)
    needs = "schedule cosine";
  if (needs == NULL) return true;
  return cli_refuse(
      "train", "--%s needs an --optimizer: the model's own has no such option",
      needs);
}

// Finds the checkpoint of --warm-start RUN@STEP.
static bool take_warm_start(train_flags *flags) {
  char folder[PATH_MAX];
  ls_opt step;
  const char *path = flags->asked.warm_start;
  if (path == NULL) return true;
  if (!cli_split_step("train", path, folder, &step)) return false;
  if (!step.set || path[strlen(folder)] != '@') return true;
  snprintf(flags->warm_start, sizeof(flags->warm_start), "%s/model.ckpt-%lld",
           folder, (long long)step.value);
  flags->asked.warm_start = flags->warm_start;
  return true;
}

// Checks the flags of warm starts: some need each other, all a new run.
static bool check_warm_start(const train_flags *flags) {
  const ls_train_config *asked = &flags->asked;
  const struct {
    const char *flag, *words, *map;
  } lists[] = {{"only", asked->warm_only, NULL},
               {"except", asked->warm_except, NULL},
               {"layout", asked->warm_layout, NULL},
               {"map", asked->warm_map, "OLD=NEW"}};
  const size_t count = sizeof(lists) / sizeof(*lists);
  for (size_t i = 0; i < count; ++i) {
    if (lists[i].words == NULL || asked->warm_start != NULL) continue;
    return cli_refuse("train", "--%s is for --warm-start", lists[i].flag);
  }
  if (asked->warm_start != NULL && flags->resume != NULL)
    return cli_refuse("train",
                      "--resume continues with the run's values; --warm-start "
                      "cannot be given with it");
  cli_layout layout;
  bool good = cli_layout_read(asked->warm_layout, &layout);
  for (size_t i = 0; i < count && good; ++i)
    good = cli_words_read("train", lists[i].flag, lists[i].words, lists[i].map);
  return good;
}

// Returns true for a metric of an estimator's evaluations.
static bool is_of_evaluation(const train_flags *flags, const char *name) {
  return flags->any_metric && strncmp(name, "test_", 5) == 0 && name[5] != '\0';
}

// Checks the metric of --stop-early, with or without :min or :max, and the
// flags that need one.
static bool check_stop_early(const train_flags *flags) {
  static const char *const metrics[] = {"test_loss", "test_accuracy",
                                        "test_mae"};
  const ls_train_config *asked = &flags->asked;
  if (asked->stop_early != NULL) {
    char name[64];
    if (!flags->any_metric && asked->test != NULL &&
        strcmp(asked->test, "none") == 0)
      return cli_refuse("train", "--stop-early needs a test, and --test none "
                                 "makes none");
    const char *way = strchr(asked->stop_early, ':');
    const bool is_known =
        way == NULL || strcmp(way, ":min") == 0 || strcmp(way, ":max") == 0;
    snprintf(name, sizeof(name), "%s", asked->stop_early);
    if (is_known) name[strcspn(name, ":")] = '\0';
    return is_of_evaluation(flags, name) ||
           cli_choose("train", "stop-early", name, metrics, 3);
  }
  // A resumed run may have the metric.
  if (flags->resume != NULL || (asked->patience == 0 && asked->min_delta == 0))
    return true;
  return cli_refuse("train", "--%s is for --stop-early",
                    asked->patience != 0 ? "patience" : "min-delta");
}

// Adds --label to --features, whose names are then those of examples.
static bool take_label(train_flags *flags) {
  const char *features = flags->asked.features;
  if (flags->label == NULL) return true;
  if (features != NULL && strchr(features, ';') != NULL)
    return cli_refuse("train",
                      "--features is '%s', which has labels: leave --label out",
                      features);
  const int size = snprintf(flags->features, sizeof(flags->features), "%s;%s",
                            features != NULL ? features : "*", flags->label);
  if (size >= (int)sizeof(flags->features))
    return cli_refuse("train",
                      "--label and --features are longer than %zu bytes",
                      sizeof(flags->features) - 1);
  flags->asked.features = flags->features;
  flags->label = NULL;
  return true;
}

// Finds out what --resume names; the run's events are continued, also those of
// an older version, which did not record that it has some.
static bool take_resume(train_flags *flags) {
  if (flags->resume == NULL) return true;
  const bool good = cli_split_step("train", flags->resume, flags->resume_folder,
                                   &flags->resume_step);
  flags->resume = flags->resume_folder;
  char path[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/events", flags->resume);
  if (flags->events == NULL && !flags->resume_step.set && cli_exists(path))
    flags->events = "";
  return good;
}

void cli_train_as_saved(train_flags *flags, const char *folder, int64_t step) {
  snprintf(flags->config_path, sizeof(flags->config_path),
           "%s/model.ckpt-%lld.json", folder, (long long)step);
}

bool cli_train_check(train_flags *flags) {
  static const char *const schedules[] = {"constant", "linear", "cosine"};
  static const char *const metrics[] = {
      "loss", "accuracy", "test_loss", "test_accuracy", "mae", "test_mae"};
  ls_train_config *asked = &flags->asked;
  if (asked->schedule != NULL &&
      !cli_choose("train", "schedule", asked->schedule, schedules, 3))
    return false;
  if (!cli_check_arithmetic("train", asked->precision, &asked->math))
    return false;
  if (asked->split >= 1)
    return cli_refuse("train",
                      "--split is '%g', expected a number between 0 and 1",
                      asked->split);
  if (asked->keep_best != NULL && !is_of_evaluation(flags, asked->keep_best) &&
      !cli_choose("train", "keep-best", asked->keep_best, metrics, 6))
    return false;
  if (!cli_check_task("train", asked->task) || !take_label(flags) ||
      !cli_words_read("train", "missing", asked->missing, "COLUMN=VALUE"))
    return false;
  if (!take_resume(flags)) return false;
  if (!check_stop_early(flags)) return false;
  if (asked->test_steps > 0 && asked->test != NULL && !flags->any_metric &&
      strcmp(asked->test, "none") == 0 && flags->again == NULL)
    return cli_refuse("train", "--test-steps needs a test, and --test none "
                               "makes none");
  if (flags->only_saves && flags->spike != 0)
    return cli_refuse("train", "--find-spike looks at steps, and --steps 0 "
                               "makes none");
  if (!check_warm_start(flags) || !take_warm_start(flags)) return false;
  if (flags->resume == NULL && flags->inexact)
    return cli_refuse("train", "--allow-inexact is for --resume");
  if (flags->resume == NULL) return cli_train_check_optimizer(asked, "");
  if (flags->resume_step.set ||
      (flags->run_folder == NULL && !flags->overwrite))
    return true;
  return cli_refuse(
      "train",
      "--resume continues in the folder it names; --%s cannot be given "
      "with it, unless it names a step, %s@STEP",
      flags->run_folder != NULL ? "run-dir" : "overwrite", flags->resume);
}

ls_train_config cli_train_fresh(const train_flags *flags) {
  ls_train_config config = flags->asked;
  if (config.model == NULL) config.model = "mlp";
  if (config.data == NULL) config.data = "fashion-mnist";
  if (config.precision == NULL) config.precision = "f32";
  if (config.schedule == NULL) config.schedule = "linear";
  const char **const texts[] = {
      &config.optimizer,   &config.test,       &config.features,
      &config.one_hot,     &config.missing,    &config.task,
      &config.stop_early,  &config.warm_start, &config.warm_only,
      &config.warm_except, &config.warm_map,   &config.warm_layout};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i)
    if (*texts[i] == NULL) *texts[i] = "";
  if (config.replicas == 0) config.replicas = 1;
  if (config.seed < 0) config.seed = 0;
  if (config.keep < 0) config.keep = 5;
  config.gradient_norm = flags->gradient_norm;
  config.flip = flags->flip;
  cli_note_optimizer(&config);
  return config;
}

ls_train_config cli_train_resumed(const cli_syntax *syntax,
                                  const train_flags *flags,
                                  const ls_train_config *resumed,
                                  const char *model) {
  ls_train_config config = *resumed;
  for (size_t i = 0; i < syntax->num_options; ++i) {
    const cli_option *option = &syntax->options[i];
    const ptrdiff_t place = train_flags_place_of(option, flags);
    char room[PATH_MAX];
    if (place < 0 || !(flags->inexact || cli_train_is_setting(option->name) ||
                       is_data(option->name)))
      continue;
    if (cli_train_flag_text(option->name, option->kind, option->value,
                            room)[0] == '\0')
      continue;
    // Copies 8 bytes: a number or a pointer.
    memcpy((char *)&config + place, option->value, sizeof(int64_t));
  }
  config.model = model;
  cli_note_optimizer(&config);
  if (flags->asked.epochs != 0 || flags->asked.steps != 0) {
    config.epochs = flags->asked.epochs;
    config.steps = flags->asked.steps;
  }
  return config;
}

// ---- Data ------------------------------------------------------------------
// Finds the normalization of a new run. A user's model, which is code, may not
// know of it.
static ls_status normalize(cli_opened *set) {
  const ls_model_type *type = set->type;
  if (cli_is_library(set->config->model))
    return ls_invalid_argument("--normalize is for models of the library: '%s' "
                               "is of a shared one",
                               type->name);
  if (type->example_dtype == LS_DTYPE_I32)
    return ls_invalid_argument(
        "--normalize: model '%s' learns from tokens, which are not normalized",
        type->name);
  LS_RETURN_IF_ERROR(
      cli_find_normalization(type, set->train, &set->normalization));
  set->config->normalize = set->normalization;
  return ls_ok();
}

// Takes from the run that a new one starts with that its data are scaled as
// bytes, and its number of outputs.
static ls_status start_like(const ls_train_config *asked,
                            const ls_model_type *type, cli_data *data) {
  char folder[PATH_MAX];
  ls_opt step;
  CLI_OWN(ls_train_config, was) = NULL;
  if (asked->warm_start == NULL ||
      !cli_split_step(NULL, asked->warm_start, folder, &step) ||
      !cli_is_run(folder))
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_train_config_read(folder, &was));
  if (strcmp(was->bytes, "yes") == 0) data->classes->bytes = "yes";
  if (asked->warm_only == NULL && asked->warm_except == NULL)
    data->least_outputs = was->outputs > 0 ? was->outputs : type->num_classes;
  return ls_ok();
}

ls_status cli_open_training(const train_flags *flags, bool tests,
                            cli_opened *io) {
  ls_train_config *config = io->config;
  const int64_t batch = flags->asked.batch_size;
  io->classes = (cli_classes){.names = config->classes,
                              .may_find = io->is_new,
                              .one_hot = config->one_hot,
                              .missing = config->missing,
                              .categories = config->categories,
                              .columns = config->columns,
                              .bytes = config->bytes,
                              .normalizes = flags->normalize};
  cli_data data = {.data = io->data,
                   .test = io->test,
                   .features = config->features,
                   .split = config->split,
                   .command = io->command,
                   .classes = &io->classes};
  if (io->is_new) {
    LS_RETURN_IF_ERROR(start_like(&flags->asked, io->type, &data));
    LS_RETURN_IF_ERROR(cli_find_sizes(&data, io->type, config));
  }
  LS_RETURN_IF_ERROR(cli_run_type(config, &io->type, &io->adapted));
  const ls_status opened =
      cli_open_data(&data, io->type, &io->train, tests ? &io->tested : NULL);
  LS_RETURN_IF_ERROR(io->is_new ? opened : cli_note_moved(opened));
  if (io->classes.found != NULL) config->classes = io->classes.found;
  if (io->classes.found_categories != NULL)
    config->categories = io->classes.found_categories;
  if (io->classes.found_columns != NULL)
    config->columns = io->classes.found_columns;
  if (io->classes.bytes != NULL) config->bytes = io->classes.bytes;
  LS_RETURN_IF_ERROR(
      ls_status_annotate(ls_train_check_data(io->type, io->train),
                         "--data synthetic generates examples that fit"));
  LS_RETURN_IF_ERROR(ls_train_count_examples(io->train, &io->examples));
  LS_RETURN_IF_ERROR(cli_check_batch(batch, io->examples));
  io->steps = ls_train_count_steps(io->type, io->examples, config->batch_size,
                                   config->epochs, config->steps);
  return flags->normalize && io->is_new ? normalize(io) : ls_ok();
}

void cli_close_training(cli_opened *set) {
  ls_dataset_release(set->train);
  ls_dataset_release(set->tested);
  cli_classes_release(&set->classes);
  cli_release(set->normalization);
  *set = (cli_opened){0};
}

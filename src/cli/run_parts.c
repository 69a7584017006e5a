// SPDX-License-Identifier: Apache-2.0
//
// Locates the model and the data of a run: by its folder, or by the user's
// flags, since files may have moved. A run folder may be untrusted, and a
// shared library is code: only a library that the user names is loaded.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/ranks.h"

bool cli_is_run(const char *folder) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/config.json", folder);
  return cli_exists(path);
}

// Finds the step of a run's newest checkpoint, or of its best one.
static ls_status find_step(const char *folder, bool best, int64_t *out_step) {
  CLI_OWN_MEMORY(int64_t, steps) = NULL;
  CLI_OWN(ls_train_config, config) = NULL;
  double least = INFINITY;
  size_t count = 0;
  LS_RETURN_IF_ERROR(cli_checkpoint_steps(folder, &steps, &count));
  if (count == 0) return ls_not_found("'%s' has no checkpoint", folder);
  *out_step = steps[count - 1];
  if (!best) return ls_ok();
  if (!cli_is_run(folder))
    return ls_unimplemented("the run in '%s' is no model's run, of which alone "
                            "@best is found: give its step, '%s@STEP'",
                            folder, folder);
  LS_RETURN_IF_ERROR(ls_train_config_read(folder, &config));
  const double sign = ls_train_config_keeps_highest(config) ? -1 : 1;
  if (config->keep_best[0] == '\0')
    return ls_invalid_argument("the run in '%s' has no best checkpoint: it was "
                               "trained without --keep-best or --stop-early",
                               folder);
  for (size_t i = 0; i < count; ++i) {
    ls_saved_info info;
    CLI_OWN(ls_saved_file, file) = NULL;
    ls_status status = cli_open_step(folder, steps[i], &file);
    // Others than a damaged one, or one that the run has removed, may be best.
    if (!ls_status_is_ok(status)) {
      ls_status_free(status);
      continue;
    }
    ls_saved_file_describe(file, &info);
    for (size_t k = 0; k < info.num_metrics; ++k) {
      const double value = info.metrics[k].value * sign;
      if (strcmp(info.metrics[k].name, config->keep_best) != 0 ||
          !(value < least))
        continue;
      least = value;
      *out_step = steps[i];
    }
  }
  return ls_ok();
}

// Finds the step of RUN@best or RUN@last.
static bool find_named_step(const char *command, const char *folder, bool best,
                            ls_opt *out_step) {
  int64_t step = 0;
  ls_runtime *runtime = NULL;
  ls_status status = cli_runtime_open_input(0, &runtime);
  if (ls_status_is_ok(status)) status = find_step(folder, best, &step);
  *out_step = LS_SOME(step);
  return cli_runtime_close(command, runtime, cli_report(command, status)) ==
         CLI_OK;
}

bool cli_split_step(const char *command, const char *text, char *folder,
                    ls_opt *out_step) {
  static const char name[] = "/model.ckpt-";
  struct stat info;
  *out_step = (ls_opt){0};
  snprintf(folder, PATH_MAX, "%s", text);
  if (stat(text, &info) == 0 && S_ISDIR(info.st_mode)) return true;
  char *end = strrchr(folder, '@'), *slash = strrchr(folder, '/');
  const char *digits = end != NULL ? end + 1 : "";
  if (slash != NULL && strncmp(slash, name, strlen(name)) == 0) {
    end = slash;
    digits = slash + strlen(name);
  }
  const bool best = strcmp(digits, "best") == 0;
  if (best || strcmp(digits, "last") == 0) {
    *end = '\0';
    return command == NULL || find_named_step(command, folder, best, out_step);
  }
  const size_t count = strspn(digits, "0123456789");
  const char *rest = digits + count;
  const bool is_file = end == slash && (strcmp(rest, ".safetensors") == 0 ||
                                        strcmp(rest, ".json") == 0);
  if (count == 0 || count > 18 || (*rest != '\0' && !is_file)) return true;
  *out_step = LS_SOME(strtoll(digits, NULL, 10));
  *end = '\0';
  return true;
}

const char *cli_quote(const char *text, char *buffer, size_t size) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,=-";
  if (text[0] != '\0' && text[strspn(text, plain)] == '\0') return text;
  size_t used = 0;
  buffer[used++] = '\'';
  // Leaves room for an escaped quote (four bytes) and the end (two).
  for (const char *at = text; *at != '\0' && used + 6 < size; ++at) {
    if (*at == '\'') {
      memcpy(buffer + used, "'\\''", 4);
      used += 4;
    } else {
      buffer[used++] = *at;
    }
  }
  buffer[used++] = '\'';
  buffer[used] = '\0';
  return buffer;
}

bool cli_refuse_library(const char *command, const char *flag,
                        const char *run_folder, ls_opt step, const char *kept) {
  char run[PATH_MAX], library[PATH_MAX], at[32] = "";
  if (step.set) snprintf(at, sizeof(at), "@%lld", (long long)step.value);
  return cli_refuse(
      command,
      "the %s of the run in '%s' is in a shared library, which is code "
      "and is loaded only if you name it: lockstep %s%s %s%s --%s %s",
      flag, run_folder, command,
      strcmp(command, "train") == 0 ? " --resume" : "",
      cli_quote(run_folder, run, sizeof(run)), at, flag,
      cli_quote(kept, library, sizeof(library)));
}

bool cli_run_model(const char *command, const char *run_folder, ls_opt step,
                   const char *kept, const char *named,
                   const char **out_model) {
  const bool library = cli_is_library(kept), onnx = cli_is_model_file(kept);
  *out_model = named != NULL ? named : kept;
  if (named == NULL) {
    return !library ||
           cli_refuse_library(command, "model", run_folder, step, kept);
  }
  if (library ? cli_is_library(named)
      : onnx  ? cli_is_model_file(named)
              : strcmp(named, kept) == 0)
    return true;
  return cli_refuse(
      command,
      "--model is '%s', the run in '%s' has '%s': it can only continue "
      "with the same model",
      named, run_folder, kept);
}

// ---- Run folders -----------------------------------------------------------
ls_status cli_make_folder(const char *path, bool *out_made) {
  char part[PATH_MAX];
  size_t size = 0;
  do {
    size += strspn(path + size, "/");
    size += strcspn(path + size, "/");
    snprintf(part, sizeof(part), "%.*s", (int)size, path);
    *out_made = mkdir(part, 0777) == 0;
    if (!*out_made && errno != EEXIST)
      return LS_STATUS(LS_UNAVAILABLE, "cannot make folder '%s': %s", part,
                       strerror(errno));
  } while (path[size + strspn(path + size, "/")] != '\0');
  return ls_ok();
}

static ls_status make_run_folder(const char *name, char *buffer, size_t size) {
  static const char above[] = "runs";
  bool made = false;
  for (int number = 1; !made; ++number) {
    snprintf(buffer, size, "%s/%s-%d", above, name, number);
    for (char *at = buffer + sizeof(above); *at != '\0'; ++at) {
      if (*at == '/') *at = '-';  // A slash would make a subfolder.
    }
    LS_RETURN_IF_ERROR(cli_make_folder(buffer, &made));
  }
  return ls_ok();
}

ls_status cli_choose_folder(const char *name, char *buffer, size_t size) {
  LS_RETURN_IF_ERROR(cli_ranks_agree(
      cli_leads() ? make_run_folder(name, buffer, size) : ls_ok()));
  return cli_ranks_send(buffer, size);
}

// SPDX-License-Identifier: Apache-2.0
//
// Locates the model and the data of a run: by its folder, or by the user's
// flags, since files may have moved. A run folder may be untrusted, and a
// shared library is code: only a library that the user names is loaded.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/ranks.h"

void cli_split_step(const char *text, char *folder, ls_opt *out_step) {
  static const char name[] = "/model.ckpt-";
  struct stat info;
  *out_step = (ls_opt){0};
  snprintf(folder, PATH_MAX, "%s", text);
  if (stat(text, &info) == 0 && S_ISDIR(info.st_mode)) return;
  char *end = strrchr(folder, '@'), *slash = strrchr(folder, '/');
  const char *digits = end != NULL ? end + 1 : "";
  if (slash != NULL && strncmp(slash, name, strlen(name)) == 0) {
    end = slash;
    digits = slash + strlen(name);
  }
  const size_t count = strspn(digits, "0123456789");
  const char *rest = digits + count;
  const bool is_file = end == slash && (strcmp(rest, ".safetensors") == 0 ||
                                        strcmp(rest, ".json") == 0);
  if (count == 0 || count > 18 || (*rest != '\0' && !is_file)) return;
  *out_step = LS_SOME(strtoll(digits, NULL, 10));
  *end = '\0';
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

static void refuse_library(const char *command, const char *run_folder,
                           const char *kept) {
  char run[PATH_MAX], library[PATH_MAX];
  cli_say(command,
          "the model of the run in '%s' is in a shared library, which is code "
          "and is loaded only if you name it: lockstep %s%s %s --model %s",
          run_folder, command, strcmp(command, "train") == 0 ? " --resume" : "",
          cli_quote(run_folder, run, sizeof(run)),
          cli_quote(kept, library, sizeof(library)));
}

bool cli_run_model(const char *command, const char *run_folder,
                   const char *kept, const char *named,
                   const char **out_model) {
  const bool library = cli_is_library(kept), onnx = cli_is_model_file(kept);
  *out_model = named != NULL ? named : kept;
  if (named == NULL) {
    if (library) refuse_library(command, run_folder, kept);
    return !library;
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

// SPDX-License-Identifier: Apache-2.0
// Files of text, whose bytes are tokens: examples of a language model.
#define _GNU_SOURCE
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/data/data.h"

CLI_OWNED_STRUCT(glob_t, globfree)

// ---- Files of a text -------------------------------------------------------
static int compare_paths(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

// Adds the files that a path names, sorted by their bytes: a file, the .txt
// files of a folder, or those of a pattern. Without GLOB_NOCHECK in `flags`
// adds nothing for a path that names none.
static ls_status find_texts(const char *path, int flags, glob_t *found) {
  char pattern[2 * PATH_MAX + 8];
  struct stat info;
  size_t used = 0;
  const size_t before = found->gl_pathc;
  const bool exists = stat(path, &info) == 0;
  for (const char *at = path; *at != '\0' && used < 2 * PATH_MAX - 1; ++at) {
    if (exists && strchr("*?[\\", *at) != NULL) pattern[used++] = '\\';
    pattern[used++] = *at;
  }
  snprintf(pattern + used, sizeof(pattern) - used, "%s",
           exists && S_ISDIR(info.st_mode) ? "/*.txt" : "");
  if (before > 0) flags |= GLOB_APPEND;
  const int failure = glob(pattern, flags | GLOB_NOSORT, NULL, found);
  if (failure == GLOB_NOSPACE) return ls_out_of_memory();
  if (found->gl_pathc > before)
    qsort(found->gl_pathv + before, found->gl_pathc - before, sizeof(char *),
          compare_paths);
  return ls_ok();
}

static ls_status find_all_texts(const cli_files *files, glob_t *found) {
  for (size_t i = 0; i < files->count; ++i)
    LS_RETURN_IF_ERROR(find_texts(files->paths[i], GLOB_NOCHECK, found));
  return ls_ok();
}

bool cli_has_texts(const char *folder) {
  CLI_OWN(glob_t, found) = {0};
  ls_status_free(find_texts(folder, 0, &found));
  return found.gl_pathc > 0;
}

// ---- Elements --------------------------------------------------------------
ls_status cli_text_lines(const cli_files *files, ls_dataset **out) {
  CLI_OWN(glob_t, found) = {0};
  LS_RETURN_IF_ERROR(find_all_texts(files, &found));
  *out = ls_dataset_lines((const char *const *)found.gl_pathv, found.gl_pathc,
                          NULL);
  return ls_ok();
}

static ls_status open_text_pairs(const cli_files *files,
                                 const cli_pair_request *request,
                                 ls_dataset **out) {
  CLI_OWN(glob_t, found) = {0};
  LS_RETURN_IF_ERROR(find_all_texts(files, &found));
  const ls_text_options options = {
      .length = ls_shape_num_elements(request->type->example_shape),
      .whole = true,
      .num_classes = request->type->num_classes};
  *out = ls_dataset_texts((const char *const *)found.gl_pathv, found.gl_pathc,
                          &options);
  return ls_dataset_status(*out);
}

const cli_format cli_text_format = {
    .name = "text", .has_tokens = true, .open_pairs = open_text_pairs};

// ---- Description -----------------------------------------------------------
ls_status cli_show_text(const cli_files *files) {
  CLI_OWN(glob_t, found) = {0};
  bool seen[256] = {false};
  long long bytes = 0;
  int distinct = 0, largest = 0;
  LS_RETURN_IF_ERROR(find_all_texts(files, &found));
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    CLI_OWN(FILE, file) = NULL;
    LS_RETURN_IF_ERROR(cli_open_file(found.gl_pathv[i], &file));
    for (int c; (c = getc_unlocked(file)) != EOF; ++bytes)
      seen[c] = true;
  }
  for (int c = 0; c < 256; ++c) {
    distinct += seen[c];
    if (seen[c]) largest = c;
  }
  printf("as tokens of a language model: %lld bytes, %d different, the largest "
         "%d, in %zu file%s\n",
         bytes, distinct, largest, found.gl_pathc,
         found.gl_pathc == 1 ? "" : "s");
  return ls_ok();
}

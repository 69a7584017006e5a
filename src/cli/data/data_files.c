// SPDX-License-Identifier: Apache-2.0
// Opens the files that a text names.
#define _GNU_SOURCE
#include <errno.h>
#include <glob.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/data/data.h"

// Replaces standard input by a copy in memory, which can be opened by its path
// again and again.
static ls_status keep_input(void) {
  static bool is_kept = false;
  if (is_kept) return ls_ok();
  CLI_OWN(FILE, copy) = fdopen(memfd_create("stdin", MFD_CLOEXEC), "w");
  char block[1 << 14];
  size_t size = 0;
  while (copy != NULL && (size = fread(block, 1, sizeof(block), stdin)) > 0)
    fwrite(block, 1, size, copy);
  is_kept = copy != NULL && !ferror(stdin) && fflush(copy) == 0 &&
            dup2(fileno(copy), STDIN_FILENO) == STDIN_FILENO;
  return is_kept ? ls_ok()
                 : LS_STATUS(LS_UNAVAILABLE, "cannot copy standard input: %s",
                             strerror(errno));
}

// Opens standard input, whose format its first bytes tell: texts are CSV.
static ls_status open_input(cli_files *files) {
  static const char path[] = "/dev/stdin";
  LS_RETURN_IF_ERROR(keep_input());
  snprintf(files->first, sizeof(files->first), "%s", path);
  files->paths[0] = path;
  files->format = cli_format_find(path);
  const cli_format *format = files->format;
  if (format != NULL && format->open_pairs == NULL &&
      format->open_unlabeled == NULL)
    files->format = cli_format_named("input.csv");
  return ls_ok();
}

static ls_status find_first(cli_files *files) {
  glob_t found = {0};
  struct stat info;
  const char *path = files->paths[0];
  // If a file has a star in its name, the path means that file.
  if (stat(path, &info) == 0)
    snprintf(files->first, sizeof(files->first), "%s", path);
  else if (glob(path, 0, NULL, &found) == 0)
    snprintf(files->first, sizeof(files->first), "%s", found.gl_pathv[0]);
  globfree(&found);
  if (files->first[0] == '\0')
    return ls_not_found("there is no file or folder '%s'", path);
  files->format = cli_format_find(files->first);
  return ls_ok();
}

ls_status cli_files_open(const char *text, cli_files *out) {
  struct stat info;
  *out = (cli_files){.text = text};
  const bool is_one = stat(text, &info) == 0;
  size_t most = 1;
  for (const char *at = text; *at != '\0'; ++at)
    most += *at == ',';
  out->copy = cli_allocate(strlen(text) + 1);
  out->paths = cli_allocate(most * sizeof(*out->paths));
  if (out->copy == NULL || out->paths == NULL) return ls_out_of_memory();
  memcpy(out->copy, text, strlen(text));
  char *rest = out->copy;
  while (!is_one && rest != NULL) {
    char *path = strsep(&rest, ",");
    if (*path != '\0') out->paths[out->count++] = path;
  }
  if (out->count == 0) out->paths[out->count++] = out->copy;
  if (strcmp(text, "-") == 0) return open_input(out);
  return find_first(out);
}

ls_status cli_files_open_list(const char *const *paths, size_t count,
                              cli_files *out) {
  *out = (cli_files){.text = paths[0], .count = count};
  out->paths = cli_allocate(count * sizeof(*out->paths));
  if (out->paths == NULL) return ls_out_of_memory();
  memcpy(out->paths, paths, count * sizeof(*paths));
  return find_first(out);
}

void cli_files_close(cli_files *files) {
  cli_release(files->copy);
  cli_release(files->paths);
  *files = (cli_files){0};
}

ls_status cli_files_check_one(const cli_files *files) {
  if (files->count == 1 && strcmp(files->first, files->paths[0]) == 0)
    return ls_ok();
  return ls_invalid_argument("'%s' names several files; this format reads one",
                             files->text);
}

// SPDX-License-Identifier: Apache-2.0
// Which files a text names, and what they are.
#define _GNU_SOURCE
#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/data/data.h"

// ---- Folders ---------------------------------------------------------------
static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool has_mnist(const char *folder) {
  static const char *const names[] = {
      "train-labels-idx1-ubyte", "train-labels-idx1-ubyte.gz",
      "t10k-labels-idx1-ubyte", "t10k-labels-idx1-ubyte.gz"};
  char path[PATH_MAX];
  struct stat info;
  for (size_t i = 0; i < 4; ++i) {
    snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
    if (stat(path, &info) == 0) return true;
  }
  return false;
}

static cli_format format_of_folder(const char *folder) {
  if (has_mnist(folder)) return CLI_FORMAT_MNIST;
  bool has_folder = false;
  DIR *entries = opendir(folder);
  if (entries == NULL) return CLI_FORMAT_MNIST;  // Its opening tells why.
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    char path[PATH_MAX];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    has_folder |= is_folder(path);
  }
  closedir(entries);
  return has_folder ? CLI_FORMAT_IMAGES : CLI_FORMAT_MNIST;
}

// ---- Files -----------------------------------------------------------------
static bool ends_with(const char *text, size_t size, const char *end) {
  const size_t length = strlen(end);
  return size > length && strncasecmp(text + size - length, end, length) == 0;
}

static cli_format format_of_name(const char *path) {
  static const struct {
    const char *end;
    cli_format format;
  } ends[] = {
      {".npz", CLI_FORMAT_NPZ},           {".npy", CLI_FORMAT_NPY},
      {".csv", CLI_FORMAT_CSV},           {".tsv", CLI_FORMAT_CSV},
      {".tfrecord", CLI_FORMAT_TFRECORD}, {".tfrecords", CLI_FORMAT_TFRECORD},
      {".png", CLI_FORMAT_IMAGE},         {".jpg", CLI_FORMAT_IMAGE},
      {".jpeg", CLI_FORMAT_IMAGE},        {"-ubyte", CLI_FORMAT_IDX},
      {".idx", CLI_FORMAT_IDX},
  };
  size_t size = strlen(path);
  const bool packed = ends_with(path, size, ".gz");
  if (packed) size -= 3;
  for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); ++i) {
    if (ends_with(path, size, ends[i].end)) return ends[i].format;
  }
  return packed ? CLI_FORMAT_TFRECORD : CLI_FORMAT_NONE;
}

// A record's length, which fits into the file, as TFRecord files begin.
static bool is_record(const unsigned char *head, size_t size, int64_t whole) {
  if (size < 12) return false;
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | head[i];
  return whole >= 16 && length <= (uint64_t)whole - 16;
}

static bool is_text(const unsigned char *head, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (head[i] < 0x20 && strchr("\t\n\r\f", head[i]) == NULL) return false;
    if (head[i] == 0) return false;
  }
  return true;
}

static cli_format format_of_bytes(const char *path, int64_t whole) {
  unsigned char head[512];
  FILE *file = NULL;
  ls_status status = cli_open_file(path, &file);
  if (!ls_status_is_ok(status)) {
    ls_status_free(status);
    return CLI_FORMAT_NONE;
  }
  const size_t size = fread(head, 1, sizeof(head), file);
  fclose(file);
  if (size >= 4 && memcmp(head, "PK\003\004", 4) == 0) return CLI_FORMAT_NPZ;
  if (size >= 6 && memcmp(head, "\223NUMPY", 6) == 0) return CLI_FORMAT_NPY;
  if (size >= 4 &&
      (memcmp(head, "\211PNG", 4) == 0 || memcmp(head, "\377\330\377", 3) == 0))
    return CLI_FORMAT_IMAGE;
  if (is_record(head, size, whole)) return CLI_FORMAT_TFRECORD;
  if (size >= 4 && head[0] == 0 && head[1] == 0 && head[2] >= 8 &&
      head[2] <= 14)
    return CLI_FORMAT_IDX;
  return is_text(head, size) ? CLI_FORMAT_TEXT : CLI_FORMAT_NONE;
}

static cli_format format_of(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return CLI_FORMAT_NONE;
  if (S_ISDIR(info.st_mode)) return format_of_folder(path);
  // Of others nothing is known before they are read, which may take for ever.
  if (!S_ISREG(info.st_mode)) return CLI_FORMAT_NONE;
  const cli_format format = format_of_name(path);
  return format != CLI_FORMAT_NONE ? format
                                   : format_of_bytes(path, info.st_size);
}

// ---- Lists -----------------------------------------------------------------
static ls_status find_first(cli_files *files) {
  glob_t found = {0};
  struct stat info;
  const char *path = files->paths[0];
  // A path with a star in its name that is there is that one.
  if (stat(path, &info) == 0)
    snprintf(files->first, sizeof(files->first), "%s", path);
  else if (glob(path, 0, NULL, &found) == 0)
    snprintf(files->first, sizeof(files->first), "%s", found.gl_pathv[0]);
  globfree(&found);
  if (files->first[0] == '\0')
    return ls_not_found("there is no file or folder '%s'", path);
  files->format = format_of(files->first);
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
  out->paths = cli_allocate((most) * sizeof(*out->paths));
  if (out->copy == NULL || out->paths == NULL) return ls_out_of_memory();
  memcpy(out->copy, text, strlen(text));
  char *rest = out->copy;
  while (!is_one && rest != NULL) {
    char *path = strsep(&rest, ",");
    if (*path != '\0') out->paths[out->count++] = path;
  }
  if (out->count == 0) out->paths[out->count++] = out->copy;
  return find_first(out);
}

ls_status cli_files_open_list(const char *const *paths, size_t count,
                              cli_files *out) {
  *out = (cli_files){.text = paths[0], .count = count};
  out->paths = cli_allocate((count) * sizeof(*out->paths));
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
  return ls_invalid_argument("'%s' names several files; of this kind one is "
                             "read",
                             files->text);
}

// SPDX-License-Identifier: Apache-2.0
// Opens the files that a text names.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
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
  bool is_whole = copy != NULL;
  while (is_whole && (size = fread(block, 1, sizeof(block), stdin)) > 0)
    is_whole = fwrite(block, 1, size, copy) == size;
  is_kept = is_whole && !ferror(stdin) && fflush(copy) == 0 &&
            dup2(fileno(copy), STDIN_FILENO) == STDIN_FILENO;
  return is_kept ? ls_ok()
                 : LS_STATUS(LS_UNAVAILABLE, "cannot copy standard input: %s",
                             strerror(errno));
}

// Opens standard input, whose format its first bytes tell: texts are CSV.
static ls_status open_input(cli_files *files) {
  static const char path[] = "/dev/stdin";
  unsigned char head[2] = {0};
  LS_RETURN_IF_ERROR(keep_input());
  if (pread(STDIN_FILENO, head, 2, 0) == 2 && memcmp(head, "\x1f\x8b", 2) == 0)
    return ls_invalid_argument("standard input is packed: pipe it through "
                               "gunzip");
  snprintf(files->first, sizeof(files->first), "%s", path);
  files->paths[0] = path;
  files->format = cli_format_find(path);
  const cli_format *format = files->format;
  if (format != NULL && format->open_pairs == NULL &&
      format->open_unlabeled == NULL)
    files->format = cli_format_named("input.csv");
  return ls_ok();
}

// Writes the first of the files that a pattern names to their readers.
static ls_status match_first(const char *pattern, char out_path[PATH_MAX]) {
  CLI_OWN(ls_dataset, names) = ls_dataset_files(pattern);
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, name) = ls_none();
  LS_RETURN_IF_ERROR(ls_iterator_create(names, NULL, &iterator));
  LS_RETURN_IF_ERROR(ls_iterator_next(iterator, &name));
  const ls_bytes *bytes = ls_array_data(ls_nest_as_array(name));
  snprintf(out_path, PATH_MAX, "%.*s", (int)bytes->size, bytes->data);
  return ls_ok();
}

static ls_status find_first(cli_files *files) {
  struct stat info;
  const char *path = files->paths[0];
  // If a file has a star in its name, the path means that file.
  if (stat(path, &info) == 0) {
    snprintf(files->first, sizeof(files->first), "%s", path);
  } else {
    CLI_OWN(ls_status, status) = match_first(path, files->first);
    if (ls_status_code(status) == LS_INVALID_ARGUMENT) return cli_give(&status);
  }
  if (files->first[0] == '\0' || stat(files->first, &info) != 0)
    return ls_not_found("there is no file or folder '%s'%s", path,
                        strpbrk(path, "/.*") == NULL
                            ? "; by name there are fashion-mnist and synthetic"
                            : "");
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
  out->copy = cli_copy_text(text, strlen(text));
  out->paths = cli_allocate(most * sizeof(*out->paths));
  if (out->copy == NULL || out->paths == NULL) return ls_out_of_memory();
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
  CLI_SET_ARRAY_OR_RETURN(out->paths, count);
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

// ---- Features --------------------------------------------------------------
static ls_status parse_type(char *text, cli_feature *out) {
  out->typed = true;
  if (strcmp(text, "image") == 0) {
    out->image = true;
    return ls_ok();
  }
  out->shaped = strchr(text, '[') != NULL;
  ls_status status = out->shaped
                         ? ls_shape_parse(text, &out->dtype, &out->shape)
                         : ls_dtype_parse(text, &out->dtype);
  if (ls_status_is_ok(status) && out->shaped && !ls_shape_is_known(out->shape))
    status = ls_invalid_argument("'%s' is no known shape", text);
  return ls_status_annotate(status,
                            "in --features: examples of NAME=TYPE are "
                            "image=image, image=u8[28,28] and label=i64");
}

// Returns the end of the entry: a comma or semicolon outside of brackets.
static char *find_end(char *at) {
  int depth = 0;
  for (; *at != '\0' && ((*at != ',' && *at != ';') || depth > 0); ++at)
    depth += (*at == '[') - (*at == ']');
  return at;
}

ls_status cli_features_parse(const char *text, cli_features *out) {
  *out = (cli_features){0};
  if (text == NULL || text[0] == '\0') return ls_ok();
  if ((size_t)snprintf(out->text, sizeof(out->text), "%s", text) >=
      sizeof(out->text))
    return ls_invalid_argument("--features has %zu bytes, more than %zu",
                               strlen(text), sizeof(out->text) - 1);
  size_t num_examples = 0;  // 0: the last entry is the label.
  for (char *at = out->text, *end = NULL; at != NULL;
       at = end != NULL ? end + 1 : NULL) {
    end = find_end(at);
    const bool ends_examples = *end == ';';
    if (*end == '\0')
      end = NULL;
    else
      *end = '\0';
    if (out->count == CLI_MOST_FEATURES)
      return ls_invalid_argument("--features has more than %d names",
                                 CLI_MOST_FEATURES);
    cli_feature *feature = &out->items[out->count++];
    feature->name = at;
    if (ends_examples && num_examples > 0)
      return ls_invalid_argument("--features is '%s': one ; is before the "
                                 "labels",
                                 text);
    if (ends_examples) num_examples = out->count;
    char *type = strchr(at, '=');
    if (type != NULL) {
      *type++ = '\0';
      LS_RETURN_IF_ERROR(parse_type(type, feature));
    }
    if (feature->name[0] == '\0')
      return ls_invalid_argument("--features is '%s': name %zu is empty", text,
                                 out->count);
  }
  out->num_labels = num_examples > 0 ? out->count - num_examples : 1;
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
// Text labels as numbers of classes: the distinct ones, sorted by their bytes,
// counted from 0.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/data.h"

enum { MOST_CLASSES = 10000, MOST_SHOWN = 10 };

// Sorted names.
struct cli_class_list {
  char **names;
  int64_t *rows;  // Number of rows that have each, where they were found.
  size_t count, capacity, bytes;
};

void cli_classes_release(cli_classes *classes) {
  cli_release(classes->found);
  cli_release(classes->found_categories);
  cli_release(classes->found_columns);
}

void cli_class_list_release(cli_class_list *list) {
  if (list == NULL) return;
  for (size_t i = 0; i < list->count; ++i)
    cli_release(list->names[i]);
  cli_release(list->names);
  cli_release(list->rows);
  cli_release(list);
}

// Returns the position of a name, or where it would be inserted.
static size_t find_name(const cli_class_list *list, ls_bytes name,
                        bool *out_found) {
  size_t low = 0, high = list->count;
  *out_found = false;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const char *there = list->names[middle];
    const size_t size = strlen(there);
    int order = memcmp(there, name.data, size < name.size ? size : name.size);
    if (order == 0) order = (size > name.size) - (size < name.size);
    if (order == 0) {
      *out_found = true;
      return middle;
    }
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static ls_status insert_name(cli_class_list *list, size_t at, ls_bytes name) {
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity > 0 ? 2 * list->capacity : 16;
    CLI_OWN_ARRAY_OR_RETURN(int64_t, rows, capacity);
    CLI_NEW_ARRAY_OR_RETURN(char *, names, capacity);
    if (list->count > 0) {
      memcpy(names, list->names, list->count * sizeof(*names));
      memcpy(rows, list->rows, list->count * sizeof(*rows));
    }
    cli_release(list->names);
    cli_release(list->rows);
    list->names = names;
    list->rows = cli_give(&rows);
    list->capacity = capacity;
  }
  CLI_NEW_ARRAY_OR_RETURN(char, copy, name.size + 1);
  memcpy(copy, name.data, name.size);
  memmove(list->rows + at + 1, list->rows + at,
          (list->count - at) * sizeof(*list->rows));
  memmove(list->names + at + 1, list->names + at,
          (list->count++ - at) * sizeof(*list->names));
  list->names[at] = copy;
  list->rows[at] = 0;
  list->bytes += name.size + 1;
  return ls_ok();
}

size_t cli_column_texts(const char *categories, const char *column,
                        const char **out) {
  const char *at = categories;
  while (at != NULL && *at != '\0') {
    const size_t size = strcspn(at, "\n");
    const bool same = size == strlen(column) && memcmp(at, column, size) == 0;
    at += size + (at[size] == '\n');
    const char *end = strstr(at, "\n\n");
    const size_t texts = end != NULL ? (size_t)(end - at) + 1 : strlen(at);
    *out = at;
    if (same) return texts;
    at += texts + (at[texts] == '\n');
  }
  return 0;
}

// ---- Finding classes -------------------------------------------------------
static ls_status add_label(cli_class_list *list, const char *column,
                           int64_t row, ls_bytes name) {
  bool found = false;
  if (name.size == 0)
    return ls_invalid_argument(
        "row %lld of column '%s' is empty: --missing %s=TEXT gives it a text",
        (long long)row + 1, column, column);
  if (memchr(name.data, '\n', name.size) != NULL ||
      memchr(name.data, '\0', name.size) != NULL)
    return ls_invalid_argument(
        "row %lld of column '%s' has several lines: names of classes are "
        "single lines",
        (long long)row + 1, column);
  if (!cli_is_utf8(name.data, name.size))
    return ls_invalid_argument("row %lld of column '%s' is no UTF-8; iconv -f "
                               "LATIN1 -t UTF-8 converts Latin-1",
                               (long long)row + 1, column);
  const size_t at = find_name(list, name, &found);
  if (found) {
    ++list->rows[at];
    return ls_ok();
  }
  if (list->count == MOST_CLASSES)
    return ls_invalid_argument(
        "column '%s' is read as labels and has more than %d different texts: "
        "give another column by --features LABEL",
        column, MOST_CLASSES);
  LS_RETURN_IF_ERROR(insert_name(list, at, name));
  list->rows[at] = 1;
  return ls_ok();
}

bool cli_next_label(ls_bytes *rest, ls_bytes *out) {
  static const char separators[] = "; ";
  const char *at = rest->data, *end = at + rest->size;
  while (at < end && memchr(separators, *at, 2) != NULL)
    ++at;
  const char *stop = at < end ? memchr(at, ';', (size_t)(end - at)) : NULL;
  if (stop == NULL) stop = end;
  *rest = (ls_bytes){stop, (size_t)(end - stop)};
  while (stop > at && stop[-1] == ' ')
    --stop;
  *out = (ls_bytes){at, (size_t)(stop - at)};
  return out->size > 0;
}

static ls_status read_labels(ls_dataset *rows, size_t item, const char *column,
                             bool are_lists, cli_class_list *list) {
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(ls_iterator_create(rows, NULL, &iterator));
  for (int64_t row = 0;; ++row) {
    CLI_NEXT_OR(return ls_ok(), iterator, &element);
    const ls_array *array = ls_nest_as_array(ls_nest_item(element, item));
    ls_bytes name, rest = *(const ls_bytes *)ls_array_data(array);
    if (!are_lists) LS_RETURN_IF_ERROR(add_label(list, column, row, rest));
    while (are_lists && cli_next_label(&rest, &name))
      LS_RETURN_IF_ERROR(add_label(list, column, row, name));
  }
}

size_t cli_class_list_count(const cli_class_list *list) { return list->count; }

// Formats names, each after its number if `numbered`, before the number of its
// rows if `counted`.
static void print_names(const cli_class_list *list, bool numbered, bool counted,
                        char *text, size_t size) {
  size_t used = 0;
  const size_t shown = list->count > MOST_SHOWN ? MOST_SHOWN - 1 : list->count;
  for (size_t i = 0; i < shown && used < size; ++i) {
    char number[24] = "", rows[24] = "";
    if (numbered) snprintf(number, sizeof(number), "%zu ", i);
    if (counted) snprintf(rows, 24, " %lld", (long long)list->rows[i]);
    const int put = snprintf(text + used, size - used, "%s%s%.40s%s",
                             i > 0 ? ", " : "", number, list->names[i], rows);
    used += put > 0 ? (size_t)put : 0;
  }
  if (shown < list->count && used < size)
    snprintf(text + used, size - used, " and %zu more", list->count - shown);
}

void cli_class_list_print(const cli_class_list *list, char *text, size_t size) {
  print_names(list, false, false, text, size);
}

static void report_classes(const char *command, const char *file,
                           const cli_class_list *list) {
  char text[600];
  const bool shows = strcmp(command, "data") == 0;
  print_names(list, !shows, shows, text, sizeof(text));
  cli_say(command,
          shows ? "labels of '%s' are texts; a training makes %zu classes of "
                  "them: %s"
                : "labels of '%s' are texts, %zu classes: %s",
          file, list->count, text);
}

static char *join_names(const cli_class_list *list) {
  char *names = cli_allocate(list->bytes + 1), *at = names;
  for (size_t i = 0; i < list->count && names != NULL; ++i) {
    const size_t size = strlen(list->names[i]);
    memcpy(at, list->names[i], size);
    at[size] = '\n';
    at += size + 1;
  }
  if (names != NULL && at > names) at[-1] = '\0';
  return names;
}

static ls_status find_classes(ls_dataset *rows, size_t item, bool are_lists,
                              const char *column, const char *file,
                              const char *command, char **out_names) {
  CLI_OWN(cli_class_list, list) = cli_allocate(sizeof(*list));
  if (list == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(read_labels(rows, item, column, are_lists, list));
  *out_names = join_names(list);
  if (*out_names == NULL) return ls_out_of_memory();
  if (command != NULL) report_classes(command, file, list);
  return ls_ok();
}

ls_status cli_classes_find(ls_dataset *rows, size_t item, bool are_lists,
                           const char *column, const char *file,
                           const char *command, char **out_names) {
  *out_names = NULL;
  return ls_status_annotate(
      find_classes(rows, item, are_lists, column, file, command, out_names),
      "in '%s'", file);
}

int64_t cli_classes_count(const char *names) {
  int64_t count = names != NULL && names[0] != '\0';
  for (const char *at = names; count > 0 && (at = strchr(at, '\n')) != NULL;
       ++at)
    ++count;
  return count;
}

ls_bytes cli_class_name(const char *names, int64_t number) {
  for (; number > 0 && *names != '\0'; --number) {
    names += strcspn(names, "\n");
    if (*names == '\n') ++names;
  }
  return (ls_bytes){names, strcspn(names, "\n")};
}

ls_status cli_classes_keep(char *names, const char *file,
                           cli_classes *classes) {
  CLI_OWN_MEMORY(char, given) = names;
  const int64_t known = cli_classes_count(classes->names);
  const int64_t count = cli_classes_count(names);
  if (known == 0 && !classes->may_find) return ls_ok();
  if (known == 0) {
    cli_release(classes->found);
    classes->names = classes->found = cli_give(&given);
    snprintf(classes->file, sizeof(classes->file), "%s", file);
    return ls_ok();
  }
  const bool has_file = classes->file[0] != '\0';
  const char *quote = has_file ? "'" : "";
  for (int64_t i = 0; i < known || i < count; ++i) {
    const ls_bytes a = cli_class_name(classes->names, i);
    const ls_bytes b = cli_class_name(names, i);
    if (a.size == b.size && memcmp(a.data, b.data, a.size) == 0) continue;
    return ls_invalid_argument(
        "class %lld is '%.*s' in %s%s%s, and '%.*s' in '%s': both need the "
        "same names in the same order",
        (long long)i, (int)a.size, (const char *)a.data, quote,
        has_file ? classes->file : "the run", quote, (int)b.size,
        (const char *)b.data, file);
  }
  return ls_ok();
}

// ---- Names of predictions --------------------------------------------------
static void write_labels(FILE *to, const char *names,
                         const ls_array *probabilities, int64_t row) {
  const int64_t count = ls_array_shape(probabilities).dim[1];
  const char *separator = "";
  putc('[', to);
  for (int64_t k = 0; k < count; ++k) {
    const ls_bytes name = cli_class_name(names, k);
    if (!(ls_array_f64(probabilities, row * count + k) > 0.5)) continue;
    fputs(separator, to);
    cli_write_json(to, name.data, name.size);
    separator = ",";
  }
  putc(']', to);
}

void cli_write_names(FILE *to, const char *names, ls_nest predictions,
                     int64_t row) {
  static const char *const keys[] = {"class", "classes"};
  const ls_array *classes = NULL;
  const ls_array *labels =
      ls_nest_as_array(ls_nest_find(predictions, "probability"));
  if (names == NULL || names[0] == '\0') return;
  for (size_t i = 0; i < 2 && classes == NULL; ++i)
    classes = ls_nest_as_array(ls_nest_find(predictions, keys[i]));
  const bool are_classes = classes != NULL;
  if (are_classes
          ? !ls_dtype_is_integer(ls_array_dtype(classes)) ||
                ls_array_shape(classes).rank != 1
          : labels == NULL || ls_array_shape(labels).rank != 2 ||
                ls_array_shape(labels).dim[1] != cli_classes_count(names))
    return;
  const int64_t rows = ls_array_shape(are_classes ? classes : labels).dim[0];
  fputs(are_classes ? ",\"name\":" : ",\"labels\":", to);
  if (row < 0) putc('[', to);
  for (int64_t i = row < 0 ? 0 : row; i < (row < 0 ? rows : row + 1); ++i) {
    if (row < 0 && i > 0) putc(',', to);
    if (are_classes) {
      const ls_bytes name = cli_class_name(names, ls_array_i64(classes, i));
      cli_write_json(to, name.data, name.size);
    } else {
      write_labels(to, names, labels, i);
    }
  }
  if (row < 0) putc(']', to);
}

// ---- Classes as numbers ----------------------------------------------------
ls_status cli_class_list_make(const char *names, cli_class_list **out) {
  *out = NULL;
  CLI_OWN(cli_class_list, list) = cli_allocate(sizeof(*list));
  if (list == NULL) return ls_out_of_memory();
  for (const char *at = names; *at != '\0';) {
    const ls_bytes name = {at, strcspn(at, "\n")};
    bool found = false;
    // Names in an edited config.json may be in another order.
    const size_t place = find_name(list, name, &found);
    if (found || place != list->count)
      return ls_invalid_argument("the stored classes are not sorted: '%.*s'",
                                 (int)name.size, at);
    LS_RETURN_IF_ERROR(insert_name(list, place, name));
    at += name.size + (at[name.size] == '\n');
  }
  return cli_hand_over(&list, out);
}

ls_status cli_class_number(const cli_class_list *list, ls_bytes name,
                           int64_t *out) {
  bool found = false;
  *out = (int64_t)find_name(list, name, &found);
  if (found) return ls_ok();
  return ls_invalid_argument("its label '%.*s' is none of the %zu classes",
                             name.size < 80 ? (int)name.size : 80,
                             (const char *)name.data, list->count);
}

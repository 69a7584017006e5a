// SPDX-License-Identifier: Apache-2.0
// Rows by the columns of the data that a model was trained on:
// [1.5, "red"] or {"size": 1.5, "color": "red"}, with texts that training has
// made numbers (--one-hot). They become rows of these numbers.
#include <string.h>

#include "cli/data/data.h"
#include "cli/serve/serve.h"
#include "cli/words.h"

// The JSON text of a value.
typedef struct value {
  const char *at;  // NULL: missing.
  size_t size;
} value;

typedef struct expander {
  const ls_train_config *config;
  const char *input;  // Name of the model's only input.
  size_t count;       // Number of columns.
  value *values;      // One per column.
  int64_t row;
  cli_buffer *text;  // The new rows.
} expander;

static void add(expander *e, const char *data, size_t size) {
  cli_buffer_append(e->text, data, size);
}

static ls_status take_value(cli_cursor *c, value *out) {
  cli_cursor_space(c);
  out->at = c->at;
  LS_RETURN_IF_ERROR(cli_cursor_skip(c, NULL));
  out->size = (size_t)(c->at - out->at);
  return ls_ok();
}

// ---- Columns ---------------------------------------------------------------
static size_t count_lines(const char *text) {
  size_t count = *text != '\0';
  for (; *text != '\0'; ++text)
    count += text[0] == '\n' && text[1] != '\0';
  return count;
}

// Returns the column of that name, `count` if there is none.
static size_t find_column(const expander *e, const char *name, size_t size) {
  const char *at = e->config->columns;
  for (size_t i = 0; i < e->count; ++i) {
    const size_t length = strcspn(at, "\n");
    if (length == size && memcmp(at, name, size) == 0) return i;
    at += length + (at[length] == '\n');
  }
  return e->count;
}

static ls_status refuse_row(const expander *e, const char *found) {
  char all[200];
  snprintf(all, sizeof(all), "%s", e->config->columns);
  for (char *at = all; (at = strchr(at, '\n')) != NULL;)
    *at = ',';
  return ls_invalid_argument("instance %lld %s; the columns are %s",
                             (long long)e->row, found, all);
}

// ---- Values ----------------------------------------------------------------
// Adds a 1 for the text of a column and a 0 for each other one.
static ls_status add_text(expander *e, const char *name, const value *given,
                          const char *texts, size_t size) {
  const char *end = texts + size;
  bool is_known = false;
  CLI_OWN_ARRAY_OR_RETURN(char, text, given->size + 1);
  const cli_member member = {.value = given->at, .value_size = given->size};
  if (given->at[0] != '"' || !cli_json_copy(&member, text, given->size + 1))
    return ls_invalid_argument("instance %lld: column '%s' is %.*s, expected "
                               "a text",
                               (long long)e->row, name,
                               (int)(given->size < 64 ? given->size : 64),
                               given->at);
  for (const char *at = texts; at < end;) {
    const size_t length = strcspn(at, "\n");
    const bool same = length == strlen(text) && memcmp(at, text, length) == 0;
    if (at != texts) add(e, ",", 1);
    add(e, same ? "1" : "0", 1);
    is_known |= same;
    at += length + 1;
  }
  return is_known ? ls_ok()
                  : ls_invalid_argument("instance %lld: column '%s' has no "
                                        "text '%.64s' in the training data",
                                        (long long)e->row, name, text);
}

static ls_status add_values(expander *e) {
  const char *at = e->config->columns;
  add(e, "[", 1);
  for (size_t i = 0; i < e->count; ++i) {
    const value *given = &e->values[i];
    const size_t length = strcspn(at, "\n");
    char name[200];
    const char *texts = NULL;
    snprintf(name, sizeof(name), "%.*s", (int)length, at);
    at += length + (at[length] == '\n');
    if (given->at == NULL) return refuse_row(e, "lacks a column");
    const size_t size = cli_column_texts(e->config->categories, name, &texts);
    if (i > 0) add(e, ",", 1);
    if (size > 0)
      LS_RETURN_IF_ERROR(add_text(e, name, given, texts, size));
    else if (given->at[0] == '[')  // A column of several numbers.
      add(e, given->at + 1, given->size - 2);
    else
      add(e, given->at, given->size);
  }
  add(e, "]", 1);
  return ls_ok();
}

// ---- Rows ------------------------------------------------------------------
// Reads a row; `*out_is_plain`: the model takes it as it is.
static ls_status read_columns(expander *e, cli_cursor c, bool *out_is_plain) {
  const bool is_list = cli_cursor_take(&c, '[');
  size_t count = 0;
  bool has_text = false;
  memset(e->values, 0, e->count * sizeof(*e->values));
  *out_is_plain = true;
  if (!is_list && !cli_cursor_take(&c, '{')) return ls_ok();
  for (; !cli_cursor_take(&c, is_list ? ']' : '}'); ++count) {
    value given;
    size_t at = count;
    cli_cursor_take(&c, ',');
    if (!is_list) {
      const char *name = NULL;
      size_t size = 0;
      LS_RETURN_IF_ERROR(cli_cursor_string(&c, &name, &size));
      if (size == strlen(e->input) && memcmp(name, e->input, size) == 0)
        return ls_ok();
      at = find_column(e, name, size);
      if (at == e->count) return refuse_row(e, "has another name");
      cli_cursor_take(&c, ':');
    }
    LS_RETURN_IF_ERROR(take_value(&c, &given));
    has_text |= given.at[0] == '"';
    if (at < e->count) e->values[at] = given;
  }
  *out_is_plain = is_list && !has_text;
  return *out_is_plain || count == e->count
             ? ls_ok()
             : refuse_row(e, "has another number of values");
}

ls_status cli_expand_columns(const cli_signature *signature, int64_t count,
                             cli_cursor *rows, cli_buffer *text) {
  const ls_train_config *config = signature->model->config;
  const ls_serving_info *info = &signature->info;
  cli_cursor c = *rows;
  // Numbers that training has scaled as bytes come scaled, without columns.
  if (config == NULL || config->columns[0] == '\0' ||
      strcmp(config->bytes, "yes") == 0 || info->num_inputs != 1 ||
      info->inputs[0].type.shape.rank != 2 || !cli_cursor_take(&c, '['))
    return ls_ok();
  expander e = {.config = config,
                .input = info->inputs[0].name,
                .count = count_lines(config->columns),
                .text = text};
  CLI_OWN_ARRAY_OR_RETURN(value, values, e.count);
  e.values = values;
  for (; e.row < count; ++e.row) {
    bool is_plain = true;
    value row;
    cli_cursor_take(&c, ',');
    cli_cursor_space(&c);
    LS_RETURN_IF_ERROR(read_columns(&e, c, &is_plain));
    LS_RETURN_IF_ERROR(take_value(&c, &row));
    add(&e, e.row > 0 ? "," : "[", 1);
    if (is_plain)
      add(&e, row.at, row.size);
    else
      LS_RETURN_IF_ERROR(add_values(&e));
  }
  add(&e, count > 0 ? "]" : "[]", count > 0 ? 1 : 2);
  if (text->failed) return ls_out_of_memory();
  *rows = (cli_cursor){
      .text = text->data, .at = text->data, .end = text->data + text->size};
  c = *rows;  // Checks it, as an empty list leaves a gap.
  return cli_cursor_skip(&c, NULL);
}

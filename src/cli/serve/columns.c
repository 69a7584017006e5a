// SPDX-License-Identifier: Apache-2.0
// Rows by the columns of the data that a model was trained on:
// [1.5, "red"] or {"size": 1.5, "color": "red"}, with texts that training has
// made numbers (--one-hot). They become rows of these numbers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/data.h"
#include "cli/serve/serve.h"
#include "cli/words.h"

// A column of the training's rows, and its value in a row.
typedef struct column {
  char *name;
  int64_t width;      // Count of its numbers.
  const char *texts;  // Texts in the training data, one a line;
  size_t size;        // 0: the column has numbers.
  const char *value;  // The value of --missing; NULL: none.
  const char *given;  // JSON text of the value; NULL: missing.
  size_t given_size;
} column;

typedef struct expander {
  const char *input;  // Name of the model's only input.
  size_t count;
  column *columns;
  cli_words missing;
  int64_t row;
  cli_buffer *text;  // The new rows.
} expander;

static void add(expander *e, const char *data, size_t size) {
  cli_buffer_append(e->text, data, size);
}

// ---- Columns ---------------------------------------------------------------
static ls_status open_columns(expander *e, const ls_train_config *config) {
  const char *at = config->columns;
  e->count = (size_t)cli_classes_count(at);
  e->columns = cli_allocate(e->count * sizeof(*e->columns));
  if (e->columns == NULL ||
      (config->missing != NULL && config->missing[0] != '\0' &&
       !cli_words_open("serve", "missing", config->missing, "COLUMN=VALUE",
                       &e->missing)))
    return ls_out_of_memory();
  for (size_t i = 0; i < e->count; ++i) {
    column *made = &e->columns[i];
    const size_t size = strcspn(at, "\t\n");
    made->name = cli_copy_text(at, size);
    if (made->name == NULL) return ls_out_of_memory();
    made->width = at[size] == '\t' ? strtoll(at + size + 1, NULL, 10) : 1;
    made->value = cli_words_value(&e->missing, made->name);
    made->size = cli_column_texts(config->categories, made->name, &made->texts);
    at += strcspn(at, "\n");
    at += *at == '\n';
  }
  return ls_ok();
}

// Finds the column of that name, first at `from`: members mostly come in order.
// Returns NULL if there is none.
static column *find_column(const expander *e, size_t from, const char *name) {
  for (size_t i = 0; i < e->count; ++i) {
    column *found = &e->columns[(from + i) % e->count];
    if (strcmp(found->name, name) == 0) return found;
  }
  return NULL;
}

static ls_status refuse_row(const expander *e, const char *found) {
  char all[200] = "";
  for (size_t i = 0, size = 0; i < e->count && size < sizeof(all); ++i)
    size += (size_t)snprintf(all + size, sizeof(all) - size, "%s%s",
                             i > 0 ? "," : "", e->columns[i].name);
  return ls_invalid_argument("instance %lld %s; the columns are %s",
                             (long long)e->row, found, all);
}

static ls_status refuse_value(const expander *e, const column *self,
                              const char *expected) {
  return ls_invalid_argument(
      "instance %lld: column '%s' is %.*s, expected %s", (long long)e->row,
      self->name, (int)(self->given_size < 64 ? self->given_size : 64),
      self->given, expected);
}

// ---- Values ----------------------------------------------------------------
// Returns true if a value is missing or null, and there is one in its place.
static bool lacks_value(const column *self) {
  return self->value != NULL && (self->given == NULL || self->given[0] == 'n');
}

// Adds a 1 for the text of a column and a 0 for each other one.
static ls_status add_text(expander *e, const column *self) {
  const char *end = self->texts + self->size;
  bool is_known = false;
  CLI_OWN_ARRAY_OR_RETURN(char, text, self->given_size + 1);
  const cli_member member = {.value = self->given,
                             .value_size = self->given_size};
  const bool is_missing = lacks_value(self);
  if (!is_missing && (self->given[0] != '"' ||
                      !cli_json_copy(&member, text, self->given_size + 1)))
    return refuse_value(e, self, "a text");
  const char *wanted = is_missing ? self->value : text;
  for (const char *at = self->texts; at < end;) {
    const size_t length = strcspn(at, "\n");
    const bool same =
        length == strlen(wanted) && memcmp(at, wanted, length) == 0;
    if (at != self->texts) add(e, ",", 1);
    add(e, same ? "1" : "0", 1);
    is_known |= same;
    at += length + 1;
  }
  return is_known ? ls_ok()
                  : ls_invalid_argument("instance %lld: column '%s' has no "
                                        "text '%.64s' in the training data",
                                        (long long)e->row, self->name, wanted);
}

// Adds the number of a column, or those of a list.
static ls_status add_numbers(expander *e, const column *self) {
  for (int64_t i = 0; lacks_value(self) && i < self->width; ++i) {
    char number[32];
    const int size =
        snprintf(number, sizeof(number), "%.17g", strtod(self->value, NULL));
    add(e, i > 0 ? "," : "", i > 0);
    add(e, number, (size_t)size);
  }
  if (lacks_value(self)) return ls_ok();
  cli_cursor c = {.text = self->given,
                  .at = self->given,
                  .end = self->given + self->given_size};
  const bool is_list = cli_cursor_take(&c, '[');
  int64_t count = 0;
  char expected[64] = "a number";
  for (bool more = true; more; more = is_list && cli_cursor_take(&c, ',')) {
    cli_cursor_space(&c);
    const char *begin = c.at;
    if (*begin != '-' && (*begin < '0' || *begin > '9')) break;
    LS_RETURN_IF_ERROR(cli_cursor_skip(&c, NULL));
    if (count++ > 0) add(e, ",", 1);
    add(e, begin, (size_t)(c.at - begin));
  }
  if (count == self->width && (!is_list || cli_cursor_take(&c, ']')))
    return ls_ok();
  if (self->width > 1)
    snprintf(expected, sizeof(expected), "a list of %lld numbers",
             (long long)self->width);
  return refuse_value(e, self, expected);
}

static ls_status add_values(expander *e) {
  add(e, "[", 1);
  for (size_t i = 0; i < e->count; ++i) {
    const column *self = &e->columns[i];
    if (self->given == NULL && self->value == NULL) {
      char lacks[80];
      snprintf(lacks, sizeof(lacks), "lacks column '%.64s'", self->name);
      return refuse_row(e, lacks);
    }
    if (i > 0) add(e, ",", 1);
    LS_RETURN_IF_ERROR(self->size > 0 ? add_text(e, self)
                                      : add_numbers(e, self));
  }
  add(e, "]", 1);
  return ls_ok();
}

// ---- Rows ------------------------------------------------------------------
// Takes a member's name: its column, or `*out_is_input`.
static ls_status take_name(const expander *e, cli_cursor *c, size_t from,
                           column **out, bool *out_is_input) {
  CLI_OWN_MEMORY(char, name) = NULL;
  LS_RETURN_IF_ERROR(cli_cursor_name(c, &name));
  *out_is_input = strcmp(name, e->input) == 0;
  *out = find_column(e, from, name);
  if (*out == NULL && !*out_is_input) return refuse_row(e, "has another name");
  cli_cursor_take(c, ':');
  return ls_ok();
}

// Reads a row; `*out_is_plain`: the model takes it as it is.
static ls_status read_columns(expander *e, cli_cursor c, bool *out_is_plain) {
  const bool is_list = cli_cursor_take(&c, '[');
  size_t count = 0;
  bool has_numbers = true;
  for (size_t i = 0; i < e->count; ++i)
    e->columns[i].given = NULL;
  *out_is_plain = true;
  if (!is_list && !cli_cursor_take(&c, '{')) return ls_ok();
  for (; !cli_cursor_take(&c, is_list ? ']' : '}'); ++count) {
    column *at = count < e->count ? &e->columns[count] : NULL;
    bool is_input = false;
    cli_cursor_take(&c, ',');
    if (!is_list) LS_RETURN_IF_ERROR(take_name(e, &c, count, &at, &is_input));
    if (is_input) return ls_ok();
    cli_cursor_space(&c);
    const char *given = c.at;
    LS_RETURN_IF_ERROR(cli_cursor_skip(&c, NULL));
    has_numbers &= *given != '"' && *given != '[' && *given != 'n';
    if (at == NULL) continue;
    at->given = given;
    at->given_size = (size_t)(c.at - given);
  }
  *out_is_plain = is_list && has_numbers;
  return *out_is_plain || count == e->count || (!is_list && count < e->count)
             ? ls_ok()
             : refuse_row(e, "has another number of values");
}

static ls_status expand_rows(expander *e, int64_t count, cli_cursor c) {
  for (; e->row < count; ++e->row) {
    bool is_plain = true;
    cli_cursor_take(&c, ',');
    cli_cursor_space(&c);
    const char *begin = c.at;
    LS_RETURN_IF_ERROR(read_columns(e, c, &is_plain));
    LS_RETURN_IF_ERROR(cli_cursor_skip(&c, NULL));
    add(e, e->row > 0 ? "," : "[", 1);
    if (is_plain)
      add(e, begin, (size_t)(c.at - begin));
    else
      LS_RETURN_IF_ERROR(add_values(e));
  }
  add(e, count > 0 ? "]" : "[]", count > 0 ? 1 : 2);
  return e->text->failed ? ls_out_of_memory() : ls_ok();
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
  expander e = {.input = info->inputs[0].name, .text = text};
  ls_status status = open_columns(&e, config);
  if (ls_status_is_ok(status)) status = expand_rows(&e, count, c);
  for (size_t i = 0; e.columns != NULL && i < e.count; ++i)
    cli_release(e.columns[i].name);
  cli_release(e.columns);
  cli_words_close(&e.missing);
  LS_RETURN_IF_ERROR(status);
  *rows = (cli_cursor){
      .text = text->data, .at = text->data, .end = text->data + text->size};
  return ls_ok();
}

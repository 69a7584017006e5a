// SPDX-License-Identifier: Apache-2.0
// Texts continued over HTTP: requests, their bytes one by one, and answers.
#include <string.h>

#include "cli/data/json_text.h"
#include "cli/language.h"
#include "cli/serve/serve.h"
#include "cli/words.h"

struct cli_text {
  cli_served *model;
  char *prompt;
  cli_drawing drawing;
  int64_t tokens, done;
  cli_buffer bytes;  // The prompt, and what follows.
  cli_writer writer;
};

void cli_text_close(cli_text *text) {
  if (text == NULL) return;
  cli_writer_close(&text->writer);
  cli_release(text->bytes.data);
  cli_release(text->prompt);
  cli_release(text);
}
CLI_OWNED_POINTER(cli_text, cli_text_close)

// ---- Requests --------------------------------------------------------------
// Sets what a member says, as the flag of its name does.
static ls_status set_member(const cli_option *options, size_t count,
                            const cli_member *member, char *text) {
  char wanted[128] = "";
  const size_t size = member->value_size;
  const cli_option *option = NULL;
  for (size_t i = 0; i < count; ++i)
    if (strlen(options[i].name) == member->key_size &&
        memcmp(options[i].name, member->key, member->key_size) == 0)
      option = &options[i];
  if (option == NULL)
    return ls_invalid_argument(
        "there is no member '%.*s'; there are "
        "'prompt', 'tokens', 'temperature', "
        "'top_k' and 'seed'",
        (int)(member->key_size < 64 ? member->key_size : 64), member->key);
  const bool is_text = option->kind == CLI_TEXT;
  if (is_text != (member->value[0] == '"') ||
      (!is_text && strchr("-0123456789", member->value[0]) == NULL))
    return ls_invalid_argument("'%s' is %.*s, expected a %s", option->name,
                               (int)(size < 64 ? size : 64), member->value,
                               is_text ? "string" : "number");
  if (!cli_json_copy(member, text, size + 1))
    return ls_invalid_argument("'%s' is no text, or has a zero byte",
                               option->name);
  // Nothing may be continued, too.
  return cli_option_set(option, text, wanted, sizeof(wanted)) || is_text
             ? ls_ok()
             : ls_invalid_argument("'%s' is %.64s, expected %s", option->name,
                                   text, wanted);
}

// Reads an object's members into the options. `room` has space for all texts.
static ls_status read_members(cli_cursor *c, const cli_option *options,
                              size_t count, char *room) {
  if (!cli_cursor_take(c, '{')) return cli_cursor_error(c, "an object");
  bool is_first = true;
  while (!cli_cursor_take(c, '}')) {
    cli_member member = {0};
    if (!is_first && !cli_cursor_take(c, ','))
      return cli_cursor_error(c, "',' or '}'");
    is_first = false;
    LS_RETURN_IF_ERROR(cli_cursor_string(c, &member.key, &member.key_size));
    if (!cli_cursor_take(c, ':')) return cli_cursor_error(c, "':'");
    cli_cursor_space(c);
    member.value = c->at;
    LS_RETURN_IF_ERROR(cli_cursor_skip(c, NULL));
    member.value_size = (size_t)(c->at - member.value);
    LS_RETURN_IF_ERROR(set_member(options, count, &member, room));
    room += member.value_size + 1;
  }
  cli_cursor_space(c);
  return c->at == c->end ? ls_ok() : cli_cursor_error(c, "the end");
}

ls_status cli_text_parse(cli_served *model, const char *body, size_t size,
                         int64_t most_tokens, cli_text **out) {
  if (model->language.decoder == NULL) return cli_language_refuse(model->name);
  CLI_OWN(cli_text, text) = cli_allocate(sizeof(*text));
  if (text == NULL) return ls_out_of_memory();
  CLI_SET_ARRAY_OR_RETURN(text->prompt, size + 1);
  text->model = model;
  text->drawing.temperature = 1;
  text->tokens = most_tokens < 200 ? most_tokens : 200;
  const char *prompt = "";
  const cli_option options[] = {
      {"prompt", CLI_TEXT, &prompt, "a text", NULL},
      {"tokens", CLI_COUNT, &text->tokens, NULL, NULL},
      {"temperature", CLI_REAL_OR_ZERO, &text->drawing.temperature, NULL, NULL},
      {"top_k", CLI_COUNT, &text->drawing.top_k, NULL, NULL},
      {"seed", CLI_COUNT_OR_ZERO, &text->drawing.seed, NULL, NULL},
  };
  cli_cursor c = {.text = body, .at = body, .end = body + size};
  LS_RETURN_IF_ERROR(read_members(
      &c, options, sizeof(options) / sizeof(*options), text->prompt));
  if (text->tokens > most_tokens)
    return ls_invalid_argument("'tokens' is %lld, expected at most %lld "
                               "(--max-tokens)",
                               (long long)text->tokens, (long long)most_tokens);
  if (!cli_buffer_append(&text->bytes, prompt, strlen(prompt)))
    return ls_out_of_memory();
  return cli_hand_over(&text, out);
}

// ---- Running ---------------------------------------------------------------
static ls_status begin_text(cli_text *text) {
  cli_language *language = &text->model->language;
  LS_RETURN_IF_ERROR(cli_writer_open(&text->drawing, language, &text->writer));
  return cli_writer_begin(&text->writer, 0, text->bytes.data, text->bytes.size);
}

static ls_status add_byte(cli_text *text) {
  unsigned char byte = 0;
  LS_RETURN_IF_ERROR(cli_writer_next(&text->writer, &byte));
  ++text->done;
  return cli_buffer_append(&text->bytes, &byte, 1) ? ls_ok()
                                                   : ls_out_of_memory();
}

ls_status cli_text_run(cli_text *text, ls_status status,
                       cli_text_state *out_state) {
  cli_served *model = text->model;
  const bool is_new = model->writing != text;
  *out_state = CLI_TEXT_WAITS;
  if (ls_status_is_ok(status)) {
    if (is_new && model->writing != NULL) return ls_ok();
    model->writing = text;
    if (is_new) status = begin_text(text);
  }
  if (ls_status_is_ok(status)) status = add_byte(text);
  *out_state = CLI_TEXT_RUNS;
  if (!ls_status_is_ok(status) || text->done == text->tokens) {
    if (model->writing == text) model->writing = NULL;
    *out_state = CLI_TEXT_DONE;
  }
  return status;
}

// ---- Answers ---------------------------------------------------------------
ls_status cli_text_answer(FILE *to, const cli_text *text, bool as_json) {
  if (as_json) fputs("{\"text\":", to);
  if (as_json)
    cli_write_json(to, text->bytes.data, text->bytes.size);
  else
    fwrite(text->bytes.data, 1, text->bytes.size, to);
  if (as_json) fputs("}\n", to);
  return ls_ok();
}

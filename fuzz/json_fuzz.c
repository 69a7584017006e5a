// SPDX-License-Identifier: Apache-2.0
// Any text gives a JSON value or a status; what is written from a value reads
// back and is written the same again.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "io/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write(ls_json_writer *json, const ls_json *value) {
  switch (value->kind) {
  case LS_JSON_NULL:
    ls_json_f64(json, (double)INFINITY);  // Null stands for it.
    break;
  case LS_JSON_BOOL:
    ls_json_bool(json, value->boolean);
    break;
  case LS_JSON_NUMBER:
    if (value->is_integer)
      ls_json_i64(json, value->integer);
    else
      ls_json_f64(json, value->number);
    break;
  case LS_JSON_STRING:
    ls_json_string(json, value->string);
    break;
  case LS_JSON_ARRAY:
  case LS_JSON_OBJECT: {
    const bool object = value->kind == LS_JSON_OBJECT;
    ls_json_begin(json, object ? '{' : '[');
    for (const ls_json *it = value->first; it != NULL; it = it->next) {
      // A zero in a key ends it, and two of those may be alike.
      if (object && it->key[0] == '\0') continue;
      if (object) ls_json_key(json, it->key);
      write(json, it);
    }
    ls_json_end(json, object ? '}' : ']');
    break;
  }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_arena arena;
  ls_arena_init(&arena, ls_allocator_system());
  ls_text first, second;
  ls_text_init(&first, ls_allocator_system());
  ls_text_init(&second, ls_allocator_system());
  const ls_json *value = NULL;
  ls_status status =
      ls_json_parse(&arena, "fuzz", (const char *)data, size, &value);
  if (ls_status_is_ok(status)) {
    ls_json_writer json = {.text = &first};
    write(&json, value);
    status = ls_json_parse(&arena, "again", first.data, first.size, &value);
    if (ls_status_is_ok(status)) {
      json = (ls_json_writer){.text = &second};
      write(&json, value);
      if (first.size != second.size ||
          memcmp(first.data, second.data, first.size) != 0)
        abort();
    } else if (memmem(data, size, "\\u0000", 6) == NULL) {
      abort();
    }
  }
  ls_status_free(status);
  ls_text_deinit(&first);
  ls_text_deinit(&second);
  ls_arena_deinit(&arena);
  return 0;
}

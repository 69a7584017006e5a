// SPDX-License-Identifier: Apache-2.0
#include "base/values/nest_internal.h"
#include "serve/serving.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"

static const char *const kind_names[] = {
    [LS_EXPORT_PREDICT] = "predict",
    [LS_EXPORT_CLASSIFICATION] = "classification",
    [LS_EXPORT_REGRESSION] = "regression",
};
enum { NUM_KINDS = sizeof(kind_names) / sizeof(kind_names[0]) };

static const char *export_kind_name(ls_export_kind kind) {
  return (size_t)kind < NUM_KINDS ? kind_names[kind] : "(no kind)";
}

// ---- Checking --------------------------------------------------------------
// A value of a signature, for messages.
typedef struct owner {
  ls_graph *graph;
  const char *key;
  const char *noun;  // "input" or "output".
  ls_arena *memory;
} owner;

static ls_status signature_check_value(const owner *o, const char *name,
                                       ls_nest leaf, ls_serve_value *out) {
  if (name == NULL || name[0] == '\0' || !ls_json_is_utf8(name))
    return ls_invalid_argument("an %s of signature '%s' has no name, or one "
                               "that is no UTF-8",
                               o->noun, o->key);
  if (leaf.kind != LS_KIND_TENSOR)
    return ls_invalid_argument(
        "%s '%s' of signature '%s' is %s: it must be a tensor", o->noun, name,
        o->key, LS_NEST_TEXT(leaf));
  const ls_tensor tensor = leaf.as.tensor;
  if (ls_graph_resolve(tensor.graph) != o->graph)
    return ls_invalid_argument(
        "%s '%s' of signature '%s' is '%s' of graph '%s', not of '%s'", o->noun,
        name, o->key, ls_tensor_name(tensor),
        tensor.graph == NULL ? "(failed)" : tensor.graph->name, o->graph->name);
  if (ls_graph_node_of(o->graph, tensor.ref) == NULL)
    return ls_invalid_argument("%s '%s' of signature '%s' is a stale handle",
                               o->noun, name, o->key);
  if (!ls_json_is_utf8(ls_tensor_name(tensor)))
    return ls_unimplemented("%s '%s' of signature '%s' is a tensor whose name "
                            "is no UTF-8",
                            o->noun, name, o->key);
  out->tensor = tensor;
  out->name = ls_arena_string(o->memory, name);
  return out->name != NULL ? ls_ok() : ls_out_of_memory();
}

// Lists a signature's values: a dict, or one tensor, which is named after its
// role.
static ls_status signature_list_values(const owner *o, ls_nest values,
                                       ls_serve_value **out,
                                       size_t *out_count) {
  const bool is_dict = values.kind == LS_KIND_DICT;
  const size_t count = is_dict                         ? ls_nest_count(values)
                       : values.kind == LS_KIND_TENSOR ? 1
                                                       : 0;
  if (!is_dict && count == 0 && values.kind != LS_KIND_NONE)
    return ls_invalid_argument(
        "the %ss of signature '%s' are %s: they must be a dict of tensors",
        o->noun, o->key, LS_NEST_TEXT(values));
  *out_count = count;
  LS_ARENA_SET_OR_RETURN(o->memory, ls_serve_value, *out, count + 1);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        is_dict ? signature_check_value(o, ls_nest_key(values, i),
                                        ls_nest_item(values, i), &(*out)[i])
                : signature_check_value(o, o->noun, values, &(*out)[i]));
  return ls_ok();
}

static ls_status signature_check_inputs(const ls_serve_signature *s) {
  for (size_t i = 0; i < s->num_inputs; ++i) {
    const ls_op op = ls_tensor_op(s->inputs[i].tensor);
    if (ls_op_type(op) != LS_OP_PLACEHOLDER)
      return ls_invalid_argument(
          "input '%s' of signature '%s' is '%s' (%s): it must be a placeholder",
          s->inputs[i].name, s->key, ls_op_name(op), ls_op_type_name(op));
    for (size_t k = 0; k < i; ++k)
      if (ls_tensor_equal(s->inputs[k].tensor, s->inputs[i].tensor))
        return ls_invalid_argument(
            "inputs '%s' and '%s' of signature '%s' are one placeholder, '%s'",
            s->inputs[k].name, s->inputs[i].name, s->key, ls_op_name(op));
  }
  return ls_ok();
}

static bool is_float(ls_dtype dtype) {
  return dtype == LS_DTYPE_F64 || dtype == LS_DTYPE_F32 ||
         dtype == LS_DTYPE_F16 || dtype == LS_DTYPE_BF16;
}

// Checks that a value of its kind can have the name and the type.
static bool value_fits(ls_export_kind kind, const ls_serve_value *value) {
  const ls_dtype dtype = ls_tensor_dtype(value->tensor);
  if (kind == LS_EXPORT_PREDICT) return true;
  if (kind == LS_EXPORT_REGRESSION)
    return strcmp(value->name, "value") == 0 && is_float(dtype);
  if (strcmp(value->name, "scores") == 0) return is_float(dtype);
  return strcmp(value->name, "classes") == 0 && dtype == LS_DTYPE_STRING;
}

// Returns true if the signature fits its kind; else warns.
static bool fits_kind(ls_runtime *runtime, const ls_serve_signature *s) {
  if (s->num_outputs == 0) {
    ls_runtime_log(runtime, LS_LOG_WARNING, "serve",
                   "signature '%s' (%s) has no outputs and is left out", s->key,
                   export_kind_name(s->kind));
    return false;
  }
  for (size_t i = 0; i < s->num_outputs; ++i) {
    if (value_fits(s->kind, &s->outputs[i])) continue;
    ls_runtime_log(runtime, LS_LOG_WARNING, "serve",
                   "signature '%s' (%s) is left out: its output '%s' is %s; a "
                   "classification has \"scores\" of floats and \"classes\" of "
                   "strings, a regression a \"value\" of floats",
                   s->key, export_kind_name(s->kind), s->outputs[i].name,
                   ls_dtype_name(ls_tensor_dtype(s->outputs[i].tensor)));
    return false;
  }
  return true;
}

static ls_status check_key(const ls_serve_signatures *made, const char *key) {
  if (key == NULL || key[0] == '\0' || !ls_json_is_utf8(key))
    return ls_invalid_argument("the key of a signature is missing, empty or no "
                               "UTF-8");
  for (size_t i = 0; i < made->count; ++i)
    if (strcmp(made->items[i].key, key) == 0)
      return ls_invalid_argument("there are two signatures '%s'", key);
  return ls_ok();
}

static ls_status check_one(const ls_serving_signature *given, ls_graph *graph,
                           ls_arena *memory, ls_serve_signature *out) {
  owner o = {.graph = graph,
             .key = given->output.key,
             .noun = "input",
             .memory = memory};
  *out = (ls_serve_signature){.kind = given->output.kind};
  out->key = ls_arena_string(memory, given->output.key);
  if (out->key == NULL) return ls_out_of_memory();
  if ((size_t)out->kind >= NUM_KINDS)
    return ls_invalid_argument(
        "signature '%s' has kind %d: the kinds are %s, %s and %s", out->key,
        (int)out->kind, kind_names[0], kind_names[1], kind_names[2]);
  LS_RETURN_IF_ERROR(
      signature_list_values(&o, given->inputs, &out->inputs, &out->num_inputs));
  o.noun = "output";
  LS_RETURN_IF_ERROR(signature_list_values(&o, given->output.tensors,
                                           &out->outputs, &out->num_outputs));
  return signature_check_inputs(out);
}

ls_status ls_serve_check(const ls_serving_graph *given, ls_arena *memory,
                         ls_serve_signatures *out) {
  ls_graph *graph = (ls_graph *)(uintptr_t)given->graph;
  *out = (ls_serve_signatures){0};
  if (graph == NULL || graph->kind != LS_GRAPH_BUILD)
    return ls_invalid_argument("an export needs a build graph made by "
                               "ls_graph_create");
  if (given->num_signatures > 0 && given->signatures == NULL)
    return ls_invalid_argument("%zu signatures are NULL",
                               given->num_signatures);
  LS_RETURN_IF_ERROR(ls_graph_error(graph));
  LS_ARENA_SET_OR_RETURN(memory, ls_serve_signature, out->items,
                         given->num_signatures + 1);
  for (size_t i = 0; i < given->num_signatures; ++i) {
    LS_RETURN_IF_ERROR(check_key(out, given->signatures[i].output.key));
    ls_serve_signature *made = &out->items[out->count];
    LS_RETURN_IF_ERROR(check_one(&given->signatures[i], graph, memory, made));
    if (fits_kind(graph->runtime, made)) ++out->count;
  }
  if (out->count == 0)
    ls_runtime_log(graph->runtime, LS_LOG_WARNING, "serve",
                   "the export of graph '%s' has no signature that can serve",
                   graph->name);
  return ls_ok();
}

// ---- Writing ---------------------------------------------------------------
static void write_values(ls_json_writer *json, const char *key,
                         const ls_serve_value *values, size_t count) {
  ls_json_key(json, key);
  ls_json_begin(json, '[');
  for (size_t i = 0; i < count; ++i) {
    const char *tensor = ls_tensor_name(values[i].tensor);
    if (tensor[0] == '\0') json->text->failed = true;  // Out of memory.
    ls_json_begin(json, '{');
    ls_json_key(json, "name");
    ls_json_string(json, values[i].name);
    ls_json_key(json, "tensor");
    ls_json_string(json, tensor);
    ls_json_end(json, '}');
  }
  ls_json_end(json, ']');
}

static const char head[] = "// ";
static const char format_name[] = "lockstep serving program";
enum { VERSION = 1 };

void ls_serve_write_head(const ls_serve_signatures *signatures,
                         const char *const *tags, size_t num_tags,
                         ls_text *out) {
  ls_json_writer json = {.text = out};
  ls_text_append(out, head);
  ls_json_begin(&json, '{');
  ls_json_key(&json, "format");
  ls_json_string(&json, format_name);
  ls_json_key(&json, "version");
  ls_json_i64(&json, VERSION);
  ls_json_key(&json, "tags");
  ls_json_begin(&json, '[');
  for (size_t i = 0; i < num_tags; ++i)
    ls_json_string(&json, tags[i]);
  ls_json_end(&json, ']');
  ls_json_key(&json, "signatures");
  ls_json_begin(&json, '[');
  for (size_t i = 0; i < signatures->count; ++i) {
    const ls_serve_signature *s = &signatures->items[i];
    ls_json_begin(&json, '{');
    ls_json_key(&json, "key");
    ls_json_string(&json, s->key);
    ls_json_key(&json, "kind");
    ls_json_string(&json, export_kind_name(s->kind));
    write_values(&json, "inputs", s->inputs, s->num_inputs);
    write_values(&json, "outputs", s->outputs, s->num_outputs);
    ls_json_end(&json, '}');
  }
  ls_json_end(&json, ']');
  ls_json_end(&json, '}');
  ls_text_append_char(out, '\n');
}

// ---- Reading ---------------------------------------------------------------
typedef struct reader {
  const char *path;
  ls_graph *graph;
  ls_arena *memory;
} reader;

static ls_status bad_head(const reader *r, const char *noun) {
  return ls_invalid_argument("'%s', line 1: %s", r->path, noun);
}

static const char *string_of(const ls_json *object, const char *key) {
  const ls_json *value =
      object->kind == LS_JSON_OBJECT ? ls_json_find(object, key) : NULL;
  return value != NULL && value->kind == LS_JSON_STRING &&
                 ls_json_is_utf8(value->string)
             ? value->string
             : NULL;
}

static const ls_json *signature_list_of(const ls_json *object, const char *key,
                                        size_t *out_count) {
  const ls_json *value =
      object->kind == LS_JSON_OBJECT ? ls_json_find(object, key) : NULL;
  *out_count = 0;
  if (value == NULL || value->kind != LS_JSON_ARRAY) return NULL;
  for (const ls_json *item = value->first; item != NULL; item = item->next)
    ++*out_count;
  return value;
}

// Finds a tensor by a name such as "op:0".
static ls_status find_tensor(const reader *r, const char *name,
                             ls_tensor *out_tensor) {
  char *op_name = ls_arena_string(r->memory, name);
  if (op_name == NULL) return ls_out_of_memory();
  char *colon = strrchr(op_name, ':');
  unsigned output = 0;
  ls_op op = {0};
  bool found = colon != NULL && colon[1] != '\0' && strlen(colon) < 8;
  for (const char *at = found ? colon + 1 : ""; found && *at != '\0'; ++at) {
    found = *at >= '0' && *at <= '9';
    output = 10 * output + (unsigned)(*at - '0');
  }
  if (found) {
    *colon = '\0';
    ls_status status = ls_graph_lookup_op(r->graph, op_name, &op);
    if (ls_status_code(status) == LS_RESOURCE_EXHAUSTED) return status;
    found = ls_status_is_ok(status) && output < ls_op_num_outputs(op);
    ls_status_free(status);
  }
  if (!found)
    return ls_invalid_argument(
        "'%s', line 1: a signature names '%.200s', which "
        "the graph has not",
        r->path, name);
  *out_tensor = ls_op_output(op, output);
  return ls_ok();
}

static ls_status read_values(const reader *r, const ls_json *signature,
                             const char *key, ls_serve_value **out,
                             size_t *out_count) {
  const ls_json *list = signature_list_of(signature, key, out_count);
  if (list == NULL) return bad_head(r, "a signature has no list of values");
  LS_ARENA_SET_OR_RETURN(r->memory, ls_serve_value, *out, *out_count + 1);
  size_t i = 0;
  for (const ls_json *item = list->first; item != NULL; item = item->next) {
    const char *tensor = string_of(item, "tensor");
    ls_serve_value *value = &(*out)[i];
    value->name = string_of(item, "name");
    if (value->name == NULL || value->name[0] == '\0' || tensor == NULL)
      return bad_head(r, "a value needs \"name\" and \"tensor\"");
    for (size_t k = 0; k < i; ++k)
      if (strcmp((*out)[k].name, value->name) == 0)
        return bad_head(r, "two values of a signature have one name");
    LS_RETURN_IF_ERROR(find_tensor(r, tensor, &value->tensor));
    ++i;
  }
  return ls_ok();
}

static ls_status read_signature(const reader *r, const ls_json *item,
                                ls_serve_signature *out) {
  const char *kind = string_of(item, "kind");
  out->key = string_of(item, "key");
  if (out->key == NULL || kind == NULL)
    return bad_head(r, "a signature needs \"key\" and \"kind\"");
  size_t number = 0;
  while (number < NUM_KINDS && strcmp(kind_names[number], kind) != 0)
    ++number;
  if (number == NUM_KINDS) return bad_head(r, "a signature has no such kind");
  out->kind = (ls_export_kind)number;
  LS_RETURN_IF_ERROR(
      read_values(r, item, "inputs", &out->inputs, &out->num_inputs));
  LS_RETURN_IF_ERROR(
      read_values(r, item, "outputs", &out->outputs, &out->num_outputs));
  for (size_t i = 0; i < out->num_inputs; ++i)
    if (ls_op_type(ls_tensor_op(out->inputs[i].tensor)) != LS_OP_PLACEHOLDER)
      return bad_head(r, "an input is no placeholder");
  return ls_ok();
}

ls_status ls_serve_read_head(const char *path, const char *text,
                             ls_graph *graph, ls_arena *memory,
                             ls_serve_signatures *out) {
  const reader r = {.path = path, .graph = graph, .memory = memory};
  const ls_json *value = NULL;
  *out = (ls_serve_signatures){0};
  const char *end = strchr(text, '\n');
  if (strncmp(text, head, strlen(head)) != 0 || end == NULL)
    return bad_head(&r, "an export begins with a comment of its signatures");
  text += strlen(head);
  LS_RETURN_IF_ERROR(
      ls_json_parse(memory, path, text, (size_t)(end - text), &value));
  const char *format = string_of(value, "format");
  const ls_json *version =
      value->kind == LS_JSON_OBJECT ? ls_json_find(value, "version") : NULL;
  if (format == NULL || strcmp(format, format_name) != 0)
    return bad_head(&r, "this is no lockstep serving program");
  if (version == NULL || !version->is_integer || version->integer != VERSION)
    return bad_head(&r, "a version that this library does not read");
  size_t count = 0;
  const ls_json *list = signature_list_of(value, "signatures", &count);
  if (list == NULL) return bad_head(&r, "there is no list of signatures");
  LS_ARENA_SET_OR_RETURN(memory, ls_serve_signature, out->items, count + 1);
  for (const ls_json *item = list->first; item != NULL; item = item->next) {
    ls_serve_signature *made = &out->items[out->count];
    LS_RETURN_IF_ERROR(read_signature(&r, item, made));
    for (size_t i = 0; i < out->count; ++i)
      if (strcmp(out->items[i].key, made->key) == 0)
        return bad_head(&r, "two signatures have one key");
    ++out->count;
  }
  return ls_ok();
}

// ---- Looking up ------------------------------------------------------------
ls_status ls_serve_find(const ls_serve_signatures *signatures, const char *key,
                        const ls_serve_signature **out) {
  if (key == NULL) key = LS_SERVING_DEFAULT;
  for (size_t i = 0; i < signatures->count; ++i) {
    *out = &signatures->items[i];
    if (strcmp((*out)->key, key) == 0) return ls_ok();
  }
  *out = NULL;
  LS_OWN(ls_text, known) = {.allocator = ls_current_allocator()};
  for (size_t i = 0; i < signatures->count; ++i)
    ls_text_append_format(&known, "%s '%s'", i > 0 ? "," : "",
                          signatures->items[i].key);
  return ls_status_code(ls_text_status(&known)) != LS_OK
             ? ls_out_of_memory()
             : LS_STATUS(LS_NOT_FOUND,
                         "there is no signature '%.200s'; there %s%s", key,
                         signatures->count > 0 ? "are:" : "is none",
                         ls_text_data(&known));
}

static ls_status check_tag(const char *tag) {
  if (tag != NULL && tag[0] != '\0' && strlen(tag) <= 64 &&
      tag[strspn(tag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "0123456789_-")] == '\0')
    return ls_ok();
  return ls_invalid_argument("tag '%.80s': letters, digits, '_' and '-' make a "
                             "tag, up to 64",
                             tag == NULL ? "" : tag);
}

ls_status ls_serve_tags_name(const char *const *tags, size_t num_tags,
                             ls_arena *memory, const char **out_name) {
  *out_name = NULL;
  if (num_tags == 0 || tags == NULL)
    return ls_invalid_argument("a graph of an export needs a tag");
  const char **sorted = ls_arena_new_array(memory, const char *, num_tags);
  if (sorted == NULL) return ls_out_of_memory();
  size_t size = 1;
  for (size_t i = 0; i < num_tags; ++i) {
    LS_RETURN_IF_ERROR(check_tag(tags[i]));
    size += strlen(tags[i]) + 1;
    size_t at = i;
    for (; at > 0 && strcmp(sorted[at - 1], tags[i]) > 0; --at)
      sorted[at] = sorted[at - 1];
    sorted[at] = tags[i];
    if (at > 0 && strcmp(sorted[at - 1], tags[i]) == 0)
      return ls_invalid_argument("tag '%s' is given twice", tags[i]);
  }
  char *name = ls_arena_allocate(memory, size);
  if (name == NULL) return ls_out_of_memory();
  name[0] = '\0';
  for (size_t i = 0; i < num_tags; ++i) {
    if (i > 0) strcat(name, "+");
    strcat(name, sorted[i]);
  }
  *out_name = name;
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
#include "support/onnx_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "onnx/onnx_load.h"

static void add_attr(ls_text *out, const char *text) {
  const size_t attr = ls_proto_begin(out, 5);
  const char *value = strchr(text, '=') + 1;
  char name[40];
  snprintf(name, sizeof(name), "%.*s", (int)(value - 1 - text), text);
  ls_proto_string(out, 1, name);
  if (*value == '@')
    ls_proto_i64(out, 20, atoll(value + 1));
  else if (strchr("-0123456789", *value) == NULL)
    ls_proto_string(out, 4, value);
  else if (strchr(value, ',') == NULL && strchr(value, '.') != NULL)
    ls_proto_f32(out, 2, (float)atof(value));
  else if (strchr(value, ',') == NULL)
    ls_proto_i64(out, 3, atoll(value));
  const bool reals = strchr(value, '.') != NULL;
  for (; strchr(value, ',') != NULL; value = strchr(value, ',') + 1) {
    if (reals)
      ls_proto_f32(out, 7, (float)atof(value));
    else
      ls_proto_i64(out, 8, atoll(value));
  }
  ls_proto_end(out, attr);
}

void onnx_add_words(ls_text *out, unsigned field, const char *words) {
  char copy[200], *rest = copy;
  snprintf(copy, sizeof(copy), "%s", words);
  for (char *word = strtok_r(copy, " ", &rest); word != NULL;
       word = strtok_r(NULL, " ", &rest))
    ls_proto_string(out, field, strcmp(word, "-") == 0 ? "" : word);
}

void onnx_add_node(ls_text *out, const char *type, const char *inputs,
                   const char *outputs, const char *attrs) {
  char copy[200], *rest = copy;
  const size_t node = ls_proto_begin(out, 1);
  onnx_add_words(out, 1, inputs);
  onnx_add_words(out, 2, outputs);
  ls_proto_string(out, 3, "the_node");
  ls_proto_string(out, 4, type);
  snprintf(copy, sizeof(copy), "%s", attrs);
  for (char *word = strtok_r(copy, " ", &rest); word != NULL;
       word = strtok_r(NULL, " ", &rest))
    add_attr(out, word);
  ls_proto_end(out, node);
}

void onnx_add_floats(ls_text *out, const char *name, int64_t rows,
                     int64_t columns, const float *values) {
  const size_t tensor = ls_proto_begin(out, 5);
  ls_proto_i64(out, 1, rows);
  if (columns > 0) ls_proto_i64(out, 1, columns);
  ls_proto_i64(out, 2, ONNX_F32);
  ls_proto_string(out, 8, name);
  ls_proto_bytes(out, 9, values,
                 (size_t)(rows * (columns > 0 ? columns : 1)) * sizeof(float));
  ls_proto_end(out, tensor);
}

void onnx_add_integers_of(ls_text *out, const char *name, int64_t type,
                          int64_t count, const int64_t *values) {
  const size_t tensor = ls_proto_begin(out, 5);
  ls_proto_i64(out, 1, count);
  ls_proto_i64(out, 2, type);
  for (int64_t i = 0; i < count; ++i)
    ls_proto_i64(out, type == ONNX_I64 ? 7 : 5, values[i]);
  ls_proto_string(out, 8, name);
  ls_proto_end(out, tensor);
}

void onnx_add_integers(ls_text *out, const char *name, int64_t count,
                       const int64_t *values) {
  onnx_add_integers_of(out, name, ONNX_I64, count, values);
}

void onnx_add_port(ls_text *out, unsigned field, const char *name,
                   ls_shape shape) {
  const size_t port = ls_proto_begin(out, field);
  ls_proto_string(out, 1, name);
  const size_t type = ls_proto_begin(out, 2), tensor = ls_proto_begin(out, 1);
  ls_proto_i64(out, 1, ONNX_F32);
  const size_t sizes = ls_proto_begin(out, 2);
  for (int32_t i = 0; i < shape.rank; ++i) {
    const size_t dim = ls_proto_begin(out, 1);
    if (shape.dim[i] >= 0) ls_proto_i64(out, 1, shape.dim[i]);
    ls_proto_end(out, dim);
  }
  ls_proto_end(out, sizes);
  ls_proto_end(out, tensor);
  ls_proto_end(out, type);
  ls_proto_end(out, port);
}

ls_text onnx_text(void) {
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  return text;
}

ls_text onnx_model(const ls_text *graph, int64_t opset) {
  ls_text model = onnx_text();
  ls_proto_i64(&model, 1, 8);
  const size_t version = ls_proto_begin(&model, 8);
  ls_proto_i64(&model, 2, opset);
  ls_proto_end(&model, version);
  ls_proto_bytes(&model, 7, ls_text_data(graph), graph->size);
  return model;
}

ls_status onnx_decode(const ls_text *graph, int64_t opset, ls_onnx **out) {
  LS_OWN(ls_text, model) = onnx_model(graph, opset);
  *out = NULL;
  return ls_onnx_decode("net.onnx", ls_text_data(&model), model.size, out);
}

void onnx_add_chain(ls_text *graph, const char *nodes) {
  char copy[300], *rest = copy;
  snprintf(copy, sizeof(copy), "%s", nodes);
  for (char *node = strtok_r(copy, ";", &rest); node != NULL;
       node = strtok_r(NULL, ";", &rest)) {
    char *inputs = strchr(node, ' '), *output = strstr(node, " -> ");
    *inputs = *output = '\0';
    output += 4;
    char *attrs = strchr(output, ' ');
    if (attrs != NULL) *attrs++ = '\0';
    onnx_add_node(graph, node, inputs + 1, output, attrs != NULL ? attrs : "");
  }
}

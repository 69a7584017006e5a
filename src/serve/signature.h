// SPDX-License-Identifier: Apache-2.0
//
// Signatures of one graph: checked, written and read.
#ifndef LS_SERVE_SIGNATURE_H_
#define LS_SERVE_SIGNATURE_H_

#include "base/memory/arena.h"
#include "graph/graph.h"
#include "io/json.h"
#include "lockstep/serving.h"

typedef struct ls_serve_value {
  const char *name;
  ls_tensor tensor;
} ls_serve_value;

typedef struct ls_serve_signature {
  const char *key;
  ls_export_kind kind;
  ls_serve_value *inputs, *outputs;
  size_t num_inputs, num_outputs;
} ls_serve_signature;

typedef struct ls_serve_signatures {
  ls_serve_signature *items;
  size_t count;
} ls_serve_signatures;

// What users gave, in `memory`; those that do not fit their kind are left out.
LS_MUST_USE ls_status ls_serve_check(const ls_serving_graph *given,
                                     ls_arena *memory,
                                     ls_serve_signatures *out);
// "predict", "classification", "regression".
const char *ls_export_kind_name(ls_export_kind kind);

// The first line of a file: a comment, with its newline.
void ls_serve_write_head(const ls_serve_signatures *signatures,
                         const char *const *tags, size_t num_tags,
                         ls_text *out);
// Of a text whose graph has been parsed. `path` is for messages.
LS_MUST_USE ls_status ls_serve_read_head(const char *path, const char *text,
                                         ls_graph *graph, ls_arena *memory,
                                         ls_serve_signatures *out);

// The signature with this key.
//   LS_NOT_FOUND  lists those there are.
LS_MUST_USE ls_status ls_serve_find(const ls_serve_signatures *signatures,
                                    const char *key,
                                    const ls_serve_signature **out);

// serve+tpu: what the file of these tags is called, without ".ls".
//   LS_INVALID_ARGUMENT  no tag, or one that cannot stand in a file's name.
LS_MUST_USE ls_status ls_serve_tags_name(const char *const *tags,
                                         size_t num_tags, ls_arena *memory,
                                         const char **out_name);

#endif  // LS_SERVE_SIGNATURE_H_

// SPDX-License-Identifier: Apache-2.0
// Exports: signatures of a graph, parts of the export folder, loaded exports.
#ifndef LS_SERVE_SERVING_H_
#define LS_SERVE_SERVING_H_

#include "base/memory/arena.h"
#include "graph/graph.h"
#include "io/json.h"
#include "lockstep/serving.h"

// ---- Signatures ------------------------------------------------------------
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

// Checks users' signatures and copies them to `memory`; drops those that do not
// fit their kind.
LS_MUST_USE ls_status ls_serve_check(const ls_serving_graph *given,
                                     ls_arena *memory,
                                     ls_serve_signatures *out);
// Writes the first line of a file: a comment, with its newline.
void ls_serve_write_head(const ls_serve_signatures *signatures,
                         const char *const *tags, size_t num_tags,
                         ls_text *out);
// Reads the first line of a text whose graph has been parsed. `path` is for
// messages.
LS_MUST_USE ls_status ls_serve_read_head(const char *path, const char *text,
                                         ls_graph *graph, ls_arena *memory,
                                         ls_serve_signatures *out);

// Finds the signature with this key. LS_NOT_FOUND lists all keys.
LS_MUST_USE ls_status ls_serve_find(const ls_serve_signatures *signatures,
                                    const char *key,
                                    const ls_serve_signature **out);

// Returns the file name for these tags, without ".ls": serve+tpu.
//   LS_INVALID_ARGUMENT  no tag, or one that cannot be part of a file name.
LS_MUST_USE ls_status ls_serve_tags_name(const char *const *tags,
                                         size_t num_tags, ls_arena *memory,
                                         const char **out_name);

// ---- A loaded export -------------------------------------------------------
// Names of files in an export's folder.
#define LS_SERVE_VALUES_NAME "variables.safetensors"

struct ls_serving {
  ls_runtime *runtime;
  ls_arena memory;
  ls_graph *graph;
  ls_session *session;
  ls_variable **variables;
  size_t num_variables;
  ls_serve_signatures signatures;
  ls_serving_info *infos;  // One per signature.
};

// ---- Parts of a folder -----------------------------------------------------
// Makes a graph with copies of the ops that the signatures need, under their
// names, and their inputs, but no initializers. The copy refers to names of
// `graph` and must be freed first (ls_graph_free). Refuses ops that a text
// cannot hold.
LS_MUST_USE ls_status ls_serve_prune(ls_graph *graph,
                                     const ls_serve_signatures *signatures,
                                     ls_arena *memory, ls_graph **out_copy);

// Lists (lends) the variables that a graph uses, at any depth, in order of
// first use; the list is in `memory`.
LS_MUST_USE ls_status ls_serve_variables(const ls_graph *graph,
                                         ls_arena *memory,
                                         ls_variable ***out_list,
                                         size_t *out_count);

// Writes the values of these variables to a safetensors file at `path`, taken
// from options->checkpoint, else from options->session.
LS_MUST_USE ls_status ls_serve_write_values(const ls_serving_options *options,
                                            ls_variable *const *variables,
                                            size_t count, ls_arena *memory,
                                            const char *path);

// ---- Signatures as files for others (languages.c) --------------------------
// Reads the values of variables, for files in other languages (languages.c).
typedef struct ls_serve_source {
  ls_status (*get)(void *user, ls_variable *variable, ls_array **out_array);
  void *user;
} ls_serve_source;

LS_MUST_USE ls_status ls_serve_write_onnx(ls_graph *graph,
                                          const ls_serve_signature *signature,
                                          const ls_serve_source *source,
                                          const char *path);
LS_MUST_USE ls_status
ls_serve_write_stablehlo(ls_graph *graph, const ls_serve_signature *signature,
                         int64_t batch_size, const char *path);

#endif  // LS_SERVE_SERVING_H_

// SPDX-License-Identifier: Apache-2.0
//
// Export outputs through the rewrite for inference.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "lockstep/estimator_export.h"

// The names of an output's tensors; 0: those that it has.
typedef struct kind_names {
  const char *names[2];
  size_t count;
} kind_names;

static ls_status names_of(const ls_export_output *output, kind_names *out) {
  const char *key = output->key != NULL ? output->key : "";
  if (output->tensors.kind != LS_KIND_DICT)
    return ls_invalid_argument("export output '%s' has no dict of tensors",
                               key);
  switch (output->kind) {
  case LS_EXPORT_PREDICT:
    *out = (kind_names){.count = 0};
    return ls_ok();
  case LS_EXPORT_CLASSIFICATION:
    *out = (kind_names){.names = {"scores", "classes"}, .count = 2};
    return ls_ok();
  case LS_EXPORT_REGRESSION:
    *out = (kind_names){.names = {"value"}, .count = 1};
    return ls_ok();
  }
  return ls_invalid_argument(
      "export output '%s' is of kind %d: a computation for inference gives "
      "predictions, classifications and regressions",
      key, (int)output->kind);
}

static ls_status list_tensors(const ls_export_output *output, ls_nest *leaves) {
  kind_names names = {0};
  LS_RETURN_IF_ERROR(names_of(output, &names));
  const size_t count = ls_nest_count(output->tensors);
  const size_t slots = names.count > 0 ? names.count : count;
  for (size_t i = 0; i < slots; ++i) {
    const ls_nest leaf = names.count > 0
                             ? ls_nest_find(output->tensors, names.names[i])
                             : ls_nest_item(output->tensors, i);
    if (leaf.kind != LS_KIND_TENSOR && leaf.kind != LS_KIND_NONE)
      return ls_invalid_argument(
          "export output '%s': '%s' is no tensor", output->key,
          names.count > 0 ? names.names[i] : ls_nest_key(output->tensors, i));
    leaves[i] = leaf;
  }
  return ls_ok();
}

static size_t most_tensors(const ls_export_output *output) {
  const size_t count = ls_nest_count(output->tensors);
  return count > 2 ? count : 2;
}

static size_t num_tensors(const ls_export_output *output) {
  return output->kind == LS_EXPORT_CLASSIFICATION ? 2
         : output->kind == LS_EXPORT_REGRESSION
             ? 1
             : ls_nest_count(output->tensors);
}

ls_nest ls_export_output_tensors(const ls_export_output *output) {
  if (output == NULL) return ls_fail(ls_invalid_argument("the output is NULL"));
  ls_allocator *allocator = ls_current_allocator();
  ls_nest *leaves = ls_new_array(allocator, ls_nest, most_tensors(output));
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  const ls_status status = list_tensors(output, leaves);
  const ls_nest list =
      ls_status_is_ok(status)
          ? ls_nest_sequence(LS_KIND_LIST, leaves, num_tensors(output))
          : ls_fail(status);
  ls_release(allocator, leaves);
  return list;
}

// ---- Rebuilding ------------------------------------------------------------
// Those that are there, by their names.
static ls_status export_outputs_rebuild(const ls_export_output *output,
                                        const kind_names *names,
                                        ls_nest tensors, const char **keys,
                                        ls_nest *leaves, ls_nest *out) {
  size_t count = 0;
  for (size_t i = 0; i < ls_nest_count(tensors); ++i) {
    const ls_nest leaf = ls_nest_item(tensors, i);
    const char *name =
        names->count > 0 ? names->names[i] : ls_nest_key(output->tensors, i);
    // What is absent from a prediction is a name without a tensor.
    if (leaf.kind == LS_KIND_NONE && names->count > 0) continue;
    keys[count] = name;
    leaves[count++] = leaf;
  }
  *out = ls_nest_dict("", keys, leaves, count);
  return ls_nest_status(*out);
}

ls_status ls_export_output_with(const ls_export_output *output, ls_nest tensors,
                                ls_export_output *out_output) {
  LS_REQUIRE_OUT(out_output);
  LS_REQUIRE(output);
  kind_names names = {0};
  LS_RETURN_IF_ERROR(names_of(output, &names));
  const size_t wanted = num_tensors(output), count = ls_nest_count(tensors);
  if (count != wanted)
    return ls_invalid_argument("export output '%s' has %zu tensors, got %zu",
                               output->key, wanted, count);
  ls_allocator *allocator = ls_current_allocator();
  ls_nest *leaves = ls_new_array(allocator, ls_nest, count + 1);
  const char **keys = ls_new_array(allocator, const char *, count + 1);
  ls_nest made = ls_none();
  const ls_status status = leaves == NULL || keys == NULL
                               ? ls_out_of_memory()
                               : export_outputs_rebuild(output, &names, tensors,
                                                        keys, leaves, &made);
  ls_release(allocator, leaves);
  ls_release(allocator, keys);
  if (!ls_status_is_ok(status)) {
    ls_nest_release(made);
    return status;
  }
  *out_output = *output;
  out_output->tensors = made;
  return ls_ok();
}

// ---- The rewrite -----------------------------------------------------------
void ls_export_outputs_release(ls_export_outputs *outputs) {
  if (outputs == NULL || outputs->items == NULL) return;
  ls_allocator *allocator = ls_current_allocator();
  for (size_t i = 0; i < outputs->count; ++i) {
    ls_nest_release(outputs->items[i].tensors);
    ls_release(allocator, outputs->items[i].key);
  }
  ls_release(allocator, outputs->items);
  *outputs = (ls_export_outputs){0};
}

typedef struct rewriting {
  ls_export_model model;
  void *user;
  ls_export_outputs outputs;  // As the model gave them.
} rewriting;

static ls_status keep_outputs(rewriting *r,
                              const ls_estimator_spec_options *spec) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = spec->num_export_outputs;
  if (count == 0)
    return ls_invalid_argument("the model's spec has no export outputs");
  r->outputs.items = ls_new_array(allocator, ls_export_output, count);
  if (r->outputs.items == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i) {
    const ls_export_output *from = &spec->export_outputs[i];
    ls_export_output *to = &r->outputs.items[r->outputs.count];
    const char *key = from->key != NULL ? from->key : "";
    *to = (ls_export_output){.key = ls_copy_text(allocator, key, strlen(key)),
                             .kind = from->kind};
    if (to->key == NULL) return ls_out_of_memory();
    to->tensors = ls_nest_retain(from->tensors);
    ++r->outputs.count;
  }
  return ls_ok();
}

// All tensors that are there, in a list.
static ls_nest collect(const ls_export_outputs *outputs) {
  ls_allocator *allocator = ls_current_allocator();
  size_t most = 0, count = 0;
  for (size_t i = 0; i < outputs->count; ++i)
    most += most_tensors(&outputs->items[i]);
  ls_nest *leaves = ls_new_array(allocator, ls_nest, most + 1);
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  ls_status status = ls_ok();
  for (size_t i = 0; i < outputs->count && ls_status_is_ok(status); ++i) {
    ls_nest *from = leaves + count;
    status = list_tensors(&outputs->items[i], from);
    if (!ls_status_is_ok(status)) break;
    const size_t slots = num_tensors(&outputs->items[i]);
    for (size_t k = 0; k < slots; ++k)
      if (from[k].kind == LS_KIND_TENSOR) leaves[count++] = from[k];
  }
  const ls_nest list = ls_status_is_ok(status)
                           ? ls_nest_sequence(LS_KIND_LIST, leaves, count)
                           : ls_fail(status);
  ls_release(allocator, leaves);
  return list;
}

static ls_nest export_outputs_call_model(ls_nest args, void *user) {
  rewriting *r = user;
  ls_estimator_spec *spec = NULL;
  ls_status status = r->model(r->user, args, &spec);
  if (ls_status_is_ok(status) && spec == NULL)
    status = ls_invalid_argument("the model gave no spec");
  if (ls_status_is_ok(status))
    status = keep_outputs(r, ls_estimator_spec_values(spec));
  ls_estimator_spec_release(spec);
  return ls_status_is_ok(status) ? collect(&r->outputs) : ls_fail(status);
}

// Puts the copies on the host in the places of what was computed.
static ls_status replace(ls_export_outputs *outputs, ls_nest copies) {
  size_t next = 0;
  for (size_t i = 0; i < outputs->count; ++i) {
    ls_export_output *output = &outputs->items[i];
    ls_nest old = ls_none();
    LS_RETURN_IF_ERROR(ls_take_nest(ls_export_output_tensors(output), &old));
    const size_t count = ls_nest_count(old);
    ls_allocator *allocator = ls_current_allocator();
    ls_nest *leaves = ls_new_array(allocator, ls_nest, count + 1);
    for (size_t k = 0; k < count && leaves != NULL; ++k)
      leaves[k] = ls_nest_item(old, k).kind == LS_KIND_TENSOR
                      ? ls_nest_item(copies, next++)
                      : ls_none();
    const ls_nest list = leaves == NULL
                             ? ls_fail(ls_out_of_memory())
                             : ls_nest_sequence(LS_KIND_LIST, leaves, count);
    ls_release(allocator, leaves);
    ls_nest_release(old);
    ls_export_output made;
    ls_status status = ls_nest_status(list);
    if (ls_status_is_ok(status))
      status = ls_export_output_with(output, list, &made);
    ls_nest_release(list);
    LS_RETURN_IF_ERROR(status);
    ls_nest_release(output->tensors);
    output->tensors = made.tensors;
  }
  return ls_ok();
}

ls_status ls_rewrite_model_for_inference(ls_estimator_mode mode,
                                         ls_export_model model, void *user,
                                         ls_nest inputs,
                                         const ls_replicate_options *options,
                                         ls_export_outputs *out_outputs) {
  LS_REQUIRE_OUT(out_outputs);
  LS_REQUIRE(model);
  if (mode != LS_REWRITE_FOR_INFERENCE_MODE)
    return ls_invalid_argument("mode %d in the rewrite for inference, which is "
                               "of mode %d (predict)",
                               (int)mode, (int)LS_REWRITE_FOR_INFERENCE_MODE);
  rewriting r = {.model = model, .user = user};
  ls_nest copies = ls_none();
  ls_status status = ls_rewrite_for_inference(export_outputs_call_model, &r,
                                              inputs, options, &copies);
  if (ls_status_is_ok(status)) status = replace(&r.outputs, copies);
  ls_nest_release(copies);
  if (ls_status_is_ok(status))
    *out_outputs = r.outputs;
  else
    ls_export_outputs_release(&r.outputs);
  return status;
}

// SPDX-License-Identifier: Apache-2.0
//
// Export outputs of models: lets the rewrite for inference replace their
// tensors.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "estimator/own.h"
#include "graph/text/text.h"
#include "lockstep/estimator_export.h"

// Names of an output's tensors; count 0: the output has its own names.
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
      "export output '%s' is of kind %d: a computation for inference can "
      "return predictions, classifications and regressions",
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
  LS_OWN_ARRAY(ls_current_allocator(), ls_nest, leaves, most_tensors(output));
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  LS_RETURN_FAILED_IF_ERROR(list_tensors(output, leaves));
  return ls_nest_sequence(LS_KIND_LIST, leaves, num_tensors(output));
}

// ---- Rebuilding ------------------------------------------------------------
// Rebuilds an output from the values that are present, by name.
static ls_status export_outputs_rebuild(const ls_export_output *output,
                                        const kind_names *names,
                                        ls_nest tensors, const char **keys,
                                        ls_nest *leaves, ls_nest *out) {
  size_t count = 0;
  for (size_t i = 0; i < ls_nest_count(tensors); ++i) {
    const ls_nest leaf = ls_nest_item(tensors, i);
    const char *name =
        names->count > 0 ? names->names[i] : ls_nest_key(output->tensors, i);
    // The name of an absent value gets no tensor.
    if (leaf.kind == LS_KIND_NONE && names->count > 0) continue;
    keys[count] = name;
    leaves[count++] = leaf;
  }
  *out = ls_nest_dict("", keys, leaves, count);
  return ls_nest_status(*out);
}

ls_status ls_export_output_with(const ls_export_output *output, ls_nest tensors,
                                ls_export_output *out_output) {
  LS_REQUIRE_OUT(out_output, output);
  kind_names names = {0};
  LS_RETURN_IF_ERROR(names_of(output, &names));
  const size_t wanted = num_tensors(output), count = ls_nest_count(tensors);
  if (count != wanted)
    return ls_invalid_argument("export output '%s' has %zu tensors, got %zu",
                               output->key, wanted, count);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count + 1);
  LS_OWN_ARRAY_OR_RETURN(allocator, const char *, keys, count + 1);
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(
      export_outputs_rebuild(output, &names, tensors, keys, leaves, &made));
  *out_output = *output;
  return ls_hand_over(&made, &out_output->tensors);
}

// ---- The rewrite -----------------------------------------------------------
void ls_export_outputs_release(ls_export_outputs *outputs) {
  if (outputs == NULL || outputs->items == NULL) return;
  for (size_t i = 0; i < outputs->count; ++i) {
    ls_nest_release(outputs->items[i].tensors);
    ls_text_release((char *)(uintptr_t)outputs->items[i].key);
  }
  ls_print_array_release(outputs->items);
  *outputs = (ls_export_outputs){0};
}

typedef struct rewriting {
  ls_export_model model;
  void *user;
  ls_export_outputs outputs;  // The outputs that the model returned.
} rewriting;

static void rewriting_deinit(rewriting *r) {
  ls_export_outputs_release(&r->outputs);
}
LS_OWNED_STRUCT(rewriting, rewriting_deinit)

static ls_status keep_outputs(rewriting *r,
                              const ls_estimator_spec_options *spec) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = spec->num_export_outputs;
  if (count == 0)
    return ls_invalid_argument("the model's spec has no export outputs");
  r->outputs.items =
      ls_print_array(allocator, count, sizeof(*r->outputs.items));
  LS_RETURN_IF_NO_MEMORY(r->outputs.items);
  for (size_t i = 0; i < count; ++i) {
    const ls_export_output *from = &spec->export_outputs[i];
    ls_export_output *to = &r->outputs.items[r->outputs.count];
    char *key = NULL;
    LS_RETURN_IF_ERROR(
        ls_print_copy(allocator, from->key != NULL ? from->key : "", &key));
    *to = (ls_export_output){.key = key,
                             .kind = from->kind,
                             .tensors = ls_nest_retain(from->tensors)};
    ++r->outputs.count;
  }
  return ls_ok();
}

static ls_nest export_outputs_call_model(ls_nest args, void *user) {
  rewriting *r = user;
  LS_OWN(ls_estimator_spec, spec) = NULL;
  LS_RETURN_FAILED_IF_ERROR(r->model(r->user, args, &spec));
  LS_RETURN_FAILED_IF_ERROR(
      spec == NULL ? ls_invalid_argument("the model gave no spec")
                   : keep_outputs(r, ls_estimator_spec_values(spec)));
  // Lists all tensors of the outputs that are present.
  LS_OWN(ls_nest_builder, all) = {0};
  for (size_t i = 0; i < r->outputs.count; ++i) {
    LS_OWN(ls_nest, list) = ls_export_output_tensors(&r->outputs.items[i]);
    if (ls_nest_is_failed(list)) return ls_give(&list);
    for (size_t k = 0; k < ls_nest_count(list); ++k)
      if (ls_nest_item(list, k).kind == LS_KIND_TENSOR)
        ls_nest_builder_append(&all, ls_nest_retain(ls_nest_item(list, k)));
  }
  return ls_nest_builder_finish(&all, LS_KIND_LIST);
}

// Replaces the computed tensors by their copies on the host.
static ls_status replace(ls_export_outputs *outputs, ls_nest copies) {
  size_t next = 0;
  for (size_t i = 0; i < outputs->count; ++i) {
    ls_export_output *output = &outputs->items[i];
    LS_OWN(ls_nest, old) = ls_none();
    LS_OWN(ls_nest, list) = ls_none();
    LS_OWN(ls_nest_builder, leaves) = {0};
    LS_RETURN_IF_ERROR(ls_take_nest(ls_export_output_tensors(output), &old));
    for (size_t k = 0; k < ls_nest_count(old); ++k)
      ls_nest_builder_append(&leaves,
                             ls_nest_item(old, k).kind == LS_KIND_TENSOR
                                 ? ls_nest_retain(ls_nest_item(copies, next++))
                                 : ls_none());
    LS_RETURN_IF_ERROR(
        ls_take_nest(ls_nest_builder_finish(&leaves, LS_KIND_LIST), &list));
    ls_export_output made;
    LS_RETURN_IF_ERROR(ls_export_output_with(output, list, &made));
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
  LS_REQUIRE_OUT(out_outputs, model);
  if (mode != LS_REWRITE_FOR_INFERENCE_MODE)
    return ls_invalid_argument(
        "mode %d in the rewrite for inference, which is of mode %d (predict)",
        (int)mode, (int)LS_REWRITE_FOR_INFERENCE_MODE);
  LS_OWN(rewriting, r) = {.model = model, .user = user};
  LS_OWN(ls_nest, copies) = ls_none();
  LS_RETURN_IF_ERROR(ls_rewrite_for_inference(export_outputs_call_model, &r,
                                              inputs, options, &copies));
  LS_RETURN_IF_ERROR(replace(&r.outputs, copies));
  return ls_hand_over(&r.outputs, out_outputs);
}

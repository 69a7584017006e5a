// SPDX-License-Identifier: Apache-2.0
// Layers of a model, by the name scopes of its ops and variables.
#ifndef LS_CLI_LOOK_LAYERS_H_
#define LS_CLI_LOOK_LAYERS_H_

#include "cli/cli.h"

// A layer: the ops of a name scope without scopes in it, or one other op.
typedef struct cli_layer {
  const char *name;  // `size` bytes of a text that the step lends.
  size_t size;
  bool has_output;
  ls_type output;             // In one replica.
  int64_t parameters, other;  // Trainable numbers, and others.
  double forward_flops;       // Sum over all replicas.
  double step_flops;          // The same with the gradients.
  int64_t activation_bytes;   // Memory kept for the gradients.
} cli_layer;

typedef struct cli_layers {
  cli_layer *items;
  size_t count;
  cli_layer optimizer;  // Variables and work of the updates.
  cli_layer total;      // Sum of the layers, without the optimizer.
  int64_t parameter_bytes, other_bytes, optimizer_bytes;
} cli_layers;

// Lists the layers of a step that has run once. `replica` is the graph of one
// replica's step.
//   LS_UNIMPLEMENTED  a device's plug-in lists no instructions.
ls_status cli_layers_open(const cli_step *step, const ls_graph *replica,
                          cli_layers *out_layers);
void cli_layers_close(cli_layers *layers);
CLI_OWNED_STRUCT(cli_layers, cli_layers_close)

// Lists (lends) the variables of a model and then the `*out_slots` ones of its
// optimizer; without a model (NULL, or zeroed) those of an estimator's graph.
// Free the list with cli_release.
ls_status cli_list_variables(const ls_model *model, const ls_graph *graph,
                             ls_variable ***out, size_t *out_count,
                             size_t *out_slots);

#endif  // LS_CLI_LOOK_LAYERS_H_

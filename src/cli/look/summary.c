// SPDX-License-Identifier: Apache-2.0
// lockstep summary: the layers of a model.
#include <stdio.h>

#include "cli/look/layers.h"
#include "cli/look/table.h"

typedef struct summary_flags {
  cli_step_flags step;
  bool json;
} summary_flags;

enum { LAYER, OUTPUT, PARAMETERS, OTHER, FORWARD, STEP, ACTIVATIONS };
static const cli_column summary_columns[] = {
    {"layer", false, 0},      {"output", false, 3}, {"parameters", true, 0},
    {"other", true, 5},       {"forward", true, 4}, {"step", true, 1},
    {"activations", true, 2},
};

// ---- As a table ------------------------------------------------------------
static void format_shape(ls_shape shape, char *text, size_t size) {
  size_t at = (size_t)snprintf(text, size, "[");
  for (int i = 0; i < shape.rank && at < size; ++i)
    at += (size_t)snprintf(text + at, size - at, "%s%lld", i > 0 ? "," : "",
                           (long long)shape.dim[i]);
  if (at < size) snprintf(text + at, size - at, "]");
}

static void add_row(cli_table *table, const cli_layer *layer) {
  char text[CLI_CELL];
  cli_table_add(table);
  cli_table_set(table, LAYER, "%.*s", (int)layer->size, layer->name);
  if (layer->has_output) {
    format_shape(layer->output.shape, text, sizeof(text));
    cli_table_set(table, OUTPUT, "%s", text);
  }
  cli_table_set(table, PARAMETERS, "%s",
                cli_format_count(layer->parameters, text));
  cli_table_set(table, OTHER, "%s", cli_format_count(layer->other, text));
  if (layer->forward_flops > 0)
    cli_table_set(table, FORWARD, "%s",
                  cli_format_flops(layer->forward_flops, text));
  if (layer->step_flops > 0)
    cli_table_set(table, STEP, "%s", cli_format_flops(layer->step_flops, text));
  if (layer->activation_bytes > 0)
    cli_table_set(table, ACTIVATIONS, "%s",
                  cli_format_bytes((double)layer->activation_bytes, text));
}

static ls_status print_table(const cli_step_flags *flags,
                             const cli_layers *layers) {
  char a[CLI_CELL], b[CLI_CELL], c[CLI_CELL];
  CLI_OWN(cli_table, table) = {.columns = summary_columns,
                               .num_columns = sizeof(summary_columns) /
                                              sizeof(*summary_columns)};
  printf("%s, %lld replica%s, %s, batch of %lld\n", flags->model,
         (long long)flags->replicas, flags->replicas == 1 ? "" : "s",
         flags->precision, (long long)flags->batch_size);
  for (size_t i = 0; i < layers->count; ++i)
    add_row(&table, &layers->items[i]);
  add_row(&table, &layers->optimizer);
  add_row(&table, &layers->total);
  LS_RETURN_IF_ERROR(cli_table_print(&table, cli_output_columns()));
  printf("memory of parameters  %s\n          other       %s\n"
         "          optimizer   %s\n",
         cli_format_bytes((double)layers->parameter_bytes, a),
         cli_format_bytes((double)layers->other_bytes, b),
         cli_format_bytes((double)layers->optimizer_bytes, c));
  return ls_ok();
}

// ---- As JSON ---------------------------------------------------------------
static void print_figures(const cli_layer *layer) {
  printf("\"parameters\":%lld,\"other\":%lld,\"forward_flops\":%.15g,"
         "\"step_flops\":%.15g,\"activation_bytes\":%lld}",
         (long long)layer->parameters, (long long)layer->other,
         layer->forward_flops, layer->step_flops,
         (long long)layer->activation_bytes);
}

static void print_output(const cli_layer *layer) {
  if (!layer->has_output) {
    printf("\"dtype\":null,\"output\":null,");
    return;
  }
  const ls_shape shape = layer->output.shape;
  printf("\"dtype\":\"%s\",\"output\":[", ls_dtype_name(layer->output.dtype));
  for (int i = 0; i < shape.rank; ++i)
    printf("%s%lld", i > 0 ? "," : "", (long long)shape.dim[i]);
  printf("],");
}

static void print_json(const cli_step_flags *flags, const cli_layers *layers) {
  cli_print_text('{', "model", flags->model);
  printf(",\"replicas\":%lld,\"precision\":\"%s\",\"batch_size\":%lld,"
         "\"layers\":[",
         (long long)flags->replicas, flags->precision,
         (long long)flags->batch_size);
  for (size_t i = 0; i < layers->count; ++i) {
    const cli_layer *layer = &layers->items[i];
    printf("%s{\"layer\":", i > 0 ? "," : "");
    cli_print_json_bytes(layer->name, layer->size);
    putchar(',');
    print_output(layer);
    print_figures(layer);
  }
  printf("],\"optimizer\":{");
  print_figures(&layers->optimizer);
  printf(",\"total\":{");
  print_figures(&layers->total);
  printf(",\"parameter_bytes\":%lld,\"other_bytes\":%lld,"
         "\"optimizer_bytes\":%lld}\n",
         (long long)layers->parameter_bytes, (long long)layers->other_bytes,
         (long long)layers->optimizer_bytes);
}

// ---- The command -----------------------------------------------------------
// Lists the layers of a step that has run. The graph of several replicas holds
// them as one op: a step is run alone on the first one's part of the batch, for
// its graph.
static ls_status list_layers(const cli_step *step, cli_step *out_alone,
                             cli_layers *out_layers) {
  cli_step_flags flags = *step->flags;
  if (flags.replicas == 1)
    return cli_layers_open(step, ls_function_graph(step->function), out_layers);
  flags.replicas = 1;
  LS_RETURN_IF_ERROR(cli_step_open(&flags, out_alone));
  ls_nest_release(out_alone->args);
  out_alone->args = ls_none();
  LS_RETURN_IF_ERROR(ls_strategy_replica_result(step->strategy, step->args, 0,
                                                &out_alone->args));
  LS_RETURN_IF_ERROR(cli_step_run(out_alone, NULL));
  return cli_layers_open(step, ls_function_graph(out_alone->function),
                         out_layers);
}

static ls_status summarize(void *user, ls_runtime *runtime) {
  summary_flags *flags = user;
  (void)runtime;
  CLI_OWN(cli_step, step) = {0};
  CLI_OWN(cli_step, alone) = {0};
  CLI_OWN(cli_layers, layers) = {0};
  LS_RETURN_IF_ERROR(cli_step_open(&flags->step, &step));
  LS_RETURN_IF_ERROR(cli_step_run(&step, NULL));
  LS_RETURN_IF_ERROR(list_layers(&step, &alone, &layers));
  if (!flags->json) return print_table(&flags->step, &layers);
  print_json(&flags->step, &layers);
  return ls_ok();
}

int cli_summary(int argc, char **argv) {
  summary_flags flags = {.step = {.replicas = 1, .precision = "f32"}};
  const cli_option options[] = {
      {"replicas", CLI_COUNT, &flags.step.replicas, "N",
       "replicas that share the batch (default 1)"},
      CLI_THREADS_OPTION(&flags.step.threads),
      CLI_BATCH_OPTION(&flags.step.batch_size),
      CLI_PRECISION_OPTION(&flags.step.precision),
      CLI_STEP_TASK_OPTIONS(&flags.step),
      CLI_MATH_OPTION(&flags.step.math),
      {"json", CLI_FLAG, &flags.json, NULL,
       "print one line of JSON: model, replicas, precision, batch_size, "
       "layers, optimizer, total, parameter_bytes, other_bytes, "
       "optimizer_bytes"},
  };
  const cli_syntax syntax = {
      .command = "summary",
      .about =
          "Lists a model's layers, which are the name scopes of its ops and "
          "variables: the output of a replica, trainable parameters and other "
          "numbers, the products and convolutions of the forward part and of a "
          "step of all replicas, and the memory that the step keeps for the "
          "gradients. A terminal that is too narrow gets fewer columns; into a "
          "file or pipe, lines are complete. MODEL may be a shared library of "
          "models or estimators: ./mine.so or ./mine.so:NAME, or a model's "
          "run, for its numbers of inputs and outputs.",
      CLI_OPTIONS(options),
      .operand_form = "MODEL",
      .operand = &flags.step.model};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  return cli_with_step("summary", &flags.step, summarize, &flags);
}

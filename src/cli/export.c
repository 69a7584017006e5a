// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cli/models.h"

typedef struct export_flags {
  const char *run_folder, *out, *model;
  bool onnx, stablehlo;
  int64_t batch_size;
  bool estimator;  // Never here: others read it.
} export_flags;

// The model in a graph of its own, as it is used.
typedef struct served {
  ls_graph *graph;
  ls_model model;
  ls_nest inputs, outputs;
} served;

// A dict with one tensor.
static ls_nest named(const char *name, ls_tensor tensor) {
  const ls_nest leaf = ls_leaf(tensor);
  return ls_nest_dict("", &name, &leaf, 1);
}

static ls_status export_build(const ls_train_config *config,
                              const ls_model_type *type, served *out) {
  LS_GRAPH_SCOPE(out->graph);
  const ls_dtype dtype =
      type->example_dtype == LS_DTYPE_NONE ? LS_DTYPE_F32 : type->example_dtype;
  ls_shape shape = {.rank = type->example_shape.rank + 1};
  shape.dim[0] = -1;
  memcpy(shape.dim + 1, type->example_shape.dim,
         (size_t)type->example_shape.rank * sizeof(*shape.dim));
  // The optimizer's schedule plays no part here, but it needs its steps.
  LS_RETURN_IF_ERROR(cli_create_model(config, type, 1, &out->model));
  const ls_tensor examples = ls_placeholder(dtype, shape, "examples");
  const ls_nest args = LS_TUPLE(ls_leaf(examples));
  const ls_nest logits = type->logits(args, out->model.self);
  ls_nest_release(args);
  ls_status status = ls_nest_status(logits);
  if (ls_status_is_ok(status)) status = ls_graph_take_error(out->graph);
  if (ls_status_is_ok(status)) {
    out->inputs = named("examples", examples);
    out->outputs = named("logits", ls_nest_tensor(logits, 0));
    status = ls_nest_status(out->inputs);
  }
  if (ls_status_is_ok(status)) status = ls_nest_status(out->outputs);
  ls_nest_release(logits);
  return status;
}

static ls_status export_run(const export_flags *flags,
                            const ls_train_config *config,
                            const ls_model_type *type, char **out_path) {
  served s = {0};
  LS_RETURN_IF_ERROR(ls_graph_create(type->name, &s.graph));
  ls_status status = export_build(config, type, &s);
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, s.outputs}, s.inputs};
  const ls_serving_graph graph = {
      .graph = s.graph, .signatures = &signature, .num_signatures = 1};
  if (ls_status_is_ok(status))
    status = ls_serving_export(
        &(ls_serving_options){
            .base = flags->out != NULL ? flags->out : flags->run_folder,
            .graphs = &graph,
            .num_graphs = 1,
            .checkpoint = flags->run_folder,
            .onnx = flags->onnx ? LS_FLAG_ON : LS_FLAG_OFF,
            .stablehlo = flags->stablehlo ? LS_FLAG_ON : LS_FLAG_OFF,
            .batch_size = flags->batch_size},
        out_path);
  ls_nest_release(s.inputs);
  ls_nest_release(s.outputs);
  ls_model_destroy(&s.model);
  ls_graph_destroy(s.graph);
  return status;
}

static int run(export_flags *flags, const ls_train_config *config) {
  char *path = NULL;
  if (!cli_run_model("export", flags->run_folder, config->model, flags->model,
                     &flags->model))
    return CLI_USAGE;
  const ls_model_type *type = cli_find_model("export", flags->model);
  if (type == NULL) return CLI_FAILED;
  const ls_status status = export_run(flags, config, type, &path);
  if (!ls_status_is_ok(status)) return cli_report("export", status);
  printf("%s\n", path);
  ls_text_release(path);
  return CLI_OK;
}

bool cli_check_export(int64_t batch_size, bool stablehlo) {
  if (batch_size > 0 && !stablehlo)
    cli_say("export", "--batch-size is that of --stablehlo, which is not "
                      "given");
  return batch_size == 0 || stablehlo;
}

int cli_export(int argc, char **argv) {
  const ls_estimator_type *estimator = NULL;
  if (!cli_find_estimator("export", argc, argv, &estimator)) return CLI_USAGE;
  if (estimator != NULL) return cli_estimator_export(estimator, argc, argv);
  export_flags flags = {0};
  const cli_option options[] = {
      {"out", CLI_TEXT, &flags.out, "FOLDER",
       "where the export's folder is made (default: RUN)", 0},
      CLI_EXPORT_OPTIONS(&flags.onnx, &flags.stablehlo, &flags.batch_size),
      CLI_RUN_MODEL_OPTIONS(&flags.model, &flags.estimator),
  };
  const cli_syntax syntax = {
      .command = "export",
      .about = "Exports the model that a run has saved, as it is used: its "
               "graph from examples\nto logits as text, and the values of its "
               "variables. Prints the folder, which is\nnamed by the second.",
      .options = options,
      .num_options = sizeof(options) / sizeof(options[0]),
      .operand_form = "RUN",
      .operand = &flags.run_folder};
  int code = CLI_OK;
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  if (!cli_check_export(flags.batch_size, flags.stablehlo)) return CLI_USAGE;
  ls_runtime *runtime = NULL;
  ls_train_config *config = NULL;
  const ls_status status =
      cli_run_open(flags.run_folder, 0, NULL, &runtime, &config);
  code = ls_status_is_ok(status) ? run(&flags, config)
                                 : cli_report("export", status);
  ls_train_config_destroy(config);
  return cli_runtime_close("export", runtime, code);
}

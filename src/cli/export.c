// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cli/estimator.h"
#include "cli/ranks.h"

typedef struct export_flags {
  cli_run run;
  const char *out;
  bool onnx, stablehlo;
  int64_t batch_size;
  bool estimator;  // Ignored here: cli_find_estimator reads it.
} export_flags;

void cli_inference_close(cli_inference *self) {
  ls_nest_release(self->predictions);
  ls_model_destroy(&self->model);
}

// Makes a dict with one tensor.
static ls_nest make_dict(const char *name, ls_tensor tensor) {
  const ls_nest leaf = ls_leaf(tensor);
  return ls_nest_dict("", &name, &leaf, 1);
}

ls_status cli_build_inference(const ls_train_config *config,
                              const ls_model_type *type, ls_graph *graph,
                              cli_inference *out) {
  LS_GRAPH_SCOPE(graph);
  const ls_dtype dtype =
      type->example_dtype == LS_DTYPE_NONE ? LS_DTYPE_F32 : type->example_dtype;
  ls_shape shape = {.rank = type->example_shape.rank + 1};
  shape.dim[0] = -1;
  memcpy(shape.dim + 1, type->example_shape.dim,
         (size_t)type->example_shape.rank * sizeof(*shape.dim));
  // The optimizer's schedule is not used here, but needs a number of steps.
  LS_RETURN_IF_ERROR(cli_create_model(config, type, 1, &out->model));
  out->examples = ls_placeholder(dtype, shape, "examples");
  CLI_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(out->examples));
  CLI_OWN(ls_nest, logits) = type->logits(args, out->model.self);
  LS_RETURN_IF_ERROR(ls_nest_status(logits));
  out->logits = ls_nest_tensor(logits, 0);
  // One number per example is no class.
  if (ls_tensor_shape(out->logits).rank > 1)
    out->predictions = ls_model_type_task(type)->predictions(out->logits);
  LS_RETURN_IF_ERROR(ls_graph_take_error(graph));
  return ls_nest_status(out->predictions);
}

// Writes the text of an asset to a file in memory, and its path.
static ls_status write_asset(const char *text, FILE **out_file, char *path,
                             size_t size) {
  *out_file = fdopen(memfd_create("asset", MFD_CLOEXEC), "w");
  if (*out_file == NULL)
    return LS_STATUS(LS_UNAVAILABLE, "no temporary file for an asset");
  fputs(text, *out_file);
  snprintf(path, size, "/proc/self/fd/%d", fileno(*out_file));
  return fflush(*out_file) == 0
             ? ls_ok()
             : LS_STATUS(LS_UNAVAILABLE, "cannot write an asset");
}

static ls_status export_model(void *user, const ls_train_config *config,
                              const ls_model_type *type) {
  const export_flags *flags = user;
  char classes[64] = "", run_config[64] = "";
  CLI_OWN(ls_graph, graph) = NULL;
  CLI_OWN(cli_inference, built) = {0};
  CLI_OWN(ls_nest, inputs) = ls_none();
  CLI_OWN(ls_nest, logits) = ls_none();
  CLI_OWN(FILE, names) = NULL;
  CLI_OWN(FILE, settings) = NULL;
  CLI_OWN(text, path) = NULL;
  CLI_OWN(text, printed) = NULL;
  const bool named = config->classes != NULL && config->classes[0] != '\0';
  const ls_serving_asset assets[] = {{"config.json", run_config},
                                     {"classes.txt", classes}};
  // Lets commands compute and read data as the run did.
  LS_RETURN_IF_ERROR(ls_train_config_text(config, &printed));
  LS_RETURN_IF_ERROR(
      write_asset(printed, &settings, run_config, sizeof(run_config)));
  if (named)
    LS_RETURN_IF_ERROR(
        write_asset(config->classes, &names, classes, sizeof(classes)));
  LS_RETURN_IF_ERROR(ls_graph_create(type->name, &graph));
  LS_RETURN_IF_ERROR(cli_build_inference(config, type, graph, &built));
  inputs = make_dict("examples", built.examples);
  logits = make_dict("logits", built.logits);
  LS_RETURN_IF_ERROR(ls_nest_status(inputs));
  LS_RETURN_IF_ERROR(ls_nest_status(logits));
  const ls_serving_signature signatures[] = {
      {{LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, logits}, inputs},
      {{"predict", LS_EXPORT_PREDICT, built.predictions}, inputs}};
  const ls_serving_graph served = {
      .graph = graph,
      .signatures = signatures,
      .num_signatures = built.predictions.kind == LS_KIND_NONE ? 1 : 2};
  // A signal while the folder is made waits until it is whole.
  (void)cli_signals_defer(0);
  cli_signals_saved();
  LS_RETURN_IF_ERROR(ls_serving_export(
      &(ls_serving_options){
          .base = flags->out != NULL ? flags->out : flags->run.folder,
          .graphs = &served,
          .num_graphs = 1,
          .checkpoint = flags->run.checkpoint[0] != '\0' ? flags->run.checkpoint
                                                         : flags->run.folder,
          .assets = assets,
          .num_assets = named ? 2 : 1,
          .onnx = flags->onnx ? LS_FLAG_ON : LS_FLAG_OFF,
          .stablehlo = flags->stablehlo ? LS_FLAG_ON : LS_FLAG_OFF,
          .batch_size = flags->batch_size},
      &path));
  printf("%s\n", path);
  return ls_ok();
}

bool cli_check_export(int64_t batch_size, bool stablehlo) {
  if (batch_size > 0 && !stablehlo)
    cli_say("export", "--batch-size is for --stablehlo, which is not given");
  return batch_size == 0 || stablehlo;
}

int cli_export(int argc, char **argv) {
  const ls_estimator_type *estimator = NULL;
  if (!cli_find_estimator("export", argc, argv, &estimator)) return CLI_USAGE;
  if (estimator != NULL) return cli_estimator_export(estimator, argc, argv);
  export_flags flags = {.run = {.command = "export"}};
  const cli_option options[] = {
      {"out", CLI_TEXT, &flags.out, "FOLDER",
       "folder in which to make the export's (default: RUN)"},
      CLI_EXPORT_OPTIONS(&flags.onnx, &flags.stablehlo, &flags.batch_size),
      CLI_RUN_MODEL_OPTIONS(&flags.run.model, &flags.estimator),
  };
  const cli_syntax syntax = {
      .command = "export",
      .about = "Exports a run's saved model for inference: its graph from "
               "examples to logits as text, and the values of its variables. "
               "Prints the folder, which is named by the second. RUN@STEP is "
               "the model of a checkpoint, RUN@best the best one's.",
      CLI_OPTIONS(options),
      .refused = cli_use_refused_by_models,
      .operand_form = "RUN",
      .operand = &flags.run.folder};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (!cli_check_export(flags.batch_size, flags.stablehlo)) return CLI_USAGE;
  const int code = cli_with_run(&flags.run, export_model, &flags);
  return code == CLI_OK && cli_signals_first() != 0
             ? CLI_SIGNAL + cli_signals_first()
             : code;
}

// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <time.h>

#include "cli/cli.h"

typedef struct graph_flags {
  const char *model, *precision, *math;
  bool lowered, plan, dot, cost, tpu, gathered;
  int64_t replicas, threads, batch_size;
} graph_flags;

static ls_status graph_run_once(cli_step *step) {
  ls_nest results = {0};
  const ls_status status = ls_strategy_run(
      step->strategy, ls_traced(step->function), step->args, &results);
  ls_nest_release(results);
  return status;
}

// Runs steps for one to two seconds, two at least.
static ls_status graph_measure(cli_step *step) {
  LS_RETURN_IF_ERROR(
      graph_run_once(step));  // Memory is touched, threads are awake.
  LS_RETURN_IF_ERROR(ls_function_measure(step->function, true));
  const time_t begin = time(NULL);
  for (int i = 0; i < 2 || time(NULL) < begin + 2; ++i)
    LS_RETURN_IF_ERROR(graph_run_once(step));
  return ls_ok();
}

// The step is compiled by running it once.
static ls_status graph_print(const graph_flags *flags,
                             const ls_model_type *type, cli_step *step) {
  LS_RETURN_IF_ERROR(
      cli_step_open(type,
                    &(cli_step_options){.replicas = flags->replicas,
                                        .batch_size = flags->batch_size,
                                        .precision = flags->precision,
                                        .tpu = flags->tpu || flags->gathered},
                    step));
  LS_RETURN_IF_ERROR(graph_run_once(step));
  char *text = NULL;
  if (flags->lowered) {
    LS_RETURN_IF_ERROR(ls_function_print_lowered(step->function, &text));
  } else if (flags->plan) {
    LS_RETURN_IF_ERROR(ls_function_print_plan(step->function, &text));
  } else if (flags->cost) {
    LS_RETURN_IF_ERROR(graph_measure(step));
    LS_RETURN_IF_ERROR(ls_function_print_cost(step->function, &text));
  } else {
    const ls_graph *graph = ls_function_graph(step->function);
    LS_RETURN_IF_ERROR(flags->dot        ? ls_graph_print_dot(graph, &text)
                       : flags->gathered ? ls_graph_print_gathered(graph, &text)
                                         : ls_graph_print(graph, &text));
  }
  fputs(text, stdout);
  ls_text_release(text);
  return ls_ok();
}

int cli_graph(int argc, char **argv) {
  graph_flags flags = {.replicas = 1, .precision = "f32"};
  const cli_option options[] = {
      {"lowered", CLI_FLAG, &flags.lowered, NULL,
       "the pruned graph that is compiled", 0},
      {"plan", CLI_FLAG, &flags.plan, NULL,
       "instructions and memory as they run", 0},
      {"cost", CLI_FLAG, &flags.cost, NULL,
       "memory, flops and bytes, and after some steps the\n"
       "time by kernel with its share of the roofline",
       0},
      {"dot", CLI_FLAG, &flags.dot, NULL,
       "the built graph as a drawing for Graphviz", 0},
      {"tpu", CLI_FLAG, &flags.tpu, NULL,
       "the step of a TPU strategy: a replicated computation", 0},
      {"gathered", CLI_FLAG, &flags.gathered, NULL,
       "the same, its computation gathered: as it is run", 0},
      {"replicas", CLI_COUNT, &flags.replicas, "N",
       "replicas of the step (default 1)", 1},
      CLI_THREADS_OPTION(&flags.threads),
      CLI_BATCH_OPTION(&flags.batch_size),
      CLI_PRECISION_OPTION(&flags.precision),
      CLI_MATH_OPTION(&flags.math),
  };
  const cli_syntax syntax = {
      .command = "graph",
      .about = "Prints a model's training step: by default the graph as it was "
               "built.\nMODEL may be a shared library of models: ./mine.so or "
               "./mine.so:NAME.",
      .options = options,
      .num_options = sizeof(options) / sizeof(options[0]),
      .operand_form = "MODEL",
      .operand = &flags.model};
  int code = CLI_OK;
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  if (flags.lowered + flags.plan + flags.dot + flags.cost + flags.gathered >
      1) {
    cli_say("graph", "--lowered, --plan, --cost, --dot and --gathered are five "
                     "prints; give one");
    return CLI_USAGE;
  }
  if (!cli_check_arithmetic("graph", flags.precision, &flags.math))
    return CLI_USAGE;
  const ls_model_type *type = cli_find_model("graph", flags.model);
  if (type == NULL) return CLI_USAGE;
  ls_runtime *runtime = NULL;
  cli_step step = {0};
  ls_status status = cli_runtime_open(flags.threads, flags.math, &runtime);
  if (ls_status_is_ok(status)) status = graph_print(&flags, type, &step);
  if (!ls_status_is_ok(status)) code = cli_report("graph", status);
  cli_step_close(&step);
  return cli_runtime_close("graph", runtime, code);
}

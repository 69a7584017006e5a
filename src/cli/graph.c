// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/estimator.h"

typedef struct graph_flags {
  cli_step_flags step;
  bool lowered, plan, dot, cost, gathered;
} graph_flags;

static ls_status print_built(const graph_flags *flags, const ls_graph *graph,
                             char **text) {
  return flags->dot        ? ls_graph_print_dot(graph, text)
         : flags->gathered ? ls_graph_print_gathered(graph, text)
                           : ls_graph_print(graph, text);
}

static ls_status print_step(const graph_flags *flags, cli_step *step,
                            char **text) {
  if (flags->lowered) return ls_function_print_lowered(step->function, text);
  if (flags->plan) return ls_function_print_plan(step->function, text);
  if (flags->cost) {
    // Runs a step that warms up memory and threads, then steps for one to two
    // seconds, at least two.
    LS_RETURN_IF_ERROR(cli_step_run(step, NULL));
    LS_RETURN_IF_ERROR(ls_function_measure(step->function, true));
    const time_t begin = time(NULL);
    for (int i = 0; i < 2 || time(NULL) < begin + 2; ++i)
      LS_RETURN_IF_ERROR(cli_step_run(step, NULL));
    return ls_function_print_cost(step->function, text);
  }
  return print_built(flags, ls_function_graph(step->function), text);
}

static ls_status print_graph(void *user, ls_runtime *runtime) {
  graph_flags *flags = user;
  (void)runtime;
  CLI_OWN(cli_step, step) = {0};
  CLI_OWN(text, text) = NULL;
  LS_RETURN_IF_ERROR(cli_step_open(&flags->step, &step));
  LS_RETURN_IF_ERROR(cli_step_run(&step, NULL));  // Compiles the step.
  LS_RETURN_IF_ERROR(print_step(flags, &step, &text));
  fputs(text, stdout);
  return ls_ok();
}

// ---- Estimators ------------------------------------------------------------
// Prints the graph of a training, which then makes a step.
static ls_status print_training(void *user, ls_run_context *context) {
  CLI_OWN(text, text) = NULL;
  LS_RETURN_IF_ERROR(print_built(user, ls_run_context_graph(context), &text));
  fputs(text, stdout);
  return ls_ok();
}

static int graph_of_estimator(graph_flags *flags) {
  const cli_step_flags *step = &flags->step;
  char cores[40];
  cli_again again = {.command = "graph",
                     .hook = {.name = "graph",
                              .user = flags,
                              .after_create_session = print_training}};
  train_flags train = {.asked = {.math = step->math,
                                 .batch_size = step->batch_size,
                                 .threads = step->threads,
                                 .replicas = step->replicas > 1 && !step->tpu
                                                 ? step->replicas
                                                 : 0,
                                 .steps = 1,
                                 .seed = -1,
                                 .keep = -1},
                       .tpu = step->tpu ? cores : NULL,
                       .grace = 30,
                       .quiet = true,
                       .again = &again};
  snprintf(cores, sizeof(cores), "virtual:%lldx1,cores=1",
           (long long)step->replicas);
  return cli_estimator_make_again(step->estimator, step->params, &train);
}

int cli_graph(int argc, char **argv) {
  graph_flags flags = {.step = {.replicas = 1, .precision = "f32"}};
  const cli_option options[] = {
      {"lowered", CLI_FLAG, &flags.lowered, NULL, "the lowered graph"},
      {"plan", CLI_FLAG, &flags.plan, NULL,
       "instructions and memory of the program"},
      {"cost", CLI_FLAG, &flags.cost, NULL,
       "memory, flops and bytes, and after some steps the time by kernel with "
       "its share of the roofline"},
      {"dot", CLI_FLAG, &flags.dot, NULL,
       "the built graph as a Graphviz drawing"},
      {"tpu", CLI_FLAG, &flags.step.tpu, NULL,
       "the step of a TPU strategy: a replicated computation"},
      {"gathered", CLI_FLAG, &flags.gathered, NULL,
       "the same with its computation gathered, as it runs"},
      {"replicas", CLI_COUNT, &flags.step.replicas, "N",
       "replicas of the step (default 1)"},
      CLI_THREADS_OPTION(&flags.step.threads),
      CLI_BATCH_OPTION(&flags.step.batch_size),
      CLI_PRECISION_OPTION(&flags.step.precision),
      CLI_STEP_TASK_OPTIONS(&flags.step),
      CLI_MATH_OPTION(&flags.step.math),
  };
  const cli_syntax syntax = {
      .command = "graph",
      .about =
          "Prints a model's training step: by default the graph as built. "
          "MODEL may be a shared library of models or estimators: ./mine.so or "
          "./mine.so:NAME, or a model's run; of an estimator there it is the "
          "graph of a "
          "training, with --lowered, --plan and --cost that of its step "
          "alone.",
      CLI_OPTIONS(options),
      .operand_form = "MODEL",
      .operand = &flags.step.model};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (flags.lowered + flags.plan + flags.dot + flags.cost + flags.gathered > 1)
    return cli_misuse("graph",
                      "--lowered, --plan, --cost, --dot and --gathered exclude "
                      "each other; give one");
  flags.step.tpu |= flags.gathered;
  if (cli_is_library(flags.step.model) && !cli_is_run(flags.step.model) &&
      !cli_step_find("graph", &flags.step))
    return CLI_USAGE;
  if (flags.step.estimator != NULL &&
      !(flags.lowered || flags.plan || flags.cost))
    return graph_of_estimator(&flags);
  return cli_with_step("graph", &flags.step, print_graph, &flags);
}

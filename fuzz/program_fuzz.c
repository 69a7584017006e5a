// SPDX-License-Identifier: Apache-2.0
//
// From graph text to a run: whatever parses, and so is verified, is lowered,
// compiled, bound and run, or refused by one status. Small programs only: what
// is large on purpose shows nothing that a small one does not.
//
// Bytes that begin with a 0 are no text: a graph is drawn from them by the
// table of ops. What ls_op_add took and the verifier likes must be a text that
// parses.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "base/text.h"
#include "drawn_graph.h"
#include "engine/backend.h"
#include "lower/lower.h"

enum {
  MOST_NODES = 4000,     // Once lowered, with regions.
  MOST_BYTES = 1 << 16,  // Of a value.
  MOST_ALL = 1 << 21,    // Of all values, of all replicas.
  MOST_TRIPS = 3,
  MOST_LOOPS = 3,  // Inside one another.
  MOST_REPLICAS = 8,
  ROOM = 1 << 18,  // For an input, or an output.
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "program_fuzz: %s\n", what);
  abort();
}

// ---- What is asked for -----------------------------------------------------
// Sizes that nobody knows are 2.
static ls_type known_type(ls_type type) {
  if (type.shape.rank < 0) type.shape = LS_SCALAR;
  for (int32_t i = 0; i < type.shape.rank; ++i)
    if (type.shape.dim[i] < 0) type.shape.dim[i] = 2;
  return type;
}

typedef struct request {
  ls_lower_request lower;
  uint64_t *feeds, *fetches;
  ls_type *types;
} request;

// Of a function the parameters are fed and the results wanted; of a build graph
// the placeholders and everything.
static request ask(ls_graph *graph) {
  size_t count = graph->num_results + 1;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    count += graph->nodes[i]->num_outputs;
  request r = {.feeds = calloc(count, sizeof(*r.feeds)),
               .fetches = calloc(count, sizeof(*r.fetches)),
               .types = calloc(count, sizeof(*r.types))};
  check(r.feeds && r.fetches && r.types, "no memory");
  r.lower = (ls_lower_request){.graph = graph,
                               .feeds = r.feeds,
                               .feed_types = r.types,
                               .fetches = r.fetches,
                               .effects_are_roots = true};
  const bool builds = graph->kind == LS_GRAPH_BUILD;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    const bool fed =
        node->type == LS_OP_PARAMETER || node->type == LS_OP_PLACEHOLDER;
    if (fed) {
      r.types[r.lower.num_feeds] = known_type(node->outputs[0]);
      r.feeds[r.lower.num_feeds++] = ls_ref(node->id, 0);
    }
    for (uint32_t k = 0; builds && !fed && k < node->num_outputs; ++k)
      if (node->outputs[k].dtype != LS_DTYPE_VARIANT)
        r.fetches[r.lower.num_fetches++] = ls_ref(node->id, k);
  }
  for (size_t i = 0; i < graph->num_results; ++i)
    r.fetches[r.lower.num_fetches++] = graph->results[i];
  return r;
}

static void request_deinit(request *r) {
  free(r->feeds);
  free(r->fetches);
  free(r->types);
}

// ---- What is small enough --------------------------------------------------
typedef struct budget {
  size_t nodes, bytes;
  int32_t replicas;
} budget;

static bool is_number(ls_dtype dtype) {
  return dtype != LS_DTYPE_STRING && dtype != LS_DTYPE_RESOURCE &&
         dtype != LS_DTYPE_VARIANT;
}

static bool count_type(budget *b, ls_type type) {
  const int64_t count = ls_shape_num_elements(type.shape);
  if (count < 0 || count > MOST_BYTES) return false;
  const size_t bytes = (size_t)count * ls_dtype_size(type.dtype);
  b->bytes += bytes * (size_t)b->replicas;
  return bytes <= MOST_BYTES && b->bytes <= MOST_ALL;
}

// Counts what a graph takes, and bounds its loops.
static bool is_small(budget *b, ls_graph *graph, int loops) {
  b->nodes += graph->num_nodes;
  if (b->nodes > MOST_NODES || loops > MOST_LOOPS) return false;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    ls_node *node = graph->nodes[i];
    for (uint32_t k = 0; k < node->num_outputs; ++k)
      if (!count_type(b, node->outputs[k])) return false;
    const bool loop = node->type == LS_OP_WHILE;
    const int64_t trips = ls_node_int(node, LS_ATTR_ID_MAX_TRIPS);
    if (loop && (trips < 1 || trips > MOST_TRIPS)) {
      const ls_attr attr = LS_OWN_I(MAX_TRIPS, MOST_TRIPS);
      check(ls_node_set_attr(graph, node, &attr) == NULL, "no memory");
    }
    if (node->type == LS_OP_REPLICATE) {
      const int64_t replicas = ls_node_int(node, LS_ATTR_ID_REPLICAS);
      if (replicas > MOST_REPLICAS) return false;
      if (replicas > b->replicas) b->replicas = (int32_t)replicas;
    }
    for (uint32_t r = 0; r < node->num_regions; ++r)
      if (!is_small(b, node->regions[r], loops + loop)) return false;
  }
  return true;
}

// Values that enter and leave are numbers: others are somebody's.
static bool has_plain_border(const ls_program *program) {
  const ls_graph *body = program->body;
  for (size_t i = 0; i < body->num_parameters; ++i)
    if (!is_number(ls_graph_type(body, body->parameters[i]).dtype))
      return false;
  for (size_t i = 0; i < body->num_results; ++i)
    if (!is_number(ls_graph_type(body, body->results[i]).dtype)) return false;
  return true;
}

// ---- Running ---------------------------------------------------------------
static ls_status run_instance(const ls_backend *backend,
                              const ls_program *program,
                              ls_instance *instance) {
  const void **inputs = calloc(program->num_inputs + 1, sizeof(*inputs));
  void **outputs = calloc(program->num_outputs + 1, sizeof(*outputs));
  void *zeros = calloc(1, ROOM);
  check(inputs && outputs && zeros, "no memory");
  for (size_t i = 0; i < program->num_inputs; ++i)
    inputs[i] = zeros;
  for (size_t i = 0; i < program->num_outputs; ++i) {
    outputs[i] = malloc(ROOM);
    check(outputs[i] != NULL, "no memory");
  }
  const ls_run_args args = {.inputs = inputs, .outputs = outputs};
  const ls_status status = ls_backend_run(backend, instance, &args);
  for (size_t i = 0; i < program->num_outputs; ++i)
    free(outputs[i]);
  free(outputs);
  free(inputs);
  free(zeros);
  return status;
}

static ls_status bind_and_run(ls_backend *backend, const ls_program *program,
                              ls_executable *executable) {
  ls_buffer **buffers = calloc(program->num_uses + 1, sizeof(*buffers));
  ls_instance *instance = NULL;
  check(buffers != NULL, "no memory");
  ls_status status = NULL;
  for (size_t i = 0; i < program->num_uses && ls_status_is_ok(status); ++i)
    status = backend->vtable->create_buffer(backend, program->uses[i].type,
                                            &buffers[i]);
  if (ls_status_is_ok(status))
    status = backend->vtable->bind(executable, buffers, &instance);
  if (ls_status_is_ok(status))
    status = run_instance(backend, program, instance);
  if (instance != NULL) backend->vtable->destroy_instance(instance);
  for (size_t i = 0; i < program->num_uses; ++i)
    ls_object_release(buffers[i]);
  free(buffers);
  return status;
}

static ls_status run_program(ls_program *program) {
  budget b = {.replicas = 1};
  if (!is_small(&b, program->body, 0) || !has_plain_border(program))
    return ls_ok();
  ls_backend *backend = NULL;
  ls_executable *executable = NULL;
  ls_status status = ls_runtime_backend(program->runtime, &backend);
  if (ls_status_is_ok(status))
    status = backend->vtable->compile(backend, program, &executable);
  if (!ls_status_is_ok(status)) return status;
  ls_text plan;
  ls_text_init(&plan, ls_runtime_allocator(program->runtime));
  status = backend->vtable->print_plan(executable, &plan);
  ls_text_deinit(&plan);
  if (ls_status_is_ok(status))
    status = bind_and_run(backend, program, executable);
  backend->vtable->release_executable(executable);
  return status;
}

static ls_status lower_and_run(ls_graph *graph) {
  if (graph->kind == LS_GRAPH_LOWERED) return ls_ok();
  // A capture of a graph that is not there has no value.
  if (graph->num_captures > 0) return ls_ok();
  request r = ask(graph);
  ls_program *program = NULL;
  ls_backend *backend = NULL;
  ls_status status = ls_runtime_backend(ls_runtime_current(), &backend);
  if (ls_status_is_ok(status)) status = ls_lower(backend, &r.lower, &program);
  if (ls_status_is_ok(status)) status = run_program(program);
  ls_object_release(program);
  request_deinit(&r);
  return status;
}

static ls_status parse(const uint8_t *data, size_t size, ls_graph **out_graph) {
  char *text = malloc(size + 1);
  check(text != NULL, "no memory");
  if (size > 0) memcpy(text, data, size);
  text[size] = '\0';
  const ls_status status = ls_graph_parse(text, NULL, 0, out_graph);
  free(text);
  return status;
}

static ls_status draw_and_parse(const uint8_t *data, size_t size,
                                ls_graph **out_graph) {
  ls_graph *drawn = NULL;
  char *text = NULL;
  check(ls_graph_create("drawn", &drawn) == NULL, "no memory");
  draw_graph(drawn, data, size);
  ls_status status = ls_graph_verify(drawn);
  if (ls_status_is_ok(status)) status = ls_graph_print(drawn, &text);
  if (ls_status_is_ok(status)) {
    status = ls_graph_parse(text, NULL, 0, out_graph);
    if (!ls_status_is_ok(status))
      fprintf(stderr, "%s\n%s\n", text, ls_status_message(status));
    check(ls_status_is_ok(status), "a graph that verifies does not parse");
  }
  ls_text_release(text);
  ls_graph_destroy(drawn);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static ls_runtime *runtime;
  if (runtime == NULL) {
    const ls_runtime_options options = {.threads = 1, .stall_ms = 2000};
    check(ls_runtime_create(&options, &runtime) == NULL, "no runtime");
    ls_runtime_make_current(runtime);
  }
  ls_graph *graph = NULL;
  ls_status status = size > 0 && data[0] == 0
                         ? draw_and_parse(data + 1, size - 1, &graph)
                         : parse(data, size, &graph);
  if (ls_status_is_ok(status)) status = lower_and_run(graph);
  ls_status_free(status);
  ls_graph_destroy(graph);
  return 0;
}

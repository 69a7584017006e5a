// SPDX-License-Identifier: Apache-2.0
// The CPU engine against a plain evaluator, on random programs in which values
// of all replicas go from op to op, through loops and branches and to the host.
#include <string.h>

#include "base/memory/allocator.h"
#include "base/text.h"
#include "graph/graph.h"
#include "lockstep/trunk.h"
#include "support/replica_lanes.h"
#include "support/sanitizer.h"

enum {
  PROGRAMS = LS_SANITIZED ? 10 : 40,
  REPLICAS = 5,
  INPUTS = 4,
  MOST = 48,
  DEPTH = 3
};

// ---- Evaluating ------------------------------------------------------------
// A value on each replica; what is one for all is the same on each. So an op of
// replicas is its body.
typedef int32_t row[REPLICAS];
enum { MOST_NODES = 100, MOST_OUTPUTS = 24 };

typedef struct table {
  row at[MOST_NODES][MOST_OUTPUTS];
} table;

static int32_t *get(table *t, uint64_t ref) {
  return t->at[ls_ref_id(ref)][ls_ref_output(ref)];
}

static void evaluate(const ls_graph *graph, row *parameters, row *results);

// Inputs from `from` on.
static void take(table *t, const ls_node *node, size_t from, size_t count,
                 row *to) {
  for (size_t i = 0; i < count; ++i)
    memcpy(to[i], get(t, node->inputs[from + i]), sizeof(row));
}

static void evaluate_while(const ls_node *node, table *t, row *out) {
  const ls_graph *condition = node->regions[0], *body = node->regions[1];
  const size_t carried = node->num_outputs;
  row seen[2][MOST], holds;
  take(t, node, 0, carried, out);
  take(t, node, carried, condition->num_captures, seen[0] + carried);
  take(t, node, carried + condition->num_captures, body->num_captures,
       seen[1] + carried);
  for (;;) {
    memcpy(seen[0], out, carried * sizeof(*out));
    memcpy(seen[1], out, carried * sizeof(*out));
    evaluate(condition, seen[0], &holds);
    if (holds[0] == 0) return;
    evaluate(body, seen[1], out);
  }
}

static void evaluate_cond(const ls_node *node, table *t, row *out) {
  const bool holds = get(t, node->inputs[0])[0] != 0;
  const ls_graph *branch = node->regions[holds ? 0 : 1];
  row seen[MOST];
  take(t, node, holds ? 1 : 1 + node->regions[0]->num_captures,
       branch->num_captures, seen);
  evaluate(branch, seen, out);
}

static void evaluate_replicate(const ls_node *node, table *t, row *out) {
  const ls_graph *body = node->regions[0];
  const size_t split = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_SPLIT);
  const size_t gathered = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_GATHERED);
  row seen[MOST], results[MOST];
  for (size_t s = 0; s < split; ++s)
    for (size_t r = 0; r < REPLICAS; ++r)
      seen[s][r] = get(t, node->inputs[s * REPLICAS + r])[r];
  take(t, node, split * REPLICAS, body->num_parameters - split, seen + split);
  evaluate(body, seen, results);
  for (size_t g = 0; g < gathered; ++g)
    for (size_t r = 0; r < REPLICAS; ++r, ++out)
      for (size_t k = 0; k < REPLICAS; ++k)
        (*out)[k] = results[g][r];
  memcpy(out, results + gathered,
         (body->num_results - gathered) * sizeof(*out));
}

static int32_t evaluate_one(const ls_node *node, table *t, int32_t r) {
  uint32_t a = 0, b = 0;
  if (node->num_inputs > 0) a = (uint32_t)get(t, node->inputs[0])[r];
  if (node->num_inputs > 1) b = (uint32_t)get(t, node->inputs[1])[r];
  switch (node->type) {
  case LS_OP_CONSTANT:
    return (int32_t)ls_array_i64(ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array,
                                 0);
  case LS_OP_ADD:
    return (int32_t)(a + b);
  case LS_OP_SUB:
    return (int32_t)(a - b);
  case LS_OP_MUL:
    return (int32_t)(a * b);
  case LS_OP_LESS:
    return (int32_t)a < (int32_t)b;
  case LS_OP_REPLICA_ID:
    return r;
  case LS_OP_HOST:
    return (int32_t)(3 * a + (uint32_t)r);
  default:
    for (int k = 0; k < REPLICAS; ++k)  // all_reduce
      b += (uint32_t)get(t, node->inputs[0])[k];
    return (int32_t)b;
  }
}

static void evaluate(const ls_graph *graph, row *parameters, row *results) {
  table t;
  for (size_t i = 0; i < graph->num_parameters; ++i)
    memcpy(get(&t, graph->parameters[i]), parameters[i], sizeof(row));
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    row *out = t.at[node->id];
    if (node->type == LS_OP_PARAMETER) continue;
    if (node->type == LS_OP_WHILE)
      evaluate_while(node, &t, out);
    else if (node->type == LS_OP_COND)
      evaluate_cond(node, &t, out);
    else if (node->type == LS_OP_REPLICATE)
      evaluate_replicate(node, &t, out);
    else
      for (int32_t r = 0; r < REPLICAS; ++r)
        out[0][r] = evaluate_one(node, &t, r);
  }
  for (size_t i = 0; i < graph->num_results; ++i)
    memcpy(results[i], get(&t, graph->results[i]), sizeof(row));
}

// ---- Writing ---------------------------------------------------------------
static _Thread_local uint64_t drawn;  // Ranks are threads.

static int pick(int count) {
  drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((drawn >> 33) % (uint64_t)count);
}

// Outside of replicas `differs` says that a value is wide, inside that it
// varies.
typedef struct value {
  int id, output;
  bool differs;
} value;

typedef struct writer {
  ls_text *text;
  value values[MOST];
  int count, next_id, depth;
  bool inside;
} writer;

static void print(writer *w, const char *format, ...) LS_PRINTF(2, 3);
static void print(writer *w, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ls_text_append_format_v(w->text, format, arguments);
  va_end(arguments);
}

static void add_value(writer *w, int id, int output, bool differs) {
  if (w->count < MOST) w->values[w->count++] = (value){id, output, differs};
}

// The newest are more often taken. -1 if there is none of the kind.
static int find(const writer *w, bool differs) {
  int found[MOST], count = 0;
  for (int i = w->count; i-- > 0;)
    if (w->values[i].differs == differs) found[count++] = i;
  if (count == 0) return -1;
  return found[pick(pick(2) == 0 && count > 3 ? 3 : count)];
}

static const char *dims_of(const writer *w, bool differs) {
  return differs && !w->inside ? "5" : "";
}

static void print_types(writer *w, const value *values, int count) {
  for (int i = 0; i < count; ++i)
    print(w, "%s i32[%s]", i == 0 ? " :" : ",", dims_of(w, values[i].differs));
  print(w, "\n");
}

static void print_ref(writer *w, const char *before, value v) {
  print(w, "%s%%%d:%d", before, v.id, v.output);
}

static void write_constant(writer *w, int number) {
  print(w, "%%%d = constant() {value = i32[] [%d]} : i32[]\n", w->next_id,
        number);
  add_value(w, w->next_id++, 0, false);
}

static void write_plain(writer *w) {
  static const char *const ops[] = {"add", "sub", "mul"};
  const value a = w->values[find(w, false)];
  const int varying = w->inside && pick(4) > 0 ? find(w, true) : -1;
  const value b = w->values[varying >= 0 ? varying : find(w, false)];
  print(w, "%%%d = %s(", w->next_id, ops[pick(3)]);
  print_ref(w, "", pick(2) == 0 ? a : b);
  print_ref(w, ", ", b);
  print(w, ")%s : i32[]\n", b.differs ? " varying" : "");
  add_value(w, w->next_id++, 0, b.differs);
}

// Some values, none of them twice.
static int choose(const writer *w, int most, bool uniform_too, value *out) {
  int count = 0;
  for (int i = 0; i < most; ++i) {
    const int at = find(w, !uniform_too || pick(2) == 0);
    bool known = at < 0;
    for (int k = 0; k < count && !known; ++k)
      known = out[k].id == w->values[at].id &&
              out[k].output == w->values[at].output;
    if (!known) out[count++] = w->values[at];
  }
  return count;
}

// A region whose parameters are `declared`, then what it captures.
static writer open_region(writer *w, const char *kind, const value *declared,
                          int num_declared, const value *captures,
                          int num_captures) {
  writer inner = {.text = w->text, .next_id = 1, .depth = w->depth + 1};
  print(w, "graph lowered \"%s {\n", kind);
  for (int i = 0; i < num_declared + num_captures; ++i) {
    const value *v =
        i < num_declared ? &declared[i] : &captures[i - num_declared];
    const char *dims = dims_of(w, v->differs);
    print(w, "%%%d = parameter() {dtype = i32, shape = shape[%s], index = %d}",
          inner.next_id, dims, i);
    if (i >= num_declared) {
      print_ref(w, " captures (", *v);
      print(w, ")");
    }
    print(w, " : i32[%s]\n", dims);
    add_value(&inner, inner.next_id++, 0, v->differs);
  }
  return inner;
}

static void write_nodes(writer *w, int count);

static void write_while(writer *w) {
  value carried[5], captures[3];
  write_constant(w, 0);
  carried[0] = w->values[w->count - 1];
  const int count = 1 + choose(w, 4, true, carried + 1);
  const int seen = choose(w, 3, true, captures);
  const int id = w->next_id++;
  print(w, "%%%d:%d = while(", id, count);
  for (int i = 0; i < count; ++i)
    print_ref(w, i == 0 ? "" : ", ", carried[i]);
  for (int i = 0; i < seen; ++i)
    print_ref(w, ", ", captures[i]);
  print(w, ") {num_carried = %d} (", count);
  writer condition = open_region(w, "c\" loop", carried, count, NULL, 0);
  write_constant(&condition, pick(4));
  print(w, "%%%d = less(%%1, %%%d) : bool[]\nreturn %%%d }, ",
        condition.next_id, condition.next_id - 1, condition.next_id);
  writer body = open_region(w, "b\" loop", carried, count, captures, seen);
  write_nodes(&body, 1 + pick(4));
  write_constant(&body, 1);
  const int next = body.next_id++;
  print(w, "%%%d = add(%%1, %%%d) : i32[]\nreturn %%%d", next, next - 1, next);
  for (int i = 1; i < count; ++i)
    print_ref(w, ", ", body.values[find(&body, carried[i].differs)]);
  print(w, " })");
  print_types(w, carried, count);
  for (int i = 0; i < count; ++i)
    add_value(w, id, i, carried[i].differs);
}

static void write_cond(writer *w) {
  const value a = w->values[find(w, false)], b = w->values[find(w, false)];
  const int wide = find(w, true);
  value captures[2] = {b, w->values[wide < 0 ? 0 : wide]}, results[3];
  const int seen = wide < 0 ? 1 : 2, count = 1 + pick(3);
  for (int i = 0; i < count; ++i)
    results[i].differs = wide >= 0 && pick(3) > 0;
  const int predicate = w->next_id++, id = w->next_id++;
  print(w, "%%%d = less(", predicate);
  print_ref(w, "", a);
  print_ref(w, ", ", b);
  print(w, ") : bool[]\n%%%d:%d = cond(%%%d", id, count, predicate);
  for (int i = 0; i < 2 * seen; ++i)
    print_ref(w, ", ", captures[i % seen]);
  print(w, ") (");
  for (int k = 0; k < 2; ++k) {
    writer branch =
        open_region(w, k == 0 ? "then\"" : "else\"", NULL, 0, captures, seen);
    write_nodes(&branch, pick(4));
    for (int i = 0; i < count; ++i)
      print_ref(w, i == 0 ? "return " : ", ",
                branch.values[find(&branch, results[i].differs)]);
    print(w, k == 0 ? " }, " : " })");
  }
  print_types(w, results, count);
  for (int i = 0; i < count; ++i)
    add_value(w, id, i, results[i].differs);
}

static void write_host(writer *w) {
  const int wide = find(w, true);
  const bool has_part = wide >= 0 && pick(4) > 0;
  print(w, "%%%d = host(", w->next_id);
  print_ref(w, "", w->values[has_part ? wide : find(w, false)]);
  print(w, ") {kernel = kernel \"ask\", replicas = 5%s} : i32[5]\n",
        has_part ? ", wide = [0]" : "");
  add_value(w, w->next_id++, 0, true);
}

// A loop of a lane's own, for which replicas cannot go side by side.
static void write_own_loop(writer *w) {
  const value x = w->values[find(w, true)];
  write_constant(w, pick(4));
  const int id = w->next_id++;
  print(w, "%%%d:2 = while(%%%d", id, id - 1);
  print_ref(w, ", ", x);
  print(w, ") {num_carried = 2} varying (graph lowered \"c\" loop {"
           " %%1 = parameter() {dtype = i32, shape = shape[], index = 0}"
           " : i32[]"
           " %%2 = parameter() {dtype = i32, shape = shape[], index = 1}"
           " : i32[]"
           " %%3 = constant() {value = i32[] [3]} : i32[]"
           " %%4 = less(%%1, %%3) : bool[] return %%4 },"
           " graph lowered \"b\" loop {"
           " %%1 = parameter() {dtype = i32, shape = shape[], index = 0}"
           " : i32[]"
           " %%2 = parameter() {dtype = i32, shape = shape[], index = 1}"
           " : i32[]"
           " %%3 = constant() {value = i32[] [1]} : i32[]"
           " %%4 = add(%%1, %%3) : i32[] %%5 = mul(%%2, %%4) : i32[]"
           " return %%4, %%5 }) : i32[], i32[]\n");
  add_value(w, id, 1, true);
}

static void write_body(writer *w, int count) {
  print(w, "%%%d = replica_id() varying : i32[]\n", w->next_id);
  add_value(w, w->next_id++, 0, true);
  write_constant(w, pick(9));
  const bool loops = pick(6) == 0;
  for (int i = 0; i < count; ++i) {
    const int kind = pick(7);
    if (kind == 0) {
      print(w, "%%%d = all_reduce(", w->next_id);
      print_ref(w, "", w->values[find(w, pick(4) > 0)]);
      print(w, ") {reduce = \"sum\"} : i32[]\n");
      add_value(w, w->next_id++, 0, false);
    } else if (kind == 1 && loops) {
      write_own_loop(w);
    } else {
      write_plain(w);
    }
  }
}

// An op of replicas: `gathered` results of each, then wide and uniform ones.
static void write_replicate(writer *w, int gathered) {
  value wide[4], captures[3], results[5];
  const int split = pick(2);
  const int num_wide = choose(w, 4, false, wide);
  int seen = 0;
  if (pick(3) > 0) captures[seen++] = w->values[find(w, false)];
  const int num_wide_results = gathered > 0 ? 0 : 1 + pick(3),
            uniform = pick(3);
  const int id = w->next_id++;
  const int outputs = gathered * REPLICAS + num_wide_results + uniform;
  print(w, "%%%d:%d = replicate(", id, outputs);
  for (int i = 0; i < split * REPLICAS; ++i)
    print_ref(w, i == 0 ? "" : ", ", w->values[find(w, false)]);
  for (int i = 0; i < num_wide; ++i)
    print_ref(w, i + split == 0 ? "" : ", ", wide[i]);
  for (int i = 0; i < seen; ++i)
    print_ref(w, split + num_wide + i == 0 ? "" : ", ", captures[i]);
  print(w,
        ") {replicas = 5, num_split = %d, num_wide_split = %d, num_gathered ="
        " %d, num_wide_gathered = %d} (graph lowered \"r\" {\n",
        split, num_wide, gathered, num_wide_results);
  writer inner = {.text = w->text, .next_id = 1, .inside = true};
  for (int i = 0; i < split + num_wide + seen; ++i) {
    const bool differs = i < split + num_wide;
    print(w, "%%%d = parameter() {dtype = i32, shape = shape[], index = %d}",
          inner.next_id, i);
    if (!differs) {
      print_ref(w, " captures (", captures[i - split - num_wide]);
      print(w, ")");
    }
    print(w, "%s : i32[]\n", differs ? " varying" : "");
    add_value(&inner, inner.next_id++, 0, differs);
  }
  write_body(&inner, 1 + pick(8));
  const int differing = gathered + num_wide_results;
  for (int i = 0; i < differing + uniform; ++i)
    print_ref(w, i == 0 ? "return " : ", ",
              inner.values[find(&inner, i < differing && pick(5) > 0)]);
  print(w, " })");
  for (int i = 0; i < num_wide_results + uniform; ++i)
    results[i].differs = i < num_wide_results;
  for (int i = 0; i < gathered * REPLICAS; ++i)
    print(w, "%s i32[]", i == 0 ? " :" : ",");
  for (int i = 0; i < num_wide_results + uniform; ++i)
    print(w, "%s i32[%s]", i + gathered == 0 ? " :" : ",",
          dims_of(w, results[i].differs));
  print(w, "\n");
  for (int i = 0; i < outputs; ++i)
    add_value(w, id, i,
              i >= gathered * REPLICAS &&
                  i < gathered * REPLICAS + num_wide_results);
}

static void write_nodes(writer *w, int count) {
  write_constant(w, pick(100) - 50);
  for (int i = 0; i < count; ++i) {
    const int kind = pick(8);
    if (kind == 0 && w->depth < DEPTH)
      write_while(w);
    else if (kind == 1 && w->depth < DEPTH)
      write_cond(w);
    else if (kind == 2)
      write_host(w);
    else if (kind < 6)
      write_replicate(w, 0);
    else
      write_plain(w);
  }
}

// Its results are those of each replica of a last op, twice.
static char *write_program(void) {
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  writer w = {.text = &text, .next_id = 1};
  print(&w, "graph lowered \"p\" {\n");
  for (int i = 0; i < INPUTS; ++i) {
    print(&w,
          "%%%d = parameter() {dtype = i32, shape = shape[], index = %d} "
          ": i32[]\n",
          w.next_id, i);
    add_value(&w, w.next_id++, 0, false);
  }
  write_nodes(&w, 3 + pick(8));
  const int id = w.next_id;
  write_replicate(&w, 2);
  print(&w, "return");
  for (int i = 0; i < 2 * REPLICAS; ++i)
    print(&w, "%s %%%d:%d", i == 0 ? "" : ",", id, i);
  print(&w, " }");
  return ls_text_finish(&text);
}

// ---- Comparing -------------------------------------------------------------
enum { OUTPUTS = 2 * REPLICAS };

static ls_status start_asking(ls_host_call *call) {
  *(int32_t *)call->outputs[0] =
      (int32_t)(3 * *(const uint32_t *)call->inputs[0] +
                (uint32_t)call->replica);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel ask = {"ask", lowered_infer_same, start_asking, 0};
static const ls_host_kernel *const kernels[] = {&ask};

// The program with this number, run twice.
static ls_status check(uint64_t seed) {
  drawn = seed;
  char *text = write_program();
  lowered program;
  ls_status status = lowered_create(&(lowered_options){.text = text,
                                                       .replicas = REPLICAS,
                                                       .kernels = kernels,
                                                       .num_kernels = 1},
                                    &program);
  for (int run = 0; run < 2 && ls_status_is_ok(status); ++run) {
    int32_t numbers[INPUTS], got[OUTPUTS];
    row parameters[INPUTS], want[OUTPUTS];
    const void *inputs[INPUTS];
    void *outputs[OUTPUTS];
    for (int i = 0; i < INPUTS; ++i) {
      numbers[i] = 7 * i - 3 * run;
      inputs[i] = &numbers[i];
      for (int r = 0; r < REPLICAS; ++r)
        parameters[i][r] = numbers[i];
    }
    for (int i = 0; i < OUTPUTS; ++i)
      outputs[i] = &got[i];
    evaluate(program.program->body, parameters, want);
    status = lowered_run(&program, inputs, outputs);
    for (int i = 0; i < OUTPUTS && ls_status_is_ok(status); ++i)
      if (got[i] != want[i][0])
        status =
            ls_internal("output %d: wanted %d, got %d", i, want[i][0], got[i]);
  }
  if (!ls_status_is_ok(status))
    status = ls_status_annotate(status, "program %llu:\n%s",
                                (unsigned long long)seed, text);
  lowered_destroy(&program);
  ls_release(ls_allocator_system(), text);
  return status;
}

static ls_status check_on_rank(ls_trunk *trunk, void *user) {
  (void)user;
  ls_runtime *runtime = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_create(
      &(ls_runtime_options){.threads = 1, .trunk = trunk}, &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  ls_status status = ls_ok();
  for (uint64_t seed = 1; seed <= PROGRAMS && ls_status_is_ok(status); ++seed)
    status = check(seed);
  ls_runtime_make_current(before);
  return ls_status_join(status, ls_runtime_destroy(runtime));
}

static void so_do_they_on_ranks(void **state) {
  (void)state;
  for (int32_t ranks = 2; ranks <= 4; ++ranks)
    expect_ok(ls_standin_run(ranks, check_on_rank, NULL));
}

static void random_programs_give_what_an_evaluator_gives(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= PROGRAMS; ++seed) {
    ls_status status = check(seed);
    if (!ls_status_is_ok(status))
      print_error("%s\n", ls_status_message(status));
    expect_ok(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_programs_give_what_an_evaluator_gives),
  };
  const struct CMUnitTest on_ranks[] = {
      cmocka_unit_test(so_do_they_on_ranks),
  };
  return cmocka_run_group_tests_name("ranks", on_ranks, NULL, NULL) +
         lanes_run_tests(tests, LS_COUNT_OF(tests), NULL, 0);
}

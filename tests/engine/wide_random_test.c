// SPDX-License-Identifier: Apache-2.0
// The CPU engine against a plain evaluator, on random programs in which values
// of all replicas go from op to op, through loops and branches and to the host,
// and ops have other numbers of replicas.
#include <string.h>

#include "base/memory/allocator.h"
#include "base/text.h"
#include "lockstep/communicator.h"
#include "support/callbacks.h"
#include "support/place.h"
#include "support/replica_lanes.h"
#include "support/sanitizer.h"
#include "support/wide_evaluate.h"

enum {
  PROGRAMS = LS_SANITIZED ? 10 : 40,
  REPLICAS = 5,  // Of the last op.
  INPUTS = 4,
  DEPTH = 3
};

// ---- Writing ---------------------------------------------------------------
static _Thread_local uint64_t drawn;  // Ranks are threads.

static int pick(int count) {
  drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((drawn >> 33) % (uint64_t)count);
}

// Outside of replicas `wide` says of how many replicas a value is, 0 that it is
// one for all; inside 1 that it varies.
typedef struct value {
  int id, output, wide;
} value;

// ANY: wide, of any number.
enum { ONE = 0, VARIES = 1, ANY = -1 };

typedef struct writer {
  ls_text *text;
  value values[WIDE_MOST_VALUES];
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

static void add_value(writer *w, int id, int output, int wide) {
  if (w->count < WIDE_MOST_VALUES)
    w->values[w->count++] = (value){id, output, wide};
}

// The newest are more often taken. -1 if there is none of the kind.
static int find(const writer *w, int wide) {
  int found[WIDE_MOST_VALUES], count = 0;
  for (int i = w->count; i-- > 0;)
    if (wide == ANY ? w->values[i].wide != ONE : w->values[i].wide == wide)
      found[count++] = i;
  if (count == 0) return -1;
  return found[pick(pick(2) == 0 && count > 3 ? 3 : count)];
}

static const char *dims_of(const writer *w, int wide) {
  static const char *const dims[] = {"", "1", "2", "3", "4", "5", "6", "7"};
  return dims[w->inside ? ONE : wide];
}

// On four ranks each hosts one or more, or there is one for all.
static int pick_replicas(void) {
  static const int counts[] = {5, 4, 7, 5, 1};
  return counts[pick(LS_COUNT_OF(counts))];
}

static void print_types(writer *w, const value *values, int count) {
  for (int i = 0; i < count; ++i)
    print(w, "%s i32[%s]", i == 0 ? " :" : ",", dims_of(w, values[i].wide));
  print(w, "\n");
}

static void print_ref(writer *w, const char *before, value v) {
  print(w, "%s%%%d:%d", before, v.id, v.output);
}

static void write_constant(writer *w, int number) {
  print(w, "%%%d = constant() {value = i32[] [%d]} : i32[]\n", w->next_id,
        number);
  add_value(w, w->next_id++, 0, ONE);
}

static void write_plain(writer *w) {
  static const char *const ops[] = {"add", "sub", "mul"};
  const value a = w->values[find(w, ONE)];
  const int varying = w->inside && pick(4) > 0 ? find(w, VARIES) : -1;
  const value b = w->values[varying >= 0 ? varying : find(w, ONE)];
  print(w, "%%%d = %s(", w->next_id, ops[pick(3)]);
  print_ref(w, "", pick(2) == 0 ? a : b);
  print_ref(w, ", ", b);
  print(w, ")%s : i32[]\n", b.wide != ONE ? " varying" : "");
  add_value(w, w->next_id++, 0, b.wide);
}

// Some values, none of them twice.
static int choose(const writer *w, int most, int wide, bool uniform_too,
                  value *out) {
  int count = 0;
  for (int i = 0; i < most; ++i) {
    const int at = find(w, !uniform_too || pick(2) == 0 ? wide : ONE);
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
    const char *dims = dims_of(w, v->wide);
    print(w, "%%%d = parameter() {dtype = i32, shape = shape[%s], index = %d}",
          inner.next_id, dims, i);
    if (i >= num_declared) {
      print_ref(w, " captures (", *v);
      print(w, ")");
    }
    print(w, " : i32[%s]\n", dims);
    add_value(&inner, inner.next_id++, 0, v->wide);
  }
  return inner;
}

static void write_nodes(writer *w, int count);

static void write_while(writer *w) {
  value carried[5], captures[3];
  write_constant(w, 0);
  carried[0] = w->values[w->count - 1];
  const int count = 1 + choose(w, 4, ANY, true, carried + 1);
  const int seen = choose(w, 3, ANY, true, captures);
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
    print_ref(w, ", ", body.values[find(&body, carried[i].wide)]);
  print(w, " })");
  print_types(w, carried, count);
  for (int i = 0; i < count; ++i)
    add_value(w, id, i, carried[i].wide);
}

static void write_cond(writer *w) {
  const value a = w->values[find(w, ONE)], b = w->values[find(w, ONE)];
  const int wide = find(w, ANY);
  value captures[2] = {b, w->values[wide < 0 ? 0 : wide]}, results[3];
  const int seen = wide < 0 ? 1 : 2, count = 1 + pick(3);
  for (int i = 0; i < count; ++i)
    results[i].wide = wide >= 0 && pick(3) > 0 ? captures[1].wide : ONE;
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
                branch.values[find(&branch, results[i].wide)]);
    print(w, k == 0 ? " }, " : " })");
  }
  print_types(w, results, count);
  for (int i = 0; i < count; ++i)
    add_value(w, id, i, results[i].wide);
}

static void write_host(writer *w) {
  const int wide = find(w, ANY);
  const bool has_part = wide >= 0 && pick(4) > 0;
  const int replicas = has_part ? w->values[wide].wide : pick_replicas();
  print(w, "%%%d = host(", w->next_id);
  print_ref(w, "", w->values[has_part ? wide : find(w, ONE)]);
  print(w, ") {kernel = kernel \"ask\", replicas = %d%s} : i32[%d]\n", replicas,
        has_part ? ", wide = [0]" : "", replicas);
  add_value(w, w->next_id++, 0, replicas);
}

// A loop of a lane's own, for which replicas cannot go side by side.
static void write_own_loop(writer *w) {
  const value x = w->values[find(w, VARIES)];
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
  add_value(w, id, 1, VARIES);
}

static void write_body(writer *w, int count) {
  print(w, "%%%d = replica_id() varying : i32[]\n", w->next_id);
  add_value(w, w->next_id++, 0, VARIES);
  write_constant(w, pick(9));
  const bool loops = pick(6) == 0;
  for (int i = 0; i < count; ++i) {
    const int kind = pick(7);
    if (kind == 0) {
      print(w, "%%%d = all_reduce(", w->next_id);
      print_ref(w, "", w->values[find(w, pick(4) > 0 ? VARIES : ONE)]);
      print(w, ") {reduce = \"sum\"} : i32[]\n");
      add_value(w, w->next_id++, 0, ONE);
    } else if (kind == 1 && loops) {
      write_own_loop(w);
    } else {
      write_plain(w);
    }
  }
}

// An op of replicas: `gathered` results of each, then wide and uniform ones.
static void write_replicate(writer *w, int replicas, int gathered) {
  value wide[4], captures[3], results[5];
  const int split = pick(2);
  const int num_wide = choose(w, 4, replicas, false, wide);
  int seen = 0;
  if (pick(3) > 0) captures[seen++] = w->values[find(w, ONE)];
  const int num_wide_results = gathered > 0 ? 0 : 1 + pick(3),
            uniform = pick(3);
  const int id = w->next_id++;
  const int outputs = gathered * replicas + num_wide_results + uniform;
  print(w, "%%%d:%d = replicate(", id, outputs);
  for (int i = 0; i < split * replicas; ++i)
    print_ref(w, i == 0 ? "" : ", ", w->values[find(w, ONE)]);
  for (int i = 0; i < num_wide; ++i)
    print_ref(w, i + split == 0 ? "" : ", ", wide[i]);
  for (int i = 0; i < seen; ++i)
    print_ref(w, split + num_wide + i == 0 ? "" : ", ", captures[i]);
  print(w,
        ") {replicas = %d, num_split = %d, num_wide_split = %d, num_gathered ="
        " %d, num_wide_gathered = %d} (graph lowered \"r\" {\n",
        replicas, split, num_wide, gathered, num_wide_results);
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
    add_value(&inner, inner.next_id++, 0, differs ? VARIES : ONE);
  }
  write_body(&inner, 1 + pick(8));
  const int differing = gathered + num_wide_results;
  for (int i = 0; i < differing + uniform; ++i)
    print_ref(w, i == 0 ? "return " : ", ",
              inner.values[find(&inner,
                                i < differing && pick(5) > 0 ? VARIES : ONE)]);
  print(w, " })");
  for (int i = 0; i < num_wide_results + uniform; ++i)
    results[i].wide = i < num_wide_results ? replicas : ONE;
  for (int i = 0; i < gathered * replicas; ++i)
    print(w, "%s i32[]", i == 0 ? " :" : ",");
  for (int i = 0; i < num_wide_results + uniform; ++i)
    print(w, "%s i32[%s]", i + gathered == 0 ? " :" : ",",
          dims_of(w, results[i].wide));
  print(w, "\n");
  for (int i = 0; i < outputs; ++i)
    add_value(w, id, i,
              i >= gathered * replicas &&
                      i < gathered * replicas + num_wide_results
                  ? replicas
                  : ONE);
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
      write_replicate(w, pick_replicas(), 0);
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
    add_value(&w, w.next_id++, 0, ONE);
  }
  write_nodes(&w, 3 + pick(8));
  const int id = w.next_id;
  write_replicate(&w, REPLICAS, 2);
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

static const ls_host_kernel ask = {
    .name = "ask", .infer = infer_like_first, .start = start_asking};
static const ls_host_kernel *const kernels[] = {&ask};

// The program with this number, run twice.
static ls_status check(uint64_t seed) {
  drawn = seed;
  char *text = write_program();
  lowered program;
  ls_status status = lowered_create(
      &(lowered_options){.text = text, .kernels = kernels, .num_kernels = 1},
      &program);
  for (int run = 0; run < 2 && ls_status_is_ok(status); ++run) {
    int32_t numbers[INPUTS], got[OUTPUTS];
    wide_row parameters[INPUTS], want[OUTPUTS];
    const void *inputs[INPUTS];
    void *outputs[OUTPUTS];
    for (int i = 0; i < INPUTS; ++i) {
      numbers[i] = 7 * i - 3 * run;
      inputs[i] = &numbers[i];
      for (int r = 0; r < WIDE_MOST_REPLICAS; ++r)
        parameters[i][r] = numbers[i];
    }
    for (int i = 0; i < OUTPUTS; ++i)
      outputs[i] = &got[i];
    wide_evaluate(program.program->body, 1, parameters, want);
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

static ls_status check_on_rank(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  ls_status status = ls_ok();
  for (uint64_t seed = 1; seed <= PROGRAMS && ls_status_is_ok(status); ++seed)
    status = check(seed);
  return status;
}

ONCE_TEST(so_do_they_on_ranks) {
  for (int32_t ranks = 2; ranks <= 4; ++ranks)
    expect_ok(ls_standin_run(ranks, check_on_rank, NULL));
}

TEST(random_programs_give_what_an_evaluator_gives) {
  for (uint64_t seed = 1; seed <= PROGRAMS; ++seed) {
    ls_status status = check(seed);
    if (!ls_status_is_ok(status))
      print_error("%s\n", ls_status_message(status));
    expect_ok(status);
  }
}

TEST_FILE(.run = lanes_run_tests)

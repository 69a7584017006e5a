// SPDX-License-Identifier: Apache-2.0
// The CPU engine against a plain evaluator, on random programs: what shares
// memory, works in place, is carried or parks must not show in any result.
#include "support/evaluate.h"
#include "support/expect.h"
#include "support/lowered.h"

#include <string.h>

#include "base/memory/allocator.h"
#include "base/text.h"
#include "base/values/random.h"

enum {
  PROGRAMS = 600,
  INPUTS = 2,
  USES = 3,
  OUTPUTS = 4,
};

// ---- Random numbers --------------------------------------------------------
static ls_random_key random_key;

static int pick(int count) {
  uint32_t bits[4];
  ls_random_bits(&random_key, 0, bits);
  ++random_key.step;
  return (int)(bits[0] % (uint32_t)count);
}

// ---- Writing programs ------------------------------------------------------
// A value of the graph that is being written.
typedef struct value {
  int id, output;
  bool varying;
} value;

typedef struct writer {
  ls_text *text;
  value values[MOST];
  int count;
  int next_id;
  int depth;           // Of regions around.
  bool in_replica;     // At the top level of a replicate region.
  bool has_replicate;  // The program may hold one here.
} writer;

static void print(writer *w, const char *format, ...) LS_PRINTF(2, 3);
static void print(writer *w, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ls_text_append_format_v(w->text, format, arguments);
  va_end(arguments);
}

static void add_value(writer *w, int id, int output, bool varying) {
  if (w->count < MOST) w->values[w->count++] = (value){id, output, varying};
}

// Recent values more often than old ones.
static value any(const writer *w) {
  const int range = pick(2) == 0 && w->count > 4 ? 4 : w->count;
  return w->values[w->count - 1 - pick(range)];
}

static void print_value(writer *w, value v) {
  print(w, "%%%d:%d", v.id, v.output);
}

static void print_types(writer *w, int count) {
  for (int i = 0; i < count; ++i)
    print(w, "%s i32[]", i == 0 ? " :" : ",");
  print(w, "\n");
}

static const char *mark(bool varying) { return varying ? " varying" : ""; }

static void write_nodes(writer *w, int count);

static void write_constant(writer *w, int number) {
  print(w, "%%%d = constant() {value = i32[] [%d]} : i32[]\n", w->next_id,
        number);
  add_value(w, w->next_id++, 0, false);
}

static void write_plain(writer *w) {
  static const char *const ops[] = {"add", "sub", "mul", "maximum"};
  const value a = any(w), b = any(w);
  print(w, "%%%d = %s(", w->next_id, ops[pick(4)]);
  print_value(w, a);
  print(w, ", ");
  print_value(w, b);
  const bool varying = a.varying || b.varying;
  print(w, ")%s : i32[]\n", mark(varying));
  add_value(w, w->next_id++, 0, varying);
}

// Values that a region captures, each once.
static int choose_captures(const writer *w, value *captures) {
  int count = 0;
  for (int tries = 0; tries < 3; ++tries) {
    const value v = any(w);
    bool known = false;
    for (int i = 0; i < count; ++i) {
      known |= captures[i].id == v.id && captures[i].output == v.output;
    }
    if (!known) captures[count++] = v;
  }
  return count;
}

static void print_operands(writer *w, const value *values, int count) {
  for (int i = 0; i < count; ++i) {
    print(w, ", ");
    print_value(w, values[i]);
  }
}

// Opens a region; its parameters are what there is in it.
static writer open_region(writer *w, const char *kind, int num_declared,
                          const value *captures, int num_captures) {
  writer inner = {.text = w->text, .next_id = 1, .depth = w->depth + 1};
  print(w, "graph lowered \"%s {\n", kind);
  for (int i = 0; i < num_declared + num_captures; ++i) {
    print(w, "%%%d = parameter() {dtype = i32, shape = shape[], index = %d}",
          inner.next_id, i);
    if (i >= num_declared) {
      print(w, " captures (");
      print_value(w, captures[i - num_declared]);
      print(w, ")");
    }
    print(w, " : i32[]\n");
    add_value(&inner, inner.next_id++, 0, false);
  }
  return inner;
}

// Closes it with `count` results, the first being `first` unless 0.
static void close_region(writer *w, int first, int count) {
  print(w, "return ");
  for (int i = 0; i < count; ++i) {
    if (i > 0) print(w, ", ");
    if (i == 0 && first != 0) {
      print(w, "%%%d", first);
    } else {
      print_value(w, any(w));
    }
  }
  print(w, " }");
}

static void write_while(writer *w) {
  value initial[4], outside[3], seen[3];
  const int carried = 1 + pick(4);  // The counter is one of them.
  for (int i = 0; i < carried; ++i)
    initial[i] = any(w);
  const int num_outside = choose_captures(w, outside);
  const int num_seen = choose_captures(w, seen);
  write_constant(w, 0);
  const value zero = w->values[w->count - 1];
  const int id = w->next_id++;
  bool varying = false;
  for (int i = 1; i < carried; ++i)
    varying |= initial[i].varying;
  for (int i = 0; i < num_outside; ++i)
    varying |= outside[i].varying;
  for (int i = 0; i < num_seen; ++i)
    varying |= seen[i].varying;
  print(w, "%%%d:%d = while(", id, carried);
  print_value(w, zero);
  print_operands(w, initial + 1, carried - 1);
  print_operands(w, outside, num_outside);
  print_operands(w, seen, num_seen);
  print(w, ") {num_carried = %d, max_trips = %d}%s (", carried, pick(4),
        mark(varying));
  writer condition = open_region(w, "c\" loop", carried, outside, num_outside);
  write_nodes(&condition, pick(2));
  write_constant(&condition, pick(4));
  print(w, "%%%d = less(%%1, %%%d) : bool[]\nreturn %%%d }, ",
        condition.next_id, condition.next_id - 1, condition.next_id);
  writer body = open_region(w, "b\" loop", carried, seen, num_seen);
  write_nodes(&body, pick(5));
  write_constant(&body, 1);
  const int next = body.next_id++;
  print(w, "%%%d = add(%%1, %%%d) : i32[]\n", next, next - 1);
  close_region(&body, next, carried);
  print(w, ")");
  print_types(w, carried);
  for (int i = 0; i < carried; ++i)
    add_value(w, id, i, varying);
}

static void write_cond(writer *w) {
  const value a = any(w), b = any(w);
  value captures[2][3];
  int counts[2];
  bool varying = a.varying || b.varying;
  for (int k = 0; k < 2; ++k) {
    counts[k] = choose_captures(w, captures[k]);
    for (int i = 0; i < counts[k]; ++i)
      varying |= captures[k][i].varying;
  }
  const int predicate = w->next_id++, id = w->next_id++;
  const int results = 1 + pick(3);
  print(w, "%%%d = less(", predicate);
  print_value(w, a);
  print(w, ", ");
  print_value(w, b);
  print(w, ")%s : bool[]\n%%%d:%d = cond(%%%d", mark(a.varying || b.varying),
        id, results, predicate);
  for (int k = 0; k < 2; ++k)
    print_operands(w, captures[k], counts[k]);
  print(w, ")%s (", mark(varying));
  for (int k = 0; k < 2; ++k) {
    writer branch =
        open_region(w, k == 0 ? "then\"" : "else\"", 0, captures[k], counts[k]);
    write_nodes(&branch, pick(4));
    close_region(&branch, 0, results);
    print(w, k == 0 ? ", " : ")");
  }
  print_types(w, results);
  for (int i = 0; i < results; ++i)
    add_value(w, id, i, varying);
}

static void write_all_reduce(writer *w) {
  static const char *const reductions[] = {"sum", "max", "min"};
  print(w, "%%%d = all_reduce(", w->next_id);
  print_value(w, any(w));
  print(w, ") {reduce = \"%s\"} : i32[]\n", reductions[pick(3)]);
  add_value(w, w->next_id++, 0, false);
}

static void write_replicate(writer *w) {
  enum { SPLIT = 2, GATHERED = 2 };
  value captures[3];
  const int num_captures = choose_captures(w, captures);
  const int id = w->next_id++;
  print(w, "%%%d:%d = replicate(", id, GATHERED * REPLICAS + 2);
  for (int i = 0; i < SPLIT * REPLICAS; ++i) {
    if (i > 0) print(w, ", ");
    print_value(w, any(w));
  }
  print_operands(w, captures, num_captures);
  print(w, ") {replicas = %d, num_split = %d, num_gathered = %d} (", REPLICAS,
        SPLIT, GATHERED);
  writer inner = {
      .text = w->text, .next_id = 1, .depth = w->depth + 1, .in_replica = true};
  print(w, "graph lowered \"r\" {\n");
  for (int i = 0; i < SPLIT + num_captures; ++i) {
    const bool is_split = i < SPLIT;
    print(w, "%%%d = parameter() {dtype = i32, shape = shape[], index = %d}%s",
          inner.next_id, i, mark(is_split));
    if (!is_split) {
      print(w, " captures (");
      print_value(w, captures[i - SPLIT]);
      print(w, ")");
    }
    print(w, " : i32[]\n");
    add_value(&inner, inner.next_id++, 0, is_split);
  }
  write_nodes(&inner, 3 + pick(12));
  value uniform[MOST];
  int num_uniform = 0;
  for (int i = 0; i < inner.count; ++i) {
    if (!inner.values[i].varying) uniform[num_uniform++] = inner.values[i];
  }
  print(w, "return ");
  for (int i = 0; i < GATHERED + 2; ++i) {
    if (i > 0) print(w, ", ");
    print_value(w, i < GATHERED ? any(&inner) : uniform[pick(num_uniform)]);
  }
  print(w, " })");
  print_types(w, GATHERED * REPLICAS + 2);
  for (int i = 0; i < GATHERED * REPLICAS + 2; ++i)
    add_value(w, id, i, false);
}

static void write_nodes(writer *w, int count) {
  for (int i = 0; i < count; ++i) {
    const int kind = pick(12);
    if (kind == 0) {
      write_constant(w, pick(100) - 50);
    } else if (kind == 1 && w->depth < 4) {
      write_while(w);
    } else if (kind == 2 && w->depth < 4) {
      write_cond(w);
    } else if ((kind == 3 || kind == 4) && w->in_replica) {
      write_all_reduce(w);
    } else if (kind == 3 && w->has_replicate) {
      write_replicate(w);
    } else {
      write_plain(w);
    }
  }
}

static char *write_program(int num_written) {
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  writer w = {.text = &text, .next_id = 1, .has_replicate = true};
  print(&w, "graph lowered \"p\" {\n");
  for (int i = 0; i < INPUTS + USES; ++i) {
    print(&w,
          "%%%d = parameter() {dtype = i32, shape = shape[], index = %d} "
          ": i32[]\n",
          w.next_id, i);
    add_value(&w, w.next_id++, 0, false);
  }
  write_nodes(&w, 3 + pick(12));
  close_region(&w, 0, OUTPUTS + num_written);
  return ls_text_finish(&text);
}

// ---- Comparing -------------------------------------------------------------
static void check_run(lowered *program, int32_t *parameters, const char *text) {
  int32_t want[OUTPUTS + USES], got[OUTPUTS];
  evaluate(program->program->body, parameters, want);
  const void *inputs[INPUTS];
  void *outputs[OUTPUTS];
  for (int i = 0; i < INPUTS; ++i)
    inputs[i] = &parameters[i];
  for (int i = 0; i < OUTPUTS; ++i)
    outputs[i] = &got[i];
  expect_ok(lowered_run(program, inputs, outputs));
  bool equal = memcmp(got, want, sizeof(got)) == 0;
  int result = OUTPUTS;
  for (int i = 0; i < USES; ++i) {
    int32_t *old = &parameters[INPUTS + i];
    if (program->program->uses[i].written) *old = want[result++];
    const int32_t now = *(const int32_t *)program->buffers[i]->data;
    if (now != *old) equal = false;
  }
  if (equal) return;
  char *plan = lowered_plan(program);
  print_error("%s\n%s\n", text, plan);
  for (int i = 0; i < OUTPUTS; ++i) {
    print_error("output %d: wanted %d, got %d\n", i, want[i], got[i]);
  }
  for (int i = 0; i < USES; ++i) {
    print_error("variable %d: wanted %d, got %d\n", i, parameters[INPUTS + i],
                *(const int32_t *)program->buffers[i]->data);
  }
  ls_release(ls_allocator_system(), plan);
  fail();
}

TEST(random_programs_give_what_an_evaluator_gives) {
  for (uint64_t seed = 0; seed < PROGRAMS; ++seed) {
    random_key = (ls_random_key){.seed = seed};
    lowered_options options = {.num_uses = USES};
    int num_written = 0;
    for (int i = 0; i < USES; ++i) {
      options.written[i] = pick(3) != 0;
      num_written += options.written[i];
    }
    char *text = write_program(num_written);
    options.text = text;
    lowered program;
    expect_ok(lowered_create(&options, &program));
    int32_t parameters[INPUTS + USES];
    for (int i = 0; i < INPUTS + USES; ++i)
      parameters[i] = pick(20) - 10;
    for (int i = 0; i < USES; ++i) {
      memcpy(program.buffers[i]->data, &parameters[INPUTS + i], 4);
    }
    for (int run = 0; run < 2; ++run)
      check_run(&program, parameters, text);
    lowered_destroy(&program);
    ls_release(ls_allocator_system(), text);
  }
}

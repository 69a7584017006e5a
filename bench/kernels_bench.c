// SPDX-License-Identifier: Apache-2.0
//
// Ops against the machine's roof, and the price of a call, as a user of the
// public interface gets them: each op is a traced function of one op, on all
// threads, with its result in place. The roof of an op is the longer of the
// times that its flops need at the peak and that its bytes need at the speed
// of a copy, both measured in turn with it on the same threads. Flops are those
// of the sums as they are defined, so that Winograd's algorithm, which needs
// fewer, can be above its roof, and so can causal attention.
//
// Kernels on one core, with layouts: product_bench and convolution_bench.
//
// Usage: kernels_bench [-t THREADS] [-s SECONDS] [-m NAME] [-b] [-d]
//   -t  threads; default: the cores
//   -s  seconds for each row; default 0.3
//   -m  only the rows whose name begins so
//   -b  operands of products are rounded to bf16: LS_MATH_BF16
//   -d  convolutions sum over their taps, always: LS_MATH_DIRECT

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/machine.h"
#include "lockstep/full.h"

enum { MAX_ROUNDS = 4096, LEAST_ROUNDS = 5, MAX_INPUTS = 3 };
enum { MAX_TURNS = 256, LEAST_TURNS = 5 };
#define TURN_SECONDS 0.01
enum { LARGE = 16 << 20 };  // Floats that no cache holds.

typedef struct options {
  int threads;
  double seconds;
  const char *name;
  ls_math math;
} options;

// What the machine can do, in flops and bytes a second.
typedef struct roof {
  double flops, bytes;
} roof;

// ---- Ops -------------------------------------------------------------------
typedef struct op_row {
  const char *name;
  ls_tensor (*make)(const ls_tensor *in);
  ls_shape inputs[MAX_INPUTS];  // Ends at the first scalar.
  double flops;                 // 0: none worth counting.
  bool twice;  // Its first input has to be read to the end before any result.
} op_row;

static const ls_convolution_options same = {.padding = LS_PADDING_SAME};

static ls_tensor make_nn(const ls_tensor *in) {
  return ls_matmul(in[0], in[1]);
}
static ls_tensor make_tn(const ls_tensor *in) {
  return ls_matmul_transposed(in[0], true, in[1], false);
}
static ls_tensor make_nt(const ls_tensor *in) {
  return ls_matmul_transposed(in[0], false, in[1], true);
}
static ls_tensor make_conv(const ls_tensor *in) {
  return ls_convolution(in[0], in[1], &same);
}
// Inputs: dy, w, x.
static ls_tensor make_conv_dx(const ls_tensor *in) {
  return ls_conv_grad_input(in[0], in[1], in[2], &same);
}
// Inputs: x, dy, w.
static ls_tensor make_conv_dw(const ls_tensor *in) {
  return ls_conv_grad_weights(in[0], in[1], in[2], &same);
}
static ls_tensor make_attention(const ls_tensor *in) {
  return ls_attention_packed(
      in[0], &(ls_attention_options){.num_heads = 4, .causal = true});
}
static ls_tensor make_add(const ls_tensor *in) { return ls_add(in[0], in[1]); }
static ls_tensor make_relu(const ls_tensor *in) { return ls_relu(in[0]); }
static ls_tensor make_exp(const ls_tensor *in) { return ls_exp(in[0]); }
static ls_tensor make_tanh(const ls_tensor *in) { return ls_tanh(in[0]); }
static ls_tensor make_gelu(const ls_tensor *in) { return ls_gelu(in[0]); }
static ls_tensor make_softmax(const ls_tensor *in) { return ls_softmax(in[0]); }
static ls_tensor make_layer_norm(const ls_tensor *in) {
  return ls_layer_norm(in[0], in[1], in[2], 1e-5);
}
static ls_tensor make_batch_norm(const ls_tensor *in) {
  return ls_op_output(
      ls_batch_norm(in[0], in[1], in[2], 1e-5, LS_ACTIVATION_NONE), 0);
}
static ls_tensor make_sum(const ls_tensor *in) {
  return ls_reduce_sum(in[0], LS_AXES(1));
}
static ls_tensor make_transpose(const ls_tensor *in) {
  return ls_transpose(in[0], (const int[]){1, 0});
}

// C is m by n, of sums over k.
#define PRODUCT(m, n, k) (2.0 * (m) * (n) * (k))
#define NN(m, n, k)                                                            \
  {                                                                            \
    "product " #m "x" #n "x" #k, make_nn, {LS_SHAPE(m, k), LS_SHAPE(k, n)},    \
        PRODUCT(m, n, k), false                                                \
  }
#define TN(m, n, k)                                                            \
  {                                                                            \
    "product " #m "x" #n "x" #k " TN", make_tn,                                \
        {LS_SHAPE(k, m), LS_SHAPE(k, n)}, PRODUCT(m, n, k), false              \
  }
#define NT(m, n, k)                                                            \
  {                                                                            \
    "product " #m "x" #n "x" #k " NT", make_nt,                                \
        {LS_SHAPE(m, k), LS_SHAPE(n, k)}, PRODUCT(m, n, k), false              \
  }

// 3x3 on b images of s by s with i channels, to o channels.
#define CONV_FLOPS(b, s, i, o) (2.0 * 9 * (b) * (s) * (s) * (i) * (o))
#define CONV(b, s, i, o)                                                       \
  {                                                                            \
    "conv " #b "x" #s "x" #s "x" #i " to " #o, make_conv,                      \
        {LS_SHAPE(b, s, s, i), LS_SHAPE(3, 3, i, o)}, CONV_FLOPS(b, s, i, o),  \
        false                                                                  \
  }
#define CONV_DX(b, s, i, o)                                                    \
  {                                                                            \
    "conv " #b "x" #s "x" #s "x" #i " to " #o " dx", make_conv_dx,             \
        {LS_SHAPE(b, s, s, o), LS_SHAPE(3, 3, i, o), LS_SHAPE(b, s, s, i)},    \
        CONV_FLOPS(b, s, i, o), false                                          \
  }
#define CONV_DW(b, s, i, o)                                                    \
  {                                                                            \
    "conv " #b "x" #s "x" #s "x" #i " to " #o " dw", make_conv_dw,             \
        {LS_SHAPE(b, s, s, i), LS_SHAPE(b, s, s, o), LS_SHAPE(3, 3, i, o)},    \
        CONV_FLOPS(b, s, i, o), false                                          \
  }

static const op_row ops[] = {
    // mlp, the dense layer of cnn, gpt.
    NN(256, 512, 784),
    TN(784, 512, 256),
    NT(256, 512, 512),
    NN(128, 128, 12544),
    TN(12544, 128, 128),
    NT(128, 12544, 128),
    NN(2048, 768, 256),
    NN(2048, 1024, 256),
    TN(256, 1024, 2048),
    NT(2048, 256, 1024),
    NN(1024, 1024, 1024),
    // cnn and the stages of resnet20.
    CONV(128, 28, 1, 32),
    CONV_DW(128, 28, 1, 32),
    CONV(128, 28, 32, 64),
    CONV_DX(128, 28, 32, 64),
    CONV_DW(128, 28, 32, 64),
    CONV(64, 32, 16, 16),
    CONV_DX(64, 32, 16, 16),
    CONV_DW(64, 32, 16, 16),
    CONV(64, 16, 32, 32),
    CONV_DX(64, 16, 32, 32),
    CONV_DW(64, 16, 32, 32),
    CONV(64, 8, 64, 64),
    CONV_DX(64, 8, 64, 64),
    CONV_DW(64, 8, 64, 64),
    // Four heads of 64; scores and their sums, as if none were masked.
    {"attention 16x128x256",
     make_attention,
     {LS_SHAPE(16, 128, 768)},
     2.0 * 2 * 16 * 128 * 128 * 256,
     false},
    {"add", make_add, {LS_SHAPE(LARGE), LS_SHAPE(LARGE)}, 0, false},
    {"relu", make_relu, {LS_SHAPE(LARGE)}, 0, false},
    {"exp", make_exp, {LS_SHAPE(LARGE)}, 0, false},
    {"tanh", make_tanh, {LS_SHAPE(LARGE)}, 0, false},
    {"gelu", make_gelu, {LS_SHAPE(LARGE)}, 0, false},
    {"softmax of rows", make_softmax, {LS_SHAPE(LARGE / 256, 256)}, 0, false},
    {"layer norm of rows",
     make_layer_norm,
     {LS_SHAPE(LARGE / 256, 256), LS_SHAPE(256), LS_SHAPE(256)},
     0,
     false},
    // The first time for the moments.
    {"batch norm, x read twice",
     make_batch_norm,
     {LS_SHAPE(LARGE / 64, 64), LS_SHAPE(64), LS_SHAPE(64)},
     0,
     .twice = true},
    {"sum of rows", make_sum, {LS_SHAPE(LARGE / 1024, 1024)}, 0, false},
    {"transpose", make_transpose, {LS_SHAPE(4096, 4096)}, 0, false},
};

static ls_nest call_op(ls_nest args, void *user) {
  const op_row *row = user;
  ls_tensor in[MAX_INPUTS] = {{0}};
  for (size_t i = 0; i < ls_nest_count(args); ++i)
    in[i] = ls_nest_tensor(args, i);
  return ls_leaf(row->make(in));
}

// A tuple of f32 arrays with numbers in [-0.5, 0.5).
static ls_nest arguments_of(const op_row *row) {
  ls_nest items[MAX_INPUTS];
  size_t count = 0;
  for (; count < MAX_INPUTS && row->inputs[count].rank > 0; ++count) {
    items[count] = ls_nest_zeros(LS_DTYPE_F32, row->inputs[count]);
    float *data = ls_nest_data(items[count], 0);
    const int64_t size = ls_shape_num_elements(row->inputs[count]);
    for (int64_t i = 0; data != NULL && i < size; ++i)
      data[i] = (float)(i * 37 % 101) / 101.0f - 0.5f;
  }
  return ls_nest_sequence(LS_KIND_TUPLE, items, count);
}

static double size_of(ls_nest array) {
  return (double)ls_array_size(ls_nest_as_array(array));
}

// Bytes that must come from memory or go there.
static double bytes_of(const op_row *row, ls_nest args, ls_nest result) {
  double bytes = size_of(result);
  for (size_t i = 0; i < ls_nest_count(args); ++i)
    bytes += size_of(ls_nest_item(args, i));
  return row->twice ? bytes + size_of(ls_nest_item(args, 0)) : bytes;
}

// What came of a row.
typedef struct op_figures {
  double median, least;  // Seconds.
  double bytes;
  roof top;
} op_figures;

static void print_op(const op_row *row, const op_figures *f) {
  const double compute = row->flops / f->top.flops;
  const double move = f->bytes / f->top.bytes;
  printf("  %-32s %10.3f ms %9.3f", row->name, f->median * 1e3, f->least * 1e3);
  if (row->flops > 0)
    printf("  %7.1f Gflop/s", row->flops / f->median * 1e-9);
  else
    printf("  %7.1f GB/s   ", f->bytes / f->median * 1e-9);
  if (compute > move)
    printf("  %5.1f%% of %.1f Gflop/s\n", 100 * compute / f->median,
           f->top.flops * 1e-9);
  else
    printf("  %5.1f%% of %.1f GB/s\n", 100 * move / f->median,
           f->top.bytes * 1e-9);
}

// Two places to copy between, in memory of the kind that operands are in.
typedef struct copied {
  char *from, *to;
} copied;
static const size_t copied_size = (size_t)LARGE * sizeof(float);

// Seconds of all rounds so far.
typedef struct op_times {
  double op[MAX_ROUNDS], peak[MAX_TURNS], copy[MAX_TURNS];
  size_t rounds, turns;
} op_times;

// The machine may be disturbed at any time, so the op takes turns with what it
// is compared to. Its first call of a turn finds the caches full of something
// else, and does not count.
static ls_status take_turn(ls_function *function, ls_nest args, int threads,
                           const copied *data, op_times *times) {
  times->peak[times->turns] = machine_peak_run(threads);
  times->copy[times->turns] =
      machine_copy_run(threads, data->to, data->from, copied_size);
  if (!(times->peak[times->turns] > 0 && times->copy[times->turns] > 0))
    return LS_STATUS(LS_RESOURCE_EXHAUSTED, "no %d threads", threads);
  ++times->turns;
  ls_nest result = {0};
  ls_status status = ls_function_call(function, args, &result);
  double now = machine_seconds();
  const double end = now + TURN_SECONDS;
  do {
    const double before = now;
    if (ls_status_is_ok(status))
      status = ls_function_call(function, args, &result);
    now = machine_seconds();
    times->op[times->rounds++] = now - before;
  } while (ls_status_is_ok(status) && now < end && times->rounds < MAX_ROUNDS);
  ls_nest_release(result);
  return status;
}

static void find_figures(op_times *times, int threads, op_figures *figures) {
  const double peak = machine_median(times->peak, times->turns);
  const double copy = machine_median(times->copy, times->turns);
  figures->top = (roof){machine_peak_flops(threads) / peak,
                        2 * (double)copied_size / copy};
  figures->median = machine_median(times->op, times->rounds);
  figures->least = times->op[0];
}

static ls_status time_op(const op_row *row, const options *opts, int threads,
                         const copied *data, op_figures *figures) {
  static op_times times;
  times.rounds = times.turns = 0;
  ls_function *function = NULL;
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = call_op, .user = (void *)(uintptr_t)row},
      &function));
  const ls_nest args = arguments_of(row);
  ls_nest result = {0};
  // Compiles, and touches the memory.
  ls_status status = ls_function_call(function, args, &result);
  if (ls_status_is_ok(status)) figures->bytes = bytes_of(row, args, result);
  ls_nest_release(result);
  const double start = machine_seconds();
  while (
      ls_status_is_ok(status) && times.turns < MAX_TURNS &&
      times.rounds < MAX_ROUNDS &&
      (times.turns < LEAST_TURNS || machine_seconds() - start < opts->seconds))
    status = take_turn(function, args, threads, data, &times);
  if (ls_status_is_ok(status)) find_figures(&times, threads, figures);
  ls_nest_release(args);
  ls_function_release(function);
  return ls_status_annotate(status, "while timing '%s'", row->name);
}

// ---- Calls -----------------------------------------------------------------
// The calls of one sample, so that the clock does not count.
enum { CALLS = 200 };

typedef struct caller {
  ls_nest args;  // One f32[16].
  ls_function *function;
  ls_strategy *strategy;
  ls_graph *graph;
  ls_session *session;
  ls_nest fetches;
  ls_feed feed;
} caller;

static ls_nest add_one(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_add_scalar(ls_nest_tensor(args, 0), 1));
}

static ls_status call_function(caller *self) {
  ls_nest result = {0};
  ls_status status = ls_ok();
  for (int i = 0; i < CALLS && ls_status_is_ok(status); ++i)
    status = ls_function_call(self->function, self->args, &result);
  ls_nest_release(result);
  return status;
}

static ls_status call_strategy(caller *self) {
  ls_nest result = {0};
  ls_status status = ls_ok();
  for (int i = 0; i < CALLS && ls_status_is_ok(status); ++i)
    status = ls_strategy_run(self->strategy, ls_traced(self->function),
                             self->args, &result);
  ls_nest_release(result);
  return status;
}

static ls_status call_eager(caller *self) {
  LS_RETURN_IF_ERROR(ls_frame_begin());
  ls_tensor x =
      ls_tensor_from_array(ls_nest_as_array(ls_nest_item(self->args, 0)));
  const ls_tensor step = x;
  for (int i = 0; i < CALLS; ++i)
    x = ls_add(x, step);
  const ls_status status = ls_tensor_status(x);
  return ls_status_join(status, ls_frame_end(NULL));
}

static ls_status call_session(caller *self) {
  ls_nest result = {0};
  ls_status status = ls_ok();
  for (int i = 0; i < CALLS && ls_status_is_ok(status); ++i)
    status =
        ls_session_run(self->session, self->fetches, &self->feed, 1, &result);
  ls_nest_release(result);
  return status;
}

typedef struct call_row {
  const char *name;
  ls_status (*call)(caller *self);
} call_row;

static const call_row calls[] = {
    {"call of a function", call_function},
    {"call run by a strategy of 8", call_strategy},
    {"call eager, one op", call_eager},
    {"call of a session", call_session},
};

static ls_status open_caller(caller *self) {
  self->args = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(16)));
  LS_RETURN_IF_ERROR(ls_nest_status(self->args));
  LS_RETURN_IF_ERROR(ls_function_create(&(ls_function_options){.call = add_one},
                                        &self->function));
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(8)}, &self->strategy));
  LS_RETURN_IF_ERROR(ls_graph_create("calls", &self->graph));
  {
    LS_GRAPH_SCOPE(self->graph);
    self->feed.tensor = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(16), "x");
    self->fetches = ls_leaf(ls_add_scalar(self->feed.tensor, 1));
  }
  self->feed.value = ls_nest_as_array(ls_nest_item(self->args, 0));
  return ls_session_create(self->graph, &self->session);
}

static void close_caller(caller *self) {
  ls_session_destroy(self->session);
  ls_graph_destroy(self->graph);
  ls_strategy_release(self->strategy);
  ls_function_release(self->function);
  ls_nest_release(self->args);
}

static ls_status time_call(const call_row *row, caller *self,
                           const options *opts) {
  static double times[MAX_ROUNDS];
  LS_RETURN_IF_ERROR(row->call(self));
  size_t rounds = 0;
  const double start = machine_seconds();
  while (rounds < MAX_ROUNDS &&
         (rounds < LEAST_ROUNDS || machine_seconds() - start < opts->seconds)) {
    const double before = machine_seconds();
    LS_RETURN_IF_ERROR(row->call(self));
    times[rounds++] = (machine_seconds() - before) / CALLS;
  }
  const double median = machine_median(times, rounds);
  printf("  %-32s %10.0f ns %9.0f\n", row->name, median * 1e9, times[0] * 1e9);
  return ls_ok();
}

// ---- All -------------------------------------------------------------------
static bool is_asked(const options *opts, const char *name) {
  return strncmp(name, opts->name, strlen(opts->name)) == 0;
}

static ls_status time_calls(const options *opts) {
  caller self = {0};
  ls_status status = open_caller(&self);
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); ++i) {
    if (ls_status_is_ok(status) && is_asked(opts, calls[i].name))
      status = time_call(&calls[i], &self, opts);
  }
  close_caller(&self);
  return status;
}

static ls_status time_ops(const options *opts, int threads,
                          const copied *data) {
  for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); ++i) {
    op_figures figures = {0};
    if (!is_asked(opts, ops[i].name)) continue;
    LS_RETURN_IF_ERROR(time_op(&ops[i], opts, threads, data, &figures));
    print_op(&ops[i], &figures);
  }
  return ls_ok();
}

static const char *math_name(ls_math math) {
  return math == LS_MATH_FAST   ? "fast"
         : math == LS_MATH_BF16 ? "bf16"
                                : "direct";
}

static ls_status time_all(const options *opts, ls_runtime *runtime) {
  const int threads = ls_runtime_threads(runtime);
  ls_array *memory = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create(LS_DTYPE_F32, LS_SHAPE(2, LARGE), &memory));
  float *const floats = ls_array_mutable_data(memory);
  const copied data = {(char *)floats, (char *)(floats + LARGE)};
  printf("%d thread%s, math %s; the roof is of multiply-adds from registers or "
         "of copies (read and written)\n  %-32s %13s %9s\n",
         threads, threads == 1 ? "" : "s", math_name(opts->math), "", "median",
         "least");
  const ls_status status = time_ops(opts, threads, &data);
  ls_array_release(memory);
  LS_RETURN_IF_ERROR(status);
  return time_calls(opts);
}

int main(int argc, char **argv) {
  options opts = {.seconds = 0.3, .name = ""};
  for (int flag; (flag = getopt(argc, argv, "t:s:m:bd")) != -1;) {
    switch (flag) {
    case 't':
      opts.threads = atoi(optarg);
      break;
    case 's':
      opts.seconds = atof(optarg);
      break;
    case 'm':
      opts.name = optarg;
      break;
    case 'b':
      opts.math = LS_MATH_BF16;
      break;
    case 'd':
      opts.math = LS_MATH_DIRECT;
      break;
    default:
      fprintf(stderr, "usage: kernels_bench [-t THREADS] [-s SECONDS] [-m "
                      "NAME] [-b] [-d]\n");
      return 2;
    }
  }
  ls_runtime *runtime = NULL;
  ls_status status = ls_runtime_create(
      &(ls_runtime_options){.threads = opts.threads, .math = opts.math},
      &runtime);
  if (ls_status_is_ok(status)) {
    ls_runtime_make_current(runtime);
    status = time_all(&opts, runtime);
    ls_runtime_make_current(NULL);
    status = ls_status_join(status, ls_runtime_destroy(runtime));
  }
  if (ls_status_is_ok(status)) return EXIT_SUCCESS;
  fprintf(stderr, "kernels_bench: %s: %s\n",
          ls_code_name(ls_status_code(status)), ls_status_message(status));
  ls_status_free(status);
  return EXIT_FAILURE;
}

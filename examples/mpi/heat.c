// SPDX-License-Identifier: Apache-2.0
// A simulation on many processes that trains a net on its own fields: heat in a
// plate, cut into bands of rows. Whatever the number of processes, the net has
// the same weights.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/eager.h"
#include "lockstep/lockstep.h"
#include "lockstep/mpi.h"
#include "lockstep/training_parts.h"

enum { BANDS = 12, ROWS = 4, WIDTH = 48, STEPS = 60, CELLS = ROWS * WIDTH };

// The rows of this process's bands, and one more on each side.
typedef struct plate {
  MPI_Comm comm;
  int rank, ranks, first, end;  // Its bands.
  float now[BANDS * ROWS + 2][WIDTH], next[BANDS * ROWS + 2][WIDTH];
} plate;

// ---- The simulation --------------------------------------------------------
static void plate_init(plate *self) {
  MPI_Comm_dup(MPI_COMM_WORLD, &self->comm);
  MPI_Comm_rank(self->comm, &self->rank);
  MPI_Comm_size(self->comm, &self->ranks);
  self->first = BANDS * self->rank / self->ranks;
  self->end = BANDS * (self->rank + 1) / self->ranks;
  for (int y = self->first * ROWS; y < self->end * ROWS; ++y)
    for (int x = 0; x < WIDTH; ++x)
      self->now[y + 1][x] = (float)((x * 7 + y * 13) % 17) / 17;
}

static void exchange_borders(plate *self) {
  const int up = self->rank > 0 ? self->rank - 1 : MPI_PROC_NULL;
  const int down =
      self->rank + 1 < self->ranks ? self->rank + 1 : MPI_PROC_NULL;
  float(*rows)[WIDTH] = self->now;
  const int top = self->first * ROWS + 1, bottom = self->end * ROWS;
  MPI_Sendrecv(rows[top], WIDTH, MPI_FLOAT, up, 0, rows[bottom + 1], WIDTH,
               MPI_FLOAT, down, 0, self->comm, MPI_STATUS_IGNORE);
  MPI_Sendrecv(rows[bottom], WIDTH, MPI_FLOAT, down, 1, rows[top - 1], WIDTH,
               MPI_FLOAT, up, 1, self->comm, MPI_STATUS_IGNORE);
}

// Lets heat flow for a moment, and notes each cell with its eight neighbours
// before, and its change.
static void plate_step(plate *self, float (*cells)[9], float *changes) {
  exchange_borders(self);
  for (int y = self->first * ROWS; y < self->end * ROWS; ++y)
    for (int x = 0; x < WIDTH; ++x) {
      float *cell = cells[y * WIDTH + x];
      for (int i = 0; i < 9; ++i)
        cell[i] = self->now[y + i / 3][(x + i % 3 + WIDTH - 1) % WIDTH];
      const float flow = cell[1] + cell[3] + cell[5] + cell[7] - 4 * cell[4];
      changes[y * WIDTH + x] = flow * (0.1F + 0.1F * cell[4]);
      self->next[y + 1][x] = cell[4] + changes[y * WIDTH + x];
    }
  memcpy(self->now, self->next, sizeof(self->now));
}

// ---- The net ---------------------------------------------------------------
typedef struct net {
  ls_dense_layer *hidden, *output;
  ls_optimizer *optimizer;
} net;

static ls_nest step(ls_nest args, void *user) {
  const net *n = user;
  const ls_tensor change = ls_dense_layer_apply(
      n->output, ls_dense_layer_apply(n->hidden, ls_nest_tensor(args, 0)));
  const ls_tensor loss =
      ls_mean_squared_error(change, ls_nest_tensor(args, 1), LS_REDUCTION_MEAN);
  ls_optimizer_minimize(n->optimizer, loss);
  return ls_leaf(loss);
}

static ls_status print_weights(const plate *self, const net *n) {
  ls_array *kernel = NULL;
  LS_RETURN_IF_ERROR(
      ls_variable_value(ls_dense_layer_kernel(n->output), &kernel));
  for (int i = 0; self->rank == 0 && i < 16; ++i)
    printf("%a%c", ls_array_f64(kernel, i), i % 4 == 3 ? '\n' : ' ');
  ls_array_release(kernel);
  return ls_ok();
}

static ls_status train(ls_bag *bag, plate *self) {
  net n = {.hidden =
               ls_dense_layer_in(bag, .name = "hidden", .inputs = 9,
                                 .units = 16, .activation = LS_ACTIVATION_RELU),
           .output = ls_dense_layer_in(bag, .name = "output", .inputs = 16,
                                       .units = 1),
           .optimizer = ls_adam_in(bag, .learning_rate = 0.01)};
  ls_strategy *strategy =
      ls_mirrored_strategy_in(bag, .num_replicas = LS_SOME(BANDS));
  ls_function *function = ls_function_in(bag, .call = step, .user = &n);
  // A replica reads its own band alone, so the others' rows may stay empty.
  ls_nest *fields = ls_nest_in(
      bag, LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(BANDS * CELLS, 9)),
                    ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(BANDS * CELLS, 1))));
  ls_nest *losses = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; i < STEPS; ++i) {
    ls_nest args = ls_none();
    plate_step(self, ls_nest_data(*fields, 0), ls_nest_data(*fields, 1));
    LS_RETURN_IF_ERROR(ls_train_split(strategy, *fields, &args));
    const ls_status status =
        ls_strategy_run(strategy, ls_traced(function), args, losses);
    ls_nest_release(args);
    LS_RETURN_IF_ERROR(status);
  }
  return print_weights(self, &n);
}

static ls_status run(plate *self) {
  ls_bag bag = {0};
  ls_runtime *runtime = NULL;
  ls_communicator *ranks = NULL;
  LS_RETURN_IF_ERROR(ls_mpi_open(
      &(ls_mpi_options){.communicator = LS_SOME(MPI_Comm_c2f(self->comm))},
      &ranks));
  ls_status status = ls_runtime_create(
      &(ls_runtime_options){.threads = 1, .communicator = ranks}, &runtime);
  if (ls_status_is_ok(status)) {
    ls_runtime_make_current(runtime);
    status = train(&bag, self);
    ls_bag_empty(&bag);
    ls_runtime_make_current(NULL);
    status = ls_status_join(status, ls_runtime_destroy(runtime));
  }
  return ls_status_join(status, ls_mpi_close(ranks));
}

int main(int argc, char **argv) {
  static plate self;
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  plate_init(&self);
  const ls_status status = run(&self);
  const int code = ls_status_is_ok(status) ? 0 : 1;
  if (code != 0) fprintf(stderr, "%s\n", ls_status_message(status));
  ls_status_free(status);
  MPI_Comm_free(&self.comm);
  MPI_Finalize();
  return code;
}

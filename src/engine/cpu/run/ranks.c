// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/ranks.h"

#include "base/memory/own.h"
#include "base/trace.h"
#include "engine/cpu/run/sums.h"

// ---- Subtrees --------------------------------------------------------------
static uint32_t first_replica(const ls_communicator *communicator, int32_t rank,
                              int32_t replicas) {
  return (uint32_t)ls_communicator_first(communicator, rank, replicas);
}

uint32_t ls_cpu_ranks_shift(const ls_communicator *communicator,
                            int32_t replicas) {
  uint32_t borders = 0;
  for (int32_t k = 1; k < communicator->ranks; ++k)
    borders |= first_replica(communicator, k, replicas);
  return (uint32_t)__builtin_ctz(borders);
}

// Returns the end of the largest subtree that starts at replica `at` and
// contains none from `end` on: 2^k replicas from a multiple of 2^k, or the rest
// of all.
static uint32_t subtree_end(uint32_t at, uint32_t end, uint32_t replicas) {
  uint32_t size = at == 0 ? 1U << 31 : at & (~at + 1);
  for (;; size /= 2) {
    const uint32_t found = replicas - at < size ? replicas : at + size;
    if (found <= end) return found;
  }
}

static uint32_t count_subtrees(uint32_t at, uint32_t end, uint32_t replicas) {
  uint32_t count = 0;
  for (; at < end; ++count)
    at = subtree_end(at, end, replicas);
  return count;
}

uint32_t ls_cpu_ranks_leaves(const ls_cpu_share *share, ls_cpu_leaf *leaves) {
  const uint32_t first = (uint32_t)share->first;
  const uint32_t count = (uint32_t)share->end - first;
  uint32_t depth = 0, waiting = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t after =
        count_subtrees(first, first + i + 1, (uint32_t)share->replicas);
    leaves[i] = (ls_cpu_leaf){i, count, waiting, waiting + 1 - after};
    waiting = after;
    if (waiting > depth) depth = waiting;
  }
  return depth;
}

uint32_t ls_cpu_ranks_subtrees(const ls_communicator *communicator,
                               int32_t replicas, ls_cpu_subtree *out) {
  uint32_t count = 0, at = 0;
  for (int32_t k = 0; k < communicator->ranks; ++k)
    for (const uint32_t end = first_replica(communicator, k + 1, replicas);
         at < end; ++count) {
      const uint32_t next = subtree_end(at, end, (uint32_t)replicas);
      if (out != NULL) out[count] = (ls_cpu_subtree){at, next, k};
      at = next;
    }
  return count;
}

size_t ls_cpu_ranks_pieces(const ls_executable *executable) {
  if (executable->communicator == NULL) return 0;
  const size_t ranks = (size_t)executable->communicator->ranks;
  const size_t results =
      (size_t)executable->num_gathered * (size_t)executable->replicas;
  return results > ranks ? results : ranks;
}

// ---- Exchanging ------------------------------------------------------------
// Returns the name of an exchange of the current run.
static ls_exchange_name exchange_name(const ls_instance *self, uint32_t number,
                                      uint64_t iteration) {
  const ls_program *program = self->executable->program;
  return (ls_exchange_name){
      .program = {program->fingerprint[0],
                  program->fingerprint[1] + program->strategy},
      .step = self->number,
      .iteration = iteration,
      .merge = number,
  };
}

// Waits for the end of an exchange that was started.
static ls_status await_exchange(const ls_instance *self,
                                ls_exchange *exchange) {
  ls_communicator *communicator = self->executable->communicator;
  ls_runtime *runtime = self->executable->backend->runtime;
  if (communicator->is_done(communicator, exchange))
    return communicator->wait(communicator, exchange);
  const int64_t began = ls_runtime_now(runtime);
  // A run that waits is not at work.
  ls_runtime_end_work(runtime);
  const ls_status status = communicator->wait(communicator, exchange);
  ls_runtime_begin_work(runtime);
  ls_wait_end(runtime, LS_WAIT_RANKS, began);
  return status;
}

static ls_status exchange_pieces(const ls_instance *self, uint32_t number,
                                 uint64_t iteration, size_t count) {
  ls_communicator *communicator = self->executable->communicator;
  ls_exchange exchange = {.name = exchange_name(self, number, iteration),
                          .pieces = self->pieces,
                          .count = count,
                          .limit = self->limit};
  LS_RETURN_IF_ERROR(communicator->start(communicator, &exchange));
  return await_exchange(self, &exchange);
}

ls_status ls_cpu_annotate_merge(const ls_instance *self,
                                const ls_cpu_instruction *at,
                                ls_status status) {
  const ls_executable *executable = self->executable;
  const char *label = executable->notes[at - executable->instructions].label;
  return ls_status_annotate(status, "in %s", label != NULL ? label : "a merge");
}

// Lists the rows of each rank as pieces. Returns their number.
static size_t list_row_pieces(ls_instance *self, const ls_cpu_merge *merge,
                              void *result) {
  const ls_communicator *communicator = self->executable->communicator;
  for (int32_t k = 0; k < communicator->ranks; ++k) {
    const size_t begin =
        merge->offsets[first_replica(communicator, k, merge->replicas)];
    const size_t end =
        merge->offsets[first_replica(communicator, k + 1, merge->replicas)];
    self->pieces[k] = (ls_exchange_piece){(char *)result + begin, end - begin,
                                          k, LS_EACH_RANK};
  }
  return (size_t)communicator->ranks;
}

ls_status ls_cpu_exchange_rows(ls_instance *self,
                               const ls_cpu_instruction *post, void *result) {
  return ls_cpu_annotate_merge(
      self, post,
      exchange_pieces(self, post->number, self->slots[post->number].generation,
                      list_row_pieces(self, post->params, result)));
}

// Lists `count` results of each replica, starting at a place. Returns the
// number of pieces.
static size_t list_result_pieces(ls_instance *self, const ls_cpu_share *share,
                                 size_t place, uint32_t count) {
  const ls_executable *executable = self->executable;
  const ls_communicator *communicator = executable->communicator;
  size_t pieces = 0;
  for (uint32_t g = 0; g < count; ++g)
    for (int32_t k = 0; k < communicator->ranks; ++k)
      for (uint32_t r = first_replica(communicator, k, share->replicas);
           r < first_replica(communicator, k + 1, share->replicas);
           ++r, ++place)
        self->pieces[pieces++] = (ls_exchange_piece){
            .data =
                ls_cpu_resolve(&self->workers[0], executable->places[place]),
            .size = executable->place_sizes[place],
            .from = k,
            .to = LS_EACH_RANK,
        };
  return pieces;
}

ls_status ls_cpu_exchange_results(ls_instance *self) {
  const ls_executable *executable = self->executable;
  const ls_cpu_instruction *instruction = self->launch;
  const ls_cpu_launch *launch = instruction->params;
  const size_t count = list_result_pieces(
      self, &launch->share, instruction->operand + instruction->num_in,
      launch->num_gathered);
  // Launches are numbered after the slots. Positions of instructions would not
  // do, as they differ between ranks.
  const uint32_t number = executable->num_slots + launch->index;
  return ls_status_annotate(exchange_pieces(self, number, 0, count),
                            "with the results of replicas");
}

// ---- Batched replicas ------------------------------------------------------
ls_status ls_cpu_exchange_batched(ls_instance *self,
                                  const ls_cpu_instruction *at,
                                  uint64_t iteration) {
  const ls_executable *executable = self->executable;
  const ls_cpu_exchange *params = at->params;
  if (params->merge == NULL)
    return exchange_pieces(self, at->number, iteration,
                           list_result_pieces(self, &params->share, at->operand,
                                              params->num_results));
  void *result =
      ls_cpu_resolve(&self->workers[0], executable->places[at->operand]);
  return exchange_pieces(self, at->number, iteration,
                         list_row_pieces(self, params->merge, result));
}

ls_status ls_cpu_ranks_agree(ls_instance *self,
                             const ls_cpu_instruction *instruction) {
  const ls_executable *executable = self->executable;
  if (executable->communicator == NULL) return ls_ok();
  const ls_cpu_host *host = instruction->params;
  self->pieces[0] =
      (ls_exchange_piece){.from = LS_EACH_RANK, .to = LS_EACH_RANK};
  return ls_status_annotate(exchange_pieces(self, host->number, 0, 1),
                            "behind %s", host->label);
}

// ---- Sums -------------------------------------------------------------------
// Limits of an exchange of sums. ALL_TO_ALL: most bytes that every rank adds
// up. GRANULE: elements that are never divided among ranks, so that parts begin
// on cache lines.
enum { ALL_TO_ALL = 16384, GRANULE = 64 };

// ---- Making ----------------------------------------------------------------
static size_t count_granules(size_t elements) {
  return (elements + GRANULE - 1) / GRANULE;
}

// Returns the first element of a sum that belongs to a rank or a later one.
static size_t part_begin(const ls_cpu_sums *self, const ls_cpu_sum *sum,
                         int32_t rank, int32_t ranks) {
  const size_t cut = self->granules * (size_t)rank / (size_t)ranks;
  if (cut <= sum->first) return 0;
  const size_t begin = (cut - sum->first) * GRANULE;
  return begin < sum->count ? begin : sum->count;
}

typedef struct part {
  size_t begin, end;
} part;

// Returns the elements of a sum that a rank adds up.
static part part_of(const ls_cpu_sums *self, const ls_cpu_sum *sum,
                    int32_t rank, int32_t ranks) {
  return self->in_parts ? (part){part_begin(self, sum, rank, ranks),
                                 part_begin(self, sum, rank + 1, ranks)}
                        : (part){0, sum->count};
}

static ls_status make_sum(ls_cpu_sums *self, ls_executable *executable,
                          const ls_cpu_kernels *kernels,
                          const ls_cpu_summed *from, ls_cpu_sum *sum) {
  const ls_communicator *communicator = executable->communicator;
  const part own = part_of(self, sum, communicator->rank, communicator->ranks);
  sum->begin = own.begin;
  sum->end = own.end;
  sum->merge = from->merge;
  if (self->in_parts || from->count * sum->width < from->merge->bytes) {
    const ls_type type = {.dtype = from->node->outputs[0].dtype,
                          .shape = LS_SHAPE((int64_t)(own.end - own.begin))};
    ls_cpu_merge *merge = NULL;
    LS_RETURN_IF_ERROR(ls_cpu_merge_prepare(kernels, &executable->arena,
                                            from->node, type,
                                            (int32_t)self->replicas, &merge));
    sum->merge = merge;
  }
  if (sum->merge->scratch > self->scratch) self->scratch = sum->merge->scratch;
  const size_t bytes = (own.end - own.begin) * sum->width;
  sum->stride = ls_round_to_line(bytes);
  sum->received = self->received;
  self->received += sum->stride * (self->num_subtrees - self->num_own);
  return ls_ok();
}

static ls_status find_subtrees(ls_cpu_sums *self, ls_executable *executable) {
  const ls_communicator *communicator = executable->communicator;
  const int32_t replicas = (int32_t)self->replicas;
  self->num_subtrees = ls_cpu_ranks_subtrees(communicator, replicas, NULL);
  LS_ARENA_ARRAY_OR_RETURN(&executable->arena, ls_cpu_subtree, subtrees,
                           self->num_subtrees);
  (void)ls_cpu_ranks_subtrees(communicator, replicas, subtrees);
  for (uint32_t i = 0; i < self->num_subtrees; ++i)
    self->num_own += subtrees[i].rank == communicator->rank;
  self->subtrees = subtrees;
  return ls_ok();
}

ls_status ls_cpu_sums_make(ls_executable *executable,
                           const ls_cpu_kernels *kernels, int32_t replicas,
                           const ls_cpu_summed *merges, uint32_t count,
                           ls_cpu_sums **out_sums) {
  LS_ARENA_NEW_OR_RETURN(&executable->arena, ls_cpu_sums, self);
  LS_ARENA_ARRAY_OR_RETURN(&executable->arena, ls_cpu_sum, sums, count);
  self->replicas = (uint32_t)replicas;
  self->sums = sums;
  self->count = count;
  LS_RETURN_IF_ERROR(find_subtrees(self, executable));
  for (uint32_t i = 0; i < count; ++i) {
    const ls_type type = merges[i].node->outputs[0];
    sums[i].count = merges[i].count;
    sums[i].offset = merges[i].first;
    sums[i].narrow = ls_dtype_size(type.dtype);
    sums[i].width =
        merges[i].merge->narrow.loop != NULL ? sizeof(float) : sums[i].narrow;
    sums[i].first = self->granules;
    self->granules += count_granules(sums[i].count);
    self->bytes += sums[i].count * sums[i].width;
  }
  self->in_parts = self->bytes > ALL_TO_ALL;
  for (uint32_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        make_sum(self, executable, kernels, &merges[i], &sums[i]));
  self->index = executable->num_sums++;
  *out_sums = self;
  return ls_ok();
}

// ---- Memory of flights -----------------------------------------------------
// Returns the most pieces of an exchange.
static size_t count_pieces(const ls_cpu_sums *self, int32_t ranks) {
  const size_t own = self->num_own, others = self->num_subtrees - own;
  const size_t sums =
      (self->in_parts ? own * (size_t)(ranks - 1) : own) + others;
  return self->count * (sums > (size_t)ranks ? sums : (size_t)ranks);
}

static ls_status make_flight(ls_instance *self, const ls_cpu_sums *sums) {
  ls_cpu_flight *flight = &self->flights[sums->index];
  if (flight->sums != NULL) return ls_ok();  // Replicas of another class.
  flight->sums = sums;
  flight->pieces =
      ls_new_array(self->allocator, ls_exchange_piece,
                   count_pieces(sums, self->executable->communicator->ranks));
  flight->operands =
      ls_new_array(self->allocator, void *, ls_cpu_sums_operands(sums));
  return ls_memory_status(flight->pieces != NULL && flight->operands != NULL);
}

ls_status ls_cpu_flights_make(ls_instance *self) {
  const ls_executable *executable = self->executable;
  LS_SET_ARRAY_OR_RETURN(self->allocator, ls_cpu_flight, self->flights,
                         executable->num_sums);
  for (size_t i = 0; i < executable->num_instructions; ++i) {
    const ls_cpu_instruction *at = &executable->instructions[i];
    const ls_cpu_sums *sums = NULL;
    if (at->code == LS_CPU_SUMS_START) sums = at->params;
    if (at->code == LS_CPU_POST)
      sums = ((const ls_cpu_merge *)at->params)->sums;
    if (sums != NULL) LS_RETURN_IF_ERROR(make_flight(self, sums));
  }
  return ls_ok();
}

void ls_cpu_flights_destroy(ls_instance *self) {
  for (uint32_t i = 0; self->flights != NULL && i < self->executable->num_sums;
       ++i) {
    ls_release(self->allocator, self->flights[i].pieces);
    ls_release(self->allocator, self->flights[i].operands);
  }
  ls_release(self->allocator, self->flights);
}

// ---- Pieces ----------------------------------------------------------------
static void add_piece(ls_cpu_flight *flight, void *data, size_t size,
                      int32_t from, int32_t to) {
  if (size > 0)
    flight->pieces[flight->exchange.count++] =
        (ls_exchange_piece){data, size, from, to};
}

// Adds the pieces of this rank's sum of a subtree, one for each rank.
static void add_own_pieces(ls_cpu_flight *flight, const ls_cpu_sum *sum,
                           char *value, int32_t rank, int32_t ranks) {
  const ls_cpu_sums *sums = flight->sums;
  if (!sums->in_parts)
    add_piece(flight, value, sum->count * sum->width, rank, LS_EACH_RANK);
  for (int32_t k = 0; k < ranks && sums->in_parts; ++k) {
    const part sent = part_of(sums, sum, k, ranks);
    if (k != rank)
      add_piece(flight, value + sent.begin * sum->width,
                (sent.end - sent.begin) * sum->width, rank, k);
  }
}

// Returns the place of the received sums of a merge.
static char *received_sums(const ls_cpu_flight *flight, const ls_cpu_sum *sum) {
  const ls_cpu_sums *sums = flight->sums;
  return (char *)flight->operands[sums->count * sums->num_own] + sum->received;
}

static char *result_of(const ls_cpu_flight *flight, uint32_t i) {
  const ls_cpu_sums *sums = flight->sums;
  const ls_cpu_sum *sum = &sums->sums[i];
  return (char *)flight->operands[sums->count * sums->num_own + 1 + i] +
         sum->offset * sum->narrow;
}

static void list_sums(ls_cpu_flight *flight, int32_t rank, int32_t ranks) {
  const ls_cpu_sums *sums = flight->sums;
  void **own = flight->operands;
  flight->exchange.count = 0;
  for (uint32_t i = 0; i < sums->count; ++i) {
    const ls_cpu_sum *sum = &sums->sums[i];
    char *received = received_sums(flight, sum);
    for (uint32_t s = 0; s < sums->num_subtrees; ++s) {
      const int32_t from = sums->subtrees[s].rank;
      if (from == rank) {
        add_own_pieces(flight, sum, *own++, rank, ranks);
      } else {
        add_piece(flight, received, (sum->end - sum->begin) * sum->width, from,
                  rank);
        received += sum->stride;
      }
    }
  }
}

static void list_results(ls_cpu_flight *flight, int32_t ranks) {
  const ls_cpu_sums *sums = flight->sums;
  flight->exchange.count = 0;
  for (uint32_t i = 0; i < sums->count; ++i)
    for (int32_t k = 0; k < ranks; ++k) {
      const ls_cpu_sum *sum = &sums->sums[i];
      const part sent = part_of(sums, sum, k, ranks);
      add_piece(flight, result_of(flight, i) + sent.begin * sum->narrow,
                (sent.end - sent.begin) * sum->narrow, k, LS_EACH_RANK);
    }
}

// ---- Additions -------------------------------------------------------------
// Returns how many complete subtrees wait for their sibling after the replicas
// before `end`: the number of ones of `end`; 1 after the last replica.
static uint32_t count_waiting(uint32_t end, uint32_t replicas) {
  return end == replicas ? 1 : (uint32_t)__builtin_popcount(end);
}

// Adds up this rank's elements of a merge. `own` are the sums of its subtrees.
static void add_up(const ls_cpu_flight *flight, uint32_t i, int32_t rank,
                   ls_kernel_call *call) {
  const ls_cpu_sums *sums = flight->sums;
  const ls_cpu_sum *sum = &sums->sums[i];
  void *const *own = flight->operands + (size_t)i * sums->num_own;
  char *received = received_sums(flight, sum);
  char *result = result_of(flight, i) + sum->begin * sum->narrow;
  void *total = ls_cpu_merge_sum(sum->merge, result);
  char *stack[33];
  uint32_t depth = 0;
  for (uint32_t s = 0; s < sums->num_subtrees; ++s) {
    const uint32_t end = sums->subtrees[s].end;
    if (sums->subtrees[s].rank == rank) {
      stack[depth++] = (char *)*own++ + sum->begin * sum->width;
    } else {
      stack[depth++] = received;
      received += sum->stride;
    }
    while (depth > count_waiting(end, sums->replicas)) {
      const char *right = stack[--depth];
      char *left = stack[depth - 1];
      const bool ends = end == sums->replicas && depth == 1 && total != NULL;
      stack[depth - 1] = ends ? total : left;
      ls_cpu_merge_two(sum->merge, call, left, right, stack[depth - 1]);
    }
  }
  ls_cpu_merge_end(sum->merge, call, stack[0], result);
}

// ---- Flights ---------------------------------------------------------------
static ls_status start_phase(const ls_instance *self, ls_cpu_flight *flight,
                             uint32_t phase) {
  ls_communicator *communicator = self->executable->communicator;
  flight->exchange.name.phase = phase;
  flight->exchange.pieces = flight->pieces;
  flight->exchange.limit = self->limit;
  return communicator->start(communicator, &flight->exchange);
}

ls_status ls_cpu_sums_start(ls_instance *self, const ls_cpu_sums *sums,
                            const ls_cpu_instruction *at, uint64_t iteration) {
  const ls_communicator *communicator = self->executable->communicator;
  ls_cpu_flight *flight = &self->flights[sums->index];
  flight->exchange.name = exchange_name(self, sums->number, iteration);
  flight->at = at;
  flight->began = ls_cpu_span_begin(self);
  list_sums(flight, communicator->rank, communicator->ranks);
  LS_RETURN_IF_ERROR(start_phase(self, flight, 0));
  flight->phase = LS_CPU_FLIGHT_SUMS;
  flight->next = NULL;
  ls_cpu_flight **last = &self->under_way;
  while (*last != NULL)
    last = &(*last)->next;
  *last = flight;
  ++self->num_incomplete;
  return ls_ok();
}

// Waits for the sums, adds up this rank's part and sends it.
static ls_status end_sums(ls_instance *self, ls_cpu_flight *flight) {
  const ls_communicator *communicator = self->executable->communicator;
  const ls_cpu_sums *sums = flight->sums;
  LS_RETURN_IF_ERROR(await_exchange(self, &flight->exchange));
  ls_kernel_call call = {.scratch = self->team.scratch, .team = &self->team};
  for (uint32_t i = 0; i < sums->count; ++i)
    if (sums->sums[i].end > sums->sums[i].begin)
      add_up(flight, i, communicator->rank, &call);
  if (!sums->in_parts) return ls_ok();
  list_results(flight, communicator->ranks);
  LS_RETURN_IF_ERROR(start_phase(self, flight, 1));
  flight->phase = LS_CPU_FLIGHT_RESULTS;
  return ls_ok();
}

// Waits for the end of a flight's phase and begins the next one.
static void end_phase(ls_instance *self, ls_cpu_flight *flight) {
  const bool has_sums = flight->phase == LS_CPU_FLIGHT_SUMS;
  flight->phase = LS_CPU_FLIGHT_OVER;
  flight->failure = has_sums ? end_sums(self, flight)
                             : await_exchange(self, &flight->exchange);
  if (flight->phase != LS_CPU_FLIGHT_OVER) return;
  --self->num_incomplete;
  ls_cpu_span_exchange(self, flight->at, flight->began);
}

void ls_cpu_sums_proceed(ls_instance *self) {
  ls_communicator *communicator = self->executable->communicator;
  for (ls_cpu_flight *flight = self->under_way; flight != NULL;
       flight = flight->next)
    if (flight->phase != LS_CPU_FLIGHT_OVER &&
        communicator->is_done(communicator, &flight->exchange))
      end_phase(self, flight);
}

static void land_flight(ls_instance *self, ls_cpu_flight *flight) {
  ls_cpu_flight **at = &self->under_way;
  while (*at != flight)
    at = &(*at)->next;
  *at = flight->next;
}

// Returns the flight to wait for in order to finish one: sums that were started
// before come first. Then ranks that finish exchanges in another order do not
// wait for each other; all start them in the same order.
static ls_cpu_flight *next_flight(const ls_instance *self,
                                  ls_cpu_flight *finished) {
  ls_cpu_flight *flight = self->under_way;
  while (flight != finished && flight->phase != LS_CPU_FLIGHT_SUMS)
    flight = flight->next;
  return flight;
}

ls_status ls_cpu_sums_finish(ls_instance *self, const ls_cpu_sums *sums) {
  ls_cpu_flight *flight = &self->flights[sums->index];
  for (;;) {
    ls_cpu_sums_proceed(self);
    if (flight->phase == LS_CPU_FLIGHT_OVER) break;
    end_phase(self, next_flight(self, flight));
  }
  land_flight(self, flight);
  const ls_status failure = flight->failure;
  flight->failure = ls_ok();
  return failure;
}

void ls_cpu_sums_drain(ls_instance *self) {
  ls_runtime *runtime = self->executable->backend->runtime;
  ls_runtime_begin_work(runtime);
  while (self->under_way != NULL)
    ls_status_free(ls_cpu_sums_finish(self, self->under_way->sums));
  ls_runtime_end_work(runtime);
}

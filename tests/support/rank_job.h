// SPDX-License-Identifier: Apache-2.0
//
// Trainings of a model on ranks of any communicator: what each step gives and
// the variables at the end, to be compared with those of one rank.
#ifndef LS_TESTS_SUPPORT_RANK_JOB_H_
#define LS_TESTS_SUPPORT_RANK_JOB_H_

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/communicator.h"
#include "lockstep/models.h"

enum { MOST_RANKS = 5 };

// Results of each step and, at the end, variables, one behind the other.
typedef struct rank_record {
  char *bytes;
  size_t size;
} rank_record;

typedef struct rank_job {
  const ls_model_type *type;
  ls_callback step;  // Takes (examples, labels) and a model. NULL: its own.
  int replicas, steps, threads;
  int64_t batch;
  int direct;  // This rank's math is LS_MATH_DIRECT. 0: no rank's.
  ls_counting_allocator *memory;  // Rank 1's. NULL: the system's, as others'.
  uint64_t nth;                   // Number of its request that fails.
  rank_record records[MOST_RANKS];
} rank_job;

void rank_job_init(rank_job *self);
void rank_job_deinit(rank_job *self);
LS_OWNED_STRUCT(rank_job, rank_job_deinit)

// Trains as a rank, in a runtime of its own, and notes its record; `user` is
// the job. A function for ls_standin_run.
ls_status rank_job_train(ls_communicator *communicator, void *user);

#endif  // LS_TESTS_SUPPORT_RANK_JOB_H_

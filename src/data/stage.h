// SPDX-License-Identifier: Apache-2.0
// Stages: an iterator makes one of each data set that is read from the start to
// the end. A stage belongs to one thread at a time.
//
// Its state is small: counters, and its inputs' states. A stage that holds
// elements does not save them, but the state of its input before it read them,
// and how many to read again.
#ifndef LS_DATA_STAGE_H_
#define LS_DATA_STAGE_H_

#include <stddef.h>

#include "base/memory/own.h"
#include "data/dataset.h"
#include "data/work.h"
#include "lockstep/record.h"

typedef struct ls_stage ls_stage;

// An int64_t of a stage: saved and restored under its name, 0 after a restart.
typedef struct ls_stage_counter {
  const char *name;
  size_t offset;
} ls_stage_counter;
#define LS_STAGE_COUNTER(Type, field)                                          \
  { #field, offsetof(Type, field) }

typedef struct ls_stage_class {
  size_t size;                   // Of a stage. 0: ls_stage alone.
  ls_stage_counter counters[3];  // Up to the first without a name.
  bool keeps_inputs_closed;      // It does not read them as stages.
  // Completes a new stage, zeroed, with its inputs open; `close` follows also
  // where it fails. NULL: nothing.
  ls_status (*open)(ls_stage *stage);
  // Gives the next element, in-out as ls_iterator_next. OUT_OF_RANGE: the end,
  // again and again. After another failure the next call gives the one after
  // it.
  ls_status (*next)(ls_stage *stage, ls_nest *element);
  // Go to the start of an epoch; save the position into a record, after the
  // counters; restore it, from anywhere, once the counters are. NULL: do so
  // with all inputs.
  ls_status (*restart)(ls_stage *stage, int64_t epoch);
  ls_status (*save)(ls_stage *stage, ls_record *record);
  ls_status (*restore)(ls_stage *stage, const ls_record *record);
  // Goes past `count` elements, failed ones too, or to the end. NULL: by
  // reading them.
  ls_status (*skip)(ls_stage *stage, int64_t count);
  // The number in the source of the element that `next` has given last. NULL:
  // that of the first input.
  int64_t (*id)(const ls_stage *stage);
  // Releases the class's own; inputs are closed after it. NULL: nothing.
  void (*close)(ls_stage *stage);
} ls_stage_class;

// Every stage's first member.
struct ls_stage {
  const ls_stage_class *kind;
  const ls_dataset *dataset;  // Lent by the iterator.
  ls_work *work;
  ls_stage **inputs;
  size_t num_inputs;
  int64_t epoch;  // Since the last restart.
  // Data sets around the one that it was opened for, whose functions have given
  // that one.
  uint32_t around;
  // Statistics: what the inputs took of the call under way, and whose call it
  // is that waits for this one.
  int64_t inner_nanos;
  ls_stage *outer;
  bool counts_itself;  // A fetch does.
};

// Opens a data set: an indexed one by a stage that goes through it.
LS_MUST_USE ls_status ls_stage_open(const ls_dataset *dataset, ls_work *work,
                                    ls_stage **out_stage);
// The same of a data set that a function of `outer` has given: one more below
// those that are being read.
//   LS_INVALID_ARGUMENT  more data sets than a pipeline may have.
LS_MUST_USE ls_status ls_stage_open_inner(const ls_dataset *dataset,
                                          const ls_stage *outer,
                                          ls_stage **out_stage);
void ls_stage_close(ls_stage *stage);  // NULL is fine.
LS_OWNED_POINTER(ls_stage, ls_stage_close)

// Calls the class, with statistics and its defaults.
LS_MUST_USE ls_status ls_stage_next(ls_stage *stage, ls_nest *element);
LS_MUST_USE ls_status ls_stage_restart(ls_stage *stage, int64_t epoch);
LS_MUST_USE ls_status ls_stage_save(ls_stage *stage, ls_record *record);
LS_MUST_USE ls_status ls_stage_restore(ls_stage *stage,
                                       const ls_record *record);
LS_MUST_USE ls_status ls_stage_skip(ls_stage *stage, int64_t count);
// For classes whose elements are those of all inputs, one by one.
LS_MUST_USE ls_status ls_stage_skip_inputs(ls_stage *stage, int64_t count);
int64_t ls_stage_id(const ls_stage *stage);

// Turns OUT_OF_RANGE of a user's function into another failure: it would be
// taken for the end.
LS_MUST_USE ls_status ls_stage_no_end(ls_status status);

// Finds a number in a record that is a count, and small enough to count on.
LS_MUST_USE ls_status ls_stage_get_count(const ls_record *record,
                                         const char *name, int64_t *out_count);
// Save and restore input number `i`, under "input0", "input1", ...
LS_MUST_USE ls_status ls_stage_save_input(ls_stage *stage, size_t i,
                                          ls_record *record);
LS_MUST_USE ls_status ls_stage_restore_input(ls_stage *stage, size_t i,
                                             const ls_record *record);

#endif  // LS_DATA_STAGE_H_

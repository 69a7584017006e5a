// SPDX-License-Identifier: Apache-2.0
// Stages: an iterator makes one for each data set that is read sequentially.
// One thread uses a stage at a time.
//
// A stage's saved state is small: counters, and its inputs' states. A stage
// that holds elements saves its input's state before it read them and how many
// to read again.
#ifndef LS_DATA_STAGE_H_
#define LS_DATA_STAGE_H_

#include <stddef.h>

#include "base/memory/own.h"
#include "data/dataset.h"
#include "data/work.h"
#include "lockstep/record.h"

typedef struct ls_stage ls_stage;

// An int64_t field of a stage: saved and restored under its name, 0 after a
// restart.
typedef struct ls_stage_counter {
  const char *name;
  size_t offset;
} ls_stage_counter;
#define LS_STAGE_COUNTER(Type, field)                                          \
  { #field, offsetof(Type, field) }

typedef struct ls_stage_class {
  size_t size;                   // Size of the stage's struct. 0: ls_stage.
  ls_stage_counter counters[3];  // Ends at the first without a name.
  bool keeps_inputs_closed;      // Inputs are not read as stages.
  // Completes a new stage, zeroed, with open inputs; `close` is called even if
  // it fails. NULL: nothing to do.
  ls_status (*open)(ls_stage *stage);
  // Gives the next element, in-out like ls_iterator_next. Returns OUT_OF_RANGE
  // at the end and after it. After another failure the next call gives the
  // following element.
  ls_status (*next)(ls_stage *stage, ls_nest *element);
  // Drops what was read ahead, before a restart and before a position is
  // restored. NULL: nothing to do.
  void (*forget)(ls_stage *stage);
  // Go to the start of an epoch; save the position into a record, after the
  // counters; restore it, after the counters, from any position. NULL: do so
  // with all inputs.
  ls_status (*restart)(ls_stage *stage, int64_t epoch);
  ls_status (*save)(ls_stage *stage, ls_record *record);
  ls_status (*restore)(ls_stage *stage, const ls_record *record);
  // Skips `count` elements, failed ones included, or to the end. NULL: by
  // reading them.
  ls_status (*skip)(ls_stage *stage, int64_t count);
  // The number in the source of the element last given: an int64_t field that
  // holds it or one more, or a function. None of them: the first input's.
  size_t id_field, id_after;
  int64_t (*id)(const ls_stage *stage);
  // Releases the class's own fields; inputs are closed afterwards. NULL:
  // nothing to do.
  void (*close)(ls_stage *stage);
} ls_stage_class;

// First member of every stage.
struct ls_stage {
  const ls_stage_class *kind;
  const ls_dataset *dataset;  // Lent by the iterator.
  ls_work *work;
  ls_stage **inputs;
  size_t num_inputs;
  int64_t epoch;  // Since the last restart.
  // Number of data sets around this one, whose functions returned it.
  uint32_t around;
  // Statistics: the inputs' time in the current call, and the stage that reads
  // this one.
  int64_t inner_nanos;
  ls_stage *outer;
  bool counts_itself;  // A fetch counts time and elements for this stage.
};

// Opens a data set; the stage reads an indexed one in order.
LS_MUST_USE ls_status ls_stage_open(const ls_dataset *dataset, ls_work *work,
                                    ls_stage **out_stage);
// Opens a data set that a function of `outer` has returned: one more on the
// recursion's path.
//   LS_INVALID_ARGUMENT  more data sets than a pipeline may have.
LS_MUST_USE ls_status ls_stage_open_inner(const ls_dataset *dataset,
                                          const ls_stage *outer,
                                          ls_stage **out_stage);
void ls_stage_close(ls_stage *stage);  // Accepts NULL.
LS_OWNED_POINTER(ls_stage, ls_stage_close)

// Call the class's functions or their defaults, and keep statistics.
LS_MUST_USE ls_status ls_stage_next(ls_stage *stage, ls_nest *element);
LS_MUST_USE ls_status ls_stage_restart(ls_stage *stage, int64_t epoch);
LS_MUST_USE ls_status ls_stage_save(ls_stage *stage, ls_record *record);
LS_MUST_USE ls_status ls_stage_restore(ls_stage *stage,
                                       const ls_record *record);
LS_MUST_USE ls_status ls_stage_skip(ls_stage *stage, int64_t count);
// The `skip` of classes whose elements combine one element of each input.
LS_MUST_USE ls_status ls_stage_skip_inputs(ls_stage *stage, int64_t count);
int64_t ls_stage_id(const ls_stage *stage);

// Drops the failure of an element that is skipped; returns the end, lack of
// memory and a cancelled wait, after which the position is not sure.
LS_PRIVATE_API LS_MUST_USE ls_status ls_stage_skipped(ls_status status);
// Turns OUT_OF_RANGE from a user function into another failure, since it would
// be taken for the end.
LS_MUST_USE ls_status ls_stage_no_end(ls_status status);

// Reads a count from a record; refuses one that is too large.
LS_MUST_USE ls_status ls_stage_get_count(const ls_record *record,
                                         const char *name, int64_t *out_count);
// Save and restore input number `i`, under "input0", "input1", ...
LS_MUST_USE ls_status ls_stage_save_input(ls_stage *stage, size_t i,
                                          ls_record *record);
LS_MUST_USE ls_status ls_stage_restore_input(ls_stage *stage, size_t i,
                                             const ls_record *record);

#endif  // LS_DATA_STAGE_H_

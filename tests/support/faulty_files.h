// SPDX-License-Identifier: Apache-2.0
// The system's files, of which calls fail, reads come short, and syncs take
// their time.
#ifndef LS_TESTS_SUPPORT_FAULTY_FILES_H_
#define LS_TESTS_SUPPORT_FAULTY_FILES_H_

#include "lockstep/train.h"

typedef enum faulty_call {
  FAULTY_READ,
  FAULTY_EXISTS,
  FAULTY_WRITE,
  FAULTY_APPEND,
  FAULTY_MAKE,
  FAULTY_REMOVE,
  FAULTY_LOCK,
  FAULTY_OPEN,
  FAULTY_READ_AT,
  FAULTY_SHORT,  // A read_at that gives fewer bytes than there are.
  FAULTY_LIST,
  FAULTY_RENAME,
  FAULTY_CREATE,
  FAULTY_WRITE_AT,
  FAULTY_SYNC,
  FAULTY_FINISH,
  FAULTY_CALLS
} faulty_call;
extern const char *const faulty_call_names[FAULTY_CALLS];

// Zeroed: all is well.
typedef struct faulty_files {
  bool fails;
  faulty_call call;
  int at;               // The first one of them that fails; 0: the first.
  int count;            // How many fail from there on; 0: all.
  int failed;           // So far.
  int met;              // Of `call`.
  int sync_micros;      // How long a sync takes at least.
  ls_train_stop *asks;  // Asked to stop
  int asks_at;          //   in the so-manieth sync, from 1 on.
  int synced;
} faulty_files;

// Lends `self`. Failures are UNAVAILABLE, "No space left".
ls_file_system faulty_files_system(faulty_files *self);

#endif  // LS_TESTS_SUPPORT_FAULTY_FILES_H_

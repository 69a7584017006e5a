// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Objects: what is counted and shared, of any layer. A struct whose first
// member is an `ls_object` can stand in a nest or be a resource.
//
// Threads: any number of threads may retain and release an object at the same
// time; who drops the last reference runs its destructor.
#ifndef LOCKSTEP_OBJECT_H_
#define LOCKSTEP_OBJECT_H_

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_object ls_object;

// What all objects of a type share; static data.
typedef struct ls_object_type {
  const char *name;                    // "variable", "queue", ...
  void (*destroy)(ls_object *object);  // Called when the last reference goes.
  // Prints a short form into `buffer`; NULL: the type's name is printed.
  void (*print)(const ls_object *object, char *buffer, size_t size);
  // Whether two of this type mean the same; NULL: each means itself alone.
  bool (*equal)(const ls_object *a, const ls_object *b);
  bool is_distributed_table;  // Has a table on each host.
  // The traced function that it is called by, lent for the object's life. NULL
  // or a NULL: it cannot be called.
  struct ls_function *(*call_entry)(ls_object *object);
} ls_object_type;

struct ls_object {
  const ls_object_type *type;
  int references;  // Atomic; touched by the functions below only.
  int depth;       // Of the nests that it holds; 0: it holds none.
};

// Makes it an object with one reference, the caller's.
LS_API void ls_object_init(ls_object *object, const ls_object_type *type);
LS_API void *ls_object_retain(void *object);  // Returns it; NULL is fine.
LS_API void ls_object_release(void *object);  // NULL is fine.
LS_API bool ls_object_is_unique(const void *object);
// Whether there are so many references: to who has them all, nobody else's.
LS_API bool ls_object_is_held(const void *object, int times);
// Whether both are the same, or of one type that says that they mean the same.
LS_API bool ls_object_equal(const ls_object *a, const ls_object *b);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_OBJECT_H_

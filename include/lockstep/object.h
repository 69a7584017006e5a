// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Objects: reference-counted values of any layer. A struct whose first member
// is an `ls_object` can be a leaf of a nest or a resource.
//
// Threads: any number of threads may retain and release an object at the same
// time; the one that drops the last reference runs its destructor.
#ifndef LOCKSTEP_OBJECT_H_
#define LOCKSTEP_OBJECT_H_

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_object ls_object;

// Functions common to all objects of a type; static data.
typedef struct ls_object_type {
  const char *name;  // "variable", "queue", ...
  // Called when the last reference is dropped.
  void (*destroy)(ls_object *object);
  // Prints a short form into `buffer`; NULL: prints the type's name.
  void (*print)(const ls_object *object, char *buffer, size_t size);
  // Returns true if two objects of this type are equal; NULL: each equals only
  // itself.
  bool (*equal)(const ls_object *a, const ls_object *b);
  bool is_distributed_table;  // The object has a table on each host.
  // Returns the traced function that calls of the object run, lent for the
  // object's life. If it is NULL or returns NULL, the object cannot be called.
  struct ls_function *(*call_entry)(ls_object *object);
} ls_object_type;

struct ls_object {
  const ls_object_type *type;
  int references;  // Atomic; only the functions below access it.
  int depth;       // Depth of nesting of the nests it holds; 0: it holds none.
};

// Initializes an object with one reference, which the caller owns.
LS_API void ls_object_init(ls_object *object, const ls_object_type *type);
// Returns the object; NULL is fine.
LS_API void *ls_object_retain(void *object);
LS_API void ls_object_release(void *object);  // NULL is fine.
LS_API bool ls_object_is_unique(const void *object);
// Returns true if there are exactly `times` references: a caller that holds
// them all is the only owner.
LS_API bool ls_object_is_held(const void *object, int times);
// Returns true if both are the same, or equal by their common type's `equal`.
LS_API bool ls_object_equal(const ls_object *a, const ls_object *b);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_OBJECT_H_

// SPDX-License-Identifier: Apache-2.0
// Owners: local variables that release what they hold on every way out of
// their block, and memory requests that return out-of-memory.
//
//   LS_OWN(ls_array, array) = NULL;            // An ls_array *.
//   LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, shape, &array));
//   LS_OWN(ls_nest, sum) = add_up(array);      // An ls_nest.
//   LS_OWN_ARRAY_OR_RETURN(allocator, int64_t, sizes, rank);
//   ...                                        // Returns need no release.
//   *out_array = ls_give(&array);              // Hands over.
//   return ls_ok();
//
// Locals are released in the reverse order of their declarations, once the
// value that is returned has been computed.
//
// Not for locks and scopes, whose end has to be seen, and not in a function
// that longjmp leaves, which releases nothing. No goto or case may jump past
// the declaration of an owner: clang refuses it, gcc does not see it.
//
// Each type that can be owned has one line, beside the declaration of its
// release if that is private, else in the file own.h of its layer.
#ifndef LS_BASE_MEMORY_OWN_H_
#define LS_BASE_MEMORY_OWN_H_

#include "base/memory/allocator.h"
#include "base/memory/arena.h"
#include "base/memory/map.h"
#include "base/text.h"
#include "lockstep/cluster.h"
#include "lockstep/nest.h"
#include "lockstep/object.h"

#define LS_OWNED_(noun, type, release)                                         \
  typedef type ls_owned_##noun;                                                \
  __attribute__((unused)) static inline void ls_owned_##noun##_end(            \
      type *ls_owned) {                                                        \
    release;                                                                   \
  }
// Makes LS_OWN(noun, name) an owner of a `noun *`, NULL for none.
#define LS_OWNED_POINTER(noun, release)                                        \
  LS_OWNED_(noun, noun *, if (*ls_owned != NULL) release(*ls_owned))
// Makes LS_OWN(noun, name) an owner of a `noun` by value; zeroed means empty.
#define LS_OWNED_VALUE(noun, release) LS_OWNED_(noun, noun, release(*ls_owned))
// Makes LS_OWN(noun, name) an owner of a struct `noun`, whose address is given
// to `deinit`; zeroed means empty.
#define LS_OWNED_STRUCT(noun, deinit) LS_OWNED_(noun, noun, deinit(ls_owned))

// Declares the owner `name`. An initializer must follow: = NULL, = {0} or
// what it owns from the start on.
#define LS_OWN(noun, name)                                                     \
  ls_owned_##noun name __attribute__((cleanup(ls_owned_##noun##_end), unused))

// Returns the value of the variable at `place` and empties the variable.
#define ls_give(place)                                                         \
  __extension__({                                                              \
    __typeof__(place) ls_given_from = (place);                                 \
    __typeof__(*(place)) ls_given = *ls_given_from;                            \
    memset(ls_given_from, 0, sizeof(*ls_given_from));                          \
    ls_given;                                                                  \
  })
// Gives the value to `*out` and returns OK: the end of a function that has made
// it.
#define ls_hand_over(place, out)                                               \
  __extension__({                                                              \
    *(out) = ls_give(place);                                                   \
    ls_ok();                                                                   \
  })

// ---- Memory of an allocator ------------------------------------------------
// Declares `Type *name`, one zeroed Type that nobody owns yet.
#define LS_NEW_OR_RETURN(allocator, Type, name)                                \
  Type *name = ls_new(allocator, Type);                                        \
  LS_RETURN_IF_NO_MEMORY(name)
// Declares `Type *name`, `count` zeroed items that nobody owns yet.
#define LS_NEW_ARRAY_OR_RETURN(allocator, Type, name, count)                   \
  Type *name = ls_new_array(allocator, Type, count);                           \
  LS_RETURN_IF_NO_MEMORY(name)
// Sets `place`, such as a field, to `count` zeroed items.
#define LS_SET_ARRAY_OR_RETURN(allocator, Type, place, count)                  \
  do {                                                                         \
    (place) = ls_new_array(allocator, Type, count);                            \
    LS_RETURN_IF_NO_MEMORY(place);                                             \
  } while (0)

// Declares an owner `name` of one zeroed Type, which needs an LS_OWNED_...
// line.
#define LS_OWN_NEW_OR_RETURN(allocator, Type, name)                            \
  LS_OWN(Type, name) = ls_new(allocator, Type);                                \
  LS_RETURN_IF_NO_MEMORY(name)

// Refers to the variable that holds a block: the variable may be given away or
// its block may grow.
typedef struct ls_owned_memory {
  ls_allocator *allocator;
  const void *place;  // Address of a pointer to any type.
} ls_owned_memory;
static inline void ls_owned_memory_end(const ls_owned_memory *owned) {
  void *memory = NULL;
  memcpy(&memory, owned->place, sizeof(memory));
  ls_release(owned->allocator, memory);
}

// Declares `Type *name` as the owner of a block of the allocator. An
// initializer follows.
#define LS_OWN_MEMORY(allocator_, Type, name)                                  \
  Type *name = NULL;                                                           \
  const ls_owned_memory name##_owned                                           \
      __attribute__((cleanup(ls_owned_memory_end), unused)) = {                \
          .allocator = (allocator_), .place = (const void *)&name};            \
  name
// Owns the block that the variable or field `place` points to, from here on.
#define LS_OWN_FIELD(allocator, place)                                         \
  LS_OWN_FIELD_AS_(LS_CONCAT(ls_owned_, __COUNTER__), allocator, place)
#define LS_OWN_FIELD_AS_(name, allocator_, place_)                             \
  const ls_owned_memory name                                                   \
      __attribute__((cleanup(ls_owned_memory_end), unused)) = {                \
          .allocator = (allocator_), .place = (const void *)&(place_)}
// Declares `Type *name` as the owner of `count` zeroed items, or NULL.
#define LS_OWN_ARRAY(allocator, Type, name, count)                             \
  LS_OWN_MEMORY(allocator, Type, name) = ls_new_array(allocator, Type, count)
// Declares `Type *name` as the owner of `count` zeroed items; returns
// out-of-memory if there is none.
#define LS_OWN_ARRAY_OR_RETURN(allocator, Type, name, count)                   \
  LS_OWN_ARRAY(allocator, Type, name, count);                                  \
  LS_RETURN_IF_NO_MEMORY(name)

// ---- Counted objects -------------------------------------------------------
// Defines noun_retain and noun_release of a type that begins with an ls_object.
#define LS_COUNTED(noun)                                                       \
  noun *noun##_retain(noun *self) { return ls_object_retain(self); }           \
  void noun##_release(noun *self) { ls_object_release(self); }

// ---- Types of base ---------------------------------------------------------
LS_OWNED_POINTER(ls_array, ls_array_release)
LS_OWNED_POINTER(ls_cluster_spec, ls_cluster_spec_destroy)
LS_OWNED_POINTER(ls_object, ls_object_release)
LS_OWNED_STRUCT(ls_arena, ls_arena_deinit)
LS_OWNED_STRUCT(ls_map, ls_map_deinit)
LS_OWNED_STRUCT(ls_text, ls_text_deinit)
LS_OWNED_VALUE(ls_nest, ls_nest_release)
LS_OWNED_VALUE(ls_status, ls_status_free)

#endif  // LS_BASE_MEMORY_OWN_H_

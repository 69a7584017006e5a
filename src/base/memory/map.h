// SPDX-License-Identifier: Apache-2.0
// Map: from bytes (texts, numbers) to pointers.
//
// Entries stand in the order in which their keys first came, so that going
// through a map gives the same order in every process; an open-addressed
// table of their numbers finds them. Removing leaves a hole, closed when the
// map next grows. The map copies its keys and does not own its values.
//
//   ls_map_item item;
//   for (size_t at = 0; ls_map_next(&map, &at, &item);) ...
//
// Thread-compatible: any number of readers, or one writer.
#ifndef LS_BASE_MEMORY_MAP_H_
#define LS_BASE_MEMORY_MAP_H_

#include "base/export.h"
#include "base/memory/allocator.h"

typedef struct ls_map_slot ls_map_slot;

typedef struct ls_map {
  ls_allocator *allocator;
  ls_map_slot *slots;  // In order of insertion, holes included.
  size_t num_slots;
  size_t capacity;    // Of slots.
  size_t count;       // Without the holes.
  uint32_t *table;    // Number of a slot + 1; 0: free.
  size_t table_size;  // A power of two, or 0.
} ls_map;

// One entry, lent until the map is next changed. A zero byte follows the key.
typedef struct ls_map_item {
  const void *key;
  size_t size;
  void *value;
} ls_map_item;

// Takes no memory yet. The allocator outlives the map.
LS_PRIVATE_API void ls_map_init(ls_map *map, ls_allocator *allocator);
// Frees keys and table. A zeroed map is fine.
LS_PRIVATE_API void ls_map_deinit(ls_map *map);
// Removes every entry, keeps the memory.
void ls_map_clear(ls_map *map);

size_t ls_map_count(const ls_map *map);
// The value, or NULL without such a key (or when NULL is the value).
LS_PRIVATE_API void *ls_map_find(const ls_map *map, const void *key,
                                 size_t size);
bool ls_map_has(const ls_map *map, const void *key, size_t size);
// Sets the value of a key. A key that is there keeps its place. False without
// memory: then nothing has changed.
LS_PRIVATE_API LS_MUST_USE bool ls_map_insert(ls_map *map, const void *key,
                                              size_t size, void *value);
// Removes a key. Returns its value, NULL if it was not there.
void *ls_map_remove(ls_map *map, const void *key, size_t size);
// Gives the entry at or after `*position` and moves `*position` past it;
// false at the end. Start with 0. Removing while going through is fine.
bool ls_map_next(const ls_map *map, size_t *position, ls_map_item *out_item);

// The same for numbers and for texts (without their zero).
static inline void *ls_map_find_u64(const ls_map *map, uint64_t key) {
  return ls_map_find(map, &key, sizeof(key));
}
LS_MUST_USE static inline bool ls_map_insert_u64(ls_map *map, uint64_t key,
                                                 void *value) {
  return ls_map_insert(map, &key, sizeof(key), value);
}
static inline void *ls_map_remove_u64(ls_map *map, uint64_t key) {
  return ls_map_remove(map, &key, sizeof(key));
}
static inline void *ls_map_find_text(const ls_map *map, const char *key) {
  return ls_map_find(map, key, strlen(key));
}
LS_MUST_USE static inline bool ls_map_insert_text(ls_map *map, const char *key,
                                                  void *value) {
  return ls_map_insert(map, key, strlen(key), value);
}
static inline void *ls_map_remove_text(ls_map *map, const char *key) {
  return ls_map_remove(map, key, strlen(key));
}

// A hash of bytes: fast, well spread, the same in every process, no defence
// against an attacker. `seed` chains pieces: the hash of what came before.
uint64_t ls_hash(const void *data, size_t size, uint64_t seed);

#endif  // LS_BASE_MEMORY_MAP_H_

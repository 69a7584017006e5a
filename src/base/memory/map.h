// SPDX-License-Identifier: Apache-2.0
// Map from bytes (texts, numbers) to pointers.
//
// Entries are kept in the order in which their keys first came, so that
// iterating gives the same order in every process; an open-addressed table of
// their numbers finds them. Removing leaves a hole until the map next grows.
// The map copies its keys and does not own its values.
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
  ls_map_slot *slots;  // Entries in order of insertion, with holes.
  size_t num_slots;
  size_t capacity;    // Number of slots.
  size_t count;       // Number of entries, without holes.
  uint32_t *table;    // Slot number + 1; 0: free.
  size_t table_size;  // A power of two, or 0.
} ls_map;

// One entry, valid until the map next changes. A zero byte follows the key.
typedef struct ls_map_item {
  const void *key;
  size_t size;
  void *value;
} ls_map_item;

// Initializes a map; allocates nothing yet. The allocator outlives the map.
LS_PRIVATE_API void ls_map_init(ls_map *map, ls_allocator *allocator);
// Frees keys and table. Accepts a zeroed map.
LS_PRIVATE_API void ls_map_deinit(ls_map *map);
// Removes every entry, keeps the memory.
void ls_map_clear(ls_map *map);

size_t ls_map_count(const ls_map *map);
// Returns the value, or NULL without such a key (or if NULL is the value).
LS_PRIVATE_API void *ls_map_find(const ls_map *map, const void *key,
                                 size_t size);
bool ls_map_has(const ls_map *map, const void *key, size_t size);
// Sets the value of a key; an existing key keeps its position. Returns false
// without memory and then changes nothing.
LS_PRIVATE_API LS_MUST_USE bool ls_map_insert(ls_map *map, const void *key,
                                              size_t size, void *value);
// Removes a key. Returns its value, or NULL if there was no such key.
void *ls_map_remove(ls_map *map, const void *key, size_t size);
// Gives the entry at or after `*position` and moves `*position` past it;
// returns false at the end. Start with 0. Entries may be removed while
// iterating.
bool ls_map_next(const ls_map *map, size_t *position, ls_map_item *out_item);

// Wrappers with u64 and text keys (without the text's zero).
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

// Hashes bytes: fast, well distributed, equal in every process, not safe
// against attackers. `seed` chains pieces: the hash of the previous piece.
uint64_t ls_hash(const void *data, size_t size, uint64_t seed);
// Hashes many bytes as fast as memory delivers them, to other hashes than
// ls_hash; NULL stands for `size` zeros.
uint64_t ls_hash_large(const void *data, size_t size);

#endif  // LS_BASE_MEMORY_MAP_H_

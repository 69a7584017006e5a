// SPDX-License-Identifier: Apache-2.0
// Map: entries in order of insertion, and a hash table of their numbers.
//
// A removed entry stays as a hole until the slots are copied to a new array, so
// that the table needs no tombstones.
#include "base/memory/map.h"

enum { FIRST_CAPACITY = 8, NEAR_SIZE = 16 };

// An entry. Short keys are stored in the slot itself, followed by a zero.
struct ls_map_slot {
  uint64_t hash;
  size_t size;
  void *value;
  bool live;
  union {
    char near[NEAR_SIZE];
    char *far;
  } key;
};

// ---- Hash ------------------------------------------------------------------
// Multiplies and xors the product's two halves: each bit of the result depends
// on all bits of both arguments.
static uint64_t fold(uint64_t a, uint64_t b) {
  const unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load_u64(const char *bytes) {
  uint64_t value = 0;
  memcpy(&value, bytes, sizeof(value));
  return value;
}

uint64_t ls_hash(const void *data, size_t size, uint64_t seed) {
  // Odd constants with half their bits set: the fractional bits of pi and of e.
  const uint64_t k0 = UINT64_C(0x243F6A8885A308D3);
  const uint64_t k1 = UINT64_C(0x13198A2E03707345);
  const uint64_t k2 = UINT64_C(0xB7E151628AED2A6B);
  const char *bytes = data;
  uint64_t hash = fold(seed ^ k0, (uint64_t)size ^ k2);
  size_t left = size;
  for (; left > 16; left -= 16, bytes += 16)
    hash = fold(load_u64(bytes) ^ k1, load_u64(bytes + 8) ^ hash);
  char tail[16] = {0};
  if (left > 0) memcpy(tail, bytes, left);
  hash = fold(load_u64(tail) ^ k1, load_u64(tail + 8) ^ hash);
  return fold(hash ^ k2, k0);
}

// Hashes each LANES-th pair of words by itself, so that the products overlap.
uint64_t ls_hash_large(const void *data, size_t size) {
  enum { LANES = 8, BLOCK = 16 * LANES, AHEAD = 16 * BLOCK };
  static const char zeros[BLOCK];
  const uint64_t k1 = UINT64_C(0x13198A2E03707345);
  const size_t stride = data != NULL ? BLOCK : 0, rest = size % BLOCK;
  const char *bytes = data != NULL ? data : zeros;
  uint64_t lanes[LANES];
  for (size_t i = 0; i < LANES; ++i)
    lanes[i] = i;
  for (size_t k = 0; k < size / BLOCK; ++k, bytes += stride) {
    __builtin_prefetch(bytes + AHEAD);
    __builtin_prefetch(bytes + AHEAD + BLOCK / 2);
    for (size_t i = 0; i < LANES; ++i)
      lanes[i] = fold(load_u64(bytes + 16 * i) ^ k1,
                      load_u64(bytes + 16 * i + 8) ^ lanes[i]);
  }
  return ls_hash(lanes, sizeof(lanes), ls_hash(bytes, rest, size));
}

// ---- Slots -----------------------------------------------------------------
static const char *slot_key(const ls_map_slot *slot) {
  return slot->size < NEAR_SIZE ? slot->key.near : slot->key.far;
}

static bool slot_is(const ls_map_slot *slot, uint64_t hash, const void *key,
                    size_t size) {
  return slot->live && slot->hash == hash && slot->size == size &&
         (size == 0 || memcmp(slot_key(slot), key, size) == 0);
}

static bool fill_key(const ls_map *map, ls_map_slot *slot, const void *key,
                     size_t size) {
  if (size < NEAR_SIZE) {
    if (size > 0) memcpy(slot->key.near, key, size);
    slot->key.near[size] = '\0';
    return true;
  }
  slot->key.far = ls_copy_text(map->allocator, key, size);
  return slot->key.far != NULL;
}

static void drop_key(const ls_map *map, ls_map_slot *slot) {
  if (slot->live && slot->size >= NEAR_SIZE)
    ls_release(map->allocator, slot->key.far);
  slot->live = false;
}

static ls_map_slot *find_slot(const ls_map *map, const void *key, size_t size,
                              uint64_t hash) {
  if (map->count == 0) return NULL;
  const size_t mask = map->table_size - 1;
  for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
    const uint32_t number = map->table[i];
    if (number == 0) return NULL;
    ls_map_slot *slot = &map->slots[number - 1];
    if (slot_is(slot, hash, key, size)) return slot;
  }
}

// Adds the last slot to the table, which has a free entry.
static void enter_last(ls_map *map) {
  const size_t mask = map->table_size - 1;
  size_t i = (size_t)map->slots[map->num_slots - 1].hash & mask;
  while (map->table[i] != 0)
    i = (i + 1) & mask;
  map->table[i] = (uint32_t)map->num_slots;
}

// Copies the live slots to a larger array, or to one of the same size if half
// of them are holes. The table has twice as many entries: it is at most half
// full.
static bool map_rebuild(ls_map *map) {
  size_t capacity = map->capacity;
  if (capacity == 0) {
    capacity = FIRST_CAPACITY;
  } else if (map->count > capacity / 2) {
    capacity *= 2;
  }
  if (capacity > UINT32_MAX / 2) return false;
  ls_map_slot *slots = ls_new_array(map->allocator, ls_map_slot, capacity);
  uint32_t *table = ls_new_array(map->allocator, uint32_t, capacity * 2);
  if (slots == NULL || table == NULL) {
    ls_release(map->allocator, slots);
    ls_release(map->allocator, table);
    return false;
  }
  ls_map_slot *old_slots = map->slots;
  const size_t num_old = map->num_slots;
  ls_release(map->allocator, map->table);
  map->slots = slots;
  map->table = table;
  map->capacity = capacity;
  map->table_size = capacity * 2;
  map->num_slots = 0;
  for (size_t i = 0; i < num_old; ++i) {
    if (!old_slots[i].live) continue;
    slots[map->num_slots++] = old_slots[i];
    enter_last(map);
  }
  ls_release(map->allocator, old_slots);
  return true;
}

// ---- Map -------------------------------------------------------------------
void ls_map_init(ls_map *map, ls_allocator *allocator) {
  *map = (ls_map){.allocator = allocator};
}

void ls_map_clear(ls_map *map) {
  for (size_t i = 0; i < map->num_slots; ++i)
    drop_key(map, &map->slots[i]);
  if (map->table_size > 0)
    memset(map->table, 0, map->table_size * sizeof(*map->table));
  map->num_slots = 0;
  map->count = 0;
}

void ls_map_deinit(ls_map *map) {
  ls_map_clear(map);
  ls_release(map->allocator, map->slots);
  ls_release(map->allocator, map->table);
  *map = (ls_map){.allocator = map->allocator};
}

size_t ls_map_count(const ls_map *map) { return map->count; }

void *ls_map_find(const ls_map *map, const void *key, size_t size) {
  const ls_map_slot *slot = find_slot(map, key, size, ls_hash(key, size, 0));
  return slot == NULL ? NULL : slot->value;
}

bool ls_map_has(const ls_map *map, const void *key, size_t size) {
  return find_slot(map, key, size, ls_hash(key, size, 0)) != NULL;
}

bool ls_map_insert(ls_map *map, const void *key, size_t size, void *value) {
  const uint64_t hash = ls_hash(key, size, 0);
  ls_map_slot *found = find_slot(map, key, size, hash);
  if (found != NULL) {
    found->value = value;
    return true;
  }
  ls_map_slot slot = {.hash = hash, .size = size, .value = value, .live = true};
  if (!fill_key(map, &slot, key, size)) return false;
  if (map->num_slots == map->capacity && !map_rebuild(map)) {
    drop_key(map, &slot);
    return false;
  }
  map->slots[map->num_slots++] = slot;
  enter_last(map);
  ++map->count;
  return true;
}

void *ls_map_remove(ls_map *map, const void *key, size_t size) {
  ls_map_slot *slot = find_slot(map, key, size, ls_hash(key, size, 0));
  if (slot == NULL) return NULL;
  void *value = slot->value;
  drop_key(map, slot);
  --map->count;
  return value;
}

bool ls_map_next(const ls_map *map, size_t *position, ls_map_item *out_item) {
  while (*position < map->num_slots) {
    const ls_map_slot *slot = &map->slots[(*position)++];
    if (!slot->live) continue;
    *out_item = (ls_map_item){slot_key(slot), slot->size, slot->value};
    return true;
  }
  return false;
}

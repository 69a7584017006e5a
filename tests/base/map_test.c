// SPDX-License-Identifier: Apache-2.0
#include "base/memory/map.h"

#include <stdio.h>

#include "base/runtime_internal.h"
#include "base/values/random.h"
#include "support/fault.h"

enum { MODEL_SIZE = 400 };

// The same as a map, without a hash: keys in order of insertion.
typedef struct model {
  char keys[MODEL_SIZE * 8][40];
  uintptr_t values[MODEL_SIZE * 8];
  size_t count;
} model;

static size_t model_find(const model *self, const char *key) {
  size_t i = 0;
  while (i < self->count && strcmp(self->keys[i], key) != 0)
    ++i;
  return i;
}

static void model_insert(model *self, const char *key, uintptr_t value) {
  const size_t at = model_find(self, key);
  if (at == self->count) strcpy(self->keys[self->count++], key);
  self->values[at] = value;
}

static void model_remove(model *self, const char *key) {
  const size_t at = model_find(self, key);
  if (at == self->count) return;
  --self->count;
  for (size_t i = at; i < self->count; ++i) {
    strcpy(self->keys[i], self->keys[i + 1]);
    self->values[i] = self->values[i + 1];
  }
}

static void expect_equal(const ls_map *map, const model *wanted) {
  assert_int_equal(ls_map_count(map), wanted->count);
  size_t i = 0;
  ls_map_item item;
  for (size_t at = 0; ls_map_next(map, &at, &item); ++i) {
    assert_string_equal((const char *)item.key, wanted->keys[i]);
    assert_int_equal(item.size, strlen(wanted->keys[i]));
    assert_int_equal((uintptr_t)item.value, wanted->values[i]);
  }
  assert_int_equal(i, wanted->count);
}

TEST(a_map_does_what_a_plain_list_does) {
  static model wanted;
  LS_OWN_BEGUN(ls_map, map, ls_map_init, ls_allocator_system());
  for (uint64_t step = 0; step < 6000; ++step) {
    uint32_t bits[4];
    ls_random_bits(&(ls_random_key){.seed = 7}, step, bits);
    char key[40];
    // Short keys and long ones, which are stored apart.
    snprintf(key, sizeof(key), bits[0] % 2 ? "%u" : "a_rather_long_key_%u",
             bits[1] % MODEL_SIZE);
    const size_t at = model_find(&wanted, key);
    const uintptr_t old = at < wanted.count ? wanted.values[at] : 0;
    assert_int_equal((uintptr_t)ls_map_find_text(&map, key), old);
    if (bits[2] % 3 == 0) {
      assert_int_equal((uintptr_t)ls_map_remove(&map, key, strlen(key)), old);
      model_remove(&wanted, key);
    } else {
      const uintptr_t value = (uintptr_t)step + 1;
      assert_true(ls_map_insert_text(&map, key, (void *)value));
      model_insert(&wanted, key, value);
    }
    if (step % 500 == 0) expect_equal(&map, &wanted);
  }
  expect_equal(&map, &wanted);
}

TEST(numbers_are_keys_too) {
  LS_OWN_BEGUN(ls_map, map, ls_map_init, ls_allocator_system());
  for (uint64_t i = 0; i < 5000; ++i) {
    assert_true(ls_map_insert_u64(&map, i << 32, (void *)(uintptr_t)(i + 1)));
  }
  for (uint64_t i = 0; i < 5000; ++i) {
    assert_int_equal((uintptr_t)ls_map_find_u64(&map, i << 32), i + 1);
    assert_null(ls_map_find_u64(&map, (i << 32) + 1));
  }
  assert_int_equal((uintptr_t)ls_map_remove_u64(&map, UINT64_C(3) << 32), 4);
  ls_map_item item;
  size_t at = 0;
  for (int i = 0; i < 4; ++i)
    assert_true(ls_map_next(&map, &at, &item));
  uint64_t key = 0;
  assert_int_equal(item.size, sizeof(key));
  memcpy(&key, item.key, sizeof(key));
  assert_int_equal(key, UINT64_C(4) << 32);
}

TEST(keys_are_bytes_with_their_length) {
  LS_OWN_BEGUN(ls_map, map, ls_map_init, ls_allocator_system());
  int values[3];
  assert_true(ls_map_insert(&map, "a\0b", 3, &values[0]));
  assert_true(ls_map_insert(&map, "a\0c", 3, &values[1]));
  assert_true(ls_map_insert(&map, NULL, 0, &values[2]));
  assert_ptr_equal(ls_map_find(&map, "a\0b", 3), &values[0]);
  assert_ptr_equal(ls_map_find(&map, "a\0c", 3), &values[1]);
  assert_ptr_equal(ls_map_find(&map, "", 0), &values[2]);
  assert_null(ls_map_find(&map, "a", 1));
  assert_true(ls_map_insert(&map, "null", 4, NULL));
  assert_true(ls_map_has(&map, "null", 4));
  assert_false(ls_map_has(&map, "nul", 3));
}

TEST(clearing_empties_a_map_that_goes_on) {
  ls_map map;
  ls_map_init(&map, ls_allocator_system());
  int value = 0;
  assert_null(ls_map_remove(&map, "nothing", 7));
  assert_true(ls_map_insert_text(&map, "a key of more than 16", &value));
  ls_map_clear(&map);
  assert_int_equal(ls_map_count(&map), 0);
  assert_null(ls_map_find_text(&map, "a key of more than 16"));
  assert_true(ls_map_insert_text(&map, "b", &value));
  assert_int_equal(ls_map_count(&map), 1);
  ls_map_deinit(&map);
  ls_map_deinit(&map);
}

TEST(holes_do_not_make_a_map_grow) {
  LS_OWN_BEGUN(ls_map, map, ls_map_init, ls_allocator_system());
  int value = 0;
  for (uint64_t i = 0; i < 100000; ++i) {
    assert_true(ls_map_insert_u64(&map, i, &value));
    if (i >= 4) assert_ptr_equal(ls_map_remove_u64(&map, i - 4), &value);
  }
  assert_int_equal(ls_map_count(&map), 4);
  assert_true(map.capacity <= 16);
}

TEST(hashes_spread_and_stay) {
  // Recorded hashes stay valid from one version to the next.
  assert_int_equal(ls_hash("lockstep", 8, 0), UINT64_C(0x2f1dac24e24858e2));
  assert_int_equal(ls_hash("", 0, 0), ls_hash(NULL, 0, 0));
  assert_int_not_equal(ls_hash("a", 1, 0), ls_hash("a\0", 2, 0));
  assert_int_not_equal(ls_hash("a", 1, 0), ls_hash("a", 1, 1));
  // Of 2^16 numbers in a row, the lower 16 bits hit about 1 - 1/e of the
  // places, as random ones would.
  static unsigned char seen[65536];
  size_t hits = 0;
  for (uint64_t i = 0; i < 65536; ++i) {
    const uint64_t hash = ls_hash(&i, sizeof(i), 0);
    if (seen[hash & 0xFFFF]++ == 0) ++hits;
  }
  assert_in_range(hits, 41000, 41850);
  // Each input bit moves about half of the output bits.
  unsigned moved = 0;
  char text[48] = "a text that is longer than two pieces of sixteen";
  const uint64_t before = ls_hash(text, sizeof(text), 0);
  for (size_t bit = 0; bit < sizeof(text) * 8; ++bit) {
    text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
    const uint64_t changed = before ^ ls_hash(text, sizeof(text), 0);
    moved += (unsigned)__builtin_popcountll(changed);
    text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
  }
  assert_in_range(moved, 384 * 31, 384 * 33);
}

TEST(large_hashes_depend_on_each_bit) {
  enum { MOST = 300 };
  unsigned char bytes[MOST] = {0};
  unsigned moved = 0, changes = 0;
  assert_int_equal(ls_hash_large("lockstep", 8), UINT64_C(0x17d747805bd3cfbd));
  for (size_t size = 0; size <= MOST; size += size < 20 ? 1 : 37) {
    const uint64_t before = ls_hash_large(bytes, size);
    assert_int_equal(before, ls_hash_large(NULL, size));
    assert_int_not_equal(before, ls_hash_large(NULL, size + 1));
    for (size_t bit = 0; bit < size * 8; ++bit, ++changes) {
      bytes[bit / 8] = (unsigned char)(1 << bit % 8);
      moved +=
          (unsigned)__builtin_popcountll(before ^ ls_hash_large(bytes, size));
      bytes[bit / 8] = 0;
    }
  }
  assert_in_range(moved, changes * 30, changes * 33);
}

MEMORY_TEST(fill_map) {
  LS_OWN_BEGUN(ls_map, map, ls_map_init, ls_current_allocator());
  ls_status status = ls_ok();
  for (uint64_t i = 0; i < 20 && ls_status_is_ok(status); ++i) {
    char key[40];
    snprintf(key, sizeof(key), "a_rather_long_key_%d", (int)i);
    const size_t before = ls_map_count(&map);
    if (!ls_map_insert_text(&map, key, &map) ||
        !ls_map_insert_u64(&map, i, &map)) {
      status = ls_out_of_memory();
      assert_true(ls_map_count(&map) <= before + 1);
    }
  }
  return status;
}

// SPDX-License-Identifier: Apache-2.0
#include "tpu/pod/ring.h"

#include "base/memory/allocator.h"

// What is written: chips whose axes are renamed on the way.
typedef struct writer {
  ls_coordinate *next;
  int axis[3];  // Of what is put as a, b and c.
} writer;

static void ring_put(writer *out, int32_t a, int32_t b, int32_t c) {
  ls_coordinate *chip = out->next++;
  *chip = (ls_coordinate){{0}};
  chip->at[out->axis[0]] = a;
  chip->at[out->axis[1]] = b;
  chip->at[out->axis[2]] = c;
}

// A layer without its chip (0, 0): row 0 from left to right but for column 0,
// row 1 back, and so on, and up column 0. Both sizes are even.
//    0   1 - 2 - 3
//    |           |
//   15   6 - 5 - 4
//    |   |
//   14   7 - 8 - 9
//    |           |
//   13-12 -11 -10
static void put_layer(writer *out, int32_t wide, int32_t high, int32_t layer) {
  for (int32_t i = 0; i < high / 2; ++i) {
    for (int32_t j = 1; j < wide; ++j)
      ring_put(out, j, 2 * i, layer);
    for (int32_t j = wide - 1; j > 0; --j)
      ring_put(out, j, 2 * i + 1, layer);
  }
  for (int32_t i = high - 1; i > 0; --i)
    ring_put(out, 0, i, layer);
}

static void ring_reverse(ls_coordinate *first, ls_coordinate *end) {
  while (first < end--) {
    const ls_coordinate kept = *first;
    *first++ = *end;
    *end = kept;
  }
}

// Layers in turn, every other one backwards, which column (0, 0) closes from
// the top down.
static void put_layers(writer *out, const int32_t sizes[3]) {
  ring_put(out, 0, 0, 0);
  for (int32_t z = 0; z < sizes[2]; ++z) {
    ls_coordinate *began = out->next;
    put_layer(out, sizes[0], sizes[1], z);
    if (z % 2 == 1) ring_reverse(began, out->next);
  }
  for (int32_t z = sizes[2] - 1; z > 0; --z)
    ring_put(out, 0, 0, z);
}

static void put_plain(writer *out, const int32_t sizes[3]) {
  for (int32_t z = 0; z < sizes[2]; ++z)
    for (int32_t y = 0; y < sizes[1]; ++y)
      for (int32_t x = 0; x < sizes[0]; ++x)
        ring_put(out, x, y, z);
}

ls_status ls_ring_3d(ls_runtime *runtime, const int32_t sizes[3],
                     ls_coordinate **out_chips) {
  int wide = 0, flat = 2,
      odd = -1;  // Axes wider than 1; one of them; its size.
  size_t count = 1;
  for (int k = 0; k < 3; ++k) {
    count *= (size_t)sizes[k];
    if (sizes[k] > 1) ++wide;
    if (sizes[k] > 1 && sizes[k] % 2 != 0) odd = k;
    if (sizes[k] == 1) flat = k;
  }
  *out_chips =
      ls_new_array(ls_runtime_allocator(runtime), ls_coordinate, count);
  if (*out_chips == NULL) return ls_out_of_memory();
  writer out = {.next = *out_chips, .axis = {0, 1, 2}};
  if (wide <= 1) {
    put_plain(&out, sizes);  // A line.
  } else if (odd >= 0) {
    ls_runtime_log(runtime, LS_LOG_WARNING, "tpu",
                   "odd dimension: a mesh of %d x %d x %d chips is no ring; "
                   "they are ordered by z, y and x",
                   sizes[0], sizes[1], sizes[2]);
    put_plain(&out, sizes);
  } else if (wide == 3) {
    put_layers(&out, sizes);
  } else {
    const int a = flat == 0 ? 1 : 0, b = flat == 2 ? 1 : 2;
    out = (writer){*out_chips, {a, b, flat}};
    ring_put(&out, 0, 0, 0);
    put_layer(&out, sizes[a], sizes[b], 0);
  }
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
// Assigns cores to replicas: as a grid of blocks, as a ring of blocks, or from
// a list of the unused devices.
#include "base/memory/own.h"
#include "base/require.h"
#include "tpu/pod/topology.h"

enum { CORE = LS_MESH_RANK - 1 };

// ---- Rings -----------------------------------------------------------------
// A ring is an order of the chips of a mesh in which each chip is a neighbour
// of the previous one, and the last of the first. A writer appends chips to a
// ring and renames their axes.
typedef struct writer {
  ls_coordinate *next;
  // The axis of the mesh for each of the writer's axes a, b and c.
  int axis[3];
} writer;

static void ring_put(writer *out, int32_t a, int32_t b, int32_t c) {
  ls_coordinate *chip = out->next++;
  *chip = (ls_coordinate){{0}};
  chip->at[out->axis[0]] = a;
  chip->at[out->axis[1]] = b;
  chip->at[out->axis[2]] = c;
}

// Writes a layer without its chip (0, 0): row 0 from left to right except
// column 0, row 1 back, and so on, then up column 0. Both sizes are even.
//    0   1 - 2 - 3
//            |
//   15   6 - 5 - 4
//    |
//   14   7 - 8 - 9
//            |
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

// Writes the layers one after another, every other one backwards. At the end
// the column (0, 0) leads back from the last layer to the first.
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

// Lists core 0 of all chips of a mesh, in ring order. A mesh with an odd size
// has no ring: its chips are sorted by z, y and x, and a line is logged. The
// caller frees `*out_chips` with the runtime's allocator.
static ls_status make_ring(ls_runtime *runtime, const int32_t sizes[3],
                           ls_coordinate **out_chips) {
  int wide = 0, flat = 2,
      odd = -1;  // Number of axes wider than 1; the last of them; an odd size.
  size_t count = 1;
  for (int k = 0; k < 3; ++k) {
    count *= (size_t)sizes[k];
    if (sizes[k] > 1) ++wide;
    if (sizes[k] > 1 && sizes[k] % 2 != 0) odd = k;
    if (sizes[k] == 1) flat = k;
  }
  LS_SET_ARRAY_OR_RETURN(ls_runtime_allocator(runtime), ls_coordinate,
                         *out_chips, count);
  writer out = {.next = *out_chips, .axis = {0, 1, 2}};
  if (wide <= 1) {
    put_plain(&out, sizes);  // A mesh with one wide axis is a line.
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

// ---- Blocks ----------------------------------------------------------------
// An assignment that is being built.
typedef struct build {
  ls_runtime *runtime;
  ls_topology *topology;
  ls_device_order order;
  int32_t shape[LS_MESH_RANK], stride[LS_MESH_RANK];
  int32_t counts[LS_MESH_RANK];  // Blocks that fit along each axis.
  int32_t grid[LS_MESH_RANK];    // Blocks used along each axis.
  int64_t most, num_replicas;
  int32_t block;  // Cores of a replica's block.
  ls_coordinate *places;
} build;

// ---- Read the options ------------------------------------------------------
static ls_status read_sizes(const char *noun, const int32_t *given,
                            size_t count, int32_t out[LS_MESH_RANK]) {
  static const int32_t ones[LS_MESH_RANK] = {1, 1, 1, 1};
  if (given == NULL) {
    if (count > 0)
      return ls_invalid_argument("%s is NULL, with %zu sizes", noun, count);
    memcpy(out, ones, sizeof(ones));
    return ls_ok();
  }
  bool fits = count == LS_MESH_RANK;
  for (size_t i = 0; fits && i < count; ++i)
    fits = given[i] >= 1;
  char text[LS_COORDINATE_TEXT];
  if (!fits)
    return ls_invalid_argument(
        "%s %s must be 4 sizes (x, y, z, core) of at least 1", noun,
        ls_sizes_text(given, count, text));
  memcpy(out, given, sizeof(ones));
  return ls_ok();
}

static ls_status count_replicas(build *b) {
  const int32_t *mesh = ls_topology_mesh(b->topology);
  char shape[LS_COORDINATE_TEXT], stride[LS_COORDINATE_TEXT],
      sizes[LS_COORDINATE_TEXT];
  b->most = 1;
  b->block = 1;
  for (int k = 0; k < LS_MESH_RANK; ++k) {
    const int64_t footprint = (int64_t)b->shape[k] * b->stride[k];
    if (footprint > mesh[k])
      return ls_invalid_argument(
          "computation shape %s with stride %s takes %lld along axis %d and "
          "does not fit in the mesh %s",
          ls_sizes_text(b->shape, LS_MESH_RANK, shape),
          ls_sizes_text(b->stride, LS_MESH_RANK, stride), (long long)footprint,
          k, ls_sizes_text(mesh, LS_MESH_RANK, sizes));
    b->counts[k] = mesh[k] / (int32_t)footprint * b->stride[k];
    b->most *= b->counts[k];
    b->block *= b->shape[k];
  }
  if (b->num_replicas >= 1 && b->num_replicas <= b->most) return ls_ok();
  return ls_invalid_argument(
      "%lld replicas of computation shape %s with stride %s: 1 to %lld fit in "
      "the mesh %s",
      (long long)b->num_replicas, ls_sizes_text(b->shape, LS_MESH_RANK, shape),
      ls_sizes_text(b->stride, LS_MESH_RANK, stride), (long long)b->most,
      ls_sizes_text(mesh, LS_MESH_RANK, sizes));
}

static bool has_strides(const build *b) {
  for (int k = 0; k < LS_MESH_RANK; ++k)
    if (b->stride[k] != 1) return true;
  return false;
}

// ---- Grid of blocks --------------------------------------------------------
// Returns the smallest number whose power of `degree` is at least `value`.
static int64_t ceil_of_root(int64_t value, int degree) {
  for (int64_t root = 1;; ++root) {
    int64_t power = 1;
    for (int i = 0; i < degree && power < value; ++i)
      power *= root;
    if (power >= value) return root;
  }
}

// Chooses a grid as near to a cube as possible. The axis with the fewest
// choices is fixed first; of axes with as many choices, the core axis first,
// then x, y and z.
static void choose_grid(build *b) {
  int order[LS_MESH_RANK] = {CORE, 0, 1, 2};
  for (int i = 1; i < LS_MESH_RANK; ++i)  // Insertion sort is stable.
    for (int j = i; j > 0 && b->counts[order[j]] < b->counts[order[j - 1]];
         --j) {
      const int kept = order[j];
      order[j] = order[j - 1];
      order[j - 1] = kept;
    }
  int64_t remaining = b->num_replicas;
  for (int i = 0; i < LS_MESH_RANK; ++i) {
    const int k = order[i];
    const int64_t wanted = ceil_of_root(remaining, LS_MESH_RANK - i);
    b->grid[k] = wanted < b->counts[k] ? (int32_t)wanted : b->counts[k];
    remaining = (remaining + b->grid[k] - 1) / b->grid[k];
  }
}

// Returns the first core of a replica. Replicas are numbered along the core
// axis first, then along x, y and z.
static ls_coordinate first_core(const build *b, int64_t replica) {
  static const int order[LS_MESH_RANK] = {CORE, 0, 1, 2};
  ls_coordinate first;
  for (int i = 0; i < LS_MESH_RANK; ++i) {
    const int k = order[i];
    const int32_t position = (int32_t)(replica % b->grid[k]);
    replica /= b->grid[k];
    first.at[k] = position / b->stride[k] * b->shape[k] * b->stride[k] +
                  position % b->stride[k];
  }
  return first;
}

static void deal_grid(build *b) {
  for (int64_t r = 0; r < b->num_replicas; ++r) {
    const ls_coordinate first = first_core(b, r);
    for (int32_t c = 0; c < b->block; ++c) {
      ls_coordinate *place = &b->places[r * b->block + c];
      int32_t rest = c;
      for (int k = LS_MESH_RANK - 1; k >= 0; --k) {
        place->at[k] = first.at[k] + rest % b->shape[k] * b->stride[k];
        rest /= b->shape[k];
      }
    }
  }
}

// ---- Ring of blocks --------------------------------------------------------
static ls_status deal_ring(build *b) {
  ls_allocator *allocator = ls_runtime_allocator(b->runtime);
  LS_OWN_MEMORY(allocator, ls_coordinate, inner) = NULL;
  LS_OWN_MEMORY(allocator, ls_coordinate, outer) = NULL;
  LS_RETURN_IF_ERROR(make_ring(b->runtime, b->shape, &inner));
  LS_RETURN_IF_ERROR(make_ring(b->runtime, b->grid, &outer));
  const int32_t cores = b->shape[CORE];
  for (int64_t r = 0; r < b->num_replicas; ++r)
    for (int32_t c = 0; c < b->block; ++c) {
      ls_coordinate *place = &b->places[r * b->block + c];
      for (int k = 0; k < CORE; ++k)
        place->at[k] = outer[r].at[k] * b->shape[k] + inner[c / cores].at[k];
      place->at[CORE] = c % cores;
    }
  return ls_ok();
}

// ---- Devices that are left -------------------------------------------------
static ls_status deal_devices(build *b) {
  const int64_t devices = (int64_t)ls_topology_num_places(b->topology);
  char text[LS_COORDINATE_TEXT];
  if (has_strides(b))
    return ls_invalid_argument("computation stride %s on a mesh with %zu "
                               "missing devices: there it must be 1",
                               ls_sizes_text(b->stride, LS_MESH_RANK, text),
                               ls_topology_num_missing(b->topology));
  if (b->num_replicas * b->block > devices)
    return ls_invalid_argument("%lld replicas of %d cores do not fit on the "
                               "%lld devices of a mesh with %zu missing",
                               (long long)b->num_replicas, b->block,
                               (long long)devices,
                               ls_topology_num_missing(b->topology));
  memcpy(b->places, b->topology->places,
         (size_t)(b->num_replicas * b->block) * sizeof(*b->places));
  return ls_ok();
}

static ls_status assignment_build_deal(build *b) {
  if (ls_topology_num_missing(b->topology) > 0) return deal_devices(b);
  choose_grid(b);
  const bool can = b->shape[CORE] == ls_topology_mesh(b->topology)[CORE] &&
                   !has_strides(b) && b->num_replicas == b->most;
  if (b->order == LS_DEVICE_ORDER_RING && !can)
    return ls_invalid_argument(
        "no ring of %lld replicas: their blocks must have all %d cores of a "
        "chip, their strides must be 1, and there must be all %lld that fit",
        (long long)b->num_replicas, ls_topology_mesh(b->topology)[CORE],
        (long long)b->most);
  if (can && b->order != LS_DEVICE_ORDER_MESH) return deal_ring(b);
  deal_grid(b);
  return ls_ok();
}

ls_status
ls_device_assignment_build(ls_topology *topology,
                           const ls_device_assignment_options *options,
                           ls_device_assignment **out_assignment) {
  LS_REQUIRE_OUT(out_assignment, topology);
  const ls_device_assignment_options none = {0};
  if (options == NULL) options = &none;
  if ((unsigned)options->order > LS_DEVICE_ORDER_MESH)
    return ls_invalid_argument("there is no device order %d",
                               (int)options->order);
  build b = {.runtime = ls_runtime_current(),
             .topology = topology,
             .order = options->order,
             .num_replicas =
                 options->num_replicas.set ? options->num_replicas.value : 1};
  if (b.runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(read_sizes("computation shape", options->shape,
                                options->shape_rank, b.shape));
  LS_RETURN_IF_ERROR(read_sizes("computation stride", options->stride,
                                options->stride_rank, b.stride));
  LS_RETURN_IF_ERROR(count_replicas(&b));
  LS_OWN_ARRAY_OR_RETURN(topology->allocator, ls_coordinate, places,
                         (size_t)(b.num_replicas * b.block));
  b.places = places;
  LS_RETURN_IF_ERROR(assignment_build_deal(&b));
  return ls_device_assignment_make(topology, (int32_t)b.num_replicas, b.block,
                                   ls_give(&places), out_assignment);
}

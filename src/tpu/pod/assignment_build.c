// SPDX-License-Identifier: Apache-2.0
// Dealing cores to replicas: a grid of blocks, a ring of them, or what devices
// are left.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "tpu/pod/assignment.h"
#include "tpu/pod/ring.h"

enum { CORE = LS_MESH_RANK - 1 };

// What is built.
typedef struct build {
  ls_runtime *runtime;
  ls_topology *topology;
  ls_device_order order;
  int32_t shape[LS_MESH_RANK], stride[LS_MESH_RANK];
  int32_t counts[LS_MESH_RANK];  // Replicas that fit along each axis.
  int32_t grid[LS_MESH_RANK];    // Of replicas.
  int64_t most, num_replicas;
  int32_t block;  // Cores of a replica.
  ls_coordinate *places;
} build;

// ---- What is asked for -----------------------------------------------------
static ls_status read_sizes(const char *what, const int32_t *given,
                            size_t count, int32_t out[LS_MESH_RANK]) {
  static const int32_t ones[LS_MESH_RANK] = {1, 1, 1, 1};
  if (given == NULL) {
    if (count > 0)
      return ls_invalid_argument("%s is NULL, with %zu sizes", what, count);
    memcpy(out, ones, sizeof(ones));
    return ls_ok();
  }
  bool fits = count == LS_MESH_RANK;
  for (size_t i = 0; fits && i < count; ++i)
    fits = given[i] >= 1;
  char text[LS_COORDINATE_TEXT];
  if (!fits)
    return ls_invalid_argument("%s %s must be 4 sizes (x, y, z, core) of at "
                               "least 1",
                               what, ls_sizes_text(given, count, text));
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

// ---- The grid --------------------------------------------------------------
// The smallest number of which the power is not below.
static int64_t ceil_of_root(int64_t value, int degree) {
  for (int64_t root = 1;; ++root) {
    int64_t power = 1;
    for (int i = 0; i < degree && power < value; ++i)
      power *= root;
    if (power >= value) return root;
  }
}

// As near to a cube as can be: the axis with the fewest choices first, of equal
// ones the core's, then x, y and z.
static void choose_grid(build *b) {
  int order[LS_MESH_RANK] = {CORE, 0, 1, 2};
  for (int i = 1; i < LS_MESH_RANK; ++i)  // Insertion keeps equal ones' order.
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

// The first core of a replica: cores count fastest, then x, y and z.
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

// ---- The ring --------------------------------------------------------------
static bool can_be_ring(const build *b) {
  return b->shape[CORE] == ls_topology_mesh(b->topology)[CORE] &&
         !has_strides(b) && b->num_replicas == b->most;
}

static ls_status deal_ring(build *b) {
  ls_coordinate *inner = NULL, *outer = NULL;
  ls_status status = ls_ring_3d(b->runtime, b->shape, &inner);
  if (ls_status_is_ok(status)) status = ls_ring_3d(b->runtime, b->grid, &outer);
  const int32_t cores = b->shape[CORE];
  for (int64_t r = 0; ls_status_is_ok(status) && r < b->num_replicas; ++r)
    for (int32_t c = 0; c < b->block; ++c) {
      ls_coordinate *place = &b->places[r * b->block + c];
      for (int k = 0; k < CORE; ++k)
        place->at[k] = outer[r].at[k] * b->shape[k] + inner[c / cores].at[k];
      place->at[CORE] = c % cores;
    }
  ls_release(ls_runtime_allocator(b->runtime), inner);
  ls_release(ls_runtime_allocator(b->runtime), outer);
  return status;
}

// ---- What is left ----------------------------------------------------------
static ls_status deal_devices(build *b) {
  const int64_t devices = (int64_t)ls_topology_num_places(b->topology);
  char text[LS_COORDINATE_TEXT];
  if (has_strides(b))
    return ls_invalid_argument(
        "computation stride %s on a mesh with %zu missing devices: there it "
        "must be 1",
        ls_sizes_text(b->stride, LS_MESH_RANK, text),
        ls_topology_num_missing(b->topology));
  if (b->num_replicas * b->block > devices)
    return ls_invalid_argument(
        "%lld replicas of %d cores do not fit on the %lld devices of a mesh "
        "with %zu missing",
        (long long)b->num_replicas, b->block, (long long)devices,
        ls_topology_num_missing(b->topology));
  memcpy(b->places, b->topology->places,
         (size_t)(b->num_replicas * b->block) * sizeof(*b->places));
  return ls_ok();
}

static ls_status assignment_build_deal(build *b) {
  if (ls_topology_num_missing(b->topology) > 0) return deal_devices(b);
  choose_grid(b);
  const bool can = can_be_ring(b);
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
  LS_REQUIRE_OUT(out_assignment);
  LS_REQUIRE(topology);
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
  b.places = ls_new_array(topology->allocator, ls_coordinate,
                          (size_t)(b.num_replicas * b.block));
  if (b.places == NULL) return ls_out_of_memory();
  const ls_status status = assignment_build_deal(&b);
  if (ls_status_is_ok(status))
    return ls_device_assignment_make(topology, (int32_t)b.num_replicas, b.block,
                                     b.places, out_assignment);
  ls_release(topology->allocator, b.places);
  return status;
}

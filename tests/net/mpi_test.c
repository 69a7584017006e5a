// SPDX-License-Identifier: Apache-2.0
//
// Ranks over MPI, as far as it goes without MPI: launchers, and modules that
// are not there. tests/mpi runs ranks.
#include "lockstep/mpi.h"

#include <string.h>

#include "support/expect.h"

// An environment: names and values in turn, up to a NULL.
static const char *look_up(void *user, const char *name) {
  for (const char *const *at = user; *at != NULL; at += 2)
    if (strcmp(*at, name) == 0) return at[1];
  return NULL;
}

static void expect_launcher(const char *const *environment, const char *name,
                            int32_t ranks) {
  const ls_mpi_launcher found = ls_mpi_find_launcher(&(ls_mpi_options){
      .environment = look_up, .environment_user = (void *)environment});
  assert_string_equal(found.name, name);
  assert_int_equal(found.ranks, ranks);
  if (ranks > 0)
    assert_string_equal(look_up((void *)environment, found.variable),
                        ranks == 4 ? "4" : "16");
  else
    assert_null(found.variable);
}

TEST(launchers_are_known_by_their_variables) {
  const char *const open_mpi[] = {"OMPI_COMM_WORLD_SIZE", "4", "PMIX_RANK", "0",
                                  NULL};
  const char *const mpich[] = {"PMI_RANK", "1", "PMI_SIZE", "16", NULL};
  const char *const slurm[] = {"SLURM_STEP_NUM_TASKS", "4", "PMIX_RANK", "3",
                               NULL};
  const char *const pmix[] = {"PMIX_RANK", "3", NULL};
  const char *const plain_slurm[] = {"SLURM_STEP_NUM_TASKS", "4", NULL};
  expect_launcher(open_mpi, "mpirun of Open MPI", 4);
  expect_launcher(mpich, "mpirun of MPICH", 16);
  expect_launcher(slurm, "a launcher with PMIx", 4);
  expect_launcher(pmix, "a launcher with PMIx", 0);
  expect_launcher(plain_slurm, "srun", 4);
}

TEST(a_process_that_a_user_starts_has_no_launcher) {
  const char *const job[] = {"SLURM_NTASKS", "4", "HOME", "/root",
                             "PMI_SIZE",     "",  NULL};
  assert_null(
      ls_mpi_find_launcher(&(ls_mpi_options){.environment = look_up,
                                             .environment_user = (void *)job})
          .name);
  assert_int_equal(ls_mpi_find_launcher(NULL).ranks, 0);
}

// Opens ranks with a module that is not there.
static ls_status open_nothing(const char *const *environment) {
  ls_communicator *ranks = NULL;
  const ls_status status =
      ls_mpi_open(&(ls_mpi_options){.environment = look_up,
                                    .environment_user = (void *)environment},
                  &ranks);
  assert_null(ranks);
  return status;
}

TEST(a_missing_module_is_refused_with_what_to_install) {
  const char *const alone[] = {"LS_MPI", "/nowhere/mpi.so", NULL};
  const char *const open_mpi[] = {"LS_MPI", "/nowhere/mpi.so",
                                  "OMPI_COMM_WORLD_SIZE", "4", NULL};
  const char *const mpich[] = {"LS_MPI", "/nowhere/mpi.so", "PMI_SIZE", "4",
                               NULL};
  ls_status status = open_nothing(alone);
  expect_contains(ls_status_message(status), "MPI cannot be loaded");
  expect_contains(ls_status_message(status), "/nowhere/mpi.so");
  expect_contains(ls_status_message(status), "libmpich-dev mpich");
  expect_status(status, LS_NOT_FOUND, "libopenmpi-dev openmpi-bin");
  status = open_nothing(open_mpi);
  expect_contains(ls_status_message(status), "mpirun of Open MPI has started");
  expect_status(status, LS_NOT_FOUND, "install libopenmpi-dev openmpi-bin");
  expect_status(open_nothing(mpich), LS_NOT_FOUND, "MPICH cannot be loaded");
}

TEST(no_ranks_need_no_end) {
  expect_ok(ls_mpi_close(NULL));
  expect_null_argument(out_communicator, ls_mpi_open, NULL, NULL);
}

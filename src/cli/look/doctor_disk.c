// SPDX-License-Identifier: Apache-2.0
// Checks the disk of the current folder: free space, and speed of writing.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/look/doctor.h"
#include "cli/look/estimate.h"

// Creates a file in the current folder that nobody else sees; -1 on failure.
static int create_file(void) {
  const int file = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  char name[] = ".lockstep-doctor-XXXXXX";
  const int named = mkstemp(name);
  if (named >= 0) unlink(name);
  return named;
}

// Writes up to 64 MB, for 0.3 seconds, and syncs them. Returns the speed in
// bytes per second; 0, with errno, on failure.
static double measure_speed(double *out_seconds) {
  enum { PIECE = 1 << 20, MOST = 64 };
  CLI_OWN_MEMORY(char, piece) = cli_allocate(PIECE);
  const int file = create_file();
  if (file < 0 || piece == NULL) {
    if (file >= 0) close(file);
    return 0;
  }
  // Not zeros, which a file system may store as nothing.
  for (size_t i = 0; i < PIECE; ++i)
    piece[i] = (char)(i * 2654435761U >> 13);
  const double began = cli_now();
  double done = 0;
  bool failed = false;
  for (int i = 0; i < MOST && !failed && cli_now() - began < 0.3; ++i) {
    const ssize_t size = write(file, piece, PIECE);
    failed = size <= 0;
    done += failed ? 0 : (double)size;
  }
  failed |= fsync(file) != 0;
  *out_seconds = cli_now() - began;
  const int error = errno;
  close(file);
  errno = error;
  return failed || *out_seconds <= 0 ? 0 : done / *out_seconds;
}

void cli_check_disk(cli_checkup *checkup) {
  static const double gb = 1e9, mb = 1e6;
  double seconds = 0;
  const double free = cli_free_disk(".");
  errno = 0;
  const double speed = measure_speed(&seconds);
  if (speed <= 0) {
    cli_finding *finding = cli_find(checkup, CLI_LEVEL_PROBLEM, "disk",
                                    "the current folder cannot be written: %s",
                                    strerror(errno != 0 ? errno : EIO));
    cli_advise(finding, "change to a folder with room for runs, or name one by "
                        "--run-dir");
    return;
  }
  const bool low = free < gb, slow = speed < 20 * mb;
  cli_finding *finding =
      cli_find(checkup, low || slow ? CLI_LEVEL_NOTE : CLI_LEVEL_OK, "disk",
               "%.3g GB free in the current folder; written and synced at "
               "%.3g MB/s",
               free / gb, speed / mb);
  if (low)
    cli_advise(finding, "checkpoints may fill it: fewer of them with --keep, "
                        "or another --run-dir");
  else if (slow)
    cli_advise(finding, "saves may take longer than the steps between them: "
                        "--save-every, or another --run-dir");
}

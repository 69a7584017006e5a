// SPDX-License-Identifier: Apache-2.0
// Folders for files of tests.
#ifndef LS_TESTS_SUPPORT_SCRATCH_H_
#define LS_TESTS_SUPPORT_SCRATCH_H_

// Fixtures, TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave):
// the tests of a file run in a new folder, which must be empty in the end.
int scratch_enter(void **state);
int scratch_leave(void **state);
// Fixture for after each: removes the files in the current folder.
int scratch_clear(void **state);

// Removes a folder, if it is there, with all in it.
void remove_tree(const char *folder);

#endif  // LS_TESTS_SUPPORT_SCRATCH_H_

# SPDX-License-Identifier: Apache-2.0
#
# Makes symbolic links: LINKS is a file of lines "TARGET LINK" in FOLDER. One
# process does so for all: there are two thousand.
#
#   cmake -DLINKS=links -DFOLDER=man3 -P links.cmake
file(STRINGS "${LINKS}" lines)
foreach(line IN LISTS lines)
  string(REPLACE " " ";" line "${line}")
  list(GET line 0 target)
  list(GET line 1 link)
  file(CREATE_LINK "${target}" "${FOLDER}/${link}" SYMBOLIC)
endforeach()

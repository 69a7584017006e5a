# SPDX-License-Identifier: Apache-2.0
#
# Writes lockstep/places.h and lockstep/places_full.h, run as a script:
#
#   cmake -DHEADER_DIR=include/lockstep -DOUT=places.h
#         -DOUT_FULL=places_full.h -P places.cmake
#
# The first has the functions of lockstep.h and of all that it includes, the
# second those of the other headers.
#
# A declaration marked LS_PLACED, such as
#
#   LS_PLACED ls_tensor ls_relu(ls_tensor x);
#
# gets a macro of its own name that hands the result on together with the
# caller's source line, so that an error names the line of the user's code:
#
#   #define ls_relu(...) ls_at_tensor(ls_relu(__VA_ARGS__), __FILE__, __LINE__)
#
# The mark may be followed by other upper-case macros, and the declaration may
# span lines. A mark this script cannot read is an error, never passed over.

cmake_minimum_required(VERSION 3.21)

set(types "ls_tensor|ls_nest|ls_op|ls_status")
set(macros "")
set(macros_full "")
set(seen "")

# The headers that lockstep.h includes, itself and what these include.
set(circle "")
set(todo "lockstep.h")
while(todo)
  list(POP_FRONT todo file)
  if(file IN_LIST circle OR NOT EXISTS "${HEADER_DIR}/${file}")
    continue()
  endif()
  list(APPEND circle "${file}")
  file(STRINGS "${HEADER_DIR}/${file}" includes
       REGEX "^#include \"lockstep/[a-z_0-9]+\\.h\"")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE ".*lockstep/([a-z_0-9]+\\.h).*" "\\1" include
           "${include}")
    list(APPEND todo "${include}")
  endforeach()
endwhile()

file(GLOB headers "${HEADER_DIR}/*.h")
list(SORT headers)
foreach(header IN LISTS headers)
  get_filename_component(file "${header}" NAME)
  file(READ "${header}" text)
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" " " text "${text}")
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\\\\\n" " " text "${text}")
  string(REGEX REPLACE "(^|\n)[ \t]*#[^\n]*" "\n" text "${text}")
  string(REGEX MATCHALL "(^|[^A-Za-z0-9_])LS_PLACED[ \t\r\n][^;(]*\\("
         marks "${text}")

  set(lines "")
  foreach(mark IN LISTS marks)
    string(REGEX REPLACE "[ \t\r\n]+" " " mark "${mark}")
    if(NOT mark MATCHES
       "LS_PLACED( [A-Z0-9_]+)* (${types}) (ls_[a-z0-9_]+) ?\\($")
      message(FATAL_ERROR "${header}: cannot place '${mark}': expected "
                          "LS_PLACED, one of ${types}, and a name")
    endif()
    set(name "${CMAKE_MATCH_3}")
    string(REPLACE "ls_" "ls_at_" at "${CMAKE_MATCH_2}")
    if(name IN_LIST seen)
      message(FATAL_ERROR "${header}: ${name} is placed twice")
    endif()
    list(APPEND seen "${name}")
    string(APPEND lines "#define ${name}(...) \\\n"
           "  ${at}(${name}(__VA_ARGS__), __FILE__, __LINE__)\n")
  endforeach()
  if(lines AND file IN_LIST circle)
    string(APPEND macros "\n// lockstep/${file}\n${lines}")
  elseif(lines)
    string(APPEND macros_full "\n// lockstep/${file}\n${lines}")
  endif()
endforeach()

function(write_macros out guard macros)
  file(WRITE "${out}"
"// SPDX-License-Identifier: Apache-2.0
//
// Gives each op the source line that made it. Generated from the marks
// LS_PLACED in the public headers; do not edit. Included last.
//
// Define LS_NO_PLACES to call the functions directly. A name in parentheses,
// `(ls_relu)(x)`, does the same for one call.

#ifndef ${guard}
#define ${guard}

#ifndef LS_NO_PLACES
${macros}
#endif  // LS_NO_PLACES

#endif  // ${guard}
")
endfunction()

write_macros("${OUT}" LOCKSTEP_PLACES_H_ "${macros}")
write_macros("${OUT_FULL}" LOCKSTEP_PLACES_FULL_H_ "${macros_full}")

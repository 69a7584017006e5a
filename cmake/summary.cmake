# SPDX-License-Identifier: Apache-2.0
#
# Says what will be built, and what each missing optional part turns off.

string(REPLACE ";" " " isas "${LS_ISAS}")
message(STATUS "lockstep ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, "
               "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, "
               "kernels for: ${isas}")
message(STATUS "  zlib ${ZLIB_VERSION}")
if(LS_SANITIZE)
  message(STATUS "  sanitizers: ${LS_SANITIZE}")
endif()
foreach(line IN LISTS LS_MISSING)
  message(STATUS "  not found: ${line}")
endforeach()

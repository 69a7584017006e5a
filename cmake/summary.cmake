# SPDX-License-Identifier: Apache-2.0
#
# Says what will be built, and what each missing optional part turns off.

string(REPLACE ";" " " isas "${LS_ISAS}")
message(STATUS "lockstep ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, "
               "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, "
               "kernels for: ${isas}")
set(libraries "")
foreach(library ZLIB PNG TURBOJPEG MICROHTTPD ${LS_MPIS})
  if(${library}_FOUND)
    list(APPEND libraries "${${library}_MODULE_NAME} ${${library}_VERSION}")
  endif()
endforeach()
list(JOIN libraries ", " libraries)
if(libraries)
  message(STATUS "  ${libraries}")
endif()
if(LS_SANITIZE)
  message(STATUS "  sanitizers: ${LS_SANITIZE}")
endif()
foreach(line IN LISTS LS_MISSING)
  message(STATUS "  not found: ${line}")
endforeach()

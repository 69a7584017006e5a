# SPDX-License-Identifier: Apache-2.0
#
# What is made of the headers' comments, in the folder `share` of the build: the
# table of public names, by which `lockstep help NAME` explains them, and in the
# target `docs` pages of it, and of the flags of the command.

set(LS_SHARE "${PROJECT_BINARY_DIR}/share")
set(LS_REFERENCE "${LS_SHARE}/lockstep/reference.txt")
set(headers ${LS_PUBLIC_HEADERS})
list(FILTER headers INCLUDE REGEX "\\.h$")
file(GLOB scripts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/docs/*")
file(MAKE_DIRECTORY "${LS_SHARE}/lockstep")
add_custom_command(
  OUTPUT "${LS_REFERENCE}"
  COMMAND awk -f "${PROJECT_SOURCE_DIR}/tools/docs/table.awk"
          "${PROJECT_SOURCE_DIR}/include/lockstep/ops.def" ${headers}
          > "${LS_REFERENCE}"
  DEPENDS ${LS_PUBLIC_HEADERS} tools/docs/table.awk
  COMMENT "Generating share/lockstep/reference.txt"
  VERBATIM)
add_custom_target(ls_reference DEPENDS "${LS_REFERENCE}")
if(TARGET lockstep_cli)
  add_dependencies(lockstep_cli ls_reference)
endif()

if(TARGET lockstep_cli)
  add_custom_command(
    OUTPUT "${LS_SHARE}/made"
    COMMAND sh "${PROJECT_SOURCE_DIR}/tools/reference" "${LS_REFERENCE}"
            "${LS_SHARE}" ${CMAKE_CROSSCOMPILING_EMULATOR}
            "$<TARGET_FILE:lockstep_cli>"
    COMMAND "${CMAKE_COMMAND}" -E touch "${LS_SHARE}/made"
    DEPENDS "${LS_REFERENCE}" lockstep_cli tools/reference ${scripts}
    COMMENT "Generating the reference in share/doc and share/man"
    VERBATIM)
  add_custom_target(docs DEPENDS "${LS_SHARE}/made")
endif()

# SPDX-License-Identifier: Apache-2.0
#
# One object library per folder of src/. src/formats becomes liblockstep-io and
# src/cli the program; all others are joined into liblockstep, shared and static.

set(LS_GENERATED_INCLUDE "${PROJECT_BINARY_DIR}/include")

# lockstep/places.h and places_full.h: a macro per placed function that records
# the caller's source line. Made from the public headers by cmake/places.cmake.
file(GLOB LS_PUBLIC_HEADERS CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/include/lockstep/*.h"
     "${PROJECT_SOURCE_DIR}/include/lockstep/*.hpp"
     "${PROJECT_SOURCE_DIR}/include/lockstep/*.def")
set(LS_PLACES_HEADERS "${LS_GENERATED_INCLUDE}/lockstep/places.h"
                      "${LS_GENERATED_INCLUDE}/lockstep/places_full.h")
add_custom_command(
  OUTPUT ${LS_PLACES_HEADERS}
  COMMAND "${CMAKE_COMMAND}"
          "-DHEADER_DIR=${PROJECT_SOURCE_DIR}/include/lockstep"
          "-DOUT=${LS_GENERATED_INCLUDE}/lockstep/places.h"
          "-DOUT_FULL=${LS_GENERATED_INCLUDE}/lockstep/places_full.h"
          -P "${PROJECT_SOURCE_DIR}/cmake/places.cmake"
  DEPENDS ${LS_PUBLIC_HEADERS} cmake/places.cmake
  COMMENT "Generating lockstep/places.h"
  VERBATIM)
add_custom_target(ls_places DEPENDS ${LS_PLACES_HEADERS})

# What every target of ours needs, inside and outside the library.
add_library(ls_includes INTERFACE)
target_include_directories(ls_includes INTERFACE
  "${PROJECT_SOURCE_DIR}/include" "${LS_GENERATED_INCLUDE}")
add_dependencies(ls_includes ls_places)

# What ls_declarations returns: the public headers after the preprocessor, which
# sees nothing of the system's.
set(LS_DECLARATIONS "${PROJECT_BINARY_DIR}/declarations")
foreach(header stdarg stdbool stddef stdint)
  file(WRITE "${LS_DECLARATIONS}/none/${header}.h" "")
endforeach()
add_custom_command(
  OUTPUT "${LS_DECLARATIONS}/declarations.c"
  COMMAND "${CMAKE_C_COMPILER}" -E -P -nostdinc -U__GNUC__ -DLS_NO_PLACES
          "-I${LS_DECLARATIONS}/none" "-I${PROJECT_SOURCE_DIR}/include"
          "-I${LS_GENERATED_INCLUDE}" -include lockstep/op_types.h
          "${PROJECT_SOURCE_DIR}/include/lockstep/full.h"
          -o "${LS_DECLARATIONS}/declarations.txt"
  COMMAND "${CMAKE_COMMAND}" "-DTEXT=${LS_DECLARATIONS}/declarations.txt"
          "-DOUT=${LS_DECLARATIONS}/declarations.c"
          -P "${PROJECT_SOURCE_DIR}/cmake/declarations.cmake"
  DEPENDS ${LS_PUBLIC_HEADERS} ${LS_PLACES_HEADERS} cmake/declarations.cmake
  COMMENT "Generating the text of ls_declarations"
  VERBATIM)

# Adds the object library `name` and puts it into the library that has it.
function(ls_add_objects name)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_compile_definitions(${name} PRIVATE LS_NO_PLACES)
  target_link_libraries(${name} PRIVATE ls_flags ls_includes ls_dependencies)
  add_dependencies(${name} ls_places)
  set(library lockstep)
  if(name STREQUAL "ls_formats")
    set(library lockstep_io)
  endif()
  set_property(GLOBAL APPEND PROPERTY ${library}_objects
               $<TARGET_OBJECTS:${name}>)
endfunction()

file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true
     RELATIVE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/src/*")
list(REMOVE_ITEM folders cli)
foreach(folder IN LISTS folders)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
       "${PROJECT_SOURCE_DIR}/src/${folder}/*.c")
  list(FILTER sources EXCLUDE REGEX "/src/engine/cpu/isa/|/src/net/mpi/")
  if(sources)
    ls_add_objects(ls_${folder} ${sources})
  endif()
endforeach()
ls_add_objects(ls_layers "${PROJECT_SOURCE_DIR}/src/layers.c")
ls_add_objects(ls_texts "${LS_DECLARATIONS}/declarations.c")
target_link_libraries(ls_formats PRIVATE ls_io_dependencies)

# The vector kernels: the same sources once per instruction set, told apart by
# LS_ISA, which is part of the names they define. The engine chooses at start.
# As the source is the same, one instruction set has checks of undefined
# behaviour. Debug builds know their lines only, for describing their variables
# takes as long as compiling them, and are quick all the same.
add_library(ls_defined INTERFACE)  # Linked last: the last option counts.
target_compile_options(ls_defined INTERFACE -fno-sanitize=undefined)
file(GLOB_RECURSE isa_sources CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/*.c")
# What compilers make vectors of themselves they do not at -O2.
set_source_files_properties(
  "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/random.c"
  PROPERTIES COMPILE_OPTIONS -O3)
set(isa_debug -g1)
if(NOT LS_SANITIZE AND NOT LS_COVERAGE)
  list(APPEND isa_debug -O2)
endif()
# Compilers take the longest for these, of which tests run little.
file(GLOB long_sources
     "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/argmax.c"
     "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/integer_span.c"
     "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/product/product_i*.c")
set_source_files_properties(${long_sources}
  PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Debug>:-O1>")
set(LS_ISAS base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  list(APPEND LS_ISAS v3 v4)
endif()
if("v4" IN_LIST LS_ISAS AND NOT CMAKE_CROSSCOMPILING)
  include(CheckCSourceRuns)
  check_c_source_runs("int main(void) {
    return !(__builtin_cpu_supports(\"avx512f\") &&
             __builtin_cpu_supports(\"avx512bw\") &&
             __builtin_cpu_supports(\"avx512cd\") &&
             __builtin_cpu_supports(\"avx512dq\") &&
             __builtin_cpu_supports(\"avx512vl\"));
  }" LS_RUNS_V4)
endif()
# Builds with sanitizers run where they are built, so that of the instruction
# sets beyond base they hold the one that is chosen there.
if(LS_SANITIZE AND "v4" IN_LIST LS_ISAS AND NOT CMAKE_CROSSCOMPILING)
  if(LS_RUNS_V4)
    list(REMOVE_ITEM LS_ISAS v3)
  else()
    list(REMOVE_ITEM LS_ISAS v4)
  endif()
endif()
set(levels ${LS_ISAS})
list(REMOVE_ITEM levels base)
list(TRANSFORM levels TOUPPER)
list(TRANSFORM levels PREPEND LS_HOLDS_)
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/engine/cpu/kernels.c"
  PROPERTIES COMPILE_DEFINITIONS "${levels}")
# Compilers take as long to read the header of vector instructions as to compile
# most kernels, so that each level reads it once. A compiler's cache would not
# know what stands in there, and gcc 12 crashes with it where it instruments code:
# for sanitizers and for coverage, or optimizes otherwise than the header was.
function(ls_read_intrinsics_once target)
  if(NOT CMAKE_C_COMPILER_LAUNCHER AND NOT LS_SANITIZE AND NOT LS_COVERAGE)
    target_precompile_headers(${target} PRIVATE <immintrin.h>)
  endif()
endfunction()
set_source_files_properties(
  ${long_sources}
  "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/convert.c"
  "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/random.c"
  "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/span.c"
  "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/typed_span.c"
  PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
set(isa_flags_base "")
set(isa_flags_v3 -march=x86-64-v3)
set(isa_flags_v4 -march=x86-64-v4 -mprefer-vector-width=512)
set(isa_debug_base ${isa_debug})
set(isa_debug_v3 ${isa_debug})
set(isa_debug_v4 ${isa_debug})
if(NOT LS_RUNS_V4)  # Compiled for its warnings alone.
  list(REMOVE_ITEM isa_debug_v4 -O2)
endif()
if(isa_sources)
  foreach(isa IN LISTS LS_ISAS)
    ls_add_objects(ls_isa_${isa} ${isa_sources})
    target_compile_definitions(ls_isa_${isa} PRIVATE LS_ISA=${isa})
    target_compile_options(ls_isa_${isa} PRIVATE ${isa_flags_${isa}}
                           "$<$<CONFIG:Debug>:${isa_debug_${isa}}>")
    if(LS_SANITIZE AND NOT isa STREQUAL "base")
      target_link_libraries(ls_isa_${isa} PRIVATE ls_defined)
    endif()
    if(NOT isa STREQUAL "base")
      ls_read_intrinsics_once(ls_isa_${isa})
    endif()
  endforeach()
  # What gains by instructions beyond a level; chosen at run time too.
  if("v4" IN_LIST LS_ISAS)
    ls_add_objects(ls_isa_v4bf16
      "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/product/product_bf16.c"
      "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/half.c"
      "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/sparse_input.c"
      "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/sparse_weights.c"
      "${PROJECT_SOURCE_DIR}/src/engine/cpu/isa/winograd_bf16.c")
    target_compile_definitions(ls_isa_v4bf16 PRIVATE LS_ISA=v4bf16)
    target_compile_options(ls_isa_v4bf16 PRIVATE
                           ${isa_flags_v4} -mavx512bf16
                           "$<$<CONFIG:Debug>:${isa_debug_v4}>")
    ls_read_intrinsics_once(ls_isa_v4bf16)
  endif()
endif()

# The libraries `name` and `name`_static of its objects, in files of this name.
function(ls_add_library name file)
  get_property(objects GLOBAL PROPERTY ${name}_objects)
  add_library(${name} SHARED ${objects})
  set_target_properties(${name} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  add_library(${name}_static STATIC ${objects})
  foreach(library ${name} ${name}_static)
    set_target_properties(${library} PROPERTIES
      LINKER_LANGUAGE C OUTPUT_NAME ${file})
    target_include_directories(${library} INTERFACE
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
      $<BUILD_INTERFACE:${LS_GENERATED_INCLUDE}>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${library} PRIVATE
      $<BUILD_INTERFACE:ls_flags> $<BUILD_INTERFACE:ls_dependencies>)
    add_dependencies(${library} ls_places)
  endforeach()
  # Calls inside a library need no symbol to be looked up.
  target_link_options(${name} PRIVATE LINKER:-Bsymbolic-functions)
  if(NOT LS_SANITIZE)  # Whose runtime the program brings.
    target_link_options(${name} PRIVATE LINKER:--no-undefined)
  endif()
endfunction()

# Gives the functions of a library the versions of a map.
function(ls_version_symbols name map)
  configure_file(${map} "${PROJECT_BINARY_DIR}/${name}.map" @ONLY)
  target_link_options(${name} PRIVATE
    "LINKER:--version-script=${PROJECT_BINARY_DIR}/${name}.map")
  set_property(TARGET ${name} APPEND PROPERTY
               LINK_DEPENDS "${PROJECT_BINARY_DIR}/${name}.map")
endfunction()

ls_add_library(lockstep lockstep)
ls_version_symbols(lockstep cmake/symbols.map.in)
target_link_libraries(lockstep_static
  INTERFACE $<$<BOOL:${ZLIB_FOUND}>:$<INSTALL_INTERFACE:ZLIB::ZLIB>>
            $<INSTALL_INTERFACE:Threads::Threads> $<INSTALL_INTERFACE:m>)

ls_add_library(lockstep_io lockstep-io)
ls_version_symbols(lockstep_io cmake/symbols_io.map.in)
target_link_libraries(lockstep_io
  PUBLIC lockstep PRIVATE $<BUILD_INTERFACE:ls_io_dependencies>)
target_link_libraries(lockstep_io_static
  PUBLIC lockstep_static PRIVATE $<BUILD_INTERFACE:ls_io_dependencies>)
foreach(library IN LISTS LS_IO_LIBRARIES)
  target_link_libraries(lockstep_io_static
    INTERFACE $<INSTALL_INTERFACE:${${library}_LIBRARIES}>)
endforeach()

# Modules for MPI, which liblockstep loads if it is needed: the same sources once
# for each MPI, whose headers differ. They need no symbol of liblockstep.
file(GLOB mpi_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/net/mpi/*.c")
add_custom_target(lockstep_mpi)  # Those that there are.
foreach(prefix IN LISTS LS_MPIS)
  string(TOLOWER "${prefix}" name)
  add_library(lockstep_mpi_${name} MODULE ${mpi_sources})
  set_target_properties(lockstep_mpi_${name} PROPERTIES
    OUTPUT_NAME lockstep-mpi-${name})
  target_include_directories(lockstep_mpi_${name} PRIVATE
    "${PROJECT_SOURCE_DIR}/src")
  target_compile_definitions(lockstep_mpi_${name} PRIVATE LS_NO_PLACES)
  target_link_libraries(lockstep_mpi_${name} PRIVATE
    ls_flags ls_includes PkgConfig::${prefix})
  target_link_options(lockstep_mpi_${name} PRIVATE LINKER:--no-undefined)
  add_dependencies(lockstep_mpi lockstep_mpi_${name})
endforeach()

# The program is a user of the shared libraries, so that it needs public
# functions alone.
file(GLOB_RECURSE cli_sources CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/src/cli/*.c")
if(cli_sources)
  add_executable(lockstep_cli ${cli_sources})
  set_target_properties(lockstep_cli PROPERTIES OUTPUT_NAME lockstep)
  target_include_directories(lockstep_cli PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(lockstep_cli PRIVATE
    ls_flags lockstep_io ls_cli_dependencies m ${CMAKE_DL_LIBS})
  add_dependencies(lockstep_cli lockstep_mpi)
  file(RELATIVE_PATH bin_to_data
       "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_DATADIR}")
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/cli/reference.c"
    PROPERTIES COMPILE_DEFINITIONS "LS_BIN_TO_DATA=\"${bin_to_data}\"")
endif()

# Settings shared by every target of this project.
add_library(shoal_options INTERFACE)
target_compile_features(shoal_options INTERFACE cxx_std_20)
# -fPIC everywhere: GCC takes a precompiled header only where code is generated as it was for the header.
if(PROJECT_IS_TOP_LEVEL)  # a project that contains this one chooses its own warnings
  target_compile_options(shoal_options INTERFACE $<BUILD_INTERFACE:-Wall;-Wextra;-Wshadow>)
endif()
target_compile_options(shoal_options INTERFACE $<BUILD_INTERFACE:-fPIC>)
# ATen/Functions.h, which takes 5 s, is read only by files that include it.
target_compile_definitions(shoal_options INTERFACE $<BUILD_INTERFACE:AT_PER_OPERATOR_HEADERS>)
if(NOT SHOAL_WITH_X86_KERNELS)
  target_compile_definitions(shoal_options INTERFACE $<BUILD_INTERFACE:SHOAL_PORTABLE_KERNELS>)
endif()
if(SHOAL_SANITIZE)
  target_compile_options(shoal_options INTERFACE -fsanitize=${SHOAL_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(shoal_options INTERFACE -fsanitize=${SHOAL_SANITIZE})
endif()

# A change of one file is compiled and linked again in seconds: layers are not compiled as one file, and a quick linker is
# used if there is one. A first build takes about twice as long.
option(SHOAL_QUICK_REBUILD "Optimize for rebuilds after small changes" OFF)
if(SHOAL_QUICK_REBUILD)
  find_program(SHOAL_LINKER NAMES mold ld.lld)
  if(SHOAL_LINKER)
    string(REGEX REPLACE ".*/(ld\\.)?" "" shoal_linker ${SHOAL_LINKER})
    target_link_options(shoal_options INTERFACE $<BUILD_INTERFACE:-fuse-ld=${shoal_linker}>)
  endif()
  target_compile_options(shoal_options INTERFACE $<BUILD_INTERFACE:-gsplit-dwarf>)
endif()

# Build speed, where the machine offers it: a compiler cache.
find_program(SHOAL_CCACHE ccache)
if(SHOAL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header needs these three to be cached at all.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${SHOAL_CCACHE})
endif()

# torch/torch.h costs 15 s a file; one precompiled header, which takes 40 s, serves the tests and the examples.
if(SHOAL_WITH_TORCH)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/deps/pch.cc CONTENT "// Holds the precompiled header.\n")
  add_library(shoal_pch OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/deps/pch.cc)
  target_link_libraries(shoal_pch PUBLIC shoal_options shoal::torch shoal::fmt)
  target_precompile_headers(shoal_pch PRIVATE <torch/torch.h> <fmt/format.h>)
endif()

# Most of the time of a file that includes torch goes into code that every such file generates again; as one file, a layer
# generates it once.
function(shoal_compile_as_one target)
  if(NOT SHOAL_QUICK_REBUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
endfunction()

# shoal_plugin(<name> <files>): lib/shoal_<name>.so, which is loaded on first use.
function(shoal_plugin name)
  add_library(shoal_${name} MODULE ${ARGN})
  target_link_libraries(shoal_${name} PRIVATE shoal_options)
  set_target_properties(shoal_${name} PROPERTIES
    PREFIX "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON INSTALL_RPATH_USE_LINK_PATH ON
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endfunction()

# shoal_library(<layer> HEADERS <public headers> SOURCES <files> LINKS <targets> [UNITY] [COLD])
# UNITY: the layer is compiled as one file. COLD: code whose speed does not matter, in a Release build compiled with -O1.
function(shoal_library name)
  cmake_parse_arguments(ARG "UNITY;COLD" "" "HEADERS;SOURCES;LINKS" ${ARGN})
  add_library(shoal_${name} STATIC ${ARG_SOURCES})
  add_library(shoal::${name} ALIAS shoal_${name})
  list(TRANSFORM ARG_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/shoal/${name}/)
  target_sources(shoal_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${ARG_HEADERS})
  set_target_properties(shoal_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(shoal_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(shoal_${name} PUBLIC shoal_options ${ARG_LINKS})
  if(ARG_UNITY)
    shoal_compile_as_one(shoal_${name})
  endif()
  if(ARG_COLD)
    target_compile_options(shoal_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

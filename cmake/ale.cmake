# Builds the Arcade Learning Environment from its own source package; defines shoal_ale_emulator
# and shoal_ale_without_core, which lacks what plugins/ale/core replaces.
# It lives below SHOAL_DEPS (scripts/fetch_ale.sh puts it there) and is never part of this project's tree.
set(SHOAL_ALE_DIR ${SHOAL_DEPS}/ale-0.12.1)
if(NOT EXISTS ${SHOAL_ALE_DIR}/src/ale/ale_interface.hpp)
  message(FATAL_ERROR "The Atari emulator's source is not in ${SHOAL_ALE_DIR}. Run `make setup` "
    "(or scripts/fetch_ale.sh), or build without Atari: -DSHOAL_WITH_ATARI=OFF.")
endif()

function(shoal_add_ale)
  set(BUILD_SHARED_LIBS OFF)
  set(BUILD_PYTHON_LIB OFF)
  set(BUILD_CPP_LIB ON)
  set(SDL_SUPPORT OFF)
  add_subdirectory(${SHOAL_ALE_DIR} ${PROJECT_BINARY_DIR}/ale EXCLUDE_FROM_ALL SYSTEM)
endfunction()
shoal_add_ale()

# Optimized in every configuration: at -O0 the emulator makes the tests take minutes. ALE switches link-time
# optimization on, which costs build time and gains no speed.
foreach(target IN ITEMS ale ale-lib)
  target_compile_options(${target} PRIVATE -O3 -g0 -w)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16
    INTERPROCEDURAL_OPTIMIZATION OFF CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endforeach()
# Its hundred small files, one for each game, are compiled in a few lots: half a minute of work instead of three. One
# header does not stand being included twice.
set_source_files_properties(${SHOAL_ALE_DIR}/src/ale/emucore/NullDev.cxx TARGET_DIRECTORY ale
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

add_library(shoal_ale_emulator INTERFACE)
target_link_libraries(shoal_ale_emulator INTERFACE ale-lib)
target_include_directories(shoal_ale_emulator SYSTEM INTERFACE
  ${SHOAL_ALE_DIR}/src ${PROJECT_BINARY_DIR}/ale/src/ale)

# The same sources again without the files that plugins/ale/core replaces, and with its headers before ALE's.
get_target_property(shoal_ale_sources ale SOURCES)
list(FILTER shoal_ale_sources INCLUDE REGEX "\\.c(xx|pp)$")
list(FILTER shoal_ale_sources EXCLUDE REGEX "/(M6502Low\\.cxx|TIA\\.cxx|phosphor_blend\\.cpp)$")
add_library(shoal_ale_without_core STATIC EXCLUDE_FROM_ALL
  ${shoal_ale_sources} ${SHOAL_ALE_DIR}/src/ale/ale_interface.cpp)
target_compile_features(shoal_ale_without_core PRIVATE cxx_std_20)
target_compile_options(shoal_ale_without_core PRIVATE -O3 -g0 -w)
target_include_directories(shoal_ale_without_core
  BEFORE PUBLIC ${PROJECT_SOURCE_DIR}/plugins/ale/core/headers)
target_include_directories(shoal_ale_without_core SYSTEM
  PUBLIC ${SHOAL_ALE_DIR}/src ${PROJECT_BINARY_DIR}/ale/src/ale)
find_package(ZLIB REQUIRED)
target_link_libraries(shoal_ale_without_core PUBLIC ZLIB::ZLIB Threads::Threads)
set_target_properties(shoal_ale_without_core PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16
  POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
set_source_files_properties(${SHOAL_ALE_DIR}/src/ale/emucore/NullDev.cxx
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

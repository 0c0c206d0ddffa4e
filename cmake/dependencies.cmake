# Finds LibTorch and fmt inside the torch wheel, and the options every target shares.
#
# SHOAL_TORCH_DIR is the `torch` folder of an installed wheel (or an unpacked LibTorch). `make setup`
# puts one below SHOAL_DEPS (default ~/.cache/shoal). The wheel's own CMake package is not used: in a CUDA build it
# demands the CUDA toolkit and a GPU at configure time, and links 1 GB of CUDA libraries that a CPU run never needs.
if(NOT SHOAL_DEPS)
  if(DEFINED ENV{SHOAL_DEPS})
    set(SHOAL_DEPS $ENV{SHOAL_DEPS})
  else()
    set(SHOAL_DEPS $ENV{HOME}/.cache/shoal)
  endif()
endif()
file(GLOB shoal_torch_candidates ${SHOAL_DEPS}/venv-torch-2.11.0/lib/python3*/site-packages/torch)
find_path(SHOAL_TORCH_DIR NAMES include/ATen/core/Tensor.h HINTS ${shoal_torch_candidates} NO_DEFAULT_PATH)
if(NOT SHOAL_TORCH_DIR)
  message(FATAL_ERROR "LibTorch not found below ${SHOAL_DEPS}. Run `make setup`, or pass "
    "-DSHOAL_TORCH_DIR=<site-packages>/torch of an installed torch 2.11.0 wheel.")
endif()

# One fmt for the whole program. The wheel's fmt headers win over the system's in every file that sees
# torch, so everyone uses them; through a link, so that core cannot see torch beside them.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/deps/fmt)
file(CREATE_LINK ${SHOAL_TORCH_DIR}/include/fmt ${PROJECT_BINARY_DIR}/deps/fmt/fmt SYMBOLIC)
add_library(shoal_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt.cc)
add_library(shoal::fmt ALIAS shoal_fmt)
target_link_libraries(shoal_fmt PRIVATE shoal_options)
target_include_directories(shoal_fmt SYSTEM PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/deps/fmt>)

if(SHOAL_WITH_TORCH)
  include(torch)
  set(CMAKE_BUILD_RPATH ${SHOAL_TORCH_DIR}/lib)
  set(CMAKE_INSTALL_RPATH ${SHOAL_TORCH_DIR}/lib)
endif()

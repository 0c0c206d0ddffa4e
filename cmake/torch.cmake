# Defines shoal::torch, the LibTorch in SHOAL_TORCH_DIR. Part of the installed package, too.
#
# Only the CPU half is linked; libtorch_cuda.so is loaded at run time when a CUDA device is asked for.
if(TARGET shoal::torch)  # a second find_package(shoal)
  return()
endif()
add_library(shoal::torch INTERFACE IMPORTED GLOBAL)
target_include_directories(shoal::torch INTERFACE
  ${SHOAL_TORCH_DIR}/include ${SHOAL_TORCH_DIR}/include/torch/csrc/api/include)
# at::parallel_for is a template that shares its loop over threads only where OpenMP is on. A
# wheel brings its own runtime, and a process must have one only: clang's code needs another one, so with clang these
# loops stay on one thread.
file(GLOB shoal_openmp ${SHOAL_TORCH_DIR}/lib/libgomp*.so*)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  if(NOT shoal_openmp)
    set(shoal_openmp ${OpenMP_CXX_LIBRARIES})
  endif()
  target_compile_options(shoal::torch INTERFACE ${OpenMP_CXX_FLAGS})
endif()
target_link_libraries(shoal::torch INTERFACE
  ${SHOAL_TORCH_DIR}/lib/libtorch_cpu.so ${SHOAL_TORCH_DIR}/lib/libc10.so ${shoal_openmp})

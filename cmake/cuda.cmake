# Finds what the CUDA kernels are compiled and linked with; defines shoal_cuda_sources() and shoal_cuda_runtime.
#
# nvcc is called by custom commands: CMake's own language CUDA tries the compiler out at every first configuration, and
# asks for a GPU or an architecture then.
if(NOT SHOAL_NVCC)
  message(FATAL_ERROR "SHOAL_WITH_CUDA is ON, and there is no nvcc in PATH or /usr/local/cuda/bin. Install the CUDA "
    "toolkit, pass -DSHOAL_NVCC=<nvcc>, or build without kernels: -DSHOAL_WITH_CUDA=OFF.")
endif()

get_filename_component(SHOAL_CUDA_INCLUDE_DIR ${SHOAL_NVCC} DIRECTORY)
get_filename_component(SHOAL_CUDA_INCLUDE_DIR ${SHOAL_CUDA_INCLUDE_DIR}/../include REALPATH)

# The code for the A100 and the H100, and PTX, which the driver compiles for what comes after.
set(SHOAL_CUDA_GENCODE -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
  CACHE STRING "nvcc's flags that name the architectures of the CUDA kernels")

# One runtime in a process: that of LibTorch's CUDA half, which names it ("libcudart.so.13"), and beside which it lies.
function(shoal_find_cuda_runtime)
  set(torch_cuda ${SHOAL_TORCH_DIR}/lib/libtorch_cuda.so)
  if(NOT EXISTS ${torch_cuda})
    set(why "${SHOAL_TORCH_DIR} is a LibTorch without CUDA")
  else()
    execute_process(COMMAND ${CMAKE_READELF} -d ${torch_cuda} OUTPUT_VARIABLE needed ERROR_QUIET)
    execute_process(COMMAND ${SHOAL_NVCC} --version OUTPUT_VARIABLE nvcc ERROR_QUIET)
    string(REGEX MATCH "libcudart\\.so\\.([0-9]+)[^]]*" runtime "${needed}")
    set(wanted "${CMAKE_MATCH_1}")
    string(REGEX MATCH "release ([0-9]+)\\." _ "${nvcc}")
    if(NOT wanted OR NOT wanted STREQUAL CMAKE_MATCH_1)
      set(why "LibTorch uses CUDA ${wanted}, and ${SHOAL_NVCC} is of CUDA ${CMAKE_MATCH_1}")
    else()
      file(GLOB places ${SHOAL_TORCH_DIR}/lib ${SHOAL_TORCH_DIR}/../nvidia/*/lib)
      find_library(cudart NAMES ${runtime} PATHS ${places} NO_DEFAULT_PATH NO_CACHE)
      if(NOT cudart)
        set(why "LibTorch's ${runtime} is neither in nor beside ${SHOAL_TORCH_DIR}")
      endif()
    endif()
  endif()
  if(why)
    message(STATUS "CUDA kernels are not built: ${why}")
    set(SHOAL_WITH_CUDA OFF PARENT_SCOPE)
    return()
  endif()
  add_library(shoal_cuda_runtime SHARED IMPORTED GLOBAL)
  set_target_properties(shoal_cuda_runtime PROPERTIES IMPORTED_LOCATION ${cudart})
endfunction()
shoal_find_cuda_runtime()

# shoal_cuda_sources(<target> <file.cu>...): compiles them into it.
function(shoal_cuda_sources target)
  foreach(source IN LISTS ARGN)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    # Without fused multiplications and additions: they would round otherwise than the CPU does, and these kernels wait
    # for memory.
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${SHOAL_NVCC} -std=c++20 -O3 -fmad=false ${SHOAL_CUDA_GENCODE}
        -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra
        -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include
        -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d
      COMMENT "Building CUDA object ${source}.o" VERBATIM)
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()

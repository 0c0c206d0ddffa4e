# Finds the NCCL that LibTorch's CUDA half uses: one in a process.
file(GLOB shoal_nccl_places ${SHOAL_TORCH_DIR}/../nvidia/nccl ${SHOAL_TORCH_DIR})
find_path(SHOAL_NCCL_INCLUDE_DIR nccl.h PATHS ${shoal_nccl_places} PATH_SUFFIXES include)
find_library(SHOAL_NCCL_LIBRARY NAMES libnccl.so.2 PATHS ${shoal_nccl_places} PATH_SUFFIXES lib)
mark_as_advanced(SHOAL_NCCL_INCLUDE_DIR SHOAL_NCCL_LIBRARY)
if(NOT SHOAL_NCCL_INCLUDE_DIR OR NOT SHOAL_NCCL_LIBRARY)
  message(STATUS "Ranks add up on the CPU, not by NCCL: nccl.h or libnccl.so.2 is neither in nor beside ${SHOAL_TORCH_DIR}")
  set(SHOAL_WITH_NCCL OFF)
endif()

# Finds the NCCL that LibTorch's CUDA half uses: one in a process. Defines shoal_nccl_runtime.
#
# Only there: the system's header may be of another version than this library.
set(shoal_nccl_places ${SHOAL_TORCH_DIR}/../nvidia/nccl ${SHOAL_TORCH_DIR})
find_path(shoal_nccl_include nccl.h PATHS ${shoal_nccl_places} PATH_SUFFIXES include NO_DEFAULT_PATH NO_CACHE)
find_library(shoal_nccl_library NAMES libnccl.so.2 PATHS ${shoal_nccl_places} PATH_SUFFIXES lib NO_DEFAULT_PATH NO_CACHE)
if(shoal_nccl_include AND shoal_nccl_library)
  add_library(shoal_nccl_runtime SHARED IMPORTED GLOBAL)
  set_target_properties(shoal_nccl_runtime PROPERTIES IMPORTED_LOCATION ${shoal_nccl_library}
    INTERFACE_INCLUDE_DIRECTORIES ${shoal_nccl_include})
else()
  message(STATUS "Tensors of GPUs are summed on the CPU, not by NCCL: nccl.h or libnccl.so.2 is neither in nor beside ${SHOAL_TORCH_DIR}")
  set(SHOAL_WITH_NCCL OFF)
endif()

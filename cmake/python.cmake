# Finds the interpreter that environments of Gymnasium run in: that of LibTorch's virtual environment if it lies in one,
# where `pip install` puts packages for both.
find_program(SHOAL_TORCH_PYTHON python HINTS ${SHOAL_TORCH_DIR}/../../../../bin NO_DEFAULT_PATH)
if(SHOAL_TORCH_PYTHON)
  set(Python3_EXECUTABLE ${SHOAL_TORCH_PYTHON})
endif()
if(SHOAL_WITH_GYMNASIUM)
  find_package(Python3 COMPONENTS Interpreter Development.Embed)
  if(NOT Python3_Development.Embed_FOUND)
    message(STATUS "Environments of Gymnasium are not available: there are no headers and no shared library of "
      "${Python3_EXECUTABLE} (Debian: python3-dev)")
    set(SHOAL_WITH_GYMNASIUM OFF)
  endif()
endif()

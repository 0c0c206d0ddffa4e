# Finds the interpreter that environments of Gymnasium run in: that of LibTorch's virtual environment if it lies in one,
# where `pip install` puts packages for both.
unset(SHOAL_TORCH_PYTHON CACHE)  # of a build that was configured before it was no longer kept
find_program(SHOAL_TORCH_PYTHON python HINTS ${SHOAL_TORCH_DIR}/../../../../bin NO_DEFAULT_PATH NO_CACHE)
if(SHOAL_TORCH_PYTHON AND NOT SKBUILD)  # pip names its own
  set(Python3_EXECUTABLE ${SHOAL_TORCH_PYTHON})
endif()
# The command loads an interpreter as a library; a wheel has one around it.
set(shoal_interpreter Embed)
set(shoal_interpreter_target Python3::Python)
if(SKBUILD)
  set(shoal_interpreter Module)
  set(shoal_interpreter_target Python3::Module)
endif()
if(SHOAL_WITH_GYMNASIUM)
  find_package(Python3 COMPONENTS Interpreter Development.${shoal_interpreter})
  if(NOT Python3_Development.${shoal_interpreter}_FOUND)
    message(STATUS "Environments of Gymnasium are not available: there are no headers and no shared library of "
      "${Python3_EXECUTABLE} (Debian: python3-dev)")
    set(SHOAL_WITH_GYMNASIUM OFF)
  endif()
endif()

# The package for Python is loaded by that interpreter; an instrumented library cannot be.
if(SHOAL_WITH_PYTHON AND (NOT SHOAL_WITH_TORCH OR SHOAL_SANITIZE))
  set(SHOAL_WITH_PYTHON OFF)
endif()
if(SHOAL_WITH_PYTHON)
  find_package(Python3 COMPONENTS Interpreter Development.Module)
  if(Python3_VERSION AND Python3_VERSION VERSION_LESS 3.11)
    message(STATUS "The Python package is not built: ${Python3_EXECUTABLE} is Python ${Python3_VERSION}, "
      "expected 3.11 or newer")
    set(SHOAL_WITH_PYTHON OFF)
  elseif(NOT Python3_Development.Module_FOUND OR NOT EXISTS ${SHOAL_TORCH_DIR}/lib/libtorch_python.so)
    message(STATUS "The Python package is not built: it needs the headers of ${Python3_EXECUTABLE} (Debian: python3-dev) "
      "and ${SHOAL_TORCH_DIR}/lib/libtorch_python.so, which is part of the torch wheel")
    set(SHOAL_WITH_PYTHON OFF)
  endif()
endif()

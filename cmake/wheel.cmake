# pip builds with scikit-build-core (pyproject.toml), which sets SKBUILD: against the torch of the environment that it
# installs into.
execute_process(
  COMMAND ${Python3_EXECUTABLE} -c "from importlib import metadata, util
print(metadata.version('torch'), util.find_spec('torch').submodule_search_locations[0], sep=';')"
  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT found MATCHES "^2\\.11\\.0[;+]")
  string(REGEX REPLACE ";.*" "" found "${found}")
  message(FATAL_ERROR "The environment of ${Python3_EXECUTABLE} has torch '${found}', expected 2.11.0. Install "
    "torch==2.11.0 and scikit-build-core there, and then Shoal by `pip install --no-build-isolation .`.")
endif()
list(GET found 1 torch)
set(SHOAL_TORCH_DIR ${torch} CACHE PATH "The `torch` folder of pip's environment" FORCE)
set(SHOAL_BUILD_TESTS OFF)

cmake_minimum_required(VERSION 3.25)
# Fails when a file includes a layer that it may not see, and names the file and the line.
# cmake -DROOT=<project> -P layering.cmake

# "<layer>:<the layers it may include>". Samplers and algos are siblings; cuda is the plugin of that
# name.
set(RULES
  "core:core"
  "ipc:core,ipc"
  "envs:core,ipc,envs"
  "data:core,data"
  "compute:core,compute"
  "cuda:core,compute,cuda"
  "models:core,data,compute,models"
  "distributed:core,ipc,data,compute,distributed"
  "replays:core,data,distributed,replays"
  "agents:core,data,compute,models,agents"
  "samplers:core,ipc,envs,data,compute,agents,samplers"
  "algos:core,data,compute,models,replays,distributed,agents,algos"
  "runners:core,ipc,envs,data,compute,models,replays,distributed,agents,samplers,algos,runners"
  "cli:core,ipc,envs,data,compute,models,replays,distributed,agents,samplers,algos,runners,cli"
  "benchmarks:core,ipc,envs,data,compute,models,replays,distributed,agents,samplers,algos,runners,cli,benchmarks"
  "python:core,ipc,envs,data,compute,models,replays,distributed,agents,samplers,algos,runners,cli,python")
set(NO_TORCH core ipc envs)

set(SOURCES "\\.(h|hxx|c|cc|cpp|cu|cuh|inc)$")
set(INCLUDES "^[ \t]*#[ \t]*include[ \t]*[<\"]")
set(PATH_INCLUDED "^[^<\"]*[<\"]([^>\"]*).*$")

set(LAYERS "")
foreach(rule IN LISTS RULES)
  string(REGEX REPLACE ":.*" "" layer ${rule})
  list(APPEND LAYERS ${layer})
endforeach()

set(bad "")

# Notes "file:line: why" for a line of a file.
function(report file line why)
  file(READ ${file} text)
  string(FIND "${text}" "${line}" at)
  string(SUBSTRING "${text}" 0 ${at} before)
  string(REGEX REPLACE "[^\n]" "" before "${before}")
  string(LENGTH "${before}" number)
  math(EXPR number "${number} + 1")
  list(APPEND bad "${file}:${number}: ${line}  (${why})")
  set(bad "${bad}" PARENT_SCOPE)
endfunction()

set(checked 0)
foreach(rule IN LISTS RULES)
  string(REGEX MATCH "^([a-z]+):(.*)$" _ ${rule})
  set(layer ${CMAKE_MATCH_1})
  string(REPLACE "," ";" allowed ${CMAKE_MATCH_2})
  file(GLOB_RECURSE files ${ROOT}/include/shoal/${layer}/* ${ROOT}/src/${layer}/* ${ROOT}/${layer}/*
    ${ROOT}/plugins/${layer}/*)
  list(FILTER files INCLUDE REGEX "${SOURCES}")
  foreach(file IN LISTS files)
    math(EXPR checked "${checked} + 1")
    file(STRINGS ${file} includes REGEX "${INCLUDES}")
    foreach(line IN LISTS includes)
      string(REGEX REPLACE "${PATH_INCLUDED}" "\\1" path "${line}")
      if(path MATCHES "^\\.\\./")
        report(${file} "${line}" "name it from the project's root")
      elseif(path MATCHES "^(shoal|src)/([a-z_]+)/")
        if(NOT CMAKE_MATCH_2 IN_LIST allowed)
          report(${file} "${line}" "${layer} may not include ${CMAKE_MATCH_2}")
        endif()
      elseif(path MATCHES "^([a-z_]+)/" AND CMAKE_MATCH_1 IN_LIST LAYERS AND NOT CMAKE_MATCH_1 IN_LIST allowed)
        report(${file} "${line}" "${layer} may not include ${CMAKE_MATCH_1}")
      endif()
      if(path MATCHES "^ale/")
        report(${file} "${line}" "only plugins/ale sees the emulator")
      endif()
      if(path MATCHES "^mujoco/")
        report(${file} "${line}" "only plugins/mujoco sees MuJoCo")
      endif()
      if(layer IN_LIST NO_TORCH AND path MATCHES "^(torch|ATen|c10)/")
        report(${file} "${line}" "${layer} is without torch")
      endif()
    endforeach()
  endforeach()
endforeach()

# The plugin has a licence of its own, and becomes part of a library under the GPL: it includes the standard library,
# the system's, the emulator and its own files, nothing else.
set(plugin ${ROOT}/plugins/ale)
file(GLOB_RECURSE plugin_files ${plugin}/*)
list(FILTER plugin_files INCLUDE REGEX "${SOURCES}")
foreach(file IN LISTS plugin_files)
  get_filename_component(folder ${file} DIRECTORY)
  file(STRINGS ${file} includes REGEX "${INCLUDES}")
  foreach(line IN LISTS includes)
    string(REGEX REPLACE "${PATH_INCLUDED}" "\\1" path "${line}")
    if(path MATCHES "^ale/" OR line MATCHES "^[^\"]*<(sys/)?[a-z0-9_.]+>"
       OR (NOT path MATCHES "/" AND (EXISTS ${plugin}/${path} OR EXISTS ${folder}/${path})))
      continue()
    endif()
    report(${file} "${line}" "plugins/ale sees only itself, the emulator and the system")
  endforeach()
endforeach()

if(checked EQUAL 0 OR NOT plugin_files)
  message(FATAL_ERROR "no source file found below '${ROOT}' or its plugins/ale")
endif()
if(bad)
  list(JOIN bad "\n" text)
  message(FATAL_ERROR "includes against the order of layers:\n${text}")
endif()

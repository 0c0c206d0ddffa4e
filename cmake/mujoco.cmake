# Finds MuJoCo's library and headers, as they are in its wheel; defines shoal_mujoco_library.
# They live below SHOAL_DEPS (scripts/fetch_mujoco.sh puts them there, and Gymnasium's models) and are never part of this
# project's tree.
set(SHOAL_MUJOCO_DIR ${SHOAL_DEPS}/mujoco-3.3.7)
if(NOT EXISTS ${SHOAL_MUJOCO_DIR}/models/half_cheetah.xml)
  message(FATAL_ERROR "MuJoCo is not in ${SHOAL_MUJOCO_DIR}. Run `make setup` (or scripts/fetch_mujoco.sh), or build "
    "without it: -DSHOAL_WITH_MUJOCO=OFF.")
endif()

add_library(shoal_mujoco_library SHARED IMPORTED)
set_target_properties(shoal_mujoco_library PROPERTIES
  IMPORTED_LOCATION ${SHOAL_MUJOCO_DIR}/lib/libmujoco.so.3.3.7
  INTERFACE_INCLUDE_DIRECTORIES ${SHOAL_MUJOCO_DIR}/include)

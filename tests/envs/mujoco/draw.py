"""Draws a state with MuJoCo's own renderer, for mujoco_test.cc to compare.

Usage: draw.py MODEL QPOS... Writes the bytes of a picture [480, 480, 3], from the model's camera "track" if it has one.
Writes nothing if MuJoCo or EGL is missing, or MuJoCo has another version."""

import os
import sys

os.environ["MUJOCO_GL"] = "egl"
try:
    import mujoco
    import mujoco.egl
except Exception:  # each missing part has an exception of its own
    sys.exit()
if mujoco.__version__ != "3.3.7":
    sys.exit()

model = mujoco.MjModel.from_xml_path(sys.argv[1])
data = mujoco.MjData(model)
data.qpos[:] = [float(number) for number in sys.argv[2:]]
mujoco.mj_forward(model, data)
track = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, "track")
with mujoco.Renderer(model, 480, 480) as renderer:
    renderer.update_scene(data, track)
    sys.stdout.buffer.write(renderer.render().tobytes())
